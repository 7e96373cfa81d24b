//! The user's answers: purpose, target, safety, time limit and file systems.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use fsdyno_campaign::tune::Budget;
use fsdyno_record::plan::Target;
use fsdyno_record::suggest;
use fsdyno_venue::capabilities::Capabilities;

use crate::purpose::Purpose;

/// The user's answers.
#[derive(Debug)]
pub struct Answers {
    /// The purpose of the file system.
    pub purpose: &'static Purpose,
    /// The user's program, for the purpose that records one.
    pub command: Vec<String>,
    /// The target of the trials.
    pub on: TrialTarget,
    /// The required safety, which limits the options that are tried.
    pub safety: Safety,
    /// The total time that the commands may take.
    pub limit: Duration,
    /// The names of the file systems, or empty for a directory.
    pub filesystems: Vec<String>,
}

/// The target of the trials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrialTarget {
    /// A machine of the catalog, in the lab.
    Machine(String),
    /// A directory of this host, on its existing file system.
    Directory(String),
    /// A loop device or RAM of this host.
    Ephemeral(String),
}

impl TrialTarget {
    /// Returns the axes of a run that the target sets, with their values.
    pub fn axes(&self) -> Vec<(&'static str, &str)> {
        match self {
            TrialTarget::Machine(name) => vec![("machine", name), ("boot", "snapshot")],
            TrialTarget::Directory(on) | TrialTarget::Ephemeral(on) => vec![("on", on)],
        }
    }

    /// Returns true if file systems are created on the target.
    pub fn takes_filesystems(&self) -> bool {
        !matches!(self, TrialTarget::Directory(_))
    }
}

impl fmt::Display for TrialTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (TrialTarget::Machine(name)
        | TrialTarget::Directory(name)
        | TrialTarget::Ephemeral(name)) = self;
        f.write_str(name)
    }
}

/// Parses the target of the trials.
///
/// # Errors
/// Text that is neither a machine, nor a directory, nor the size of a device.
pub fn parse_trial_target(text: &str) -> Result<TrialTarget, String> {
    if fsdyno_machine::names().any(|name| name == text) {
        return Ok(TrialTarget::Machine(text.into()));
    }
    let error = || {
        let hint = suggest::hint(text, fsdyno_machine::names());
        format!(
            "'{text}' is neither the name of a machine nor an existing directory: {hint} (an existing directory or \
             loop:8G is also possible)"
        )
    };
    match Target::parse(text)? {
        Target::Ephemeral(_) => Ok(TrialTarget::Ephemeral(text.into())),
        Target::Path(path) if !path.is_empty() && Path::new(&path).is_dir() => {
            Ok(TrialTarget::Directory(path))
        }
        Target::Path(path) if path.starts_with("/dev/") => Err(format!(
            "'{path}' is a device, which fsdyno advise does not erase; give a machine, a directory or loop:8G, or use \
             fsdyno run --on {path} --erase SERIAL"
        )),
        _ => Err(error()),
    }
}

/// The required safety of acknowledged data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Safety {
    /// Options that give up durability or security are not tried.
    Safe,
    /// All options of the space are tried.
    Unsafe,
}

/// The values of `--safety`.
pub const SAFETY: &[(&str, &str, Safety)] = &[
    (
        "safe",
        "No option that gives up durability or security, according to the spaces (fsdyno show space)",
        Safety::Safe,
    ),
    ("unsafe", "All options, for data that can be recreated", Safety::Unsafe),
];

/// Parses a safety level.
///
/// # Errors
/// An unknown level.
pub fn safety(text: &str) -> Result<Safety, String> {
    let found = SAFETY.iter().find(|(name, ..)| *name == text);
    found.map(|(.., safety)| *safety).ok_or_else(|| {
        let hint = suggest::hint(text, SAFETY.iter().map(|(name, ..)| *name));
        format!("unknown safety '{text}': {hint}")
    })
}

/// Parses a time limit.
///
/// # Errors
/// Text that is not a time.
pub fn limit(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(Budget::Time(time)) => Ok(time),
        _ => Err(format!(
            "'{text}' is not a time; write a number and a unit, such as 90s, 30m or 2h"
        )),
    }
}

/// Parses names of file systems, separated by commas or spaces.
///
/// # Errors
/// An unknown name, or no name.
pub fn filesystems(text: &str) -> Result<Vec<String>, String> {
    let all = fsdyno_filesystem::catalog::all();
    let names = || all.iter().map(|kind| kind.name.as_str());
    let mut given: Vec<String> = Vec::new();
    for name in text.split([',', ' ']).filter(|name| !name.is_empty()) {
        if !names().any(|known| known == name) {
            return Err(format!("unknown file system '{name}': {}", suggest::hint(name, names())));
        }
        if !given.iter().any(|known| known == name) {
            given.push(name.into());
        }
    }
    match given.is_empty() {
        true => Err("no file system: give names such as ext4,xfs".into()),
        false => Ok(given),
    }
}

/// Returns the names of the file systems whose options can be searched and that can run in the lab on this host.
pub fn usual_filesystems() -> String {
    let (host, kinds) = (Capabilities::inspect(), fsdyno_filesystem::catalog::all());
    let names = fsdyno_tune::space::names();
    let is_usable =
        |name: &&str| kinds.iter().any(|kind| kind.name == **name && host.in_lab(kind).is_possible);
    let usable: Vec<&str> = names.clone().filter(is_usable).collect();
    if usable.is_empty() { names.collect::<Vec<_>>().join(",") } else { usable.join(",") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_for_an_invalid_answer_names_valid_answers() {
        for (error, expected) in [
            (parse_trial_target("laptop-2025").unwrap_err(), "did you mean 'laptop-2026'?"),
            (parse_trial_target("").unwrap_err(), "there are: server-2026"),
            (parse_trial_target("loop:x").unwrap_err(), "loop:4G"),
            (parse_trial_target("/dev/null").unwrap_err(), "--erase SERIAL"),
            (safety("save").unwrap_err(), "did you mean 'safe'?"),
            (limit("200trials").unwrap_err(), "such as 90s, 30m or 2h"),
            (limit("soon").unwrap_err(), "such as 90s, 30m or 2h"),
            (filesystems("ext4,xsf").unwrap_err(), "did you mean 'xfs'?"),
            (filesystems(" ").unwrap_err(), "such as ext4,xfs"),
        ] {
            assert!(error.contains(expected) && !error.contains('\n'), "{error}");
        }
        assert_eq!(filesystems("ext4, xfs ext4").unwrap(), ["ext4", "xfs"]);
        assert_eq!(parse_trial_target("pi-2024"), Ok(TrialTarget::Machine("pi-2024".into())));
        assert_eq!(parse_trial_target("."), Ok(TrialTarget::Directory(".".into())));
    }
}
