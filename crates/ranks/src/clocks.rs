//! The offset between two clocks. Processes of one boot and one time namespace read the same CLOCK_MONOTONIC: the
//! offset is 0. Otherwise one process requests the other's time, and uses the answer with the shortest round trip
//! (D. Mills, RFC 5905, clock filter). Half of that round trip is the uncertainty, however long each direction took.

use std::time::Duration;

use fsdyno_record::Nanos;

/// Minimum and maximum number of exchanges across clocks in one measurement, and the time after which only the
/// minimum is required. Under load, few round trips are short.
const MIN_EXCHANGES: usize = 12;
const MAX_EXCHANGES: usize = 100;
const ENOUGH: Duration = Duration::from_millis(10);

/// Number of exchanges with a process that reports the same clock, to detect that its clock is in fact different.
const SAME_CLOCK_EXCHANGES: usize = 2;

/// Maximum rate at which two clocks drift apart: 100 parts per million. Quartz is within 50, and the kernel slews
/// faster only while it corrects a wrong time.
const DRIFT: f64 = 1e-4;

/// One request and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The requester's time when it sent the request.
    pub sent: Nanos,
    /// The other clock's time when the answer was sent.
    pub there: Nanos,
    /// The requester's time when the answer was read.
    pub back: Nanos,
}

/// The offset between two clocks at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offset {
    /// Time of the measurement, by the requester's clock.
    pub at: Nanos,
    /// The other clock's time minus the requester's, in nanoseconds.
    pub ahead: i64,
    /// The maximum error of `ahead`.
    pub uncertainty: Nanos,
}

impl Sample {
    fn offset(self) -> Offset {
        let trip = self.back.since(self.sent).0;
        let middle = self.sent.0 + trip / 2;
        let ahead = self.there.0.wrapping_sub(middle) as i64;
        Offset { at: Nanos(middle), ahead, uncertainty: Nanos(trip / 2 + 1) }
    }
}

/// Returns true if a further exchange follows after this number of exchanges.
pub fn needs_exchange(exchanges: usize, one_clock: bool, elapsed: Duration) -> bool {
    match one_clock {
        true => exchanges < SAME_CLOCK_EXCHANGES,
        false => exchanges < MIN_EXCHANGES || (exchanges < MAX_EXCHANGES && elapsed < ENOUGH),
    }
}

/// Returns the identity of this process's CLOCK_MONOTONIC: the boot and the time namespace (time_namespaces(7)). None
/// if /proc does not show them.
pub fn identity() -> Option<String> {
    let boot = crate::meet::boot();
    let space = match std::fs::read_link("/proc/self/ns/time") {
        Ok(space) => space.to_string_lossy().into_owned(),
        // A kernel without time namespaces (before Linux 5.6) has one clock.
        Err(_) if std::fs::read_link("/proc/self/ns/mnt").is_ok() => "time".to_string(),
        Err(_) => return None,
    };
    (!boot.is_empty()).then(|| format!("{boot} {space}"))
}

impl Offset {
    /// Returns the offset between two processes whose clocks have the same identity: 0. An offset beyond the
    /// uncertainty is kept: copies of one virtual machine have the same boot ID and different clocks.
    pub fn assuming_same_clock(self) -> Offset {
        match self.ahead.unsigned_abs() <= self.uncertainty.0 {
            true => Offset { at: self.at, ..Offset::default() },
            false => self,
        }
    }
}

/// Returns the offset with the smallest uncertainty among samples taken close together; None without samples.
pub fn best(samples: &[Sample]) -> Option<Offset> {
    samples.iter().map(|sample| sample.offset()).min_by_key(|offset| offset.uncertainty)
}

/// The clock of another process over a phase: its offset before and after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// Before the phase.
    pub before: Offset,
    /// After it.
    pub after: Offset,
}

impl Clock {
    /// Returns the offset at a time of the requester's clock, by linear interpolation.
    pub fn at(&self, time: Nanos) -> Offset {
        let (from, to) = (self.before, self.after);
        let length = to.at.since(from.at).0;
        if length == 0 {
            return Offset { at: time, ..from };
        }
        let fraction = (time.since(from.at).0 as f64 / length as f64).clamp(0.0, 1.0);
        let ahead = from.ahead as f64 + to.ahead.saturating_sub(from.ahead) as f64 * fraction;
        let larger = from.uncertainty.max(to.uncertainty);
        if larger.is_zero() {
            // The clocks are the same: every measured offset has an uncertainty.
            return Offset { at: time, ..from };
        }
        // Between the two measurements a clock may have drifted away and returned.
        let distance = time.0.abs_diff(from.at.0).min(time.0.abs_diff(to.at.0));
        let uncertainty = larger + Nanos((distance as f64 * DRIFT) as u64);
        Offset { at: time, ahead: ahead.round() as i64, uncertainty }
    }

