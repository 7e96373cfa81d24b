//! Runs a phase in many threads: they start together, and one failure stops them all.
//!
//! Each thread has its own generator, issuer and recorder and shares only the
//! [`PhaseProgress`] with the others. A phase of one thread runs in the caller's thread.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use fsdyno_record::Nanos;
use fsdyno_record::acks::AckLog;
use fsdyno_record::plan::IssuerPlan;
use fsdyno_workload::{Contents, Differences, ItemLimit, OpSource, Share, Threads, Workload};

use crate::clock;
use crate::errno::Errno;
use crate::failure::{Cause, Failure};
use crate::issue::acked::LoggingIssuer;
use crate::issue::null::Null;
use crate::issue::raw::Raw;
use crate::issue::shared::{SharedIssuer, Slots};
use crate::issue::sync::SyncIssuer;
use crate::issue::uring::Uring;
use crate::limit::{until_rank_ends, with_time_limit};
use crate::meter::Outcome;
use crate::progress::PhaseProgress;
use crate::recorder::Recorder;
use crate::run::run_rank;

/// Everything needed to run one phase.
#[derive(Clone, Copy)]
pub struct PhaseRun<'a> {
    /// The workload.
    pub work: &'a dyn Workload,
    /// Index of the phase.
    pub phase: usize,
    /// Number of threads that the phase takes.
    pub threads: Threads,
    /// Requested number of threads.
    pub requested: u32,
    /// The method of issuing ops.
    pub issuer: IssuerPlan,
    /// The trial's own directory.
    pub root: BorrowedFd<'a>,
    /// The same directory as seen by each of several clients, over which threads are distributed in contiguous blocks,
    /// or empty if all threads use `root`.
    pub roots: &'a [BorrowedFd<'a>],
    /// The device that replaces every file, if there is no file system.
    pub device: Option<&'a CStr>,
    /// The data to write.
    pub contents: &'a Arc<Contents>,
    /// The open files that all threads share, if the workload shares them.
    pub slots: Option<&'a Arc<Slots>>,
    /// The processes that share the phase, if there are several.
    pub process_share: Option<ProcessShare<'a>>,
}

/// The part of one process in a phase that several processes share.
#[derive(Clone, Copy)]
pub struct ProcessShare<'a> {
    /// The share of this process among processes; its threads divide it further.
    pub share: Share,
    /// The progress of this process's ranks, created by [`PhaseProgress::with_remote_ranks`].
    pub progress: &'a PhaseProgress,
    /// The item limit of each share of this process, if the phase ends at a stonewall.
    pub stonewalls: Option<&'a dyn Fn(u32) -> Box<dyn ItemLimit>>,
}

/// An error from running a phase.
#[derive(Debug, thiserror::Error)]
pub enum PhaseError {
    /// An op had a result that its workload does not expect.
    #[error(transparent)]
    Op(#[from] Failure),
    /// The phase could not start.
    #[error("{0}: {message}", message = with_name(.1))]
    Start(&'static str, io::Error),
    /// A thread panicked, which is a bug.
    #[error("a thread of the phase panicked; this is a bug of fsdyno")]
    Panic,
}

impl PhaseError {
    /// Returns a remedy for the user, if known.
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

/// Formats a system error with its name, as for an op.
fn with_name(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(errno) => Errno(errno).to_string(),
        None => error.to_string(),
    }
}

/// The result of a phase, with its issuers: closing the issuers' files is not part of the phase.
pub struct PhaseResult {
    /// From the first start to the last return.
    pub outcome: Outcome,
    /// The amount of work that each rank's source reports.
    pub done: Vec<u64>,
    /// The ops with an unexpected result after which the phase continued.
    pub differences: Differences,
    issuers: Vec<AnyIssuer>,
    recorders: Vec<Recorder>,
}

impl PhaseResult {
    /// Merges the latencies of all threads.
    pub fn into_recorder(self) -> Recorder {
        drop(self.issuers);
        let mut recorders = self.recorders.into_iter();
        let mut merged = recorders.next().unwrap_or_default();
        recorders.for_each(|recorder| merged.merge(&recorder));
        merged
    }
}

impl PhaseRun<'_> {
    /// Returns the number of OS threads.
    pub fn threads(&self) -> u32 {
        self.threads.count_of(self.requested)
    }

    /// Returns the trial's directory as a thread sees it.
    fn root_of(&self, thread: u32) -> BorrowedFd<'_> {
        let (clients, threads) = (self.roots.len() as u64, u64::from(self.threads().max(1)));
        let client = u64::from(thread) * clients / threads;
        self.roots.get(client as usize).copied().unwrap_or(self.root)
    }

