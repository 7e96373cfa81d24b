//! Calls through io_uring(7): a thread runs many ranks, each with one op in flight.
//!
//! The phase is split as if each of the thread's ranks were a separate thread. All ready ranks
//! are submitted with one io_uring_enter(2), and the latency of an op is the time from that call until
//! the thread finds its completion. stat and fstat use the opcode of statx(2).
//!
//! getdents, chmod, chown, utimens and syncfs have no opcode, nor do some others in older kernels
//! (ftruncate before 6.9, fsetxattr before 5.19, mkdir, link and symlink before 5.15, rename
//! and unlink before 5.11): the thread makes these calls itself, like `sync`, one after the
//! other, while the ring continues. The same holds for expanded ops (Scan, RemoveTree, CopyTree and similar).
//!
//! A rank that waits for one of another thread checks again whenever an op of its own thread has
//! completed; the thread sleeps only if none is in flight.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use fsdyno_record::Nanos;
use fsdyno_workload::{Contents, OpSource, ProgressPoint};
use io_uring::{IoUring, opcode, squeue};

use crate::errno::Errno;
use crate::failure::{Cause, Failure};
use crate::issue::Issuer;
use crate::issue::lane::{Lane, LaneStep, NewOpcodes};
use crate::meter::{Meter, Outcome};
use crate::progress::{Halt, PhaseProgress};
use crate::recorder::Recorder;

/// IORING_ENTER_GETEVENTS of io_uring_enter(2): wait for completions.
const GETEVENTS: u32 = 1;

/// A ring and the ranks that issue through it.
pub struct Uring {
    ring: IoUring,
    opcodes: NewOpcodes,
    contents: Arc<Contents>,
    /// One for each rank; they never move, since the kernel has their addresses.
    lanes: Vec<Lane>,
    /// Entries in the queue that are not yet submitted.
    queued: usize,
    /// Submitted entries without a completion; the kernel may still write to their lanes.
    in_flight: usize,
}

/// The state of one phase.
struct PhaseState<'a> {
    meter: Meter<'a>,
    progress: &'a PhaseProgress,
    /// The rank of lane 0.
    first: u32,
    /// Lanes that are ready to advance.
    ready: VecDeque<usize>,
    /// Lanes that wait for another rank.
    waiting: Vec<usize>,
    /// Lanes whose op is submitted with the next call.
    unsubmitted: Vec<usize>,
    /// Results of completions, by lane.
    results: Vec<(usize, i32)>,
}

/// The sources of a thread's ranks, in the order of its lanes.
pub type Sources<'a> = [Box<dyn OpSource + Send + 'a>];

impl Uring {
    /// Creates a ring for as many ranks as there are roots, each the trial's own directory.
    ///
    /// # Errors
    /// The reason why io_uring is not available, with a remedy.
    pub fn new(roots: Vec<OwnedFd>, contents: &Arc<Contents>) -> io::Result<Uring> {
        let entries = (roots.len() as u32).next_power_of_two();
        let ring = IoUring::new(entries).map_err(explain)?;
        let opcodes = NewOpcodes::probe(&ring)?;
        let lanes = roots.into_iter().map(|root| Lane::new(root, contents)).collect();
        Ok(Uring { ring, opcodes, contents: Arc::clone(contents), lanes, queued: 0, in_flight: 0 })
    }

    /// Issues all ops of all sources; the first source belongs to rank `first`.
    ///
    /// # Errors
    /// The first op with a result that its workload does not expect; the failure of another thread. Queued
    /// entries are then never submitted, so the ring cannot be used again.
    pub fn run(
        &mut self,
        progress: &PhaseProgress,
        first: u32,
        sources: &mut Sources<'_>,
        recorder: &mut Recorder,
        tick: &mut dyn FnMut(u64),
    ) -> Result<Outcome, Failure> {
        let lanes = self.lanes.len().min(sources.len());
        let meter = Meter::start(progress, first, lanes as u32, recorder, tick);
        let ready = (0..lanes).collect();
        let (waiting, unsubmitted, results) = (Vec::new(), Vec::new(), Vec::new());
        let mut state = PhaseState { meter, progress, first, ready, waiting, unsubmitted, results };
        let result = self.run_all(&mut state, sources);
        if result.is_err() {
            // The other threads need not wait for the entries in flight.
            progress.stop();
        }
        self.drain();
        result.map(|()| state.meter.outcome())
    }

    fn run_all(
        &mut self,
        state: &mut PhaseState<'_>,
        sources: &mut Sources<'_>,
    ) -> Result<(), Failure> {
        loop {
            for _ in 0..state.ready.len() {
                if let Some(index) = state.ready.pop_front() {
                    self.advance(state, index, sources[index].as_mut())?;
                }
            }
            if self.queued + self.in_flight > 0 {
                self.enter(state)?;
                self.reap(state)?;
            } else if state.ready.is_empty() {
                if state.waiting.is_empty() {
                    return Ok(());
                }
                self.wait(state)?;
            }
            self.wake_waiting(state);
        }
    }

