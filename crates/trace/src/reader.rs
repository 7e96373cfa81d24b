//! Reads a trace.

use std::io::Read;

use crate::error::{Problem, TraceError};
use crate::event::{End, Event, Item};
use crate::format::VERSION;
use crate::frame::{FrameError, FrameKind, StoredFrame};
use crate::header::{Header, MAGIC};
use crate::tree::{Entry, Root};
use crate::wire::{Source, State, Wire};

/// Reads a trace item by item, from any source of bytes, such as a file or a slice. It holds one frame at a time. It
/// checks the limits and checksums of everything, but not the consistency of identities: [`Checker`](crate::Checker)
/// checks that.
pub struct Reader<R> {
    from: R,
    header: Header,
    /// The offset of the next frame.
    offset: u64,
    /// The offset of the current frame.
    frame_start: u64,
    kind: FrameKind,
    bytes: Vec<u8>,
    state: State,
    item_number: u64,
    items: u64,
    tree_only: bool,
    ended: bool,
}

impl<R: Read> Reader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// Input that is not a trace of this version, or an I/O error.
    pub fn new(mut from: R) -> Result<Reader<R>, TraceError> {
        let invalid = |problem| TraceError::Invalid { offset: 0, item: None, problem };
        let mut head = [0; 12];
        from.read_exact(&mut head).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => invalid(Problem::NotATrace),
            _ => TraceError::Io { offset: 0, error },
        })?;
        if head[..8] != MAGIC {
            return Err(invalid(Problem::NotATrace));
        }
        let version = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
        if version != VERSION {
            return Err(invalid(Problem::Version(version)));
        }
        let mut reader = Reader {
            from,
            header: Header::default(),
            offset: 12,
            frame_start: 12,
            kind: FrameKind::Header,
            bytes: Vec::new(),
            state: State::default(),
            item_number: 0,
            items: 0,
            tree_only: false,
            ended: false,
        };
        reader.read_frame()?;
        if reader.kind != FrameKind::Header {
            return Err(reader.problem(Problem::Misplaced));
        }
        reader.header = reader.read_value()?;
        Ok(reader)
    }

    /// Makes the reader skip events without decompressing them: it returns only roots, entries and the end.
    #[must_use]
    pub fn tree_only(mut self) -> Reader<R> {
        self.tree_only = true;
        self
    }

    /// Returns the header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the offset of the frame of the item returned last, in bytes from the beginning.
    pub fn frame_offset(&self) -> u64 {
        self.frame_start
    }

    /// Returns an error at the item returned last, for a caller that finds its content invalid.
    pub fn problem(&self, problem: Problem) -> TraceError {
        let item = (self.item_number > 0).then_some(self.item_number);
        TraceError::Invalid { offset: self.frame_start, item, problem }
    }

    /// Returns the next item, or `None` after the end item.
    ///
    /// # Errors
    /// An error in the trace, an I/O error, or [`TraceError::Truncated`] instead of the end item: the items
    /// before it are valid.
    pub fn item(&mut self) -> Result<Option<Item>, TraceError> {
        if self.ended {
            return Ok(None);
        }
        while self.state.at == self.bytes.len() {
            self.read_frame()?;
        }
        self.item_number += 1;
        let item = match self.kind {
            FrameKind::Header => return Err(self.problem(Problem::Misplaced)),
            FrameKind::Events => Item::Event(self.read_value::<Event>()?),
            FrameKind::End => Item::End(self.read_value::<End>()?),
            FrameKind::Tree => match self.read_value::<u8>()? {
                0 => Item::Root(self.read_value::<Root>()?),
                1 => Item::Entry(self.read_value::<Entry>()?),
                other => return Err(self.problem(Problem::Code("item", u64::from(other)))),
            },
        };
        if self.kind == FrameKind::End {
            self.check_nothing_follows()?;
        }
        self.items += 1;
        Ok(Some(item))
    }

    /// Checks that nothing follows the end item.
    fn check_nothing_follows(&mut self) -> Result<(), TraceError> {
        if self.state.at < self.bytes.len() {
            return Err(self.problem(Problem::AfterEnd));
        }
        self.ended = true;
        match StoredFrame::read(&mut self.from) {
            Err(FrameError::Over) => Ok(()),
            Err(FrameError::Io(error)) => Err(TraceError::Io { offset: self.offset, error }),
            _ => {
                let problem = Problem::AfterEnd;
                Err(TraceError::Invalid { offset: self.offset, item: None, problem })
            }
        }
    }

    fn read_value<T: Wire>(&mut self) -> Result<T, TraceError> {
        let value = T::get(&mut Source { bytes: &self.bytes, state: &mut self.state });
        value.map_err(|problem| self.problem(problem))
    }

    /// Reads the next frame that is not skipped.
    fn read_frame(&mut self) -> Result<(), TraceError> {
        loop {
            let stored = StoredFrame::read(&mut self.from).map_err(|failed| match failed {
                FrameError::Over | FrameError::Short => {
                    TraceError::Truncated { offset: self.offset, items: self.items }
                }
                FrameError::Problem(problem) => {
                    TraceError::Invalid { offset: self.offset, item: None, problem }
                }
                FrameError::Io(error) => TraceError::Io { offset: self.offset, error },
            })?;
            self.frame_start = self.offset;
            self.offset += stored.size();
            if self.tree_only && stored.kind == FrameKind::Events {
                continue;
            }
            self.kind = stored.kind;
            self.item_number = 0;
            self.state = State::default();
            self.bytes = stored.unpack().map_err(|problem| TraceError::Invalid {
                offset: self.frame_start,
                item: None,
                problem,
            })?;
            return Ok(());
        }
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Item, TraceError>;

    /// Returns the next item, or the error after the valid items; then none.
    fn next(&mut self) -> Option<Result<Item, TraceError>> {
        let item = self.item().transpose();
        self.ended |= matches!(item, Some(Err(_)));
        item
    }
}
