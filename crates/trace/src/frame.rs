//! Frames: parts of a trace, each compressed and checked separately.
//!
//! A frame is a head of 13 bytes and its stored bytes. The head has the kind (1), the length of the stored bytes (4),
//! the length of the bytes before compression (4), and the CRC-32 of the first nine bytes of the head and the stored
//! bytes (4); numbers are little-endian. Stored bytes are a block of LZ4, or the bytes themselves if both lengths are
//! equal.

use std::io::Read;

use crate::error::Problem;
use crate::format::FRAME_LIMIT;

/// The size in bytes at which a writer ends a frame.
pub(crate) const FRAME_FULL: usize = 128 << 10;

/// The length of a frame's head.
pub(crate) const HEAD: usize = 13;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameKind {
    /// The header.
    Header = 1,
    /// Roots and entries of the initial tree.
    Tree = 2,
    /// Events.
    Events = 3,
    /// The end item.
    End = 4,
}

/// The reason why a frame was not read.
pub(crate) enum FrameError {
    /// There are no more frames.
    Over,
    /// The frame is incomplete.
    Short,
    /// The frame is invalid.
    Problem(Problem),
    /// The medium failed.
    Io(std::io::Error),
}

/// Appends a frame of these bytes.
pub(crate) fn put(kind: FrameKind, bytes: &[u8], out: &mut Vec<u8>) {
    let packed = lz4_flex::block::compress(bytes);
    let stored = if packed.len() < bytes.len() { &packed } else { bytes };
    let start = out.len();
    out.push(kind as u8);
    // Both lengths are below FRAME_LIMIT.
    out.extend_from_slice(&(stored.len() as u32).to_le_bytes());
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    let sum = checksum(&out[start..], stored);
    out.extend_from_slice(&sum.to_le_bytes());
    out.extend_from_slice(stored);
}

fn checksum(head: &[u8], stored: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(head);
    sum.update(stored);
    sum.finalize()
}

/// A frame in its stored form.
pub(crate) struct StoredFrame {
    pub kind: FrameKind,
    length: usize,
    stored: Vec<u8>,
}

impl StoredFrame {
    /// Returns the length of the frame with its head, in bytes.
    pub fn size(&self) -> u64 {
        (HEAD + self.stored.len()) as u64
    }

    /// Reads a frame and checks its limits and its checksum.
    pub fn read(from: &mut impl Read) -> Result<StoredFrame, FrameError> {
        let mut head = [0; HEAD];
        match fill(from, &mut head)? {
            0 => return Err(FrameError::Over),
            HEAD => {}
            _ => return Err(FrameError::Short),
        }
        let word =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let kind = match head[0] {
            1 => FrameKind::Header,
            2 => FrameKind::Tree,
            3 => FrameKind::Events,
            4 => FrameKind::End,
            other => return Err(FrameError::Problem(Problem::FrameKind(other))),
        };
        let (packed, length) = (word(1) as usize, word(5) as usize);
        if length > FRAME_LIMIT || packed > length {
            return Err(FrameError::Problem(Problem::FrameLength(packed.max(length) as u64)));
        }
        let mut stored = vec![0; packed];
        if fill(from, &mut stored)? < packed {
            return Err(FrameError::Short);
        }
        if checksum(&head[..9], &stored) != word(9) {
            return Err(FrameError::Problem(Problem::Checksum));
        }
        Ok(StoredFrame { kind, length, stored })
    }

    /// Returns the bytes of the frame, decompressed.
    pub fn unpack(self) -> Result<Vec<u8>, Problem> {
        if self.stored.len() == self.length {
            return Ok(self.stored);
        }
        let bytes = lz4_flex::block::decompress(&self.stored, self.length);
        bytes.ok().filter(|it| it.len() == self.length).ok_or(Problem::Compression)
    }
}

/// Fills a buffer as far as the input suffices; returns the number of bytes.
fn fill(from: &mut impl Read, buffer: &mut [u8]) -> Result<usize, FrameError> {
    let mut filled = 0;
    while filled < buffer.len() {
        match from.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(FrameError::Io(error)),
        }
    }
    Ok(filled)
}
