//! Compares the functions of two runs of a phase, and finds the source of most of the difference.
//!
//! Two kernels may have the same code under two names, or inlined in its caller. A function that vanished and one that
//! appeared are treated as the same if their names match ([`is_renamed`]), and no function is named as the source of a
//! difference that its own caller does not show.

use std::collections::{BTreeMap, BTreeSet};

use crate::explained::Phase;
use crate::kernel::tree::SMALLER;
use crate::kernel::{Frame, Task};

/// The difference in instructions per op of one function between two results.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Name of the function.
    pub function: String,
    /// Its name in the other result, if that is different.
    pub old_name: Option<String>,
    /// Its layer.
    pub layer: String,
    /// Instructions per op.
    pub instructions: f64,
    /// Instructions per op in the other result.
    pub other_instructions: f64,
}

impl Difference {
    /// Returns the difference.
    pub fn delta(&self) -> f64 {
        self.instructions - self.other_instructions
    }

    /// Returns its names, in the form `find_get_block_common (__find_get_block)`.
    pub fn names(&self) -> String {
        match &self.old_name {
            Some(was) => format!("{} ({was})", self.function),
            None => self.function.clone(),
        }
    }
}

/// A function is gone if it has less than this part of its instructions on the other side: some of its instructions,
/// which call its successor, may remain.
const GONE: f64 = 0.1;

/// Compares the instructions of the threads that issue ops by function, the largest difference first. Equal functions
/// are omitted, and a renamed function counts as one.
pub fn differences(here: &Phase, there: &Phase) -> Vec<Difference> {
    let by_name = |phase: &Phase| {
        let ops = phase.ops.max(1) as f64;
        let mut sums: BTreeMap<String, (String, f64)> = BTreeMap::new();
        for it in phase.functions.iter().filter(|it| it.task == Task::Ops) {
            let sum = sums.entry(it.function.clone()).or_insert((it.layer.clone(), 0.0));
            sum.1 += it.instructions as f64 / ops;
        }
        sums
    };
    let (here, there) = (by_name(here), by_name(there));
    let names: BTreeSet<&String> = here.keys().chain(there.keys()).collect();
    let all = names.into_iter().map(|name| {
        let (one, other) = (here.get(name), there.get(name));
        Difference {
            function: name.clone(),
            old_name: None,
            layer: one.or(other).map(|(layer, _)| layer.clone()).unwrap_or_default(),
            instructions: one.map_or(0.0, |(_, own)| *own),
            other_instructions: other.map_or(0.0, |(_, own)| *own),
        }
    });
    let mut differences = merge_renamed(all.collect());
    differences.retain(|it| it.delta() != 0.0);
    differences.sort_by(|a, b| b.delta().abs().total_cmp(&a.delta().abs()));
    differences
}

/// Merges each function that is gone with its successor.
fn merge_renamed(all: Vec<Difference>) -> Vec<Difference> {
    let (mut gone, mut all): (Vec<Difference>, Vec<Difference>) =
        all.into_iter().partition(|it| it.instructions < GONE * it.other_instructions);
    // The largest is merged first, so that it finds its successor before a smaller function with a similar name does.
    gone.sort_by(|a, b| b.other_instructions.total_cmp(&a.other_instructions));
    for old in gone {
        let appeared = |it: &&mut Difference| {
            it.old_name.is_none()
                && it.other_instructions < GONE * it.instructions
                && is_renamed(&it.function, &old.function)
        };
        let far = |it: &Difference| (it.instructions - old.other_instructions).abs();
        let nearest = all.iter_mut().filter(appeared).min_by(|a, b| far(a).total_cmp(&far(b)));
        match nearest {
            Some(new) => {
                (new.instructions, new.other_instructions) = (
                    new.instructions + old.instructions,
                    new.other_instructions + old.other_instructions,
                );
                new.old_name = Some(old.function);
            }
            None => all.push(old),
        }
    }
    all
}

