//! Compares the functions of two runs of a phase, and finds the source of most of the difference.
//!
//! Two kernels may have the same code under different names, or one of them may have inlined it in the caller. A
//! function that vanished and a function that appeared are treated as the same if their names match ([`is_renamed`]),
//! and no function is named as the source of a difference that its own caller does not show.

use std::collections::{BTreeMap, BTreeSet};

use crate::explained::Phase;
use crate::kernel::tree::SMALLER;
use crate::kernel::{Frame, Task};

/// The difference in instructions per op of one function between two results.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Name of the function.
    pub function: String,
    /// The function's name in the other result, if that is different.
    pub old_name: Option<String>,
    /// Its layer.
    pub layer: String,
    /// Instructions per op.
    pub instructions: f64,
    /// Instructions per op in the other result.
    pub other_instructions: f64,
}

impl Difference {
    /// Returns the difference in instructions per op; positive if this result has more.
    pub fn delta(&self) -> f64 {
        self.instructions - self.other_instructions
    }

    /// Returns the function's name, followed by its old name if that is different: `find_get_block_common
    /// (__find_get_block)`.
    pub fn names(&self) -> String {
        match &self.old_name {
            Some(old_name) => format!("{} ({old_name})", self.function),
            None => self.function.clone(),
        }
    }
}

/// A function counts as removed if less than this fraction of its previous instructions remains, since a few
/// instructions that call its successor may remain.
const MAX_REMAINING: f64 = 0.1;

/// Compares, by function, the instructions of the threads that issue ops; the largest difference is first. Functions
/// without a difference are omitted, and a renamed function counts as one function.
pub fn differences(phase: &Phase, baseline: &Phase) -> Vec<Difference> {
    let by_name = |phase: &Phase| {
        let ops = phase.ops.max(1) as f64;
        let mut sums: BTreeMap<String, (String, f64)> = BTreeMap::new();
        for row in phase.functions.iter().filter(|row| row.task == Task::Ops) {
            let sum = sums.entry(row.function.clone()).or_insert((row.layer.clone(), 0.0));
            sum.1 += row.instructions as f64 / ops;
        }
        sums
    };
    let (phase, baseline) = (by_name(phase), by_name(baseline));
    let names: BTreeSet<&String> = phase.keys().chain(baseline.keys()).collect();
    let all = names.into_iter().map(|name| {
        let (current, previous) = (phase.get(name), baseline.get(name));
        Difference {
            function: name.clone(),
            old_name: None,
            layer: current.or(previous).map(|(layer, _)| layer.clone()).unwrap_or_default(),
            instructions: current.map_or(0.0, |(_, own)| *own),
            other_instructions: previous.map_or(0.0, |(_, own)| *own),
        }
    });
    let mut differences = merge_renamed(all.collect());
    differences.retain(|row| row.delta() != 0.0);
    differences.sort_by(|a, b| b.delta().abs().total_cmp(&a.delta().abs()));
    differences
}

/// Merges each removed function with its successor.
fn merge_renamed(all: Vec<Difference>) -> Vec<Difference> {
    let (mut removed, mut all): (Vec<Difference>, Vec<Difference>) =
        all.into_iter().partition(|candidate| {
            candidate.instructions < MAX_REMAINING * candidate.other_instructions
        });
    // The largest is merged first, so that it finds its successor before a smaller function with a similar name does.
    removed.sort_by(|a, b| b.other_instructions.total_cmp(&a.other_instructions));
    for removed_function in removed {
        let appeared = |candidate: &&mut Difference| {
            candidate.old_name.is_none()
                && candidate.other_instructions < MAX_REMAINING * candidate.instructions
                && is_renamed(&candidate.function, &removed_function.function)
        };
        let distance = |candidate: &Difference| {
            (candidate.instructions - removed_function.other_instructions).abs()
        };
        let nearest =
            all.iter_mut().filter(appeared).min_by(|a, b| distance(a).total_cmp(&distance(b)));
        match nearest {
            Some(successor) => {
                (successor.instructions, successor.other_instructions) = (
                    successor.instructions + removed_function.instructions,
                    successor.other_instructions + removed_function.other_instructions,
                );
                successor.old_name = Some(removed_function.function);
            }
            None => all.push(removed_function),
        }
    }
    all
}

