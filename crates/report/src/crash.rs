//! The cost of power cuts for each file system, with its speed: the table of `fsdyno crash`.

use crate::validity::Flag;
use fsdyno_crash::{CutOutcome, DiskFault, Row};
use fsdyno_filesystem::durability;
use fsdyno_record::Nanos;
use fsdyno_record::naming::{RowNames, Subject};
use fsdyno_record::trial::Conditions;
use unicode_width::UnicodeWidthStr;

use crate::error::ReportError;
use crate::table::{Format, MAIL_WIDTH, Style};
use crate::wrap::{truncate, wrap};
use crate::{columns, csv, markdown, number, text};

mod sentences;

pub use sentences::sentences;

/// A column: its head, its cell of a row, and its meaning.
pub struct Column {
    /// Its head.
    pub head: &'static str,
    /// Its cell.
    pub cell: fn(&Row) -> String,
    /// Its meaning; empty if the head is clear.
    pub meaning: &'static str,
}

/// The columns, the row's name first.
pub const COLUMNS: &[Column] = &[
    Column {
        head: "file system",
        cell: |row| marked_name(row, number::clean(&row.label)),
        meaning: "",
    },
    Column {
        head: "speed",
        cell: |row| format!("{:.1} {}/s", row.rate.per_second, number::clean(&row.rate.unit)),
        meaning: "of the longest phase, until durable, in the logged pass: close to that \
                  of `fsdyno run`, and not bit-identical (docs/crash.md)",
    },
    Column { head: "cuts", cell: |row| row.tried.len().to_string(), meaning: "" },
    Column {
        head: "VIOLATIONS",
        cell: |row| row.violations().to_string(),
        meaning: "acknowledged bytes or names that are missing, over all cuts; must be 0",
    },
    Column {
        head: "lost s",
        cell: |row| {
            let (middle, most) = row.median_and_max(lost);
            format!("{} / {}", seconds(middle), seconds(most))
        },
        meaning: "age of the oldest unacknowledged work that was lost",
    },
    Column {
        head: "lost files",
        cell: |row| pair(row, |tried| tried.findings.files_lost),
        meaning: "unacknowledged files that are missing, or shorter",
    },
    Column {
        head: "empty",
        cell: |row| pair(row, |tried| tried.findings.files_empty),
        meaning: "such files that exist without bytes",
    },
    Column {
        head: "stale",
        cell: |row| pair(row, |tried| tried.findings.files_stale),
        meaning: "such files with zeros or others' bytes in place of theirs",
    },
    Column {
        head: "names lost",
        cell: |row| pair(row, |tried| tried.findings.names_lost),
        meaning: "files whose bytes were synced and that have no name",
    },
    Column {
        head: "doubled",
        cell: |row| pair(row, |tried| tried.findings.names_doubled),
        meaning: "files under both names of a rename",
    },
    Column {
        head: "recovery",
        cell: |row| {
            let (middle, most) = row.median_and_max(mount);
            format!("{} / {}", Nanos(middle), Nanos(most))
        },
        meaning: "virtual time of the mount",
    },
    Column {
        head: "repaired",
        cell: |row| row.count(|tried| tried.recovery.repair.is_some()).to_string(),
        meaning: "cuts after which the check was not clean or the mount failed, and the repair ran",
    },
    Column {
        head: "last resort",
        cell: |row| row.count(|tried| tried.recovery.last_resort.is_some()).to_string(),
        meaning: "cuts after whose repair the mount failed again, and the tool that discards the journal ran",
    },
    Column {
        head: "unmountable",
        cell: |row| row.unmountable().to_string(),
        meaning: "cuts after which it could not be mounted (hangs and panics included)",
    },
];

/// The meaning of pairs, before the columns' meanings.
pub const PAIRS: &str = "Pairs are the median / the worst cut.";

/// Age of the oldest lost work, in nanoseconds.
pub fn lost(tried: &CutOutcome) -> u64 {
    tried.findings.lost_ns.0
}

/// Time of the mount, in nanoseconds.
pub fn mount(tried: &CutOutcome) -> u64 {
    tried.recovery.mount_ns.0
}

/// The table in a format, with the meaning of its columns; none if it has no such format. JSON is the rows
/// themselves, and up to the caller.
pub fn table(rows: &[Row], format: Format, style: Style) -> Option<String> {
    let rows = with_unique_names(rows);
    match format {
        Format::Text => Some(in_columns(&rows, style.width)),
        Format::Mail => Some(text::plain(&in_columns(&rows, MAIL_WIDTH))),
        Format::Csv => Some(data(&rows)),
        Format::Markdown => Some(pipes(&rows)),
        Format::Json | Format::Statistics | Format::StatisticsCsv | Format::Original => None,
    }
}

