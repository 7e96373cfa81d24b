//! Attributes each request of a trial to a stage, the structure that it touches, and its cause.
//!
//! A request, with its seek and its time, counts for the structure of its first block, to which the head had to move;
//! its bytes are divided block by block. Unattributed requests have their own row, so that the columns add up to the
//! log.

use std::collections::BTreeMap;

use fsdyno_disk::Action;
use fsdyno_disk::log::Entry;
use fsdyno_record::mailbox::Stage;
use fsdyno_record::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

use crate::map::{Map, Structure};
use crate::time::own_shares;

/// The cause of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A read in a phase: by an op, or by the kernel's read-ahead for an op.
    Work,
    /// A write to the journal, or a flush, of a file system that has one.
    JournalCommit,
    /// Any other write, or a flush without a journal.
    WriteBack,
    /// A discard.
    Discard,
    /// A read between phases: unmounting, mounting, and recovery.
    Mount,
    /// Outside the model's time: mkfs, verification.
    Untimed,
}

impl Cause {
    /// Returns the name used in tables.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Work => "work",
            Cause::JournalCommit => "journal commit",
            Cause::WriteBack => "write-back",
            Cause::Discard => "discard",
            Cause::Mount => "mount",
            Cause::Untimed => "untimed",
        }
    }
}

/// A position in a trial: a stage, and the phase to which it belongs or which it follows, counted from 0.
pub type Place = (Stage, u16);

/// The map of the file system at the start of a stage.
#[derive(Clone, Debug)]
pub struct StageMap {
    /// Position of the stage.
    pub place: Place,
    /// The map; `None` if the image could not be read.
    pub map: Option<Map>,
}

/// The position of a file system on its disks, which have the same numbers as in requests.
#[derive(Clone, Debug, Default)]
pub struct FsDevices {
    /// Offset of the file system on its disk, in bytes.
    pub start: u64,
    /// Size of the file system's device in bytes, if known.
    pub size: Option<u64>,
    /// The disk that holds only the journal, if there is one.
    pub journal_disk: Option<u8>,
}

/// The key of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key {
    /// Position in the trial.
    pub place: Place,
    /// Structure touched; `None` if unattributed.
    pub structure: Option<Structure>,
    /// Cause.
    pub cause: Cause,
}

/// The sums of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sum {
    /// Number of requests.
    pub requests: u64,
    /// Bytes read, written or discarded.
    pub bytes: Bytes,
    /// Number of seeks: requests that do not begin where the previously answered request on the same disk ended.
    pub seeks: u64,
    /// The requests' own share of the disk's busy time.
    pub time_ns: Nanos,
    /// The part of `time_ns` that belongs to seeks.
    pub seek_ns: Nanos,
}

impl Sum {
    /// Adds another sum.
    pub fn add(&mut self, other: &Sum) {
        self.requests += other.requests;
        self.bytes = self.bytes + other.bytes;
        self.seeks += other.seeks;
        self.time_ns += other.time_ns;
        self.seek_ns += other.seek_ns;
    }
}

/// One request, as drawn in a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dot {
    /// Disk number.
    pub disk: u8,
    /// Arrival time.
    pub arrived: Nanos,
    /// First byte on the disk.
    pub byte: u64,
    /// Structure of its first block.
    pub structure: Option<Structure>,
    /// Position in the trial.
    pub place: Place,
}

/// The requests of one trial, summed by position, structure and cause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// The rows.
    #[serde(with = "row_list")]
    pub rows: BTreeMap<Key, Sum>,
    /// The timed requests that have an address.
    #[serde(skip)]
    pub dots: Vec<Dot>,
}

/// Serializes the rows as a list, because keys of JSON objects are strings.
mod row_list {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serializer};

    use super::{Key, Sum};

    pub fn serialize<S: Serializer>(
        rows: &BTreeMap<Key, Sum>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(rows)
    }

    pub fn deserialize<'d, D: Deserializer<'d>>(
        deserializer: D,
    ) -> Result<BTreeMap<Key, Sum>, D::Error> {
        Ok(Vec::<(Key, Sum)>::deserialize(deserializer)?.into_iter().collect())
    }
}

