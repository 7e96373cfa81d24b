//! The oracle: judges a recovered file system by its durability guarantee.

use std::collections::BTreeMap;

use fsdyno_record::Nanos;
use fsdyno_workload::memory_fs::Content;
use fsdyno_workload::{Contents, Payload};
use serde::{Deserialize, Serialize};

use crate::content::File;
use crate::recovered::{Entry, Kind, RecoveredTree, SECTOR, hash};
use crate::tree::{Binding, End, Id, Path, Tree};

/// Maximum number of example sentences kept per cut.
const EXAMPLES: usize = 8;

/// The losses found after one cut.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Findings {
    /// Violations: files with acknowledged bytes lost or changed.
    pub acknowledged_lost: u64,
    /// Violations: names whose acknowledged state is lost, or that were never made.
    pub acknowledged_names: u64,
    /// Unacknowledged files that are absent or too short.
    pub files_lost: u64,
    /// Files without any of their bytes.
    pub files_empty: u64,
    /// Files with zeros, or with bytes that were never written there.
    pub files_stale: u64,
    /// Synced files that cannot be reached by any of their names.
    pub names_lost: u64,
    /// Files under both names of a rename.
    pub names_doubled: u64,
    /// Removed names that exist again. Counts only unacknowledged removals.
    pub names_back: u64,
    /// Time from the first lost op to the cut.
    pub lost_ns: Nanos,
    /// The first few findings, as sentences.
    pub examples: Vec<String>,
}

impl Findings {
    /// Returns the number of violations.
    pub fn violations(&self) -> u64 {
        self.acknowledged_lost + self.acknowledged_names
    }

    fn add_example(&mut self, path: &[u8], what: &str) {
        if self.examples.len() < EXAMPLES {
            self.examples.push(format!("{}: {what}", String::from_utf8_lossy(path)));
        }
    }

    fn extend_loss(&mut self, cut: Nanos, at: Option<Nanos>) {
        let lost = at.map_or(Nanos(0), |at| cut.since(at));
        self.lost_ns = self.lost_ns.max(lost);
    }
}

/// The degree to which an entry matches a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    /// It matches the last state.
    Exact,
    /// All acknowledged bytes are present, but some later ones are missing.
    Short,
    /// Likewise, and the file is empty.
    Empty,
    /// Likewise, and it has bytes that were never written there.
    Stale,
    /// Acknowledged bytes are missing.
    Broken,
}

/// Compares the entries found after a cut at time `cut` with the tree after the ops done by then.
pub fn judge(tree: &Tree, found: &RecoveredTree, contents: &Contents, cut: Nanos) -> Findings {
    let mut findings = Findings::default();
    if let Some(why) = &found.recovery.lost {
        findings.add_example(b"/", &format!("the file system could not be mounted: {why}"));
    }
    let entries: BTreeMap<&[u8], &Entry> =
        found.entries.iter().map(|entry| (entry.path.as_slice(), entry)).collect();
    let seen = tree.nodes.iter().map(|node| vec![false; node.held.len()]).collect();
    let mut oracle = Oracle { tree, entries, contents, cut, seen, findings };
    for (path, history) in &tree.names {
        oracle.name(path, history);
    }
    for entry in &found.entries {
        if !tree.names.contains_key(&entry.path) {
            oracle.findings.acknowledged_names += 1;
            let what = "exists, although it was durably removed or never made";
            oracle.findings.add_example(&entry.path, what);
        }
    }
    for id in 0..tree.nodes.len() {
        let named = oracle.names(id);
        oracle.bytes(id, named);
    }
    oracle.doubled();
    oracle.findings
}

/// A recovered file system and the expected tree.
struct Oracle<'a> {
    tree: &'a Tree,
    entries: BTreeMap<&'a [u8], &'a Entry>,
    contents: &'a Contents,
    cut: Nanos,
    /// For each name of each node, whether the node was found by that name.
    seen: Vec<Vec<bool>>,
    findings: Findings,
}

