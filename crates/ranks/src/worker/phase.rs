//! Runs a phase in a worker.

use std::os::fd::AsFd;
use std::sync::Arc;

use fsdyno_engine::progress::PhaseProgress;
use fsdyno_engine::{PhaseResult, PhaseRun, ProcessShare, clock, run_threads};
use fsdyno_record::Nanos;
use fsdyno_workload::{ItemLimit, Share};

use super::WorkerError;
use super::link::Link;
use super::stonewall::Stonewall;
use super::trial::Trial;
use crate::messages::{FromRank, PhaseDone};

impl Trial {
    /// Returns true if a phase would end at a stonewall.
    fn is_walled(&self, index: usize) -> bool {
        self.work.stonewalled().is_some_and(|(walled, _)| walled == index)
    }

    /// Runs a phase, which begins at the time that rank 0 gives.
    pub(super) fn run(&mut self, index: usize, link: &Link) -> Result<PhaseDone, WorkerError> {
        let phases = self.work.phases();
        let spec = phases.get(index).ok_or_else(|| WorkerError::plain("there is no such phase"))?;
        let share_number = self.plan.share_of(self.rank, index);
        let root = self.directory(self.plan.own.then_some(share_number))?;
        let (requested, issuer) = (self.job.plan.threads, self.job.plan.issuer);
        let threads = spec.threads.count_of(requested);
        let ranks = spec.threads.count_of(requested.saturating_mul(issuer.depth()));
        let share = match self.plan.own {
            true => Share::WHOLE,
            false => Share { rank: share_number, ranks: self.plan.ranks },
        };
        let progress = PhaseProgress::new(ranks, threads)
            .with_remote_ranks(share.rank * ranks, link.remote_ranks());
        let progress = Arc::new(progress);
        link.arm(&progress);
        let limit = self.plan.stonewall.filter(|_| self.is_walled(index));
        let (state, first) = (link.state(), self.rank * ranks);
        let stonewalls = |thread: u32| -> Box<dyn ItemLimit> {
            let limit = limit.unwrap_or_default();
            Box::new(Stonewall::new(Arc::clone(&state), first + thread, limit))
        };
        let stonewalls = limit.map(|_| &stonewalls as &dyn Fn(u32) -> Box<dyn ItemLimit>);
        let run = PhaseRun {
            work: self.work.as_ref(),
            phase: index,
            threads: spec.threads,
            requested,
            issuer,
            root: root.as_fd(),
            roots: &[],
            device: None,
            contents: &self.contents,
            slots: self.slots.as_ref(),
            process_share: Some(ProcessShare { share, progress: &progress, stonewalls }),
        };
        let mut cpu_before = (Nanos(0), Nanos(0));
        let done = run_threads(
            &run,
            &mut || {
                cpu_before = cpu();
                // If the connection is broken, the listening thread ends this process.
                let _ = link.wire().send(&FromRank::Armed);
                match link.wait_for_go() {
                    Some(at) => clock::sleep_until(at),
                    None => progress.stop(),
                }
            },
            &|_| {},
        )
        .map_err(|error| WorkerError::in_phase(spec.name, &error))?;
        let (user, system) = cpu();
        let goal = limit.and_then(|_| state.wait_for_goal());
        let after = goal.and_then(|goal| self.work.after_stonewall(goal.most, goal.shares));
        if let Some(work) = after {
            self.work = work;
        }
        let spent = (user - cpu_before.0, system - cpu_before.1);
        Ok(self.report(index, done, spent, threads))
    }

    /// Converts the result of a phase to its report for rank 0.
    fn report(
        &self,
        index: usize,
        result: PhaseResult,
        cpu: (Nanos, Nanos),
        threads: u32,
    ) -> PhaseDone {
        let (outcome, done) = (result.outcome, result.done.clone());
        let replayed = self.close_replay(index, &result.differences);
        let recorder = result.into_recorder();
        let timeline = recorder.timeline();
        PhaseDone {
            started: outcome.started,
            returned: outcome.returned,
            calls: outcome.ops,
            ops: recorder.ops(),
            done,
            written: outcome.bytes_written.0,
            read: outcome.bytes_read.0,
            think: outcome.think_time,
            removals: outcome.removals,
            cpu,
            engine: self.engine.for_ops(outcome.ops / u64::from(threads.max(1))),
            timeline: (timeline.interval(), timeline.counts().to_vec()),
            replayed,
        }
    }
}

/// Returns the user and system CPU time of this process so far.
fn cpu() -> (Nanos, Nanos) {
    // SAFETY: rusage consists of integers, for which zero is valid; the call fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let nanos = |time: libc::timeval| {
        Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000)
    };
    (nanos(usage.ru_utime), nanos(usage.ru_stime))
}
