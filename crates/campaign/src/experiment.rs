//! Experiments: resolves a request to cells, finds what the trials need, and runs them.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsdyno_lab::{Cache, default_kernel};
use fsdyno_record::quote::short;
use fsdyno_record::trial::{Outcome, trial_id};
use fsdyno_record::{Build, Plan, Repeats, Trial, suggest};
use fsdyno_report::counted;
use fsdyno_venue::{Venue, VenueError};

use crate::boots;
use crate::compatibility::in_mode;
use crate::failure::Failure;
use crate::labs::Mode;
use crate::notes::say;
use crate::results::check_baseline;
use crate::speed::Speeds;
use crate::target::{self, TargetRequest};
use crate::time_left::Planned;
use crate::venues::Venues;
use crate::{
    Cell, Observer, Place, RunError, RunSpec, Runner, ShareFile, Slot, Store, Summary, first_look,
    leftovers, repeats,
};

/// The context that the program provides to an experiment.
pub struct Session<'a> {
    /// The build of the program, if its commit is known.
    pub build: Option<&'a Build>,
    /// Flag that stops the run when set.
    pub stop: &'a Arc<AtomicBool>,
    /// The command line as given, quoted for a shell.
    pub command: &'a str,
    /// The display of progress.
    pub progress: &'a dyn Progress,
}

/// A display of progress.
pub trait Progress {
    /// Begins the display of a run of these trials, whose cells are indices into `plans`; `jobs` of them run at the
    /// same time.
    fn begin(&self, plans: &[&Plan], todo: &[Planned], jobs: usize) -> Box<dyn Observer>;
}

/// No display.
impl Progress for () {
    fn begin(&self, _: &[&Plan], _: &[Planned], _: usize) -> Box<dyn Observer> {
        Box::new(())
    }
}

/// A resolved request.
pub struct Experiment {
    /// The request.
    pub spec: RunSpec,
    /// The rule for the number of trials, if it is not fixed.
    pub rule: Option<Repeats>,
    /// The targets, each with the experiment requested for it.
    pub requests: Vec<TargetRequest>,
    /// The cells of all targets.
    pub cells: Vec<Cell>,
}

impl Experiment {
    /// Resolves a request to cells. Checks the whole request before anything is searched for or downloaded.
    ///
    /// # Errors
    /// The first value that is invalid.
    pub fn resolve(spec: RunSpec) -> Result<Experiment, Failure> {
        let rule = repeats::rule(&spec)?;
        refuse_commands(&spec.workloads)?;
        // A kernel built by the user may have other sysctls.
        if !spec.axes.kernels.iter().any(|kernel| kernel.contains('/')) {
            crate::sysctl::check(spec.sysctls.iter().map(String::as_str))?;
        }
        let mut requests = target::parse_targets(&spec)?;
        for request in &mut requests {
            request.matrix_request.inputs = crate::read_inputs(&request.matrix_request)?;
        }
        let cells_by_request =
            requests.iter().map(TargetRequest::cells).collect::<Result<Vec<_>, _>>()?;
        let labels = cells_by_request.iter().flatten().map(|cell| cell.plan.label.as_str());
        check_baseline(spec.baseline.as_deref(), labels)?;
        for (request, cells) in requests.iter().zip(&cells_by_request) {
            if let Place::Directory { path, .. } = &request.place {
                target::check_directory(path, cells, spec.jobs.into())?;
            }
        }
        let cells = target::join_and_number(cells_by_request);
        Ok(Experiment { spec, rule, requests, cells })
    }

    /// Finds everything that the trials need before the first one starts, and replaces the cells with those of the
    /// kernels found.
    ///
    /// # Errors
    /// A requirement that is missing for all trials, or that is unusable; a folder with other results.
    pub fn prepare_venues(
        &mut self,
        folder: &Path,
        stored: &[Trial],
        session: &Session<'_>,
        mode: Mode,
    ) -> Result<Venues, Failure> {
        let (venues, all_skipped) =
            self.prepare_selected_venues(folder, stored, session, mode, &|_| true)?;
        if let Some(failure) = all_skipped {
            return Err(failure);
        }
        skipped(&self.cells).iter().for_each(|line| say(line));
        Ok(venues)
    }

