//! The losses of each file system after power cuts, with its speed: the table of `fsdyno crash`.

use crate::validity::Flag;
use fsdyno_axes::naming::RowNames;
use fsdyno_axes::subject::Subject;
use fsdyno_crash::{CutOutcome, DiskFault, Row};
use fsdyno_filesystem::durability;
use fsdyno_record::Nanos;
use fsdyno_record::trial::Conditions;

use crate::error::ReportError;
use crate::number;
use crate::table::{Block, Column, Document, Fit, Output, Rows, Table};

mod sentences;

pub use sentences::sentences;

/// The columns of the table, beginning with the row's name.
fn columns() -> Vec<Column<'static, Row>> {
    vec![
        Column::words("file system", |row: &Row| marked_name(row, number::sanitize(&row.label))),
        Column::number("speed", |row: &Row| format!("{:.1} {}/s", row.rate.per_second, number::sanitize(&row.rate.unit)))
            .means("of the longest phase, until durable, in the logged pass: close to that \
                 of `fsdyno run`, and not bit-identical (docs/crash.md)"),
        Column::number("cuts", |row: &Row| row.outcomes.len().to_string()),
        Column::number("VIOLATIONS", |row: &Row| row.violations().to_string())
            .means("acknowledged bytes or names that are missing, over all cuts; must be 0"),
        Column::number("lost s", |row: &Row| {
                let (median, max) = row.median_and_max(lost);
                format!("{} / {}", seconds(median), seconds(max))
            })
            .means("age of the oldest unacknowledged work that was lost"),
        Column::number("lost files", |row: &Row| pair(row, |outcome| outcome.findings.files_lost))
            .means("unacknowledged files that are missing, or shorter"),
        Column::number("empty", |row: &Row| pair(row, |outcome| outcome.findings.files_empty))
            .means("such files that exist without bytes"),
        Column::number("stale", |row: &Row| pair(row, |outcome| outcome.findings.files_stale))
            .means("such files with zeros or bytes of other files in place of their own"),
        Column::number("names lost", |row: &Row| pair(row, |outcome| outcome.findings.names_lost))
            .means("files whose bytes were synced and that have no name"),
        Column::number("doubled", |row: &Row| pair(row, |outcome| outcome.findings.names_doubled))
            .means("files under both names of a rename"),
        Column::number("recovery", |row: &Row| {
                let (median, max) = row.median_and_max(mount);
                format!("{} / {}", Nanos(median), Nanos(max))
            })
            .means("virtual time of the mount"),
        Column::number("repaired", |row: &Row| row.count(|outcome| outcome.recovery.repair.is_some()).to_string())
            .means("cuts after which the check was not clean or the mount failed, and the repair ran"),
        Column::number("last resort", |row: &Row| row.count(|outcome| outcome.recovery.last_resort.is_some()).to_string())
            .means("cuts after whose repair the mount failed again, and the tool that discards the journal ran"),
        Column::number("unmountable", |row: &Row| row.unmountable().to_string())
            .means("cuts after which it could not be mounted (hangs and panics included)"),
    ]
}

/// The table of these rows.
pub fn table_of(rows: &[Row]) -> Table {
    Table::of(columns(), executed(rows))
}

/// The meaning of pairs of numbers, printed before the meanings of the columns.
pub const PAIRS: &str = "Pairs are the median / the worst cut.";

/// Age of the oldest lost work, in nanoseconds.
pub fn lost(outcome: &CutOutcome) -> u64 {
    outcome.findings.lost_ns.0
}

/// Duration of the mount, in nanoseconds.
pub fn mount(outcome: &CutOutcome) -> u64 {
    outcome.recovery.mount_ns.0
}

/// Results of `fsdyno crash` to print.
#[derive(Clone, Copy, Debug)]
pub struct CrashReport<'a>(pub &'a [Row]);

impl Output for CrashReport<'_> {
    fn document(&self) -> Document {
        Document(blocks(self.0))
    }

    fn rows(&self, out: &mut dyn Rows) {
        let rows = with_unique_names(self.0);
        out.table(&data(), &rows);
    }

    fn json(&self) -> Result<String, ReportError> {
        Ok(serde_json::to_string_pretty(&json(self.0)?)? + "\n")
    }
}

/// The table, its sentences, and the meaning of its columns.
pub fn blocks(rows: &[Row]) -> Vec<Block> {
    let rows = with_unique_names(rows);
    let table = Table { fit: Fit::Transpose, ..table_of(&rows) };
    let legend = legend(&table);
    vec![Block::Table(table), Block::Answer(sentences(&rows).join(" ")), Block::Markup(legend)]
}

