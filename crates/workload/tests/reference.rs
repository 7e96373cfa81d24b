//! Every workload against a file system in memory: each op is legal, the counts are exact, and the
//! tree it leaves is the tree it says.

#![allow(clippy::unwrap_used, reason = "a test may")]

use std::collections::{BTreeMap, HashMap};

use fsdyno_record::OpKind;
use fsdyno_workload::{
    Call, DirSlot, Expect, Expected, FileSlot, Op, OpCounts, Payload, Share, Workload, workloads,
};
use proptest::prelude::*;

/// A directory (none) or a file with how many bytes of which content.
type Node = Option<(u64, u64)>;

#[derive(Default)]
struct Memory {
    nodes: BTreeMap<String, Node>,
    dirs: HashMap<u16, String>,
    files: HashMap<u16, String>,
}

impl Memory {
    fn path(&self, dir: DirSlot, op: &Op) -> String {
        let name = String::from_utf8(op.name.as_bytes().to_vec()).unwrap();
        assert!(!name.is_empty(), "{:?} has no name", op.call);
        if dir == DirSlot::ROOT { name } else { format!("{}/{name}", self.dirs[&dir.0]) }
    }

    fn has_parent(&self, path: &str) -> bool {
        path.rsplit_once('/').is_none_or(|(parent, _)| self.nodes.get(parent) == Some(&None))
    }

    fn is_empty(&self, path: &str) -> bool {
        let below = format!("{path}/");
        !self.nodes.range(below.clone()..).next().is_some_and(|(name, _)| name.starts_with(&below))
    }

    fn open(&mut self, file: FileSlot, path: String) {
        assert_eq!(self.files.insert(file.0, path), None, "the slot is in use");
    }

    fn write(&mut self, file: FileSlot, payload: Payload) {
        let node = self.nodes.get_mut(&self.files[&file.0]).unwrap().as_mut().unwrap();
        assert!(payload.length > 0);
        assert_eq!(node.1, payload.offset, "a hole or an overwrite");
        assert!(node.1 == 0 || node.0 == payload.id, "two contents in one file");
        *node = (payload.id, node.1 + u64::from(payload.length));
    }

    /// Does the op as a file system would; how it ended and what calls it was.
    fn apply(&mut self, op: &Op, counts: &mut OpCounts) -> Expect {
        if let Some(kind) = op.call.kind() {
            *counts.entry(kind).or_default() += 1;
        }
        match op.call {
            Call::Mkdir { dir, .. } | Call::Create { dir, .. } => {
                let path = self.path(dir, op);
                if !self.has_parent(&path) {
                    return Expect::Missing;
                }
                if self.nodes.contains_key(&path) {
                    return Expect::Exists;
                }
                let Call::Create { file, .. } = op.call else {
                    self.nodes.insert(path, None);
                    return Expect::Success;
                };
                self.nodes.insert(path.clone(), Some((0, 0)));
                self.open(file, path);
            }
            Call::OpenDir { dir, slot } => {
                let path = self.path(dir, op);
                assert_eq!(self.nodes.get(&path), Some(&None));
                assert_eq!(self.dirs.insert(slot.0, path), None);
            }
            Call::CloseDir { slot } => assert!(self.dirs.remove(&slot.0).is_some()),
            Call::Write { file, payload } => self.write(file, payload),
            Call::Close { file } => assert!(self.files.remove(&file.0).is_some()),
            Call::UtimesFile { file, .. } | Call::ChownFile { file } => {
                assert!(self.files.contains_key(&file.0));
            }
            Call::ChmodFile { file, mode } => {
                assert_eq!(mode & !0o777, 0);
                assert!(self.files.contains_key(&file.0));
            }
            Call::Stat { dir } => assert!(self.nodes.contains_key(&self.path(dir, op))),
            Call::Unlink { dir } => {
                let node = self.nodes.remove(&self.path(dir, op));
                assert!(node.is_some_and(|node| node.is_some()), "{:?} is no file", op.name);
            }
            Call::Rmdir { dir } => {
                let path = self.path(dir, op);
                assert!(self.is_empty(&path));
                assert_eq!(self.nodes.remove(&path), Some(None));
            }
            Call::RemoveTree { dir, .. } => self.remove_tree(&self.path(dir, op), counts),
            call => panic!("the reference does not know {call:?}"),
        }
        Expect::Success
    }

    fn remove_tree(&mut self, path: &str, counts: &mut OpCounts) {
        let below = format!("{path}/");
        let doomed: Vec<String> = self
            .nodes
            .keys()
            .filter(|name| *name == path || name.starts_with(&below))
            .cloned()
            .collect();
        for name in doomed {
            let calls: &[OpKind] = match self.nodes.remove(&name).unwrap() {
                None => &[OpKind::Open, OpKind::Close, OpKind::Rmdir],
                Some(_) => &[OpKind::Unlink],
            };
            calls.iter().for_each(|kind| *counts.entry(*kind).or_default() += 1);
        }
    }

