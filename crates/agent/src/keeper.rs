//! Runs a trial that has its own mounts and processes, such that none of them remains, however it ends.
//!
//! The work is done by PID 1 of a PID namespace, in a private mount namespace: when it ends, the kernel kills every
//! process that it started, and its mounts disappear with the namespace. The process that waits for it, the keeper,
//! briefly outlives its own parent, to end the work and to clean up what the end of a namespace leaves (an md array).

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

/// Runs `work` until it ends or our parent does; in the second case, calls `clean_up` afterwards.
///
/// # Errors
/// Errors from the kernel; the exit status of the work, if it failed.
pub fn run_until_parent_ends(
    work: impl FnOnce() -> io::Result<()>,
    clean_up: impl FnOnce(),
) -> io::Result<()> {
    watch_for_signals()?;
    let parent = rustix::process::getppid();
    set_parent_process_death_signal(Some(Signal::TERM))?;
    if rustix::process::getppid() != parent {
        return Err(Error::other("the process that started this one has ended"));
    }
    // The kernel closes each end when its process ends.
    let (own_end, keeper_end) = pipe_with(PipeFlags::CLOEXEC)?;
    let keeper_fd = keeper_end.as_raw_fd();
    let own_namespace = File::open("/proc/self/ns/pid")?;
    unshare(libc::CLONE_NEWPID)?;
    let child = process::fork(|| {
        // SAFETY: this is the child's copy, which nothing in the child owns; the owner is in the keeper.
        unsafe { rustix::io::close(keeper_fd) };
        set_parent_process_death_signal(Some(Signal::KILL))?;
        let mut keeper_poll = [PollFd::new(&own_end, PollFlags::empty())];
        if poll(&mut keeper_poll, Some(&rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 }))? > 0 {
            return Err(Error::other("the keeper of this trial has ended"));
        }
        forget_signals()?;
        unshare(libc::CLONE_NEWNS)?;
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        rustix::mount::mount_change("/", private)?;
        work()
    })?;
    // Children created from now on, such as those of `clean_up`, are in the old namespace again.
    move_into_link_name_space(own_namespace.as_fd(), Some(LinkNameSpaceType::ProcessID))?;
    let outcome = wait(child);
    drop(keeper_end);
    if rustix::process::getppid() != parent {
        clean_up();
    }
    match outcome? {
        ExitStatus::SUCCESS => Ok(()),
        status => Err(Error::other(format!("the trial's process ended: {status}"))),
    }
}

/// Waits for the child and returns how it ended; kills it when our parent dies.
fn wait(child: Pid) -> io::Result<ExitStatus> {
    loop {
        if let Some(status) = process::try_wait(child)? {
            return Ok(status);
        }
        match next_signal() {
            Ok(libc::SIGTERM) => kill_process(child, Signal::KILL)?,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn unshare(flags: libc::c_int) -> io::Result<()> {
    // SAFETY: takes a number; this process has one thread, and no other thread relies on the namespace that it leaves.
    check(unsafe { libc::unshare(flags) }).map(drop)
}

/// The signals that [`wait`] waits for: a child's end, and the end of our parent.
fn awaited_signals() -> libc::sigset_t {
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
    check(unsafe { libc::sigprocmask(libc::SIG_BLOCK, &awaited_signals(), std::ptr::null_mut()) })
        .map(drop)
}

fn forget_signals() -> io::Result<()> {
    // SAFETY: reads a signal set of ours.
    check(unsafe { libc::sigprocmask(libc::SIG_UNBLOCK, &awaited_signals(), std::ptr::null_mut()) })
        .map(drop)
}

fn next_signal() -> io::Result<libc::c_int> {
    // SAFETY: reads a signal set of ours; nothing is written through the null pointer.
    check(unsafe { libc::sigwaitinfo(&awaited_signals(), std::ptr::null_mut()) })
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(Error::last_os_error()) } else { Ok(result) }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn sleep_forever() -> io::Result<()> {
        loop {
            std::thread::sleep(Duration::from_secs(1));
        }
    }

    #[test]
    fn a_keeper_whose_parent_is_killed_ends_the_work_and_cleans_up() {
        if !rustix::process::geteuid().is_root() {
            return println!("skipped: requires root");
        }
        let folder = tempfile::tempdir().unwrap();
        let (start_marker, lock_file, end_marker) =
            (folder.path().join("begun"), folder.path().join("held"), folder.path().join("done"));
        let lock_exclusively = |path: &std::path::Path| {
            let file = File::create(path)?;
            rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive)?;
            io::Result::Ok(file)
        };
        let parent = process::fork(|| {
            let work = || {
                let _held = lock_exclusively(&lock_file)?;
                std::fs::write(&start_marker, "")?;
                sleep_forever()
            };
            // The work has ended by then, because its lock is free.
            let clean_up =
                || drop(lock_exclusively(&lock_file).map(|_| std::fs::write(&end_marker, "")));
            process::fork(|| run_until_parent_ends(work, clean_up))?;
            sleep_forever()
        })
        .unwrap();
        let wait_until_exists = |path: &std::path::Path| {
            let started = Instant::now();
            while !path.exists() {
                assert!(started.elapsed() < Duration::from_secs(60), "{path:?} never appeared");
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        wait_until_exists(&start_marker);
        assert!(!end_marker.exists());
        kill_process(parent, Signal::KILL).unwrap();
        wait_until_exists(&end_marker);
        while process::try_wait(parent).unwrap().is_none() {}
    }
}
