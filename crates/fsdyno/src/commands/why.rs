//! `fsdyno why`: a second pass of stored trials, looked at, says where their time went.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fsdyno_lab::{Code, Lab, LabOptions, user_cache};
use fsdyno_record::mailbox::{Progress, Stage};
use fsdyno_record::naming;
use fsdyno_record::plan::Task;
use fsdyno_record::trial::Outcome;
use fsdyno_record::{Bytes, Job, Nanos, Trial};
use fsdyno_study::Question;
use fsdyno_venue::{Attention, LabVenue, Looked, Seen, Venue, Watch};
use fsdyno_why::kernel::{self, Counted, Names};
use fsdyno_why::{Account, Explained, Ground, Log, Map, MapError, Moment, Phase, time};

use crate::cli::Why;
use crate::commands::why_show;
use crate::exit::{Exit, Failure};
use crate::output::say;
use crate::{place, stop};

/// Explains what is in a result, against another where one is named.
pub fn run(why: &Why) -> Result<Exit, Failure> {
    let trials = chosen(&why.result, &why.fs, why.seed)?;
    let rows: Vec<String> = why.against_fs.iter().cloned().collect();
    let others =
        why.against.as_deref().map(|folder| chosen(folder, &rows, why.seed)).transpose()?;
    let pairs = pairs(&trials, others.as_deref())?;
    check_phase(why.phase.as_deref(), &trials)?;
    let stop = stop::flag()?;
    let looker = Looker::new(trials.iter().chain(others.iter().flatten()), &stop)?;
    let (names, their_names) =
        (naming::Names::of(&trials), naming::Names::of(others.iter().flatten()));
    let mut explained: BTreeMap<(bool, usize), Explained> = BTreeMap::new();
    for (at, other) in pairs {
        let mut of = |is_other: bool, at: usize, trial: &Trial| -> Result<Explained, Failure> {
            if let Some(known) = explained.get(&(is_other, at)) {
                return Ok(known.clone());
            }
            let mut new = looker.explain(trial)?;
            let names = if is_other { &their_names } else { &names };
            (new.workload, new.label) = (names.workload(trial), names.row(trial));
            explained.insert((is_other, at), new.clone());
            Ok(new)
        };
        let mut here = of(false, at, &trials[at])?;
        let other = other.zip(others.as_ref());
        let mut there = other.map(|(at, others)| of(true, at, &others[at])).transpose()?;
        if let Some(phase) = &why.phase {
            here = here.only(phase);
            there = there.map(|there| there.only(phase));
        }
        why_show::show(why, &here, there.as_ref())?;
    }
    Ok(Exit::Good)
}

/// Of each cell of a result the good trial with the lowest seed.
fn chosen(folder: &Path, rows: &[String], seed: Option<u64>) -> Result<Vec<Trial>, Failure> {
    let loaded = fsdyno_report::load(&[folder.to_path_buf()])?;
    if let Some(torn) = &loaded.torn {
        say(&format!("fsdyno: {torn}"));
    }
    let trials = fsdyno_study::without_superseded(&loaded.trials);
    let labels: BTreeSet<&str> = trials.iter().map(|trial| trial.plan.label.as_str()).collect();
    if let Some(name) = rows.iter().find(|name| !labels.contains(name.as_str())) {
        let hint = fsdyno_record::suggest::hint(name, labels);
        let folder = folder.display();
        return Err(Failure::wrong(format!("'{folder}' has no row '{name}': {hint}")));
    }
    let wanted = |trial: &&Trial| {
        (rows.is_empty() || rows.contains(&trial.plan.label))
            && seed.is_none_or(|seed| trial.seed == seed)
    };
    let mut chosen: Vec<Trial> = Vec::new();
    let mut why_not = None;
    for trial in trials.iter().filter(wanted) {
        if let Some(reason) = cannot(trial) {
            why_not.get_or_insert(reason);
            continue;
        }
        // The hash leaves out the label.
        let same = |held: &&mut Trial| {
            (&held.plan.hash, &held.plan.label) == (&trial.plan.hash, &trial.plan.label)
        };
        match chosen.iter_mut().find(same) {
            Some(held) if held.seed <= trial.seed => {}
            Some(held) => *held = trial.clone(),
            None => chosen.push(trial.clone()),
        }
    }
    if chosen.is_empty() {
        let reason = why_not.unwrap_or_else(|| "no trial of it is asked for".into());
        return Err(Failure::wrong(format!(
            "'{}' cannot be explained: {reason}",
            folder.display()
        )));
    }
    super::report::in_order(&mut chosen, &[]);
    Ok(chosen)
}

