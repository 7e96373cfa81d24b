//! The time of a phase that verdicts compare. Every report uses the same one.

use fsdyno_record::trial::Phase;

/// The amount of work done: in the phase's unit, or in calls.
pub fn operations(phase: &Phase) -> u64 {
    let unit = phase.unit.as_ref().and_then(|unit| phase.books.get(unit));
    unit.copied().unwrap_or_else(|| phase.ops.values().map(|stats| stats.count).sum())
}

/// The measure in seconds: the time to durable if it is requested and known, else to returned. A phase that ends
/// at a time limit is measured by its work: the time to returned per operation.
pub fn seconds(phase: &Phase, by_durable: bool) -> f64 {
    if phase.limit_ns.is_some() {
        return phase.returned_ns.seconds() / operations(phase) as f64;
    }
    phase.durable_ns.filter(|_| by_durable).unwrap_or(phase.returned_ns).seconds()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_record::Nanos;

    #[test]
    fn a_phase_that_ends_by_time_is_measured_per_operation() {
        let (returned_ns, durable_ns) = (Nanos(2_000_000_000), Some(Nanos(3_000_000_000)));
        let mut phase = Phase { returned_ns, durable_ns, ..Phase::default() };
        assert_eq!((seconds(&phase, true), seconds(&phase, false)), (3.0, 2.0));
        phase.limit_ns = Some(Nanos(1));
        phase.unit = Some("mails".into());
        phase.books.insert("mails".into(), 8);
        assert_eq!((operations(&phase), seconds(&phase, true)), (8, 0.25));
        phase.durable_ns = None;
        assert_eq!(seconds(&phase, true), 0.25);
    }
}