/// Returns true if two names belong to the same function: they are equal except for outer underscores and compiler
/// suffixes (`.isra.0`, `.constprop.0`, `.part.0`), or one name begins with all words of the other, which has at least
/// two words.
fn is_renamed(first: &str, second: &str) -> bool {
    let words = |name: &str| -> Vec<String> {
        let stem = name.split('.').next().unwrap_or_default().trim_matches('_');
        stem.split('_').map(String::from).collect()
    };
    let (first, second) = (words(first), words(second));
    let (shorter, longer) =
        if first.len() <= second.len() { (&first, &second) } else { (&second, &first) };
    first == second || (shorter.len() > 1 && longer.starts_with(shorter))
}

/// The name of all unknown module functions, whose callers are more informative.
const UNNAMED: &str = "?";

/// The minimum part of a difference that a source must account for.
const MIN_PART: f64 = 0.5;

/// The function that accounts for most of a difference.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// The function's name, followed by its name in the other result if that is different.
    pub function: String,
    /// The function's part of the difference, in instructions per op.
    pub delta: f64,
    /// True if that part includes the function's callees.
    pub with_callees: bool,
}

impl std::fmt::Display for Source {
    /// Formats a source as `+120 of them in __find_get_block`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let callees = if self.with_callees { " and what it calls" } else { "" };
        write!(f, "{:+.0} of them in {}{callees}", self.delta, self.function)
    }
}

/// Returns the source of most of the difference `total` in instructions per op: a single function, or else the deepest
/// function that accounts for most of it together with its callees.
pub fn source(phase: &Phase, baseline: &Phase, total: f64) -> Option<Source> {
    let (current, previous) = (phase.executed.get(&Task::Ops)?, baseline.executed.get(&Task::Ops)?);
    let pair = Pair { current, previous, ops: (phase.ops, baseline.ops) };
    // If the caller shows no difference, the code was only inlined or renamed.
    let is_source = |row: &Difference| {
        row.function != UNNAMED
            && row.delta() / total >= MIN_PART
            && pair.delta_of_callers(row) / total >= MIN_PART
    };
    if let Some(row) = differences(phase, baseline).into_iter().find(is_source) {
        let function = row.names();
        return Some(Source { function, delta: row.delta(), with_callees: false });
    }
    pair.deepest_function(total)
}

/// A frame in the current and the previous result, with the number of ops of each.
#[derive(Clone, Copy)]
struct Pair<'a> {
    current: &'a Frame,
    previous: &'a Frame,
    ops: (u64, u64),
}

impl<'a> Pair<'a> {
    /// Returns the difference in instructions per op, including callees.
    fn delta(self) -> f64 {
        let per_op = |frame: &Frame, ops: u64| frame.total() as f64 / ops.max(1) as f64;
        per_op(self.current, self.ops.0) - per_op(self.previous, self.ops.1)
    }

