//! Measures the CPU time that the two stops of a recorded call cost the thread itself.

use libc::pid_t;

use crate::filter;
use crate::process::Thread;
use crate::sys::{self, Change, Resume};

/// The number of calls that are measured.
const CALLS: usize = 60;

/// Returns the median CPU time in nanoseconds between two stops of a thread that only makes calls that fail at once;
/// None if it cannot be measured.
pub fn overhead() -> Option<u64> {
    let program = filter::program(false);
    let parent = std::process::id();
    // SAFETY: the child only makes system calls, and ends.
    let pid = unsafe { libc::fork() };
    match pid {
        -1 => None,
        0 => {
            // SAFETY: as above.
            unsafe {
                libc::raise(libc::SIGSTOP);
                if libc::getppid() as u32 == parent && filter::install(&program).is_ok() {
                    for _ in 0..CALLS {
                        libc::close(-1);
                    }
                }
                libc::_exit(0)
            }
        }
        _ => measure(pid),
    }
}

fn measure(pid: pid_t) -> Option<u64> {
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    unsafe { libc::waitpid(pid, &raw mut status, libc::WUNTRACED) };
    let seized = sys::seize(pid);
    // SAFETY: a signal to a child of this process.
    unsafe { libc::kill(pid, if seized.is_ok() { libc::SIGCONT } else { libc::SIGKILL }) };
    let mut thread =
        Thread::new(pid, Default::default(), pid, Default::default(), Default::default(), true);
    let mut times = Vec::with_capacity(CALLS);
    loop {
        let how = match sys::wait() {
            Ok(Some((tid, change))) if tid == pid => match change {
                Change::Ended(_) => break,
                Change::Call => {
                    times.push(thread.cpu().saturating_sub(thread.used));
                    Resume::ToReturn(0)
                }
                Change::Return => {
                    thread.used = thread.cpu();
                    Resume::Continue(0)
                }
                Change::Signal(signal) => Resume::Continue(signal),
                _ => Resume::Continue(0),
            },
            Ok(_) => continue,
            Err(_) => break,
        };
        sys::resume(pid, how);
    }
    times.sort_unstable();
    times.get(times.len() / 2).copied()
}
