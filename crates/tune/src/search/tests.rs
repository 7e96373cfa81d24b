use super::*;
use crate::certificate::excludes;
use crate::synthetic::{self, Times};

/// The numbers of values of nine options, as in the reference space of ext4.
const LEVELS: [u8; 9] = [3, 3, 3, 3, 2, 2, 2, 2, 2];

/// Returns the number of random spaces to test, which is larger in the full tests.
fn space_count() -> u64 {
    let is_full = std::env::var("FSDYNO_TEST").is_ok_and(|value| value == "full");
    if is_full { 20 } else { 4 }
}

/// Finds the optimum of some times over a space, by examining all points.
fn optimum(space: &Space, times: &Times) -> (Point, f64) {
    let all = space.points(u64::MAX).unwrap().into_iter();
    let all = all.map(|point| (times.log(&point), point));
    let (log, point) = all.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
    (point, log)
}

/// Returns the model and the results from which a certificate is made.
fn evidence(space: &Space, found: &SearchResult) -> (Evaluations, Model) {
    let mut known = Evaluations::new(space.default_point(), &Settings::exact(1, 1));
    struct Stored(Vec<f64>);
    impl Evaluator for Stored {
        type Error = std::convert::Infallible;
        fn measure(&mut self, _: &[(Point, u64)]) -> Result<Vec<crate::Sample>, Self::Error> {
            Ok(self.0.iter().map(|time| crate::Sample::Time(*time)).collect())
        }
    }
    let mut stored = Stored(found.measured.iter().map(|point| point.time).collect());
    let Ok(()) =
        known.measure(&mut stored, found.measured.iter().map(|point| (point.point.clone(), 1)));
    let variances = Variances::prior(space.options.len());
    (known.clone(), Model::fit(&space.levels(), &known.data(), variances).unwrap())
}

#[test]
fn the_optimum_of_spaces_with_interactions_is_found_with_sixty_of_two_thousand_points() {
    let space = synthetic::space(&LEVELS);
    let mut near_optimum = 0;
    for seed in 0..space_count() {
        let mut times = Times { rest: 0.001, ..Times::random(&LEVELS, 0.15, seed) };
        let found = search(&space, &Settings::exact(seed, 60), &mut times).unwrap();
        assert!(found.trials <= 60, "{}", found.trials);
        let (_, best) = optimum(&space, &times);
        near_optimum += u64::from(times.log(&found.winner) - best < 0.01);
    }
    // These spaces are harder than those of file systems: they have as many interactions as options, half as large as
    // the effects.
    assert!(near_optimum * 10 >= space_count() * 8, "{near_optimum} of {}", space_count());
}

#[test]
fn a_certificate_never_excludes_a_point_that_is_better() {
    let space = synthetic::space(&LEVELS);
    for seed in 0..space_count() {
        let mut times = Times { rest: 0.002, ..Times::random(&LEVELS, 0.15, seed + 100) };
        for trials in [40, 60] {
            let found = search(&space, &Settings::exact(seed, trials), &mut times).unwrap();
            let (known, model) = evidence(&space, &found);
            let best = known.value(&found.fastest).unwrap();
            // A smaller gain is less than the minimum difference that matters.
            let limit = times.log(&found.fastest) - 0.005;
            let all = space.points(u64::MAX).unwrap().into_iter();
            let better: Vec<Point> = all.filter(|point| times.log(point) <= limit).collect();
            for point in &better {
                assert!(
                    !excludes(&known, &model, best, point),
                    "seed {seed}, {trials} trials: {point:?}"
                );
            }
            let certificate = &found.certificate;
            assert_eq!(
                certificate.measured + certificate.excluded + certificate.rest,
                certificate.points
            );
            for excluded in &certificate.values {
                let has_value = |point: &Point| point.0[excluded.option] == excluded.value;
                assert!(!better.iter().any(has_value), "{excluded:?}");
            }
        }
    }
}