/// Why a trial cannot be repeated to the digit.
fn cannot(trial: &Trial) -> Option<String> {
    let Some(lab) = trial.plan.lab() else {
        return Some("it did not run in the lab, and nothing else repeats to the digit".into());
    };
    if trial.outcome != Outcome::Ok {
        return Some("its trials failed, and there is nothing to explain".into());
    }
    (!lab.accel.is_exact()).then(|| "it ran on KVM, and nothing of that repeats".into())
}

/// What two trials of one label are told apart by.
fn conditions(trial: &Trial) -> impl PartialEq {
    let plan = &trial.plan;
    let lab = plan.lab().map(|lab| (lab.kernel.clone(), lab.raid, lab.size, lab.cpu, lab.ram));
    let period = plan.filesystem.as_ref().and_then(|filesystem| filesystem.period.clone());
    let age = plan.age().map(ToString::to_string);
    let disk = plan.disk_name().map(String::from);
    (plan.workload.params.clone(), disk, lab, period, age, plan.threads, plan.sysctls.clone())
}

/// Each trial with the one of the other result that it is compared with: of the same workload, with the
/// same label where there is one, else the only one. Of several of a label it is the one that ran under the
/// same conditions; where there is no such one, nobody guesses.
fn pairs(
    trials: &[Trial],
    others: Option<&[Trial]>,
) -> Result<Vec<(usize, Option<usize>)>, Failure> {
    let Some(others) = others else { return Ok((0..trials.len()).map(|at| (at, None)).collect()) };
    let mut pairs = Vec::new();
    for (at, trial) in trials.iter().enumerate() {
        let same =
            |other: &&(usize, &Trial)| other.1.plan.workload.name == trial.plan.workload.name;
        let same: Vec<(usize, &Trial)> =
            others.iter().enumerate().collect::<Vec<_>>().iter().filter(same).copied().collect();
        let named: Vec<(usize, &Trial)> =
            same.iter().filter(|it| it.1.plan.label == trial.plan.label).copied().collect();
        let alike: Vec<(usize, &Trial)> =
            named.iter().filter(|it| conditions(it.1) == conditions(trial)).copied().collect();
        let of_label = if named.len() > 1 { &alike } else { &named };
        match (of_label.as_slice(), same.as_slice()) {
            ([(other, _)], _) => pairs.push((at, Some(*other))),
            ([], [(other, _)]) => pairs.push((at, Some(*other))),
            (_, []) => {
                return Err(Failure::wrong(format!(
                    "--against has no trial of {}; it is compared with one of the same workload",
                    trial.plan.workload.name
                )));
            }
            (_, several) => {
                let names = naming::Names::of(several.iter().map(|it| it.1));
                let rows: Vec<String> = several.iter().map(|it| names.row(it.1)).collect();
                return Err(Failure::wrong(format!(
                    "--against has several rows of {} and not just one of the conditions of {}: {}; \
                     explain a result that has one of them",
                    trial.plan.workload.name,
                    trial.plan.label,
                    rows.join("; ")
                )));
            }
        }
    }
    Ok(pairs)
}

fn check_phase(phase: Option<&str>, trials: &[Trial]) -> Result<(), Failure> {
    let Some(name) = phase else { return Ok(()) };
    let names: BTreeSet<&str> = trials
        .iter()
        .flat_map(|trial| &trial.measured.phases)
        .map(|phase| phase.name.as_str())
        .collect();
    match names.contains(name) {
        true => Ok(()),
        false => {
            let hint = fsdyno_record::suggest::hint(name, names);
            Err(Failure::wrong(format!("--phase '{name}' is no phase of the result: {hint}")))
        }
    }
}

