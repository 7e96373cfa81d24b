//! Refuses recordings whose calls cannot be tracked in a single tree.
//!
//! Executes the calls in memory, before any work, in an order that respects their wait points. Calls that share
//! a file, a name or an open file wait for each other, so every allowed order leaves the same tree.

use fsdyno_workload::{
    Call, Expect, MemoryFs, Op, OpSource, ProgressPoint, RareCall, Recording, RenameFlag, Share,
    Workload,
};

/// Returns the reason why the calls of a recording cannot be tracked, or `None` if they can.
pub(crate) fn refusal(work: &dyn Workload, recording: &Recording, threads: u32) -> Option<String> {
    let thread_count = recording.report.threads;
    if thread_count > 1 && !recording.strict {
        return Some(format!(
            "with order=none the calls of its {thread_count} threads have no order, so the resulting tree is \
             unknown; use order=resource or order=total"
        ));
    }
    let mut tree = MemoryFs::new();
    tree.share_slots();
    if let Some(mut prefill) = work.prefill() {
        let mut op = Op::default();
        while prefill.ops.next(&mut op) {
            if let Some(reason) = execute(&mut tree, &op) {
                return Some(format!("the tree before the first call: {reason}"));
            }
        }
    }
    for (index, phase) in work.phases().iter().enumerate() {
        let ranks = phase.threads.count_of(threads);
        let sources = (0..ranks).map(|rank| work.ops(index, Share { rank, ranks }));
        let mut ranks: Vec<Rank<'_>> = sources.map(Rank::new).collect();
        if let Some(reason) = execute_all(&mut tree, &mut ranks) {
            return Some(format!("phase {}: {reason}", phase.name));
        }
    }
    None
}

/// The calls of a rank.
struct Rank<'a> {
    source: Box<dyn OpSource + Send + 'a>,
    op: Op,
    /// False once no calls are left.
    more: bool,
    done: u64,
}

impl<'a> Rank<'a> {
    fn new(mut source: Box<dyn OpSource + Send + 'a>) -> Rank<'a> {
        let mut op = Op::default();
        let more = source.next(&mut op);
        Rank { source, op, more, done: 0 }
    }
}

/// Executes the calls of all ranks; returns the reason why they cannot be tracked, or `None` if they can.
fn execute_all(tree: &mut MemoryFs, ranks: &mut [Rank<'_>]) -> Option<String> {
    loop {
        let mut progressed = false;
        for at in 0..ranks.len() {
            while ranks[at].more && is_ready(&ranks[at].op, ranks) {
                let rank = &mut ranks[at];
                if let Some(reason) = execute(tree, &rank.op) {
                    return Some(reason);
                }
                rank.more = rank.source.next(&mut rank.op);
                rank.done += 1;
                progressed = true;
            }
        }
        if ranks.iter().all(|rank| !rank.more) {
            return None;
        }
        if !progressed {
            return Some("its threads wait for each other, and none can continue".into());
        }
    }
}

/// Returns whether all points that a call waits for have been reached.
fn is_ready(op: &Op, ranks: &[Rank<'_>]) -> bool {
    let is_reached = |point: &ProgressPoint| {
        let rank = ranks.get(point.thread as usize);
        rank.is_some_and(|rank| !rank.more || rank.done >= point.ops) || point.ops == 0
    };
    is_reached(&op.after) && op.also_after.iter().all(is_reached)
}

/// Executes a call; returns the reason why it cannot be tracked, or `None` if it can.
fn execute(tree: &mut MemoryFs, op: &Op) -> Option<String> {
    if matches!(op.expect, Expect::Errno | Expect::Missing | Expect::Exists) {
        return None;
    }
    let name = op.name.display();
    if let Call::Rare(RareCall::Rename { flag: RenameFlag::Exchange, .. }) = op.call {
        return Some(format!(
            "it exchanges the name '{name}' with another one, which is not tracked"
        ));
    }
    // If the result of a call is not compared, it is unknown whether it succeeds.
    let failed = tree.apply(op).is_err() && op.expect != Expect::Any;
    let kind = op.call.kind().map_or("a call", |kind| kind.name());
    failed.then(|| {
        format!("{kind} of '{name}' cannot succeed in the tree left by the preceding calls")
    })
}

#[cfg(test)]
mod tests;
