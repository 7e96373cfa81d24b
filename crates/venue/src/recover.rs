//! Recovery of file systems after power cuts, in guests of the lab.
//!
//! A guest tests several cuts of a logged trial, one after the other. A cut that hangs or kills the
//! guest's kernel is a finding; the remaining ones continue in a new guest.

use std::collections::VecDeque;
use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fsdyno_crash::Cut;
use fsdyno_crash::recovered::{self, RecoveredTree, Recovery};
use fsdyno_crash::request::{self, RECORDS, RecoveryRequest};
use fsdyno_disk::store::Memory;
use fsdyno_filesystem::Guarantee;
use fsdyno_lab::{Finished, Guest, Machine, RunError};
use fsdyno_record::job::Task;
use fsdyno_record::mailbox::Stage;
use fsdyno_record::trial::{AgentReport, Outcome};
use fsdyno_record::{Job, Nanos};
use serde_json::{Value, json};

use crate::agent_report::read_report;
use crate::commands::{Commands, serialize_job};
use crate::error::VenueError;
use crate::error::from_run;
use crate::guest_time::GuestTime;
use crate::lab::LabVenue;
use crate::lab_plan::not_a_lab;
use crate::logged::LoggedTrial;
use crate::region::Region;
use crate::venue::Watch;

/// Number of cuts per guest. A boot takes ten seconds, and a guest that dies loses the results of its earlier cuts. The
/// number does not depend on the number of parallel guests, because the time of a mount varies (by 3 % [RUN]) with the
/// guest's earlier work.
pub const CUTS_PER_GUEST: usize = 50;

/// Limit, in virtual time, for mounting, walking and checking one cut.
const CUT_DEADLINE: Nanos = Nanos(1_800_000_000_000);

/// Host time without a sign of life, such as a disk request, after which a guest counts as hung.
const STALL_TIMEOUT: Duration = Duration::from_secs(600);

/// Limit, in virtual time, for all cuts of a guest.
const GUEST_DEADLINE: Nanos = Nanos(30 * 86_400 * 1_000_000_000);

/// Returns the programs that repair and check a file system, and its durability guarantees.
fn tools_and_guarantee(job: &Job) -> Result<(Vec<String>, &'static Guarantee), VenueError> {
    let filesystem = Commands::derive(&job.plan)?.ok_or_else(not_a_lab)?;
    let guarantee = Guarantee::of(&filesystem.kind).ok_or_else(|| {
        VenueError::Failed(format!(
            "power cuts of {} cannot be tested: its guarantees are not known",
            filesystem.kind
        ))
    })?;
    let programs = guarantee.repair.first().cloned();
    Ok((programs.into_iter().chain(filesystem.check.first().cloned()).collect(), guarantee))
}

/// Cuts with what was recovered after each.
pub type Found = Vec<(Cut, RecoveredTree)>;

/// A number of cuts and the time of the guest that recovered them.
pub type TimedCuts = (usize, GuestTime);

/// An observer of recoveries, called from several threads.
pub trait RecoveryObserver: Sync {
    /// Receives the number of cuts done, about every 20 ms.
    fn progress(&self, done: u64) -> Watch;
    /// Receives the results of a batch of cuts, which is complete, in the order of the cuts.
    fn recovered(&self, found: Found);
}

/// The state shared by the threads of a run.
struct Work<'a> {
    guest: Guest,
    machine: Machine,
    job: &'a Job,
    request: RecoveryRequest,
    observer: &'a dyn RecoveryObserver,
    remaining: Mutex<VecDeque<Vec<Cut>>>,
    times: Mutex<Vec<TimedCuts>>,
    done: AtomicU64,
    stop: AtomicBool,
}

