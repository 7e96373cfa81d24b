//! The store against a plain vector: no byte lost, none invented, room given back.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests may panic")]

use std::convert::Infallible;

use fsdyno_disk::store::{MAX_SLICE, Memory, OpenError, Store, StoreError, region_size};
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

/// The same region, by reference, as a host opens it afterwards.
struct Borrowed<'a>(&'a mut Region);

impl Memory for Borrowed<'_> {
    fn slice(&mut self, offset: u64, length: usize) -> &mut [u8] {
        self.0.slice(offset, length)
    }
    fn size(&self) -> u64 {
        self.0.size()
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
    let mut left = bytes;
    store.write_with(offset, bytes.len() as u64, &mut |slot| {
        let (now, later) = left.split_at(slot.len());
        slot.copy_from_slice(now);
        left = later;
        Ok(())
    })
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
    Write { offset: u64, length: u64, seed: u64 },
    Fill { offset: u64, length: u64, byte: u8 },
    Trim { offset: u64, length: u64 },
    FailedWrite { offset: u64, length: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let sectors = CAPACITY / 512;
    // Near the border of two chunks, so that runs cross it and blocks meet again.
    let place = prop_oneof![0u64..80, 8150u64..8250, sectors - 80..sectors];
    let range = (place, 1u64..60, any::<bool>()).prop_map(move |(at, count, whole)| {
        let (at, count) = if whole { (at / 8 * 8, count.next_multiple_of(8)) } else { (at, count) };
        (at * 512, count.min(sectors - at) * 512)
    });
    let step =
        (range, 0u8..8, any::<u64>()).prop_map(|((offset, length), kind, seed)| match kind {
            0..=2 => Step::Write { offset, length, seed },
            3..=4 => Step::Fill { offset, length, byte: [0, 0xff, 7][(seed % 3) as usize] },
            5..=6 => Step::Trim { offset, length },
            _ => Step::FailedWrite { offset, length },
        });
    prop::collection::vec(step, 1..60)
}

fn aligned(offset: u64, length: u64) -> std::ops::Range<usize> {
    offset.next_multiple_of(4096) as usize..((offset + length) / 4096 * 4096) as usize
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(32) })]

    #[test]
    fn what_was_written_is_read_and_nothing_else(steps in steps()) {
        let mut store = Store::create(region(4 << 20), Bytes(CAPACITY)).unwrap();
        let mut model = vec![0u8; CAPACITY as usize];
        for step in &steps {
            match *step {
                Step::Write { offset, length, seed } => {
                    let bytes = pattern(seed, length as usize);
                    write(&mut store, offset, &bytes).unwrap();
                    model[offset as usize..][..length as usize].copy_from_slice(&bytes);
                }
                Step::Fill { offset, length, byte } => {
                    let bytes = vec![byte; length as usize];
                    write(&mut store, offset, &bytes).unwrap();
                    model[offset as usize..][..length as usize].copy_from_slice(&bytes);
                }
                Step::Trim { offset, length } => {
                    store.trim(offset, length);
                    let whole = aligned(offset, length);
                    if whole.start < whole.end {
                        model[whole].fill(0);
                    }
                    // What TRIM does to the parts of blocks at its ends is its own business, as
                    // long as it is either zero or what it was, and stays so.
                    for at in offset..offset + length {
                        let at = at as usize;
                        let got = read(&mut store, at as u64 / 512 * 512, 512)[at % 512];
                        prop_assert!(got == 0 || got == model[at]);
                        model[at] = got;
                    }
                }
                Step::FailedWrite { offset, length } => {
                    let failed = store.write_with(offset, length, &mut |_| Err("the socket broke"));
                    prop_assert_eq!(failed, Err(StoreError::Source("the socket broke")));
                }
            }
        }
        for window in [0, 4 << 20, CAPACITY - (1 << 20)] {
            let got = read(&mut store, window, 1 << 20);
            prop_assert!(got == model[window as usize..][..1 << 20]);
        }
        let distinct = |block: &[u8]| block.iter().any(|byte| *byte != block[0]);
        let stored = model.chunks(4096).filter(|block| distinct(block)).count() as u64 * 4096;
        // A block that TRIM cleared in parts may have become constant without being looked at.
        prop_assert!(store.stored().0 >= stored && store.stored().0 <= stored + 4096 * 60);
        let mut image = vec![0u8; CAPACITY as usize];
        store.export(&mut |offset, bytes| {
            image[offset as usize..][..bytes.len()].copy_from_slice(bytes);
        });
        prop_assert!(image == model, "the exported image differs");
    }

    #[test]
    fn a_damaged_region_is_refused_or_read_without_a_panic(
        damage in prop::collection::vec((0usize..24_000, any::<u8>()), 1..40),
    ) {
        let mut store = Store::create(region(1 << 20), Bytes(CAPACITY)).unwrap();
        write(&mut store, 8192, &pattern(1, 40_960)).unwrap();
        store.trim(16_384, 4096);
        let mut bytes = Vec::new();
        std::mem::swap(&mut bytes, &mut store_region(store).0);
        for (at, byte) in damage {
            bytes[at] = byte;
        }
        if let Ok(mut store) = Store::open(Region(bytes)) {
            read(&mut store, 0, 1 << 20);
            let _ = write(&mut store, 0, &pattern(2, 65_536));
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
    let mut opened = Store::open(Borrowed(&mut memory)).unwrap();
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
        .write_with(0, 2 << 20, &mut |slot| {
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
    assert!((16..=18).contains(&room), "{room} blocks went into 64 KiB");
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
