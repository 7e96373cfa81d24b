//! What a fresh file system goes through before its trial: filled, and written over.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::suggest;
use crate::units::{Bytes, Count};

/// How a file system is aged: `fill=80%,churn=1,files=lognormal:64K:1.5,seed=1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AgePlan {
    /// How much of the file system is in use afterwards, in percent of all its blocks.
    pub fill: u32,
    /// How often as many files as there are were removed and others written in their place.
    pub churn: u32,
    /// Where the sizes of the files come from, as a workload's `sizes` takes it.
    pub files: String,
    /// What files are removed and how large they are; none draws it from the trial's seed, so that
    /// every seed has a file system that aged in its own way.
    pub seed: Option<u64>,
}

/// Fuller than this a file system has no room for its own books: ext4 alone keeps 5 % back.
const FULLEST: u32 = 95;

/// More rounds change nothing that a trial sees, and each writes as much as there is.
const MOST_CHURN: u32 = 100;

/// The sizes that are taken if nothing is said: half of the files below 64 KiB, 200 KiB in the mean.
const USUAL_FILES: &str = "lognormal:64K:1.5";

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

    fn from_str(typed: &str) -> Result<AgePlan, String> {
        let (mut fill, mut churn, mut files, mut seed) = (None, None, None, None);
        for part in typed.split(',') {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let twice = match key {
                "fill" => fill.replace(value).is_some(),
                "churn" => churn.replace(value).is_some(),
                "files" => files.replace(value).is_some(),
                "seed" => seed.replace(value).is_some(),
                _ => {
                    let hint = suggest::hint(key, KEYS.iter().copied());
                    return Err(format!("'{part}' is no part of an age; {hint}"));
                }
            };
            if twice {
                return Err(format!("'{typed}' says {key} twice"));
            }
        }
        let number = |key: &str, text: &str, least: u32, most: u32| {
            let number = text.parse().ok().and_then(|Count(number)| u32::try_from(number).ok());
            number.filter(|number| (least..=most).contains(number)).ok_or(format!(
                "{key}={text} is not possible; it is a number from {} to {}",
                Count(least.into()),
                Count(most.into())
            ))
        };
        let fill = fill.ok_or(format!("'{typed}' does not say how full: write fill=80%"))?;
        Ok(AgePlan {
            fill: number("fill", fill.strip_suffix('%').unwrap_or(fill), 1, FULLEST)?,
            churn: number("churn", churn.unwrap_or("1"), 0, MOST_CHURN)?,
            files: files.unwrap_or(USUAL_FILES).to_string(),
            seed: seed
                .map(|text| {
                    let number = text.parse().map(|Count(seed)| seed);
                    number.map_err(|_| format!("seed={text} is no seed; it is a number"))
                })
                .transpose()?,
        })
    }
}

impl TryFrom<String> for AgePlan {
    type Error = String;

    fn try_from(typed: String) -> Result<AgePlan, String> {
        typed.parse()
    }
}

impl From<AgePlan> for String {
    fn from(age: AgePlan) -> String {
        age.to_string()
    }
}

/// What came of ageing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Aged {
    /// Files that stay beside the trial's own tree.
    pub files: u64,
    /// Their directories.
    pub directories: u64,
    /// Their bytes.
    pub bytes: Bytes,
    /// Files that were removed on the way.
    pub removed: u64,
    /// Space in use afterwards, by statfs.
    pub used: Bytes,
    /// Space there is in all, by statfs.
    pub size: Bytes,
}

impl Aged {
    /// How full the file system is, in percent of its blocks.
    pub fn fill(&self) -> f64 {
        100.0 * self.used.0 as f64 / self.size.0.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_typed_as_it_is_recorded() {
        for typed in ["fill=80%,churn=3,files=4K-1M,seed=1", "fill=5%,churn=0,files=mix"] {
            assert_eq!(typed.parse::<AgePlan>().unwrap().to_string(), typed);
        }
        let usual: AgePlan = "fill=80".parse().unwrap();
        assert_eq!(usual.to_string(), "fill=80%,churn=1,files=lognormal:64K:1.5");
    }

    #[test]
    fn what_no_file_system_can_be_is_refused_with_what_it_can() {
        for (wrong, hint) in [
            ("", "fill"),
            ("churn=1", "write fill=80%"),
            ("fill=0%", "1 to 95"),
            ("fill=96%", "1 to 95"),
            ("fill=8O%", "1 to 95"),
            ("fill=80%,churn=101", "0 to 100"),
            ("fill=80%,seed=x", "is no seed"),
            ("fill=80%,fill=70%", "twice"),
            ("fil=80%", "'fill'"),
        ] {
            let text = wrong.parse::<AgePlan>().unwrap_err();
            assert!(text.contains(hint), "{wrong}: {text}");
        }
    }
}
