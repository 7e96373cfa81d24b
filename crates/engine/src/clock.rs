//! CLOCK_MONOTONIC through the vDSO, the reference for all other clocks here.

use fsdyno_record::Nanos;

/// Returns the current time: one call that does not enter the kernel, 70 to 80 instructions.
#[inline]
pub fn now() -> Nanos {
    let mut time = std::mem::MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: `time` is valid for writes; CLOCK_MONOTONIC always exists, so the call cannot fail
    // and has filled it.
    let time = unsafe {
        libc::clock_gettime(libc::CLOCK_MONOTONIC, time.as_mut_ptr());
        time.assume_init()
    };
    Nanos((time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64))
}

/// The maximum sleep before checking whether to stop: an acceptable delay after Ctrl-C or a failure. Shorter sleeps
/// take one call.
pub const MAX_SLEEP: Nanos = Nanos(1_000_000_000);

/// Sleeps until `until`, despite signals.
#[cold]
pub fn sleep_until(until: Nanos) {
    let time = libc::timespec {
        tv_sec: (until.0 / 1_000_000_000) as libc::time_t,
        tv_nsec: (until.0 % 1_000_000_000) as libc::c_long,
    };
    let mut interrupted = true;
    while interrupted {
        // SAFETY: `time` is a valid timespec, and an absolute sleep writes no remainder.
        let result = unsafe {
            libc::clock_nanosleep(
                libc::CLOCK_MONOTONIC,
                libc::TIMER_ABSTIME,
                &raw const time,
                std::ptr::null_mut(),
            )
        };
        interrupted = result == libc::EINTR;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_does_not_end_early() {
        let until = now() + Nanos(2_000_000);
        sleep_until(until);
        assert!(now() >= until);
        sleep_until(Nanos(0));
    }
}
