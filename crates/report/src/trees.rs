//! The trees that a command left behind, compared between trials.

use std::collections::{BTreeMap, BTreeSet};

use fsdyno_record::Trial;
use fsdyno_record::trial::{Outcome, TreeReport};

use crate::number::{count, counted, sanitize};

/// The maximum number of differing entries that are listed.
const MAX_PATHS: usize = 8;

/// A sentence for each command and target whose trials left trees: whether all are equal, or how they differ.
pub fn sentences(trials: &[Trial]) -> Vec<String> {
    let mut groups: BTreeMap<&BTreeMap<String, String>, Vec<(&Trial, &TreeReport)>> =
        BTreeMap::new();
    for trial in trials.iter().filter(|trial| trial.outcome == Outcome::Ok) {
        if let Some(tree) = &trial.measured.tree {
            groups.entry(&trial.plan.workload.params).or_default().push((trial, tree));
        }
    }
    groups.values().map(|group| sentence(group)).collect()
}

fn sentence(group: &[(&Trial, &TreeReport)]) -> String {
    let Some((_, first)) = group.first() else { return String::new() };
    let trials = counted(group.len(), "trial");
    let distinct = |hash: fn(&TreeReport) -> &str| {
        group.iter().map(|(_, tree)| hash(tree)).collect::<BTreeSet<_>>().len()
    };
    let content = format!(
        "{} and {} with {}",
        plural(first.files, "file", "files"),
        plural(first.directories, "directory", "directories"),
        first.bytes
    );
    if group.len() == 1 {
        return format!("The command left {content}.");
    }
    if distinct(|tree| &tree.whole) == 1 {
        return format!(
            "The command left one tree in each of {trials}: {content}, equal in names, types, modes, sizes, links and \
             contents."
        );
    }
    let shapes = distinct(|tree| &tree.shape);
    let difference = match shapes {
        1 => "in contents alone; names, types, modes, sizes and links are equal".to_string(),
        _ => format!("in names, types, modes, sizes or links ({shapes} variants)"),
    };
    let mut labels: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (trial, tree) in group {
        labels.entry(trial.plan.label.as_str()).or_default().insert(&tree.whole);
    }
    let by_row: Vec<String> = labels
        .iter()
        .map(|(label, trees)| format!("{} {}", sanitize(label), counted(trees.len(), "tree")))
        .collect();
    format!(
        "TREES DIFFER: the command left {} in {trials}, which differ {difference} ({}){}. Either the trials did \
         not all measure the same work, or some files contain times or identifiers, as git's index does.",
        counted(distinct(|tree| &tree.whole), "tree"),
        by_row.join(", "),
        differing_paths(group)
    )
}

fn plural(number: u64, one: &str, several: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { several })
}

/// The entries in which the trees differ; entries of the second level replace their directory.
fn differing_paths(group: &[(&Trial, &TreeReport)]) -> String {
    let paths: BTreeSet<&String> = group.iter().flat_map(|(_, tree)| tree.parts.keys()).collect();
    let differs = |path: &&&String| {
        let mut hashes = group.iter().map(|(_, tree)| tree.parts.get(**path));
        let first = hashes.next().flatten();
        hashes.any(|hash| hash != first)
    };
    let differing: Vec<&String> = paths.iter().filter(differs).copied().collect();
    let is_above = |path: &str| {
        differing
            .iter()
            .any(|other| other.strip_prefix(path).is_some_and(|rest| rest.starts_with('/')))
    };
    let listed: Vec<String> =
        differing.iter().filter(|path| !is_above(path)).map(|path| sanitize(path)).collect();
    match listed.len() {
        0 => String::new(),
        n => {
            let more = n.saturating_sub(MAX_PATHS);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let shown = listed.iter().take(MAX_PATHS).cloned().collect::<Vec<_>>();
            format!(", in {}{more}", shown.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use fsdyno_record::Bytes;

    use super::*;
    use crate::fixture;

    /// The sentence on trials whose trees have these hashes of shape, whole and `d/log`.
    fn sentence_for<const N: usize>(hashes: [[&str; 3]; N]) -> String {
        let mut trials = fixture::trials();
        trials.truncate(N);
        for (trial, [shape, whole, log]) in trials.iter_mut().zip(hashes) {
            trial.outcome = Outcome::Ok;
            let parts = [("d", whole), ("d/log", log), ("d/same", "7")];
            trial.measured.tree = Some(TreeReport {
                files: 2,
                directories: 1,
                bytes: Bytes(4096),
                shape: shape.into(),
                whole: whole.into(),
                parts: parts.map(|(path, hash)| (path.to_string(), hash.to_string())).into(),
            });
        }
        let sentences = sentences(&trials);
        assert_eq!(sentences.len(), 1);
        sentences.concat()
    }

    #[test]
    fn equal_trees_are_reported_as_one() {
        let text = sentence_for([["s", "w", "l"]; 3]);
        assert!(
            text.starts_with("The command left one tree in each of 3 trials: 2 files"),
            "{text}"
        );
        let text = sentence_for([["s", "w", "l"]]);
        assert_eq!(text, "The command left 2 files and 1 directory with 4 KiB.");
    }

    #[test]
    fn trees_that_differ_are_named_with_their_entries() {
        let text = sentence_for([["s", "w", "l"], ["s", "w", "l"], ["s", "x", "m"]]);
        assert!(text.starts_with("TREES DIFFER: the command left 2 trees in 3 trials"), "{text}");
        assert!(text.contains("in contents alone") && text.contains(", in d/log."), "{text}");
        let text = sentence_for([["s", "w", "l"], ["s", "w", "l"], ["t", "x", "m"]]);
        assert!(text.contains("in names, types, modes, sizes or links"), "{text}");
    }

    #[test]
    fn other_workloads_have_no_sentence() {
        assert_eq!(sentences(&fixture::trials()), [""; 0]);
    }
}
