//! The difference of two clocks: one process asks the other for its time, and takes the answer with the shortest round
//! trip (D. Mills, RFC 5905, clock filter). Half of that round trip is the uncertainty, whatever the two ways took.

use fsdyno_record::Nanos;

/// Most that two clocks drift apart: 100 parts in a million. Quartz is within 50, and the kernel slews by more only while
/// it corrects a wrong time.
const DRIFT: f64 = 1e-4;

/// One question and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The asker's time when it sent.
    pub sent: Nanos,
    /// The other's time when it answered.
    pub there: Nanos,
    /// The asker's time when the answer was read.
    pub back: Nanos,
}

/// A difference of clocks at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offset {
    /// Time of the measurement, by the asker's clock.
    pub at: Nanos,
    /// The other's time less the asker's.
    pub ahead: i64,
    /// The most by which that is wrong.
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

/// The difference with the smallest uncertainty among samples taken close together; none without samples.
pub fn best(samples: &[Sample]) -> Option<Offset> {
    samples.iter().map(|sample| sample.offset()).min_by_key(|offset| offset.uncertainty)
}

/// The clock of another process over a phase: its difference before and after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// Before the phase.
    pub before: Offset,
    /// After it.
    pub after: Offset,
}

impl Clock {
    /// The difference at a time of the asker's clock, between the two by their distance.
    pub fn at(&self, time: Nanos) -> Offset {
        let (from, to) = (self.before, self.after);
        let length = to.at.since(from.at).0;
        if length == 0 {
            return Offset { at: time, ..from };
        }
        let part = (time.since(from.at).0 as f64 / length as f64).clamp(0.0, 1.0);
        let ahead = from.ahead as f64 + (to.ahead - from.ahead) as f64 * part;
        // Between the two a clock may have drifted away and returned.
        let near = time.0.abs_diff(from.at.0).min(time.0.abs_diff(to.at.0));
        let uncertainty =
            from.uncertainty.max(to.uncertainty) + Nanos((near as f64 * DRIFT) as u64);
        Offset { at: time, ahead: ahead.round() as i64, uncertainty }
    }

    /// A time of the other clock in the asker's.
    pub fn to_ours(self, there: Nanos) -> Nanos {
        let guess = less(there, self.before.ahead);
        less(there, self.at(guess).ahead)
    }

    /// A time of the asker's clock in the other's, before the phase.
    pub fn to_theirs(self, ours: Nanos) -> Nanos {
        less(ours, -self.before.ahead)
    }
}

fn less(time: Nanos, ahead: i64) -> Nanos {
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
        // The other clock is 1,000,000 ahead; the second question was held up on its way back.
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
    fn a_clock_that_drifts_is_followed_between_two_measurements() {
        let at = |at, ahead| Offset { at: Nanos(at), ahead, uncertainty: Nanos(10) };
        let clock = Clock { before: at(1_000_000, -500), after: at(3_000_000, 500) };
        assert_eq!(clock.at(Nanos(2_000_000)).ahead, 0);
        assert_eq!(clock.to_ours(Nanos(2_000_000)), Nanos(2_000_000));
        assert_eq!(clock.to_ours(Nanos(3_000_500)), Nanos(3_000_000));
        assert_eq!(clock.to_theirs(Nanos(1_000_000)), Nanos(999_500));
        assert_eq!(clock.at(Nanos(2_000_000)).uncertainty, Nanos(110));
        assert_eq!(Clock::default().to_ours(Nanos(7)), Nanos(7));
    }
}
