//! A processor profile as a file: times in nanoseconds, sizes in KiB.

use std::collections::BTreeMap;

use fsdyno_catalog::one_line;
use fsdyno_record::processor::{self, Caches, DEFAULT_FETCH_WAYS, EVENTS, Processor};
use serde::{Deserialize, Serialize};

/// A processor profile in TOML.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// A one-line description of the processor.
    pub about: String,
    /// True if the costs are derived from published figures and no such processor was measured.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimate: bool,
    /// Time of an instruction without any event, in nanoseconds.
    pub instruction_ns: f64,
    /// Time of each event of [`EVENTS`] in addition to the time of the instruction, in nanoseconds.
    pub events_ns: BTreeMap<String, f64>,
    /// The caches.
    pub caches: CacheSizes,
    /// The error of the profile over operations to which it was not fitted; `None` if not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_percent: Option<Errors>,
    /// True if the model counts for a fit: only the events of the thread that issues the ops, and all its instructions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub counting: bool,
}

/// Caches with lines of 64 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheSizes {
    /// Size of the first-level data cache.
    pub l1_kib: u64,
    /// Its associativity: l1_kib / l1_ways must be 4.
    pub l1_ways: u64,
    /// Size of the second-level cache.
    pub l2_kib: u64,
    /// Its associativity.
    pub l2_ways: u64,
    /// Size of the first-level instruction cache, with one way per 4 KiB.
    #[serde(default = "default_l1i", skip_serializing_if = "is_default_l1i")]
    pub l1i_kib: u64,
}

fn default_l1i() -> u64 {
    DEFAULT_FETCH_WAYS * WAY_KIB
}

fn is_default_l1i(kib: &u64) -> bool {
    *kib == default_l1i()
}

/// Errors in percent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Errors {
    /// Median error of the CPU time per operation.
    pub median: u64,
    /// Worst error of the CPU time per operation.
    pub worst: u64,
    /// Typical (rms) error of the ratio between two file systems.
    pub ratio: u64,
}

/// An error in a profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// The file is not valid TOML, or its keys and types are not those of a profile.
    #[error("{file}: {error}")]
    Toml {
        /// The file.
        file: String,
        /// The parser's error, with the line.
        error: String,
    },
    /// A value outside its range.
    #[error("{file}: {key} = {value}: {expected}")]
    Value {
        /// The file.
        file: String,
        /// The key.
        key: String,
        /// Its value.
        value: String,
        /// The valid values.
        expected: String,
    },
}

const KIB: u64 = 1024;
const LINE: u64 = 64;
/// The number of sets of a first-level cache: a way is 4 KiB, because the index is taken from the offset in a page.
const FIRST_SETS: u64 = 64;
/// The size of one way of a first-level cache.
const WAY_KIB: u64 = FIRST_SETS * LINE / KIB;
const MAX_WAYS: u64 = 32;
const SECOND_SETS: std::ops::RangeInclusive<u64> = 64..=1 << 14;
/// The valid times of an instruction: from 0.03 ns (an 8 GHz processor with four instructions per cycle) to 8 ns.
const INSTRUCTION_NS: std::ops::RangeInclusive<f64> = 0.03..=8.0;
/// The maximum time of an event: a page fault served from a disk is not a processor event.
const MAX_NS: f64 = 100_000.0;
/// The maximum error: a profile with a larger error is useless.
const MAX_PERCENT: u64 = 1000;

impl Profile {
    /// Parses a profile and checks its values.
    ///
    /// # Errors
    /// [`ProfileError`], with the file and the key.
    pub fn from_toml(file: &str, text: &str) -> Result<Profile, ProfileError> {
        let toml = |error: toml::de::Error| ProfileError::Toml {
            file: file.to_string(),
            error: one_line(text, &error),
        };
        let profile: Profile = toml::from_str(text).map_err(toml)?;
        match profile.first_invalid_value() {
            None => Ok(profile),
            Some((key, value, expected)) => {
                Err(ProfileError::Value { file: file.to_string(), key, value, expected })
            }
        }
    }

