#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

use fsdyno_record::trial::{Outcome, trial_id};
use fsdyno_record::{Nanos, Trial};
use fsdyno_report::study::{Claim, Judged, Verdict};

use super::*;

mod checks;
mod corrected;
mod factors;
#[allow(dead_code, reason = "the tests of the report use the rest")]
#[path = "../../../report/src/fixture/mod.rs"]
mod fixture;
mod layton;
mod margin;
mod published;
mod table;

/// A study of one run, `files`: three file systems, historical and current.
const HEAD: &str = r#"
title = "A test"
question = "Which is faster?"
source = "Author, 2008"
year = 2008
[[run]]
name = "files"
workload = "dirops"
fs = { ext4 = "ext4", xfs = "xfs", far = "ext4 -J size=64" }
[run.then]
disk = "hdd-7200"
[run.today]
disk = "hdd-7200"
fs = { ext4 = "ext4", xfs = "xfs" }
"#;

fn study(rest: &str) -> StudyFile {
    StudyFile::parse("test.toml", &format!("{HEAD}{rest}")).unwrap()
}

/// Returns a claim about `create` with this check.
fn claim(id: &str, check: &str) -> String {
    format!(
        "[[claim]]\nid = \"{id}\"\ntext = \"It is so\"\npublished = 1.5\n[claim.check]\n{check}\n"
    )
}

/// Returns a claim about `create` with this check and its own margin.
fn claim_by(least: &str, id: &str, check: &str) -> String {
    claim(id, check).replace("[claim.check]", &format!("least = \"{least}\"\n[claim.check]"))
}

fn ratio(of: &str, over: &str, bound: &str) -> String {
    format!(
        "ratio = {{ of = \"{of}\", over = \"{over}\", phase = \"create\", figure = \"returned\" }}\n{bound}"
    )
}

/// Returns trials of `create` with these seconds, one seed each; everything else comes from the fixture.
fn trials(rows: &[(&str, &[f64])]) -> Vec<Trial> {
    let all = fixture::trials();
    let mut trials = Vec::new();
    for (label, seconds) in rows {
        let model = all.iter().find(|trial| trial.plan.label == *label).unwrap();
        for (index, seconds) in seconds.iter().enumerate() {
            let mut trial = model.clone();
            trial.seed = index as u64 + 1;
            let phase = &mut trial.measured.phases[0];
            phase.returned_ns = Nanos((seconds * 1e9) as u64);
            // Everything was durable when the last call returned.
            (phase.synced_ns, phase.durable_ns) = (None, Some(phase.returned_ns));
            phase.cpu_ns = Nanos((seconds * 1e8) as u64);
            trial.trial_id = trial_id(&trial.plan, trial.seed);
            trials.push(trial);
        }
    }
    trials
}

fn historical(trials: Vec<Trial>) -> Vec<RunResult> {
    let run = "files".to_string();
    vec![RunResult { run, variant: Variant::Historical, kernel: None, scale: 1, trials }]
}

fn claims(file: &StudyFile, trials: Vec<Trial>) -> Vec<Claim> {
    judge(file, &historical(trials)).variants.remove(0).claims
}

/// Judges a single claim with this check on these times.
fn judge_one(check: &str, rows: &[(&str, &[f64])]) -> Claim {
    claims(&study(&claim("C1", check)), trials(rows)).remove(0)
}

const TEN: &[f64] = &[10.0, 10.1, 9.9, 10.05, 9.95];
const FIFTEEN: &[f64] = &[15.1, 15.0, 14.9, 15.1, 14.9];

/// Returns the results as text.
fn as_text(judged: &Judged) -> String {
    let results = fsdyno_report::study::Results::of(judged);
    fsdyno_report::Format::Text.write(&results, fsdyno_report::Style::default()).unwrap()
}

