//! Names of phases as users give them: the phase's own name, or that of its system call or of the same phase of other
//! workloads and tools.

use std::collections::{BTreeMap, BTreeSet};

use fsdyno_record::{Trial, suggest};

use crate::Failure;

/// Names with the same meaning: each stands for the phase of a workload that has another one of its line.
const ALIASES: &[&[&str]] = &[
    &["create", "creat", "file-create"],
    &["delete", "remove", "unlink", "rm", "file-remove"],
    &["stat", "lstat"],
    &["mkdir", "directory-create"],
    &["rmdir", "directory-remove"],
];

/// The names of the phases of each workload.
pub type Phases<'a> = BTreeMap<&'a str, Vec<&'a str>>;

/// Returns the phases of stored trials, in the order of their first occurrence.
pub fn of_trials(trials: &[Trial]) -> Phases<'_> {
    let mut all = Phases::new();
    for trial in trials {
        let names = all.entry(&trial.plan.workload.name).or_default();
        for phase in trial.measured.phases.iter().map(|phase| phase.name.as_str()) {
            if !names.contains(&phase) {
                names.push(phase);
            }
        }
    }
    all
}

/// Returns the phases that a name stands for: those with this name, or else, for each workload, the only phase that an
/// alias names.
///
/// # Errors
/// No phase, or an alias of several phases of one workload; the message lists all phases.
pub fn resolve(option: &str, name: &str, phases: &Phases<'_>) -> Result<BTreeSet<String>, Failure> {
    if phases.values().flatten().any(|phase| *phase == name) {
        return Ok([name.to_string()].into());
    }
    let found: Vec<Vec<&str>> = phases.values().map(|phases| candidates(name, phases)).collect();
    let ambiguous = found.iter().find(|found| found.len() > 1);
    let all: BTreeSet<String> = found.iter().flatten().map(ToString::to_string).collect();
    if ambiguous.is_none() && !all.is_empty() {
        return Ok(all);
    }
    let names: BTreeSet<&str> = phases.values().flatten().copied().collect();
    let reason = match (ambiguous, suggest::nearest(name, names)) {
        (Some(several), _) => format!("it may be {}", several.join(" or ")),
        (None, Some(near)) => format!("did you mean '{near}'?"),
        (None, None) => "give one of these".into(),
    };
    let lists: Vec<String> = phases
        .iter()
        .map(|(workload, phases)| format!("{workload} has {}", phases.join(", ")))
        .collect();
    Err(Failure::invalid_use(format!(
        "{option} '{name}' is not a phase: {reason}; {}",
        lists.join("; ")
    )))
}

/// Returns the phase of a workload with this name or, if there is none, the only one that it stands for.
pub fn find<'p>(name: &str, phases: &[&'p str]) -> Option<&'p str> {
    let own = phases.iter().copied().find(|phase| *phase == name);
    own.or_else(|| match candidates(name, phases)[..] {
        [phase] => Some(phase),
        _ => None,
    })
}

/// Returns the phases of a workload that a name may stand for.
fn candidates<'p>(name: &str, phases: &[&'p str]) -> Vec<&'p str> {
    let Some(aliases) = ALIASES.iter().find(|aliases| aliases.contains(&name)) else {
        return Vec::new();
    };
    let has_other_meaning =
        |phase: &str| ALIASES.iter().any(|other| other.contains(&phase) && other != aliases);
    // A phase such as `delete-random` does the same calls, but on other names.
    let is_kind = |phase: &str| phase.split('-').any(|word| aliases.contains(&word));
    let may_be =
        |phase: &str| aliases.contains(&phase) || (is_kind(phase) && !has_other_meaning(phase));
    phases.iter().copied().filter(|phase| may_be(phase)).collect()
}

#[cfg(test)]
mod tests {
    use fsdyno_workload::Setting;
    use fsdyno_workload::workloads;

    use super::*;

    /// Returns the phases that a name stands for in these workloads with their default parameters, or the error.
    fn resolved(name: &str, of: &[&str]) -> Result<Vec<String>, String> {
        let names = of.iter().map(|workload| {
            let kind = workloads::find(workload).unwrap();
            let built = kind.build(&Default::default(), &Setting::default()).unwrap();
            (*workload, built.phases().iter().map(|phase| phase.name.to_string()).collect())
        });
        let names: Vec<(&str, Vec<String>)> = names.collect();
        let phases = names
            .iter()
            .map(|(workload, names)| (*workload, names.iter().map(String::as_str).collect()));
        let resolved = resolve("--phase", name, &phases.collect());
        resolved.map(|names| names.into_iter().collect()).map_err(|failure| failure.message)
    }

    #[test]
    fn the_name_of_a_call_or_of_another_tools_phase_finds_the_phase() {
        for (name, workload, phase) in [
            ("unlink", "dirops", "delete"),
            ("remove", "dirops", "delete"),
            ("delete", "dirops", "delete"),
            ("unlink", "tarball", "remove"),
            ("delete", "many-files", "remove"),
            ("unlink", "postmark", "delete"),
            ("create", "fdtree", "file-create"),
            ("unlink", "fdtree", "file-remove"),
            ("mkdir", "fdtree", "directory-create"),
            ("rmdir", "fdtree", "directory-remove"),
            ("mkdir", "calls", "mkdir"),
            ("unlink", "bonnie", "unlink"),
        ] {
            assert_eq!(resolved(name, &[workload]), Ok(vec![phase.into()]), "{name}, {workload}");
        }
        let both = resolved("unlink", &["dirops", "tarball", "capacity"]);
        assert_eq!(both, Ok(vec!["delete".into(), "remove".into()]));
    }

    #[test]
    fn any_other_name_is_refused_with_all_phases() {
        for (name, workload, expected) in [
            (
                "mkdir",
                "dirops",
                "--phase 'mkdir' is not a phase: give one of these; dirops has create, delete",
            ),
            ("creaet", "dirops", "did you mean 'create'?; dirops has create, delete"),
            (
                "stat",
                "bonnie",
                "it may be stat-seq or stat-random; bonnie has char-write, char-unlink, ",
            ),
            (
                "delete",
                "bonnie",
                "it may be char-unlink or unlink or delete-seq or delete-random; ",
            ),
            (
                "unlink",
                "calls",
                "it may be unlink-link or unlink-symlink or remove; calls has create, ",
            ),
            ("read", "tarball", "give one of these; tarball has extract, remove"),
            ("", "dirops", "dirops has create, delete"),
        ] {
            let error = resolved(name, &[workload]).unwrap_err();
            assert!(error.contains(expected), "{name}, {workload}: {error}");
        }
    }
}