/// The rows with unique names: if labels are equal (for example, in two results), the conditions in which the rows
/// differ are added to them. Unsafe rows are last.
pub fn with_unique_names(rows: &[Row]) -> Vec<Row> {
    let names = RowNames::of(rows.iter().map(subject));
    let mut named: Vec<Row> = Vec::new();
    for row in rows {
        let namesakes = || rows.iter().filter(|other| other.label == row.label);
        let mut label = row.label.clone();
        if namesakes().nth(1).is_some() {
            label += &names.variant(subject(row));
            let workload = names.workload(subject(row));
            if workload != row.plan.workload.name
                || namesakes().any(|other| other.plan.workload.name != row.plan.workload.name)
            {
                label += &format!(", {workload}");
            }
            if namesakes().any(|other| other.seed != row.seed) {
                label += &format!(", seed {}", row.seed);
            }
            if namesakes().any(|other| other.disk != row.disk) {
                label += &fault_suffix(row.disk);
            }
            if namesakes().any(|other| other.atomic_unit != row.atomic_unit) {
                label += &format!(", torn at {}", row.atomic_unit);
            }
            // Rows with equal conditions are numbered.
            let numbered = (2..).map(|number| format!("{label} ({number})"));
            let is_free = |name: &String| named.iter().all(|other| other.label != *name);
            label =
                std::iter::once(label.clone()).chain(numbered).find(is_free).unwrap_or_default();
        }
        named.push(Row { label, ..row.clone() });
    }
    named.sort_by_key(|row| !risks(row).is_empty());
    named
}

/// The reasons why acknowledged data of a row may be lost because of its options, regardless of the results of these
/// cuts.
fn risks(row: &Row) -> Vec<String> {
    durability::risks(row.plan.filesystem.as_ref(), &Conditions::default())
}

/// A row's name, with a mark if its options give up durability, because a chart has no column for flags.
fn marked_name(row: &Row, name: String) -> String {
    if risks(row).is_empty() { name } else { format!("{} {name}", Flag::Unsafe) }
}

/// The rows as they are stored, each with the options that give up durability.
///
/// # Errors
/// Only [`ReportError::Json`].
fn json(rows: &[Row]) -> Result<Vec<serde_json::Value>, ReportError> {
    let value = |row: &Row| {
        let mut value = serde_json::to_value(row)?;
        let risks = risks(row);
        if !risks.is_empty() {
            value["unsafe"] = serde_json::json!(risks);
        }
        Ok(value)
    };
    rows.iter().map(value).collect()
}

/// The facts that a row's name is made from.
fn subject(row: &Row) -> Subject<'_> {
    Subject { lab_id: row.lab_id.as_deref(), ..Subject::from(&row.plan) }
}

/// The rows that ran, excluding those that were skipped.
pub fn executed(rows: &[Row]) -> impl Iterator<Item = &Row> {
    rows.iter().filter(|row| row.skipped.is_none())
}

/// A row's name, with the disk if it is faulty.
pub fn name_with_disk(row: &Row) -> String {
    let (label, disk) = (number::sanitize(&row.label), fault_suffix(row.disk));
    marked_name(row, if label.ends_with(&disk) { label } else { label + &disk })
}

/// The part of a row's name for a faulty disk.
fn fault_suffix(disk: DiskFault) -> String {
    let disk =
        DiskFault::ALL.iter().find(|(_, _, other)| *other == disk && disk != DiskFault::Honest);
    disk.map_or(String::new(), |(name, ..)| format!(" on a disk that {}", name.replace('-', " ")))
}

/// The columns' meanings, one sentence each.
fn legend(table: &Table) -> String {
    let explained = table.heads.iter().filter(|head| !head.meaning.is_empty());
    let meanings: Vec<String> =
        explained.map(|head| format!("{}: {}.", head.text, head.meaning)).collect();
    format!("{PAIRS} {}", meanings.join(" "))
}

