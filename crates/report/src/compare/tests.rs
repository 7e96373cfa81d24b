//! Tests of comparisons on generated trials.

use super::*;
use crate::fixture;
use crate::measure::Measure;
use crate::table::{Format, Style};
use fsdyno_axes::Axis;
use fsdyno_record::Nanos;

fn print(compared: &Compared, format: Format, style: Style) -> String {
    format.write(compared, style).unwrap()
}

fn options() -> CompareOptions {
    CompareOptions { metric: Metric::Durable, threshold: 0.03, fail_on: FailOn::Slower }
}

fn compare_trials(base: &[Trial], new: &[Trial]) -> Compared {
    compare(base, new, options()).unwrap()
}

/// The fixture's trials with the times of one label's phases multiplied by `permille` / 1000, plus a small amount
/// that depends on the seed.
fn slowed(label: &str, permille: u64) -> Vec<Trial> {
    let mut trials = fixture::trials();
    for trial in trials.iter_mut().filter(|trial| trial.plan.label == label) {
        for phase in &mut trial.measured.phases {
            let slowed_time =
                |ns: Nanos| Nanos(ns.0 / 1000 * (permille * 1000 + trial.seed * 50) / 1000);
            phase.returned_ns = slowed_time(phase.returned_ns);
            phase.durable_ns = phase.durable_ns.map(slowed_time);
            phase.cpu_ns = slowed_time(phase.cpu_ns);
        }
    }
    trials
}

/// Every case: slower, faster, same, undecided, a different kernel, an unmatched cell, a failed trial.
fn mixed() -> Compared {
    let mut new = slowed("ext4", 1120);
    for trial in &mut new {
        trial.lab_id = Some("b".repeat(64));
        trial.conditions.kernel = "6.12.3 #1 SMP".into();
        let dirops = trial.plan.workload.name == "dirops";
        for phase in &mut trial.measured.phases {
            let permille = match trial.plan.label.as_str() {
                "xfs" if dirops => 900 + trial.seed,
                "xfs" => 940 + 50 * trial.seed,
                _ => continue,
            };
            phase.durable_ns = phase.durable_ns.map(|ns| Nanos(ns.0 / 1000 * permille));
        }
    }
    new.retain(|trial| trial.plan.label != "far" || trial.plan.workload.name == "dirops");
    let mut failed = new[0].clone();
    failed.seed = 4;
    failed.outcome = Outcome::Failed;
    failed.reason = Some("fsck.ext4 exited with 4:\nGroup 3: bad block bitmap".into());
    new.push(failed);
    compare_trials(&fixture::trials(), &new)
}

#[test]
fn a_result_against_itself_is_the_same_everywhere() {
    let trials = fixture::trials();
    let compared = compare_trials(&trials, &trials);
    assert_eq!((compared.rows.len(), compared.count(Verdict::Same)), (12, 12));
    assert!(compared.rows.iter().all(|row| row.comparison.unwrap().exact));
    assert_eq!(compared.bisect(), Bisect::Good);
    assert!(!compared.slower() && compared.differences.is_empty() && compared.unmatched.is_empty());
}

#[test]
fn a_slowdown_is_found_by_pairs_of_seeds_and_is_bad_in_a_bisection() {
    let compared = compare_trials(&fixture::trials(), &slowed("ext4", 1120));
    assert_eq!((compared.count(Verdict::Slower), compared.count(Verdict::Same)), (4, 8));
    assert_eq!(compared.bisect(), Bisect::Bad);
    let row = &compared.rows[0];
    assert_eq!(row.comparison.unwrap().method, fsdyno_stats::compare::Method::Paired);
    assert!((row.comparison.unwrap().ratio - 1.1201).abs() < 1e-4, "{row:?}");
    assert!(row.comparison.unwrap().p_in_table > row.comparison.unwrap().p);
    // The other way round, it is not a regression.
    let reversed = compare_trials(&slowed("ext4", 1120), &fixture::trials());
    assert_eq!((reversed.count(Verdict::Faster), reversed.bisect()), (4, Bisect::Good));
}

