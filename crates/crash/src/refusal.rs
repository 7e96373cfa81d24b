//! Refuses workloads that cannot be crash-tested because replaying their ops does not lead to a single tree.
//!
//! Reads the ops from the generators, one rank after another, before anything runs.

use std::collections::hash_map::{DefaultHasher, Entry};
use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};

use fsdyno_workload::{DirSlot, Effect, Expect, Op, OpenFlags, Share, Workload};

use crate::recording_refusal;
use crate::tree::Path;

/// Returns the reason why the ops of a workload cannot be replayed, or `None` if they can.
pub fn refusal(workload: &dyn Workload, threads: u32) -> Option<String> {
    if workload.fills_file_system() {
        return Some("it runs until its file system is full".into());
    }
    if workload.command().is_some() {
        return Some(
            "it is a program, whose calls are unknown; record it, and use workload 'replay'".into(),
        );
    }
    if let Some(recording) = workload.recording() {
        return recording_refusal::refusal(workload, &recording, threads);
    }
    if workload.prefill().is_some() {
        return Some("its first phase works on files that no logged op created".into());
    }
    let mut check = ReplayCheck::default();
    for (index, phase) in workload.phases().iter().enumerate() {
        if workload.limit(index).is_some() {
            return Some(format!("phase {} ends at a time limit", phase.name));
        }
        if workload.ends_with(index).is_some() {
            return Some(format!("phase {} ends when one particular thread ends", phase.name));
        }
        check.writers.clear();
        let ranks = phase.threads.count_of(threads);
        for rank in 0..ranks {
            let (mut source, mut op) = (workload.ops(index, Share { rank, ranks }), Op::default());
            while source.next(&mut op) {
                if let Some(what) = check.refuse(&op, rank) {
                    return Some(format!("phase {} {what}", phase.name));
                }
            }
        }
    }
    None
}

/// The effects of the ops so far. Paths are kept as hashes, because there may be millions.
#[derive(Default)]
struct ReplayCheck {
    open_dirs: OpenDirs,
    made_directories: HashSet<u64>,
    /// The rank that opened each file for writing in this phase.
    writers: HashMap<u64, u32>,
}

impl ReplayCheck {
    #[deny(
        clippy::wildcard_enum_match_arm,
        reason = "whether a new effect is replayable must be decided here"
    )]
    fn refuse(&mut self, op: &Op, rank: u32) -> Option<String> {
        let name = op.name.as_bytes();
        let effect = op.call.facts().effect;
        if let Effect::Untracked(what) = effect {
            return Some(what.into());
        }
        if op.expect != Expect::Success {
            return None;
        }
        match effect {
            Effect::OpenDir { dir, slot } => {
                let path = self.open_dirs.path(rank, dir, name);
                self.open_dirs.open(rank, slot, path);
                None
            }
            Effect::CloseDir { slot } => {
                self.open_dirs.close(rank, slot);
                None
            }
            Effect::MakeDir { dir } => {
                self.made_directories.insert(hash(&self.open_dirs.path(rank, dir, name)));
                None
            }
            Effect::Rename { dir, .. } => {
                let path = self.open_dirs.path(rank, dir, name);
                let moved = self.made_directories.contains(&hash(&path));
                moved.then(|| {
                    let path = String::from_utf8_lossy(&path);
                    format!("renames the directory '{path}', whose contents are not tracked")
                })
            }
            Effect::Open { dir, flags, .. } => {
                self.refuse_open(self.open_dirs.path(rank, dir, name), flags, rank)
            }
            Effect::None
            | Effect::Lookup { .. }
            | Effect::MakeLink { .. }
            | Effect::Close { .. }
            | Effect::Write { .. }
            | Effect::Advance { .. }
            | Effect::Resize { .. }
            | Effect::Link { .. }
            | Effect::Remove { .. }
            | Effect::RemoveTree { .. }
            | Effect::Sync(_)
            | Effect::Untracked(_) => None,
        }
    }

    fn refuse_open(&mut self, path: Path, flags: OpenFlags, rank: u32) -> Option<String> {
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
                    "has two threads that write to '{path}', and the order in which their writes \
                         returned does not show which write is the last"
                )
            }),
        }
    }
}

