//! What was found after a cut against what has to be there.

use std::collections::BTreeMap;

use fsdyno_record::Nanos;
use fsdyno_workload::{Contents, Payload};
use serde::{Deserialize, Serialize};

use crate::content::{Content, File};
use crate::found::{Entry, Found, Kind, SECTOR, hash};
use crate::tree::{Binding, End, Id, Path, Tree};

/// How many sentences are kept of each cut.
const EXAMPLES: usize = 8;

/// What a cut cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Findings {
    /// Files whose acknowledged bytes are gone or others: what must never be.
    pub acknowledged_lost: u64,
    /// Names whose acknowledged state is not there, or that nobody ever made: likewise.
    pub acknowledged_names: u64,
    /// Files that nothing acknowledged and that are not there, or shorter.
    pub files_lost: u64,
    /// Files that are there without any of their bytes.
    pub files_empty: u64,
    /// Files that hold zeros, or bytes that were never written there.
    pub files_stale: u64,
    /// Files that were synced and are found by none of the names they ever had.
    pub names_lost: u64,
    /// Files found under the name that they were renamed from and under the new one.
    pub names_doubled: u64,
    /// Names that were removed and are back; of removals, nothing acknowledged any.
    pub names_back: u64,
    /// How far back what was lost reaches: from the first op that did not last to the cut.
    pub lost_ns: Nanos,
    /// What was found, in sentences; the first few.
    pub examples: Vec<String>,
}

impl Findings {
    /// What must never be.
    pub fn violations(&self) -> u64 {
        self.acknowledged_lost + self.acknowledged_names
    }

    fn say(&mut self, path: &[u8], what: &str) {
        if self.examples.len() < EXAMPLES {
            self.examples.push(format!("{}: {what}", String::from_utf8_lossy(path)));
        }
    }

    fn since(&mut self, cut: Nanos, at: Option<Nanos>) {
        let lost = at.map_or(Nanos(0), |at| cut.since(at));
        self.lost_ns = self.lost_ns.max(lost);
    }
}

/// How what was found fits what a name may stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    /// It is as it was last.
    Exact,
    /// All that was acknowledged is there; of the rest something is missing.
    Short,
    /// Likewise, and it is empty.
    Empty,
    /// Likewise, and there are bytes that nobody wrote there.
    Stale,
    /// Something acknowledged is not there.
    Broken,
}

/// Compares what was found after a cut at `cut` with the tree as it was done until then.
pub fn judge(tree: &Tree, found: &Found, contents: &Contents, cut: Nanos) -> Findings {
    let mut findings = Findings::default();
    if let Some(why) = &found.recovery.lost {
        findings.say(b"/", &format!("the file system could not be mounted: {why}"));
    }
    let entries: BTreeMap<&[u8], &Entry> =
        found.entries.iter().map(|entry| (entry.path.as_slice(), entry)).collect();
    let there = tree.nodes.iter().map(|node| vec![false; node.held.len()]).collect();
    let mut oracle = Oracle { tree, entries, contents, cut, there, findings };
    for (path, history) in &tree.names {
        oracle.name(path, history);
    }
    for entry in &found.entries {
        if !tree.names.contains_key(&entry.path) {
            oracle.findings.acknowledged_names += 1;
            let what = "is there, though it was removed for good or never made";
            oracle.findings.say(&entry.path, what);
        }
    }
    for id in 0..tree.nodes.len() {
        let named = oracle.names(id);
        oracle.bytes(id, named);
    }
    oracle.doubled();
    oracle.findings
}

/// A recovered file system and the tree that it is compared with.
struct Oracle<'a> {
    tree: &'a Tree,
    entries: BTreeMap<&'a [u8], &'a Entry>,
    contents: &'a Contents,
    cut: Nanos,
    /// Of each node by which of its names it was found.
    there: Vec<Vec<bool>>,
    findings: Findings,
}

