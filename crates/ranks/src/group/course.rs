//! A trial over all ranks, and its state in rank 0.

use std::os::fd::BorrowedFd;
use std::time::Instant;

use fsdyno_record::plan::RanksPlan;
use fsdyno_record::ranks::RanksMeasured;
use fsdyno_record::series::PhaseSeries;
use fsdyno_record::trial::{Measured, ReplayReport};
use fsdyno_record::{Job, Nanos};
use fsdyno_workload::{GapKind, OpCounts, PhaseSpec, WorkUnits, Workload};

use super::stonewall::StonewallShares;
use crate::input::TrialInput;

/// A trial for the group to run, in an existing directory.
pub struct Trial<'a> {
    /// The job.
    pub job: &'a Job,
    /// The path of the trial's directory below the shared directory.
    pub folder: String,
    /// The trial's directory, opened by rank 0.
    pub root: BorrowedFd<'a>,
    /// The workload's input file, if it has one.
    pub input: Option<TrialInput<'a>>,
    /// Maximum time for which a client may show stale entries, or zero for a local file system.
    pub settle: Nanos,
}

/// The course of a trial: its state in rank 0.
pub(super) struct Course<'a> {
    pub(super) trial: &'a Trial<'a>,
    pub(super) plan: RanksPlan,
    pub(super) work: Box<dyn Workload>,
    pub(super) phases: Vec<PhaseSpec>,
    pub(super) deadline: Instant,
    pub(super) measured: Measured,
    pub(super) ranks: RanksMeasured,
    pub(super) series: Vec<PhaseSeries>,
    /// The work that the shares report as done: by phase, then by directory (the common one, or each rank's own), then
    /// by share.
    pub(super) done: Vec<Vec<Vec<u64>>>,
    pub(super) notes: Vec<String>,
    /// The fidelity of a replay; the differences are those of all ranks.
    pub(super) replay: Option<ReplayReport>,
}

impl Course<'_> {
    /// Returns true unless the issuer is `null`, which makes no calls.
    pub(super) fn has_calls(&self) -> bool {
        self.trial.job.plan.issuer != fsdyno_record::plan::IssuerPlan::Null
    }

    /// Returns true if the first phase finds its tree in the cache of its client.
    pub(super) fn stays_in_cache(&self) -> bool {
        let gap = self.phases.first().map(|phase| phase.gap);
        gap.is_some_and(|gap| !matches!(gap, GapKind::Drop | GapKind::Remount))
    }

    /// Returns the number of threads of a rank in a phase.
    pub(super) fn threads(&self, phase: usize) -> u32 {
        let plan = &self.trial.job.plan;
        self.phases[phase].threads.count_of(plan.ranks())
    }

    /// Returns the stonewall of a phase, if the phase ends with one.
    pub(super) fn stonewall(&self, index: usize) -> Option<StonewallShares> {
        let limit = self.plan.stonewall?;
        let (_, unit) = self.work.stonewalled().filter(|(walled, _)| *walled == index)?;
        Some(StonewallShares::new(
            limit,
            (self.plan.ranks, self.threads(index)),
            self.plan.own,
            unit,
        ))
    }

    /// Returns the time limit of the stonewall that ended a phase, or that ended the earlier phase whose items this
    /// phase works on.
    pub(super) fn stonewall_before(&self, index: usize) -> Option<Nanos> {
        let (walled, _) = self.work.stonewalled()?;
        self.plan.stonewall.filter(|_| walled <= index)
    }

    /// Returns the work done in a phase by each share: one list for the common directory, or one for each rank's own.
    pub(super) fn done_by_directory(&self, phase: usize) -> &[Vec<u64>] {
        self.done.get(phase).map_or(&[], Vec::as_slice)
    }

    /// Returns the expected counts of a phase.
    pub(super) fn counts(&self, phase: usize) -> OpCounts {
        let mut all = OpCounts::new();
        for done in self.done_by_directory(phase) {
            for (kind, count) in self.work.counts_after(phase, done) {
                *all.entry(kind).or_default() += count;
            }
        }
        all
    }

    pub(super) fn units(&self, phase: usize) -> WorkUnits {
        let mut all = WorkUnits::new();
        for done in self.done_by_directory(phase) {
            for (unit, count) in self.work.work_units_after(phase, done) {
                *all.entry(unit).or_default() += count;
            }
        }
        all
    }
}
