//! The calls that GNU tar 1.34 makes as root to unpack an archive, computed by simulating the tree
//! member by member.
//!
//! According to strace [RUN]:
//!
//! - an entry below a missing parent fails with ENOENT; then all parents are created from the top down,
//!   which fails with EEXIST for those that exist; then the entry is tried again;
//! - an entry whose path exists fails with EEXIST; the existing entry is unlinked, and the new one is
//!   tried again. If both are directories, tar calls stat and keeps the existing one;
//! - a directory is created with only the owner's bits of its mode; its time, owner and mode are set at
//!   the first later member that is not below it;
//! - a symbolic link whose target is absolute or contains `..` is created after everything else, so that
//!   nothing can be unpacked through it: an empty file of mode 0 is its placeholder, and directories that
//!   contain a placeholder are finished only after the link;
//! - while there are placeholders, tar calls stat on the target of a hard link before and after the link.

use std::collections::HashMap;

use crate::op::Expect;
use crate::tar::archive::{Archive, ArchiveError, Fault, Member, MemberKind};

/// The mode of parents that are not members, and of the folder to unpack into.
pub const PARENT_MODE: u16 = 0o755;

/// A call, or, for a file, all its calls from open to close. Takes eight bytes, so that the script of an
/// archive of a million members takes some tens of megabytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TarCall {
    /// The member to which it belongs.
    pub member: u32,
    /// Length of the part of the member's path that the call uses, in bytes.
    pub length: u16,
    /// The kind of call.
    pub kind: CallKind,
    /// The required outcome.
    pub expect: Expect,
}

const _: () = assert!(size_of::<TarCall>() == 8 && size_of::<Node>() == 40);

/// A stat of the existing entry at a member's path.
const STAT: &[(CallKind, Expect)] = &[(CallKind::Stat, Expect::Success)];

/// The kind of a call; its arguments are those of the member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// openat(2) of a new file for writing, and all calls up to close(2).
    File,
    /// The openat(2) of [`CallKind::File`] alone, which fails.
    TryFile,
    /// mkdirat(2) of a parent.
    Parent,
    /// mkdirat(2) of a member.
    Mkdir,
    /// openat(2) of the empty file of mode 0 that is a link's placeholder.
    Placeholder,
    /// fstat(2) of the placeholder.
    StatPlaceholder,
    /// close(2) of the placeholder.
    ClosePlaceholder,
    /// symlinkat(2).
    Symlink,
    /// linkat(2).
    Link,
    /// fstatat(2) of a hard link's target.
    StatTarget,
    /// fstatat(2).
    Stat,
    /// unlinkat(2).
    Unlink,
    /// utimensat(2).
    Utimes,
    /// fchownat(2).
    Chown,
    /// fchmodat(2).
    Chmod,
}

/// A final or temporary entry of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// A member whose path begins with the path of this node.
    pub member: u32,
    /// Length of the part of the member's path that is the node's path, in bytes.
    pub length: u16,
    /// Its kind.
    pub kind: NodeKind,
    /// Its permission bits.
    pub mode: u16,
    /// True if a member determines its mode.
    pub has_mode: bool,
    /// Its modification time, if known.
    pub mtime: Option<i64>,
}

/// The kind of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    Directory,
    /// A name of the file of this member.
    File(u32),
    /// The symbolic link of this member.
    Symlink(u32),
    /// The placeholder of a symbolic link that is created at the end.
    Placeholder(u32),
}

/// The calls that unpack an archive, and the tree after them.
#[derive(Debug, Default)]
pub struct Script {
    /// The calls, in order.
    pub calls: Vec<TarCall>,
    /// The final nodes, in order of creation.
    pub nodes: Vec<Node>,
    /// Final number of names of each file with more than one name, by its first member.
    pub links: HashMap<u32, u32>,
}

/// A directory whose attributes are not set yet.
#[derive(Clone, Copy, Debug)]
struct Delayed {
    node: usize,
    /// The member with its mode and time, or `None` for a parent that is not a member.
    member: Option<u32>,
    /// True if it contains the placeholder of a link, after which it is finished.
    after_links: bool,
}

struct Writer<'a> {
    members: &'a [Member],
    script: Script,
    /// Node by path, for the current entries.
    by_path: HashMap<&'a [u8], usize>,
    /// For each node, true if it still exists.
    is_live: Vec<bool>,
    delayed: Vec<Delayed>,
    /// Index in `delayed` by node: an archive can contain all its directories twice.
    delayed_index: HashMap<usize, usize>,
    /// Links that are created at the end, as indices of members.
    placeholders: Vec<u32>,
}

