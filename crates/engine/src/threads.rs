//! A phase in the hands of many threads: they start together, and one failure stops them all.
//!
//! Each thread has its own generator, issuer and recorder and shares nothing with the others but the
//! [`Board`]. A phase of one thread runs in the caller's own.

use std::ffi::CStr;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use fsdyno_record::Nanos;
use fsdyno_record::acks::AckLog;
use fsdyno_record::plan::IssuerPlan;
use fsdyno_workload::{Contents, OpSource, Share, Threads, Workload};

use crate::board::Board;
use crate::clock;
use crate::errno::Errno;
use crate::issue::acked::Acked;
use crate::issue::null::Null;
use crate::issue::raw::Raw;
use crate::issue::sync::Sync as SyncIssuer;
use crate::issue::uring::Uring;
use crate::limit::{limited, until};
use crate::recorder::Recorder;
use crate::run::{Cause, Failure, Outcome, run_rank};

/// Who does a phase, and how.
#[derive(Clone, Copy)]
pub struct Crew<'a> {
    /// The workload.
    pub work: &'a dyn Workload,
    /// Which of its phases.
    pub phase: usize,
    /// How many threads the phase takes.
    pub threads: Threads,
    /// How many threads are asked for.
    pub asked: u32,
    /// How they issue ops.
    pub issuer: IssuerPlan,
    /// The trial's own directory.
    pub root: BorrowedFd<'a>,
    /// The device that stands for every file, where there is no file system.
    pub device: Option<&'a CStr>,
    /// What is written.
    pub contents: &'a Arc<Contents>,
}

/// Why a phase came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum PhaseError {
    /// An op did not end as its workload says.
    #[error(transparent)]
    Op(#[from] Failure),
    /// The phase could not begin.
    #[error("{0}: {text}", text = said(.1))]
    Start(&'static str, io::Error),
    /// A thread has panicked, which is a bug.
    #[error("a thread of the phase ended in panic; this is a bug of fsdyno")]
    Panic,
}

impl PhaseError {
    /// What a user can do about it, where that can be said.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            PhaseError::Op(failure) => failure.hint(),
            PhaseError::Start(_, error) => {
                error.raw_os_error().and_then(|errno| Errno(errno).hint())
            }
            PhaseError::Panic => None,
        }
    }
}

/// An error of the system with its name, as of an op.
fn said(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(errno) => Errno(errno).to_string(),
        None => error.to_string(),
    }
}

/// What a phase came to, and the hands that did it: closing what they hold is not part of it.
pub struct Done {
    /// From the first start to the last return.
    pub outcome: Outcome,
    /// What each rank's source says that it has done.
    pub done: Vec<u64>,
    hands: Vec<Hand>,
    recorders: Vec<Recorder>,
}

impl Done {
    /// The latencies that all threads counted.
    pub fn into_recorder(self) -> Recorder {
        drop(self.hands);
        let mut recorders = self.recorders.into_iter();
        let mut all = recorders.next().unwrap_or_default();
        recorders.for_each(|more| all.merge(&more));
        all
    }
}

impl Crew<'_> {
    /// How many OS threads there will be.
    pub fn threads(&self) -> u32 {
        self.threads.of(self.asked)
    }

    /// Into how many shares the phase is split: one for each op in flight.
    pub fn ranks(&self) -> u32 {
        self.threads.of(self.asked.saturating_mul(self.issuer.depth()))
    }
}

/// What one thread issues with.
enum Hand {
    Sync(Box<SyncIssuer>),
    Acked(Box<Acked<SyncIssuer>>),
    Uring(Box<Uring>),
    Raw(Box<Raw>),
    Null(Null),
}

