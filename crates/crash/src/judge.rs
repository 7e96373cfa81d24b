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
    /// Violations: names whose acknowledged state is lost, or that were never created.
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

    fn add_example(&mut self, path: &[u8], description: &str) {
        if self.examples.len() < EXAMPLES {
            self.examples.push(format!("{}: {description}", String::from_utf8_lossy(path)));
        }
    }

    fn extend_loss(&mut self, cut: Nanos, start: Option<Nanos>) {
        let lost = start.map_or(Nanos(0), |start| cut.since(start));
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
pub fn judge(tree: &Tree, recovered: &RecoveredTree, contents: &Contents, cut: Nanos) -> Findings {
    let mut findings = Findings::default();
    if let Some(reason) = &recovered.recovery.lost {
        findings.add_example(b"/", &format!("the file system could not be mounted: {reason}"));
    }
    let entries: BTreeMap<&[u8], &Entry> =
        recovered.entries.iter().map(|entry| (entry.path.as_slice(), entry)).collect();
    let found_names = tree.nodes.iter().map(|node| vec![false; node.held.len()]).collect();
    let mut oracle = Oracle { tree, entries, contents, cut, found_names, findings };
    for (path, history) in &tree.names {
        oracle.judge_name(path, history);
    }
    for entry in &recovered.entries {
        if !tree.names.contains_key(&entry.path) {
            oracle.findings.acknowledged_names += 1;
            let description = "exists, although it was durably removed or never created";
            oracle.findings.add_example(&entry.path, description);
        }
    }
    for id in 0..tree.nodes.len() {
        let are_names_kept = oracle.judge_durable_names(id);
        oracle.judge_reachability(id, are_names_kept);
    }
    oracle.count_doubled_names();
    oracle.findings
}

/// A recovered file system and the expected tree.
struct Oracle<'a> {
    tree: &'a Tree,
    entries: BTreeMap<&'a [u8], &'a Entry>,
    contents: &'a Contents,
    cut: Nanos,
    /// For each name of each node, whether the node was found by that name.
    found_names: Vec<Vec<bool>>,
    findings: Findings,
}

