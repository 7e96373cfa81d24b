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
    /// Index of the boundary at which it begins, or `None` for the beginning of the recording.
    pub from: Option<usize>,
    /// Index of the boundary at which it ends, or `None` for the end of the recording.
    pub to: Option<usize>,
    /// Number of its ops by kind.
    pub counts: OpCounts,
}

/// Returns the phases of a recording. A part without ops is not a phase.
pub fn parts(compiled: &Compiled, split: Split) -> Vec<Part> {
    let boundaries: Vec<(usize, Boundary<'_>)> = match split {
        Split::Whole => Vec::new(),
        _ => {
            let is_mark = split == Split::Marks;
            let boundaries = compiled.boundaries().enumerate();
            boundaries.filter(|(_, boundary)| boundary.is_mark() == is_mark).collect()
        }
    };
    let total = compiled.counts();
    let mut parts: Vec<Part> = Vec::new();
    for position in 0..=boundaries.len() {
        let (from, to) = (
            position.checked_sub(1).and_then(|position| boundaries.get(position)),
            boundaries.get(position),
        );
        let counts_at_end = to.map_or_else(|| total.clone(), |(_, boundary)| boundary.counts());
        let counts_at_start = from.map(|(_, boundary)| boundary.counts()).unwrap_or_default();
        let count = |kind: &OpKind| {
            let count_of = |counts: &OpCounts| counts.get(kind).copied().unwrap_or(0);
            (*kind, count_of(&counts_at_end).saturating_sub(count_of(&counts_at_start)))
        };
        let counts: OpCounts =
            OpKind::ALL.iter().map(count).filter(|(_, count)| *count > 0).collect();
        let to = to.map(|(index, _)| *index);
        if counts.is_empty() && !boundaries.is_empty() {
            continue;
        }
        if let Some(last) = parts.last_mut().filter(|_| position >= MAX_PHASES) {
            last.to = to;
            counts.into_iter().for_each(|(kind, count)| {
                *last.counts.entry(kind).or_default() += count;
            });
            continue;
        }
        let name = match from {
            Some((_, boundary)) => unique_name(compiled.string(boundary.name()), &parts),
            None if boundaries.is_empty() => "replay",
            None => "begin",
        };
        parts.push(Part { name, from: from.map(|(index, _)| *index), to, counts });
    }
    if parts.is_empty() {
        parts.push(Part { name: "replay", from: None, to: None, counts: total });
    }
    parts
}

/// Returns the name of a phase: letters, digits, `.`, `_` and `-`, with a number if an earlier phase has the same name.
fn unique_name(text: &[u8], earlier: &[Part]) -> &'static str {
    let allowed_char = |byte: &u8| match byte {
        b'.' | b'_' | b'-' => char::from(*byte),
        byte if byte.is_ascii_alphanumeric() => char::from(*byte),
        _ => '_',
    };
    let base: String = text.iter().take(MAX_NAME).map(allowed_char).collect();
    let is_taken = |name: &str| earlier.iter().any(|part| part.name == name);
    let mut name = base.clone();
    let mut number = 1;
    while is_taken(&name) {
        number += 1;
        name = format!("{base}-{number}");
    }
    leak(name)
}

/// Returns the text with a static lifetime, leaked once per distinct text: phase names are static, and a recording has
/// at most about a hundred.
fn leak(text: String) -> &'static str {
    static KNOWN: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = known.get(text.as_str()) {
        return known;
    }
    let text: &'static str = Box::leak(text.into_boxed_str());
    known.insert(text);
    text
}
