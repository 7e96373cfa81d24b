//! Attributes host time to the stages of a trial, as shown in its mailbox.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::mailbox::{Progress, Stage};
use crate::units::Nanos;

/// Host time by stage: the time since the last observation is attributed to the stage observed now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stages {
    /// Time by stage and, for [`Stage::Running`], by the index of the phase.
    times: Vec<(Stage, u64, Duration)>,
    observed: Duration,
}

impl Stages {
    /// Records an observation, `elapsed` after the trial's start.
    pub fn observe(&mut self, progress: &Progress, elapsed: Duration) {
        let elapsed_since = elapsed.saturating_sub(self.observed);
        self.observed = elapsed;
        let phase = if progress.stage == Stage::Running { progress.phase } else { 0 };
        let is_same_stage =
            |entry: &&mut (Stage, u64, Duration)| (entry.0, entry.1) == (progress.stage, phase);
        match self.times.iter_mut().find(is_same_stage) {
            Some(entry) => entry.2 += elapsed_since,
            None => self.times.push((progress.stage, phase, elapsed_since)),
        }
    }

    /// Returns the host time by the names in a record's account: `boot`, `gap`, `phase create`.
    pub fn by_name(&self, phases: &[&str]) -> BTreeMap<String, Nanos> {
        let mut accounts = BTreeMap::new();
        for (stage, phase, spent) in &self.times {
            let phase = usize::try_from(*phase).ok().and_then(|index| phases.get(index));
            let name = match (stage, phase) {
                (Stage::Running, Some(phase)) => format!("phase {phase}"),
                _ => stage.host_time_key().to_string(),
            };
            let spent = Nanos(u64::try_from(spent.as_nanos()).unwrap_or(u64::MAX));
            *accounts.entry(name).or_default() += spent;
        }
        accounts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_time_counts_to_the_stage_observed_at_its_end() {
        let progress = |stage, phase| Progress {
            stage,
            phase,
            phases: 2,
            ops_done: 0,
            ops_total: 0,
            now: Nanos(0),
            requests: 0,
        };
        let mut stages = Stages::default();
        for (stage, phase, milliseconds) in [
            (Stage::Starting, 0, 5),
            (Stage::Ready, 0, 6),
            (Stage::Running, 0, 26),
            (Stage::Gap, 0, 31),
            (Stage::Running, 1, 71),
            (Stage::Gap, 1, 72),
            (Stage::Running, 9, 73),
        ] {
            stages.observe(&progress(stage, phase), Duration::from_millis(milliseconds));
        }
        let expected =
            [("boot", 6), ("gap", 6), ("phase", 1), ("phase one", 20), ("phase two", 40)];
        let expected = expected.map(|(name, ms)| (name.to_string(), Nanos(ms * 1_000_000)));
        assert_eq!(stages.by_name(&["one", "two"]), expected.into());
    }
}
