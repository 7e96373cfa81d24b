//! The state of an imported program: processes, descriptors and names; and the items of the trace so far.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use fsdyno_trace::{
    At, Base, Call, CallKind, Compressibility, Entry, Event, FileId, Kind, Name, NodeId, Object,
    Root, RootKind, ThreadId, TraceError, Writer,
};

use super::parsed_call::ParseError;
use crate::anonymize;

/// The root of the tree, and that of everything else.
const TREE: NodeId = NodeId(0);
const SYSTEM: NodeId = NodeId(1);

/// Denotes the tree in paths if its path is unknown: no path has a NUL.
const UNKNOWN: &[u8] = b"/\0";

/// A node.
struct Node {
    kind: Kind,
    /// True if the kind is a guess: no call showed it.
    guessed: bool,
    size: u64,
    /// True if a stat showed the size, or the size has changed since.
    size_known: bool,
    mode: u32,
    /// Its first directory and name, for an entry of the initial tree.
    initial: Option<(NodeId, Name)>,
}

/// An open file.
#[derive(Clone, Debug)]
pub struct Open {
    /// Its identity in the trace.
    pub file: FileId,
    /// Its node.
    pub node: NodeId,
    /// The path by which it was opened.
    pub path: Vec<u8>,
    /// Its position.
    pub position: Rc<RefCell<u64>>,
}

/// The object that a descriptor refers to.
#[derive(Clone, Debug)]
pub struct Descriptor {
    /// The open file; None for a pipe, a socket, ...
    pub open: Option<Rc<Open>>,
    /// True if exec closes it.
    pub cloexec: bool,
}

/// Descriptors by number.
pub type Descriptors = Rc<RefCell<BTreeMap<i32, Descriptor>>>;

/// A thread.
#[derive(Clone)]
pub struct Thread {
    /// Its identity in the trace.
    pub id: ThreadId,
    /// Its descriptors.
    pub descriptors: Descriptors,
    /// Its working directory.
    pub cwd: Rc<RefCell<Vec<u8>>>,
}

/// An object that a trace cannot represent.
pub struct Outside(pub Object);

/// The reason why a call does not become an event of its kind.
pub enum Fault {
    /// The call is on an object that a trace cannot represent.
    Outside(Outside),
    /// The call cannot be read.
    ParseError(ParseError),
}

impl From<Outside> for Fault {
    fn from(it: Outside) -> Fault {
        Fault::Outside(it)
    }
}

impl From<ParseError> for Fault {
    fn from(it: ParseError) -> Fault {
        Fault::ParseError(it)
    }
}

/// Separates the faults: the outer error is a call that cannot be read, the inner one an object outside the trace.
pub fn readable<T>(it: Result<T, Fault>) -> Result<Result<T, Outside>, ParseError> {
    match it {
        Ok(it) => Ok(Ok(it)),
        Err(Fault::Outside(it)) => Ok(Err(it)),
        Err(Fault::ParseError(it)) => Err(it),
    }
}

/// The state of the program, and the trace so far.
pub struct ImportState {
    nodes: Vec<Node>,
    names: HashMap<(NodeId, Name), NodeId>,
    /// Threads that appeared before the call that created them returned.
    pub early: HashSet<i64>,
    /// Names that did not exist, or were removed.
    absent: HashSet<(NodeId, Name)>,
    anonymized: bool,
    /// The path of the tree.
    tree: Vec<u8>,
    threads: HashMap<i64, Thread>,
    /// The events so far.
    pub events: Vec<Event>,
    /// Things that the trace lacks, with counts.
    pub notes: BTreeMap<String, u64>,
    /// True if the events have times.
    pub timed: bool,
    files: u32,
    next_thread: u32,
}

/// Checks that a path is not on a file system of the kernel or in /dev.
fn check_outside(path: &[u8]) -> Result<(), Outside> {
    let outside =
        [(&b"/proc/"[..], Object::Kernel), (b"/sys/", Object::Kernel), (b"/dev/", Object::Device)];
    match outside.into_iter().find(|(prefix, _)| path.starts_with(prefix)) {
        Some((_, object)) => Err(Outside(object)),
        None => Ok(()),
    }
}