/// Runs second passes.
struct Looker {
    venue: LabVenue,
    stop: Arc<AtomicBool>,
}

impl Looker {
    fn new<'a>(
        trials: impl Iterator<Item = &'a Trial>,
        stop: &Arc<AtomicBool>,
    ) -> Result<Looker, Failure> {
        let mut kernels = BTreeSet::new();
        let mut question = Question::default();
        for trial in trials {
            kernels.extend(trial.plan.lab().map(|lab| lab.kernel.clone()));
            let workload = &trial.plan.workload;
            if let Some(input) = &workload.input {
                let value = workload.params.get(&input.parameter).cloned().unwrap_or_default();
                question.workloads.push(workload.name.clone());
                let set = format!("{}.{}={value}", workload.name, input.parameter);
                question.sets.push(set);
            }
        }
        question.workloads.dedup();
        let inputs = fsdyno_study::read_inputs(&question)?;
        let mut labs = Vec::new();
        for name in kernels {
            // What was typed stands behind the release, where several builds have one.
            let typed = name.split_once('@').map_or(name.as_str(), |(_, typed)| typed);
            let options = LabOptions {
                kernel: Some(typed.to_string()),
                qemu: None,
                cache: user_cache(),
                offline: false,
            };
            let lab = Lab::find(&options, &|line| say(&format!("fsdyno: {line}")))?;
            labs.push(lab.named(name));
        }
        let attention =
            Attention { say: |line| say(&format!("fsdyno: {line}")), stop: Arc::clone(stop) };
        let venue = LabVenue::new(labs, place::executable(), std::env::temp_dir(), user_cache())
            .with_inputs(inputs)
            .with_attention(attention);
        Ok(Looker { venue, stop: Arc::clone(stop) })
    }

    fn explain(&self, trial: &Trial) -> Result<Explained, Failure> {
        self.same_lab(trial)?;
        let called = format!("{} on {}", trial.plan.workload.name, trial.plan.label);
        say(&format!("fsdyno: runs {called}, seed {}, a second time and looks at it", trial.seed));
        let job = Job {
            trial_id: trial.trial_id.clone(),
            seed: trial.seed,
            plan: trial.plan.clone(),
            deadline: fsdyno_study::USUAL_DEADLINE,
            task: Task::Whole,
        };
        let symbols = Mutex::new(None);
        let code = |image: &[u8]| {
            let found = kernel::kallsyms::read(image)?;
            let entrances = kernel::entrances(&found)?;
            *symbols.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
            let kernel::Entrances { functions, entries, switch, fork } = entrances;
            Some(Code { functions, entries, switch, fork })
        };
        let mut watch = |_: &Progress| match self.stop.load(Ordering::Relaxed) {
            true => Watch::Stop,
            false => Watch::GoOn,
        };
        let looked = self.venue.look(&job, code, &mut watch)?;
        same_digits(trial, &looked)?;
        let symbols = symbols.into_inner().unwrap_or_else(PoisonError::into_inner);
        let modules = self.venue.modules_of(&trial.plan)?;
        let modules: Vec<_> =
            modules.iter().filter_map(|(name, bytes)| kernel::module::read(name, bytes)).collect();
        say(&format!("fsdyno: reads {} images of its disk", images(&looked.seen)));
        explained(trial, looked, (&symbols.unwrap_or_default(), &modules))
    }

    /// Digits repeat only in the same lab.
    fn same_lab(&self, trial: &Trial) -> Result<(), Failure> {
        let here = self.venue.identity(&trial.plan)?;
        let Some(here) = here.filter(|here| Some(&here.lab_id) != trial.lab_id.as_ref()) else {
            return Ok(());
        };
        let names: BTreeSet<&String> = here.components.keys().chain(trial.lab.keys()).collect();
        let differs = |name: &&&String| here.components.get(**name) != trial.lab.get(**name);
        let differ: Vec<&str> =
            names.iter().filter(differs).map(|name| name.as_str()).take(5).collect();
        Err(Failure::wrong(format!(
            "the trial {} cannot be run a second time to the digit: this lab is another than the one that \
             it ran in ({}); run it again with this fsdyno and explain that",
            trial.trial_id,
            differ.join(", ")
        )))
    }
}

