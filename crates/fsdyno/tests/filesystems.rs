//! File systems that are not simply made on a device and mounted by the kernel, and those that came after
//! the classical seven: each with three workloads in the lab, twice, and what `fsdyno list` says of them.
//!
//! `FSDYNO_TEST=full` (`make test-full`) runs all of them, else the two that differ most from the others.
#![allow(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

mod common;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use common::{code, stderr, stdout};
use fsdyno_lab::user_cache;
use serde_json::Value;

/// In CI: one over another, and a process.
const FEW: &[&str] = &["overlayfs:ext4", "fuse2fs"];

/// By itself nothing of the host is checked, so these are all that Debian's packages and kernel allow.
const ALL: &[&str] = &[
    "f2fs",
    "nilfs2",
    "vfat",
    "tmpfs",
    "overlayfs:ext4",
    "overlayfs,volatile:xfs @ noatime",
    "overlayfs:btrfs",
    "overlayfs:f2fs",
    "overlayfs:nilfs2",
    "overlayfs:jfs",
    "overlayfs:tmpfs",
    "fuse2fs",
    "fuse: mke2fs -q -F -t ext2 -U {uuid} {device} ; fuse2fs {device} {mount}",
];

const WORK: &str = "dirops fdtree postmark --set dirops.files=300 --set fdtree.levels=2 \
    --set fdtree.dirs=3 --set fdtree.files=4 --set postmark.number=100 --set postmark.transactions=200";

