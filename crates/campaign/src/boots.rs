//! The snapshots of booted guests that trials resume from: finds those that are missing, and makes them.

use std::collections::BTreeSet;
use std::time::Instant;

use fsdyno_record::Plan;
use fsdyno_venue::{Venue, VenueError};

use crate::matrix_request::Cell;
use crate::speed::Speeds;

/// Returns the keys of the snapshots that the trials of these cells need and that have to be made first.
pub fn missing<'c>(cells: impl Iterator<Item = &'c Cell>, venue: &dyn Venue) -> BTreeSet<String> {
    let cells = cells.filter(|cell| cell.skip.is_none());
    // A cell that cannot run needs none.
    cells.filter_map(|cell| venue.missing_snapshot(&cell.plan).ok().flatten()).collect()
}

/// Makes the snapshot that a plan's trials resume from, unless it exists, and stores how long that takes on this host.
pub(crate) fn make(venue: &dyn Venue, plan: &Plan) -> Result<(), VenueError> {
    if plan.lab().is_none_or(|lab| lab.boot.is_cold()) {
        return Ok(());
    }
    let is_missing = venue.missing_snapshot(plan)?.is_some();
    let start = Instant::now();
    venue.identity(plan)?;
    if is_missing {
        Speeds::learn_boot(start.elapsed());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use fsdyno_record::Job;
    use fsdyno_record::mailbox::Progress;
    use fsdyno_record::plan::BootPlan;
    use fsdyno_venue::{FinishedTrial, Identity, Watch};

    use super::*;
    use crate::{Experiment, LabPlace, MatrixRequest, Place, RunSpec, matrix};

    /// A lab with the snapshot of xfs, and without the tools of btrfs.
    struct LabWithXfs;

    impl Venue for LabWithXfs {
        fn identity(&self, _: &Plan) -> Result<Option<Identity>, VenueError> {
            Ok(None)
        }

        fn missing_snapshot(&self, plan: &Plan) -> Result<Option<String>, VenueError> {
            match plan.filesystem.as_ref().map(|filesystem| filesystem.kind.as_str()) {
                Some("xfs") => Ok(None),
                Some("btrfs") => Err(VenueError::Missing("its tools".into())),
                kind => Ok(kind.map(String::from)),
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

    #[test]
    fn a_guest_of_several_trials_needs_one_snapshot_and_a_cold_one_needs_none() {
        let count = |boot, machines: &[&str]| {
            let mut spec = RunSpec {
                workloads: vec!["dirops".into(), "maildir".into()],
                repeat: 3,
                ..RunSpec::default()
            };
            spec.axes.filesystems = ["ext4", "xfs"].map(String::from).to_vec();
            spec.axes.machines = machines.iter().map(ToString::to_string).collect();
            spec.axes.guest.boot = boot;
            Experiment::resolve(spec).unwrap().needed_snapshots().len()
        };
        assert_eq!(count(BootPlan::Snapshot, &["server-2026"]), 2);
        assert_eq!(count(BootPlan::Snapshot, &["server-2026", "laptop-2026"]), 4);
        assert_eq!(count(BootPlan::Cold, &["server-2026"]), 0);
    }

    #[test]
    fn a_snapshot_that_several_rows_share_is_made_once() {
        let request = MatrixRequest {
            deadline: crate::DEFAULT_DEADLINE,
            workloads: vec!["dirops".into(), "maildir".into()],
            filesystems: ["ext4", "xfs", "btrfs", "f2fs"].map(String::from).to_vec(),
            threads: 1,
            ..MatrixRequest::default()
        };
        let mut lab = LabPlace::with_defaults("hdd-7200", "6.13.0-amd64");
        lab.guest.boot = BootPlan::Snapshot;
        let cells = matrix(&request, &Place::Lab(lab)).unwrap();
        assert_eq!(cells.len(), 8);
        let keys = ["ext4", "f2fs"].map(String::from).into();
        assert_eq!(missing(cells.iter(), &LabWithXfs), keys);
    }
}
