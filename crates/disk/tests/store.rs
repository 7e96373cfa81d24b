//! The store against two plain vectors, what the drive answers and what is on the medium: no byte
//! lost, none invented, room given back, whatever the moment at which somebody looks.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests may panic")]

use std::convert::Infallible;

use fsdyno_disk::store::{MAX_SLICE, Memory, OpenError, Store, StoreError, To, View, region_size};
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
    // Not clear: what a store reads must not depend on what lay there before.
    Region(vec![0xa5; region_size(Bytes(CAPACITY), Bytes(limit)) as usize])
}

fn write(
    store: &mut Store<Region>,
    offset: u64,
    bytes: &[u8],
) -> Result<(), StoreError<Infallible>> {
    write_to(To::Medium, store, offset, bytes)
}

fn write_to<M: Memory>(
    to: To,
    store: &mut Store<M>,
    offset: u64,
    bytes: &[u8],
) -> Result<(), StoreError<Infallible>> {
    let mut left = bytes;
    store.write_with(to, offset, bytes.len() as u64, &mut |slot| {
        let (now, later) = left.split_at(slot.len());
        slot.copy_from_slice(now);
        left = later;
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

/// Bytes that no block-sized part of repeats.
fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut draws = fsdyno_record::seed::SplitMix64::new(seed);
    (0..length.div_ceil(8)).flat_map(|_| draws.draw().to_le_bytes()).take(length).collect()
}

#[derive(Clone, Debug)]
enum Step {
    Write { to: To, offset: u64, length: u64, seed: u64 },
    Fill { to: To, offset: u64, length: u64, byte: u8 },
    Trim { offset: u64, length: u64 },
    FailedWrite { to: To, offset: u64, length: u64 },
    Land { offset: u64, length: u64 },
    LandAll,
}

fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let sectors = CAPACITY / 512;
    // Near the border of two chunks, so that runs cross it and blocks meet again.
    let place = prop_oneof![0u64..80, 4060u64..4130, sectors - 80..sectors];
    let range = (place, 1u64..60, any::<bool>()).prop_map(move |(at, count, whole)| {
        let (at, count) = if whole { (at / 8 * 8, count.next_multiple_of(8)) } else { (at, count) };
        (at * 512, count.min(sectors - at) * 512)
    });
    let to = prop_oneof![3 => Just(To::Cache), 1 => Just(To::Medium)];
    let step = (range, 0u8..32, to, any::<u64>()).prop_map(|(range, kind, to, seed)| {
        let (offset, length) = range;
        match kind {
            0..=10 => Step::Write { to, offset, length, seed },
            11..=16 => Step::Fill { to, offset, length, byte: [0, 0xff, 7][(seed % 3) as usize] },
            17..=19 => Step::Trim { offset, length },
            20..=21 => Step::FailedWrite { to, offset, length },
            22..=30 => Step::Land { offset, length },
            _ => Step::LandAll,
        }
    });
    prop::collection::vec(step, 1..most)
}

fn aligned(offset: u64, length: u64) -> std::ops::Range<usize> {
    let start = offset.next_multiple_of(4096) as usize;
    start..(((offset + length) / 4096 * 4096) as usize).max(start)
}

/// The reference: what the drive answers, and what is on the medium.
#[derive(Clone)]
struct Faces {
    visible: Vec<u8>,
    medium: Vec<u8>,
}

impl Faces {
    fn new() -> Faces {
        Faces { visible: vec![0; CAPACITY as usize], medium: vec![0; CAPACITY as usize] }
    }

    fn write(&mut self, to: To, offset: u64, bytes: &[u8]) {
        self.visible[offset as usize..][..bytes.len()].copy_from_slice(bytes);
        if to == To::Medium {
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
            Step::Land { offset, length } => {
                let range = offset as usize..(offset + length) as usize;
                self.medium[range.clone()].copy_from_slice(&self.visible[range]);
            }
            Step::LandAll => self.medium.copy_from_slice(&self.visible),
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
            let failed = store.write_with(to, offset, length, &mut |_| Err("the socket broke"));
            assert_eq!(failed, Err(StoreError::Source("the socket broke")));
        }
        Step::Land { offset, length } => store.land(offset / 512, length / 512),
        Step::LandAll => store.land_all(),
    }
}

/// A region that remembers what it was when it was touched for the `at`-th time: what a host finds
/// if the guest was cut there.
struct Cut {
    now: Region,
    touches: usize,
    at: usize,
    then: Option<Vec<u8>>,
}

impl Memory for Cut {
    fn slice(&mut self, offset: u64, length: usize) -> &mut [u8] {
        if self.touches == self.at {
            self.then = Some(self.now.0.clone());
        }
        self.touches += 1;
        self.now.slice(offset, length)
    }
    fn size(&self) -> u64 {
        self.now.size()
    }
}

fn range_of(step: &Step) -> std::ops::Range<usize> {
    match *step {
        Step::Write { offset, length, .. }
        | Step::Fill { offset, length, .. }
        | Step::FailedWrite { offset, length, .. }
        | Step::Trim { offset, length }
        | Step::Land { offset, length } => offset as usize..(offset + length) as usize,
        Step::LandAll => 0..CAPACITY as usize,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(24) })]

    #[test]
    fn both_faces_hold_what_was_written_and_nothing_else(steps in steps(60)) {
        let mut store = Store::create(region(4 << 20), Bytes(CAPACITY)).unwrap();
        let mut faces = Faces::new();
        for (at, now) in steps.iter().enumerate() {
            step(&mut store, now);
            faces.step(now);
            if at % 8 == 0 {
                prop_assert!(image(&mut store, View::Medium) == faces.medium, "medium: {now:?}");
            }
        }
        for window in [0, 2 << 20, CAPACITY - (1 << 20)] {
            let got = read(&mut store, window, 1 << 20);
            prop_assert!(got == faces.visible[window as usize..][..1 << 20]);
        }
        prop_assert!(image(&mut store, View::Visible) == faces.visible);
        prop_assert!(image(&mut store, View::Medium) == faces.medium);
        // Where the two differ is listed as volatile; more may be, where equal bytes were written.
        let mut end = 0;
        let mut listed = faces.medium.clone();
        store.volatile(&mut |first, length| {
            assert!(first > end || end == 0, "ranges in rising order, none beside another");
            end = first + length;
            let range = first as usize..end as usize;
            listed[range.clone()].copy_from_slice(&faces.visible[range]);
        });
        prop_assert!(listed == faces.visible, "a volatile range is not listed");

        store.land_all();
        prop_assert!(store.is_landed());
        store.volatile(&mut |first, _| panic!("volatile at {first} though all has landed"));
        prop_assert!(image(&mut store, View::Medium) == faces.visible);
        let distinct = |block: &[u8]| block.iter().any(|byte| *byte != block[0]);
        let stored = faces.visible.chunks(4096).filter(|block| distinct(block)).count();
        prop_assert_eq!(store.stored(), Bytes(stored as u64 * 4096), "a slot leaked");
    }

    #[test]
    fn a_guest_cut_at_any_moment_loses_nothing_but_the_request_in_hand(
        steps in steps(30),
        at in 0usize..600,
        later in steps(10),
    ) {
        let region = Cut { now: region(4 << 20), touches: 0, at: usize::MAX, then: None };
        let mut store = Store::create(region, Bytes(CAPACITY)).unwrap();
        let start = store.memory_mut().touches;
        store.memory_mut().at = start + at;
        let mut faces = Faces::new();
        let mut hand = None;
        for now in &steps {
            let before = faces.clone();
            step(&mut store, now);
            faces.step(now);
            if store.memory_mut().then.is_some() {
                hand = Some((now.clone(), before));
                break;
            }
        }
        let Some((now, before)) = hand else { return Ok(()) };
        let left = store.memory_mut().then.take().unwrap();
        let mut opened = Store::open(Region(left)).unwrap();
        let (visible, medium) = (image(&mut opened, View::Visible), image(&mut opened, View::Medium));
        let range = range_of(&now);
        for (found, before, after) in
            [(&visible, &before.visible, &faces.visible), (&medium, &before.medium, &faces.medium)]
        {
            prop_assert!(found[..range.start] == before[..range.start], "{now:?}");
            prop_assert!(found[range.end..] == before[range.end..], "{now:?}");
            if matches!(now, Step::Land { .. } | Step::LandAll | Step::Trim { .. }) {
                for block in (0..CAPACITY as usize).step_by(512) {
                    let found = &found[block..block + 512];
                    let right = found == &before[block..block + 512]
                        || found == &after[block..block + 512];
                    prop_assert!(right, "{now:?} left another block");
                }
            }
        }
        // What goes to the cache does not touch the medium, half done or not.
        if let Step::Write { to: To::Cache, .. } | Step::Fill { to: To::Cache, .. } = now {
            prop_assert!(medium == before.medium, "{now:?} touched the medium");
        }
        // And the store that was left is one to go on with.
        let mut faces = Faces { visible, medium };
        for now in &later {
            step(&mut opened, now);
            faces.step(now);
        }
        prop_assert!(image(&mut opened, View::Visible) == faces.visible);
        prop_assert!(image(&mut opened, View::Medium) == faces.medium);
    }

    #[test]
    fn a_damaged_region_is_refused_or_read_without_a_panic(
        damage in prop::collection::vec((0usize..24_000, any::<u8>()), 1..40),
    ) {
        let mut store = Store::create(region(1 << 20), Bytes(CAPACITY)).unwrap();
        write(&mut store, 8192, &pattern(1, 40_960)).unwrap();
        write_to(To::Cache, &mut store, 12_800, &pattern(2, 20_480)).unwrap();
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
            let _ = write_to(To::Cache, &mut store, 512, &pattern(3, 65_536));
            store.land_all();
            store.trim(0, 1 << 20);
        }
    }
}

