//! The request log in the guest's log memory: one part per disk, so that no two servers write to
//! the same words.
//!
//! A part begins with a header of one block (magic, version, entries, lost entries) and holds entries
//! of 32 bytes, in order of completion. Words are little-endian:
//! arrival, response, first sector, then sector count (32 bits), flags (8), disk (8), stage (3), phase (13).
//! The count is written after the entry, so that a guest that is killed leaves only complete entries.

use std::sync::atomic::{Ordering, compiler_fence};

use fsdyno_record::Nanos;
use fsdyno_record::mailbox::Stage;

use super::{BLANK, Entry};
use crate::store::Memory;

/// Size of a disk's part in bytes; the host allocates space only as it is written.
pub const PART_SIZE: u64 = 512 << 20;
/// Maximum number of disks of a guest.
pub const MAX_DISKS: u64 = 16;
/// Size of the whole region in bytes.
pub const SIZE: u64 = PART_SIZE * MAX_DISKS;
/// Maximum number of entries in a part; further ones are counted as lost.
pub const MAX_ENTRIES: u64 = (PART_SIZE - HEADER) / ENTRY;

const HEADER: u64 = 4096;
const ENTRY: u64 = 32;
const MAGIC: u64 = u64::from_le_bytes(*b"fsdynorq");
const VERSION: u64 = 1;
const MAX_PHASE: u16 = (1 << 13) - 1;

/// The writer of one disk's part.
pub struct Writer<M> {
    memory: M,
    disk: u8,
    entries: u64,
    lost: u64,
}

impl<M: Memory> Writer<M> {
    /// Creates an empty log of disk number `disk`; if its part does not fit (in a region smaller
    /// than [`SIZE`]), all entries are lost.
    pub fn create(mut memory: M, disk: u8) -> Writer<M> {
        if start(disk) + HEADER <= memory.size() {
            write_words(memory.slice(start(disk), 32), [MAGIC, VERSION, 0, 0]);
        }
        Writer { memory, disk, entries: 0, lost: 0 }
    }

    /// Adds a completed request, tagged with the writer's disk number.
    pub fn add(&mut self, entry: &Entry) {
        let start = start(self.disk);
        let at = start + HEADER + self.entries * ENTRY;
        if self.entries == MAX_ENTRIES || at + ENTRY > self.memory.size() {
            self.lost += 1;
            if start + HEADER <= self.memory.size() {
                write_words(self.memory.slice(start + 24, 8), [self.lost]);
            }
            return;
        }
        let context = ((entry.stage as u64) << 13) | u64::from(entry.phase.min(MAX_PHASE));
        let fourth = u64::from(entry.sectors)
            | (u64::from(entry.flags()) << 32)
            | (u64::from(self.disk) << 40)
            | (context << 48);
        write_words(
            self.memory.slice(at, ENTRY as usize),
            [entry.arrived.0, entry.response.0, entry.sector, fourth],
        );
        self.entries += 1;
        compiler_fence(Ordering::SeqCst);
        write_words(self.memory.slice(start + 16, 8), [self.entries]);
    }
}

/// The log of a guest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestLog {
    /// The entries of all disks in order of arrival.
    pub entries: Vec<Entry>,
    /// Number of lost entries.
    pub lost: u64,
}

/// Reads the log of all disks from a region.
///
/// # Errors
/// A description of the problem: an unsupported version, or impossible counts.
pub fn read(memory: &mut impl Memory) -> Result<RequestLog, &'static str> {
    let mut log = RequestLog::default();
    for disk in 0..MAX_DISKS as u8 {
        let start = start(disk);
        if start + HEADER > memory.size() {
            break;
        }
        let [magic, version, entries, lost] = read_words(memory.slice(start, 32));
        if magic == 0 {
            continue;
        }
        if magic != MAGIC || version != VERSION {
            return Err("the request log has an unsupported version");
        }
        let max_entries = (memory.size() - start - HEADER) / ENTRY;
        if entries > MAX_ENTRIES.min(max_entries) {
            return Err("the request log has more entries than fit");
        }
        log.lost += lost;
        const BATCH: u64 = 4096;
        for from in (0..entries).step_by(BATCH as usize) {
            let count = BATCH.min(entries - from);
            let bytes = memory.slice(start + HEADER + from * ENTRY, (count * ENTRY) as usize);
            log.entries.extend(bytes.chunks_exact(ENTRY as usize).map(parse_entry));
        }
    }
    log.entries.sort_by_key(|entry| entry.arrived);
    Ok(log)
}

fn parse_entry(bytes: &[u8]) -> Entry {
    let [arrived, response, sector, fourth] = read_words(bytes);
    let context = (fourth >> 48) as u16;
    let mut entry = Entry {
        arrived: Nanos(arrived),
        response: Nanos(response),
        sector,
        sectors: fourth as u32,
        disk: (fourth >> 40) as u8,
        stage: Stage::from_word(u64::from(context >> 13)),
        phase: context & MAX_PHASE,
        ..BLANK
    };
    entry.set_flags((fourth >> 32) as u8);
    entry
}

fn start(disk: u8) -> u64 {
    u64::from(disk) * PART_SIZE
}

fn write_words<const N: usize>(bytes: &mut [u8], words: [u64; N]) {
    for (bytes, word) in bytes.chunks_exact_mut(8).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
}

fn read_words(bytes: &[u8]) -> [u64; 4] {
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = bytes.try_into().map(u64::from_le_bytes).unwrap_or(0);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Action;

    fn write_entry(arrived: u64) -> Entry {
        Entry {
            arrived: Nanos(arrived),
            response: Nanos(8_000_000_000),
            action: Action::Write,
            sector: (1 << 40) + 5,
            sectors: 2048,
            fua: true,
            failed: true,
            stage: Stage::Verifying,
            phase: 700,
            ..BLANK
        }
    }

    #[test]
    fn entries_are_read_in_order_of_arrival() {
        let mut writer = Writer::create(vec![0; 8192], 0);
        assert_eq!(read(&mut writer.memory), Ok(RequestLog::default()));
        writer.add(&write_entry(20));
        writer.add(&Entry { action: Action::Trim, fua: false, ..write_entry(10) });
        let logged = read(&mut writer.memory).unwrap();
        let entries =
            vec![Entry { action: Action::Trim, fua: false, ..write_entry(10) }, write_entry(20)];
        assert_eq!(logged, RequestLog { entries, lost: 0 });
    }

    #[test]
    fn lost_entries_are_counted() {
        let mut writer = Writer::create(vec![0; 4096 + 64], 0);
        (0..5).for_each(|arrived| writer.add(&write_entry(arrived)));
        let logged = read(&mut writer.memory).unwrap();
        assert_eq!((logged.entries.len(), logged.lost), (2, 3));
        // A disk whose part is beyond the region writes nothing.
        let mut writer = Writer::create(vec![0; 4096], 1);
        writer.add(&write_entry(1));
        assert_eq!(read(&mut writer.memory), Ok(RequestLog::default()));
    }

    #[test]
    fn a_region_that_is_not_a_log_is_refused() {
        let mut writer = Writer::create(vec![0; 8192], 0);
        writer.add(&write_entry(1));
        writer.memory[18] = 1;
        assert!(read(&mut writer.memory).unwrap_err().contains("more entries"));
        writer.memory[8] = 9;
        assert!(read(&mut writer.memory).unwrap_err().contains("version"));
    }
}
