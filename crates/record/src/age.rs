//! The ageing of a fresh file system before its trial: filling and churn.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::suggest;
use crate::units::{Bytes, Count};

/// The parameters of ageing: `fill=80%,churn=1,files=lognormal:64K:1.5,seed=1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
#[cfg_attr(feature = "schema", schemars(extend("pattern" = "^fill=[0-9]+%,churn=[0-9]+,files=[^,]+(,seed=[0-9]+)?$")))]
pub struct AgePlan {
    /// Blocks in use afterwards, in percent of the file system's blocks.
    pub fill: u32,
    /// Number of times that the whole file population is replaced.
    pub churn: u32,
    /// Distribution of file sizes, in the syntax of a workload's `sizes`.
    pub files: String,
    /// Seed of the sizes and of the choice of files to remove; none takes the trial's seed, so that
    /// each seed has a file system that aged differently.
    pub seed: Option<u64>,
}

/// Maximum fill: a file system needs the remaining blocks for its metadata; ext4 alone reserves 5 %.
const MAX_FILL: u32 = 95;

/// Maximum churn: more rounds change nothing that a trial can see, but each rewrites all data.
const MAX_CHURN: u32 = 100;

/// The default of `files`: a median of 64 KiB, a mean of 200 KiB.
const DEFAULT_FILES: &str = "lognormal:64K:1.5";

const KEYS: &[&str] = &["fill", "churn", "files", "seed"];

impl fmt::Display for AgePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fill={}%,churn={},files={}", self.fill, self.churn, self.files)?;
        match self.seed {
            Some(seed) => write!(f, ",seed={seed}"),
            None => Ok(()),
        }
    }
}

impl FromStr for AgePlan {
    type Err = String;

    fn from_str(text: &str) -> Result<AgePlan, String> {
        let (mut fill, mut churn, mut files, mut seed) = (None, None, None, None);
        for part in text.split(',') {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let is_repeated = match key {
                "fill" => fill.replace(value).is_some(),
                "churn" => churn.replace(value).is_some(),
                "files" => files.replace(value).is_some(),
                "seed" => seed.replace(value).is_some(),
                _ => {
                    let hint = suggest::hint(key, KEYS.iter().copied());
                    return Err(format!("'{part}' is not a parameter of ageing; {hint}"));
                }
            };
            if is_repeated {
                return Err(format!("'{text}' gives {key} twice"));
            }
        }
        let number = |key: &str, value: &str, min: u32, max: u32| {
            let number = value.parse().ok().and_then(|Count(number)| u32::try_from(number).ok());
            number.filter(|number| (min..=max).contains(number)).ok_or(format!(
                "{key}={value} is invalid: {key} must be a number from {} to {}",
                Count(min.into()),
                Count(max.into())
            ))
        };
        let fill = fill.ok_or(format!("'{text}' has no fill; add one, such as fill=80%"))?;
        Ok(AgePlan {
            fill: number("fill", fill.strip_suffix('%').unwrap_or(fill), 1, MAX_FILL)?,
            churn: number("churn", churn.unwrap_or("1"), 0, MAX_CHURN)?,
            files: files.unwrap_or(DEFAULT_FILES).to_string(),
            seed: seed
                .map(|value| {
                    let number = value.parse().map(|Count(seed)| seed);
                    number.map_err(|_| format!("seed={value} is invalid: seed must be a number"))
                })
                .transpose()?,
        })
    }
}

impl TryFrom<String> for AgePlan {
    type Error = String;

    fn try_from(text: String) -> Result<AgePlan, String> {
        text.parse()
    }
}

impl From<AgePlan> for String {
    fn from(age: AgePlan) -> String {
        age.to_string()
    }
}

/// The result of ageing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Aged {
    /// Files that remain in addition to the trial's own tree.
    pub files: u64,
    /// Directories of those files.
    pub directories: u64,
    /// Bytes of those files.
    pub bytes: Bytes,
    /// Files that were removed during ageing.
    pub removed: u64,
    /// Space in use afterwards, by statfs.
    pub used: Bytes,
    /// Total space, by statfs.
    pub size: Bytes,
}

impl Aged {
    /// Returns the blocks in use, in percent of the file system's blocks.
    pub fn fill(&self) -> f64 {
        100.0 * self.used.0 as f64 / self.size.0.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_an_age_is_its_recorded_form() {
        for text in ["fill=80%,churn=3,files=4K-1M,seed=1", "fill=5%,churn=0,files=mix"] {
            assert_eq!(text.parse::<AgePlan>().unwrap().to_string(), text);
        }
        let default: AgePlan = "fill=80".parse().unwrap();
        assert_eq!(default.to_string(), "fill=80%,churn=1,files=lognormal:64K:1.5");
    }

    #[test]
    fn an_impossible_age_is_refused_with_the_valid_range() {
        for (invalid, hint) in [
            ("", "fill"),
            ("churn=1", "fill=80%"),
            ("fill=0%", "1 to 95"),
            ("fill=96%", "1 to 95"),
            ("fill=8O%", "1 to 95"),
            ("fill=80%,churn=101", "0 to 100"),
            ("fill=80%,seed=x", "seed must be a number"),
            ("fill=80%,fill=70%", "twice"),
            ("fil=80%", "'fill'"),
        ] {
            let text = invalid.parse::<AgePlan>().unwrap_err();
            assert!(text.contains(hint), "{invalid}: {text}");
        }
    }
}
