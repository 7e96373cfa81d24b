//! `fsdyno run`: checks the request, runs the trials, and prints the results.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsdyno_campaign::about::About;
use fsdyno_campaign::experiment::open;
use fsdyno_campaign::ranks::RankProcess;
use fsdyno_campaign::{
    Experiment, RunSpec, Store, dry_run, recording, results, stop, target, user_request,
};
use fsdyno_report::counted;

use crate::cli::Run;
use crate::commands::report;
use crate::exit::{Exit, Failure};
use crate::output::{self, detail, say};
use crate::{session, version};

/// Runs the command.
pub fn run(run: &Run) -> Result<Exit, Failure> {
    let (options, is_shard) = (run.ranks.options(), run.shard.is_some());
    let process = RankProcess::of(&options, is_shard, &run.axes.0.on, version::description())?;
    if let Some(follower) = process.as_ref().filter(|process| !process.leads()) {
        return if run.dry_run { Ok(Exit::Success) } else { follower.join() };
    }
    let folder = run.out.clone().unwrap_or_else(|| default_folder(run));
    let resolved = resolve(run, process.as_ref(), &folder);
    if let (Err(_), Some(process), false) = (&resolved, &process, run.dry_run) {
        process.refuse();
    }
    let (about, Some(experiment)) = resolved? else { return Ok(Exit::Success) };
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
    if let (Some(process), Some(request)) = (&process, &experiment.spec.ranks) {
        let (group, workers) = process.gather(&stop)?;
        request.group.get_or_init(|| group);
        _workers = workers;
    }
    let mut store = open(&folder)?;
    experiment.check_rule(store.trials())?;
    about.map_or(Ok(()), |about| about.store(&folder))?;
    let measured = experiment.measure(&mut store, &session::create(&stop, &command));
    // Stored trials are shown even if the run failed; its error is returned first.
    let show_result = match (&measured, run.shard) {
        // A shard without trials also leaves a folder, so that a merge finds all folders of its command.
        (Ok(summary), Some(shard)) if summary.trials() == 0 => {
            let trials = counted(experiment.cells.len() * run.repeat as usize, "trial");
            say(&format!("fsdyno: shard {shard} has none of the {trials}"));
            Ok(())
        }
        _ => show(run, store),
    };
    let summary = measured?;
    show_result?;
    Ok(session::exit(&stop, &summary, &folder))
}

/// Resolves and checks the request. Returns no experiment for a dry run of a command that would first be recorded.
fn resolve(
    run: &Run,
    process: Option<&RankProcess<'_>>,
    folder: &Path,
) -> Result<(Option<About>, Option<Experiment>), Failure> {
    let about = About::requested(folder, run.name.as_deref(), run.note.as_deref())?;
    let ranks = process.map(RankProcess::request);
    let spec = RunSpec { ranks, ..run.spec() };
    // A recording of the command writes into the folder before its store is opened.
    if recording::needs_recording(&spec) && !has_recording(folder) {
        Store::read_trials(folder)?;
    }
    Ok((about, user_request::resolve(spec, folder, run.dry_run)?))
}

/// Returns true if a run of the same folder has begun to record a command; it may have been stopped before its first
/// trial.
fn has_recording(folder: &Path) -> bool {
    ["command.trace", "command.trace.part"].iter().any(|name| folder.join(name).exists())
}

/// Prints what would run.
fn print_plan(
    run: &Run,
    mut experiment: Experiment,
    folder: &Path,
    command: &str,
) -> Result<Exit, Failure> {
    let as_json = output::plan_as_json(run.format)?;
    let stop = Arc::new(AtomicBool::new(false));
    let session = session::create(&stop, command);
    let plan = dry_run::of_experiment(&mut experiment, folder, &session, as_json)?;
    output::write_data(&plan.text)?;
    Ok(plan.missing.map_or(Exit::Success, |failure| failure.exit))
}

/// Prints the table and writes the report; removes a folder without trials.
fn show(run: &Run, store: Store) -> Result<(), Failure> {
    if store.trials().is_empty() {
        store.discard_if_empty();
        return Ok(());
    }
    let mut trials = fsdyno_campaign::without_superseded(store.trials());
    results::in_order(&mut trials);
    let basis = run.comparison.basis(run.baseline.as_deref());
    report::show(store.folder(), &trials, basis, run.format)
}

/// Returns the default result folder. Its name includes the shard, because two shards can start in the same second.
fn default_folder(run: &Run) -> PathBuf {
    let share = run.shard.map(|shard| format!("-share-{}-of-{}", shard.index, shard.of));
    target::default_folder(&format!("{}{}", run.workloads.join("-"), share.unwrap_or_default()))
}