    /// Finds everything that the trials with the selected labels need; if none can run, also returns the reason.
    ///
    /// # Errors
    /// A requirement that is unusable; a folder with other results.
    pub fn prepare_selected_venues(
        &mut self,
        folder: &Path,
        stored: &[Trial],
        session: &Session<'_>,
        mode: Mode,
        is_selected: &dyn Fn(&str) -> bool,
    ) -> Result<(Venues, Option<Failure>), Failure> {
        let requests = self.requests.clone();
        let (venues, requests) = target::venues(&self.spec, requests, folder, session.stop, mode)?;
        self.cells = target::cells(&requests)?;
        self.cells.retain(|cell| is_selected(&cell.plan.label));
        // What is missing is found before a guest boots.
        let is_ready = |plan: &Plan| venues.identity(&in_mode(plan, Mode::Dry)).map(drop);
        let mut all_skipped = prepare(&mut self.cells, &is_ready)?;
        if mode == Mode::Run {
            self.say_boots(&venues, stored);
            all_skipped =
                all_skipped.or(prepare(&mut self.cells, &|plan| boots::make(&venues, plan))?);
        }
        crate::check_compatible(&self.cells, &venues, stored, mode)?;
        match self.share(session) {
            Some(share) => share.check_folder(folder, stored).map(drop)?,
            None => ShareFile::refuse_share(folder)?,
        }
        let selected_trials = stored.iter().filter(|trial| is_selected(&trial.plan.label));
        refuse_others(&self.spec, folder, &self.cells, selected_trials)?;
        Ok((venues, all_skipped))
    }

    /// Returns a key for each snapshot that the trials need, as if none had been made yet. No guest is packed, which
    /// would take a tenth of a second or more for each.
    pub fn needed_snapshots(&self) -> BTreeSet<String> {
        let places = self.requests.iter().map(|request| (request.place.clone(), None));
        boots::missing(self.cells.iter(), &Venues::new(places.collect()))
    }

    /// Returns a key for each missing snapshot that the trials need, like a dry run, but without its other checks.
    /// Returns none if this host lacks a requirement, and all that are needed if the request names kernels or the
    /// default kernel has to be downloaded.
    pub fn missing_snapshots(&self) -> BTreeSet<String> {
        let needed = self.needed_snapshots();
        let has_kernel = || Cache::of_user().is_ok_and(|cache| default_kernel(&cache).is_some());
        if needed.is_empty() || !self.spec.axes.kernels.is_empty() || !has_kernel() {
            return needed;
        }
        let (requests, folder, stop) = (self.requests.clone(), Path::new("."), Arc::default());
        let found = target::venues(&self.spec, requests, folder, &stop, Mode::Dry);
        let missing = found.and_then(|(venues, requests)| {
            Ok(boots::missing(target::cells(&requests)?.iter(), &venues))
        });
        missing.unwrap_or_default()
    }

    /// Reports the estimated time of the trials, including the boots of guests before the first trial.
    fn say_boots(&self, venue: &dyn Venue, stored: &[Trial]) {
        let is_stored = |cell: &Cell, slot: &Slot| {
            let id = trial_id(&cell.plan, slot.seed);
            stored.iter().any(|trial| trial.trial_id == id && trial.outcome == Outcome::Ok)
        };
        let schedule = self.schedule();
        let cell_of = |slot: &Slot| {
            let cell = self.cells.get(slot.cell)?;
            (cell.skip.is_none() && !is_stored(cell, slot)).then_some(cell)
        };
        let todo: Vec<&Cell> = schedule.iter().filter_map(cell_of).collect();
        let guests = boots::missing(todo.iter().copied(), venue).len();
        let speeds = Speeds::load();
        let estimate = speeds.estimate(todo.iter().copied(), usize::from(self.spec.jobs));
        let Some(estimate) = estimate.filter(|_| guests > 0) else { return };
        let estimate = estimate.with_boots(speeds.boots(guests));
        say(&format!("fsdyno: {}, {estimate}", counted(todo.len(), "trial")));
    }

    /// Returns the share of the trials that this command runs, if it runs a shard.
    fn share(&self, session: &Session<'_>) -> Option<ShareFile> {
        let (shard, schedule) = (self.spec.shard?, self.first_stage());
        let (command, baseline) = (session.command.to_string(), self.spec.baseline.clone());
        Some(ShareFile::new(shard, &schedule, &self.cells, command, baseline))
    }

    /// Returns the first-stage trials of all shards.
    fn first_stage(&self) -> Vec<Slot> {
        repeats::first(&self.spec, self.rule.as_ref(), self.cells.len())
    }

    /// Returns the first-stage trials that this command runs.
    pub fn schedule(&self) -> Vec<Slot> {
        let schedule = self.first_stage();
        self.spec.shard.map_or_else(|| schedule.clone(), |shard| shard.of(&schedule))
    }