impl Account {
    /// Attributes a log, whose entries are in order of arrival. `stage_maps` are in the order in which their stages
    /// began.
    pub fn attribute(entries: &[Entry], stage_maps: &[StageMap], devices: &FsDevices) -> Account {
        let journaled = devices.journal_disk.is_some()
            || stage_maps
                .iter()
                .filter_map(|stage_map| stage_map.map.as_ref())
                .any(|map| map.ranges().any(|(_, structure)| structure == Structure::Journal));
        let own_shares = own_shares(entries);
        let seeks = seeks(entries);
        let mut account = Account::default();
        let mut maps = MapsAround { stage_maps, index: 0 };
        for (index, entry) in entries.iter().enumerate() {
            maps.advance_to((entry.stage, entry.phase));
            let place = maps.position_of(entry);
            let row = |structure, cause| Key { place, structure, cause };
            let mut pieces = pieces(entry, &maps, devices);
            if is_probe(entry, &pieces, devices) {
                pieces.iter_mut().for_each(|piece| piece.0 = Some(Structure::DeviceEnd));
            }
            let first = pieces.first().and_then(|(structure, _)| *structure);
            let first_key = row(first, cause(entry, first, journaled));
            let sum = account.rows.entry(first_key).or_default();
            sum.requests += 1;
            sum.time_ns += own_shares[index];
            if seeks[index] {
                sum.seeks += 1;
                sum.seek_ns += own_shares[index];
            }
            for (structure, bytes) in &pieces {
                let key = row(*structure, cause(entry, *structure, journaled));
                let sum = account.rows.entry(key).or_default();
                sum.bytes = sum.bytes + Bytes(*bytes);
            }
            if !entry.untimed && entry.action != Action::Flush {
                let (arrived, byte) = (entry.arrived, entry.sector * 512);
                account.dots.push(Dot { disk: entry.disk, arrived, byte, structure: first, place });
            }
        }
        account
    }

    /// Returns the sum of the rows whose keys `is_wanted` selects.
    pub fn sum(&self, is_wanted: impl Fn(&Key) -> bool) -> Sum {
        let mut sum = Sum::default();
        self.rows.iter().filter(|(key, _)| is_wanted(key)).for_each(|(_, row)| sum.add(row));
        sum
    }

    /// Returns the share of timed requests that are attributed, and the share of their time. Both are 1 if there are no
    /// timed requests.
    pub fn attributed_shares(&self) -> (f64, f64) {
        let timed = |key: &Key| key.cause != Cause::Untimed;
        let all = self.sum(timed);
        let known = self.sum(|key| timed(key) && key.structure.is_some());
        let share = |part: u64, whole: u64| {
            if whole == 0 { 1.0 } else { part as f64 / whole as f64 }
        };
        (share(known.requests, all.requests), share(known.time_ns.0, all.time_ns.0))
    }
}

/// The maps before and after the current position.
struct MapsAround<'a> {
    stage_maps: &'a [StageMap],
    index: usize,
}

impl MapsAround<'_> {
    /// Advances to the map made at the start of a stage; a stage without a map changes nothing.
    fn advance_to(&mut self, place: Place) {
        if self.stage_maps.get(self.index).is_some_and(|stage_map| stage_map.place == place) {
            return;
        }
        let later = self
            .stage_maps
            .iter()
            .skip(self.index + 1)
            .position(|stage_map| stage_map.place == place);
        if let Some(ahead) = later {
            self.index += 1 + ahead;
        }
    }

    /// Returns the position of an entry. Requests before the first phase are distinguished from those after it,
    /// although both have the number of that phase.
    fn position_of(&self, entry: &Entry) -> Place {
        let begun = &self.stage_maps[..self.stage_maps.len().min(self.index + 1)];
        let ran = begun.iter().any(|stage_map| stage_map.place.0 == Stage::Running);
        match entry.stage {
            Stage::Gap | Stage::Verifying if !ran && !begun.is_empty() => (Stage::Preparing, 0),
            stage => (stage, entry.phase),
        }
    }

    /// Returns the structure at a byte of the file system, and the end of the range for which the answer holds. A block
    /// that is free in one of the two maps has its structure in the other one; a block with different structures in the
    /// two maps is unattributed.
    fn structure_at(&self, byte: u64) -> (Option<Structure>, u64) {
        let before = self.stage_maps[..self.stage_maps.len().min(self.index + 1)].iter().rev();
        let before = before.filter_map(|stage_map| stage_map.map.as_ref()).next();
        let after = self
            .stage_maps
            .iter()
            .skip(self.index + 1)
            .find_map(|stage_map| stage_map.map.as_ref());
        let lookup = |map: Option<&Map>| map.map_or((None, u64::MAX), |map| map.at(byte));
        let ((earlier, earlier_end), (later, later_end)) = (lookup(before), lookup(after));
        let structure = match (earlier, later) {
            (Some(earlier), Some(later)) if earlier == later => Some(earlier),
            // A freed tree block belongs to the tree that the other map shows.
            (Some(Structure::FreedTree), Some(later)) => Some(later),
            (Some(earlier), Some(Structure::FreedTree)) => Some(earlier),
            (Some(_), Some(_)) | (None, None) => None,
            (Some(structure), None) | (None, Some(structure)) => Some(structure),
        };
        (structure, earlier_end.min(later_end))
    }
}

