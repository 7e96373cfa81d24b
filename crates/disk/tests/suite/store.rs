//! Tests the store against two vectors, the visible bytes and those on the medium: at every moment no byte is lost or
//! invented, and unused space is freed.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test helpers may panic")]

use std::convert::Infallible;

use fsdyno_disk::store::{
    Destination, MAX_SLICE, Memory, OpenError, Store, StoreError, View, region_size,
};
use fsdyno_record::Bytes;
use proptest::prelude::*;

struct Region(Vec<u8>);

impl Memory for Region {
    fn slice(&mut self, offset: u64, length: usize) -> &mut [u8] {
        assert!(length <= MAX_SLICE, "{length} bytes in one slice");
        &mut self.0[offset as usize..offset as usize + length]
    }
    fn size(&self) -> u64 {
        self.0.len() as u64
    }
}

const CAPACITY: u64 = 12 << 20;

fn region(limit: u64) -> Region {
    // Not zeroed: a store must not depend on the region's old bytes.
    Region(vec![0xa5; region_size(Bytes(CAPACITY), Bytes(limit)) as usize])
}

fn write(
    store: &mut Store<Region>,
    offset: u64,
    bytes: &[u8],
) -> Result<(), StoreError<Infallible>> {
    write_to(Destination::Medium, store, offset, bytes)
}

fn write_to<M: Memory>(
    to: Destination,
    store: &mut Store<M>,
    offset: u64,
    bytes: &[u8],
) -> Result<(), StoreError<Infallible>> {
    let mut remaining = bytes;
    store.write_with(to, offset, bytes.len() as u64, &mut |slot| {
        let (now, later) = remaining.split_at(slot.len());
        slot.copy_from_slice(now);
        remaining = later;
        Ok(())
    })
}

fn image<M: Memory>(store: &mut Store<M>, view: View) -> Vec<u8> {
    let mut image = vec![0u8; CAPACITY as usize];
    store.export(view, &mut |offset, bytes| {
        image[offset as usize..][..bytes.len()].copy_from_slice(bytes);
    });
    image
}

fn read<M: Memory>(store: &mut Store<M>, offset: u64, length: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let Ok(()) = store.read_with(offset, length, &mut |part| {
        bytes.extend_from_slice(part);
        Ok::<(), Infallible>(())
    });
    bytes
}

/// Bytes without a repeated block.
fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut draws = fsdyno_record::seed::SplitMix64::new(seed);
    (0..length.div_ceil(8)).flat_map(|_| draws.draw().to_le_bytes()).take(length).collect()
}

#[derive(Clone, Debug)]
enum Step {
    Write { to: Destination, offset: u64, length: u64, seed: u64 },
    Fill { to: Destination, offset: u64, length: u64, byte: u8 },
    Trim { offset: u64, length: u64 },
    FailedWrite { to: Destination, offset: u64, length: u64 },
    Persist { offset: u64, length: u64 },
    PersistAll,
}

fn steps(max_steps: usize) -> impl Strategy<Value = Vec<Step>> {
    let sectors = CAPACITY / 512;
    // Near the border of two chunks, so that runs cross it and blocks are rewritten.
    let place = prop_oneof![0u64..80, 4060u64..4130, sectors - 80..sectors];
    let range = (place, 1u64..60, any::<bool>()).prop_map(move |(at, count, whole)| {
        let (at, count) = if whole { (at / 8 * 8, count.next_multiple_of(8)) } else { (at, count) };
        (at * 512, count.min(sectors - at) * 512)
    });
    let to = prop_oneof![3 => Just(Destination::Cache), 1 => Just(Destination::Medium)];
    let step = (range, 0u8..32, to, any::<u64>()).prop_map(|(range, kind, to, seed)| {
        let (offset, length) = range;
        match kind {
            0..=10 => Step::Write { to, offset, length, seed },
            11..=16 => Step::Fill { to, offset, length, byte: [0, 0xff, 7][(seed % 3) as usize] },
            17..=19 => Step::Trim { offset, length },
            20..=21 => Step::FailedWrite { to, offset, length },
            22..=30 => Step::Persist { offset, length },
            _ => Step::PersistAll,
        }
    });
    prop::collection::vec(step, 1..max_steps)
}