impl Oracle<'_> {
    /// Judges an entry by the history of its name.
    fn judge_name(&mut self, path: &Path, history: &[Binding]) {
        let current = history.iter().rfind(|binding| !binding.in_flight);
        let Some(entry) = self.entries.get(path.as_slice()).copied() else {
            self.count_absent_name(history);
            return;
        };
        let mut closest: Option<(Fit, Id)> = None;
        for binding in history.iter().rev() {
            let Some((id, fit)) =
                binding.node.and_then(|id| Some((id, self.match_entry(id, entry)?)))
            else {
                continue;
            };
            self.found_names[id][binding.held] |= fit < Fit::Broken;
            if closest.is_none_or(|(known, _)| fit < known) {
                closest = Some((fit, id));
            }
        }
        let Some((fit, id)) = closest else {
            self.findings.acknowledged_names += 1;
            self.findings.add_example(path, "exists, but no entry of its type is allowed there");
            return;
        };
        for binding in history.iter().filter(|binding| binding.node == Some(id)) {
            self.found_names[id][binding.held] = true;
        }
        // A file that an op in flight creates or renames is no removed one that exists again.
        let is_new = history.iter().any(|binding| binding.in_flight && binding.node == Some(id));
        if let Some(current) = current.filter(|current| current.node.is_none() && !is_new) {
            self.findings.names_back += 1;
            self.findings.extend_loss(self.cut, Some(current.at));
        }
        let since = self.tree.nodes[id].file.as_ref().and_then(|file| file.since);
        match fit {
            Fit::Exact => return,
            Fit::Short => self.findings.files_lost += 1,
            Fit::Empty => self.findings.files_empty += 1,
            Fit::Stale => self.findings.files_stale += 1,
            Fit::Broken => {
                self.findings.acknowledged_lost += 1;
                let description =
                    format!("{} bytes; acknowledged ones are missing or changed", entry.size);
                self.findings.add_example(path, &description);
                return;
            }
        }
        self.findings.extend_loss(self.cut, since);
    }

    /// Counts the loss of a name that was not found.
    fn count_absent_name(&mut self, history: &[Binding]) {
        let Some(current) = history.iter().rfind(|binding| !binding.in_flight) else { return };
        let Some(lost) = current.node.and_then(|id| self.tree.nodes.get(id)) else { return };
        if history.iter().any(|binding| binding.node.is_none()) {
            // Its state since it was created, or since it got this name, did not survive.
            self.findings.extend_loss(self.cut, Some(current.at));
            self.findings.files_lost += u64::from(lost.file.is_some() && !lost.is_guaranteed());
        }
    }

    /// Returns how well an entry matches a node; `None` if it is of another type.
    fn match_entry(&self, id: Id, entry: &Entry) -> Option<Fit> {
        let node = self.tree.nodes.get(id)?;
        match (&node.file, entry.kind) {
            (Some(file), Kind::File) => Some(self.match_file(id, file, entry)),
            (None, Kind::Directory) => node.directory.then_some(Fit::Exact),
            (None, Kind::Other) => (!node.directory).then_some(Fit::Exact),
            // The type of an entry that cannot be read is unknown.
            (Some(file), Kind::Other) if entry.error != 0 => Some(self.match_file(id, file, entry)),
            _ => None,
        }
    }

    fn match_file(&self, id: Id, file: &File, entry: &Entry) -> Fit {
        let empty = Content::default();
        match_content(self.tree.content(id).unwrap_or(&empty), file, entry, self.contents)
    }

    /// Returns true if a parent directory of a name is absent and may be absent.
    fn is_unreachable(&self, path: &[u8]) -> bool {
        let parents =
            (0..path.len()).filter(|offset| path[*offset] == b'/').map(|offset| &path[..offset]);
        parents
            .into_iter()
            .any(|parent| !self.entries.contains_key(parent) && self.tree.may_lack(parent))
    }

    /// Judges the durable names of a node: each name, or a successor of it, must be found. Returns true if all
    /// of them are.
    fn judge_durable_names(&mut self, id: Id) -> bool {
        let node = &self.tree.nodes[id];
        let mut are_kept = true;
        for name_index in (0..node.held.len()).filter(|name_index| node.held[*name_index].durable) {
            let (successors, may_end) = self.successors(id, name_index);
            // A later durable name replaces all before it.
            let is_durable =
                |(id, name_index): &(Id, usize)| self.tree.nodes[*id].held[*name_index].durable;
            if successors[1..].iter().any(is_durable) || self.is_kept(&successors, may_end) {
                continue;
            }
            are_kept = false;
            self.findings.acknowledged_names += 1;
            let mut description = "is missing, although its name was durable".to_string();
            let last = successors
                .last()
                .map(|(id, name_index)| &self.tree.nodes[*id].held[*name_index].path);
            if let Some(last) = last.filter(|last| **last != node.held[name_index].path) {
                let last = String::from_utf8_lossy(last);
                description += &format!(", and so is {last}, to which it was renamed");
            }
            self.findings.add_example(
                &node.held[name_index].path,
                &(description + &self.older_name_phrase(id)),
            );
        }
        are_kept
    }

    /// Returns a durable name of a node and everything that may replace it after a power cut, in order: later names of
    /// the node, or the nodes that replaced it; and whether the last of these may be gone.
    fn successors(&self, id: Id, name_index: usize) -> (Vec<(Id, usize)>, bool) {
        let mut successors = Vec::new();
        let (mut id, mut name_index) = (id, name_index);
        let mut acknowledged = true;
        loop {
            successors.push((id, name_index));
            match self.tree.nodes[id].held[name_index].end {
                None => return (successors, false),
                Some(End::Renamed(next)) if acknowledged => name_index = next,
                Some(End::Replaced(node, name)) => {
                    acknowledged = self.tree.nodes[node].is_acknowledged(name);
                    (id, name_index) = (node, name);
                }
                Some(End::Renamed(_) | End::Removed) => return (successors, true),
            }
        }
    }

    /// Returns true if a name or a successor of it is found. Each is gone only after the next one was created, so none
    /// before the one that was found may still refer to an older node.
    fn is_kept(&self, successors: &[(Id, usize)], may_end: bool) -> bool {
        for (id, name_index) in successors {
            if self.is_found(*id, *name_index) {
                return true;
            }
            if !self.is_gone(*id, *name_index) {
                return false;
            }
        }
        may_end
    }

    /// Returns true if a removed name no longer refers to its old node.
    fn is_gone(&self, id: Id, name_index: usize) -> bool {
        let path = &self.tree.nodes[id].held[name_index].path;
        let Some(history) = self.tree.names.get(path) else { return true };
        let ended = history
            .iter()
            .position(|binding| (binding.node, binding.held) == (Some(id), name_index));
        let later = &history[ended.map_or(0, |ended| ended + 1)..];
        let is_found =
            |binding: &Binding| binding.node.is_some_and(|id| self.found_names[id][binding.held]);
        !self.entries.contains_key(path.as_slice()) || later.iter().any(is_found)
    }

    /// Requires that an acknowledged file that always had a name is found by a name no older than its last durable
    /// one. `are_names_kept` is true if all of its durable names, or their successors, were found.
    fn judge_reachability(&mut self, id: Id, are_names_kept: bool) {
        let node = &self.tree.nodes[id];
        let synced = node.file.as_ref().is_some_and(|file| file.synced.is_some());
        let Some(last) = node.held.last().filter(|_| synced && !node.droppable) else { return };
        let is_replaced = |name_index: usize| {
            node.renamed(name_index).skip(1).any(|later| node.held[later].durable)
        };
        if (0..node.held.len())
            .any(|name_index| !is_replaced(name_index) && self.is_found(id, name_index))
        {
            return;
        }
        let path = &last.path;
        if self.found_names[id].contains(&true) {
            if are_names_kept {
                self.findings.acknowledged_names += 1;
                let description = "is missing, and so is every name since the last durable one";
                self.findings
                    .add_example(path, &(description.to_string() + &self.older_name_phrase(id)));
            }
            return;
        }
        self.findings.names_lost += 1;
        if node.is_guaranteed() {
            self.findings.acknowledged_lost += 1;
            let description =
                "was acknowledged with its bytes, but none of its names refers to them";
            self.findings.add_example(path, description);
        } else {
            self.findings.add_example(
                path,
                "was synced, but none of its names exists (none was guaranteed)",
            );
        }
    }

    /// Returns true if a node was found by this name, or is unreachable because a parent directory may be absent.
    fn is_found(&self, id: Id, name_index: usize) -> bool {
        self.found_names[id][name_index]
            || self.is_unreachable(&self.tree.nodes[id].held[name_index].path)
    }

    /// Returns the older name by which a node was found, as a phrase.
    fn older_name_phrase(&self, id: Id) -> String {
        let found = self.found_names[id].iter().position(|is_found| *is_found);
        found.map_or(String::new(), |name_index| {
            let path = String::from_utf8_lossy(&self.tree.nodes[id].held[name_index].path);
            format!("; it exists as {path}, an older name")
        })
    }

    /// Counts files under both names of a rename.
    fn count_doubled_names(&mut self) {
        for (path, history) in &self.tree.names {
            let Some(entry) = self.entries.get(path.as_slice()) else { continue };
            let last = history.iter().rev().find_map(|binding| Some((binding.node?, binding.held)));
            let Some((id, held)) = last else { continue };
            let node = &self.tree.nodes[id];
            if !matches!(node.held[held].end, Some(End::Renamed(_))) {
                continue;
            }
            let other_names = node.held.iter().filter(|name| name.path != *path);
            let mut other_entries =
                other_names.filter_map(|name| self.entries.get(name.path.as_slice()));
            if entry.error == 0
                && other_entries.any(|other| other.error == 0 && other.inode == entry.inode)
            {
                self.findings.names_doubled += 1;
                self.findings.add_example(path, "was renamed, and both of its names exist");
            }
        }
    }
}

