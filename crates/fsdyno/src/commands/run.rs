//! `fsdyno run`: check all, run all, show what came of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fsdyno_record::plan::{BootPlan, MediumPlan};
use fsdyno_record::quote::short;
use fsdyno_record::shell::quote;
use fsdyno_record::trial::trial_id;
use fsdyno_record::{Repeats, Trial, suggest};
use fsdyno_report::counted;
use fsdyno_study::{Cell, Place, Runner, Share, Slot, Store, Summary};
use fsdyno_venue::{Venue, VenueError};

use crate::cli::Run;
use crate::commands::{clean, crash, dry_run, repeats, report};
use crate::exit::{Exit, Failure};
use crate::output::{detail, say};
use crate::place::{Asked, Mode};
use crate::venues::Venues;
use crate::{place, progress, stop, version};

/// Runs what was asked.
pub fn run(run: &Run) -> Result<Exit, Failure> {
    let rule = repeats::rule(run)?;
    let (asked, mut cells) = meant(run)?;
    let folder = run.out.clone().unwrap_or_else(|| default_folder(run));
    crash::refuse(&folder)?;
    if run.dry_run {
        return dry(run, rule.as_ref(), asked, cells, &folder);
    }
    place::allowed(&asked)?;
    // Until here a signal ends the program as it ends any: nothing is begun that it would have to
    // clean up.
    let stop = stop::flag()?;
    detail(&format!("fsdyno: {} writes into '{}'", version::text(), folder.display()));
    let mut store = open(&folder)?;
    same_rule(rule.as_ref(), store.trials())?;
    let measured = measure(run, asked, &mut cells, &mut store, &stop);
    // What is there is shown, however the run ended; why it ended is the first thing to tell.
    let shown = match (&measured, run.shard) {
        // A share without trials is a folder too, so that a merge finds what its command names.
        (Ok(summary), Some(shard)) if summary.trials() == 0 => {
            let all = counted(planned(run, &cells), "trial");
            say(&format!("fsdyno: share {shard} has none of the {all}"));
            Ok(())
        }
        _ => show(run, store),
    };
    let summary = measured?;
    shown?;
    if stop.load(Ordering::Relaxed) && summary.left > 0 {
        say(&format!(
            "fsdyno: stopped with {} of {} to go; go on with:\n  {}",
            summary.left,
            counted(summary.trials(), "trial"),
            again(&folder)
        ));
        return Ok(Exit::Stopped);
    }
    Ok(if summary.failed > 0 { Exit::TrialFailed } else { Exit::Good })
}

/// What is asked, and the cells that come of it: everything that was typed is checked before anything is looked
/// for or brought.
///
/// # Errors
/// The first thing that cannot be meant.
pub fn meant(run: &Run) -> Result<(Vec<Asked>, Vec<Cell>), Failure> {
    refuse_commands(&run.workloads)?;
    // A kernel of the user's own may have sysctls of its own.
    if !run.kernels.iter().any(|kernel| kernel.contains('/')) {
        fsdyno_study::sysctl::check(run.sysctls.iter().map(String::as_str))?;
    }
    let mut asked = place::asked(run)?;
    for asked in &mut asked {
        asked.question.inputs = fsdyno_study::read_inputs(&asked.question)?;
    }
    let cells = place::cells(&asked)?;
    let labels = cells.iter().map(|cell| cell.plan.label.as_str());
    report::check_baseline(run.baseline.as_deref(), labels)?;
    for asked in &asked {
        if let Place::Directory { path, .. } = &asked.place {
            let of_it = place::cells(std::slice::from_ref(asked))?;
            place::check_directory(path, &of_it, run.jobs.into())?;
        }
    }
    Ok((asked, cells))
}

/// Refuses a command in place of a workload, with what comes near to it.
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
        "'{}' is a command, and fsdyno runs workloads of its own (fsdyno list workloads); near to a command of yours are \
         'tarball --set archive=FOLDER', which unpacks and removes the files of a folder or archive, and \
         'postmark --set config=FILE', which runs a PostMark configuration",
        short(command)
    )))
}