impl Hand {
    fn new(crew: &Crew<'_>, ranks: u32) -> Result<Hand, PhaseError> {
        let root = || crew.root.try_clone_to_owned();
        let opened = |error| PhaseError::Start("open the trial's directory again", error);
        Ok(match crew.issuer {
            IssuerPlan::Null => Hand::Null(Null),
            IssuerPlan::Sync => {
                let root = root().map_err(opened)?;
                let files = SyncIssuer::new(root, Arc::clone(crew.contents));
                match crew.device {
                    Some(device) => Hand::Raw(Box::new(Raw::new(files, device.to_owned()))),
                    None => Hand::Sync(Box::new(files)),
                }
            }
            IssuerPlan::IoUring { .. } => {
                let roots: io::Result<Vec<OwnedFd>> = (0..ranks).map(|_| root()).collect();
                let ring = Uring::new(roots.map_err(opened)?, crew.contents);
                Hand::Uring(Box::new(ring.map_err(|e| PhaseError::Start("io_uring", e))?))
            }
        })
    }

    /// The same, noting when each op comes back; only of calls that a thread makes one by one.
    fn acked(self, rank: u32, phase: usize, acks: Option<&AckLog>) -> Hand {
        match (self, acks.and_then(|acks| acks.rank(rank))) {
            (Hand::Sync(calls), Some(line)) => {
                line.phase(phase);
                Hand::Acked(Box::new(Acked::new(*calls, line)))
            }
            (other, _) => other,
        }
    }

    /// The hot loops, each compiled for its issuer.
    fn run(
        &mut self,
        board: &Board,
        first: u32,
        sources: &mut [Box<dyn OpSource + Send + '_>],
        recorder: &mut Recorder,
        beat: &mut dyn FnMut(u64),
    ) -> Result<Outcome, Failure> {
        let one = sources.first_mut().map(|source| source.as_mut() as &mut dyn OpSource);
        match (self, one) {
            (Hand::Sync(issuer), Some(source)) => {
                run_rank(board, first, source, issuer.as_mut(), recorder, beat)
            }
            (Hand::Acked(issuer), Some(source)) => {
                run_rank(board, first, source, issuer.as_mut(), recorder, beat)
            }
            (Hand::Raw(issuer), Some(source)) => {
                run_rank(board, first, source, issuer.as_mut(), recorder, beat)
            }
            (Hand::Null(issuer), Some(source)) => {
                run_rank(board, first, source, issuer, recorder, beat)
            }
            (Hand::Uring(ring), Some(_)) => ring.run(board, first, sources, recorder, beat),
            (_, None) => Ok(Outcome::default()),
        }
    }
}

/// Runs a phase to its end. `ready` is called when all threads stand at the start, before the first
/// op; `beat` with the number of ops done by all of them.
///
/// # Errors
/// The first op, of whatever thread, that does not end as its workload says; that it cannot begin.
pub fn run_threads(
    crew: &Crew<'_>,
    ready: &mut dyn FnMut(),
    beat: &(dyn Fn(u64) + Sync),
) -> Result<Done, PhaseError> {
    run_acked(crew, None, ready, beat)
}

/// [`run_threads`], noting in `acks` when each op of [`IssuerPlan::Sync`] comes back.
///
/// # Errors
/// As [`run_threads`].
pub fn run_acked(
    crew: &Crew<'_>,
    acks: Option<&AckLog>,
    ready: &mut dyn FnMut(),
    beat: &(dyn Fn(u64) + Sync),
) -> Result<Done, PhaseError> {
    let (threads, ranks) = (crew.threads(), crew.ranks());
    let board = Board::new(ranks, threads);
    let each = ranks / threads;
    let mut places = Vec::new();
    for thread in 0..threads {
        let first = thread * each;
        let share = |rank| {
            let source = crew.work.ops(crew.phase, Share { rank, ranks });
            let source = limited(source, crew.work.limit(crew.phase));
            until(source, &board, rank, crew.work.ends_with(crew.phase))
        };
        places.push(Place {
            first,
            hand: Hand::new(crew, each)?.acked(first, crew.phase, acks),
            sources: (first..first + each).map(share).collect(),
            recorder: Recorder::new(),
        });
    }
    let outcome = match places.as_mut_slice() {
        [only] => {
            ready();
            only.run(&board, clock::now(), beat)?
        }
        places => together(places, &board, ready, beat)?,
    };
    let done = places.iter().flat_map(|place| &place.sources).map(|source| source.done()).collect();
    let (hands, recorders) = places.into_iter().map(|place| (place.hand, place.recorder)).unzip();
    Ok(Done { outcome, done, hands, recorders })
}

/// What one thread needs.
struct Place<'a> {
    first: u32,
    hand: Hand,
    sources: Vec<Box<dyn OpSource + Send + 'a>>,
    recorder: Recorder,
}

