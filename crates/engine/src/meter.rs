//! The meter of a thread: reads the clock, times and counts calls, and performs the waits that an op requires.

use fsdyno_record::{Bytes, Moved, Nanos, OpKind};
use fsdyno_workload::{Expect, Op};

use crate::clock;
use crate::errno::Errno;
use crate::failure::{Cause, Failure};
use crate::op_clock::OpClock;
use crate::progress::{Halt, PhaseProgress, RankProgress};
use crate::recorder::Recorder;

/// The result of a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Start of the first op, by [`OpClock`].
    pub started: Nanos,
    /// Return of the last call, by the same clock.
    pub returned: Nanos,
    /// Number of ops.
    pub ops: u64,
    /// Bytes that write calls accepted.
    pub bytes_written: Bytes,
    /// Bytes that read calls returned.
    pub bytes_read: Bytes,
    /// Think time: time that the workload slept or spun between ops.
    pub think_time: Nanos,
    /// Number of trees removed by ops that the issuer expands into many calls.
    pub removals: u64,
}

impl Outcome {
    /// Combines the outcomes of two threads: from the first start to the last return.
    pub fn merge(self, other: Outcome) -> Outcome {
        Outcome {
            started: self.started.min(other.started),
            returned: self.returned.max(other.returned),
            ops: self.ops + other.ops,
            bytes_written: self.bytes_written + other.bytes_written,
            bytes_read: self.bytes_read + other.bytes_read,
            think_time: self.think_time + other.think_time,
            removals: self.removals + other.removals,
        }
    }
}

/// Times and counts the calls of a phase; an issuer that expands an op into many calls reports
/// each of them to it.
pub struct Meter<'a> {
    recorder: &'a mut Recorder,
    tick: &'a mut dyn FnMut(u64),
    progress: &'a PhaseProgress,
    rank_progress: &'a RankProgress,
    rank: u32,
    /// The ranks that this meter counts for: the first, and their number.
    ranks: (u32, u32),
    clock: OpClock,
    started: Nanos,
    /// The last reading of the clock.
    last: Nanos,
    /// End of the current interval.
    interval_end: Nanos,
    /// Number of the ranks' ops that are already in the timeline.
    in_timeline: u64,
    ops: u64,
    bytes_written: u64,
    bytes_read: u64,
    think_time: Nanos,
    removals: u64,
}

