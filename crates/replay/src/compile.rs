//! The second pass: creates an op for each call, in the order of the recording.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use fsdyno_record::OpKind;
use fsdyno_trace::{Call, Event, FileId, NodeId, ThreadId};
use fsdyno_workload::memory_fs::{Inode, Outcome};
use fsdyno_workload::replay::Section;
use fsdyno_workload::replay::format::{
    EXPECT_ANY, EXPECT_ERRNO, EXPECT_RESULT, EXPECT_SUCCESS, OpRecord,
};
use fsdyno_workload::{Call as OpCall, FileSlot, MemoryFs, Op, RareCall};

use crate::ReplayError;
use crate::initial::{FirstPassResult, MAX_SIZE};
use crate::order::{Access, Point, Resource, Touches, add};
use crate::out::CompiledWriter;
use crate::phases::Phases;
use crate::plan::{Compare, Opened, Place, Plan, Skip};
use crate::starts::Starts;

/// The number of slots that are used once before any is reused, so that an open rarely waits for an old close.
const FRESH: u16 = 8192;

/// The maximum number of files open at the same time.
const MAX_OPEN: u16 = 60_000;

/// The state of a thread.
#[derive(Default)]
pub(crate) struct Thread {
    /// The ops (rank and count, see [`Point`]) that must return before its next op, because of earlier calls without an
    /// op.
    pub(crate) carry: Vec<Point>,
    /// Processor time since its last op, in nanoseconds.
    pub(crate) think: u64,
    /// The time at which its last op returned, in nanoseconds.
    pub(crate) returned: Option<u64>,
}

/// A summary of the recorded calls that are replayed.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// Their number and total time in nanoseconds, by kind.
    pub times: BTreeMap<OpKind, (u64, u64)>,
    /// Processor time of all threads between calls, in nanoseconds.
    pub think: u64,
    /// The number of calls on paths.
    pub paths: u64,
    /// The numbers of components of these paths: in the program, and in the replay, where a path begins at the root of
    /// the tree or in an open directory.
    pub components: (u64, u64),
}

/// The second pass over a recording.
pub struct Compiler {
    pub(crate) fs: MemoryFs,
    pub(crate) nodes: HashMap<NodeId, Inode>,
    pub(crate) roots: HashSet<NodeId>,
    pub(crate) files: HashMap<FileId, Opened>,
    /// The number of times that parts of a file were overwritten.
    pub(crate) versions: HashMap<Inode, u64>,
    pub(crate) out: CompiledWriter,
    op: Op,
    rank_of: HashMap<ThreadId, u16>,
    pub(crate) threads: HashMap<ThreadId, Thread>,
    pub(crate) starts: Starts,
    /// The directories that the program removes.
    removed: HashSet<NodeId>,
    /// The number of ops of each rank.
    pub(crate) counts: Vec<u32>,
    /// The points of other ranks for which each rank is known to have waited.
    pub(crate) known: Vec<HashMap<u16, u32>>,
    pub(crate) touches: Touches,
    /// The most recent op of all ranks: its rank, and the number of that rank's ops up to it.
    pub(crate) last: Point,
    free: VecDeque<u16>,
    next_slot: u16,
    skipped: BTreeMap<Skip, u64>,
    pub(crate) kinds: BTreeMap<OpKind, u64>,
    pub(crate) recorded: Recorded,
    /// True if the current event is already in [`Compiler::recorded`].
    pub(crate) counted: bool,
    calls: u64,
    pub(crate) ops: u64,
    /// The number of calls with an op.
    replayed: u64,
    pub(crate) waiting: u64,
    phases: Phases,
    mapped_bytes: u64,
    /// The number of bytes written in place of stores to mappings.
    pub(crate) stored: u64,
    /// The directories and names by which open files were opened.
    pub(crate) places: HashMap<FileId, Place>,
    /// The directories and names by which mapped files were opened.
    pub(crate) mapped: HashMap<Inode, Place>,
    written: u64,
    /// Two upper bounds of the space in bytes: the maximum in the tree at one time, and all bytes ever written.
    bytes: (u64, u64),
    inodes: u64,
    pub(crate) longest_name: usize,
    pub(crate) has_times: bool,
}