    /// Checks that the trials of a folder ran under this rule.
    ///
    /// # Errors
    /// Trials under a different rule.
    pub fn check_rule(&self, stored: &[Trial]) -> Result<(), Failure> {
        crate::two_stage::check_rule(self.rule.as_ref(), stored).map_err(Failure::invalid_use)
    }

    /// Finds everything that the trials need, and runs them.
    ///
    /// # Errors
    /// A requirement that is missing or unusable; the reason that the run ended early.
    pub fn measure(
        &mut self,
        store: &mut Store,
        session: &Session<'_>,
    ) -> Result<Summary, Failure> {
        leftovers::report();
        let venues = self.prepare_venues(store.folder(), store.trials(), session, Mode::Run)?;
        if let Some(share) = self.share(session) {
            share.claim(store)?;
        }
        let pilot = self.run_schedule(&venues, &self.schedule(), store, session)?;
        let Some(rule) = self.rule.as_ref().filter(|_| pilot.left == 0) else { return Ok(pilot) };
        match repeats::second(rule, &self.cells, store) {
            Some(more) => Ok(pilot.plus(self.run_schedule(&venues, &more, store, session)?)),
            None => Ok(pilot),
        }
    }

    /// Runs the slots of a schedule that are not stored yet.
    ///
    /// # Errors
    /// The reason that the run ended early.
    pub fn run_schedule(
        &self,
        venue: &dyn Venue,
        schedule: &[Slot],
        store: &mut Store,
        session: &Session<'_>,
    ) -> Result<Summary, Failure> {
        let cells = &self.cells;
        let stored = schedule.iter().filter(|slot| crate::is_stored(store, cells, slot)).count();
        if stored > 0 {
            let all = schedule.len();
            say(&format!(
                "fsdyno: {stored} of {all} trials already stored; they are not run again"
            ));
            self.report_unlogged(store, schedule);
        }
        let jobs = usize::from(self.spec.jobs);
        let todo = crate::todo(schedule, cells, store);
        let each = todo.iter().filter_map(|(_, slot)| cells.get(slot.cell));
        if let Some(estimate) = Speeds::load().estimate(each, jobs) {
            say(&format!("fsdyno: {}, {estimate}", counted(todo.len(), "trial")));
            // A run that continues an earlier one has had its first look.
            let is_first = stored == 0 && schedule.iter().any(|slot| slot.round == 0);
            let look = first_look::of(
                &self.spec,
                cells,
                &estimate,
                session.command,
                Experiment::trials_time,
            );
            look.filter(|_| is_first).iter().for_each(|line| say(&format!("fsdyno: {line}")));
        }
        let before = store.trials().len();
        let summary = run_shown((schedule, cells), venue, store, session, jobs);
        Speeds::learn(store.trials().iter().skip(before), jobs.min(todo.len()));
        Ok(summary?)
    }

    /// Reports stored trials without a request log; they are not run again to get one.
    fn report_unlogged(&self, store: &Store, schedule: &[Slot]) {
        let stored = schedule.iter().filter(|slot| crate::is_stored(store, &self.cells, slot));
        let has_no_log = |slot: &&Slot| {
            let Some(cell) = self.cells.get(slot.cell) else { return false };
            let name = fsdyno_venue::request_log::name(&trial_id(&cell.plan, slot.seed));
            !store.folder().join(name).exists()
        };
        let unlogged = stored.filter(has_no_log).count();
        if self.spec.keep_log && unlogged > 0 {
            say(&format!(
                "fsdyno: {unlogged} of these have no request log and are not run again for it; for logs give a new \
                 folder with --out"
            ));
        }
    }
}

/// Runs the slots of a schedule that are not stored yet, with the display of the session.
pub(crate) fn run_shown(
    (schedule, cells): (&[Slot], &[Cell]),
    venue: &dyn Venue,
    store: &mut Store,
    session: &Session<'_>,
    jobs: usize,
) -> Result<Summary, RunError> {
    let speeds = Speeds::load();
    let planned = |slot: &Slot| {
        let cell = cells.get(slot.cell);
        Planned {
            cell: slot.cell,
            ops: cell.map_or(0, Cell::ops),
            expected: cell.and_then(|cell| speeds.expected(cell, jobs)),
            work: cell.and_then(|cell| speeds.work(cell)),
        }
    };
    let todo: Vec<Planned> =
        crate::todo(schedule, cells, store).iter().map(|(_, slot)| planned(slot)).collect();
    let plans: Vec<&Plan> = cells.iter().map(|cell| &cell.plan).collect();
    let display = session.progress.begin(&plans, &todo, jobs);
    let (build, stop, observer) = (session.build, session.stop, display.as_ref());
    let summary =
        crate::run(schedule, cells, venue, store, &Runner { jobs, build, stop, observer });
    display.finished();
    summary
}

