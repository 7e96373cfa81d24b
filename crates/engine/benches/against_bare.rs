//! The engine against bench/bare.c, a bare loop of the same calls, on a tmpfs.
//!
//! `cargo bench -p fsdyno-engine` builds the loop with cc. A figure is the median over the rounds of
//! the ratio of the two rates of one round, with its 95 % interval; rounds are short and many, since on
//! a shared machine every long one is disturbed.
//!
//! With one thread the loop is loaded into this process and the two sides alternate phase by phase,
//! a millisecond apart, with so few files that they stay in the processor's second-level cache: the
//! kernel's memory stalls vary from run to run by more than the difference measured here, and
//! would hide the engine's cost. With two threads they are programs run in turn.
//!
//! It also prints the memory of the engine at 10^4 and 10^6 files. Nothing here passes or fails a
//! test; bench/all.sh compares the results with the promised limits.

#![allow(clippy::unwrap_used, reason = "a bench reports errors by panicking")]

mod calls;
#[allow(dead_code, reason = "not every bench uses all of it")]
mod ratio;

use std::ffi::{CString, c_int, c_longlong, c_uint};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use calls::{PHASES, Side};
use fsdyno_engine::issue::sync::SyncIssuer;
use fsdyno_engine::{Recorder, run_phase};
use fsdyno_workload::{Contents, Setting, Share, workloads};

/// Number of files in a round with one thread.
const FILES: u64 = 1_000;

/// Number of files in a round with two threads.
const FILES_TWO_THREADS: u64 = 20_000;

/// Number of rounds with one thread, and with two, unless FSDYNO_BENCH_ROUNDS is set.
const ROUNDS: usize = 1001;
const ROUNDS_TWO_THREADS: usize = 61;

/// The promised minimum ratio to the bare loop's rate.
const MIN_RATIO: f64 = 0.97;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match args[..] {
        ["--engine", folder, files] => engine(folder, files, "1"),
        ["--engine", folder, files, threads] => engine(folder, files, threads),
        ["--memory", folder, workload, ref set @ ..] => memory(folder, workload, set),
        _ => compare(),
    }
}

/// Runs all phases and prints the nanoseconds of each, as the bare loop does.
fn engine(folder: &str, files: &str, threads: &str) {
    let mut engine = Side::new(Path::new(folder), files.parse().unwrap()).unwrap();
    let threads = threads.parse().unwrap();
    for (index, phase) in PHASES.iter().enumerate() {
        calls::settle();
        let ns = match threads {
            1 => engine.phase(index).unwrap().ns,
            _ => engine.run_threaded(index, threads).unwrap(),
        };
        println!("{phase} {ns}");
    }
}