impl ImportState {
    /// Creates the state of an import whose tree has this path.
    pub fn new(tree: Option<Vec<u8>>, anonymized: bool) -> ImportState {
        let root = || Node {
            kind: Kind::Directory,
            guessed: false,
            size: 0,
            size_known: true,
            mode: 0o755,
            initial: None,
        };
        let mut it = ImportState {
            nodes: vec![root(), root()],
            names: HashMap::new(),
            early: HashSet::new(),
            absent: HashSet::new(),
            anonymized,
            tree: Vec::new(),
            threads: HashMap::new(),
            events: Vec::new(),
            notes: BTreeMap::new(),
            timed: false,
            files: 0,
            next_thread: 0,
        };
        it.tree = it.absolute(b"", &tree.unwrap_or(UNKNOWN.into()));
        it
    }

    /// Counts something that the trace lacks.
    pub fn note(&mut self, what: &str, count: u64) {
        *self.notes.entry(what.into()).or_default() += count;
    }

    /// Converts a name to its form in the trace.
    pub fn name(&self, bytes: &[u8]) -> Option<Name> {
        let name = Name::new(bytes).ok()?;
        Some(if self.anonymized { anonymize::name(&name) } else { name })
    }

    /// Returns the thread with this ID. The first thread begins the command; it is the parent of other unknown threads.
    pub fn thread(&mut self, number: i64) -> Thread {
        if let Some(known) = self.threads.get(&number) {
            return known.clone();
        }
        let first = self.threads.values().min_by_key(|it| it.id.0).cloned();
        let Some(first) = first else { return self.spawn(None, number, true, false) };
        self.note("threads whose start is not in the text", 1);
        self.spawn(Some(first), number, true, false)
    }

    /// Adds a thread.
    pub fn spawn(
        &mut self,
        parent: Option<Thread>,
        number: i64,
        process: bool,
        shares: bool,
    ) -> Thread {
        let id = ThreadId(self.next_thread);
        self.next_thread += 1;
        let tree = self.tree.clone();
        let it = match &parent {
            None => Thread { id, descriptors: Rc::default(), cwd: Rc::new(RefCell::new(tree)) },
            Some(parent) if shares => Thread { id, ..parent.clone() },
            Some(parent) => Thread {
                id,
                descriptors: Rc::new(RefCell::new(parent.descriptors.borrow().clone())),
                cwd: Rc::new(RefCell::new(parent.cwd.borrow().clone())),
            },
        };
        self.threads.insert(number, it.clone());
        if let Some(parent) = parent {
            let start = self.events.last().map_or(0, |it| it.returned());
            self.event(parent.id, start, 0, 0, Call::Spawn { child: id, process });
        }
        it
    }

    /// Changes the ID of a thread.
    pub fn rename(&mut self, from: i64, to: i64) {
        if let Some(it) = self.threads.remove(&from) {
            self.threads.insert(to, it);
        }
    }

    /// True if there is a thread with this ID.
    pub fn has_thread(&self, number: i64) -> bool {
        self.threads.contains_key(&number)
    }

    /// Ends a thread, and closes descriptors that no other thread has.
    pub fn end_thread(&mut self, number: i64, start: u64, result: i64) {
        let Some(it) = self.threads.remove(&number) else { return };
        let process = Rc::strong_count(&it.descriptors) == 1;
        if process {
            for descriptor in it.descriptors.take().into_values() {
                self.close(it.id, start, descriptor, true);
            }
        }
        self.event(it.id, start, 0, result, Call::Exit { process });
        // The ID may be reused, and a trace needs at least one thread.
        if self.threads.is_empty() {
            self.threads.insert(number, Thread { descriptors: Rc::default(), ..it });
        }
    }

    /// Appends an event.
    pub fn event(&mut self, thread: ThreadId, start: u64, duration: u64, result: i64, call: Call) {
        if self.events.len() >= super::EVENTS {
            self.note("events beyond the maximum number of an import", 1);
            return;
        }
        self.events.push(Event { thread, think: 0, start, duration, result, call });
    }

