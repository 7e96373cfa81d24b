//! The search against times of ext4 in the lab: results/2026-11-25-ext4-space.
//!
//! The folder has the measured points of a space of 2,016. The times of the others are synthetic: a model fitted to the
//! measured ones, with a rest of its own for each point, as large as the model's error at left-out points.

use std::collections::BTreeMap;
use std::convert::Infallible;

use fsdyno_record::seed::{SplitMix64, mix};

use crate::evaluations::{Evaluator, Sample};
use crate::model::{Datum, Model, Variances};
use crate::search::{Found, search};
use crate::settings::Settings;
use crate::space::{Point, Space};
use crate::synthetic::normal;

/// The trials of a search: 3 % of the points.
const TRIALS: usize = 60;

/// The times of all points of the space, in seconds.
struct Reference {
    space: Space,
    times: BTreeMap<Point, f64>,
    measured: usize,
    /// The typical error of the model at left-out points.
    error: f64,
}

impl Reference {
    fn read() -> Reference {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../results/2026-11-25-ext4-space");
        let read = |name: &str| std::fs::read_to_string(format!("{folder}/{name}")).unwrap();
        let space = Space::parse(&read("space.toml"), "space.toml").unwrap();
        let csv = read("times.csv");
        let line = |line: &str| {
            let (spec, ns) = line.rsplit_once(';').unwrap();
            (spec.to_string(), ns.parse::<f64>().unwrap() / 1e9)
        };
        let known: BTreeMap<String, f64> = csv.lines().skip(1).map(line).collect();
        let all = space.points(u64::MAX).unwrap();
        assert_eq!(all.len(), 2016);
        let measured = |point: &Point| known.get(&space.configuration(point).spec).copied();
        let data: Vec<Datum> = all
            .iter()
            .filter_map(|point| {
                let value = measured(point)?.ln();
                Some(Datum { point: point.clone(), value, noise: 0.0 })
            })
            .collect();
        assert_eq!(data.len(), known.len(), "a measured point is not one of the space");
        let usual = Variances::usual(space.options.len());
        let model = Model::fit(&space.levels(), &data, usual).unwrap();
        let error = model.error_of_left_out();
        let time = |point: &Point| {
            let key = point.0.iter().fold(27, |key, value| mix(key ^ u64::from(*value)));
            let synthetic =
                || (model.mean(point) + error * normal(&mut SplitMix64::new(key))).exp();
            measured(point).unwrap_or_else(synthetic)
        };
        let times = all.iter().map(|point| (point.clone(), time(point))).collect();
        let measured = data.len();
        Reference { space, times, measured, error }
    }

    fn best(&self) -> (&Point, f64) {
        let best = self.times.iter().min_by(|a, b| a.1.total_cmp(b.1)).unwrap();
        (best.0, *best.1)
    }

    /// The mean logarithm of the effect of a value over all pairs of points that differ in it alone.
    fn main_effect(&self, option: usize, value: u8) -> f64 {
        let base = self.times.iter().filter(|(point, _)| point.0[option] == 0);
        let pairs = base.filter_map(|(point, time)| {
            Some((self.times.get(&point.with(option, value))? / time).ln())
        });
        let logs: Vec<f64> = pairs.collect();
        logs.iter().sum::<f64>() / logs.len() as f64
    }

    fn search(&mut self, seed: u64) -> Found {
        let space = self.space.clone();
        let settings = Settings { least: 0.002, ..Settings::exact(seed, TRIALS) };
        search(&space, &settings, self).unwrap()
    }
}

impl Evaluator for Reference {
    type Error = Infallible;

    fn measure(&mut self, wanted: &[(Point, u64)]) -> Result<Vec<Sample>, Infallible> {
        Ok(wanted.iter().map(|(point, _)| Sample::Time(self.times[point])).collect())
    }
}

#[test]
fn searches_of_ext4_find_the_optimum_with_three_percent_of_the_points_and_never_exclude_it() {
    let is_full = std::env::var("FSDYNO_TEST").is_ok_and(|value| value == "full");
    let seeds = if is_full { 20 } else { 3 };
    let mut it = Reference::read();
    println!(
        "{} of 2016 points measured; error at left-out points {:.2} %",
        it.measured,
        100.0 * it.error
    );
    let (mut worst, mut largest, mut exact): (f64, f64, u32) = (1.0, 0.0, 0);
    for seed in 0..seeds {
        let found = it.search(seed);
        let (best, time) = it.best();
        let ratio = it.times[&found.winner].min(it.times[&found.fastest]) / time;
        let is_found = found.fastest == *best;
        exact += u32::from(is_found);
        worst = worst.max(ratio);
        assert!(found.trials <= TRIALS);
        for value in &found.certificate.values {
            assert!(is_found || best.0[value.option] != value.value, "seed {seed}: {value:?}");
        }
        let mut own: f64 = 0.0;
        for effect in &found.effects {
            let known = it.main_effect(effect.option, effect.value).exp_m1();
            let average = effect.average.unwrap().exp_m1();
            if known.abs() >= 0.02 {
                own = own.max((average - known).abs());
            }
        }
        largest = largest.max(own);
        let of = &found.certificate;
        println!(
            "seed {seed}: {ratio:.4} of the optimum's time, {} trials, excluded {}, rest {}; main effects within {:.2} points",
            found.trials,
            of.excluded,
            of.rest,
            100.0 * own
        );
    }
    println!(
        "optimum found {exact} of {seeds}, worst {worst:.4}, main effects within {:.2} points",
        100.0 * largest
    );
    assert!(worst <= 1.01, "{worst}");
    // Where options interact, effects on average over the space are known less well than the optimum.
    assert!(largest <= 0.07, "{largest}");
}
