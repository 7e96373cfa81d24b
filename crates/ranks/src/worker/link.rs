//! A worker's connection with rank 0: one thread answers urgent messages, another sends heartbeats.

use std::collections::HashMap;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fsdyno_engine::clock;
use fsdyno_engine::progress::{Halt, PhaseProgress, RemoteRanks};
use fsdyno_record::Nanos;
use fsdyno_workload::ProgressPoint;

use super::WorkerError;
use crate::messages::{FromRank, Goal, Point, ToRank};
use crate::wire::{Wire, WireReader};

/// Interval of a worker's heartbeats.
const BEAT: Duration = Duration::from_millis(500);

/// The exit code of a worker that ended by order of rank 0.
pub(crate) const ENDED_BY_ORDER: i32 = 5;

/// The exit code of a worker whose connection with rank 0 ended without an order to end. The last line of its standard
/// error is the name of the trial's directory.
pub(crate) const ORPHANED: i32 = 6;

/// The connection, shared by the threads of a worker.
pub(crate) struct Link {
    wire: Wire,
    state: Arc<State>,
    /// The parts of an input file, with the number of the first byte.
    parts: Receiver<(u64, Vec<u8>)>,
}

pub(super) struct State {
    wire: Wire,
    phase: Mutex<Phase>,
    changed: Condvar,
    /// Number of entries that verification has read, over all trials.
    read: AtomicU64,
    /// The name of the trial's directory in the shared directory, or empty before the first trial.
    folder: Mutex<String>,
}

/// The phase that is armed or running.
#[derive(Default)]
struct Phase {
    progress: Option<Arc<PhaseProgress>>,
    go: Option<Nanos>,
    stopped: bool,
    /// Number of ops of other processes that are known to have returned, by thread.
    reached: HashMap<u32, u64>,
    /// The goal after the stonewall.
    goal: Option<Goal>,
}

impl State {
    fn lock(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a message.
    pub(super) fn send(&self, message: &FromRank) -> std::io::Result<()> {
        self.wire.send(message)
    }

    /// Waits until all shares have reached the stonewall; None if they must stop.
    pub(super) fn wait_for_goal(&self) -> Option<Goal> {
        let mut phase = self.lock();
        loop {
            if phase.stopped {
                return None;
            }
            if let Some(goal) = phase.goal {
                return Some(goal);
            }
            phase = self.wait(phase);
        }
    }

    fn note_folder(&self, path: &str) {
        let name = path.split('/').next().unwrap_or_default();
        *self.folder.lock().unwrap_or_else(PoisonError::into_inner) = name.to_string();
    }

    fn wait<'a>(&self, phase: MutexGuard<'a, Phase>) -> MutexGuard<'a, Phase> {
        self.changed.wait(phase).unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for ranks in other processes, through rank 0.
impl RemoteRanks for State {
    fn wait(&self, point: ProgressPoint) -> Result<(), Halt> {
        let ProgressPoint { thread, ops } = point;
        if self.wire.send(&FromRank::Await(Point { thread, ops })).is_err() {
            return Err(Halt::Stopped);
        }
        let mut phase = self.lock();
        loop {
            if phase.stopped {
                return Err(Halt::Stopped);
            }
            if phase.reached.get(&thread).is_some_and(|done| *done >= ops) {
                return Ok(());
            }
            phase = self.wait(phase);
        }
    }
}

impl Link {
    /// Starts the threads; orders for the worker's main thread go to `orders`.
    pub(crate) fn start(wire: Wire, reader: WireReader, orders: Sender<ToRank>) -> Link {
        let state = Arc::new(State {
            wire: wire.clone(),
            phase: Mutex::default(),
            changed: Condvar::new(),
            read: AtomicU64::new(0),
            folder: Mutex::default(),
        });
        let (listening, beating) = (Arc::clone(&state), Arc::clone(&state));
        let (part, parts) = mpsc::channel();
        std::thread::spawn(move || listen(&listening, reader, &orders, &part));
        std::thread::spawn(move || beat(&beating));
        Link { wire, state, parts }
    }

    /// Returns the connection.
    pub(crate) fn wire(&self) -> &Wire {
        &self.wire
    }

    /// Returns the state that all threads share.
    pub(super) fn state(&self) -> Arc<State> {
        Arc::clone(&self.state)
    }

    /// Returns the object that waits for ranks in other processes.
    pub(crate) fn remote_ranks(&self) -> Arc<dyn RemoteRanks> {
        Arc::clone(&self.state) as Arc<dyn RemoteRanks>
    }

    /// Sets the progress of the armed phase, so that it can be stopped and observed.
    pub(crate) fn arm(&self, progress: &Arc<PhaseProgress>) {
        let mut phase = self.state.lock();
        phase.progress = Some(Arc::clone(progress));
        if phase.stopped {
            progress.stop();
        }
    }

