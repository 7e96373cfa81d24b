//! The ops of a trial, replayed from their generators in the order in which they came back.

use fsdyno_record::Nanos;
use fsdyno_record::acks::{Acks, What};
use fsdyno_workload::{Call, Expect, Op, OpSource, Share, Workload};

use crate::promise::Promise;
use crate::tree::{Tree, When};

/// The ops of a trial, done one after the other as they came back.
pub struct Done<'a> {
    work: &'a dyn Workload,
    asked: u32,
    promise: &'a Promise,
    acks: &'a Acks,
    tree: Tree,
    /// The phase whose ops are being done, with its ranks.
    phase: usize,
    ranks: Vec<Rank<'a>>,
    /// How many marks were taken up.
    marks: usize,
}

struct Rank<'a> {
    source: Box<dyn OpSource + Send + 'a>,
    op: Op,
    /// The op that comes next: none is left, or its number.
    next: Option<usize>,
    last: Nanos,
}

impl<'a> Done<'a> {
    /// Nothing was done yet.
    pub fn new(
        work: &'a dyn Workload,
        asked: u32,
        promise: &'a Promise,
        acks: &'a Acks,
    ) -> Done<'a> {
        let (tree, ranks) = (Tree::new(promise.names), Vec::new());
        Done { work, asked, promise, acks, tree, phase: 0, ranks, marks: 0 }
    }

    /// The tree with everything that came back before `time`, which must not go back, and with what may
    /// have been done of the ops that had not.
    pub fn until(&mut self, time: Nanos) -> Tree {
        loop {
            let mark = self.acks.marks.get(self.marks).filter(|mark| mark.at < time);
            let next = self.ranks.iter().enumerate().filter_map(|(at, rank)| {
                let times = self.acks.returned.get(self.phase)?.get(at)?;
                Some((*times.get(rank.next?)?, at))
            });
            let next = next.min().filter(|(at, _)| *at < time);
            match (next, mark) {
                (Some((at, rank)), mark) if mark.is_none_or(|mark| at <= mark.at) => {
                    self.op(rank, at);
                }
                (_, Some(mark)) => {
                    match mark.what {
                        What::Begin => self.begin(mark.phase, mark.at),
                        What::Returned => {}
                        What::Synced if self.promise.whole => self.tree.settle_all(mark.at),
                        What::Synced => {}
                    }
                    self.marks += 1;
                }
                _ => break,
            }
        }
        let mut tree = self.tree.clone();
        for rank in &self.ranks {
            if rank.next.is_some() {
                let when = When { start: rank.last, at: time, maybe: true };
                tree.apply(&rank.op, self.promise, when);
            }
        }
        tree
    }

    fn begin(&mut self, phase: usize, at: Nanos) {
        let ranks = self.work.phases().get(phase).map_or(0, |spec| spec.threads.of(self.asked));
        self.phase = phase;
        self.ranks = (0..ranks)
            .map(|rank| {
                let source = self.work.ops(phase, Share { rank, ranks });
                let mut rank = Rank {
                    source,
                    op: Op { thread: rank, ..Op::default() },
                    next: Some(0),
                    last: at,
                };
                rank.peek(0);
                rank
            })
            .collect();
    }

    fn op(&mut self, rank: usize, at: Nanos) {
        let Some(rank) = self.ranks.get_mut(rank) else { return };
        let when = When { start: rank.last, at, maybe: false };
        self.tree.apply(&rank.op, self.promise, when);
        rank.last = at;
        rank.peek(rank.next.map_or(0, |next| next + 1));
    }
}

/// When an acknowledgement of durability came back: of each fsync(2) and sync(2), and of the syncfs(2) after a phase
/// where that makes all of it durable. They rise.
pub fn acknowledged(work: &dyn Workload, asked: u32, promise: &Promise, acks: &Acks) -> Vec<Nanos> {
    let mut times = Vec::new();
    for (index, (phase, returned)) in work.phases().iter().zip(&acks.returned).enumerate() {
        let ranks = phase.threads.of(asked);
        for (rank, returned) in (0..ranks).zip(returned) {
            let (mut source, mut op) = (work.ops(index, Share { rank, ranks }), Op::default());
            for at in returned {
                if !source.next(&mut op) {
                    break;
                }
                let acknowledges = match op.call {
                    Call::Fsync { .. } | Call::FsyncDir { .. } => true,
                    Call::Sync => promise.whole,
                    _ => false,
                };
                times.extend((acknowledges && op.expect == Expect::Success).then_some(*at));
            }
        }
    }
    let synced = acks.marks.iter().filter(|mark| promise.whole && mark.what == What::Synced);
    times.extend(synced.map(|mark| mark.at));
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
