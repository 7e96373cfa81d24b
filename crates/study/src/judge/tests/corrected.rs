//! Tests of corrections: decisions that hold alone but not among many claims, parts or relabelled trials, and their
//! explanations.

use super::*;

/// Judges the first of `count` claims with this check on these times.
fn first_of(count: usize, check: &str, rows: &[(&str, &[f64])]) -> Claim {
    let all: String = (0..count).map(|index| claim(&format!("C{index}"), check)).collect();
    claims(&study(&all), trials(rows)).remove(0)
}

#[test]
fn many_claims_are_corrected_for_their_number() {
    // The p-value of one of three equal claims is three times that of the claim alone.
    let (base, new) = (&[10.0, 10.0, 10.0, 10.0][..], &[10.9, 9.9, 10.8, 11.0][..]);
    let check = ratio("xfs", "ext4", "more_than = 1.0");
    let alone = judge_one(&check, &[("ext4", base), ("xfs", new)]);
    let check3 = ratio("xfs", "ext4", "more_than = 0.995");
    let p = alone.p.unwrap();
    let claims_text: String = ["C1", "C2", "C3"].map(|id| claim(id, &check3)).concat();
    let of_three = claims(&study(&claims_text), trials(&[("ext4", base), ("xfs", new)]));
    assert!((0.05..0.2).contains(&p) && alone.verdict == Verdict::Undecided, "{alone:?}");
    let single = judge_one(&check3, &[("ext4", base), ("xfs", new)]);
    assert!((of_three[0].p.unwrap() - (3.0 * single.p.unwrap()).min(1.0)).abs() < 1e-9);
    // One claim holds alone, but not next to two more near their bounds.
    let close = &[10.6, 10.2, 10.5, 10.4][..];
    let strict = ratio("xfs", "ext4", "more_than = 1.012");
    let strictly = |ids: &[&str]| {
        let all: String = ids.iter().map(|id| claim_by("0.1%", id, &strict)).collect();
        claims(&study(&all), trials(&[("ext4", base), ("xfs", close)])).remove(0)
    };
    let holds = strictly(&["C1"]);
    assert_eq!(holds.verdict, Verdict::StillHolds, "{holds:?}");
    let undecided = strictly(&["C1", "C2", "C3"]);
    assert_eq!(undecided.verdict, Verdict::Undecided, "{undecided:?}");
    assert!(undecided.why.contains("not as one of 3 claims"), "{}", undecided.why);
}

#[test]
fn the_absence_of_a_difference_is_corrected_like_any_result() {
    // 0.954 (0.91 to 1.002): the interval ends before 1.05, but is not far enough from 1 for a reversal.
    let rows: &[(&str, &[f64])] =
        &[("ext4", &[10.0; 5]), ("xfs", &[9.05, 9.35, 9.53, 9.75, 10.05])];
    let more = ratio("xfs", "ext4", "more_than = 1.0");
    let alone = first_of(1, &more, rows);
    assert_eq!(alone.verdict, Verdict::NoLongerHolds, "{alone:?}");
    let of_forty = first_of(40, &more, rows);
    assert_eq!(of_forty.verdict, Verdict::Undecided, "{of_forty:?}");
    assert!((of_forty.p.unwrap() / alone.p.unwrap() / 40.0 - 1.0).abs() < 1e-9, "{of_forty:?}");
    assert!(of_forty.why.contains("not as one of 40 claims"), "{}", of_forty.why);
    // Its interval alone would decide with any number of claims.
    assert!(of_forty.why.contains("more than the 5 seeds stored are needed"), "{}", of_forty.why);
    // The opposite direction.
    let less = ratio("ext4", "xfs", "less_than = 1.0");
    let other = first_of(40, &less, rows);
    assert!((other.p.unwrap() - of_forty.p.unwrap()).abs() < 1e-9, "{other:?}");
    // It counts in a family: another claim is corrected for both.
    let holds = claim("H", &ratio("ext4", "xfs", "more_than = 0.8"));
    let p = |file: &str| claims(&study(file), trials(rows)).remove(0).p.unwrap();
    let together = p(&(holds.clone() + &claim("C", &more)));
    assert!(together > 1.5 * p(&holds));
}

#[test]
fn trials_of_a_host_are_relabelled_at_the_difference_that_counts() {
    let (base, new) = (&[10.0, 10.1, 10.2, 10.3][..], &[9.975, 10.08, 10.185, 10.5525][..]);
    let file = study(&claim("C1", &ratio("xfs", "ext4", "more_than = 1.0")));
    let mut trials = trials(&[("ext4", base), ("xfs", new)]);
    for trial in &mut trials {
        trial.lab_id = None;
        trial.host.started = format!("{} {}", trial.plan.label, trial.seed);
    }
    let judged = claims(&file, trials).remove(0);
    // Student's interval alone ends before 1.05; of 70 relabellings four are as far apart.
    assert!(judged.measured.unwrap().interval.unwrap().1 < 1.05, "{judged:?}");
    assert!((judged.p.unwrap() - 4.0 / 70.0).abs() < 1e-9, "{judged:?}");
    assert_eq!(judged.verdict, Verdict::Undecided);
    assert!(
        judged.why.contains("but relabelling the trials does not (p = 0.06)"),
        "{}",
        judged.why
    );
}

