//! Helpers of tests with several processes that share a trial.

use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Pid;

use super::{code, fsdyno, run, stderr, stdout};

/// Starts a run of `ranks` processes, each as the user's launcher would.
pub fn start(folder: &Path, ranks: u32, args: &str) -> Vec<Child> {
    (0..ranks).map(|rank| start_one(folder, rank, ranks, args)).collect()
}

/// Starts one of these processes.
pub fn start_one(folder: &Path, rank: u32, ranks: u32, args: &str) -> Child {
    fsdyno(folder)
        .args(args.split_whitespace())
        .env("FSDYNO_RANK", rank.to_string())
        .env("FSDYNO_RANKS", ranks.to_string())
        .env("FSDYNO_RUN", "test")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits for all; the output of rank 0 comes first.
pub fn wait(children: Vec<Child>) -> Vec<Output> {
    children.into_iter().map(|child| child.wait_with_output().unwrap()).collect()
}

/// Returns true if nothing is left in a folder.
pub fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().count() == 0
}

/// The folders of a run.
pub struct Place {
    /// The shared directory.
    pub on: tempfile::TempDir,
    /// The folder of the result, and the working directory.
    pub out: tempfile::TempDir,
}

impl Place {
    /// Makes both folders.
    pub fn new() -> Place {
        Place { on: tempfile::tempdir().unwrap(), out: tempfile::tempdir().unwrap() }
    }

    /// Returns the command that runs `rest` there.
    pub fn args(&self, rest: &str) -> String {
        let (on, out) = (self.on.path().display(), self.out.path().display());
        format!("run {rest} --on {on} --out {out}/r --ranks")
    }

    /// Returns the rows of `show ranks`, without the header.
    pub fn rows(&self) -> Vec<String> {
        let shown = run(self.out.path(), "show ranks r --format csv");
        assert_eq!(code(&shown), 0, "{}", stderr(&shown));
        stdout(&shown).lines().skip(1).map(String::from).collect()
    }
}

/// Returns the worker that a process has started.
pub fn worker_of(child: &Child) -> Pid {
    let started = Instant::now();
    loop {
        // The parent of the worker of rank 0 is not the first thread.
        let threads = std::fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
        let children = |thread: std::fs::DirEntry| thread.path().join("children");
        let text: String = threads
            .flatten()
            .map(|thread| std::fs::read_to_string(children(thread)).unwrap_or_default())
            .collect();
        if let Some(pid) = text.split_whitespace().next().and_then(|pid| pid.parse().ok()) {
            return Pid::from_raw(pid).unwrap();
        }
        assert!(started.elapsed() < Duration::from_secs(60), "no worker");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits for the end of a process that is not a child of this test. Returns false after 20 s.
pub fn has_ended(pid: Pid) -> bool {
    let started = Instant::now();
    let runs = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
        stat.is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().starts_with(" Z"))
    };
    while runs() && started.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(10));
    }
    !runs()
}

/// A stand-in for ssh that runs the command here and logs its arguments. Hosts with certain names cannot be reached or
/// hang.
pub const SSH: &str = r#"#!/bin/sh
printf '%s\n' "$@" >> "$LOG"
while [ "$1" != -- ]; do shift; done
case $2 in
lost*) echo "ssh: connect to host $2 port 22: No route to host" >&2; exit 255 ;;
slow*) sleep 1000 ;;
esac
shift 2
exec sh -c "$*"
"#;

/// Starts a run on hosts over the stand-in for ssh. Also returns the path of the log of its arguments.
pub fn start_over_ssh(place: &Place, args: &str) -> (Child, std::path::PathBuf) {
    use std::os::unix::fs::PermissionsExt;
    let bin = place.out.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    std::fs::write(bin.join("ssh"), SSH).unwrap();
    std::fs::set_permissions(bin.join("ssh"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let log = place.out.path().join("log");
    let args = place.args(args);
    let args = args.strip_suffix(" --ranks").unwrap();
    let child = fsdyno(place.out.path())
        .args(args.split_whitespace())
        .env("PATH", path)
        .env("LOG", &log)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    (child, log)
}
