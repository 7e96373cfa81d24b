//! Tests of tables and documents in every format.

use super::*;

fn table() -> Table {
    let columns = vec![
        Column::words("name", |row: &[&'static str; 3]| row[0].into()),
        Column::number("n", |row: &[&'static str; 3]| row[1].into()).priority(1).means("a number"),
        Column::number("none", |_: &[&'static str; 3]| "-".into()),
        Column::new(Kind::Notes, "notes", |row: &[&'static str; 3]| row[2].into()),
    ];
    Table::of(columns, &[["a|<b>", "1", ""], ["long, name", "22", "ODD"]]).without_empty()
}

struct Sample;

impl Output for Sample {
    fn document(&self) -> Document {
        let legend = Legend { terms: vec![("~".into(), "about".into())], ..Legend::default() };
        let title = "Title".to_string();
        let blocks = vec![
            Block::Title("A <sample>".into()),
            Block::Strong("Beware.".into()),
            Block::Items(vec!["one".into(), "two".into()]),
            Block::Table(Table { title, details: vec!["below".into()], ..table() }),
            Block::List("Empty:", Vec::new()),
            Block::List("More:", vec!["three".into()]),
            Block::Legend(legend),
        ];
        Document(blocks)
    }

    fn rows(&self, out: &mut dyn Rows) {
        out.row(&["a", "b"].map(String::from));
    }

    fn json(&self) -> Result<String, crate::ReportError> {
        Ok("{}\n".into())
    }
}

fn written(format: Format, width: usize) -> String {
    format.write(&Sample, Style { width, ..Style::default() }).unwrap()
}

#[test]
fn every_format_has_every_part_and_ends_in_one_newline() {
    for (name, _, format) in Format::ALL {
        let text = written(*format, 80);
        assert!(text.ends_with('\n') && !text.ends_with("\n\n"), "{name}: {text:?}");
        if matches!(format, Format::Csv | Format::Json) {
            continue;
        }
        for part in
            ["sample", "Beware.", "two", "Title", "long, name", "ODD", "below", "three", "about"]
        {
            assert!(text.contains(part), "{name}, {part}: {text}");
        }
        assert!(!text.contains("Empty:") && !text.contains("none"), "{name}: {text}");
    }
}

#[test]
fn text_is_aligned_and_an_empty_column_takes_no_space() {
    let text = written(Format::Text, 80);
    assert!(
        text.contains("\nname         n\na|<b>        1\nlong, name  22  ODD\n  below\n"),
        "{text}"
    );
    assert!(text.ends_with("  three\n\nn: a number\n~: about\n"), "{text}");
}

#[test]
fn a_note_of_all_rows_is_written_once() {
    let text_of = |rows: &[[&'static str; 2]]| {
        let columns = vec![
            Column::words("name", |row: &[&'static str; 2]| row[0].into()),
            Column::new(Kind::Notes, "notes", |row: &[&'static str; 2]| row[1].into()),
        ];
        let document = Document(vec![Block::Table(Table::of(columns, rows))]);
        text::text(&document, Style { width: 80, ..Style::default() }, false)
    };
    let shared = text_of(&[["one", "ODD"], ["two", "ODD"]]);
    assert!(shared.contains("one\ntwo\n  all rows: ODD\n"), "{shared}");
    let different = text_of(&[["one", "ODD"], ["two", "EVEN"]]);
    assert!(different.contains("one  ODD\ntwo  EVEN\n"), "{different}");
    let single = text_of(&[["one", "ODD"]]);
    assert!(single.contains("one  ODD\n"), "{single}");
}

#[test]
fn a_narrow_text_omits_columns_and_names_them() {
    let text = written(Format::Text, 12);
    assert!(text.contains("\nname\na|<b>\nlong, name\n    ODD\n"), "{text}");
    assert!(text.contains("columns\n  omitted to\n  fit the\n  width: n\n"), "{text}");
    assert!(!text.contains("a number"), "{text}");
}

#[test]
fn markup_is_escaped_once() {
    let markdown = written(Format::Markdown, 80);
    assert!(markdown.contains("| a\\|&lt;b> | 1 |  |\n"), "{markdown}");
    assert!(
        markdown.contains("**Title**\n\n| name | n | notes |\n| --- | ---: | --- |\n"),
        "{markdown}"
    );
    let html = written(Format::Html, 80);
    assert!(html.contains("<th scope=\"row\">a|&lt;b&gt;</th><td>1</td>"), "{html}");
    assert!(html.contains("<caption>Title</caption>"), "{html}");
}

#[test]
fn a_format_that_an_output_lacks_is_an_error() {
    let written = Format::Special(SpecialFormat::Junit).write(&Sample, Style::default());
    assert!(matches!(written, Err(crate::ReportError::Format)));
}

#[test]
fn columns_of_one_meaning_are_explained_once() {
    let number = |head: &str, meaning: &str| {
        Column::number(head, |_: &()| String::new()).means(meaning).head
    };
    let heads = [
        number("a", "x"),
        number("b", "x"),
        number("±", "y"),
        number("c", "z"),
        number("±", "y"),
        number("p50", ""),
        Column::number("p99", |_: &()| String::new()).means("99").joint_meaning("50 and 99").head,
    ];
    let terms = legend(heads.iter().enumerate());
    let terms: Vec<String> =
        terms.into_iter().map(|(name, meaning)| format!("{name}: {meaning}")).collect();
    assert_eq!(terms, ["a, b: x", "c: z", "±: y", "p50, p99: 50 and 99"]);
    let alone = legend(heads.iter().enumerate().filter(|(_, head)| head.text == "p99"));
    assert_eq!(alone, [("p99".to_string(), "99".to_string())]);
}

#[test]
fn columns_are_aligned_without_trailing_spaces() {
    let rows = [vec!["a".into(), "x".into()], vec!["long".into(), "y".into()]];
    assert_eq!(text::stacked(&rows, None).concat(), "a     x\nlong  y\n");
}

#[test]
fn wide_letters_take_two_columns() {
    let rows = [vec!["日本".into(), "x".into()], vec!["ab".into(), "y".into()]];
    assert_eq!(text::stacked(&rows, None).concat(), "日本  x\nab    y\n");
}

#[test]
fn a_row_that_is_too_wide_is_stacked_and_the_others_are_not() {
    let rows = [
        vec!["hdd-7200".into(), "a disk of 7200 revolutions a minute".into()],
        vec!["instant".into(), "no time".into()],
    ];
    let expected =
        "hdd-7200\n    a disk of 7200\n      revolutions a\n      minute\ninstant   no time\n";
    assert_eq!(text::stacked(&rows, Some(20)).concat(), expected);
    assert_eq!(text::stacked(&rows, Some(80)).concat().lines().count(), 2);
}
