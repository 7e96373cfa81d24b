//! Profiled runs: repeats a trial, and records the instructions that it executes and its disk requests.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fsdyno_lab::Code;
use fsdyno_record::mailbox::{Progress, Stage};
use fsdyno_record::trial::Outcome;
use fsdyno_record::units::rough;
use fsdyno_record::{Bytes, Nanos, Trial};
use fsdyno_report::counted;
use fsdyno_venue::{LabVenue, ProfiledRun, StageStart, Venue, Watch};
use fsdyno_why::account::Dot;
use fsdyno_why::kernel::{self, Counted, Names};
use fsdyno_why::{
    Access, Account, Explained, FsDevices, Grid, Log, Map, MapError, Phase, StageMap, time,
};

use crate::failure::{Exit, Failure};
use crate::notes::say;
use crate::rerun;
use crate::speed::took;

/// The venue of profiled runs, which repeat stored trials.
pub struct Explainer {
    venue: LabVenue,
    stop: Arc<AtomicBool>,
}

impl Explainer {
    /// Finds a lab for each kernel of these trials. `requested` holds the values of `--kernel`, for kernels that
    /// cannot be found by their release.
    pub fn new<'a>(
        trials: impl Iterator<Item = &'a Trial>,
        requested: &[String],
        stop: &Arc<AtomicBool>,
    ) -> Result<Explainer, Failure> {
        let venue = rerun::find_venue(trials, requested, stop)?;
        Ok(Explainer { venue, stop: Arc::clone(stop) })
    }

    /// Repeats a trial as a profiled run and explains it.
    pub fn explain(&self, trial: &Trial) -> Result<Explained, Failure> {
        self.check_lab(trial)?;
        let name = format!("{} on {}", trial.plan.workload.name, trial.plan.label);
        say(&format!(
            "fsdyno: profiled run of {name}, seed {}; the first run took {}, and this one takes up to twice as long",
            trial.seed,
            rough(took(trial))
        ));
        let job = rerun::job(trial);
        let symbols = Mutex::new(None);
        let code = |image: &[u8]| {
            let found = kernel::kallsyms::read(image)?;
            let entry_points = kernel::entry_points(&found)?;
            *symbols.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
            let kernel::EntryPoints { functions, entries, interrupts, switch, fork } = entry_points;
            Some(Code { functions, entries, interrupts, switch, fork })
        };
        let mut watch = |_: &Progress| match self.stop.load(Ordering::Relaxed) {
            true => Watch::Stop,
            false => Watch::GoOn,
        };
        let profiled = self.venue.profile(&job, code, &mut watch)?;
        check_identical(trial, &profiled)?;
        let symbols = symbols.into_inner().unwrap_or_else(PoisonError::into_inner);
        let modules = self.venue.modules_of(&trial.plan)?;
        let modules: Vec<_> =
            modules.iter().filter_map(|(name, bytes)| kernel::module::read(name, bytes)).collect();
        let images = counted(count_images(&profiled.stages), "image");
        say(&format!("fsdyno: reading {images} of its disk"));
        build_explanation(trial, profiled, (&symbols.unwrap_or_default(), &modules))
    }

    /// Refuses a lab other than the trial's: trials are bit-identical only under one lab identity.
    fn check_lab(&self, trial: &Trial) -> Result<(), Failure> {
        let current = self.venue.identity(&trial.plan)?;
        let Some(current) = current.filter(|lab| Some(&lab.lab_id) != trial.lab_id.as_ref()) else {
            return Ok(());
        };
        let differ = rerun::differing_components(&current, trial);
        Err(Failure::invalid_use(format!(
            "the trial {} cannot be repeated bit-identically: this lab differs from the one that it ran in ({}); \
             run the workload with this fsdyno and explain that result",
            trial.trial_id,
            differ.iter().take(5).cloned().collect::<Vec<_>>().join(", ")
        )))
    }
}

fn count_images(stages: &[StageStart]) -> usize {
    stages.iter().filter(|stage| stage.image.is_some()).count()
}

