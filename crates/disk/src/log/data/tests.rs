use fsdyno_record::Bytes;
use proptest::prelude::*;

use super::*;
use crate::store::{Destination, View, region_size};
use crate::{Action, Request, Store};

const CAPACITY: u64 = 4 << 20;

fn request(action: Action, sector: u64, sectors: u32) -> Request {
    Request { id: 1, action, sector, sectors, fua: false }
}

fn empty_store() -> Store<Vec<u8>> {
    let size = region_size(Bytes(CAPACITY), Bytes(4 * CAPACITY));
    Store::create(vec![0; size as usize], Bytes(CAPACITY)).unwrap()
}

fn image(store: &mut Store<Vec<u8>>, view: View) -> Vec<u8> {
    let mut image = vec![0; CAPACITY as usize];
    store.export(view, &mut |at, bytes| {
        image[at as usize..][..bytes.len()].copy_from_slice(bytes);
    });
    image
}

/// An action of a server.
#[derive(Clone, Debug)]
enum Step {
    Write { sector: u64, fill: Vec<(u8, u16)>, untimed: bool },
    Persist(u64, u64),
    PersistAll,
    Trim(u64, u32),
}

fn step() -> impl Strategy<Value = Step> {
    let sectors = CAPACITY / SECTOR;
    let fill = prop::collection::vec((any::<u8>(), 1u16..1500), 1..4);
    prop_oneof![
        4 => (0..sectors, fill, any::<bool>())
            .prop_map(|(sector, fill, untimed)| Step::Write { sector, fill, untimed }),
        2 => (0..sectors, 1..64u64).prop_map(|(first, count)| Step::Persist(first, count)),
        1 => Just(Step::PersistAll),
        1 => (0..sectors, 1..64u32).prop_map(|(first, count)| Step::Trim(first, count)),
    ]
}

/// Bytes in runs of one repeated byte, padded to whole sectors, within the disk.
fn filled(sector: u64, fill: &[(u8, u16)]) -> Vec<u8> {
    let mut bytes: Vec<u8> =
        fill.iter().flat_map(|(byte, count)| vec![*byte; usize::from(*count) * 11]).collect();
    let maximum = (CAPACITY - sector * SECTOR) as usize;
    bytes.resize(bytes.len().next_multiple_of(SECTOR as usize).min(maximum), 3);
    bytes
}

/// Number of random logs.
fn cases() -> u32 {
    if std::env::var("FSDYNO_TEST").is_ok_and(|value| value == "full") { 256 } else { 48 }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases()) })]

    /// A replay up to any event equals the store at that time, in both views.
    #[test]
    fn a_replay_equals_the_store_at_any_time(steps in prop::collection::vec(step(), 1..24), to in 0usize..24) {
        let mut memory = vec![0; 4 << 20];
        let (mut store, mut expected) = (empty_store(), None);
        let mut writer = Writer::create(&mut memory, 4 << 20, Bytes(CAPACITY));
        let mut events = 0;
        for (index, step) in steps.iter().enumerate() {
            if index == to {
                expected = Some((events, image(&mut store, View::Visible), image(&mut store, View::Medium)));
            }
            let at = Nanos(index as u64);
            match step {
                Step::Write { sector, fill, untimed } => {
                    let bytes = filled(*sector, fill);
                    let (offset, length) = (sector * SECTOR, bytes.len() as u64);
                    let to = if *untimed { Destination::Medium } else { Destination::Cache };
                    let mut remaining = &bytes[..];
                    writer.begin_write(offset, length);
                    store.write_with(to, offset, length, &mut |slice: &mut [u8]| {
                        let (part, after) = remaining.split_at(slice.len());
                        slice.copy_from_slice(part);
                        writer.add_bytes(part);
                        remaining = after;
                        Ok::<_, ()>(())
                    }).unwrap();
                    writer.end_write(at, &request(Action::Write, *sector, (length / SECTOR) as u32), *untimed);
                }
                Step::Persist(first, count) => {
                    store.persist(*first, *count);
                    writer.add_persisted(at, *first, *count);
                }
                Step::PersistAll => {
                    store.persist_all();
                    writer.add_all_persisted(at);
                }
                Step::Trim(first, count) => {
                    store.trim(first * SECTOR, u64::from(*count) * SECTOR);
                    writer.add_request(at, EventKind::Trim, &request(Action::Trim, *first, *count), false);
                }
            }
            events += 1;
        }
        let (events, visible, medium) = expected
            .unwrap_or_else(|| (events, image(&mut store, View::Visible), image(&mut store, View::Medium)));
        let mut log = DataLog::open(memory).unwrap();
        prop_assert_eq!(log.events().len(), steps.len());
        let mut replayed = empty_store();
        log.replay(0..events, &mut replayed).unwrap();
        prop_assert!(image(&mut replayed, View::Visible) == visible);
        prop_assert!(image(&mut replayed, View::Medium) == medium);
    }
}

