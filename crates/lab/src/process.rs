//! The QEMU process: started so that it cannot outlive us, waited for with its CPU time.

use std::io;
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::memory::keep_on_exec;

/// A child that is killed when this value goes, when the thread that started it ends, or when our
/// process is killed.
#[derive(Debug)]
pub struct Process {
    pid: libc::pid_t,
    ended: Option<Ended>,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The signal that killed it, if any did.
    pub signal: Option<i32>,
    /// Its exit status otherwise.
    pub status: i32,
    /// User and system time that it took.
    pub cpu: Duration,
}

impl Process {
    /// Starts a command that inherits `files` and nothing else; its messages go to `messages`.
    pub fn start(mut command: Command, files: &[RawFd], messages: Stdio) -> io::Result<Process> {
        let files = files.to_vec();
        let parent = libc::pid_t::try_from(std::process::id()).map_err(io::Error::other)?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(messages);
        // A group of its own: Ctrl-C on the terminal is for us, and we end the guest in order.
        command.process_group(0);
        let prepare = move || {
            // SAFETY: both calls take numbers only.
            let orphan = unsafe {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 || libc::getppid() != parent
            };
            // The parent may have gone before the signal was asked for.
            if orphan {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            files.iter().try_for_each(|fd| keep_on_exec(*fd))
        };
        // SAFETY: between fork and exec, `prepare` makes system calls only and allocates nothing.
        unsafe { command.pre_exec(prepare) };
        let child = command.spawn()?;
        let pid = libc::pid_t::try_from(child.id()).map_err(io::Error::other)?;
        Ok(Process { pid, ended: None })
    }

    /// How it ended, or `None` while it runs.
    pub fn poll(&mut self) -> io::Result<Option<Ended>> {
        self.wait(libc::WNOHANG)
    }

    /// Kills it, if it still runs, and waits for its end.
    pub fn kill(&mut self) -> io::Result<Option<Ended>> {
        if self.ended.is_none() {
            // SAFETY: kill takes numbers; the child is not yet waited for, so the number is its own.
            unsafe { libc::kill(self.pid, libc::SIGKILL) };
        }
        self.wait(0)
    }

    fn wait(&mut self, flags: i32) -> io::Result<Option<Ended>> {
        if self.ended.is_some() {
            return Ok(self.ended);
        }
        let mut status = 0;
        // SAFETY: an all-zero rusage is a valid value of that plain struct.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        loop {
            // SAFETY: both pointers are to live values of the right types.
            match unsafe { libc::wait4(self.pid, &mut status, flags, &mut usage) } {
                0 => return Ok(None),
                pid if pid == self.pid => break,
                _ => match io::Error::last_os_error() {
                    error if error.kind() == io::ErrorKind::Interrupted => {}
                    error => return Err(error),
                },
            }
        }
        let signal = libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status));
        let cpu = duration(usage.ru_utime) + duration(usage.ru_stime);
        self.ended = Some(Ended { signal, status: libc::WEXITSTATUS(status), cpu });
        Ok(self.ended)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Nothing can be done about a child that cannot be waited for.
        let _ = self.kill();
    }
}

fn duration(time: libc::timeval) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let micros = u64::try_from(time.tv_usec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_micros(micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Process::start(command, &[], Stdio::null()).unwrap()
    }

    #[test]
    fn a_status_and_a_signal_are_told_apart() {
        let mut exits = shell("exit 3");
        let ended = exits.wait(0).unwrap().unwrap();
        assert_eq!((ended.signal, ended.status), (None, 3));
        let mut dies = shell("kill -TERM $$");
        assert_eq!(dies.wait(0).unwrap().unwrap().signal, Some(libc::SIGTERM));
    }

    #[test]
    fn a_dropped_process_is_gone() {
        let mut process = shell("exec sleep 1000");
        assert_eq!(process.poll().unwrap(), None);
        let pid = process.pid;
        drop(process);
        // SAFETY: signal 0 only asks whether the process is there.
        assert_eq!(unsafe { libc::kill(pid, 0) }, -1);
    }

    #[test]
    fn a_process_dies_with_the_thread_that_started_it() {
        let pid = std::thread::spawn(|| {
            let process = shell("exec sleep 1000");
            let pid = process.pid;
            std::mem::forget(process);
            pid
        })
        .join()
        .unwrap();
        let mut orphan = Process { pid, ended: None };
        assert_eq!(orphan.wait(0).unwrap().unwrap().signal, Some(libc::SIGKILL));
    }
}
