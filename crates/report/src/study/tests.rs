use unicode_width::UnicodeWidthStr;

use super::*;
use crate::table::{Format, MAIL_WIDTH, Style};

fn render(judged: &Judged, format: Format, style: Style) -> String {
    format.write(&Results::of(judged), style).unwrap()
}

fn text(judged: &Judged, style: Style) -> String {
    render(judged, Format::Text, style)
}

fn mail(judged: &Judged) -> String {
    render(judged, Format::Mail, Style::default())
}

fn markdown(judged: &Judged) -> String {
    render(judged, Format::Markdown, Style::default())
}

#[test]
fn the_summary_of_a_study_on_a_terminal() {
    insta::assert_snapshot!(text(&sample::judged(), Style::default()));
}

#[test]
fn the_summary_of_a_study_as_markdown() {
    insta::assert_snapshot!(markdown(&sample::judged()));
}

#[test]
fn a_mail_is_72_columns_of_ascii_and_begins_with_the_counts() {
    let mail = mail(&sample::judged());
    assert!(mail.is_ascii());
    assert!(mail.lines().all(|line| line.len() <= MAIL_WIDTH), "{mail}");
    assert!(mail.starts_with("as then: 6 claims: 2 still hold, 1 no longer holds, 1 reversed, 1"));
}

#[test]
fn a_table_that_is_too_wide_is_printed_in_blocks_and_nothing_is_lost() {
    let mut judged = sample::judged();
    let table = &mut judged.variants[0].tables[0];
    let (column, cell) = (table.columns[0].clone(), table.rows[0].cells[0].clone());
    table.columns.extend(std::iter::repeat_n(column, 12));
    table.rows.iter_mut().for_each(|row| row.cells.extend(std::iter::repeat_n(cell.clone(), 12)));
    let text = text(&judged, Style { width: 80, ..Style::default() });
    assert!(text.lines().all(|line| line.width() <= 80), "{text}");
    // 13 in the first row of the wide table, 12 in the second, and one in the other variant's table.
    assert_eq!(text.matches("618.991").count(), 13 + 12 + 1);
}

#[test]
fn claims_and_tables_of_runs_without_trials_are_counted_and_not_shown() {
    let mut judged = sample::judged();
    judged.variants.truncate(1);
    let all = judged.variants[0].claims.len();
    for claim in &mut judged.variants[0].claims[1..] {
        (claim.verdict, claim.measured) = (Verdict::NotRun, None);
    }
    let cells = judged.variants[0].tables[0].rows.iter_mut().flat_map(|row| &mut row.cells);
    cells.for_each(|cell| cell.measured = None);
    let text = text(&judged, Style::default());
    let note = format!("Not shown: {} claims without trials, and 1 table", all - 1);
    assert!(text.contains(&note), "{text}");
    assert!(text.contains("  C1 ") && !text.contains("  C2 "), "{text}");
    assert!(!text.contains("times: "), "{text}");
    let json: serde_json::Value = serde_json::from_str(&json(&judged, extras()).unwrap()).unwrap();
    assert_eq!(json["variants"][0]["claims"].as_array().unwrap().len(), all);
}

/// Conditions without a run.
fn extras() -> Extras<'static> {
    static NOT_RUN: std::sync::LazyLock<[NotRun; 1]> = std::sync::LazyLock::new(|| {
        [NotRun { conditions: "as it stands".into(), why: "It was never run.".into() }]
    });
    Extras { not_run: NOT_RUN.as_slice(), ..Extras::default() }
}

#[test]
fn json_has_the_verdicts_as_words_and_nothing_rounded() {
    let json: serde_json::Value =
        serde_json::from_str(&json(&sample::judged(), extras()).unwrap()).unwrap();
    let historical = &json["variants"][0];
    assert_eq!(historical["claims"][1]["verdict"], "no longer holds");
    assert_eq!(historical["claims"][0]["measured"]["interval"][0], 1.72 * 0.98);
    assert_eq!(historical["tables"][0]["rows"][0]["cells"][1]["published"], "15.70±0.64");
    assert_eq!(json["variants"][1]["scale"], 10);
}

#[test]
fn json_fits_its_published_schema_which_allows_every_verdict_and_no_other_word() {
    let schema =
        crate::schemas::ALL.iter().find(|schema| schema.name == "judged").unwrap().schema();
    assert!(jsonschema::meta::is_valid(&schema));
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let valid: serde_json::Value =
        serde_json::from_str(&json(&sample::judged(), extras()).unwrap()).unwrap();
    let errors: Vec<String> = validator.iter_errors(&valid).map(|e| e.to_string()).collect();
    assert_eq!(errors, Vec::<String>::new());
    let is_valid_with = |verdict: &str| {
        let mut json = valid.clone();
        json["variants"][0]["claims"][0]["verdict"] = verdict.into();
        validator.is_valid(&json)
    };
    assert!(
        Verdict::ALL.iter().all(|verdict| is_valid_with(verdict.word()))
            && !is_valid_with("unknown verdict")
    );
    let mut unknown = valid.clone();
    unknown["surprise"] = 1.into();
    let mut missing = valid.clone();
    missing["variants"][0]["claims"][0].as_object_mut().unwrap().remove("p");
    assert!(!validator.is_valid(&unknown) && !validator.is_valid(&missing));
}

#[test]
fn words_of_a_verdict_agree_with_the_count_and_colour_adds_no_words() {
    assert_eq!(Verdict::StillHolds.words(1), "still holds");
    assert_eq!(Verdict::NoLongerHolds.words(0), "no longer hold");
    assert_eq!(Verdict::Undecided.words(7), "undecided");
    let painted = text(&sample::judged(), Style { color: true, ..Style::default() });
    assert!(painted.contains("\x1b[31mreversed\x1b[0m: ext4 removes slower"));
    let mut plain = painted;
    for code in ["1", "32", "31", "33", "2", "0"] {
        plain = plain.replace(&format!("\x1b[{code}m"), "");
    }
    assert_eq!(plain, text(&sample::judged(), Style::default()));
}

#[test]
fn foreign_text_cannot_control_the_terminal() {
    let mut judged = sample::judged();
    judged.title.push_str("\x1b[2J");
    judged.variants[0].claims[0].text.push_str("\x1b[2J");
    judged.variants[0].tables[0].rows[0].label.push_str("\x1b[2J");
    for out in [text(&judged, Style::default()), markdown(&judged), mail(&judged)] {
        assert!(!out.contains('\x1b'), "{out}");
    }
}
