use std::sync::LazyLock;

use fsdyno_record::acks::{Acks, PhaseEventKind};
use fsdyno_workload::{
    Call, DirSlot, FileSlot, Name, OpenFlags, Payload, Setting, Share, workloads,
};

use super::*;
use crate::Replay;
use crate::judge::{Findings, judge};
use crate::recovered::{Entry, Kind, RecoveredTree, SECTOR, hash};
use fsdyno_workload::Contents;

/// A script of ops, executed one after the other, a nanosecond apart.
pub struct Script {
    pub tree: Tree,
    pub guarantee: Guarantee,
    pub at: u64,
}

fn name(text: &str) -> Name {
    let mut name = Name::default();
    name.push(text.as_bytes());
    name
}

pub const FILE: FileSlot = FileSlot(1);

/// File contents.
static CONTENTS: LazyLock<Contents> = LazyLock::new(|| Contents::new(1));

pub fn bytes(id: u64, length: u32) -> Payload {
    Payload { id, offset: 0, length }
}

/// Returns a guarantee with these durable names.
fn guarantee(names: Names) -> Guarantee {
    Guarantee {
        names,
        sync_covers_everything: true,
        repair: Vec::new(),
        last_resort: Vec::new(),
        source: "none".into(),
    }
}

impl Script {
    pub fn new(names: Names) -> Script {
        Script { tree: Tree::new(names), guarantee: guarantee(names), at: 0 }
    }

    pub fn op(&mut self, call: Call, from: &str, to: &str) -> &mut Script {
        self.apply(call, from, to, false)
    }

    /// Applies an op in flight.
    pub fn in_flight(&mut self, call: Call, from: &str, to: &str) -> &mut Script {
        self.apply(call, from, to, true)
    }

    fn apply(&mut self, call: Call, from: &str, to: &str, in_flight: bool) -> &mut Script {
        let op = Op { call, name: name(from), second_name: name(to), ..Op::default() };
        let when = Timing { start: Nanos(self.at), at: Nanos(self.at + 1), in_flight };
        self.tree.apply(&op, &self.guarantee, when);
        self.at += 1;
        self
    }

    pub fn create(&mut self, path: &str) -> &mut Script {
        let flags = OpenFlags { write: true, ..OpenFlags::NONE };
        self.op(Call::Create { dir: DirSlot::ROOT, file: FILE, flags, mode: 0o644 }, path, "")
    }

    pub fn write(&mut self, payload: Payload) -> &mut Script {
        self.op(Call::Write { file: FILE, payload }, "", "")
    }

    pub fn fsync(&mut self) -> &mut Script {
        self.op(Call::Fsync { file: FILE }, "", "")
    }

    pub fn close(&mut self) -> &mut Script {
        self.op(Call::Close { file: FILE }, "", "")
    }

    pub fn rename(&mut self, from: &str, to: &str) -> &mut Script {
        self.op(Call::Rename { dir: DirSlot::ROOT, to: DirSlot::ROOT }, from, to)
    }

    pub fn judge(&self, entries: Vec<Entry>) -> Findings {
        let found = RecoveredTree { entries, ..RecoveredTree::default() };
        judge(&self.tree, &found, &CONTENTS, Nanos(self.at))
    }
}

/// Returns a recovered file with these bytes.
pub fn file(path: &str, bytes: &[u8]) -> Entry {
    Entry {
        kind: Kind::File,
        error: 0,
        path: path.as_bytes().to_vec(),
        size: bytes.len() as u64,
        inode: 7,
        hashes: bytes.chunks(SECTOR).map(hash).collect(),
    }
}

/// Returns the first bytes of the contents with this id.
pub fn content(id: u64, length: u32) -> Vec<u8> {
    CONTENTS.slice(bytes(id, length)).to_vec()
}

#[test]
fn a_file_synced_with_its_name_must_survive_with_all_its_bytes() {
    let mut script = Script::new(Names::WithFile);
    script.create("a").write(bytes(1, 2000)).fsync();
    let expected = content(1, 2000);
    assert_eq!(script.judge(vec![file("a", &expected)]), Findings::default());
    assert_eq!(script.judge(vec![]).violations(), 2, "its name, and its bytes");
    assert_eq!(script.judge(vec![file("a", &expected[..1999])]).acknowledged_lost, 1);
    let mut changed = expected.clone();
    changed[1700] ^= 1;
    assert_eq!(script.judge(vec![file("a", &changed)]).acknowledged_lost, 1);
    let other = vec![file("a", &expected), file("b", &expected)];
    assert_eq!(script.judge(other).acknowledged_names, 1, "b was never created");
    // If only fsync of the directory makes a name durable, the file may be lost, which is counted.
    let mut script = Script::new(Names::WithDirectory);
    script.create("a").write(bytes(1, 2000)).fsync();
    let lost = script.judge(vec![]);
    assert_eq!((lost.violations(), lost.names_lost), (0, 1));
    assert_eq!(script.judge(vec![file("a", &changed)]).acknowledged_lost, 1);
    script.op(Call::FsyncDir { dir: DirSlot::ROOT }, "", "");
    assert_eq!(script.judge(vec![]).violations(), 2);
}

