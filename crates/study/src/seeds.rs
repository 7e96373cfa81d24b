//! Adds seeds for verdicts that are based on a single seed and lie near their bounds.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::Ordering;

use fsdyno_campaign::experiment::open;
use fsdyno_campaign::notes::say;
use fsdyno_campaign::{Failure, Session, Summary, Venues, stage};
use fsdyno_report::counted;

use crate::file::StudyFile;
use crate::judge::{NEAR, SEEDS, seed_shortages};
use crate::request::StudyRequest;
use crate::stored;
use crate::study_run::StudyRun;

/// Returns true if a run may get more seeds: its file specifies a single seed, and the command line neither sets their
/// number nor forbids more.
fn may_grow(study: &StudyRequest, run: &StudyRun) -> bool {
    study.repeat.is_none() && !study.no_more_seeds && run.experiment.spec.repeat == 1
}

/// Returns the note of a dry run; `None` if no run may get more seeds.
pub fn dry_run_note(study: &StudyRequest, runs: &[StudyRun]) -> Option<String> {
    let cells: usize =
        runs.iter().filter(|run| may_grow(study, run)).map(|run| run.experiment.cells.len()).sum();
    let at_most = counted(cells * (SEEDS - 1) as usize, "more trial");
    (cells > 0).then(|| {
        format!(
            "If the value of a claim for one seed lies within {:.0} % of its bound, its configurations get {} more \
             seeds: at most {at_most} (--no-more-seeds disables this)\n",
            (NEAR - 1.0) * 100.0,
            SEEDS - 1
        )
    })
}

/// Runs more seeds of the configurations whose verdicts are near their bounds.
///
/// # Errors
/// A record that is unreadable, or a failed run.
pub fn run(
    study: &StudyRequest,
    (folder, file): (&Path, &StudyFile),
    runs: &[StudyRun],
    venues: &[Venues],
    session: &Session<'_>,
) -> Result<Summary, Failure> {
    let mut sum = Summary::default();
    if !runs.iter().any(|run| may_grow(study, run)) {
        return Ok(sum);
    }
    let shortages = seed_shortages(file, &stored::results(folder, file)?);
    for (run, venues) in runs.iter().zip(venues).filter(|(run, _)| may_grow(study, run)) {
        let shortage = shortages
            .iter()
            .find(|shortage| shortage.run == run.name && shortage.variant == run.variant);
        let Some(shortage) = shortage.filter(|_| !session.stop.load(Ordering::Relaxed)) else {
            continue;
        };
        let is_needed = |cell: usize| {
            run.experiment
                .cells
                .get(cell)
                .is_some_and(|cell| shortage.rows.contains(&cell.plan.label))
        };
        let mut schedule =
            stage(run.experiment.cells.len(), 1..SEEDS, run.experiment.spec.seed, None);
        schedule.retain(|slot| is_needed(slot.cell));
        if schedule.is_empty() {
            continue;
        }
        let listed = |names: &BTreeSet<String>| {
            names.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
        };
        say(&format!(
            "fsdyno: with one seed, {} within {:.0} % of the bound; running {} of {} in {}",
            listed(&shortage.claims),
            (NEAR - 1.0) * 100.0,
            counted(schedule.len(), "more trial"),
            listed(&shortage.rows),
            run.title()
        ));
        let mut store = open(&run.folder)?;
        let summary = run.experiment.run_schedule(venues, &schedule, &mut store, session);
        sum = sum.plus(summary.map_err(|failure| run.locate(failure))?);
    }
    Ok(sum)
}
