//! Tests of runs through mock venues.

use std::collections::{BTreeMap, BTreeSet};

use fsdyno_record::Bytes;
use fsdyno_record::plan::{
    BootPlan, DiskPlan, LabPlan, MediumPlan, VenuePlan, VerifyMode, WorkloadPlan,
};
use fsdyno_record::trial::AgentReport;

use fsdyno_record::Nanos;

use super::*;
use crate::DEFAULT_DEADLINE;
use crate::schedule::schedule;

/// A venue that answers at once with the result of its function.
struct FakeVenue<F>(F);

impl<F: Fn(&Job) -> Result<AgentReport, VenueError> + Sync> Venue for FakeVenue<F> {
    fn identity(&self, _plan: &Plan) -> Result<Option<Identity>, VenueError> {
        let components = [("agent".to_string(), "here".to_string())].into();
        Ok(Some(Identity { lab_id: "here".into(), components }))
    }

    fn run(
        &self,
        job: &Job,
        watch: &mut dyn FnMut(&Progress) -> Watch,
    ) -> Result<FinishedTrial, VenueError> {
        let progress = fsdyno_record::mailbox::Progress {
            stage: fsdyno_record::mailbox::Stage::Running,
            phase: 0,
            phases: 1,
            ops_done: 1,
            ops_total: 1,
            now: Nanos(1),
            requests: 0,
        };
        if watch(&progress) == Watch::Stop {
            return Err(VenueError::Stopped);
        }
        let report = (self.0)(job)?;
        Ok(FinishedTrial { report, host: Host::default(), identity: self.identity(&job.plan)? })
    }
}

fn cells() -> Vec<Cell> {
    ["a", "b"]
        .map(|path| {
            let plan = Plan {
                label: path.into(),
                workload: WorkloadPlan {
                    name: "dirops".into(),
                    params: Default::default(),
                    input: None,
                },
                filesystem: None,
                medium: MediumPlan::Modelled(
                    DiskPlan { name: "d".into(), spec: path.into() }.into(),
                ),
                venue: VenuePlan::Lab(LabPlan::new("6.1", Bytes(1 << 30))),
                threads: 1,
                issuer: fsdyno_record::plan::IssuerPlan::Sync,
                verify: VerifyMode::Full,
                sysctls: Default::default(),
                hash: String::new(),
            };
            let (needs, phases) = (Default::default(), Vec::new());
            Cell {
                row: 0,
                plan: plan.with_hash(),
                needs,
                phases,
                skip: None,
                deadline: DEFAULT_DEADLINE,
            }
        })
        .into()
}

fn succeed(_: &Job) -> Result<AgentReport, VenueError> {
    Ok(AgentReport { outcome: Outcome::Ok, ..AgentReport::default() })
}

fn run_all(venue: &dyn Venue, store: &mut Store, stop: bool) -> Result<Summary, RunError> {
    run_cells(&cells(), venue, store, stop)
}

fn runner(jobs: usize, stop: &AtomicBool) -> Runner<'_> {
    Runner { jobs, build: None, stop, observer: &() }
}

fn run_cells(
    cells: &[Cell],
    venue: &dyn Venue,
    store: &mut Store,
    stop: bool,
) -> Result<Summary, RunError> {
    let stop = AtomicBool::new(stop);
    run(&schedule(2, 3, 1), cells, venue, store, &runner(2, &stop))
}

#[test]
fn every_record_names_the_build_whatever_its_outcome() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path()).unwrap();
    let mut cells = cells();
    cells[1].skip = Some("Linux 6.13 no longer has it".into());
    let (stop, build) = (AtomicBool::new(false), Build { commit: "7d48d33".into(), dirty: true });
    let runner = Runner { build: Some(&build), ..runner(1, &stop) };
    run(&schedule(2, 1, 1), &cells, &FakeVenue(succeed), &mut store, &runner).unwrap();
    let stored = Store::read_trials(folder.path()).unwrap();
    let outcome_and_program = |trial: &Trial| (trial.outcome, trial.program());
    let found: BTreeSet<(bool, String)> = stored
        .iter()
        .map(outcome_and_program)
        .map(|(outcome, it)| (outcome == Outcome::Ok, it))
        .collect();
    let program = format!("{} (7d48d33, dirty)", env!("CARGO_PKG_VERSION"));
    assert_eq!(found, BTreeSet::from([(true, program.clone()), (false, program)]));
}

#[test]
fn every_trial_is_stored_and_a_second_run_has_nothing_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path()).unwrap();
    let summary = run_all(&FakeVenue(succeed), &mut store, false).unwrap();
    assert_eq!(summary, Summary { ok: 6, ..Summary::default() });
    let summary = run_all(&FakeVenue(succeed), &mut store, false).unwrap();
    assert_eq!(summary, Summary { already_stored: 6, ..Summary::default() });
    assert_eq!(store.trials().len(), 6);
}