impl Compiler {
    /// Starts from the result of the first pass.
    pub fn new(start: FirstPassResult, out: CompiledWriter) -> Result<Compiler, ReplayError> {
        let ranks = start.ranks.capacity.len();
        if ranks > 1024 {
            return Err(ReplayError::Limit(format!(
                "has {ranks} threads at the same time; a replay supports at most 1,024"
            )));
        }
        let mut starts = Starts::default();
        for node in &start.removed {
            if let Some(inode) = start.nodes.get(node) {
                starts.add_removed(*inode);
            }
        }
        Ok(Compiler {
            starts,
            removed: start.removed,
            bytes: (start.bytes, start.bytes),
            inodes: start.fs.totals().names,
            fs: start.fs,
            nodes: start.nodes,
            roots: start.roots,
            files: HashMap::new(),
            versions: HashMap::new(),
            out,
            op: Op::default(),
            rank_of: start.ranks.rank_of,
            threads: HashMap::new(),
            counts: vec![0; ranks],
            known: vec![HashMap::new(); ranks],
            touches: Touches::default(),
            last: (0, 0),
            free: VecDeque::new(),
            next_slot: 1,
            skipped: BTreeMap::new(),
            kinds: BTreeMap::new(),
            recorded: Recorded::default(),
            counted: false,
            calls: 0,
            ops: 0,
            replayed: 0,
            waiting: 0,
            phases: Phases::default(),
            mapped_bytes: 0,
            stored: 0,
            places: HashMap::new(),
            mapped: HashMap::new(),
            written: 0,
            longest_name: start.longest_name,
            has_times: start.has_times,
        })
    }

    /// Processes the next event.
    pub fn event(&mut self, event: &Event) -> Result<(), ReplayError> {
        let thread = self.threads.entry(event.thread).or_default();
        thread.think = thread.think.saturating_add(event.think);
        self.recorded.think = self.recorded.think.saturating_add(event.think);
        if let Some(place) = self.phases.event(event) {
            self.out.boundary(place.is_mark, &place.name, &self.counts, &self.kinds)?;
        }
        match &event.call {
            Call::Mark { .. } | Call::Exit { .. } | Call::Exec { .. } => return Ok(()),
            Call::Spawn { child, .. } => {
                let points = self.points(event.thread);
                self.carry(*child, &points);
                return Ok(());
            }
            Call::Wait { child } => {
                let points = self.points(*child);
                self.carry(event.thread, &points);
                return Ok(());
            }
            Call::Outside { number, .. } => {
                if *number > 0 {
                    self.order_only(event.thread, Resource::outside(*number), Access::Change);
                }
                return Ok(());
            }
            Call::Lock { file, .. } => {
                if let Some(open) = self.files.get(file).copied() {
                    self.order_only(event.thread, Resource::locks(open.inode), Access::Change);
                }
                self.calls += 1;
                self.skip("locks-which-only-order-threads");
                return Ok(());
            }
            Call::Map { length, .. } => {
                self.mapped_bytes = self.mapped_bytes.saturating_add(*length)
            }
            _ => {}
        }
        (self.calls, self.counted) = (self.calls + 1, false);
        match self.plans(event) {
            Ok(plans) => {
                let before = self.ops;
                for plan in plans {
                    self.create_op(event, plan)?;
                }
                self.replayed += u64::from(self.ops > before);
                Ok(())
            }
            Err(reason) => {
                self.skip(reason);
                Ok(())
            }
        }
    }

    pub(crate) fn skip(&mut self, reason: Skip) {
        *self.skipped.entry(reason).or_default() += 1;
    }

    pub(crate) fn rank(&self, thread: ThreadId) -> u16 {
        self.rank_of.get(&thread).copied().unwrap_or(0)
    }

    /// Returns the last op of a thread, and the points for which its next op waits.
    fn points(&self, thread: ThreadId) -> Vec<Point> {
        let mut points =
            self.threads.get(&thread).map_or_else(Vec::new, |thread| thread.carry.clone());
        if let Some(rank) = self.rank_of.get(&thread) {
            add(&mut points, (*rank, self.counts[usize::from(*rank)]));
        }
        points
    }

    fn carry(&mut self, thread: ThreadId, points: &[Point]) {
        let carry = &mut self.threads.entry(thread).or_default().carry;
        points.iter().for_each(|point| add(carry, *point));
    }