    /// Handles a closed descriptor.
    pub fn close(&mut self, thread: ThreadId, start: u64, it: Descriptor, implicit: bool) {
        if let Some(open) = it.open {
            let last = Rc::strong_count(&open) == 1;
            if last || !implicit {
                let call = Call::Close { file: open.file, last, implicit };
                self.event(thread, start, 0, 0, call);
            }
        }
    }

    /// Creates an open file.
    pub fn open(&mut self, node: NodeId, path: Vec<u8>) -> Rc<Open> {
        self.files += 1;
        let file = FileId(self.files - 1);
        Rc::new(Open { file, node, path, position: Rc::default() })
    }

    /// Resolves a path against a directory, and removes `.`, `..` and double slashes.
    pub fn absolute(&self, from: &[u8], path: &[u8]) -> Vec<u8> {
        let whole =
            if path.starts_with(b"/") { path.to_vec() } else { [from, b"/", path].concat() };
        let mut parts: Vec<&[u8]> = Vec::new();
        for part in whole.split(|byte| *byte == b'/') {
            match part {
                b"" | b"." => {}
                b".." => _ = parts.pop(),
                part => parts.push(part),
            }
        }
        let mut out = Vec::new();
        parts.iter().for_each(|part| out.extend([b"/", *part].concat()));
        if out.is_empty() { b"/".to_vec() } else { out }
    }

    /// Returns the place that an absolute path names. If `exists`, its object must have existed; an unknown object has
    /// the type `kind`, which is not a guess if `sure`.
    pub fn place(
        &mut self,
        path: &[u8],
        exists: bool,
        kind: Kind,
        sure: bool,
    ) -> Result<At, Outside> {
        check_outside(path)?;
        let below = path.strip_prefix(&self.tree[..]).filter(|it| it.is_empty() || it[0] == b'/');
        let (mut dir, rest) = match below {
            Some(rest) => (TREE, rest),
            None => (SYSTEM, path),
        };
        let parts: Vec<&[u8]> =
            rest.split(|byte| *byte == b'/').filter(|it| !it.is_empty()).collect();
        let Some((last, above)) = parts.split_last() else { return Ok(At::of_node(dir)) };
        let walked = u8::try_from(parts.len()).unwrap_or(u8::MAX);
        let base = if below.is_some() { Base::Cwd } else { Base::Root };
        for (at, part) in above.iter().enumerate() {
            let name = self.name(part).ok_or(Outside(Object::None))?;
            dir = match self.names.get(&(dir, name.clone())) {
                Some(known) => *known,
                None if exists => self.enter(dir, name, Kind::Directory, false)?,
                None => {
                    let beyond = u8::try_from(parts.len() - at - 1).unwrap_or(u8::MAX);
                    return Ok(At { base, walked, beyond, ..At::new(dir, name, None) });
                }
            };
            let node = &mut self.nodes[dir.0 as usize];
            if node.kind != Kind::Directory {
                if !node.guessed {
                    self.note(
                        "calls whose paths lead through links that the text does not show",
                        1,
                    );
                    return Err(Outside(Object::None));
                }
                node.kind = Kind::Directory;
            }
            node.guessed = false;
        }
        let name = self.name(last).ok_or(Outside(Object::None))?;
        let node = match self.names.get(&(dir, name.clone())) {
            Some(known) => Some(*known),
            None if exists => Some(self.enter(dir, name.clone(), kind, !sure)?),
            None => {
                self.absent.insert((dir, name.clone()));
                None
            }
        };
        if let (Some(node), true) = (node, sure) {
            let node = &mut self.nodes[node.0 as usize];
            if node.guessed {
                (node.kind, node.guessed) = (kind, false);
            }
        }
        Ok(At { base, walked, ..At::new(dir, name, node) })
    }

    /// Adds an entry to the initial tree.
    fn enter(
        &mut self,
        dir: NodeId,
        name: Name,
        kind: Kind,
        guessed: bool,
    ) -> Result<NodeId, Outside> {
        let made = dir.0 > SYSTEM.0 && self.nodes[dir.0 as usize].initial.is_none();
        if made || self.absent.contains(&(dir, name.clone())) {
            self.note("calls on names that appeared without a call that created them", 1);
            return Err(Outside(Object::None));
        }
        let id = self.node(kind, 0);
        let node = &mut self.nodes[id.0 as usize];
        node.guessed = guessed;
        node.size_known = false;
        node.initial = Some((dir, name.clone()));
        self.names.insert((dir, name), id);
        Ok(id)
    }