/// Checks that the profiled run is bit-identical to the first one.
fn check_identical(trial: &Trial, profiled: &ProfiledRun) -> Result<(), Failure> {
    if profiled.trial.report.outcome == Outcome::Ok
        && profiled.trial.report.measured == trial.measured
    {
        return Ok(());
    }
    let reason = match &profiled.trial.report.reason {
        Some(reason) => format!("it failed: {reason}"),
        None => "its measurements differ".into(),
    };
    Err(Failure {
        exit: Exit::TrialFailed,
        message: format!(
            "the profiled run of {} is not bit-identical to the first run: {reason}",
            trial.trial_id
        ),
    })
}

type Kernel<'a> = (&'a [kernel::kallsyms::Symbol], &'a [kernel::module::Module]);

fn build_explanation(
    trial: &Trial,
    profiled: ProfiledRun,
    kernel: Kernel<'_>,
) -> Result<Explained, Failure> {
    let processor = trial.plan.lab().and_then(|lab| lab.cpu.processor());
    let instruction_ns = processor.map(|processor| 1000.0 / processor.instructions_per_us as f64);
    let phases = trial.measured.phases.iter().map(|phase| Phase {
        name: phase.name.clone(),
        ops: phase.ops.values().map(|ops| ops.count).sum(),
        took_ns: phase.durable_ns.unwrap_or(phase.returned_ns),
        cpu_ns: phase.cpu_ns,
        instruction_ns,
        ..Phase::default()
    });
    let mut explained = Explained {
        label: trial.plan.label.clone(),
        plan_label: trial.plan.label.clone(),
        workload: trial.plan.workload.name.clone(),
        trial_id: trial.trial_id.clone(),
        lab_id: trial.lab_id.clone(),
        seed: trial.seed,
        access: access(trial),
        phases: phases.collect(),
        host_ns: (trial.host.elapsed_ns, profiled.trial.host.elapsed_ns),
        ..Explained::default()
    };
    add_executed(&mut explained, &profiled, kernel);
    add_requests(&mut explained, trial, profiled)?;
    Ok(explained)
}

/// Returns the kind of access of a trial's disks: rotational or not, local or over a network.
fn access(trial: &Trial) -> Access {
    let medium = &trial.plan.medium;
    let disks = || medium.disk().into_iter().chain(medium.journal());
    let rotational = disks().any(|disk| disk.spec["queue"]["rotational"] == true);
    Access::new(rotational, disks().any(|disk| disk.spec["model"]["law"] == "network"))
}

/// Adds the executed instructions of each phase.
fn add_executed(explained: &mut Explained, profiled: &ProfiledRun, (symbols, modules): Kernel<'_>) {
    let counted = |seen: &StageStart| -> Vec<Counted> {
        let one = |node: &fsdyno_lab::Node| Counted {
            function: node.function,
            instructions: node.instructions,
            calls: node.calls,
            charged: node.charged,
            parent: node.parent,
        };
        seen.counts.nodes.iter().map(one).collect()
    };
    let Some(last) = profiled.stages.last() else { return };
    if last.counts.lost > 0 {
        explained.notes.push(format!(
            "{} calls did not fit in the call tree and are not counted, so later phases show too few instructions",
            last.counts.lost
        ));
    }
    let all: BTreeSet<u64> =
        last.counts.nodes.iter().filter(|node| node.calls > 0).map(|node| node.function).collect();
    let first = profiled.stages.iter().find(|seen| seen.stage == Stage::Running);
    let before = first.map_or(&[][..], |seen| &seen.counts.nodes);
    let grown = |(index, node): (usize, &fsdyno_lab::Node)| {
        let calls = before.get(index).map_or(0, |node| node.calls);
        (node.calls > calls).then_some(node.function)
    };
    let after_loading = last.counts.nodes.iter().enumerate().filter_map(grown).collect();
    let calls = kernel::Calls { all, after_loading, code_by_address: last.counts.codes.clone() };
    let names = Names::new(symbols, modules, calls);
    let mut counted_phases = BTreeSet::new();
    for pair in profiled.stages.windows(2) {
        let [begun, next] = pair else { continue };
        // The guest reports a stage slightly before the number of its phase.
        let is_late = next.stage == Stage::Running
            && next.phase != begun.phase
            && counted_phases.contains(&begun.phase);
        if begun.stage != Stage::Running || is_late {
            continue;
        }
        counted_phases.insert(begun.phase);
        if let Some(phase) = explained.phases.get_mut(usize::from(begun.phase)) {
            phase.set_executed(&kernel::trees(&names, &counted(begun), &counted(next)));
        }
    }
}