#[test]
fn a_difference_below_the_threshold_is_the_same_and_a_smaller_threshold_finds_it() {
    let (base, new) = (fixture::trials(), slowed("ext4", 1010));
    assert_eq!(compare_trials(&base, &new).count(Verdict::Same), 12);
    let sharp = compare(&base, &new, CompareOptions { threshold: 0.002, ..options() }).unwrap();
    assert_eq!(sharp.count(Verdict::Slower), 4);
}

#[test]
fn hosts_are_compared_by_welch_and_by_returned_if_durable_is_unknown() {
    let compared = compare_trials(&fixture::on_a_host(), &fixture::on_a_host());
    for row in &compared.rows {
        assert_eq!(row.measure, Measure::Returned);
        assert!(row.marks.contains(&Mark::ByReturned), "{row:?}");
        let method = row.comparison.unwrap().method;
        assert_eq!(method, fsdyno_stats::compare::Method::Welch);
    }
}

#[test]
fn one_trial_has_no_verdict_and_a_bisection_skips_it() {
    let compared = compare_trials(&fixture::single(), &slowed("ext4", 3000)[..1]);
    assert_eq!((compared.rows.len(), compared.count(Verdict::Undecided)), (2, 2));
    assert!(compared.rows[0].marks.contains(&Mark::Single), "{:?}", compared.rows[0]);
    assert_eq!(compared.bisect(), Bisect::Undecided);
    assert!(!compared.slower());
}

#[test]
fn a_time_of_zero_has_no_ratio_and_no_verdict() {
    let mut new = fixture::trials();
    new[0].measured.phases[0].durable_ns = Some(Nanos(0));
    let compared = compare_trials(&fixture::trials(), &new);
    assert_eq!(compared.rows[0].verdict(), Verdict::Undecided);
    assert_eq!(compared.rows[0].marks[0], Mark::NoRatio);
    assert_eq!((compared.count(Verdict::Same), compared.bisect()), (11, Bisect::Undecided));
}

#[test]
fn unmatched_seeds_are_excluded_and_reported() {
    let mut new = fixture::trials();
    new.retain(|trial| trial.seed != 2);
    let row = &compare_trials(&fixture::trials(), &new).rows[0];
    assert_eq!((row.base.0, row.new.0), (2, 2));
    assert!(row.marks.contains(&Mark::Excluded(1)));
    new.iter_mut().for_each(|trial| trial.seed += 10);
    let row = &compare_trials(&fixture::trials(), &new).rows[0];
    assert_eq!((row.base.0, row.new.0), (3, 2));
    assert!(row.marks.contains(&Mark::Unpaired));
}

#[test]
fn a_failed_trial_of_the_new_result_is_an_error_even_if_all_trials_of_a_cell_failed() {
    let mut new = fixture::trials();
    for trial in new.iter_mut().filter(|trial| trial.plan.label == "ext4") {
        trial.outcome = Outcome::Failed;
        trial.measured = Default::default();
    }
    let compared = compare_trials(&fixture::trials(), &new);
    assert!(compared.new_failed() && !compared.slower());
    assert_eq!((compared.rows.len(), compared.unfinished.len()), (8, 6));
    assert_eq!(compared.bisect(), Bisect::Undecided);
    let reversed = compare_trials(&new, &fixture::trials());
    assert!(!reversed.new_failed() && reversed.unfinished.len() == 6);
}

#[test]
fn a_bisection_cannot_be_good_without_every_cell_of_the_base() {
    let mut new = fixture::trials();
    new.retain(|trial| trial.plan.label != "far");
    let compared = compare_trials(&fixture::trials(), &new);
    assert_eq!((compared.count(Verdict::Same), compared.unmatched.len()), (8, 2));
    assert_eq!(compared.bisect(), Bisect::Undecided);
    assert_eq!(compare_trials(&new, &fixture::trials()).bisect(), Bisect::Good);
}

#[test]
fn records_with_different_schemas_are_a_difference() {
    let mut new = fixture::trials();
    new.iter_mut().filter(|trial| trial.seed == 1).for_each(|trial| trial.schema = 0);
    let compared = compare_trials(&fixture::trials(), &new);
    let lines: Vec<String> = compared.differences.iter().map(words::difference).collect();
    assert_eq!(lines, ["schema of records: 2 -> 0 | 2"]);
}

