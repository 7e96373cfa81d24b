//! Cost of each workload's generator and the engine's loop: CPU time per op without calls.
//!
//! `cargo bench -p fsdyno-engine --bench null` runs every workload with its default
//! parameters, only smaller, with the null issuer. The workloads take turns, and a figure is the
//! median over the rounds, so that disturbances of a shared machine affect all alike. It is CPU time
//! of the process, hence also right for workloads of many threads. The promised maximum is 100 ns.

#![allow(clippy::unwrap_used, reason = "a bench reports errors by panicking")]

use std::os::fd::AsFd;
use std::sync::Arc;

use fsdyno_engine::{PhaseRun, run_threads};
use fsdyno_record::plan::IssuerPlan;
use fsdyno_workload::workloads::{self, Kind};
use fsdyno_workload::{Contents, Setting, Workload};

const ROUNDS: usize = 15;

/// Parameters that make a workload small enough for many rounds; the others are small by default.
const SMALLER: &[(&str, &str, &str)] = &[
    ("dirops", "files", "20000"),
    ("tarball", "files", "20000"),
    ("source-tree", "trees", "1"),
    ("maildir", "store", "5000"),
    ("fdtree", "levels", "2"),
    ("bonnie", "file-size", "16M"),
    ("many-files", "widths", "10/10/10"),
    ("postmark", "transactions", "10000"),
];

/// The promised maximum in nanoseconds.
const LIMIT: f64 = 100.0;

fn main() {
    let contents = Arc::new(Contents::new(1));
    let mut rows: Vec<(&Kind, Box<dyn Workload>, Vec<f64>)> = Vec::new();
    for kind in workloads::ALL {
        match build(kind) {
            Ok(work) => rows.push((kind, work, Vec::new())),
            Err(reason) => println!("{:14} skipped: {reason}", kind.name),
        }
    }
    for _ in 0..ROUNDS {
        for (_, work, times) in &mut rows {
            times.extend(cpu_ns_per_op(work.as_ref(), &contents));
        }
    }
    println!("{:14} {:>10} {:>10} {:>10}", "CPU ns/op", "median", "minimum", "maximum");
    for (kind, _, times) in &mut rows {
        times.sort_by(f64::total_cmp);
        match times.as_slice() {
            [] => println!("{:14} not measured: each of its ops needs a file system", kind.name),
            [minimum, .., maximum] => {
                let median = times[times.len() / 2];
                let mark = if median > LIMIT { "  over 100" } else { "" };
                println!("{:14} {median:10.1} {minimum:10.1} {maximum:10.1}{mark}", kind.name);
            }
            [single] => println!("{:14} {single:10.1}", kind.name),
        }
    }
}

/// Builds a workload with its default parameters, smaller if possible.
fn build(kind: &Kind) -> Result<Box<dyn Workload>, String> {
    let own_parameters = SMALLER.iter().filter(|(name, ..)| *name == kind.name);
    let parameters: Vec<(&str, &str)> =
        own_parameters.map(|(_, key, value)| (*key, *value)).collect();
    let params = kind.resolve(&parameters).map_err(|error| error.to_string())?;
    kind.build(&params, &Setting::seed(1)).map_err(|error| error.to_string())
}

/// Returns the CPU nanoseconds per op over all phases; `None` if no op is issued.
fn cpu_ns_per_op(work: &dyn Workload, contents: &Arc<Contents>) -> Option<f64> {
    let root = std::fs::File::open("/").unwrap();
    let (mut ops, mut time) = (0, 0);
    for (phase, spec) in work.phases().iter().enumerate() {
        let phase_run = PhaseRun {
            work,
            phase,
            threads: spec.threads,
            requested: 1,
            issuer: IssuerPlan::Null,
            root: root.as_fd(),
            roots: &[],
            device: None,
            contents,
            slots: None,
            process_share: None,
        };
        let mut before = 0;
        let done = run_threads(&phase_run, &mut || before = cpu_time(), &|_| {}).unwrap();
        time += cpu_time() - before;
        ops += done.outcome.ops;
    }
    (ops > 0).then(|| time as f64 / ops as f64)
}

/// Returns the CPU time of this process in nanoseconds.
fn cpu_time() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for writes.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