    /// Makes lanes ready whose condition is now met. Each is checked once, since the condition
    /// may become true between two checks.
    fn wake_waiting(&self, state: &mut PhaseState<'_>) {
        let PhaseState { progress, waiting, ready, .. } = state;
        waiting.retain(|index| {
            let reached = progress.has_reached(self.lanes[*index].op.after);
            if reached {
                ready.push_back(*index);
            }
            !reached
        });
    }

    /// Blocks the whole thread when nothing is in flight and all lanes wait.
    fn wait(&self, state: &mut PhaseState<'_>) -> Result<(), Failure> {
        let points: Vec<ProgressPoint> =
            state.waiting.iter().map(|index| self.lanes[*index].op.after).collect();
        state.progress.wait(&points).map_err(|halt| {
            let unreachable =
                |index: &&usize| matches!(halt, Halt::Unreachable(p) if p == self.lanes[**index].op.after);
            let index = state.waiting.iter().find(unreachable).or(state.waiting.first());
            let lane = &self.lanes[index.copied().unwrap_or(0)];
            state.meter.failure(&lane.op, lane.issuer.path_of(&lane.op), halt)
        })
    }

    /// Advances one lane up to its next call or wait.
    fn advance(
        &mut self,
        state: &mut PhaseState<'_>,
        index: usize,
        source: &mut dyn OpSource,
    ) -> Result<(), Failure> {
        let lane = &mut self.lanes[index];
        if lane.step == LaneStep::Generate {
            if !source.next(&mut lane.op) {
                state.meter.switch_rank(state.first + index as u32);
                state.meter.end();
                return Ok(());
            }
            lane.written = 0;
            lane.step = LaneStep::Wait;
        }
        if lane.step == LaneStep::Wait {
            if lane.op.after.ops != 0 && !state.progress.has_reached(lane.op.after) {
                state.waiting.push(index);
                return Ok(());
            }
            lane.step = LaneStep::Think;
        }
        if lane.step == LaneStep::Think {
            let now = match lane.op.think.0 | lane.op.due.0 {
                0 => Nanos(0),
                _ => state.meter.now(),
            };
            let pause = lane.pause(now, state.meter.time_until(lane.op.due));
            if !pause.is_zero() {
                let sleep = opcode::Timeout::new(lane.sleep(now, pause)).build();
                return self.submit(state, index, sleep);
            }
            if lane.op.compute.0 != 0 {
                state.meter.add_think_time(Nanos(0), lane.op.compute);
            }
            lane.step = LaneStep::Call;
        }
        match lane.entry(self.opcodes, &self.contents) {
            Some(entry) => self.submit(state, index, entry),
            None => self.call(state, index),
        }
    }

    /// Makes a call from the thread itself.
    fn call(&mut self, state: &mut PhaseState<'_>, index: usize) -> Result<(), Failure> {
        let Lane { issuer, op, step, .. } = &mut self.lanes[index];
        let meter = &mut state.meter;
        meter.switch_rank(state.first + index as u32);
        meter.now();
        meter.start_latency(op.due);
        *step = LaneStep::Generate;
        state.ready.push_back(index);
        let Some(kind) = op.call.kind() else { return issuer.expand(op, meter) };
        let result = issuer.issue(op);
        let checked = meter.check_result(result, kind, op);
        checked.map_err(|cause| meter.failure(op, issuer.path_of(op), cause))?;
        if meter.count_return(kind) {
            return Ok(());
        }
        Err(meter.failure(op, issuer.path_of(op), Halt::Stopped))
    }

    /// Puts an entry into the queue; the next [`Uring::enter`] submits it.
    fn submit(
        &mut self,
        state: &mut PhaseState<'_>,
        index: usize,
        entry: squeue::Entry,
    ) -> Result<(), Failure> {
        // The rest of a write belongs to the latency of its beginning.
        if self.lanes[index].written == 0 {
            state.unsubmitted.push(index);
        }
        // SAFETY: names, buffers, status and time live in the lane or in the contents, which do not
        // move until the entry completes (see `drain`).
        let pushed = unsafe { self.ring.submission().push(&entry.user_data(index as u64)) };
        // The queue has room for one entry per lane.
        pushed.map_err(|_| self.failure(state, index, Errno(libc::EBUSY)))?;
        self.queued += 1;
        Ok(())
    }

