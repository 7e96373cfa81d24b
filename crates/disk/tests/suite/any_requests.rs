//! Tests disks with random requests: every request completes once, time never goes backwards, a completed
//! flush has persisted all earlier writes, and exactly the written sectors are persisted.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test helpers may panic")]

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use fsdyno_disk::models::Model;
use fsdyno_disk::{Action, Disk, DiskSpec, Request, WriteCache, catalog};
use fsdyno_record::{Bytes, Nanos};
use proptest::prelude::*;

/// Maximum length of a request, in sectors.
const LONGEST: u32 = 2560;

#[derive(Clone, Debug)]
struct Step {
    pause: u64,
    request: Request,
}

/// A disk and its requests.
#[derive(Clone, Debug)]
struct Case {
    spec: DiskSpec,
    seed: u64,
    steps: Vec<Step>,
}

fn cases() -> impl Strategy<Value = Case> {
    (disks(), any::<u64>()).prop_flat_map(|(spec, seed)| {
        steps(spec.capacity.0 / 512).prop_map(move |steps| Case { spec: spec.clone(), seed, steps })
    })
}

fn steps(sectors: u64) -> impl Strategy<Value = Vec<Step>> {
    let action = prop_oneof![
        4 => Just(Action::Read), 6 => Just(Action::Write),
        1 => Just(Action::Flush), 1 => Just(Action::Trim),
    ];
    // Many requests in a small range, so that they overlap; the rest anywhere, the last sector included.
    let last = sectors - u64::from(LONGEST);
    let sector = prop_oneof![0u64..500, 3_800u64..4_000, 0u64..last, Just(last)];
    let pause = prop_oneof![4 => Just(0u64), 2 => 0u64..200_000, 1 => 0u64..60_000_000];
    let step = (action, sector, 1u32..=LONGEST, any::<u8>(), pause);
    prop::collection::vec(step, 1..120).prop_map(|steps| {
        let numbered = steps.into_iter().enumerate();
        let step = |(id, (action, sector, sectors, dice, pause)): (usize, (_, _, u32, u8, _))| {
            let sectors = if dice % 3 == 0 { sectors } else { 8 };
            let sectors = if action == Action::Flush { 0 } else { sectors };
            let fua = dice % 16 == 1;
            Step { pause, request: Request { id: id as u64, action, sector, sectors, fua } }
        };
        numbered.map(step).collect()
    })
}

/// Any disk of the catalog, with its write cache on or off; hard disks also with caches, segments
/// and a queue that are small enough to fill up.
fn disks() -> impl Strategy<Value = DiskSpec> {
    let all: Vec<DiskSpec> = catalog::names().map(|name| catalog::get(name).unwrap()).collect();
    let shape = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), 1u32..33);
    (prop::sample::select(all), shape).prop_map(
        |(mut spec, (changed, small, write_back, flush_alone, depth))| {
            if !changed {
                return spec;
            }
            spec.queue.write_cache =
                if write_back { WriteCache::WriteBack } else { WriteCache::WriteThrough };
            if let Model::Hdd(hdd) = &mut spec.model {
                spec.queue.depth = depth;
                hdd.age_limit_us = hdd.age_limit_us.max(1_000_000);
                hdd.flush_alone = flush_alone;
                if small {
                    hdd.write_cache = Bytes(64 << 10);
                    (hdd.read_segments, hdd.read_segment) = (2, Bytes(64 << 10));
                }
            }
            if let Model::Smr(smr) = &mut spec.model {
                spec.queue.depth = depth;
                smr.drive.age_limit_us = smr.drive.age_limit_us.max(1_000_000);
                smr.drive.flush_alone = flush_alone;
                if small {
                    // A media cache that is nearly full from the start, and small bands.
                    smr.drive.write_cache = Bytes(64 << 10);
                    smr.media_cache = Bytes(64 << 20);
                    (smr.cache_entries, smr.cached_percent) = (1024, 97);
                    (smr.band, smr.streams, smr.idle_us) = (Bytes(8 << 20), 2, 20_000);
                }
            }
            spec.validate().unwrap();
            spec
        },
    )
}

/// The reference: the event numbers at which each request was submitted and each sector was persisted, and from these
/// the sectors of completed writes that a power cut would lose.
#[derive(Default)]
struct Reference {
    events: u64,
    submitted: HashMap<u64, (Request, u64)>,
    done: HashMap<u64, Nanos>,
    written: BTreeSet<u64>,
    /// The number of the event that last persisted each sector.
    persisted: BTreeMap<u64, u64>,
    /// Sectors of completed writes that have not been persisted since the write was submitted.
    volatile: BTreeSet<u64>,
    /// For each flush in flight: the sectors that were volatile when it was submitted and have not been persisted
    /// since.
    unpersisted: HashMap<u64, BTreeSet<u64>>,
}

impl Reference {
    fn submit(&mut self, disk: &mut dyn Disk, now: Nanos, request: Request) {
        self.events += 1;
        self.submitted.insert(request.id, (request, self.events));
        match request.action {
            Action::Write => self.written.extend(sectors(&request)),
            Action::Flush => {
                self.unpersisted.insert(request.id, self.volatile.clone());
            }
            Action::Trim => self.forget(&request),
            Action::Read => {}
        }
        disk.submit(now, request);
        self.take(disk, now);
    }

    /// Trimmed sectors need not be persisted, so they count as persisted.
    fn forget(&mut self, request: &Request) {
        self.events += 1;
        for sector in sectors(request) {
            self.persisted.insert(sector, self.events);
            self.volatile.remove(&sector);
            self.unpersisted.values_mut().for_each(|unpersisted| {
                unpersisted.remove(&sector);
            });
        }
    }