#[test]
fn an_unmeasured_value_is_not_zero() {
    let mut new = fixture::trials();
    new.iter_mut().for_each(|trial| trial.measured.phases[0].ops.clear());
    let options = CompareOptions { metric: Metric::P99, ..options() };
    let compared = compare(&fixture::trials(), &new, options).unwrap();
    assert_eq!((compared.rows[0].new.1, compared.rows[0].marks[0]), (None, Mark::NoRatio));
    let mail = print(&compared, Format::Mail, Style::default());
    assert!(!mail.contains("0 ns"), "{mail}");
}

#[test]
fn the_error_for_nothing_in_common_lists_the_cells_of_each_side() {
    let mut new = fixture::trials();
    new.iter_mut().for_each(|trial| fixture::set_disk(trial, "instant"));
    let error = compare(&fixture::trials(), &new, options()).unwrap_err().to_string();
    for word in ["BASE has dirops on ext4, hdd-7200", "NEW has", "instant"] {
        assert!(error.contains(word), "{error}");
    }
    let empty = compare(&fixture::trials(), &[], options()).unwrap_err().to_string();
    assert!(empty.contains("NEW has no trial"), "{empty}");
}

#[test]
fn every_metric_measures_a_different_quantity() {
    let (base, mut new) = (fixture::trials(), fixture::trials());
    for trial in &mut new {
        for phase in &mut trial.measured.phases {
            phase.cpu_ns = Nanos(phase.cpu_ns.0 * 2);
            phase.returned_ns = Nanos(phase.returned_ns.0 * 3);
            phase.ops.values_mut().for_each(|stats| stats.p99_ns = Nanos(stats.p99_ns.0 * 4));
        }
    }
    for (metric, ratio) in
        [(Metric::Durable, 1.0), (Metric::Cpu, 2.0), (Metric::Returned, 3.0), (Metric::P99, 4.0)]
    {
        let compared = compare(&base, &new, CompareOptions { metric, ..options() }).unwrap();
        for row in &compared.rows {
            assert_eq!(row.measure.name(), metric.name());
            assert!((row.comparison.unwrap().ratio - ratio).abs() < 1e-9, "{row:?}");
        }
    }
}

#[test]
fn a_phase_that_ended_by_time_is_measured_per_operation() {
    let timed = |times: u64| {
        let mut trials = fixture::trials();
        for phase in trials.iter_mut().flat_map(|trial| &mut trial.measured.phases) {
            phase.limit_ns = Some(phase.returned_ns);
            phase.ops.values_mut().for_each(|stats| stats.count *= times);
        }
        trials
    };
    let compared = compare_trials(&timed(1), &timed(2));
    assert_eq!(compared.count(Verdict::Faster), 12);
    assert!(compared.rows[0].marks.contains(&Mark::TimePerOperation));
    assert!((compared.rows[0].comparison.unwrap().ratio - 0.5).abs() < 1e-9);
}

#[test]
fn as_text() {
    insta::assert_snapshot!(print(&mixed(), Format::Text, Style::default()));
}

#[test]
fn as_a_mail() {
    let mail = print(&mixed(), Format::Mail, Style::default());
    assert!(mail.is_ascii() && mail.lines().all(|line| line.len() <= 72), "{mail}");
    insta::assert_snapshot!(mail);
}

#[test]
fn a_mail_has_at_most_twenty_lines_without_hashes_unless_everything_is_requested() {
    let mut compared = mixed();
    // Many more of everything.
    for _ in 0..3 {
        compared.rows.extend(mixed().rows);
        compared.differences.extend(mixed().differences);
        compared.unmatched.extend(mixed().unmatched);
    }
    for compared in [mixed(), compared] {
        let style = Style { full: false, ..Style::default() };
        let mail = print(&compared, Format::Mail, style);
        assert!(mail.lines().count() <= 20, "{mail}");
        assert!(mail.is_ascii() && mail.lines().all(|line| line.len() <= 72), "{mail}");
        assert!(!mail.contains("bbbbbbbbbbbb") && mail.contains("other hash"), "{mail}");
        assert!(mail.contains("kernel: 6.1.0-44-amd64") && mail.contains("--verbose"), "{mail}");
    }
    let style = Style { full: false, ..Style::default() };
    insta::assert_snapshot!(print(&mixed(), Format::Mail, style));
}

