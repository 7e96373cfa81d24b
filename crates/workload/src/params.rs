//! The parameters of a workload: names, domains, defaults and their sources.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use fsdyno_record::quote::short;
use fsdyno_record::{Bytes, Count, suggest};

use crate::curve::Curve;
use crate::sizes::{self, Sizes};
use crate::weights::Weights;
use crate::widths::Widths;

/// One row of a workload's table of parameters.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// The key of `--set KEY=VALUE`.
    pub name: &'static str,
    /// The default, as the user would give it.
    pub default: &'static str,
    /// The accepted values.
    pub domain: Domain,
    /// A sentence that describes its effect.
    pub about: &'static str,
    /// The source of the default, with its mark: `[SRC]` read in the original program, `[PUB]`
    /// published, `[RUN]` observed, `[MEM]` from memory, not verified, `[DER]` derived, `[OWN]`
    /// our choice.
    pub source: &'static str,
}

/// The values that a parameter accepts.
#[derive(Clone, Copy, Debug)]
pub enum Domain {
    /// A whole number within bounds.
    Whole {
        /// Minimum.
        min: u64,
        /// Maximum.
        max: u64,
    },
    /// A size in bytes within bounds, given as `4096` or `64K`.
    Size {
        /// Minimum, in bytes.
        min: u64,
        /// Maximum, in bytes.
        max: u64,
    },
    /// One of these words.
    Choice(&'static [&'static str]),
    /// `yes` or `no`.
    YesNo,
    /// Letters, digits, `_` and `-`, at least one and at most this many.
    Word(usize),
    /// The path of the user's file or folder.
    File,
    /// The path of a recording.
    Trace,
    /// A line for sh(1).
    Command,
    /// The points of a curve: the workload runs once for each point, with the parameter `files` set to it.
    Curve {
        /// Minimum of a point.
        min: u64,
        /// Maximum of a point.
        max: u64,
    },
    /// Directories per directory for each level of a tree: `30/30/30`.
    Widths,
    /// One or more whole numbers within bounds, in any order, separated by commas.
    WholeNumbers {
        /// Minimum of a number.
        min: u64,
        /// Maximum of a number.
        max: u64,
        /// Maximum length of the list.
        max_count: usize,
    },
    /// A distribution of sizes, as [`Sizes`] reads it.
    Sizes,
    /// Weights of these words, as [`Weights`] reads them.
    Weights(&'static [&'static str]),
    /// This word, or a value of the other domain.
    Or(&'static str, &'static Domain),
}

/// A mistake in parameters; each message is one line that states the correction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParamError {
    /// The workload has no such parameter.
    #[error("workload '{workload}' has no parameter '{}'; {hint}", short(key))]
    UnknownKey {
        /// The workload's name.
        workload: &'static str,
        /// The key that was given.
        key: String,
        /// The nearest valid name, or all valid names.
        hint: String,
    },
    /// The parameter does not accept the value.
    #[error("{key}={} is invalid: {key} takes {expected}", short(value))]
    BadValue {
        /// The parameter's name.
        key: String,
        /// The value that was given.
        value: String,
        /// The values that are accepted.
        expected: String,
    },
    /// Two parameters contradict each other.
    #[error("{0}")]
    Conflict(String),
}

/// Maximum size of a path in bytes, with its NUL: PATH_MAX on Linux.
const MAX_PATH: usize = 4096;

/// Maximum length of a line for sh(1) in bytes; the line is stored in each record.
const MAX_COMMAND: usize = 8192;

/// Parses a whole number in the form that every option accepts.
fn count(text: &str) -> Option<u64> {
    text.parse().ok().map(|Count(count)| count)
}

/// Returns the canonical spelling of a whole number or size within bounds.
fn bounded(number: Option<u64>, min: u64, max: u64) -> Option<String> {
    number.filter(|number| (min..=max).contains(number)).map(|number| number.to_string())
}

impl Domain {
    /// Returns the canonical spelling of `text`, if the domain accepts it.
    pub fn canonical(&self, text: &str) -> Option<String> {
        match self {
            Domain::Whole { min, max } => bounded(count(text), *min, *max),
            Domain::Size { min, max } => {
                bounded(text.parse().ok().map(|Bytes(bytes)| bytes), *min, *max)
            }
            Domain::Choice(words) => words.contains(&text).then(|| text.to_string()),
            Domain::YesNo => matches!(text, "yes" | "no").then(|| text.to_string()),
            Domain::Word(longest) => {
                let fits = (1..=*longest).contains(&text.len());
                let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
                (fits && text.bytes().all(plain)).then(|| text.to_string())
            }
            Domain::File | Domain::Trace => {
                // The kernel rejects longer paths and paths with a NUL; a newline would break records.
                let fits = (1..MAX_PATH).contains(&text.len()) && !text.contains(['\0', '\n']);
                fits.then(|| text.to_string())
            }
            Domain::Command => {
                let fits = text.len() <= MAX_COMMAND && !text.trim().is_empty();
                let plain = !text.chars().any(|char| char.is_control() && char != '\t');
                (fits && plain).then(|| text.to_string())
            }
            Domain::Curve { min, max } => {
                let curve: Option<Curve> = text.parse().ok();
                curve.filter(|curve| curve.is_within(*min, *max)).map(|curve| curve.to_string())
            }
            Domain::Widths => {
                let widths: Option<Widths> = text.parse().ok();
                widths.map(|widths| widths.to_string())
            }
            Domain::WholeNumbers { min, max, max_count } => {
                let numbers: Option<Vec<String>> =
                    text.split(',').map(|number| bounded(count(number), *min, *max)).collect();
                numbers
                    .filter(|numbers| numbers.len() <= *max_count)
                    .map(|numbers| numbers.join(","))
            }
            Domain::Sizes => text.parse().ok().map(|sizes: Sizes| sizes.to_string()),
            Domain::Weights(words) => {
                Weights::parse(text, words).ok().map(|weights| weights.show(words))
            }
            Domain::Or(word, _) if *word == text => Some(text.to_string()),
            Domain::Or(_, other) => other.canonical(text),
        }
    }