#[test]
fn the_records_alone_decide_whether_a_ratio_holds_fails_is_reversed_or_is_undecided() {
    let more = ratio("xfs", "ext4", "more_than = 1.3");
    let verdict = |seconds: &[f64]| judge_one(&more, &[("ext4", TEN), ("xfs", seconds)]).verdict;
    assert_eq!(verdict(FIFTEEN), Verdict::StillHolds);
    assert_eq!(verdict(&[12.0, 12.1, 11.9, 12.1, 11.9]), Verdict::NoLongerHolds);
    assert_eq!(verdict(&[6.0, 6.1, 5.9, 6.1, 5.9]), Verdict::Reversed);
    assert_eq!(verdict(&[9.0, 16.0, 13.0, 17.0, 11.0]), Verdict::Undecided);
    let less = ratio("xfs", "ext4", "less_than = 1.0");
    assert_eq!(judge_one(&less, &[("ext4", TEN), ("xfs", FIFTEEN)]).verdict, Verdict::Reversed);
    assert_eq!(judge_one(&less, &[("ext4", FIFTEEN), ("xfs", TEN)]).verdict, Verdict::StillHolds);
    // More than 1 is not the opposite of "less than 1.4".
    let less = ratio("xfs", "ext4", "less_than = 1.4");
    assert_eq!(
        judge_one(&less, &[("ext4", TEN), ("xfs", FIFTEEN)]).verdict,
        Verdict::NoLongerHolds
    );
    let between = ratio("xfs", "ext4", "between = [1.4, 1.6]");
    assert_eq!(
        judge_one(&between, &[("ext4", TEN), ("xfs", FIFTEEN)]).verdict,
        Verdict::StillHolds
    );
    assert_eq!(judge_one(&between, &[("ext4", FIFTEEN), ("xfs", TEN)]).verdict, Verdict::Reversed);
}

#[test]
fn a_claim_reports_its_number_its_trials_and_its_interval() {
    let judged =
        judge_one(&ratio("xfs", "ext4", "more_than = 1.3"), &[("ext4", TEN), ("xfs", FIFTEEN)]);
    let number = judged.measured.unwrap();
    let (low, high) = number.interval.unwrap();
    assert!((number.value - 1.5).abs() < 0.01 && number.n == 5 && low < 1.5 && high > 1.5);
    assert_eq!(judged.published, Some(1.5));
    assert!(judged.p.unwrap() < 0.01);
    assert_eq!(
        judged.check.as_deref(),
        Some("returned of files create: xfs over ext4; claimed: more than 1.3")
    );
    assert_eq!(judged.why, "1.5 is more than 1.3.");
    assert_eq!(judged.notes, Vec::<String>::new());
}

#[test]
fn trials_of_two_labs_are_never_averaged_and_two_results_of_one_trial_are_refused() {
    let file = study(&claim("C1", &ratio("xfs", "ext4", "more_than = 1.3")));
    let rows: &[(&str, &[f64])] = &[("ext4", TEN), ("xfs", FIFTEEN)];
    let judged = |change: &dyn Fn(&mut Trial)| {
        let mut all = trials(rows);
        let mut second = all.last().unwrap().clone();
        change(&mut second);
        all.push(second);
        claims(&file, all).remove(0)
    };
    // A duplicate of a record counts once.
    assert_eq!(judged(&|_| {}).measured.unwrap().n, 5);
    let of_two = judged(&|trial| trial.lab_id = Some("another".into()));
    assert_eq!(of_two.verdict, Verdict::NotTestable);
    assert!(of_two.why.contains("'xfs' has trials of two labs in run 'files'"), "{}", of_two.why);
    let differ = judged(&|trial| trial.measured.phases[0].returned_ns.0 += 1);
    assert_eq!(differ.verdict, Verdict::NotTestable);
    assert!(differ.why.contains("two records of seed 5 in run 'files'"), "{}", differ.why);
}

#[test]
fn a_claim_of_a_run_without_a_trial_was_not_run_yet() {
    let more = HEAD.replace("[[run]]\nname = \"files\"", "[[run]]\nname = \"more\"");
    let more = more.split_once("[[run]]").unwrap().1;
    let check =
        ratio("xfs", "ext4", "more_than = 1.3").replace("phase =", "run = \"more\", phase =");
    let text = format!("{HEAD}[[run]]{more}{}", claim("C1", &check));
    let file = StudyFile::parse("test.toml", &text).unwrap();
    let judged = claims(&file, trials(&[("ext4", TEN), ("xfs", FIFTEEN)])).remove(0);
    assert_eq!(judged.verdict, Verdict::NotRun);
    assert_eq!(judged.why, "run 'more' has not been run as then.");
}