    /// Takes all completions and persisted sectors at `now`.
    fn take(&mut self, disk: &mut dyn Disk, now: Nanos) {
        loop {
            let done = disk.pop_completed(now);
            while let Some((first, count)) = disk.pop_persisted() {
                self.events += 1;
                for sector in first..first + count {
                    assert!(
                        self.written.contains(&sector),
                        "{sector} was persisted but not written"
                    );
                    self.persisted.insert(sector, self.events);
                    self.volatile.remove(&sector);
                    self.unpersisted.values_mut().for_each(|unpersisted| {
                        unpersisted.remove(&sector);
                    });
                }
            }
            let Some(id) = done else { return };
            assert!(self.done.insert(id, now).is_none(), "request {id} completed twice");
            let (request, submitted) = self.submitted[&id];
            match request.action {
                Action::Write => {
                    let is_persisted = |sector: &u64| {
                        self.persisted.get(sector).is_some_and(|event| *event > submitted)
                    };
                    let missing: Vec<u64> =
                        sectors(&request).filter(|sector| !is_persisted(sector)).collect();
                    assert!(
                        !request.fua || missing.is_empty(),
                        "FUA {id} did not persist {missing:?}"
                    );
                    self.volatile.extend(missing);
                }
                Action::Flush => {
                    let unpersisted = self.unpersisted.remove(&id).unwrap();
                    assert!(unpersisted.is_empty(), "flush {id} did not persist {unpersisted:?}");
                }
                Action::Trim => self.forget(&request),
                Action::Read => {}
            }
        }
    }
}

fn sectors(request: &Request) -> std::ops::Range<u64> {
    request.sector..request.sector + u64::from(request.sectors)
}

/// Plays the steps, waking at each due time, and returns the time of each completion.
fn play(case: &Case) -> HashMap<u64, Nanos> {
    let mut disk = fsdyno_disk::build(&case.spec, case.seed);
    let (mut now, mut reference) = (Nanos(0), Reference::default());
    for step in &case.steps {
        let until = now + Nanos(step.pause);
        while let Some(due) = disk.next_due().filter(|due| *due <= until) {
            assert!(due >= now, "time went backwards from {now:?} to {due:?}");
            now = due;
            reference.take(&mut *disk, now);
        }
        now = until;
        reference.submit(&mut *disk, now, step.request);
    }
    let mut rounds = 0;
    while let Some(due) = disk.next_due() {
        assert!(due >= now, "time went backwards from {now:?} to {due:?}");
        now = due;
        reference.take(&mut *disk, now);
        rounds += 1;
        assert!(rounds < 100_000, "the disk never becomes idle");
    }
    let later = now + Nanos(600_000_000_000);
    reference.take(&mut *disk, later);
    assert_eq!(disk.volatile_bytes(later), Bytes(0), "an idle disk kept dirty sectors");
    reference.take(&mut *disk, later);
    assert!(reference.volatile.is_empty(), "{:?} were never persisted", reference.volatile);
    let persisted = |sector: &u64| reference.persisted.contains_key(sector);
    assert!(reference.written.iter().all(persisted), "not all written sectors were persisted");
    reference.done
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn every_request_completes_once_written_sectors_are_persisted_and_repeats_give_the_same_result(case in cases()) {
        let done = play(&case);
        let submitted: HashSet<u64> = case.steps.iter().map(|step| step.request.id).collect();
        prop_assert_eq!(&submitted, &done.keys().copied().collect::<HashSet<u64>>());
        prop_assert_eq!(done, play(&case));
    }

    #[test]
    fn additional_calls_change_nothing(case in cases(), poll_interval in 50_000u64..5_000_000) {
        // One disk is called only when due, the other at every poll interval.
        let called_when_due = play(&case);
        let mut disk = fsdyno_disk::build(&case.spec, case.seed);
        let (mut now, mut reference) = (Nanos(0), Reference::default());
        for step in &case.steps {
            let until = now + Nanos(step.pause);
            while now < until {
                now = Nanos((now.0 + poll_interval).min(until.0))
                    .min(disk.next_due().unwrap_or(until).max(now + Nanos(1)));
                disk.volatile_bytes(now);
                reference.take(&mut *disk, now);
            }
            reference.submit(&mut *disk, now, step.request);
        }
        while let Some(due) = disk.next_due() {
            now = due.max(now);
            reference.take(&mut *disk, now);
        }
        prop_assert_eq!(called_when_due, reference.done);
    }

    #[test]
    fn a_flush_persists_all_earlier_writes(case in cases()) {
        let mut disk = fsdyno_disk::build(&case.spec, case.seed);
        let mut now = Nanos(0);
        for step in &case.steps {
            now += Nanos(step.pause);
            disk.submit(now, step.request);
        }
        let flush = Request { id: u64::MAX, action: Action::Flush, sector: 0, sectors: 0, fua: false };
        disk.submit(now, flush);
        let mut done = HashSet::new();
        while let Some(due) = disk.next_due() {
            now = now.max(due);
            if let Some(id) = disk.pop_completed(now) {
                done.insert(id);
                if id == u64::MAX {
                    prop_assert_eq!(disk.volatile_bytes(now), Bytes(0));
                }
            }
        }
        prop_assert_eq!(done.len(), case.steps.len() + 1);
    }

    #[test]
    fn a_write_through_disk_has_no_volatile_bytes(case in cases()) {
        let mut spec = case.spec;
        spec.queue.write_cache = WriteCache::WriteThrough;
        let mut disk = fsdyno_disk::build(&spec, case.seed);
        let mut now = Nanos(0);
        for step in &case.steps {
            now += Nanos(step.pause);
            disk.submit(now, step.request);
            prop_assert_eq!(disk.volatile_bytes(now), Bytes(0));
        }
    }
}
