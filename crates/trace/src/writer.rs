//! Writes a trace.

use std::collections::BTreeMap;
use std::io::Write;

use crate::call::CallKind;
use crate::error::TraceError;
use crate::event::{End, Event, Item};
use crate::format::VERSION;
use crate::frame::{self, FRAME_FULL, FrameKind};
use crate::header::{Header, MAGIC};
use crate::tree::{Entry, Root};
use crate::wire::{Sink, Wire};

/// Writes a trace item by item. It holds one frame of entries and one of events; entries are written before the events
/// that follow them. Without [`Writer::end`], the trace is truncated: a reader gets the flushed items.
pub struct Writer<W> {
    out: W,
    /// The number of bytes written.
    offset: u64,
    tree: Sink,
    events: Sink,
    counts: BTreeMap<CallKind, u64>,
}

impl<W: Write> Writer<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// An I/O error of the output.
    pub fn new(out: W, header: &Header) -> Result<Writer<W>, TraceError> {
        let (tree, events) = (Sink::default(), Sink::default());
        let mut writer = Writer { out, offset: 0, tree, events, counts: BTreeMap::new() };
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        let mut sink = Sink::default();
        header.put(&mut sink);
        frame::put(FrameKind::Header, &sink.bytes, &mut bytes);
        writer.write(&bytes)?;
        Ok(writer)
    }

    /// Appends an item.
    ///
    /// # Errors
    /// An I/O error of the output.
    pub fn item(&mut self, item: &Item) -> Result<(), TraceError> {
        match item {
            Item::Root(root) => self.root(root),
            Item::Entry(entry) => self.entry(entry),
            Item::Event(event) => self.event(event),
            Item::End(end) => self.finish(end.clone()),
        }
    }

    /// Appends a root.
    ///
    /// # Errors
    /// An I/O error of the output.
    pub fn root(&mut self, root: &Root) -> Result<(), TraceError> {
        self.tree.bytes.push(0);
        root.put(&mut self.tree);
        self.flush_if(self.tree.bytes.len() >= FRAME_FULL)
    }

    /// Appends an entry of the initial tree.
    ///
    /// # Errors
    /// An I/O error of the output.
    pub fn entry(&mut self, entry: &Entry) -> Result<(), TraceError> {
        self.tree.bytes.push(1);
        entry.put(&mut self.tree);
        self.flush_if(self.tree.bytes.len() >= FRAME_FULL)
    }

    /// Appends an event.
    ///
    /// # Errors
    /// An I/O error of the output.
    pub fn event(&mut self, event: &Event) -> Result<(), TraceError> {
        event.put(&mut self.events);
        *self.counts.entry(event.call.kind()).or_default() += 1;
        self.flush_if(self.events.bytes.len() >= FRAME_FULL)
    }

    /// Returns the number of events written so far.
    pub fn events(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Returns the number of bytes written so far, excluding buffered ones.
    pub fn written(&self) -> u64 {
        self.offset
    }

    fn flush_if(&mut self, full: bool) -> Result<(), TraceError> {
        if full { self.flush() } else { Ok(()) }
    }

    /// Writes the buffered items, so that a reader gets all items so far even if the recorder is killed.
    ///
    /// # Errors
    /// An I/O error of the output.
    pub fn flush(&mut self) -> Result<(), TraceError> {
        let mut bytes = Vec::new();
        for (kind, sink) in
            [(FrameKind::Tree, &mut self.tree), (FrameKind::Events, &mut self.events)]
        {
            if !sink.bytes.is_empty() {
                frame::put(kind, &sink.bytes, &mut bytes);
                sink.clear();
            }
        }
        self.write(&bytes)
    }

    /// Ends the trace; `end.events` is filled in here. Returns the output.
    ///
    /// # Errors
    /// An I/O error of the output.
    pub fn end(mut self, end: End) -> Result<W, TraceError> {
        self.finish(end)?;
        Ok(self.out)
    }

    fn finish(&mut self, mut end: End) -> Result<(), TraceError> {
        self.flush()?;
        end.events = std::mem::take(&mut self.counts);
        let mut sink = Sink::default();
        end.put(&mut sink);
        let mut bytes = Vec::new();
        frame::put(FrameKind::End, &sink.bytes, &mut bytes);
        self.write(&bytes)?;
        self.out.flush().map_err(|error| TraceError::Io { offset: self.offset, error })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), TraceError> {
        let written = self.out.write_all(bytes);
        written.map_err(|error| TraceError::Io { offset: self.offset, error })?;
        self.offset += bytes.len() as u64;
        Ok(())
    }
}