/// Adds the disk requests of each phase.
fn add_requests(
    explained: &mut Explained,
    trial: &Trial,
    profiled: ProfiledRun,
) -> Result<(), Failure> {
    let Some(log) = profiled.log else {
        explained.notes.push("there is no disk, so there are no requests to explain".into());
        return Ok(());
    };
    let kind = trial.plan.filesystem.as_ref().map_or("", |plan| plan.made_kind());
    let medium = &trial.plan.medium;
    let raid = medium.raid().is_some();
    if raid {
        explained
            .notes
            .push("disks of an array are not mapped: their requests are unattributed".into());
    }
    let journal_disk = medium.journal().and_then(|_| u8::try_from(medium.data_disks()).ok());
    let devices =
        FsDevices { start: profiled.start.0, size: profiled.size.map(|size| size.0), journal_disk };
    let requested_ranges = requested_ranges(&log.entries, &devices);
    let (maps, mut map_errors) =
        read_maps(profiled.stages, |image| Map::read(kind, image, &requested_ranges));
    if maps.iter().all(|moment| moment.map.is_none())
        && let Some(error) = map_errors.pop()
    {
        return match error {
            MapError::Missing { .. } => {
                Err(Failure { exit: Exit::Missing, message: error.to_string() })
            }
            error => {
                explained.notes.push(format!("the disk could not be mapped: {error}"));
                add_account(explained, &log, &maps, &devices);
                Ok(())
            }
        };
    }
    explained.notes.extend(notes_on_unread(&map_errors, maps.len()));
    add_account(explained, &log, &maps, &devices);
    Ok(())
}

/// Maps all images, and also returns the errors. A tool that hung is not run again, because it would take its full
/// deadline for each image.
fn read_maps(
    seen: Vec<StageStart>,
    map: impl Fn(&std::fs::File) -> Result<Map, MapError>,
) -> (Vec<StageMap>, Vec<MapError>) {
    let mut map_errors: Vec<MapError> = Vec::new();
    let moment = |seen: StageStart| {
        let hung = matches!(map_errors.last(), Some(MapError::Timeout { .. }));
        let image = seen.image.as_ref().filter(|_| !hung);
        let map = image.and_then(|image| map(image).map_err(|error| map_errors.push(error)).ok());
        StageMap { place: (seen.stage, seen.phase), map }
    };
    let maps = seen.into_iter().map(moment).collect();
    (maps, map_errors)
}

/// Returns notes on images without a map.
fn notes_on_unread(map_errors: &[MapError], images: usize) -> Vec<String> {
    let hangs = |error: &&MapError| matches!(error, MapError::Timeout { .. });
    let mut notes: Vec<String> = map_errors
        .iter()
        .filter(hangs)
        .map(|error| format!("{error}; later images are not mapped, and earlier maps are used"))
        .collect();
    let others = map_errors.iter().filter(|error| !hangs(error)).count();
    if others > 0 {
        notes.push(format!(
            "{others} of {images} images are unreadable (usually because the journal needs a replay); the maps \
             before and after them are used"
        ));
    }
    notes
}

fn add_account(
    explained: &mut Explained,
    log: &fsdyno_disk::log::region::RequestLog,
    maps: &[StageMap],
    devices: &FsDevices,
) {
    if log.lost > 0 {
        explained.notes.push(format!(
            "{} requests did not fit in the guest's memory and are in no row",
            log.lost
        ));
    }
    let disks: BTreeSet<u8> = log.entries.iter().map(|entry| entry.disk).collect();
    let busy: u64 = disks.iter().map(|disk| time::busy(&log.entries, *disk).0).sum();
    explained.log = Log {
        requests: log.entries.len() as u64,
        bytes: Bytes(log.entries.iter().map(bytes).sum()),
        busy_ns: Nanos(busy),
        lost: log.lost,
    };
    let account = Account::attribute(&log.entries, maps, devices);
    for (index, phase) in (0u16..).zip(&mut explained.phases) {
        let of_phase = |dot: &&Dot| dot.place == (Stage::Running, index);
        let dots: Vec<Dot> = account.dots.iter().filter(of_phase).copied().collect();
        phase.requests = Grid::new(&dots);
        let entries = || {
            log.entries.iter().filter(|entry| (entry.stage, entry.phase) == (Stage::Running, index))
        };
        let disks: BTreeSet<u8> = entries().map(|entry| entry.disk).collect();
        phase.any_busy_ns = (disks.len() > 1).then(|| time::union(entries()));
    }
    explained.account = Some(account);
}

