//! Waits, with a deadline, for the signal that a child has ended.

use std::io;

use fsdyno_record::Nanos;

/// Keeps SIGCHLD pending, so that [`wait_for_child_signal`] can wait for it.
///
/// # Errors
/// Errors from the kernel.
pub fn block_child_signal() -> io::Result<()> {
    // SAFETY: fills and uses a signal set of ours.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGCHLD);
        if libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Waits for the end of a child, but not longer than `limit`.
pub fn wait_for_child_signal(limit: Nanos) {
    let limit = libc::timespec {
        tv_sec: (limit.0 / 1_000_000_000) as libc::time_t,
        tv_nsec: (limit.0 % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: waits on a signal set of ours; nothing is written through the null pointer.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGCHLD);
        libc::sigtimedwait(&set, std::ptr::null_mut(), &limit);
    }
}