#[test]
fn unsynced_files_may_be_lost_and_are_counted() {
    let mut script = Script::new(Names::WithFile);
    script.create("a").write(bytes(1, 2000)).close();
    let expected = content(1, 2000);
    let judge = |entries| script.judge(entries);
    let counts =
        |it: Findings| (it.violations(), it.files_lost, it.files_empty, it.files_stale, it.lost_ns);
    assert_eq!(counts(judge(vec![file("a", &expected)])), (0, 0, 0, 0, Nanos(0)));
    assert_eq!(counts(judge(vec![])), (0, 1, 0, 0, Nanos(2)));
    assert_eq!(counts(judge(vec![file("a", b"")])), (0, 0, 1, 0, Nanos(2)));
    assert_eq!(counts(judge(vec![file("a", &expected[..1024])])), (0, 1, 0, 0, Nanos(2)));
    assert_eq!(counts(judge(vec![file("a", &[0; 2000])])), (0, 0, 0, 1, Nanos(2)));
    assert_eq!(counts(judge(vec![file("a", &content(2, 2000))])), (0, 0, 0, 1, Nanos(2)));
}

#[test]
fn a_renamed_file_has_its_old_name_or_its_new_one() {
    for guarantee in [Names::WithFile, Names::WithDirectory] {
        let mut script = Script::new(guarantee);
        script.create("tmp").write(bytes(1, 700)).fsync().close();
        script.op(Call::FsyncDir { dir: DirSlot::ROOT }, "", "").rename("tmp", "new");
        let expected = content(1, 700);
        for one in ["tmp", "new"] {
            assert_eq!(script.judge(vec![file(one, &expected)]).violations(), 0, "{one}");
        }
        let neither = script.judge(vec![]);
        assert_eq!((neither.acknowledged_lost, neither.names_lost), (1, 1));
        let both = script.judge(vec![file("tmp", &expected), file("new", &expected)]);
        assert_eq!(both.names_doubled, 1);
        // The new name is durable: it must survive, and the old one may.
        script.op(Call::FsyncDir { dir: DirSlot::ROOT }, "", "");
        assert_eq!(script.judge(vec![file("new", &expected)]), Findings::default());
        assert!(script.judge(vec![file("tmp", &expected)]).violations() > 0);
    }
}

#[test]
fn an_op_in_flight_may_have_taken_effect_or_not() {
    let mut script = Script::new(Names::WithFile);
    script.create("a").write(bytes(1, 600)).fsync().close();
    script.in_flight(Call::Unlink { dir: DirSlot::ROOT }, "a", "");
    let present = vec![file("a", &content(1, 600))];
    assert_eq!(script.judge(present), Findings::default());
    assert_eq!(script.judge(vec![]).violations(), 0);
    let mut script = Script::new(Names::WithFile);
    script.create("a").write(bytes(1, 600)).fsync();
    script.in_flight(Call::Write { file: FILE, payload: bytes(9, 600) }, "", "");
    let longer = [content(1, 600), content(9, 600)].concat();
    for found in [&longer[..600], &longer[..900], &longer[..]] {
        assert_eq!(script.judge(vec![file("a", found)]).violations(), 0);
    }
    assert_eq!(script.judge(vec![file("a", &longer[1..601])]).acknowledged_lost, 1);
}

#[test]
fn appended_bytes_may_be_lost_but_not_those_synced_before() {
    let mut script = Script::new(Names::WithFile);
    script.create("a").write(bytes(1, 1024)).fsync().write(bytes(2, 1024)).close();
    let whole = [content(1, 1024), content(2, 1024)].concat();
    let zeros = [content(1, 1024), vec![0; 1024]].concat();
    let judge = |bytes: &[u8]| script.judge(vec![file("a", bytes)]);
    assert_eq!(judge(&whole), Findings::default());
    assert_eq!((judge(&whole[..1024]).violations(), judge(&whole[..1024]).files_lost), (0, 1));
    assert_eq!((judge(&zeros).violations(), judge(&zeros).files_stale), (0, 1));
    assert_eq!(judge(&whole[..1000]).acknowledged_lost, 1);
    assert_eq!(judge(&zeros[1..]).acknowledged_lost, 1);
}

#[test]
fn a_removal_that_is_lost_is_counted_but_is_not_a_violation() {
    let mut script = Script::new(Names::WithFile);
    script.create("a").write(bytes(1, 100)).fsync().close();
    script.op(Call::Unlink { dir: DirSlot::ROOT }, "a", "");
    let back = script.judge(vec![file("a", &content(1, 100))]);
    assert_eq!((back.violations(), back.names_back, back.lost_ns), (0, 1, Nanos(0)));
    assert_eq!(script.judge(vec![]), Findings::default());
    // A sync of the whole file system settles it, unless the kernel does not pass the sync on.
    script.guarantee.sync_covers_everything = false;
    script.op(Call::Sync, "", "");
    assert_eq!(script.judge(vec![file("a", &content(1, 100))]).violations(), 0);
    script.guarantee.sync_covers_everything = true;
    script.op(Call::Sync, "", "");
    assert!(script.judge(vec![file("a", &content(1, 100))]).violations() > 0);
}

