//! Runs a trial that has its own mounts and processes so that nothing is left behind however it ends.
//!
//! The work is done by PID 1 of a PID namespace, in a private mount namespace: when it ends, the kernel kills every
//! process that it started, and its mounts disappear with the namespace. The process that waits for it, the keeper,
//! briefly outlives its own parent, to end the work and to clean up what no namespace does (an md array stays).

use std::fs::File;
use std::io::{self, Error};
use std::os::fd::{AsFd, AsRawFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::mount::MountPropagationFlags;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::exit_status::ExitStatus;
use crate::process;

/// Runs `work` until it ends or our parent does; in the second case, calls `last` afterwards.
///
/// # Errors
/// What the kernel refuses, and how the work ended if it did not succeed.
pub fn run_until_parent_ends(
    work: impl FnOnce() -> io::Result<()>,
    last: impl FnOnce(),
) -> io::Result<()> {
    watch_for_signals()?;
    let parent = rustix::process::getppid();
    set_parent_process_death_signal(Some(Signal::TERM))?;
    if rustix::process::getppid() != parent {
        return Err(Error::other("the process that started this one has ended"));
    }
    // The kernel closes each end when its process ends.
    let (ours, keepers) = pipe_with(PipeFlags::CLOEXEC)?;
    let number = keepers.as_raw_fd();
    let home = File::open("/proc/self/ns/pid")?;
    unshare(libc::CLONE_NEWPID)?;
    let child = process::fork(|| {
        // SAFETY: this is the child's copy, which nothing in the child owns; the owner is in the keeper.
        unsafe { rustix::io::close(number) };
        set_parent_process_death_signal(Some(Signal::KILL))?;
        let mut gone = [PollFd::new(&ours, PollFlags::empty())];
        if poll(&mut gone, Some(&rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 }))? > 0 {
            return Err(Error::other("the keeper of this trial has ended"));
        }
        forget_signals()?;
        unshare(libc::CLONE_NEWNS)?;
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        rustix::mount::mount_change("/", private)?;
        work()
    })?;
    // Children created from now on, such as those of `last`, are in the old namespace again.
    move_into_link_name_space(home.as_fd(), Some(LinkNameSpaceType::ProcessID))?;
    let ended = wait(child);
    drop(keepers);
    if rustix::process::getppid() != parent {
        last();
    }
    match ended? {
        ExitStatus::SUCCESS => Ok(()),
        how => Err(Error::other(format!("the trial's process ended: {how}"))),
    }
}

/// Waits for the child and returns how it ended; kills it when our parent dies.
fn wait(child: Pid) -> io::Result<ExitStatus> {
    loop {
        if let Some(how) = process::ended(child)? {
            return Ok(how);
        }
        match next_signal() {
            Ok(libc::SIGTERM) => kill_process(child, Signal::KILL)?,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn unshare(what: libc::c_int) -> io::Result<()> {
    // SAFETY: takes a number; this process has one thread, and no other thread relies on what it leaves.
    check(unsafe { libc::unshare(what) }).map(drop)
}

/// The signals that [`wait`] waits for: a child's end, and the end of our parent.
fn watched() -> libc::sigset_t {
    // SAFETY: a signal set is plain numbers, and the calls write only to this one.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGCHLD);
        libc::sigaddset(&mut set, libc::SIGTERM);
        set
    }
}

fn watch_for_signals() -> io::Result<()> {
    // SAFETY: reads a signal set of ours.
    check(unsafe { libc::sigprocmask(libc::SIG_BLOCK, &watched(), std::ptr::null_mut()) }).map(drop)
}

fn forget_signals() -> io::Result<()> {
    // SAFETY: reads a signal set of ours.
    check(unsafe { libc::sigprocmask(libc::SIG_UNBLOCK, &watched(), std::ptr::null_mut()) })
        .map(drop)
}

fn next_signal() -> io::Result<libc::c_int> {
    // SAFETY: reads a signal set of ours; nothing is written through the null pointer.
    check(unsafe { libc::sigwaitinfo(&watched(), std::ptr::null_mut()) })
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(Error::last_os_error()) } else { Ok(result) }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn forever() -> io::Result<()> {
        loop {
            std::thread::sleep(Duration::from_secs(1));
        }
    }

    #[test]
    fn a_keeper_whose_parent_is_killed_ends_the_work_and_does_what_is_left() {
        if !rustix::process::geteuid().is_root() {
            return println!("skipped: it takes root");
        }
        let folder = tempfile::tempdir().unwrap();
        let (begun, held, done) =
            (folder.path().join("begun"), folder.path().join("held"), folder.path().join("done"));
        let lock = |path: &std::path::Path| {
            let file = File::create(path)?;
            rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive)?;
            io::Result::Ok(file)
        };
        let parent = process::fork(|| {
            let work = || {
                let _held = lock(&held)?;
                std::fs::write(&begun, "")?;
                forever()
            };
            // The work has ended by then, because its lock is free.
            let last = || drop(lock(&held).map(|_| std::fs::write(&done, "")));
            process::fork(|| run_until_parent_ends(work, last))?;
            forever()
        })
        .unwrap();
        let appears = |path: &std::path::Path| {
            let begin = Instant::now();
            while !path.exists() {
                assert!(begin.elapsed() < Duration::from_secs(60), "{path:?} never appeared");
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        appears(&begun);
        assert!(!done.exists());
        kill_process(parent, Signal::KILL).unwrap();
        appears(&done);
        while process::ended(parent).unwrap().is_none() {}
    }
}
