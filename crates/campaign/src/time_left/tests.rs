//! Tests of the time left.

use super::*;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Trials without an expected time.
fn planned(trials: &[(usize, u64)]) -> Vec<Planned> {
    trials
        .iter()
        .map(|(cell, ops)| Planned { cell: *cell, ops: *ops, expected: None, work: None })
        .collect()
}

fn left(run: &TimeLeft, now: u64) -> Option<String> {
    run.of_all(seconds(now)).map(|left| left.to_string())
}

#[test]
fn a_lower_bound_is_marked_as_one() {
    let text = |is_lower_bound| Remaining { time: seconds(60), is_lower_bound }.to_string();
    assert_eq!([false, true].map(text), ["60 s", "over 60 s"]);
}

#[test]
fn there_is_no_estimate_before_the_first_operation() {
    let mut run = TimeLeft::new(&planned(&[(0, 100), (1, 100)]), 1);
    assert_eq!(left(&run, 0), None);
    run.started(0, 0, seconds(0));
    run.progress(0, 0, false, seconds(30));
    assert_eq!((left(&run, 30), run.of_trial(0, 100)), (None, None));
}

#[test]
fn verification_does_not_lengthen_the_estimate() {
    let mut run = TimeLeft::new(&planned(&[(0, 100), (1, 100)]), 1);
    run.started(0, 0, seconds(0));
    run.progress(0, 0, false, seconds(10));
    run.progress(0, 50, true, seconds(60));
    assert_eq!(left(&run, 60).unwrap(), "over 3 min");
    assert_eq!(run.of_trial(0, 100).unwrap().time, seconds(50));
    run.progress(0, 100, true, seconds(110));
    assert_eq!(run.of_all(seconds(110)).unwrap().time, seconds(100));
    // Verifying for an hour does not lengthen the operations left.
    for now in 111..3700 {
        run.progress(0, 100, false, seconds(now));
        let left = run.of_all(seconds(now)).unwrap();
        assert_eq!((left.time, left.is_lower_bound), (seconds(100), true), "{now}");
    }
    run.ended(0, Some(seconds(3700)));
    assert_eq!(
        run.of_all(seconds(3700)),
        Some(Remaining { time: seconds(3700), is_lower_bound: false })
    );
}

#[test]
fn the_trials_left_take_as_long_as_the_ended_ones_of_their_cells() {
    let cells = [(0, 10), (0, 10), (0, 10), (1, 10), (1, 10)];
    for jobs in [1, 2] {
        let mut run = TimeLeft::new(&planned(&cells), jobs);
        for (cell, time) in [(0, 10), (1, 100)] {
            run.started(0, cell, seconds(0));
            run.ended(0, Some(seconds(time)));
        }
        let time = |run: &TimeLeft, now| run.of_all(seconds(now)).unwrap().time;
        // Two trials of 10 s, and one of 100 s, which no second job shortens.
        assert_eq!(time(&run, 110), seconds([120, 100][jobs - 1]));
        run.started(0, 1, seconds(110));
        assert_eq!(time(&run, 140), seconds([90, 70][jobs - 1]));
        // The running trial takes longer than the one before it; the others are still left.
        assert_eq!(time(&run, 900), seconds([20, 10][jobs - 1]));
    }
}

#[test]
fn a_cell_without_ended_trials_takes_the_time_per_operation_of_the_others() {
    let mut run = TimeLeft::new(&planned(&[(0, 10), (1, 40)]), 1);
    run.started(0, 0, seconds(0));
    run.ended(0, Some(seconds(20)));
    assert_eq!(
        run.of_all(seconds(20)),
        Some(Remaining { time: seconds(80), is_lower_bound: false })
    );
    run.started(0, 1, seconds(20));
    assert_eq!(run.of_all(seconds(50)).unwrap().time, seconds(50));
    run.ended(0, Some(seconds(70)));
    assert_eq!(run.of_all(seconds(90)), None);
}

