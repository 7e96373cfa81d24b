//! Whatever is asked of a disk: every request completes once, time never goes back, what a flush has
//! answered is on the platter, and what is written lands, exactly.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests may panic")]

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use fsdyno_disk::model::Model;
use fsdyno_disk::{Action, Disk, DiskSpec, Request, WriteCache, catalog};
use fsdyno_record::{Bytes, Nanos};
use proptest::prelude::*;

/// The longest request, in sectors.
const LONGEST: u32 = 2560;

#[derive(Clone, Debug)]
struct Step {
    pause: u64,
    request: Request,
}

/// A disk and what is asked of it.
#[derive(Clone, Debug)]
struct Trial {
    spec: DiskSpec,
    seed: u64,
    steps: Vec<Step>,
}

fn trials() -> impl Strategy<Value = Trial> {
    (disks(), any::<u64>()).prop_flat_map(|(spec, seed)| {
        steps(spec.capacity.0 / 512).prop_map(move |steps| Trial {
            spec: spec.clone(),
            seed,
            steps,
        })
    })
}

fn steps(sectors: u64) -> impl Strategy<Value = Vec<Step>> {
    let action = prop_oneof![
        4 => Just(Action::Read), 6 => Just(Action::Write),
        1 => Just(Action::Flush), 1 => Just(Action::Trim),
    ];
    // Much in few places, so that requests overlap; the rest anywhere, the last sector included.
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

/// Every disk of the catalog as it is, with its write cache on and off; and of the hard disks one
/// with small caches, few segments and a short queue: everything that can be full will be.
fn disks() -> impl Strategy<Value = DiskSpec> {
    let all: Vec<DiskSpec> = catalog::names().map(|name| catalog::get(name).unwrap()).collect();
    let shape = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), 1u32..33);
    (prop::sample::select(all), shape).prop_map(
        |(mut spec, (changed, small, back, alone, depth))| {
            if !changed {
                return spec;
            }
            spec.queue.write_cache =
                if back { WriteCache::WriteBack } else { WriteCache::WriteThrough };
            if let Model::Hdd(hdd) = &mut spec.model {
                spec.queue.depth = depth;
                hdd.age_limit_us = hdd.age_limit_us.max(1_000_000);
                hdd.flush_alone = alone;
                if small {
                    hdd.write_cache = Bytes(64 << 10);
                    (hdd.read_segments, hdd.read_segment) = (2, Bytes(64 << 10));
                }
            }
            spec.validate().unwrap();
            spec
        },
    )
}

/// The simple reference: an event number for each request handed in and each landing, and from these
/// which sectors of completed writes a power cut would lose.
#[derive(Default)]
struct Books {
    events: u64,
    asked: HashMap<u64, (Request, u64)>,
    done: HashMap<u64, Nanos>,
    written: BTreeSet<u64>,
    /// The last landing of each sector.
    landed: BTreeMap<u64, u64>,
    /// Sectors of completed writes that have not landed since the write was handed in.
    volatile: BTreeSet<u64>,
    /// For each flush, which of those there were when it was handed in, less what has landed since.
    owed: HashMap<u64, BTreeSet<u64>>,
}

impl Books {
    fn submit(&mut self, disk: &mut dyn Disk, now: Nanos, request: Request) {
        self.events += 1;
        self.asked.insert(request.id, (request, self.events));
        match request.action {
            Action::Write => self.written.extend(sectors(&request)),
            Action::Flush => {
                self.owed.insert(request.id, self.volatile.clone());
            }
            Action::Trim => self.forget(&request),
            Action::Read => {}
        }
        disk.submit(now, request);
        self.take(disk, now);
    }

    /// What is trimmed need not come to the medium any more, so it counts as landed.
    fn forget(&mut self, request: &Request) {
        self.events += 1;
        for sector in sectors(request) {
            self.landed.insert(sector, self.events);
            self.volatile.remove(&sector);
            self.owed.values_mut().for_each(|owed| {
                owed.remove(&sector);
            });
        }
    }

