//! Verdicts near their bounds: margins, the error of a processor profile, and the number of seeds.

use proptest::prelude::*;

use super::*;

/// Returns trials on a processor profile whose ratios between file systems are off by `percent`, with all of their
/// time spent on the CPU.
fn on_a_profile(percent: u64, rows: &[(&str, &[f64])]) -> Vec<Trial> {
    use fsdyno_record::plan::CpuPlan;
    let text = format!(
        "{{\"name\":\"mine\",\"instructions_per_us\":8000,\"costs_ps\":{{}},\"caches\":{{\"first_ways\":8,\"second_sets\":64,\
         \"second_ways\":8}},\"error\":{{\"median_percent\":9,\"worst_percent\":60,\"ratio_percent\":{percent}}}}}"
    );
    let cpu: CpuPlan = serde_json::from_str(&text).unwrap();
    let mut trials = trials(rows);
    for trial in &mut trials {
        trial.plan.lab_mut().unwrap().cpu = cpu.clone();
        let phase = &mut trial.measured.phases[0];
        phase.cpu_ns = phase.returned_ns;
        phase.kernel_cpu_ns.clear();
    }
    trials
}

#[test]
fn a_ratio_within_the_error_of_the_processor_profile_is_undecided_however_many_seeds_there_are() {
    let judged = |percent, figure: &str, bound: &str| {
        let trials = on_a_profile(percent, &[("ext4", TEN), ("xfs", FIFTEEN)]);
        let check = ratio("xfs", "ext4", bound).replace("returned", figure);
        claims(&study(&claim("C1", &check)), trials).remove(0)
    };
    for figure in ["returned", "cpu"] {
        let undecided = judged(60, figure, "more_than = 1.0");
        assert_eq!(undecided.verdict, Verdict::Undecided, "{figure}");
        let expected = "it lies within 60 % of 1, the processor model's error for the CPU's share of the time; no number of \
                    seeds would decide";
        assert!(undecided.why.contains(expected), "{}", undecided.why);
    }
    assert_eq!(judged(60, "returned", "less_than = 1.0").verdict, Verdict::Undecided);
    assert_eq!(judged(40, "returned", "more_than = 1.0").verdict, Verdict::StillHolds);
    assert_eq!(judged(40, "returned", "less_than = 1.0").verdict, Verdict::Reversed);
    // The bound counts, not 1: 1.5 is within a tenth of 1.4.
    assert_eq!(judged(10, "cpu", "more_than = 1.4").verdict, Verdict::Undecided);
    assert_eq!(judged(5, "cpu", "more_than = 1.4").verdict, Verdict::StillHolds);
    assert_eq!(judged(60, "space used", "less_than = 1.1").verdict, Verdict::StillHolds);
    // That error does not apply to two options of the same file system.
    let far = on_a_profile(60, &[("ext4", TEN), ("far", FIFTEEN)]);
    let check = claim("C1", &ratio("far", "ext4", "more_than = 1.0"));
    assert_ne!(claims(&study(&check), far).remove(0).verdict, Verdict::Undecided);
}

#[test]
fn a_single_seed_must_clear_the_margin_which_is_reported() {
    let check = ratio("xfs", "ext4", "more_than = 1.0");
    let judged = |seconds: f64| judge_one(&check, &[("ext4", &[10.0]), ("xfs", &[seconds])]);
    assert_eq!(judged(10.6).verdict, Verdict::StillHolds);
    assert_eq!(judged(10.4).verdict, Verdict::Undecided);
    assert_eq!(judged(9.6).verdict, Verdict::Undecided);
    assert_eq!(judged(9.4).verdict, Verdict::Reversed);
    assert_eq!(judged(10.6).notes, ["One seed, margin 5 %."]);
    assert!(
        judged(10.4).why.contains("within 5 % of 1, and there is only one seed"),
        "{}",
        judged(10.4).why
    );
    let study_text = study(&claim_by("10%", "C", &check));
    let judged_claims = claims(&study_text, trials(&[("ext4", &[10.0]), ("xfs", &[10.6])]));
    assert_eq!(judged_claims[0].verdict, Verdict::Undecided);
}

