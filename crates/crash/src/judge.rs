//! What was found after a cut against what has to be there.

use std::collections::BTreeMap;

use fsdyno_record::Nanos;
use fsdyno_workload::{Contents, Payload};
use serde::{Deserialize, Serialize};

use crate::found::{Entry, Found, Kind, SECTOR, hash};
use crate::tree::{Binding, Content, File, Id, Path, Tree};

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
    let mut there = vec![false; tree.nodes.len()];
    for (path, history) in &tree.names {
        let entry = entries.get(path.as_slice()).copied();
        name(tree, path, history, entry, contents, cut, &mut there, &mut findings);
    }
    for entry in &found.entries {
        if !tree.names.contains_key(&entry.path) {
            findings.acknowledged_names += 1;
            findings.say(&entry.path, "is there, though it was removed for good or never made");
        }
    }
    nodes(tree, &there, &mut findings);
    doubled(tree, &entries, &mut findings);
    findings
}

/// One name.
#[allow(clippy::too_many_arguments, reason = "what is known, and what is found out")]
fn name(
    tree: &Tree,
    path: &Path,
    history: &[Binding],
    entry: Option<&Entry>,
    contents: &Contents,
    cut: Nanos,
    there: &mut [bool],
    findings: &mut Findings,
) {
    let now = history.iter().rfind(|binding| !binding.maybe);
    let node = |binding: &Binding| Some((binding.node?, tree.nodes.get(binding.node?)?));
    let Some(entry) = entry else {
        if history.iter().all(|binding| binding.node.is_some()) {
            findings.acknowledged_names += 1;
            findings.say(path, "is not there, though its name was durable");
        } else if let Some((_, lost)) = now.and_then(node) {
            // What it had since it was made, or since it got this name, did not last.
            findings.since(cut, now.map(|now| now.at));
            if lost.file.is_some() && !lost.promised {
                findings.files_lost += 1;
            }
        }
        return;
    };
    let mut best: Option<(Fit, Id, Nanos)> = None;
    for binding in history.iter().rev() {
        let Some((id, node)) = node(binding) else { continue };
        let fit = match (&node.file, entry.kind) {
            (Some(file), Kind::File) => fits(file, entry, contents),
            (None, Kind::Directory) if node.directory => Fit::Exact,
            (None, Kind::Other) if !node.directory => Fit::Exact,
            // What cannot be looked at shows no kind.
            (Some(file), Kind::Other) if entry.error != 0 => fits(file, entry, contents),
            _ => continue,
        };
        if best.is_none_or(|(known, ..)| fit < known) {
            best = Some((fit, id, binding.at));
        }
    }
    let Some((fit, id, _)) = best else {
        findings.acknowledged_names += 1;
        findings.say(path, "is there, though nothing of its kind may be");
        return;
    };
    there[id] = true;
    if let Some(now) = now.filter(|now| now.node.is_none()) {
        findings.names_back += 1;
        findings.since(cut, Some(now.at));
    }
    let since = tree.nodes[id].file.as_ref().and_then(|file| file.since);
    match fit {
        Fit::Exact => return,
        Fit::Short => findings.files_lost += 1,
        Fit::Empty => findings.files_empty += 1,
        Fit::Stale => findings.files_stale += 1,
        Fit::Broken => {
            findings.acknowledged_lost += 1;
            let what =
                format!("{} bytes, of which acknowledged ones are gone or others", entry.size);
            findings.say(path, &what);
            return;
        }
    }
    findings.since(cut, since);
}

/// Files that were synced have to be found by one of their names.
fn nodes(tree: &Tree, there: &[bool], findings: &mut Findings) {
    for (node, there) in tree.nodes.iter().zip(there) {
        let Some(file) = node.file.as_ref().filter(|_| !*there && !node.droppable) else {
            continue;
        };
        if file.synced.is_none() {
            continue;
        }
        let Some(path) = node.paths.iter().rfind(|path| tree.names.contains_key(*path)) else {
            continue;
        };
        findings.names_lost += 1;
        if node.promised {
            // A name that had to be there was told already.
            findings.acknowledged_lost += 1;
            findings
                .say(path, "was acknowledged with its bytes, and none of its names leads to them");
        } else {
            findings.say(path, "was synced, and none of its names is there (none had to be)");
        }
    }
}

/// Files under both names of a rename.
fn doubled(tree: &Tree, entries: &BTreeMap<&[u8], &Entry>, findings: &mut Findings) {
    for (path, history) in &tree.names {
        let Some(entry) = entries.get(path.as_slice()) else { continue };
        for (at, binding) in history.iter().enumerate() {
            let Some(id) = at.checked_sub(1).and_then(|at| history[at].node) else { continue };
            if !binding.moved || history[at + 1..].iter().any(|later| later.node.is_some()) {
                continue;
            }
            let other = tree.nodes[id].paths.iter().filter(|other| *other != path);
            let mut other = other.filter_map(|other| entries.get(other.as_slice()));
            let same = |other: &&Entry| other.error == 0 && other.inode == entry.inode;
            if entry.error == 0 && other.any(same) {
                findings.names_doubled += 1;
                findings.say(path, "was renamed, and both its names are there");
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
