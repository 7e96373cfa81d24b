//! Which calls GNU tar 1.34 makes, as root, to unpack an archive, found by going through its members
//! with the tree as it would then be.
//!
//! As strace shows it [RUN], member by member:
//!
//! - whatever is made below a parent that is missing fails with ENOENT; then every parent is made from
//!   the top, those that exist failing with EEXIST; then it is made again;
//! - whatever is made in the place of something else fails with EEXIST; that is unlinked, and it is
//!   made again. A directory in the place of a directory is looked at and stays;
//! - a directory is made with the owner's bits of its mode alone; its time, owner and mode come when
//!   the first member follows that is not below it;
//! - a symbolic link with an absolute target or `..` in it is made last of all, so that nothing can be
//!   unpacked through it: an empty file of mode 0 holds its place, and directories that hold one are
//!   not finished before it;
//! - while there are such places, what a hard link leads to is looked at before and after.

use std::collections::HashMap;

use crate::op::Expect;
use crate::tar::archive::{Archive, ArchiveError, Fault, Member, MemberKind};

/// The mode of parents that are no members, and of the folder that all is unpacked in.
pub const PARENT_MODE: u16 = 0o755;

/// A call, or for a file all its calls from open to close. Eight bytes, so that an archive of a
/// million members has a script of some tens of megabytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Act {
    /// Which member it is for.
    pub member: u32,
    /// How much of the member's path it is on, in bytes.
    pub length: u16,
    /// What is called.
    pub what: What,
    /// How it ends.
    pub ends: Expect,
}

const _: () = assert!(size_of::<Act>() == 8 && size_of::<Node>() == 40);

/// A look at what is in the way.
const LOOK: &[(What, Expect)] = &[(What::Stat, Expect::Success)];

/// What an act calls; a member says the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// openat(2) to write of a new file, and all that follows up to close(2).
    File,
    /// That openat(2) alone, for it fails.
    TryFile,
    /// mkdirat(2) of a parent.
    Parent,
    /// mkdirat(2) of a member.
    Mkdir,
    /// openat(2) of the empty file of mode 0 that holds the place of a link.
    Placeholder,
    /// fstat(2) of it.
    StatPlaceholder,
    /// close(2) of it.
    ClosePlaceholder,
    /// symlinkat(2).
    Symlink,
    /// linkat(2).
    Link,
    /// fstatat(2) of what a hard link leads to.
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

/// Something that is there in the end, or was for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// A member whose path begins with this one's.
    pub member: u32,
    /// How much of it.
    pub length: u16,
    /// What it is.
    pub kind: NodeKind,
    /// Its permission bits.
    pub mode: u16,
    /// Whether a member says its mode.
    pub said: bool,
    /// Its modification time, where it is known.
    pub mtime: Option<i64>,
}

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    Directory,
    /// A name of the file that this member brought.
    File(u32),
    /// What this member says.
    Symlink(u32),
    /// The place of a symbolic link that is made last.
    Placeholder(u32),
}

/// What unpacking comes to.
#[derive(Debug, Default)]
pub struct Script {
    /// The calls, in their order.
    pub acts: Vec<Act>,
    /// What is there in the end, in the order in which it was made.
    pub nodes: Vec<Node>,
    /// How many names each file has in the end, by the member that brought it; where more than one.
    pub links: HashMap<u32, u32>,
}

/// A directory that is not finished.
#[derive(Clone, Copy, Debug)]
struct Delayed {
    node: usize,
    /// The member that says its mode and time; none for a parent that is no member.
    member: Option<u32>,
    /// It holds the place of a link, and is finished after that.
    after_links: bool,
}

struct Writer<'a> {
    members: &'a [Member],
    script: Script,
    /// Path → node, for what is there now.
    there: HashMap<&'a [u8], usize>,
    /// Whether a node is there still.
    live: Vec<bool>,
    delayed: Vec<Delayed>,
    /// Node → its place among the delayed: an archive may have all its directories twice.
    places: HashMap<usize, usize>,
    /// Members that are links and are made last.
    placeholders: Vec<u32>,
}