    /// Returns the first invalid value: its key, the value, and a description of valid values.
    fn first_invalid_value(&self) -> Option<(String, String, String)> {
        let invalid =
            |key: &str, value: String, expected: String| Some((key.to_string(), value, expected));
        if !INSTRUCTION_NS.contains(&self.instruction_ns) {
            let range = format!("from {} to {} ns", INSTRUCTION_NS.start(), INSTRUCTION_NS.end());
            return invalid("instruction_ns", self.instruction_ns.to_string(), range);
        }
        for (event, ns) in &self.events_ns {
            if !EVENTS.contains(&event.as_str()) {
                let valid = format!("the model has no such event; it has {}", EVENTS.join(", "));
                return invalid(&format!("events_ns.{event}"), ns.to_string(), valid);
            }
            if !(0.0..=MAX_NS).contains(ns) {
                let range = format!("from 0 to {MAX_NS} ns");
                return invalid(&format!("events_ns.{event}"), ns.to_string(), range);
            }
        }
        let CacheSizes { l1_kib, l1_ways, l2_kib, l2_ways, l1i_kib } = self.caches;
        if !(1..=MAX_WAYS).contains(&l1_ways) || l1_kib != l1_ways * WAY_KIB {
            let valid = format!("4 KiB for each of 1 to {MAX_WAYS} ways (l1_ways = {l1_ways})");
            return invalid("caches.l1_kib", l1_kib.to_string(), valid);
        }
        let sets =
            l2_kib.checked_mul(KIB / LINE).filter(|lines| l2_ways > 0 && lines % l2_ways == 0);
        let sets = sets.map(|lines| lines / l2_ways);
        if l2_ways > MAX_WAYS
            || !sets.is_some_and(|n| n.is_power_of_two() && SECOND_SETS.contains(&n))
        {
            let valid = format!(
                "1 to {MAX_WAYS} ways, each of a power of two from 4 to 1024 KiB (l2_ways = {l2_ways})"
            );
            return invalid("caches.l2_kib", l2_kib.to_string(), valid);
        }
        if l1i_kib % WAY_KIB != 0 || !(1..=MAX_WAYS).contains(&(l1i_kib / WAY_KIB)) {
            let valid = format!("a multiple of {WAY_KIB} KiB up to {} KiB", MAX_WAYS * WAY_KIB);
            return invalid("caches.l1i_kib", l1i_kib.to_string(), valid);
        }
        self.invalid_error_percent()
    }

    /// Returns the first invalid value of `error_percent`: missing from an estimate, too large, or in the wrong order.
    fn invalid_error_percent(&self) -> Option<(String, String, String)> {
        let invalid = |key: &str, value: String, expected: &str| {
            Some((format!("error_percent{key}"), value, expected.to_string()))
        };
        let Some(Errors { median, worst, ratio }) = self.error_percent else {
            let expected = "an estimate must state its error: median, worst and ratio, in percent";
            return self.estimate.then(|| invalid("", "absent".to_string(), expected)).flatten();
        };
        for (key, value) in [(".median", median), (".worst", worst), (".ratio", ratio)] {
            if value > MAX_PERCENT {
                return invalid(key, value.to_string(), &format!("from 0 to {MAX_PERCENT} %"));
            }
        }
        if worst < median {
            return invalid(".worst", worst.to_string(), &format!("the median is {median} %"));
        }
        None
    }

