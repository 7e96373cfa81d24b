//! Tests of the printed forms of trials.

use fsdyno_record::Nanos;
use unicode_width::UnicodeWidthStr;

use super::*;
use crate::fixture;
use crate::table::MAIL_WIDTH;

fn text(trials: &[Trial], width: usize) -> String {
    table(trials, None, Format::Text, Style { width, ..Style::default() }).unwrap()
}

#[test]
fn a_wide_terminal_shows_every_column() {
    insta::assert_snapshot!(text(&fixture::trials(), 120));
}

#[test]
fn verbose_notes_state_the_smallest_difference_and_its_default() {
    let of = |trials: &[Trial], full| {
        let style = Style { full, width: 200, ..Style::default() };
        table(trials, None, Format::Text, style).unwrap()
    };
    let rule = "least difference: 1 % (--least-difference, by default 1 %): a ratio whose whole 95 % interval is within ±1 %";
    let text = of(&fixture::trials(), true);
    assert!(text.contains(rule), "{text}");
    assert!(!of(&fixture::trials(), false).contains(rule), "--verbose only");
    assert!(!of(&fixture::single(), true).contains(rule), "single trials have no test");
}

#[test]
fn failed_and_skipped_trials_are_listed_with_their_reasons() {
    insta::assert_snapshot!(text(&fixture::with_failures(), 100));
}

#[test]
fn a_directory_on_a_host_has_no_durable_time_and_a_note() {
    insta::assert_snapshot!(text(&fixture::on_a_host(), 100));
}

#[test]
fn single_trials_show_no_spread_and_claim_nothing() {
    insta::assert_snapshot!(text(&fixture::single(), 100));
}

#[test]
fn against_a_baseline_the_last_column_is_named_for_it() {
    let trials = fixture::trials();
    let text = table(&trials, Some("ext4"), Format::Text, Style::default()).unwrap();
    insta::assert_snapshot!(text);
}

#[test]
fn a_mail_is_72_columns_of_ascii() {
    let mail = table(&fixture::with_failures(), None, Format::Mail, Style::default()).unwrap();
    assert!(mail.is_ascii());
    assert!(mail.lines().all(|line| line.len() <= MAIL_WIDTH), "{mail}");
    insta::assert_snapshot!(mail);
}

#[test]
fn markdown_is_pipe_tables() {
    let style = Style::default();
    insta::assert_snapshot!(
        table(&fixture::with_failures(), None, Format::Markdown, style).unwrap()
    );
}

#[test]
fn json_is_the_records_themselves() {
    let json = table(&fixture::trials(), None, Format::Json, Style::default()).unwrap();
    let back: Vec<Trial> = serde_json::from_str(&json).unwrap();
    assert_eq!(back, fixture::trials());
}

#[test]
fn a_phase_too_short_to_be_compared_is_folded_if_another_takes_the_time() {
    let mut trials = fixture::trials();
    trials.retain(|trial| trial.plan.workload.name == "dirops");
    for trial in &mut trials {
        let phase = &mut trial.measured.phases[0];
        (phase.returned_ns, phase.synced_ns) = (Nanos(1_000_000), Some(Nanos(2_000_000)));
        phase.durable_ns = Some(Nanos(2_000_000 + trial.seed));
    }
    let style = Style { full: false, width: 100, ..Style::default() };
    let of = |trials: &[Trial], style| table(trials, None, Format::Text, style).unwrap();
    let brief = of(&trials, style);
    assert!(!brief.contains("\ndirops create\n") && brief.contains("\ndirops delete\n"), "{brief}");
    assert!(!brief.contains("TOO SHORT"), "{brief}");
    let line = "\nNot shown, too short to be compared: dirops create\n";
    assert!(brief.contains(line), "{brief}");
    let full = of(&trials, Style { full: true, ..style });
    assert!(full.contains("\ndirops create\n") && full.contains("TOO SHORT"), "{full}");
    // Alone, it is the phase that was requested.
    trials.iter_mut().for_each(|trial| trial.measured.phases.truncate(1));
    let alone = of(&trials, style);
    assert!(alone.contains("\ndirops create\n") && alone.contains("TOO SHORT"), "{alone}");
}

#[test]
fn the_legend_has_the_largest_share_of_the_instrument_in_a_flagged_row() {
    let mut trials = fixture::trials();
    trials.retain(|trial| trial.plan.workload.name == "dirops");
    for trial in &mut trials {
        // ext4 differs by more than its share, the largest; the others differ by less than theirs.
        let (ms, share) = match trial.plan.label.as_str() {
            "ext4" => (3640, 60),
            "xfs" => (1000, 42),
            _ => (1030, 35),
        };
        trial.measured.phases.truncate(1);
        let phase = &mut trial.measured.phases[0];
        phase.durable_ns = Some(fsdyno_record::Nanos(ms * 1_000_000 + trial.seed));
        phase.instrument = Default::default();
        phase.instrument.server_cpu_ns = fsdyno_record::Nanos(ms * share * 1000);
    }
    let style = Style { full: false, width: 120, ..Style::default() };
    let text = table(&trials, None, Format::Text, style).unwrap();
    let line = "\nINSTRUMENT-BOUND: fsdyno itself used up to 4.2 % of the time; ignore differences up to that\n";
    assert!(text.contains(line), "{text}");
    let others = "\nfsdyno itself used up to 6.0 % of another row's time; each difference is larger than its rows' shares\n";
    assert!(text.contains(others), "{text}");
    trials.retain(|trial| trial.plan.label != "far");
    let text = table(&trials, None, Format::Text, style).unwrap();
    let line = "\nfsdyno itself used up to 6.0 % of a row's time; each difference is larger than its rows' shares\n";
    assert!(text.contains(line) && !text.contains("INSTRUMENT-BOUND"), "{text}");
}

