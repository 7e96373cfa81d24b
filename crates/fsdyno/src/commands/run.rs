//! `fsdyno run`: checks the request, runs the trials, and prints the results.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsdyno_campaign::about::About;
use fsdyno_campaign::experiment::open;
use fsdyno_campaign::labs::{self, Mode};
use fsdyno_campaign::speed::Speeds;
use fsdyno_campaign::target;
use fsdyno_campaign::{
    Experiment, Session, Store, Venues, boots, crash, dry_run, recording, results, stop,
};
use fsdyno_ranks::{Position, meet};
use fsdyno_report::{Format, counted};

use crate::cli::Run;
use crate::commands::{note, ranks, report};
use crate::exit::{Exit, Failure};
use crate::output::{self, detail, say};
use crate::{session, version};

/// Runs the command.
pub fn run(run: &Run) -> Result<Exit, Failure> {
    let position = ranks::position_of(run)?;
    if let Some(position) = position.as_ref().filter(|position| position.rank > 0) {
        return ranks::join_run(run, position);
    }
    let folder = run.out.clone().unwrap_or_else(|| default_folder(run));
    let resolved = resolve(run, position.as_ref(), &folder);
    if let (Err(_), Some(position), false) = (&resolved, &position, run.dry_run) {
        meet::refuse(position);
    }
    let Some((experiment, about)) = resolved? else { return Ok(Exit::Success) };
    let command = session::command();
    if run.dry_run {
        return print_plan(run, experiment, &folder, &command);
    }
    // Up to here a signal simply ends the program: there is nothing to clean up.
    let stop = stop::flag()?;
    detail(&format!("fsdyno: {} writes to '{}'", version::description(), folder.display()));
    // Dropped after the experiment, whose end also ends all ranks.
    let mut _workers = None;
    let mut experiment = experiment;
    if let (Some(position), Some(request)) = (&position, &experiment.spec.ranks) {
        let (group, workers) = ranks::gather(run, position, &stop)?;
        request.group.get_or_init(|| group);
        _workers = workers;
    }
    let mut store = open(&folder)?;
    experiment.same_rule(store.trials())?;
    about.map_or(Ok(()), |about| about.store(&folder))?;
    let measured = experiment.measure(&mut store, &session::of(&stop, &command));
    // Stored trials are shown even if the run failed; its error is returned first.
    let shown = match (&measured, run.shard) {
        // A shard without trials also leaves a folder, so that a merge finds all folders of its command.
        (Ok(summary), Some(shard)) if summary.trials() == 0 => {
            let trials = counted(experiment.cells.len() * run.repeat as usize, "trial");
            say(&format!("fsdyno: shard {shard} has none of the {trials}"));
            Ok(())
        }
        _ => show(run, store),
    };
    let summary = measured?;
    shown?;
    Ok(session::exit(&stop, &summary, &folder))
}

/// Resolves and checks the request. Returns `None` for a dry run of a command that would first be recorded.
fn resolve(
    run: &Run,
    position: Option<&Position>,
    folder: &Path,
) -> Result<Option<(Experiment, Option<About>)>, Failure> {
    crash::folder::refuse(folder)?;
    let about = note::requested_about(folder, run.name.as_deref(), run.note.as_deref())?;
    let mut spec = run.spec();
    spec.ranks = position.map(|position| ranks::request(run, position));
    if recording::needs_recording(&spec) {
        match recording::record_for_replay(spec, folder, run.dry_run)? {
            Some(replayed) => spec = replayed,
            None => return Ok(None),
        }
    }
    let mut experiment = Experiment::resolve(spec)?;
    if let Some(kernels) = labs::expand_kernels(&experiment.spec.axes.kernels)? {
        experiment.spec.axes.kernels = kernels;
        experiment = Experiment::resolve(experiment.spec)?;
    }
    if !run.dry_run {
        target::check_permission(&experiment.requests)?;
    }
    Ok(Some((experiment, about)))
}

/// Prints what would run. Reports the errors that a run would report before its first trial; if the only error is that
/// this host lacks a requirement, the trials are still printed.
fn print_plan(
    run: &Run,
    mut experiment: Experiment,
    folder: &Path,
    command: &str,
) -> Result<Exit, Failure> {
    if !matches!(run.format, Format::Text | Format::Json) {
        return Err(Failure::invalid_use("--dry-run takes --format text or json"));
    }
    let stop = Arc::new(AtomicBool::new(false));
    let checked = check(&mut experiment, folder, &session::of(&stop, command));
    let boots =
        checked.as_ref().map_or(0, |venues| boots::missing(experiment.cells.iter(), venues).len());
    let missing = checked.err();
    if let Some(failure) = missing.as_ref().filter(|failure| failure.exit != Exit::Missing) {
        return Err(Failure { exit: failure.exit, message: failure.message.clone() });
    }
    // A missing requirement is reported before the plan that needs it.
    if let Some(failure) = &missing {
        say(&format!("fsdyno: {failure}"));
    }
    let (cells, schedule) = (&experiment.cells, experiment.schedule());
    let drives = dry_run::drives(&experiment.spec, cells)?;
    match run.format {
        Format::Json => output::write_json(&dry_run::value(cells, &schedule, &drives))?,
        _ => {
            let planned = schedule.iter().filter_map(|slot| cells.get(slot.cell));
            let speeds = Speeds::load();
            let time = match speeds.estimate(planned, usize::from(run.jobs)) {
                Some(estimate) => format!("time: {}\n", estimate.with_boots(speeds.boots(boots))),
                None => "time: not known before the first such trial on this machine\n".into(),
            };
            output::write_data(&(dry_run::text(cells, &schedule, &drives) + &time))?;
        }
    }
    Ok(missing.map_or(Exit::Success, |failure| failure.exit))
}

/// Performs all checks that a run performs before its first trial.
fn check(
    experiment: &mut Experiment,
    folder: &Path,
    session: &Session<'_>,
) -> Result<Venues, Failure> {
    target::check_permission(&experiment.requests)?;
    let stored = Store::read_trials(folder)?;
    experiment.same_rule(&stored)?;
    experiment.prepare_venues(folder, &stored, session, Mode::Dry)
}

/// Prints the table to stdout, writes the report to the result folder, and prints its path to stderr.
fn show(run: &Run, store: Store) -> Result<(), Failure> {
    if store.trials().is_empty() {
        store.discard_if_empty();
        return Ok(());
    }
    let mut trials = fsdyno_campaign::without_superseded(store.trials());
    results::in_order(&mut trials);
    let html = store.folder().join(fsdyno_campaign::store::PAGE);
    let basis = run.comparison.basis(run.baseline.as_deref());
    let folders = [store.folder()];
    let written = results::drawn(&folders, &trials).and_then(|series| {
        let explanations = results::explanations(&folders, &trials)?;
        results::write_html_with(&html, &trials, (&series, &explanations), basis)
    });
    report::print(&trials, basis, run.format)?;
    written?;
    say(&format!("report: {}", html.display()));
    Ok(())
}

/// Returns the default result folder. Its name includes the shard, because two shards can start in the same second.
fn default_folder(run: &Run) -> PathBuf {
    let share = run.shard.map(|shard| format!("-share-{}-of-{}", shard.index, shard.of));
    target::default_folder(&format!("{}{}", run.workloads.join("-"), share.unwrap_or_default()))
}
