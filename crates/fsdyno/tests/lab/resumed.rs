//! A run that is killed and resumed any number of times stores the same as an uninterrupted one:
//! in the lab the same bytes in the same order, except values of the host.

#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{PROGRAM, can_run_the_lab, full};
use fsdyno_record::seed::{SplitMix64, stream};

/// Starts `fsdyno run`; `~` stands for a blank within a word.
fn start(folder: &Path, args: &str, out: &str) -> Child {
    Command::new(PROGRAM)
        .current_dir(folder)
        .args(["run"])
        .args(args.split_whitespace().map(|word| word.replace('~', " ")))
        .args(["--out", out])
        .env("XDG_CACHE_HOME", fsdyno_lab::Cache::of_user().unwrap().path().parent().unwrap())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn run_to_completion(folder: &Path, args: &str, out: &str) -> Duration {
    let started = Instant::now();
    let output = start(folder, args, out).wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    started.elapsed()
}

/// Returns the records without their host part.
fn lines(folder: &Path, out: &str) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join(out).join("trials.ndjson")).unwrap();
    let record = |line: &str| line.split_once(",\"host\":").unwrap().0.to_string();
    text.lines().map(record).collect()
}

/// Returns the lines of the series over time.
fn series(folder: &Path, out: &str) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join(out).join("series.ndjson")).unwrap();
    text.lines().map(str::to_string).collect()
}

/// Starts a run `kills` times and kills it each time within a number of milliseconds.
fn run_and_kill(
    folder: &Path,
    args: &str,
    out: &str,
    kills: u32,
    max_delay_ms: u64,
    random: &mut SplitMix64,
) {
    for _ in 0..kills {
        let mut child = start(folder, args, out);
        std::thread::sleep(Duration::from_millis(random.below(max_delay_ms)));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

/// Runs once uninterrupted and once with a number of kills, each within about the time of a trial.
fn compare_with_killed(args: &str, trials: u32, kills: u32, random: &mut SplitMix64) {
    let folder = tempfile::tempdir().unwrap();
    let took = run_to_completion(folder.path(), args, "uninterrupted");
    // On a host of any speed, some kills come before the first stored trial and some after it.
    let max_delay_ms = (took.as_millis() as u64 * 2 / u64::from(trials)).max(1);
    run_and_kill(folder.path(), args, "killed", kills, max_delay_ms, random);
    run_to_completion(folder.path(), args, "killed");
    let [mut uninterrupted, mut killed] =
        ["uninterrupted", "killed"].map(|out| lines(folder.path(), out));
    let [mut uninterrupted_series, mut killed_series] =
        ["uninterrupted", "killed"].map(|out| series(folder.path(), out));
    if args.contains("--jobs") {
        // Two trials at the same time end in any order.
        for stored in
            [&mut uninterrupted, &mut killed, &mut uninterrupted_series, &mut killed_series]
        {
            stored.sort();
        }
    }
    assert_eq!(uninterrupted.len(), trials as usize);
    assert_eq!(uninterrupted, killed);
    assert!(!uninterrupted_series.is_empty());
    assert_eq!(uninterrupted_series, killed_series);
    assert!(
        uninterrupted.iter().all(|line| line.contains("\"outcome\":\"ok\"")),
        "{uninterrupted:?}"
    );
}

#[test]
fn a_killed_and_resumed_run_stores_the_same_bytes_in_the_same_order() {
    if !can_run_the_lab() {
        return;
    }
    let mut random = stream(1, "resumed");
    // The file systems are of one kind, so that only one snapshot is made.
    let args = "dirops --fs ext4 --fs bare=ext4~-O~^has_journal --disk instant --set files=300 \
                 --size 512M --boot snapshot --repeat 2";
    compare_with_killed(args, 4, 3, &mut random);
    if full() {
        let args = "dirops tarball --fs ext4 --fs btrfs --disk hdd-7200 --set files=300 --repeat 2";
        compare_with_killed(args, 8, 8, &mut random);
    }
}

#[test]
fn killed_shards_and_concurrent_trials_store_the_same_bytes() {
    if !full() || !can_run_the_lab() {
        return eprintln!("skipped: a long test in the lab (make test-full)");
    }
    let mut random = stream(2, "resumed");
    let args = "dirops --fs ext4 --fs xfs --disk hdd-7200 --set files=100 --size 1G --repeat 3";
    compare_with_killed(&format!("{args} --jobs 2"), 6, 6, &mut random);
    let folder = tempfile::tempdir().unwrap();
    let took = run_to_completion(folder.path(), args, "uninterrupted");
    let max_delay_ms = (took.as_millis() as u64 / 3).max(1);
    for shard in ["1/2", "2/2"] {
        let (args, out) = (format!("{args} --shard {shard}"), shard.replace('/', "-"));
        run_and_kill(folder.path(), &args, &out, 4, max_delay_ms, &mut random);
        run_to_completion(folder.path(), &args, &out);
    }
    let merged = Command::new(PROGRAM)
        .current_dir(folder.path())
        .args(["merge", "whole", "1-2", "2-2"])
        .output()
        .unwrap();
    assert!(merged.status.success(), "{}", String::from_utf8_lossy(&merged.stderr));
    assert_eq!(lines(folder.path(), "uninterrupted"), lines(folder.path(), "whole"));
}