#[test]
fn a_narrow_terminal_omits_columns_and_never_a_digit() {
    let wide = text(&fixture::trials(), 120);
    for width in [40, 50, 60, 72, 80, 90] {
        let narrow = text(&fixture::trials(), width);
        let rows = |text: &str| -> Vec<String> {
            text.lines().filter(|l| l.starts_with("xfs  ")).map(String::from).collect()
        };
        assert_eq!(rows(&narrow).len(), 4);
        for (narrow, wide) in rows(&narrow).iter().zip(rows(&wide)) {
            assert!(narrow.width() <= width, "{narrow}");
            let known: Vec<&str> = wide.split("  ").map(str::trim).collect();
            let cells: Vec<&str> =
                narrow.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
            assert!(cells.iter().all(|cell| known.contains(cell)), "{narrow}");
        }
    }
}

#[test]
fn a_heading_names_no_omitted_column() {
    let mut trials = fixture::trials();
    for phase in trials.iter_mut().flat_map(|trial| &mut trial.measured.phases) {
        let calls = phase.ops.values().next().cloned().unwrap();
        phase.ops.insert(fsdyno_record::OpKind::Fsync, calls);
        phase.unit = Some("deliveries".into());
    }
    let heading = |text: &str| {
        text.lines().find(|line| line.starts_with("dirops create")).unwrap().to_string()
    };
    assert_eq!(heading(&text(&trials, 200)), "dirops create (p50, p99: create)");
    assert_eq!(heading(&text(&trials, 60)), "dirops create");
    for width in 40..200 {
        let text = text(&trials, width);
        let mut lines = text.lines().skip_while(|line| !line.starts_with("dirops create"));
        let (heading, heads) = (lines.next().unwrap(), lines.next().unwrap());
        for head in ["p50", "p99"] {
            assert_eq!(heading.contains(head), heads.contains(head), "{width}: {heads}");
        }
    }
    let markdown = table(&trials, None, Format::Markdown, Style::default()).unwrap();
    assert!(markdown.contains("### dirops create (p50, p99: create)"), "{markdown}");
}

#[test]
fn names_of_several_axes_displace_no_column() {
    let mut trials = fixture::trials();
    let mut other = fixture::trials();
    for trial in &mut other {
        trial.plan.medium.modelled_mut().unwrap().raid = "5x3".parse().ok();
        let lab = trial.plan.lab_mut().unwrap();
        (lab.ram, lab.kernel) = (fsdyno_record::Bytes(512 << 20), "6.12.94+deb12".into());
        fixture::set_disk(trial, "hdd-7200");
    }
    let heads = |text: &str| {
        let head = text.lines().find(|line| line.starts_with("file system")).unwrap();
        head.split_whitespace().map(String::from).collect::<Vec<_>>()
    };
    let alone = heads(&text(&trials, 110));
    trials.extend(other);
    let both = text(&trials, 110);
    assert_eq!(heads(&both), alone, "{both}");
    for part in ["RAID 5x3", "6.12.94+deb12", "RAM 512 MiB"] {
        assert!(both.contains(part), "{both}");
    }
    assert!(both.lines().all(|line| line.width() <= 110), "{both}");
}

#[test]
fn columns_of_one_workload_displace_none_of_another() {
    let heads = |text: &str, title: &str| {
        let mut lines = text.lines().skip_while(|line| *line != title).skip(1);
        lines.next().unwrap().split_whitespace().map(String::from).collect::<Vec<_>>()
    };
    let mut trials = fixture::trials();
    let alone = heads(&text(&trials, 100), "dirops create");
    let capacity = fsdyno_record::trial::Capacity {
        device: Some(fsdyno_record::Bytes(1 << 30)),
        files: 1_234_567,
        ..Default::default()
    };
    for trial in trials.iter_mut().filter(|trial| trial.plan.workload.name == "tarball") {
        trial.measured.capacity = Some(capacity);
    }
    let both = text(&trials, 100);
    assert_eq!(heads(&both, "dirops create"), alone, "{both}");
    assert!(both.contains("1,234,567"), "{both}");
}

#[test]
fn a_name_with_commas_is_parenthesized_in_a_sentence() {
    let mut trials = fixture::trials();
    let mut other = fixture::trials();
    other.iter_mut().for_each(|trial| fixture::set_disk(trial, "instant"));
    trials.append(&mut other);
    let output = text(&trials, 200);
    assert!(output.contains("xfs (hdd-7200)") && output.contains("xfs (instant)"), "{output}");
}

#[test]
fn a_long_label_is_truncated_and_digits_are_not() {
    let mut trials = fixture::trials();
    for trial in &mut trials {
        trial.plan.label = format!("{} with a label of more than forty letters", trial.plan.label);
    }
    let narrow = text(&trials, 50);
    let row =
        narrow.lines().find(|line| line.starts_with("xfs with") && line.contains(" s ")).unwrap();
    assert!(row.width() <= 50 && row.contains('…') && row.ends_with("1.42 s     1.00"), "{row}");
}

#[test]
fn colour_is_optional_and_a_label_cannot_add_its_own() {
    let mut trials = fixture::trials();
    trials.iter_mut().for_each(|trial| trial.plan.label.insert_str(0, "\x1b[31m"));
    assert!(!text(&trials, 100).contains('\x1b'));
    let style = Style { color: true, ..Style::default() };
    assert!(table(&fixture::trials(), None, Format::Text, style).unwrap().contains("\x1b[1m"));
}

#[test]
fn without_trials_there_is_a_sentence_and_no_table() {
    assert_eq!(table(&[], None, Format::Text, Style::default()).unwrap(), "No trial succeeded.\n");
}
