//! File systems that are not simply made on a device and mounted by the kernel, and those newer than
//! the classical seven: each with three workloads in the lab, twice, and in `fsdyno list`.
//!
//! `FSDYNO_TEST=full` (`make test-full`) runs all of them, otherwise only the two that differ most from the others.
#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

use std::path::Path;
use std::process::Output;

use crate::common::lab::{self, main_program, runnable, trials};
use crate::common::specs::{ROWS, Row, clean};
use crate::common::{code, full, stderr, stdout};
use serde_json::Value;

/// The workloads, and the values of their parameters.
const WORK: [(&str, &str); 3] = [
    ("postmark", "postmark.number=60 --set postmark.transactions=120"),
    ("dirops", "dirops.files=100"),
    ("fdtree", "fdtree.levels=2 --set fdtree.dirs=2 --set fdtree.files=3"),
];

fn fsdyno(folder: &Path, args: &str) -> Output {
    lab::fsdyno(main_program(), folder, args).output().unwrap()
}

/// Runs the workloads on all rows and asserts that every trial succeeds. Returns the trials and, sorted, the measured
/// bytes.
fn run(
    folder: &Path,
    out: &str,
    rows: &[&Row],
    work: &[(&str, &str)],
) -> (Vec<Value>, Vec<(String, String)>) {
    let names: Vec<&str> = work.iter().map(|(name, _)| *name).collect();
    let values: Vec<String> = work.iter().map(|(_, values)| format!("--set {values}")).collect();
    let specs: Vec<String> = rows.iter().map(|row| format!("--fs '{}'", row.spec)).collect();
    let output = lab::run(
        folder,
        &format!(
            "{} {} --jobs 2 {} --out {out}",
            names.join(" "),
            values.join(" "),
            specs.join(" ")
        ),
    );
    assert_eq!(code(&output), 0, "{}\n{}", stdout(&output), stderr(&output));
    let text = std::fs::read_to_string(folder.join(out).join("trials.ndjson")).unwrap();
    let trials = trials(&folder.join(out));
    assert_eq!(trials.len(), work.len() * rows.len());
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
fn newer_file_systems_are_verified_checked_and_bit_identical() {
    let Some(folder) = lab::lab() else { return };
    // The tests of options.rs suffice for the other rows.
    let later = ROWS.iter().filter(|row| !row.is_classical() && row.kernel.is_none());
    let rows = runnable(later.filter(|row| full() || row.ci));
    if rows.is_empty() {
        return;
    }
    let (trials, first) = run(folder.path(), "one", &rows, &WORK);
    let (_, second) = run(folder.path(), "two", &rows, &WORK[..if full() { 3 } else { 1 }]);
    assert!(!second.is_empty());
    for two in &second {
        assert!(first.contains(two), "two runs of {} differ", two.0);
    }
    for trial in &trials {
        let label = trial["plan"]["label"].as_str().unwrap();
        let row = rows.iter().find(|row| row.label() == label).unwrap();
        assert_eq!(crate::options::differences(row, trial), [""; 0], "{label}");
        let (measured, conditions) = (&trial["measured"], &trial["conditions"]);
        let phases = measured["phases"].as_array().unwrap();
        assert_eq!(measured["verify"]["problems"], 0, "{trial}");
        // A file system without a check has a note that says so.
        assert_ne!(clean(trial), Some(false), "{trial}");
        let fuse = label.starts_with("fuse");
        assert_eq!(conditions["userspace"].as_bool(), fuse.then_some(true), "{label}");
        let used_cpu = |phase: &Value| phase["kernel_cpu_ns"]["fuse"].as_u64() > Some(0);
        assert_eq!(phases.iter().all(used_cpu), fuse, "{label}: the process's CPU time");
        // `durable` is shown only if it is known.
        let durable = phases.iter().all(|phase| phase["durable_ns"].is_u64());
        let never = ["tmpfs", "fuse", "volatile"].iter().any(|word| label.contains(word));
        assert!(durable != never, "{trial}");
        assert_eq!(label.starts_with("overlayfs"), conditions["below"].is_string(), "{label}");
        assert_eq!(label.contains("tmpfs"), measured["phases"][0]["device"].is_null(), "{label}");
    }
}

#[test]
fn file_systems_that_no_kernel_has_are_skipped_with_a_remedy() {
    let Some(folder) = lab::lab() else { return };
    let output = lab::run(folder.path(), "dirops --fs reiser4 --out out");
    let text = stderr(&output);
    assert_eq!(code(&output), 3, "{text}");
    let tools = text.contains("apt-get install reiser4progs");
    assert!(tools || text.contains("--kernel IMAGE:MODULES"), "{text}");
}

#[test]
fn the_list_has_a_remedy_for_each_file_system_that_cannot_run() {
    let folder = tempfile::tempdir().unwrap();
    let text = stdout(&fsdyno(folder.path(), "list filesystems"));
    let json = fsdyno(folder.path(), "list filesystems --format json");
    let rows: Value = serde_json::from_slice(&json.stdout).unwrap();
    let rows = rows.as_array().unwrap();
    let models: Vec<&str> = rows
        .iter()
        .filter(|row| row["model"] == true && row["lies_on"] == "a model in this program")
        .map(|row| row["name"].as_str().unwrap())
        .collect();
    assert_eq!(models, ["classic-ext2", "cached-ext2", "indexed-ext2"]);
    assert_eq!(rows.len(), fsdyno_filesystem::catalog::names().len() + models.len());
    for row in rows {
        let name = row["name"].as_str().unwrap();
        assert!(text.lines().any(|line| line.starts_with(name)), "{text}");
        for (place, location) in [("lab", "in the lab"), ("host", "on this host")] {
            let (can, why, cure) = (&row[place]["can"], &row[place]["why"], &row[place]["cure"]);
            if can == false {
                assert!(why.is_string() && cure.is_string(), "{row}");
                // A reason that is the same for both is listed once.
                let lines = [format!("{name} {location}: "), format!("  {name}: ")];
                assert!(lines.iter().any(|line| text.contains(line)), "{text}");
            }
        }
    }
    let row_of = |name: &str| rows.iter().find(|row| row["name"] == name).unwrap();
    assert_eq!(row_of("reiser4")["lab"]["can"], false);
    assert_eq!(row_of("classic-ext2")["lab"]["cure"], "--on model");
    let root = rustix::process::geteuid().is_root();
    assert_eq!(row_of("raw")["host"]["can"], root, "{}", row_of("raw"));
}

#[test]
fn invalid_specs_are_refused_before_any_work() {
    let folder = tempfile::tempdir().unwrap();
    for (spec, exit, expected) in [
        ("overlayfs", 2, "write the lower file system, as in 'overlayfs:ext4 -I 256'"),
        ("overlayfs:vfat", 2, "overlayfs refuses a file system with case-insensitive names"),
        ("fuse: x {device}", 2, "does not contain {mount}"),
        ("fuse: ./x {device} {mount}", 2, "write a name found in PATH, or an absolute path"),
        ("fuse: /proc/x {device} {mount}", 2, "cannot be copied into the lab's guest"),
        ("tmpfs -I 128", 2, "is an mkfs option, and tmpfs has no mkfs"),
        ("vfat", 2, "workload 'maildir' cannot run on vfat: names of a Maildir"),
        ("overlayfs,volatile:ext4 -I 128 @ noatime", 0, "mount: -t overlay -o volatile"),
        ("fuse2fs @ kernel_cache", 0, "mount: fuse2fs {device} {mount} -f -o kernel_cache"),
    ] {
        let output = fsdyno(folder.path(), &format!("run maildir --fs '{spec}' --dry-run"));
        let text = format!("{}{}", stdout(&output), stderr(&output));
        assert_eq!(code(&output), exit, "{spec}: {text}");
        assert!(text.contains(expected), "{spec}: {text}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_model_is_shown_as_a_model() {
    let folder = tempfile::tempdir().unwrap();
    let text = stdout(&fsdyno(folder.path(), "show filesystem classic-ext2"));
    for part in ["a model in this program, no kernel", "--on model --fs classic-ext2", "-b SIZE"] {
        assert!(text.contains(part), "{text}");
    }
    let shown = fsdyno(folder.path(), "show filesystem indexed-ext2 --format json");
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!((&shown["model"], &shown["index"]), (&true.into(), &true.into()));
    let misspelt = fsdyno(folder.path(), "show filesystem clasic-ext2");
    assert!(stderr(&misspelt).contains("did you mean 'classic-ext2'"), "{}", stderr(&misspelt));
}