fn aligned(offset: u64, length: u64) -> std::ops::Range<usize> {
    let start = offset.next_multiple_of(4096) as usize;
    start..(((offset + length) / 4096 * 4096) as usize).max(start)
}

/// The reference: the visible bytes, and those on the medium.
#[derive(Clone)]
struct Views {
    visible: Vec<u8>,
    medium: Vec<u8>,
}

impl Views {
    fn new() -> Views {
        Views { visible: vec![0; CAPACITY as usize], medium: vec![0; CAPACITY as usize] }
    }

    fn write(&mut self, to: Destination, offset: u64, bytes: &[u8]) {
        self.visible[offset as usize..][..bytes.len()].copy_from_slice(bytes);
        if to == Destination::Medium {
            self.medium[offset as usize..][..bytes.len()].copy_from_slice(bytes);
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Write { to, offset, length, seed } => {
                self.write(to, offset, &pattern(seed, length as usize));
            }
            Step::Fill { to, offset, length, byte } => {
                self.write(to, offset, &vec![byte; length as usize]);
            }
            Step::Trim { offset, length } => {
                self.visible[aligned(offset, length)].fill(0);
                self.medium[aligned(offset, length)].fill(0);
            }
            Step::FailedWrite { .. } => {}
            Step::Persist { offset, length } => {
                let range = offset as usize..(offset + length) as usize;
                self.medium[range.clone()].copy_from_slice(&self.visible[range]);
            }
            Step::PersistAll => self.medium.copy_from_slice(&self.visible),
        }
    }
}

fn step<M: Memory>(store: &mut Store<M>, step: &Step) {
    match *step {
        Step::Write { to, offset, length, seed } => {
            write_to(to, store, offset, &pattern(seed, length as usize)).unwrap();
        }
        Step::Fill { to, offset, length, byte } => {
            write_to(to, store, offset, &vec![byte; length as usize]).unwrap();
        }
        Step::Trim { offset, length } => store.trim(offset, length),
        Step::FailedWrite { to, offset, length } => {
            let failed = store.write_with(to, offset, length, &mut |_| Err("the connection broke"));
            assert_eq!(failed, Err(StoreError::Source("the connection broke")));
        }
        Step::Persist { offset, length } => store.persist(offset / 512, length / 512),
        Step::PersistAll => store.persist_all(),
    }
}

/// A region that saves its content at the `at`-th access: the state that the host finds if the guest was cut at that
/// moment.
struct Cut {
    region: Region,
    touches: usize,
    at: usize,
    snapshot: Option<Vec<u8>>,
}

impl Memory for Cut {
    fn slice(&mut self, offset: u64, length: usize) -> &mut [u8] {
        if self.touches == self.at {
            self.snapshot = Some(self.region.0.clone());
        }
        self.touches += 1;
        self.region.slice(offset, length)
    }
    fn size(&self) -> u64 {
        self.region.size()
    }
}

