//! SIGKILL at random moments: no mount, loop device, process or folder is left, and only fsdyno's own
//! files have changed. 12 kills; 200 with FSDYNO_TEST=full.

#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

mod common;

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use common::{
    PROGRAM, can_mount, can_run_the_lab, code, full, leftover_folders, stderr, wait_until,
};
use fsdyno_media::loops;
use fsdyno_record::seed::{SplitMix64, stream};

/// The processes to kill.
const VICTIMS: [&str; 3] = ["the process alone", "its process group", "all processes at once"];

/// Folders for all paths that fsdyno uses, each with some user files.
struct Sandbox {
    base: tempfile::TempDir,
    before: BTreeMap<PathBuf, (Vec<u8>, i64, u32)>,
    token: String,
    random: SplitMix64,
}

impl Sandbox {
    fn new(name: &str) -> Sandbox {
        let base = tempfile::tempdir().unwrap();
        for folder in ["target/deep", "out", "tmp", "home"] {
            let folder = base.path().join(folder);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("thesis"), format!("years of work {name}")).unwrap();
            std::os::unix::fs::symlink("thesis", folder.join("link")).unwrap();
        }
        let token = format!("FSDYNO_TEST_{}_{name}", std::process::id());
        let before = tree(base.path());
        Sandbox { base, before, token, random: stream(1, name) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.base.path().join(name)
    }

    /// Starts a long run.
    fn start(&self, args: &[&str]) -> Child {
        Command::new(PROGRAM)
            .current_dir(self.path("home"))
            .args(["run", "dirops", "--repeat", "5000", "--out"])
            .arg(self.path("out/r"))
            .args(args)
            .env("HOME", self.path("home"))
            .env("TMPDIR", self.path("tmp"))
            .env("XDG_CACHE_HOME", fsdyno_lab::Cache::of_user().unwrap().path().parent().unwrap())
            .env(&self.token, "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap()
    }

    /// Starts a run, kills it at a random moment within this number of milliseconds, and waits until its processes and
    /// loop devices are gone. Returns a description of the kill.
    fn kill(&mut self, args: &[&str], within: u64) -> String {
        let mut child = self.start(args);
        let (moment, victim) = (self.random.below(within), self.random.below(3) as usize);
        std::thread::sleep(Duration::from_millis(moment));
        let pid = child.id() as i32;
        match victim {
            0 => kill(pid),
            1 => kill(-pid),
            _ => self.processes().into_iter().for_each(kill),
        }
        child.wait().unwrap();
        let description = format!("{args:?}: {} killed after {moment} ms", VICTIMS[victim]);
        wait_until(&format!("all processes to exit ({description})"), || {
            self.processes().is_empty()
        });
        // The kernel removes a namespace a moment after its last process has exited.
        wait_until(&format!("the loop devices to be detached ({description})"), || {
            loops::marked().iter().all(|left| left.mark.pid != pid)
        });
        description
    }

    /// Returns the processes with the token in their environment; a zombie has none.
    fn processes(&self) -> Vec<i32> {
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let ours = |pid: &i32| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|word| word.starts_with(self.token.as_bytes()))
        };
        pids.filter(ours).collect()
    }

    /// Removes the results and asserts that nothing else has changed.
    fn assert_unchanged(&self, description: &str) {
        let results = self.path("out/r");
        let known = ["trials.ndjson", "series.ndjson", "report.html", "schedule.json"];
        for entry in std::fs::read_dir(&results).into_iter().flatten().flatten() {
            let name = entry.file_name();
            assert!(known.iter().any(|known| name == *known), "{description} left {name:?}");
        }
        let _ = std::fs::remove_dir_all(&results);
        assert_eq!(tree(self.base.path()), self.before, "{description}");
    }
}

/// `doctor --clean` cleans the whole machine, so tests that leave something wait for those that clean.
static CLEANING: Mutex<()> = Mutex::new(());

fn run_doctor_clean(folder: &Path) -> std::process::Output {
    Command::new(PROGRAM).args(["doctor", "--clean"]).arg(folder).output().unwrap()
}

/// Kills a process, which may already have ended.
fn kill(pid: i32) {
    // SAFETY: kill takes only integers; the PID is that of a process that this test started, or of its child.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

/// Returns every path below a folder with its bytes or link target, its modification time and its mode.
fn tree(folder: &Path) -> BTreeMap<PathBuf, (Vec<u8>, i64, u32)> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let (path, status) = (entry.path(), entry.metadata().unwrap());
        let kind = status.file_type();
        let bytes = match (kind.is_symlink(), kind.is_file()) {
            (true, _) => std::fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec(),
            (_, true) => std::fs::read(&path).unwrap(),
            _ => Vec::new(),
        };
        // A folder's own time changes with what comes and goes in it.
        let time = if kind.is_dir() { 0 } else { status.mtime_nsec() };
        if kind.is_dir() {
            found.extend(tree(&path));
        }
        found.insert(path, (bytes, time, status.mode()));
    }
    found
}