#[test]
fn a_claim_of_a_row_that_was_not_selected_was_not_run_yet() {
    let file = study(&claim("C1", &ratio("xfs", "ext4", "more_than = 1")));
    let judged = claims(&file, trials(&[("ext4", TEN)])).remove(0);
    assert_eq!(judged.verdict, Verdict::NotRun);
    assert_eq!(judged.why, "run 'files' has no trial of 'xfs'.");
}

#[test]
fn the_instruments_share_of_each_side_of_a_ratio_is_reported() {
    let notes = |figure: &str, ns: u64| {
        let mut all = trials(&[("ext4", TEN), ("xfs", FIFTEEN)]);
        for trial in all.iter_mut().filter(|trial| trial.plan.label == "xfs") {
            let phase = &mut trial.measured.phases[0];
            phase.instrument =
                fsdyno_record::trial::Instrument { server_cpu_ns: Nanos(ns), ..Default::default() };
        }
        all.iter_mut().filter(|trial| trial.plan.label == "ext4").for_each(|trial| {
            trial.measured.phases[0].instrument = Default::default();
        });
        let check = ratio("xfs", "ext4", "more_than = 1.3").replace("returned", figure);
        claims(&study(&claim("C1", &check)), all).remove(0).notes.join(" ")
    };
    // Five times 1.5 of 75 s: a tenth, without which 15 s are 13.5.
    let expected = "The instrument ran for 0 % of the time of 'ext4' and 10 % of that of 'xfs': without it, the time of 'xfs'";
    assert!(
        notes("returned", 1_500_000_000).contains(expected),
        "{}",
        notes("returned", 1_500_000_000)
    );
    assert!(!notes("returned", 100_000_000).contains("instrument"));
    // CPU does not include it.
    assert!(!notes("cpu", 1_500_000_000).contains("The instrument"));
}

#[test]
fn a_latency_without_an_op_reports_its_op() {
    let unnamed = ratio("xfs", "ext4", "more_than = 1.3").replace("returned", "p99");
    let notes = |check: &str| judge_one(check, &[("ext4", TEN), ("xfs", TEN)]).notes.join(" ");
    let expected = "No op is named: p99 of 'create' is that of create, its main op.";
    assert!(notes(&unnamed).contains(expected), "{}", notes(&unnamed));
    assert!(!notes(&unnamed).contains("it equals the maximum"), "{}", notes(&unnamed));
    let mut trials_with_few_ops = trials(&[("ext4", TEN), ("xfs", TEN)]);
    for trial in trials_with_few_ops.iter_mut().filter(|trial| trial.plan.label == "xfs") {
        for ops in trial.measured.phases[0].ops.values_mut() {
            ops.count = 54;
        }
    }
    let judged =
        claims(&study(&claim("C1", &unnamed)), trials_with_few_ops).remove(0).notes.join(" ");
    let expected = "p99 of 'xfs' in 'create' covers 54 ops; below 100 it equals the maximum.";
    assert!(judged.contains(expected) && !judged.contains("'ext4' in"), "{judged}");
    let named = unnamed.replace("figure =", "op = \"create\", figure =");
    assert!(!notes(&named).contains("No op is named"), "{}", notes(&named));
}

#[test]
fn a_claim_without_a_measurement_is_not_testable_and_gives_the_reason() {
    let check = ratio("xfs", "ext4", "more_than = 1");
    let file = study(&claim("C1", &check));
    let judged = |change: &dyn Fn(&mut Trial)| {
        let mut trials = trials(&[("ext4", TEN), ("xfs", FIFTEEN)]);
        trials.iter_mut().filter(|trial| trial.plan.label == "xfs").for_each(change);
        let claim = claims(&file, trials).remove(0);
        assert_eq!(claim.verdict, Verdict::NotTestable, "{claim:?}");
        assert!(claim.measured.is_none() && claim.check.is_some());
        claim.why
    };
    let skipped = judged(&|trial| {
        trial.outcome = Outcome::Skipped;
        trial.reason = Some("kernel 6.12 has no module reiserfs\nmore".into());
    });
    assert_eq!(skipped, "'xfs' was skipped: kernel 6.12 has no module reiserfs.");
    let failed = judged(&|trial| {
        trial.outcome = Outcome::Failed;
        trial.reason = Some("mkfs exited with 1".into());
    });
    assert_eq!(failed, "'xfs' failed: mkfs exited with 1.");
    let served = judged(&|trial| trial.conditions.userspace = true);
    assert!(served.contains("FUSE"), "{served}");
    let dirty = judged(&|trial| trial.measured.check.as_mut().unwrap().clean = false);
    assert!(dirty.starts_with("'xfs' is CHECK FAILED"), "{dirty}");
    let null = judged(&|trial| trial.plan.issuer = fsdyno_record::plan::IssuerPlan::Null);
    assert!(null.starts_with("'xfs' is NO CALLS"), "{null}");
    let phase = judged(&|trial| trial.measured.phases[0].name = "make".into());
    assert_eq!(phase, "its trials have no phase 'create': its phases are make, delete.");
}

