//! The loop: take an op, make its call, read the clock, count.
//!
//! The clock is read once an op: the end of one is the start of the next. So a latency holds, beside
//! the call, the generator's work for it and the engine's own (together 70 to 100 instructions, as
//! crates/agent/tests/instructions.rs counts them); and the latencies of a phase add up to its time.
//! Before an op its caller may wait for another thread, sleep or compute; that is no part of a latency.
//! An op with a due time waits for it, and its latency is counted from then, however late it is issued.

use std::fmt;

use fsdyno_record::{Bytes, Nanos, OpKind};
use fsdyno_workload::{After, Expect, Op, OpSource};

use crate::board::{Board, Halt, Line};
use crate::clock;
use crate::errno::Errno;
use crate::issue::Issuer;
use crate::op_clock::OpClock;
use crate::recorder::Recorder;

/// What a phase came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// When the first op began, by CLOCK_MONOTONIC as [`OpClock`] follows it.
    pub started: Nanos,
    /// When the last call came back, by the same clock.
    pub returned: Nanos,
    /// How many ops there were.
    pub ops: u64,
    /// Bytes that write calls took.
    pub bytes_written: Bytes,
    /// Bytes that read calls gave.
    pub bytes_read: Bytes,
    /// Time that the caller slept or computed between its ops, by the workload's own doing.
    pub thought: Nanos,
    /// How many trees were removed by an op that only the file system could expand.
    pub removals: u64,
}

impl Outcome {
    /// What two threads of one phase came to: from the first start to the last return.
    pub fn and(self, other: Outcome) -> Outcome {
        Outcome {
            started: self.started.min(other.started),
            returned: self.returned.max(other.returned),
            ops: self.ops + other.ops,
            bytes_written: self.bytes_written + other.bytes_written,
            bytes_read: self.bytes_read + other.bytes_read,
            thought: self.thought + other.thought,
            removals: self.removals + other.removals,
        }
    }
}

/// An op that did not end as its workload says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What was called.
    pub op: OpKind,
    /// On what, below the trial's root.
    pub path: String,
    /// How it ended instead.
    pub cause: Cause,
    /// How many ops of the phase were done before it, by all threads.
    pub done: u64,
}

/// Why an op failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The kernel says so.
    Errno(Errno),
    /// It succeeded, but the workload says that it fails.
    Succeeded,
    /// What it had to wait for never came.
    Never(After),
    /// It was never made, because another thread had failed.
    Stopped,
}

impl From<Errno> for Cause {
    fn from(errno: Errno) -> Cause {
        Cause::Errno(errno)
    }
}

impl From<Halt> for Cause {
    fn from(halt: Halt) -> Cause {
        match halt {
            Halt::Stopped => Cause::Stopped,
            Halt::Never(after) => Cause::Never(after),
        }
    }
}

impl Failure {
    /// What a user can do about it, where that can be said.
    pub fn hint(&self) -> Option<&'static str> {
        match self.cause {
            Cause::Errno(errno) => errno.hint(),
            _ => None,
        }
    }
}

impl fmt::Display for Failure {
    /// `create d/f00017: No space left on device (ENOSPC) after 17 ops`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: ", self.op, self.path)?;
        match self.cause {
            Cause::Errno(errno) => write!(f, "{errno}")?,
            Cause::Succeeded => write!(f, "succeeded, though the workload says that it fails")?,
            Cause::Never(After { thread, ops }) => {
                write!(f, "waits for op {ops} of thread {thread}, which never comes,")?;
            }
            Cause::Stopped => write!(f, "not made, because another thread has failed,")?,
        }
        write!(f, " after {} ops", self.done)
    }
}

impl std::error::Error for Failure {}

/// Times the calls of a phase and counts them; an issuer that expands an op into many calls tells
/// it of each.
pub struct Meter<'a> {
    recorder: &'a mut Recorder,
    beat: &'a mut dyn FnMut(u64),
    board: &'a Board,
    line: &'a Line,
    rank: u32,
    /// The ranks that this meter counts for: the first, and how many.
    ranks: (u32, u32),
    clock: OpClock,
    started: Nanos,
    last: Nanos,
    /// When the interval ends that ops are counted in, and how many of the ranks' ops the timeline has.
    edge: Nanos,
    timed: u64,
    ops: u64,
    bytes_written: u64,
    bytes_read: u64,
    thought: Nanos,
    removals: u64,
}

