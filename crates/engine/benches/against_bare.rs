//! The engine against bench/bare.c, a bare loop of the same calls, on a tmpfs.
//!
//! `cargo bench -p fsdyno-engine` builds the loop with cc and runs both in turn, in one run on one
//! machine, so that what disturbs one disturbs the other. A figure is the median over the rounds of
//! the ratio of the two rates of one round, with its 95 % interval; rounds are short and many, for
//! on a shared machine no long one is undisturbed. It also prints the memory of the engine at 10^4
//! and 10^6 files. Nothing here passes or fails a test; bench/all.sh sums up what was promised.

#![allow(clippy::unwrap_used, reason = "a bench tells its mistakes by stopping")]

mod calls;
#[allow(dead_code, reason = "not each bench uses all of it")]
mod ratio;

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use calls::PHASES;
use fsdyno_engine::issue::sync::Sync;
use fsdyno_engine::{Recorder, run_phase};
use fsdyno_workload::{Contents, Setting, Share, workloads};

const FILES: u64 = 10_000;

/// Rounds of both, unless FSDYNO_BENCH_ROUNDS says otherwise.
const ROUNDS: usize = 101;

/// At least this part of the bare loop's rate is promised.
const PROMISED: f64 = 0.97;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["--engine", folder, files] => engine(Path::new(folder), files.parse().unwrap()),
        ["--memory", folder, workload, ref set @ ..] => memory(folder, workload, set),
        _ => compare(),
    }
}

/// Runs all phases and prints the nanoseconds of each, as the bare loop does.
fn engine(folder: &Path, files: u64) {
    let times = calls::engine(folder, files).unwrap();
    for (phase, took) in PHASES.iter().zip(times) {
        println!("{phase} {}", took.ns);
    }
}

/// Runs a workload and prints the most memory there was, in KiB.
fn memory(folder: &str, workload: &str, set: &[&str]) {
    let kind = workloads::find(workload).unwrap();
    let set: Vec<(&str, &str)> = set.iter().filter_map(|word| word.split_once('=')).collect();
    let work = kind.build(&kind.resolve(&set).unwrap(), &Setting::seed(1)).unwrap();
    let contents = Arc::new(Contents::new(1));
    let mut recorder = Recorder::new();
    for phase in 0..work.phases().len() {
        let root: OwnedFd = std::fs::File::open(folder).unwrap().into();
        let mut issuer = Sync::new(root, Arc::clone(&contents));
        let mut ops = work.ops(phase, Share::WHOLE);
        run_phase(ops.as_mut(), &mut issuer, &mut recorder, &mut |_| {}).unwrap();
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    println!("memory {}", line.trim().trim_end_matches(" kB"));
}

fn compare() {
    let folder = ratio::scratch();
    let bare = ratio::compile("bare.c", &folder);
    let engine = std::env::current_exe().unwrap();
    let rounds = ratio::rounds(ROUNDS);
    println!("engine against bare loop, {FILES} files, {rounds} rounds, {}", folder.display());
    let pairs = ratio::interleave(
        rounds,
        || run(&folder, &bare, |target| vec![FILES.to_string(), target]),
        || run(&folder, &engine, |target| vec!["--engine".into(), target, FILES.to_string()]),
    );
    for phase in PHASES {
        let rates = pairs.iter().map(|(bare, engine)| of(phase, bare) / of(phase, engine));
        let ns = pairs.iter().map(|(bare, _)| of(phase, bare) / FILES as f64);
        println!("{phase:8} bare loop {:6.0} ns a file", ratio::median(ns.collect()).0);
        ratio::report(
            &format!("{phase}: engine's rate against the bare loop's"),
            rates.collect(),
            ratio::Promise::AtLeast(PROMISED),
        );
    }
    for files in ["files=10000", "files=1000000"] {
        for (workload, size) in [("dirops", "size=0"), ("tarball", "size=1")] {
            let words = ["--memory", "", workload, files, size].map(str::to_string);
            let lines = run(&folder, &engine, |target| {
                let mut words = words.to_vec();
                words[1] = target;
                words
            });
            println!("memory {workload} {files}: {} KiB", of("memory", &lines));
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

type Line = (String, f64);

fn of(name: &str, lines: &[Line]) -> f64 {
    lines.iter().find(|(word, _)| word == name).unwrap().1
}

/// Runs a program in a fresh directory and reads its lines of a word and a number.
fn run(folder: &Path, program: &PathBuf, words: impl Fn(String) -> Vec<String>) -> Vec<Line> {
    let target = folder.join("target");
    std::fs::create_dir(&target).unwrap();
    let words = words(target.to_string_lossy().into_owned());
    let output = Command::new(program).args(words).output().unwrap();
    std::fs::remove_dir_all(&target).unwrap();
    if !output.status.success() {
        eprintln!("against_bare: {}", String::from_utf8_lossy(&output.stderr));
        std::process::exit(1);
    }
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(word, value)| (word.to_string(), value.parse().unwrap()))
        .collect()
}
