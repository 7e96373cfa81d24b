//! Tests of the oracle with a tree that exists before the first call, with threads that wait for each other and share
//! open files, and with calls that occur only in recordings.

use std::collections::BTreeSet;

use fsdyno_filesystem::{Guarantee, Names};
use fsdyno_record::Nanos;
use fsdyno_record::acks::{Acks, PhaseEvent, PhaseEventKind};
use fsdyno_record::trial::ReplayReport;
use fsdyno_workload::workload::{GapKind, Needs, OpCounts, PhaseSpec, Prefill, Threads, Tree};
use fsdyno_workload::{Contents, DirSlot, FileSlot, Name, OpenFlags, Payload};

use super::*;
use crate::Replay;
use crate::judge::{Findings, judge};
use crate::recovered::{Entry, Kind, RecoveredTree};
use crate::tree::tests::{bytes, content, file};

const ROOT: DirSlot = DirSlot::ROOT;
const SLOT: FileSlot = FileSlot(1);

/// A recording: the ops that create the initial tree, and the calls of each thread.
#[derive(Default)]
struct Recorded {
    initial: Vec<Op>,
    ranks: Vec<Vec<Op>>,
    free: bool,
    failed: BTreeSet<(usize, usize, usize)>,
}

struct Listed<'a>(std::slice::Iter<'a, Op>);

impl OpSource for Listed<'_> {
    fn next(&mut self, op: &mut Op) -> bool {
        let next = self.0.next();
        if let Some(next) = next {
            let thread = op.thread;
            *op = Op { thread, ..next.clone() };
        }
        next.is_some()
    }
}

impl Workload for Recorded {
    fn phases(&self) -> Vec<PhaseSpec> {
        let threads = Threads::Exactly(self.ranks.len() as u32);
        vec![PhaseSpec { name: "replay", gap: GapKind::None, verify: false, threads }]
    }

    fn ops(&self, _: usize, share: Share) -> Box<dyn OpSource + Send + '_> {
        Box::new(Listed(self.ranks[share.rank as usize].iter()))
    }

    fn counts(&self, _: usize, _: u32) -> OpCounts {
        OpCounts::new()
    }

    fn tree(&self, _: usize) -> Box<dyn Tree + '_> {
        Box::new(MemoryFs::new())
    }

    fn needs(&self) -> Needs {
        Needs::default()
    }

    fn prefill(&self) -> Option<Prefill<'_>> {
        let ops = Box::new(Listed(self.initial.iter()));
        (!self.initial.is_empty()).then(|| Prefill { ops, tree: self.tree(0) })
    }

    fn shared_slots(&self) -> Option<u16> {
        Some(8)
    }

    fn recording(&self) -> Option<Recording> {
        let report = ReplayReport { threads: self.ranks.len() as u32, ..ReplayReport::default() };
        Some(Recording { strict: !self.free, report, ..Recording::default() })
    }
}

impl Recorded {
    /// Returns a recording with these calls and an initial directory `d` with a synced file `d/old` of 1,000 bytes.
    fn of(ranks: Vec<Vec<Op>>) -> Recorded {
        let mkdir = op(Call::Mkdir { dir: ROOT, mode: 0o755 }, "d", "");
        let initial = vec![mkdir, create("d/old"), write(bytes(1, 1000)), close()];
        Recorded { initial, ranks, ..Recorded::default() }
    }

    /// Judges the entries found after these numbers of ops of each rank have returned, one rank after the other.
    fn judge(&self, done: &[u64], found: &[Entry]) -> Findings {
        let (mut at, mut times) = (10, Vec::new());
        for count in done {
            times.push((at..at + count).collect());
            at += count;
        }
        self.judge_at(&times, found)
    }

    /// Judges the entries found after the ops of each rank have returned at these times.
    fn judge_at(&self, times: &[Vec<u64>], found: &[Entry]) -> Findings {
        let returned = times.iter().map(|times| times.iter().copied().map(Nanos).collect());
        let returned = vec![returned.collect()];
        let at = Nanos(100);
        let begin = PhaseEvent { kind: PhaseEventKind::Begin, phase: 0, time: Nanos(5) };
        let (events, failed) = (vec![begin], self.failed.clone());
        let acks = Acks { events, returned, failed };
        let guarantee = Guarantee {
            names: Names::WithFile,
            sync_covers_everything: true,
            repair: Vec::new(),
            last_resort: Vec::new(),
            source: "none".into(),
        };
        let mut replay = Replay::new(self, 1, &guarantee, &acks);
        let tree = replay.tree_at(at);
        let found = RecoveredTree { entries: found.to_vec(), ..RecoveredTree::default() };
        judge(&tree, &found, &Contents::new(1), at)
    }

    fn refused(&self) -> String {
        crate::refusal(self, 1).unwrap()
    }
}

fn name(text: &str) -> Name {
    let mut name = Name::default();
    name.push(text.as_bytes());
    name
}

fn op(call: Call, from: &str, to: &str) -> Op {
    Op { call, name: name(from), second_name: name(to), ..Op::default() }
}

