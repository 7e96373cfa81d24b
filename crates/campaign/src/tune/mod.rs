//! Searches the options of file systems for a workload: runs trials of points, and recommends options.

mod bench;
mod confirmation;
mod objective;
mod plan;
mod reduction;
mod request;
mod result;
mod safety;
mod stored;

use std::time::Instant;

use fsdyno_record::bounded::{self, WRITTEN};
use fsdyno_record::plan::BootPlan;
use fsdyno_record::trial::Trial;
use fsdyno_report::tune::{Reduction, Tuned, TunedFilesystem, VERSION};
use fsdyno_report::{counted, percent};
use fsdyno_tune::space::{Dropped, Restriction, names};
use fsdyno_tune::{SearchError, SearchResult, Space, search};

use crate::notes::say;
use crate::{Exit, Experiment, Failure, Points, RunSpec, Session, Store};
use bench::Bench;
use objective::Objective;
pub use request::{Budget, TuneRequest};
use safety::Cuts;
pub use stored::{keep, stored};

/// Maximum number of further lab trials for more precise average effects; a noisy host would need too many.
const AVERAGES: usize = 80;

/// The first seed of trials.
const FIRST_SEED: u64 = 1;

/// The name that stands for all file systems that have a space.
const ALL: &str = "all";

/// A request, resolved and checked.
pub struct Tuning {
    request: TuneRequest,
    /// The request of the trials.
    spec: RunSpec,
    spaces: Vec<Space>,
    objective: Objective,
    /// The parameters that were reduced to fit the budget.
    reductions: Vec<Reduction>,
}

impl Tuning {
    /// Resolves a request, and checks it with each file system.
    ///
    /// # Errors
    /// The first value that is invalid; a budget that is too small for one decision.
    pub fn resolve(request: TuneRequest) -> Result<Tuning, Failure> {
        let (spaces, spec) = (spaces(&request)?, spec(&request));
        let objective = resolve_objective(&request, &spec, &spaces)?;
        Ok(Tuning { request, spec, spaces, objective, reductions: Vec::new() })
    }

    /// Searches each file system.
    ///
    /// # Errors
    /// The reason that the search ended early.
    pub fn search(&self, store: &mut Store, session: &Session<'_>) -> Result<Tuned, Failure> {
        let Tuning { request, spec, spaces, objective, reductions } = self;
        let mut tuned = Tuned {
            tune: VERSION,
            objective: objective.description(),
            safe: request.safe,
            least: request.least_difference,
            reductions: reductions.clone(),
            ..Tuned::default()
        };
        let mut winners: Vec<Trial> = Vec::new();
        for space in spaces {
            let (filesystem, trial) =
                search_one(request, (spec, space, spaces.len()), objective, store, session)?;
            if tuned.workload.is_empty() {
                (tuned.workload, tuned.target) = describe(&trial);
            }
            tuned.filesystems.push(filesystem);
            winners.push(trial);
        }
        tuned.between = compare_file_systems(objective, &winners, tuned.least);
        Ok(tuned)
    }
}

/// Returns the spaces of the requested file systems.
fn spaces(tune: &TuneRequest) -> Result<Vec<Space>, Failure> {
    let mut requested: Vec<String> = Vec::new();
    for name in tune.filesystems.iter().flat_map(|text| text.split(',')) {
        match name.trim() {
            ALL => requested.extend(names().map(String::from)),
            name => requested.push(name.to_string()),
        }
    }
    let custom = match &tune.space {
        Some(path) => {
            let text = bounded::read_to_string(path, &WRITTEN).map_err(|error| {
                Failure::invalid_use(format!("--space {}: {error}", path.display()))
            })?;
            Some(Space::parse(&text, &format!("--space {}", path.display()))?)
        }
        None => None,
    };
    if requested.is_empty() {
        requested.push(custom.as_ref().map_or("ext4", |space| &space.filesystem).to_string());
    }
    if let Some(space) = &custom
        && !requested.contains(&space.filesystem)
    {
        return Err(Failure::invalid_use(format!(
            "--space has options of {0}, and --fs names another file system; give --fs {0}",
            space.filesystem
        )));
    }
    let mut spaces: Vec<Space> = Vec::new();
    for name in &requested {
        if name.contains([' ', '@', '=']) {
            return Err(Failure::invalid_use(format!(
                "--fs '{name}': give the plain name of a file system; options for all trials go to --fix, such as \
                 --fix journal=none"
            )));
        }
        if spaces.iter().any(|space| space.filesystem == *name) {
            return Err(Failure::invalid_use(format!("--fs {name} is given twice; give it once")));
        }
        match &custom {
            Some(space) if space.filesystem == *name => spaces.push(space.clone()),
            _ => spaces.push(fsdyno_tune::space::find(name)?),
        }
    }
    Ok(spaces)
}

/// Returns the request of the trials: in the lab with snapshots, unless the command specifies the boot mode.
fn spec(tune: &TuneRequest) -> RunSpec {
    let mut spec = tune.spec.clone();
    if !spec.axes.explicit.contains(&"boot") && is_lab(&spec) {
        spec.axes.guest.boot = BootPlan::Snapshot;
    }
    spec
}