#[test]
fn as_markdown() {
    insta::assert_snapshot!(print(&mixed(), Format::Markdown, Style::default()));
}

#[test]
fn as_junit() {
    insta::assert_snapshot!(print(
        &mixed(),
        Format::Special(SpecialFormat::Junit),
        Style::default()
    ));
}

#[test]
fn with_fail_on_undecided_every_format_agrees_with_the_exit_code() {
    let plain = mixed();
    let strict = Compared { fail_on: FailOn::Undecided, ..mixed() };
    // Without the slower phases, only those without a verdict are left.
    let without_slower = |mut compared: Compared| {
        compared.rows.retain(|row| row.verdict() != Verdict::Slower);
        compared
    };
    let [plain, strict] = [plain, strict].map(without_slower);
    assert_eq!([plain.fails(), strict.fails()], [false, true]);
    let junit = |compared: &Compared| {
        let text = print(compared, Format::Special(SpecialFormat::Junit), Style::default());
        (text.matches("<failure ").count(), text.matches("<skipped ").count(), text)
    };
    let (failures, skipped, text) = junit(&plain);
    assert_eq!((failures, skipped), (0, 3), "{text}");
    let (failures, skipped, text) = junit(&strict);
    assert_eq!((failures, skipped), (3, 0), "{text}");
    assert!(text.contains("failures=\"3\" errors=\"1\" skipped=\"0\""), "{text}");
    assert!(text.contains("type=\"undecided\"") && text.contains("n = 43 would decide"), "{text}");
    let sentence = "Failure because of --fail-on undecided: 2 undecided phases, 1 only in BASE.";
    for format in [Format::Text, Format::Markdown, Format::Mail, Format::Json] {
        let style = Style { width: 1000, ..Style::default() };
        let shown =
            [&plain, &strict].map(|compared| print(compared, format, style).replace('\n', " "));
        assert_eq!(shown.map(|text| text.contains(sentence)), [false, true], "{format:?}");
    }
    // What is decided passes.
    let mut decided = strict;
    decided.rows.retain(|row| row.verdict() != Verdict::Undecided);
    decided.unmatched.clear();
    assert!(
        !decided.fails()
            && !print(&decided, Format::Markdown, Style::default()).contains("Failure")
    );
}

#[test]
fn as_csv_and_json_have_every_row() {
    let compared = mixed();
    let csv = print(&compared, Format::Csv, Style::default());
    assert_eq!(csv.lines().count(), compared.rows.len() + 1);
    let columns = csv.lines().next().unwrap().split(',').count();
    let plain = csv.lines().find(|line| line.contains("slower")).unwrap();
    assert_eq!(plain.replace("\"\"", "").split(',').count(), columns, "{plain}");
    let json: serde_json::Value =
        serde_json::from_str(&print(&compared, Format::Json, Style::default())).unwrap();
    assert_eq!(json["rows"].as_array().unwrap().len(), compared.rows.len());
    assert_eq!(json["rows"][0]["verdict"], "slower");
    assert_eq!(json["unfinished"][0]["side"], "new");
    assert_eq!(json["differences"].as_array().unwrap().len(), 2);
}

#[test]
fn hostile_names_are_escaped_for_terminal_and_markup() {
    let mut trials = fixture::with_failures();
    for trial in &mut trials {
        trial.plan.label = "<script>alert(1)</script>\x1b[2J\"|'&\u{ffff}".into();
        trial.reason = trial.reason.as_ref().map(|_| "]]><b>\0\x1b[2J".into());
        for phase in &mut trial.measured.phases {
            phase.name = format!("<b>\n{}", phase.name);
        }
    }
    trials.retain(|trial| trial.plan.filesystem.as_ref().unwrap().kind != "ext4");
    let mut new = trials.clone();
    new.iter_mut().for_each(|trial| trial.conditions.kernel = "<i>\x07".into());
    let compared = compare_trials(&trials, &new);
    for (name, _, format) in Format::ALL {
        let text = print(&compared, *format, Style::default());
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{name}: {text}");
        if matches!(format, Format::Html | Format::Markdown) {
            assert!(!text.contains("<script") && !text.contains("<b>"), "{name}: {text}");
            assert!(!text.contains("<i>"), "{name}: {text}");
        }
    }
    let junit = print(&compared, Format::Special(SpecialFormat::Junit), Style::default());
    assert!(!junit.contains('\u{ffff}') && junit.contains("&lt;script&gt;"), "{junit}");
}

