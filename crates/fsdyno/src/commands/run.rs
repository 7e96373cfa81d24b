//! `fsdyno run`: check all, run all, show what came of it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use fsdyno_study::{Cell, Place, Question, Slot, Store, Summary, matrix, schedule};
use fsdyno_venue::Venue;

use crate::cli::Run;
use crate::commands::{dry_run, report};
use crate::exit::{Exit, Failure};
use crate::output::say;
use crate::{place, progress, stop};

/// Runs what was asked.
pub fn run(run: &Run) -> Result<Exit, Failure> {
    let stop = stop::flag()?;
    let question = place::question(run);
    let typed = place::typed(run)?;
    // Everything that was typed is checked before anything is looked for or brought.
    let cells = matrix(&question, &typed)?;
    let labels = cells.iter().map(|cell| cell.plan.label.as_str());
    report::check_baseline(run.baseline.as_deref(), labels)?;
    if run.dry_run {
        let cells = matrix(&question, &place::dry(run, typed))?;
        return dry_run::show(run, &cells, &schedule(cells.len(), run.repeat, run.seed));
    }
    if let Place::Directory { path, .. } = &typed {
        place::check_directory(path, &cells, run.jobs.into())?;
    }
    let folder = run.out.clone().unwrap_or_else(|| default_folder(run));
    let mut store = open(&folder)?;
    let measured = measure(run, &question, typed, &mut store, &stop);
    // What is there is shown, however the run ended; why it ended is the first thing to tell.
    let shown = show(run, &cells, store);
    let summary = measured?;
    shown?;
    if stop.load(Ordering::Relaxed) && summary.left > 0 {
        say(&format!(
            "fsdyno: stopped with {} of {} trials to go; go on with:\n  {}",
            summary.left,
            cells.len() * run.repeat as usize,
            again(&folder)
        ));
        return Ok(Exit::Stopped);
    }
    Ok(if summary.failed > 0 { Exit::TrialFailed } else { Exit::Good })
}

/// Finds what the trials need and runs them.
fn measure(
    run: &Run,
    question: &Question,
    typed: Place,
    store: &mut Store,
    stop: &AtomicBool,
) -> Result<Summary, Failure> {
    let (venue, place) = place::venue(run, typed)?;
    let cells = matrix(question, &place)?;
    prepare(&*venue, &cells)?;
    let schedule = schedule(cells.len(), run.repeat, run.seed);
    go(run, &*venue, &cells, &schedule, store, stop)
}

/// Everything that the trials need is looked for before the first one starts.
fn prepare(venue: &dyn Venue, cells: &[Cell]) -> Result<(), Failure> {
    for cell in cells {
        venue.identity(&cell.plan)?;
    }
    Ok(())
}

fn open(folder: &Path) -> Result<Store, Failure> {
    let store = Store::open(folder)?;
    if let Some(bytes) = store.torn() {
        say(&format!(
            "fsdyno: the last line of '{}' was torn off by a crash; its {bytes} bytes are cut",
            folder.display()
        ));
    }
    Ok(store)
}

fn go(
    run: &Run,
    venue: &dyn Venue,
    cells: &[Cell],
    schedule: &[Slot],
    store: &mut Store,
    stop: &AtomicBool,
) -> Result<Summary, Failure> {
    let finished = store.finished();
    let todo = schedule.iter().filter_map(|slot| Some((cells.get(slot.cell)?, slot))).filter(
        |(cell, slot)| !finished.contains(&fsdyno_record::trial::trial_id(&cell.plan, slot.seed)),
    );
    let (trials, ops) =
        todo.fold((0, 0), |(trials, ops), (cell, _)| (trials + 1, ops + cell.ops()));
    if trials < schedule.len() {
        say(&format!(
            "fsdyno: {} of {} trials are there already and are not run again",
            schedule.len() - trials,
            schedule.len()
        ));
    }
    let plans: Vec<_> = cells.iter().map(|cell| cell.plan.clone()).collect();
    let jobs = usize::from(run.jobs);
    let show = progress::Show::new(trials, ops, jobs);
    let summary = fsdyno_study::run(schedule, &plans, venue, store, jobs, stop, &show);
    show.finish();
    Ok(summary?)
}

/// Table on stdout, report beside the trials, and where it all is on stderr.
fn show(run: &Run, cells: &[Cell], store: Store) -> Result<(), Failure> {
    if store.trials().is_empty() {
        store.discard_if_empty();
        return Ok(());
    }
    let mut trials = fsdyno_study::without_superseded(store.trials());
    report::in_order(&mut trials, &cells.iter().map(|cell| &cell.plan).collect::<Vec<_>>());
    let html = store.folder().join("report.html");
    let baseline = run.baseline.as_deref();
    let written = report::write_html(&html, &trials, baseline);
    report::print(&trials, baseline, run.format)?;
    written?;
    say(&format!("report: {}", html.display()));
    Ok(())
}

/// `fsdyno-results/<UTC time>-<workloads>`.
fn default_folder(run: &Run) -> PathBuf {
    let time: String =
        fsdyno_venue::clock::now().chars().filter(char::is_ascii_alphanumeric).collect();
    Path::new("fsdyno-results").join(format!("{time}-{}", run.workloads.join("-")))
}

/// This command as it would be typed to go on.
fn again(folder: &Path) -> String {
    let mut words: Vec<String> = std::env::args()
        .enumerate()
        .map(|(at, word)| if at == 0 { "fsdyno".into() } else { word })
        .collect();
    if !words.iter().any(|word| word == "--out" || word.starts_with("--out=")) {
        words.extend(["--out".to_string(), folder.display().to_string()]);
    }
    words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ")
}

fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_string()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_as_a_shell_wants_them() {
        assert_eq!(quote("--set=files=10"), "--set=files=10");
        assert_eq!(quote("ext4 -I 128"), "'ext4 -I 128'");
        assert_eq!(quote("it's"), "'it'\\''s'");
    }
}