/// Writes the script of an archive.
///
/// # Errors
/// A member that cannot be unpacked where it is.
pub fn write(archive: &Archive) -> Result<Script, ArchiveError> {
    let members = archive.members();
    let mut writer = Writer {
        members,
        script: Script::default(),
        there: HashMap::with_capacity(members.len() + 1),
        live: Vec::with_capacity(members.len() + 1),
        delayed: Vec::new(),
        places: HashMap::new(),
        placeholders: Vec::new(),
    };
    // The folder that all is unpacked in is there before.
    writer.add(0, 0, NodeKind::Directory, PARENT_MODE);
    for (at, member) in members.iter().enumerate() {
        let wrong = |fault| ArchiveError::member(member, fault);
        let at = u32::try_from(at).map_err(|_| wrong(Fault::TooMany(u32::MAX)))?;
        writer.member(at).map_err(wrong)?;
    }
    Ok(writer.finish())
}

/// The directory that a path lies in.
fn parent(path: &[u8]) -> &[u8] {
    &path[..path.iter().rposition(|byte| *byte == b'/').unwrap_or(0)]
}

/// Whether a path lies below a directory, at whatever depth.
fn is_below(path: &[u8], directory: &[u8]) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.first() == Some(&b'/'))
}

/// Whether a symbolic link may lead out of its folder, as GNU tar judges it.
fn leads_out(target: &[u8]) -> bool {
    target.first() == Some(&b'/') || target.split(|byte| *byte == b'/').any(|part| part == b"..")
}