/// The rows with unique names: equal labels, as from two results, get the conditions in which they differ. Unsafe rows
/// are last.
pub fn with_unique_names(rows: &[Row]) -> Vec<Row> {
    let names = RowNames::of(rows.iter().map(subject));
    let mut new: Vec<Row> = Vec::new();
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
            if namesakes().any(|other| other.tear != row.tear) {
                label += &format!(", torn at {}", row.tear);
            }
            // Equal conditions.
            let numbered = (2..).map(|number| format!("{label} ({number})"));
            let free = |name: &String| new.iter().all(|other| other.label != *name);
            label = std::iter::once(label.clone()).chain(numbered).find(free).unwrap_or_default();
        }
        new.push(Row { label, ..row.clone() });
    }
    new.sort_by_key(|row| !risks(row).is_empty());
    new
}

/// The reasons why acknowledged data of a row may be lost by its options, whatever these cuts found.
fn risks(row: &Row) -> Vec<String> {
    durability::risks(row.plan.filesystem.as_ref(), &Conditions::default())
}

/// A row's name with a mark if its options give up durability: a chart has no column of flags.
fn marked_name(row: &Row, name: String) -> String {
    if risks(row).is_empty() { name } else { format!("{} {name}", Flag::Unsafe) }
}

/// The rows as they are stored, each with the options that give up durability.
///
/// # Errors
/// Only [`ReportError::Json`].
pub fn json(rows: &[Row]) -> Result<Vec<serde_json::Value>, ReportError> {
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

/// The facts that a row's name is made of.
fn subject(row: &Row) -> Subject<'_> {
    Subject { lab_id: row.lab_id.as_deref(), ..Subject::from(&row.plan) }
}

/// The rows whose power was cut, without those that could not run.
pub fn ran(rows: &[Row]) -> impl Iterator<Item = &Row> {
    rows.iter().filter(|row| row.skipped.is_none())
}

/// A row's name, with the disk if it is faulty.
pub fn named(row: &Row) -> String {
    let (label, disk) = (number::clean(&row.label), fault_suffix(row.disk));
    marked_name(row, if label.ends_with(&disk) { label } else { label + &disk })
}

/// The part of a row's name for a faulty disk.
fn fault_suffix(disk: DiskFault) -> String {
    let disk =
        DiskFault::ALL.iter().find(|(_, _, other)| *other == disk && disk != DiskFault::Honest);
    disk.map_or(String::new(), |(name, ..)| format!(" on a disk that {}", name.replace('-', " ")))
}

fn cells(rows: &[Row]) -> Vec<Vec<String>> {
    ran(rows).map(|row| COLUMNS.iter().map(|column| (column.cell)(row)).collect()).collect()
}

/// A line per file system if that fits, otherwise a column per file system.
fn in_columns(rows: &[Row], width: usize) -> String {
    let heads: Vec<String> = COLUMNS.iter().map(|column| column.head.to_string()).collect();
    let table: Vec<Vec<String>> = std::iter::once(heads).chain(cells(rows)).collect();
    let mut out = match aligned(&table, width) {
        Some(lines) => lines,
        None => transposed(&table, width),
    };
    let mut paragraph = |text: &str| {
        out.push('\n');
        wrap(text, "", width)
            .iter()
            .for_each(|line| out.push_str(&format!("{}\n", line.trim_end())));
    };
    paragraph(&sentences(rows).join(" "));
    paragraph(&legend());
    out
}

/// The columns' meanings, one sentence each.
fn legend() -> String {
    let explained = COLUMNS.iter().filter(|column| !column.meaning.is_empty());
    let meanings: Vec<String> =
        explained.map(|column| format!("{}: {}.", column.head, column.meaning)).collect();
    format!("{PAIRS} {}", meanings.join(" "))
}

/// The table in lines; none if one is too long.
fn aligned(table: &[Vec<String>], width: usize) -> Option<String> {
    let lines = columns::aligned(table, 1);
    let fit = lines.iter().all(|line| line.width() <= width);
    fit.then(|| lines.iter().map(|line| format!("{line}\n")).collect())
}