#[test]
fn a_narrow_terminal_omits_p_first_and_wraps_the_rest() {
    let text = print(&mixed(), Format::Text, Style { width: 58, ..Style::default() });
    assert!(text.lines().all(|line| line.chars().count() <= 58), "{text}");
    assert!(text.contains("slower") && !text.lines().nth(1).unwrap().contains(" p "), "{text}");
    // No width makes it hang or panic.
    for width in 0..40 {
        assert!(
            !print(&mixed(), Format::Text, Style { color: true, width, ..Style::default() })
                .is_empty()
        );
    }
}

#[test]
fn steps_within_a_result_may_be_along_any_axis_and_other_cells_have_no_neighbour() {
    let steps_by =
        |trials: &[Trial], key: &str| compare_by(trials, Axis::of(key).unwrap(), options());
    let trials = fixture::trials();
    let compared = steps_by(&trials, "fs").unwrap();
    assert_eq!(compared.axis_key, Some("fs"));
    let first = &compared.rows[0];
    assert_eq!((first.cell.as_str(), first.group().as_str()), ("dirops", "dirops: ext4 -> xfs"));
    let error = steps_by(&trials, "kernel").unwrap_err().to_string();
    assert!(error.contains("all trials have the same kernel, "), "{error}");
    let error = steps_by(&trials, "raid").unwrap_err().to_string();
    assert!(error.contains("they differ in fs"), "{error}");
    // Three kernels, one of which has no trial of xfs.
    let mut trials = crate::timeline::tests::on_kernels();
    trials.retain(|trial| {
        trial.plan.label != "xfs" || trial.plan.lab().unwrap().kernel.to_string() != "6.12.3"
    });
    let compared = steps_by(&trials, "kernel").unwrap();
    let steps = |cell: &str| -> Vec<String> {
        let rows = compared.rows.iter().filter(|row| row.cell == cell && row.phase == "create");
        rows.map(|row| row.step.as_ref().unwrap().to_string()).collect()
    };
    assert_eq!(steps("dirops on ext4"), ["5.10.0 -> 6.12.3", "6.12.3 -> 7.3.4"]);
    assert_eq!(steps("dirops on xfs"), ["5.10.0 -> 7.3.4"]);
    assert!(compared.unmatched.is_empty() && compared.differences.is_empty(), "{compared:?}");
    // Each heading of the table counts as a step.
    let text = print(&compared, Format::Text, Style::default());
    let is_heading = |line: &&str| line.contains(" -> ") && !line.contains(',');
    let headings = text.lines().filter(is_heading).count();
    assert!(text.starts_with(&format!("{headings} steps by kernel: ")), "{text}");
    trials.retain(|trial| {
        trial.plan.label != "xfs" || trial.plan.lab().unwrap().kernel.to_string() == "7.3.4"
    });
    let compared = steps_by(&trials, "kernel").unwrap();
    let text = print(&compared, Format::Markdown, Style::default());
    assert!(text.contains("without a neighbour: dirops on xfs, 7.3.4"), "{text}");
}

