use fsdyno_disk::log::data::Writer;
use fsdyno_disk::store::{View, region_size};
use fsdyno_disk::{Action, Request};
use fsdyno_record::{Bytes, Nanos};
use proptest::prelude::*;

use super::*;
use crate::cut::Moment;

const CAPACITY: u64 = 256 << 10;

fn request(action: Action, sector: u64, sectors: u32) -> Request {
    Request { id: 1, action, sector, sectors, fua: false }
}

fn empty() -> Store<Vec<u8>> {
    let size = region_size(Bytes(CAPACITY), Bytes(4 * CAPACITY));
    Store::create(vec![0; size as usize], Bytes(CAPACITY)).unwrap()
}

fn bytes(store: &mut Store<Vec<u8>>, view: View) -> Vec<u8> {
    let mut image = vec![0; CAPACITY as usize];
    store.export(view, &mut |at, bytes| {
        image[at as usize..][..bytes.len()].copy_from_slice(bytes);
    });
    image
}

/// An event in a test's data log.
#[derive(Clone, Copy, Debug)]
enum Step {
    Write(u64, u32, u8, bool),
    Persist(u64, u32),
    PersistAll,
    Trim(u64, u32),
    Flush,
    Answer,
}

fn log(steps: &[Step]) -> DataLog<Vec<u8>> {
    let mut held = vec![0; 8 << 20];
    let mut writer = Writer::create(&mut held, 8 << 20, Bytes(CAPACITY));
    let mut flush = 0;
    for (index, step) in steps.iter().enumerate() {
        let at = Nanos(index as u64 * 10);
        match *step {
            Step::Write(sector, sectors, byte, untimed) => {
                let length = u64::from(sectors) * SECTOR;
                writer.begin_write(sector * SECTOR, length);
                // Not one repeated byte, so that the bytes themselves are logged.
                let bytes: Vec<u8> =
                    (0..length).map(|at| byte.wrapping_add((at / 100) as u8)).collect();
                writer.add_bytes(&bytes);
                writer.end_write(at, &request(Action::Write, sector, sectors), untimed);
            }
            Step::Persist(first, count) => writer.add_persisted(at, first, count.into()),
            Step::PersistAll => writer.add_all_persisted(at),
            Step::Trim(first, count) => {
                writer.add_request(
                    at,
                    EventKind::Trim,
                    &request(Action::Trim, first, count),
                    false,
                );
            }
            Step::Flush => {
                flush =
                    writer.add_request(at, EventKind::Flush, &request(Action::Flush, 0, 0), false)
            }
            Step::Answer => writer.add_reply(at, &request(Action::Flush, 0, 0), false, flush),
        }
    }
    DataLog::open(held).unwrap()
}

fn cut(after: usize, choice: SurvivingWrites) -> Cut {
    let (at, moment) = (Nanos(0), Moment::Between);
    Cut { number: 3, after: after as u32, at, moment, choice, draw: 3 }
}

fn step() -> impl Strategy<Value = Step> {
    let place = || (0..CAPACITY / SECTOR - 64, 1..64u32);
    prop_oneof![
        6 => (place(), any::<u8>(), prop::bool::weighted(0.2))
            .prop_map(|((sector, sectors), byte, untimed)| Step::Write(sector % 200, sectors, byte, untimed)),
        3 => place().prop_map(|(sector, sectors)| Step::Persist(sector % 200, sectors)),
        1 => Just(Step::PersistAll),
        1 => place().prop_map(|(sector, sectors)| Step::Trim(sector % 200, sectors)),
    ]
}

fn atomic_units() -> impl Strategy<Value = AtomicUnit> {
    prop::sample::select(vec![512, 1024, 4096])
        .prop_map(|bytes| AtomicUnit::try_from(bytes).unwrap())
}

