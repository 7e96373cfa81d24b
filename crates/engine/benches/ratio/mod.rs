//! What the benches share: two sides in turn, the median of their ratio with its interval, a verdict.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What was promised of a ratio.
#[derive(Clone, Copy)]
pub enum Promise {
    AtLeast(f64),
    AtMost(f64),
}

/// How many rounds: as FSDYNO_BENCH_ROUNDS says, or `default`.
pub fn rounds(default: usize) -> usize {
    std::env::var("FSDYNO_BENCH_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

/// Runs both sides so many times; who goes first changes from round to round, and one round before
/// them only warms up.
pub fn interleave<T>(
    rounds: usize,
    mut one: impl FnMut() -> T,
    mut other: impl FnMut() -> T,
) -> Vec<(T, T)> {
    let mut pair = |round| {
        if round % 2 == 0 {
            let first = one();
            (first, other())
        } else {
            let first = other();
            (one(), first)
        }
    };
    (0..=rounds).map(&mut pair).skip(1).collect()
}

/// The median and its 95 % interval, from the binomial law of how many values lie below it: no law
/// of the values is assumed (David and Nagaraja, Order Statistics, 7.1; normal approximation).
pub fn median(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    let reach = (1.96 * (n as f64).sqrt() / 2.0).ceil() as usize;
    let (low, high) = ((n / 2).saturating_sub(reach), (n / 2 + reach).min(n - 1));
    (values[n / 2], values[low], values[high])
}

/// Prints the line of a ratio, and keeps it for the summary of bench/all.sh. A promise is kept, or
/// is not, where the whole interval says so.
pub fn report(name: &str, ratios: Vec<f64>, promise: Promise) {
    let (middle, low, high) = median(ratios);
    let (side, promised, kept, broken) = match promise {
        Promise::AtLeast(least) => ("at-least", least, low >= least, high < least),
        Promise::AtMost(most) => ("at-most", most, high <= most, low > most),
    };
    let verdict = match (kept, broken) {
        (true, _) => "kept",
        (_, true) => "NOT KEPT",
        _ => "NOT DECIDED by so many rounds",
    };
    let line = format!(
        "{name:48} {middle:.3} ({low:.3} to {high:.3})  promised: {side} {promised}  {verdict}\n"
    );
    print!("{line}");
    if let Some(path) = std::env::var_os("FSDYNO_BENCH_SUMMARY") {
        let file = std::fs::File::options().append(true).create(true).open(path);
        file.unwrap().write_all(line.as_bytes()).unwrap();
    }
}

/// A fresh folder on a tmpfs, where there is one.
pub fn scratch() -> PathBuf {
    let shared = Path::new("/dev/shm");
    let parent = if shared.is_dir() { shared.to_path_buf() } else { std::env::temp_dir() };
    let folder = parent.join(format!("fsdyno-bench-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    folder
}

/// Builds a C program of bench/ in `folder`.
pub fn compile(source: &str, folder: &Path) -> PathBuf {
    compile_with(source, &[], folder, source.trim_end_matches(".c"))
}

/// Builds a C source of bench/ as `name` in `folder`.
pub fn compile_with(source: &str, options: &[&str], folder: &Path, name: &str) -> PathBuf {
    let program = folder.join(name);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench").join(source);
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-pthread"]).args(options).arg("-o").arg(&program).arg(path);
    if !cc.status().is_ok_and(|status| status.success()) {
        eprintln!("failed to build bench/{source}: install gcc");
        std::process::exit(3);
    }
    program
}