#[test]
fn a_reply_leads_to_its_request_and_its_bytes() {
    let mut memory = vec![0; 1 << 20];
    let mut writer = Writer::create(&mut memory, 1 << 20, Bytes(CAPACITY));
    let write = Request { fua: true, ..request(Action::Write, 1, 16) };
    writer.begin_write(512, 8192);
    let bytes: Vec<u8> = (0..8192u32).map(|at| (at / 3000) as u8).collect();
    bytes.chunks(1000).for_each(|part| writer.add_bytes(part));
    let write_number = writer.end_write(Nanos(10), &write, false);
    writer.add_reply(Nanos(11), &request(Action::Read, 5, 8), false, 0);
    let flush = request(Action::Flush, 0, 0);
    let flush_number = writer.add_request(Nanos(12), EventKind::Flush, &flush, false);
    writer.add_reply(Nanos(20), &flush, false, flush_number);
    writer.add_reply(Nanos(21), &write, false, write_number);
    let mut log = DataLog::open(memory).unwrap();
    assert_eq!((log.requests(), log.events().len(), log.lost_events()), (3, 5, 0));
    assert_eq!([0, 1, 2, 3].map(|number| log.request(number)), [Some(1), Some(2), Some(0), None]);
    assert_eq!([9, 10, 12, 99].map(|time| log.events_until(Nanos(time))), [0, 1, 3, 5]);
    assert!(log.events()[0].fua && log.events()[3].request == Some(2));
    let mut content = vec![0; 9216];
    log.bytes_of(0, &mut |at, part| content[at as usize..][..part.len()].copy_from_slice(part));
    assert!(content[512..8704] == bytes && content[..512] == [0; 512]);
    log.bytes_of(1, &mut |_, _| panic!("a read has no bytes"));
}

#[test]
fn a_block_filled_with_one_repeated_byte_takes_no_space() {
    let mut memory = vec![0; 8192];
    let mut writer = Writer::create(&mut memory, 8192, Bytes(CAPACITY));
    for _ in 0..20 {
        writer.begin_write(0, 8192);
        writer.add_bytes(&[0; 8192]);
        writer.end_write(Nanos(1), &request(Action::Write, 0, 16), false);
    }
    assert_eq!(
        DataLog::open(memory).unwrap().lost_events(),
        20,
        "a write needs space for its raw bytes before the log knows that they repeat"
    );
    let mut memory = vec![0; 32768];
    let mut writer = Writer::create(&mut memory, 32768, Bytes(CAPACITY));
    for _ in 0..200 {
        writer.begin_write(0, 8192);
        writer.add_bytes(&[0; 8192]);
        writer.end_write(Nanos(1), &request(Action::Write, 0, 16), false);
    }
    assert_eq!(DataLog::open(memory).unwrap().lost_events(), 0);
}

#[test]
fn lost_events_are_counted_and_nothing_is_added_after_them() {
    let mut memory = vec![0; 16384];
    let mut writer = Writer::create(&mut memory, 16384, Bytes(CAPACITY));
    let bytes: Vec<u8> = (0..8192u32).map(|at| at as u8).collect();
    for _ in 0..3 {
        writer.begin_write(0, 8192);
        writer.add_bytes(&bytes);
        writer.end_write(Nanos(1), &request(Action::Write, 0, 16), false);
    }
    writer.add_request(Nanos(2), EventKind::Flush, &request(Action::Flush, 0, 0), false);
    let log = DataLog::open(memory).unwrap();
    assert_eq!((log.events().len(), log.lost_events()), (1, 3));
}

#[test]
fn a_region_that_is_not_a_log_is_refused() {
    assert!(DataLog::open(vec![0; 8192]).is_err());
    let mut memory = vec![0; 8192];
    let mut writer = Writer::create(&mut memory, 8192, Bytes(CAPACITY));
    writer.add_all_persisted(Nanos(1));
    let whole = memory.clone();
    assert!(DataLog::open(whole).is_ok());
    for at in [0, 8, 17, 24, 4096 + 12] {
        let mut torn = memory.clone();
        torn[at] ^= 0x41;
        assert!(DataLog::open(torn).is_err(), "{at}");
    }
}
