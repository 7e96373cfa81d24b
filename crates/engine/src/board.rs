//! How far each rank of a phase is: what others wait for, what the progress bar shows, and how one
//! failure stops them all.
//!
//! A rank only stores its count after each op and compares it with its alarm, two instructions on a
//! cache line of its own. The alarm is the next beat, or the lowest count that another rank waits
//! for; only a rank that reaches its alarm takes the lock and wakes the others. The stored count may
//! still be on its way to memory when the alarm is read, so that a rank may just miss an alarm that
//! is being set: it then sees it an op later, and whoever waits looks again after [`SAFETY_NET`].

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fsdyno_workload::After;

/// The beat comes every so many ops of a rank.
pub const BEAT: u64 = 256;

/// How long one waits at most before looking again whether what is waited for has come.
const SAFETY_NET: Duration = Duration::from_millis(100);

/// Why a rank cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halt {
    /// Another thread has failed.
    Stopped,
    /// What it waits for will never come.
    Never(After),
}

/// What the ranks of a phase know of each other.
pub struct Board {
    lines: Box<[Line]>,
    /// Ops of all ranks, as of their last beats.
    told: AtomicU64,
    stopped: AtomicBool,
    missed: AtomicU64,
    waiting: Mutex<Waiting>,
    moved: Condvar,
}

/// The count of one rank, on cache lines of its own (two, for processors fetch them in pairs).
#[repr(align(128))]
#[derive(Default)]
pub(crate) struct Line {
    done: AtomicU64,
    alarm: AtomicU64,
    ended: AtomicBool,
}

/// Who waits.
struct Waiting {
    /// Threads that neither wait nor have ended.
    running: u32,
    /// What is waited for.
    points: Vec<After>,
}

impl Line {
    /// One more op has returned; whether its alarm is still ahead.
    #[inline(always)]
    pub(crate) fn returned(&self) -> bool {
        // Nobody else stores here, so that no locked instruction is needed.
        let done = self.done.load(Ordering::Relaxed) + 1;
        self.done.store(done, Ordering::Release);
        done < self.alarm.load(Ordering::Relaxed)
    }

    fn done(&self) -> u64 {
        self.done.load(Ordering::Acquire)
    }
}

impl Board {
    /// A board for so many ranks in the hands of so many threads.
    pub fn new(ranks: u32, threads: u32) -> Board {
        let line = |_| Line { alarm: AtomicU64::new(BEAT), ..Line::default() };
        Board {
            lines: (0..ranks.max(1)).map(line).collect(),
            told: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            missed: AtomicU64::new(0),
            waiting: Mutex::new(Waiting { running: threads, points: Vec::new() }),
            moved: Condvar::new(),
        }
    }

    /// The line of a rank; ranks count from zero to the number that the board was made for.
    pub(crate) fn line(&self, rank: u32) -> &Line {
        &self.lines[rank as usize]
    }

    /// Ops so far of so many ranks, `first` and those behind it.
    pub(crate) fn done_by(&self, first: u32, ranks: u32) -> u64 {
        let ranks = first as usize..(first + ranks) as usize;
        self.lines.get(ranks).unwrap_or_default().iter().map(Line::done).sum()
    }

    /// Ops of all ranks so far.
    pub fn done(&self) -> u64 {
        self.lines.iter().map(Line::done).sum()
    }

    /// Whether that many ops of that rank have returned.
    pub fn reached(&self, point: After) -> bool {
        let line = self.lines.get(point.thread as usize);
        line.is_some_and(|line| line.done() >= point.ops)
    }

    /// Whether a rank has no more ops; one that is not there has none.
    pub(crate) fn has_ended(&self, rank: u32) -> bool {
        let line = self.lines.get(rank as usize);
        line.is_none_or(|line| line.ended.load(Ordering::Acquire))
    }

    /// Whether all have been told to stop.
    pub fn stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// How many waits were ended by [`SAFETY_NET`], not by a rank at its alarm.
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    /// A rank has reached its alarm: wakes who waits, sets the next alarm, and beats where a beat is
    /// due. False where all have been told to stop.
    #[cold]
    #[inline(never)]
    pub(crate) fn ring(&self, rank: u32, beat: &mut dyn FnMut(u64)) -> bool {
        let line = self.line(rank);
        let done = line.done();
        if done % BEAT == 0 {
            beat(self.told.fetch_add(BEAT, Ordering::Relaxed) + BEAT);
        }
        let waiting = self.lock();
        if self.stopped() {
            return false;
        }
        let ahead = waiting.points.iter().filter(|at| at.thread == rank && at.ops > done);
        let beat_at = (done / BEAT + 1) * BEAT;
        let alarm = ahead.map(|at| at.ops).fold(beat_at, u64::min);
        line.alarm.store(alarm, Ordering::Relaxed);
        // Waking is a system call even where nobody sleeps.
        let come = waiting.points.iter().any(|at| at.thread == rank && at.ops <= done);
        drop(waiting);
        if come {
            self.moved.notify_all();
        }
        true
    }

