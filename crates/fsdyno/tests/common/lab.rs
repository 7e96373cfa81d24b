//! Helpers of tests that run the lab.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use fsdyno_lab::Cache;
use serde_json::Value;

use super::full;
use super::specs::{BUILT, Row};

/// Words as a shell would split them: at spaces, but for what stands in single quotes.
pub fn split(words: &str) -> Vec<&str> {
    let parts = words.split('\'').enumerate();
    parts
        .flat_map(
            |(at, part)| if at % 2 == 1 { vec![part] } else { part.split_whitespace().collect() },
        )
        .collect()
}

/// A program with these words, in a folder, with the user's own cache.
pub fn fsdyno(program: &Path, folder: &Path, words: &str) -> Command {
    let mut command = Command::new(program);
    command
        .current_dir(folder)
        .stdin(Stdio::null())
        // The kernel is found once, in the user's own cache, and every test uses that.
        .env("XDG_CACHE_HOME", Cache::of_user().unwrap().path().parent().unwrap())
        .args(split(words));
    command
}

/// The main program. `make build` builds the same one.
pub fn ours() -> &'static Path {
    Path::new(super::PROGRAM)
}

/// The agent that it runs.
pub fn agent() -> PathBuf {
    let named = std::env::var_os("FSDYNO_AGENT").map(PathBuf::from);
    named.unwrap_or_else(|| ours().with_file_name("fsdyno-agent"))
}

/// A folder for a test, or none, said aloud, where the lab cannot run.
pub fn lab() -> Option<tempfile::TempDir> {
    static MISSING: OnceLock<Option<String>> = OnceLock::new();
    let missing = MISSING.get_or_init(|| {
        let seen = fsdyno(ours(), Path::new("/"), "doctor").output().unwrap();
        (!seen.status.success()).then(|| String::from_utf8_lossy(&seen.stdout).into_owned())
    });
    match missing {
        None => Some(tempfile::tempdir().unwrap()),
        Some(why) => {
            assert!(
                std::env::var_os("CI").is_none(),
                "CI has to run the lab; here it lacks\n{why}"
            );
            skipped("the lab cannot run here; fsdyno doctor says why");
            None
        }
    }
}

/// The rows whose file systems the lab can run here; the others are reported.
pub fn runnable(rows: impl Iterator<Item = &'static Row>) -> Vec<&'static Row> {
    let listed = fsdyno(ours(), Path::new("/"), "list filesystems --format json").output().unwrap();
    let listed: Vec<Value> = serde_json::from_slice(&listed.stdout).unwrap();
    let missing = |name: &String| {
        let row = listed.iter().find(|row| row["name"] == name.as_str()).unwrap();
        (row["lab"]["can"] != true).then(|| row["lab"]["cure"].to_string())
    };
    let kernels = fsdyno(ours(), Path::new("/"), "list kernels --format json").output().unwrap();
    let kernels: Vec<Value> = serde_json::from_slice(&kernels.stdout).unwrap();
    let is_here = |kernel: &str| {
        let mut releases = kernels.iter().map(|it| it["release"].as_str().unwrap());
        let (from, named) = (format!("{kernel}."), format!("-{kernel}"));
        releases.any(|it| it == kernel || it.starts_with(&from) || it.ends_with(&named))
    };
    let can = |row: &&Row| {
        let missing = match row.kernel {
            Some(BUILT) if !is_here(BUILT) => Some(format!("fsdyno kernel build {BUILT}")),
            Some(kernel) if full() || is_here(kernel) => no_tools(row),
            Some(kernel) => Some(format!("a download of the kernel {kernel} (make test-full)")),
            None => row.parts().iter().find_map(missing),
        };
        missing.iter().for_each(|cure| skipped(&format!("'{}' needs {cure}", row.spec)));
        missing.is_none()
    };
    rows.filter(can).collect()
}

/// The package of a tool that a row needs and the host does not have.
fn no_tools(row: &Row) -> Option<String> {
    let kind = fsdyno_filesystem::catalog::get(row.kind()).unwrap();
    let missing = kind.tools.iter().any(|tool| fsdyno_lab::find_program(tool).is_err());
    match kind.downloaded.is_empty() {
        true => missing.then(|| format!("apt-get install {}", kind.package)),
        false => (missing && !full()).then(|| "a download of its tools (make test-full)".into()),
    }
}

/// Says so past the harness, which keeps to itself what a test that passed has printed.
pub fn skipped(why: &str) {
    let test = std::thread::current().name().unwrap_or_default().to_string();
    let _ = writeln!(std::io::stderr(), "skipped {test}: {why}");
}

/// `fsdyno run` to its end.
pub fn run(folder: &Path, words: &str) -> std::process::Output {
    fsdyno(ours(), folder, &format!("run {words}")).output().unwrap()
}

/// The records of a result folder.
pub fn trials(results: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(results.join("trials.ndjson")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The bytes of `measured` in each line, by trial.
pub fn measured(results: &Path) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(results.join("trials.ndjson")).unwrap();
    let mut all: Vec<(String, String)> = text
        .lines()
        .map(|line| {
            let trial: Value = serde_json::from_str(line).unwrap();
            assert_eq!(trial["outcome"], "ok", "{}", trial["reason"]);
            let id = format!("{} {}", trial["trial_id"], trial["lab_id"]);
            let (_, rest) = line.split_once("\"measured\":").unwrap();
            (id, rest.split_once(",\"host\":").unwrap().0.to_string())
        })
        .collect();
    all.sort();
    all
}
