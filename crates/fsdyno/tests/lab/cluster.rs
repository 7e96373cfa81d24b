//! A command on several machines: shards and their merge, on a directory, in the lab, and with the scripts of
//! examples/slurm.
#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

use crate::common;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{PROGRAM, code, run, stderr};
use fsdyno_lab::Cache;
use fsdyno_record::Nanos;
use serde_json::Value;

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the records without their end, which depends on the host.
fn without_host(results: &Path) -> Vec<String> {
    let lines = text(&results.join("trials.ndjson"));
    lines.lines().map(|line| line.rsplit_once(",\"host\":").unwrap().0.to_string()).collect()
}

/// Returns the report without the two cells of each trial that have its start and duration.
fn report(results: &Path) -> String {
    let mut html = text(&results.join("report.html"));
    for line in text(&results.join("trials.ndjson")).lines() {
        let trial: Value = serde_json::from_str(line).unwrap();
        let host = &trial["host"];
        let started = host["started"].as_str().unwrap();
        let took = Nanos(host["elapsed_ns"].as_u64().unwrap());
        let cells = format!("<td class=\"left\">{started}</td><td>{took}</td>");
        assert!(html.contains(&cells), "the report does not have {cells}");
        // Two trials can have equal cells, so only one row is changed at a time.
        html = html.replacen(&cells, "", 1);
    }
    html
}

fn in_lab(folder: &Path, args: &[&str]) -> std::process::Output {
    let mut command = Command::new(PROGRAM);
    command.current_dir(folder).stdin(Stdio::null());
    command
        .env("XDG_CACHE_HOME", Cache::of_user().unwrap().path().parent().unwrap())
        .args(args)
        .output()
        .unwrap()
}

#[test]
fn two_merged_shards_are_bit_identical_to_the_undivided_run() {
    let folder = tempfile::tempdir().unwrap();
    if !in_lab(folder.path(), &["doctor"]).status.success() {
        assert!(std::env::var_os("CI").is_none(), "CI has to run the lab; see fsdyno doctor");
        let _ = writeln!(
            std::io::stderr(),
            "skipped: the lab cannot run here; fsdyno doctor reports why"
        );
        return;
    }
    let run_with = |extra_args: &[&str]| {
        let repeats = if common::full() { "2" } else { "1" };
        let run =
            ["run", "dirops", "--fs", "small=ext4 -I 128", "--fs", "ext2", "--repeat", repeats];
        let rest = ["--set", "files=100", "--size", "512M", "--seed", "5", "--baseline", "small"];
        let boot: Vec<&str> = common::lab::boot().split(' ').collect();
        let output = in_lab(folder.path(), &[&run[..], &rest, &boot, extra_args].concat());
        assert_eq!(code(&output), 0, "{}", stderr(&output));
    };
    run_with(&["--out", "whole"]);
    // With two jobs the trials of a shard end in any order.
    run_with(&["--shard", "1/2", "--out", "s1", "--jobs", "2"]);
    run_with(&["--shard", "2/2", "--out", "s2", "--jobs", "2"]);
    let output = in_lab(folder.path(), &["merge", "merged", "s2", "s1"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let path = |name: &str| folder.path().join(name);
    assert_eq!(without_host(&path("whole")).len(), if common::full() { 4 } else { 2 });
    assert_eq!(without_host(&path("merged")), without_host(&path("whole")));
    let series = |out: &str| text(&path(out).join("series.ndjson"));
    assert_eq!(series("merged"), series("whole"));
    assert_eq!(report(&path("merged")), report(&path("whole")));

    // A changed digit in one trial, as from a broken machine, is a finding, and nothing is merged.
    std::fs::create_dir(path("twin")).unwrap();
    std::fs::copy(path("s2/schedule.json"), path("twin/schedule.json")).unwrap();
    let lines = text(&path("s2/trials.ndjson"));
    let broken = lines.replacen("\"returned_ns\":", "\"returned_ns\":1", 1);
    std::fs::write(path("twin/trials.ndjson"), broken).unwrap();
    let output = in_lab(folder.path(), &["merge", "other", "s1", "s2", "twin"]);
    assert_eq!(code(&output), 4, "{}", stderr(&output));
    let message = stderr(&output);
    assert!(message.contains("DID NOT REPEAT") && message.contains("returned_ns"), "{message}");
    assert!(!path("other").exists());
}

/// Copies the scripts of the example and replaces its run by a small one.
fn copy_example(folder: &Path, args: &str) {
    let from = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/slurm");
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        std::fs::copy(entry.path(), folder.join(entry.file_name())).unwrap();
    }
    let shipped = text(&folder.join("study.sh"));
    let (head, _) = shipped.split_once("\nset -- ").unwrap();
    std::fs::write(folder.join("study.sh"), format!("{head}\nset -- {args}\n")).unwrap();
}

fn run_script(folder: &Path, name: &str, task: Option<(&str, &str)>) -> std::process::Output {
    let mut command = Command::new("sh");
    command.arg(folder.join(name)).stdin(Stdio::null());
    command.env("FSDYNO", env!("CARGO_BIN_EXE_fsdyno")).env("SLURM_SUBMIT_DIR", folder);
    // Slurm runs a copy of the script from its own folder.
    command.current_dir("/");
    if let Some((id, count)) = task {
        command.env("SLURM_ARRAY_TASK_ID", id).env("SLURM_ARRAY_TASK_COUNT", count);
    }
    command.output().unwrap()
}

#[test]
fn the_slurm_example_runs_its_shards_merges_them_and_names_the_missing_one() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("target");
    std::fs::create_dir(&target).unwrap();
    copy_example(folder.path(), "dirops --on target --set files=20 --repeat 3");
    let first = run_script(folder.path(), "share.sh", Some(("1", "2")));
    assert_eq!(code(&first), 0, "{}", stderr(&first));
    let early = run_script(folder.path(), "merge.sh", None);
    assert_eq!(code(&early), 2, "{}", stderr(&early));
    assert!(stderr(&early).contains("share 2/2 (1 trial)"), "{}", stderr(&early));
    // The second task is submitted again, alone: Slurm then counts one task.
    let mut again = Command::new("sh");
    again.arg(folder.path().join("share.sh")).current_dir("/").stdin(Stdio::null());
    again.env("FSDYNO", env!("CARGO_BIN_EXE_fsdyno")).env("SLURM_SUBMIT_DIR", folder.path());
    again.env("SLURM_ARRAY_TASK_ID", "2").env("SLURM_ARRAY_TASK_COUNT", "1").env("SHARES", "2");
    let second = again.output().unwrap();
    assert_eq!(code(&second), 0, "{}", stderr(&second));
    let merged = run_script(folder.path(), "merge.sh", None);
    assert_eq!(code(&merged), 0, "{}", stderr(&merged));
    let whole = folder.path().join("results/whole");
    assert_eq!(common::lines(&whole), 3);
    assert!(whole.join("report.html").exists());
}