#[test]
fn a_failed_trial_is_recorded_with_the_reason_and_run_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path()).unwrap();
    let fail = |_: &Job| Err(VenueError::Failed("killed by signal 9".into()));
    assert_eq!(run_all(&FakeVenue(fail), &mut store, false).unwrap().failed, 6);
    assert_eq!(store.trials()[0].reason.as_deref(), Some("killed by signal 9"));
    assert_eq!(run_all(&FakeVenue(succeed), &mut store, false).unwrap().ok, 6);
    let current = crate::without_superseded(store.trials());
    assert!(current.iter().all(|trial| trial.outcome == Outcome::Ok), "a failure remains");
}

#[test]
fn a_failure_records_the_identity_of_its_lab() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path()).unwrap();
    let fail = |_: &Job| Err(VenueError::Failed("x".into()));
    run_all(&FakeVenue(fail), &mut store, false).unwrap();
    assert!(store.trials().iter().all(|trial| trial.lab_id.as_deref() == Some("here")));
}

#[test]
fn a_label_keeps_its_row_number_when_a_later_command_uses_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path()).unwrap();
    run_all(&FakeVenue(succeed), &mut store, false).unwrap();
    let rows = |store: &Store| {
        let label_and_row = |trial: &Trial| (trial.plan.label.clone(), trial.row.unwrap());
        store.trials().iter().map(label_and_row).collect::<BTreeMap<_, _>>()
    };
    let rows_of = |all: &[(&str, u32)]| {
        all.iter().map(|(label, row)| (label.to_string(), *row)).collect::<BTreeMap<_, _>>()
    };
    assert_eq!(rows(&store), rows_of(&[("a", 0), ("b", 1)]));
    // Another command in the same folder names a new row first.
    let mut cells = cells();
    cells[0].plan.label = "new".into();
    run_cells(&cells, &FakeVenue(succeed), &mut store, false).unwrap();
    assert_eq!(rows(&store), rows_of(&[("a", 0), ("b", 1), ("new", 2)]));
}

#[test]
fn the_same_plan_under_another_label_is_another_row_and_runs() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path()).unwrap();
    run_all(&FakeVenue(succeed), &mut store, false).unwrap();
    let mut cells = cells();
    cells[1] = cells[0].clone();
    cells[1].plan.label = "twin".into();
    let summary = run_cells(&cells, &FakeVenue(succeed), &mut store, false).unwrap();
    assert_eq!(summary, Summary { ok: 3, already_stored: 3, ..Summary::default() });
}

#[test]
fn a_cell_that_cannot_run_here_is_stored_once_with_its_reason_and_the_rest_runs() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path()).unwrap();
    let mut cells = cells();
    cells[1].skip = Some("Linux 6.13 no longer has it".into());
    let summary = run_cells(&cells, &FakeVenue(succeed), &mut store, false).unwrap();
    assert_eq!(summary, Summary { ok: 3, skipped: 3, ..Summary::default() });
    let summary = run_cells(&cells, &FakeVenue(succeed), &mut store, false).unwrap();
    assert_eq!(summary, Summary { already_stored: 3, skipped: 3, ..Summary::default() });
    let skipped: Vec<&Trial> =
        store.trials().iter().filter(|trial| trial.outcome == Outcome::Skipped).collect();
    assert_eq!(skipped.len(), 3);
    assert_eq!(skipped[0].reason.as_deref(), Some("Linux 6.13 no longer has it"));
}

#[test]
fn one_worker_stores_trials_and_skips_in_the_order_of_the_schedule() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path()).unwrap();
    let mut cells = cells();
    cells[1].skip = Some("Linux 6.13 no longer has it".into());
    let (order, stop) = (schedule(2, 4, 1), AtomicBool::new(false));
    run(&order, &cells, &FakeVenue(succeed), &mut store, &runner(1, &stop)).unwrap();
    let stored: Vec<(&str, u64)> =
        store.trials().iter().map(|trial| (trial.plan.label.as_str(), trial.seed)).collect();
    let planned: Vec<(&str, u64)> =
        order.iter().map(|slot| (cells[slot.cell].plan.label.as_str(), slot.seed)).collect();
    assert_eq!(stored, planned);
}