/// Returns the number of kills: `few` normally, `many` in a full test.
fn rounds(few: usize, many: usize) -> usize {
    if full() { many } else { few }
}

#[test]
fn a_kill_leaves_nothing_of_a_run_on_a_loop() {
    if !can_mount() {
        return;
    }
    let mut sandbox = Sandbox::new("loop");
    let media = [
        ["--on", "loop:384M", "--fs", "ext4"],
        ["--on", "loop:384M", "--fs", "xfs"],
        ["--on", "loop:384M", "--fs", "btrfs"],
        ["--on", "ram:384M", "--fs", "ext4 -J device={journal}"],
    ];
    for round in 0..rounds(7, 100) {
        let args = [&media[round % media.len()][..], &["--set", "files=5000"]].concat();
        let description = sandbox.kill(&args, 1500);
        sandbox.assert_unchanged(&description);
    }
}

#[test]
fn a_kill_in_a_directory_leaves_one_marked_folder_that_doctor_removes() {
    let mut sandbox = Sandbox::new("directory");
    let target = sandbox.path("target");
    for _ in 0..rounds(3, 40) {
        let args = ["--on", target.to_str().unwrap(), "--set", "files=5000"];
        let description = sandbox.kill(&args, 800);
        assert!(leftover_folders(&target).len() <= 1, "{description}");
        let _alone = CLEANING.lock().unwrap_or_else(PoisonError::into_inner);
        let output = run_doctor_clean(&target);
        assert_eq!(code(&output), 0, "{description}: {}", stderr(&output));
        sandbox.assert_unchanged(&description);
    }
}

/// A foreign mount holds a loop device after the run.
#[test]
fn leftovers_of_a_kill_are_reported_identified_by_their_mark_and_removed() {
    if !can_mount() {
        return;
    }
    let _alone = CLEANING.lock().unwrap_or_else(PoisonError::into_inner);
    let sandbox = Sandbox::new("left");
    let args = ["--on", "loop:64M", "--fs", "ext4", "--set", "files=9000", "--set", "size=1"];
    let mut child = sandbox.start(&args);
    let pid = child.id() as i32;
    let ours = || loops::marked().into_iter().find(|left| left.mark.pid == pid);
    wait_until("a mount of the trial", || {
        let Some(device) = ours().map(|left| format!(" {} ", left.path.display())) else {
            return false;
        };
        let mounts = |pid: &i32| std::fs::read_to_string(format!("/proc/{pid}/mountinfo"));
        sandbox.processes().iter().any(|pid| mounts(pid).is_ok_and(|text| text.contains(&device)))
    });
    let (mount_point, leftover) = (tempfile::tempdir().unwrap(), ours().unwrap());
    let flags = rustix::mount::MountFlags::empty();
    rustix::mount::mount(&leftover.path, mount_point.path(), "ext4", flags, None).unwrap();
    kill(pid);
    child.wait().unwrap();
    wait_until("all processes to exit", || sandbox.processes().is_empty());
    assert_eq!(ours().as_ref(), Some(&leftover), "the mount keeps the loop device attached");
    let target = sandbox.path("target");
    let args = ["run", "dirops", "--set", "files=9", "--on", ".", "--out", "../out/r"];
    let noted = Command::new(PROGRAM).args(args).current_dir(&target).output().unwrap();
    assert!(stderr(&noted).contains("clean up with: fsdyno doctor --clean"), "{}", stderr(&noted));
    let cleaned = run_doctor_clean(&target);
    assert_eq!(code(&cleaned), 0, "{}", stderr(&cleaned));
    let mount = format!("removed mount {}, left by process {pid}", mount_point.path().display());
    assert!(stderr(&cleaned).contains(&mount), "{}", stderr(&cleaned));
    wait_until("the loop device to be detached", || ours().is_none());
    sandbox.assert_unchanged("cleaning");
}

#[test]
fn a_kill_leaves_nothing_of_a_run_in_the_lab() {
    if !can_run_the_lab() {
        return;
    }
    let mut sandbox = Sandbox::new("lab");
    for _ in 0..rounds(2, 60) {
        let description = sandbox.kill(&["--fs", "ext4", "--set", "files=5000"], 8000);
        sandbox.assert_unchanged(&description);
    }
}