/// The transposed table, with as many file systems side by side as fit; longer cells are truncated.
fn transposed(table: &[Vec<String>], width: usize) -> String {
    let (Some(heads), rows) = (table.first(), table.get(1..).unwrap_or_default()) else {
        return String::new();
    };
    let side = |rows: &[Vec<String>]| -> Vec<Vec<String>> {
        let column = |at: usize| rows.iter().map(move |row| row[at].clone());
        (0..heads.len())
            .map(|at| std::iter::once(heads[at].clone()).chain(column(at)).collect())
            .collect()
    };
    let mut parts = Vec::new();
    let mut left = rows;
    while !left.is_empty() {
        let fits = (1..=left.len())
            .rev()
            .find_map(|some| Some((some, aligned(&side(&left[..some]), width)?)));
        let (some, lines) = fits.unwrap_or_else(|| {
            let first = heads.iter().map(|head| head.width()).max().unwrap_or(0);
            let space = width.saturating_sub(first + 2).max(1);
            let cell = |text: &String| {
                if text.width() > space { truncate(text, space - 1) + "…" } else { text.clone() }
            };
            let row: Vec<String> = left[0].iter().map(cell).collect();
            (1, aligned(&side(&[row]), usize::MAX).unwrap_or_default())
        });
        parts.push(lines);
        left = &left[some..];
    }
    parts.join("\n")
}

fn pipes(rows: &[Row]) -> String {
    let heads: Vec<&str> = COLUMNS.iter().map(|column| column.head).collect();
    let mut out =
        format!("| {} |\n| --- |{}\n", heads.join(" | "), " ---: |".repeat(heads.len() - 1));
    for row in cells(rows) {
        let row: Vec<String> = row.iter().map(|cell| markdown::escape(cell)).collect();
        out.push_str(&format!("| {} |\n", row.join(" | ")));
    }
    // The legend is our own text: its markup is intended.
    out.push_str(&format!("\n{}\n\n{}\n", markdown::escape(&sentences(rows).join(" ")), legend()));
    out
}

/// Number of columns of the data that describe conditions; the others are results.
const CONDITIONS: usize = 10;