    /// Processes a call that has no op but orders threads.
    fn order_only(&mut self, thread: ThreadId, resource: Resource, access: Access) {
        let also = self.points(thread);
        let rank = self.rank(thread);
        let point = (rank, self.counts[usize::from(rank)]);
        let mut needs = Vec::new();
        self.touches.touch(resource, access, (point, &also), &mut needs);
        self.carry(thread, &needs);
    }

    /// Returns a slot for an open; an error if too many files are open.
    pub(crate) fn assign_slot(&mut self) -> Result<FileSlot, Skip> {
        if self.next_slot >= FRESH
            && let Some(slot) = self.free.pop_front()
        {
            return Ok(FileSlot(slot));
        }
        if self.next_slot >= MAX_OPEN {
            return Err("opens-of-more-than-60000-files-at-once");
        }
        self.next_slot += 1;
        Ok(FileSlot(self.next_slot - 1))
    }

    /// Creates an op from a plan, if its recorded result agrees with the tree in memory.
    fn create_op(&mut self, event: &Event, plan: Plan) -> Result<(), ReplayError> {
        (self.op.call, self.op.thread) = (plan.call, 0);
        self.op.name.clear();
        self.op.name.push(&plan.name);
        self.op.second_name.clear();
        self.op.second_name.push(&plan.other);
        if event.errno().is_none() && self.end_of(plan.call) > MAX_SIZE {
            return self.omit(&plan, "calls-beyond-1-PiB-of-a-file");
        }
        let planned = self.fs.plan(&self.op);
        let mut record = OpRecord::default();
        match (&planned, event.errno()) {
            (Ok(done), None) => {
                (record.expect, record.result) = match plan.compare {
                    Compare::Success => (EXPECT_SUCCESS, 0),
                    Compare::Number
                        if has_number(event, &plan) && event.result != done.bytes as i64 =>
                    {
                        self.skip("results-that-the-tree-does-not-explain-which-are-not-compared");
                        (EXPECT_ANY, 0)
                    }
                    Compare::Number => (EXPECT_RESULT, done.bytes),
                    Compare::Nothing => (EXPECT_ANY, 0),
                };
            }
            (Err(error), Some(errno)) if i64::from(error.number()) == errno => {
                (record.expect, record.result) = (EXPECT_ERRNO, errno as u64);
            }
            // ENODATA, EOPNOTSUPP: the tree in memory does not model attributes.
            (Ok(_), Some(errno @ (61 | 95))) if is_attribute(plan.call) => {
                (record.expect, record.result) = (EXPECT_ERRNO, errno as u64);
            }
            // EPERM, EACCES.
            (_, Some(1 | 13)) => return self.omit(&plan, "calls-that-permissions-refused"),
            // EINTR, EAGAIN.
            (_, Some(4 | 11)) => return self.omit(&plan, "interrupted-calls"),
            // ENOSPC, EDQUOT.
            (_, Some(28 | 122)) => {
                return self.omit(&plan, "calls-that-failed-for-lack-of-space");
            }
            (_, Some(_)) => {
                return self.omit(&plan, "calls-whose-error-the-tree-does-not-explain");
            }
            (Err(_), None) => {
                return self.omit(&plan, "calls-whose-success-the-tree-does-not-explain");
            }
        }
        let succeeded = event.errno().is_none();
        let unused = match plan.call {
            OpCall::Open { file, .. } | OpCall::Create { file, .. } if !succeeded => Some(file.0),
            _ => None,
        };
        if let (Ok(outcome), true) = (planned, succeeded) {
            self.commit(event, &plan, outcome);
        }
        self.emit(event, plan, record)?;
        self.free.extend(unused);
        Ok(())
    }

    /// Returns the offset up to which a call can extend a file.
    fn end_of(&self, call: OpCall) -> u64 {
        let (offset, length) = match call {
            OpCall::Write { file, payload } => {
                let open = self.fs.open_file(0, file);
                (open.map_or(0, |open| open.position), payload.length.into())
            }
            OpCall::WriteAt { offset, payload, .. } => (offset, payload.length.into()),
            OpCall::Truncate { length, .. } | OpCall::Rare(RareCall::Truncate { length, .. }) => {
                (0, length)
            }
            OpCall::Rare(RareCall::Allocate { offset, length, .. }) => (offset, length),
            OpCall::Rare(RareCall::CopyRange { offset, length, .. }) => (offset, length.into()),
            _ => (0, 0),
        };
        offset.saturating_add(length)
    }