fn images(seen: &[Seen]) -> usize {
    seen.iter().filter(|seen| seen.image.is_some()).count()
}

/// The second pass has to be the first one.
fn same_digits(trial: &Trial, looked: &Looked) -> Result<(), Failure> {
    if looked.ran.report.outcome == Outcome::Ok && looked.ran.report.measured == trial.measured {
        return Ok(());
    }
    let reason = match &looked.ran.report.reason {
        Some(reason) => format!("the second pass failed: {reason}"),
        None => "what it measured differs".into(),
    };
    Err(Failure {
        exit: Exit::TrialFailed,
        message: format!(
            "the second pass of {} did not repeat the first, so it explains nothing: {reason}",
            trial.trial_id
        ),
    })
}

type Kernel<'a> = (&'a [kernel::kallsyms::Symbol], &'a [kernel::module::Module]);

fn explained(trial: &Trial, looked: Looked, kernel: Kernel<'_>) -> Result<Explained, Failure> {
    let phases = trial.measured.phases.iter().map(|phase| Phase {
        name: phase.name.clone(),
        ops: phase.ops.values().map(|ops| ops.count).sum(),
        cpu_ns: phase.cpu_ns,
        ..Phase::default()
    });
    let mut it = Explained {
        label: trial.plan.label.clone(),
        workload: trial.plan.workload.name.clone(),
        trial_id: trial.trial_id.clone(),
        seed: trial.seed,
        phases: phases.collect(),
        host_ns: (trial.host.elapsed_ns, looked.ran.host.elapsed_ns),
        ..Explained::default()
    };
    executed(&mut it, &looked, kernel);
    requests(&mut it, trial, looked)?;
    Ok(it)
}

/// What was executed, by phase.
fn executed(it: &mut Explained, looked: &Looked, (symbols, modules): Kernel<'_>) {
    let counted = |seen: &Seen| -> Vec<Counted> {
        let one = |node: &fsdyno_lab::Node| Counted {
            function: node.function,
            instructions: node.instructions,
            calls: node.calls,
            parent: node.parent,
        };
        seen.counts.nodes.iter().map(one).collect()
    };
    let Some(last) = looked.seen.last() else { return };
    if last.counts.lost > 0 {
        it.notes.push(format!(
            "{} calls found no room in the tree of calls and are counted with their callers",
            last.counts.lost
        ));
    }
    let called: BTreeSet<u64> =
        last.counts.nodes.iter().filter(|node| node.calls > 0).map(|node| node.function).collect();
    let first = looked.seen.iter().find(|seen| seen.stage == Stage::Running);
    let before = first.map_or(&[][..], |seen| &seen.counts.nodes);
    let grew = |(at, node): (usize, &fsdyno_lab::Node)| {
        let calls = before.get(at).map_or(0, |node| node.calls);
        (node.calls > calls).then_some(node.function)
    };
    let late = last.counts.nodes.iter().enumerate().filter_map(grew).collect();
    let names = Names::new(symbols, modules, &called, &late);
    let mut ran = BTreeSet::new();
    for pair in looked.seen.windows(2) {
        let [begun, next] = pair else { continue };
        // A stage is told a moment before its phase's number is.
        let late =
            next.stage == Stage::Running && next.phase != begun.phase && ran.contains(&begun.phase);
        if begun.stage != Stage::Running || late {
            continue;
        }
        ran.insert(begun.phase);
        if let Some(phase) = it.phases.get_mut(usize::from(begun.phase)) {
            phase.executed = kernel::trees(&names, &counted(begun), &counted(next));
        }
    }
}