/// Says what would be run. What a run would refuse before its first trial is refused here in the same words;
/// where this host only lacks something, the trials are shown all the same.
fn dry(
    run: &Run,
    rule: Option<&Repeats>,
    asked: Vec<Asked>,
    mut cells: Vec<Cell>,
    folder: &Path,
) -> Result<Exit, Failure> {
    dry_run::check_format(run)?;
    let mut look = || -> Result<(), Failure> {
        place::allowed(&asked)?;
        let stored = Store::look(folder)?;
        same_rule(rule, &stored)?;
        let stop = Arc::new(AtomicBool::new(false));
        ready(run, asked.clone(), &mut cells, folder, &stored, (&stop, Mode::Dry)).map(drop)
    };
    let missing = look().err();
    if let Some(failure) = missing.as_ref().filter(|failure| failure.exit != Exit::Missing) {
        return Err(Failure { exit: failure.exit, message: failure.message.clone() });
    }
    // What is missing is said before the plan that needs it.
    if let Some(failure) = &missing {
        say(&format!("fsdyno: {failure}"));
    }
    dry_run::show(run, &cells, &own(run, &repeats::first(run, rule, cells.len())))?;
    Ok(missing.map_or(Exit::Good, |failure| failure.exit))
}

/// Finds what the trials need, all of it before the first one starts. The cells become those of the kernels
/// that are found.
fn ready(
    run: &Run,
    asked: Vec<Asked>,
    cells: &mut Vec<Cell>,
    folder: &Path,
    stored: &[Trial],
    how: (&Arc<AtomicBool>, Mode),
) -> Result<Venues, Failure> {
    let (venues, none) = found(run, asked, cells, folder, stored, how, &|_| true)?;
    if let Some(failure) = none {
        return Err(failure);
    }
    skipped(cells).iter().for_each(|line| say(line));
    Ok(venues)
}

/// The same of those rows alone whose labels are asked for; where nothing can run, it is told beside the venues why.
///
/// # Errors
/// What is missing for all of them, or cannot be used.
pub fn found(
    run: &Run,
    asked: Vec<Asked>,
    cells: &mut Vec<Cell>,
    folder: &Path,
    stored: &[Trial],
    (stop, mode): (&Arc<AtomicBool>, Mode),
    is_asked: &dyn Fn(&str) -> bool,
) -> Result<(Venues, Option<Failure>), Failure> {
    let (venues, asked) = place::venues(run, asked, folder, stop, mode)?;
    *cells = place::cells(&asked)?;
    cells.retain(|cell| is_asked(&cell.plan.label));
    let none = prepare(&venues, cells, mode)?;
    fsdyno_study::may_join(cells, &venues, stored)?;
    match share(run, cells)? {
        Some(share) => share.fits(folder, stored).map(drop)?,
        None => Share::refuse(folder)?,
    }
    refuse_others(run, folder, cells, stored.iter().filter(|trial| is_asked(&trial.plan.label)))?;
    Ok((venues, none))
}

/// Whether the trials of a folder ran under this rule.
fn same_rule(rule: Option<&Repeats>, stored: &[Trial]) -> Result<(), Failure> {
    fsdyno_study::two_stage::same_rule(rule, stored).map_err(Failure::wrong)
}

/// The share of the trials that this command is.
fn share(run: &Run, cells: &[Cell]) -> Result<Option<Share>, Failure> {
    let Some(shard) = run.shard else { return Ok(None) };
    let schedule = repeats::first(run, repeats::rule(run)?.as_ref(), cells.len());
    let command = words().join(" ");
    Ok(Some(Share::new(shard, &schedule, cells, command, run.baseline.clone())))
}

