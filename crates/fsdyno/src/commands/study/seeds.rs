//! More seeds for verdicts of one that lie near their bounds.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use fsdyno_report::counted;
use fsdyno_study::file::StudyFile;
use fsdyno_study::judge::{NEAR, SEEDS, near};
use fsdyno_study::{Summary, stage};

use super::Study;
use super::leg::Leg;
use super::stored;
use crate::commands::run::{go, open};
use crate::exit::Failure;
use crate::output::say;
use crate::venues::Venues;

/// Whether a leg may get more seeds: neither the command line nor the file sets their number.
fn may_grow(study: &Study, leg: &Leg) -> bool {
    study.repeat.is_none() && !study.no_more_seeds && leg.run.repeat == 1
}

/// What a dry run says of it; nothing where no leg may get more.
pub fn dry(study: &Study, legs: &[Leg]) -> Option<String> {
    let cells: usize =
        legs.iter().filter(|leg| may_grow(study, leg)).map(|leg| leg.cells.len()).sum();
    let most = counted(cells * (SEEDS - 1) as usize, "more trial");
    (cells > 0).then(|| {
        format!(
            "Where one seed leaves the number of a claim within {:.0} % of its bound, its rows get {} seeds \
             more: at most {most} (--no-more-seeds leaves them out)\n",
            (NEAR - 1.0) * 100.0,
            SEEDS - 1
        )
    })
}

/// Runs more seeds of the rows whose verdicts one seed leaves near their bounds.
///
/// # Errors
/// What cannot be read, or run.
pub fn run(
    study: &Study,
    (folder, file): (&Path, &StudyFile),
    legs: &[Leg],
    venues: &[Venues],
    stop: &AtomicBool,
) -> Result<Summary, Failure> {
    let mut sum = Summary::default();
    if !legs.iter().any(|leg| may_grow(study, leg)) {
        return Ok(sum);
    }
    let near = near(file, &stored::results(folder, file)?);
    for (leg, venues) in legs.iter().zip(venues).filter(|(leg, _)| may_grow(study, leg)) {
        let mut wants = near.iter().filter(|it| it.run == leg.name && it.variant == leg.variant);
        let Some(wants) = wants.next().filter(|_| !stop.load(Ordering::Relaxed)) else { continue };
        let wanted = |cell: usize| {
            leg.cells.get(cell).is_some_and(|cell| wants.rows.contains(&cell.plan.label))
        };
        let mut schedule = stage(leg.cells.len(), 1..SEEDS, leg.run.seed, None);
        schedule.retain(|slot| wanted(slot.cell));
        if schedule.is_empty() {
            continue;
        }
        let listed = |names: &BTreeSet<String>| {
            names.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
        };
        say(&format!(
            "fsdyno: one seed leaves {} within {:.0} % of the bound: {} of {} in {}",
            listed(&wants.claims),
            (NEAR - 1.0) * 100.0,
            counted(schedule.len(), "more trial"),
            listed(&wants.rows),
            leg.called()
        ));
        let mut store = open(&leg.folder)?;
        let ran = go(&leg.run, venues, &leg.cells, &schedule, &mut store, stop);
        sum = sum.and(ran.map_err(|failure| leg.told(failure))?);
    }
    Ok(sum)
}
