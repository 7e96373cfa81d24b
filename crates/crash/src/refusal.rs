//! Why a workload's power cannot be cut: its ops cannot be replayed to one tree.
//!
//! Looked at is what the generators say, rank after rank, before any work.

use std::collections::hash_map::{DefaultHasher, Entry};
use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};

use fsdyno_workload::{Call, Expect, Op, OpenFlags, Share, Workload};

use crate::tree::{Dirs, Path};

/// Why the ops of a workload cannot be replayed; none where they can.
pub fn refusal(work: &dyn Workload, asked: u32) -> Option<String> {
    if work.fills() {
        return Some("it goes on until its file system is full".into());
    }
    if work.prefill().is_some() {
        return Some("its first phase finds what was made before, by no op of the log".into());
    }
    let mut seen = Seen::default();
    for (index, phase) in work.phases().iter().enumerate() {
        if work.limit(index).is_some() {
            return Some(format!("phase {} ends by time", phase.name));
        }
        if work.ends_with(index).is_some() {
            return Some(format!("phase {} ends when one of its threads has", phase.name));
        }
        seen.writers.clear();
        let ranks = phase.threads.of(asked);
        for rank in 0..ranks {
            let (mut source, mut op) = (work.ops(index, Share { rank, ranks }), Op::default());
            while source.next(&mut op) {
                if let Some(what) = seen.refused(&op, rank) {
                    return Some(format!("phase {} {what}", phase.name));
                }
            }
        }
    }
    None
}

/// What the ops so far have made. Of paths the hashes, for there may be millions.
#[derive(Default)]
struct Seen {
    dirs: Dirs,
    directories: HashSet<u64>,
    /// Who opened a file to write, in this phase.
    writers: HashMap<u64, u32>,
}

impl Seen {
    fn refused(&mut self, op: &Op, rank: u32) -> Option<String> {
        let name = op.name.as_bytes();
        match op.call {
            Call::CopyTree { .. } => Some(parts_unknown("copies a tree")),
            Call::PackTree { .. } | Call::UnpackTree { .. } => {
                Some(parts_unknown("packs or unpacks a tree"))
            }
            Call::Fallocate { .. } => Some(
                "reserves space, and what a power cut may leave of that is not told here".into(),
            ),
            _ if op.expect != Expect::Success => None,
            Call::OpenDir { dir, slot } => {
                let path = self.dirs.path(rank, dir, name);
                self.dirs.open(rank, slot, path);
                None
            }
            Call::CloseDir { slot } => {
                self.dirs.close(rank, slot);
                None
            }
            Call::Mkdir { dir, .. } => {
                self.directories.insert(hash(&self.dirs.path(rank, dir, name)));
                None
            }
            Call::Rename { dir, .. } => {
                let path = self.dirs.path(rank, dir, name);
                let moved = self.directories.contains(&hash(&path));
                moved.then(|| {
                    let path = String::from_utf8_lossy(&path);
                    format!("renames the directory '{path}', and what is below it is not followed")
                })
            }
            Call::Create { dir, flags, .. } | Call::Open { dir, flags, .. } => {
                self.opened(self.dirs.path(rank, dir, name), flags, rank)
            }
            _ => None,
        }
    }

    fn opened(&mut self, path: Path, flags: OpenFlags, rank: u32) -> Option<String> {
        if !flags.write && !flags.append {
            return None;
        }
        match self.writers.entry(hash(&path)) {
            Entry::Vacant(entry) => {
                entry.insert(rank);
                None
            }
            Entry::Occupied(entry) => (*entry.get() != rank).then(|| {
                let path = String::from_utf8_lossy(&path);
                format!(
                    "has two threads that write to '{path}', and when their writes came back does \
                     not tell which of them is the last"
                )
            }),
        }
    }
}

fn parts_unknown(what: &str) -> String {
    format!("{what}, of which only the file system knows the parts")
}

fn hash(path: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use fsdyno_workload::{Setting, workloads};

    use super::*;

    fn of(name: &str, set: &[(&str, &str)], threads: u32) -> Option<String> {
        let kind = workloads::find(name).unwrap();
        let work = kind.build(&kind.resolve(set).unwrap(), &Setting::seed(5)).unwrap();
        refusal(work.as_ref(), threads)
    }

    #[test]
    fn what_can_be_replayed_is_not_refused_and_what_cannot_is_with_its_phase() {
        for (name, set, threads) in [
            ("dirops", &[("files", "50")][..], 4),
            ("fdtree", &[("levels", "2"), ("dirs", "2"), ("files", "3")], 2),
            ("postmark", &[("number", "50"), ("transactions", "100")], 3),
            ("churn", &[("files", "60"), ("ops", "300")], 3),
            ("maildir", &[("deliverers", "4"), ("ops", "40"), ("protocol", "fsbench")], 1),
            ("tarball", &[("files", "40")], 1),
        ] {
            assert_eq!(of(name, set, threads), None, "{name}");
        }
        assert!(of("capacity", &[], 1).unwrap().contains("until its file system is full"));
        let tree = of("source-tree", &[], 1).unwrap();
        assert!(tree.contains("phase ") && tree.contains("only the file system knows"), "{tree}");
    }

    fn op(call: Call, name: &str, other: &str) -> Op {
        let mut op = Op { call, ..Op::default() };
        op.name.push(name.as_bytes());
        op.other.push(other.as_bytes());
        op
    }

    #[test]
    fn a_directory_that_is_renamed_and_a_file_that_two_threads_write_are_refused() {
        let root = fsdyno_workload::DirSlot::ROOT;
        let mut seen = Seen::default();
        let mkdir = op(Call::Mkdir { dir: root, mode: 0o755 }, "a", "");
        let file = fsdyno_workload::FileSlot(1);
        let write = OpenFlags { write: true, ..OpenFlags::NONE };
        let create = op(Call::Create { dir: root, file, flags: write, mode: 0o644 }, "a/f", "");
        let read = op(Call::Open { dir: root, file, flags: OpenFlags::NONE }, "a/f", "");
        for (op, rank) in [(&mkdir, 0), (&create, 0), (&create, 0), (&read, 1)] {
            assert_eq!(seen.refused(op, rank), None);
        }
        let two = seen.refused(&create, 1).unwrap();
        assert!(two.contains("two threads that write to 'a/f'"), "{two}");
        let rename = Call::Rename { dir: root, to: root };
        assert_eq!(seen.refused(&op(rename, "a/f", "a/g"), 0), None);
        let moved = seen.refused(&op(rename, "a", "b"), 0).unwrap();
        assert!(moved.contains("renames the directory 'a'"), "{moved}");
    }
}
