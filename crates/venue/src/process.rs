//! A child that dies with its parent, in a process group of its own, reaped with its CPU time.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Signal, kill_process_group};

/// A child, killed with its whole group when it is dropped.
#[derive(Debug)]
pub struct Process {
    pid: Pid,
    words: File,
    ended: Option<Ended>,
}

/// How a child ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// Exit code or signal.
    pub status: ExitStatus,
    /// User and system CPU time.
    pub cpu: Duration,
}

impl Process {
    /// Starts `command` with `inherit` open in the child under the same numbers.
    ///
    /// The calling thread has to outlive the child: the kernel kills it when that thread ends
    /// (prctl(2), PR_SET_PDEATHSIG).
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn start(mut command: Command, inherit: &[BorrowedFd<'_>]) -> std::io::Result<Process> {
        // A file takes any amount of messages without a reader; a pipe would stall the child.
        let words = File::from(memfd_create("fsdyno-words", MemfdFlags::CLOEXEC)?);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::from(OwnedFd::from(words.try_clone()?)))
            .stderr(Stdio::from(OwnedFd::from(words.try_clone()?)))
            .process_group(0);
        let fds: Vec<RawFd> = inherit.iter().map(AsRawFd::as_raw_fd).collect();
        let parent = rustix::process::getpid();
        // SAFETY: between fork and exec the closure makes system calls only and allocates
        // nothing.
        unsafe { command.pre_exec(move || before_exec(parent, &fds)) };
        let child = command.spawn()?;
        let pid = Pid::from_child(&child);
        Ok(Process { pid, words, ended: None })
    }

    /// How it ended, once it has. Never blocks.
    ///
    /// # Errors
    /// What wait4(2) refused.
    pub fn poll(&mut self) -> std::io::Result<Option<Ended>> {
        self.wait(libc::WNOHANG)
    }

    /// Kills it and all it started, and reaps it.
    pub fn kill(&mut self) {
        if self.ended.is_none() {
            let _ = kill_process_group(self.pid, Signal::KILL);
            let _ = self.wait(0);
        }
    }

    /// The last lines that it wrote to stdout or stderr.
    pub fn last_words(&mut self, lines: usize) -> Vec<String> {
        const TAIL: u64 = 8192;
        let mut text = Vec::new();
        let length = self.words.metadata().map_or(0, |meta| meta.len());
        let _ = self.words.seek(SeekFrom::Start(length.saturating_sub(TAIL)));
        let _ = self.words.read_to_end(&mut text);
        let text = String::from_utf8_lossy(&text);
        let all: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        all[all.len().saturating_sub(lines)..].iter().map(|line| (*line).to_string()).collect()
    }

    fn wait(&mut self, flags: libc::c_int) -> std::io::Result<Option<Ended>> {
        if self.ended.is_some() {
            return Ok(self.ended);
        }
        let mut status = 0;
        // SAFETY: rusage is plain numbers, for which zero is a value.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        let pid = self.pid.as_raw_nonzero().get();
        // SAFETY: both pointers are to live variables of the right type, and the child has not
        // been reaped, so its number is still its own.
        let got = unsafe { libc::wait4(pid, &mut status, flags, &mut usage) };
        match got {
            0 => Ok(None),
            got if got == pid => {
                let cpu = duration(usage.ru_utime) + duration(usage.ru_stime);
                let status = ExitStatus::from_raw(status);
                self.ended = Some(Ended { status, cpu });
                Ok(self.ended)
            }
            _ => Err(std::io::Error::last_os_error()),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// In the child: die with the parent, and keep the given descriptors across exec.
fn before_exec(parent: Pid, fds: &[RawFd]) -> std::io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have died between fork and the line above.
    if rustix::process::getppid() != Some(parent) {
        return Err(std::io::Error::from_raw_os_error(libc::ESRCH));
    }
    for fd in fds {
        // SAFETY: the parent keeps the descriptor open until this child has been started.
        let fd = unsafe { BorrowedFd::borrow_raw(*fd) };
        rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty())?;
    }
    Ok(())
}

fn duration(time: libc::timeval) -> Duration {
    Duration::new(time.tv_sec.max(0) as u64, (time.tv_usec.max(0) as u32) * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Process {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        Process::start(command, &[]).unwrap()
    }

    #[test]
    fn a_childs_code_and_last_words_are_kept() {
        let mut child = shell("echo one >&2; echo two >&2; exit 7");
        let ended = child.wait(0).unwrap().unwrap();
        assert_eq!(ended.status.code(), Some(7));
        assert_eq!(child.last_words(1), ["two"]);
        assert_eq!(child.last_words(9), ["one", "two"]);
    }

    #[test]
    fn killing_takes_the_grandchildren_too() {
        let mut child = shell("sleep 1000 & echo $! >&2; wait");
        let grandchild = loop {
            if let [line] = child.last_words(1).as_slice() {
                break line.parse::<i32>().unwrap();
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        child.kill();
        assert_eq!(child.wait(0).unwrap().unwrap().status.signal(), Some(9));
        // The orphan is reaped by init; until then it is a zombie, which is dead as well.
        let state = std::fs::read_to_string(format!("/proc/{grandchild}/stat"));
        let dying = |stat: &String| stat.contains(") Z ") || stat.contains(") X ");
        let gone = (0..1000).any(|_| {
            std::thread::sleep(Duration::from_millis(5));
            let now = std::fs::read_to_string(format!("/proc/{grandchild}/stat"));
            now.as_ref().map_or(true, dying)
        });
        assert!(gone, "{state:?}");
    }

    #[test]
    fn only_the_given_descriptors_are_inherited() {
        let given = memfd_create("given", MemfdFlags::CLOEXEC).unwrap();
        let kept = memfd_create("kept", MemfdFlags::CLOEXEC).unwrap();
        let mut command = Command::new("/bin/sh");
        let script = format!(
            "test -e /proc/self/fd/{} && ! test -e /proc/self/fd/{}",
            given.as_raw_fd(),
            kept.as_raw_fd()
        );
        command.args(["-c", &script]);
        let mut child = Process::start(command, &[std::os::fd::AsFd::as_fd(&given)]).unwrap();
        assert!(child.wait(0).unwrap().unwrap().status.success());
    }
}