/// A venue whose directory is on the given mount; a test changes the mount between runs.
struct DirectoryVenue(&'static str);

impl Venue for DirectoryVenue {
    fn identity(&self, _plan: &Plan) -> Result<Option<Identity>, VenueError> {
        Ok(None)
    }

    fn fingerprint(&self, _plan: &Plan) -> Result<BTreeMap<String, String>, VenueError> {
        Ok([("mount".to_string(), self.0.to_string())].into())
    }

    fn run(
        &self,
        _: &Job,
        _: &mut dyn FnMut(&Progress) -> Watch,
    ) -> Result<FinishedTrial, VenueError> {
        let mut report = AgentReport { outcome: Outcome::Ok, ..AgentReport::default() };
        report.conditions.mount = self.0.to_string();
        Ok(FinishedTrial { report, host: Host::default(), identity: None })
    }
}

#[test]
fn another_file_system_on_the_same_directory_is_refused_even_with_nothing_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path()).unwrap();
    assert_eq!(run_all(&DirectoryVenue("ext4 rw"), &mut store, false).unwrap().ok, 6);
    assert_eq!(run_all(&DirectoryVenue("ext4 rw"), &mut store, false).unwrap().already_stored, 6);
    let error = run_all(&DirectoryVenue("tmpfs rw"), &mut store, false).unwrap_err().to_string();
    assert!(error.contains("mount 'ext4 rw'") && error.contains("'tmpfs rw' now"), "{error}");
}

#[test]
fn host_and_lab_trials_are_never_stored_together_and_trials_of_other_requests_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path()).unwrap();
    run_all(&FakeVenue(succeed), &mut store, false).unwrap();
    let mut cells = cells();
    for cell in &mut cells {
        cell.plan.medium = MediumPlan::Directory { path: "/srv".into() };
        cell.plan.venue = VenuePlan::Host;
        cell.plan = cell.plan.clone().with_hash();
    }
    let error =
        run_cells(&cells, &DirectoryVenue("ext4 rw"), &mut store, false).unwrap_err().to_string();
    assert!(error.contains("ran in the lab, and these would run on a host"), "{error}");
    let (count, rows) = crate::compatibility::unrequested_trials(&cells, store.trials().iter());
    assert_eq!((count, rows.len()), (6, 2), "{rows:?}");
    assert!(rows[0].contains(", lab"), "{rows:?}");
    assert_eq!(
        crate::compatibility::unrequested_trials(&self::cells(), store.trials().iter()).0,
        0
    );
}

#[test]
fn a_stopped_run_stores_nothing_of_its_running_trials() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path()).unwrap();
    let summary = run_all(&FakeVenue(succeed), &mut store, true).unwrap();
    assert_eq!(summary, Summary { left: 6, ..Summary::default() });
    assert!(store.trials().is_empty());
}

#[test]
fn a_missing_requirement_of_all_trials_ends_the_run_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path()).unwrap();
    let fail = |_: &Job| Err(VenueError::Missing("no QEMU".into()));
    assert!(matches!(run_all(&FakeVenue(fail), &mut store, false), Err(RunError::Missing(_))));
    assert!(store.trials().is_empty());
}

#[test]
fn trials_of_two_labs_are_never_stored_in_one_folder() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path()).unwrap();
    let one_fails = |job: &Job| {
        if job.seed == 3 { Err(VenueError::Failed("x".into())) } else { succeed(job) }
    };
    run_all(&FakeVenue(one_fails), &mut store, false).unwrap();
    drop(store);
    let path = folder.path().join(fsdyno_record::lines::FILE);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("\"here\"", "\"there\"")).unwrap();
    let mut store = Store::open(folder.path()).unwrap();
    let error = run_all(&FakeVenue(succeed), &mut store, false).unwrap_err();
    assert!(error.to_string().contains("different: agent"), "{error}");
}

/// A venue that must not boot a guest to create a snapshot.
struct NoBoot;

impl Venue for NoBoot {
    fn identity(&self, plan: &Plan) -> Result<Option<Identity>, VenueError> {
        assert_eq!(plan.lab().map(|lab| lab.boot), Some(BootPlan::Cold), "a snapshot was made");
        FakeVenue(succeed).identity(plan)
    }

    fn run(
        &self,
        _: &Job,
        _: &mut dyn FnMut(&Progress) -> Watch,
    ) -> Result<FinishedTrial, VenueError> {
        Err(VenueError::Stopped)
    }
}

#[test]
fn a_dry_run_boots_no_guest_and_still_detects_a_different_lab() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path()).unwrap();
    run_all(&FakeVenue(succeed), &mut store, false).unwrap();
    let mut cells = cells();
    let mut stored = store.trials().to_vec();
    for plan in cells
        .iter_mut()
        .map(|cell| &mut cell.plan)
        .chain(stored.iter_mut().map(|trial| &mut trial.plan))
    {
        plan.lab_mut().unwrap().boot = BootPlan::Snapshot;
    }
    check_compatible(&cells, &NoBoot, &[], Mode::Run).unwrap();
    check_compatible(&cells, &NoBoot, &stored, Mode::Dry).unwrap();
    stored[0].lab.insert("agent".into(), "there".into());
    let error = check_compatible(&cells, &NoBoot, &stored, Mode::Dry).unwrap_err();
    assert!(error.to_string().contains("different: agent"), "{error}");
}