    /// Returns the profile with a name, in the form that plans record.
    pub fn recorded(&self, name: &str) -> Processor {
        let CacheSizes { l1_ways, l2_kib, l2_ways, l1i_kib, .. } = self.caches;
        let ps = |ns: f64| (ns * 1000.0).round() as u64;
        Processor {
            name: name.to_string(),
            instructions_per_us: (1000.0 / self.instruction_ns).round() as u64,
            costs_ps: self.events_ns.iter().map(|(event, ns)| (event.clone(), ps(*ns))).collect(),
            caches: Caches {
                first_ways: l1_ways,
                second_sets: l2_kib * KIB / LINE / l2_ways,
                second_ways: l2_ways,
                fetch_ways: l1i_kib / WAY_KIB,
            },
            error: self.error_percent.map(|Errors { median, worst, ratio }| {
                processor::ProcessorError {
                    median_percent: median,
                    worst_percent: worst,
                    ratio_percent: ratio,
                }
            }),
            counting: self.counting,
            estimate: self.estimate,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = "about = \"mine\"\ninstruction_ns = 0.0625\n[events_ns]\nsystem_call = 107\nmiss = 89.25\n\
                        [caches]\nl1_kib = 48\nl1_ways = 12\nl2_kib = 2048\nl2_ways = 16\n";

    fn error(text: &str) -> String {
        Profile::from_toml("a.toml", text).unwrap_err().to_string()
    }

    #[test]
    fn a_file_becomes_whole_numbers() {
        let processor = Profile::from_toml("a.toml", EXAMPLE).unwrap().recorded("a.toml");
        assert_eq!((processor.instructions_per_us, processor.costs_ps["miss"]), (16_000, 89_250));
        let caches = Caches { first_ways: 12, second_sets: 2048, second_ways: 16, fetch_ways: 8 };
        assert_eq!((processor.caches, processor.error), (caches, None));
        let with_error = format!("{EXAMPLE}[error_percent]\nmedian = 8\nworst = 40\nratio = 18\n");
        let processor = Profile::from_toml("a.toml", &with_error).unwrap().recorded("a.toml");
        assert_eq!(processor.error.unwrap().worst_percent, 40);
        let larger = EXAMPLE.replace("l2_ways = 16", "l2_ways = 16\nl1i_kib = 64");
        let processor = Profile::from_toml("a.toml", &larger).unwrap().recorded("a.toml");
        assert_eq!((processor.caches.fetch_ways, processor.estimate), (16, false));
    }

    #[test]
    fn an_estimate_states_its_error() {
        let estimate = EXAMPLE.replace("instruction_ns", "estimate = true\ninstruction_ns");
        assert_eq!(
            error(&estimate),
            "a.toml: error_percent = absent: an estimate must state its error: median, worst and ratio, in percent"
        );
        let with_error = format!("{estimate}[error_percent]\nmedian = 8\nworst = 40\nratio = 18\n");
        assert!(Profile::from_toml("a.toml", &with_error).unwrap().recorded("a").estimate);
        for (from, to, expected) in [
            ("median = 8", "median = 41", "a.toml: error_percent.worst = 40: the median is 41 %"),
            ("ratio = 18", "ratio = 1001", "a.toml: error_percent.ratio = 1001: from 0 to 1000 %"),
            ("worst = 40", "worst = -1", "invalid value"),
            ("worst = 40\n", "", "missing field `worst`"),
        ] {
            let error = error(&with_error.replace(from, to));
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn an_invalid_value_is_refused_with_its_key() {
        for (from, to, expected) in [
            ("0.0625", "0", "a.toml: instruction_ns = 0: from 0.03 to 8 ns"),
            ("0.0625", "nan", "a.toml: instruction_ns = NaN: from 0.03 to 8 ns"),
            ("miss = 89.25", "miss = -1", "a.toml: events_ns.miss = -1: from 0 to 100000 ns"),
            (
                "miss = 89.25",
                "mess = 1",
                "a.toml: events_ns.mess = 1: the model has no such event; it has system_call",
            ),
            (
                "l1_kib = 48",
                "l1_kib = 32",
                "a.toml: caches.l1_kib = 32: 4 KiB for each of 1 to 32 ways (l1_ways = 12)",
            ),
            ("l2_ways = 16", "l2_ways = 15", "a.toml: caches.l2_kib = 2048: 1 to 32 ways"),
            ("l2_ways = 16", "l2_ways = 0", "a.toml: caches.l2_kib = 2048: 1 to 32 ways"),
            (
                "l2_kib = 2048",
                "l2_kib = 9223372036854775807",
                "a.toml: caches.l2_kib = 9223372036854775807: 1 to 32 ways",
            ),
            (
                "l2_ways = 16",
                "l2_ways = 16\nl1i_kib = 30",
                "a.toml: caches.l1i_kib = 30: a multiple of 4 KiB up to 128 KiB",
            ),
            (
                "l2_ways = 16",
                "l2_ways = 16\nl1i_kib = 0",
                "a.toml: caches.l1i_kib = 0: a multiple of 4 KiB up to 128 KiB",
            ),
            ("l1_ways = 12", "l1_ways = 0", "a.toml: caches.l1_kib = 48: 4 KiB for each"),
            ("\"mine\"", "7", "invalid type: integer `7`, expected a string"),
            ("0.0625", "\"fast\"", "invalid type: string \"fast\", expected f64"),
            ("l2_kib = 2048", "", "missing field `l2_kib`"),
            ("[events_ns]", "counting = 1\n[events_ns]", "invalid type: integer `1`"),
            ("[events_ns]", "estimate = \"no\"\n[events_ns]", "invalid type: string \"no\""),
            ("miss = 89.25", "miss = inf", "a.toml: events_ns.miss = inf: from 0 to 100000 ns"),
            ("about", "abuot", "unknown field `abuot`"),
        ] {
            let error = error(&EXAMPLE.replace(from, to));
            assert!(error.contains(expected), "{error}");
        }
    }
}
