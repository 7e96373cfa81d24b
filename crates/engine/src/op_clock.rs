//! The clock of the hot path: the time-stamp counter, scaled and synchronized to CLOCK_MONOTONIC.
//!
//! clock_gettime(2) through the vDSO takes 70 to 80 instructions, half of all that the engine would
//! add to a call; reading the counter takes ten. The counter is used only if the kernel itself takes its
//! time from it (clocksource `tsc`: constant rate, never stopping, the same on every processor), because
//! then CLOCK_MONOTONIC is that counter times a factor. Otherwise each reading calls clock_gettime(2).
//!
//! Error: the factor is measured against CLOCK_MONOTONIC once over [`CALIBRATION`],
//! with about 50 ns of uncertainty at both ends (5 in 100,000), and again over every [`WINDOW`] ticks (some
//! 0.1 to 0.3 s), where the time is the kernel's own and the uncertainty one part in a million. A
//! latency has that relative error, except the one in which a window ends, which also takes the
//! error accumulated before it: some microseconds in the first, negligible later. A latency longer than
//! a window is timed by the kernel. If the factor is off by more than [`TOLERANCE`], or the counter
//! has jumped, the counter is not read again in that phase.

use std::sync::OnceLock;

use fsdyno_record::Nanos;

use crate::clock;

/// Duration of the comparison of the counter with CLOCK_MONOTONIC, once per process.
const CALIBRATION: Nanos = Nanos(2_000_000);

/// Ticks between two synchronizations; their product with a factor that has
/// [`FRACTION`] fractional bits fits into 64 bits.
const WINDOW: u64 = 1 << 28;

/// Fractional bits of a factor, which is in nanoseconds per tick.
const FRACTION: u32 = 32;

/// Maximum factor, of a counter of 250 MHz; slower ones are too coarse.
const MAX_FACTOR: u64 = 4 << FRACTION;

/// Reciprocal of the allowed relative change of a window's factor: the kernel slews its clock by at
/// most 1/2000 (adjtimex(2), MAXFREQ); the remainder allows for uncertainty.
const TOLERANCE: u64 = 1000;

/// A clock that follows CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug)]
pub struct OpClock {
    /// Nanoseconds per tick, or zero to use the kernel's clock.
    factor: u64,
    /// [`WINDOW`], or zero if the factor is zero, so that one comparison covers both.
    window: u64,
    /// The readings at the last synchronization.
    base: ClockPair,
}

/// A simultaneous reading of both clocks.
#[derive(Clone, Copy, Debug)]
struct ClockPair {
    ticks: u64,
    time: Nanos,
}

impl OpClock {
    /// Returns a synchronized clock. The first one in a process takes 2 ms.
    pub fn start() -> OpClock {
        static FACTOR: OnceLock<u64> = OnceLock::new();
        let factor = *FACTOR.get_or_init(|| if kernel_uses_tsc() { calibrate() } else { 0 });
        OpClock::with_factor(factor, ClockPair::read())
    }

    fn with_factor(factor: u64, base: ClockPair) -> OpClock {
        OpClock { factor, window: if factor == 0 { 0 } else { WINDOW }, base }
    }

    /// Returns the current time.
    #[inline]
    pub fn now(&mut self) -> Nanos {
        let passed = ticks().wrapping_sub(self.base.ticks);
        if passed >= self.window {
            return self.synchronize();
        }
        Nanos(self.base.time.0 + ((passed * self.factor) >> FRACTION))
    }

    /// Synchronizes to the kernel's time, and stops using a counter that has drifted from it.
    #[cold]
    #[inline(never)]
    fn synchronize(&mut self) -> Nanos {
        if self.factor == 0 {
            return clock::now();
        }
        let current = ClockPair::read();
        let measured = factor(self.base, current);
        let is_within_tolerance = measured.abs_diff(self.factor) <= self.factor / TOLERANCE;
        *self = OpClock::with_factor(if is_within_tolerance { measured } else { 0 }, current);
        current.time
    }
}