/// The open directories of all threads, by slot.
#[derive(Default)]
struct OpenDirs(HashMap<(u32, u16), Path>);

impl OpenDirs {
    /// Returns the path of a name in a directory; an unknown directory is treated as the root.
    fn path(&self, thread: u32, dir: DirSlot, name: &[u8]) -> Path {
        match (dir, self.0.get(&(thread, dir.0))) {
            (DirSlot::ROOT, _) | (_, None) => name.to_vec(),
            (_, Some(dir)) if name == b"." => dir.clone(),
            (_, Some(dir)) => [dir.as_slice(), b"/", name].concat(),
        }
    }

    fn open(&mut self, thread: u32, slot: DirSlot, path: Path) {
        self.0.insert((thread, slot.0), path);
    }

    fn close(&mut self, thread: u32, slot: DirSlot) {
        self.0.remove(&(thread, slot.0));
    }
}

fn hash(path: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use fsdyno_workload::{Call, Setting, workloads};

    use super::*;

    fn refusal_of(name: &str, set: &[(&str, &str)], threads: u32) -> Option<String> {
        let kind = workloads::find(name).unwrap();
        let work = kind.build(&kind.resolve(set).unwrap(), &Setting::seed(5)).unwrap();
        refusal(work.as_ref(), threads)
    }

    #[test]
    fn replayable_workloads_pass_and_others_are_refused_with_their_phase() {
        for (name, set, threads) in [
            ("dirops", &[("files", "50")][..], 4),
            ("fdtree", &[("levels", "2"), ("dirs", "2"), ("files", "3")], 2),
            ("postmark", &[("number", "50"), ("transactions", "100")], 3),
            ("churn", &[("files", "60"), ("ops", "300")], 3),
            ("maildir", &[("deliverers", "4"), ("ops", "40"), ("protocol", "fsbench")], 1),
            ("tarball", &[("files", "40")], 1),
        ] {
            assert_eq!(refusal_of(name, set, threads), None, "{name}");
        }
        assert!(refusal_of("capacity", &[], 1).unwrap().contains("until its file system is full"));
        let tree = refusal_of("source-tree", &[], 1).unwrap();
        assert!(tree.contains("phase ") && tree.contains("only the file system knows"), "{tree}");
    }

    fn op(call: Call, name: &str, other: &str) -> Op {
        let mut op = Op { call, ..Op::default() };
        op.name.push(name.as_bytes());
        op.second_name.push(other.as_bytes());
        op
    }

    #[test]
    fn a_directory_that_is_renamed_and_a_file_that_two_threads_write_are_refused() {
        let root = fsdyno_workload::DirSlot::ROOT;
        let mut check = ReplayCheck::default();
        let mkdir = op(Call::Mkdir { dir: root, mode: 0o755 }, "a", "");
        let file = fsdyno_workload::FileSlot(1);
        let write = OpenFlags { write: true, ..OpenFlags::NONE };
        let create = op(Call::Create { dir: root, file, flags: write, mode: 0o644 }, "a/f", "");
        let read = op(Call::Open { dir: root, file, flags: OpenFlags::NONE }, "a/f", "");
        for (op, rank) in [(&mkdir, 0), (&create, 0), (&create, 0), (&read, 1)] {
            assert_eq!(check.refuse(op, rank), None);
        }
        let two = check.refuse(&create, 1).unwrap();
        assert!(two.contains("two threads that write to 'a/f'"), "{two}");
        let rename = Call::Rename { dir: root, to: root };
        assert_eq!(check.refuse(&op(rename, "a/f", "a/g"), 0), None);
        let moved = check.refuse(&op(rename, "a", "b"), 0).unwrap();
        assert!(moved.contains("renames the directory 'a'"), "{moved}");
    }
}
