//! Compares a stored trial with a repetition: bit-identical, the same requests in about the same time, or different.

use std::collections::BTreeMap;

use fsdyno_record::Nanos;
use fsdyno_record::trial::{Measured, Phase};

/// Maximum relative difference between the times of two runs of a trial that still count as the same. Different
/// addresses of the program's code change times by up to 0.05 %, the seed by 2 to 9 % (docs/statistics.md).
pub const TOLERANCE: f64 = 0.01;

/// The result of a repetition.
#[derive(Clone, Debug, PartialEq)]
pub enum Repetition {
    /// Bit-identical measurements.
    Identical,
    /// The same calls and requests in each phase; no time differs by more than this fraction of the stored one.
    Same(f64),
    /// A difference: the phases, the first count that differs, or the largest time difference above [`TOLERANCE`].
    Different(String),
}

impl Repetition {
    /// Compares the measurements of two runs of one trial.
    pub fn of(stored: &Measured, repeated: &Measured) -> Repetition {
        if stored == repeated {
            return Repetition::Identical;
        }
        let names = |measured: &Measured| -> Vec<String> {
            measured.phases.iter().map(|phase| phase.name.clone()).collect()
        };
        let (expected, actual) = (names(stored), names(repeated));
        if expected != actual {
            let (expected, actual) = (expected.join(", "), actual.join(", "));
            return Repetition::Different(format!("its phases are {actual}, and were {expected}"));
        }
        let pairs = || stored.phases.iter().zip(&repeated.phases);
        if let Some(count) =
            pairs().find_map(|(stored, repeated)| first_difference(stored, repeated))
        {
            return Repetition::Different(count);
        }
        let all = pairs().flat_map(|(stored, repeated)| times(stored, repeated));
        let worst = all.max_by(|a, b| a.fraction.total_cmp(&b.fraction));
        match worst {
            Some(worst) if worst.fraction > TOLERANCE => Repetition::Different(format!(
                "the same requests, but {} {} took {}, and took {} in the stored trial",
                worst.phase, worst.what, worst.repeated, worst.stored
            )),
            worst => Repetition::Same(worst.map_or(0.0, |worst| worst.fraction)),
        }
    }
}

/// Returns all counts of a phase by name.
fn counts(phase: &Phase) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::from([
        ("bytes of write calls".to_string(), phase.bytes_written.0),
        ("bytes of read calls".to_string(), phase.bytes_read.0),
    ]);
    all.extend(phase.ops.iter().map(|(kind, stats)| (format!("calls of {kind}"), stats.count)));
    all.extend(phase.books.iter().map(|(unit, count)| (unit.clone(), *count)));
    let devices = phase.devices.iter().map(|(name, device)| (format!(" of {name}"), device));
    for (name, device) in devices.chain(phase.device.iter().map(|device| (String::new(), device))) {
        let requests = [
            ("reads", device.reads),
            ("writes", device.writes),
            ("flushes", device.flushes),
            ("discards", device.discards),
            ("bytes read", device.bytes_read.0),
            ("bytes written", device.bytes_written.0),
        ];
        all.extend(requests.map(|(what, count)| (format!("{what} on the device{name}"), count)));
    }
    all
}

/// Returns the first count of a phase that differs.
fn first_difference(stored: &Phase, repeated: &Phase) -> Option<String> {
    let (expected, actual) = (counts(stored), counts(repeated));
    let count = |counts: &BTreeMap<String, u64>, what| counts.get(what).copied().unwrap_or(0);
    let what = expected
        .keys()
        .chain(actual.keys())
        .find(|what| count(&expected, *what) != count(&actual, *what))?;
    let (expected, actual) = (count(&expected, what), count(&actual, what));
    Some(format!("phase {}: {actual} {what}, and {expected} in the stored trial", stored.name))
}

struct Time<'a> {
    phase: &'a str,
    what: &'static str,
    stored: Nanos,
    repeated: Nanos,
    /// The difference as a fraction of the stored time.
    fraction: f64,
}

/// Returns the times of a phase; a time that one of the two runs lacks counts as zero there.
fn times<'a>(stored: &'a Phase, repeated: &Phase) -> Vec<Time<'a>> {
    let all = [
        ("returned", Some(stored.returned_ns), Some(repeated.returned_ns)),
        ("synced", stored.synced_ns, repeated.synced_ns),
        ("durable", stored.durable_ns, repeated.durable_ns),
    ];
    let phase = &stored.name;
    let time = |(what, stored, repeated): (&'static str, Option<Nanos>, Option<Nanos>)| {
        if stored.is_none() && repeated.is_none() {
            return None;
        }
        let (stored, repeated) = (stored.unwrap_or_default(), repeated.unwrap_or_default());
        let fraction = stored.0.abs_diff(repeated.0) as f64 / stored.0.max(1) as f64;
        Some(Time { phase, what, stored, repeated, fraction })
    };
    all.into_iter().filter_map(time).collect()
}

#[cfg(test)]
mod tests {
    use fsdyno_record::Bytes;
    use fsdyno_record::trial::Device;

    use super::*;

    fn measured(change: impl Fn(&mut Phase)) -> Measured {
        let device = Device {
            reads: 3,
            writes: 4,
            flushes: 1,
            discards: 0,
            bytes_read: Bytes(4096),
            bytes_written: Bytes(8192),
            seeks: Some(2),
            busy_ns: None,
            peak_in_flight: None,
        };
        let mut phase = Phase {
            name: "create".into(),
            returned_ns: Nanos(1_000_000),
            durable_ns: Some(Nanos(2_000_000)),
            device: Some(device),
            books: [("messages".to_string(), 9)].into(),
            ..Phase::default()
        };
        change(&mut phase);
        Measured { phases: vec![phase], ..Measured::default() }
    }

    fn repeat_with(change: impl Fn(&mut Phase)) -> Repetition {
        Repetition::of(&measured(|_| ()), &measured(change))
    }

    #[test]
    fn equal_bits_equal_requests_and_times_within_the_tolerance_are_distinguished() {
        assert_eq!(repeat_with(|_| ()), Repetition::Identical);
        // Values other than the compared counts and times of a phase do not matter.
        assert_eq!(repeat_with(|phase| phase.cpu_ns = Nanos(5)), Repetition::Same(0.0));
        let later = |increase: u64| {
            move |phase: &mut Phase| phase.durable_ns = Some(Nanos(2_000_000 + increase))
        };
        assert_eq!(repeat_with(later(2_000)), Repetition::Same(0.001));
        let Repetition::Different(reason) = repeat_with(later(200_000)) else {
            panic!("a difference of 10 % counts as the same")
        };
        assert_eq!(
            reason,
            "the same requests, but create durable took 2.20 ms, and took 2.00 ms in the stored trial"
        );
        assert!(matches!(repeat_with(|phase| phase.durable_ns = None), Repetition::Different(_)));
    }

    #[test]
    fn a_different_count_is_reported_with_both_numbers() {
        let reason_after = |change: fn(&mut Phase)| match repeat_with(change) {
            Repetition::Different(reason) => reason,
            other => panic!("{other:?}"),
        };
        let writes = reason_after(|phase| phase.device.as_mut().unwrap().writes = 5);
        assert_eq!(writes, "phase create: 5 writes on the device, and 4 in the stored trial");
        let messages = reason_after(|phase| *phase.books.get_mut("messages").unwrap() = 8);
        assert_eq!(messages, "phase create: 8 messages, and 9 in the stored trial");
        let name = reason_after(|phase| phase.name = "delete".into());
        assert_eq!(name, "its phases are delete, and were create");
    }
}
