//! Measures the cost of the two stops of a call.

use libc::pid_t;

use crate::clock::monotonic;
use crate::filter;
use crate::process::Thread;
use crate::sys::{self, Change, Resume};

/// The number of calls that are measured.
const CALLS: usize = 60;

/// The time that the two stops of a call add, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct StopCost {
    /// CPU time of the thread, between two calls.
    pub cpu: u64,
    /// Wall time, from the resumption of the thread at the entry to the call until the recorder handles its return.
    pub wall: u64,
}

/// Returns the median cost for a thread that only makes calls that fail immediately; zeros if it cannot be measured.
pub fn stop_cost() -> StopCost {
    let program = filter::program(false);
    let parent = std::process::id();
    // SAFETY: the child only makes system calls, and ends.
    let pid = unsafe { libc::fork() };
    match pid {
        -1 => StopCost::default(),
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

fn measure(pid: pid_t) -> StopCost {
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    unsafe { libc::waitpid(pid, &raw mut status, libc::WUNTRACED) };
    let seized = sys::seize(pid);
    // SAFETY: a signal to a child of this process.
    unsafe { libc::kill(pid, if seized.is_ok() { libc::SIGCONT } else { libc::SIGKILL }) };
    let mut thread =
        Thread::new(pid, Default::default(), pid, Default::default(), Default::default(), true);
    let (mut cpu, mut wall, mut resumed) = (Vec::new(), Vec::new(), 0);
    loop {
        let how = match sys::wait() {
            Ok(Some((tid, change))) if tid == pid => match change {
                Change::Ended(_) => break,
                Change::Call => {
                    cpu.push(thread.cpu().saturating_sub(thread.used));
                    resumed = monotonic();
                    Resume::ToReturn(0)
                }
                Change::Return => {
                    wall.push(monotonic().saturating_sub(resumed));
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
    let median = |mut times: Vec<u64>| {
        times.sort_unstable();
        times.get(times.len() / 2).copied().unwrap_or(0)
    };
    StopCost { cpu: median(cpu), wall: median(wall) }
}
