//! The phases of a replay: the whole recording, or its parts between marks or between commands.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use fsdyno_record::OpKind;

use crate::replay::format::{Boundary, Compiled};
use crate::workload::OpCounts;

/// Maximum number of phases; everything after that belongs to the last one.
const MAX_PHASES: usize = 100;

/// Maximum length of a phase's name in bytes; tables use it as a heading.
const MAX_NAME: usize = 40;

/// The points at which phases begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// No points: there is one phase.
    Whole,
    /// Marks of the program.
    Marks,
    /// Commands that the program started.
    Commands,
}

/// A phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its name, which is unique among the phases.
    pub name: &'static str,
    /// Index of the boundary at which it begins; none for the beginning of the recording.
    pub from: Option<usize>,
    /// Index of the boundary at which it ends; none for the end of the recording.
    pub to: Option<usize>,
    /// Number of its ops by kind.
    pub counts: OpCounts,
}

/// Returns the phases of a recording. A part without ops is not a phase.
pub fn parts(compiled: &Compiled, split: Split) -> Vec<Part> {
    let chosen: Vec<(usize, Boundary<'_>)> = match split {
        Split::Whole => Vec::new(),
        _ => {
            let is_mark = split == Split::Marks;
            let all = compiled.boundaries().enumerate();
            all.filter(|(_, it)| it.is_mark() == is_mark).collect()
        }
    };
    let all = compiled.counts();
    let mut parts: Vec<Part> = Vec::new();
    for at in 0..=chosen.len() {
        let (from, to) = (at.checked_sub(1).and_then(|at| chosen.get(at)), chosen.get(at));
        let until = to.map_or_else(|| all.clone(), |(_, it)| it.counts());
        let before = from.map(|(_, it)| it.counts()).unwrap_or_default();
        let count = |kind: &OpKind| {
            let of = |counts: &OpCounts| counts.get(kind).copied().unwrap_or(0);
            (*kind, of(&until).saturating_sub(of(&before)))
        };
        let counts: OpCounts =
            OpKind::ALL.iter().map(count).filter(|(_, count)| *count > 0).collect();
        let to = to.map(|(index, _)| *index);
        if counts.is_empty() && !chosen.is_empty() {
            continue;
        }
        if let Some(last) = parts.last_mut().filter(|_| at >= MAX_PHASES) {
            last.to = to;
            counts.into_iter().for_each(|(kind, count)| {
                *last.counts.entry(kind).or_default() += count;
            });
            continue;
        }
        let name = match from {
            Some((_, it)) => name(compiled.string(it.name()), &parts),
            None if chosen.is_empty() => "replay",
            None => "begin",
        };
        parts.push(Part { name, from: from.map(|(index, _)| *index), to, counts });
    }
    if parts.is_empty() {
        parts.push(Part { name: "replay", from: None, to: None, counts: all });
    }
    parts
}

/// Returns the name of a phase: letters, digits, `.`, `_` and `-`, with a number if an earlier phase has the same name.
fn name(text: &[u8], earlier: &[Part]) -> &'static str {
    let plain = |byte: &u8| match byte {
        b'.' | b'_' | b'-' => char::from(*byte),
        it if it.is_ascii_alphanumeric() => char::from(*it),
        _ => '_',
    };
    let base: String = text.iter().take(MAX_NAME).map(plain).collect();
    let taken = |name: &str| earlier.iter().any(|part| part.name == name);
    let mut full = base.clone();
    let mut number = 1;
    while taken(&full) {
        number += 1;
        full = format!("{base}-{number}");
    }
    lasting(full)
}

/// Returns the text with a static lifetime, leaked once per distinct text: phase names are static, and a recording has
/// at most about a hundred.
fn lasting(text: String) -> &'static str {
    static KNOWN: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = known.get(text.as_str()) {
        return known;
    }
    let text: &'static str = Box::leak(text.into_boxed_str());
    known.insert(text);
    text
}