/// Returns whether two names belong to the same function: they are equal except for outer underscores and compiler
/// suffixes (`.isra.0`, `.constprop.0`, `.part.0`), or one begins with all words of the other, which has at least two.
fn is_renamed(one: &str, other: &str) -> bool {
    let words = |name: &str| -> Vec<String> {
        let stem = name.split('.').next().unwrap_or_default().trim_matches('_');
        stem.split('_').map(String::from).collect()
    };
    let (one, other) = (words(one), words(other));
    let (short, long) = if one.len() <= other.len() { (&one, &other) } else { (&other, &one) };
    one == other || (short.len() > 1 && long.starts_with(short))
}

/// The name of module functions whose address is unknown: their callers are more informative.
const UNNAMED: &str = "?";

/// The minimum part of a difference that a source must account for.
const MIN_PART: f64 = 0.5;

/// The function that accounts for most of a difference.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// Its name, with that in the other result if it is different.
    pub function: String,
    /// Its part of the difference, in instructions per op.
    pub delta: f64,
    /// True if that part includes its callees.
    pub with_callees: bool,
}

impl std::fmt::Display for Source {
    /// Formats a source as `+120 of them in __find_get_block`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let callees = if self.with_callees { " and what it calls" } else { "" };
        write!(f, "{:+.0} of them in {}{callees}", self.delta, self.function)
    }
}

/// Returns the source of most of a difference: a single function, or the deepest one including its callees.
pub fn source(here: &Phase, there: &Phase, more: f64) -> Option<Source> {
    let (one, other) = (here.executed.get(&Task::Ops)?, there.executed.get(&Task::Ops)?);
    let pair = Pair { one, other, ops: (here.ops, there.ops) };
    // A difference that the caller does not show was only moved: the code was inlined, or is called by another name.
    let named = |it: &Difference| {
        it.function != UNNAMED
            && it.delta() / more >= MIN_PART
            && pair.callers_delta(it) / more >= MIN_PART
    };
    if let Some(it) = differences(here, there).into_iter().find(named) {
        let function = it.names();
        return Some(Source { function, delta: it.delta(), with_callees: false });
    }
    pair.deepest(more)
}

/// A frame in both results, with the number of ops of each.
#[derive(Clone, Copy)]
struct Pair<'a> {
    one: &'a Frame,
    other: &'a Frame,
    ops: (u64, u64),
}

impl<'a> Pair<'a> {
    /// Returns the difference in instructions per op, including callees.
    fn delta(self) -> f64 {
        let per_op = |frame: &Frame, ops: u64| frame.whole() as f64 / ops.max(1) as f64;
        per_op(self.one, self.ops.0) - per_op(self.other, self.ops.1)
    }