    /// Adds a node that a call created.
    pub fn node(&mut self, kind: Kind, mode: u32) -> NodeId {
        let (guessed, size_known, initial) = (false, true, None);
        self.nodes.push(Node { kind, guessed, size: 0, size_known, mode, initial });
        NodeId(self.nodes.len() as u32 - 1)
    }

    /// Makes a name refer to a node, or to none.
    pub fn set_name(&mut self, at: &At, node: Option<NodeId>) {
        let Some(name) = at.name.clone() else { return };
        match node {
            Some(node) => _ = self.names.insert((at.dir, name), node),
            None => {
                self.names.remove(&(at.dir, name.clone()));
                self.absent.insert((at.dir, name));
            }
        }
    }

    /// Takes over the type, mode and size of a node that a stat showed.
    pub fn set_shown_attributes(
        &mut self,
        id: NodeId,
        kind: Option<Kind>,
        mode: Option<u32>,
        size: Option<u64>,
    ) {
        let node = &mut self.nodes[id.0 as usize];
        if let (Some(kind), true) = (kind, node.guessed) {
            (node.kind, node.guessed) = (kind, false);
        }
        if let (Some(size), false) = (size, node.size_known) {
            (node.size, node.size_known) = (size, true);
            node.mode = mode.unwrap_or(node.mode);
        }
    }

    /// Handles a read up to an offset: an initial file has at least that size.
    pub fn reached(&mut self, id: NodeId, end: u64) {
        let node = &mut self.nodes[id.0 as usize];
        if !node.size_known {
            node.size = node.size.max(end);
        }
    }

    /// Sets the minimum size of an initial file.
    pub fn set_minimum_size(&mut self, path: &[u8], size: u64) {
        let tree = self.tree.clone();
        let path = self.absolute(&tree, path);
        if let Ok(At { node: Some(node), .. }) = self.place(&path, false, Kind::File, false) {
            let node = &mut self.nodes[node.0 as usize];
            node.size = node.size.max(size);
        }
    }

    /// Marks the size of a node as changed: later stats and reads do not show the initial one.
    pub fn mark_size_changed(&mut self, id: NodeId) {
        self.nodes[id.0 as usize].size_known = true;
    }

    /// Writes the trace.
    pub fn write<W: std::io::Write>(self, mut writer: Writer<W>) -> Result<(), TraceError> {
        let label = self.tree.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        for (node, kind, label) in
            [(TREE, RootKind::Tree, label), (SYSTEM, RootKind::System, &b"system"[..])]
        {
            let label = Name::new(label).or(Name::new(b"tree"));
            let Ok(label) = label else { continue };
            let hashed = self.anonymized && kind == RootKind::Tree;
            let label = if hashed { anonymize::name(&label) } else { label };
            writer.root(&Root { node, kind, label, file_system: String::new() })?;
        }
        for (at, node) in self.nodes.iter().enumerate() {
            let Some((parent, name)) = &node.initial else { continue };
            let is_dir = node.kind == Kind::Directory;
            let limit = if node.kind == Kind::Symlink { 4095 } else { i64::MAX as u64 };
            let size = if is_dir { 4096 } else { node.size.min(limit) };
            writer.entry(&Entry {
                parent: *parent,
                name: name.clone(),
                node: NodeId(at as u32),
                kind: node.kind,
                size,
                allocated: size.min(i64::MAX as u64 - 4096).next_multiple_of(4096),
                mode: match node.mode {
                    0 if is_dir => 0o755,
                    0 => 0o644,
                    mode => mode,
                },
                links: 1,
                inode: at as u64 + 2,
                class: Compressibility::Unknown,
                xattrs: Vec::new(),
            })?;
        }
        let end = self.end();
        for event in self.events {
            writer.event(&event)?;
        }
        writer.end(end).map(|_| ())
    }
}

/// Creates the record of a call on an object outside the trace.
pub fn outside(call: CallKind, Outside(object): &Outside) -> Call {
    Call::Outside { call, object: *object, number: 0 }
}
