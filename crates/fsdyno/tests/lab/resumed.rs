//! A run that is killed and resumed any number of times stores the same as an uninterrupted one:
//! in the lab the same bytes in the same order, except values of the host.

#![allow(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{PROGRAM, can_run_the_lab, full};
use fsdyno_record::seed::{SplitMix64, stream};

/// `~` stands for a blank within a word.
fn start(folder: &Path, words: &str, out: &str) -> Child {
    Command::new(PROGRAM)
        .current_dir(folder)
        .args(["run"])
        .args(words.split_whitespace().map(|word| word.replace('~', " ")))
        .args(["--out", out])
        .env("XDG_CACHE_HOME", fsdyno_lab::Cache::of_user().unwrap().path().parent().unwrap())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn to_the_end(folder: &Path, words: &str, out: &str) -> Duration {
    let begin = Instant::now();
    let output = start(folder, words, out).wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    begin.elapsed()
}

/// Each line of the trials up to what is the host's.
fn lines(folder: &Path, out: &str) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join(out).join("trials.ndjson")).unwrap();
    let upto = |line: &str| line.split_once(",\"host\":").unwrap().0.to_string();
    text.lines().map(upto).collect()
}

/// Each line of what was recorded over time.
fn series(folder: &Path, out: &str) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join(out).join("series.ndjson")).unwrap();
    text.lines().map(str::to_string).collect()
}

/// Starts a run `kills` times and kills it each time within a number of milliseconds.
fn kill(folder: &Path, words: &str, out: &str, kills: u32, most: u64, dice: &mut SplitMix64) {
    for _ in 0..kills {
        let mut child = start(folder, words, out);
        std::thread::sleep(Duration::from_millis(dice.below(most)));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

/// Runs once uninterrupted and once with a number of kills, each within about the time of a trial.
fn compare(words: &str, trials: u32, kills: u32, dice: &mut SplitMix64) {
    let folder = tempfile::tempdir().unwrap();
    let took = to_the_end(folder.path(), words, "through");
    // A kill before anything was stored and kills after some of it was, whatever the host's speed.
    let most = (took.as_millis() as u64 * 2 / u64::from(trials)).max(1);
    kill(folder.path(), words, "killed", kills, most, dice);
    to_the_end(folder.path(), words, "killed");
    let [mut through, mut killed] = ["through", "killed"].map(|out| lines(folder.path(), out));
    let [mut through_time, mut killed_time] =
        ["through", "killed"].map(|out| series(folder.path(), out));
    if words.contains("--jobs") {
        // Two that run side by side end in any order.
        for stored in [&mut through, &mut killed, &mut through_time, &mut killed_time] {
            stored.sort();
        }
    }
    assert_eq!(through.len(), trials as usize);
    assert_eq!(through, killed);
    assert!(!through_time.is_empty());
    assert_eq!(through_time, killed_time);
    assert!(through.iter().all(|line| line.contains("\"outcome\":\"ok\"")), "{through:?}");
}

#[test]
fn a_killed_and_resumed_run_stores_the_same_bytes_in_the_same_order() {
    if !can_run_the_lab() {
        return;
    }
    let mut dice = stream(1, "resumed");
    // File systems of one kind, so that there is one snapshot to make.
    let words = "dirops --fs ext4 --fs bare=ext4~-O~^has_journal --disk instant --set files=100 \
                 --size 512M --boot snapshot --repeat 2";
    compare(words, 4, 3, &mut dice);
    if full() {
        let words =
            "dirops tarball --fs ext4 --fs btrfs --disk hdd-7200 --set files=300 --repeat 2";
        compare(words, 8, 8, &mut dice);
    }
}

#[test]
fn killed_shards_and_concurrent_trials_store_the_same_bytes() {
    if !full() || !can_run_the_lab() {
        return eprintln!("skipped: it runs in the lab for long (make test-full)");
    }
    let mut dice = stream(2, "resumed");
    let words = "dirops --fs ext4 --fs xfs --disk hdd-7200 --set files=100 --size 1G --repeat 3";
    compare(&format!("{words} --jobs 2"), 6, 6, &mut dice);
    let folder = tempfile::tempdir().unwrap();
    let took = to_the_end(folder.path(), words, "through");
    let most = (took.as_millis() as u64 / 3).max(1);
    for share in ["1/2", "2/2"] {
        let (words, out) = (format!("{words} --shard {share}"), share.replace('/', "-"));
        kill(folder.path(), &words, &out, 4, most, &mut dice);
        to_the_end(folder.path(), &words, &out);
    }
    let merged = Command::new(PROGRAM)
        .current_dir(folder.path())
        .args(["merge", "whole", "1-2", "2-2"])
        .output()
        .unwrap();
    assert!(merged.status.success(), "{}", String::from_utf8_lossy(&merged.stderr));
    assert_eq!(lines(folder.path(), "through"), lines(folder.path(), "whole"));
}