proptest! {
    /// With nothing of the cache, the image is the medium; with all of it, the contents that the drive acknowledged, at
    /// every moment and whatever was written over earlier images.
    #[test]
    fn nothing_yields_the_medium_and_all_yields_the_visible_contents(steps in prop::collection::vec(step(), 1..20)) {
        let tear = AtomicUnit::MIN;
        let mut builder = Builder::new(log(&steps), empty(), DiskFault::Honest, tear);
        let (mut work, mut touched) = (empty(), Vec::new());
        let mut source = log(&steps);
        for after in 0..=steps.len() {
            let mut expected = empty();
            source.replay(0..after, &mut expected).unwrap();
            for (choice, view) in [
                (SurvivingWrites::Nothing, View::Medium),
                (SurvivingWrites::All, View::Visible),
                (SurvivingWrites::Nothing, View::Medium),
            ] {
                builder.image(&cut(after, choice), &touched, &mut work).unwrap();
                prop_assert!(bytes(&mut work, View::Medium) == bytes(&mut expected, view), "{after} {choice:?}");
                // A write by the recovering file system.
                let at = (after as u64 * 5000) % (CAPACITY - 9000) / SECTOR * SECTOR;
                work.write_bytes::<()>(Destination::Medium, at, &[after as u8 + 1; 8704]).unwrap();
                touched = vec![(at, 8704)];
            }
        }
    }

    /// Every sector of any image is one that was written there, or that of the medium.
    #[test]
    fn a_subset_holds_only_whole_written_sectors(
        steps in prop::collection::vec(step(), 1..20), seed in any::<u64>(), tear in atomic_units(),
    ) {
        let mut versions = Vec::new();
        for after in 0..=steps.len() {
            let mut replayed = empty();
            log(&steps).replay(0..after, &mut replayed).unwrap();
            versions.push(bytes(&mut replayed, View::Visible));
        }
        for choice in [SurvivingWrites::Writes(seed), SurvivingWrites::Sectors(seed), SurvivingWrites::Torn(seed)] {
            let mut builder = Builder::new(log(&steps), empty(), DiskFault::Honest, tear);
            let mut work = empty();
            builder.image(&cut(steps.len(), choice), &[], &mut work).unwrap();
            let found = bytes(&mut work, View::Medium);
            for (at, sector) in found.chunks(SECTOR as usize).enumerate() {
                let at = at * SECTOR as usize;
                let known = versions.iter().any(|image| &image[at..at + SECTOR as usize] == sector);
                prop_assert!(known, "{choice:?}: sector {}", at as u64 / SECTOR);
            }
        }
    }
}

/// A flushed write, and one after it.
const FLUSHED: [Step; 6] = [
    Step::Write(0, 8, 1, false),
    Step::Flush,
    Step::Persist(0, 8),
    Step::Answer,
    Step::Write(64, 8, 9, false),
    Step::Write(0, 8, 5, false),
];

fn image_of(disk: DiskFault, after: usize, choice: SurvivingWrites, draw: u64) -> Vec<u8> {
    let mut builder = Builder::new(log(&FLUSHED), empty(), disk, AtomicUnit::MIN);
    let mut work = empty();
    builder.image(&Cut { draw, ..cut(after, choice) }, &[], &mut work).unwrap();
    bytes(&mut work, View::Medium)
}

#[test]
fn an_honest_disk_persists_what_it_flushed_and_one_that_drops_flushes_does_not() {
    for choice in [
        SurvivingWrites::Nothing,
        SurvivingWrites::All,
        SurvivingWrites::Writes(7),
        SurvivingWrites::Torn(8),
    ] {
        assert_eq!(image_of(DiskFault::Honest, 4, choice, 0)[0], 1, "{choice:?}");
    }
    assert_eq!(image_of(DiskFault::DropsFlushes, 4, SurvivingWrites::Nothing, 0)[0], 0);
    assert_eq!(image_of(DiskFault::DropsFlushes, 4, SurvivingWrites::All, 0)[0], 1);
}

#[test]
fn a_disk_that_reorders_has_the_newer_write_without_the_older() {
    let images = (0..20).map(|draw| image_of(DiskFault::Reorders, 5, SurvivingWrites::All, draw));
    let images: Vec<Vec<u8>> = images.collect();
    assert!(images.iter().all(|image| image[64 * 512] == 9), "it is newer than the flush");
    assert!(images.iter().any(|image| image[0] == 0) && images.iter().any(|image| image[0] == 1));
}

#[test]
fn a_disk_that_tears_writes_leaves_half_a_sector() {
    let whole = image_of(DiskFault::Honest, 4, SurvivingWrites::All, 0);
    for draw in 0..10 {
        let torn = image_of(DiskFault::Tears, 4, SurvivingWrites::All, draw);
        let differs: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] != torn[*at]).collect();
        assert!(!differs.is_empty() && differs.len() <= 256, "{}", differs.len());
        assert!(differs[0] % 512 >= 256 && differs[0] / 512 == differs[differs.len() - 1] / 512);
    }
}