    /// Returns the number of shares of the phase: one for each op in flight.
    pub fn ranks(&self) -> u32 {
        self.threads.count_of(self.requested.saturating_mul(self.issuer.depth()))
    }
}

/// Opens a directory once more.
fn reopen(directory: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    // SAFETY: the name is a literal that ends in NUL.
    let fd = unsafe { libc::openat(directory.as_raw_fd(), c".".as_ptr(), flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and owned by no one else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The issuer of one thread.
enum AnyIssuer {
    Sync(Box<SyncIssuer>),
    Acked(Box<LoggingIssuer<SyncIssuer>>),
    Uring(Box<Uring>),
    Raw(Box<Raw>),
    Shared(Box<SharedIssuer>),
    AckedShared(Box<LoggingIssuer<SharedIssuer>>),
    Null(Null),
}

impl AnyIssuer {
    fn new(phase_run: &PhaseRun<'_>, thread: u32, ranks: u32) -> Result<AnyIssuer, PhaseError> {
        let root = || phase_run.root_of(thread).try_clone_to_owned();
        let start_error = |error| PhaseError::Start("reopen the trial's directory", error);
        Ok(match phase_run.issuer {
            IssuerPlan::Null => AnyIssuer::Null(Null),
            IssuerPlan::Sync => {
                let root = root().map_err(start_error)?;
                if let Some(slots) = phase_run.slots {
                    // An open file of its own: paths begin there, and threads on several processors would otherwise
                    // count its references up and down on one cache line, which processes do not.
                    let root = reopen(&root).map_err(start_error)?;
                    let contents = Arc::clone(phase_run.contents);
                    let shared = SharedIssuer::new(root, contents, Arc::clone(slots));
                    return Ok(AnyIssuer::Shared(Box::new(shared)));
                }
                let issuer = SyncIssuer::new(root, Arc::clone(phase_run.contents));
                match phase_run.device {
                    Some(device) => AnyIssuer::Raw(Box::new(Raw::new(issuer, device.to_owned()))),
                    None => AnyIssuer::Sync(Box::new(issuer)),
                }
            }
            IssuerPlan::IoUring { .. } => {
                let roots: io::Result<Vec<OwnedFd>> = (0..ranks).map(|_| root()).collect();
                let uring = Uring::new(roots.map_err(start_error)?, phase_run.contents);
                AnyIssuer::Uring(Box::new(
                    uring.map_err(|error| PhaseError::Start("io_uring", error))?,
                ))
            }
        })
    }

    /// Adds a log of the return time of each op, only for blocking calls.
    fn with_acks(self, rank: u32, phase: usize, acks: Option<&AckLog>) -> AnyIssuer {
        match (self, acks.and_then(|acks| acks.rank(rank))) {
            (AnyIssuer::Sync(issuer), Some(rank_acks)) => {
                rank_acks.begin_phase(phase);
                AnyIssuer::Acked(Box::new(LoggingIssuer::new(*issuer, rank_acks)))
            }
            (AnyIssuer::Shared(issuer), Some(rank_acks)) => {
                rank_acks.begin_phase(phase);
                AnyIssuer::AckedShared(Box::new(LoggingIssuer::new(*issuer, rank_acks)))
            }
            (issuer, _) => issuer,
        }
    }

    /// Runs the hot loop, compiled for each issuer.
    fn run(
        &mut self,
        progress: &PhaseProgress,
        first: u32,
        sources: &mut [Box<dyn OpSource + Send + '_>],
        recorder: &mut Recorder,
        tick: &mut dyn FnMut(u64),
    ) -> Result<Outcome, Failure> {
        let source = sources.first_mut().map(|source| source.as_mut() as &mut dyn OpSource);
        match (self, source) {
            (AnyIssuer::Sync(issuer), Some(source)) => {
                run_rank(progress, first, source, issuer.as_mut(), recorder, tick)
            }
            (AnyIssuer::Acked(issuer), Some(source)) => {
                run_rank(progress, first, source, issuer.as_mut(), recorder, tick)
            }
            (AnyIssuer::Raw(issuer), Some(source)) => {
                run_rank(progress, first, source, issuer.as_mut(), recorder, tick)
            }
            (AnyIssuer::Shared(issuer), Some(source)) => {
                run_rank(progress, first, source, issuer.as_mut(), recorder, tick)
            }
            (AnyIssuer::AckedShared(issuer), Some(source)) => {
                run_rank(progress, first, source, issuer.as_mut(), recorder, tick)
            }
            (AnyIssuer::Null(issuer), Some(source)) => {
                run_rank(progress, first, source, issuer, recorder, tick)
            }
            (AnyIssuer::Uring(ring), Some(_)) => ring.run(progress, first, sources, recorder, tick),
            (_, None) => Ok(Outcome::default()),
        }
    }
}

/// Runs a phase to completion. `ready` is called when all threads are about to start, before the first
/// op; `tick` with the number of ops done by all of them.
///
/// # Errors
/// The first op of any thread with a result that its workload does not expect; a phase that cannot start.
pub fn run_threads(
    phase_run: &PhaseRun<'_>,
    ready: &mut dyn FnMut(),
    tick: &(dyn Fn(u64) + Sync),
) -> Result<PhaseResult, PhaseError> {
    run_with_acks(phase_run, None, ready, tick)
}

/// Does the same as [`run_threads`] and logs the return time of each op of [`IssuerPlan::Sync`] in `acks`.
///
/// # Errors
/// Same as [`run_threads`].
pub fn run_with_acks(
    phase_run: &PhaseRun<'_>,
    acks: Option<&AckLog>,
    ready: &mut dyn FnMut(),
    tick: &(dyn Fn(u64) + Sync),
) -> Result<PhaseResult, PhaseError> {
    let (threads, ranks) = (phase_run.threads(), phase_run.ranks());
    let local_progress = PhaseProgress::new(ranks, threads);
    let progress = phase_run.process_share.map_or(&local_progress, |part| part.progress);
    let process_share = phase_run.process_share.map_or(Share::WHOLE, |part| part.share);
    let ranks_per_thread = ranks / threads;
    let mut workers = Vec::new();
    for thread in 0..threads {
        let first = thread * ranks_per_thread;
        let source_of = |rank| {
            let share = Share {
                rank: process_share.rank * ranks + rank,
                ranks: process_share.ranks * ranks,
            };
            let source = match phase_run.process_share.and_then(|part| part.stonewalls) {
                Some(stonewalls) => {
                    phase_run.work.ops_until(phase_run.phase, share, stonewalls(rank))
                }
                None => phase_run.work.ops(phase_run.phase, share),
            };
            let source = with_time_limit(source, phase_run.work.limit(phase_run.phase));
            until_rank_ends(source, progress, rank, phase_run.work.ends_with(phase_run.phase))
        };
        workers.push(Worker {
            first,
            issuer: AnyIssuer::new(phase_run, thread, ranks_per_thread)?.with_acks(
                first,
                phase_run.phase,
                acks,
            ),
            sources: (first..first + ranks_per_thread).map(source_of).collect(),
            recorder: Recorder::new(),
        });
    }
    let outcome = match workers.as_mut_slice() {
        [single] => {
            ready();
            single.run(progress, clock::now(), tick)?
        }
        workers => run_concurrently(workers, progress, ready, tick)?,
    };
    let done =
        workers.iter().flat_map(|worker| &worker.sources).map(|source| source.done()).collect();
    let mut differences = Differences::default();
    for source in workers.iter_mut().flat_map(|worker| &mut worker.sources) {
        differences.merge(source.differences());
    }
    let (issuers, recorders) =
        workers.into_iter().map(|worker| (worker.issuer, worker.recorder)).unzip();
    Ok(PhaseResult { outcome, done, differences, issuers, recorders })
}

/// The state of one thread.
struct Worker<'a> {
    first: u32,
    issuer: AnyIssuer,
    sources: Vec<Box<dyn OpSource + Send + 'a>>,
    recorder: Recorder,
}

impl Worker<'_> {
    /// Runs its part of a phase, whose intervals start at `start` for all threads.
    fn run(
        &mut self,
        progress: &PhaseProgress,
        start: Nanos,
        tick: &(dyn Fn(u64) + Sync),
    ) -> Result<Outcome, Failure> {
        let Worker { first, issuer, sources, recorder } = self;
        recorder.timeline_mut().begin(start);
        issuer.run(progress, *first, sources, recorder, &mut |done| tick(done))
    }
}

/// Stops the other threads if its thread ends without success.
struct StopUnlessOk<'a> {
    progress: &'a PhaseProgress,
    is_ok: bool,
}

impl Drop for StopUnlessOk<'_> {
    fn drop(&mut self) {
        if self.is_ok {
            self.progress.end_thread();
        } else {
            self.progress.stop();
        }
    }
}