/// What was asked of the disk.
fn requests(it: &mut Explained, trial: &Trial, looked: Looked) -> Result<(), Failure> {
    let Some(log) = looked.log else {
        it.notes.push("no disk was served, so there are no requests to explain".into());
        return Ok(());
    };
    let kind = trial.plan.filesystem.as_ref().map_or("", |plan| plan.made_kind());
    let lab = trial.plan.lab();
    let raid = lab.is_some_and(|lab| lab.raid.is_some());
    if raid {
        it.notes.push(
            "of an array's disks there is no map yet: their requests are unattributed".into(),
        );
    }
    let journal_disk =
        lab.filter(|lab| lab.journal.is_some()).and_then(|lab| u8::try_from(lab.data_disks()).ok());
    let ground =
        Ground { start: looked.start.0, size: looked.size.map(|size| size.0), journal_disk };
    let wanted = wanted(&log.entries, &ground);
    let mut moments = Vec::new();
    let mut unread: Vec<MapError> = Vec::new();
    for seen in looked.seen {
        let map = seen.image.as_ref().and_then(|image| {
            let read = read_map(kind, image, &wanted);
            read.map_err(|error| unread.push(error)).ok()
        });
        moments.push(Moment { place: (seen.stage, seen.phase), map });
    }
    if moments.iter().all(|moment| moment.map.is_none())
        && let Some(error) = unread.pop()
    {
        return match error {
            MapError::Missing { .. } => {
                Err(Failure { exit: Exit::Missing, message: error.to_string() })
            }
            error => {
                it.notes.push(format!("no map of the disk could be made: {error}"));
                account(it, &log, &moments, &ground);
                Ok(())
            }
        };
    }
    let hangs = unread.iter().filter(|error| matches!(error, MapError::Hangs { .. }));
    it.notes.extend(hangs.map(ToString::to_string));
    let others = unread.iter().filter(|error| !matches!(error, MapError::Hangs { .. })).count();
    if others > 0 {
        it.notes.push(format!(
            "{others} of {} images could not be read as they were (a journal to be replayed, as a rule); \
             the maps before and after them count",
            moments.len()
        ));
    }
    account(it, &log, &moments, &ground);
    Ok(())
}

fn read_map(kind: &str, image: &File, wanted: &[fsdyno_why::map::Range]) -> Result<Map, MapError> {
    if !Map::is_known(kind) {
        return Err(MapError::Unknown(kind.to_string()));
    }
    Map::read(kind, image, wanted)
}

fn account(
    it: &mut Explained,
    log: &fsdyno_disk::log::region::Logged,
    moments: &[Moment],
    ground: &Ground,
) {
    if log.lost > 0 {
        it.notes.push(format!(
            "{} requests found no room in the guest's memory and are in no row",
            log.lost
        ));
    }
    let disks: BTreeSet<u8> = log.entries.iter().map(|entry| entry.disk).collect();
    let busy: u64 = disks.iter().map(|disk| time::busy(&log.entries, *disk).0).sum();
    it.log = Log {
        requests: log.entries.len() as u64,
        bytes: Bytes(log.entries.iter().map(bytes).sum()),
        busy_ns: Nanos(busy),
        lost: log.lost,
    };
    it.account = Some(Account::of(&log.entries, moments, ground));
}

/// A flush moves none.
fn bytes(entry: &fsdyno_disk::log::Entry) -> u64 {
    match entry.action {
        fsdyno_disk::Action::Flush => 0,
        _ => u64::from(entry.sectors) * 512,
    }
}

/// The parts of the file system that any request touches, rising.
fn wanted(entries: &[fsdyno_disk::log::Entry], ground: &Ground) -> Vec<fsdyno_why::map::Range> {
    let timed = entries.iter().filter(|entry| Some(entry.disk) != ground.journal_disk);
    let mut wanted: Vec<_> = timed
        .filter_map(|entry| {
            let from = (entry.sector * 512).checked_sub(ground.start)?;
            Some(from..from + u64::from(entry.sectors) * 512)
        })
        .filter(|range| !range.is_empty())
        .collect();
    wanted.sort_by_key(|range| (range.start, range.end));
    wanted
}
