//! The parts of a worker's trial that replays need: the tree that the first phase finds, and results to be compared.

use std::sync::Arc;

use fsdyno_engine::issue::sync::SyncIssuer;
use fsdyno_engine::progress::PhaseProgress;
use fsdyno_engine::{Recorder, replayed, run_rank};
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
            return Err(WorkerError::plain("the workload's first phase finds no tree"));
        };
        let root = self.directory(self.plan.own.then_some(self.plan.share_of(self.rank, 0)))?;
        let mut issuer = SyncIssuer::new(root, Arc::clone(&self.contents));
        let (progress, mut recorder) = (Arc::new(PhaseProgress::new(1, 1)), Recorder::new());
        link.arm(&progress);
        run_rank(&progress, 0, ops.as_mut(), &mut issuer, &mut recorder, &mut |_| {})
            .map_err(|error| WorkerError::in_phase("before the first", &error.into()))?;
        Ok(FromRank::Prefilled { calls: recorder.counts() })
    }

    /// Closes what a recorded program left open at the end of its last phase, and judges the results of a phase.
    pub(super) fn close_replay(&self, phase: usize, differences: &Differences) -> Option<Replayed> {
        if let Some(slots) = self.slots.as_ref().filter(|_| phase + 1 == self.work.phases().len()) {
            slots.close_all();
        }
        let makes_calls = self.job.plan.issuer != IssuerPlan::Null;
        let recording = self.work.recording().filter(|_| makes_calls)?;
        let (notes, failure) = replayed::judge(differences, &recording, &self.mounted);
        Some(Replayed { differing: differences.count(), notes, failure })
    }
}