fn range_of(step: &Step) -> std::ops::Range<usize> {
    match *step {
        Step::Write { offset, length, .. }
        | Step::Fill { offset, length, .. }
        | Step::FailedWrite { offset, length, .. }
        | Step::Trim { offset, length }
        | Step::Persist { offset, length } => offset as usize..(offset + length) as usize,
        Step::PersistAll => 0..CAPACITY as usize,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(24) })]

    #[test]
    fn both_views_hold_the_written_bytes_and_nothing_else(steps in steps(60)) {
        let mut store = Store::create(region(4 << 20), Bytes(CAPACITY)).unwrap();
        let mut views = Views::new();
        for (at, now) in steps.iter().enumerate() {
            step(&mut store, now);
            views.step(now);
            if at % 8 == 0 {
                prop_assert!(image(&mut store, View::Medium) == views.medium, "medium: {now:?}");
            }
        }
        for window in [0, 2 << 20, CAPACITY - (1 << 20)] {
            let got = read(&mut store, window, 1 << 20);
            prop_assert!(got == views.visible[window as usize..][..1 << 20]);
        }
        prop_assert!(image(&mut store, View::Visible) == views.visible);
        prop_assert!(image(&mut store, View::Medium) == views.medium);
        // All differences are listed as volatile; rewritten but equal bytes may be listed, too.
        let mut end = 0;
        let mut listed = views.medium.clone();
        store.volatile(&mut |first, length| {
            assert!(first > end || end == 0, "ranges must be ascending and not adjacent");
            end = first + length;
            let range = first as usize..end as usize;
            listed[range.clone()].copy_from_slice(&views.visible[range]);
        });
        prop_assert!(listed == views.visible, "a volatile range is not listed");

        store.persist_all();
        prop_assert!(store.is_persisted());
        store.volatile(&mut |first, _| panic!("volatile at {first} though all bytes are persisted"));
        prop_assert!(image(&mut store, View::Medium) == views.visible);
        let distinct = |block: &[u8]| block.iter().any(|byte| *byte != block[0]);
        let stored = views.visible.chunks(4096).filter(|block| distinct(block)).count();
        prop_assert_eq!(store.stored(), Bytes(stored as u64 * 4096), "a slot leaked");
    }

    #[test]
    fn a_guest_cut_at_any_moment_loses_only_the_current_request(
        steps in steps(30),
        at in 0usize..600,
        later in steps(10),
    ) {
        let region = Cut { region: region(4 << 20), touches: 0, at: usize::MAX, snapshot: None };
        let mut store = Store::create(region, Bytes(CAPACITY)).unwrap();
        let start = store.memory_mut().touches;
        store.memory_mut().at = start + at;
        let mut views = Views::new();
        let mut interrupted = None;
        for now in &steps {
            let before = views.clone();
            step(&mut store, now);
            views.step(now);
            if store.memory_mut().snapshot.is_some() {
                interrupted = Some((now.clone(), before));
                break;
            }
        }
        let Some((now, before)) = interrupted else { return Ok(()) };
        let saved = store.memory_mut().snapshot.take().unwrap();
        let mut opened = Store::open(Region(saved)).unwrap();
        let (visible, medium) = (image(&mut opened, View::Visible), image(&mut opened, View::Medium));
        let range = range_of(&now);
        for (found, before, after) in
            [(&visible, &before.visible, &views.visible), (&medium, &before.medium, &views.medium)]
        {
            prop_assert!(found[..range.start] == before[..range.start], "{now:?}");
            prop_assert!(found[range.end..] == before[range.end..], "{now:?}");
            if matches!(now, Step::Persist { .. } | Step::PersistAll | Step::Trim { .. }) {
                for block in (0..CAPACITY as usize).step_by(512) {
                    let found = &found[block..block + 512];
                    let is_old_or_new = found == &before[block..block + 512]
                        || found == &after[block..block + 512];
                    prop_assert!(is_old_or_new, "{now:?} changed another block");
                }
            }
        }
        // A write to the cache does not change the medium, complete or not.
        if let Step::Write { to: Destination::Cache, .. } | Step::Fill { to: Destination::Cache, .. } = now {
            prop_assert!(medium == before.medium, "{now:?} touched the medium");
        }
        // The reopened store remains usable.
        let mut views = Views { visible, medium };
        for now in &later {
            step(&mut opened, now);
            views.step(now);
        }
        prop_assert!(image(&mut opened, View::Visible) == views.visible);
        prop_assert!(image(&mut opened, View::Medium) == views.medium);
    }

    #[test]
    fn a_damaged_region_is_refused_or_read_without_a_panic(
        damage in prop::collection::vec((0usize..24_000, any::<u8>()), 1..40),
    ) {
        let mut store = Store::create(region(1 << 20), Bytes(CAPACITY)).unwrap();
        write(&mut store, 8192, &pattern(1, 40_960)).unwrap();
        write_to(Destination::Cache, &mut store, 12_800, &pattern(2, 20_480)).unwrap();
        store.trim(16_384, 4096);
        let mut bytes = Vec::new();
        std::mem::swap(&mut bytes, &mut store_region(store).0);
        for (at, byte) in damage {
            bytes[at] = byte;
        }
        if let Ok(mut store) = Store::open(Region(bytes)) {
            read(&mut store, 0, 1 << 20);
            store.volatile(&mut |_, _| {});
            image(&mut store, View::Medium);
            let _ = write(&mut store, 0, &pattern(2, 65_536));
            let _ = write_to(Destination::Cache, &mut store, 512, &pattern(3, 65_536));
            store.persist_all();
            store.trim(0, 1 << 20);
        }
    }
}

/// The region of a store, as the host finds it in the file.
fn store_region(mut store: Store<Region>) -> Region {
    std::mem::replace(store.memory_mut(), Region(Vec::new()))
}

