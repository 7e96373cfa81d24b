//! Tests model and store together, as in the server: promised versions are on the medium.

#![allow(clippy::unwrap_used, reason = "test helpers may panic")]

use std::collections::BTreeMap;
use std::convert::Infallible;

use fsdyno_disk::store::{Destination, Store, View, region_size};
use fsdyno_disk::{Action, Disk, DiskSpec, Request, WriteCache, catalog};
use fsdyno_record::seed::{SplitMix64, stream};
use fsdyno_record::{Bytes, Nanos};
use proptest::prelude::*;

/// Number of written sectors; few, so that writes overlap.
const SECTORS: u64 = 600;

/// The version of each sector, which rises from write to write and determines its bytes.
type Versions = Vec<u64>;

struct Bench {
    disk: Box<dyn Disk>,
    store: Store<Vec<u8>>,
    now: Nanos,
    version: u64,
    /// Writes in flight, by id: the range and its version.
    waiting: BTreeMap<u64, (Request, Versions)>,
    /// The newest version of each sector with a completed write.
    completed: Versions,
}

impl Bench {
    fn new(spec: &DiskSpec) -> Bench {
        let size = region_size(spec.capacity, Bytes(8 << 20));
        let store = Store::create(vec![0; size as usize], spec.capacity).unwrap();
        let disk = fsdyno_disk::build(spec, 3);
        let (waiting, completed) = (BTreeMap::new(), vec![0; SECTORS as usize]);
        Bench { disk, store, now: Nanos(0), version: 0, waiting, completed }
    }

    fn submit(&mut self, id: u64, action: Action, sector: u64, sectors: u32, fua: bool) {
        let request = Request { id, action, sector, sectors, fua };
        self.disk.submit(self.now, request);
        if action == Action::Write {
            self.version += 1;
            let bytes = self.version.to_le_bytes();
            let length = u64::from(sectors) * 512;
            let mut source = |slot: &mut [u8]| {
                slot.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&bytes));
                Ok::<(), Infallible>(())
            };
            self.store.write_with(Destination::Cache, sector * 512, length, &mut source).unwrap();
        }
        // A flush promises all writes completed before its submission.
        let promised = match action {
            Action::Flush => self.completed.clone(),
            _ => vec![self.version],
        };
        self.waiting.insert(id, (request, promised));
    }

    /// Plays up to `until`, and checks every promise when it is due.
    fn play(&mut self, until: Nanos, write_through: bool) {
        while let Some(due) = self.disk.next_due().filter(|due| *due <= until) {
            self.now = self.now.max(due);
            let done = self.disk.pop_completed(self.now);
            while let Some((first, count)) = self.disk.pop_persisted() {
                self.store.persist(first, count);
            }
            let Some(id) = done else { continue };
            let (request, promised) = self.waiting.remove(&id).unwrap();
            match request.action {
                Action::Flush => self.assert_persisted(0, &promised),
                Action::Write => {
                    let range = request.sector..request.sector + u64::from(request.sectors);
                    for sector in range {
                        let completed = &mut self.completed[sector as usize];
                        *completed = (*completed).max(promised[0]);
                    }
                    if write_through || request.fua {
                        let versions = vec![promised[0]; request.sectors as usize];
                        self.assert_persisted(request.sector, &versions);
                    }
                }
                _ => {}
            }
        }
        self.now = self.now.max(until);
    }

    /// Checks that the medium has each sector from `first` in the promised version or a newer one.
    fn assert_persisted(&mut self, first: u64, promised: &[u64]) {
        let mut medium = vec![0u8; (SECTORS as usize).next_multiple_of(8) * 512];
        self.store.export(View::Medium, &mut |at, bytes| {
            medium[at as usize..][..bytes.len()].copy_from_slice(bytes);
        });
        for (sector, promised) in (first..).zip(promised) {
            let at = sector as usize * 512;
            let (first, others) = medium[at..at + 512].split_first_chunk::<8>().unwrap();
            assert!(others.chunks_exact(8).all(|word| word == first), "a torn sector");
            let version = u64::from_le_bytes(*first);
            assert!(
                (*promised..=self.version).contains(&version),
                "sector {sector} has version {version}, but {promised} was promised"
            );
        }
    }
}

fn play_random_requests(bench: &mut Bench, draws: &mut SplitMix64, write_through: bool) {
    for id in 0..if is_full_test() { 300 } else { 150 } {
        let (sector, maximum) = (draws.below(SECTORS), 1 + draws.below(40));
        let sectors = maximum.min(SECTORS - sector) as u32;
        let action = match draws.below(20) {
            0..14 => Action::Write,
            14..17 if !write_through => Action::Flush,
            _ => Action::Read,
        };
        bench.submit(id, action, sector, sectors, draws.below(10) == 0 && action == Action::Write);
        let gap = [0, 100_000, 5_000_000, 300_000_000][draws.below(4) as usize];
        bench.play(bench.now + Nanos(gap), write_through);
    }
    bench.play(bench.now + Nanos(3_600_000_000_000), write_through);
    assert!(bench.waiting.is_empty(), "requests without completion");
}

fn is_full_test() -> bool {
    std::env::var("FSDYNO_TEST").is_ok_and(|it| it == "full")
}

/// Fewer cases without `FSDYNO_TEST=full`: each takes seconds, because it reads the whole medium after each flush.
fn cases() -> u32 {
    if is_full_test() { 12 } else { 1 }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases()) })]

    #[test]
    fn writes_before_a_flush_are_on_the_medium_after_it(seed in any::<u64>()) {
        for (index, name) in catalog::names().enumerate() {
            let mut spec = catalog::get(name).unwrap();
            if spec.attach != fsdyno_disk::Attach::Nbd {
                continue;
            }
            let modes = [WriteCache::WriteBack, WriteCache::WriteThrough];
            for (number, mode) in modes.into_iter().enumerate() {
                if !is_full_test() && index % 2 != number {
                    continue;
                }
                spec.queue.write_cache = mode;
                let mut bench = Bench::new(&spec);
                let write_through = mode == WriteCache::WriteThrough;
                play_random_requests(&mut bench, &mut stream(seed, "requests"), write_through);
                bench.submit(1000, Action::Flush, 0, 0, false);
                bench.play(bench.now + Nanos(3_600_000_000_000), write_through);
                prop_assert!(bench.store.is_persisted(), "{name}: a flush did not persist everything");
            }
        }
    }
}
