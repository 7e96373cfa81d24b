//! The request log as a file, `logs/<trial_id>.log` in a result folder: about 10 bytes per request.
//!
//! It begins with 8 bytes `fsdynolg`, u32 version (1), u64 entries and u64 lost entries, all little-endian;
//! the entries follow in order of arrival. An entry is one byte of flags (bits 0 and 1: read, write,
//! flush, trim; 2 FUA; 3 untimed; 4 failed; 5 new context), then, if bit 5 is set, the disk (u8), stage
//! (u8) and phase, then the time since the previous arrival, the response time, the distance from
//! the end of the previous request (zigzag), and the number of sectors. Numbers are LEB128. Disk,
//! stage and phase remain valid until the next entry with bit 5; all start at 0.

use std::io::{self, Write};

use fsdyno_record::Nanos;
use fsdyno_record::mailbox::Stage;

use super::region::RequestLog;
use super::{BLANK, Entry, KNOWN};

const MAGIC: &[u8; 8] = b"fsdynolg";
const VERSION: u32 = 1;
const HEADER: usize = 28;
const CONTEXT: u8 = 1 << 5;

/// An error in reading a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// A file that does not begin with the header of a log.
    #[error("it is not a request log of fsdyno (run with --keep-log writes them to logs/)")]
    NoLog,
    /// A log of an unsupported version.
    #[error("it is a request log of version {0}, but this fsdyno reads version {VERSION}")]
    Version(u32),
    /// A truncated or damaged entry.
    #[error("request {at} of {entries} is truncated or damaged")]
    Damaged {
        /// The entry's number, from 1.
        at: u64,
        /// Number of entries in the header.
        entries: u64,
    },
    /// Bytes after the last entry.
    #[error("bytes follow its last request")]
    Trailing,
}

/// Writes a log. Its entries must be in order of arrival; an entry out of order is stored with the arrival
/// time of the previous one.
///
/// # Errors
/// Errors from the writer.
pub fn write(log: &RequestLog, out: &mut impl Write) -> io::Result<()> {
    out.write_all(MAGIC)?;
    out.write_all(&VERSION.to_le_bytes())?;
    out.write_all(&(log.entries.len() as u64).to_le_bytes())?;
    out.write_all(&log.lost.to_le_bytes())?;
    let mut previous = BLANK;
    let mut bytes = Vec::new();
    for entry in &log.entries {
        bytes.clear();
        let context = |entry: &Entry| (entry.disk, entry.stage, entry.phase);
        if context(entry) == context(&previous) {
            bytes.push(entry.flags());
        } else {
            bytes.extend([entry.flags() | CONTEXT, entry.disk, entry.stage as u8]);
            push_number(&mut bytes, entry.phase.into());
        }
        let arrived = entry.arrived.max(previous.arrived);
        push_number(&mut bytes, arrived.0 - previous.arrived.0);
        push_number(&mut bytes, entry.response.0);
        let distance = entry.sector.wrapping_sub(end(&previous)) as i64;
        push_number(&mut bytes, ((distance << 1) ^ (distance >> 63)) as u64);
        push_number(&mut bytes, entry.sectors.into());
        out.write_all(&bytes)?;
        previous = Entry { arrived, ..*entry };
    }
    Ok(())
}

/// An iterator over the entries of a log; it ends after an error.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    bytes: &'a [u8],
    previous: Entry,
    /// Number of entries read.
    read: u64,
    entries: u64,
    lost: u64,
}

/// Opens a log.
///
/// # Errors
/// [`LogError::NoLog`], [`LogError::Version`].
pub fn open(bytes: &[u8]) -> Result<Entries<'_>, LogError> {
    let (header, body) = bytes.split_at_checked(HEADER).ok_or(LogError::NoLog)?;
    if !header.starts_with(MAGIC) {
        return Err(LogError::NoLog);
    }
    let integer = |from: usize, to: usize| {
        header[from..to].iter().rev().fold(0, |sum, byte| (sum << 8) | u64::from(*byte))
    };
    let version = integer(8, 12) as u32;
    if version != VERSION {
        return Err(LogError::Version(version));
    }
    let (entries, lost) = (integer(12, 20), integer(20, 28));
    Ok(Entries { bytes: body, previous: BLANK, read: 0, entries, lost })
}

impl Entries<'_> {
    /// Returns the number of entries according to the header.
    pub fn declared_entries(&self) -> u64 {
        self.entries
    }

    /// Returns the number of requests that are missing because the guest's log memory was full.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    fn read_entry(&mut self) -> Option<Entry> {
        let flags = self.read_byte()?;
        let mut entry = self.previous;
        if flags & !(KNOWN | CONTEXT) != 0 {
            return None;
        }
        entry.set_flags(flags);
        if flags & CONTEXT != 0 {
            entry.disk = self.read_byte()?;
            let stage = self.read_byte()?;
            entry.stage = Stage::from_word(stage.into());
            if entry.stage as u8 != stage {
                return None;
            }
            entry.phase = self.read_number()?.try_into().ok()?;
        }
        entry.arrived = Nanos(self.previous.arrived.0.checked_add(self.read_number()?)?);
        entry.response = Nanos(self.read_number()?);
        let distance = self.read_number()?;
        let distance = (distance >> 1) as i64 ^ -((distance & 1) as i64);
        entry.sector = end(&self.previous).wrapping_add(distance as u64);
        entry.sectors = self.read_number()?.try_into().ok()?;
        self.previous = entry;
        Some(entry)
    }

    fn read_byte(&mut self) -> Option<u8> {
        let (first, remaining) = self.bytes.split_first()?;
        self.bytes = remaining;
        Some(*first)
    }

    fn read_number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.read_byte()?;
            let bits = u64::from(byte & 0x7f);
            if (bits << shift) >> shift != bits {
                return None;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }
}

impl Iterator for Entries<'_> {
    type Item = Result<Entry, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.read == self.entries {
            let has_trailing_bytes = !self.bytes.is_empty();
            self.bytes = &[];
            return has_trailing_bytes.then_some(Err(LogError::Trailing));
        }
        self.read += 1;
        match self.read_entry() {
            Some(entry) => Some(Ok(entry)),
            None => {
                let error = LogError::Damaged { at: self.read, entries: self.entries };
                self.read = self.entries;
                self.bytes = &[];
                Some(Err(error))
            }
        }
    }
}

fn end(entry: &Entry) -> u64 {
    entry.sector.wrapping_add(entry.sectors.into())
}

fn push_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}
