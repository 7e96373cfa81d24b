//! Settings for running a plan: the way to issue ops, and the extent of verification.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The way to issue ops: `sync`, `io_uring:DEPTH` or `null`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
#[cfg_attr(feature = "schema", schemars(extend("pattern" = "^(sync|null|io_uring:[1-9][0-9]*)$")))]
pub enum IssuerPlan {
    /// Blocking system calls, one after the other.
    #[default]
    Sync,
    /// Through io_uring(7), with up to `depth` ops in flight per thread.
    IoUring {
        /// Maximum number of ops in flight per thread.
        depth: u32,
    },
    /// No calls; only the instrument overhead remains.
    Null,
}

impl IssuerPlan {
    /// Returns the maximum number of ops in flight per thread.
    pub fn depth(self) -> u32 {
        match self {
            IssuerPlan::IoUring { depth } => depth,
            IssuerPlan::Sync | IssuerPlan::Null => 1,
        }
    }
}

/// Maximum depth in `io_uring:DEPTH`.
const MAX_DEPTH: u32 = 4096;

impl fmt::Display for IssuerPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IssuerPlan::Sync => f.write_str("sync"),
            IssuerPlan::IoUring { depth } => write!(f, "io_uring:{depth}"),
            IssuerPlan::Null => f.write_str("null"),
        }
    }
}

impl FromStr for IssuerPlan {
    type Err = String;

    fn from_str(text: &str) -> Result<IssuerPlan, String> {
        let error = || {
            format!(
                "'{text}' is not an issuer; use sync, io_uring:DEPTH (1 to {MAX_DEPTH}) or null"
            )
        };
        match text.split_once(':').unwrap_or((text, "")) {
            ("sync", "") => Ok(IssuerPlan::Sync),
            ("null", "") => Ok(IssuerPlan::Null),
            ("io_uring", depth) => match depth.parse() {
                Ok(depth) if (1..=MAX_DEPTH).contains(&depth) => Ok(IssuerPlan::IoUring { depth }),
                _ => Err(error()),
            },
            _ => Err(error()),
        }
    }
}

impl TryFrom<String> for IssuerPlan {
    type Error = String;

    fn try_from(text: String) -> Result<IssuerPlan, String> {
        text.parse()
    }
}

impl From<IssuerPlan> for String {
    fn from(issuer: IssuerPlan) -> String {
        issuer.to_string()
    }
}

/// The extent of verification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum VerifyMode {
    /// Every name, size and byte.
    #[default]
    Full,
    /// Every name and size.
    Names,
    /// Every name and size, and the bytes of one file in 64.
    Sampled,
}

impl VerifyMode {
    /// All modes, each with its name for `--verify` and a description.
    pub const ALL: &[(&str, &str, VerifyMode)] = &[
        ("full", "Every name, size and byte", VerifyMode::Full),
        ("names", "Every name and size", VerifyMode::Names),
        ("sampled", "Every name and size, and the bytes of one file in 64", VerifyMode::Sampled),
    ];

    /// Returns its name for `--verify`.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, _, mode)| *mode == self).map_or("", |(name, _, _)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_mode_of_verification_is_its_recorded_form() {
        for (name, _, mode) in VerifyMode::ALL {
            assert_eq!(serde_json::to_value(mode).unwrap(), *name);
            assert_eq!(mode.name(), *name);
        }
    }

    #[test]
    fn the_text_of_an_issuer_is_its_recorded_form() {
        for text in ["sync", "io_uring:1", "io_uring:4096", "null"] {
            assert_eq!(text.parse::<IssuerPlan>().unwrap().to_string(), text);
        }
        for invalid in ["", "sync:1", "io_uring", "io_uring:0", "io_uring:4097", "uring:2", "nul"] {
            assert!(
                invalid.parse::<IssuerPlan>().unwrap_err().contains("io_uring:DEPTH"),
                "{invalid}"
            );
        }
    }
}
