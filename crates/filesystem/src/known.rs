//! The options that an mkfs program and a file system driver support.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::SpecError;

/// The values of an option.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Values {
    /// Words.
    OneOf(Vec<String>),
    /// Whole numbers of 32 bits.
    Number(Bounds),
}

/// The bounds of a number.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Bounds {
    from: u32,
    to: Option<u32>,
}

/// The options that an mkfs program and a file system driver support. Mostly names only: the program itself checks
/// values.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Known {
    /// Options of mkfs without a value.
    pub plain: Vec<String>,
    /// Options of mkfs with one value.
    pub valued: Vec<String>,
    /// Options of mkfs whose value is a comma-separated list, and the names in it.
    #[serde(default)]
    pub lists: BTreeMap<String, Vec<String>>,
    /// Options of `lists` that take one entry each and are repeated: `-o a=1 -o b=2`.
    #[serde(default)]
    pub repeated: Vec<String>,
    /// Long option → the short one with the same meaning.
    #[serde(default)]
    pub aliases: BTreeMap<String, String>,
    /// Mount options in addition to [`crate::mount::FLAGS`].
    pub mount: Vec<String>,
    /// The values of mount options for which the program reports invalid values too late or not at all.
    #[serde(default)]
    pub values: BTreeMap<String, Values>,
    /// Options whose value is a second device, such as `-J device` or `mount logdev`: it must be
    /// `{journal}`, because a trial may touch no other device.
    #[serde(default)]
    pub devices: Vec<String>,
    /// Existing options that cannot be used here → the reason. A name in a list is written `-d name`, a
    /// mount option `mount hash`.
    #[serde(default)]
    pub refused: BTreeMap<String, String>,
}

impl Known {
    /// Checks the value of a mount option, `NAME=VALUE`, if its values are known.
    ///
    /// # Errors
    /// An invalid or missing value.
    pub fn check_value(&self, option: &str) -> Result<(), SpecError> {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let hint = match self.values.get(name) {
            Some(Values::OneOf(words)) if !words.iter().any(|word| word == value) => {
                format!("write one of: {}", words.join(", "))
            }
            Some(Values::Number(Bounds { from, to })) => {
                let is_within = |number: u32| (*from..=to.unwrap_or(u32::MAX)).contains(&number);
                if value.parse().is_ok_and(is_within) {
                    return Ok(());
                }
                let bounds = to.map_or(String::new(), |to| format!(" from {from} to {to}"));
                format!("write a whole number{bounds}: {name}=N")
            }
            _ => return Ok(()),
        };
        let problem = format!("the mount option '{option}' does not have a valid value");
        Err(SpecError::new(problem, hint))
    }
}