    /// Compares with what the workload says must be there.
    fn check(&self, work: &dyn Workload, phase: usize) {
        let tree = work.tree(phase);
        let (mut files, mut directories) = (0, 0);
        for (path, node) in &self.nodes {
            match (node, tree.lookup(path.as_bytes())) {
                (None, Some(Expected::Directory)) => directories += 1,
                (Some((id, length)), Some(Expected::File(payload))) => {
                    files += 1;
                    assert_eq!((*length, payload.offset), (u64::from(payload.length), 0), "{path}");
                    assert!(*length == 0 || *id == payload.id, "{path}");
                }
                (node, expected) => panic!("{path} is {node:?}, not {expected:?}"),
            }
        }
        assert_eq!((files, directories), (tree.files(), tree.directories()));
        for nothing in ["", "d/", "t/x", "d/f", "zzz", "t/d0/f0/x", "d/f0000000/"] {
            assert_eq!(tree.lookup(nothing.as_bytes()), None, "{nothing:?} is no path");
        }
    }

    fn largest(&self) -> (u64, u64, usize) {
        let bytes = self.nodes.values().flatten().map(|(_, length)| length).sum();
        let name = self.nodes.keys().filter_map(|path| path.rsplit('/').next()).map(str::len).max();
        (bytes, self.nodes.len() as u64, name.unwrap_or(0))
    }
}

/// Runs every phase of a workload; panics at the first thing that is not right.
fn prove(name: &str, set: &[(&str, &str)], seed: u64) {
    let kind = workloads::find(name).unwrap();
    let work = kind.build(&kind.resolve(set).unwrap(), seed).unwrap();
    let mut memory = Memory::default();
    let mut op = Op::default();
    for (phase, spec) in work.phases().iter().enumerate() {
        let mut counts = OpCounts::new();
        let mut ops = work.ops(phase, Share::WHOLE);
        while ops.next(&mut op) {
            let ended = memory.apply(&op, &mut counts);
            assert_eq!(ended, op.expect, "{:?} {:?}", op.call, op.name);
        }
        assert_eq!(counts, work.counts(phase), "{name} {set:?}: {}", spec.name);
        assert!(memory.files.is_empty() && memory.dirs.is_empty(), "left open after {}", spec.name);
        memory.check(work.as_ref(), phase);
        if phase == 0 {
            let needs = work.needs();
            assert_eq!((needs.bytes.0, needs.inodes, needs.longest_name), memory.largest());
        }
    }
}

fn order() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["forward", "reverse", "random"])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn dirops_makes_what_it_says_and_takes_it_away(
        files in 1u64..400,
        (create, stat, delete) in (order(), order(), order()),
        (with_stat, digits, size) in (prop::bool::ANY, 1u64..12, prop::sample::select(vec![0, 1, 4096])),
        seed: u64,
    ) {
        prove("dirops", &[
            ("files", &files.to_string()),
            ("create-order", create), ("stat-order", stat), ("order", delete),
            ("stat", if with_stat { "yes" } else { "no" }),
            ("digits", &digits.to_string()), ("size", &size.to_string()),
        ], seed);
    }

    #[test]
    fn tarball_extracts_what_it_says_and_removes_it(
        files in 1u64..400,
        directories in 1u64..100,
        size in prop::sample::select(vec!["mix", "0", "1", "4096", "10240", "100000"]),
        order in prop::sample::select(vec!["readdir", "inode", "name", "creation", "reverse", "random"]),
        seed: u64,
    ) {
        prove("tarball", &[
            ("files", &files.to_string()),
            ("directories", &directories.min(files).to_string()),
            ("size", size), ("order", order),
        ], seed);
    }
}

#[test]
fn the_shares_of_dirops_together_are_the_whole() {
    let kind = workloads::find("dirops").unwrap();
    let set = [("files", "1000"), ("create-order", "random")];
    let work = kind.build(&kind.resolve(&set).unwrap(), 3).unwrap();
    let mut created = Vec::new();
    for rank in 0..7 {
        let mut ops = work.ops(0, Share { rank, ranks: 7 });
        let mut op = Op::default();
        while ops.next(&mut op) {
            if matches!(op.call, Call::Create { .. }) {
                created.push(op.name.display());
            }
        }
    }
    created.sort();
    created.dedup();
    assert_eq!(created.len(), 1000);
}

#[test]
fn another_seed_is_another_order_and_the_same_seed_the_same() {
    let names = |seed| {
        let kind = workloads::find("tarball").unwrap();
        let work = kind.build(&kind.resolve(&[("files", "50")]).unwrap(), seed).unwrap();
        let mut ops = work.ops(0, Share::WHOLE);
        let mut op = Op::default();
        let mut names = Vec::new();
        while ops.next(&mut op) {
            names.push(format!("{:?} {:?}", op.call, op.name));
        }
        names
    };
    assert_eq!(names(1), names(1));
    assert_ne!(names(1), names(2));
}

#[test]
fn more_directories_than_files_are_refused_before_any_work() {
    let kind = workloads::find("tarball").unwrap();
    let error = kind.resolve(&[("files", "10"), ("directories", "11")]).unwrap_err();
    assert!(error.to_string().contains("directories=10"), "{error}");
}