fn is_lab(spec: &RunSpec) -> bool {
    spec.axes.on.iter().all(|on| on == "lab")
}

/// Returns the request with the file system of this space only.
fn request_for_space(spec: &RunSpec, space: &Space) -> RunSpec {
    let mut spec = spec.clone();
    spec.axes.filesystems = vec![space.filesystem.clone()];
    spec
}

/// Checks the request with each file system, and the objective.
fn resolve_objective(
    tune: &TuneRequest,
    spec: &RunSpec,
    spaces: &[Space],
) -> Result<Objective, Failure> {
    let mut phases = Vec::new();
    for space in spaces {
        let experiment = Experiment::resolve(request_for_space(spec, space))?;
        let cell = experiment.cells.first();
        phases = cell
            .map(|cell| cell.phases.iter().map(|(name, _)| name.clone()).collect())
            .unwrap_or_default();
        let (space, _) = restrict_space(space, &restriction(tune, spec, None), spaces.len())?;
        let settings = settings(tune, is_lab(spec), tune.budget.part(spaces.len()).trials());
        let least = fsdyno_tune::least_trials(&space, &settings);
        if settings.trials < least {
            return Err(Failure::invalid_use(format!(
                "the budget of {} for {} is too small for one decision: one trial per value plus the confirmation \
                 takes {least}; give at least --budget {}trials, or fewer options with --only",
                counted(settings.trials, "trial"),
                space.filesystem,
                least * spaces.len()
            )));
        }
    }
    for text in &tune.also {
        confirmation::Work::parse(text)?;
    }
    Objective::parse(tune.objective.as_deref(), &phases)
}

fn restriction(tune: &TuneRequest, spec: &RunSpec, kernel: Option<String>) -> Restriction {
    Restriction {
        only: tune.only.clone(),
        exclude: tune.exclude.clone(),
        fix: tune.fix.clone(),
        kernel,
        settings: is_lab(spec),
        safe: tune.safe,
    }
}

/// Returns the part of a space that is tried. With several file systems, an option that only the others have is
/// ignored.
fn restrict_space(
    space: &Space,
    by: &Restriction,
    filesystem_count: usize,
) -> Result<(Space, Vec<Dropped>), Failure> {
    let mut by = by.clone();
    if filesystem_count > 1 {
        let is_known = |text: &String| {
            let name = text.split('=').next().unwrap_or_default();
            space.option(name).is_ok()
        };
        let elsewhere = |text: &String| {
            let name = text.split('=').next().unwrap_or_default();
            names()
                .filter_map(|other| fsdyno_tune::space::find(other).ok())
                .any(|it| it.option(name).is_ok())
        };
        for list in [&mut by.only, &mut by.exclude, &mut by.fix] {
            list.retain(|text| is_known(text) || !elsewhere(text));
        }
    }
    Ok(space.restricted(&by)?)
}

fn settings(tune: &TuneRequest, is_lab: bool, trials: usize) -> fsdyno_tune::Settings {
    fsdyno_tune::Settings {
        seed: tune.seed,
        first: FIRST_SEED,
        trials,
        confirm: tune.confirm,
        averages: if is_lab { AVERAGES } else { 0 },
        paired: is_lab,
        min_difference: tune.least_difference,
        ..fsdyno_tune::Settings::default()
    }
}

/// Returns the minimum number of trials of a search, over all its file systems.
///
/// # Errors
/// A request that the search refuses.
pub fn min_trials(tune: &TuneRequest) -> Result<usize, Failure> {
    let (spaces, spec) = (spaces(tune)?, spec(tune));
    let settings = settings(tune, is_lab(&spec), tune.budget.trials());
    let mut sum = 0;
    for space in &spaces {
        let (space, _) = restrict_space(space, &restriction(tune, &spec, None), spaces.len())?;
        sum += fsdyno_tune::least_trials(&space, &settings);
    }
    Ok(sum)
}

/// Describes the workload with its parameters, and the target.
fn describe(trial: &Trial) -> (String, String) {
    let plan = &trial.plan;
    let params = plan.workload.params.iter().map(|(key, value)| format!("{key}={value}"));
    let work = std::iter::once(plan.workload.name.clone()).chain(params).collect::<Vec<_>>();
    let machine = plan.lab().and_then(|lab| lab.machine.clone());
    let target = match (plan.lab(), machine) {
        (Some(lab), Some(machine)) => {
            format!("lab: machine {machine}, kernel {}", lab.kernel.release)
        }
        (Some(lab), None) => format!("lab: kernel {}", lab.kernel.release),
        (None, _) => format!(
            "{}: kernel {}",
            plan.target(),
            trial.conditions.kernel.split(' ').next().unwrap_or_default()
        ),
    };
    (work.join(" "), target)
}

