//! Helpers of tests of the command line.
#![allow(dead_code, reason = "each test file uses its own part of it")]
#![allow(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

pub mod lab;
pub mod specs;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A study in the model, which needs neither kernel nor QEMU.
pub const STUDY: &str = r#"
title = "A study of a test"
question = "Does it run?"
source = "A test"

[[run]]
name = "once"
workload = "dirops"
on = "model"
size = "64M"
set = { files = 30 }
fs = { indexed = "indexed-ext2" }
"#;

/// The program, with an environment of its own and nobody at the keyboard.
pub fn fsdyno(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fsdyno"));
    command
        .current_dir(folder)
        .stdin(Stdio::null())
        .env("COLUMNS", "100")
        .env("XDG_CACHE_HOME", folder.join("cache"))
        .env_remove("NO_COLOR");
    command
}

/// The main program. `make build` builds the same one.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_fsdyno");

/// Tests whether the lab can run here. If not, fails with CI set, else prints the reason past the harness.
pub fn can_run_the_lab() -> bool {
    let mut doctor = Command::new(PROGRAM);
    doctor
        .arg("doctor")
        .env("XDG_CACHE_HOME", fsdyno_lab::Cache::of_user().unwrap().path().parent().unwrap());
    let seen = doctor.current_dir("/").output().unwrap();
    if seen.status.success() {
        return true;
    }
    assert!(std::env::var_os("CI").is_none(), "CI has to run the lab:\n{}", stdout(&seen));
    let test = std::thread::current().name().unwrap_or_default().to_string();
    let _ =
        writeln!(std::io::stderr(), "skipped {test}: the lab cannot run here; see fsdyno doctor");
    false
}

/// Tests whether the long tests are requested.
pub fn full() -> bool {
    std::env::var("FSDYNO_TEST").is_ok_and(|which| which == "full")
}

/// Says past the harness why a test does not run.
pub fn skipped(why: &str) -> bool {
    let test = std::thread::current().name().unwrap_or_default().to_string();
    let _ = writeln!(std::io::stderr(), "skipped {test}: {why}");
    false
}

/// Tests whether a program is in the search path, or where programs of administrators are.
pub fn is_installed(program: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let admin = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&folders).chain(admin).any(|folder| folder.join(program).exists())
}

/// Runs it with words as a shell would split them (no quoting).
pub fn run(folder: &Path, words: &str) -> Output {
    fsdyno(folder).args(words.split_whitespace()).output().unwrap()
}

/// Tests whether loop devices and mounts work here; if not, prints the reason past the harness.
pub fn can_mount() -> bool {
    let made = fsdyno_record::plan::EphemeralSize::parse("loop:1M").unwrap().unwrap();
    let made = fsdyno_media::EphemeralMedium::from(made);
    let allowed = made.check_privileges();
    if let Err(error) = &allowed {
        let test = std::thread::current().name().unwrap_or_default().to_string();
        let _ = writeln!(std::io::stderr(), "skipped {test}: {error}");
    }
    allowed.is_ok()
}

/// The records of a result folder.
pub fn records(results: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(results.join("trials.ndjson")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A folder as `fsdyno crash` would leave it: the plan of a result's first trial, two file systems with two
/// cuts each, the second with this label and a violation.
pub fn crashed(folder: &Path, of: &str, label: &str, to: &str) -> serde_json::Value {
    let plan = records(&folder.join(of)).remove(0)["plan"].take();
    let tried = |number: u64, lost: u64| {
        serde_json::json!({
            "cut": {"number": number, "after": 3, "at": 9, "moment": "between", "choice": "all"},
            "recovery": {"index": number, "mount_ns": 12_000_000},
            "findings": {
                "acknowledged_lost": lost, "acknowledged_names": 0, "files_lost": 1, "files_empty": 0,
                "files_stale": 0, "names_lost": 0, "names_doubled": 0, "names_back": 0,
                "lost_ns": 5_000_000_000u64, "examples": [label]
            }
        })
    };
    let row = |label: &str, lost: u64| {
        serde_json::json!({
            "crash": 1, "label": label, "plan": plan, "seed": 1, "disk": "honest", "lab_id": null,
            "rate": {"phase": "create", "unit": "files", "per_second": 48.04},
            "tried": [tried(0, 0), tried(1, lost)]
        })
    };
    let rows = serde_json::json!([row("ext4", 0), row(label, 2)]);
    std::fs::create_dir(folder.join(to)).unwrap();
    std::fs::write(folder.join(to).join("crash.json"), rows.to_string()).unwrap();
    rows
}

/// Its exit code.
pub fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or(-1)
}

/// The text on stderr.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The text on stdout.
pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Waits until something is so. The limit is there to end a broken test, not to measure.
pub fn wait_until(what: &str, so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !so() {
        assert!(begin.elapsed() < Duration::from_secs(120), "{what} never came");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The subdirectories that fsdyno made and has not removed.
pub fn ours(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    let ours = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".fsdyno-"))
    };
    entries.filter(ours).collect()
}

/// Whole lines of a result folder.
pub fn lines(results: &Path) -> usize {
    let text = std::fs::read_to_string(results.join("trials.ndjson")).unwrap_or_default();
    text.matches('\n').count()
}

/// The plans of a dry run with these words, which may lack QEMU or a kernel here.
pub fn plans(folder: &Path, words: &str) -> Vec<Value> {
    let output = run(folder, &format!("{words} --dry-run --format json"));
    assert!([0, 3].contains(&code(&output)), "{words}: {}", stderr(&output));
    let value: Value = serde_json::from_str(&stdout(&output)).unwrap_or_default();
    let cells = value["cells"].as_array().cloned().unwrap_or_default();
    assert!(!cells.is_empty(), "{words}: {}", stdout(&output));
    cells.iter().map(|cell| cell["plan"].clone()).collect()
}