    /// Returns the accepted values, as text that fits after "takes".
    pub fn describe(&self) -> String {
        match self {
            Domain::Whole { min, max } => {
                format!("a whole number from {} to {}", Count(*min), Count(*max))
            },
            Domain::Size { min, max } => {
                format!("a size from {} to {}, such as 4096 or 64K", Bytes(*min), Bytes(*max))
            }
            Domain::Choice(words) => words.join(", "),
            Domain::YesNo => "yes or no".to_string(),
            Domain::Word(longest) => {
                format!("1 to {longest} letters, digits, '_' or '-'")
            }
            Domain::File => "the path of a file or folder".to_string(),
            Domain::Trace => "the path of a recording".to_string(),
            Domain::Command => format!(
                "a line for sh(1) of at most {MAX_COMMAND} bytes; put a longer one into a script"
            ),
            Domain::Curve { min, max } => format!(
                "points from {} to {} as FROM..TO/STEP, FROM..TOxFACTOR or A,B,C, such as \
                 10k..100k/10k or 100..100000x10",
                Count(*min),
                Count(*max)
            ),
            Domain::Widths => {
                "1 to 5 whole numbers from 1 to 1,000,000 separated by '/', such as 30/30/30, whose \
                 product is at most 500,000,000"
                    .to_string()
            }
            Domain::WholeNumbers { min, max, max_count } => {
                format!(
                    "1 to {max_count} whole numbers from {} to {} separated by commas, such as 1,3",
                    Count(*min),
                    Count(*max)
                )
            }
            Domain::Sizes => format!(
                "a size such as 4K, LOW-HIGH for a uniform distribution, such as 1K-64K, lognormal:MEDIAN:SIGMA such as \
                 lognormal:8K:1.5, or mix; at most {}",
                Bytes(sizes::MAX_SIZE)
            ),
            Domain::Weights(words) => format!(
                "WORD:WEIGHT pairs separated by commas, such as {}:2,{}:1, where WORD is one of {}; an action without a \
                 weight does not occur",
                words.first().unwrap_or(&""),
                words.last().unwrap_or(&""),
                words.join(", ")
            ),
            Domain::Or(word, other) => format!("'{word}' or {}", other.describe()),
        }
    }

    fn hint(&self, text: &str) -> String {
        match self {
            Domain::Choice(words) => match suggest::nearest(text, words.iter().copied()) {
                Some(word) => format!("{} (did you mean '{word}'?)", self.describe()),
                None => self.describe(),
            },
            Domain::Weights(words) => match Weights::parse(text, words) {
                Err(error) => format!("{} ({error})", self.describe()),
                Ok(_) => self.describe(),
            },
            Domain::Whole { .. } => match text.parse::<Count>() {
                Err(error) => format!("{} ({error})", self.describe()),
                Ok(_) => self.describe(),
            },
            Domain::Or(_, other) => match other.hint(text).strip_prefix(&other.describe()) {
                Some(error) => format!("{}{error}", self.describe()),
                None => self.describe(),
            },
            _ => self.describe(),
        }
    }
}

/// Every parameter with a value in its canonical spelling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Values(BTreeMap<String, String>);

impl Values {
    /// Fills in the defaults and checks the given values; the last value of a key is used.
    ///
    /// # Errors
    /// [`ParamError::UnknownKey`], [`ParamError::BadValue`].
    pub fn resolve<'a>(
        workload: &'static str,
        params: &[Param],
        set: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Values, ParamError> {
        let mut values: BTreeMap<String, String> = params
            .iter()
            .map(|param| (param.name.to_string(), param.default.to_string()))
            .collect();
        for (key, value) in set {
            let param = params.iter().find(|param| param.name == key).ok_or_else(|| {
                let names: Vec<&str> = params.iter().map(|param| param.name).collect();
                let hint = suggest::hint(key, names);
                ParamError::UnknownKey { workload, key: key.to_string(), hint }
            })?;
            let canonical = param.domain.canonical(value).ok_or_else(|| ParamError::BadValue {
                key: key.to_string(),
                value: value.to_string(),
                expected: param.domain.hint(value),
            })?;
            values.insert(key.to_string(), canonical);
        }
        Ok(Values(values))
    }