impl Place<'_> {
    /// Runs its part of a phase, whose intervals are counted from `start` for all threads.
    fn run(
        &mut self,
        board: &Board,
        start: Nanos,
        beat: &(dyn Fn(u64) + Sync),
    ) -> Result<Outcome, Failure> {
        let Place { first, hand, sources, recorder } = self;
        recorder.timeline_mut().begin(start);
        hand.run(board, *first, sources, recorder, &mut |done| beat(done))
    }
}

/// Stops the others if its thread ends before it has said that all went well.
struct Watch<'a> {
    board: &'a Board,
    well: bool,
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if self.well {
            self.board.leave();
        } else {
            self.board.stop();
        }
    }
}

fn together(
    places: &mut [Place<'_>],
    board: &Board,
    ready: &mut dyn FnMut(),
    beat: &(dyn Fn(u64) + Sync),
) -> Result<Outcome, PhaseError> {
    let (gate, count) = (&Gate::default(), places.len());
    let work = move |place: &mut Place<'_>| {
        let mut watch = Watch { board, well: false };
        let Some(start) = gate.arrive() else { return Ok(Outcome::default()) };
        let outcome = place.run(board, start, beat);
        watch.well = outcome.is_ok();
        outcome
    };
    std::thread::scope(|scope| {
        // Whatever ends this early, a panic too, the scope waits for all threads.
        let _sent_home = SentHome(gate);
        let mut threads = Vec::new();
        for place in places {
            let started = std::thread::Builder::new().spawn_scoped(scope, move || work(place));
            threads.push(started.map_err(|error| PhaseError::Start("start a thread", error))?);
        }
        gate.wait_for(count);
        ready();
        gate.open(Some(clock::now()));
        sum(threads.into_iter().map(|thread| thread.join().ok()))
    })
}

/// Where all threads wait until all are there; then they start together, or not at all.
#[derive(Default)]
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    arrived: usize,
    /// Whether they were let go, and when if it was to start.
    open: Option<Option<Nanos>>,
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread is there; since when it may start, if it is to.
    fn arrive(&self) -> Option<Nanos> {
        let mut state = self.lock();
        state.arrived += 1;
        self.changed.notify_all();
        loop {
            if let Some(start) = state.open {
                return start;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until so many threads are there.
    fn wait_for(&self, count: usize) {
        let mut state = self.lock();
        while state.arrived < count {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets all go, to start now or not at all; only the first word counts.
    fn open(&self, start: Option<Nanos>) {
        self.lock().open.get_or_insert(start);
        self.changed.notify_all();
    }
}

/// Sends home who still waits at the gate when its owner goes.
struct SentHome<'a>(&'a Gate);

impl Drop for SentHome<'_> {
    fn drop(&mut self) {
        self.0.open(None);
    }
}

/// The sum of all outcomes, or the failure that stopped the others.
fn sum(
    ended: impl Iterator<Item = Option<Result<Outcome, Failure>>>,
) -> Result<Outcome, PhaseError> {
    let mut all: Option<Outcome> = None;
    let mut stopped = None;
    for one in ended {
        match one {
            Some(Ok(outcome)) => all = Some(all.map_or(outcome, |all| all.and(outcome))),
            Some(Err(failure)) if failure.cause == Cause::Stopped => stopped = Some(failure),
            Some(Err(failure)) => return Err(failure.into()),
            None => return Err(PhaseError::Panic),
        }
    }
    match stopped {
        Some(failure) => Err(failure.into()),
        None => Ok(all.unwrap_or_default()),
    }
}
