//! `fsdyno run`: checks the request, runs the trials, and prints the results.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fsdyno_campaign::{Cell, Place, Runner, Share, Slot, Store, Summary};
use fsdyno_record::plan::BootPlan;
use fsdyno_record::quote::short;
use fsdyno_record::shell::quote;
use fsdyno_record::trial::trial_id;
use fsdyno_record::{Repeats, Trial, suggest};
use fsdyno_report::counted;
use fsdyno_venue::{Venue, VenueError};

use crate::cli::Run;
use crate::commands::{clean, crash, dry_run, repeats, report};
use crate::exit::{Exit, Failure};
use crate::output::{detail, say};
use crate::target::{Mode, TargetRequest};
use crate::venues::Venues;
use crate::{progress, stop, target, version};

/// Runs the command.
pub fn run(run: &Run) -> Result<Exit, Failure> {
    let rule = repeats::rule(run)?;
    let (requests, mut cells) = resolve(run)?;
    if let Some(kernels) = target::expand_kernels(&run.axes.0.kernels)? {
        let mut expanded = run.clone();
        expanded.axes.0.kernels = kernels;
        return self::run(&expanded);
    }
    let folder = run.out.clone().unwrap_or_else(|| default_folder(run));
    crash::refuse(&folder)?;
    if run.dry_run {
        return dry(run, rule.as_ref(), requests, cells, &folder);
    }
    target::check_permission(&requests)?;
    // Until here a signal simply ends the program: there is nothing to clean up.
    let stop = stop::flag()?;
    detail(&format!("fsdyno: {} writes to '{}'", version::text(), folder.display()));
    let mut store = open(&folder)?;
    same_rule(rule.as_ref(), store.trials())?;
    let measured = measure(run, requests, &mut cells, &mut store, &stop);
    // Stored trials are shown even if the run failed; its error is returned first.
    let shown = match (&measured, run.shard) {
        // A shard without trials leaves a folder, too, so that a merge finds all folders of its command.
        (Ok(summary), Some(shard)) if summary.trials() == 0 => {
            let all = counted(planned(run, &cells), "trial");
            say(&format!("fsdyno: shard {shard} has none of the {all}"));
            Ok(())
        }
        _ => show(run, store),
    };
    let summary = measured?;
    shown?;
    if stop.load(Ordering::Relaxed) && summary.left > 0 {
        say(&format!(
            "fsdyno: stopped with {} of {} left; resume with:\n  {}",
            summary.left,
            counted(summary.trials(), "trial"),
            resume_command(&folder)
        ));
        return Ok(Exit::Stopped);
    }
    Ok(if summary.failed > 0 { Exit::TrialFailed } else { Exit::Good })
}

/// Resolves the request to cells. Checks all arguments before it searches for or downloads anything.
///
/// # Errors
/// The first argument that is invalid.
pub fn resolve(run: &Run) -> Result<(Vec<TargetRequest>, Vec<Cell>), Failure> {
    refuse_commands(&run.workloads)?;
    // A kernel built by the user may have other sysctls.
    if !run.axes.0.kernels.iter().any(|kernel| kernel.contains('/')) {
        fsdyno_campaign::sysctl::check(run.sysctls.iter().map(String::as_str))?;
    }
    let mut requests = target::parse_targets(run)?;
    for request in &mut requests {
        request.question.inputs = fsdyno_campaign::read_inputs(&request.question)?;
    }
    let cells = target::cells(&requests)?;
    let labels = cells.iter().map(|cell| cell.plan.label.as_str());
    report::check_baseline(run.baseline.as_deref(), labels)?;
    for request in &requests {
        if let Place::Directory { path, .. } = &request.place {
            let of_it = target::cells(std::slice::from_ref(request))?;
            target::check_directory(path, &of_it, run.jobs.into())?;
        }
    }
    Ok((requests, cells))
}

/// Refuses a shell command given as a workload, and names similar workloads.
fn refuse_commands(workloads: &[String]) -> Result<(), Failure> {
    let names = fsdyno_workload::workloads::ALL.iter().map(|kind| kind.name);
    let is_command = |name: &&String| {
        let first = name.split_whitespace().next().unwrap_or_default();
        let is_one_word = first.len() == name.len();
        let near = is_one_word && suggest::nearest(first, names.clone()).is_some();
        !near && (!is_one_word || fsdyno_lab::find_program(first).is_ok())
    };
    let Some(command) = workloads.iter().find(is_command) else { return Ok(()) };
    Err(Failure::wrong(format!(
        "'{}' is a command; fsdyno runs its own workloads (fsdyno list workloads). For your own data there are \
         'tarball --set archive=FOLDER', which unpacks and removes the files of a folder or archive, and \
         'postmark --set config=FILE', which runs a PostMark configuration",
        short(command)
    )))
}

