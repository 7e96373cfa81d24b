//! Finds children that outlived their parent, by the mark in their environment.
//!
//! The kernel kills a child with its parent, so there should be none. A child that was stopped in a
//! debugger, or whose parent-death signal was cleared, is still found here.

use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use fsdyno_media::Mark;
use fsdyno_media::mark::OwnerState;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// The variable in a child's environment that names its parent.
const VARIABLE: &str = "FSDYNO_CHILD_OF";

/// A child whose parent has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orphan {
    /// The child's process ID.
    pub pid: i32,
    /// The name of its program (`/proc/PID/comm`).
    pub program: String,
    /// The path of its executable.
    pub executable: PathBuf,
    /// The mark of its parent.
    pub parent: Mark,
}

/// Marks a child that is about to be started as a child of this process.
pub(crate) fn mark(command: &mut Command) {
    command.env(VARIABLE, Mark::current().to_string());
}

/// Returns the children of ended fsdyno processes that this user may see. A process must have the mark and run a
/// program that fsdyno starts, because any user can give the mark to a program with more privileges.
pub fn orphans(is_fsdyno_program: &dyn Fn(&Path) -> bool) -> Vec<Orphan> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut orphans: Vec<Orphan> =
        pids.filter_map(orphan).filter(|orphan| is_fsdyno_program(&orphan.executable)).collect();
    orphans.sort_by_key(|orphan| orphan.pid);
    orphans
}

fn orphan(pid: i32) -> Option<Orphan> {
    let parent = mark_of(pid).filter(|mark| mark.owner() == OwnerState::Dead)?;
    let program = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim().to_string();
    Some(Orphan { pid, program, executable: executable(pid)?, parent })
}

/// Returns the path of a process's executable, or its former path if the file has been replaced (by an update).
fn executable(pid: i32) -> Option<PathBuf> {
    let path = fs::read_link(format!("/proc/{pid}/exe")).ok()?.into_os_string().into_vec();
    let name = path.strip_suffix(b" (deleted)").unwrap_or(&path);
    Some(std::ffi::OsStr::from_bytes(name).into())
}

/// Returns the mark in a process's environment; a zombie has none.
fn mark_of(pid: i32) -> Option<Mark> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let variables = environment.split(|byte| *byte == 0).map(std::ffi::OsStr::from_bytes);
    let mut values = variables
        .filter_map(|variable| variable.to_str()?.strip_prefix(VARIABLE)?.strip_prefix('='));
    values.next_back().and_then(Mark::parse)
}

/// Kills an orphan. It is not an error if the orphan has already ended; a process that has reused its ID is
/// left alone.
///
/// # Errors
/// The kernel does not permit killing it.
pub fn kill(orphan: &Orphan) -> io::Result<()> {
    let pid = Pid::from_raw(orphan.pid).ok_or_else(|| io::Error::other("not a process ID"))?;
    let kill_if_same = || {
        // The descriptor refers to one process; the ID may be reused between check and signal.
        let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
        let is_same = mark_of(orphan.pid) == Some(orphan.parent)
            && executable(orphan.pid).as_ref() == Some(&orphan.executable);
        if is_same { pidfd_send_signal(pidfd, Signal::KILL) } else { Ok(()) }
    };
    match kill_if_same() {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    #[test]
    fn a_child_is_an_orphan_only_after_its_parent_has_ended_and_is_then_killed() {
        let mut sleep = Command::new("sleep");
        sleep.arg("1000").stdin(Stdio::null());
        mark(&mut sleep);
        // The environment of a child reads as empty until its program has started.
        let wait_for_start = |pid: u32| {
            while fs::read(format!("/proc/{pid}/environ")).unwrap().is_empty() {
                std::thread::yield_now();
            }
        };
        let mut child = sleep.spawn().unwrap();
        wait_for_start(child.id());
        assert_eq!(mark_of(child.id() as i32), Some(Mark::current()));
        assert!(orphans(&|_| true).iter().all(|orphan| orphan.pid != child.id() as i32));
        child.kill().unwrap();
        child.wait().unwrap();
        // A child of a process that has ended.
        let mark =
            Mark::current().to_string().replacen(&std::process::id().to_string(), "4194305", 1);
        let mut abandoned = Command::new("sleep").arg("1000").env(VARIABLE, mark).spawn().unwrap();
        wait_for_start(abandoned.id());
        let is_absolute = |path: &Path| path.is_absolute();
        let orphan = orphans(&is_absolute)
            .into_iter()
            .find(|orphan| orphan.pid == abandoned.id() as i32)
            .unwrap();
        // The mark alone, which any user can give to any program, is not enough.
        assert!(orphans(&|_| false).is_empty());
        assert_eq!((orphan.program.as_str(), orphan.parent.pid), ("sleep", 4_194_305));
        kill(&orphan).unwrap();
        assert!(!abandoned.wait().unwrap().success());
        kill(&orphan).unwrap();
        // A process that has reused the ID is not killed.
        let mut unrelated = Command::new("sleep").arg("1000").spawn().unwrap();
        wait_for_start(unrelated.id());
        kill(&Orphan { pid: unrelated.id() as i32, ..orphan }).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(unrelated.try_wait().unwrap().is_none());
        unrelated.kill().unwrap();
        unrelated.wait().unwrap();
    }
}