#[test]
fn a_failed_or_skipped_trial_changes_only_the_number_of_trials_left() {
    let expected = Some(seconds(100));
    let trials = [0, 0, 1, 1].map(|cell| Planned { cell, ops: 10, expected, work: None });
    let mut run = TimeLeft::new(&trials, 1);
    run.started(0, 0, seconds(0));
    run.ended(0, None);
    assert_eq!(run.of_all(seconds(1)).unwrap().time, seconds(300));
    run.skipped(1);
    assert_eq!(run.of_all(seconds(1)).unwrap().time, seconds(200));
    run.started(0, 0, seconds(1));
    run.ended(0, Some(seconds(50)));
    assert_eq!(run.of_all(seconds(51)).unwrap().time, seconds(50));
}

/// Runs trials one after the other; those of cell `c` take `actual[c]` seconds and are expected to take
/// `expected[c]`. Returns the largest relative error of the time left after the first third of the run and before
/// its last tenth.
fn error(expected: [u64; 2], actual: [u64; 2], each: usize) -> f64 {
    let order: Vec<usize> = (0..each * 2).map(|trial| trial % 2).collect();
    let trial = |cell: &usize| Planned {
        cell: *cell,
        ops: 100,
        expected: Some(seconds(expected[*cell])),
        work: None,
    };
    let mut run = TimeLeft::new(&order.iter().map(trial).collect::<Vec<_>>(), 1);
    let total: u64 = order.iter().map(|cell| actual[*cell]).sum();
    let (mut now, mut worst) = (0, 0.0_f64);
    for cell in order {
        run.started(0, cell, seconds(now));
        for second in 1..=actual[cell] {
            // The first fifth of a trial boots, the last fifth verifies.
            let done = (second * 100 / actual[cell]).clamp(20, 80) - 20;
            let ops = done * 100 / 60;
            run.progress(0, ops, ops > 0 && ops < 100, seconds(now + second));
            let (elapsed, left) = (now + second, total - now - second);
            if elapsed * 3 >= total && left * 10 > total {
                let estimate = run.of_all(seconds(elapsed)).unwrap().time.as_secs_f64();
                worst = worst.max((estimate / left as f64 - 1.0).abs());
            }
        }
        now += actual[cell];
        run.ended(0, Some(seconds(actual[cell])));
    }
    worst
}

#[test]
fn after_a_third_of_a_run_the_time_left_is_within_a_quarter_though_earlier_trials_ran_under_load() {
    for (expected, actual, each) in [
        ([40, 40], [20, 23], 3),
        ([60, 30], [20, 12], 2),
        ([120, 120], [40, 30], 5),
        ([20, 20], [50, 60], 3),
        ([20, 23], [20, 23], 2),
    ] {
        let error = error(expected, actual, each);
        assert!(error < 0.25, "{expected:?} {actual:?} {each}: {error}");
    }
}

#[test]
fn before_the_first_trial_ends_the_time_left_is_the_expected_one() {
    let expected = Some(seconds(30));
    let trials: Vec<Planned> =
        (0..4).map(|cell| Planned { cell, ops: 10, expected, work: None }).collect();
    let mut run = TimeLeft::new(&trials, 2);
    assert_eq!(
        run.of_all(seconds(0)),
        Some(Remaining { time: seconds(60), is_lower_bound: false })
    );
    run.started(0, 0, seconds(0));
    run.started(1, 1, seconds(0));
    assert_eq!(run.of_all(seconds(10)).unwrap().time, seconds(50));
    // The trials left take half as long as expected, as those that have ended did.
    (0..2).for_each(|worker| run.ended(worker, Some(seconds(15))));
    assert_eq!(run.of_all(seconds(20)).unwrap().time, seconds(15));
}

