//! The result of `fsdyno tune`: the recommended options of each file system, the effect of each option, and the
//! evidence.

mod document;
mod sentences;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use document::{effect_columns, front_columns, lines};
pub use sentences::{certificate as certificate_sentences, recommendation};

/// Sentences on confirmations under other conditions.
pub fn confirmation_sentences(tuned: &Tuned, result: &TunedFilesystem) -> Vec<String> {
    result
        .truth
        .iter()
        .map(|confirmation| sentences::confirmation_sentence(confirmation, tuned.least))
        .collect()
}

/// The name of the result's file in a folder.
pub const FILE: &str = "tune.json";

/// Format version of that file.
pub const VERSION: u32 = 1;

/// The result of a search for the best options.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Tuned {
    /// Format version: 1.
    pub tune: u32,
    /// The workload with its parameters.
    pub workload: String,
    /// The quantity that was minimised, as text.
    pub objective: String,
    /// The target on which trials ran, as text.
    pub target: String,
    /// True if no value was tried that gives up durability or security.
    pub safe: bool,
    /// The smallest relative difference that matters.
    pub least: f64,
    /// The file systems, in the order of the command.
    pub filesystems: Vec<TunedFilesystem>,
    /// The comparison of the recommended options of several file systems.
    pub between: Vec<String>,
    /// The parameters of the workload that were reduced so that the search fits its budget.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reductions: Vec<Reduction>,
}

/// A parameter that was reduced so that a search fits its budget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reduction {
    /// Its name.
    pub parameter: String,
    /// The default.
    pub full: u64,
    /// The value in the search.
    pub reduced: u64,
}

impl Reduction {
    /// Describes the reduction, and how to avoid it.
    pub fn sentence(&self) -> String {
        let Reduction { parameter, full, reduced } = self;
        format!(
            "to fit the budget, trials have {parameter}={reduced} instead of {full}; to search with the full work, use \
             --set {parameter}={full} and a larger --budget"
        )
    }
}

/// The result for one file system.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TunedFilesystem {
    /// Its name.
    pub filesystem: String,
    /// The recommended options.
    pub recommended: Settings,
    /// True if the default is recommended.
    pub is_default: bool,
    /// Time of the default in the search, in seconds.
    pub default_seconds: f64,
    /// Time of the recommended options in the search, in seconds.
    pub seconds: f64,
    /// The comparison of the recommended options with the default, on seeds that were not used in the search.
    pub confirmed: Option<Ratio>,
    /// The options that won the search but were not confirmed.
    pub unconfirmed: Option<String>,
    /// The phases with the default and with the recommended options.
    pub phases: Vec<PhaseChange>,
    /// The effect of each value, the largest first.
    pub effects: Vec<OptionEffect>,
    /// Pairs of values whose joint effect differs from the sum of their separate effects.
    pub interactions: Vec<Pair>,
    /// Values that were not tried.
    pub dropped: Vec<Reason>,
    /// Options that mkfs or mount refused, with the message of the program.
    pub refused: Vec<Reason>,
    /// The evidence.
    pub certificate: Evidence,
    /// The measured points, the fastest first.
    pub points: Vec<PointTime>,
    /// Confirmations with a different size and a different workload.
    pub truth: Vec<Confirmation>,
    /// Time, losses and space of the candidates.
    pub front: Vec<Candidate>,
    /// Number of trials.
    pub trials: u64,
    /// The standard deviation of one trial's time relative to the default's, as a fraction.
    pub noise: f64,
    /// True if the budget ended before the neighbourhood of the recommended options was measured.
    pub cut_short: bool,
    /// Two sentences on why the recommended options are faster, or empty if that was not explained.
    pub why: Vec<String>,
}

/// Options in the forms in which a user sets them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// The options in the notation of the space.
    pub words: String,
    /// The file system in the notation of `--fs`.
    pub spec: String,
    /// The command that creates it.
    pub mkfs: String,
    /// The line for /etc/fstab.
    pub fstab: String,
    /// Lines for /etc/sysctl.conf.
    pub sysctls: Vec<String>,
    /// The block scheduler.
    pub scheduler: Option<String>,
    /// What the options give up, with reasons.
    pub gives_up: Vec<String>,
}

/// A ratio of times with its interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// New over base.
    pub ratio: f64,
    /// Its 95 % interval.
    pub interval: Option<(f64, f64)>,
    /// Number of pairs, or of trials on the smaller side.
    pub n: usize,
    /// True if the difference is significant, and larger than the smallest difference that matters.
    pub holds: bool,
}