/// Returns how well an entry matches a file with this content.
fn match_content(current: &Content, file: &File, entry: &Entry, contents: &Contents) -> Fit {
    if entry.error != 0 {
        return if file.synced.is_some() { Fit::Broken } else { Fit::Stale };
    }
    let versions: Vec<&Content> = [Some(current), file.synced.as_ref(), file.in_flight.as_ref()]
        .into_iter()
        .flatten()
        .collect();
    if let Some(synced) = &file.synced {
        let min_size = synced.size().min(file.shortest);
        let is_wrong_size = file.changed.is_empty() && entry.size != synced.size();
        if entry.size < min_size || is_wrong_size {
            return Fit::Broken;
        }
    }
    let mut is_stale = false;
    for (index, hash) in entry.hashes.iter().enumerate() {
        let from = index as u64 * SECTOR as u64;
        let to = (from + SECTOR as u64).min(entry.size);
        let has_hash = |content: &&Content| {
            content.size() > from && hash_of(content, from, to, contents) == *hash
        };
        if versions.iter().any(has_hash) {
            continue;
        }
        let is_changed = file.changed.iter().any(|(first, end)| *first < to && *end > from);
        if file.synced.as_ref().is_some_and(|synced| to <= synced.size()) && !is_changed {
            return Fit::Broken;
        }
        is_stale = true;
    }
    let has_size = |content: &&Content| content.size() == entry.size;
    match (is_stale, entry.size) {
        (true, _) => Fit::Stale,
        (false, 0) if current.size() > 0 && file.synced.is_none() => Fit::Empty,
        // Every sector is correct and the size is that of a version, or the state of the file predates the last op.
        (false, size) if size < current.size() => Fit::Short,
        (false, _) if versions.iter().any(has_size) => Fit::Exact,
        (false, _) => Fit::Stale,
    }
}

/// Returns the hash of a range of contents; holes and bytes past the end are zeros.
fn hash_of(content: &Content, from: u64, to: u64, contents: &Contents) -> u32 {
    let mut bytes = [0; SECTOR];
    let bytes = &mut bytes[..(to - from) as usize];
    let mut offset = from;
    while let Some(piece) = content.piece(offset).filter(|_| offset < to) {
        let length = u64::from(piece.length).min(to - offset);
        let slice = contents.slice(Payload { length: length as u32, ..piece });
        let start = (offset - from) as usize;
        bytes[start..start + slice.len()].copy_from_slice(slice);
        offset += length;
    }
    hash(bytes)
}

#[cfg(test)]
mod tests;
