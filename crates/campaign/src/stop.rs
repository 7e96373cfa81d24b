//! Ctrl-C, SIGTERM and SIGHUP: the first one stops the run cleanly, a later one immediately.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::time::{ClockId, clock_gettime};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level;

use crate::failure::{Exit, Failure};

/// The time after the first signal in which further signals count as the same request, in milliseconds: timeout(1) sends
/// a signal to its command and then to the whole process group, and a terminal may send SIGINT and SIGHUP together.
const SAME_REQUEST: u64 = 500;

/// Returns the flag that the first signal sets. A signal that comes later than half a second after it ends the process
/// immediately; the kernel then kills its trials, and the next start finds their leftovers.
///
/// # Errors
/// Signals that cannot be handled.
pub fn flag() -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    // The time of the first signal; 0 before.
    let first = Arc::new(AtomicU64::new(0));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let (flag, first) = (Arc::clone(&flag), Arc::clone(&first));
        let handle = move || {
            if is_later(&first, milliseconds()) {
                low_level::exit(Exit::Stopped as i32);
            }
            flag.store(true, Ordering::SeqCst);
        };
        // SAFETY: the handler reads a clock, changes atomic numbers and calls _exit(2), all of which a signal handler may
        // do; it neither allocates nor panics.
        unsafe { low_level::register(signal, handle) }.map_err(|error| Failure {
            exit: Exit::InvalidUse,
            message: format!("failed to listen for signals: {error}"),
        })?;
    }
    Ok(flag)
}

/// Returns the time since the boot, in milliseconds, at least 1.
fn milliseconds() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    (time.tv_sec as u64).wrapping_mul(1000).wrapping_add(time.tv_nsec as u64 / 1_000_000).max(1)
}

/// Stores the time of the first signal; returns true for a later one that is a request of its own.
fn is_later(first: &AtomicU64, now: u64) -> bool {
    match first.compare_exchange(0, now, Ordering::SeqCst, Ordering::SeqCst) {
        Ok(_) => false,
        Err(before) => now.saturating_sub(before) >= SAME_REQUEST,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_of_one_moment_are_one_request() {
        let first = AtomicU64::new(0);
        let later: Vec<bool> =
            [7000, 7000, 7001, 7499, 7500, 9000].map(|now| is_later(&first, now)).into();
        assert_eq!(later, [false, false, false, false, true, true]);
    }
}
