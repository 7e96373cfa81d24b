//! The loop: takes an op, makes its call, reads the clock, counts.
//!
//! The clock is read once per op: the end of one is the start of the next. So a latency includes
//! the work of the generator and the engine for the call (together 70 to 100 instructions, as
//! crates/agent/tests/instructions.rs counts them), and the latencies of a phase add up to its duration.
//! Before an op, its caller may wait for another thread, sleep or spin; that is not part of a latency.
//! An op with a due time waits for it, and its latency starts at that time, however late it is issued.

use fsdyno_workload::{Expect, Op, OpSource};

use crate::errno::Errno;
use crate::failure::{Cause, Failure};
use crate::issue::Issuer;
use crate::meter::{Meter, Outcome};
use crate::progress::{Halt, PhaseProgress};
use crate::recorder::Recorder;

/// Returns true if the source continues after an op with an unexpected result; the op then counts as done.
#[cold]
fn continues_after_difference(
    source: &mut dyn OpSource,
    meter: &mut Meter<'_>,
    op: &Op,
    result: i64,
) -> bool {
    let continues = source.handle_difference(op, result);
    if let (true, Some(kind), 1..) = (continues, op.call.kind(), result) {
        meter.add_bytes(kind, result);
    }
    continues
}

/// Returns true if the source can continue after an op that failed.
#[cold]
fn continues_after_failure(source: &mut dyn OpSource, cause: Cause) -> bool {
    match cause {
        Cause::Errno(Errno(libc::ENOSPC)) => source.handle_full(),
        Cause::Errno(Errno(libc::EOPNOTSUPP)) => source.handle_unsupported(),
        _ => false,
    }
}

/// Issues all ops of `source`, one after the other, in a single rank.
///
/// `tick` is called with the number of ops done, every 256 ops and once at the end. With an issuer of a
/// concrete type, not a trait object, the loop is compiled for it and costs slightly less.
///
/// # Errors
/// The first op with a result that its workload does not expect.
pub fn run_phase<I: Issuer + ?Sized>(
    source: &mut dyn OpSource,
    issuer: &mut I,
    recorder: &mut Recorder,
    tick: &mut dyn FnMut(u64),
) -> Result<Outcome, Failure> {
    run_rank(&PhaseProgress::new(1, 1), 0, source, issuer, recorder, tick)
}

/// Does the same as [`run_phase`] for one of several ranks, each in a thread of its own, which share
/// `progress`.
///
/// # Errors
/// The first op with a result that its workload does not expect; the failure of another thread.
pub fn run_rank<I: Issuer + ?Sized>(
    progress: &PhaseProgress,
    rank: u32,
    source: &mut dyn OpSource,
    issuer: &mut I,
    recorder: &mut Recorder,
    tick: &mut dyn FnMut(u64),
) -> Result<Outcome, Failure> {
    let mut op = Op::default();
    let mut meter = Meter::start(progress, rank, 1, recorder, tick);
    let with_think_time = issuer.spends_think_time();
    while source.next(&mut op) {
        if op.think.0 | op.compute.0 | op.due.0 | op.after.ops != 0
            && let Err(halt) = meter.pause(&op, with_think_time)
        {
            return Err(meter.failure(&op, issuer.path_of(&op), halt));
        }
        let Some(kind) = op.call.kind() else {
            issuer.expand(&op, &mut meter)?;
            continue;
        };
        let result = issuer.issue(&op);
        let latency = meter.take_latency();
        if (result != 0 || op.expect != Expect::Success)
            && let Err(cause) = meter.check_result(result, kind, &op)
            && !continues_after_difference(source, &mut meter, &op, result)
        {
            if continues_after_failure(source, cause) {
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
