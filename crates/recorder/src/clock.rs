//! The clock of this host, and the recorder's timer.

/// Returns CLOCK_MONOTONIC in nanoseconds.
pub fn monotonic() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    (time.tv_sec as u64).saturating_mul(1_000_000_000) + time.tv_nsec as u64
}

/// A timer that interrupts the waiting recorder, so that it drains the rings of the programs.
pub struct Ticker {
    timer: libc::timer_t,
}

impl Ticker {
    /// Creates a timer for the calling thread. None if that fails: then programs wait when their rings are full.
    pub fn new() -> Option<Ticker> {
        extern "C" fn nothing(_: libc::c_int) {}
        let signal = libc::SIGRTMIN() + 3;
        // SAFETY: the structures are plain data, the handler does nothing, and the timer is owned by the result.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = signal;
            event.sigev_notify_thread_id = rustix::thread::gettid().as_raw_nonzero().get();
            let mut timer = std::mem::zeroed();
            let made =
                libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) == 0;
            made.then_some(Ticker { timer })
        }
    }

    /// Interrupts the thread once, after a number of milliseconds.
    pub fn interrupt_after(&self, milliseconds: i64) {
        // SAFETY: the structure consists of integers, and the timer exists.
        unsafe {
            let mut when: libc::itimerspec = std::mem::zeroed();
            when.it_value.tv_sec = milliseconds / 1000;
            when.it_value.tv_nsec = milliseconds % 1000 * 1_000_000;
            libc::timer_settime(self.timer, 0, &raw const when, std::ptr::null_mut());
        }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        // SAFETY: the timer exists, and this was its owner.
        unsafe { libc::timer_delete(self.timer) };
    }
}