/// A number measured for a cut: the prefix of its columns, and its value.
type Figure = (&'static str, fn(&CutOutcome) -> u64);

const FIGURES: &[Figure] = &[
    ("lost_ns", lost),
    ("files_lost", |outcome| outcome.findings.files_lost),
    ("files_empty", |outcome| outcome.findings.files_empty),
    ("files_stale", |outcome| outcome.findings.files_stale),
    ("names_lost", |outcome| outcome.findings.names_lost),
    ("names_doubled", |outcome| outcome.findings.names_doubled),
    ("names_back", |outcome| outcome.findings.names_back),
    ("mount_ns", mount),
];

/// The columns of the exported data, to which other programs refer by name. They include the median, the maximum and
/// the sum of each number over all cuts, and the number of cuts that lost something acknowledged, with the 95 % limits
/// of the share of such cuts.
fn data<'r>() -> Vec<Column<'static, &'r Row>> {
    let fault = |row: &Row| {
        DiskFault::ALL.iter().find(|(_, _, disk)| *disk == row.disk).map_or("", |(name, ..)| name)
    };
    let mut columns = vec![
        always("label", |row| row.label.clone()),
        always("spec", |row| {
            row.plan
                .filesystem
                .as_ref()
                .map(|filesystem| filesystem.spec.clone())
                .unwrap_or_default()
        }),
        always("workload", |row| row.plan.workload.name.clone()),
        always("parameters", |row| {
            let params = row.plan.workload.params.iter();
            params.map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
        }),
        always("disk", |row| row.plan.disk_name().unwrap_or_default().into()),
        always("misbehave", move |row| fault(row).into()),
        always("tear", |row| row.atomic_unit.bytes().to_string()),
        always("kernel", |row| {
            row.plan.lab().map(|lab| lab.kernel.release.clone()).unwrap_or_default()
        }),
        always("seed", |row| row.seed.to_string()),
        always("lab_id", |row| row.lab_id.clone().unwrap_or_default()),
        measured("phase", |row| row.rate.phase.clone()),
        measured("unit", |row| row.rate.unit.clone()),
        measured("per_second", |row| row.rate.per_second.to_string()),
        measured("cuts", |row| row.outcomes.len().to_string()),
        sum("acknowledged_lost", |outcome| outcome.findings.acknowledged_lost),
        sum("acknowledged_names", |outcome| outcome.findings.acknowledged_names),
        count("unclean", |outcome| outcome.recovery.unclean.is_some()),
        count("refused", |outcome| outcome.recovery.refused.is_some()),
        count("repaired", |outcome| outcome.recovery.repair.is_some()),
        count("last_resort", |outcome| outcome.recovery.last_resort.is_some()),
        count("unmountable", |outcome| outcome.recovery.lost.is_some()),
    ];
    for (name, value) in FIGURES {
        columns.extend([
            measured(format!("{name}_middle"), |row| row.median_and_max(*value).0.to_string()),
            measured(format!("{name}_most"), |row| row.median_and_max(*value).1.to_string()),
            sum(format!("{name}_sum"), *value),
        ]);
    }
    let limit = |share: Option<f64>| share.filter(|share| !share.is_nan());
    let limit = move |share| limit(share).map(|share| share.to_string()).unwrap_or_default();
    columns.extend([
        measured("violated", |row| sentences::violations_of(row).to_string()),
        measured("violated_least", move |row| limit(sentences::limits(row).map(|limits| limits.0))),
        measured("violated_most", move |row| limit(sentences::limits(row).map(|limits| limits.1))),
        always("skipped", |row| row.skipped.clone().unwrap_or_default()),
        always("unsafe", |row| risks(row).join("; ")),
    ]);
    columns
}

/// A column with a value in every row.
fn always<'r>(
    head: impl Into<String>,
    cell: impl Fn(&Row) -> String + 'static,
) -> Column<'static, &'r Row> {
    Column::words(head, move |row: &&Row| cell(row))
}

/// A column for a measured value; in a row that could not run, it is empty instead of 0.
fn measured<'r>(
    head: impl Into<String>,
    cell: impl Fn(&Row) -> String + 'static,
) -> Column<'static, &'r Row> {
    always(head, move |row| if row.skipped.is_some() { String::new() } else { cell(row) })
}

fn sum<'r>(head: impl Into<String>, value: fn(&CutOutcome) -> u64) -> Column<'static, &'r Row> {
    measured(head, move |row| row.sum(value).to_string())
}

fn count<'r>(head: &str, condition: fn(&CutOutcome) -> bool) -> Column<'static, &'r Row> {
    measured(head, move |row| row.count(condition).to_string())
}

fn pair(row: &Row, value: fn(&CutOutcome) -> u64) -> String {
    let (median, max) = row.median_and_max(value);
    format!("{median} / {max}")
}