fn fsdyno(folder: &Path, words: &[&str]) -> Output {
    let built = std::env::var_os("FSDYNO_PROGRAM").map(PathBuf::from);
    Command::new(built.unwrap_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_fsdyno"))))
        .current_dir(folder)
        .stdin(Stdio::null())
        .env("COLUMNS", "100")
        .env("XDG_CACHE_HOME", user_cache().parent().unwrap())
        .args(words)
        .output()
        .unwrap()
}

fn full() -> bool {
    std::env::var_os("FSDYNO_TEST").is_some_and(|which| which == "full")
}

/// A folder for a test, or none, said aloud, where the lab cannot run.
fn lab() -> Option<tempfile::TempDir> {
    let seen = fsdyno(Path::new("/"), &["doctor"]);
    if seen.status.success() {
        return Some(tempfile::tempdir().unwrap());
    }
    assert!(std::env::var_os("CI").is_none(), "CI has to run the lab: {}", stdout(&seen));
    said("skipped: the lab cannot run here; fsdyno doctor says why");
    None
}

/// Past the harness, which keeps to itself what a test that passed has printed.
fn said(what: &str) {
    let test = std::thread::current().name().unwrap_or_default().to_string();
    let _ = writeln!(std::io::stderr(), "{test}: {what}");
}

/// Those of `specs` whose tools are here; without them they are no part of the test, which is said.
fn runnable(folder: &Path, specs: &[&'static str]) -> Vec<&'static str> {
    let listed = fsdyno(folder, &["list", "filesystems", "--format", "json"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let can = |name: &str| {
        let row = listed.as_array().unwrap().iter().find(|row| row["name"] == name).unwrap();
        let why = row["lab"]["cure"].as_str().unwrap_or_default().to_string();
        (row["lab"]["can"] == true, why)
    };
    let parts = |spec: &str| -> Vec<String> {
        let spec = fsdyno_filesystem::Spec::parse(spec).unwrap();
        [spec.kind.clone(), spec.made().kind.clone()].to_vec()
    };
    let here = |spec: &&&str| {
        // What a command needs is not in any list; this one is fuse2fs.
        let fuse = spec.starts_with("fuse:").then(|| "fuse2fs".to_string());
        let missing = parts(spec).into_iter().chain(fuse).map(|name| can(&name)).find(|it| !it.0);
        if let Some((_, cure)) = &missing {
            said(&format!("skipped {spec}: {cure}"));
        }
        missing.is_none()
    };
    specs.iter().filter(here).copied().collect()
}

/// Runs the work on all of `specs`, every trial good; the trials and, sorted, the bytes that were
/// measured.
fn run(folder: &Path, out: &str, specs: &[&str]) -> (Vec<Value>, Vec<(String, String)>) {
    let mut words: Vec<&str> = vec!["run"];
    words.extend(WORK.split_whitespace());
    words.extend(["--size", "2G", "--jobs", "2", "--out", out]);
    for spec in specs {
        words.extend(["--fs", spec]);
    }
    let output = fsdyno(folder, &words);
    assert_eq!(code(&output), 0, "{}\n{}", stdout(&output), stderr(&output));
    let text = std::fs::read_to_string(folder.join(out).join("trials.ndjson")).unwrap();
    let trials: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(trials.len(), 3 * specs.len());
    let measured = text.lines().zip(&trials).map(|(line, trial)| {
        let (_, rest) = line.split_once("\"measured\":").unwrap();
        let id = format!("{} {}", trial["plan"]["label"], trial["trial_id"]);
        (id, rest.split_once(",\"host\":").unwrap().0.to_string())
    });
    let mut measured: Vec<(String, String)> = measured.collect();
    measured.sort();
    (trials, measured)
}

#[test]
fn what_came_after_the_seven_is_verified_checked_and_repeats_to_the_last_digit() {
    let Some(folder) = lab() else { return };
    let specs = runnable(folder.path(), if full() { ALL } else { FEW });
    if specs.is_empty() {
        return;
    }
    let (trials, first) = run(folder.path(), "one", &specs);
    let (_, second) = run(folder.path(), "two", &specs);
    for (one, two) in first.iter().zip(&second) {
        assert!(one == two, "two runs of {} differ", one.0);
    }
    for trial in &trials {
        let label = trial["plan"]["label"].as_str().unwrap();
        let (measured, conditions) = (&trial["measured"], &trial["conditions"]);
        let phases = measured["phases"].as_array().unwrap();
        assert_eq!(measured["verify"]["problems"], 0, "{trial}");
        // Not every file system has a check; that it has none is said.
        let notes = conditions["notes"].to_string();
        match measured["check"]["clean"].as_bool() {
            Some(clean) => assert!(clean, "{trial}"),
            None => assert!(notes.contains("no check of its own") || notes.contains("in memory")),
        }
        let fuse = label.starts_with("fuse");
        assert_eq!(conditions["userspace"].as_bool(), fuse.then_some(true), "{label}");
        let worked = |phase: &Value| phase["kernel_cpu_ns"]["fuse"].as_u64() > Some(0);
        assert_eq!(phases.iter().all(worked), fuse, "{label}: the process's CPU time");
        // A promise is shown only where it can be kept.
        let durable = phases.iter().all(|phase| phase["durable_ns"].is_u64());
        let never = ["tmpfs", "fuse", "volatile"].iter().any(|word| label.contains(word));
        assert!(durable != never, "{trial}");
        assert_eq!(label.starts_with("overlayfs"), conditions["below"].is_string(), "{label}");
        assert_eq!(label.contains("tmpfs"), measured["phases"][0]["device"].is_null(), "{label}");
    }
}

#[test]
fn what_no_kernel_at_hand_has_is_skipped_with_what_would_bring_it() {
    let Some(folder) = lab() else { return };
    if runnable(folder.path(), &["ext4"]).is_empty() {
        return;
    }
    let output = fsdyno(folder.path(), &["run", "dirops", "--fs", "reiser4", "--out", "out"]);
    let text = stderr(&output);
    assert_eq!(code(&output), 3, "{text}");
    let tools = text.contains("apt-get install reiser4progs");
    assert!(tools || text.contains("--kernel IMAGE:MODULES"), "{text}");
}

#[test]
fn the_list_says_of_each_whether_and_if_not_what_would_bring_it() {
    let folder = tempfile::tempdir().unwrap();
    let text = stdout(&fsdyno(folder.path(), &["list", "filesystems"]));
    let json = fsdyno(folder.path(), &["list", "filesystems", "--format", "json"]);
    let rows: Value = serde_json::from_slice(&json.stdout).unwrap();
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.len(), fsdyno_filesystem::catalog::names().len());
    for row in rows {
        let name = row["name"].as_str().unwrap();
        assert!(text.lines().any(|line| line.starts_with(name)), "{text}");
        for (place, words) in [("lab", "in the lab"), ("host", "on this host")] {
            let (can, why, cure) = (&row[place]["can"], &row[place]["why"], &row[place]["cure"]);
            if can == false {
                assert!(why.is_string() && cure.is_string(), "{row}");
                assert!(text.contains(&format!("{name} {words}: ")), "{text}");
            }
        }
    }
    let reiser4 = rows.iter().find(|row| row["name"] == "reiser4").unwrap();
    assert_eq!(reiser4["lab"]["can"], false);
}

#[test]
fn what_cannot_be_meant_is_told_before_any_work() {
    let folder = tempfile::tempdir().unwrap();
    for (spec, exit, expected) in [
        ("overlayfs", 2, "write what it lies over, as in 'overlayfs:ext4 -I 256'"),
        ("overlayfs:vfat", 2, "overlayfs refuses a file system whose names know no case"),
        ("fuse: x {device}", 2, "does not say where: {mount}"),
        ("tmpfs -I 128", 2, "is for an mkfs, and tmpfs has none"),
        ("vfat", 0, "skipped: workload 'maildir' cannot run on vfat: names of a Maildir"),
        ("overlayfs,volatile:ext4 -I 128 @ noatime", 0, "mount: -t overlay -o volatile"),
        ("fuse2fs @ kernel_cache", 0, "mount: fuse2fs {device} {mount} -f -o kernel_cache"),
    ] {
        let output = fsdyno(folder.path(), &["run", "maildir", "--fs", spec, "--dry-run"]);
        let text = format!("{}{}", stdout(&output), stderr(&output));
        assert_eq!(code(&output), exit, "{spec}: {text}");
        assert!(text.contains(expected), "{spec}: {text}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
