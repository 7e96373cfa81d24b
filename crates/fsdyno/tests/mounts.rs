//! Runs on directories of unusual file systems: those of a FUSE program that cannot remove an open file and renames it
//! until it is closed, as NFS does, and those on several devices (btrfs).

#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

mod common;
#[path = "../../media/tests/fixture/mod.rs"]
mod fixture;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{code, fsdyno, leftover_folders, records, run, stderr, wait_until};
use fixture::{LoopDevices, has, skip_reason, tool};

/// A directory and the mount point that shows it through a FUSE daemon; unmounted when dropped.
struct Mounted {
    folder: tempfile::TempDir,
}

impl Mounted {
    /// Mounts with a command whose last two arguments are the directory and the mount point.
    fn new(program: &str, extra_args: &[&str]) -> Option<Mounted> {
        let mounted = Mounted { folder: tempfile::tempdir().unwrap() };
        std::fs::create_dir(mounted.source()).unwrap();
        std::fs::create_dir(mounted.at()).unwrap();
        let source = match program {
            "sshfs" => format!("localhost:{}", mounted.source().display()),
            _ => mounted.source().display().to_string(),
        };
        let mut command = Command::new(program);
        command.args(extra_args).arg(source).arg(mounted.at()).stdin(Stdio::null());
        match command.output() {
            Ok(output) if output.status.success() => Some(mounted),
            Ok(output) => skipped(&stderr(&output)),
            Err(error) => skipped(&format!("{program}: {error}; apt-get install {program}")),
        }
    }

    fn source(&self) -> PathBuf {
        self.folder.path().join("source")
    }

    fn at(&self) -> PathBuf {
        self.folder.path().join("mount")
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("fusermount3").args(["-u", "-z"]).arg(self.at()).output();
    }
}

fn skipped<T>(why: &str) -> Option<T> {
    common::lab::skipped(why.trim());
    None
}

/// Writes a stand-in for ssh that connects sshfs directly to the SFTP server of this host.
fn sftp_server(folder: &Path) -> Option<String> {
    let known = ["/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server"];
    let Some(server) = known.iter().find(|path| Path::new(path).exists()) else {
        return skipped("no sftp-server; apt-get install openssh-sftp-server");
    };
    let path = folder.join("ssh");
    std::fs::write(&path, format!("#!/bin/sh\nexec {server}\n")).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&path, mode).unwrap();
    Some(format!("ssh_command={}", path.display()))
}

/// Asserts that each workload succeeds and leaves nothing.
fn assert_runs_leave_nothing(mounted: &Mounted) {
    let args = format!(
        "run dirops postmark --set dirops.files=30 --set postmark.number=30 --set postmark.transactions=50 --on {} --out {}",
        mounted.at().display(),
        mounted.out().display()
    );
    let output = run(mounted.folder.path(), &args);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(std::fs::read_dir(mounted.source()).unwrap().count(), 0);
}

#[test]
fn a_run_on_a_pass_through_that_keeps_open_files_leaves_nothing() {
    let Some(mounted) = Mounted::new("bindfs", &[]) else { return };
    assert_runs_leave_nothing(&mounted);
}

#[test]
fn a_run_on_a_pass_through_that_removes_open_files_leaves_nothing() {
    let Some(mounted) = Mounted::new("bindfs", &["-o", "hard_remove"]) else { return };
    assert_runs_leave_nothing(&mounted);
}

#[test]
fn a_run_over_sftp_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let Some(command) = sftp_server(folder.path()) else { return };
    let Some(mounted) = Mounted::new("sshfs", &["-o", &command]) else { return };
    assert_runs_leave_nothing(&mounted);
}

#[test]
fn leftovers_of_a_killed_run_are_found_and_removed() {
    let Some(mounted) = Mounted::new("bindfs", &[]) else { return };
    let args = "run dirops --set files=2000000 --out";
    let mut child = fsdyno(mounted.folder.path())
        .args(args.split_whitespace())
        .arg(mounted.out())
        .arg("--on")
        .arg(mounted.at())
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let has_begun = || leftover_folders(&mounted.at()).iter().any(|it| it.join("root").exists());
    wait_until("the run's directory", has_begun);
    child.kill().unwrap();
    child.wait().unwrap();
    let args = format!("doctor --clean {}", mounted.at().display());
    wait_until("the cleaning", || {
        let output = run(mounted.folder.path(), &args);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        std::fs::read_dir(mounted.source()).unwrap().count() == 0
    });
}

/// Asserts that a trial in a directory has this device as its source, and that each phase has a durable time.
fn assert_durable(directory: &Path, source: &str) {
    let out = tempfile::tempdir().unwrap();
    let args = format!("run dirops --set files=300 --on {} --out r", directory.display());
    let output = run(out.path(), &args);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let trial = records(&out.path().join("r")).remove(0);
    let conditions = &trial["conditions"];
    assert_eq!(conditions["device"], source, "{conditions}");
    assert!(conditions["mount"].as_str().unwrap().starts_with("btrfs rw"), "{conditions}");
    assert!(conditions["queue"]["write_cache"].is_string(), "{conditions}");
    for phase in trial["measured"]["phases"].as_array().unwrap() {
        assert!(phase["durable_ns"].is_u64(), "{phase}");
        assert!(phase["device"]["writes"].as_u64().unwrap() > 0, "{phase}");
    }
}

#[test]
fn the_devices_of_a_btrfs_are_found_and_shown_to_be_flushed() {
    if let Some(why) = skip_reason().or((!has("mkfs.btrfs")).then_some("no mkfs.btrfs")) {
        return common::lab::skipped(why);
    }
    let mut fixture = LoopDevices::new();
    let (one, _) = fixture.device(160);
    tool("mkfs.btrfs", &["-q", &one]);
    let at = fixture.mount(&one, &[]);
    assert_durable(&at, &one);
    let subvolume = at.join("subvolume");
    tool("btrfs", &["-q", "subvolume", "create", &subvolume.to_string_lossy()]);
    assert_durable(&subvolume, &one);
    let ((first, _), (second, _)) = (fixture.device(160), fixture.device(160));
    tool("mkfs.btrfs", &["-q", "-d", "raid1", "-m", "raid1", &first, &second]);
    let at = fixture.mount(&first, &[]);
    assert_durable(&at, &first);
}
