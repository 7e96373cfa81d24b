//! Time series of a phase: the ops that returned in each interval, and the dirty bytes at its end.
//!
//! Series are stored in a sidecar of the result folder, `series.ndjson`, one line per successful trial, in the order of
//! `trials.ndjson`; the trial's own record contains only values of whole phases. In the lab, the clock is virtual, and
//! a line is bit-identical on every machine, as is [`crate::trial::Trial::measured`].

mod phase;

use serde::{Deserialize, Serialize};

pub use self::phase::{MAX_INTERVALS, MIN_INTERVAL, MIN_SAMPLED_INTERVAL, PhaseSeries};
use crate::trial::{Identity, Trial};

/// Name of the sidecar in a result folder.
pub const FILE: &str = "series.ndjson";

/// The series of one trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Series {
    /// Version of the schema of records.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = crate::SCHEMA)))]
    pub schema: u32,
    /// Identity of the trial: `trial_id` of its record.
    pub trial_id: String,
    /// Label of the trial's row, which the identity excludes.
    pub label: String,
    /// Identity of the lab, or null on a host. Two labs may run trials of one identity.
    pub lab_id: Option<String>,
    /// Start of the trial, if each run of it is a separate trial (on a host, under KVM); else empty, as in
    /// older files.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub started: String,
    /// The timed phases, in order, except those too short for two intervals.
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub phases: Vec<PhaseSeries>,
}

impl Series {
    /// Creates the series of a trial; `None` if no phase has one.
    pub fn new(trial: &Trial, phases: Vec<PhaseSeries>) -> Option<Series> {
        (!phases.is_empty()).then(|| Series {
            schema: trial.schema,
            trial_id: trial.trial_id.clone(),
            label: trial.plan.label.clone(),
            lab_id: trial.lab_id.clone(),
            started: trial.identity().started.into(),
            phases,
        })
    }

    /// Returns the identity of the trial.
    pub fn identity(&self) -> Identity<'_> {
        Identity {
            trial_id: &self.trial_id,
            label: &self.label,
            lab_id: self.lab_id.as_deref(),
            started: &self.started,
        }
    }

    /// Returns true if the series belongs to this trial.
    pub fn belongs_to(&self, trial: &Trial) -> bool {
        let (identity, trial_identity) = (self.identity(), trial.identity());
        identity == trial_identity
            || (self.started.is_empty() && identity == Identity { started: "", ..trial_identity })
    }
}