#[test]
fn a_row_without_current_conditions_is_not_testable_under_them_only() {
    let file = study(&claim("C1", &ratio("far", "ext4", "more_than = 1")));
    let trials = trials(&[("ext4", TEN), ("far", FIFTEEN)]);
    let mut results = historical(trials.clone());
    results.push(RunResult { variant: Variant::Current, ..results[0].clone() });
    let judged = judge(&file, &results);
    let verdicts: Vec<(&str, Verdict)> =
        judged.variants.iter().map(|v| (v.name.as_str(), v.claims[0].verdict)).collect();
    assert_eq!(verdicts, [("as then", Verdict::StillHolds), ("as today", Verdict::NotTestable)]);
    assert_eq!(judged.variants[1].claims[0].why, "run 'files' has no row 'far' as today.");
}

#[test]
fn a_reason_of_the_file_is_shown_unchanged() {
    let file =
        study("[[claim]]\nid = \"C9\"\ntext = \"It is fun\"\nuntestable = \"fun is no figure\"\n");
    let judged = claims(&file, trials(&[("ext4", TEN)])).remove(0);
    assert_eq!((judged.verdict, judged.why.as_str()), (Verdict::NotTestable, "fun is no figure."));
    assert_eq!(judged.check, None);
}

#[test]
fn only_a_contemporary_kernel_reproduces_a_claim() {
    let file = study(&claim("C1", &ratio("xfs", "ext4", "more_than = 1")));
    let on = |kernel: &str| {
        let mut trials = trials(&[("ext4", TEN), ("xfs", FIFTEEN)]);
        for trial in &mut trials {
            trial.plan.lab_mut().unwrap().kernel = kernel.into();
        }
        claims(&file, trials)[0].verdict
    };
    assert_eq!(on("6.1.0-44-amd64"), Verdict::StillHolds);
    assert_eq!(on("5.10.0-32-amd64"), Verdict::StillHolds);
    assert_eq!(on("2.6.27"), Verdict::Reproduced);
}

#[test]
fn a_verdict_from_the_directory_model_is_marked_as_such() {
    let file = study(&claim("C1", &ratio("xfs", "ext4", "more_than = 1")));
    let mut trials = trials(&[("ext4", TEN), ("xfs", FIFTEEN)]);
    for trial in &mut trials {
        let model = fixture::in_a_model();
        (trial.plan.medium, trial.plan.venue) = (model.plan.medium, model.plan.venue);
        trial.conditions.venue = "model".into();
        trial.conditions.kernel.clear();
    }
    let judged = judge(&file, &historical(trials));
    assert_eq!(judged.variants[0].kernels, Vec::<String>::new());
    let claim = &judged.variants[0].claims[0];
    assert!(claim.notes.contains(&"By the directory model, no kernel.".into()));
}

#[test]
fn flags_and_uncounted_trials_are_reported_with_the_verdict() {
    let file = study(&claim("C1", &ratio("xfs", "ext4", "more_than = 1")));
    let mut trials =
        trials(&[("ext4", &[0.01, 0.0101, 0.0099]), ("xfs", &[15.0, 15.1, 14.9, 15.0])]);
    trials.last_mut().unwrap().outcome = Outcome::Failed;
    let outcome = claims(&file, trials).remove(0);
    assert_eq!(outcome.verdict, Verdict::StillHolds);
    let notes = outcome.notes.join(" ");
    assert!(notes.contains("'ext4' is TOO SHORT"), "{notes}");
    assert!(notes.contains("1 trial of 'xfs' did not succeed"), "{notes}");
}