impl<'a> Meter<'a> {
    /// A meter that starts now, for so many ranks, of which `rank` is the first.
    pub(crate) fn start(
        board: &'a Board,
        rank: u32,
        ranks: u32,
        recorder: &'a mut Recorder,
        beat: &'a mut dyn FnMut(u64),
    ) -> Meter<'a> {
        let mut clock = OpClock::start();
        let started = clock.now();
        recorder.timeline_mut().begin(started);
        let edge = recorder.timeline_mut().edge(started);
        Meter {
            recorder,
            beat,
            board,
            line: board.line(rank),
            rank,
            ranks: (rank, ranks),
            clock,
            started,
            last: started,
            edge,
            timed: board.done_by(rank, ranks),
            ops: 0,
            bytes_written: 0,
            bytes_read: 0,
            thought: Nanos(0),
            removals: 0,
        }
    }

    /// A call of this kind has just come back; false where another thread has failed and this one
    /// is to stop.
    #[inline(always)]
    pub fn returned(&mut self, kind: OpKind) -> bool {
        let latency = self.read();
        self.count(kind, latency)
    }

    /// The latency of the call that has just come back, before anything else is done.
    #[inline(always)]
    fn read(&mut self) -> Nanos {
        let now = self.clock.now();
        let latency = now.since(self.last);
        self.last = now;
        if now >= self.edge {
            self.turn(now);
        }
        latency
    }

    /// An interval has ended before the call came back that is counted next: those before it were in it.
    #[cold]
    #[inline(never)]
    fn turn(&mut self, now: Nanos) {
        self.keep_time();
        self.edge = self.recorder.timeline_mut().edge(now);
    }

    /// Counts in their interval what came back since it began.
    fn keep_time(&mut self) {
        let done = self.board.done_by(self.ranks.0, self.ranks.1);
        let last = Nanos(self.edge.0.saturating_sub(1));
        self.recorder.timeline_mut().add(last, done - self.timed);
        self.timed = done;
    }

    /// Counts a call; as [`Meter::returned`].
    #[inline(always)]
    fn count(&mut self, kind: OpKind, latency: Nanos) -> bool {
        self.recorder.record(kind, latency);
        self.line.returned() || self.board.ring(self.rank, self.beat)
    }

    /// A call of `rank` that was submitted at `since` has come back at `now`; as
    /// [`Meter::returned`].
    pub(crate) fn completed(&mut self, rank: u32, kind: OpKind, since: Nanos, now: Nanos) -> bool {
        if now >= self.edge {
            self.turn(now);
        }
        self.recorder.record(kind, now.since(since));
        self.turn_to(rank);
        self.line.returned() || self.board.ring(rank, self.beat)
    }

    /// What follows belongs to `rank`.
    pub(crate) fn turn_to(&mut self, rank: u32) {
        self.rank = rank;
        self.line = self.board.line(rank);
    }

    /// Now, by the meter's clock; a call that is timed by [`Meter::returned`] begins here.
    pub(crate) fn now(&mut self) -> Nanos {
        self.last = self.clock.now();
        self.last
    }

    /// How many calls have come back, to all threads.
    pub fn done(&self) -> u64 {
        self.board.done()
    }

    /// Whether another thread has failed.
    pub fn stopped(&self) -> bool {
        self.board.stopped()
    }

    /// The removal of a tree begins.
    pub(crate) fn removes(&mut self) {
        self.removals += 1;
    }

    /// A call has moved bytes.
    #[inline]
    pub fn moved(&mut self, kind: OpKind, bytes: i64) {
        match kind {
            OpKind::Write | OpKind::Append => self.bytes_written += bytes as u64,
            OpKind::Read => self.bytes_read += bytes as u64,
            _ => {}
        }
    }

    /// Processor time between two calls of an expanded op, by the workload's own doing; no part of a
    /// latency.
    #[inline]
    pub fn work(&mut self, time: Nanos) {
        if !time.is_zero() {
            let from = self.last;
            self.compute(time);
            self.thought += self.last.since(from);
        }
    }

    /// What comes before a call: waiting for another thread, then sleeping and computing.
    #[cold]
    #[inline(never)]
    fn pause(&mut self, op: &Op, thinks: bool) -> Result<(), Halt> {
        if op.after.ops != 0 {
            self.board.wait(&[op.after])?;
            self.now();
        }
        if !thinks {
            return Ok(());
        }
        let from = self.last;
        if op.think.0 != 0 {
            self.sleep_until(from + op.think)?;
        }
        self.compute(op.compute);
        if self.ahead(op.due).0 != 0 {
            self.sleep_until(self.started + op.due)?;
        }
        self.thought += self.last.since(from);
        self.count_from(op.due);
        Ok(())
    }

    /// How long it is until an op is due, by the last reading of the clock.
    pub(crate) fn ahead(&self, due: Nanos) -> Nanos {
        (self.started + due).since(self.last)
    }

    /// Sleeps from the last reading of the clock on; a long sleep ends early where all are to stop.
    fn sleep_until(&mut self, until: Nanos) -> Result<(), Halt> {
        while until.since(self.last) > clock::LONGEST_SLEEP {
            clock::sleep_until(self.last + clock::LONGEST_SLEEP);
            self.now();
            if self.stopped() {
                return Err(Halt::Stopped);
            }
        }
        clock::sleep_until(until);
        self.now();
        Ok(())
    }

    /// The latency of an op with a due time is counted from then, however late it is.
    pub(crate) fn count_from(&mut self, due: Nanos) {
        self.last = self.since(due, self.last);
    }

    /// Since when the latency of an op is counted that is issued at `now`.
    pub(crate) fn since(&self, due: Nanos, now: Nanos) -> Nanos {
        if due.0 == 0 { now } else { self.started + due }
    }

    /// Burns processor time from the last reading of the clock on, until all are to stop.
    #[cold]
    #[inline(never)]
    fn compute(&mut self, time: Nanos) {
        let end = self.last + time;
        while self.last < end && !self.stopped() {
            toil();
            self.now();
        }
    }

    /// The caller has slept for so long, by its own measure, and computes now.
    pub(crate) fn thought(&mut self, slept: Nanos, compute: Nanos) {
        let from = self.now();
        self.compute(compute);
        self.thought += slept + self.last.since(from);
    }

    /// The rank that this meter counts for has no more ops.
    pub(crate) fn end(&mut self) {
        self.ops += self.board.end(self.rank, self.beat);
    }

    /// What it all came to; the ranks have ended.
    pub(crate) fn outcome(&mut self) -> Outcome {
        self.keep_time();
        Outcome {
            started: self.started,
            returned: self.last,
            ops: self.ops,
            bytes_written: Bytes(self.bytes_written),
            bytes_read: Bytes(self.bytes_read),
            thought: self.thought,
            removals: self.removals,
        }
    }

    /// The answer of a call that moved bytes, failed, or should have failed: whether it is what the
    /// workload says.
    pub(crate) fn judge(&mut self, answer: i64, kind: OpKind, op: &Op) -> Result<(), Cause> {
        let right = match op.expect {
            Expect::Success => answer >= 0,
            Expect::Missing => answer == -i64::from(libc::ENOENT),
            Expect::Exists => answer == -i64::from(libc::EEXIST),
        };
        if right {
            if answer > 0 {
                self.moved(kind, answer);
            }
            return Ok(());
        }
        Err(if answer < 0 { Errno(-answer as i32).into() } else { Cause::Succeeded })
    }

    /// The failure of an op.
    #[cold]
    pub(crate) fn failure(&self, op: &Op, path: String, cause: impl Into<Cause>) -> Failure {
        Failure { op: name_of(op), path, cause: cause.into(), done: self.done() }
    }
}

