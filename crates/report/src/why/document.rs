//! An explained trial as a document.

use fsdyno_why::{Explained, Phase, sentences};

use super::rows;
use crate::number::{self, sanitize};
use crate::table::{Block, Document, Legend, Table};

/// An explained trial: its sentences, its requests by structure, and the functions that it executed.
pub fn document(explained: &Explained, other: Option<&Explained>) -> Document {
    let mut out = Document(vec![Block::Title(sanitize(&title(explained, other)))]);
    out.items(
        sentences::sentences(explained, other).iter().map(|sentence| sanitize(sentence)).collect(),
    );
    if explained.account.is_some() {
        for place in rows::places(explained) {
            let title = sanitize(&place.place);
            out.0.push(Block::Table(Table { title, ..rows::requests(&place) }));
        }
        out.items(untimed_sentence(explained).into_iter().chain([rows::sums(explained)]).collect());
    }
    for (index, (phase, other_phase)) in phases(explained, other).enumerate() {
        out.0.push(Block::Table(Table {
            column_group: index + 1,
            ..rows::functions(phase, other_phase)
        }));
    }
    out.0.push(Block::Legend(Legend::default()));
    out.items(explained.notes.iter().map(|note| sanitize(&format!("Note: {note}."))).collect());
    out
}

/// The title: the trial, and the one that it is compared with. Pages use the same title.
pub fn title(explained: &Explained, other: Option<&Explained>) -> String {
    let against = other.map(|other| {
        let workload = match other.workload == explained.workload {
            true => String::new(),
            false => format!("{} on ", other.workload),
        };
        let seed = match other.seed == explained.seed {
            true => String::new(),
            false => format!(", seed {}", other.seed),
        };
        match other.label == explained.label && workload.is_empty() && seed.is_empty() {
            true => ", against the same trial in the other result".to_string(),
            false => format!(", against {workload}{}{seed}", other.label),
        }
    });
    format!(
        "{} on {}, seed {}{}",
        explained.workload,
        explained.label,
        explained.seed,
        against.unwrap_or_default()
    )
}

/// The phases in which anything was executed, with those of the other trial.
fn phases<'a>(
    explained: &'a Explained,
    other: Option<&'a Explained>,
) -> impl Iterator<Item = (&'a Phase, Option<&'a Phase>)> {
    let other_phase =
        move |phase: &Phase| other?.phases.iter().find(|found| found.name == phase.name);
    explained
        .phases
        .iter()
        .filter(|phase| !phase.executed.is_empty())
        .map(move |phase| (phase, other_phase(phase)))
}

fn untimed_sentence(explained: &Explained) -> Option<String> {
    let sum = rows::untimed(explained);
    let (requests, bytes) = (number::count(sum.requests), rows::size(sum.bytes.0));
    let text = format!("Untimed, by mkfs, verification and similar: {requests} requests, {bytes}.");
    (sum.requests > 0).then_some(text)
}