    /// Converts a time of the other clock to the requester's.
    pub fn to_ours(self, there: Nanos) -> Nanos {
        let guess = subtract_offset(there, self.before.ahead);
        subtract_offset(there, self.at(guess).ahead)
    }

    /// Converts a time of the requester's clock to the other's, with the offset before the phase.
    pub fn to_theirs(self, ours: Nanos) -> Nanos {
        subtract_offset(ours, -self.before.ahead)
    }
}

fn subtract_offset(time: Nanos, ahead: i64) -> Nanos {
    Nanos(time.0.wrapping_sub(ahead as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(sent: u64, there: u64, back: u64) -> Sample {
        Sample { sent: Nanos(sent), there: Nanos(there), back: Nanos(back) }
    }

    #[test]
    fn the_shortest_round_trip_decides_and_its_half_is_the_uncertainty() {
        // The other clock is 1,000,000 ahead; the second answer was delayed.
        let samples = [
            sample(0, 1_000_090, 100),
            sample(1000, 1_001_020, 9000),
            sample(20_000, 1_020_030, 20_060),
        ];
        let best = best(&samples).unwrap();
        assert_eq!((best.ahead, best.uncertainty), (1_000_000, Nanos(31)));
        assert!(samples.iter().all(|sample| {
            let offset = sample.offset();
            offset.ahead.abs_diff(1_000_000) <= offset.uncertainty.0
        }));
        assert_eq!(super::best(&[]), None);
    }

    #[test]
    fn one_clock_has_no_offset_and_no_uncertainty_however_long_an_answer_took() {
        // The answer was delayed: according to the measurement, the clock would be 4,910 behind.
        let late = best(&[sample(1000, 1090, 11_000)]).unwrap();
        assert_eq!(late.ahead, -4910);
        let before = late.assuming_same_clock();
        assert_eq!((before.ahead, before.uncertainty), (0, Nanos(0)));
        let after = Offset { at: Nanos(9_000_000_000), ..before };
        let middle = Clock { before, after }.at(Nanos(4_000_000_000));
        assert_eq!((middle.ahead, middle.uncertainty), (0, Nanos(0)));
        // A copy of a virtual machine: the same boot ID, but a different time.
        let copy = best(&[sample(1000, 900_000, 1200)]).unwrap();
        assert_eq!(copy.assuming_same_clock(), copy);
    }

    #[test]
    fn another_clock_is_measured_until_the_time_is_over_and_the_same_clock_twice() {
        let exchanges = |one_clock, elapsed| {
            (0..)
                .find(|done| !needs_exchange(*done, one_clock, Duration::from_millis(elapsed)))
                .unwrap()
        };
        assert_eq!([exchanges(true, 0), exchanges(false, 0), exchanges(false, 60)], [2, 100, 12]);
    }

    #[test]
    fn the_identity_of_a_clock_is_the_boot_and_the_time_namespace() {
        let clock_identity = identity().unwrap();
        assert_eq!(clock_identity, identity().unwrap());
        assert!(
            clock_identity.starts_with(&crate::meet::boot()) && clock_identity.contains("time"),
            "{clock_identity}"
        );
    }

    #[test]
    fn the_offset_of_a_drifting_clock_is_interpolated_between_two_measurements() {
        let at = |at, ahead| Offset { at: Nanos(at), ahead, uncertainty: Nanos(10) };
        let clock = Clock { before: at(1_000_000, -500), after: at(3_000_000, 500) };
        assert_eq!(clock.at(Nanos(2_000_000)).ahead, 0);
        assert_eq!(clock.to_ours(Nanos(2_000_000)), Nanos(2_000_000));
        assert_eq!(clock.to_ours(Nanos(3_000_500)), Nanos(3_000_000));
        assert_eq!(clock.to_theirs(Nanos(1_000_000)), Nanos(999_500));
        assert_eq!(clock.at(Nanos(2_000_000)).uncertainty, Nanos(110));
        assert_eq!(Clock::default().to_ours(Nanos(7)), Nanos(7));
        let jumped = Clock { before: at(0, i64::MIN), after: at(1_000, i64::MAX) };
        assert_eq!(jumped.at(Nanos(0)).ahead, i64::MIN);
    }
}
