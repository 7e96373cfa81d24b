//! An explained trial as a document.

use fsdyno_why::{Explained, Phase, sentences};

use super::rows;
use crate::number::{self, sanitize};
use crate::table::{Block, Document, Legend, Table};

/// An explained trial: its sentences, its requests by structure, and the functions that it executed.
pub fn document(it: &Explained, other: Option<&Explained>) -> Document {
    let mut out = Document(vec![Block::Title(sanitize(&title(it, other)))]);
    out.items(sentences::sentences(it, other).iter().map(|sentence| sanitize(sentence)).collect());
    if it.account.is_some() {
        for place in rows::places(it) {
            let title = sanitize(&place.place);
            out.0.push(Block::Table(Table { title, ..rows::requests(&place) }));
        }
        out.items(untimed_sentence(it).into_iter().chain([rows::sums(it)]).collect());
    }
    for (at, (phase, there)) in phases(it, other).enumerate() {
        out.0.push(Block::Table(Table { column_group: at + 1, ..rows::functions(phase, there) }));
    }
    out.0.push(Block::Legend(Legend::default()));
    out.items(it.notes.iter().map(|note| sanitize(&format!("Note: {note}."))).collect());
    out
}

/// The title: the trial, and the one that it is compared with; pages use it too.
pub fn title(it: &Explained, other: Option<&Explained>) -> String {
    let against = other.map(|other| {
        let workload = match other.workload == it.workload {
            true => String::new(),
            false => format!("{} on ", other.workload),
        };
        let seed = match other.seed == it.seed {
            true => String::new(),
            false => format!(", seed {}", other.seed),
        };
        match other.label == it.label && workload.is_empty() && seed.is_empty() {
            true => ", against the same in the other result".to_string(),
            false => format!(", against {workload}{}{seed}", other.label),
        }
    });
    format!("{} on {}, seed {}{}", it.workload, it.label, it.seed, against.unwrap_or_default())
}

/// The phases in which anything was executed, with those of the other trial.
fn phases<'a>(
    it: &'a Explained,
    other: Option<&'a Explained>,
) -> impl Iterator<Item = (&'a Phase, Option<&'a Phase>)> {
    let there = move |phase: &Phase| other?.phases.iter().find(|it| it.name == phase.name);
    it.phases
        .iter()
        .filter(|phase| !phase.executed.is_empty())
        .map(move |phase| (phase, there(phase)))
}

fn untimed_sentence(it: &Explained) -> Option<String> {
    let sum = rows::untimed(it);
    let (requests, bytes) = (number::count(sum.requests), rows::size(sum.bytes.0));
    let text = format!("Untimed, by mkfs, verification and similar: {requests} requests, {bytes}.");
    (sum.requests > 0).then_some(text)
}