#[test]
fn writes_of_another_thread_during_sync_need_not_be_synced() {
    let mut script = Script::new(Names::WithFile);
    script.create("a").write(bytes(1, 600)).create("b").write(bytes(2, 600));
    let (start, sync) = (Nanos(script.at - 1), Op { call: Call::Sync, ..Op::default() });
    let when = Timing { start, at: Nanos(script.at + 1), in_flight: false };
    script.tree.apply(&sync, &script.guarantee, when);
    let (a, b) = (file("a", &content(1, 600)), file("b", &content(2, 600)));
    let zeros = |path: &str| file(path, &[0; 600]);
    assert_eq!(script.judge(vec![a.clone(), b.clone()]), Findings::default());
    assert_eq!(script.judge(vec![a, zeros("b")]).violations(), 0);
    assert_eq!(script.judge(vec![zeros("a"), b]).acknowledged_lost, 1);
}

/// Returns the complete tree, as a perfect recovery would find it.
fn as_done(tree: &Tree, contents: &Contents) -> Vec<Entry> {
    let names = tree.names.keys().filter_map(|path| Some((path, tree.current_node(path)?)));
    let names = names.map(|(path, id)| {
        let node = &tree.nodes[id];
        let kind = match (&node.file, node.directory) {
            (Some(_), _) => Kind::File,
            (_, true) => Kind::Directory,
            _ => Kind::Other,
        };
        let mut bytes: Vec<u8> = Vec::new();
        while let Some(piece) = tree.content(id).and_then(|it| it.piece(bytes.len() as u64)) {
            bytes.extend_from_slice(contents.slice(piece));
        }
        Entry { kind, path: path.clone(), ..file("", &bytes) }
    });
    names.collect()
}

/// The tree itself is a perfect recovery after every op of real workloads, and at the end it is the tree that the
/// workload expects.
#[test]
fn the_tree_of_ops_is_exact_at_every_moment_of_real_workloads() {
    type Run<'a> = (&'a str, &'a [(&'a str, &'a str)], u32);
    let runs: [Run<'_>; 4] = [
        (
            "maildir",
            &[("deliverers", "2"), ("ops", "40"), ("protocol", "qmail"), ("maildirs", "3")],
            1,
        ),
        (
            "maildir",
            &[
                ("deliverers", "1"),
                ("ops", "40"),
                ("protocol", "fsbench"),
                ("maildirs", "3"),
                ("retrieve", "delete"),
            ],
            1,
        ),
        ("dirops", &[("files", "50")], 1),
        ("churn", &[("files", "60"), ("ops", "400")], 1),
    ];
    for (workload, set, threads) in runs {
        let kind = workloads::find(workload).unwrap();
        let work = kind.build(&kind.resolve(set).unwrap(), &Setting::seed(5)).unwrap();
        assert_eq!(crate::refusal(work.as_ref(), threads), None, "{workload}");
        // Each op returns a nanosecond after the previous one, rank by rank.
        let mut acks = Acks::default();
        let mut clock = 0;
        for (index, phase) in work.phases().iter().enumerate() {
            let ranks = phase.threads.count_of(threads);
            clock += 1;
            acks.events.push(fsdyno_record::acks::PhaseEvent {
                kind: PhaseEventKind::Begin,
                phase: index,
                time: Nanos(clock),
            });
            let mut returned = Vec::new();
            for rank in 0..ranks {
                let (mut source, mut op, mut times) =
                    (work.ops(index, Share { rank, ranks }), Op::default(), Vec::new());
                while source.next(&mut op) {
                    clock += 1;
                    times.push(Nanos(clock));
                }
                returned.push(times);
            }
            acks.returned.push(returned);
            clock += 1;
            acks.events.push(fsdyno_record::acks::PhaseEvent {
                kind: PhaseEventKind::Synced,
                phase: index,
                time: Nanos(clock),
            });
        }
        let contents = Contents::new(5);
        let kept = guarantee(Names::WithFile);
        let mut done = Replay::new(work.as_ref(), threads, &kept, &acks);
        for time in (1..=clock + 2).step_by(7).chain([clock + 2]) {
            let tree = done.tree_at(Nanos(time));
            let found =
                RecoveredTree { entries: as_done(&tree, &contents), ..RecoveredTree::default() };
            let findings = judge(&tree, &found, &contents, Nanos(time));
            assert_eq!(findings, Findings::default(), "{workload} at {time}");
        }
        let tree = done.tree_at(Nanos(clock + 2));
        let last = work.tree(work.phases().len() - 1);
        for path in tree.names.keys() {
            assert!(last.lookup(path).is_some(), "{workload}: {}", String::from_utf8_lossy(path));
        }
        let files = tree
            .names
            .keys()
            .filter(|path| !tree.nodes[tree.current_node(path).unwrap()].directory);
        assert_eq!(files.count() as u64, last.files(), "{workload}");
    }
}