impl ClockPair {
    /// Reads both clocks three times and returns the pair with the shortest gap.
    fn read() -> ClockPair {
        let mut closest = ClockPair { ticks: 0, time: Nanos(0) };
        let mut shortest = u64::MAX;
        for _ in 0..3 {
            let before = ticks();
            let time = clock::now();
            let gap = ticks().wrapping_sub(before);
            if gap < shortest {
                shortest = gap;
                closest = ClockPair { ticks: before.wrapping_add(gap / 2), time };
            }
        }
        closest
    }
}

/// Returns the nanoseconds per tick, or zero if implausible.
fn factor(from: ClockPair, to: ClockPair) -> u64 {
    let ticks = u128::from(to.ticks.wrapping_sub(from.ticks).max(1));
    let factor = (u128::from(to.time.since(from.time).0) << FRACTION) / ticks;
    u64::try_from(factor).ok().filter(|factor| *factor <= MAX_FACTOR).unwrap_or(0)
}

fn calibrate() -> u64 {
    let from = ClockPair::read();
    while clock::now().since(from.time) < CALIBRATION {
        std::hint::spin_loop();
    }
    factor(from, ClockPair::read())
}

/// Returns true if the kernel takes its own time from the counter: as `tsc`, or in the first second after
/// boot as `tsc-early`, when its factor may still change slightly.
#[cfg(target_arch = "x86_64")]
fn kernel_uses_tsc() -> bool {
    let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    std::fs::read(source).is_ok_and(|name| [&b"tsc"[..], b"tsc-early"].contains(&name.trim_ascii()))
}

/// Returns the counter, read without a fence. The processor may read it before preceding instructions have
/// completed, but only within its reorder window of some hundred instructions, which is less
/// than the uncertainty above; and both ends of a latency are read in the same way. A test checks
/// the order of two readings with a call between them. A fence would double
/// the cost of the reading for each op.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn ticks() -> u64 {
    // SAFETY: rdtsc reads a counter that every x86-64 processor has; it is only forbidden if the
    // vDSO's clock is, too (prctl(2), PR_SET_TSC).
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn kernel_uses_tsc() -> bool {
    false
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn ticks() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_agrees_with_the_monotonic_clock() {
        let mut op_clock = OpClock::start();
        let mut check_agreement = || {
            let (before, now, after) = (clock::now(), op_clock.now(), clock::now());
            let tolerance = Nanos(WINDOW / TOLERANCE);
            assert!(
                now + tolerance >= before && now <= after + tolerance,
                "{before:?} {now:?} {after:?}"
            );
        };
        check_agreement();
        clock::sleep_until(clock::now() + Nanos(5_000_000));
        check_agreement();
    }

    #[test]
    fn readings_with_a_call_between_them_are_in_order() {
        let mut op_clock = OpClock::start();
        let mut last = op_clock.now();
        for _ in 0..100_000 {
            // SAFETY: takes no arguments and cannot fail. A call that libc never caches, unlike getpid(2).
            unsafe { libc::syscall(libc::SYS_getppid) };
            let before = ticks();
            let now = op_clock.now();
            assert!(now >= last, "{now:?} was read after {last:?}");
            assert!(ticks() >= before);
            last = now;
        }
    }

    #[test]
    fn a_counter_that_jumps_or_runs_at_a_different_rate_is_not_read_again() {
        let base = ClockPair { ticks: ticks().wrapping_sub(WINDOW + 1), time: Nanos(0) };
        for factor in [1, 1 << FRACTION, MAX_FACTOR] {
            let mut op_clock = OpClock::with_factor(factor, base);
            let before = clock::now();
            assert!(op_clock.now() >= before, "the kernel's time");
            assert_eq!(op_clock.factor, 0);
        }
    }

    #[test]
    fn a_factor_is_nanoseconds_per_tick_and_zero_if_implausible() {
        let pair = |ticks, time| ClockPair { ticks, time: Nanos(time) };
        assert_eq!(
            factor(pair(u64::MAX, 5), pair(1999, 1005)),
            1 << 31,
            "2 GHz, after the counter has wrapped"
        );
        assert_eq!(factor(pair(0, 0), pair(0, u64::MAX)), 0);
        assert_eq!(factor(pair(7, 9), pair(7, 9)), 0);
        assert!(WINDOW.checked_mul(MAX_FACTOR).is_some(), "a window fits");
    }
}
