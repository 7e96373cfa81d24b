//! Tests the translation layer against a reference that tracks every page, and against theory.

use std::collections::HashMap;

use super::*;
use proptest::prelude::*;

const SIZE: u32 = 128;

fn layer(pages: u64, superblocks: usize, filled: u64) -> Ftl {
    Ftl::new(pages, superblocks, SIZE, filled, SplitMix64::new(7))
}

/// Write amplification of `writes` random writes over all pages.
fn amplification(ftl: &mut Ftl, pages: u64, writes: u64, seed: u64) -> f64 {
    let (host, moved) = (ftl.host_pages(), ftl.moved_pages());
    let mut draws = SplitMix64::new(seed);
    (0..writes).for_each(|_| ftl.write(draws.below(pages)));
    let (host, moved) = (ftl.host_pages() - host, ftl.moved_pages() - moved);
    (host + moved) as f64 / host as f64
}

/// A reference layer that tracks every page: greedy collection, the same reserve, no limits.
struct Reference {
    location: HashMap<u64, usize>,
    blocks: Vec<Vec<u64>>,
    valid: Vec<u32>,
    free: Vec<usize>,
    open: usize,
    host: u64,
    moved: u64,
}

impl Reference {
    fn new(superblocks: usize) -> Reference {
        let free = (1..superblocks).rev().collect();
        let (blocks, valid) = (vec![Vec::new(); superblocks], vec![0; superblocks]);
        Reference { location: HashMap::new(), blocks, valid, free, open: 0, host: 0, moved: 0 }
    }

    fn put(&mut self, page: u64) {
        if self.blocks[self.open].len() == SIZE as usize {
            self.open = self.free.pop().unwrap();
        }
        self.forget(page);
        self.blocks[self.open].push(page);
        self.valid[self.open] += 1;
        self.location.insert(page, self.open);
    }

    fn forget(&mut self, page: u64) {
        if let Some(old) = self.location.remove(&page) {
            self.valid[old] -= 1;
        }
    }

    fn write(&mut self, page: u64) {
        self.host += 1;
        while self.free.len() < RESERVE && self.blocks[self.open].len() == SIZE as usize {
            let closed = (0..self.blocks.len())
                .filter(|at| *at != self.open && self.blocks[*at].len() == SIZE as usize);
            let victim = closed.min_by_key(|at| self.valid[*at]).unwrap();
            let pages = std::mem::take(&mut self.blocks[victim]);
            let alive: Vec<u64> =
                pages.into_iter().filter(|page| self.location.get(page) == Some(&victim)).collect();
            // A page can be in the superblock twice, but only one copy is valid.
            let alive: std::collections::BTreeSet<u64> = alive.into_iter().collect();
            assert_eq!(alive.len() as u32, self.valid[victim]);
            self.free.insert(0, victim);
            self.moved += alive.len() as u64;
            alive.into_iter().for_each(|page| self.put(page));
        }
        self.put(page);
    }
}

#[test]
fn a_new_drive_filled_in_order_writes_every_page_once() {
    let mut ftl = layer(10_000, 90, 0);
    (0..10_000).for_each(|page| ftl.write(page));
    assert_eq!((ftl.moved_pages(), ftl.valid()), (0, 10_000));
}

#[test]
fn random_writes_are_amplified_as_in_theory() {
    // Flash to data 1.3: 2.36 by Xiang and Kurkoski's formula, 2.35 by their simulation.
    let pages = 130 * u64::from(SIZE);
    let mut ftl = layer(pages, 169 + RESERVE, 0);
    (0..pages).for_each(|page| ftl.write(page));
    amplification(&mut ftl, pages, 20 * pages, 1);
    let measured = amplification(&mut ftl, pages, 10 * pages, 2);
    assert!((2.25..2.45).contains(&measured), "{measured}");
}

