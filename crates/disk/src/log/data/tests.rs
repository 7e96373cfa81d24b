use fsdyno_record::Bytes;
use proptest::prelude::*;

use super::*;
use crate::store::{To, View, region_size};
use crate::{Action, Request, Store};

const CAPACITY: u64 = 4 << 20;

fn request(action: Action, sector: u64, sectors: u32) -> Request {
    Request { id: 1, action, sector, sectors, fua: false }
}

fn empty() -> Store<Vec<u8>> {
    let room = region_size(Bytes(CAPACITY), Bytes(4 * CAPACITY));
    Store::create(vec![0; room as usize], Bytes(CAPACITY)).unwrap()
}

fn image(store: &mut Store<Vec<u8>>, view: View) -> Vec<u8> {
    let mut image = vec![0; CAPACITY as usize];
    store.export(view, &mut |at, bytes| {
        image[at as usize..][..bytes.len()].copy_from_slice(bytes);
    });
    image
}

/// Something that a server does.
#[derive(Clone, Debug)]
enum Done {
    Write { sector: u64, fill: Vec<(u8, u16)>, untimed: bool },
    Land(u64, u64),
    LandAll,
    Trim(u64, u32),
}

fn done() -> impl Strategy<Value = Done> {
    let sectors = CAPACITY / SECTOR;
    let fill = prop::collection::vec((any::<u8>(), 1u16..1500), 1..4);
    prop_oneof![
        4 => (0..sectors, fill, any::<bool>())
            .prop_map(|(sector, fill, untimed)| Done::Write { sector, fill, untimed }),
        2 => (0..sectors, 1..64u64).prop_map(|(first, count)| Done::Land(first, count)),
        1 => Just(Done::LandAll),
        1 => (0..sectors, 1..64u32).prop_map(|(first, count)| Done::Trim(first, count)),
    ]
}

/// Bytes in runs of one byte, whole sectors of them, within the disk.
fn filled(sector: u64, fill: &[(u8, u16)]) -> Vec<u8> {
    let mut bytes: Vec<u8> =
        fill.iter().flat_map(|(byte, count)| vec![*byte; usize::from(*count) * 11]).collect();
    let most = (CAPACITY - sector * SECTOR) as usize;
    bytes.resize(bytes.len().next_multiple_of(SECTOR as usize).min(most), 3);
    bytes
}

proptest! {
    /// Replayed to any moment, the log is what the store was then, in both views.
    #[test]
    fn a_replay_is_the_store_at_any_moment(steps in prop::collection::vec(done(), 1..24), to in 0usize..24) {
        let mut held = vec![0; 4 << 20];
        let (mut store, mut then) = (empty(), None);
        let mut writer = Writer::create(&mut held, 4 << 20, Bytes(CAPACITY));
        let mut events = 0;
        for (index, step) in steps.iter().enumerate() {
            if index == to {
                then = Some((events, image(&mut store, View::Visible), image(&mut store, View::Medium)));
            }
            let at = Nanos(index as u64);
            match step {
                Done::Write { sector, fill, untimed } => {
                    let bytes = filled(*sector, fill);
                    let (offset, length) = (sector * SECTOR, bytes.len() as u64);
                    let to = if *untimed { To::Medium } else { To::Cache };
                    let mut rest = &bytes[..];
                    writer.begin(offset, length);
                    store.write_with(to, offset, length, &mut |slice: &mut [u8]| {
                        let (part, more) = rest.split_at(slice.len());
                        slice.copy_from_slice(part);
                        writer.bytes(part);
                        rest = more;
                        Ok::<_, ()>(())
                    }).unwrap();
                    writer.whole(at, &request(Action::Write, *sector, (length / SECTOR) as u32), *untimed);
                }
                Done::Land(first, count) => {
                    store.land(*first, *count);
                    writer.landed(at, *first, *count);
                }
                Done::LandAll => {
                    store.land_all();
                    writer.landed_all(at);
                }
                Done::Trim(first, count) => {
                    store.trim(first * SECTOR, u64::from(*count) * SECTOR);
                    writer.came(at, What::Trim, &request(Action::Trim, *first, *count), false);
                }
            }
            events += 1;
        }
        let (events, visible, medium) = then
            .unwrap_or_else(|| (events, image(&mut store, View::Visible), image(&mut store, View::Medium)));
        let mut log = DataLog::open(held).unwrap();
        prop_assert_eq!(log.events().len(), steps.len());
        let mut again = empty();
        log.replay(0..events, &mut again).unwrap();
        prop_assert!(image(&mut again, View::Visible) == visible);
        prop_assert!(image(&mut again, View::Medium) == medium);
    }
}

