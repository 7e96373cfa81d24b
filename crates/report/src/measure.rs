//! The measure of trials. It is chosen once for all trials that are compared with each other, so that no table mixes
//! ratios of different measures.

use crate::seconds;
use fsdyno_record::trial::Phase;
use fsdyno_record::{Bytes, OpKind, Trial};
use fsdyno_stats::compare::Verdict;
use schemars::JsonSchema;
use serde::Serialize;

use crate::number;
use crate::run::Run;

/// A value under the name of its unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Amount {
    /// A time.
    Seconds {
        /// Value in seconds; null if it is unknown.
        seconds: Option<f64>,
    },
    /// Device space per file.
    Bytes {
        /// Value in bytes; null if it is unknown.
        bytes: Option<f64>,
    },
}

/// A measure; less is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Seconds until the device's own cache was empty.
    Durable,
    /// Seconds until the last call returned.
    Returned,
    /// Seconds per operation, for a phase that ended at a time limit.
    Operation,
    /// Bytes of the device per file of a full file system.
    Space,
    /// CPU seconds of the threads that issue ops; per operation, if the phase ended at a time limit.
    Cpu {
        /// True if the time is per operation.
        each: bool,
    },
    /// The 99th percentile of the latency of this op, in seconds, or `None` if no op was done.
    P99(Option<OpKind>),
}

impl Measure {
    /// The default measure: space per file if all file systems were filled, time per operation if a phase ended at a
    /// time limit, otherwise the time to durable if it is known for all trials, otherwise the time to returned.
    pub fn of<'r, 'a: 'r>(runs: impl Iterator<Item = &'r Run<'a>> + Clone) -> Measure {
        if runs.clone().all(|run| space_per_file(run.0).is_some()) {
            Measure::Space
        } else if runs.clone().any(|run| run.1.limit_ns.is_some()) {
            Measure::Operation
        } else if runs.clone().all(|run| run.1.durable_ns.is_some()) {
            Measure::Durable
        } else {
            Measure::Returned
        }
    }

    /// The value of a trial, or `None` if it was not measured.
    pub fn value(self, (trial, phase): &Run<'_>) -> Option<f64> {
        let value = match self {
            Measure::Space => space_per_file(trial)?,
            Measure::Durable | Measure::Returned | Measure::Operation => self.seconds(phase),
            Measure::Cpu { each: false } => phase.cpu_ns.seconds(),
            Measure::Cpu { each: true } => {
                phase.cpu_ns.seconds() / seconds::operations(phase) as f64
            }
            Measure::P99(op) => phase.ops.get(&op?)?.p99_ns.seconds(),
        };
        Some(value).filter(|value| value.is_finite())
    }

    fn seconds(self, phase: &Phase) -> f64 {
        match self {
            Measure::Returned => phase.returned_ns.seconds(),
            _ => seconds::seconds(phase, self == Measure::Durable),
        }
    }

    /// The names of all measures in exports.
    pub const NAMES: [&str; 6] = ["durable", "returned", "operation", "room", "cpu", "p99"];

    /// The units of all measures in exports.
    pub const UNITS: [&str; 2] = ["seconds", "bytes"];

    /// The name of the measure in exports.
    pub const fn name(self) -> &'static str {
        match self {
            Measure::Durable => "durable",
            Measure::Returned => "returned",
            Measure::Operation => "operation",
            Measure::Space => "room",
            Measure::Cpu { .. } => "cpu",
            Measure::P99(_) => "p99",
        }
    }

    /// The unit of the measure's values, as named in exports.
    pub fn unit(self) -> &'static str {
        if self == Measure::Space { "bytes" } else { "seconds" }
    }

    /// A value in exports, under the name of its unit.
    pub fn amount(self, value: Option<f64>) -> Amount {
        match self {
            Measure::Space => Amount::Bytes { bytes: value },
            _ => Amount::Seconds { seconds: value },
        }
    }

    /// The name of the measure in a table's caption.
    pub fn words(self) -> &'static str {
        match self {
            Measure::Durable => "Time to durable",
            Measure::Returned => "Time to returned",
            Measure::Operation => "Time per operation",
            Measure::Space => "Device space per file",
            Measure::Cpu { .. } => "CPU time",
            Measure::P99(_) => "99th percentile of the latency",
        }
    }

    /// The word for a verdict by this measure.
    pub fn verdict(self, verdict: Verdict) -> &'static str {
        match (self, verdict) {
            (_, Verdict::Undecided) => "undecided",
            (_, Verdict::WithinError) => "within the processor model's error",
            (_, Verdict::Same) => "same",
            (Measure::Space, Verdict::Faster) => "less space",
            (Measure::Space, Verdict::Slower) => "more space",
            (_, Verdict::Faster) => "faster",
            (_, Verdict::Slower) => "slower",
        }
    }

    /// A value with its unit.
    pub fn format(self, value: f64) -> String {
        match self {
            Measure::Space => Bytes(value.round().max(0.0) as u64).to_string(),
            _ => number::seconds(value),
        }
    }
}

/// Bytes of the device per file of a full file system, including the space that mkfs takes. On devices of equal size,
/// the smallest value means the most files. `None` for a trial that did not fill its file system.
pub fn space_per_file(trial: &Trial) -> Option<f64> {
    let capacity = trial.measured.capacity.as_ref().filter(|capacity| capacity.files > 0)?;
    Some(capacity.device.unwrap_or(capacity.total).0 as f64 / capacity.files as f64)
}

#[cfg(test)]
mod tests {
    use fsdyno_record::trial::Capacity;
    use fsdyno_record::{Nanos, Trial};

    use super::*;
    use crate::fixture;

    fn default_measure(trials: &[Trial]) -> Measure {
        let runs: Vec<Run<'_>> = trials.iter().map(|t| (t, &t.measured.phases[0])).collect();
        Measure::of(runs.iter())
    }

    #[test]
    fn one_trial_without_a_value_changes_the_measure_of_all_trials() {
        let mut trials = fixture::trials();
        assert_eq!(default_measure(&trials), Measure::Durable);
        let capacity = Capacity { device: Some(Bytes(4000)), files: 2, ..Default::default() };
        trials.iter_mut().for_each(|trial| trial.measured.capacity = Some(capacity));
        assert_eq!(default_measure(&trials), Measure::Space);
        let run = (&trials[0], &trials[0].measured.phases[0]);
        assert_eq!(Measure::Space.value(&run), Some(2000.0));
        trials[3].measured.capacity = None;
        assert_eq!(default_measure(&trials), Measure::Durable);
        trials[4].measured.phases[0].durable_ns = None;
        assert_eq!(default_measure(&trials), Measure::Returned);
        trials[5].measured.phases[0].limit_ns = Some(Nanos(9));
        assert_eq!(default_measure(&trials), Measure::Operation);
    }
}
