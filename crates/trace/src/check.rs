//! Checks identities: each must be introduced once, before its first use, and always denote the same kind of object.

use std::collections::{HashMap, HashSet};

use crate::args::{At, Target};
use crate::call::Call;
use crate::error::Problem;
use crate::event::{Event, Item};
use crate::ids::{FileId, NodeId, ThreadId};
use crate::tree::Kind;

/// Checks the identities of a trace, item by item in the order of the trace. Needs about 16 bytes per node.
#[derive(Default)]
pub struct Checker {
    nodes: HashMap<NodeId, Kind>,
    files: HashSet<FileId>,
    threads: HashSet<ThreadId>,
}

/// The identities in the arguments of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identities<'c> {
    /// The names.
    pub names: [Option<&'c At>; 2],
    /// The open files that the call uses.
    pub files: [Option<FileId>; 2],
    /// A node that the call uses.
    pub node: Option<NodeId>,
    /// The open file that the call creates.
    pub opens: Option<FileId>,
    /// The node that the call creates.
    pub creates: Option<(NodeId, Kind)>,
}

impl Call {
    /// Returns the identities in the call's arguments.
    pub fn identities(&self) -> Identities<'_> {
        let none = Identities::default();
        match self {
            Call::Open { at, created, file, .. } => {
                Identities { opens: *file, ..creation_identities(at, *created, Kind::File) }
            }
            Call::Inherit { file, node, .. } => {
                Identities { opens: Some(*file), node: Some(*node), ..none }
            }
            Call::Mkdir { at, created, .. } => creation_identities(at, *created, Kind::Directory),
            Call::Symlink { at, created, .. } => creation_identities(at, *created, Kind::Symlink),
            Call::Mknod { at, node: kind, created, .. } => creation_identities(at, *created, *kind),
            Call::Rename { from, to, .. } => Identities { names: [Some(from), Some(to)], ..none },
            Call::Link { from, to } => {
                Identities { names: [Some(to), from.at()], files: [from.file(), None], ..none }
            }
            Call::Access { at, .. }
            | Call::Readlink { at, .. }
            | Call::Rmdir { at }
            | Call::Unlink { at } => name_identities(at),
            Call::Exec { at, .. } => Identities { names: [at.as_ref(), None], ..none },
            Call::Copy { from, to, .. } => Identities { files: [*from, *to], ..none },
            Call::Unmap { node, .. } | Call::Msync { node, .. } => {
                Identities { node: Some(*node), ..none }
            }
            Call::Truncate { target, .. }
            | Call::Stat { target, .. }
            | Call::Chmod { target, .. }
            | Call::Chown { target }
            | Call::Utimes { target, .. }
            | Call::Setxattr { target, .. }
            | Call::Getxattr { target, .. }
            | Call::Listxattr { target, .. }
            | Call::Removexattr { target, .. }
            | Call::Chdir { target }
            | Call::Statfs { target } => target.identities(),
            Call::Close { file, .. }
            | Call::Dup { file }
            | Call::Read { file, .. }
            | Call::Write { file, .. }
            | Call::Seek { file, .. }
            | Call::Fallocate { file, .. }
            | Call::Sync { file, .. }
            | Call::Readdir { file, .. }
            | Call::Lock { file, .. }
            | Call::Advise { file, .. }
            | Call::SetFlags { file, .. }
            | Call::Map { file, .. } => file_identities(*file),
            Call::SyncAll {}
            | Call::Outside { .. }
            | Call::Spawn { .. }
            | Call::Exit { .. }
            | Call::Wait { .. }
            | Call::Mark { .. } => none,
        }
    }
}

/// Returns the identities of a call on a name.
fn name_identities(at: &At) -> Identities<'_> {
    Identities { names: [Some(at), None], ..Identities::default() }
}

/// Returns the identities of a call that creates the node of a name if it did not exist.
fn creation_identities(at: &At, node: Option<NodeId>, kind: Kind) -> Identities<'_> {
    Identities { creates: node.map(|node| (node, kind)), ..name_identities(at) }
}