/// Writes the script of an archive.
///
/// # Errors
/// A member that cannot be unpacked at its position.
pub fn write(archive: &Archive) -> Result<Script, ArchiveError> {
    let members = archive.members();
    let mut writer = Writer {
        members,
        script: Script::default(),
        by_path: HashMap::with_capacity(members.len() + 1),
        is_live: Vec::with_capacity(members.len() + 1),
        delayed: Vec::new(),
        delayed_index: HashMap::new(),
        placeholders: Vec::new(),
    };
    // The folder to unpack into exists from the start.
    writer.add(0, 0, NodeKind::Directory, PARENT_MODE);
    for (index, member) in members.iter().enumerate() {
        let error = |fault| ArchiveError::in_member(member, fault);
        let index = u32::try_from(index).map_err(|_| error(Fault::TooMany(u32::MAX)))?;
        writer.unpack_member(index).map_err(error)?;
    }
    Ok(writer.finish())
}

/// Returns the parent directory of a path.
fn parent(path: &[u8]) -> &[u8] {
    &path[..path.iter().rposition(|byte| *byte == b'/').unwrap_or(0)]
}

/// Returns true if a path is below a directory, at any depth.
fn is_below(path: &[u8], directory: &[u8]) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.first() == Some(&b'/'))
}

/// Returns true if a symbolic link may lead outside its folder, by GNU tar's rule.
fn leads_outside(target: &[u8]) -> bool {
    target.first() == Some(&b'/') || target.split(|byte| *byte == b'/').any(|part| part == b"..")
}