#[test]
fn the_margin_is_independent_of_the_number_of_seeds() {
    let more = ratio("xfs", "ext4", "more_than = 1.3");
    let judged = |seconds: &[f64]| {
        judge_one(&more, &[("ext4", &[10.0; 20][..seconds.len()]), ("xfs", seconds)])
    };
    // 2 % beyond the bound, and known to a thousandth: by one seed, by two, by twenty.
    let scattered: Vec<f64> = (0..20).map(|index| 13.26 + 0.005 * f64::from(index % 3)).collect();
    for n in [1, 2, 3, 20] {
        let claim = judged(&scattered[..n]);
        assert_eq!(claim.verdict, Verdict::Undecided, "{n} seeds: {claim:?}");
        let expected_reason = match n {
            1 => "within 5 % of 1.3",
            _ => "within the margin of 5 % around 1.3, so more seeds cannot decide it",
        };
        assert!(claim.why.contains(expected_reason), "{n} seeds: {}", claim.why);
    }
    // Beyond the margin, two seeds with scatter still decide nothing; five do.
    let unclear = [13.0, 16.5, 14.8, 15.2, 15.6];
    assert_eq!(judged(&unclear[..1]).verdict, Verdict::Undecided);
    let with_two = judged(&unclear[..2]);
    assert!(
        with_two.verdict == Verdict::Undecided && with_two.why.contains("holds 1.3"),
        "{}",
        with_two.why
    );
    assert_eq!(judged(&[15.0, 15.5, 14.8, 15.2, 15.6]).verdict, Verdict::StillHolds);
}

#[test]
fn a_difference_is_absent_only_if_it_is_shown_to_be_within_the_margin() {
    let more = ratio("xfs", "ext4", "more_than = 1.0");
    let base = &[10.0; 5];
    let judged = |seconds: &[f64]| judge_one(&more, &[("ext4", base), ("xfs", seconds)]);
    let reversed = judged(&[10.1, 10.0, 9.9, 10.05, 9.95]);
    assert_eq!(reversed.verdict, Verdict::NoLongerHolds);
    assert!(
        reversed.p.is_some_and(|p| p < 0.05)
            && reversed.why.contains("is not more than 1 by the margin of 5 %"),
        "{reversed:?}"
    );
    // A small p is not enough: the second is certainly more than 1, but not by a difference that counts.
    assert_eq!(judged(&[10.3, 10.31, 10.29, 10.3, 10.3]).verdict, Verdict::NoLongerHolds);
    assert_eq!(judged(&[9.7, 9.6, 9.8, 9.7, 9.65]).verdict, Verdict::NoLongerHolds);
    assert_eq!(judged(&[9.2, 9.1, 9.3, 9.2, 9.15]).verdict, Verdict::Reversed);
    assert_eq!(judged(&[10.3, 10.8, 9.9, 10.9, 10.1]).verdict, Verdict::Undecided);
    let one_seed = judge_one(&more, &[("ext4", &[10.0]), ("xfs", &[10.0])]);
    assert_eq!(one_seed.verdict, Verdict::Undecided, "one seed cannot show equality");
    // Corrected for many claims, the reversal is no longer certain, but it is still certain that the claim fails.
    let reversed = &[9.5, 9.0, 9.6, 9.2, 9.45][..];
    assert_eq!(judged(reversed).verdict, Verdict::Reversed);
    let study_of_many: String = (0..40).map(|index| claim(&format!("C{index}"), &more)).collect();
    let of_many =
        claims(&study(&study_of_many), trials(&[("ext4", base), ("xfs", reversed)])).remove(0);
    assert_eq!(of_many.verdict, Verdict::NoLongerHolds, "{of_many:?}");
    let reason = &of_many.why;
    assert!(
        reason.contains("is not more than 1 by the margin of 5 %")
            && !reason.contains("is less than 1, by"),
        "{reason}"
    );
    assert!(reason.contains("; that it is less than 1 is not sure (p = 0.1"), "{reason}");
    assert!(reason.ends_with("as one of 40 claims)."), "{reason}");
}

#[test]
fn a_number_that_never_varied_is_judged_by_the_difference_and_reported() {
    let check = ratio("xfs", "ext4", "more_than = 1.0");
    let same = judge_one(&check, &[("ext4", &[10.0, 10.0]), ("xfs", &[10.6, 10.6])]);
    assert_eq!(same.verdict, Verdict::StillHolds);
    assert!(same.p.is_none() && same.notes[0].starts_with("Exact: "), "{same:?}");
    let equal = judge_one(&check, &[("ext4", &[10.0, 10.0]), ("xfs", &[10.0, 10.0])]);
    assert_eq!(equal.verdict, Verdict::NoLongerHolds);
}