fn run_concurrently(
    workers: &mut [Worker<'_>],
    progress: &PhaseProgress,
    ready: &mut dyn FnMut(),
    tick: &(dyn Fn(u64) + Sync),
) -> Result<Outcome, PhaseError> {
    let (gate, count) = (&Gate::default(), workers.len());
    let work = move |worker: &mut Worker<'_>| {
        let mut guard = StopUnlessOk { progress, is_ok: false };
        let Some(start) = gate.arrive() else { return Ok(Outcome::default()) };
        let outcome = worker.run(progress, start, tick);
        guard.is_ok = outcome.is_ok();
        outcome
    };
    std::thread::scope(|scope| {
        // `thread::scope` waits for all threads, even after an error or a panic.
        let _release = ReleaseOnDrop(gate);
        let mut threads = Vec::new();
        for worker in workers {
            let started = std::thread::Builder::new().spawn_scoped(scope, move || work(worker));
            threads.push(started.map_err(|error| PhaseError::Start("start a thread", error))?);
        }
        gate.wait_for(count);
        ready();
        gate.open(Some(clock::now()));
        combine(threads.into_iter().map(|thread| thread.join().ok()))
    })
}

/// A barrier: once all threads have arrived, they start together, or not at all.
#[derive(Default)]
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    arrived: usize,
    /// Set when opened; holds the start time, or `None` if they must not start.
    opened: Option<Option<Nanos>>,
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Arrives at the gate and waits; returns the start time, or `None` if the thread must not start.
    fn arrive(&self) -> Option<Nanos> {
        let mut state = self.lock();
        state.arrived += 1;
        self.changed.notify_all();
        loop {
            if let Some(start) = state.opened {
                return start;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until `count` threads have arrived.
    fn wait_for(&self, count: usize) {
        let mut state = self.lock();
        while state.arrived < count {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Opens the gate, with or without a start. Only the first call has an effect.
    fn open(&self, start: Option<Nanos>) {
        self.lock().opened.get_or_insert(start);
        self.changed.notify_all();
    }
}

/// Opens the gate without a start when dropped, so that no thread waits forever.
struct ReleaseOnDrop<'a>(&'a Gate);

impl Drop for ReleaseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.open(None);
    }
}

/// Combines all outcomes, or returns the failure that stopped the others.
fn combine(
    results: impl Iterator<Item = Option<Result<Outcome, Failure>>>,
) -> Result<Outcome, PhaseError> {
    let mut total: Option<Outcome> = None;
    let mut stopped = None;
    for result in results {
        match result {
            Some(Ok(outcome)) => total = Some(total.map_or(outcome, |total| total.merge(outcome))),
            Some(Err(failure)) if failure.cause == Cause::Stopped => stopped = Some(failure),
            Some(Err(failure)) => return Err(failure.into()),
            None => return Err(PhaseError::Panic),
        }
    }
    match stopped {
        Some(failure) => Err(failure.into()),
        None => Ok(total.unwrap_or_default()),
    }
}