/// A phase with the default and with the recommended options.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PhaseChange {
    /// Its name.
    pub name: String,
    /// Its weight in the objective.
    pub weight: f64,
    /// Seconds with the default.
    pub default_seconds: f64,
    /// Seconds with the recommended options.
    pub seconds: f64,
}

/// The effect of a value of an option. Changes are relative: -0.1 is 10 % less time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OptionEffect {
    /// The option and its value: `NAME=VALUE`.
    pub what: String,
    /// The description of the option.
    pub about: String,
    /// The text that sets the option.
    pub sets: String,
    /// The change due to this value alone, with all other options at their defaults.
    pub alone: Option<f64>,
    /// The standard deviation, caused by noise, of the logarithm of that change.
    pub alone_deviation: f64,
    /// The change in combination with the recommended options.
    pub with_winner: Option<f64>,
    /// The average change over the space, according to the model.
    pub average: Option<f64>,
    /// True if it has no measurable effect.
    pub is_nothing: bool,
    /// True if it is recommended.
    pub is_recommended: bool,
    /// What the value gives up, with reasons.
    pub gives_up: Vec<String>,
}

/// Two values whose joint effect differs from the sum of their separate effects.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// One value.
    pub one: String,
    /// The other value.
    pub other: String,
    /// The additional change of both together.
    pub change: f64,
    /// The standard deviation of its logarithm, according to the model.
    pub deviation: f64,
}

/// A subject, with a reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// The subject.
    pub what: String,
    /// The reason.
    pub why: String,
}

/// The evidence on a space, with values by name.
pub type Evidence = fsdyno_tune::Evidence<ExcludedValue>;

/// A value for which all points are excluded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExcludedValue {
    /// The value.
    pub what: String,
    /// The minimum fraction by which every point with this value takes longer than the best one.
    pub least: f64,
}

/// A measured point.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PointTime {
    /// The point in the notation of its space.
    pub words: String,
    /// The file system in the notation of `--fs`.
    pub spec: String,
    /// The time in seconds.
    pub seconds: f64,
    /// The change relative to the default.
    pub change: f64,
    /// Number of trials.
    pub trials: usize,
}

/// A confirmation under conditions that were not used in the search.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Confirmation {
    /// The conditions.
    pub what: String,
    /// The comparison of the recommended options with the default, or `None` if it could not be measured.
    pub ratio: Option<Ratio>,
    /// The reason why it could not be measured.
    pub failed: Option<String>,
}

/// A candidate with its costs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// The options in the notation of the space.
    pub words: String,
    /// The time in seconds.
    pub seconds: f64,
    /// Number of power cuts after which acknowledged work was lost, or the file system could not be mounted.
    pub losses: Option<u64>,
    /// Number of power cuts.
    pub cuts: u64,
    /// The upper bound of the probability of such a loss, with 95 % confidence.
    pub bound: Option<f64>,
    /// Number of power cuts after which a repair was necessary.
    pub repairs: u64,
    /// Space in use at the end of the last phase, in bytes.
    pub space: u64,
    /// What the candidate gives up, according to its space.
    pub gives_up: Vec<String>,
    /// True if no other candidate is better in one of time, losses and space, and not worse in the others.
    pub is_on_front: bool,
    /// The reason why no power cuts were tried.
    pub uncut: Option<String>,
}

impl Tuned {
    /// Parses the text of [`FILE`].
    ///
    /// # Errors
    /// The error in the text.
    pub fn parse(text: &str) -> Result<Tuned, String> {
        let tuned: Tuned = serde_json::from_str(text).map_err(|error| error.to_string())?;
        match tuned.tune {
            VERSION => Ok(tuned),
            other => {
                Err(format!("it has version {other}, but this fsdyno reads version {VERSION}"))
            }
        }
    }
}

/// Marks the candidates that no other candidate dominates in time, losses and space.
pub fn mark_front(candidates: &mut [Candidate]) {
    let values: Vec<(f64, u64, u64)> = candidates
        .iter()
        .map(|candidate| (candidate.seconds, candidate.losses.unwrap_or(u64::MAX), candidate.space))
        .collect();
    for (index, candidate) in candidates.iter_mut().enumerate() {
        let value = values[index];
        candidate.is_on_front = !values.iter().any(|other| {
            let not_worse = other.0 <= value.0 && other.1 <= value.1 && other.2 <= value.2;
            not_worse && *other != value
        });
    }
}