/// A few hundred instructions that keep a processor busy between two readings of the clock, so that computing ends up to
/// so much late. `pause` is not among them: for each of it QEMU leaves the translated code, which made computing some
/// ten times as dear for the host (docs/lab.md).
#[inline(never)]
fn toil() {
    for step in 0..100_u32 {
        std::hint::black_box(step);
    }
}

/// What an op is called in a message; one that is expanded by its first call.
fn name_of(op: &Op) -> OpKind {
    op.call.kind().unwrap_or(OpKind::Open)
}

/// Whether the source knows how to go on after an op that failed.
#[cold]
fn goes_on(source: &mut dyn OpSource, cause: Cause) -> bool {
    match cause {
        Cause::Errno(Errno(libc::ENOSPC)) => source.full(),
        Cause::Errno(Errno(libc::EOPNOTSUPP)) => source.unsupported(),
        _ => false,
    }
}

/// Issues the ops of `source` until there are no more, one after the other, alone.
///
/// `beat` is called with the number of ops done, every 256 ops and once at the end. Handed an issuer
/// by its own type, not as a trait object, the loop is compiled for it and costs a little less.
///
/// # Errors
/// The first op that does not end as its workload says.
pub fn run_phase<I: Issuer + ?Sized>(
    source: &mut dyn OpSource,
    issuer: &mut I,
    recorder: &mut Recorder,
    beat: &mut dyn FnMut(u64),
) -> Result<Outcome, Failure> {
    run_rank(&Board::new(1, 1), 0, source, issuer, recorder, beat)
}

/// [`run_phase`] as one of several ranks, each in a thread of its own, that know of each other by
/// `board`.
///
/// # Errors
/// The first op that does not end as its workload says; that another thread has failed.
pub fn run_rank<I: Issuer + ?Sized>(
    board: &Board,
    rank: u32,
    source: &mut dyn OpSource,
    issuer: &mut I,
    recorder: &mut Recorder,
    beat: &mut dyn FnMut(u64),
) -> Result<Outcome, Failure> {
    let mut op = Op::default();
    let mut meter = Meter::start(board, rank, 1, recorder, beat);
    let thinks = issuer.thinks();
    while source.next(&mut op) {
        if op.think.0 | op.compute.0 | op.due.0 | op.after.ops != 0
            && let Err(halt) = meter.pause(&op, thinks)
        {
            return Err(meter.failure(&op, issuer.path_of(&op), halt));
        }
        let Some(kind) = op.call.kind() else {
            issuer.expand(&op, &mut meter)?;
            continue;
        };
        let answer = issuer.issue(&op);
        let latency = meter.read();
        if (answer != 0 || op.expect != Expect::Success)
            && let Err(cause) = meter.judge(answer, kind, &op)
        {
            if goes_on(source, cause) {
                meter.now();
                continue;
            }
            return Err(meter.failure(&op, issuer.path_of(&op), cause));
        }
        if !meter.count(kind, latency) {
            return Err(meter.failure(&op, issuer.path_of(&op), Halt::Stopped));
        }
    }
    meter.end();
    Ok(meter.outcome())
}