/// Searches one file system. Also returns a trial of the recommended options.
fn search_one(
    tune: &TuneRequest,
    (spec, space, filesystem_count): (&RunSpec, &Space, usize),
    objective: &Objective,
    store: &mut Store,
    session: &Session<'_>,
) -> Result<(TunedFilesystem, Trial), Failure> {
    let mut points = Points::open(request_for_space(spec, space), store, session)?;
    let is_lab = points.is_lab();
    let by = restriction(tune, spec, points.kernel());
    let (space, dropped) = restrict_space(space, &by, filesystem_count)?;
    let budget = tune.budget.part(filesystem_count);
    let settings = settings(tune, is_lab, budget.trials());
    let least = fsdyno_tune::least_trials(&space, &settings);
    let tried = space.options.iter().filter(|option| option.values.len() > 1).count();
    say(&format!(
        "fsdyno: {}: {}, {} combinations; at least {}",
        space.filesystem,
        counted(tried, "option"),
        space.combinations(),
        counted(least, "trial")
    ));
    let mut bench = Bench {
        points: &mut points,
        space: &space,
        objective,
        budget,
        least,
        started: Instant::now(),
        done: 0,
        ran: 0,
        base: None,
        first_took: None,
    };
    let found = search(&space, &settings, &mut bench).map_err(|error| match error {
        SearchError::Evaluator(failure) => failure,
        SearchError::DefaultRefused(_) => {
            Failure { exit: Exit::TrialFailed, message: error.to_string() }
        }
        error => Failure::invalid_use(error.to_string()),
    })?;
    let spec = request_for_space(spec, &space);
    let cuts = Cuts { spec: &spec, session, cuts: tune.cuts, safe: tune.safe };
    finish(tune, (&space, &dropped), objective, found, (&mut points, &cuts))
}

/// Tests the candidates with power cuts, confirms what a search found, and describes it.
fn finish(
    tune: &TuneRequest,
    (space, dropped): (&Space, &[Dropped]),
    objective: &Objective,
    mut found: SearchResult,
    (points, cuts): (&mut Points<'_>, &Cuts<'_>),
) -> Result<(TunedFilesystem, Trial), Failure> {
    let least = tune.least_difference;
    let mut safety = None;
    if cuts.cuts > 0 && points.is_lab() {
        let tested = cuts.safety(space, &found, objective, points)?;
        if tested.winner != found.winner {
            found.winner = tested.winner.clone();
            found.confirmed = None;
        }
        safety = Some(tested);
    }
    let mut tuned = result::tuned(space, &found, least, dropped);
    if let Some(safety) = safety {
        tuned.front = safety.front;
        tuned.dropped.extend(safety.refused);
    }
    let default = space.default_point();
    let sides = [default, found.winner.clone()].map(|point| bench::settings(space, &point));
    let trials = points.run(&sides.clone().map(|side| (side, FIRST_SEED)))?;
    let [default, winner] = trials.as_slice() else {
        return Err(Failure::invalid_use("the trials of the winner are not stored"));
    };
    tuned.phases = result::phases(objective, default, winner);
    if !tuned.is_default {
        tuned.why = result::why(default, winner);
        let works = confirmation::works(tune, default)?;
        tuned.truth = confirmation::confirm(points, &works, &sides[0], &sides[1], least)?;
    }
    Ok((tuned, winner.clone()))
}

/// Compares several file systems, each with its recommended options; a difference within the error of the processor
/// profile is undecided.
fn compare_file_systems(objective: &Objective, winners: &[Trial], least: f64) -> Vec<String> {
    let mut ranked: Vec<(&Trial, f64)> =
        winners.iter().map(|trial| (trial, objective.value(trial))).collect();
    ranked.sort_by(|a, b| a.1.total_cmp(&b.1));
    let Some(((best, time), others)) = ranked.split_first() else { return Vec::new() };
    let name =
        |trial: &Trial| trial.plan.filesystem.as_ref().map_or(String::new(), |it| it.kind.clone());
    let share = |trial: &Trial| {
        let cpu: f64 = trial.measured.phases.iter().map(|phase| phase.cpu_ns.seconds()).sum();
        (cpu / bench::total_seconds(trial)).min(1.0)
    };
    let line = |(trial, other): &(&Trial, f64)| {
        let ratio = other / time;
        let processor = trial.plan.lab().and_then(|lab| lab.cpu.processor());
        let error = processor
            .and_then(|it| it.error.as_ref())
            .map_or(0.0, |it| it.ratio_percent as f64 / 100.0);
        let error = error * share(best).max(share(trial));
        let (one, other) = (name(best), name(trial));
        match ratio {
            ratio if ratio - 1.0 <= error => format!(
                "{one} and {other}, each with its recommended options: undecided ({other} takes {} more, within the \
                 processor model's error of {})",
                percent(ratio - 1.0),
                percent(error)
            ),
            ratio if ratio - 1.0 <= least => {
                format!("{one} and {other}, each with its recommended options, are the same")
            }
            ratio => format!(
                "{other} takes {ratio:.2} times as long as {one}, each with its recommended options"
            ),
        }
    };
    others.iter().map(line).collect()
}