    /// Submits new entries and waits for a completion, unless there is other work.
    fn enter(&mut self, state: &mut PhaseState<'_>) -> Result<(), Failure> {
        let since = state.meter.now();
        let first = state.unsubmitted.first().copied().unwrap_or(0);
        for index in state.unsubmitted.drain(..) {
            let lane = &mut self.lanes[index];
            lane.submitted = match lane.step {
                LaneStep::Call => state.meter.latency_start(lane.op.due, since),
                _ => since,
            };
        }
        let min_completions = usize::from(state.ready.is_empty());
        match self.ring.submit_and_wait(min_completions) {
            Ok(taken) => {
                self.queued -= taken.min(self.queued);
                self.in_flight += taken;
                Ok(())
            }
            // Nothing was submitted; the next call follows after the completions are reaped.
            Err(error) if is_transient(&error) && state.progress.is_stopped() => {
                Err(self.failure(state, first, Halt::Stopped))
            }
            Err(error) if is_transient(&error) => Ok(()),
            Err(error) => Err(self.failure(state, first, Errno::from_error(&error))),
        }
    }

    /// Reaps all completions, even after one fails: opened files must
    /// be closed, and `drain` needs the exact number in flight.
    fn reap(&mut self, state: &mut PhaseState<'_>) -> Result<(), Failure> {
        let mut results = std::mem::take(&mut state.results);
        let completions = self.ring.completion();
        results.extend(completions.map(|entry| (entry.user_data() as usize, entry.result())));
        self.in_flight -= results.len().min(self.in_flight);
        let now = state.meter.now();
        let mut outcome = Ok(());
        for (index, result) in results.drain(..) {
            match outcome {
                Ok(()) => outcome = self.handle_completion(state, index, result, now),
                Err(_) => self.lanes[index].settle(result),
            }
        }
        state.results = results;
        outcome
    }

    /// Handles a completion: the lane wakes up, continues its write, or completes its op.
    fn handle_completion(
        &mut self,
        state: &mut PhaseState<'_>,
        index: usize,
        result: i32,
        now: Nanos,
    ) -> Result<(), Failure> {
        let lane = &mut self.lanes[index];
        state.ready.push_back(index);
        if lane.step == LaneStep::WakeUp {
            let elapsed = now.since(lane.submitted);
            if lane.wake_up(now) {
                state.meter.add_think_time(elapsed, lane.op.compute);
            } else {
                state.meter.add_think_time(elapsed, Nanos(0));
            }
            return match state.progress.is_stopped() {
                true => Err(self.failure(state, index, Halt::Stopped)),
                false => Ok(()),
            };
        }
        if lane.add_partial_write(result) {
            return Ok(());
        }
        lane.complete(result, state.first + index as u32, now, &mut state.meter)
    }

    fn failure(&self, state: &PhaseState<'_>, index: usize, cause: impl Into<Cause>) -> Failure {
        let lane = &self.lanes[index];
        state.meter.failure(&lane.op, lane.issuer.path_of(&lane.op), cause)
    }

    /// Waits until no entry is in flight that could write to a lane; submits nothing.
    fn drain(&mut self) {
        while self.in_flight > 0 {
            let submitter = self.ring.submitter();
            // SAFETY: nothing is submitted, and there is no argument.
            let waited = unsafe { submitter.enter::<libc::sigset_t>(0, 1, GETEVENTS, None) };
            if waited.is_err_and(|error| !is_transient(&error)) {
                // The state is unknown; memory that the kernel may use is never freed.
                std::mem::forget(std::mem::take(&mut self.lanes));
                return;
            }
            for entry in self.ring.completion() {
                self.in_flight -= 1;
                if let Some(lane) = self.lanes.get_mut(entry.user_data() as usize) {
                    lane.settle(entry.result());
                }
            }
        }
    }
}

impl Drop for Uring {
    /// Frees memory that the kernel may write to only after all completions.
    fn drop(&mut self) {
        self.drain();
    }
}

/// Returns true if io_uring_enter(2) must be repeated: after a signal, or when the queue is full until
/// completions are reaped.
fn is_transient(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINTR | libc::EBUSY | libc::EAGAIN))
}

/// Explains why a ring cannot be created.
fn explain(error: io::Error) -> io::Error {
    let text = match error.raw_os_error() {
        Some(libc::ENOSYS) => {
            "this kernel does not support it (Linux 5.1 or later is required)".to_string()
        }
        Some(libc::EPERM) => {
            let sysctl = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
            match sysctl.as_deref().map(str::trim) {
                Ok("1" | "2") => "it is disabled (sysctl kernel.io_uring_disabled)",
                _ => "it is forbidden, for example by the seccomp filter of a container",
            }
            .to_string()
        }
        Some(libc::ENOMEM) => "the limit of locked memory is reached (ulimit -l)".to_string(),
        // Other errors keep their number, and so their name and hint.
        _ => return error,
    };
    io::Error::new(error.kind(), format!("{text}; use --issuer sync"))
}

/// Checks, before any work, that io_uring is available.
///
/// # Errors
/// The reason why it is not, with a remedy.
pub fn probe() -> io::Result<()> {
    NewOpcodes::probe(&IoUring::new(1).map_err(explain)?).map(drop)
}