/// A write over zeros with partial physical sectors of 4 KiB at both ends: the last half of one, two whole
/// ones, and the first half of another.
const ACROSS: Step = Step::Write(4, 24, 1, false);

/// Its sectors, grouped by physical sector.
const PIECES: [std::ops::Range<usize>; 4] = [4..8, 8..16, 16..24, 24..28];

/// Returns, for each of the first 32 sectors, whether it was written.
fn written(
    steps: &[Step],
    disk: DiskFault,
    tear: u32,
    choice: SurvivingWrites,
    draw: u64,
) -> Vec<bool> {
    let tear = AtomicUnit::try_from(tear).unwrap();
    let (mut builder, mut work) = (Builder::new(log(steps), empty(), disk, tear), empty());
    builder.image(&Cut { draw, ..cut(steps.len(), choice) }, &[], &mut work).unwrap();
    let image = bytes(&mut work, View::Medium);
    image.chunks(512).take(32).map(|sector| sector.iter().any(|byte| *byte != 0)).collect()
}

#[test]
fn a_physical_sector_survives_whole_or_not_at_all() {
    let torn = |tear: u32, choice: fn(u64) -> SurvivingWrites| {
        (0..200).map(move |seed| written(&[ACROSS], DiskFault::Honest, tear, choice(seed), 0))
    };
    for choice in [SurvivingWrites::Sectors as fn(u64) -> SurvivingWrites, SurvivingWrites::Torn] {
        let mut patterns = std::collections::BTreeSet::new();
        for image in torn(4096, choice) {
            assert!(image[..4].iter().chain(&image[28..]).all(|written| !written));
            let pieces = PIECES.map(|piece| {
                let piece = &image[piece];
                assert!(piece.iter().all(|it| *it == piece[0]), "split: {image:?}");
                piece[0]
            });
            patterns.insert(pieces);
        }
        // Parts of the write survive without others: it is torn between them.
        assert!(patterns.len() > 8, "{patterns:?}");
        let is_split = |image: Vec<bool>| {
            PIECES.iter().any(|piece| image[piece.clone()].windows(2).any(|two| two[0] != two[1]))
        };
        assert!(torn(512, choice).any(is_split), "sectors of 512 bytes are independent");
    }
}

#[test]
fn a_partly_persisted_physical_sector_is_persisted_whole() {
    let steps = [ACROSS, Step::Persist(5, 4)];
    let persisted = |tear| written(&steps, DiskFault::Honest, tear, SurvivingWrites::Nothing, 0);
    let sectors = |image: Vec<bool>| (0..32).filter(|at| image[*at]).collect::<Vec<_>>();
    assert_eq!(sectors(persisted(512)), [5, 6, 7, 8]);
    assert_eq!(sectors(persisted(1024)), [4, 5, 6, 7, 8, 9]);
    assert_eq!(sectors(persisted(4096)), (4..16).collect::<Vec<_>>());
}

#[test]
fn a_disk_that_tears_writes_leaves_half_of_the_write_to_a_physical_sector() {
    for draw in 0..50 {
        let image = written(&[ACROSS], DiskFault::Tears, 4096, SurvivingWrites::Nothing, draw);
        let lost: Vec<usize> = (4..28).filter(|at| !image[*at]).collect();
        let halves = PIECES.map(|piece| (piece.start + piece.end) / 2..piece.end);
        assert!(halves.iter().any(|half| half.clone().eq(lost.iter().copied())), "{lost:?}");
    }
}

/// Images with 512-byte sectors must equal those of older findings, recorded before the unit was configurable.
#[test]
fn with_512_byte_sectors_the_images_are_those_of_older_findings() {
    for seed in 0..200 {
        let mut draws = stream(seed, "what survives");
        let quarters = 1 + draws.below(3);
        let sectors: Vec<bool> = (4..28).map(|_| draws.below(4) < quarters).collect();
        let mut draws = stream(seed, "what survives");
        draws.below(1);
        let (place, which) = (draws.below(25), draws.below(3));
        let torn: Vec<bool> = (1..25)
            .map(|at| match which {
                0 => at <= place,
                1 => at > place,
                _ => draws.below(2) == 0,
            })
            .collect();
        for (choice, expected) in
            [(SurvivingWrites::Sectors(seed), sectors), (SurvivingWrites::Torn(seed), torn)]
        {
            let image = written(&[ACROSS], DiskFault::Honest, 512, choice, 0);
            assert_eq!(image[4..28], expected, "{choice:?}");
        }
    }
}