impl Oracle<'_> {
    /// Judges an entry by the history of its name.
    fn name(&mut self, path: &Path, history: &[Binding]) {
        let now = history.iter().rfind(|binding| !binding.in_flight);
        let Some(entry) = self.entries.get(path.as_slice()).copied() else {
            self.absent(history);
            return;
        };
        let mut best: Option<(Fit, Id)> = None;
        for binding in history.iter().rev() {
            let Some((id, fit)) = binding.node.and_then(|id| Some((id, self.fit(id, entry)?)))
            else {
                continue;
            };
            self.seen[id][binding.held] |= fit < Fit::Broken;
            if best.is_none_or(|(known, _)| fit < known) {
                best = Some((fit, id));
            }
        }
        let Some((fit, id)) = best else {
            self.findings.acknowledged_names += 1;
            self.findings.add_example(path, "exists, but nothing of its type may be there");
            return;
        };
        for binding in history.iter().filter(|binding| binding.node == Some(id)) {
            self.seen[id][binding.held] = true;
        }
        if let Some(now) = now.filter(|now| now.node.is_none()) {
            self.findings.names_back += 1;
            self.findings.extend_loss(self.cut, Some(now.at));
        }
        let since = self.tree.nodes[id].file.as_ref().and_then(|file| file.since);
        match fit {
            Fit::Exact => return,
            Fit::Short => self.findings.files_lost += 1,
            Fit::Empty => self.findings.files_empty += 1,
            Fit::Stale => self.findings.files_stale += 1,
            Fit::Broken => {
                self.findings.acknowledged_lost += 1;
                let what =
                    format!("{} bytes; acknowledged ones are missing or changed", entry.size);
                self.findings.add_example(path, &what);
                return;
            }
        }
        self.findings.extend_loss(self.cut, since);
    }

    /// Counts the loss of a name that was not found.
    fn absent(&mut self, history: &[Binding]) {
        let Some(now) = history.iter().rfind(|binding| !binding.in_flight) else { return };
        let Some(lost) = now.node.and_then(|id| self.tree.nodes.get(id)) else { return };
        if history.iter().any(|binding| binding.node.is_none()) {
            // Its state since it was made, or since it got this name, did not survive.
            self.findings.extend_loss(self.cut, Some(now.at));
            self.findings.files_lost += u64::from(lost.file.is_some() && !lost.is_guaranteed());
        }
    }

    /// Returns how well an entry matches a node; `None` if it is of another type.
    fn fit(&self, id: Id, entry: &Entry) -> Option<Fit> {
        let node = self.tree.nodes.get(id)?;
        match (&node.file, entry.kind) {
            (Some(file), Kind::File) => Some(self.fits(id, file, entry)),
            (None, Kind::Directory) => node.directory.then_some(Fit::Exact),
            (None, Kind::Other) => (!node.directory).then_some(Fit::Exact),
            // The type of an entry that cannot be read is unknown.
            (Some(file), Kind::Other) if entry.error != 0 => Some(self.fits(id, file, entry)),
            _ => None,
        }
    }

    fn fits(&self, id: Id, file: &File, entry: &Entry) -> Fit {
        let empty = Content::default();
        fits(self.tree.content(id).unwrap_or(&empty), file, entry, self.contents)
    }

    /// Returns whether a parent directory of a name is absent, and is allowed to be.
    fn unreachable(&self, path: &[u8]) -> bool {
        let parents = (0..path.len()).filter(|at| path[*at] == b'/').map(|at| &path[..at]);
        parents
            .into_iter()
            .any(|parent| !self.entries.contains_key(parent) && self.tree.may_lack(parent))
    }

    /// Judges the durable names of a node: each name, or a successor of it, must be found. Returns whether all are.
    fn names(&mut self, id: Id) -> bool {
        let node = &self.tree.nodes[id];
        let mut all = true;
        for at in (0..node.held.len()).filter(|at| node.held[*at].durable) {
            let (successors, may_end) = self.successors(id, at);
            // A later durable name replaces all before it.
            let is_durable = |(id, at): &(Id, usize)| self.tree.nodes[*id].held[*at].durable;
            if successors[1..].iter().any(is_durable) || self.is_kept(&successors, may_end) {
                continue;
            }
            all = false;
            self.findings.acknowledged_names += 1;
            let mut what = "is not there, though its name was durable".to_string();
            let last = successors.last().map(|(id, at)| &self.tree.nodes[*id].held[*at].path);
            if let Some(last) = last.filter(|last| **last != node.held[at].path) {
                let last = String::from_utf8_lossy(last);
                what += &format!(", nor is {last}, to which it was renamed");
            }
            self.findings.add_example(&node.held[at].path, &(what + &self.elsewhere(id)));
        }
        all
    }

    /// Returns a durable name of a node and everything that may replace it after a power cut, in order: later names of
    /// the node, or the nodes that replaced it; and whether the last of these may be gone.
    fn successors(&self, id: Id, at: usize) -> (Vec<(Id, usize)>, bool) {
        let mut all = Vec::new();
        let (mut id, mut at) = (id, at);
        let mut acknowledged = true;
        loop {
            all.push((id, at));
            match self.tree.nodes[id].held[at].end {
                None => return (all, false),
                Some(End::Renamed(next)) if acknowledged => at = next,
                Some(End::Replaced(other, its)) => {
                    acknowledged = self.tree.nodes[other].is_acknowledged(its);
                    (id, at) = (other, its);
                }
                Some(End::Renamed(_) | End::Removed) => return (all, true),
            }
        }
    }

    /// Returns whether a name or a successor of it is found. Each is gone only after the next one was made, so none
    /// before the one that was found may still refer to an older node.
    fn is_kept(&self, successors: &[(Id, usize)], may_end: bool) -> bool {
        for (id, at) in successors {
            if self.finds(*id, *at) {
                return true;
            }
            if !self.is_gone(*id, *at) {
                return false;
            }
        }
        may_end
    }

    /// Returns whether a removed name no longer refers to its old node.
    fn is_gone(&self, id: Id, at: usize) -> bool {
        let path = &self.tree.nodes[id].held[at].path;
        let Some(history) = self.tree.names.get(path) else { return true };
        let ended = history.iter().position(|it| (it.node, it.held) == (Some(id), at));
        let later = &history[ended.map_or(0, |ended| ended + 1)..];
        let is_there = |it: &Binding| it.node.is_some_and(|id| self.seen[id][it.held]);
        !self.entries.contains_key(path.as_slice()) || later.iter().any(is_there)
    }

    /// Requires that an acknowledged file that always had a name is found by a name no older than its last durable
    /// one. `named` is true if all of its durable names, or their successors, were found.
    fn bytes(&mut self, id: Id, named: bool) {
        let node = &self.tree.nodes[id];
        let synced = node.file.as_ref().is_some_and(|file| file.synced.is_some());
        let Some(last) = node.held.last().filter(|_| synced && !node.droppable) else { return };
        let is_replaced =
            |at: usize| node.renamed(at).skip(1).any(|later| node.held[later].durable);
        if (0..node.held.len()).any(|at| !is_replaced(at) && self.finds(id, at)) {
            return;
        }
        let path = &last.path;
        if self.seen[id].contains(&true) {
            if named {
                self.findings.acknowledged_names += 1;
                let what = "is not there, nor is any name since the last durable one";
                self.findings.add_example(path, &(what.to_string() + &self.elsewhere(id)));
            }
            return;
        }
        self.findings.names_lost += 1;
        if node.is_guaranteed() {
            self.findings.acknowledged_lost += 1;
            let what = "was acknowledged with its bytes, but none of its names leads to them";
            self.findings.add_example(path, what);
        } else {
            self.findings
                .add_example(path, "was synced, but none of its names is there (none had to be)");
        }
    }

    /// Returns whether a node was found by this name, or is unreachable because a parent directory may be absent.
    fn finds(&self, id: Id, at: usize) -> bool {
        self.seen[id][at] || self.unreachable(&self.tree.nodes[id].held[at].path)
    }

    /// Returns the older name by which a node was found, as a phrase.
    fn elsewhere(&self, id: Id) -> String {
        let found = self.seen[id].iter().position(|seen| *seen);
        found.map_or(String::new(), |at| {
            let path = String::from_utf8_lossy(&self.tree.nodes[id].held[at].path);
            format!("; it is there as {path}, an older name")
        })
    }

    /// Counts files under both names of a rename.
    fn doubled(&mut self) {
        for (path, history) in &self.tree.names {
            let Some(entry) = self.entries.get(path.as_slice()) else { continue };
            let last = history.iter().rev().find_map(|it| Some((it.node?, it.held)));
            let Some((id, held)) = last else { continue };
            let node = &self.tree.nodes[id];
            if !matches!(node.held[held].end, Some(End::Renamed(_))) {
                continue;
            }
            let others = node.held.iter().filter(|other| other.path != *path);
            let mut others = others.filter_map(|other| self.entries.get(other.path.as_slice()));
            if entry.error == 0 && others.any(|it| it.error == 0 && it.inode == entry.inode) {
                self.findings.names_doubled += 1;
                self.findings.add_example(path, "was renamed, and both its names are there");
            }
        }
    }
}