    /// Returns the callees in both results, by their current name; a renamed function appears under both names.
    fn below(self) -> Vec<(&'a String, Pair<'a>)> {
        static NONE: Frame =
            Frame { own: 0, calls: 0, charged: 0, layer: String::new(), below: BTreeMap::new() };
        let (one, other) = (&self.one.below, &self.other.below);
        let mut left: BTreeSet<&String> =
            other.keys().filter(|name| !one.contains_key(*name)).collect();
        let mut below: Vec<(&String, Pair<'_>)> = Vec::new();
        for (name, frame) in one {
            let namesake = || left.iter().copied().find(|old| is_renamed(name, old));
            let old = if other.contains_key(name) { Some(name) } else { namesake() };
            old.map(|old| left.remove(old));
            let there = old.and_then(|old| other.get(old)).unwrap_or(&NONE);
            below.push((name, Pair { one: frame, other: there, ops: self.ops }));
        }
        for name in left {
            below.push((name, Pair { one: &NONE, other: &other[name], ops: self.ops }));
        }
        below
    }

    /// Returns the difference in instructions per op of the callers of a function, including their callees.
    fn callers_delta(self, difference: &Difference) -> f64 {
        let is_it = |name: &String| {
            *name == difference.function || Some(name) == difference.old_name.as_ref()
        };
        let below = self.below();
        match self.one.below.keys().chain(self.other.below.keys()).any(is_it) {
            true => self.delta(),
            false => below.into_iter().map(|(_, pair)| pair.callers_delta(difference)).sum(),
        }
    }

    /// Returns the deepest function that accounts for most of a difference, including its callees.
    fn deepest(mut self, more: f64) -> Option<Source> {
        let mut found = None;
        loop {
            let below = self.below();
            // A function found only here may be a function found only there, under an unrelated name.
            let only_there = |pair: &Pair<'_>| pair.one.calls == 0 && pair.one.whole() == 0;
            let only_here = |pair: &Pair<'_>| pair.other.calls == 0 && pair.other.whole() == 0;
            let moved: f64 = below
                .iter()
                .filter(|(_, pair)| only_here(pair) || only_there(pair))
                .map(|(_, pair)| pair.delta())
                .sum();
            let part = |pair: &Pair<'_>| match only_here(pair) || only_there(pair) {
                true if moved / more < pair.delta() / more => moved,
                _ => pair.delta(),
            };
            let next = below.into_iter().filter(|(name, _)| *name != SMALLER);
            let next = next.max_by(|a, b| (part(&a.1) / more).total_cmp(&(part(&b.1) / more)));
            let Some((name, pair)) = next.filter(|(_, pair)| part(pair) / more >= MIN_PART) else {
                break;
            };
            // The entry path into the kernel explains nothing.
            let layer = if pair.one.layer.is_empty() { &pair.other.layer } else { &pair.one.layer };
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

    fn leaf(own: u64, below: &[(&str, Frame)]) -> Frame {
        let below = below.iter().map(|(name, frame)| (name.to_string(), frame.clone())).collect();
        Frame { own, calls: 1, charged: 0, layer: "files".into(), below }
    }

    fn phase(below: &[(&str, Frame)]) -> Phase {
        let mut phase = Phase { name: "unlink".into(), ops: 1, ..Phase::default() };
        phase.set_executed(&BTreeMap::from([(Task::Ops, leaf(0, below))]));
        phase
    }

    /// Returns the function named for the additional instructions.
    fn named_source(here: &Phase, there: &Phase) -> Option<String> {
        let all = |phase: &Phase| phase.executed[&Task::Ops].whole() as f64;
        let source = source(here, there, all(here) - all(there))?;
        Some(format!(", {source}"))
    }

    #[test]
    fn a_renamed_function_counts_by_its_net_difference() {
        let other = |own| ("vfs_unlink", leaf(own, &[]));
        let old =
            phase(&[("bread", leaf(5, &[("__find_get_block", leaf(1385, &[]))])), other(500)]);
        let wrapper = leaf(12, &[("find_get_block_common", leaf(1548, &[]))]);
        let new = phase(&[("bread", leaf(5, &[("__find_get_block", wrapper)])), other(2000)]);
        let all = differences(&new, &old);
        assert_eq!(all[0].function, "vfs_unlink");
        assert_eq!(all[1].names(), "find_get_block_common (__find_get_block)");
        assert_eq!((all[1].instructions, all[1].other_instructions), (1560.0, 1385.0));
        assert_eq!(named_source(&new, &old).unwrap(), ", +1500 of them in vfs_unlink");
        assert_eq!(named_source(&old, &new).unwrap(), ", -1500 of them in vfs_unlink");
    }

    #[test]
    fn an_inlined_function_is_not_blamed_on_its_caller() {
        let old = phase(&[("path", leaf(0, &[("iput", leaf(100, &[("evict", leaf(900, &[]))]))]))]);
        let new = phase(&[
            ("path", leaf(0, &[("iput", leaf(1050, &[]))])),
            ("a", leaf(40, &[])),
            ("b", leaf(40, &[])),
        ]);
        // +950 in iput and -900 in evict: neither alone is the source.
        assert_eq!(named_source(&new, &old), None);
    }

    #[test]
    fn names_of_one_function_are_recognized_and_others_are_not() {
        for (one, other) in [
            ("__find_get_block", "find_get_block_common"),
            ("ext4_map_blocks.isra.0", "ext4_map_blocks.constprop.0"),
            ("do_filp_open", "do_filp_open.part.0"),
            ("kmem_cache_alloc", "kmem_cache_alloc_noprof"),
            ("_raw_spin_lock", "raw_spin_lock"),
        ] {
            assert!(is_renamed(one, other) && is_renamed(other, one), "{one} {other}");
        }
        for (one, other) in [
            ("iput", "iput_final"),
            ("ext4_find_entry", "ext4_find_dest_de"),
            ("vfs_unlink", "vfs_rename"),
            ("memcpy", "memset"),
        ] {
            assert!(!is_renamed(one, other), "{one} {other}");
        }
    }
}
