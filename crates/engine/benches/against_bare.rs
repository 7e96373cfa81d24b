//! The engine against bench/bare.c, a bare loop of the same calls, on a tmpfs.
//!
//! `cargo bench -p fsdyno-engine` builds the loop with cc and runs both in turn, in one run on one
//! machine, so that what disturbs one disturbs the other; a figure is the median over the rounds of
//! the ratio of the two rates of one round, with the middle half of them. Rounds are short and many,
//! for on a shared machine no long one is undisturbed. It also prints the memory of the engine at
//! 10^4 and 10^6 files. Nothing here passes or fails; bench/instructions.sh counts instructions.

#![allow(clippy::unwrap_used, reason = "a bench tells its mistakes by stopping")]

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use fsdyno_engine::issue::sync::Sync;
use fsdyno_engine::{Recorder, run_phase};
use fsdyno_workload::{Contents, Setting, Share, workloads};

const FILES: u64 = 10_000;
const ROUNDS: usize = 151;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.iter().position(|argument| argument == "--engine") {
        Some(at) => {
            let marks = arguments[..at].iter().any(|argument| argument == "--marks");
            engine(&arguments[at + 1], &arguments[at + 2..], marks);
        }
        None => compare(),
    }
}

/// `--engine DIRECTORY WORKLOAD KEY=VALUE...`: runs the workload in the directory and prints the
/// nanoseconds of each phase, and the most memory there was. With marks it sends itself a SIGUSR1
/// before and after each phase, for bench/count.c.
fn engine(directory: &str, words: &[String], marks: bool) {
    let kind = workloads::find(&words[0]).unwrap();
    let set: Vec<(&str, &str)> =
        words[1..].iter().filter_map(|word| word.split_once('=')).collect();
    let work = kind.build(&kind.resolve(&set).unwrap(), &Setting::seed(1)).unwrap();
    let contents = Arc::new(Contents::new(1));
    let mut recorder = Recorder::new();
    for (phase, spec) in work.phases().iter().enumerate() {
        let root: OwnedFd = std::fs::File::open(directory).unwrap().into();
        let mut issuer = Sync::new(root, Arc::clone(&contents));
        let mut ops = work.ops(phase, Share::WHOLE);
        mark(marks);
        let outcome = run_phase(ops.as_mut(), &mut issuer, &mut recorder, &mut |_| {}).unwrap();
        mark(marks);
        let name = if spec.name == "delete" { "unlink" } else { spec.name };
        println!("{name} {}", outcome.returned.since(outcome.started).0);
    }
    println!("memory {}", memory());
}

fn mark(marks: bool) {
    if marks {
        // SAFETY: takes a number only; bench/count.c, which asked for marks, swallows the signal.
        unsafe { libc::raise(libc::SIGUSR1) };
    }
}

/// VmHWM in KiB.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn compare() {
    let folder = scratch();
    let bare = folder.join("bare");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/bare.c");
    let built = Command::new("cc").arg("-O2").arg("-o").arg(&bare).arg(source).status();
    if !built.is_ok_and(|status| status.success()) {
        eprintln!("against_bare: failed to build bench/bare.c: install gcc");
        std::process::exit(3);
    }
    let engine = std::env::current_exe().unwrap();
    let files = format!("files={FILES}");
    let engine_words = |target: &Path| {
        ["--engine", target.to_str().unwrap(), "dirops", &files, "stat=yes", "stat-order=forward"]
            .map(str::to_string)
    };
    let bare_words = |target: &Path| [FILES.to_string(), target.to_str().unwrap().to_string()];

    println!("engine against bare loop, {FILES} files, {ROUNDS} rounds, {}", folder.display());
    let mut rounds: Vec<(Vec<Line>, Vec<Line>)> = Vec::new();
    for round in 0..=ROUNDS {
        let run_bare = || run(&folder, &bare, &|target| bare_words(target).to_vec());
        let run_engine = || run(&folder, &engine, &|target| engine_words(target).to_vec());
        // Who goes first changes from round to round; the first round only warms up.
        let pair = if round % 2 == 0 {
            let first = run_bare();
            (first, run_engine())
        } else {
            let first = run_engine();
            (run_bare(), first)
        };
        if round > 0 {
            rounds.push(pair);
        }
    }
    for phase in ["create", "stat", "unlink"] {
        print_phase(phase, &rounds);
    }
    for files in ["files=10000", "files=1000000"] {
        for workload in ["dirops", "tarball"] {
            let words = [workload, files, if workload == "dirops" { "size=0" } else { "size=1" }];
            let lines = run(&folder, &engine, &|target| {
                let fixed = ["--engine", target.to_str().unwrap()];
                fixed.iter().chain(&words).map(|word| word.to_string()).collect()
            });
            println!("memory {workload} {files}: {} KiB", of("memory", &lines));
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

fn print_phase(phase: &str, rounds: &[(Vec<Line>, Vec<Line>)]) {
    let mut ratios: Vec<f64> = rounds
        .iter()
        .map(|(bare, engine)| of(phase, bare) as f64 / of(phase, engine) as f64)
        .collect();
    let mut bare: Vec<f64> =
        rounds.iter().map(|(bare, _)| of(phase, bare) as f64 / FILES as f64).collect();
    ratios.sort_by(f64::total_cmp);
    bare.sort_by(f64::total_cmp);
    let quartile = |part: usize| ratios[(ratios.len() - 1) * part / 4];
    println!(
        "{phase:7} {:.3} of the bare loop's rate (middle half {:.3} to {:.3}); bare {:.0} ns a file",
        quartile(2),
        quartile(1),
        quartile(3),
        bare[bare.len() / 2]
    );
}

type Line = (String, u64);

fn of(name: &str, lines: &[Line]) -> u64 {
    lines.iter().find(|(word, _)| word == name).map_or(0, |(_, value)| *value)
}

/// Runs a program in a fresh directory and reads its lines of a word and a number.
fn run(folder: &Path, program: &Path, words: &dyn Fn(&Path) -> Vec<String>) -> Vec<Line> {
    let target = folder.join("target");
    std::fs::create_dir(&target).unwrap();
    let output = Command::new(program).args(words(&target)).output().unwrap();
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

/// A fresh folder on a tmpfs, where there is one.
fn scratch() -> PathBuf {
    let shared = Path::new("/dev/shm");
    let parent = if shared.is_dir() { shared.to_path_buf() } else { std::env::temp_dir() };
    let folder = parent.join(format!("fsdyno-bench-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    folder
}
