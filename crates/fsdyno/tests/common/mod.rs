//! Helpers of tests of the command line.
#![allow(dead_code, reason = "each test file uses only some of the helpers")]
#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

pub mod lab;
pub mod ranks;
pub mod specs;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A study on the model, which needs neither a kernel nor QEMU.
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

/// Links the user's kernels, if there are any, into the cache of [`fsdyno`]: without a kernel, each plan for the lab reads
/// all package lists of the host to find one, which takes longer than the rest of a dry run.
pub fn link_kernels(folder: &Path) {
    let cache = folder.join("cache/fsdyno");
    let of_user = fsdyno_lab::Cache::of_user().unwrap().path().to_path_buf();
    for part in ["kernels", "vmlinux"] {
        if of_user.join(part).is_dir() && !cache.join(part).exists() {
            std::fs::create_dir_all(&cache).unwrap();
            std::os::unix::fs::symlink(of_user.join(part), cache.join(part)).unwrap();
        }
    }
}

/// Writes times into the cache of [`fsdyno`]: for each kind of trial, the seconds of a trial, whatever its size is and
/// whatever else runs on this host.
pub fn write_speeds(folder: &Path, times: &[(&str, f64)]) {
    let pace = |(kind, seconds): &(&str, f64)| {
        let sample = serde_json::json!({
            "ops": 1.0, "seconds": seconds, "fixed": seconds, "computed": 0.0, "load": 1.0,
        });
        let pace = serde_json::json!({ "trials": 3, "samples": [sample], "form": 3 });
        (kind.to_string(), pace)
    };
    let speeds: serde_json::Map<String, serde_json::Value> = times.iter().map(pace).collect();
    let cache = folder.join("cache/fsdyno");
    std::fs::create_dir_all(&cache).unwrap();
    std::fs::write(cache.join("speed.json"), serde_json::to_string(&speeds).unwrap()).unwrap();
}

/// Returns a command that runs the program with a cache of its own and without input.
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

/// The path of the main program, the one that `make build` builds.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_fsdyno");

/// Tests whether the lab can run here. If not, fails with CI set, else prints the reason, bypassing the test harness.
pub fn can_run_the_lab() -> bool {
    let mut doctor = Command::new(PROGRAM);
    doctor
        .arg("doctor")
        .env("XDG_CACHE_HOME", fsdyno_lab::Cache::of_user().unwrap().path().parent().unwrap());
    let output = doctor.current_dir("/").output().unwrap();
    if output.status.success() {
        return true;
    }
    assert!(std::env::var_os("CI").is_none(), "CI has to run the lab:\n{}", stdout(&output));
    let test = std::thread::current().name().unwrap_or_default().to_string();
    let _ =
        writeln!(std::io::stderr(), "skipped {test}: the lab cannot run here; see fsdyno doctor");
    false
}

/// Tests whether the long tests are requested.
pub fn full() -> bool {
    std::env::var("FSDYNO_TEST").is_ok_and(|value| value == "full")
}

/// Prints why a test does not run, bypassing the test harness, and returns false.
pub fn skipped(reason: &str) -> bool {
    let test = std::thread::current().name().unwrap_or_default().to_string();
    let _ = writeln!(std::io::stderr(), "skipped {test}: {reason}");
    false
}

/// Tests whether a program is in the search path or in a folder of system programs.
pub fn is_installed(program: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&folders).chain(system).any(|folder| folder.join(program).exists())
}

/// Runs the program with arguments split at blanks (no quoting).
pub fn run(folder: &Path, args: &str) -> Output {
    fsdyno(folder).args(args.split_whitespace()).output().unwrap()
}

/// Tests whether loop devices and mounts work here; if not, prints the reason, bypassing the test harness.
pub fn can_mount() -> bool {
    let size = fsdyno_record::plan::EphemeralSize::parse("loop:1M").unwrap().unwrap();
    let medium = fsdyno_media::EphemeralMedium::from(size);
    let allowed = medium.check_privileges();
    if let Err(error) = &allowed {
        let test = std::thread::current().name().unwrap_or_default().to_string();
        let _ = writeln!(std::io::stderr(), "skipped {test}: {error}");
    }
    allowed.is_ok()
}

/// Returns the records of a result folder.
pub fn records(results: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(results.join("trials.ndjson")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Makes a folder like one of `fsdyno crash`, with the plan of a result's first trial: two file systems with two cuts
/// each, of which the second has this label and a violation. Returns its rows.
pub fn crashed(folder: &Path, of: &str, label: &str, to: &str) -> serde_json::Value {
    let plan = records(&folder.join(of)).remove(0)["plan"].take();
    let cut_result = |number: u64, lost: u64| {
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
            "tried": [cut_result(0, 0), cut_result(1, lost)]
        })
    };
    let rows = serde_json::json!([row("ext4", 0), row(label, 2)]);
    std::fs::create_dir(folder.join(to)).unwrap();
    std::fs::write(folder.join(to).join("crash.json"), rows.to_string()).unwrap();
    rows
}

/// Returns the exit code.
pub fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or(-1)
}

/// Returns the text on stderr.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns the text on stdout.
pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Waits until a condition holds. The time limit only ends a broken test; it measures nothing.
pub fn wait_until(event: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(120), "timeout while waiting for: {event}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the subdirectories that fsdyno made and has not removed.
pub fn leftover_folders(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    let is_leftover = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".fsdyno-"))
    };
    entries.filter(is_leftover).collect()
}

/// Returns the number of complete lines in the records of a result folder.
pub fn lines(results: &Path) -> usize {
    let text = std::fs::read_to_string(results.join("trials.ndjson")).unwrap_or_default();
    text.matches('\n').count()
}

/// Returns the plans of a dry run with these arguments; QEMU or a kernel may be missing here.
pub fn plans(folder: &Path, args: &str) -> Vec<Value> {
    link_kernels(folder);
    let output = run(folder, &format!("{args} --dry-run --format json"));
    assert!([0, 3].contains(&code(&output)), "{args}: {}", stderr(&output));
    let value: Value = serde_json::from_str(&stdout(&output)).unwrap_or_default();
    let cells = value["cells"].as_array().cloned().unwrap_or_default();
    assert!(!cells.is_empty(), "{args}: {}", stdout(&output));
    cells.iter().map(|cell| cell["plan"].clone()).collect()
}
