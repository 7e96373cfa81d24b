//! Runs a trial on all ranks.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use fsdyno_engine::{calls, clock};
use fsdyno_record::mailbox::Stage;
use fsdyno_record::plan::{RanksPlan, VerifyMode};
use fsdyno_record::ranks::{Member, RanksMeasured};
use fsdyno_record::trial::{AgentReport, Conditions, Gap, Measured, Outcome};
use fsdyno_record::{Bytes, Nanos};
use fsdyno_workload::{GapKind, Setting, workloads};

use super::collect::{Watch, no_progress};
use super::course::{Course, Trial};
use super::merge::{PhaseOfRanks, merge};
use super::stonewall::StonewallShares;
use super::{GroupError, State};
use crate::clocks::Clock;
use crate::launcher::Kind;
use crate::messages::{FromRank, PhaseDone, Preparation, ToRank};

/// Time from the order to begin a phase to its start, and additional time per rank, so that the order reaches the
/// last rank in time.
const LEAD: Nanos = Nanos(3_000_000);
const LEAD_PER_RANK: Nanos = Nanos(60_000);

/// Time of a client's sync, and why its data may not be durable at that time; None for the client's other ranks.
type Synced = Option<(Nanos, Option<String>)>;

pub(super) fn trial_failure(error: impl ToString) -> GroupError {
    GroupError::Failed(error.to_string())
}

impl State {
    /// Runs a trial on all ranks. A trial that loses a rank still has a report of the completed phases.
    pub(super) fn trial(
        &mut self,
        trial: &Trial<'_>,
        kind: Kind,
        watch: Watch<'_>,
    ) -> Result<AgentReport, GroupError> {
        let job = trial.job;
        let plan = job.plan.shared_by().cloned();
        let plan = plan.ok_or_else(|| trial_failure("the plan is not for a group of ranks"))?;
        let input = trial.input.as_ref().map(|input| input.input.clone());
        let setting = Setting { seed: job.seed, input };
        let work = workloads::find(&job.plan.workload.name)
            .map_err(trial_failure)?
            .build(&job.plan.workload.params, &setting)
            .map_err(trial_failure)?;
        let (phases, recording) = (work.phases(), work.recording().unwrap_or_default());
        let mut course = Course {
            trial,
            plan,
            phases,
            deadline: Instant::now() + Duration::from_nanos(job.deadline.0),
            measured: Measured::default(),
            ranks: RanksMeasured { launcher: kind.to_string(), ..RanksMeasured::default() },
            series: Vec::new(),
            done: Vec::new(),
            replay: work.recording().map(|_| recording.report),
            notes: recording.notes,
            work,
        };
        self.progress = no_progress();
        let ended = self.run_steps(&mut course, watch);
        let (outcome, reason) = match ended {
            Ok(()) => (Outcome::Ok, None),
            Err(GroupError::Stopped) => {
                self.close(&course)?;
                return Err(GroupError::Stopped);
            }
            Err(GroupError::Failed(why) | GroupError::Lost(why)) => (Outcome::Failed, Some(why)),
        };
        if self.broken.is_none() {
            // If a rank is lost only now, the next trial reports it.
            let _ = self.close(&course);
        }
        let Course { mut measured, ranks, series, notes, replay, .. } = course;
        measured.ranks = Some(ranks);
        let venue = "ranks".to_string();
        let conditions = Conditions { venue, notes, replay, ..Conditions::default() };
        Ok(AgentReport { outcome, reason, conditions, measured, series })
    }