fn create(path: &str) -> Op {
    let flags = OpenFlags { write: true, ..OpenFlags::NONE };
    op(Call::Create { dir: ROOT, file: SLOT, flags, mode: 0o644 }, path, "")
}

fn open(path: &str) -> Op {
    let flags = OpenFlags { write: true, ..OpenFlags::NONE };
    op(Call::Open { dir: ROOT, file: SLOT, flags }, path, "")
}

fn write(payload: Payload) -> Op {
    let result = u64::from(payload.length);
    Op { expect: Expect::Result, result, ..op(Call::Write { file: SLOT, payload }, "", "") }
}

fn close() -> Op {
    op(Call::Close { file: SLOT }, "", "")
}

fn fsync() -> Op {
    op(Call::Fsync { file: SLOT }, "", "")
}

fn fdatasync() -> Op {
    op(Call::Rare(RareCall::Fdatasync { file: SLOT }), "", "")
}

fn rename(from: &str, to: &str) -> Op {
    op(Call::Rename { dir: ROOT, to: ROOT }, from, to)
}

fn unlink(path: &str) -> Op {
    op(Call::Unlink { dir: ROOT }, path, "")
}

/// Returns the fsync of a directory, which a recording opens as a file.
fn sync_dir(path: &str) -> [Op; 3] {
    let flags = OpenFlags { directory: true, ..OpenFlags::NONE };
    [op(Call::Open { dir: ROOT, file: SLOT, flags }, path, ""), fsync(), close()]
}

/// Makes an op wait for the first `ops` ops of another rank.
fn waiting_for(thread: u32, ops: u64, op: Op) -> Op {
    Op { after: ProgressPoint { thread, ops }, ..op }
}

fn directory(path: &str) -> Entry {
    Entry { kind: Kind::Directory, ..file(path, b"") }
}

/// Returns the directory `d`, and files with their bytes.
fn found(files: &[(&str, &[u8])]) -> Vec<Entry> {
    let files = files.iter().map(|(path, bytes)| file(path, bytes));
    std::iter::once(directory("d")).chain(files).collect()
}

#[test]
fn the_tree_that_the_first_call_finds_is_durable_before_any_call() {
    let work = Recorded::of(vec![vec![open("d/old"), write(bytes(2, 600)), close()]]);
    assert_eq!(crate::refusal(&work, 1), None);
    let old = content(1, 1000);
    assert_eq!(work.judge(&[0], &found(&[("d/old", &old)])), Findings::default());
    assert!(work.judge(&[0], &[]).violations() > 0);
    assert_eq!(work.judge(&[0], &found(&[])).acknowledged_lost, 1);
    assert_eq!(work.judge(&[0], &found(&[("d/old", &old[..999])])).acknowledged_lost, 1);
    let other = found(&[("d/old", &old), ("d/new", &old)]);
    assert_eq!(work.judge(&[0], &other).acknowledged_names, 1, "it was never created");
    // Bytes that no call has changed must be the old ones; changed bytes are not synced.
    let mut changed = [content(2, 600), old[600..].to_vec()].concat();
    for bytes in [&old, &changed] {
        assert_eq!(work.judge(&[3], &found(&[("d/old", bytes)])).violations(), 0);
    }
    changed[1024 - 25 - 1] ^= 1;
    let violations =
        |work: &Recorded| work.judge(&[3], &found(&[("d/old", &changed)])).violations();
    assert_eq!(violations(&work), 0, "of a sector that was written to");
    let untouched = Recorded::of(vec![vec![open("d/old"), write(bytes(2, 500)), close()]]);
    assert_eq!(violations(&untouched), 1);
}

#[test]
fn data_that_a_replay_syncs_must_survive_and_threads_share_its_open_files() {
    let first = vec![open("d/old"), waiting_for(1, 1, fsync())];
    let second = vec![waiting_for(0, 1, write(bytes(2, 1000)))];
    let work = Recorded::of(vec![first, second]);
    assert_eq!(crate::refusal(&work, 1), None);
    let new = found(&[("d/old", &content(2, 1000))]);
    let old = found(&[("d/old", &content(1, 1000))]);
    for (times, lost) in [(&[vec![10], vec![12]], 0), (&[vec![10, 14], vec![12]], 1)] {
        assert_eq!(work.judge_at(times, &new).violations(), 0);
        assert_eq!(work.judge_at(times, &old).acknowledged_lost, lost, "{times:?}");
    }
}

#[test]
fn a_call_that_waits_for_another_thread_is_not_in_flight() {
    let first = vec![open("d/old"), close()];
    let work = Recorded::of(vec![first, vec![waiting_for(0, 2, unlink("d/old"))]]);
    assert_eq!(crate::refusal(&work, 1), None);
    assert!(work.judge(&[1, 0], &found(&[])).violations() > 0);
    assert_eq!(work.judge(&[2, 0], &found(&[])).violations(), 0);
    let old = content(1, 1000);
    assert_eq!(work.judge(&[2, 0], &found(&[("d/old", &old)])).violations(), 0);
}

