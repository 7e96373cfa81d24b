//! The conditions in full: first those that all trials share, then those that are specific to each row.

use std::collections::BTreeMap;

use fsdyno_record::Trial;
use serde::Serialize;

use super::facts;
use crate::labs::LabRows;
use crate::model::Row;
use crate::run::Run;

/// The maximum number of trials of a row that are listed; the others are counted.
const MAX_TRIALS: usize = 20;

/// The last section of the page.
#[derive(Debug, Serialize)]
pub struct Conditions {
    /// Facts that are the same for every row. If there is one row, these are all facts.
    common: Vec<(String, String)>,
    /// A block for each row.
    blocks: Vec<Block>,
    /// Number of rows omitted because the page has no space for them.
    left_out: usize,
}

/// A row: its specific facts and its trials.
#[derive(Debug, Default, Serialize)]
struct Block {
    name: String,
    facts: Vec<(String, String)>,
    notes: Vec<String>,
    trials: Vec<[String; 4]>,
    more: usize,
}

impl Conditions {
    /// One block for each plan, with the conditions of its first seed, within this number of bytes.
    pub fn of<'r, 't: 'r>(
        rows: impl Iterator<Item = (&'r str, &'r Row<'t>)>,
        bytes: usize,
    ) -> Conditions {
        let mut known = std::collections::BTreeSet::new();
        let mut blocks: Vec<Block> = Vec::new();
        for (workload, row) in rows {
            let Some((trial, _)) = row.trials.first() else { continue };
            let lab = trial.lab_id.as_deref();
            if known.insert((trial.plan.hash.as_str(), lab, row.name.as_str())) {
                blocks.push(block(workload, row, trial));
            }
        }
        Conditions::of_blocks(blocks, bytes)
    }

    /// Blocks of names and facts, for rows that have no trials.
    pub fn of_facts(blocks: Vec<(String, Vec<(String, String)>)>, bytes: usize) -> Conditions {
        let block = |(name, facts)| Block { name, facts, ..Block::default() };
        Conditions::of_blocks(blocks.into_iter().map(block).collect(), bytes)
    }

    fn of_blocks(mut blocks: Vec<Block>, bytes: usize) -> Conditions {
        let common = common_facts(&blocks);
        for block in &mut blocks {
            block.facts.retain(|fact| !common.contains(fact));
        }
        let left_out = fit(&mut blocks, bytes);
        Conditions { common, blocks, left_out }
    }

    /// Returns true if there is nothing to show.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }
}

/// The facts that every block has.
fn common_facts(blocks: &[Block]) -> Vec<(String, String)> {
    let Some((first, others)) = blocks.split_first() else { return Vec::new() };
    let everywhere =
        |fact: &&(String, String)| others.iter().all(|block| block.facts.contains(*fact));
    first.facts.iter().filter(everywhere).cloned().collect()
}

/// Drops the blocks that do not fit and returns their number.
fn fit(blocks: &mut Vec<Block>, bytes: usize) -> usize {
    let mut remaining = bytes;
    let fits = |block: &&Block| {
        let facts = block.facts.iter().map(|(name, value)| name.len() + value.len() + 24);
        let notes = block.notes.iter().map(|note| note.len() + 30);
        let size = 500 + facts.chain(notes).sum::<usize>() + 170 * block.trials.len();
        let fits = size <= remaining;
        remaining = remaining.saturating_sub(size);
        fits
    };
    let kept = blocks.iter().take_while(fits).count();
    let left_out = blocks.len() - kept;
    blocks.truncate(kept);
    left_out
}

fn block(workload: &str, row: &Row<'_>, trial: &Trial) -> Block {
    let trial_cells = |(trial, _): &Run<'_>| {
        let host = &trial.host;
        let id = trial.trial_id.clone();
        [trial.seed.to_string(), id, host.started.clone(), host.elapsed_ns.to_string()]
    };
    Block {
        name: format!("{workload} on {}", row.name),
        facts: facts::facts(trial),
        notes: trial.conditions.notes.clone(),
        trials: row.trials.iter().take(MAX_TRIALS).map(trial_cells).collect(),
        more: row.trials.len().saturating_sub(MAX_TRIALS),
    }
}

/// A lab identity.
#[derive(Debug, Serialize)]
pub struct Lab {
    id: String,
    labels: String,
    parts: BTreeMap<String, String>,
}

/// The maximum number of lab identities that are listed; the others are counted.
pub const LABS: usize = 24;

/// Each lab identity with the rows that ran in it and, after the first, only those parts that differ
/// from the first: labs of one study share most of their parts.
pub fn labs(trials: &[Trial]) -> Vec<Lab> {
    let parts = |id: &str| {
        let trial = trials.iter().find(|trial| trial.lab_id.as_deref() == Some(id));
        trial.map(|trial| BTreeMap::clone(&trial.lab)).unwrap_or_default()
    };
    let labs = crate::labs::labs(trials);
    let first = labs.first().map(|lab| parts(lab.id)).unwrap_or_default();
    let view = |(index, LabRows { id, rows, .. }): (usize, LabRows<'_>)| {
        let mut shown = parts(id);
        shown.retain(|name, value| index == 0 || first.get(name) != Some(value));
        let labels: Vec<&str> = rows.iter().map(String::as_str).collect();
        let labels = super::part::join_names(&labels, 12);
        Lab { id: id.into(), labels, parts: shown }
    };
    labs.into_iter().take(LABS).enumerate().map(view).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn conditions_of(trials: &[Trial], bytes: usize) -> Conditions {
        let sections = crate::view::sections(trials, None);
        let rows = sections
            .iter()
            .flat_map(|section| section.rows.iter().map(|row| (section.workload.as_str(), row)));
        Conditions::of(rows, bytes)
    }

    #[test]
    fn shared_facts_appear_once_and_none_is_lost() {
        let conditions = conditions_of(&fixture::trials(), 1 << 20);
        assert_eq!(conditions.blocks.len(), 6);
        let names = |facts: &[(String, String)]| {
            facts.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>()
        };
        assert!(names(&conditions.common).contains(&"kernel".to_string()));
        assert!(names(&conditions.blocks[0].facts).contains(&"mkfs".to_string()));
        let trial = &fixture::trials()[0];
        let all = conditions.common.len() + conditions.blocks[0].facts.len();
        assert_eq!(all, facts::facts(trial).len());
    }

    #[test]
    fn blocks_that_do_not_fit_are_counted() {
        let conditions = conditions_of(&fixture::trials(), 3000);
        assert!(!conditions.blocks.is_empty() && conditions.left_out > 0);
        assert_eq!(conditions.blocks.len() + conditions.left_out, 6);
    }
}