/// Runs the trials.
fn measure(
    run: &Run,
    asked: Vec<Asked>,
    cells: &mut Vec<Cell>,
    store: &mut Store,
    stop: &Arc<AtomicBool>,
) -> Result<Summary, Failure> {
    clean::offer();
    let venues = ready(run, asked, cells, store.folder(), store.trials(), (stop, Mode::Run))?;
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

/// A folder is of one experiment, unless the user wants several in one report.
fn refuse_others<'a>(
    run: &Run,
    folder: &Path,
    cells: &[Cell],
    stored: impl Iterator<Item = &'a Trial> + Clone,
) -> Result<(), Failure> {
    const SHOWN: usize = 4;
    let (count, rows) = fsdyno_study::others(cells, stored);
    if count == 0 {
        return Ok(());
    }
    let more = rows.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let holds = format!(
        "'{}' holds {} that this command does not ask for ({}{more})",
        folder.display(),
        counted(count, "trial"),
        rows.iter().take(SHOWN).cloned().collect::<Vec<_>>().join("; ")
    );
    if run.mix {
        say(&format!("fsdyno: {holds}; the report shows them too"));
        return Ok(());
    }
    Err(Failure::wrong(format!(
        "{holds}; give --out a new folder, or add --mix for one report of them all"
    )))
}

/// The slots that are this command's to run.
fn own(run: &Run, schedule: &[Slot]) -> Vec<Slot> {
    run.shard.map_or_else(|| schedule.to_vec(), |shard| shard.of(schedule))
}

/// How many trials there are, those of other shares too.
fn planned(run: &Run, cells: &[Cell]) -> usize {
    cells.len() * run.repeat as usize
}

