//! The conditions in full: once what all trials share, then of each row what is its own.

use std::collections::BTreeMap;

use fsdyno_record::Trial;
use serde::Serialize;

use super::facts;
use crate::view::{self, Row};

/// Trials of one row that are listed one by one; more are counted.
const LISTED: usize = 20;

/// The part of the page at its end.
#[derive(Debug, Serialize)]
pub struct Conditions {
    /// What is the same for every row; everything, where there is one row.
    common: Vec<(String, String)>,
    /// A block for each row.
    blocks: Vec<Block>,
    /// How many more rows there are than the page has room for.
    left_out: usize,
}

/// A row: what is its own, and its trials.
#[derive(Debug, Default, Serialize)]
struct Block {
    name: String,
    facts: Vec<(String, String)>,
    notes: Vec<String>,
    trials: Vec<[String; 4]>,
    more: usize,
}

impl Conditions {
    /// One block for each plan, as its first seed found it, in about so many bytes.
    pub fn of<'r, 't: 'r>(
        rows: impl Iterator<Item = (&'r str, &'r Row<'t>)>,
        bytes: usize,
    ) -> Conditions {
        let mut seen = std::collections::BTreeSet::new();
        let mut blocks: Vec<Block> = Vec::new();
        for (workload, row) in rows {
            let Some((trial, _)) = row.trials.first() else { continue };
            let lab = trial.lab_id.as_deref();
            if seen.insert((trial.plan.hash.as_str(), lab, row.name.as_str())) {
                blocks.push(block(workload, row, trial));
            }
        }
        Conditions::of_blocks(blocks, bytes)
    }

    /// Blocks of names and facts, for what has no trials of its own.
    pub fn of_facts(blocks: Vec<(String, Vec<(String, String)>)>, bytes: usize) -> Conditions {
        let block = |(name, facts)| Block { name, facts, ..Block::default() };
        Conditions::of_blocks(blocks.into_iter().map(block).collect(), bytes)
    }

    fn of_blocks(mut blocks: Vec<Block>, bytes: usize) -> Conditions {
        let common = shared(&blocks);
        for block in &mut blocks {
            block.facts.retain(|fact| !common.contains(fact));
        }
        let left_out = fit(&mut blocks, bytes);
        Conditions { common, blocks, left_out }
    }

    /// Whether there is anything to tell.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }
}

/// What every block has alike.
fn shared(blocks: &[Block]) -> Vec<(String, String)> {
    let Some((first, others)) = blocks.split_first() else { return Vec::new() };
    let everywhere =
        |fact: &&(String, String)| others.iter().all(|block| block.facts.contains(*fact));
    first.facts.iter().filter(everywhere).cloned().collect()
}

/// Leaves out the blocks for which there is no room, and says how many.
fn fit(blocks: &mut Vec<Block>, bytes: usize) -> usize {
    let mut left = bytes;
    let fits = |block: &&Block| {
        let facts = block.facts.iter().map(|(name, value)| name.len() + value.len() + 24);
        let notes = block.notes.iter().map(|note| note.len() + 30);
        let size = 500 + facts.chain(notes).sum::<usize>() + 170 * block.trials.len();
        let fits = size <= left;
        left = left.saturating_sub(size);
        fits
    };
    let kept = blocks.iter().take_while(fits).count();
    let left_out = blocks.len() - kept;
    blocks.truncate(kept);
    left_out
}

fn block(workload: &str, row: &Row<'_>, trial: &Trial) -> Block {
    let one = |(trial, _): &view::Run<'_>| {
        let host = &trial.host;
        let id = trial.trial_id.clone();
        [trial.seed.to_string(), id, host.started.clone(), host.elapsed_ns.to_string()]
    };
    Block {
        name: format!("{workload} on {}", row.name),
        facts: facts::of(trial),
        notes: trial.conditions.notes.clone(),
        trials: row.trials.iter().take(LISTED).map(one).collect(),
        more: row.trials.len().saturating_sub(LISTED),
    }
}

/// A lab identity.
#[derive(Debug, Serialize)]
pub struct Lab {
    id: String,
    labels: String,
    parts: BTreeMap<String, String>,
}

/// More lab identities than this are counted, not listed.
pub const LABS: usize = 24;

/// Each lab identity with who ran in it and, after the first, only those parts that differ from
/// the first: labs of one study share most of what they are.
pub fn labs(trials: &[Trial]) -> Vec<Lab> {
    let parts = |id: &str| {
        let trial = trials.iter().find(|trial| trial.lab_id.as_deref() == Some(id));
        trial.map(|trial| BTreeMap::clone(&trial.lab)).unwrap_or_default()
    };
    let labs = view::labs(trials);
    let first = labs.first().map(|lab| parts(lab.0)).unwrap_or_default();
    let view = |(index, (id, labels)): (usize, (&str, Vec<String>))| {
        let mut own = parts(id);
        own.retain(|name, value| index == 0 || first.get(name) != Some(value));
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        let labels = super::listed(&labels, 12);
        Lab { id: id.into(), labels, parts: own }
    };
    labs.into_iter().take(LABS).enumerate().map(view).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn of(trials: &[Trial], bytes: usize) -> Conditions {
        let sections = view::sections(trials, None);
        let rows = sections
            .iter()
            .flat_map(|section| section.rows.iter().map(|row| (section.workload.as_str(), row)));
        Conditions::of(rows, bytes)
    }

    #[test]
    fn what_all_share_is_told_once_and_nothing_is_lost() {
        let conditions = of(&fixture::trials(), 1 << 20);
        assert_eq!(conditions.blocks.len(), 6);
        let names = |facts: &[(String, String)]| {
            facts.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>()
        };
        assert!(names(&conditions.common).contains(&"kernel".to_string()));
        assert!(names(&conditions.blocks[0].facts).contains(&"mkfs".to_string()));
        let trial = &fixture::trials()[0];
        let all = conditions.common.len() + conditions.blocks[0].facts.len();
        assert_eq!(all, facts::of(trial).len());
    }

    #[test]
    fn what_has_no_room_is_counted() {
        let conditions = of(&fixture::trials(), 3000);
        assert!(!conditions.blocks.is_empty() && conditions.left_out > 0);
        assert_eq!(conditions.blocks.len() + conditions.left_out, 6);
    }
}
