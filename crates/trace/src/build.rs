//! A builder of small traces, for tests.

use crate::args::At;
use crate::call::Call;
use crate::class::Compressibility;
use crate::error::TraceError;
use crate::event::{End, Event, Item};
use crate::header::Header;
use crate::ids::{FileId, NodeId, ThreadId};
use crate::name::Name;
use crate::tree::{Entry, Kind, Root, RootKind};
use crate::writer::Writer;

/// A builder of a trace: the entries of the tree, then events of 1 us, each 1 us after the end of the previous one.
pub struct Builder {
    header: Header,
    items: Vec<Item>,
    nodes: u32,
    files: u32,
    threads: u32,
    time: u64,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder::new()
    }
}

impl Builder {
    /// The root of the tree.
    pub const ROOT: NodeId = NodeId(0);
    /// The first thread.
    pub const MAIN: ThreadId = ThreadId(0);

    /// Creates a trace with one empty root.
    pub fn new() -> Builder {
        let header = Header {
            recorded_by: "hand".into(),
            has_think: true,
            has_times: true,
            ..Header::default()
        };
        let mut builder =
            Builder { header, items: Vec::new(), nodes: 1, files: 0, threads: 1, time: 0 };
        let (node, kind, label) = (Builder::ROOT, RootKind::Tree, name("tree"));
        builder.items.push(Item::Root(Root { node, kind, label, file_system: String::new() }));
        builder
    }

    /// Creates a node without an entry, for the field `created` of a call.
    pub fn node(&mut self) -> NodeId {
        self.nodes += 1;
        NodeId(self.nodes - 1)
    }

    /// Adds an entry of the initial tree, with mode 0755 or 0644.
    pub fn entry(&mut self, parent: NodeId, text: &str, kind: Kind, size: u64) -> NodeId {
        let node = self.node();
        self.items.push(Item::Entry(Entry {
            parent,
            name: name(text),
            node,
            kind,
            size,
            allocated: size.next_multiple_of(4096),
            mode: if kind == Kind::Directory { 0o755 } else { 0o644 },
            links: 1,
            inode: u64::from(node.0) + 10,
            class: Compressibility::Unknown,
            xattrs: Vec::new(),
        }));
        node
    }

    /// Adds a directory of the initial tree.
    pub fn dir(&mut self, parent: NodeId, text: &str) -> NodeId {
        self.entry(parent, text, Kind::Directory, 4096)
    }

    /// Adds a file of the initial tree.
    pub fn file(&mut self, parent: NodeId, text: &str, size: u64) -> NodeId {
        self.entry(parent, text, Kind::File, size)
    }

    /// Adds a thread or process that `parent` starts.
    pub fn spawn(&mut self, parent: ThreadId, process: bool) -> ThreadId {
        let child = ThreadId(self.threads);
        self.threads += 1;
        self.call(parent, Call::Spawn { child, process }, 0);
        child
    }

    /// Adds a call, with 1 us of think time.
    pub fn call(&mut self, thread: ThreadId, call: Call, result: i64) -> &mut Event {
        self.time += 2000;
        let (think, start, duration) = (1000, self.time - 1000, 1000);
        self.items.push(Item::Event(Event { thread, think, start, duration, result, call }));
        let Some(Item::Event(event)) = self.items.last_mut() else { unreachable!("just added") };
        event
    }

    /// Adds a successful open of an existing node.
    pub fn open(
        &mut self,
        thread: ThreadId,
        dir: NodeId,
        text: &str,
        node: NodeId,
        flags: u32,
    ) -> FileId {
        let file = FileId(self.files);
        self.files += 1;
        let at = At::new(dir, name(text), Some(node));
        self.call(thread, Call::Open { at, flags, mode: 0, created: None, file: Some(file) }, 3);
        file
    }

    /// Adds a successful open with O_CREAT that creates a file with mode 0644.
    pub fn create(
        &mut self,
        thread: ThreadId,
        dir: NodeId,
        text: &str,
        flags: u32,
    ) -> (NodeId, FileId) {
        let (node, file) = (self.node(), FileId(self.files));
        self.files += 1;
        let at = At::new(dir, name(text), None);
        let (created, file_made) = (Some(node), Some(file));
        self.call(thread, Call::Open { at, flags, mode: 0o644, created, file: file_made }, 3);
        (node, file)
    }

    /// Adds a write of `length` bytes at the position of the file.
    pub fn write(&mut self, thread: ThreadId, file: FileId, length: u32) {
        let (offset, buffers, class) = (None, 0, Compressibility::Unknown);
        let call = Call::Write { file, offset, length: u64::from(length), buffers, class };
        self.call(thread, call, i64::from(length));
    }

    /// Adds a read at the position of the file that returns `result` bytes.
    pub fn read(&mut self, thread: ThreadId, file: FileId, length: u32, result: u32) {
        let call = Call::Read { file, offset: None, length: u64::from(length), buffers: 0 };
        self.call(thread, call, i64::from(result));
    }

    /// Adds the close of the only descriptor.
    pub fn close(&mut self, thread: ThreadId, file: FileId) {
        self.call(thread, Call::Close { file, last: true, implicit: false }, 0);
    }

    /// Returns the header, for modification.
    pub fn header(&mut self) -> &mut Header {
        &mut self.header
    }

    /// Returns the items so far, for modification.
    pub fn items(&mut self) -> &mut Vec<Item> {
        &mut self.items
    }

    /// Returns the bytes of the trace.
    ///
    /// # Errors
    /// None in practice: the trace is written to memory.
    pub fn finish(&self) -> Result<Vec<u8>, TraceError> {
        let mut writer = Writer::new(Vec::new(), &self.header)?;
        self.items.iter().try_for_each(|item| writer.item(item))?;
        writer.end(End { wall: self.time, status: Some(0), ..End::default() })
    }
}

/// Converts text to a name; text that is not a valid name becomes `_`.
fn name(text: &str) -> Name {
    let valid = Name::new(text.as_bytes());
    debug_assert!(valid.is_ok(), "{text:?}");
    valid.unwrap_or_else(|_| name("_"))
}
