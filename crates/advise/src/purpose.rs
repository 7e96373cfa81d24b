//! The purposes of a file system, and the workload of each purpose.

use fsdyno_record::suggest;
use fsdyno_workload::workloads::{self, Kind};

/// A purpose of a file system.
#[derive(Debug, PartialEq, Eq)]
pub struct Purpose {
    /// The name.
    pub name: &'static str,
    /// The name of its workload, or `None` for the user's own program, which is recorded.
    pub workload: Option<&'static str>,
    /// The parameters to set if a trial with the workload's defaults takes minutes or hours.
    pub overrides: &'static [&'static str],
    /// True if programs with this purpose wait until data is durable, so that a power cut could lose acknowledged data;
    /// such purposes are also tested with power cuts.
    pub acknowledges: bool,
}

/// All purposes. To add a purpose, add a row.
pub const ALL: &[Purpose] = &[
    Purpose {
        name: "mail",
        workload: Some("maildir"),
        overrides: &["ops=2000"],
        acknowledges: true,
    },
    Purpose { name: "directory", workload: Some("dirops"), overrides: &[], acknowledges: false },
    Purpose {
        name: "unpack",
        workload: Some("tarball"),
        overrides: &["files=20000"],
        acknowledges: false,
    },
    Purpose { name: "sources", workload: Some("source-tree"), overrides: &[], acknowledges: false },
    Purpose { name: "documents", workload: Some("everyday"), overrides: &[], acknowledges: false },
    Purpose { name: "large-file", workload: Some("bigfile"), overrides: &[], acknowledges: false },
    Purpose { name: OWN, workload: None, overrides: &[], acknowledges: true },
];

/// The name of the purpose without a workload.
pub const OWN: &str = "own";

impl Purpose {
    /// Returns the description of the purpose, which is that of its workload.
    pub fn about(&self) -> &'static str {
        self.kind()
            .map_or("Your own program: its calls are recorded and then replayed.", |workload| {
                workload.about
            })
    }

    fn kind(&self) -> Option<&'static Kind> {
        let name = self.workload?;
        workloads::ALL.iter().find(|kind| kind.name == name)
    }

    /// Returns the arguments of `fsdyno run` or `fsdyno tune`: the workload and its parameters.
    pub fn args(&self) -> Vec<String> {
        let sets = self.overrides.iter().flat_map(|set| ["--set", set]);
        self.workload.into_iter().chain(sets).map(String::from).collect()
    }
}

/// Returns the names of all purposes, joined by `separator`.
pub fn names(separator: &str) -> String {
    ALL.iter().map(|purpose| purpose.name).collect::<Vec<_>>().join(separator)
}

/// Finds the purpose with this name.
///
/// # Errors
/// An unknown name; the message suggests the nearest one.
pub fn parse(text: &str) -> Result<&'static Purpose, String> {
    let found = ALL.iter().find(|purpose| purpose.name == text);
    found.ok_or_else(|| {
        format!(
            "unknown purpose '{text}': {}",
            suggest::hint(text, ALL.iter().map(|purpose| purpose.name))
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_purpose_has_a_workload_or_is_the_users_own_program() {
        for purpose in ALL {
            assert_eq!(purpose.kind().is_some(), purpose.name != OWN, "{}", purpose.name);
        }
        assert_eq!(parse("unpack").unwrap().args(), ["tarball", "--set", "files=20000"]);
        assert_eq!(parse("mial").unwrap_err(), "unknown purpose 'mial': did you mean 'mail'?");
    }
}
