//! Tests that a row whose options mkfs refuses runs one trial, and that its other trials are stored as skipped.

#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

use std::sync::atomic::AtomicBool;

use fsdyno_campaign::{
    Cell, DEFAULT_DEADLINE, LabPlace, MatrixRequest, Place, Runner, Store, Summary, matrix, run,
    schedule,
};
use fsdyno_record::mailbox::Progress;
use fsdyno_record::trial::{AgentReport, Host, Outcome, Trial};
use fsdyno_record::{Job, Plan};
use fsdyno_venue::venue::Identity;
use fsdyno_venue::{FinishedTrial, Venue, VenueError, Watch};

/// A lab in which mke2fs refuses its options, the kernel refuses a mount of xfs, and jfs runs out of memory.
struct RefusingLab;

impl Venue for RefusingLab {
    fn identity(&self, _: &Plan) -> Result<Option<Identity>, VenueError> {
        Ok(None)
    }

    fn run(
        &self,
        job: &Job,
        _: &mut dyn FnMut(&Progress) -> Watch,
    ) -> Result<FinishedTrial, VenueError> {
        let mut report = AgentReport::default();
        report.conditions.mkfs = vec!["mke2fs".into(), "/dev/nbd0".into()];
        let reason = match job.plan.filesystem.as_ref().unwrap().kind.as_str() {
            "ext4" => "prepare: mke2fs /dev/nbd0 failed (exit code 1): too small",
            "xfs" => "prepare: mount -t xfs -o 'x' /dev/nbd0: Invalid argument (os error 22)",
            _ => "prepare: no memory",
        };
        report.reason = Some(reason.into());
        Ok(FinishedTrial { report, host: Host::default(), identity: None })
    }
}

fn cells() -> Vec<Cell> {
    let matrix_request = MatrixRequest {
        deadline: DEFAULT_DEADLINE,
        workloads: vec!["dirops".into(), "tarball".into()],
        filesystems: ["ext4 -I 128", "xfs", "jfs"].map(String::from).into(),
        threads: 1,
        ..MatrixRequest::default()
    };
    let lab = LabPlace::with_defaults("hdd-7200", "6.1.0");
    matrix(&matrix_request, &Place::Lab(lab)).unwrap()
}

#[test]
fn a_refused_row_is_run_once_and_other_failures_are_run_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path()).unwrap();
    let cells = cells();
    // The second round is the same command: trials stored as skipped are not stored again.
    for _ in 0..2 {
        let (order, stop) = (schedule(cells.len(), 2, 1), AtomicBool::new(false));
        let runner = Runner { jobs: 1, build: None, stop: &stop, observer: &() };
        let summary = run(&order, &cells, &RefusingLab, &mut store, &runner).unwrap();
        // Two workloads under two seeds: one failure each for ext4 and xfs, all four for jfs.
        assert_eq!(summary, Summary { failed: 6, skipped: 6, ..Summary::default() });
    }
    let skipped: Vec<&Trial> =
        store.trials().iter().filter(|trial| trial.outcome == Outcome::Skipped).collect();
    assert_eq!(skipped.len(), 6, "stored once, however often the command runs");
    for trial in skipped {
        let reason = trial.reason.as_deref().unwrap();
        let ending = match trial.plan.label.as_str() {
            "xfs" => "Invalid argument (os error 22)",
            _ => "failed (exit code 1): too small",
        };
        assert!(reason.starts_with("not run: trial ") && reason.ends_with(ending), "{reason}");
    }
}