impl LabVenue {
    /// Recovers a logged trial after the requested cuts, on the requested disk, in up to `jobs` parallel guests, each
    /// of which recovers a batch of [`CUTS_PER_GUEST`] consecutive cuts. The repair commands and the deadline are
    /// filled in here. Returns the times of the guests that ended well.
    ///
    /// # Errors
    /// A guest failed for a reason other than its cut.
    pub fn recover(
        &self,
        job: &Job,
        logged: &LoggedTrial,
        request: RecoveryRequest,
        jobs: usize,
        observer: &dyn RecoveryObserver,
    ) -> Result<Vec<TimedCuts>, VenueError> {
        let (programs, guarantee) = tools_and_guarantee(job)?;
        let guest = self.guest_with(&job.plan, &programs)?;
        let mut machine = self.machine(&job.plan)?;
        let first = *machine.disks.first().ok_or_else(not_a_lab)?;
        machine.disks.push(first);
        machine.input = Some(Arc::clone(&logged.region));
        machine.stall = STALL_TIMEOUT;
        let remaining = request.cuts.chunks(CUTS_PER_GUEST).map(<[Cut]>::to_vec).collect();
        let (repair, last_resort) = (guarantee.repair.clone(), guarantee.last_resort.clone());
        let cuts = Vec::new();
        let request =
            RecoveryRequest { cuts, repair, last_resort, deadline: CUT_DEADLINE, ..request };
        let work = Work {
            guest,
            machine,
            job,
            request,
            observer,
            remaining: Mutex::new(remaining),
            times: Mutex::default(),
            done: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        };
        let results: Vec<Result<(), VenueError>> = std::thread::scope(|scope| {
            let threads = (0..jobs.max(1)).map(|_| scope.spawn(|| work.run_guests()));
            let threads: Vec<_> = threads.collect();
            let results = threads.into_iter().map(|thread| thread.join());
            results
                .map(|results| {
                    results.unwrap_or_else(|_| Err(VenueError::Failed("a thread panicked".into())))
                })
                .collect()
        });
        results.into_iter().collect::<Result<(), _>>()?;
        Ok(work.times.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Work<'_> {
    /// Runs guests one after the other until no cuts are left.
    fn run_guests(&self) -> Result<(), VenueError> {
        loop {
            let next = self.remaining.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some(mut cuts) = next else { return Ok(()) };
            let mut found = Found::new();
            while !cuts.is_empty() {
                if let Err(error) = self.run_guest(&mut cuts, &mut found) {
                    self.stop.store(true, Ordering::Relaxed);
                    return Err(error);
                }
            }
            found.sort_by_key(|(cut, _)| cut.sort_key());
            self.observer.recovered(found);
        }
    }

    /// Runs one guest, and moves the cuts for which it produced a result to `found`.
    fn run_guest(&self, cuts: &mut Vec<Cut>, found: &mut Found) -> Result<(), VenueError> {
        let request = RecoveryRequest { cuts: cuts.clone(), ..self.request.clone() };
        let job = Job { task: Task::Recover, deadline: GUEST_DEADLINE, ..self.job.for_agent() };
        let to_error = |error: serde_json::Error| VenueError::Failed(error.to_string());
        let mut text: Value = serde_json::from_slice(&serialize_job(job)?).map_err(to_error)?;
        text["order"] = json!(request);
        let text = serde_json::to_vec(&text).map_err(to_error)?;
        let (mut done, mut reached_cut) = (0, false);
        let mut observe = |progress: &fsdyno_record::mailbox::Progress| {
            self.done.fetch_add(progress.ops_done - done, Ordering::Relaxed);
            done = progress.ops_done;
            reached_cut |= progress.stage == Stage::Running;
            match self.stop.load(Ordering::Relaxed) {
                true => Watch::Stop,
                false => self.observer.progress(self.done.load(Ordering::Relaxed)),
            }
        };
        let outcome = self.guest.run(&self.machine, &text, &mut observe);
        let finished = match outcome {
            Ok(finished) => finished,
            Err(RunError::Stopped) => return Err(VenueError::Stopped),
            // If a guest did not reach its first cut, no cut caused its failure.
            Err(error) if !reached_cut => return Err(from_run(error)),
            Err(error) => {
                found.push(self.failure(cuts, done as usize, error)?);
                return Ok(());
            }
        };
        let report = read_report(&finished.report)?;
        let trees = read_findings(&finished)?;
        move_found(cuts, trees, &report, found)?;
        if cuts.is_empty() {
            let time = (request.cuts.len(), GuestTime::from(&finished));
            self.times.lock().unwrap_or_else(PoisonError::into_inner).push(time);
        }
        Ok(())
    }

    /// Returns the failure of a cut that killed its guest; the guest's other cuts are tested again.
    fn failure(
        &self,
        cuts: &mut Vec<Cut>,
        index: usize,
        error: RunError,
    ) -> Result<(Cut, RecoveredTree), VenueError> {
        let cause = match &error {
            RunError::Panicked { .. } => "the kernel panicked",
            RunError::Stalled { .. } | RunError::Deadline { .. } => "the guest hung",
            // If QEMU was killed or gave up, this is an error of the host.
            RunError::Died { powered_off: true, .. } => "the guest switched itself off",
            _ => return Err(from_run(error)),
        };
        if index >= cuts.len() {
            return Err(from_run(error));
        }
        let lost = Some(format!("{cause}: {}", from_run(error)));
        let recovery = Recovery { index: index as u32, lost, ..Recovery::default() };
        let cut = cuts.remove(index);
        // The results of the cuts before it are lost, so those are no longer done.
        self.done.fetch_sub(index as u64, Ordering::Relaxed);
        self.done.fetch_add(1, Ordering::Relaxed);
        Ok((cut, RecoveredTree { recovery, entries: Vec::new() }))
    }
}

/// Moves the cuts that a guest has tested, with the results, to `found`.
fn move_found(
    cuts: &mut Vec<Cut>,
    trees: Vec<RecoveredTree>,
    report: &AgentReport,
    found: &mut Found,
) -> Result<(), VenueError> {
    if trees.is_empty() || (report.outcome == Outcome::Ok && trees.len() < cuts.len()) {
        let reason = report.reason.clone().unwrap_or_else(|| "no reason given".into());
        return Err(VenueError::Failed(format!("failed to recover after a power cut: {reason}")));
    }
    let mut tested = vec![false; cuts.len()];
    for tree in trees {
        let index = tree.recovery.index as usize;
        if let Some(cut) = cuts.get(index) {
            tested[index] = true;
            found.push((*cut, tree));
        }
    }
    let mut tested = tested.into_iter();
    cuts.retain(|_| !tested.next().unwrap_or(false));
    Ok(())
}

/// Reads the findings that a guest reported.
fn read_findings(finished: &Finished) -> Result<Vec<RecoveredTree>, VenueError> {
    let damaged = || VenueError::Failed("the findings of a guest are damaged".into());
    let log: &File = finished.log.as_ref().ok_or_else(damaged)?;
    let mut region =
        Region::open(log).map_err(VenueError::io_without_path("open the findings of a guest"))?;
    let word = region.slice(request::RESULTS_OFFSET + 8, 8).try_into().map(u64::from_le_bytes);
    let length = word.unwrap_or_default().min(request::RESULTS_MAX);
    let (mut offset, end) =
        (request::RESULTS_OFFSET + RECORDS, request::RESULTS_OFFSET + RECORDS + length);
    let mut findings = Vec::new();
    while offset < end {
        let length = recovered::length(region.slice(offset, 24)).ok_or_else(damaged)?;
        findings.push(recovered::read(region.slice(offset, length)).ok_or_else(damaged)?);
        offset += length as u64;
    }
    Ok(findings)
}