    /// Counts a call that is not replayed.
    fn omit(&mut self, plan: &Plan, reason: Skip) -> Result<(), ReplayError> {
        if let OpCall::Open { file, .. } | OpCall::Create { file, .. } = plan.call {
            self.free.push_back(file.0);
        }
        self.skip(reason);
        Ok(())
    }

    /// Applies the changes of a successful call, and records what it opened and created.
    fn commit(&mut self, event: &Event, plan: &Plan, outcome: Outcome) {
        let created = match &event.call {
            Call::Open { created, .. }
            | Call::Mkdir { created, .. }
            | Call::Symlink { created, .. } => *created,
            _ => None,
        };
        if let Some(node) = created {
            self.nodes.insert(node, self.fs.next_inode());
            if self.removed.contains(&node) {
                self.starts.add_removed(self.fs.next_inode());
            }
        }
        if let OpCall::Write { payload, .. } | OpCall::WriteAt { payload, .. } = plan.call {
            self.bytes.1 = self.bytes.1.saturating_add(u64::from(payload.length));
            self.written = self.written.saturating_add(u64::from(payload.length));
        }
        if let OpCall::Rare(RareCall::Allocate { length, .. }) = plan.call {
            self.bytes.1 = self.bytes.1.saturating_add(length);
        }
        for change in outcome.changes {
            self.fs.commit(change);
        }
        let now = self.fs.totals();
        self.bytes.0 = self.bytes.0.max(now.bytes);
        self.inodes = self.inodes.max(now.names);
        if let (
            Call::Open { file: Some(id), .. } | Call::Inherit { file: id, .. },
            OpCall::Open { file, .. } | OpCall::Create { file, .. },
        ) = (&event.call, plan.call)
            && let Some(open) = self.fs.open_file(0, file)
        {
            self.files.insert(*id, Opened { slot: file, inode: open.inode });
            if let Call::Open { at, .. } = &event.call {
                self.opened_as(*id, at);
            }
        }
        if let OpCall::Close { file } = plan.call {
            self.free.push_back(file.0);
            if let Call::Close { file: id, .. } = &event.call {
                self.files.remove(id);
                self.places.remove(id);
            }
        }
    }

    /// Ends the pass; returns the length of the compiled form, and the summary of the replayed calls.
    pub fn finish(mut self) -> Result<(u64, Recorded), ReplayError> {
        self.out.tree(Section::After, &self.fs)?;
        let facts = &mut self.out.facts;
        let mut fact = |name: String, value: u64| facts.insert(name, value.to_string());
        for (kind, count) in &self.kinds {
            fact(format!("count-{kind}"), *count);
        }
        for (reason, count) in &self.skipped {
            fact(format!("skipped-{reason}"), *count);
        }
        fact("calls".into(), self.calls);
        fact("replayed".into(), self.replayed);
        fact("waiting".into(), self.waiting);
        fact("mapped-bytes".into(), self.mapped_bytes);
        fact("stored-bytes".into(), self.stored);
        fact("written-bytes".into(), self.written);
        fact("bytes".into(), self.bytes.0.min(self.bytes.1));
        fact("inodes".into(), self.inodes);
        fact("longest-name".into(), self.longest_name as u64);
        fact("slots".into(), u64::from(self.next_slot));
        Ok((self.out.finish()?, self.recorded))
    }
}

/// Returns true if the recording includes the number that a call returned.
fn has_number(event: &Event, plan: &Plan) -> bool {
    match &event.call {
        Call::Read { .. } | Call::Write { .. } | Call::Seek { .. } | Call::Readlink { .. } => true,
        Call::Copy { .. } => plan.call.kind() != Some(OpKind::Seek),
        _ => false,
    }
}

fn is_attribute(call: OpCall) -> bool {
    matches!(
        call.kind(),
        Some(OpKind::Getxattr | OpKind::Listxattr | OpKind::Removexattr | OpKind::Setxattr)
    )
}
