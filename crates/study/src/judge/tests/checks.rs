//! Tests of each kind of check on small tables.

use super::*;

#[test]
fn an_order_holds_if_each_pair_of_neighbours_is_in_order() {
    let order = "order = { rows = [\"ext4\", \"xfs\", \"far\"], phase = \"create\", figure = \"returned\" }";
    let judged = |ext4, xfs, far| judge_one(order, &[("ext4", ext4), ("xfs", xfs), ("far", far)]);
    let twenty = &[20.0, 20.2, 19.8, 20.1, 19.9];
    let holds = judged(TEN, FIFTEEN, twenty);
    assert_eq!(holds.verdict, Verdict::StillHolds);
    assert!(holds.why.starts_with("ext4 10, xfs 15, far 20 s. "), "{}", holds.why);
    let broken = judged(TEN, twenty, FIFTEEN);
    assert_eq!(broken.verdict, Verdict::NoLongerHolds);
    let reason = &broken.why;
    assert!(
        reason.contains("1 of 2 parts fails: far over xfs: 0.75 is less than 1, by 25 %"),
        "{reason}"
    );
    assert!(holds.why.contains("all 2 parts hold; nearest to its bound is far over xfs: 1.33"));
    let reversed = judged(twenty, FIFTEEN, TEN);
    assert_eq!(reversed.verdict, Verdict::Reversed);
    assert!(reversed.why.contains("2 of 2 parts fail: xfs over ext4: 0.75"), "{}", reversed.why);
    assert!(reversed.why.contains("; far over xfs: 0.66"), "{}", reversed.why);
    // One pair is reversed and one is equal: the order does not hold, but is not reversed.
    let partly = judged(twenty, FIFTEEN, &[15.1, 14.9, 15.0, 15.0, 15.1]);
    assert_eq!(partly.verdict, Verdict::NoLongerHolds);
    assert!(partly.why.contains("2 of 2 parts fail"), "{}", partly.why);
    // The most certain failure decides: a pair that varies does not weaken a pair that never varied.
    let exact = judged(&[20.0; 5], &[10.0; 5], &[6.0, 19.0, 3.0, 14.0, 2.0]);
    assert_eq!((exact.verdict, exact.p), (Verdict::NoLongerHolds, None), "{exact:?}");
    assert_eq!(judged(TEN, &[9.0, 11.0, 10.5, 9.5, 10.4], twenty).verdict, Verdict::Undecided);
}

#[test]
fn within_compares_the_largest_value_with_the_smallest() {
    let within = "within = { rows = [\"ext4\", \"xfs\", \"far\"], phase = \"create\", figure = \"returned\", at_most = 1.6 }";
    let judged = |far: &[f64]| judge_one(within, &[("ext4", TEN), ("xfs", FIFTEEN), ("far", far)]);
    let holds = judged(&[12.0, 12.1, 11.9, 12.1, 11.9]);
    assert_eq!(holds.verdict, Verdict::StillHolds);
    assert!((holds.measured.unwrap().value - 1.5).abs() < 0.01, "the widest gap is shown");
    assert_eq!(judged(&[20.0, 20.2, 19.8, 20.1, 19.9]).verdict, Verdict::NoLongerHolds);
    assert_eq!(judged(&[16.0, 17.0, 15.0, 16.5, 15.5]).verdict, Verdict::Undecided);
}

#[test]
fn the_judged_ratio_shows_which_is_the_larger() {
    let within = "within = { rows = [\"ext4\", \"xfs\"], phase = \"create\", figure = \"returned\", at_most = 1.2 }";
    // One seed with a long time makes the mean of xfs larger; by the ratios, paired by seed, ext4 is.
    let (ext4, xfs) = (&[10.0, 10.0, 10.0, 10.0, 10.0][..], &[8.0, 8.0, 8.0, 8.0, 19.0][..]);
    let judged = judge_one(within, &[("ext4", ext4), ("xfs", xfs)]);
    assert!(judged.measured.unwrap().value >= 1.0, "{judged:?}");
    assert!(judged.why.contains("ext4 over xfs: 1.05"), "{}", judged.why);
    assert!(
        judged.notes.iter().any(|note| note.starts_with("The means of ext4 over xfs")),
        "{judged:?}"
    );
    // The order of the rows does not matter.
    let other = within.replace("[\"ext4\", \"xfs\"]", "[\"xfs\", \"ext4\"]");
    let other = judge_one(&other, &[("ext4", ext4), ("xfs", xfs)]);
    assert_eq!((other.verdict, other.measured), (judged.verdict, judged.measured));
}

#[test]
fn a_value_is_compared_with_its_bound_in_its_unit() {
    let value = |bound: &str| {
        format!("value = {{ row = \"ext4\", phase = \"create\", figure = \"cpu share\" }}\n{bound}")
    };
    // A tenth of the time is CPU.
    let judged = judge_one(&value("less_than = 14"), &[("ext4", &[10.0, 10.1])]);
    assert_eq!((judged.verdict, judged.unit.as_str()), (Verdict::StillHolds, "%"));
    assert!((judged.measured.unwrap().value - 10.0).abs() < 1e-6);
    assert_eq!(
        judge_one(&value("more_than = 14"), &[("ext4", &[10.0])]).verdict,
        Verdict::NoLongerHolds
    );
    assert_eq!(
        judge_one(&value("between = [9, 11]"), &[("ext4", &[10.0])]).verdict,
        Verdict::StillHolds
    );
    let seconds =
        "value = { row = \"ext4\", phase = \"create\", figure = \"returned\", unit = \"ms\" }\n";
    let judged = judge_one(&format!("{seconds}more_than = 9000"), &[("ext4", TEN)]);
    assert_eq!(judged.verdict, Verdict::StillHolds);
    assert!((judged.measured.unwrap().value - 10_000.0).abs() < 1.0);
}