    fn run_steps(&mut self, course: &mut Course<'_>, watch: Watch<'_>) -> Result<(), GroupError> {
        self.progress.phases = course.phases.len() as u64;
        self.set_stage(Stage::Preparing);
        if let Some(input) = &course.trial.input {
            self.send_input(input, watch)?;
            course.deadline = Instant::now() + Duration::from_nanos(course.trial.job.deadline.0);
        }
        let (job, folder) = (course.trial.job.clone(), course.trial.folder.clone());
        self.tell(&ToRank::Prepare(Box::new(Preparation { job, folder })));
        let prepared = self.collect(
            "while it looked for the trial's directory",
            course.deadline,
            watch,
            &|answer| match answer {
                FromRank::Prepared { found, device } => Some((found, device)),
                _ => None,
            },
        )?;
        self.determine_clients(course, &prepared);
        self.prefill(course, watch)?;
        for index in 0..course.phases.len() {
            self.gap(course, index, watch)?;
            self.run_phase(course, index, watch)?;
        }
        if let Some(last) = course.phases.len().checked_sub(1) {
            if course.phases[last].verify && course.has_calls() {
                let began = clock::now();
                let done = self.step(course, GapKind::Drop, watch)?;
                self.verify(course, Some(last), watch)?;
                let elapsed_ns = clock::now().since(began);
                let (before, wanted) = (String::new(), "verify".to_string());
                course.measured.gaps.push(Gap { before, wanted, done, elapsed_ns });
            }
        }
        self.set_stage(Stage::Done);
        Ok(())
    }

    fn set_stage(&mut self, stage: Stage) {
        self.progress.stage = stage;
    }

    /// Determines which ranks share a client, and adds the ranks to the report.
    fn determine_clients(&mut self, course: &mut Course<'_>, prepared: &[(Nanos, u64)]) {
        let mut clients: Vec<(String, u64)> = Vec::new();
        for (peer, (found, device)) in self.peers.iter_mut().zip(prepared) {
            let key = (peer.hello.host.clone(), *device);
            let client = clients.iter().position(|one| *one == key).unwrap_or(clients.len());
            if client == clients.len() {
                clients.push(key);
            }
            peer.client = client as u32;
            course.ranks.members.push(Member {
                rank: peer.hello.rank,
                host: peer.hello.host.clone(),
                client: peer.client,
                found_ns: *found,
            });
        }
        course.notes.append(&mut self.notes);
        course.notes.extend(self.crowded_hosts());
    }

    /// Returns the first rank of each client.
    pub(super) fn leaders(&self) -> Vec<u32> {
        let mut leaders: Vec<(u32, u32)> = Vec::new();
        for peer in &self.peers {
            if leaders.iter().all(|(client, _)| *client != peer.client) {
                leaders.push((peer.client, peer.hello.rank));
            }
        }
        leaders.into_iter().map(|(_, rank)| rank).collect()
    }

    /// Executes the step before a phase, and verifies the previous phase.
    fn gap(
        &mut self,
        course: &mut Course<'_>,
        index: usize,
        watch: Watch<'_>,
    ) -> Result<(), GroupError> {
        let spec = course.phases[index];
        let before = spec.name.to_string();
        let wanted = spec.gap.name().to_string();
        if spec.gap == GapKind::BackToBack && index > 0 {
            let (done, elapsed_ns) = (wanted.clone(), Nanos(0));
            course.measured.gaps.push(Gap { before, wanted, done, elapsed_ns });
            return Ok(());
        }
        self.set_stage(Stage::Gap);
        let began = clock::now();
        let done = self.step(course, spec.gap, watch)?;
        let elapsed_ns = clock::now().since(began);
        course.measured.gaps.push(Gap { before: before.clone(), wanted, done, elapsed_ns });
        if index > 0 && course.phases[index - 1].verify && course.has_calls() {
            let began = clock::now();
            self.verify(course, Some(index - 1), watch)?;
            let done = self.step(course, spec.gap, watch)?;
            let elapsed_ns = clock::now().since(began);
            let wanted = "verify".to_string();
            course.measured.gaps.push(Gap { before, wanted, done, elapsed_ns });
        }
        Ok(())
    }

    /// Executes a step on each client; returns the step that was executed.
    pub(super) fn step(
        &mut self,
        course: &Course<'_>,
        kind: GapKind,
        watch: Watch<'_>,
    ) -> Result<String, GroupError> {
        let leaders = self.leaders();
        for peer in &self.peers {
            let kind = if leaders.contains(&peer.hello.rank) { kind } else { GapKind::None };
            // A peer that cannot be reached is detected because it stays silent.
            let _ = peer.wire.send(&ToRank::Gap { kind: kind.name().to_string() });
        }
        self.shows_progress = false;
        let done =
            self.collect("between two phases", course.deadline, watch, &|answer| match answer {
                FromRank::GapDone { done } => Some(done),
                _ => None,
            });
        self.shows_progress = true;
        let done = done?;
        Ok(leaders.first().and_then(|rank| done.get(*rank as usize)).cloned().unwrap_or_default())
    }

