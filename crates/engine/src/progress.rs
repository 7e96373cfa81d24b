//! Per-rank progress of a phase, for waits between ranks, the progress bar, and stopping all ranks after
//! a failure.
//!
//! A rank only stores its count after each op and compares it with its alarm, two instructions on a
//! cache line of its own. The alarm is the next tick, or the lowest count that another rank waits
//! for; only a rank that reaches its alarm takes the lock and wakes the others. The stored count may
//! still be on its way to memory when the alarm is read, so a rank can miss an alarm that
//! is being set: it then notices the alarm one op later, and a waiting thread checks again after [`RECHECK_INTERVAL`].

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fsdyno_workload::ProgressPoint;

/// Ops of a rank between two ticks.
pub const TICK: u64 = 256;

/// Maximum sleep of a waiting thread before it checks its condition again.
const RECHECK_INTERVAL: Duration = Duration::from_millis(100);

/// The reason why a rank cannot continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halt {
    /// Another thread has failed.
    Stopped,
    /// The op that it waits for can never return.
    Unreachable(ProgressPoint),
}

/// The ranks of a phase that run in other processes.
pub trait RemoteRanks: Send + Sync {
    /// Waits until `point.ops` ops of rank `point.thread` have returned.
    ///
    /// # Errors
    /// The phase was stopped, or its other processes are lost.
    fn wait(&self, point: ProgressPoint) -> Result<(), Halt>;
}

/// Progress of all ranks of a phase, shared by its threads.
pub struct PhaseProgress {
    /// Number of the first rank of this process among those of all processes.
    first: u32,
    remote_ranks: Option<Arc<dyn RemoteRanks>>,
    ranks: Box<[RankProgress]>,
    /// Ops of all ranks, as of their last ticks.
    reported: AtomicU64,
    stopped: AtomicBool,
    missed_alarms: AtomicU64,
    /// Number of threads in a long pause that the workload requires.
    pausing: AtomicU32,
    /// Number of threads that wait for ranks of other processes.
    waiting_remotely: AtomicU32,
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

/// Progress of one rank, on cache lines of its own (two, since processors fetch them in pairs).
#[repr(align(128))]
#[derive(Default)]
pub(crate) struct RankProgress {
    done: AtomicU64,
    alarm: AtomicU64,
    ended: AtomicBool,
}

/// A long pause of a thread between two ops.
pub(crate) struct LongPause<'a>(&'a PhaseProgress);

impl Drop for LongPause<'_> {
    fn drop(&mut self) {
        self.0.pausing.fetch_sub(1, Ordering::Relaxed);
    }
}

/// State of the waiting threads.
struct Waiting {
    /// Number of threads that neither wait nor have ended.
    running: u32,
    /// The ops waited for.
    points: Vec<ProgressPoint>,
}

impl RankProgress {
    /// Counts one op; returns false if the alarm is reached.
    #[inline(always)]
    pub(crate) fn count_op(&self) -> bool {
        // No other thread writes this count, so no locked instruction is needed.
        let done = self.done.load(Ordering::Relaxed) + 1;
        self.done.store(done, Ordering::Release);
        done < self.alarm.load(Ordering::Relaxed)
    }

    fn done(&self) -> u64 {
        self.done.load(Ordering::Acquire)
    }
}

impl PhaseProgress {
    /// Creates the progress of `ranks` ranks that run in `threads` threads.
    pub fn new(ranks: u32, threads: u32) -> PhaseProgress {
        let rank = |_| RankProgress { alarm: AtomicU64::new(TICK), ..RankProgress::default() };
        PhaseProgress {
            first: 0,
            remote_ranks: None,
            ranks: (0..ranks.max(1)).map(rank).collect(),
            reported: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            missed_alarms: AtomicU64::new(0),
            pausing: AtomicU32::new(0),
            waiting_remotely: AtomicU32::new(0),
            waiting: Mutex::new(Waiting { running: threads, points: Vec::new() }),
            changed: Condvar::new(),
        }
    }