/// The region out of a store, as the host finds it in the file.
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
fn what_is_no_store_is_refused() {
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
fn fresh_blocks_come_in_long_slices_and_leave_in_long_slices() {
    let mut store = Store::create(region(8 << 20), Bytes(CAPACITY)).unwrap();
    let mut lengths = Vec::new();
    store
        .write_with(To::Medium, 0, 2 << 20, &mut |slot| {
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
fn a_full_region_says_so_and_trim_makes_room() {
    let mut store = Store::create(region(64 << 10), Bytes(CAPACITY)).unwrap();
    let bytes = pattern(5, 4096);
    let room = (0u64..).take_while(|block| write(&mut store, block * 4096, &bytes).is_ok()).count();
    // Every page of entries that was not needed is room for a block.
    assert!((16..=21).contains(&room), "{room} blocks went into 64 KiB");
    assert_eq!(write(&mut store, 1 << 20, &bytes), Err(StoreError::Full));
    store.trim(0, 8192);
    assert_eq!(write(&mut store, 1 << 20, &bytes), Ok(()));
    assert_eq!(read(&mut store, 1 << 20, 4096), bytes);
    assert_eq!(read(&mut store, 0, 8192), vec![0; 8192]);
}

#[test]
fn a_block_of_one_byte_takes_no_room() {
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
    assert_eq!(write(&mut store, CAPACITY - 512, &[1; 1024]), Err(StoreError::Beyond));
    assert_eq!(read(&mut store, CAPACITY - 512, 8 << 20), vec![0; 8 << 20]);
    store.trim(CAPACITY - 512, u64::MAX);
}