/// Prints what would run. Reports the errors that a run would report before its first trial; if this host only lacks
/// a requirement, the trials are still printed.
fn dry(
    run: &Run,
    rule: Option<&Repeats>,
    requests: Vec<TargetRequest>,
    mut cells: Vec<Cell>,
    folder: &Path,
) -> Result<Exit, Failure> {
    dry_run::check_format(run)?;
    let mut check = || -> Result<(), Failure> {
        target::check_permission(&requests)?;
        let stored = Store::look(folder)?;
        same_rule(rule, &stored)?;
        let stop = Arc::new(AtomicBool::new(false));
        ready(run, requests.clone(), &mut cells, folder, &stored, (&stop, Mode::Dry)).map(drop)
    };
    let missing = check().err();
    if let Some(failure) = missing.as_ref().filter(|failure| failure.exit != Exit::Missing) {
        return Err(Failure { exit: failure.exit, message: failure.message.clone() });
    }
    // A missing requirement is reported before the plan that needs it.
    if let Some(failure) = &missing {
        say(&format!("fsdyno: {failure}"));
    }
    dry_run::show(run, &cells, &own(run, &repeats::first(run, rule, cells.len())))?;
    Ok(missing.map_or(Exit::Good, |failure| failure.exit))
}

/// Finds all that the trials need, before the first one starts. Replaces the cells by those of the kernels found.
fn ready(
    run: &Run,
    requests: Vec<TargetRequest>,
    cells: &mut Vec<Cell>,
    folder: &Path,
    stored: &[Trial],
    how: (&Arc<AtomicBool>, Mode),
) -> Result<Venues, Failure> {
    let (venues, none) = ready_selected(run, requests, cells, folder, stored, how, &|_| true)?;
    if let Some(failure) = none {
        return Err(failure);
    }
    skipped(cells).iter().for_each(|line| say(line));
    Ok(venues)
}

/// Finds all that the trials with the selected labels need; if none of them can run, also returns the reason.
///
/// # Errors
/// A requirement that all of them lack, or that is unusable.
pub fn ready_selected(
    run: &Run,
    requests: Vec<TargetRequest>,
    cells: &mut Vec<Cell>,
    folder: &Path,
    stored: &[Trial],
    (stop, mode): (&Arc<AtomicBool>, Mode),
    is_selected: &dyn Fn(&str) -> bool,
) -> Result<(Venues, Option<Failure>), Failure> {
    let (venues, requests) = target::venues(run, requests, folder, stop, mode)?;
    *cells = target::cells(&requests)?;
    cells.retain(|cell| is_selected(&cell.plan.label));
    let none = prepare(&venues, cells, mode)?;
    fsdyno_campaign::may_join(cells, &venues, stored)?;
    match share(run, cells)? {
        Some(share) => share.fits(folder, stored).map(drop)?,
        None => Share::refuse(folder)?,
    }
    let of_selected = stored.iter().filter(|trial| is_selected(&trial.plan.label));
    refuse_others(run, folder, cells, of_selected)?;
    Ok((venues, none))
}

/// Checks that the trials of a folder ran under this rule.
fn same_rule(rule: Option<&Repeats>, stored: &[Trial]) -> Result<(), Failure> {
    fsdyno_campaign::two_stage::same_rule(rule, stored).map_err(Failure::wrong)
}

/// The share of the trials that this command runs, if it is a shard.
fn share(run: &Run, cells: &[Cell]) -> Result<Option<Share>, Failure> {
    let Some(shard) = run.shard else { return Ok(None) };
    let schedule = repeats::first(run, repeats::rule(run)?.as_ref(), cells.len());
    let command = words().join(" ");
    Ok(Some(Share::new(shard, &schedule, cells, command, run.baseline.clone())))
}

/// Runs the trials.
fn measure(
    run: &Run,
    requests: Vec<TargetRequest>,
    cells: &mut Vec<Cell>,
    store: &mut Store,
    stop: &Arc<AtomicBool>,
) -> Result<Summary, Failure> {
    clean::offer();
    let venues = ready(run, requests, cells, store.folder(), store.trials(), (stop, Mode::Run))?;
    let rule = repeats::rule(run)?;
    let schedule = repeats::first(run, rule.as_ref(), cells.len());
    if let Some(share) = share(run, cells)? {
        share.claim(store)?;
    }
    let schedule = own(run, &schedule);
    let pilot = go(run, &venues, cells, &schedule, store, stop)?;
    let Some(rule) = rule.filter(|_| pilot.left == 0) else { return Ok(pilot) };
    match repeats::second(&rule, cells, store) {
        Some(more) => Ok(pilot.and(go(run, &venues, cells, &more, store, stop)?)),
        None => Ok(pilot),
    }
}

