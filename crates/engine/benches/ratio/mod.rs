//! Helpers of the benches: alternating runs, the median ratio with its interval, and a verdict.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A promised limit of a ratio.
#[derive(Clone, Copy)]
pub enum Limit {
    AtLeast(f64),
    AtMost(f64),
}

/// The number of rounds: FSDYNO_BENCH_ROUNDS, or `default`.
pub fn rounds(default: usize) -> usize {
    std::env::var("FSDYNO_BENCH_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

/// Runs both sides that many times, in alternating order, after one round that
/// only warms up.
pub fn interleave<T>(
    rounds: usize,
    mut first_side: impl FnMut() -> T,
    mut second_side: impl FnMut() -> T,
) -> Vec<(T, T)> {
    let mut pair = |round| {
        if round % 2 == 0 {
            let first = first_side();
            (first, second_side())
        } else {
            let second = second_side();
            (first_side(), second)
        }
    };
    (0..=rounds).map(&mut pair).skip(1).collect()
}

/// The median and its 95 % interval, from the binomial distribution of the number of values below it,
/// without assuming a distribution of the values (David and Nagaraja, Order Statistics, 7.1; normal approximation).
pub fn median(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    let reach = (1.96 * (n as f64).sqrt() / 2.0).ceil() as usize;
    let (low, high) = ((n / 2).saturating_sub(reach), (n / 2 + reach).min(n - 1));
    (values[n / 2], values[low], values[high])
}

/// Prints the line of a ratio, and stores it for the summary of bench/all.sh. A promise is met or broken
/// only if the whole interval says so.
pub fn report(name: &str, ratios: Vec<f64>, limit: Limit) {
    let (middle, low, high) = median(ratios);
    let (side, limit_value, is_met, is_missed) = match limit {
        Limit::AtLeast(minimum) => ("at-least", minimum, low >= minimum, high < minimum),
        Limit::AtMost(maximum) => ("at-most", maximum, high <= maximum, low > maximum),
    };
    let verdict = match (is_met, is_missed) {
        (true, _) => "kept",
        (_, true) => "NOT KEPT",
        _ => "NOT DECIDED by this number of rounds",
    };
    let line = format!(
        "{name:48} {middle:.3} ({low:.3} to {high:.3})  promised: {side} {limit_value}  {verdict}\n"
    );
    print!("{line}");
    if let Some(path) = std::env::var_os("FSDYNO_BENCH_SUMMARY") {
        let file = std::fs::File::options().append(true).create(true).open(path);
        file.unwrap().write_all(line.as_bytes()).unwrap();
    }
}

/// A fresh folder, on a tmpfs if available.
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