/// Returns the identities of a call on an open file.
fn file_identities<'a>(file: FileId) -> Identities<'a> {
    Identities { files: [Some(file), None], ..Identities::default() }
}

impl Target {
    /// Returns the identities in the target.
    fn identities(&self) -> Identities<'_> {
        match self {
            Target::At(at) => name_identities(at),
            Target::File(file) => file_identities(*file),
        }
    }
}

impl Checker {
    /// Creates a checker that has seen no items.
    pub fn new() -> Checker {
        Checker { threads: [ThreadId(0)].into(), ..Checker::default() }
    }

    /// Checks the next item.
    ///
    /// # Errors
    /// An identity that is used before it is introduced, is introduced twice, or is of a different kind.
    pub fn check(&mut self, item: &Item) -> Result<(), Problem> {
        match item {
            Item::Root(root) => self.introduce(root.node, Kind::Directory),
            Item::Entry(entry) => {
                self.check_directory(entry.parent)?;
                match self.nodes.get(&entry.node) {
                    None => self.introduce(entry.node, entry.kind),
                    Some(kind) if *kind == entry.kind && *kind != Kind::Directory => Ok(()),
                    Some(_) => {
                        Err(node_problem(entry.node, "was introduced as another kind of node"))
                    }
                }
            }
            Item::Event(event) => self.check_event(event),
            Item::End(_) => Ok(()),
        }
    }

    fn check_event(&mut self, event: &Event) -> Result<(), Problem> {
        if !self.threads.contains(&event.thread) {
            return Err(thread_problem(event.thread, "is used before it begins"));
        }
        let uses = event.call.identities();
        for at in uses.names.iter().flatten() {
            // The object itself may be a file if there is no name.
            match at.name {
                Some(_) => self.check_directory(at.dir)?,
                None => self.check_known(at.dir)?,
            }
            at.node.map_or(Ok(()), |it| self.check_known(it))?;
        }
        uses.node.map_or(Ok(()), |it| self.check_known(it))?;
        if let Some(id) = uses.files.iter().flatten().find(|id| !self.files.contains(id)) {
            return Err(file_problem(*id, "is used but not open"));
        }
        if let Some((id, kind)) = uses.creates {
            self.introduce(id, kind)?;
        }
        if let Some(id) = uses.opens {
            if !self.files.insert(id) {
                return Err(file_problem(id, "is opened twice"));
            }
        }
        match event.call {
            Call::Close { file, last: true, .. } => _ = self.files.remove(&file),
            Call::Spawn { child, .. } if !self.threads.insert(child) => {
                return Err(thread_problem(child, "begins twice"));
            }
            Call::Wait { child } if !self.threads.contains(&child) => {
                return Err(thread_problem(child, "is used before it begins"));
            }
            _ => {}
        }
        Ok(())
    }

    fn introduce(&mut self, id: NodeId, kind: Kind) -> Result<(), Problem> {
        match self.nodes.insert(id, kind) {
            None => Ok(()),
            Some(_) => Err(node_problem(id, "is introduced twice")),
        }
    }

    fn check_known(&self, id: NodeId) -> Result<(), Problem> {
        self.nodes
            .get(&id)
            .map(|_| ())
            .ok_or_else(|| node_problem(id, "is used before it is introduced"))
    }

    fn check_directory(&self, id: NodeId) -> Result<(), Problem> {
        self.check_known(id)?;
        match self.nodes.get(&id) {
            Some(Kind::Directory) => Ok(()),
            _ => Err(node_problem(id, "is used as a directory but is not one")),
        }
    }
}

fn node_problem(id: NodeId, what: &'static str) -> Problem {
    Problem::Identity("node", id.0, what)
}

fn file_problem(id: FileId, what: &'static str) -> Problem {
    Problem::Identity("open file", id.0, what)
}

fn thread_problem(id: ThreadId, what: &'static str) -> Problem {
    Problem::Identity("thread", id.0, what)
}
