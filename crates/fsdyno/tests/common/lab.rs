//! Helpers for tests that run the lab.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use fsdyno_lab::Cache;
use serde_json::Value;

use super::full;
use super::specs::{BUILT, Row};

/// Splits a command line as a shell would: at whitespace, except within single quotes.
pub fn split(line: &str) -> Vec<&str> {
    let parts = line.split('\'').enumerate();
    parts
        .flat_map(
            |(index, part)| {
                if index % 2 == 1 { vec![part] } else { part.split_whitespace().collect() }
            },
        )
        .collect()
}

/// Returns a command that runs a program with these arguments, in a folder, with the user's own cache.
pub fn fsdyno(program: &Path, folder: &Path, args: &str) -> Command {
    let mut command = Command::new(program);
    command
        .current_dir(folder)
        .stdin(Stdio::null())
        // The kernel is in the user's own cache, so that it is downloaded once for all tests.
        .env("XDG_CACHE_HOME", Cache::of_user().unwrap().path().parent().unwrap())
        .args(split(args));
    command
}

/// Returns the path of the main program, the one that `make build` builds.
pub fn main_program() -> &'static Path {
    Path::new(super::PROGRAM)
}

/// Returns the path of the agent that the program runs.
pub fn agent() -> PathBuf {
    let path = std::env::var_os("FSDYNO_AGENT").map(PathBuf::from);
    path.unwrap_or_else(|| main_program().with_file_name("fsdyno-agent"))
}

/// Returns a folder for a test; if the lab cannot run, prints that the test is skipped and returns `None`.
pub fn lab() -> Option<tempfile::TempDir> {
    static MISSING: OnceLock<Option<String>> = OnceLock::new();
    let missing = MISSING.get_or_init(|| {
        let output = fsdyno(main_program(), Path::new("/"), "doctor").output().unwrap();
        (!output.status.success()).then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    });
    match missing {
        None => Some(tempfile::tempdir().unwrap()),
        Some(missing) => {
            assert!(
                std::env::var_os("CI").is_none(),
                "CI must be able to run the lab; fsdyno doctor reports:\n{missing}"
            );
            skipped("the lab cannot run here; fsdyno doctor reports why");
            None
        }
    }
}

/// Returns the rows whose file systems the lab can run here; reports the others.
pub fn runnable(rows: impl Iterator<Item = &'static Row>) -> Vec<&'static Row> {
    let listed =
        fsdyno(main_program(), Path::new("/"), "list filesystems --format json").output().unwrap();
    let listed: Vec<Value> = serde_json::from_slice(&listed.stdout).unwrap();
    let missing = |name: &String| {
        let row = listed.iter().find(|row| row["name"] == name.as_str()).unwrap();
        (row["lab"]["can"] != true).then(|| row["lab"]["cure"].to_string())
    };
    let kernels =
        fsdyno(main_program(), Path::new("/"), "list kernels --format json").output().unwrap();
    let kernels: Vec<Value> = serde_json::from_slice(&kernels.stdout).unwrap();
    let is_available = |kernel: &str| {
        let mut releases = kernels.iter().map(|kernel| kernel["release"].as_str().unwrap());
        let (prefix, suffix) = (format!("{kernel}."), format!("-{kernel}"));
        releases.any(|release| {
            release == kernel || release.starts_with(&prefix) || release.ends_with(&suffix)
        })
    };
    let is_runnable = |row: &&Row| {
        let missing = match row.kernel {
            Some(BUILT) if !is_available(BUILT) => Some(format!("fsdyno kernel build {BUILT}")),
            Some(kernel) if full() || is_available(kernel) => install_hint(row),
            Some(kernel) => Some(format!("a download of the kernel {kernel} (make test-full)")),
            None => row.parts().iter().find_map(missing),
        };
        missing.iter().for_each(|remedy| skipped(&format!("'{}' needs {remedy}", row.spec)));
        missing.is_none()
    };
    rows.filter(is_runnable).collect()
}

/// Returns how to install the tools that a row needs, if any is missing.
fn install_hint(row: &Row) -> Option<String> {
    let kind = fsdyno_filesystem::catalog::get(row.kind()).unwrap();
    let missing = kind.tools.iter().any(|tool| fsdyno_lab::find_program(tool).is_err());
    match kind.downloaded.is_empty() {
        true => missing.then(|| format!("apt-get install {}", kind.package)),
        false => (missing && !full()).then(|| "a download of its tools (make test-full)".into()),
    }
}

/// Prints why a test is skipped, bypassing the test harness, which hides the output of tests that pass.
pub fn skipped(reason: &str) {
    let test = std::thread::current().name().unwrap_or_default().to_string();
    let _ = writeln!(std::io::stderr(), "skipped {test}: {reason}");
}

/// Returns the boot mode of tests that do not test the boot: normally from a snapshot, which takes a third of the CPU
/// time of a cold boot; full tests boot cold, which is the default for users.
pub fn boot() -> &'static str {
    if full() { "--boot cold" } else { "--boot snapshot" }
}

/// Returns the size of file systems in tests that do not test sizes: making and checking one of 32 GiB, the default, takes
/// longer than the work of most tests. From 512 MiB on, mke2fs uses blocks of 4 KiB, as for a large file system. The long
/// tests use the default.
pub fn size() -> &'static str {
    if full() { "" } else { "--size 512M" }
}

/// Runs `fsdyno run` to completion in the usual boot mode ([`boot`]) and with the usual size ([`size`]), unless the
/// arguments specify others.
pub fn run(folder: &Path, args: &str) -> std::process::Output {
    let boot = if args.contains("--boot ") { "" } else { boot() };
    let size = if args.contains("--size ") { "" } else { size() };
    fsdyno(main_program(), folder, &format!("run {args} {boot} {size}")).output().unwrap()
}

/// Returns the records of a result folder.
pub fn trials(results: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(results.join("trials.ndjson")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the bytes of `measured` in each line, sorted by trial.
pub fn measured(results: &Path) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(results.join("trials.ndjson")).unwrap();
    let mut pairs: Vec<(String, String)> = text
        .lines()
        .map(|line| {
            let trial: Value = serde_json::from_str(line).unwrap();
            assert_eq!(trial["outcome"], "ok", "{}", trial["reason"]);
            let id = format!("{} {}", trial["trial_id"], trial["lab_id"]);
            let (_, tail) = line.split_once("\"measured\":").unwrap();
            (id, tail.split_once(",\"host\":").unwrap().0.to_string())
        })
        .collect();
    pairs.sort();
    pairs
}