#[test]
fn the_pace_of_a_trial_that_ends_with_its_operations_replaces_the_expected_time() {
    let expected = Some(seconds(400));
    let left = |mut run: TimeLeft| {
        run.started(0, 0, seconds(0));
        run.progress(0, 1, true, seconds(20));
        run.progress(0, 20, true, seconds(40));
        run.of_all(seconds(40)).unwrap().time
    };
    let new = || TimeLeft::new(&[Planned { cell: 0, ops: 100, expected, work: None }], 1);
    assert_eq!(left(new()), seconds(360));
    assert_eq!(left(new().ending_with_ops()), seconds(160));
}

#[test]
fn the_time_left_follows_a_change_of_the_load() {
    let mut run = TimeLeft::new(&planned(&[(0, 10); 10]), 1);
    for time in [30, 30, 30, 10, 10, 10] {
        run.started(0, 0, seconds(0));
        run.ended(0, Some(seconds(time)));
    }
    let left = run.of_all(seconds(0)).unwrap().time.as_secs_f64();
    assert!((left / 40.0 - 1.0).abs() < 0.26, "{left}");
}

#[test]
fn within_a_trial_its_operations_correct_an_estimate_from_trials_under_load() {
    // Four trials of 10 s, 6 s of them for operations, which were expected to take 4 minutes, or 1 s.
    for (expected, work) in [(240, Some(0.6)), (240, None), (1, Some(0.6)), (1, None)] {
        let expected = Some(seconds(expected));
        let trials: Vec<Planned> =
            (0..4).map(|cell| Planned { cell, ops: 100, expected, work }).collect();
        let mut run = TimeLeft::new(&trials, 1);
        run.started(0, 0, seconds(0));
        run.progress(0, 0, false, seconds(2));
        for second in 3..=8 {
            run.progress(0, (second - 2) * 100 / 6, true, seconds(second));
            let left = run.of_all(seconds(second)).unwrap().time.as_secs_f64();
            let error = left / (40 - second) as f64 - 1.0;
            assert!(error.abs() < 0.25, "{expected:?} {work:?} at {second} s: {left}");
        }
    }
}

#[test]
fn a_single_slow_trial_does_not_change_the_time_left() {
    let mut run = TimeLeft::new(&planned(&[(0, 10); 8]), 1);
    for (time, left) in [(10, 70), (10, 60), (240, 50), (10, 40)] {
        run.started(0, 0, seconds(0));
        run.ended(0, Some(seconds(time)));
        assert_eq!(run.of_all(seconds(0)).unwrap().time, seconds(left));
    }
}

#[test]
fn operations_at_about_the_expected_pace_do_not_change_the_estimate() {
    let trial = Planned { cell: 0, ops: 100, expected: Some(seconds(100)), work: Some(0.8) };
    let mut run = TimeLeft::new(&[trial], 1);
    run.started(0, 0, seconds(0));
    // The first phase is faster than the others.
    run.progress(0, 1, true, seconds(1));
    run.progress(0, 25, true, seconds(15));
    assert_eq!(run.of_all(seconds(15)).unwrap().time, seconds(85));
}

#[test]
fn phases_of_different_speeds_do_not_change_the_estimate_of_known_work() {
    // Two thirds of the operations take a third of the time; only the second run knows it from its first trial.
    let trial = Planned { cell: 0, ops: 300, expected: Some(seconds(40)), work: Some(0.75) };
    let mut run = TimeLeft::new(&[trial; 4], 1);
    for number in 0..4 {
        let began = number * 40;
        run.started(0, 0, seconds(began));
        run.progress(0, 0, false, seconds(began + 10));
        for second in 1..=30 {
            let ops = if second <= 10 { 20 * second } else { 200 + 5 * (second - 10) };
            let now = began + 10 + second;
            run.progress(0, ops, true, seconds(now));
            let left = run.of_all(seconds(now)).map_or(0.0, |left| left.time.as_secs_f64());
            let actual = (160 - now) as f64;
            assert!(
                (left - actual).abs() <= 0.25 * actual + 1.0,
                "{number} {second}: {left} {actual}"
            );
        }
        run.ended(0, Some(seconds(40)));
    }
}
