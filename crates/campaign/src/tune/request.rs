//! A request to search for the best options.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::RunSpec;

/// The request for a search.
#[derive(Clone, Debug)]
pub struct TuneRequest {
    /// The request for the trials, without a file system: one workload, one target.
    pub spec: RunSpec,
    /// The file systems, by name; `all` means all that have a search space.
    pub filesystems: Vec<String>,
    /// The time or the number of trials, for all file systems together.
    pub budget: Budget,
    /// True if values that give up durability or security are not tried.
    pub safe: bool,
    /// The phases that count, with their weights.
    pub objective: Option<String>,
    /// A file that defines the search space, in place of the built-in one.
    pub space: Option<PathBuf>,
    /// Option values that all trials use.
    pub fix: Vec<String>,
    /// The options that are tried; all of them if empty.
    pub only: Vec<String>,
    /// Options or values that are not tried.
    pub exclude: Vec<String>,
    /// The minimum difference that matters, as a fraction of the time.
    pub least_difference: f64,
    /// The seed of the search.
    pub seed: u64,
    /// The number of trials of the winner with seeds that the search did not use.
    pub confirm: u32,
    /// Workloads to confirm the winner with.
    pub also: Vec<String>,
    /// The number of power cuts for each candidate.
    pub cuts: u32,
}

impl TuneRequest {
    /// Creates a request with the default settings.
    pub fn new(spec: RunSpec, filesystems: Vec<String>, budget: Budget) -> TuneRequest {
        TuneRequest {
            spec,
            filesystems,
            budget,
            safe: true,
            objective: None,
            space: None,
            fix: Vec::new(),
            only: Vec::new(),
            exclude: Vec::new(),
            least_difference: 0.005,
            seed: 1,
            confirm: 5,
            also: Vec::new(),
            cuts: 40,
        }
    }
}

/// The budget of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// A time.
    Time(Duration),
    /// A number of trials.
    Trials(usize),
}

/// Maximum number of trials of a search whose budget is a time.
const MAX_TRIALS: usize = 5_000;

impl FromStr for Budget {
    type Err = String;

    fn from_str(text: &str) -> Result<Budget, String> {
        let invalid = || {
            "expected a time such as 30m, 2h or 90s, or a number of trials such as 200trials"
                .to_string()
        };
        let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
        let number: u64 = text[..end].parse().map_err(|_| invalid())?;
        let seconds = match text[end..].trim() {
            "s" => 1,
            "m" | "min" => 60,
            "h" => 3600,
            "trials" | "trial" | "" if number <= 1_000_000 => {
                return Ok(Budget::Trials(number as usize));
            }
            _ => return Err(invalid()),
        };
        let time = number.checked_mul(seconds).filter(|time| (1..=31_536_000).contains(time));
        time.map(|time| Budget::Time(Duration::from_secs(time))).ok_or_else(invalid)
    }
}

impl Budget {
    /// Returns one of `parts` equal parts of the budget.
    pub fn part(self, parts: usize) -> Budget {
        match self {
            Budget::Time(time) => Budget::Time(time / parts.max(1) as u32),
            Budget::Trials(trials) => Budget::Trials(trials / parts.max(1)),
        }
    }

    /// Returns the maximum number of trials.
    pub fn trials(self) -> usize {
        match self {
            Budget::Time(_) => MAX_TRIALS,
            Budget::Trials(trials) => trials,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_a_time_or_a_number_of_trials() {
        let minutes = |n: u64| Budget::Time(Duration::from_secs(60 * n));
        for (text, expected) in [
            ("30m", minutes(30)),
            ("2h", minutes(120)),
            ("60s", minutes(1)),
            ("200trials", Budget::Trials(200)),
            ("200", Budget::Trials(200)),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        for text in ["", "m", "30x", "0s", "-5m", "1.5h", "99999999999999999999m", "9999999999h"] {
            assert!(text.parse::<Budget>().is_err(), "{text}");
        }
        assert_eq!(minutes(30).part(2), minutes(15));
    }
}