/// Refuses a folder with trials of another experiment, unless --mix is given.
fn refuse_others<'a>(
    run: &Run,
    folder: &Path,
    cells: &[Cell],
    stored: impl Iterator<Item = &'a Trial> + Clone,
) -> Result<(), Failure> {
    const SHOWN: usize = 4;
    let (count, rows) = fsdyno_campaign::others(cells, stored);
    if count == 0 {
        return Ok(());
    }
    let more = rows.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let holds = format!(
        "'{}' holds {} that this command does not request ({}{more})",
        folder.display(),
        counted(count, "trial"),
        rows.iter().take(SHOWN).cloned().collect::<Vec<_>>().join("; ")
    );
    if run.mix {
        say(&format!("fsdyno: {holds}; the report includes them"));
        return Ok(());
    }
    Err(Failure::wrong(format!(
        "{holds}; give a new folder with --out, or add --mix for one report of all"
    )))
}

/// The slots that this command runs.
fn own(run: &Run, schedule: &[Slot]) -> Vec<Slot> {
    run.shard.map_or_else(|| schedule.to_vec(), |shard| shard.of(schedule))
}

/// The number of trials of all shards.
fn planned(run: &Run, cells: &[Cell]) -> usize {
    cells.len() * run.repeat as usize
}

/// Checks that the cells can run. A file system that this kernel or host does not support is skipped; if all are
/// skipped, returns the first reason.
fn prepare(venue: &dyn Venue, cells: &mut [Cell], mode: Mode) -> Result<Option<Failure>, Failure> {
    let mut first: Option<Failure> = None;
    for cell in cells.iter_mut() {
        if let Some(reason) = &cell.skip {
            first.get_or_insert_with(|| Failure::wrong(reason.clone()));
            continue;
        }
        let mut plan = cell.plan.clone();
        if let (Some(lab), Mode::Dry) = (plan.lab_mut(), mode) {
            // The snapshot would be created.
            lab.boot = BootPlan::Cold;
        }
        match venue.identity(&plan) {
            Ok(_) => {}
            Err(VenueError::Missing(reason)) => {
                cell.skip = Some(reason.clone());
                first.get_or_insert_with(|| VenueError::Missing(reason).into());
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(first.filter(|_| cells.iter().all(|cell| cell.skip.is_some())))
}

/// One line for each skipped file system, with its reason.
pub fn skipped(cells: &[Cell]) -> Vec<String> {
    let mut lines = Vec::new();
    for cell in cells {
        let Some(reason) = &cell.skip else { continue };
        let line = format!("fsdyno: {} is skipped: {reason}", cell.plan.label);
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

/// Opens the result folder, and reports a last line that a crash left incomplete.
///
/// # Errors
/// A folder that is unusable.
pub fn open(folder: &Path) -> Result<Store, Failure> {
    let store = Store::open(folder)?;
    if let Some(bytes) = store.torn() {
        say(&format!(
            "fsdyno: the last line of '{}' is incomplete after a crash; its {bytes} bytes are removed",
            folder.display()
        ));
    }
    Ok(store)
}

/// Runs the slots of a schedule that are not stored yet.
///
/// # Errors
/// The reason that it ended early.
pub fn go(
    run: &Run,
    venue: &dyn Venue,
    cells: &[Cell],
    schedule: &[Slot],
    store: &mut Store,
    stop: &AtomicBool,
) -> Result<Summary, Failure> {
    let stored =
        schedule.iter().filter(|slot| fsdyno_campaign::is_there(store, cells, slot)).count();
    if stored > 0 {
        let all = counted(schedule.len(), "trial");
        let are = if stored == 1 { "is" } else { "are" };
        say(&format!("fsdyno: {stored} of {all} {are} stored already and {are} not run again"));
        say_unlogged(run, store, cells, schedule);
    }
    let todo = fsdyno_campaign::todo(schedule, cells, store);
    let jobs = usize::from(run.jobs);
    let ops = |cell: usize| cells.get(cell).map_or(0, Cell::ops);
    let of_cells: Vec<(usize, u64)> =
        todo.iter().map(|(_, slot)| (slot.cell, ops(slot.cell))).collect();
    let plans: Vec<_> = cells.iter().map(|cell| &cell.plan).collect();
    let display = progress::Display::new(&plans, &of_cells, jobs);
    let runner = Runner { jobs, build: version::build(), stop, observer: &display };
    let summary = fsdyno_campaign::run(schedule, cells, venue, store, &runner);
    display.finish();
    Ok(summary?)
}

/// Reports stored trials without a log: they are not run again for it.
fn say_unlogged(run: &Run, store: &Store, cells: &[Cell], schedule: &[Slot]) {
    let stored = schedule.iter().filter(|slot| fsdyno_campaign::is_there(store, cells, slot));
    let unlogged = stored.filter_map(|slot| {
        let plan = &cells.get(slot.cell)?.plan;
        let name = fsdyno_venue::request_log::name(&trial_id(plan, slot.seed));
        (!store.folder().join(name).exists()).then_some(())
    });
    let unlogged = unlogged.count();
    if run.keep_log && unlogged > 0 {
        say(&format!(
            "fsdyno: {unlogged} of these have no request log and are not run again for it; for logs give a new \
             folder with --out"
        ));
    }
}

/// Prints the table to stdout, writes the report to the result folder, and prints its path to stderr.
fn show(run: &Run, store: Store) -> Result<(), Failure> {
    if store.trials().is_empty() {
        store.discard_if_empty();
        return Ok(());
    }
    let mut trials = fsdyno_campaign::without_superseded(store.trials());
    report::in_order(&mut trials);
    let html = store.folder().join(fsdyno_campaign::store::PAGE);
    let basis = run.least.basis(run.baseline.as_deref());
    let results = [store.folder()];
    let written = report::drawn(&results, &trials).and_then(|series| {
        let explanations = report::explanations(&results, &trials)?;
        report::write_html_with(&html, &trials, (&series, &explanations), basis)
    });
    report::print(&trials, basis, run.format)?;
    written?;
    say(&format!("report: {}", html.display()));
    Ok(())
}

/// The default result folder. Its name includes the shard, because two shards can start in the same second.
fn default_folder(run: &Run) -> PathBuf {
    let share = run.shard.map(|shard| format!("-share-{}-of-{}", shard.index, shard.of));
    target::default_folder(&format!("{}{}", run.workloads.join("-"), share.unwrap_or_default()))
}

/// The arguments of this command, quoted for a shell.
fn words() -> Vec<String> {
    // An argument that is not UTF-8 is shown with replacement characters.
    let args = std::env::args_os().skip(1).map(|word| quote(&word.to_string_lossy()));
    std::iter::once("fsdyno".to_string()).chain(args).collect()
}

/// The command that resumes this one.
pub fn resume_command(folder: &Path) -> String {
    let mut words = words();
    if !words.iter().any(|word| word == "--out" || word.starts_with("--out=")) {
        words.extend(["--out".to_string(), quote(&folder.display().to_string())]);
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use fsdyno_campaign::{LabPlace, Question, matrix};
    use fsdyno_record::mailbox::Progress;
    use fsdyno_record::{Job, Plan};
    use fsdyno_venue::{FinishedTrial, Identity, Watch};

    use super::*;

    /// A lab on a host that has the tools of ext4 only.
    struct OnlyExt4;

    impl Venue for OnlyExt4 {
        fn identity(&self, plan: &Plan) -> Result<Option<Identity>, VenueError> {
            match plan.filesystem.as_ref().map(|filesystem| filesystem.kind.as_str()) {
                Some("ext4") => Ok(None),
                _ => Err(VenueError::Missing("apt-get install its tools".into())),
            }
        }

        fn run(
            &self,
            _: &Job,
            _: &mut dyn FnMut(&Progress) -> Watch,
        ) -> Result<FinishedTrial, VenueError> {
            Err(VenueError::Stopped)
        }
    }

    fn cells(filesystems: &[&str]) -> Vec<Cell> {
        let question = Question {
            deadline: fsdyno_campaign::USUAL_DEADLINE,
            workloads: vec!["dirops".into()],
            filesystems: filesystems.iter().map(ToString::to_string).collect(),
            threads: 1,
            ..Question::default()
        };
        let lab = LabPlace::usual("hdd-7200", "6.13.0-amd64");
        matrix(&question, &Place::Lab(lab)).unwrap()
    }

    #[test]
    fn file_systems_without_kernel_support_or_tools_are_skipped_and_the_others_run() {
        let mut cells = cells(&["reiserfs", "ext4", "xfs"]);
        assert!(prepare(&OnlyExt4, &mut cells, Mode::Run).unwrap().is_none());
        let skips: Vec<&str> =
            cells.iter().map(|cell| cell.skip.as_deref().unwrap_or("")).collect();
        assert!(skips[0].contains("no longer has reiserfs"), "{skips:?}");
        assert_eq!(skips[1..], ["", "apt-get install its tools"]);
    }

    #[test]
    fn it_is_an_error_before_any_work_if_all_would_be_skipped() {
        let exit = |filesystems: &[&str]| {
            prepare(&OnlyExt4, &mut cells(filesystems), Mode::Run).unwrap().unwrap().exit
        };
        assert_eq!(exit(&["reiserfs"]), Exit::WrongUse);
        assert_eq!(exit(&["xfs", "btrfs"]), Exit::Missing);
    }
}