    /// Waits for the time at which the phase begins; None if it must not begin.
    pub(crate) fn wait_for_go(&self) -> Option<Nanos> {
        let mut phase = self.state.lock();
        loop {
            if phase.stopped {
                return None;
            }
            if let Some(at) = phase.go {
                return Some(at);
            }
            phase = self.state.wait(phase);
        }
    }

    /// Returns true if the worker must stop what it does.
    pub(super) fn is_stopped(&self) -> bool {
        self.state.lock().stopped
    }

    /// Discards parts of an earlier input file that are still queued. Call it before the first [`Link::fetch`] of a new
    /// file.
    pub(super) fn discard_parts(&self) {
        self.parts.try_iter().for_each(drop);
    }

    /// Requests the part of an input file that begins at byte `from`.
    ///
    /// # Errors
    /// The worker must stop.
    pub(super) fn fetch(&self, from: u64) -> Result<Vec<u8>, WorkerError> {
        // If the connection is broken, the listening thread ends this process.
        let _ = self.wire.send(&FromRank::WantInput { from });
        while !self.is_stopped() {
            match self.parts.recv_timeout(BEAT) {
                Ok((first, part)) if first == from => return Ok(part),
                // A part that was requested before an earlier stop.
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        Err(WorkerError::stopped())
    }

    /// Counts entries that verification has read.
    pub(crate) fn add_read(&self, entries: u64) {
        self.state.read.fetch_add(entries, Ordering::Relaxed);
    }
}

fn listen(
    state: &Arc<State>,
    mut reader: WireReader,
    orders: &Sender<ToRank>,
    parts: &Sender<(u64, Vec<u8>)>,
) {
    loop {
        let Ok(order) = reader.receive::<ToRank>() else { exit_orphaned(state) };
        match order {
            // Answered immediately: it measures the clock.
            ToRank::Ping => drop(state.wire.send(&FromRank::Pong { now: clock::now() })),
            ToRank::Go { at } => {
                state.lock().go = Some(at);
                state.changed.notify_all();
            }
            ToRank::GoOn(goal) => {
                state.lock().goal = Some(goal);
                state.changed.notify_all();
            }
            ToRank::Stop => stop(state),
            ToRank::Await(point) => observe(state, point),
            ToRank::Reached(Point { thread, ops }) => {
                let mut phase = state.lock();
                let known = phase.reached.entry(thread).or_default();
                *known = ops.max(*known);
                state.changed.notify_all();
            }
            ToRank::Chunk { from, length } => {
                let Ok(part) = reader.receive_bytes(length) else { exit_orphaned(state) };
                // A worker that was stopped meanwhile does not wait for it.
                let _ = parts.send((from, part));
            }
            ToRank::Abort { why: _ } => std::process::exit(ENDED_BY_ORDER),
            order => {
                if matches!(order, ToRank::Arm { .. } | ToRank::Prefill | ToRank::Input(_)) {
                    *state.lock() = Phase::default();
                }
                if let ToRank::Prepare(preparation) = &order {
                    state.note_folder(&preparation.folder);
                }
                let is_last = matches!(order, ToRank::End);
                if orders.send(order).is_err() || is_last {
                    return;
                }
            }
        }
    }
}

/// Ends this process because rank 0 is gone; prints the directory that may remain, for the parent.
fn exit_orphaned(state: &State) -> ! {
    let folder = state.folder.lock().unwrap_or_else(PoisonError::into_inner);
    // The parent reads this line; if the parent is gone, nothing can be reported.
    let _ = writeln!(std::io::stderr(), "{folder}");
    std::process::exit(ORPHANED)
}

fn stop(state: &State) {
    let mut phase = state.lock();
    phase.stopped = true;
    if let Some(progress) = &phase.progress {
        progress.stop();
    }
    state.changed.notify_all();
}

/// Reports to rank 0 when an op of this process has returned.
fn observe(state: &Arc<State>, point: Point) {
    let state = Arc::clone(state);
    std::thread::spawn(move || {
        let progress = state.lock().progress.clone();
        let after = ProgressPoint { thread: point.thread, ops: point.ops };
        // A failure of the phase also stops the waiting rank.
        if progress.is_some_and(|progress| progress.wait_for_local_rank(after).is_ok()) {
            let _ = state.wire.send(&FromRank::Reached(point));
        }
    });
}

fn beat(state: &State) {
    loop {
        std::thread::sleep(BEAT);
        let progress = state.lock().progress.clone();
        let ops = progress.as_ref().map_or(0, |progress| progress.done());
        // While all threads pause because the workload requires it, the count increases, so that rank 0 does not
        // consider this worker stalled.
        if progress.is_some_and(|progress| progress.is_pausing()) {
            state.read.fetch_add(1, Ordering::Relaxed);
        }
        let work = ops.wrapping_add(state.read.load(Ordering::Relaxed));
        // The listening thread detects the end of the connection.
        let _ = state.wire.send(&FromRank::Beat { work, ops });
    }
}