    fn run_phase(
        &mut self,
        course: &mut Course<'_>,
        index: usize,
        watch: Watch<'_>,
    ) -> Result<(), GroupError> {
        let spec = course.phases[index];
        let doing = format!("in phase {}", spec.name);
        self.set_stage(Stage::Running);
        self.progress.phase = index as u64;
        self.begin_waits(index, &course.plan, course.threads(index));
        self.stonewall = course.stonewall(index);
        self.tell(&ToRank::Arm { phase: index });
        self.collect("before a phase", course.deadline, watch, &|answer| {
            matches!(answer, FromRank::Armed).then_some(())
        })?;
        let before = self.measure_clocks(&doing)?;
        for (peer, offset) in self.peers.iter_mut().zip(&before) {
            peer.clock = Clock { before: *offset, after: *offset };
        }
        let at = clock::now() + LEAD + Nanos(LEAD_PER_RANK.0 * self.peers.len() as u64);
        for peer in &self.peers {
            // A peer that cannot be reached is detected because it stays silent.
            let _ = peer.wire.send(&ToRank::Go { at: peer.clock.to_theirs(at) });
        }
        let done = self.collect(&doing, course.deadline, watch, &|answer| match answer {
            FromRank::Done(done) => Some(*done),
            _ => None,
        })?;
        let goal = self.stonewall.as_ref().and_then(StonewallShares::goal);
        let after = goal.and_then(|goal| course.work.after_stonewall(goal.most, goal.shares));
        if let Some(work) = after {
            course.work = work;
        }
        let next = course.phases.get(index + 1);
        let runs_on = next.is_some_and(|next| next.gap == GapKind::BackToBack);
        let synced = match runs_on || !course.has_calls() {
            true => vec![None; done.len()],
            false => self.sync(course, watch)?,
        };
        let doubt = self.note_doubt(course, &synced);
        let after = self.measure_clocks(&doing)?;
        for (peer, offset) in self.peers.iter_mut().zip(&after) {
            peer.clock.after = *offset;
        }
        let synced: Vec<Option<Nanos>> =
            synced.into_iter().map(|one| one.map(|(at, _)| at)).collect();
        self.add_phase(course, index, &done, &synced)?;
        if let Some(phase) = course.measured.phases.last_mut() {
            phase.durable_ns = phase.synced_ns.filter(|_| !doubt);
        }
        Ok(())
    }

    /// Returns true if a client's data may not be durable when its file system is synced; adds the first reason to the
    /// notes.
    fn note_doubt(&self, course: &mut Course<'_>, synced: &[Synced]) -> bool {
        let doubts = self.peers.iter().zip(synced);
        let mut doubts = doubts.filter_map(|(peer, one)| Some((peer, one.as_ref()?.1.as_ref()?)));
        let Some((peer, why)) = doubts.next() else { return false };
        let note = format!("no durable time: on {} {why}", peer.hello.host);
        if !course.notes.contains(&note) {
            course.notes.push(note);
        }
        true
    }

    /// Syncs each client. Returns the time of the sync on the clock of the rank that made it, and the reason why the
    /// client's data may not be durable then, if there is one.
    fn sync(&mut self, course: &Course<'_>, watch: Watch<'_>) -> Result<Vec<Synced>, GroupError> {
        let leaders = self.leaders();
        for peer in &self.peers {
            let order = match leaders.contains(&peer.hello.rank) {
                true => ToRank::Sync,
                false => ToRank::Gap { kind: GapKind::None.name().to_string() },
            };
            // A peer that cannot be reached is detected because it stays silent.
            let _ = peer.wire.send(&order);
        }
        self.shows_progress = false;
        let synced = self.collect("in syncfs", course.deadline, watch, &|answer| match answer {
            FromRank::Synced { at, doubt } => Some(Some((at, doubt))),
            FromRank::GapDone { .. } => Some(None),
            _ => None,
        });
        self.shows_progress = true;
        synced
    }

