//! The loop: take an op, make its call, read the clock, count.
//!
//! The clock is read once an op: the end of one is the start of the next. So a latency holds, beside
//! the call, the generator's work for it and the engine's own (together 80 to 100 instructions, as
//! crates/agent/tests/instructions.rs counts them); and the latencies of a phase add up to its time.
//! Before an op its caller may sleep or compute; that is no part of a latency.

use std::fmt;

use fsdyno_record::{Bytes, Nanos, OpKind};
use fsdyno_workload::{Expect, Op, OpSource};

use crate::clock;
use crate::errno::Errno;
use crate::issue::Issuer;
use crate::op_clock::OpClock;
use crate::recorder::Recorder;

/// The beat comes every so many ops; a power of two.
const BEAT: u64 = 256;

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
}

/// An op that did not end as its workload says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What was called.
    pub op: OpKind,
    /// On what, below the trial's root.
    pub path: String,
    /// How it failed; none if it succeeded but should have failed.
    pub errno: Option<Errno>,
    /// How many ops of the phase were done before it.
    pub done: u64,
}

impl Failure {
    /// What a user can do about it, where that can be said.
    pub fn hint(&self) -> Option<&'static str> {
        self.errno.and_then(Errno::hint)
    }
}

impl fmt::Display for Failure {
    /// `create d/f00017: No space left on device (ENOSPC) after 17 ops`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: ", self.op, self.path)?;
        match self.errno {
            Some(errno) => write!(f, "{errno}")?,
            None => write!(f, "succeeded, though the workload says that it fails")?,
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
    clock: OpClock,
    last: Nanos,
    done: u64,
    bytes_written: u64,
    bytes_read: u64,
}

impl Meter<'_> {
    /// A call of this kind has just come back.
    #[inline]
    pub fn returned(&mut self, kind: OpKind) {
        let now = self.clock.now();
        self.recorder.record(kind, now.since(self.last));
        self.last = now;
        self.done += 1;
        if self.done % BEAT == 0 {
            (self.beat)(self.done);
        }
    }

    /// How many calls have come back.
    pub fn done(&self) -> u64 {
        self.done
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

    #[cold]
    fn think(&mut self, sleep: Nanos, compute: Nanos) {
        if sleep.0 != 0 {
            clock::sleep_until(self.last + sleep);
            self.last = self.clock.now();
        }
        let end = self.last + compute;
        while self.last < end {
            std::hint::spin_loop();
            self.last = self.clock.now();
        }
    }
}

/// Issues the ops of `source` until there are no more, one after the other.
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
    let mut op = Op::default();
    let mut clock = OpClock::start();
    let started = clock.now();
    let mut meter =
        Meter { recorder, beat, clock, last: started, done: 0, bytes_written: 0, bytes_read: 0 };
    while source.next(&mut op) {
        if op.think.0 | op.compute.0 != 0 {
            meter.think(op.think, op.compute);
        }
        let Some(kind) = op.call.kind() else {
            issuer.expand(&op, &mut meter)?;
            continue;
        };
        let answer = issuer.issue(&op);
        if answer != 0 || op.expect != Expect::Success {
            judge(answer, kind, &op, issuer, &mut meter)?;
        }
        meter.returned(kind);
    }
    (meter.beat)(meter.done);
    Ok(Outcome {
        started,
        returned: meter.last,
        ops: meter.done,
        bytes_written: Bytes(meter.bytes_written),
        bytes_read: Bytes(meter.bytes_read),
    })
}

/// The answer of a call that moved bytes, failed, or should have failed.
fn judge<I: Issuer + ?Sized>(
    answer: i64,
    kind: OpKind,
    op: &Op,
    issuer: &I,
    meter: &mut Meter<'_>,
) -> Result<(), Failure> {
    let right = match op.expect {
        Expect::Success => answer >= 0,
        Expect::Missing => answer == -i64::from(libc::ENOENT),
        Expect::Exists => answer == -i64::from(libc::EEXIST),
    };
    if right {
        if answer > 0 {
            meter.moved(kind, answer);
        }
        return Ok(());
    }
    let errno = (answer < 0).then(|| Errno((-answer) as i32));
    Err(Failure { op: kind, path: issuer.path_of(op), errno, done: meter.done })
}