/// Returns the number of bytes of a request; a flush has none.
fn bytes(entry: &fsdyno_disk::log::Entry) -> u64 {
    match entry.action {
        fsdyno_disk::Action::Flush => 0,
        _ => u64::from(entry.sectors) * 512,
    }
}

/// Returns the ranges of the file system that requests touch, in ascending order.
fn requested_ranges(
    entries: &[fsdyno_disk::log::Entry],
    devices: &FsDevices,
) -> Vec<fsdyno_why::map::Range> {
    let timed = entries.iter().filter(|entry| Some(entry.disk) != devices.journal_disk);
    let mut requested_ranges: Vec<_> = timed
        .filter_map(|entry| {
            let from = entry.sector.checked_mul(512)?.checked_sub(devices.start)?;
            Some(from..from.checked_add(u64::from(entry.sectors) * 512)?)
        })
        .filter(|range| !range.is_empty())
        .collect();
    requested_ranges.sort_by_key(|range| (range.start, range.end));
    requested_ranges
}

#[cfg(test)]
mod tests {
    use fsdyno_disk::Action;
    use fsdyno_disk::log::Entry;
    use fsdyno_disk::log::region::RequestLog;

    use super::*;

    #[test]
    fn a_tool_that_hangs_runs_once_and_is_noted() {
        let seen = |phase| StageStart {
            stage: Stage::Running,
            phase,
            image: Some(tempfile::tempfile().unwrap()),
            counts: Default::default(),
        };
        let calls = std::cell::Cell::new(0);
        let map = |_: &std::fs::File| {
            calls.set(calls.get() + 1);
            match calls.get() {
                1 => Ok(Map::default()),
                2 => Err(MapError::Unreadable { tool: "xfs_db", message: "dirty".into() }),
                _ => Err(MapError::Timeout {
                    tool: "xfs_db",
                    deadline: fsdyno_why::map::tool::DEADLINE,
                }),
            }
        };
        let (maps, map_errors) = read_maps((0..6).map(seen).collect(), map);
        assert_eq!((maps.len(), calls.get()), (6, 3));
        assert_eq!(maps.iter().filter(|moment| moment.map.is_some()).count(), 1);
        let notes = notes_on_unread(&map_errors, maps.len());
        assert!(notes[0].starts_with("xfs_db did not finish within 300 s"), "{notes:?}");
        assert!(notes[1].starts_with("1 of 6 images are unreadable"), "{notes:?}");
        assert!(notes_on_unread(&[], 6).is_empty());
    }

    fn entry(arrived: u64) -> Entry {
        Entry {
            arrived: Nanos(arrived),
            response: Nanos(5),
            action: Action::Read,
            sector: 8,
            sectors: 8,
            fua: false,
            untimed: false,
            failed: false,
            disk: 0,
            stage: Stage::Running,
            phase: 0,
        }
    }

    #[test]
    fn a_request_beyond_all_addresses_has_no_range() {
        let far = Entry { sector: u64::MAX / 512, sectors: u32::MAX, ..entry(0) };
        let beyond = Entry { sector: u64::MAX, ..entry(0) };
        let found = requested_ranges(&[far, beyond, entry(0)], &FsDevices::default());
        assert_eq!((found.len(), found[0].clone()), (1, 4096..8192));
    }

    #[test]
    fn a_truncated_log_is_noted_and_its_requests_are_counted() {
        let log = RequestLog { entries: vec![entry(0), entry(100)], lost: 7 };
        let mut explained = Explained { phases: vec![Phase::default()], ..Explained::default() };
        add_account(&mut explained, &log, &[], &FsDevices::default());
        assert_eq!((explained.log.requests, explained.log.lost), (2, 7));
        assert!(explained.notes[0].starts_with("7 requests did not fit"), "{:?}", explained.notes);
        let account = explained.account.unwrap();
        let all = account.sum(|_| true);
        assert_eq!((all.requests, all.time_ns), (2, explained.log.busy_ns));
        assert_eq!(account.attributed_shares(), (0.0, 0.0), "no map, no guess");
    }
}