    /// Returns the value of `key`, or empty for an unknown key.
    pub fn text(&self, key: &str) -> &str {
        self.0.get(key).map_or("", String::as_str)
    }

    /// Returns the value of `key` as a number, or `None` for a word.
    pub fn number(&self, key: &str) -> Option<u64> {
        self.text(key).parse().ok()
    }

    /// Returns the value of `key` as a number, or zero for a word.
    pub fn number_or_zero(&self, key: &str) -> u64 {
        self.number(key).unwrap_or(0)
    }

    /// Returns the value of `key`, or `published` if it is `auto`. The parameter `set` names the set of published
    /// values from which `published` comes; if it is `none`, every value is allowed.
    ///
    /// # Errors
    /// [`ParamError::Conflict`] if a set is named and the value differs from that of the set.
    pub fn or_published<T: FromStr + Display + PartialEq>(
        &self,
        key: &str,
        set: &str,
        published: T,
    ) -> Result<T, ParamError> {
        let set_name = self.text(set);
        match self.text(key).parse() {
            Ok(value) if value != published && set_name != "none" => {
                Err(ParamError::Conflict(format!(
                    "{key}={value} contradicts {set}={set_name}, which has {key}={published}; omit one of \
                 them"
                )))
            }
            Ok(value) => Ok(value),
            Err(_) => Ok(published),
        }
    }

    /// Returns the numbers in the list `key`, or empty if the value is a word.
    pub fn numbers(&self, key: &str) -> Vec<u64> {
        self.text(key).split(',').filter_map(|number| number.parse().ok()).collect()
    }

    /// Returns true if `key` is `yes`.
    pub fn is_yes(&self, key: &str) -> bool {
        self.text(key) == "yes"
    }

    /// Returns the values as a map, for a plan.
    pub fn into_map(self) -> BTreeMap<String, String> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARAMS: &[Param] = &[
        Param {
            name: "files",
            default: "10",
            domain: Domain::Whole { min: 1, max: 100 },
            about: "",
            source: "",
        },
        Param {
            name: "size",
            default: "mix",
            domain: Domain::Or("mix", &Domain::Size { min: 0, max: 1 << 20 }),
            about: "",
            source: "",
        },
        Param {
            name: "order",
            default: "forward",
            domain: Domain::Choice(&["forward", "reverse"]),
            about: "",
            source: "",
        },
        Param {
            name: "weights",
            default: "1",
            domain: Domain::WholeNumbers { min: 1, max: 9, max_count: 3 },
            about: "",
            source: "",
        },
    ];

    fn resolve(set: &[(&str, &str)]) -> Result<Values, String> {
        Values::resolve("test", PARAMS, set.iter().copied()).map_err(|error| error.to_string())
    }

    #[test]
    fn unset_values_have_their_default_and_set_values_their_canonical_spelling() {
        let values = resolve(&[("size", "64K"), ("files", "007")]).unwrap();
        assert_eq!(values.text("size"), "65536");
        assert_eq!(values.number_or_zero("files"), 7);
        assert_eq!(values.text("order"), "forward");
        assert_eq!(resolve(&[("files", "0.1k")]).unwrap().text("files"), "100");
        assert_eq!(resolve(&[]).unwrap().number("size"), None);
    }

    #[test]
    fn a_list_keeps_its_order_and_repetitions_and_has_bounds() {
        let values = resolve(&[("weights", "3,01,3")]).unwrap();
        assert_eq!((values.text("weights"), values.numbers("weights")), ("3,1,3", vec![3, 1, 3]));
        for invalid in ["", "0", "10", "1,", "1,2,3,4", "1, 2", "-1"] {
            let error = resolve(&[("weights", invalid)]).unwrap_err();
            assert!(error.contains("1 to 3 whole numbers from 1 to 9"), "{error}");
        }
    }

    #[test]
    fn each_mistake_is_one_line_that_gives_the_correction() {
        let message = |key, value| resolve(&[(key, value)]).unwrap_err();
        assert_eq!(
            message("file", "1"),
            "workload 'test' has no parameter 'file'; did you mean 'files'?"
        );
        assert_eq!(
            message("files", "0"),
            "files=0 is invalid: files takes a whole number from 1 to 100"
        );
        assert_eq!(
            message("order", "revers"),
            "order=revers is invalid: order takes forward, reverse (did you mean 'reverse'?)"
        );
        assert!(message("size", "2M").contains("'mix' or a size from 0 B to 1 MiB"));
        for invalid in ["", "+5", "-1", "1e3", "99999999999999999999"] {
            let error = message("files", invalid);
            assert!(
                error.contains("is not a whole number: write one such as 20000, 20k"),
                "{error}"
            );
        }
    }
}