    /// Returns the callees in both results, by their current name; a renamed function appears under both names.
    fn callees(self) -> Vec<(&'a String, Pair<'a>)> {
        static EMPTY: Frame =
            Frame { own: 0, calls: 0, charged: 0, layer: String::new(), below: BTreeMap::new() };
        let (current, previous) = (&self.current.below, &self.previous.below);
        let mut unmatched: BTreeSet<&String> =
            previous.keys().filter(|name| !current.contains_key(*name)).collect();
        let mut callees: Vec<(&String, Pair<'_>)> = Vec::new();
        for (name, frame) in current {
            let namesake = || unmatched.iter().copied().find(|matching| is_renamed(name, matching));
            let matching = if previous.contains_key(name) { Some(name) } else { namesake() };
            matching.map(|matching| unmatched.remove(matching));
            let previous_frame =
                matching.and_then(|matching| previous.get(matching)).unwrap_or(&EMPTY);
            callees.push((name, Pair { current: frame, previous: previous_frame, ops: self.ops }));
        }
        for name in unmatched {
            callees
                .push((name, Pair { current: &EMPTY, previous: &previous[name], ops: self.ops }));
        }
        callees
    }

    /// Returns the difference in instructions per op of a function's callers, including all their callees.
    fn delta_of_callers(self, difference: &Difference) -> f64 {
        let is_named = |name: &String| {
            *name == difference.function || Some(name) == difference.old_name.as_ref()
        };
        let callees = self.callees();
        match self.current.below.keys().chain(self.previous.below.keys()).any(is_named) {
            true => self.delta(),
            false => callees.into_iter().map(|(_, pair)| pair.delta_of_callers(difference)).sum(),
        }
    }

    /// Returns the deepest function that, including its callees, accounts for most of a difference.
    fn deepest_function(mut self, total: f64) -> Option<Source> {
        let mut found = None;
        loop {
            let callees = self.callees();
            // A function of only the current result and one of only the previous result may be the same function under
            // unrelated names.
            let is_only_previous =
                |pair: &Pair<'_>| pair.current.calls == 0 && pair.current.total() == 0;
            let is_only_current =
                |pair: &Pair<'_>| pair.previous.calls == 0 && pair.previous.total() == 0;
            let moved: f64 = callees
                .iter()
                .filter(|(_, pair)| is_only_current(pair) || is_only_previous(pair))
                .map(|(_, pair)| pair.delta())
                .sum();
            let delta_of = |pair: &Pair<'_>| match is_only_current(pair) || is_only_previous(pair) {
                true if moved / total < pair.delta() / total => moved,
                _ => pair.delta(),
            };
            let candidates = callees.into_iter().filter(|(name, _)| *name != SMALLER);
            let candidates = candidates
                .max_by(|a, b| (delta_of(&a.1) / total).total_cmp(&(delta_of(&b.1) / total)));
            let Some((name, pair)) =
                candidates.filter(|(_, pair)| delta_of(pair) / total >= MIN_PART)
            else {
                break;
            };
            // Entry code of the kernel and user code are not a useful explanation.
            let layer = if pair.current.layer.is_empty() {
                &pair.previous.layer
            } else {
                &pair.current.layer
            };
            if name != UNNAMED && !matches!(layer.as_str(), "entry" | "user") {
                let function = name.clone();
                found = Some(Source { function, delta: pair.delta(), with_callees: true });
            }
            self = pair;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(own: u64, below: &[(&str, Frame)]) -> Frame {
        let below = below.iter().map(|(name, frame)| (name.to_string(), frame.clone())).collect();
        Frame { own, calls: 1, charged: 0, layer: "files".into(), below }
    }

    fn phase(below: &[(&str, Frame)]) -> Phase {
        let mut phase = Phase { name: "unlink".into(), ops: 1, ..Phase::default() };
        phase.set_executed(&BTreeMap::from([(Task::Ops, node(0, below))]));
        phase
    }

    /// Returns the text that names the source of the additional instructions.
    fn named_source(phase: &Phase, baseline: &Phase) -> Option<String> {
        let instructions = |phase: &Phase| phase.executed[&Task::Ops].total() as f64;
        let source = source(phase, baseline, instructions(phase) - instructions(baseline))?;
        Some(format!(", {source}"))
    }

    #[test]
    fn a_renamed_function_counts_by_its_net_difference() {
        let unlink = |own| ("vfs_unlink", node(own, &[]));
        let old =
            phase(&[("bread", node(5, &[("__find_get_block", node(1385, &[]))])), unlink(500)]);
        let wrapper = node(12, &[("find_get_block_common", node(1548, &[]))]);
        let new = phase(&[("bread", node(5, &[("__find_get_block", wrapper)])), unlink(2000)]);
        let all = differences(&new, &old);
        assert_eq!(all[0].function, "vfs_unlink");
        assert_eq!(all[1].names(), "find_get_block_common (__find_get_block)");
        assert_eq!((all[1].instructions, all[1].other_instructions), (1560.0, 1385.0));
        assert_eq!(named_source(&new, &old).unwrap(), ", +1500 of them in vfs_unlink");
        assert_eq!(named_source(&old, &new).unwrap(), ", -1500 of them in vfs_unlink");
    }

    #[test]
    fn a_caller_is_not_the_source_of_an_inlined_functions_instructions() {
        let old = phase(&[("path", node(0, &[("iput", node(100, &[("evict", node(900, &[]))]))]))]);
        let new = phase(&[
            ("path", node(0, &[("iput", node(1050, &[]))])),
            ("a", node(40, &[])),
            ("b", node(40, &[])),
        ]);
        // +950 in iput and -900 in evict: neither alone is the source.
        assert_eq!(named_source(&new, &old), None);
    }

    #[test]
    fn only_names_of_the_same_function_are_recognized_as_renamed() {
        for (first, second) in [
            ("__find_get_block", "find_get_block_common"),
            ("ext4_map_blocks.isra.0", "ext4_map_blocks.constprop.0"),
            ("do_filp_open", "do_filp_open.part.0"),
            ("kmem_cache_alloc", "kmem_cache_alloc_noprof"),
            ("_raw_spin_lock", "raw_spin_lock"),
        ] {
            assert!(is_renamed(first, second) && is_renamed(second, first), "{first} {second}");
        }
        for (first, second) in [
            ("iput", "iput_final"),
            ("ext4_find_entry", "ext4_find_dest_de"),
            ("vfs_unlink", "vfs_rename"),
            ("memcpy", "memset"),
        ] {
            assert!(!is_renamed(first, second), "{first} {second}");
        }
    }
}