/// Everything that the trials need is looked for before the first one starts. A file system that
/// this kernel or this host cannot have is skipped; where all are, the first reason is what comes back.
fn prepare(venue: &dyn Venue, cells: &mut [Cell], mode: Mode) -> Result<Option<Failure>, Failure> {
    let mut first: Option<Failure> = None;
    for cell in cells.iter_mut() {
        if let Some(reason) = &cell.skip {
            first.get_or_insert_with(|| Failure::wrong(reason.clone()));
            continue;
        }
        let mut plan = cell.plan.clone();
        if let (MediumPlan::Lab(lab), Mode::Dry) = (&mut plan.medium, mode) {
            // A snapshot would be made.
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

/// A line for each file system that is skipped, once, with its reason.
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

/// The folder of the results, and what a crash left torn there.
///
/// # Errors
/// Why it cannot be used.
pub fn open(folder: &Path) -> Result<Store, Failure> {
    let store = Store::open(folder)?;
    if let Some(bytes) = store.torn() {
        say(&format!(
            "fsdyno: the last line of '{}' was torn off by a crash; its {bytes} bytes are cut",
            folder.display()
        ));
    }
    Ok(store)
}

/// Runs what is left of a schedule.
///
/// # Errors
/// Why it ended early.
pub fn go(
    run: &Run,
    venue: &dyn Venue,
    cells: &[Cell],
    schedule: &[Slot],
    store: &mut Store,
    stop: &AtomicBool,
) -> Result<Summary, Failure> {
    let there = schedule.iter().filter(|slot| fsdyno_study::is_there(store, cells, slot)).count();
    if there > 0 {
        let all = counted(schedule.len(), "trial");
        let are = if there == 1 { "is" } else { "are" };
        say(&format!("fsdyno: {there} of {all} {are} there already and {are} not run again"));
        say_unlogged(run, store, cells, schedule);
    }
    let todo = fsdyno_study::todo(schedule, cells, store);
    let jobs = usize::from(run.jobs);
    let ops = |cell: usize| cells.get(cell).map_or(0, Cell::ops);
    let of_cells: Vec<(usize, u64)> =
        todo.iter().map(|(_, slot)| (slot.cell, ops(slot.cell))).collect();
    let plans: Vec<_> = cells.iter().map(|cell| &cell.plan).collect();
    let show = progress::Show::new(&plans, &of_cells, jobs);
    let runner = Runner { jobs, build: version::build(), stop, observer: &show };
    let summary = fsdyno_study::run(schedule, cells, venue, store, &runner);
    show.finish();
    Ok(summary?)
}

/// A trial that is there is not run again for its log.
fn say_unlogged(run: &Run, store: &Store, cells: &[Cell], schedule: &[Slot]) {
    let there = schedule.iter().filter(|slot| fsdyno_study::is_there(store, cells, slot));
    let unlogged = there.filter_map(|slot| {
        let plan = &cells.get(slot.cell)?.plan;
        let name = fsdyno_venue::request_log::name(&trial_id(plan, slot.seed));
        (!store.folder().join(name).exists()).then_some(())
    });
    let unlogged = unlogged.count();
    if run.keep_log && unlogged > 0 {
        say(&format!(
            "fsdyno: {unlogged} of those have no log of their requests and get none now; for logs \
             give --out a new folder"
        ));
    }
}

/// Table on stdout, report beside the trials, and where it all is on stderr.
fn show(run: &Run, store: Store) -> Result<(), Failure> {
    if store.trials().is_empty() {
        store.discard_if_empty();
        return Ok(());
    }
    let mut trials = fsdyno_study::without_superseded(store.trials());
    report::in_order(&mut trials);
    let html = store.folder().join(fsdyno_study::store::PAGE);
    let basis = run.least.basis(run.baseline.as_deref());
    let results = [store.folder()];
    let written = report::drawn(&results, &trials).and_then(|series| {
        let told = report::told(&results, &trials)?;
        report::write_html_with(&html, &trials, (&series, &told), basis)
    });
    report::print(&trials, basis, run.format)?;
    written?;
    say(&format!("report: {}", html.display()));
    Ok(())
}

/// The workloads, and which share: two begin in the same second.
fn default_folder(run: &Run) -> PathBuf {
    let share = run.shard.map(|shard| format!("-share-{}-of-{}", shard.index, shard.of));
    place::default_folder(&format!("{}{}", run.workloads.join("-"), share.unwrap_or_default()))
}

/// This command as it was typed, each word as a shell takes it.
fn words() -> Vec<String> {
    // A word that is not UTF-8 cannot be shown as it is; a shown command is better than none.
    let typed = std::env::args_os().skip(1).map(|word| quote(&word.to_string_lossy()));
    std::iter::once("fsdyno".to_string()).chain(typed).collect()
}

/// This command as it would be typed to go on.
pub fn again(folder: &Path) -> String {
    let mut words = words();
    if !words.iter().any(|word| word == "--out" || word.starts_with("--out=")) {
        words.extend(["--out".to_string(), quote(&folder.display().to_string())]);
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use fsdyno_record::mailbox::Progress;
    use fsdyno_record::{Job, Plan};
    use fsdyno_study::{LabPlace, Question, matrix};
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
            deadline: fsdyno_study::USUAL_DEADLINE,
            workloads: vec!["dirops".into()],
            filesystems: filesystems.iter().map(ToString::to_string).collect(),
            threads: 1,
            ..Question::default()
        };
        let lab = LabPlace::usual("hdd-7200", "6.13.0-amd64");
        matrix(&question, &Place::Lab(lab)).unwrap()
    }

    #[test]
    fn what_kernel_or_tools_cannot_have_is_skipped_beside_what_can_run() {
        let mut cells = cells(&["reiserfs", "ext4", "xfs"]);
        assert!(prepare(&OnlyExt4, &mut cells, Mode::Run).unwrap().is_none());
        let skips: Vec<&str> =
            cells.iter().map(|cell| cell.skip.as_deref().unwrap_or("")).collect();
        assert!(skips[0].contains("no longer has reiserfs"), "{skips:?}");
        assert_eq!(skips[1..], ["", "apt-get install its tools"]);
    }

    #[test]
    fn where_all_would_be_skipped_it_is_an_error_before_any_work() {
        let exit = |filesystems: &[&str]| {
            prepare(&OnlyExt4, &mut cells(filesystems), Mode::Run).unwrap().unwrap().exit
        };
        assert_eq!(exit(&["reiserfs"]), Exit::WrongUse);
        assert_eq!(exit(&["xfs", "btrfs"]), Exit::Missing);
    }
}
