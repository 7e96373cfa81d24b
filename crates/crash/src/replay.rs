//! Replays the ops of a trial from their generators in the order in which they returned.

use fsdyno_record::Nanos;
use fsdyno_record::acks::{Acks, PhaseEventKind};
use fsdyno_workload::{Effect, Expect, Op, OpSource, ProgressPoint, Share, Synced, Workload};

use crate::content::Timing;
use crate::tree::Tree;
use fsdyno_filesystem::Guarantee;

/// A replay of the ops of a trial, one after the other as they returned.
pub struct Replay<'a> {
    work: &'a dyn Workload,
    threads: u32,
    guarantee: &'a Guarantee,
    acks: &'a Acks,
    tree: Tree,
    /// The phase being replayed.
    phase: usize,
    ranks: Vec<Rank<'a>>,
    /// Number of phase events replayed.
    events_read: usize,
    /// True if all threads share a single table of open files.
    shared: bool,
}

struct Rank<'a> {
    source: Box<dyn OpSource + Send + 'a>,
    op: Op,
    /// Number of the next op; `None` after the last.
    next: Option<usize>,
    last: Nanos,
}

impl<'a> Replay<'a> {
    /// Creates a replay at the start of the trial, with the initial tree of the first phase.
    pub fn new(
        work: &'a dyn Workload,
        threads: u32,
        guarantee: &'a Guarantee,
        acks: &'a Acks,
    ) -> Replay<'a> {
        let (mut tree, ranks) = (Tree::new(guarantee.names), Vec::new());
        let shared = work.shared_slots().is_some();
        if shared {
            tree.share_slots();
        }
        if let Some(mut prefill) = work.prefill() {
            tree.apply_prefill(prefill.ops.as_mut(), guarantee);
        }
        Replay { work, threads, guarantee, acks, tree, phase: 0, ranks, events_read: 0, shared }
    }

    /// Returns the tree after all ops that returned before `time`, with the possible effects of the ops in flight.
    /// `time` must not go backwards.
    pub fn tree_at(&mut self, time: Nanos) -> Tree {
        loop {
            let event = self.acks.events.get(self.events_read).filter(|event| event.time < time);
            let next = self.ranks.iter().enumerate().filter_map(|(at, rank)| {
                let times = self.acks.returned.get(self.phase)?.get(at)?;
                Some((*times.get(rank.next?)?, at))
            });
            let next = next.min().filter(|(at, _)| *at < time);
            match (next, event) {
                (Some((at, rank)), event) if event.is_none_or(|event| at <= event.time) => {
                    self.apply_op(rank, at);
                }
                (_, Some(event)) => {
                    match event.kind {
                        PhaseEventKind::Begin => self.begin_phase(event.phase, event.time),
                        PhaseEventKind::Returned => {}
                        PhaseEventKind::Synced if self.guarantee.sync_covers_everything => {
                            self.tree.settle_all(event.time)
                        }
                        PhaseEventKind::Synced => {}
                    }
                    self.events_read += 1;
                }
                _ => break,
            }
        }
        let mut tree = self.tree.clone();
        for rank in &self.ranks {
            if rank.next.is_some() && !self.is_waiting(&rank.op) {
                let when = Timing { start: rank.last, at: time, in_flight: true };
                tree.apply(&rank.op, self.guarantee, when);
            }
        }
        tree
    }

    /// Returns whether an op waits for an op that has not returned. This is known only if each op is a single call.
    fn is_waiting(&self, op: &Op) -> bool {
        let is_ahead = |point: &ProgressPoint| {
            let rank = self.ranks.get(point.thread as usize);
            let done = rank.map_or(Some(0), |rank| rank.next);
            done.is_some_and(|done| (done as u64) < point.ops)
        };
        self.shared && (is_ahead(&op.after) || op.also_after.iter().any(is_ahead))
    }

    fn begin_phase(&mut self, phase: usize, at: Nanos) {
        let ranks =
            self.work.phases().get(phase).map_or(0, |spec| spec.threads.count_of(self.threads));
        self.phase = phase;
        self.ranks = (0..ranks)
            .map(|rank| {
                let source = self.work.ops(phase, Share { rank, ranks });
                let thread = if self.shared { 0 } else { rank };
                let mut rank =
                    Rank { source, op: Op { thread, ..Op::default() }, next: Some(0), last: at };
                rank.peek(0);
                rank
            })
            .collect();
    }

    fn apply_op(&mut self, index: usize, at: Nanos) {
        let Some(rank) = self.ranks.get_mut(index) else { return };
        let when = Timing { start: rank.last, at, in_flight: false };
        let failed =
            rank.next.is_some_and(|op| self.acks.failed.contains(&(self.phase, index, op)));
        if !failed {
            self.tree.apply(&rank.op, self.guarantee, when);
        }
        rank.last = at;
        rank.peek(rank.next.map_or(0, |next| next + 1));
    }
}

/// Returns the sorted times at which durability was acknowledged: by each fsync(2) and sync(2), and by the syncfs(2)
/// after a phase if that makes the whole phase durable.
pub fn acknowledged(
    work: &dyn Workload,
    threads: u32,
    guarantee: &Guarantee,
    acks: &Acks,
) -> Vec<Nanos> {
    let mut times = Vec::new();
    for (index, (phase, returned)) in work.phases().iter().zip(&acks.returned).enumerate() {
        let ranks = phase.threads.count_of(threads);
        for (rank, returned) in (0..ranks).zip(returned) {
            let (mut source, mut op) = (work.ops(index, Share { rank, ranks }), Op::default());
            for (number, at) in returned.iter().enumerate() {
                if !source.next(&mut op) {
                    break;
                }
                let Effect::Sync(synced) = op.call.facts().effect else { continue };
                let acknowledges = match synced {
                    Synced::File(_) | Synced::Dir(_) => true,
                    Synced::All => guarantee.sync_covers_everything,
                };
                let failed = acks.failed.contains(&(index, rank as usize, number));
                let succeeds = op.expect == Expect::Success && !failed;
                times.extend((acknowledges && succeeds).then_some(*at));
            }
        }
    }
    let synced = acks
        .events
        .iter()
        .filter(|event| guarantee.sync_covers_everything && event.kind == PhaseEventKind::Synced);
    times.extend(synced.map(|event| event.time));
    times.sort_unstable();
    times
}

impl Rank<'_> {
    fn peek(&mut self, number: usize) {
        let thread = self.op.thread;
        self.next = self.source.next(&mut self.op).then_some(number);
        self.op.thread = thread;
    }
}