#[test]
fn an_exponent_is_fitted_over_the_points_and_two_of_them_decide_nothing() {
    let file = |row: &str, bound: &str| {
        let fs = "fs = { ext4 = \"ext4\", linear = \"ext4\" }";
        let head = format!(
            "title = \"t\"\nquestion = \"q\"\nsource = \"s\"\n[[run]]\nname = \"files\"\nworkload = \"dirops\"\n{fs}\n[run.then]\ndisk = \"hdd-7200\"\n"
        );
        let check = format!(
            "exponent = {{ row = \"{row}\", phase = \"create\", figure = \"returned\" }}\n{bound}"
        );
        StudyFile::parse("curve.toml", &(head + &claim("C1", &check))).unwrap()
    };
    let line = claims(&file("ext4", "between = [0.8, 1.2]"), fixture::curve()).remove(0);
    assert_eq!(line.verdict, Verdict::StillHolds);
    assert_eq!(line.measured.unwrap().n, 4);
    assert!(line.notes.contains(&"4 sizes from 1000 to 8000 files.".to_string()));
    // Duplicate trials add no points: the interval is unchanged.
    let doubled = fixture::curve().into_iter().chain(fixture::curve()).collect();
    let doubled =
        claims(&file("ext4", "between = [0.8, 1.2]"), doubled).remove(0).measured.unwrap();
    let single = claims(&file("ext4", "between = [0.8, 1.2]"), fixture::curve()).remove(0);
    assert_eq!((doubled.n, doubled.interval), (4, single.measured.unwrap().interval));
    let parabola = file("linear", "less_than = 1.2");
    assert_eq!(claims(&parabola, fixture::curve())[0].verdict, Verdict::NoLongerHolds);
    let two_sizes: Vec<Trial> = fixture::curve()
        .into_iter()
        .filter(|t| ["1000", "8000"].contains(&t.plan.workload.params["files"].as_str()))
        .collect();
    let undecided = claims(&parabola, two_sizes).remove(0);
    assert_eq!(undecided.verdict, Verdict::Undecided);
    assert!(undecided.why.contains("three or more would decide"), "{}", undecided.why);
}

#[test]
fn a_point_of_a_curve_is_a_cell_and_a_cell_needs_its_point() {
    let judged_at = |params: &str| {
        let check = format!(
            "value = {{ row = \"ext4\", phase = \"create\", figure = \"returned\"{params} }}\nmore_than = 0"
        );
        claims(&study(&claim("C1", &check)), fixture::curve()).remove(0)
    };
    let judged = judged_at(", at = { files = 4000 }");
    assert!((judged.measured.unwrap().value - 0.4).abs() < 1e-9, "{judged:?}");
    assert!(judged_at("").why.contains("4 plans"), "{}", judged_at("").why);
    let missing = judged_at(", at = { files = 3000 }");
    assert_eq!(missing.verdict, Verdict::NotTestable);
    assert_eq!(
        missing.why,
        "'ext4' has no trial with files=3000: there are files=1000, files=2000, files=4000, files=8000."
    );
}

#[test]
fn a_timeline_is_judged_kernel_by_kernel() {
    let file = study(&claim("C1", &ratio("xfs", "ext4", "more_than = 1")));
    let result = |kernel: &str, xfs: &[f64]| RunResult {
        run: "files".into(),
        variant: Variant::Historical,
        kernel: Some(kernel.into()),
        scale: 10,
        trials: trials(&[("ext4", TEN), ("xfs", xfs)]),
    };
    let judged = judge(&file, &[result("5.10", FIFTEEN), result("6.12", TEN)]);
    let names: Vec<(&str, Verdict)> =
        judged.variants.iter().map(|v| (v.name.as_str(), v.claims[0].verdict)).collect();
    let expected = [
        ("as then, kernel 5.10", Verdict::StillHolds),
        ("as then, kernel 6.12", Verdict::NoLongerHolds),
    ];
    assert_eq!(names, expected);
    let text = super::as_text(&judged);
    assert!(text.contains("as then, scale 1/10, kernel by kernel"), "{text}");
    let line = text.lines().find(|line| line.trim_start().starts_with("C1 ")).unwrap();
    assert!(line.contains(" * ") && line.contains("still holds 1.5"), "{line}");
    assert!(line.contains("no longer holds 1"), "{line}");
    assert!(!text.contains("reproduced"), "{text}");
    // On one kernel there is no timeline.
    let one = judge(&file, &[result("6.12", TEN)]);
    assert!(!super::as_text(&one).contains("kernel by kernel"));
    assert_eq!(judged.variants[0].claims[0].verdict_text(), "at 1/10: still holds");
}