#[test]
fn a_reversal_must_be_certainly_beyond_1_and_not_only_outside_its_bound() {
    // 0.935: far from 1.3, but near 1.
    let rows: &[(&str, &[f64])] = &[("ext4", &[10.0; 5]), ("xfs", &[9.5, 9.0, 9.6, 9.2, 9.45])];
    let more = ratio("xfs", "ext4", "more_than = 1.3");
    let alone = first_of(1, &more, rows);
    assert_eq!(alone.verdict, Verdict::Reversed);
    // Its p is that of the ratio at 1, whatever the bound.
    let at_one = first_of(1, &ratio("xfs", "ext4", "more_than = 1.0"), rows);
    assert!(alone.p.unwrap() > 1e-3 && alone.p == at_one.p, "{alone:?}");
    let of_forty = first_of(40, &more, rows);
    assert_eq!(of_forty.verdict, Verdict::NoLongerHolds, "{of_forty:?}");
    assert!(of_forty.p.unwrap() < alone.p.unwrap(), "of its bound: {of_forty:?}");
    let reason = &of_forty.why;
    assert!(
        reason.contains("is 28.1 % below the limit of 1.3; that it is less than 1"),
        "{reason}"
    );
}

#[test]
fn near_a_bound_of_1_more_seeds_show_that_no_difference_counts() {
    let more = ratio("xfs", "ext4", "more_than = 1.0");
    let undecided =
        judge_one(&more, &[("ext4", &[10.0; 5]), ("xfs", &[9.0, 11.1, 10.0, 9.5, 11.2])]);
    assert_eq!(undecided.verdict, Verdict::Undecided, "{undecided:?}");
    assert!(!undecided.why.contains("more seeds cannot decide"), "{}", undecided.why);
    assert!(
        undecided
            .why
            .contains("does not exclude that it is more than 1 by the margin of 5 %; about "),
        "{}",
        undecided.why
    );
    // More seeds of the same spread do show it.
    let n: usize = undecided
        .why
        .split("--repeat ")
        .nth(1)
        .unwrap()
        .split(';')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    let seeds: Vec<f64> = [9.0, 11.1, 10.0, 9.5, 11.2].into_iter().cycle().take(n).collect();
    let judged = judge_one(&more, &[("ext4", &vec![10.0; n]), ("xfs", &seeds)]);
    assert_eq!(judged.verdict, Verdict::NoLongerHolds, "{n} seeds: {judged:?}");
}

#[test]
fn a_correction_for_parts_is_not_attributed_to_the_claims() {
    let within = "within = { rows = [\"ext4\", \"xfs\", \"far\"], phase = \"create\", figure = \"returned\", at_most = 1.6 }";
    let far = &[16.15, 16.81, 17.5, 18.21, 18.96];
    let judged = judge_one(within, &[("ext4", &[10.0; 5]), ("xfs", &[13.0; 5]), ("far", far)]);
    assert_eq!(judged.verdict, Verdict::Undecided, "{judged:?}");
    assert!((0.05..0.15).contains(&judged.p.unwrap()), "{judged:?}");
    let reason = &judged.why;
    assert!(
        reason.contains("far over ext4: 1.75 is undecided: alone it would be decided"),
        "{reason}"
    );
    assert!(
        reason.contains("not as one of 3 parts (p = ") && !reason.contains("claims"),
        "{reason}"
    );
}

#[test]
fn among_many_claims_the_least_certain_part_is_undecided_and_not_the_nearest() {
    let order = "order = { rows = [\"ext4\", \"xfs\", \"far\"], phase = \"create\", figure = \"returned\" }";
    // The first pair is the nearest to 1 and never varied; the second is far from it and scatters.
    let far = &[15.0, 21.0, 25.0, 30.0, 38.0];
    let rows: &[(&str, &[f64])] = &[("ext4", &[10.0; 5]), ("xfs", &[13.0; 5]), ("far", far)];
    let alone = first_of(1, order, rows);
    assert_eq!(alone.verdict, Verdict::StillHolds, "{alone:?}");
    assert!(alone.why.contains("nearest to its bound is xfs over ext4"), "{}", alone.why);
    let of_forty = first_of(40, order, rows);
    assert_eq!(of_forty.verdict, Verdict::Undecided, "{of_forty:?}");
    assert!(of_forty.why.contains("far over xfs: 1.8"), "{}", of_forty.why);
    assert!(!of_forty.why.contains("xfs over ext4"), "{}", of_forty.why);
}