#[test]
fn equal_seeds_give_equal_searches() {
    let space = synthetic::space(&LEVELS);
    let run = |seed| {
        let mut times = Times::random(&LEVELS, 0.1, 3);
        search(&space, &Settings::exact(seed, 50), &mut times).unwrap().measured
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}

#[test]
fn options_that_do_nothing_are_never_recommended_on_a_noisy_host() {
    let space = synthetic::space(&[2, 3, 2, 2]);
    // The second value was measured with dirops and 300 files on a RAM disk of a host with a load of ten on two
    // processors.
    for (seed, noise) in (0..20).map(|seed| (seed, [0.05, 0.5][seed as usize % 2])) {
        let mut times = Times::constant(&[2, 3, 2, 2], noise, seed);
        let settings =
            Settings { seed, paired: false, trials: 150, confirm: 10, ..Settings::default() };
        let found = search(&space, &settings, &mut times).unwrap();
        assert!(found.winner.is_default(), "seed {seed}: {:?}", found.confirmed);
    }
}

#[test]
fn only_the_option_that_helps_is_recommended_on_a_noisy_host() {
    let space = synthetic::space(&[2, 3, 2, 2]);
    let mut times = Times::constant(&[2, 3, 2, 2], 0.02, 4);
    times.effects[1] = vec![0.0, 0.05, -0.2];
    let settings = Settings {
        paired: false,
        trials: 200,
        confirm: 8,
        min_difference: 0.01,
        ..Settings::default()
    };
    let found = search(&space, &settings, &mut times).unwrap();
    assert_eq!(found.winner, Point(vec![0, 2, 0, 0]), "{:?}", found.confirmed);
    assert_eq!((found.effects[0].option, found.effects[0].value), (1, 2));
}

#[test]
fn refused_values_are_dropped_with_their_message() {
    let space = synthetic::space(&[2, 3, 2]);
    let mut times = Times { refused: vec![(1, 1)], ..Times::constant(&[2, 3, 2], 0.0, 1) };
    times.effects[2] = vec![0.0, -0.1];
    let found = search(&space, &Settings::exact(1, 12), &mut times).unwrap();
    assert_eq!(found.winner, Point(vec![0, 0, 1]));
    assert_eq!(found.refused_values, [(1, 1)]);
    assert_eq!(found.refused, [(Point(vec![0, 1, 0]), "bad option".to_string())]);
    assert!(found.measured.iter().all(|point| point.point.0[1] != 1));
    times.refused = vec![(0, 0)];
    let refused = search(&space, &Settings::exact(1, 12), &mut times).unwrap_err();
    assert!(refused.to_string().contains("default cannot be measured: bad option"));
}

#[test]
fn a_budget_too_small_for_a_decision_is_rejected_and_the_minimum_named() {
    let space = synthetic::space(&LEVELS);
    let mut times = Times::constant(&LEVELS, 0.0, 1);
    let settings = Settings { trials: 10, ..Settings::default() };
    let refused = search(&space, &settings, &mut times).unwrap_err().to_string();
    // 1 + 13 values + 6 of the pilot + 10 of the confirmation.
    assert!(refused.contains("at least --budget 30trials"), "{refused}");
}

#[test]
fn worthless_options_return_to_their_defaults() {
    let levels = [2, 2, 2, 2];
    let space = synthetic::space(&levels);
    let mut times = Times::constant(&levels, 0.0, 1);
    times.effects = vec![vec![0.0, -0.001], vec![0.0, -0.3], vec![0.0, -0.0005], vec![0.0, 0.2]];
    let found = search(&space, &Settings::exact(1, 16), &mut times).unwrap();
    assert_eq!(found.fastest, Point(vec![1, 1, 1, 0]));
    assert_eq!(found.winner, Point(vec![0, 1, 0, 0]));
    let negligible: Vec<usize> = found
        .effects
        .iter()
        .filter(|effect| effect.is_negligible(0.005))
        .map(|effect| effect.option)
        .collect();
    assert_eq!(negligible, [0, 2]);
}

#[test]
fn many_worthless_options_are_reset_together_within_a_small_budget() {
    let levels = [2; 16];
    let space = synthetic::space(&levels);
    for seed in 0..8 {
        let mut times = Times { rest: 0.002, ..Times::constant(&levels, 0.0, seed) };
        times.effects[3][1] = -0.1;
        let found = search(&space, &Settings::exact(seed, 40), &mut times).unwrap();
        assert!(found.trials <= 40, "{}", found.trials);
        assert_eq!(found.winner.0[3], 1, "seed {seed}");
        let count = found.winner.0.iter().filter(|value| **value != 0).count();
        assert!(count <= 3, "seed {seed}: {:?} of {:?}", found.winner, found.fastest);
    }
}

#[test]
fn values_that_are_refused_together_are_found_and_not_tried_again() {
    let space = synthetic::space(&LEVELS);
    let refused = vec![(1, 2), (5, 1)];
    let mut times = Times { refused: refused.clone(), ..Times::random(&LEVELS, 0.1, 8) };
    let found = search(&space, &Settings::exact(1, 60), &mut times).unwrap();
    let has_both = |point: &Point| refused.iter().all(|(option, value)| point.0[*option] == *value);
    // All refused points derive from the first one, in the search for the smallest set of its values that is refused.
    let value_counts =
        found.refused.iter().map(|(point, _)| point.0.iter().filter(|value| **value > 0).count());
    assert_eq!(value_counts.min(), Some(2), "{:?}", found.refused);
    assert!(found.refused.len() <= LEVELS.len(), "{:?}", found.refused);
    assert!(found.refused.iter().all(|(point, _)| has_both(point)));
    assert!(!has_both(&found.winner));
}