impl<'a> Writer<'a> {
    fn path_of(&self, member: u32) -> &'a [u8] {
        &self.members[member as usize].path
    }

    fn push_call(&mut self, member: u32, kind: CallKind, expect: Expect) {
        let length = self.path_of(member).len() as u16;
        self.script.calls.push(TarCall { member, length, kind, expect });
    }

    fn add_call(&mut self, member: u32, kind: CallKind) {
        self.push_call(member, kind, Expect::Success);
    }

    /// Adds a node at the first `length` bytes of a member's path.
    fn add(&mut self, member: u32, length: usize, kind: NodeKind, mode: u16) -> usize {
        let path = &self.path_of(member)[..length];
        let node = Node { member, length: length as u16, kind, mode, has_mode: false, mtime: None };
        self.script.nodes.push(node);
        self.is_live.push(true);
        let index = self.script.nodes.len() - 1;
        self.by_path.insert(path, index);
        if index > 0 {
            self.clear_mtime(path);
        }
        index
    }

    /// Clears the modification time of the directory in which a name was added or removed.
    fn clear_mtime(&mut self, path: &[u8]) {
        if let Some(index) = self.by_path.get(parent(path)) {
            self.script.nodes[*index].mtime = None;
        }
    }

    fn unlink(&mut self, member: u32) {
        let path = self.path_of(member);
        self.add_call(member, CallKind::Unlink);
        if let Some(index) = self.by_path.remove(path) {
            self.is_live[index] = false;
        }
        self.clear_mtime(path);
    }

    fn unpack_member(&mut self, index: u32) -> Result<(), Fault> {
        let member = &self.members[index as usize];
        self.finish_directories_outside(Some(&member.path));
        self.check_parents(&member.path)?;
        let existing = self.by_path.get(&*member.path).copied();
        let existing = existing.map(|index| self.script.nodes[index].kind);
        match (&member.kind, existing) {
            (_, Some(NodeKind::Placeholder(_))) => return Err(Fault::OverPlaceholder),
            (MemberKind::Directory, existing) => self.unpack_directory(index, existing),
            (_, Some(NodeKind::Directory)) => return Err(Fault::OverDirectory),
            (MemberKind::File { .. }, existing) => {
                self.fail_first(index, CallKind::TryFile, existing.is_some(), &[]);
                self.add_call(index, CallKind::File);
                let node =
                    self.add(index, member.path.len(), NodeKind::File(index), member.mode as u16);
                self.script.nodes[node].mtime = Some(member.mtime);
                self.script.nodes[node].has_mode = true;
            }
            (MemberKind::Symlink(target), existing) if leads_outside(target) => {
                self.create_placeholder(index, existing.is_some());
            }
            (MemberKind::Symlink(_), existing) => {
                self.fail_first(index, CallKind::Symlink, existing.is_some(), &[]);
                self.symlink_calls(index);
                self.add(index, member.path.len(), NodeKind::Symlink(index), 0o777);
            }
            (MemberKind::Link(target), existing) => self.unpack_link(index, target, existing)?,
        }
        Ok(())
    }

    /// Checks that everything above a path is a directory or missing.
    fn check_parents(&self, path: &[u8]) -> Result<(), Fault> {
        let mut ancestor = parent(path);
        while !ancestor.is_empty() {
            let ancestor_kind =
                match self.by_path.get(ancestor).map(|index| self.script.nodes[*index].kind) {
                    Some(NodeKind::Symlink(_) | NodeKind::Placeholder(_)) => "a symbolic link",
                    Some(NodeKind::File(_)) => "a file",
                    Some(NodeKind::Directory) => return Ok(()),
                    None => {
                        ancestor = parent(ancestor);
                        continue;
                    }
                };
            let parent = String::from_utf8_lossy(ancestor).into_owned();
            return Err(Fault::Below { parent, what: ancestor_kind });
        }
        Ok(())
    }

    /// Adds the first attempt if it fails, and the calls that let the second one succeed: parents, or an unlink.
    /// `stats` are the stat calls after the first attempt.
    fn fail_first(
        &mut self,
        index: u32,
        kind: CallKind,
        existing: bool,
        stats: &[(CallKind, Expect)],
    ) {
        let path = self.path_of(index);
        let missing = !self.by_path.contains_key(parent(path));
        if !missing && !existing {
            return;
        }
        self.push_call(index, kind, if missing { Expect::Missing } else { Expect::Exists });
        for (kind, expect) in stats {
            self.push_call(index, *kind, *expect);
        }
        if missing {
            self.create_parents(index);
        } else {
            self.unlink(index);
        }
    }

    fn create_parents(&mut self, member: u32) {
        let path = self.path_of(member);
        let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        for (length, _) in slashes {
            let existing = self.by_path.contains_key(&path[..length]);
            let expect = if existing { Expect::Exists } else { Expect::Success };
            self.script.calls.push(TarCall {
                member,
                length: length as u16,
                kind: CallKind::Parent,
                expect,
            });
            if !existing {
                let node = self.add(member, length, NodeKind::Directory, PARENT_MODE);
                self.delay(Delayed { node, member: None, after_links: false });
            }
        }
    }

    fn unpack_directory(&mut self, index: u32, existing: Option<NodeKind>) {
        if existing == Some(NodeKind::Directory) {
            return self.reuse_directory(index);
        }
        let stats = if existing.is_some() { STAT } else { &[] };
        self.fail_first(index, CallKind::Mkdir, existing.is_some(), stats);
        self.add_call(index, CallKind::Mkdir);
        let (path, mode) = (self.path_of(index), self.members[index as usize].mode);
        let node = self.add(index, path.len(), NodeKind::Directory, mode as u16 & 0o700);
        self.delay(Delayed { node, member: Some(index), after_links: false });
    }

    fn reuse_directory(&mut self, index: u32) {
        let path = self.path_of(index);
        self.push_call(index, CallKind::Mkdir, Expect::Exists);
        self.add_call(index, CallKind::Stat);
        let Some(node) = self.by_path.get(path).copied() else { return };
        match self.delayed_index.get(&node) {
            Some(delayed) => self.delayed[*delayed].member = Some(index),
            None => {
                // The folder itself gets one more stat and is finished last.
                let after_links = path.is_empty();
                if after_links {
                    self.add_call(index, CallKind::Stat);
                }
                self.delay(Delayed { node, member: Some(index), after_links });
            }
        }
    }

    fn symlink_calls(&mut self, index: u32) {
        for kind in [CallKind::Symlink, CallKind::Utimes, CallKind::Chown] {
            self.add_call(index, kind);
        }
    }

    fn create_placeholder(&mut self, index: u32, existing: bool) {
        self.fail_first(index, CallKind::Placeholder, existing, if existing { STAT } else { &[] });
        for kind in [CallKind::Placeholder, CallKind::StatPlaceholder, CallKind::ClosePlaceholder] {
            self.add_call(index, kind);
        }
        let path = self.path_of(index);
        self.add(index, path.len(), NodeKind::Placeholder(index), 0);
        self.placeholders.push(index);
        let Some(parent_node) = self.by_path.get(parent(path)).copied() else { return };
        if self.delayed.last().is_none_or(|last| last.node != parent_node) {
            return;
        }
        for index in (0..self.delayed.len()).rev() {
            if self.delayed[index].after_links {
                break;
            }
            self.delayed[index].after_links = true;
            self.stat_node(self.delayed[index].node);
        }
    }

    /// Adds the fstatat(2) of a node.
    fn stat_node(&mut self, node: usize) {
        let Node { member, length, .. } = self.script.nodes[node];
        let expect = Expect::Success;
        self.script.calls.push(TarCall { member, length, kind: CallKind::Stat, expect });
    }

    fn unpack_link(
        &mut self,
        index: u32,
        target: &[u8],
        existing: Option<NodeKind>,
    ) -> Result<(), Fault> {
        let path = self.path_of(index);
        if target == path {
            return Err(Fault::SelfLink);
        }
        let node = self.by_path.get(target).map(|index| self.script.nodes[*index]);
        let Some(Node { kind: NodeKind::File(file), mode, mtime, .. }) = node else {
            return Err(Fault::DeadLink(String::from_utf8_lossy(target).into_owned()));
        };
        let has_placeholders = !self.placeholders.is_empty();
        if has_placeholders {
            self.add_call(index, CallKind::StatTarget);
        }
        if existing == Some(NodeKind::File(file)) {
            self.push_call(index, CallKind::Link, Expect::Exists);
            self.add_call(index, CallKind::StatTarget);
            self.add_call(index, CallKind::Stat);
            return Ok(());
        }
        let expect = if existing.is_some() { Expect::Success } else { Expect::Missing };
        let stats = [(CallKind::StatTarget, Expect::Success), (CallKind::Stat, expect)];
        self.fail_first(index, CallKind::Link, existing.is_some(), &stats);
        self.add_call(index, CallKind::Link);
        if has_placeholders {
            self.add_call(index, CallKind::StatTarget);
        }
        let node = self.add(index, path.len(), NodeKind::File(file), mode);
        self.script.nodes[node].mtime = mtime;
        self.script.nodes[node].has_mode = true;
        Ok(())
    }

    /// Finishes the directories that do not contain the next path; all directories if there is no next path.
    fn finish_directories_outside(&mut self, next: Option<&[u8]>) {
        while let Some(last) = self.delayed.last().copied() {
            let Node { member, length, .. } = self.script.nodes[last.node];
            let path = &self.path_of(member)[..usize::from(length)];
            if last.after_links || next.is_some_and(|next| is_below(next, path)) {
                return;
            }
            self.set_attributes(last);
            self.delayed.pop();
            self.delayed_index.remove(&last.node);
        }
    }

    fn delay(&mut self, directory: Delayed) {
        self.delayed_index.insert(directory.node, self.delayed.len());
        self.delayed.push(directory);
    }

    /// Sets the time, owner and mode of a directory.
    fn set_attributes(&mut self, Delayed { node, member, .. }: Delayed) {
        let Some(index) = member else { return };
        let Member { mode, mtime, .. } = self.members[index as usize];
        self.add_call(index, CallKind::Utimes);
        self.add_call(index, CallKind::Chown);
        if self.script.nodes[node].mode != mode as u16 {
            self.add_call(index, CallKind::Chmod);
        }
        let node = &mut self.script.nodes[node];
        (node.mode, node.mtime, node.has_mode) = (mode as u16, Some(mtime), true);
    }

    /// Creates the links that lead outside, last one first, and finishes the directories that had to wait for them.
    fn finish(mut self) -> Script {
        self.finish_directories_outside(None);
        for index in std::mem::take(&mut self.placeholders).into_iter().rev() {
            self.add_call(index, CallKind::Stat);
            self.unlink(index);
            self.symlink_calls(index);
            self.add(index, self.path_of(index).len(), NodeKind::Symlink(index), 0o777);
        }
        while let Some(last) = self.delayed.pop() {
            if last.after_links {
                self.stat_node(last.node);
            }
            self.set_attributes(last);
        }
        self.count_links();
        let is_live = std::mem::take(&mut self.is_live);
        let mut is_live = is_live.into_iter();
        self.script.nodes.retain(|_| is_live.next().unwrap_or(false));
        self.script
    }

    fn count_links(&mut self) {
        let links = &mut self.script.links;
        let files = self.script.nodes.iter().zip(&self.is_live).filter(|(_, is_live)| **is_live);
        for (node, _) in files {
            if let NodeKind::File(file) = node.kind {
                *links.entry(file).or_insert(0) += 1;
            }
        }
        links.retain(|_, names| *names > 1);
    }
}