/// Splits a request into parts of one structure each, in order, and returns the number of bytes of each part.
fn pieces(
    entry: &Entry,
    around: &MapsAround<'_>,
    devices: &FsDevices,
) -> Vec<(Option<Structure>, u64)> {
    if entry.action == Action::Flush {
        return vec![(Some(Structure::Flush), 0)];
    }
    let bytes = u64::from(entry.sectors) * 512;
    if devices.journal_disk == Some(entry.disk) {
        return vec![(Some(Structure::Journal), bytes)];
    }
    let Some(first) = (entry.sector * 512).checked_sub(devices.start) else {
        return vec![(None, bytes)];
    };
    let mut pieces: Vec<(Option<Structure>, u64)> = Vec::new();
    let mut offset = first;
    while offset < first + bytes {
        let (structure, end) = around.structure_at(offset);
        let end = end.min(first + bytes).max(offset + 1);
        match pieces.last_mut().filter(|last| last.0 == structure) {
            Some(last) => last.1 += end - offset,
            None => pieces.push((structure, end - offset)),
        }
        offset = end;
    }
    if pieces.is_empty() {
        pieces.push((around.structure_at(first).0, 0));
    }
    pieces
}

/// Returns true if a request is a mount's probe of the device size: a read, between phases, of the last 4 KiB, where
/// nothing is stored.
fn is_probe(entry: &Entry, pieces: &[(Option<Structure>, u64)], devices: &FsDevices) -> bool {
    let Some(size) = devices.size else { return false };
    let last = devices.start + size.saturating_sub(4096);
    entry.action == Action::Read
        && entry.stage != Stage::Running
        && devices.journal_disk != Some(entry.disk)
        && (last..devices.start + size).contains(&(entry.sector * 512))
        && pieces.iter().all(|(structure, _)| structure.is_none())
}

fn cause(entry: &Entry, structure: Option<Structure>, journaled: bool) -> Cause {
    match entry.action {
        _ if entry.untimed => Cause::Untimed,
        Action::Read if entry.stage == Stage::Running => Cause::Work,
        Action::Read => Cause::Mount,
        Action::Flush if journaled => Cause::JournalCommit,
        Action::Write if structure == Some(Structure::Journal) => Cause::JournalCommit,
        Action::Write | Action::Flush => Cause::WriteBack,
        Action::Trim => Cause::Discard,
    }
}

