//! The table: how fast, and what a power cut costs.

use fsdyno_record::Nanos;

use super::args::Format;
use super::result::{Row, Tried};

/// A column: its head, and its cell of a row.
type Column = (&'static str, fn(&Row) -> String);

const COLUMNS: &[Column] = &[
    ("file system", |row| row.label.clone()),
    ("speed", |row| format!("{:.1} {}/s", row.rate.per_second, row.rate.unit)),
    ("cuts", |row| row.tried.len().to_string()),
    ("VIOLATIONS", |row| row.violations().to_string()),
    ("lost s", |row| {
        let (middle, most) = row.middle_and_most(|tried| tried.findings.lost_ns.0);
        format!("{} / {}", seconds(middle), seconds(most))
    }),
    ("lost files", |row| pair(row, |tried| tried.findings.files_lost)),
    ("empty", |row| pair(row, |tried| tried.findings.files_empty)),
    ("stale", |row| pair(row, |tried| tried.findings.files_stale)),
    ("names lost", |row| pair(row, |tried| tried.findings.names_lost)),
    ("doubled", |row| pair(row, |tried| tried.findings.names_doubled)),
    ("recovery", |row| {
        let (middle, most) = row.middle_and_most(|tried| tried.recovery.mount_ns.0);
        format!("{} / {}", Nanos(middle), Nanos(most))
    }),
    ("repaired", |row| row.count(|tried| tried.recovery.repair.is_some()).to_string()),
    ("unmountable", |row| row.count(|tried| tried.recovery.lost.is_some()).to_string()),
];

const LEGEND: &str = "\
Pairs are the middle cut / the worst. VIOLATIONS: acknowledged bytes or names that are not there, all cuts \
together; must be 0. lost: work that nothing acknowledged, as files and as how far back it reaches. \
empty, stale: such files that came back without bytes, or with zeros or others' bytes in their place. names \
lost: files whose bytes were synced and that no name leads to; doubled: files under both names of a rename. \
recovery: virtual time of the mount. repaired: cuts after which the check was not clean or the mount was \
refused, and the repair was run. The speed is that of the phase that took longest, in the pass that is \
logged: not to the digit that of `fsdyno run`, but as near as 49.350 to 49.350 where the two were compared \
(ext4, 100 messages).";

/// The rows as a table.
pub fn table(rows: &[Row], format: Format) -> String {
    let mut cells = vec![COLUMNS.iter().map(|(head, _)| head.to_string()).collect::<Vec<_>>()];
    cells.extend(rows.iter().map(|row| COLUMNS.iter().map(|(_, cell)| cell(row)).collect()));
    match format {
        Format::Csv => cells.iter().map(|row| format!("{}\n", csv(row))).collect(),
        Format::Markdown => {
            let mut lines: Vec<String> =
                cells.iter().map(|row| format!("| {} |", row.join(" | "))).collect();
            lines.insert(1, format!("|{}", "---|".repeat(COLUMNS.len())));
            format!("{}\n\n{LEGEND}\n", lines.join("\n"))
        }
        Format::Text | Format::Json => format!("{}\n{LEGEND}\n", aligned(&cells)),
    }
}

fn aligned(cells: &[Vec<String>]) -> String {
    let width =
        |column: usize| cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..COLUMNS.len()).map(width).collect();
    let mut text = String::new();
    for row in cells {
        let line = row.iter().zip(&widths).enumerate().map(|(at, (cell, width))| match at {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        text.push_str(line.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

fn csv(row: &[String]) -> String {
    let cell = |cell: &String| match cell.contains([',', '"', '\n']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.clone(),
    };
    row.iter().map(cell).collect::<Vec<_>>().join(",")
}

fn pair(row: &Row, of: fn(&Tried) -> u64) -> String {
    let (middle, most) = row.middle_and_most(of);
    format!("{middle} / {most}")
}

fn seconds(ns: u64) -> String {
    format!("{:.2}", ns as f64 / 1e9)
}
