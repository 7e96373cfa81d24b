//! A comparison as a document.

use fsdyno_stats::compare::Verdict;

use super::{Compared, ExplainedStep, Row, Side, words};
use crate::table::{Block, Column, Document, Fit, Kind, Legend, Table, Tone};

/// The table of all phases, grouped by cell, the summary, and the other differences.
pub fn document(compared: &Compared) -> Document {
    let mut out = Document::default();
    if let Some(axis_key) = compared.axis_key {
        out.0.push(Block::Paragraph(words::steps(axis_key, compared)));
    }
    if !compared.rows.is_empty() {
        out.0.push(Block::Table(table(compared)));
    }
    out.0.push(Block::Answer(words::summary(compared)));
    let explained: Vec<&Row> = compared.rows.iter().filter(|row| row.explained.is_some()).collect();
    if !explained.is_empty() {
        out.0.push(Block::Table(explained_table(&explained)));
    }
    let same = words::nothing_else(compared);
    let differences = compared.differences.iter().map(words::difference).collect();
    out.0.push(match compared.differences.is_empty() {
        true => Block::Paragraph(same.into()),
        false => Block::List("Other differences:", differences),
    });
    out.0.push(Block::List("Unmatched:", words::unmatched(compared)));
    out.0.push(Block::List("Failed or skipped:", words::unfinished(compared)));
    out.0.push(Block::Legend(Legend { terms: words::legend(compared), ..Legend::default() }));
    out
}

fn table(compared: &Compared) -> Table {
    let without_unit = |text: String| text.replace(" %", "");
    let sides = words::measure(compared.metric);
    let columns = vec![
        Column::new(Kind::Group, "cell", Row::group),
        Column::words("phase", |row: &Row| row.phase.clone()),
        Column::number("n", words::n),
        Column::number("base", |row: &Row| words::value(row, Side::Base)).means(sides),
        Column::number("new", |row: &Row| words::value(row, Side::New)).means(sides),
        Column::number("effect %", move |row: &Row| without_unit(words::effect(row)))
            .term("effect")
            .means(words::effect_meaning(compared)),
        Column::number("95 % interval", move |row: &Row| without_unit(words::interval(row))),
        Column::number("adj. p", words::p).priority(1).means(
            "p of the same test, adjusted by Holm's method for all rows of the table; the interval is not adjusted",
        ),
        Column::new(Kind::Verdict, "verdict", |row: &Row| words::verdict(row.verdict()).into()),
        Column::new(Kind::Notes, "notes", words::marks),
    ];
    let mut table = Table { fit: Fit::Tight, ..Table::of(columns, &compared.rows) };
    for (cells, row) in table.rows.iter_mut().zip(&compared.rows) {
        cells.tone = match row.verdict() {
            Verdict::Slower => Tone::Bad,
            Verdict::Faster => Tone::Good,
            _ => Tone::Plain,
        };
    }
    table
}

/// The table of the explained steps' instructions, the largest steps first.
fn explained_table(rows: &[&Row]) -> Table {
    let explained = |row: &&Row, cell: fn(&ExplainedStep) -> String| {
        row.explained.as_ref().map_or_else(String::new, cell)
    };
    let columns = vec![
        Column::new(Kind::Group, "cell", |row: &&Row| row.group()),
        Column::words("phase", |row: &&Row| row.phase.clone()),
        Column::number("effect %", |row: &&Row| words::effect(row).replace(" %", "")),
        Column::number("before instr/op", move |row| {
            explained(row, |step| format!("{:.0}", step.base))
        })
        .means(words::COUNTED),
        Column::number("after instr/op", move |row| {
            explained(row, |step| format!("{:.0}", step.new))
        })
        .means(words::COUNTED),
        Column::number("change %", move |row| {
            explained(row, |step| words::change(step.new / step.base).replace(" %", ""))
        }),
        Column::words("function", move |row| explained(row, words::source)),
    ];
    let mut rows = rows.to_vec();
    let distance = |row: &Row| row.comparison.map_or(0.0, |comparison| comparison.ratio.ln().abs());
    rows.sort_by(|one, other| distance(other).total_cmp(&distance(one)));
    Table { fit: Fit::Tight, column_group: 1, ..Table::of(columns, &rows) }
}