#[test]
fn a_host_that_opens_the_same_memory_finds_the_same_disk() {
    let mut store = Store::create(region(1 << 20), Bytes(CAPACITY)).unwrap();
    let bytes = pattern(3, 20_480);
    write(&mut store, 4 << 20, &bytes).unwrap();
    let mut memory = store_region(store);
    let mut opened = Store::open(&mut memory).unwrap();
    assert_eq!((opened.capacity(), opened.stored()), (Bytes(CAPACITY), Bytes(20_480)));
    assert_eq!(read(&mut opened, 4 << 20, 20_480), bytes);
}

#[test]
fn a_region_that_is_not_a_store_is_refused() {
    let error = |bytes: Vec<u8>| Store::open(Region(bytes)).map(|_| ()).unwrap_err();
    assert_eq!(error(vec![]), OpenError::Corrupt("size"));
    assert_eq!(error(vec![0; 8192]), OpenError::Corrupt("magic number"));
    let memory = store_region(Store::create(region(1 << 20), Bytes(CAPACITY)).unwrap());
    let cut = memory.0.len() / 2;
    assert_eq!(error(memory.0[..cut].to_vec()), OpenError::Corrupt("number of slots"));
    let mut newer = memory.0.clone();
    newer[8] = 9;
    assert_eq!(error(newer), OpenError::Corrupt("version"));
    assert!(Store::create(Region(vec![0; 4096]), Bytes(CAPACITY)).is_err());
}

#[test]
fn fresh_blocks_are_written_and_read_in_long_slices() {
    let mut store = Store::create(region(8 << 20), Bytes(CAPACITY)).unwrap();
    let mut lengths = Vec::new();
    store
        .write_with(Destination::Medium, 0, 2 << 20, &mut |slot| {
            lengths.push(slot.len());
            slot.copy_from_slice(&pattern(lengths.len() as u64, slot.len()));
            Ok::<(), Infallible>(())
        })
        .unwrap();
    assert_eq!(lengths, [1 << 20, 1 << 20]);
    lengths.clear();
    let Ok(()) = store.read_with(0, 2 << 20, &mut |part| {
        lengths.push(part.len());
        Ok::<(), Infallible>(())
    });
    assert_eq!(lengths, [1 << 20, 1 << 20]);
}

#[test]
fn a_full_region_is_reported_and_trim_frees_space() {
    let mut store = Store::create(region(64 << 10), Bytes(CAPACITY)).unwrap();
    let bytes = pattern(5, 4096);
    let blocks =
        (0u64..).take_while(|block| write(&mut store, block * 4096, &bytes).is_ok()).count();
    // Every unneeded page of entries is space for a block.
    assert!((16..=21).contains(&blocks), "{blocks} blocks fit into 64 KiB");
    assert_eq!(write(&mut store, 1 << 20, &bytes), Err(StoreError::Full));
    store.trim(0, 8192);
    assert_eq!(write(&mut store, 1 << 20, &bytes), Ok(()));
    assert_eq!(read(&mut store, 1 << 20, 4096), bytes);
    assert_eq!(read(&mut store, 0, 8192), vec![0; 8192]);
}

#[test]
fn a_block_of_one_byte_takes_no_space() {
    let mut store = Store::create(region(64 << 10), Bytes(CAPACITY)).unwrap();
    write(&mut store, 0, &vec![0x6b; 4 << 20]).unwrap();
    assert_eq!(store.stored(), Bytes(0));
    assert_eq!(read(&mut store, 12_288, 5000), vec![0x6b; 5000]);
    write(&mut store, 512, &[1; 512]).unwrap();
    assert_eq!(store.stored(), Bytes(4096));
    assert_eq!(read(&mut store, 0, 1024), [vec![0x6b; 512], vec![1; 512]].concat());
}

#[test]
fn nothing_is_written_beyond_the_end_and_zeros_are_read_there() {
    let mut store = Store::create(region(64 << 10), Bytes(CAPACITY)).unwrap();
    assert_eq!(write(&mut store, CAPACITY - 512, &[1; 1024]), Err(StoreError::PastEnd));
    assert_eq!(read(&mut store, CAPACITY - 512, 8 << 20), vec![0; 8 << 20]);
    store.trim(CAPACITY - 512, u64::MAX);
}
