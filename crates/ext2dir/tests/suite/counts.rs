//! Tests the model's counts against formulas, and its times against stored ones.

#![allow(clippy::unwrap_used, reason = "tests may unwrap")]

use crate::common::{dirops, filled, name, phase, volume};
use fsdyno_ext2dir::ext2::Ext2;
use fsdyno_ext2dir::trial::REVISION;

/// Entries of 16 bytes that fit into the first block of 4 KiB after "." and "..", and into the others.
const FIRST: u64 = 254;
const OTHER: u64 = 256;

type Times = (u64, u64, u64);

/// CPU, returned and durable nanoseconds of create and delete of 2,000 files, classic, cached, indexed.
const GOLDEN: (u32, [(Times, Times); 3]) = (
    1,
    [
        ((164_160_315, 181_264_186, 236_147_381), (25_124_595, 94_895_735, 116_527_123)),
        ((164_160_315, 181_264_186, 236_147_381), (22_642_445, 94_374_485, 116_527_123)),
        ((65_885_884, 82_989_755, 136_147_385), (26_939_795, 77_300_356, 99_860_457)),
    ],
);

fn entries(ext2: &mut Ext2, work: impl FnOnce(&mut Ext2)) -> u64 {
    let before = ext2.counts.entries;
    work(ext2);
    ext2.counts.entries - before
}

#[test]
fn a_classic_create_of_n_files_examines_n_squared_entries_by_formula() {
    for variant in ["classic-ext2", "cached-ext2"] {
        for n in [1, 254, 255, 2000] {
            let mut ext2 = volume(variant, 4096, 128);
            let dir = filled(&mut ext2, 0);
            let examined = entries(&mut ext2, |ext2| {
                for number in 0..n {
                    ext2.create(dir, name(number).as_bytes(), false).unwrap();
                }
            });
            // For file i there are 2 + i entries, and all are examined twice: to learn that the name is
            // new, and to find space; a new block adds one free entry.
            let n = u64::from(n);
            let new_blocks = n.saturating_sub(FIRST).div_ceil(OTHER);
            assert_eq!(examined, n * (n - 1) + 4 * n + new_blocks, "{variant}, {n} files");
        }
    }
}

#[test]
fn a_classic_forward_delete_examines_one_entry_of_an_empty_block() {
    let n: u64 = 1500;
    let mut ext2 = volume("classic-ext2", 4096, 128);
    let dir = filled(&mut ext2, n as u32);
    ext2.remount();
    let examined = entries(&mut ext2, |ext2| {
        (0..n as u32).for_each(|number| ext2.unlink(dir, name(number).as_bytes()).unwrap());
    });
    // The lookup and the search by unlink examine the same entries: "." and ".." of the first block (".." extends over
    // its removed entries), one free entry of each block passed, the free entry before the name, and the name.
    let one = |i: u64| match i.checked_sub(FIRST) {
        None => 3,
        Some(rest) => 2 + (rest / OTHER) + if rest % OTHER == 0 { 1 } else { 2 },
    };
    assert_eq!(examined, (0..n).map(|i| 2 * one(i)).sum::<u64>());
}

#[test]
fn a_cached_forward_delete_is_linear_and_a_classic_reverse_one_is_not() {
    let deletes = |variant: &str, n: u32, reverse: bool| {
        let mut ext2 = volume(variant, 4096, 128);
        let dir = filled(&mut ext2, n);
        ext2.remount();
        entries(&mut ext2, |ext2| {
            for number in 0..n {
                let number = if reverse { n - 1 - number } else { number };
                ext2.unlink(dir, name(number).as_bytes()).unwrap();
            }
        })
    };
    let cached = deletes("cached-ext2", 8000, false) as f64;
    assert!(cached / (8000.0 * 2.0) < 6.0, "{cached}: more than a few entries per search");
    let half = deletes("cached-ext2", 4000, false) as f64;
    assert!((cached / half - 2.0).abs() < 0.05, "{half}, {cached}");
    let n = 4000;
    let reverse = deletes("classic-ext2", n, true);
    let n = u64::from(n);
    // File i is entry i + 3 of the directory: no earlier entry has been removed.
    assert_eq!(reverse, (0..n).map(|i| 2 * (i + 3)).sum::<u64>());
}

#[test]
fn an_indexed_create_examines_one_block_of_entries_for_any_number_of_files() {
    let each = |n: u32| {
        let mut ext2 = volume("indexed-ext2", 4096, 128);
        let examined = entries(&mut ext2, |ext2| {
            filled(ext2, n);
        });
        (examined as f64 / f64::from(n), ext2.counts.blocks as f64 / f64::from(n))
    };
    let ((few, few_blocks), (many, many_blocks)) = (each(5_000), each(20_000));
    // Two scans of a block that is between half full and full.
    assert!(few > 2.0 * 128.0 * 0.9 && few < 2.0 * 256.0, "{few}");
    assert!(many / few < 1.1 && many_blocks / few_blocks < 1.1, "{few} {many}");
}

#[test]
fn a_trial_is_bit_identical_and_another_seed_differs() {
    let one = dirops("indexed-ext2", "ide-2001", &[("files", "2000")], 1);
    assert_eq!(one, dirops("indexed-ext2", "ide-2001", &[("files", "2000")], 1));
    assert_ne!(one.measured, dirops("indexed-ext2", "ide-2001", &[("files", "2000")], 2).measured);
    let delete = phase(&one, "delete");
    assert!(delete.returned_ns > delete.cpu_ns, "a cold delete waits for the disk");
    assert!(delete.durable_ns >= delete.synced_ns && delete.synced_ns > Some(delete.returned_ns));
    let device = delete.device.unwrap();
    assert!(device.reads > 0 && device.writes > 0 && device.flushes == 1, "{device:?}");
}

/// A change of any result of the model, or of its disk's model, requires a new revision.
#[test]
fn the_results_of_this_revision_do_not_change() {
    let times = |variant: &str| {
        let report = dirops(variant, "ide-2001", &[("files", "2000")], 1);
        let of = |name: &str| {
            let phase = phase(&report, name);
            (phase.cpu_ns.0, phase.returned_ns.0, phase.durable_ns.unwrap().0)
        };
        (of("create"), of("delete"))
    };
    let all = ["classic-ext2", "cached-ext2", "indexed-ext2"].map(times);
    assert_eq!((REVISION, all), GOLDEN);
}

#[test]
fn every_order_of_creation_and_deletion_is_verified() {
    for variant in ["classic-ext2", "cached-ext2", "indexed-ext2"] {
        for order in ["forward", "reverse", "random"] {
            let sets =
                [("files", "600"), ("order", order), ("create-order", "random"), ("stat", "yes")];
            let report = dirops(variant, "ide-2001", &sets, 3);
            assert_eq!(report.reason, None, "{variant} {order}");
            assert_eq!(report.measured.verify.files, 600, "counted after create");
            assert_eq!(report.measured.phases.len(), 3);
        }
    }
}
