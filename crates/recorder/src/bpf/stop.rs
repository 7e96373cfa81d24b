//! Stops a process while its state is read.

use std::io;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use libc::{c_int, pid_t};

use crate::process::numeric_entries;
use crate::sys::request;

/// The maximum time until all threads of a process have stopped.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// The interval at which the state of a thread is checked.
const WAIT: Duration = Duration::from_micros(200);

/// Returns the threads of a process, beginning with the first one.
pub fn threads(pid: pid_t) -> Vec<pid_t> {
    let mut all = numeric_entries(&format!("/proc/{pid}/task")).unwrap_or_default();
    // The main thread must be the first one in the trace.
    all.sort_by_key(|tid| (*tid != pid, *tid));
    all
}

/// A process whose threads are stopped while this value exists, and then continue.
pub struct Stopped {
    release: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Stopped {
    /// Stops all threads of a process.
    ///
    /// # Errors
    /// Tracing is not permitted, or a thread does not stop in time (a call that waits for a disk or a server cannot be
    /// interrupted). All threads then continue.
    pub fn new(pid: pid_t) -> io::Result<Stopped> {
        let (report, outcome) = channel();
        let (release, released) = channel::<()>();
        // The end of the tracing thread also releases threads that have not stopped yet, which PTRACE_DETACH does not.
        let thread = std::thread::Builder::new().name("stop".into()).spawn(move || {
            let stopped = stop_all(pid, Instant::now() + STOP_TIMEOUT);
            let (stopped, outcome) = match stopped {
                Ok(all) => (all, Ok(())),
                Err(error) => (Vec::new(), Err(error)),
            };
            let good = outcome.is_ok();
            let _ = report.send(outcome);
            if good {
                // Until the sender is dropped.
                let _ = released.recv();
            }
            drop(stopped);
        })?;
        let stopped = Stopped { release: Some(release), thread: Some(thread) };
        outcome.recv().unwrap_or_else(|_| Err(io::Error::other("it was not stopped")))?;
        Ok(stopped)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.release = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn stop_all(pid: pid_t, until: Instant) -> io::Result<Vec<Tracee>> {
    let mut stopped: Vec<Tracee> = Vec::new();
    loop {
        let known = |tid: &pid_t| stopped.iter().any(|it| it.tid == *tid);
        let new: Vec<pid_t> = threads(pid).into_iter().filter(|tid| !known(tid)).collect();
        if new.is_empty() {
            return Ok(stopped);
        }
        let mut stopping = Vec::new();
        for tid in new {
            stopping.extend(unless_gone(Tracee::seize(tid).and_then(Tracee::interrupt))?);
        }
        for it in stopping {
            stopped.extend(unless_gone(it.stop(until))?);
        }
        if Instant::now() >= until {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}

/// Converts the error for a thread that has ended to None.
fn unless_gone(it: io::Result<Tracee>) -> io::Result<Option<Tracee>> {
    match it {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(None),
        other => other.map(Some),
    }
}

/// A thread that this thread traces.
struct Tracee {
    tid: pid_t,
    /// The signal at which it stopped and which is delivered when it continues; 0 for none.
    signal: c_int,
}

impl Tracee {
    fn seize(tid: pid_t) -> io::Result<Tracee> {
        request(libc::PTRACE_SEIZE, tid, 0, 0)?;
        Ok(Tracee { tid, signal: 0 })
    }

    fn interrupt(self) -> io::Result<Tracee> {
        request(libc::PTRACE_INTERRUPT, self.tid, 0, 0)?;
        Ok(self)
    }

    /// Waits for the thread to stop.
    fn stop(mut self, until: Instant) -> io::Result<Tracee> {
        loop {
            let mut status = 0;
            // SAFETY: `status` outlives the call.
            let done =
                unsafe { libc::waitpid(self.tid, &raw mut status, libc::__WALL | libc::WNOHANG) };
            match done {
                0 if Instant::now() >= until => {
                    let text = "a thread did not stop within a second";
                    return Err(io::Error::new(io::ErrorKind::TimedOut, text));
                }
                0 => std::thread::sleep(WAIT),
                _ if done == self.tid && libc::WIFSTOPPED(status) => {
                    // Without an event it is about to receive a signal.
                    if status >> 16 == 0 {
                        self.signal = libc::WSTOPSIG(status);
                    }
                    return Ok(self);
                }
                _ => return Err(io::Error::from_raw_os_error(libc::ESRCH)),
            }
        }
    }
}

impl Drop for Tracee {
    fn drop(&mut self) {
        let _ = request(libc::PTRACE_DETACH, self.tid, 0, self.signal as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    /// Waits until a process is in a state of proc_pid_stat(5).
    fn wait_for(pid: pid_t, state: &str) {
        let until = Instant::now() + Duration::from_secs(10);
        let is_in_state =
            || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(state);
        while !is_in_state() {
            assert!(Instant::now() < until, "{state}");
            std::thread::sleep(WAIT);
        }
    }

    #[test]
    fn a_signal_at_which_a_thread_stops_is_not_lost() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id() as pid_t;
        let it = Tracee::seize(pid).unwrap();
        // SAFETY: a signal to a child that has not been reaped.
        unsafe { libc::kill(pid, libc::SIGUSR1) };
        wait_for(pid, ") t ");
        let it = it.interrupt().unwrap().stop(Instant::now() + STOP_TIMEOUT).unwrap();
        assert_eq!(it.signal, libc::SIGUSR1);
        drop(it);
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGUSR1));
    }

    #[test]
    fn a_stopped_process_continues_only_when_it_is_released() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id() as pid_t;
        let stopped = Stopped::new(pid).unwrap();
        wait_for(pid, ") t ");
        drop(stopped);
        wait_for(pid, ") S ");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_thread_that_does_not_stop_in_time_is_an_error_and_continues() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id() as pid_t;
        wait_for(pid, ") S ");
        let late = std::thread::spawn(move || {
            // It was not interrupted.
            Tracee::seize(pid).unwrap().stop(Instant::now()).map(drop).unwrap_err().kind()
        });
        assert_eq!(late.join().unwrap(), io::ErrorKind::TimedOut);
        // Another thread can soon trace it.
        let until = Instant::now() + Duration::from_secs(10);
        while Stopped::new(pid).is_err() {
            assert!(Instant::now() < until);
        }
        wait_for(pid, ") S ");
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
