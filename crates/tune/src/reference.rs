//! Tests the search on a space of ext4 whose points were all measured in the lab: results/2026-11-25-ext4-space.

use std::collections::BTreeMap;
use std::convert::Infallible;

use crate::evaluations::{Evaluator, Sample};
use crate::search::{SearchResult, search};
use crate::settings::Settings;
use crate::space::{Point, Space};

/// The number of trials of a search: 3 % of the points.
const TRIALS: usize = 60;

/// The number of additional trials for average effects.
const AVERAGES: usize = 100;

/// The minimum size of an average effect that matters.
const MIN_RELEVANT_EFFECT: f64 = 0.02;

/// The times of all points of the space, in seconds.
struct Reference {
    space: Space,
    times: BTreeMap<Point, f64>,
}

impl Reference {
    fn load() -> Reference {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../results/2026-11-25-ext4-space");
        let read_file = |name: &str| std::fs::read_to_string(format!("{folder}/{name}")).unwrap();
        let space = Space::parse(&read_file("space.toml"), "space.toml").unwrap();
        let csv = read_file("times.csv");
        let line = |line: &str| {
            let (spec, ns) = line.rsplit_once(';').unwrap();
            (spec.to_string(), ns.parse::<f64>().unwrap() / 1e9)
        };
        let known: BTreeMap<String, f64> = csv.lines().skip(1).map(line).collect();
        let all = space.points(u64::MAX).unwrap();
        let time = |point: Point| {
            let time = known[&space.configuration(&point).spec];
            (point, time)
        };
        let times: BTreeMap<Point, f64> = all.into_iter().map(time).collect();
        assert_eq!((times.len(), known.len()), (2016, 2016));
        Reference { space, times }
    }

    fn best(&self) -> (&Point, f64) {
        let best = self.times.iter().min_by(|a, b| a.1.total_cmp(b.1)).unwrap();
        (best.0, *best.1)
    }

    /// Returns the mean logarithm of the effect of a value over all pairs of points that differ only in that option.
    fn main_effect(&self, option: usize, value: u8) -> f64 {
        let base = self.times.iter().filter(|(point, _)| point.0[option] == 0);
        let pairs = base.filter_map(|(point, time)| {
            Some((self.times.get(&point.with(option, value))? / time).ln())
        });
        let logs: Vec<f64> = pairs.collect();
        logs.iter().sum::<f64>() / logs.len() as f64
    }

    fn search(&mut self, seed: u64, averages: usize) -> SearchResult {
        let space = self.space.clone();
        let settings = Settings {
            min_difference: 0.002,
            averages,
            ..Settings::exact(seed, TRIALS + averages)
        };
        search(&space, &settings, self).unwrap()
    }

    /// Returns the largest error of an average effect that matters.
    fn largest_error(&self, found: &SearchResult) -> f64 {
        let mut worst: f64 = 0.0;
        for effect in &found.effects {
            let known = self.main_effect(effect.option, effect.value).exp_m1();
            if known.abs() >= MIN_RELEVANT_EFFECT {
                worst = worst.max((effect.average.unwrap().exp_m1() - known).abs());
            }
        }
        worst
    }
}

impl Evaluator for Reference {
    type Error = Infallible;

    fn measure(&mut self, requested: &[(Point, u64)]) -> Result<Vec<Sample>, Infallible> {
        Ok(requested.iter().map(|(point, _)| Sample::Time(self.times[point])).collect())
    }
}

fn seeds() -> u64 {
    let is_full = std::env::var("FSDYNO_TEST").is_ok_and(|value| value == "full");
    if is_full { 20 } else { 2 }
}

#[test]
fn searches_of_ext4_find_the_optimum_with_three_percent_of_the_points_and_never_exclude_it() {
    let mut reference = Reference::load();
    for seed in 0..seeds() {
        let found = reference.search(seed, 0);
        let (best, time) = reference.best();
        let is_found = found.fastest == *best;
        let ratio = reference.times[&found.winner].min(reference.times[&found.fastest]) / time;
        let certificate = &found.certificate;
        println!(
            "seed {seed}: {ratio:.4} of the optimum's time, {} trials, excluded {}, rest {}; effects within {:.2} points",
            found.trials,
            certificate.excluded,
            certificate.rest,
            100.0 * reference.largest_error(&found)
        );
        assert!(found.trials <= TRIALS);
        assert!(ratio <= 1.01, "seed {seed}: {ratio}");
        for value in &certificate.values {
            assert!(is_found || best.0[value.option] != value.value, "seed {seed}: {value:?}");
        }
    }
}

#[test]
fn average_effects_of_ext4_are_known_within_one_percentage_point() {
    let mut reference = Reference::load();
    for seed in 0..seeds() {
        let found = reference.search(seed, AVERAGES);
        let error = reference.largest_error(&found);
        println!(
            "seed {seed}: {} trials; effects within {:.2} points",
            found.trials,
            100.0 * error
        );
        assert!(found.trials <= TRIALS + AVERAGES);
        assert!(error <= 0.01, "seed {seed}: {error}");
    }
}