#[test]
fn an_answer_leads_to_what_it_answers_and_its_bytes() {
    let mut held = vec![0; 1 << 20];
    let mut writer = Writer::create(&mut held, 1 << 20, Bytes(CAPACITY));
    let write = Request { fua: true, ..request(Action::Write, 1, 16) };
    writer.begin(512, 8192);
    let bytes: Vec<u8> = (0..8192u32).map(|at| (at / 3000) as u8).collect();
    bytes.chunks(1000).for_each(|part| writer.bytes(part));
    let wrote = writer.whole(Nanos(10), &write, false);
    writer.answered(Nanos(11), &request(Action::Read, 5, 8), false, 0);
    let flush = request(Action::Flush, 0, 0);
    let flushed = writer.came(Nanos(12), What::Flush, &flush, false);
    writer.answered(Nanos(20), &flush, false, flushed);
    writer.answered(Nanos(21), &write, false, wrote);
    let mut log = DataLog::open(held).unwrap();
    assert_eq!((log.requests(), log.events().len(), log.lost()), (3, 5, 0));
    assert_eq!([0, 1, 2, 3].map(|number| log.request(number)), [Some(1), Some(2), Some(0), None]);
    assert_eq!([9, 10, 12, 99].map(|time| log.until(Nanos(time))), [0, 1, 3, 5]);
    assert!(log.events()[0].fua && log.events()[3].of == Some(2));
    let mut found = vec![0; 9216];
    log.bytes_of(0, &mut |at, part| found[at as usize..][..part.len()].copy_from_slice(part));
    assert!(found[512..8704] == bytes && found[..512] == [0; 512]);
    log.bytes_of(1, &mut |_, _| panic!("a read has no bytes"));
}

#[test]
fn a_block_of_one_byte_takes_no_room() {
    let mut held = vec![0; 8192];
    let mut writer = Writer::create(&mut held, 8192, Bytes(CAPACITY));
    for _ in 0..20 {
        writer.begin(0, 8192);
        writer.bytes(&[0; 8192]);
        writer.whole(Nanos(1), &request(Action::Write, 0, 16), false);
    }
    assert_eq!(DataLog::open(held).unwrap().lost(), 20, "a write is written before it is known");
    let mut held = vec![0; 32768];
    let mut writer = Writer::create(&mut held, 32768, Bytes(CAPACITY));
    for _ in 0..200 {
        writer.begin(0, 8192);
        writer.bytes(&[0; 8192]);
        writer.whole(Nanos(1), &request(Action::Write, 0, 16), false);
    }
    assert_eq!(DataLog::open(held).unwrap().lost(), 0);
}

#[test]
fn what_finds_no_room_is_counted_and_nothing_comes_after_it() {
    let mut held = vec![0; 16384];
    let mut writer = Writer::create(&mut held, 16384, Bytes(CAPACITY));
    let bytes: Vec<u8> = (0..8192u32).map(|at| at as u8).collect();
    for _ in 0..3 {
        writer.begin(0, 8192);
        writer.bytes(&bytes);
        writer.whole(Nanos(1), &request(Action::Write, 0, 16), false);
    }
    writer.came(Nanos(2), What::Flush, &request(Action::Flush, 0, 0), false);
    let log = DataLog::open(held).unwrap();
    assert_eq!((log.events().len(), log.lost()), (1, 3));
}

#[test]
fn what_is_no_log_is_refused() {
    assert!(DataLog::open(vec![0; 8192]).is_err());
    let mut held = vec![0; 8192];
    let mut writer = Writer::create(&mut held, 8192, Bytes(CAPACITY));
    writer.landed_all(Nanos(1));
    let whole = held.clone();
    assert!(DataLog::open(whole).is_ok());
    for at in [0, 8, 17, 24, 4096 + 12] {
        let mut torn = held.clone();
        torn[at] ^= 0x41;
        assert!(DataLog::open(torn).is_err(), "{at}");
    }
}