    /// Takes what is done at `now` and what has landed by then.
    fn take(&mut self, disk: &mut dyn Disk, now: Nanos) {
        loop {
            let done = disk.completed(now);
            while let Some((first, count)) = disk.landed() {
                self.events += 1;
                for sector in first..first + count {
                    assert!(self.written.contains(&sector), "{sector} landed unwritten");
                    self.landed.insert(sector, self.events);
                    self.volatile.remove(&sector);
                    self.owed.values_mut().for_each(|owed| {
                        owed.remove(&sector);
                    });
                }
            }
            let Some(id) = done else { return };
            assert!(self.done.insert(id, now).is_none(), "request {id} completed twice");
            let (request, asked) = self.asked[&id];
            match request.action {
                Action::Write => {
                    let since =
                        |sector: &u64| self.landed.get(sector).is_some_and(|at| *at > asked);
                    let missing: Vec<u64> = sectors(&request).filter(|s| !since(s)).collect();
                    assert!(!request.fua || missing.is_empty(), "FUA {id} left {missing:?} behind");
                    self.volatile.extend(missing);
                }
                Action::Flush => {
                    let owed = self.owed.remove(&id).unwrap();
                    assert!(owed.is_empty(), "flush {id} left {owed:?} behind");
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

/// Plays the steps, waking when told to, and gives the instant of each completion.
fn play(trial: &Trial) -> HashMap<u64, Nanos> {
    let mut disk = fsdyno_disk::build(&trial.spec, trial.seed);
    let (mut now, mut books) = (Nanos(0), Books::default());
    for step in &trial.steps {
        let until = now + Nanos(step.pause);
        while let Some(due) = disk.next_due().filter(|due| *due <= until) {
            assert!(due >= now, "time went back from {now:?} to {due:?}");
            now = due;
            books.take(&mut *disk, now);
        }
        now = until;
        books.submit(&mut *disk, now, step.request);
    }
    let mut rounds = 0;
    while let Some(due) = disk.next_due() {
        assert!(due >= now, "time went back from {now:?} to {due:?}");
        now = due;
        books.take(&mut *disk, now);
        rounds += 1;
        assert!(rounds < 100_000, "it comes to no end");
    }
    let later = now + Nanos(600_000_000_000);
    books.take(&mut *disk, later);
    assert_eq!(disk.volatile_bytes(later), Bytes(0), "an idle disk kept dirty sectors");
    books.take(&mut *disk, later);
    assert!(books.volatile.is_empty(), "{:?} never landed", books.volatile);
    let landed = |sector: &u64| books.landed.contains_key(sector);
    assert!(books.written.iter().all(landed), "not all that was written has landed");
    books.done
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn every_request_completes_once_what_is_written_lands_and_the_same_way_twice(trial in trials()) {
        let done = play(&trial);
        let asked: HashSet<u64> = trial.steps.iter().map(|step| step.request.id).collect();
        prop_assert_eq!(&asked, &done.keys().copied().collect::<HashSet<u64>>());
        prop_assert_eq!(done, play(&trial));
    }

    #[test]
    fn asking_in_between_changes_nothing(trial in trials(), step in 50_000u64..5_000_000) {
        // One disk is called only when it must be, the other all the time.
        let quiet = play(&trial);
        let mut disk = fsdyno_disk::build(&trial.spec, trial.seed);
        let (mut now, mut books) = (Nanos(0), Books::default());
        for part in &trial.steps {
            let until = now + Nanos(part.pause);
            while now < until {
                now = Nanos((now.0 + step).min(until.0))
                    .min(disk.next_due().unwrap_or(until).max(now + Nanos(1)));
                disk.volatile_bytes(now);
                books.take(&mut *disk, now);
            }
            books.submit(&mut *disk, now, part.request);
        }
        while let Some(due) = disk.next_due() {
            now = due.max(now);
            books.take(&mut *disk, now);
        }
        prop_assert_eq!(quiet, books.done);
    }

    #[test]
    fn a_flush_leaves_nothing_of_what_came_before_it(trial in trials()) {
        let mut disk = fsdyno_disk::build(&trial.spec, trial.seed);
        let mut now = Nanos(0);
        for step in &trial.steps {
            now += Nanos(step.pause);
            disk.submit(now, step.request);
        }
        let flush = Request { id: u64::MAX, action: Action::Flush, sector: 0, sectors: 0, fua: false };
        disk.submit(now, flush);
        let mut done = HashSet::new();
        while let Some(due) = disk.next_due() {
            now = now.max(due);
            if let Some(id) = disk.completed(now) {
                done.insert(id);
                if id == u64::MAX {
                    prop_assert_eq!(disk.volatile_bytes(now), Bytes(0));
                }
            }
        }
        prop_assert_eq!(done.len(), trial.steps.len() + 1);
    }

    #[test]
    fn a_disk_that_writes_through_never_has_anything_to_lose(trial in trials()) {
        let mut spec = trial.spec;
        spec.queue.write_cache = WriteCache::WriteThrough;
        let mut disk = fsdyno_disk::build(&spec, trial.seed);
        let mut now = Nanos(0);
        for step in &trial.steps {
            now += Nanos(step.pause);
            disk.submit(now, step.request);
            prop_assert_eq!(disk.volatile_bytes(now), Bytes(0));
        }
    }
}
