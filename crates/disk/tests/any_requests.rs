//! Whatever is asked of a disk: every request completes once, time never goes back, and what a
//! flush has answered is on the platter.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests may panic")]

use std::collections::{HashMap, HashSet};

use fsdyno_disk::model::Model;
use fsdyno_disk::{Action, Disk, DiskSpec, Request, WriteCache, catalog};
use fsdyno_record::{Bytes, Nanos};
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct Step {
    pause: u64,
    request: Request,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let action = prop_oneof![
        4 => Just(Action::Read), 6 => Just(Action::Write),
        1 => Just(Action::Flush), 1 => Just(Action::Trim),
    ];
    let sector = prop_oneof![0u64..500, 3_800u64..4_000, 0u64..1_953_525_168 - 4096];
    let pause = prop_oneof![4 => Just(0u64), 2 => 0u64..200_000, 1 => 0u64..60_000_000];
    let step = (action, sector, 1u32..2560, any::<u8>(), pause);
    prop::collection::vec(step, 1..120).prop_map(|steps| {
        let numbered = steps.into_iter().enumerate();
        let step = |(id, (action, sector, sectors, dice, pause)): (usize, (_, _, u32, u8, _))| {
            let sectors = if dice % 3 == 0 { sectors } else { 8 };
            let fua = dice % 16 == 1;
            Step { pause, request: Request { id: id as u64, action, sector, sectors, fua } }
        };
        numbered.map(step).collect()
    })
}

/// Small caches, few segments, a short queue: everything that can be full will be.
fn disk_files() -> impl Strategy<Value = DiskSpec> {
    (any::<bool>(), any::<bool>(), any::<bool>(), 1u32..33).prop_map(
        |(small, back, alone, depth)| {
            let mut spec = catalog::get("hdd-7200").unwrap();
            spec.queue.depth = depth;
            if !back {
                spec.queue.write_cache = WriteCache::WriteThrough;
            }
            if let Model::Hdd(hdd) = &mut spec.model {
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

/// Plays the steps and gives the instant of each completion. The caller wakes when it is told to.
fn play(spec: &DiskSpec, seed: u64, steps: &[Step]) -> HashMap<u64, Nanos> {
    let mut disk = fsdyno_disk::build(spec, seed);
    let (mut now, mut done) = (Nanos(0), HashMap::new());
    for step in steps {
        let until = now + Nanos(step.pause);
        while let Some(due) = disk.next_due().filter(|due| *due <= until) {
            assert!(due >= now, "time went back from {now:?} to {due:?}");
            now = due;
            take(&mut *disk, now, &mut done);
        }
        now = until;
        disk.submit(now, step.request);
    }
    let mut rounds = 0;
    while let Some(due) = disk.next_due() {
        assert!(due >= now, "time went back from {now:?} to {due:?}");
        now = due;
        take(&mut *disk, now, &mut done);
        rounds += 1;
        assert!(rounds < 100_000, "it comes to no end");
    }
    let later = now + Nanos(600_000_000_000);
    assert_eq!(disk.completed(later), None);
    assert_eq!(disk.volatile_bytes(later), Bytes(0), "an idle disk kept dirty sectors");
    done
}

fn take(disk: &mut dyn Disk, now: Nanos, done: &mut HashMap<u64, Nanos>) {
    while let Some(id) = disk.completed(now) {
        assert!(done.insert(id, now).is_none(), "request {id} completed twice");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn every_request_completes_once_and_the_same_way_twice(
        spec in disk_files(), seed in any::<u64>(), steps in steps(),
    ) {
        let done = play(&spec, seed, &steps);
        let asked: HashSet<u64> = steps.iter().map(|step| step.request.id).collect();
        prop_assert_eq!(&asked, &done.keys().copied().collect::<HashSet<u64>>());
        prop_assert_eq!(done, play(&spec, seed, &steps));
    }

    #[test]
    fn asking_in_between_changes_nothing(
        spec in disk_files(), seed in any::<u64>(), steps in steps(), step in 50_000u64..5_000_000,
    ) {
        // One disk is called only when it must be, the other all the time.
        let quiet = play(&spec, seed, &steps);
        let mut disk = fsdyno_disk::build(&spec, seed);
        let (mut now, mut done) = (Nanos(0), HashMap::new());
        for part in &steps {
            let until = now + Nanos(part.pause);
            while now < until {
                now = Nanos((now.0 + step).min(until.0)).min(disk.next_due().unwrap_or(until).max(now + Nanos(1)));
                disk.volatile_bytes(now);
                take(&mut *disk, now, &mut done);
            }
            disk.submit(now, part.request);
        }
        while let Some(due) = disk.next_due() {
            now = due.max(now);
            take(&mut *disk, now, &mut done);
        }
        prop_assert_eq!(quiet, done);
    }

    #[test]
    fn a_flush_leaves_nothing_of_what_came_before_it(
        spec in disk_files(), seed in any::<u64>(), steps in steps(),
    ) {
        let mut disk = fsdyno_disk::build(&spec, seed);
        let mut now = Nanos(0);
        for step in &steps {
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
        prop_assert_eq!(done.len(), steps.len() + 1);
    }

    #[test]
    fn a_disk_that_writes_through_never_has_anything_to_lose(
        seed in any::<u64>(), steps in steps(),
    ) {
        let mut spec = catalog::get("hdd-7200").unwrap();
        spec.queue.write_cache = WriteCache::WriteThrough;
        let mut disk = fsdyno_disk::build(&spec, seed);
        let mut now = Nanos(0);
        for step in &steps {
            now += Nanos(step.pause);
            disk.submit(now, step.request);
            prop_assert_eq!(disk.volatile_bytes(now), Bytes(0));
        }
    }
}