#[test]
fn a_call_that_the_file_system_did_not_support_has_no_effect() {
    let longer = RareCall::Allocate {
        file: SLOT,
        mode: fsdyno_workload::AllocateMode::Extend,
        offset: 0,
        length: 4000,
    };
    let calls = vec![open("d/old"), op(Call::Rare(longer), "", ""), fsync()];
    let mut work = Recorded::of(vec![calls]);
    let old = content(1, 1000);
    let zeros = [&old[..], &[0; 3000]].concat();
    assert_eq!(work.judge(&[3], &found(&[("d/old", &zeros)])), Findings::default());
    assert_eq!(work.judge(&[3], &found(&[("d/old", &old)])).acknowledged_lost, 1);
    work.failed.insert((0, 0, 1));
    assert_eq!(work.judge(&[3], &found(&[("d/old", &old)])), Findings::default());
    assert_eq!(work.judge(&[3], &found(&[("d/old", &zeros)])).acknowledged_lost, 1);
}

#[test]
fn fdatasync_keeps_the_bytes_and_the_name_of_their_creation_and_no_later_name() {
    let old = content(1, 1000);
    let new = content(2, 700);
    let calls = |sync: Op| {
        vec![create("d/new"), write(bytes(2, 700)), sync, close(), rename("d/new", "d/it")]
    };
    let work = Recorded::of(vec![calls(fdatasync())]);
    assert!(work.judge(&[3], &found(&[("d/old", &old)])).violations() > 0);
    let mut more = calls(fdatasync());
    more.extend([open("d/it"), fdatasync()]);
    let renamed = Recorded::of(vec![more.clone()]);
    for kept in ["d/new", "d/it"] {
        let found = found(&[("d/old", &old), (kept, &new)]);
        assert_eq!(renamed.judge(&[7], &found).violations(), 0, "{kept}");
    }
    assert!(renamed.judge(&[7], &found(&[("d/old", &old)])).violations() > 0);
    more[6] = fsync();
    let synced = Recorded::of(vec![more]);
    let before = found(&[("d/old", &old), ("d/new", &new)]);
    assert!(synced.judge(&[7], &before).violations() > 0, "fsync keeps the later name");
}

#[test]
fn names_below_a_renamed_directory_move_with_it() {
    let old = content(1, 1000);
    let moved = vec![file("e/old", &old), directory("e")];
    let work = |more: &[Op]| Recorded::of(vec![[&[rename("d", "e")], more].concat()]);
    let renamed = work(&[]);
    assert_eq!(crate::refusal(&renamed, 1), None);
    for entries in [&found(&[("d/old", &old)]), &moved] {
        assert_eq!(renamed.judge(&[1], entries).violations(), 0);
    }
    assert!(renamed.judge(&[1], &[]).violations() > 0);
    assert!(renamed.judge(&[1], &[directory("e")]).violations() > 0);
    // A sync of an unchanged file in it does not make the rename durable; one of its parent does.
    let file_synced = work(&[open("e/old"), fsync()]);
    let root_synced = work(&sync_dir("."));
    let back = found(&[("d/old", &old)]);
    assert_eq!(file_synced.judge(&[3], &back).violations(), 0);
    assert!(root_synced.judge(&[4], &back).violations() > 0);
    for work in [&file_synced, &root_synced] {
        assert_eq!(work.judge(&[3], &moved).violations(), 0);
    }
    // Later calls below the new name are tracked.
    let deleted = work(&[unlink("e/old"), op(Call::Sync, "", "")]);
    assert_eq!(deleted.judge(&[3], &[directory("e")]), Findings::default());
    assert!(deleted.judge(&[3], &moved).violations() > 0);
}

#[test]
fn calls_that_cannot_be_tracked_are_refused_with_the_reason() {
    let two = || vec![vec![open("d/old")], vec![]];
    let free = Recorded { free: true, ..Recorded::of(two()) };
    assert!(free.refused().contains("with order=none the calls of its 2 threads"));
    let alone = Recorded { free: true, ..Recorded::of(vec![vec![open("d/old")]]) };
    assert_eq!(crate::refusal(&alone, 1), None);
    let flag = RenameFlag::Exchange;
    let exchange = op(Call::Rare(RareCall::Rename { dir: ROOT, to: ROOT, flag }), "d/old", "d/old");
    let refused = Recorded::of(vec![vec![exchange]]).refused();
    assert!(refused.contains("phase replay: it exchanges the name 'd/old'"), "{refused}");
    let circle = vec![vec![waiting_for(1, 1, open("d/old"))], vec![waiting_for(0, 1, close())]];
    assert!(Recorded::of(circle).refused().contains("wait for each other"));
    let refused = Recorded::of(vec![vec![unlink("d/none")]]).refused();
    assert!(refused.contains("unlink of 'd/none' cannot succeed"), "{refused}");
    let missing = Op { expect: Expect::Errno, result: 2, ..unlink("d/none") };
    assert_eq!(crate::refusal(&Recorded::of(vec![vec![missing]]), 1), None);
}