impl Oracle<'_> {
    /// One name: what it stands for is a part of its history.
    fn name(&mut self, path: &Path, history: &[Binding]) {
        let now = history.iter().rfind(|binding| !binding.maybe);
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
            self.there[id][binding.held] |= fit < Fit::Broken;
            if best.is_none_or(|(known, _)| fit < known) {
                best = Some((fit, id));
            }
        }
        let Some((fit, id)) = best else {
            self.findings.acknowledged_names += 1;
            self.findings.say(path, "is there, though nothing of its kind may be");
            return;
        };
        for binding in history.iter().filter(|binding| binding.node == Some(id)) {
            self.there[id][binding.held] = true;
        }
        if let Some(now) = now.filter(|now| now.node.is_none()) {
            self.findings.names_back += 1;
            self.findings.since(self.cut, Some(now.at));
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
                    format!("{} bytes, of which acknowledged ones are gone or others", entry.size);
                self.findings.say(path, &what);
                return;
            }
        }
        self.findings.since(self.cut, since);
    }

    /// What a name that was not found cost.
    fn absent(&mut self, history: &[Binding]) {
        let Some(now) = history.iter().rfind(|binding| !binding.maybe) else { return };
        let Some(lost) = now.node.and_then(|id| self.tree.nodes.get(id)) else { return };
        if history.iter().any(|binding| binding.node.is_none()) {
            // What it had since it was made, or since it got this name, did not last.
            self.findings.since(self.cut, Some(now.at));
            self.findings.files_lost += u64::from(lost.file.is_some() && !lost.promised());
        }
    }

    /// How what was found fits a node; none where it is of another kind.
    fn fit(&self, id: Id, entry: &Entry) -> Option<Fit> {
        let node = self.tree.nodes.get(id)?;
        match (&node.file, entry.kind) {
            (Some(file), Kind::File) => Some(fits(file, entry, self.contents)),
            (None, Kind::Directory) => node.directory.then_some(Fit::Exact),
            (None, Kind::Other) => (!node.directory).then_some(Fit::Exact),
            // What cannot be looked at shows no kind.
            (Some(file), Kind::Other) if entry.error != 0 => Some(fits(file, entry, self.contents)),
            _ => None,
        }
    }

    /// Whether a directory on the way to a name is absent, and may be.
    fn unreachable(&self, path: &[u8]) -> bool {
        let parents = (0..path.len()).filter(|at| path[*at] == b'/').map(|at| &path[..at]);
        parents
            .into_iter()
            .any(|parent| !self.entries.contains_key(parent) && self.tree.may_lack(parent))
    }

    /// The durable names of a node: each has to be there, or what took its place. Whether they are.
    fn names(&mut self, id: Id) -> bool {
        let node = &self.tree.nodes[id];
        let mut all = true;
        for at in (0..node.held.len()).filter(|at| node.held[*at].durable) {
            let Some(successors) = self.successors(id, at) else { continue };
            // A later name that is durable too stands for all before it.
            let is_durable = |(id, at): &(Id, usize)| self.tree.nodes[*id].held[*at].durable;
            if successors[1..].iter().any(is_durable)
                || successors.iter().any(|(id, at)| self.finds(*id, *at))
            {
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
            self.findings.say(&node.held[at].path, &(what + &self.elsewhere(id)));
        }
        all
    }

    /// A durable name of a node, and all that may stand in its place after a power cut: the node by the names that
    /// renames gave it, or the nodes that replaced it. None where the last of them may be gone, and is.
    fn successors(&self, id: Id, at: usize) -> Option<Vec<(Id, usize)>> {
        let mut all = vec![(id, at)];
        let mut acknowledged = true;
        loop {
            let (id, at) = *all.last()?;
            match self.tree.nodes[id].held[at].end {
                None => return Some(all),
                Some(End::Renamed(next)) if acknowledged => all.push((id, next)),
                Some(End::Replaced(other, its)) => {
                    acknowledged = self.tree.nodes[other].is_acknowledged(its);
                    all.push((other, its));
                }
                Some(End::Renamed(_) | End::Removed) => {
                    return (!self.is_gone(id, at)).then_some(all);
                }
            }
        }
    }

    /// Whether a name that was taken away from a node is no more what it was before that.
    fn is_gone(&self, id: Id, at: usize) -> bool {
        let path = &self.tree.nodes[id].held[at].path;
        let Some(history) = self.tree.names.get(path) else { return true };
        let ended = history.iter().position(|it| (it.node, it.held) == (Some(id), at));
        let later = &history[ended.map_or(0, |ended| ended + 1)..];
        let is_there = |it: &Binding| it.node.is_some_and(|id| self.there[id][it.held]);
        !self.entries.contains_key(path.as_slice()) || later.iter().any(is_there)
    }

    /// A file that was acknowledged and never without a name has to be found by one that is not older than its last
    /// durable one. `named` says that all of its durable names are there, or what took their place.
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
        if self.there[id].contains(&true) {
            if named {
                self.findings.acknowledged_names += 1;
                let what = "is not there, nor is any name since the last durable one";
                self.findings.say(path, &(what.to_string() + &self.elsewhere(id)));
            }
            return;
        }
        self.findings.names_lost += 1;
        if node.promised() {
            self.findings.acknowledged_lost += 1;
            let what = "was acknowledged with its bytes, and none of its names leads to them";
            self.findings.say(path, what);
        } else {
            self.findings.say(path, "was synced, and none of its names is there (none had to be)");
        }
    }

    /// Whether a node was found by this name, or cannot be because a directory on the way is absent, and may be.
    fn finds(&self, id: Id, at: usize) -> bool {
        self.there[id][at] || self.unreachable(&self.tree.nodes[id].held[at].path)
    }

    /// By which name a node was found, in words.
    fn elsewhere(&self, id: Id) -> String {
        let found = self.there[id].iter().position(|there| *there);
        found.map_or(String::new(), |at| {
            let path = String::from_utf8_lossy(&self.tree.nodes[id].held[at].path);
            format!("; it is there as {path}, an older name")
        })
    }

    /// Files under both names of a rename.
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
                self.findings.say(path, "was renamed, and both its names are there");
            }
        }
    }
}

