//! SIGKILL at random moments: no mount, loop, process or folder is left, and no file that is not
//! fsdyno's has changed. A dozen kills here; 200 with FSDYNO_TEST=full.

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

use common::{PROGRAM, can_mount, can_run_the_lab, code, full, ours, stderr, wait_until};
use fsdyno_media::loops;
use fsdyno_record::seed::{SplitMix64, stream};

/// The processes to kill.
const VICTIMS: [&str; 3] = ["the process alone", "its process group", "all processes at once"];

/// Folders for all paths that fsdyno uses, each with files of the user.
struct Scene {
    base: tempfile::TempDir,
    before: BTreeMap<PathBuf, (Vec<u8>, i64, u32)>,
    token: String,
    random: SplitMix64,
}

impl Scene {
    fn new(name: &str) -> Scene {
        let base = tempfile::tempdir().unwrap();
        for folder in ["place/deep", "out", "tmp", "home"] {
            let folder = base.path().join(folder);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("thesis"), format!("years of work {name}")).unwrap();
            std::os::unix::fs::symlink("thesis", folder.join("link")).unwrap();
        }
        let token = format!("FSDYNO_TEST_{}_{name}", std::process::id());
        let before = tree(base.path());
        Scene { base, before, token, random: stream(1, name) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.base.path().join(name)
    }

    /// Starts a long run.
    fn start(&self, words: &[&str]) -> Child {
        Command::new(PROGRAM)
            .current_dir(self.path("home"))
            .args(["run", "dirops", "--repeat", "5000", "--out"])
            .arg(self.path("out/r"))
            .args(words)
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
    fn kill(&mut self, words: &[&str], within: u64) -> String {
        let mut child = self.start(words);
        let (moment, victim) = (self.random.below(within), self.random.below(3) as usize);
        std::thread::sleep(Duration::from_millis(moment));
        let pid = child.id() as i32;
        match victim {
            0 => signal(pid),
            1 => signal(-pid),
            _ => self.processes().into_iter().for_each(signal),
        }
        child.wait().unwrap();
        let description = format!("{words:?}: {} killed after {moment} ms", VICTIMS[victim]);
        wait_until(&format!("the end of all processes ({description})"), || {
            self.processes().is_empty()
        });
        // The kernel takes a namespace down a moment after its last process.
        wait_until(&format!("the end of the loops ({description})"), || {
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

fn doctor_cleans(folder: &Path) -> std::process::Output {
    Command::new(PROGRAM).args(["doctor", "--clean"]).arg(folder).output().unwrap()
}

/// Kills a process, which may already have ended.
fn signal(pid: i32) {
    // SAFETY: kill takes numbers, of a process that this test started or of its children.
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

/// The numbers of kills in normal and in full tests.
fn times(few: usize, many: usize) -> usize {
    if full() { many } else { few }
}

#[test]
fn a_kill_leaves_nothing_of_a_run_on_a_loop() {
    if !can_mount() {
        return;
    }
    let mut scene = Scene::new("loop");
    let media = [
        ["--on", "loop:384M", "--fs", "ext4"],
        ["--on", "loop:384M", "--fs", "xfs"],
        ["--on", "loop:384M", "--fs", "btrfs"],
        ["--on", "ram:384M", "--fs", "ext4 -J device={journal}"],
    ];
    for round in 0..times(7, 100) {
        let words = [&media[round % media.len()][..], &["--set", "files=5000"]].concat();
        let description = scene.kill(&words, 1500);
        scene.assert_unchanged(&description);
    }
}

#[test]
fn a_kill_in_a_directory_leaves_one_marked_folder_that_doctor_removes() {
    let mut scene = Scene::new("directory");
    let place = scene.path("place");
    for _ in 0..times(3, 40) {
        let words = ["--on", place.to_str().unwrap(), "--set", "files=5000"];
        let description = scene.kill(&words, 800);
        assert!(ours(&place).len() <= 1, "{description}");
        let _alone = CLEANING.lock().unwrap_or_else(PoisonError::into_inner);
        let output = doctor_cleans(&place);
        assert_eq!(code(&output), 0, "{description}: {}", stderr(&output));
        scene.assert_unchanged(&description);
    }
}

/// A foreign mount holds a loop device after the run.
#[test]
fn leftovers_of_a_kill_are_reported_and_removed_by_their_mark() {
    if !can_mount() {
        return;
    }
    let _alone = CLEANING.lock().unwrap_or_else(PoisonError::into_inner);
    let scene = Scene::new("left");
    let words = ["--on", "loop:64M", "--fs", "ext4", "--set", "files=9000", "--set", "size=1"];
    let mut child = scene.start(&words);
    let pid = child.id() as i32;
    let ours = || loops::marked().into_iter().find(|left| left.mark.pid == pid);
    wait_until("a mount of the trial", || {
        let Some(device) = ours().map(|left| format!(" {} ", left.path.display())) else {
            return false;
        };
        let mounts = |pid: &i32| std::fs::read_to_string(format!("/proc/{pid}/mountinfo"));
        scene.processes().iter().any(|pid| mounts(pid).is_ok_and(|text| text.contains(&device)))
    });
    let (at, left) = (tempfile::tempdir().unwrap(), ours().unwrap());
    let flags = rustix::mount::MountFlags::empty();
    rustix::mount::mount(&left.path, at.path(), "ext4", flags, None).unwrap();
    signal(pid);
    child.wait().unwrap();
    wait_until("the end of all processes", || scene.processes().is_empty());
    assert_eq!(ours().as_ref(), Some(&left), "the mount keeps the loop");
    let place = scene.path("place");
    let words = ["run", "dirops", "--set", "files=9", "--on", ".", "--out", "../out/r"];
    let noted = Command::new(PROGRAM).args(words).current_dir(&place).output().unwrap();
    assert!(stderr(&noted).contains("clean up with: fsdyno doctor --clean"), "{}", stderr(&noted));
    let cleaned = doctor_cleans(&place);
    assert_eq!(code(&cleaned), 0, "{}", stderr(&cleaned));
    let mount = format!("removed the mount {}, of process {pid}", at.path().display());
    assert!(stderr(&cleaned).contains(&mount), "{}", stderr(&cleaned));
    wait_until("the end of the loop", || ours().is_none());
    scene.assert_unchanged("cleaning");
}

#[test]
fn a_kill_leaves_nothing_of_a_run_in_the_lab() {
    if !can_run_the_lab() {
        return;
    }
    let mut scene = Scene::new("lab");
    for _ in 0..times(2, 60) {
        let description = scene.kill(&["--fs", "ext4", "--set", "files=5000"], 8000);
        scene.assert_unchanged(&description);
    }
}