impl<'a> Meter<'a> {
    /// Starts a meter for `count` ranks, the first of which is `first`.
    pub(crate) fn start(
        progress: &'a PhaseProgress,
        first: u32,
        count: u32,
        recorder: &'a mut Recorder,
        tick: &'a mut dyn FnMut(u64),
    ) -> Meter<'a> {
        let mut clock = OpClock::start();
        let started = clock.now();
        recorder.timeline_mut().begin(started);
        let interval_end = recorder.timeline_mut().interval_end(started);
        Meter {
            recorder,
            tick,
            progress,
            rank_progress: progress.rank(first),
            rank: first,
            ranks: (first, count),
            clock,
            started,
            last: started,
            interval_end,
            in_timeline: progress.done_by(first, count),
            ops: 0,
            bytes_written: 0,
            bytes_read: 0,
            think_time: Nanos(0),
            removals: 0,
        }
    }

    /// Counts a call of this kind that has just returned; returns false if this thread must stop because
    /// another has failed.
    #[inline(always)]
    pub fn count_return(&mut self, kind: OpKind) -> bool {
        let latency = self.take_latency();
        self.count(kind, latency)
    }

    /// Reads the clock right after a call and returns the call's latency.
    #[inline(always)]
    pub(crate) fn take_latency(&mut self) -> Nanos {
        let now = self.clock.now();
        let latency = now.since(self.last);
        self.last = now;
        if now >= self.interval_end {
            self.end_interval(now);
        }
        latency
    }

    /// Ends an interval: the calls counted so far belong to it, the next call counted does not.
    #[cold]
    #[inline(never)]
    fn end_interval(&mut self, now: Nanos) {
        self.count_interval();
        self.interval_end = self.recorder.timeline_mut().interval_end(now);
    }

    /// Adds the ops of the current interval to the timeline.
    fn count_interval(&mut self) {
        let done = self.progress.done_by(self.ranks.0, self.ranks.1);
        let interval_last = Nanos(self.interval_end.0.saturating_sub(1));
        self.recorder.timeline_mut().add(interval_last, done - self.in_timeline);
        self.in_timeline = done;
    }

    /// Counts a call; otherwise like [`Meter::count_return`].
    #[inline(always)]
    pub(crate) fn count(&mut self, kind: OpKind, latency: Nanos) -> bool {
        self.recorder.record(kind, latency);
        // At the rank's alarm (a tick is due, or another rank waits for this op), `on_alarm` decides whether to go on.
        self.rank_progress.count_op() || self.progress.on_alarm(self.rank, self.tick)
    }

    /// Counts a call of `rank` that was submitted at `since` and returned at `now`; otherwise like
    /// [`Meter::count_return`].
    pub(crate) fn count_completion(
        &mut self,
        rank: u32,
        kind: OpKind,
        since: Nanos,
        now: Nanos,
    ) -> bool {
        if now >= self.interval_end {
            self.end_interval(now);
        }
        self.recorder.record(kind, now.since(since));
        self.switch_rank(rank);
        self.rank_progress.count_op() || self.progress.on_alarm(rank, self.tick)
    }

    /// Switches to `rank`, to which the following calls belong.
    pub(crate) fn switch_rank(&mut self, rank: u32) {
        self.rank = rank;
        self.rank_progress = self.progress.rank(rank);
    }

    /// Reads the meter's clock; the latency of the next call timed by [`Meter::count_return`] starts here.
    pub(crate) fn now(&mut self) -> Nanos {
        self.last = self.clock.now();
        self.last
    }

    /// Returns the number of returned calls, over all threads.
    pub fn done(&self) -> u64 {
        self.progress.done()
    }

    /// Returns true if all ranks must stop.
    pub fn must_stop(&self) -> bool {
        self.progress.is_stopped()
    }

    /// Counts the removal of a tree.
    pub(crate) fn add_removal(&mut self) {
        self.removals += 1;
    }

    /// Adds the bytes that a call read or wrote.
    #[inline]
    pub fn add_bytes(&mut self, kind: OpKind, bytes: i64) {
        match kind.moved() {
            Moved::Written => self.bytes_written += bytes as u64,
            Moved::Read => self.bytes_read += bytes as u64,
            Moved::None => {}
        }
    }

    /// Spins between two calls of an expanded op, as the workload requests; no latency includes the
    /// time.
    #[inline]
    pub fn compute_between(&mut self, time: Nanos) {
        if !time.is_zero() {
            let from = self.last;
            self.compute(time);
            self.think_time += self.last.since(from);
        }
    }

    /// Waits for the ops that `op` depends on, then, with `with_think_time`, for its think time and its due time.
    #[cold]
    #[inline(never)]
    pub(crate) fn pause(&mut self, op: &Op, with_think_time: bool) -> Result<(), Halt> {
        if op.after.ops != 0 {
            self.progress.wait(&[op.after])?;
            for point in &op.also_after {
                self.progress.wait(&[*point])?;
            }
            self.now();
        }
        if !with_think_time {
            return Ok(());
        }
        let (from, progress) = (self.last, self.progress);
        let length = op.think + op.compute + self.time_until(op.due);
        let _pause = (length > clock::MAX_SLEEP).then(|| progress.begin_pause());
        if op.think.0 != 0 {
            self.sleep_until(from + op.think)?;
        }
        self.compute(op.compute);
        if self.time_until(op.due).0 != 0 {
            self.sleep_until(self.started + op.due)?;
        }
        self.think_time += self.last.since(from);
        self.start_latency(op.due);
        Ok(())
    }

    /// Returns the time until an op is due, as of the last reading of the clock.
    pub(crate) fn time_until(&self, due: Nanos) -> Nanos {
        (self.started + due).since(self.last)
    }

    /// Sleeps until `until`; a long sleep ends early if all must stop.
    fn sleep_until(&mut self, until: Nanos) -> Result<(), Halt> {
        while until.since(self.last) > clock::MAX_SLEEP {
            clock::sleep_until(self.last + clock::MAX_SLEEP);
            self.now();
            if self.must_stop() {
                return Err(Halt::Stopped);
            }
        }
        clock::sleep_until(until);
        self.now();
        Ok(())
    }

    /// For an op with a due time, counts the latency from that time, even if the op starts late.
    pub(crate) fn start_latency(&mut self, due: Nanos) {
        self.last = self.latency_start(due, self.last);
    }

    /// Returns the start of the latency of an op that is issued at `now`.
    pub(crate) fn latency_start(&self, due: Nanos, now: Nanos) -> Nanos {
        if due.0 == 0 { now } else { self.started + due }
    }

    /// Spins until `time` has passed since the last reading of the clock, or all must stop.
    #[cold]
    #[inline(never)]
    fn compute(&mut self, time: Nanos) {
        let end = self.last + time;
        while self.last < end && !self.must_stop() {
            spin();
            self.now();
        }
    }

    /// Adds `slept`, a sleep that the caller measured, to the think time, then spins for `compute`.
    pub(crate) fn add_think_time(&mut self, slept: Nanos, compute: Nanos) {
        let from = self.now();
        self.compute(compute);
        self.think_time += slept + self.last.since(from);
    }

    /// Ends the current rank (see [`Meter::switch_rank`]).
    pub(crate) fn end(&mut self) {
        self.ops += self.progress.end(self.rank, self.tick);
    }

    /// Returns the outcome, after the ranks have ended.
    pub(crate) fn outcome(&mut self) -> Outcome {
        self.count_interval();
        Outcome {
            started: self.started,
            returned: self.last,
            ops: self.ops,
            bytes_written: Bytes(self.bytes_written),
            bytes_read: Bytes(self.bytes_read),
            think_time: self.think_time,
            removals: self.removals,
        }
    }

    /// Checks a call's result against the workload's expectation; required if the call moved bytes, failed, or should
    /// have failed.
    pub(crate) fn check_result(&mut self, result: i64, kind: OpKind, op: &Op) -> Result<(), Cause> {
        let expected = match op.expect {
            Expect::Success => result >= 0,
            Expect::Missing => result == -i64::from(libc::ENOENT),
            Expect::Exists => result == -i64::from(libc::EEXIST),
            Expect::Errno => result == -(op.result as i64),
            Expect::Result => result == op.result as i64,
            Expect::Any => true,
        };
        if expected {
            if result > 0 {
                self.add_bytes(kind, result);
            }
            return Ok(());
        }
        Err(match op.expect {
            _ if result < 0 => Errno(-result as i32).into(),
            Expect::Result => Cause::Result(result),
            _ => Cause::Succeeded,
        })
    }

    /// Returns the failure of an op.
    #[cold]
    pub(crate) fn failure(&self, op: &Op, path: String, cause: impl Into<Cause>) -> Failure {
        Failure { op: kind_of(op), path, cause: cause.into(), completed_ops: self.done() }
    }
}

/// Spins for a few hundred instructions between two readings of the clock, so computing may overrun by
/// that time. It avoids the PAUSE instruction (`std::hint::spin_loop`): at each one QEMU leaves the translated code,
/// which made computing some ten times as expensive for the host (docs/lab.md).
#[inline(never)]
fn spin() {
    for step in 0..100_u32 {
        std::hint::black_box(step);
    }
}

/// Returns the kind of an op for a message; for an expanded op, that of its first call.
fn kind_of(op: &Op) -> OpKind {
    op.call.kind().unwrap_or(OpKind::Open)
}