#[test]
fn the_scripts_of_the_slurm_example_run() {
    let folder = tempfile::tempdir().unwrap();
    let study = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/slurm/study.sh");
    let all = format!(
        ". {study}; for I in 1 8; do \"$FSDYNO\" run \"$@\" --shard $I/8 --dry-run || [ $? = 3 ]; done"
    );
    let output = Command::new("sh")
        .args(["-euc", &all])
        .current_dir(folder.path())
        .env("FSDYNO", env!("CARGO_BIN_EXE_fsdyno"))
        .env("PATH", "/nonexistent:/bin:/usr/bin")
        .env("XDG_CACHE_HOME", folder.path())
        .output()
        .unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(common::stdout(&output).matches("20 trials in this order").count(), 2);
}

#[test]
fn a_shard_keeps_its_folder_even_without_trials() {
    let folder = tempfile::tempdir().unwrap();
    let args = "run dirops --on . --set files=10 --repeat 2";
    for (extra_args, exit, part) in [
        ("--shard 3/3 --out none", 0, "shard 3/3 has none of the 2 trials"),
        ("--shard 1/3 --out one", 0, "report:"),
        ("--shard 2/3 --out two", 0, "report:"),
        ("--shard 2/3 --out one", 2, "holds share 1/3, and share 2/3 cannot be stored there"),
        ("--out one", 2, "holds share 1/3, and a run without --shard cannot be stored there"),
        ("--shard 1/3 --out one --seed 9", 2, "of other trials"),
        ("--shard 1/3 --out one", 0, "1 of 1 trials already stored"),
    ] {
        let output = run(folder.path(), &format!("{args} {extra_args}"));
        assert_eq!(code(&output), exit, "{extra_args}: {}", stderr(&output));
        assert!(stderr(&output).contains(part), "{extra_args}: {}", stderr(&output));
    }
    for (args, exit, part) in [
        ("merge whole one two none --baseline nothing", 2, "unknown baseline 'nothing'"),
        ("merge whole one two none", 0, "report: whole/report.html"),
        ("merge one two none", 2, "holds share 1/3 and is not a merged folder"),
        (
            "run dirops --on . --set files=10 --repeat 2 --out whole",
            0,
            "2 of 2 trials already stored",
        ),
    ] {
        let output = run(folder.path(), args);
        assert_eq!(code(&output), exit, "{args}: {}", stderr(&output));
        assert!(stderr(&output).contains(part), "{args}: {}", stderr(&output));
    }
}