    /// Merges the reports of a phase, adds it to the results, and checks its counts.
    fn add_phase(
        &mut self,
        course: &mut Course<'_>,
        index: usize,
        done: &[PhaseDone],
        synced: &[Option<Nanos>],
    ) -> Result<(), GroupError> {
        let spec = course.phases[index];
        let clocks: Vec<Clock> = self.peers.iter().map(|peer| peer.clock).collect();
        let reports = PhaseOfRanks { name: spec.name, done, clocks: &clocks, synced };
        let (mut phase, mut ranks, series) = merge(&reports);
        if let Some(stonewall) = self.stonewall.take() {
            stonewall.add_to(&mut ranks, done.iter().flat_map(|one| &one.done).sum());
        }
        course.done.push(work_by_tree(&course.plan, index, done));
        let space = rustix::fs::fstatvfs(course.trial.root.as_fd()).map_err(trial_failure)?;
        phase.space_used = Bytes(space.f_blocks.saturating_sub(space.f_bfree) * space.f_frsize);
        phase.limit_ns = course.work.limit(index).or(course.stonewall_before(index));
        phase.unit = course.work.unit(index).map(String::from);
        let units = course.units(index).into_iter();
        phase.books = units.map(|(name, count)| (name.to_string(), count)).collect();
        let made = phase.ops.iter().map(|(kind, stats)| (*kind, stats.count)).collect();
        let removes = done.iter().any(|one| one.removals > 0);
        course.measured.phases.push(phase);
        course.ranks.phases.push(ranks);
        course.series.extend(series);
        self.judge(course, index, done)?;
        if course.has_calls() {
            calls::compare(&made, &course.counts(index), removes)
                .map_err(|wrong| GroupError::Failed(format!("phase {}: {wrong}", spec.name)))?;
        }
        Ok(())
    }

    /// Has every rank close the trial's files, so that the trial's directory can be removed.
    fn close(&mut self, course: &Course<'_>) -> Result<(), GroupError> {
        if self.broken.is_some() {
            return Ok(());
        }
        self.tell(&ToRank::Close);
        let deadline = course.deadline.max(Instant::now() + Duration::from_secs(60));
        self.collect("at the end of the trial", deadline, &mut |_| true, &|answer| {
            matches!(answer, FromRank::Closed).then_some(())
        })
        .map(drop)
    }

    /// Has ranks read and compare trees; if there are several clients, a tree is read by a client other than the one
    /// that created it.
    pub(super) fn verify(
        &mut self,
        course: &mut Course<'_>,
        phase: Option<usize>,
        watch: Watch<'_>,
    ) -> Result<(), GroupError> {
        self.set_stage(Stage::Verifying);
        let readers = self.readers(course, phase);
        for (peer, trees) in self.peers.iter().zip(&readers) {
            let (trees, settle) = (trees.clone(), course.trial.settle);
            // A peer that cannot be reached is detected because it stays silent.
            let _ = peer.wire.send(&ToRank::Verify { phase, trees, settle });
        }
        let seen =
            self.collect(
                "while it read the tree",
                course.deadline,
                watch,
                &|answer| match answer {
                    FromRank::Verified { seen } => Some(seen),
                    _ => None,
                },
            )?;
        let mode: VerifyMode = course.trial.job.plan.verify;
        super::views::add(course, phase, mode, &readers, &seen)
    }
}

/// Returns the work that threads have done, by tree: for the common tree in the order of the shares, or for each
/// rank's own tree.
fn work_by_tree(plan: &RanksPlan, phase: usize, done: &[PhaseDone]) -> Vec<Vec<u64>> {
    let in_order = (0..plan.ranks).map(|share| plan.rank_of(share, phase) as usize);
    let each = in_order.map(|rank| done.get(rank).map(|one| one.done.clone()).unwrap_or_default());
    match plan.own {
        true => each.collect(),
        false => vec![each.flatten().collect()],
    }
}