fn seconds(ns: u64) -> String {
    format!("{:.2}", ns as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use unicode_width::UnicodeWidthStr;

    use crate::crash_fixture;
    use crate::table::{Format, MAIL_WIDTH, SpecialFormat, Style};

    fn printed_as(rows: &[Row], format: Format, width: usize) -> String {
        format.write(&CrashReport(rows), Style { width, ..Style::default() }).unwrap()
    }

    #[test]
    fn the_table_is_wide_or_transposed() {
        insta::assert_snapshot!(printed_as(&crash_fixture::crashed(), Format::Text, 200));
        insta::assert_snapshot!(printed_as(&crash_fixture::crashed(), Format::Text, 60));
    }

    #[test]
    fn no_line_is_too_wide_and_every_number_is_present() {
        let rows = crash_fixture::crashed();
        for width in [40, 60, 80, 100, 160, 250] {
            let text = printed_as(&rows, Format::Text, width);
            assert!(text.lines().all(|line| line.width() <= width), "{width}: {text}");
            for row in &rows {
                for column in &columns()[1..] {
                    let head = &column.head.text;
                    assert!(text.contains(&(column.cell)(row)), "{width}: {head}: {text}");
                }
            }
        }
        let mail = printed_as(&rows, Format::Mail, 0);
        assert!(mail.is_ascii() && mail.lines().all(|line| line.len() <= MAIL_WIDTH), "{mail}");
    }

    #[test]
    fn rows_with_equal_labels_get_unique_names_and_other_rows_keep_their_names() {
        let mut rows = crash_fixture::crashed();
        rows.extend(crash_fixture::crashed());
        rows[2].seed = 7;
        rows[3].disk = DiskFault::Honest;
        rows.push(Row { label: "alone".into(), ..rows[0].clone() });
        rows.push(rows[2].clone());
        let labels: Vec<String> =
            with_unique_names(&rows).into_iter().map(|row| row.label).collect();
        assert_eq!(
            labels,
            [
                "ext4, seed 1",
                "off on a disk that drops flushes",
                "ext4, seed 7",
                "off",
                "alone",
                "ext4, seed 7 (2)"
            ]
        );
        assert_eq!(
            name_with_disk(&with_unique_names(&rows)[1]),
            "off on a disk that drops flushes"
        );
    }

    #[test]
    fn a_row_that_could_not_run_is_in_the_data_without_figures_and_in_no_table() {
        let mut rows = crash_fixture::crashed();
        let plan = rows[0].plan.clone();
        rows.push(Row {
            label: "old".into(),
            ..Row::skipped(&plan, 1, DiskFault::Honest, "no such driver".into())
        });
        for format in [Format::Text, Format::Markdown, Format::Csv] {
            let text = printed_as(&rows, format, 200);
            assert!(text.contains("no such driver"), "{text}");
            assert!(!text.lines().any(|line| line.starts_with("old  ")), "{text}");
        }
        let csv = printed_as(&rows, Format::Csv, 0);
        let columns = |line: &str| line.matches(',').count();
        let lines: Vec<&str> = csv.lines().collect();
        assert!(lines.iter().all(|line| columns(line) == columns(lines[0])), "{csv}");
        assert!(lines[3].ends_with(",,,no such driver,"), "{csv}");
        // None of three, and two of three: one of them could not be examined.
        assert!(lines[1].contains(",0,0,0.6315") && lines[2].contains(",2,0.0942"), "{csv}");
    }

    #[test]
    fn hostile_labels_are_escaped_in_their_cell() {
        let mut rows = crash_fixture::crashed();
        rows[0].label = "a|<b>,\"x\"\n\x1b[2J比較".into();
        let csv = printed_as(&rows, Format::Csv, 0);
        assert!(csv.contains("\"a|<b>,\"\"x\"\"\n"), "{csv}");
        let columns = csv.lines().next().unwrap().matches(',').count();
        assert!(csv.lines().last().unwrap().matches(',').count() == columns);
        let pipes = printed_as(&rows, Format::Markdown, 0);
        assert!(!pipes.contains("<b>") && pipes.contains("a\\|&lt;b>"), "{pipes}");
        for format in [Format::Text, Format::Markdown] {
            assert!(!printed_as(&rows, format, 90).contains('\x1b'));
        }
    }

    #[test]
    fn other_formats_have_no_table() {
        for format in [SpecialFormat::Original, SpecialFormat::Statistics] {
            let rows = crash_fixture::crashed();
            let result = Format::Special(format).write(&CrashReport(&rows), Style::default());
            assert!(matches!(result, Err(ReportError::Format)));
        }
    }
}