/// Determines for each entry whether it is a seek, from the order in which its disk answered.
fn seeks(entries: &[Entry]) -> Vec<bool> {
    let mut order: Vec<usize> = (0..entries.len()).collect();
    order.sort_by_key(|index| entries[*index].arrived.0.saturating_add(entries[*index].response.0));
    let mut head = [None; 256];
    let mut seeks = vec![false; entries.len()];
    for index in order {
        let entry = &entries[index];
        if !matches!(entry.action, Action::Read | Action::Write) {
            continue;
        }
        let head = &mut head[usize::from(entry.disk)];
        seeks[index] = *head != Some(entry.sector);
        *head = Some(entry.sector + u64::from(entry.sectors));
    }
    seeks
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::time::busy;
    use crate::time::tests::request;

    fn map(rows: &[(u64, u64, Structure)]) -> Map {
        let mut map = Map::default();
        rows.iter()
            .for_each(|(from, to, structure)| map.assign(from * 4096..to * 4096, *structure));
        map
    }

    fn stage_map(place: Place, map: Option<Map>) -> StageMap {
        StageMap { place, map }
    }

    const PHASE: Place = (Stage::Running, 0);
    const GAP: Place = (Stage::Gap, 0);

    fn write(block: u64, blocks: u32) -> Entry {
        Entry {
            action: Action::Write,
            sector: 2048 + block * 8,
            sectors: blocks * 8,
            ..request(block, 3)
        }
    }

    fn structures(
        entries: &[Entry],
        stage_maps: &[StageMap],
    ) -> Vec<(Option<Structure>, u64, u64)> {
        let devices = FsDevices { start: 1 << 20, size: Some(100 * 4096), journal_disk: None };
        let account = Account::attribute(entries, stage_maps, &devices);
        let rows = account.rows.iter();
        rows.map(|(key, sum)| (key.structure, sum.requests, sum.bytes.0 / 4096)).collect()
    }

    #[test]
    fn a_block_has_the_structure_of_either_map_and_none_if_the_maps_contradict() {
        use Structure::*;
        let before = map(&[(0, 1, Superblock), (5, 6, Directory), (7, 8, Data)]);
        let after = map(&[(0, 1, Superblock), (6, 7, Extents), (7, 8, Directory)]);
        let stage_maps = [stage_map(PHASE, Some(before)), stage_map(GAP, Some(after))];
        assert_eq!(structures(&[write(0, 1)], &stage_maps), [(Some(Superblock), 1, 1)]);
        assert_eq!(structures(&[write(5, 1)], &stage_maps), [(Some(Directory), 1, 1)]);
        assert_eq!(structures(&[write(6, 1)], &stage_maps), [(Some(Extents), 1, 1)]);
        // Data before, and a directory after; free before and after.
        assert_eq!(structures(&[write(7, 1)], &stage_maps), [(None, 1, 1)]);
        assert_eq!(structures(&[write(9, 1)], &stage_maps), [(None, 1, 1)]);
        // If a map could not be read, the map before it counts.
        let stage_maps = [stage_map(PHASE, Some(map(&[(5, 6, Directory)]))), stage_map(GAP, None)];
        assert_eq!(structures(&[write(5, 1)], &stage_maps), [(Some(Directory), 1, 1)]);
    }

    #[test]
    fn a_request_counts_for_its_first_block_and_its_bytes_for_every_block() {
        use Structure::*;
        let all = map(&[(0, 2, Bitmap), (2, 6, InodeTable)]);
        let stage_maps = [stage_map(PHASE, Some(all))];
        let rows = structures(&[write(1, 6)], &stage_maps);
        assert_eq!(rows, [(None, 0, 1), (Some(Bitmap), 1, 1), (Some(InodeTable), 0, 4)]);
    }

    #[test]
    fn a_read_of_the_device_end_between_phases_is_a_probe_by_a_mount() {
        let read =
            |block, stage| Entry { action: Action::Read, stage, sectors: 1, ..write(block, 1) };
        let structure_of = |entry| structures(&[entry], &[])[0].0;
        assert_eq!(structure_of(read(99, Stage::Gap)), Some(Structure::DeviceEnd));
        assert_eq!(structure_of(read(98, Stage::Gap)), None);
        assert_eq!(structure_of(read(99, Stage::Running)), None);
        assert_eq!(structure_of(Entry { stage: Stage::Gap, ..write(99, 1) }), None);
    }

    #[test]
    fn a_request_outside_the_partition_is_unattributed() {
        let entry = Entry { sector: 0, ..write(0, 1) };
        assert_eq!(structures(&[entry], &[]), [(None, 1, 1)]);
    }

    #[test]
    fn a_request_that_does_not_continue_the_previous_one_is_a_seek() {
        let entries = [write(0, 2), write(2, 1), write(1, 1)];
        assert_eq!(seeks(&entries), [true, false, true]);
    }

    fn any_entry() -> impl Strategy<Value = Entry> {
        let action = prop_oneof![
            Just(Action::Read),
            Just(Action::Write),
            Just(Action::Flush),
            Just(Action::Trim)
        ];
        (action, 0u64..300, 0u32..40, 0u64..1000, 0u64..90, any::<bool>(), 0u16..2).prop_map(
            |(action, sector, sectors, arrived, response, untimed, phase)| {
                let response = if untimed { 0 } else { response };
                Entry { action, sector, sectors, untimed, phase, ..request(arrived, response) }
            },
        )
    }

    proptest! {
        #[test]
        fn the_rows_sum_up_to_the_log(mut entries in proptest::collection::vec(any_entry(), 0..80)) {
            entries.sort_by_key(|entry| entry.arrived);
            let first = map(&[(0, 3, Structure::Bitmap), (8, 20, Structure::Data)]);
            let second = map(&[(2, 10, Structure::Directory)]);
            let stage_maps = [stage_map(PHASE, Some(first)), stage_map((Stage::Running, 1), Some(second))];
            let account = Account::attribute(&entries, &stage_maps, &FsDevices { start: 8192, ..FsDevices::default() });
            let all = account.sum(|_| true);
            prop_assert_eq!(all.requests, entries.len() as u64);
            let bytes = |entry: &Entry| match entry.action {
                Action::Flush => 0,
                _ => u64::from(entry.sectors) * 512,
            };
            prop_assert_eq!(all.bytes.0, entries.iter().map(bytes).sum::<u64>());
            prop_assert_eq!(all.time_ns, busy(&entries, 0));
            prop_assert!(all.seek_ns <= all.time_ns);
        }
    }
}