/// Runs a workload and prints its peak memory, in KiB.
fn memory(folder: &str, workload: &str, parameters: &[&str]) {
    let kind = workloads::find(workload).unwrap();
    let parameters: Vec<(&str, &str)> =
        parameters.iter().filter_map(|word| word.split_once('=')).collect();
    let work = kind.build(&kind.resolve(&parameters).unwrap(), &Setting::seed(1)).unwrap();
    let contents = Arc::new(Contents::new(1));
    let mut recorder = Recorder::new();
    for phase in 0..work.phases().len() {
        let root: OwnedFd = std::fs::File::open(folder).unwrap().into();
        let mut issuer = SyncIssuer::new(root, Arc::clone(&contents));
        let mut ops = work.ops(phase, Share::WHOLE);
        run_phase(ops.as_mut(), &mut issuer, &mut recorder, &mut |_| {}).unwrap();
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    println!("memory {}", line.trim().trim_end_matches(" kB"));
}

fn compare() {
    let folder = ratio::scratch();
    one_thread(&folder);
    two_threads(&folder);
    let engine = std::env::current_exe().unwrap();
    for files in ["files=10000", "files=1000000"] {
        for (workload, size) in [("dirops", "size=0"), ("tarball", "size=1")] {
            let args = ["--memory", "", workload, files, size].map(str::to_string);
            let lines = run(&folder, &engine, |target| {
                let mut args = args.to_vec();
                args[1] = target;
                args
            });
            println!("memory {workload} {files}: {} KiB", value_of("memory", &lines));
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Runs both sides in this process, phase by phase; the order alternates from round to round.
fn one_thread(folder: &Path) {
    let [bare_folder, engine_folder] = ["by-bare", "by-engine"].map(|name| folder.join(name));
    for side_folder in [&bare_folder, &engine_folder] {
        std::fs::create_dir(side_folder).unwrap();
    }
    let mut bare = Bare::load(folder, &bare_folder);
    let mut engine = Side::new(&engine_folder, FILES).unwrap();
    let rounds = ratio::rounds(ROUNDS);
    println!("one thread, {FILES} files, {rounds} rounds, {}", folder.display());
    let mut pairs = vec![Vec::new(); PHASES.len()];
    // The first round only warms up. In every round, a read-only phase runs twice and the second run
    // counts, so that the caches hold the side's own files.
    for round in 0..=rounds {
        for (phase, pairs) in pairs.iter_mut().enumerate() {
            let is_warmed_up = matches!(PHASES[phase], "stat" | "rename" | "readdir");
            let mut run_bare = || {
                is_warmed_up.then(|| bare.phase(phase));
                bare.phase(phase)
            };
            let mut run_engine = || {
                is_warmed_up.then(|| engine.warm(phase).unwrap());
                engine.phase(phase).unwrap().ns as f64
            };
            let pair = if round % 2 == 0 {
                let first_ns = run_bare();
                (first_ns, run_engine())
            } else {
                let first_ns = run_engine();
                (run_bare(), first_ns)
            };
            if round > 0 {
                pairs.push(pair);
            }
        }
    }
    for (phase, pairs) in PHASES.iter().zip(pairs) {
        print_ratio(phase, FILES, "", &pairs);
    }
}

/// Runs two programs in turn.
fn two_threads(folder: &Path) {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        println!("two threads: skipped, there is one processor");
        return;
    }
    let bare = ratio::compile("bare.c", folder);
    let engine = std::env::current_exe().unwrap();
    let rounds = ratio::rounds(ROUNDS_TWO_THREADS);
    println!("two threads, {FILES_TWO_THREADS} files, {rounds} rounds, {}", folder.display());
    let files = || FILES_TWO_THREADS.to_string();
    let pairs = ratio::interleave(
        rounds,
        || run(folder, &bare, |target| vec![files(), target, "2".into()]),
        || run(folder, &engine, |target| vec!["--engine".into(), target, files(), "2".into()]),
    );
    for phase in PHASES {
        let pairs: Vec<(f64, f64)> = pairs
            .iter()
            .map(|(bare, engine)| (value_of(phase, bare), value_of(phase, engine)))
            .collect();
        print_ratio(phase, FILES_TWO_THREADS, ", two threads", &pairs);
    }
}

/// Prints the results from the nanoseconds of the bare loop and of the engine.
fn print_ratio(phase: &str, files: u64, suffix: &str, pairs: &[(f64, f64)]) {
    let ns = pairs.iter().map(|(bare, _)| bare / files as f64).collect();
    println!("{phase:8} bare loop {:6.0} ns a file", ratio::median(ns).0);
    let rates = pairs.iter().map(|(bare, engine)| bare / engine).collect();
    let name = format!("{phase}: engine's rate against bare{suffix}");
    ratio::report(&name, rates, ratio::Limit::AtLeast(MIN_RATIO));
}

/// bare_phase of bench/bare.c: the open directory, the number of files, the phase.
type Phase = unsafe extern "C" fn(c_int, c_uint, c_uint) -> c_longlong;

/// The bare loop, loaded as a library into this process.
struct Bare {
    phase: Phase,
    /// Recreated whenever the engine recreates its own, because the kernel finds names in an older directory
    /// faster.
    folder: PathBuf,
    open: Option<std::fs::File>,
}

impl Bare {
    fn load(build_folder: &Path, target: &Path) -> Bare {
        let library = ratio::compile_with("bare.c", &["-shared", "-fPIC"], build_folder, "bare.so");
        let path = CString::new(library.as_os_str().as_bytes()).unwrap();
        // SAFETY: bare.c has no constructors; the names end in NUL.
        let symbol = unsafe {
            let handle = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
            assert!(!handle.is_null(), "failed to load {}", library.display());
            libc::dlsym(handle, c"bare_phase".as_ptr())
        };
        assert!(!symbol.is_null(), "bare.c has no bare_phase");
        // SAFETY: this is how bare.c declares it; the library is never unloaded.
        let phase = unsafe { std::mem::transmute::<*mut libc::c_void, Phase>(symbol) };
        Bare { phase, folder: target.join("d"), open: None }
    }

    /// Runs a phase and returns its time in nanoseconds.
    fn phase(&mut self, phase: usize) -> f64 {
        let open = self.open.get_or_insert_with(|| {
            std::fs::create_dir(&self.folder).unwrap();
            std::fs::File::open(&self.folder).unwrap()
        });
        // SAFETY: an open directory and a valid phase; it ends the process if a call fails.
        let ns = unsafe { (self.phase)(open.as_raw_fd(), FILES as c_uint, phase as c_uint) };
        if matches!(PHASES[phase], "unlink" | "write") {
            self.open = None;
            std::fs::remove_dir(&self.folder).unwrap();
        }
        ns as f64
    }
}

type Line = (String, f64);

fn value_of(name: &str, lines: &[Line]) -> f64 {
    lines.iter().find(|(word, _)| word == name).unwrap().1
}

/// Runs a program in a fresh directory and reads its lines of a word and a number.
fn run(folder: &Path, program: &PathBuf, args: impl Fn(String) -> Vec<String>) -> Vec<Line> {
    let target = folder.join("target");
    std::fs::create_dir(&target).unwrap();
    let args = args(target.to_string_lossy().into_owned());
    let output = Command::new(program).args(args).output().unwrap();
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