/// How a file that was found fits one that may be there.
fn fits(file: &File, entry: &Entry, contents: &Contents) -> Fit {
    if entry.error != 0 {
        return if file.synced.is_some() { Fit::Broken } else { Fit::Stale };
    }
    let versions: Vec<&Content> = [Some(&file.now), file.synced.as_ref(), file.maybe.as_ref()]
        .into_iter()
        .flatten()
        .collect();
    if let Some(synced) = &file.synced {
        let least = synced.size.min(file.shortest);
        let exactly = file.changed.is_empty() && entry.size != synced.size;
        if entry.size < least || exactly {
            return Fit::Broken;
        }
    }
    let mut stale = false;
    for (index, found) in entry.hashes.iter().enumerate() {
        let from = index as u64 * SECTOR as u64;
        let to = (from + SECTOR as u64).min(entry.size);
        let right = |content: &&Content| {
            content.size > from && hash_of(content, from, to, contents) == *found
        };
        if versions.iter().any(right) {
            continue;
        }
        let touched = file.changed.iter().any(|(first, end)| *first < to && *end > from);
        if file.synced.as_ref().is_some_and(|synced| to <= synced.size) && !touched {
            return Fit::Broken;
        }
        stale = true;
    }
    let exact = |content: &&Content| content.size == entry.size;
    match (stale, entry.size) {
        (true, _) => Fit::Stale,
        (false, 0) if file.now.size > 0 && file.synced.is_none() => Fit::Empty,
        // Right in each sector and as long as one of them; or older than what came back.
        (false, size) if size < file.now.size => Fit::Short,
        (false, _) if versions.iter().any(exact) => Fit::Exact,
        (false, _) => Fit::Stale,
    }
}

/// The hash of a part of a content; holes and what lies beyond its end are zeros.
fn hash_of(content: &Content, from: u64, to: u64, contents: &Contents) -> u32 {
    let mut bytes = [0; SECTOR];
    let bytes = &mut bytes[..(to - from) as usize];
    let first = content.pieces.range(..=from).next_back().map_or(from, |(at, _)| *at);
    for (at, piece) in content.pieces.range(first..to) {
        let end = (at + u64::from(piece.length)).min(to).min(content.size);
        let start = (*at).max(from);
        if start >= end {
            continue;
        }
        let skip = start - at;
        let part =
            Payload { offset: piece.offset + skip, length: (end - start) as u32, id: piece.id };
        let slice = contents.slice(part);
        let place = (start - from) as usize;
        let length = slice.len().min((end - start) as usize);
        bytes[place..place + length].copy_from_slice(&slice[..length]);
    }
    hash(bytes)
}

#[cfg(test)]
mod tests;