    /// Sleeps until one of the points is reached.
    ///
    /// # Errors
    /// Another thread has failed, or none of the points can ever be reached.
    pub fn wait(&self, points: &[After]) -> Result<(), Halt> {
        if points.iter().any(|point| self.reached(*point)) {
            return Ok(());
        }
        let mut waiting = self.lock();
        waiting.running -= 1;
        waiting.points.extend_from_slice(points);
        let mut netted = false;
        let ended = loop {
            if self.stopped() {
                break Err(Halt::Stopped);
            }
            self.set_alarms(points);
            if points.iter().any(|point| self.reached(*point)) {
                self.missed.fetch_add(u64::from(netted), Ordering::Relaxed);
                break Ok(());
            }
            if let Some(never) = self.never(points, &waiting) {
                break Err(Halt::Never(never));
            }
            let woken = self.moved.wait_timeout(waiting, SAFETY_NET);
            let (locked, timeout) = woken.unwrap_or_else(PoisonError::into_inner);
            (waiting, netted) = (locked, timeout.timed_out());
        };
        waiting.running += 1;
        for point in points {
            if let Some(at) = waiting.points.iter().position(|other| other == point) {
                waiting.points.swap_remove(at);
            }
        }
        ended
    }

    fn set_alarms(&self, points: &[After]) {
        for point in points {
            if let Some(line) = self.lines.get(point.thread as usize) {
                line.alarm.fetch_min(point.ops, Ordering::Relaxed);
            }
        }
        // The alarms are in memory before the counts are looked at once more.
        fence(Ordering::SeqCst);
    }

    /// A point that will not be reached any more, if that is so: its rank has ended short of it, or
    /// nobody is left who could bring any.
    fn never(&self, points: &[After], waiting: &Waiting) -> Option<After> {
        let over = |point: &&After| {
            let line = self.lines.get(point.thread as usize);
            line.is_none_or(|line| line.ended.load(Ordering::Acquire) && line.done() < point.ops)
        };
        let stuck =
            || waiting.running == 0 && !waiting.points.iter().any(|point| self.reached(*point));
        points.iter().find(over).or_else(|| points.first().filter(|_| stuck())).copied()
    }

    /// A rank has no more ops; how many it had.
    pub(crate) fn end(&self, rank: u32, beat: &mut dyn FnMut(u64)) -> u64 {
        let line = self.line(rank);
        let done = line.done();
        let rest = done % BEAT;
        line.ended.store(true, Ordering::Release);
        beat(self.told.fetch_add(rest, Ordering::Relaxed) + rest);
        self.wake();
        done
    }

    /// Wakes who waits; not while one of them looks whether to sleep.
    fn wake(&self) {
        drop(self.lock());
        self.moved.notify_all();
    }

    /// A thread has nothing more to do.
    pub(crate) fn leave(&self) {
        self.lock().running -= 1;
        self.moved.notify_all();
    }

    /// Tells all threads to stop: each finds its alarm reached after its next op.
    pub fn stop(&self) {
        let waiting = self.lock();
        self.stopped.store(true, Ordering::Relaxed);
        for line in &self.lines {
            line.alarm.store(0, Ordering::Relaxed);
        }
        drop(waiting);
        self.moved.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(board: &Board, rank: u32) -> bool {
        board.line(rank).returned() || board.ring(rank, &mut |_| {})
    }

    #[test]
    fn who_waits_is_woken_when_the_count_is_reached_and_not_before() {
        let board = Board::new(2, 2);
        let point = After { thread: 0, ops: 300 };
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                board.wait(&[point]).unwrap();
                board.done()
            });
            for _ in 0..300 {
                assert!(step(&board, 0));
            }
            assert!(waiter.join().unwrap() >= 300);
        });
        assert!(board.reached(point) && !board.reached(After { thread: 0, ops: 301 }));
    }

    #[test]
    fn waiting_for_a_rank_that_has_ended_or_is_not_there_is_an_error() {
        let board = Board::new(2, 2);
        step(&board, 0);
        board.end(0, &mut |_| {});
        board.leave();
        let never = After { thread: 0, ops: 2 };
        assert_eq!(board.wait(&[never]), Err(Halt::Never(never)));
        let nobody = After { thread: 7, ops: 1 };
        assert_eq!(board.wait(&[nobody]), Err(Halt::Never(nobody)));
        assert_eq!(board.wait(&[After { thread: 0, ops: 1 }]), Ok(()));
    }

    #[test]
    fn two_that_wait_for_each_other_are_found_out() {
        let board = Board::new(2, 2);
        let wait = |thread| board.wait(&[After { thread, ops: 1 }]);
        let halts = std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let halt = wait(0);
                board.stop();
                halt
            });
            let mine = wait(1);
            board.stop();
            [mine, other.join().unwrap()]
        });
        assert!(halts.iter().all(Result::is_err), "{halts:?}");
        assert!(halts.iter().any(|halt| matches!(halt, Err(Halt::Never(_)))), "{halts:?}");
    }

    #[test]
    fn a_stop_is_seen_by_who_waits_and_by_who_works() {
        let board = Board::new(3, 3);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| board.wait(&[After { thread: 0, ops: 1 }]));
            board.stop();
            assert_eq!(waiter.join().unwrap(), Err(Halt::Stopped));
        });
        assert!(!step(&board, 1));
    }

    #[test]
    fn the_beat_adds_up_all_ranks() {
        let board = Board::new(2, 2);
        let mut told = Vec::new();
        for rank in [0, 1] {
            for _ in 0..300 {
                let _ =
                    board.line(rank).returned() || board.ring(rank, &mut |done| told.push(done));
            }
            board.end(rank, &mut |done| told.push(done));
        }
        assert_eq!(told, [256, 300, 556, 600]);
    }
}