#[test]
fn a_prefilled_drive_starts_in_the_steady_state_of_random_writes() {
    let pages = 128 * 1024;
    let mut ftl = layer(pages, 1332, 100);
    assert_eq!(ftl.valid(), pages);
    let first = amplification(&mut ftl, pages, pages / 10, 1);
    amplification(&mut ftl, pages, 10 * pages, 2);
    let last = amplification(&mut ftl, pages, pages, 3);
    assert!((first / last - 1.0).abs() < 0.05, "{first} at first, {last} at last");
}

#[test]
fn a_drive_beyond_the_map_has_the_same_amplification() {
    // Twice as many chunks as the map holds, each hit at once.
    let pages = 28 * 1024 * CHUNK;
    let mut ftl = Ftl::new(pages, 1230, 12_800, 100, SplitMix64::new(7));
    let all = ftl.valid();
    let first = amplification(&mut ftl, pages, pages / 16, 1);
    amplification(&mut ftl, pages, pages / 4, 2);
    let last = amplification(&mut ftl, pages, pages / 16, 3);
    assert_eq!(ftl.valid(), all);
    assert!((first / last - 1.0).abs() < 0.05, "{first} at first, {last} at last");
}

#[test]
fn amplification_rises_with_the_fill_of_the_drive_and_falls_after_a_trim() {
    let pages = 64 * 1024;
    let at =
        |filled| amplification(&mut layer(pages, 600, filled), pages * filled / 100, pages / 4, 1);
    let (half, most, all) = (at(50), at(90), at(100));
    assert!(1.0 <= half && half < most && most < all, "{half} {most} {all}");
    let mut trimmed = layer(pages, 600, 100);
    trimmed.trim(0, pages / 2);
    assert_eq!(trimmed.valid(), pages / 2);
    let after = amplification(&mut trimmed, pages / 2, pages / 4, 1);
    assert!(after < all / 2.0, "{after} after a trim, {all} before");
}

#[test]
fn pages_are_counted_once_after_the_generations_run_out() {
    // Small superblocks, so that 65,000 are opened soon.
    let mut ftl = Ftl::new(512, 160, 4, 0, SplitMix64::new(7));
    let mut draws = SplitMix64::new(3);
    (0..512).for_each(|page| ftl.write(page));
    while ftl.opened_superblocks() < 200_000 {
        ftl.write(draws.below(512));
        assert_eq!(ftl.valid(), 512);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(12) })]

    #[test]
    fn a_layer_that_tracks_every_page_moves_as_many(
        spare in 8usize..40, hot in 20u64..=100, share in 20u64..=100, seed in any::<u64>(),
        trimmed in 0u64..40,
    ) {
        // `share` percent of the writes go to the first `hot` percent of the pages.
        let pages = 100 * u64::from(SIZE);
        let superblocks = 100 + RESERVE + spare;
        let (mut tested, mut reference) = (layer(pages, superblocks, 0), Reference::new(superblocks));
        for page in 0..pages {
            tested.write(page);
            reference.write(page);
        }
        let end = pages * trimmed / 100;
        tested.trim(0, end);
        (0..end).for_each(|page| reference.forget(page));
        let mut draws = SplitMix64::new(seed);
        for _ in 0..6 * pages {
            let hits = draws.below(100) < share;
            let page = draws.below(if hits { pages * hot / 100 } else { pages });
            tested.write(page);
            reference.write(page);
        }
        prop_assert_eq!(tested.valid(), reference.location.len() as u64);
        prop_assert_eq!(tested.host_pages(), reference.host);
        let (amplification, expected) = (
            (tested.host_pages() + tested.moved_pages()) as f64 / tested.host_pages() as f64,
            (reference.host + reference.moved) as f64 / reference.host as f64,
        );
        prop_assert!(
            amplification >= 1.0 && (amplification / expected - 1.0).abs() < 0.15,
            "write amplification {}, but {} in the reference", amplification, expected
        );
    }
}
