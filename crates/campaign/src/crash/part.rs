//! The power cuts of an unfinished row, stored in the result folder so that a resumed run continues with the others.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use fsdyno_crash::{Cut, CutOutcome, PART_FILE, Row};
use fsdyno_media::file;
use fsdyno_record::Plan;
use fsdyno_record::bounded::{self, RESULTS};
use fsdyno_venue::recover::CUTS_PER_GUEST;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::files::{pretty, write_file};

/// The version of the file.
const VERSION: u32 = 1;

/// The part of a row that is done.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Part {
    /// Version of the file.
    crash_part: u32,
    /// The number of cuts of the finished row.
    pub cuts: u32,
    /// The row, with the outcomes of whole batches of cuts.
    pub row: Row,
}

impl Part {
    /// Creates the part of a row that will have this number of cuts.
    pub fn new(cuts: u32, row: Row) -> Part {
        Part { crash_part: VERSION, cuts, row }
    }

    /// Reads the part in a folder, if there is one.
    ///
    /// # Errors
    /// A file that cannot be read, or has another version.
    pub fn read(folder: &Path) -> Result<Option<Part>, Failure> {
        let path = path(folder);
        let text = match bounded::read_to_string(&path, &RESULTS) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            text => text.map_err(|error| Failure::io("read", &path, &error))?,
        };
        let refused = |why: String| {
            Failure::invalid_use(format!(
                "failed to read '{}' as the power cuts of an unfinished row: {why}; remove it to begin that row again",
                path.display()
            ))
        };
        let part: Part = serde_json::from_str(&text).map_err(|error| refused(error.to_string()))?;
        match part.crash_part {
            VERSION => Ok(Some(part)),
            other => Err(refused(format!("it has version {other}, not {VERSION}"))),
        }
    }

    /// Writes the part to a folder.
    ///
    /// # Errors
    /// An I/O error.
    pub fn write(&self, folder: &Path) -> Result<(), Failure> {
        write_file(&path(folder), &pretty(self)?)
    }

    /// Tests whether it is part of the row of a plan.
    pub fn is_of(&self, plan: &Plan) -> bool {
        self.row.label == plan.label && self.row.plan.hash == plan.hash
    }

    /// Removes the part of the row of a plan in a folder, if there is one.
    pub fn remove_of(folder: &Path, plan: &Plan) {
        if Part::read(folder).ok().flatten().is_some_and(|part| part.is_of(plan)) {
            // A part of a row that is stored as finished is ignored.
            let _ = file::remove(&path(folder));
        }
    }
}

fn path(folder: &Path) -> PathBuf {
    folder.join(PART_FILE)
}

/// Divides the chosen cuts into the stored outcomes to keep and the cuts left. Only whole batches of a guest are kept:
/// then each of the other cuts has the same guest, at the same place, as in a run that was not stopped, and the results
/// are bit-identical.
pub fn divide(cuts: &[Cut], stored: Vec<CutOutcome>) -> (Vec<CutOutcome>, Vec<Cut>) {
    let (mut kept, mut left) = (Vec::new(), Vec::new());
    let stored: BTreeMap<u32, CutOutcome> =
        stored.into_iter().map(|outcome| (outcome.cut.number, outcome)).collect();
    for batch in cuts.chunks(CUTS_PER_GUEST) {
        let outcome_of =
            |cut: &Cut| stored.get(&cut.number).filter(|outcome| outcome.cut == *cut).cloned();
        match batch.iter().map(outcome_of).collect::<Option<Vec<CutOutcome>>>() {
            Some(outcomes) => kept.extend(outcomes),
            None => left.extend(batch),
        }
    }
    (kept, left)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stored row of an archived result.
    fn row() -> Row {
        let results = concat!(env!("CARGO_MANIFEST_DIR"), "/../../results/2026-11-22-crash");
        let file = Path::new(results).join("ext4-0079.json");
        let finding = super::super::folder::read_finding(&file).unwrap();
        let outcome = |number: u32| {
            let cut = Cut { number, after: number, ..finding.outcome.cut };
            CutOutcome { cut, ..finding.outcome.clone() }
        };
        let outcomes = (0..120).map(outcome).collect();
        Row::new(&finding.plan, 1, finding.disk, Default::default(), outcomes)
    }

    #[test]
    fn only_whole_batches_of_a_guest_are_kept_and_the_order_of_the_others_is_that_of_the_cuts() {
        let outcomes = row().outcomes;
        let cuts: Vec<Cut> = outcomes.iter().map(|outcome| outcome.cut).collect();
        let numbers = |range: std::ops::Range<usize>| -> Vec<u32> {
            range.map(|number| number as u32).collect()
        };
        let divided = |stored: Vec<CutOutcome>| {
            let (kept, left) = divide(&cuts, stored);
            let kept: Vec<u32> = kept.iter().map(|outcome| outcome.cut.number).collect();
            (kept, left.iter().map(|cut| cut.number).collect::<Vec<u32>>())
        };
        assert_eq!(divided(Vec::new()), (vec![], numbers(0..120)));
        // The second guest and the last one, which has fewer cuts, are done; of the first, one cut is missing.
        let stored = [&outcomes[1..100], &outcomes[100..]].concat();
        assert_eq!(divided(stored), (numbers(50..120), numbers(0..50)));
        assert_eq!(divided(outcomes.clone()), (numbers(0..120), vec![]));
        let other = |outcome: &CutOutcome| CutOutcome {
            cut: Cut { draw: outcome.cut.draw ^ 1, ..outcome.cut },
            ..outcome.clone()
        };
        let others = outcomes.iter().map(other).collect();
        assert_eq!(divided(others), (vec![], numbers(0..120)), "cuts of another seed");
    }

    #[test]
    fn a_part_is_read_as_it_was_written_and_a_damaged_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Part::read(folder.path()).unwrap().is_none());
        let part = Part::new(200, row());
        part.write(folder.path()).unwrap();
        let read = Part::read(folder.path()).unwrap().unwrap();
        assert_eq!((read.cuts, read.row.outcomes), (200, part.row.outcomes));
        let file = folder.path().join(PART_FILE);
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.replace("\"crash_part\": 1", "\"crash_part\": 2")).unwrap();
        let refused = Part::read(folder.path()).unwrap_err().message;
        assert!(refused.contains("it has version 2, not 1; remove it"), "{refused}");
        std::fs::write(&file, &text[..text.len() / 2]).unwrap();
        assert!(Part::read(folder.path()).unwrap_err().message.contains("remove it to begin"));
        std::fs::write(&file, text).unwrap();
        let other = Plan { label: "another".into(), ..part.row.plan.clone() };
        Part::remove_of(folder.path(), &other);
        assert!(file.exists());
        Part::remove_of(folder.path(), &part.row.plan);
        assert!(!file.exists());
    }
}