impl<'a> Writer<'a> {
    fn path_of(&self, member: u32) -> &'a [u8] {
        &self.members[member as usize].path
    }

    fn act(&mut self, member: u32, what: What, ends: Expect) {
        let length = self.path_of(member).len() as u16;
        self.script.acts.push(Act { member, length, what, ends });
    }

    fn done(&mut self, member: u32, what: What) {
        self.act(member, what, Expect::Success);
    }

    /// Puts a node under the first `length` bytes of a member's path.
    fn add(&mut self, member: u32, length: usize, kind: NodeKind, mode: u16) -> usize {
        let path = &self.path_of(member)[..length];
        let node = Node { member, length: length as u16, kind, mode, said: false, mtime: None };
        self.script.nodes.push(node);
        self.live.push(true);
        let index = self.script.nodes.len() - 1;
        self.there.insert(path, index);
        if index > 0 {
            self.touch(path);
        }
        index
    }

    /// A name has come into or gone out of a directory: its time is that of this moment.
    fn touch(&mut self, path: &[u8]) {
        if let Some(index) = self.there.get(parent(path)) {
            self.script.nodes[*index].mtime = None;
        }
    }

    fn unlink(&mut self, member: u32) {
        let path = self.path_of(member);
        self.done(member, What::Unlink);
        if let Some(index) = self.there.remove(path) {
            self.live[index] = false;
        }
        self.touch(path);
    }

    fn member(&mut self, at: u32) -> Result<(), Fault> {
        let member = &self.members[at as usize];
        self.leave(Some(&member.path));
        self.check_parents(&member.path)?;
        let there = self.there.get(&*member.path).copied();
        let there = there.map(|index| self.script.nodes[index].kind);
        match (&member.kind, there) {
            (_, Some(NodeKind::Placeholder(_))) => return Err(Fault::OverPlaceholder),
            (MemberKind::Directory, there) => self.directory(at, there),
            (_, Some(NodeKind::Directory)) => return Err(Fault::OverDirectory),
            (MemberKind::File { .. }, there) => {
                self.retry(at, What::TryFile, there.is_some(), &[]);
                self.done(at, What::File);
                let node = self.add(at, member.path.len(), NodeKind::File(at), member.mode as u16);
                self.script.nodes[node].mtime = Some(member.mtime);
                self.script.nodes[node].said = true;
            }
            (MemberKind::Symlink(target), there) if leads_out(target) => {
                self.placeholder(at, there.is_some());
            }
            (MemberKind::Symlink(_), there) => {
                self.retry(at, What::Symlink, there.is_some(), &[]);
                self.symlink(at);
                self.add(at, member.path.len(), NodeKind::Symlink(at), 0o777);
            }
            (MemberKind::Link(target), there) => self.link(at, target, there)?,
        }
        Ok(())
    }

    /// Everything above a path is a directory, or missing.
    fn check_parents(&self, path: &[u8]) -> Result<(), Fault> {
        let mut above = parent(path);
        while !above.is_empty() {
            let what = match self.there.get(above).map(|index| self.script.nodes[*index].kind) {
                Some(NodeKind::Symlink(_) | NodeKind::Placeholder(_)) => "a symbolic link",
                Some(NodeKind::File(_)) => "a file",
                Some(NodeKind::Directory) => return Ok(()),
                None => {
                    above = parent(above);
                    continue;
                }
            };
            let parent = String::from_utf8_lossy(above).into_owned();
            return Err(Fault::Below { parent, what });
        }
        Ok(())
    }

    /// The failed first try and what makes the second succeed: parents, or an unlink. `looks` are
    /// what is looked at after the first.
    fn retry(&mut self, at: u32, what: What, there: bool, looks: &[(What, Expect)]) {
        let path = self.path_of(at);
        let missing = !self.there.contains_key(parent(path));
        if !missing && !there {
            return;
        }
        self.act(at, what, if missing { Expect::Missing } else { Expect::Exists });
        for (look, ends) in looks {
            self.act(at, *look, *ends);
        }
        if missing {
            self.make_parents(at);
        } else {
            self.unlink(at);
        }
    }

    fn make_parents(&mut self, at: u32) {
        let path = self.path_of(at);
        let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        for (length, _) in slashes {
            let there = self.there.contains_key(&path[..length]);
            let ends = if there { Expect::Exists } else { Expect::Success };
            self.script.acts.push(Act {
                member: at,
                length: length as u16,
                what: What::Parent,
                ends,
            });
            if !there {
                let node = self.add(at, length, NodeKind::Directory, PARENT_MODE);
                self.delay(Delayed { node, member: None, after_links: false });
            }
        }
    }

    fn directory(&mut self, at: u32, there: Option<NodeKind>) {
        if there == Some(NodeKind::Directory) {
            return self.directory_again(at);
        }
        let looks = if there.is_some() { LOOK } else { &[] };
        self.retry(at, What::Mkdir, there.is_some(), looks);
        self.done(at, What::Mkdir);
        let (path, mode) = (self.path_of(at), self.members[at as usize].mode);
        let node = self.add(at, path.len(), NodeKind::Directory, mode as u16 & 0o700);
        self.delay(Delayed { node, member: Some(at), after_links: false });
    }

    fn directory_again(&mut self, at: u32) {
        let path = self.path_of(at);
        self.act(at, What::Mkdir, Expect::Exists);
        self.done(at, What::Stat);
        let Some(node) = self.there.get(path).copied() else { return };
        match self.places.get(&node) {
            Some(place) => self.delayed[*place].member = Some(at),
            None => {
                // The folder itself is looked at once more and finished after all else.
                let after_links = path.is_empty();
                if after_links {
                    self.done(at, What::Stat);
                }
                self.delay(Delayed { node, member: Some(at), after_links });
            }
        }
    }

    fn symlink(&mut self, at: u32) {
        for what in [What::Symlink, What::Utimes, What::Chown] {
            self.done(at, what);
        }
    }

    fn placeholder(&mut self, at: u32, there: bool) {
        self.retry(at, What::Placeholder, there, if there { LOOK } else { &[] });
        for what in [What::Placeholder, What::StatPlaceholder, What::ClosePlaceholder] {
            self.done(at, what);
        }
        let path = self.path_of(at);
        self.add(at, path.len(), NodeKind::Placeholder(at), 0);
        self.placeholders.push(at);
        let Some(holder) = self.there.get(parent(path)).copied() else { return };
        if self.delayed.last().is_none_or(|last| last.node != holder) {
            return;
        }
        for index in (0..self.delayed.len()).rev() {
            if self.delayed[index].after_links {
                break;
            }
            self.delayed[index].after_links = true;
            self.look(self.delayed[index].node);
        }
    }

    /// fstatat(2) of a node.
    fn look(&mut self, node: usize) {
        let Node { member, length, .. } = self.script.nodes[node];
        let ends = Expect::Success;
        self.script.acts.push(Act { member, length, what: What::Stat, ends });
    }

    fn link(&mut self, at: u32, target: &[u8], there: Option<NodeKind>) -> Result<(), Fault> {
        let path = self.path_of(at);
        if target == path {
            return Err(Fault::SelfLink);
        }
        let node = self.there.get(target).map(|index| self.script.nodes[*index]);
        let Some(Node { kind: NodeKind::File(file), mode, mtime, .. }) = node else {
            return Err(Fault::DeadLink(String::from_utf8_lossy(target).into_owned()));
        };
        let watched = !self.placeholders.is_empty();
        if watched {
            self.done(at, What::StatTarget);
        }
        if there == Some(NodeKind::File(file)) {
            self.act(at, What::Link, Expect::Exists);
            self.done(at, What::StatTarget);
            self.done(at, What::Stat);
            return Ok(());
        }
        let ends = if there.is_some() { Expect::Success } else { Expect::Missing };
        let looks = [(What::StatTarget, Expect::Success), (What::Stat, ends)];
        self.retry(at, What::Link, there.is_some(), &looks);
        self.done(at, What::Link);
        if watched {
            self.done(at, What::StatTarget);
        }
        let node = self.add(at, path.len(), NodeKind::File(file), mode);
        self.script.nodes[node].mtime = mtime;
        self.script.nodes[node].said = true;
        Ok(())
    }

    /// Finishes the directories that the next path is not below; all of them where there is none.
    fn leave(&mut self, next: Option<&[u8]>) {
        while let Some(last) = self.delayed.last().copied() {
            let Node { member, length, .. } = self.script.nodes[last.node];
            let path = &self.path_of(member)[..usize::from(length)];
            if last.after_links || next.is_some_and(|next| is_below(next, path)) {
                return;
            }
            self.settle(last);
            self.delayed.pop();
            self.places.remove(&last.node);
        }
    }

    fn delay(&mut self, directory: Delayed) {
        self.places.insert(directory.node, self.delayed.len());
        self.delayed.push(directory);
    }

    /// Gives a directory its time, owner and mode.
    fn settle(&mut self, Delayed { node, member, .. }: Delayed) {
        let Some(at) = member else { return };
        let Member { mode, mtime, .. } = self.members[at as usize];
        self.done(at, What::Utimes);
        self.done(at, What::Chown);
        if self.script.nodes[node].mode != mode as u16 {
            self.done(at, What::Chmod);
        }
        let node = &mut self.script.nodes[node];
        (node.mode, node.mtime, node.said) = (mode as u16, Some(mtime), true);
    }

    /// Links that lead out, the last first, and the directories that waited for them.
    fn finish(mut self) -> Script {
        self.leave(None);
        for at in std::mem::take(&mut self.placeholders).into_iter().rev() {
            self.done(at, What::Stat);
            self.unlink(at);
            self.symlink(at);
            self.add(at, self.path_of(at).len(), NodeKind::Symlink(at), 0o777);
        }
        while let Some(last) = self.delayed.pop() {
            if last.after_links {
                self.look(last.node);
            }
            self.settle(last);
        }
        self.count_links();
        let live = std::mem::take(&mut self.live);
        let mut live = live.into_iter();
        self.script.nodes.retain(|_| live.next().unwrap_or(false));
        self.script
    }

    fn count_links(&mut self) {
        let links = &mut self.script.links;
        let files = self.script.nodes.iter().zip(&self.live).filter(|(_, live)| **live);
        for (node, _) in files {
            if let NodeKind::File(file) = node.kind {
                *links.entry(file).or_insert(0) += 1;
            }
        }
        links.retain(|_, names| *names > 1);
    }
}