/// A figure of each cut, with the name of its columns.
type Figure = (&'static str, fn(&CutOutcome) -> u64);

const FIGURES: &[Figure] = &[
    ("lost_ns", lost),
    ("files_lost", |tried| tried.findings.files_lost),
    ("files_empty", |tried| tried.findings.files_empty),
    ("files_stale", |tried| tried.findings.files_stale),
    ("names_lost", |tried| tried.findings.names_lost),
    ("names_doubled", |tried| tried.findings.names_doubled),
    ("names_back", |tried| tried.findings.names_back),
    ("mount_ns", mount),
];

/// One line per file system: the median, the worst and the sum over all cuts of each figure; the number of cuts that
/// lost something acknowledged and the 95 % limits of their share.
fn data(rows: &[Row]) -> String {
    let plain = [
        "label",
        "spec",
        "workload",
        "parameters",
        "disk",
        "misbehave",
        "tear",
        "kernel",
        "seed",
        "lab_id",
        "phase",
        "unit",
        "per_second",
        "cuts",
        "acknowledged_lost",
        "acknowledged_names",
        "unclean",
        "refused",
        "repaired",
        "last_resort",
        "unmountable",
    ];
    let mut heads: Vec<String> = plain.map(String::from).to_vec();
    for (name, _) in FIGURES {
        heads.extend(["middle", "most", "sum"].map(|which| format!("{name}_{which}")));
    }
    let last = ["violated", "violated_least", "violated_most", "skipped", "unsafe"];
    heads.extend(last.map(String::from));
    let mut out = String::new();
    csv::push_line(&mut out, heads.iter());
    for row in rows {
        csv::push_line(&mut out, fields(row).iter());
    }
    out
}

fn fields(row: &Row) -> Vec<String> {
    let plan = &row.plan;
    let parameters: Vec<String> =
        plan.workload.params.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let misbehave =
        DiskFault::ALL.iter().find(|(_, _, disk)| *disk == row.disk).map_or("", |(name, ..)| name);
    let count = |so: fn(&CutOutcome) -> bool| row.count(so).to_string();
    let mut fields = vec![
        row.label.clone(),
        plan.filesystem.as_ref().map(|filesystem| filesystem.spec.clone()).unwrap_or_default(),
        plan.workload.name.clone(),
        parameters.join(" "),
        plan.disk_name().unwrap_or_default().into(),
        misbehave.into(),
        row.tear.bytes().to_string(),
        plan.lab().map(|lab| lab.kernel_release().to_string()).unwrap_or_default(),
        row.seed.to_string(),
        row.lab_id.clone().unwrap_or_default(),
        row.rate.phase.clone(),
        row.rate.unit.clone(),
        row.rate.per_second.to_string(),
        row.tried.len().to_string(),
        row.sum(|tried| tried.findings.acknowledged_lost).to_string(),
        row.sum(|tried| tried.findings.acknowledged_names).to_string(),
        count(|tried| tried.recovery.unclean.is_some()),
        count(|tried| tried.recovery.refused.is_some()),
        count(|tried| tried.recovery.repair.is_some()),
        count(|tried| tried.recovery.last_resort.is_some()),
        count(|tried| tried.recovery.lost.is_some()),
    ];
    for (_, of) in FIGURES {
        let (middle, most) = row.median_and_max(of);
        fields.extend([middle, most, row.sum(of)].map(|value| value.to_string()));
    }
    let (least, most) = sentences::limits(row).unwrap_or((f64::NAN, f64::NAN));
    let limit = |share: f64| if share.is_nan() { String::new() } else { share.to_string() };
    fields.extend([sentences::violations_of(row).to_string(), limit(least), limit(most)]);
    if row.skipped.is_some() {
        // Not measured, which is not 0.
        fields.iter_mut().skip(CONDITIONS).for_each(String::clear);
    }
    fields.extend([row.skipped.clone().unwrap_or_default(), risks(row).join("; ")]);
    fields
}

fn pair(row: &Row, of: fn(&CutOutcome) -> u64) -> String {
    let (middle, most) = row.median_and_max(of);
    format!("{middle} / {most}")
}

fn seconds(ns: u64) -> String {
    format!("{:.2}", ns as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crash_fixture;

    fn shown(rows: &[Row], format: Format, width: usize) -> String {
        table(rows, format, Style { width, color: false }).unwrap()
    }

    #[test]
    fn the_table_is_wide_or_on_its_side() {
        insta::assert_snapshot!(shown(&crash_fixture::crashed(), Format::Text, 200));
        insta::assert_snapshot!(shown(&crash_fixture::crashed(), Format::Text, 60));
    }

    #[test]
    fn no_line_is_too_wide_and_every_figure_is_present() {
        let rows = crash_fixture::crashed();
        for width in [40, 60, 80, 100, 160, 250] {
            let text = shown(&rows, Format::Text, width);
            assert!(text.lines().all(|line| line.width() <= width), "{width}: {text}");
            for row in &rows {
                for column in &COLUMNS[1..] {
                    assert!(text.contains(&(column.cell)(row)), "{width}: {}: {text}", column.head);
                }
            }
        }
        let mail = shown(&rows, Format::Mail, 0);
        assert!(mail.is_ascii() && mail.lines().all(|line| line.len() <= MAIL_WIDTH), "{mail}");
    }

    #[test]
    fn two_rows_of_one_label_get_unique_names_and_others_keep_theirs() {
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
        assert_eq!(named(&with_unique_names(&rows)[1]), "off on a disk that drops flushes");
    }

    #[test]
    fn a_row_that_could_not_run_is_in_no_table_and_in_the_data_without_figures() {
        let mut rows = crash_fixture::crashed();
        let plan = rows[0].plan.clone();
        rows.push(Row {
            label: "old".into(),
            ..Row::skipped(&plan, 1, DiskFault::Honest, "no such driver".into())
        });
        for format in [Format::Text, Format::Markdown, Format::Csv] {
            let text = shown(&rows, format, 200);
            assert!(text.contains("no such driver"), "{text}");
            assert!(!text.lines().any(|line| line.starts_with("old  ")), "{text}");
        }
        let csv = shown(&rows, Format::Csv, 0);
        let columns = |line: &str| line.matches(',').count();
        let lines: Vec<&str> = csv.lines().collect();
        assert!(lines.iter().all(|line| columns(line) == columns(lines[0])), "{csv}");
        assert!(lines[3].ends_with(",,,no such driver,"), "{csv}");
        // None of three, and two of three: one of them could not be examined.
        assert!(lines[1].contains(",0,0,0.6315") && lines[2].contains(",2,0.0942"), "{csv}");
    }

    #[test]
    fn hostile_labels_stay_in_their_cell() {
        let mut rows = crash_fixture::crashed();
        rows[0].label = "a|<b>,\"x\"\n\x1b[2J比較".into();
        let csv = shown(&rows, Format::Csv, 0);
        assert!(csv.contains("\"a|<b>,\"\"x\"\"\n"), "{csv}");
        let columns = csv.lines().next().unwrap().matches(',').count();
        assert!(csv.lines().last().unwrap().matches(',').count() == columns);
        let pipes = shown(&rows, Format::Markdown, 0);
        assert!(!pipes.contains("<b>") && pipes.contains("a\\|&lt;b>"), "{pipes}");
        for format in [Format::Text, Format::Markdown] {
            assert!(!shown(&rows, format, 90).contains('\x1b'));
        }
    }

    #[test]
    fn other_formats_have_no_table() {
        for format in [Format::Original, Format::Statistics] {
            assert!(table(&crash_fixture::crashed(), format, Style::default()).is_none());
        }
    }
}
