//! A phase over time: how many ops came back in each interval, and what was dirty at its end.
//!
//! Series lie in a side file of the result folder, `series.ndjson`, one line for each trial that ended
//! well, in the order of `trials.ndjson`; the trial's own record has figures of whole phases only. In the
//! lab the clock is virtual, and a line is byte for byte the same on every machine, as
//! [`crate::trial::Trial::measured`] is.

use serde::{Deserialize, Serialize};

use crate::trial::{Identity, Trial};
use crate::units::{Bytes, Nanos};

/// The name of the side file in a result folder.
pub const FILE: &str = "series.ndjson";

/// No phase has more intervals. Where there would be more, each two become one, so that a phase that is
/// long enough (5.12 s where somebody looks, 1.28 s elsewhere) ends with 128 to 256 of them.
pub const MOST_INTERVALS: usize = 256;

/// The shortest interval in which ops are counted, where nothing else is looked at: no interval is longer
/// than a hundredth of a second without need, and the end of one costs the ops nothing that shows.
pub const SHORTEST_INTERVAL: Nanos = Nanos(10_000_000);

/// The shortest interval at whose end somebody looks at what is dirty. In the lab one look takes 22 to 37
/// us of the only CPU, and is to take less than 0.1 % of the time (docs/lab.md).
pub const SHORTEST_LOOK: Nanos = Nanos(40_000_000);

/// The series of one trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Series {
    /// Version of the schema of records.
    pub schema: u32,
    /// Whose they are: [`crate::trial::Trial::trial_id`].
    pub trial_id: String,
    /// Its row, which the identity leaves out.
    pub label: String,
    /// In which lab; none on a host. Two labs may run trials of one identity.
    pub lab_id: Option<String>,
    /// When their trial started, where each run of it is a trial of its own ([`Trial::identity`]); else empty, as in
    /// files of fsdyno before that was kept.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub started: String,
    /// The timed phases, in order; those too short for two intervals are left out.
    pub phases: Vec<PhaseSeries>,
}

/// One phase, from its first op to its durable stamp (else its last), in intervals of one length.
/// All lists that are not empty have one entry for each interval; the last interval may be cut short.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseSeries {
    /// The phase's name in the workload.
    pub name: String,
    /// Length of an interval.
    pub interval_ns: Nanos,
    /// Length of the whole; the last interval ends here.
    pub length_ns: Nanos,
    /// Ops that came back in each interval, of all threads.
    pub ops: Vec<u64>,
    /// Dirty page cache at the end of each interval, bytes; empty where it cannot be told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dirty_bytes: Vec<u64>,
    /// Pages under write-back at the end of each interval, bytes; empty where it cannot be told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writeback_bytes: Vec<u64>,
    /// Bytes that the device was done with writing in each interval; empty where it cannot be told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub device_written_bytes: Vec<u64>,
}

impl Series {
    /// The series of a trial; none where no phase has one.
    pub fn of(trial: &Trial, phases: Vec<PhaseSeries>) -> Option<Series> {
        (!phases.is_empty()).then(|| Series {
            schema: trial.schema,
            trial_id: trial.trial_id.clone(),
            label: trial.plan.label.clone(),
            lab_id: trial.lab_id.clone(),
            started: trial.identity().started.into(),
            phases,
        })
    }

    /// Whose they are.
    pub fn identity(&self) -> Identity<'_> {
        Identity {
            trial_id: &self.trial_id,
            label: &self.label,
            lab_id: self.lab_id.as_deref(),
            started: &self.started,
        }
    }

    /// Whether they are this trial's.
    pub fn is_of(&self, trial: &Trial) -> bool {
        let (own, of) = (self.identity(), trial.identity());
        own == of || (self.started.is_empty() && own == Identity { started: "", ..of })
    }
}

impl PhaseSeries {
    /// When an interval ends, from the phase's first op; the last one may end before its full length.
    pub fn end(&self, interval: usize) -> Nanos {
        let full = self.interval_ns.0.saturating_mul(interval as u64 + 1);
        Nanos(full.min(self.length_ns.0))
    }

    /// How long an interval is: all alike but the last.
    pub fn length(&self, interval: usize) -> Nanos {
        self.end(interval).since(Nanos(self.interval_ns.0.saturating_mul(interval as u64)))
    }

    /// What was dirty or under write-back at the end of an interval; none where that cannot be told.
    pub fn unwritten(&self, interval: usize) -> Option<Bytes> {
        let dirty = self.dirty_bytes.get(interval)?;
        Some(Bytes(dirty + self.writeback_bytes.get(interval).copied().unwrap_or(0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_interval_ends_with_the_phase() {
        let series = PhaseSeries {
            interval_ns: Nanos(10),
            length_ns: Nanos(23),
            ops: vec![5, 6, 1],
            dirty_bytes: vec![4096, 8192, 0],
            writeback_bytes: vec![0, 4096, 0],
            ..PhaseSeries::default()
        };
        let ends: Vec<u64> = (0..3).map(|at| series.end(at).0).collect();
        assert_eq!(ends, [10, 20, 23]);
        assert_eq!((series.length(0), series.length(2)), (Nanos(10), Nanos(3)));
        assert_eq!((series.unwritten(1), series.unwritten(3)), (Some(Bytes(12288)), None));
    }
}
