//! The errors of reading and writing a trace.

use thiserror::Error;

use crate::format::{FRAME_LIMIT, VERSION};

/// An error that prevents reading more of a trace, or writing it.
#[derive(Debug, Error)]
pub enum TraceError {
    /// The trace is invalid at this position.
    #[error("at byte {offset}{}: {problem}", .item.map(|n| format!(" (item {n} of the frame there)")).unwrap_or_default())]
    Invalid {
        /// The offset in the trace, in bytes from its beginning: that of the header, or of the frame with the error.
        offset: u64,
        /// The number of the item in that frame, from 1, or `None` for the frame itself.
        item: Option<u64>,
        /// The error.
        problem: Problem,
    },
    /// The trace ends without its end item: the part before it is valid.
    #[error("at byte {offset}: the trace is truncated; the {items} items before that are valid")]
    Truncated {
        /// The offset at which the valid part ends, in bytes from the beginning.
        offset: u64,
        /// The number of valid items.
        items: u64,
    },
    /// Reading or writing the medium failed.
    #[error("at byte {offset}: {error}")]
    Io {
        /// The offset in the trace, in bytes from its beginning.
        offset: u64,
        /// The I/O error.
        error: std::io::Error,
    },
}

/// An error in the contents of a trace.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Problem {
    /// The first bytes are not those of a trace.
    #[error("this is not a trace of fsdyno (its first bytes are not \"fsdyno-t\")")]
    NotATrace,
    /// The trace has a different version.
    #[error(
        "the trace has version {0} of the format; this fsdyno reads version {VERSION}: use the fsdyno that recorded it, or a newer one"
    )]
    Version(u32),
    /// A frame is longer than the format allows.
    #[error("a frame of {0} bytes is longer than the limit of {limit}", limit = FRAME_LIMIT)]
    FrameLength(u64),
    /// The kind of a frame does not exist in the format.
    #[error("unknown kind of frame {0}")]
    FrameKind(u8),
    /// The checksum of a frame does not match its bytes.
    #[error("the checksum does not match: the trace is damaged")]
    Checksum,
    /// A frame cannot be decompressed.
    #[error("the frame cannot be decompressed: the trace is damaged")]
    Compression,
    /// An item extends beyond the end of its frame.
    #[error("an item is longer than its frame")]
    Short,
    /// A number is larger than its field allows.
    #[error("a number is larger than its field allows")]
    Number,
    /// A code has no meaning.
    #[error("unknown {0} {1}")]
    Code(&'static str, u64),
    /// A name is not valid for a directory entry.
    #[error("invalid name: {0}")]
    Name(&'static str),
    /// A count or size is larger than the format allows.
    #[error("{0} of {1} is larger than the limit of {2}")]
    Limit(&'static str, u64, u64),
    /// Something follows the end item.
    #[error("there are bytes after the end of the trace")]
    AfterEnd,
    /// An item is in a frame of the wrong kind.
    #[error("an item is in a frame of the wrong kind")]
    Misplaced,
    /// An identity is used before it is introduced, or is introduced twice.
    #[error("{0} {1} {2}")]
    Identity(&'static str, u32, &'static str),
}