/// Returns how well an entry matches a file with this content.
fn fits(now: &Content, file: &File, entry: &Entry, contents: &Contents) -> Fit {
    if entry.error != 0 {
        return if file.synced.is_some() { Fit::Broken } else { Fit::Stale };
    }
    let versions: Vec<&Content> =
        [Some(now), file.synced.as_ref(), file.in_flight.as_ref()].into_iter().flatten().collect();
    if let Some(synced) = &file.synced {
        let min_size = synced.size().min(file.shortest);
        let exactly = file.changed.is_empty() && entry.size != synced.size();
        if entry.size < min_size || exactly {
            return Fit::Broken;
        }
    }
    let mut stale = false;
    for (index, found) in entry.hashes.iter().enumerate() {
        let from = index as u64 * SECTOR as u64;
        let to = (from + SECTOR as u64).min(entry.size);
        let right = |content: &&Content| {
            content.size() > from && hash_of(content, from, to, contents) == *found
        };
        if versions.iter().any(right) {
            continue;
        }
        let touched = file.changed.iter().any(|(first, end)| *first < to && *end > from);
        if file.synced.as_ref().is_some_and(|synced| to <= synced.size()) && !touched {
            return Fit::Broken;
        }
        stale = true;
    }
    let exact = |content: &&Content| content.size() == entry.size;
    match (stale, entry.size) {
        (true, _) => Fit::Stale,
        (false, 0) if now.size() > 0 && file.synced.is_none() => Fit::Empty,
        // Every sector is right and the size is that of a version, or the state of the file predates the last op.
        (false, size) if size < now.size() => Fit::Short,
        (false, _) if versions.iter().any(exact) => Fit::Exact,
        (false, _) => Fit::Stale,
    }
}

/// Returns the hash of a range of contents; holes and bytes past the end are zeros.
fn hash_of(content: &Content, from: u64, to: u64, contents: &Contents) -> u32 {
    let mut bytes = [0; SECTOR];
    let bytes = &mut bytes[..(to - from) as usize];
    let mut at = from;
    while let Some(piece) = content.piece(at).filter(|_| at < to) {
        let length = u64::from(piece.length).min(to - at);
        let slice = contents.slice(Payload { length: length as u32, ..piece });
        let start = (at - from) as usize;
        bytes[start..start + slice.len()].copy_from_slice(slice);
        at += length;
    }
    hash(bytes)
}

#[cfg(test)]
mod tests;