#[test]
fn a_failed_trial_in_the_middle_is_listed_once_and_one_at_the_first_value_belongs_to_the_base() {
    let kernel = Axis::of("kernel").unwrap();
    let mut trials = crate::timeline::tests::on_kernels();
    let on = |trial: &Trial, kernel: &str| trial.plan.lab().unwrap().kernel.to_string() == kernel;
    let fail = |trials: &mut Vec<Trial>, kernel: &str| {
        let found = trials.iter_mut().find(|trial| on(trial, kernel)).unwrap();
        found.outcome = Outcome::Failed;
    };
    fail(&mut trials, "5.10.0");
    let compared = compare_by(&trials, kernel, options()).unwrap();
    assert_eq!((compared.unfinished.len(), compared.new_failed()), (1, false));
    fail(&mut trials, "6.12.3");
    let compared = compare_by(&trials, kernel, options()).unwrap();
    assert_eq!((compared.unfinished.len(), compared.new_failed()), (2, true));
    let lines = words::unfinished(&compared);
    let starts =
        ["failed with 6.12.3: dirops on ext4, seed 1", "failed with 5.10.0: dirops on ext4"];
    assert!(lines.iter().zip(starts).all(|(line, start)| line.starts_with(start)), "{lines:?}");
    let text = print(&compared, Format::Text, Style::default());
    assert!(text.contains(" 1 trial with 6.12.3 failed.") && !text.contains("BASE"), "{text}");
    let junit = print(&compared, Format::Special(SpecialFormat::Junit), Style::default());
    let case = "name=\"dirops on ext4, 6.12.3, seed 1\"><error message=\"failed with 6.12.3\">";
    assert!(junit.contains(case), "{junit}");
    let json = print(&compared, Format::Json, Style::default());
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["unfinished"][0]["value"], "6.12.3");
}

#[test]
fn a_failed_trial_on_a_host_belongs_to_the_kernel_that_it_ran_on_and_to_none_if_that_is_unknown() {
    let kernel = Axis::of("kernel").unwrap();
    let on = |kernel: &str| {
        let mut trials = fixture::on_a_host();
        trials.iter_mut().for_each(|trial| trial.conditions.kernel = format!("{kernel} #1 SMP"));
        trials
    };
    let mut new = on("6.12.3");
    new[0].outcome = Outcome::Failed;
    let compared = compare_by(&[on("5.10.0"), new.clone()].concat(), kernel, options()).unwrap();
    assert!(compared.new_failed() && compared.unmatched.is_empty(), "{:?}", compared.unmatched);
    assert_eq!(compared.unfinished[0].value.as_deref(), Some("6.12.3"));
    // It may be of either kernel.
    new[0].conditions = Default::default();
    let compared = compare_by(&[on("5.10.0"), new.clone()].concat(), kernel, options()).unwrap();
    assert_eq!((compared.unfinished.len(), compared.unmatched.len()), (1, 1));
    assert!(words::unfinished(&compared)[0].starts_with("failed: dirops on "), "{compared:?}");
    // A result of one kernel has only one cell for it.
    let compared = compare_trials(&on("5.10.0"), &new);
    assert!(compared.new_failed() && compared.unmatched.is_empty(), "{:?}", compared.unmatched);
}

#[test]
fn verbose_notes_state_the_threshold_and_its_default() {
    let options = CompareOptions { threshold: 0.01, ..options() };
    let trials = fixture::trials();
    let compared = compare(&trials, &trials, options).unwrap();
    let text =
        |full| print(&compared, Format::Text, Style { full, width: 200, ..Style::default() });
    let rule = "same: the whole interval is within ±1.0 % (--threshold, by default 3.0 %); faster, slower: it reaches \
                beyond that and excludes 0 %, and adj. p is below 0.05";
    assert!(text(true).contains(rule) && !text(false).contains(rule), "{}", text(true));
}

#[test]
fn explained_steps_are_a_separate_table() {
    let mut compared = mixed();
    let row = compared.rows.iter_mut().find(|row| row.is_step()).unwrap();
    row.explained = Some(ExplainedStep { seed: 1, base: 100.0, new: 130.0, source: None });
    for format in [Format::Text, Format::Markdown] {
        let text = print(&compared, format, Style::default());
        assert!(text.contains("no single function accounts for it"), "{text}");
        assert!(text.contains("before instr/op") && text.contains("after instr/op"), "{text}");
    }
    let junit = print(&compared, Format::Special(SpecialFormat::Junit), Style::default());
    assert!(
        junit.contains("instructions per op 100 -&gt; 130, no single function accounts for it"),
        "{junit}"
    );
}

#[test]
fn markdown_begins_with_the_verdict() {
    let text = print(&mixed(), Format::Markdown, Style::default());
    assert!(text.lines().next().unwrap().contains(" slower, "), "{text}");
}