    /// Turns this into the progress of one of several processes that share a phase: its ranks are numbered
    /// from `first` on, and the ranks of other processes are waited for through `remote_ranks`.
    pub fn with_remote_ranks(
        self,
        first: u32,
        remote_ranks: Arc<dyn RemoteRanks>,
    ) -> PhaseProgress {
        PhaseProgress { first, remote_ranks: Some(remote_ranks), ..self }
    }

    /// Returns the progress of a rank, which must be below the number given to [`PhaseProgress::new`].
    pub(crate) fn rank(&self, rank: u32) -> &RankProgress {
        &self.ranks[rank as usize]
    }

    /// Returns the number of ops that the ranks `first` to `first + ranks - 1` have done so far.
    pub(crate) fn done_by(&self, first: u32, ranks: u32) -> u64 {
        let ranks = first as usize..(first + ranks) as usize;
        self.ranks.get(ranks).unwrap_or_default().iter().map(RankProgress::done).sum()
    }

    /// Returns the number of ops of all ranks so far.
    pub fn done(&self) -> u64 {
        self.ranks.iter().map(RankProgress::done).sum()
    }

    /// Begins a long pause that the workload requires; dropping the result ends it.
    pub(crate) fn begin_pause(&self) -> LongPause<'_> {
        self.pausing.fetch_add(1, Ordering::Relaxed);
        LongPause(self)
    }

    /// Returns true if a thread is in a long pause that the workload requires, and all others pause, wait for ranks or
    /// have ended, so that no call can hang.
    pub fn is_pausing(&self) -> bool {
        let pausing = self.pausing.load(Ordering::Relaxed);
        let waiting = self.waiting_remotely.load(Ordering::Relaxed);
        pausing > 0 && pausing + waiting >= self.lock().running
    }

    /// Returns true if `point.ops` ops of rank `point.thread` have returned.
    pub fn has_reached(&self, point: ProgressPoint) -> bool {
        let progress = self.ranks.get(point.thread as usize);
        progress.is_some_and(|progress| progress.done() >= point.ops)
    }

    /// Returns true if a rank has no more ops, or does not exist.
    pub(crate) fn has_ended(&self, rank: u32) -> bool {
        let progress = self.ranks.get(rank as usize);
        progress.is_none_or(|progress| progress.ended.load(Ordering::Acquire))
    }

    /// Returns true if all ranks must stop.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Returns the number of waits that ended by [`RECHECK_INTERVAL`] rather than by a rank at its alarm.
    pub fn missed_alarms(&self) -> u64 {
        self.missed_alarms.load(Ordering::Relaxed)
    }

    /// Handles a reached alarm: wakes waiting threads, sets the next alarm, and ticks if due.
    /// Returns false if all ranks must stop.
    #[cold]
    #[inline(never)]
    pub(crate) fn on_alarm(&self, rank: u32, tick: &mut dyn FnMut(u64)) -> bool {
        let progress = self.rank(rank);
        let done = progress.done();
        if done % TICK == 0 {
            tick(self.reported.fetch_add(TICK, Ordering::Relaxed) + TICK);
        }
        let waiting = self.lock();
        if self.is_stopped() {
            return false;
        }
        let ahead = waiting.points.iter().filter(|point| point.thread == rank && point.ops > done);
        let next_tick = (done / TICK + 1) * TICK;
        let alarm = ahead.map(|point| point.ops).fold(next_tick, u64::min);
        progress.alarm.store(alarm, Ordering::Relaxed);
        // Waking is a system call even if no thread sleeps.
        let any_reached =
            waiting.points.iter().any(|point| point.thread == rank && point.ops <= done);
        drop(waiting);
        if any_reached {
            self.changed.notify_all();
        }
        true
    }

    /// Sleeps until one of the points is reached.
    ///
    /// # Errors
    /// Another thread has failed, or none of the points can be reached.
    pub fn wait(&self, points: &[ProgressPoint]) -> Result<(), Halt> {
        match (&self.remote_ranks, points) {
            (Some(remote_ranks), [point]) => match self.localize(*point) {
                Some(point) => self.wait_locally(&[point], 1),
                None => {
                    self.waiting_remotely.fetch_add(1, Ordering::Relaxed);
                    let reached = remote_ranks.wait(*point);
                    self.waiting_remotely.fetch_sub(1, Ordering::Relaxed);
                    reached
                }
            },
            _ => self.wait_locally(points, 1),
        }
    }

    /// Waits on behalf of another process until a rank of this one reaches `point` (numbered across processes).
    ///
    /// # Errors
    /// Same as [`PhaseProgress::wait`].
    pub fn wait_for_local_rank(&self, point: ProgressPoint) -> Result<(), Halt> {
        match self.localize(point) {
            Some(point) => self.wait_locally(&[point], 0),
            None => Err(Halt::Unreachable(point)),
        }
    }

    /// Returns a point with its rank's number in this process; `None` if the rank belongs to a different process.
    fn localize(&self, point: ProgressPoint) -> Option<ProgressPoint> {
        let thread = point.thread.checked_sub(self.first)?;
        ((thread as usize) < self.ranks.len()).then_some(ProgressPoint { thread, ..point })
    }

    /// Waits as one of the phase's threads (`threads` is 1), or as a different thread (0).
    fn wait_locally(&self, points: &[ProgressPoint], threads: u32) -> Result<(), Halt> {
        if points.iter().any(|point| self.has_reached(*point)) {
            return Ok(());
        }
        let mut waiting = self.lock();
        waiting.running -= threads;
        waiting.points.extend_from_slice(points);
        let mut timed_out = false;
        let outcome = loop {
            if self.is_stopped() {
                break Err(Halt::Stopped);
            }
            self.set_alarms(points);
            if points.iter().any(|point| self.has_reached(*point)) {
                self.missed_alarms.fetch_add(u64::from(timed_out), Ordering::Relaxed);
                break Ok(());
            }
            if let Some(point) = self.find_unreachable(points, &waiting, threads > 0) {
                break Err(Halt::Unreachable(point));
            }
            let woken = self.changed.wait_timeout(waiting, RECHECK_INTERVAL);
            let (locked, timeout) = woken.unwrap_or_else(PoisonError::into_inner);
            (waiting, timed_out) = (locked, timeout.timed_out());
        };
        waiting.running += threads;
        for point in points {
            if let Some(index) = waiting.points.iter().position(|candidate| candidate == point) {
                waiting.points.swap_remove(index);
            }
        }
        outcome
    }

    fn set_alarms(&self, points: &[ProgressPoint]) {
        for point in points {
            if let Some(progress) = self.ranks.get(point.thread as usize) {
                progress.alarm.fetch_min(point.ops, Ordering::Relaxed);
            }
        }
        // The alarms must be in memory before the counts are checked once more.
        fence(Ordering::SeqCst);
    }

    /// Returns a point that can no longer be reached, if any: its rank has ended before it, or
    /// all threads wait, including the caller.
    fn find_unreachable(
        &self,
        points: &[ProgressPoint],
        waiting: &Waiting,
        is_thread: bool,
    ) -> Option<ProgressPoint> {
        let past_end = |point: &&ProgressPoint| {
            let progress = self.ranks.get(point.thread as usize);
            progress.is_none_or(|progress| {
                progress.ended.load(Ordering::Acquire) && progress.done() < point.ops
            })
        };
        let is_deadlock = || {
            is_thread
                && waiting.running == 0
                && !waiting.points.iter().any(|point| self.has_reached(*point))
        };
        points.iter().find(past_end).or_else(|| points.first().filter(|_| is_deadlock())).copied()
    }

    /// Marks a rank as ended; returns its number of ops.
    pub(crate) fn end(&self, rank: u32, tick: &mut dyn FnMut(u64)) -> u64 {
        let progress = self.rank(rank);
        let done = progress.done();
        let remainder = done % TICK;
        progress.ended.store(true, Ordering::Release);
        tick(self.reported.fetch_add(remainder, Ordering::Relaxed) + remainder);
        self.wake();
        done
    }

    /// Wakes waiting threads. Taking the lock first ensures that none is between its last check and its sleep.
    fn wake(&self) {
        drop(self.lock());
        self.changed.notify_all();
    }

    /// Marks a thread as ended.
    pub(crate) fn end_thread(&self) {
        self.lock().running -= 1;
        self.changed.notify_all();
    }

    /// Stops all threads: each finds its alarm reached after its next op.
    pub fn stop(&self) {
        let waiting = self.lock();
        self.stopped.store(true, Ordering::Relaxed);
        for progress in &self.ranks {
            progress.alarm.store(0, Ordering::Relaxed);
        }
        drop(waiting);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(progress: &PhaseProgress, rank: u32) -> bool {
        progress.rank(rank).count_op() || progress.on_alarm(rank, &mut |_| {})
    }

    #[test]
    fn a_waiting_thread_is_woken_when_the_count_is_reached_and_not_before() {
        let progress = PhaseProgress::new(2, 2);
        let point = ProgressPoint { thread: 0, ops: 300 };
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                progress.wait(&[point]).unwrap();
                progress.done()
            });
            for _ in 0..300 {
                assert!(step(&progress, 0));
            }
            assert!(waiter.join().unwrap() >= 300);
        });
        assert!(
            progress.has_reached(point)
                && !progress.has_reached(ProgressPoint { thread: 0, ops: 301 })
        );
    }

    #[test]
    fn waiting_for_a_rank_that_has_ended_or_does_not_exist_is_an_error() {
        let progress = PhaseProgress::new(2, 2);
        step(&progress, 0);
        progress.end(0, &mut |_| {});
        progress.end_thread();
        let never = ProgressPoint { thread: 0, ops: 2 };
        assert_eq!(progress.wait(&[never]), Err(Halt::Unreachable(never)));
        let missing = ProgressPoint { thread: 7, ops: 1 };
        assert_eq!(progress.wait(&[missing]), Err(Halt::Unreachable(missing)));
        assert_eq!(progress.wait(&[ProgressPoint { thread: 0, ops: 1 }]), Ok(()));
    }

    #[test]
    fn a_deadlock_of_two_waiting_ranks_is_detected() {
        let progress = PhaseProgress::new(2, 2);
        let wait = |thread| progress.wait(&[ProgressPoint { thread, ops: 1 }]);
        let halts = std::thread::scope(|scope| {
            let first = scope.spawn(|| {
                let halt = wait(0);
                progress.stop();
                halt
            });
            let second = wait(1);
            progress.stop();
            [second, first.join().unwrap()]
        });
        assert!(halts.iter().all(Result::is_err), "{halts:?}");
        assert!(halts.iter().any(|halt| matches!(halt, Err(Halt::Unreachable(_)))), "{halts:?}");
    }

    #[test]
    fn a_stop_reaches_waiting_and_working_threads() {
        let progress = PhaseProgress::new(3, 3);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| progress.wait(&[ProgressPoint { thread: 0, ops: 1 }]));
            progress.stop();
            assert_eq!(waiter.join().unwrap(), Err(Halt::Stopped));
        });
        assert!(!step(&progress, 1));
    }

    #[test]
    fn a_phase_pauses_while_no_thread_makes_calls() {
        let progress = PhaseProgress::new(2, 2);
        let (one, other) = (progress.begin_pause(), progress.begin_pause());
        assert!(progress.is_pausing());
        drop(one);
        assert!(!progress.is_pausing(), "the call of the other thread may hang");
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| progress.wait(&[ProgressPoint { thread: 0, ops: 1 }]));
            while !progress.is_pausing() {
                std::thread::yield_now();
            }
            progress.stop();
            assert_eq!(waiter.join().unwrap(), Err(Halt::Stopped));
        });
        assert!(!progress.is_pausing());
        progress.end_thread();
        assert!(progress.is_pausing());
        drop(other);
        assert!(!progress.is_pausing());
    }

    #[test]
    fn ticks_report_the_ops_of_all_ranks() {
        let progress = PhaseProgress::new(2, 2);
        let mut reported = Vec::new();
        for rank in [0, 1] {
            for _ in 0..300 {
                let _ = progress.rank(rank).count_op()
                    || progress.on_alarm(rank, &mut |done| reported.push(done));
            }
            progress.end(rank, &mut |done| reported.push(done));
        }
        assert_eq!(reported, [256, 300, 556, 600]);
    }
}
