//! The parts of a worker's trial that replays need: the tree that the first phase finds, and results to be compared.

use std::os::fd::AsFd;
use std::sync::Arc;

use fsdyno_engine::issue::sync::SyncIssuer;
use fsdyno_engine::progress::PhaseProgress;
use fsdyno_engine::{Recorder, read_once, replayed, run_rank};
use fsdyno_record::plan::IssuerPlan;
use fsdyno_workload::{Differences, Prefill};

use super::WorkerError;
use super::link::Link;
use super::trial::Trial;
use crate::messages::{FromRank, Replayed};

impl Trial {
    /// Makes the tree that the first phase finds, in the directory of this rank.
    pub(super) fn prefill(&self, link: &Link) -> Result<FromRank, WorkerError> {
        let Some(Prefill { mut ops, .. }) = self.work.prefill() else {
            return Err(WorkerError::plain("the workload has no initial tree"));
        };
        let root = self.directory(self.plan.own.then_some(self.plan.share_of(self.rank, 0)))?;
        let mut issuer = SyncIssuer::new(root, Arc::clone(&self.contents));
        let (progress, mut recorder) = (Arc::new(PhaseProgress::new(1, 1)), Recorder::new());
        link.arm(&progress);
        run_rank(&progress, 0, ops.as_mut(), &mut issuer, &mut recorder, &mut |_| {})
            .map_err(|error| WorkerError::in_phase("prefill", &error.into()))?;
        Ok(FromRank::Prefilled { calls: recorder.counts() })
    }

    /// Reads the initial tree of a recording in this rank's directory once, as an agent does, so that this read changes
    /// the access times that the rank's later reads would otherwise change.
    pub(super) fn read_tree_once(&self, link: &Link) -> Result<(), WorkerError> {
        if self.work.recording().is_none() {
            return Ok(());
        }
        let root = self.directory(self.plan.own.then_some(self.plan.share_of(self.rank, 0)))?;
        read_once(root.as_fd(), &mut |_| link.add_read(1)).map_err(|error| {
            WorkerError::plain(format!("failed to read the initial tree: {error}"))
        })
    }

    /// Closes what a recorded program left open at the end of its last phase, and judges the results of a phase.
    pub(super) fn close_replay(&self, phase: usize, differences: &Differences) -> Option<Replayed> {
        if let Some(slots) = self.slots.as_ref().filter(|_| phase + 1 == self.work.phases().len()) {
            slots.close_all();
        }
        let makes_calls = self.job.plan.issuer != IssuerPlan::Null;
        let recording = self.work.recording().filter(|_| makes_calls)?;
        let (notes, failure) = replayed::judge(differences, &recording, &self.filesystem_type);
        Some(Replayed { differing: differences.count(), notes, failure })
    }
}