/// Refuses a shell command given as a workload, and suggests workloads that the user may have meant.
fn refuse_commands(workloads: &[String]) -> Result<(), Failure> {
    let names = fsdyno_workload::workloads::ALL.iter().map(|kind| kind.name);
    let is_command = |name: &&String| {
        let first = name.split_whitespace().next().unwrap_or_default();
        let is_one_word = first.len() == name.len();
        let near = is_one_word && suggest::nearest(first, names.clone()).is_some();
        !near && (!is_one_word || fsdyno_lab::find_program(first).is_ok())
    };
    let Some(command) = workloads.iter().find(is_command) else { return Ok(()) };
    Err(Failure::invalid_use(format!(
        "'{}' is a command; fsdyno runs its own workloads (fsdyno list workloads). To time a command: fsdyno run command \
         --set 'command={}'. For your own data there are \
         'tarball --set archive=FOLDER', which unpacks and removes the files of a folder or archive, and \
         'postmark --set config=FILE', which runs a PostMark configuration",
        short(command),
        short(command)
    )))
}

/// Refuses a folder with trials of a different experiment, unless --mix is given.
fn refuse_others<'a>(
    run: &RunSpec,
    folder: &Path,
    cells: &[Cell],
    stored: impl Iterator<Item = &'a Trial> + Clone,
) -> Result<(), Failure> {
    const SHOWN: usize = 4;
    let (count, rows) = crate::unrequested_trials(cells, stored);
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
    Err(Failure::invalid_use(format!(
        "{holds}; request them as well, give a new folder with --out, or (with fsdyno run) add --mix for one report \
         of all"
    )))
}

/// Prepares the cells' plans. A file system that this kernel or host does not support is skipped; if all are skipped,
/// returns the first reason.
fn prepare(
    cells: &mut [Cell],
    make_ready: &dyn Fn(&Plan) -> Result<(), VenueError>,
) -> Result<Option<Failure>, Failure> {
    let mut first: Option<Failure> = None;
    for cell in cells.iter_mut() {
        if let Some(reason) = &cell.skip {
            first.get_or_insert_with(|| Failure::invalid_use(reason.clone()));
            continue;
        }
        match make_ready(&cell.plan) {
            Ok(()) => {}
            Err(VenueError::Missing(reason)) => {
                cell.skip = Some(reason.clone());
                first.get_or_insert_with(|| VenueError::Missing(reason).into());
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(first.filter(|_| cells.iter().all(|cell| cell.skip.is_some())))
}

/// Returns one line for each skipped file system, with its reason.
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

#[cfg(test)]
mod tests {
    use crate::{LabPlace, MatrixRequest, matrix};
    use fsdyno_record::mailbox::Progress;
    use fsdyno_record::{Job, Plan};
    use fsdyno_venue::{FinishedTrial, Identity, Watch};

    use super::*;
    use crate::failure::Exit;

    /// A lab on a host that only has the tools of ext4.
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

    fn is_ready(plan: &Plan) -> Result<(), VenueError> {
        OnlyExt4.identity(plan).map(drop)
    }

    fn cells(filesystems: &[&str]) -> Vec<Cell> {
        let matrix_request = MatrixRequest {
            deadline: crate::DEFAULT_DEADLINE,
            workloads: vec!["dirops".into()],
            filesystems: filesystems.iter().map(ToString::to_string).collect(),
            threads: 1,
            ..MatrixRequest::default()
        };
        let lab = LabPlace::with_defaults("hdd-7200", "6.13.0-amd64");
        matrix(&matrix_request, &Place::Lab(lab)).unwrap()
    }

    #[test]
    fn file_systems_without_kernel_support_or_tools_are_skipped_and_the_others_run() {
        let mut cells = cells(&["reiserfs", "ext4", "xfs"]);
        assert!(prepare(&mut cells, &is_ready).unwrap().is_none());
        let skips: Vec<&str> =
            cells.iter().map(|cell| cell.skip.as_deref().unwrap_or("")).collect();
        assert!(skips[0].contains("no longer has reiserfs"), "{skips:?}");
        assert_eq!(skips[1..], ["", "apt-get install its tools"]);
    }

    #[test]
    fn a_request_whose_file_systems_are_all_skipped_is_an_error() {
        let exit = |filesystems: &[&str]| {
            prepare(&mut cells(filesystems), &is_ready).unwrap().unwrap().exit
        };
        assert_eq!(exit(&["reiserfs"]), Exit::InvalidUse);
        assert_eq!(exit(&["xfs", "btrfs"]), Exit::Missing);
    }
}