#[test]
fn claims_near_their_bounds_with_few_seeds_need_more_seeds_of_their_own_rows() {
    let order = "order = { rows = [\"ext4\", \"xfs\", \"far\"], phase = \"create\", figure = \"returned\" }";
    let text = claim("C1", &ratio("xfs", "ext4", "more_than = 1.3"))
        + &claim("C2", &ratio("far", "ext4", "more_than = 1.3"));
    let file = study(&text);
    let shortages = |xfs: &[f64]| {
        let trials = trials(&[("ext4", &TEN[..xfs.len()]), ("xfs", xfs), ("far", &[40.0])]);
        seed_shortages(&file, &historical(trials))
    };
    let found = shortages(&[15.5]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].run.as_str(), found[0].variant), ("files", Variant::Historical));
    assert_eq!(found[0].rows.iter().collect::<Vec<_>>(), ["ext4", "xfs"]);
    assert_eq!(found[0].claims.iter().collect::<Vec<_>>(), ["C1"]);
    // 1.56 is 1.3 times 1.2, and 1.083 is 1.3 divided by 1.2.
    assert_eq!(shortages(&[15.7]), []);
    assert_eq!(shortages(&[10.7]), []);
    assert_eq!(shortages(&[10.9]).len(), 1);
    assert_eq!(shortages(&[15.5, 15.5]).len(), 1, "a stopped run is continued");
    assert_eq!(shortages(&[15.5, 15.5, 15.5]), []);
    // In an order, only the pairs near 1 are found.
    let links = seed_shortages(
        &study(&claim("C1", order)),
        &historical(trials(&[("ext4", &[10.0]), ("xfs", &[11.0]), ("far", &[40.0])])),
    );
    assert_eq!(links[0].rows.iter().collect::<Vec<_>>(), ["ext4", "xfs"]);
}

#[test]
fn a_verdict_reports_a_single_seed_and_the_scale() {
    let file = study(&claim("C1", &ratio("xfs", "ext4", "more_than = 1.3")));
    let outcome = |scale: u64, seeds: usize| {
        let trials = trials(&[("ext4", &TEN[..seeds]), ("xfs", &FIFTEEN[..seeds])]);
        let mut results = historical(trials);
        results[0].scale = scale;
        judge(&file, &results)
    };
    let called = |judged: &Judged| judged.variants[0].claims[0].verdict_text();
    assert_eq!(called(&outcome(1, 1)), "still holds, one seed");
    assert_eq!(called(&outcome(1, 3)), "still holds");
    assert_eq!(called(&outcome(32, 1)), "at 1/32: still holds, one seed");
    let text = as_text(&outcome(1, 1));
    assert!(text.contains("1 claim: 1 still holds (1 judged by one seed)"), "{text}");
}

/// Returns the rank of a verdict on a claim with `more_than`.
fn rank(verdict: Verdict) -> usize {
    [Verdict::Reversed, Verdict::NoLongerHolds, Verdict::Undecided, Verdict::StillHolds]
        .iter()
        .position(|known| *known == verdict)
        .unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn longer_times_of_one_cell_move_the_verdict_in_the_expected_direction(
        seconds in prop::collection::vec((5.0..15.0f64, 5.0..15.0f64), 1..6),
        bound in 0.7..1.5f64, slower in 1.0..4.0f64,
    ) {
        let file = study(&claim("C1", &ratio("xfs", "ext4", &format!("more_than = {bound}"))));
        let verdict = |factor: f64| {
            let ext4: Vec<f64> = seconds.iter().map(|pair| pair.0).collect();
            let xfs: Vec<f64> = seconds.iter().map(|pair| pair.1 * factor).collect();
            claims(&file, trials(&[("ext4", &ext4), ("xfs", &xfs)])).remove(0).verdict
        };
        prop_assert!(rank(verdict(slower)) >= rank(verdict(1.0)));
        // No spread can hide a large enough difference.
        prop_assert!(rank(verdict(1e-4)) <= rank(verdict(1.0)));
        if seconds.len() == 1 {
            prop_assert_eq!(verdict(1e3), Verdict::StillHolds);
            prop_assert!(rank(verdict(1e-3)) <= 1);
        }
    }
}
