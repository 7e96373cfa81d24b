//! The commit that a program was built from, and its stamp in the program's file.
//!
//! A commit that changes only a document must not change a lab identity. Therefore the commit is stored in a separate
//! section, [`SECTION`], which is blanked in the bytes of a guest, and so in those that an identity is computed from.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The ELF section that contains the stamp of a build.
pub const SECTION: &str = ".fsdyno.build";

/// The length of that section in bytes. A stamp is a commit's hash (64 digits if a repository uses SHA-256), then `+`
/// if the source differed from it, then zeros; it consists only of zeros if no commit is known.
pub const STAMP_LENGTH: usize = 72;

/// A build of fsdyno: the commit of its source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Build {
    /// The hash of the commit, in full.
    pub commit: String,
    /// True if the source had uncommitted changes.
    #[serde(default)]
    pub dirty: bool,
}

impl Build {
    /// Reads a stamp; `None` if it is blank.
    pub fn from_stamp(stamp: &[u8]) -> Option<Build> {
        let end = stamp.iter().position(|byte| *byte == 0).unwrap_or(stamp.len());
        let text = std::str::from_utf8(&stamp[..end]).ok().filter(|text| !text.is_empty())?;
        let commit = text.strip_suffix('+');
        Some(Build { commit: commit.unwrap_or(text).to_string(), dirty: commit.is_some() })
    }
}

/// Formats the commit as git abbreviates it, and whether there were changes: `7d48d33aa10c, dirty`.
impl fmt::Display for Build {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short: String = self.commit.chars().take(12).collect();
        write!(f, "{short}{}", if self.dirty { ", dirty" } else { "" })
    }
}

/// Formats a version with its build: `0.1.0 (7d48d33aa10c)`, or `0.1.0` if the build is unknown.
pub fn program(version: &str, build: Option<&Build>) -> String {
    build.map_or_else(|| version.to_string(), |build| format!("{version} ({build})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_contains_a_commit_and_a_dirty_mark() {
        let build_of = |text: &str| {
            let mut stamp = [0; STAMP_LENGTH];
            stamp[..text.len()].copy_from_slice(text.as_bytes());
            Build::from_stamp(&stamp)
        };
        let commit = "7d48d33aa10c".repeat(3);
        assert_eq!(build_of(""), None);
        assert_eq!(build_of(&commit), Some(Build { commit: commit.clone(), dirty: false }));
        let dirty = build_of(&format!("{commit}+")).unwrap();
        assert_eq!((dirty.commit.as_str(), dirty.dirty), (commit.as_str(), true));
        assert_eq!(program("0.1.0", Some(&dirty)), "0.1.0 (7d48d33aa10c, dirty)");
        assert_eq!(program("0.1.0", None), "0.1.0");
        assert!(build_of(&"f".repeat(64)).is_some_and(|build| build.commit.len() == 64));
    }
}
