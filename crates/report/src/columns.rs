//! The columns of a section's table, and how they fit into a width.

use fsdyno_stats::Summary;
use unicode_width::UnicodeWidthStr;

use crate::capacity;
use crate::number;
use crate::view::{Row, Section};

/// One column. If space is short, the highest `drop` is dropped first; 0 stays.
pub struct Column {
    /// Its name.
    pub head: String,
    /// Its drop order.
    pub drop: u8,
    /// True for a column of words.
    pub left: bool,
    /// One cell for each row.
    pub cells: Vec<String>,
}

/// The work unit for a workload's bytes.
pub const BYTES: &str = "bytes";

/// Every column that is not empty in a section.
pub fn columns(section: &Section<'_>) -> Vec<Column> {
    let column = |head: &str, drop, left, cell: &dyn Fn(&Row<'_>) -> String| Column {
        head: head.into(),
        drop,
        left,
        cells: section.rows.iter().map(cell).collect(),
    };
    let mean = |summary: &Summary| number::seconds(summary.mean);
    let latency = |row: &Row<'_>, p| {
        row.latency.as_ref().map(|h| fsdyno_record::Nanos(h.percentile(p)).to_string())
    };
    let dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    let mut columns = vec![
        column("file system", 0, true, &|row| row.name.clone()),
        column("n", 2, false, &|row| row.returned.n.to_string()),
        column("files", 0, false, &|row| {
            dash(capacity::files(row).map(|files| number::count(files.round() as u64)))
        }),
        column("returned", 1, false, &|row| mean(&row.returned)),
        column("±", 5, false, &|row| spread(&row.returned)),
        column("durable", 0, false, &|row| dash(row.durable.as_ref().map(mean))),
        column("±", 4, false, &|row| row.durable.as_ref().map(spread).unwrap_or_default()),
        column("CPU", 6, false, &|row| mean(&row.cpu)),
        column(&section.rate_head(), 3, false, &|row| {
            dash(row.rate.map(|rate| number::short(rate.mean)))
        }),
        column("p50", 8, false, &|row| dash(latency(row, 50.0))),
        column("p99", 7, false, &|row| dash(latency(row, 99.0))),
        column("MiB/s", 9, false, &|row| dash(throughput(row))),
        column(&section.ratio_head(), 0, false, &|row| dash(row.ratio.map(number::ratio))),
    ];
    // Empty columns are dropped: the spread of single trials, the latency of no op.
    let alone = section.rows.len() < 2;
    columns.retain(|column| !(alone && column.head == section.ratio_head()));
    columns.retain(|column| column.cells.iter().any(|cell| !cell.is_empty() && cell != "-"));
    columns
}

/// Bytes over the time to returned; none if no byte was moved. The workload's own count of bytes if it has one,
/// because it counts a rewrite once (Bonnie's rewrite reads and writes each byte); else all bytes written and
/// read.
pub fn throughput(row: &Row<'_>) -> Option<String> {
    let rate = row.mean(|phase| {
        let moved = phase.bytes_written.0 + phase.bytes_read.0;
        let bytes = phase.books.get(BYTES).copied().unwrap_or(moved) as f64;
        Some(bytes / phase.returned_ns.seconds() / 1048576.0).filter(|rate| rate.is_finite())
    })?;
    (rate > 0.0).then(|| number::short(rate))
}

/// `0.4 %`, or empty for a single trial.
fn spread(summary: &Summary) -> String {
    summary.relative_half_width().map(number::percent).unwrap_or_default()
}

/// ` (p50, p99: fsync)`, for those of these columns that are latencies of another op than the rate counts; empty if
/// there are none.
pub fn latency_note(section: &Section<'_>, columns: &[&Column]) -> String {
    let heads = columns.iter().map(|column| column.head.as_str());
    let heads: Vec<&str> = heads.filter(|head| ["p50", "p99"].contains(head)).collect();
    match section.latency_note() {
        Some(op) if !heads.is_empty() => format!(" ({}: {op})", heads.join(", ")),
        _ => String::new(),
    }
}

/// The flags of a row, in words.
pub fn flags(row: &Row<'_>) -> String {
    row.flags.iter().map(|flag| flag.name()).collect::<Vec<_>>().join(", ")
}

/// The slot of each column of a section among all the slots that some section uses.
pub fn slots(columns: &[&Column], shown: &[u8]) -> Vec<usize> {
    columns.iter().filter_map(|column| slot(column, shown)).collect()
}

/// Columns in the order of [`columns`], by drop order; four of them have 0.
const ORDER: &[(&str, u8)] = &[
    ("file system", 0),
    ("", 2),
    ("files", 0),
    ("", 1),
    ("", 5),
    ("durable", 0),
    ("", 4),
    ("", 6),
    ("", 3),
    ("", 8),
    ("", 7),
    ("", 9),
    ("vs", 0),
];

fn slot(column: &Column, shown: &[u8]) -> Option<usize> {
    shown.contains(&column.drop).then_some(())?;
    ORDER.iter().position(|(head, drop)| {
        *drop == column.drop && (*drop > 0 || column.head.starts_with(head))
    })
}

/// Wraps a name to this width, after its commas; continuation lines are indented by two.
pub fn broken(name: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in name.split_inclusive(", ") {
        match lines.last_mut() {
            Some(line) if line.width() + part.trim_end().width() <= width => line.push_str(part),
            Some(_) => lines.push(format!("  {part}")),
            None => lines.push(part.to_string()),
        }
    }
    lines.iter_mut().for_each(|line| line.truncate(line.trim_end().len()));
    lines
}

/// The least width to which names are wrapped.
const SHORTEST_NAME: usize = 16;

/// The least width of wrapped names.
pub fn longest_part(tables: &[Vec<Column>]) -> usize {
    let names = tables.iter().filter_map(|table| table.first()).flat_map(|column| &column.cells);
    let parts =
        names.flat_map(|name| name.split_inclusive(", ")).map(|part| part.trim_end().width() + 2);
    parts.max().unwrap_or(0).max(SHORTEST_NAME)
}

/// The width of every slot over all sections; 0 for an unused slot. Names have `names` at most.
pub fn widths(tables: &[Vec<Column>], shown: &[u8], names: usize) -> Vec<usize> {
    let mut widths = vec![0; ORDER.len()];
    for column in tables.iter().flatten() {
        if let Some(slot) = slot(column, shown) {
            let cells = column.cells.iter().map(|cell| cell.width()).max().unwrap_or(0);
            widths[slot] = widths[slot].max(cells).max(column.head.width());
        }
    }
    if let Some(first) = widths.first_mut() {
        *first = (*first).min(names);
    }
    widths
}

/// One line of a table.
pub fn join<'a>(
    cells: impl Iterator<Item = (&'a str, bool)>,
    slots: &[usize],
    widths: &[usize],
    mark: &str,
) -> String {
    let mut line = String::new();
    let mut cells = cells.zip(slots).peekable();
    for (slot, width) in widths.iter().enumerate().filter(|(_, width)| **width > 0) {
        let (text, left) = match cells.next_if(|(_, at)| **at == slot) {
            Some((cell, _)) => cell,
            None => ("", true),
        };
        let text = truncate(text, *width, mark);
        let pad = " ".repeat(width.saturating_sub(text.width()));
        if slot > 0 {
            line.push_str("  ");
        }
        if left {
            line.push_str(&text);
            line.push_str(&pad);
        } else {
            line.push_str(&pad);
            line.push_str(&text);
        }
    }
    line.trim_end().to_string()
}

/// Lines of a table, its heads first: each column as wide as its widest cell, the first `left` columns
/// words. Empty columns are omitted.
pub fn aligned(table: &[Vec<String>], left: usize) -> Vec<String> {
    let columns = table.iter().map(Vec::len).max().unwrap_or(0);
    let width = |at: usize| {
        table.iter().filter_map(|row| row.get(at)).map(|cell| cell.width()).max().unwrap_or(0)
    };
    let shown: Vec<usize> = (0..columns).filter(|at| width(*at) > 0).collect();
    let widths: Vec<usize> = shown.iter().map(|at| width(*at)).collect();
    let slots: Vec<usize> = (0..shown.len()).collect();
    let line = |row: &Vec<String>| {
        let cell = |at: &usize| (row.get(*at).map_or("", String::as_str), *at < left);
        join(shown.iter().map(cell), &slots, &widths, "")
    };
    table.iter().map(line).collect()
}

/// Text truncated to a width in columns, with a mark at its end that has no other meaning in a table.
pub fn truncate(text: &str, width: usize, mark: &str) -> String {
    if text.width() <= width {
        return text.into();
    }
    let mut out = String::new();
    for c in text.chars() {
        out.push(c);
        if out.width() + mark.width() > width {
            out.pop();
            break;
        }
    }
    out.push_str(mark);
    out
}

#[cfg(test)]
mod tests {
    use fsdyno_record::Bytes;

    use super::*;
    use crate::{fixture, view};

    #[test]
    fn every_column_has_a_slot_of_its_own() {
        let mut trials = fixture::trials();
        let held = fsdyno_record::trial::Capacity {
            device: Some(Bytes(1 << 20)),
            files: 7,
            ..Default::default()
        };
        trials.iter_mut().for_each(|trial| trial.measured.capacity = Some(held));
        let sections = view::sections(&trials, None);
        let columns = columns(&sections[0]);
        let all: Vec<u8> = (0..=9).collect();
        let slots: Vec<Option<usize>> = columns.iter().map(|c| slot(c, &all)).collect();
        assert_eq!(slots, (0..ORDER.len()).map(Some).collect::<Vec<_>>());
    }

    #[test]
    fn a_rewrite_has_one_rate_wherever_it_is_printed() {
        let mut trials = fixture::single();
        let phase = &mut trials[0].measured.phases[0];
        (phase.bytes_read, phase.bytes_written) = (Bytes(64 << 20), Bytes(64 << 20));
        phase.returned_ns = fsdyno_record::Nanos(2_000_000_000);
        phase.books = [(BYTES.to_string(), 64 << 20)].into();
        let sections = view::sections(&trials[..1], None);
        assert_eq!(throughput(&sections[0].rows[0]).as_deref(), Some("32"));
        let lines = crate::work_units::lines(&sections[0]).concat();
        assert!(lines.contains("ext4 32 MiB/s"), "{lines}");
    }

    #[test]
    fn a_long_name_is_broken_behind_its_commas_and_loses_nothing() {
        let name = "ext4, RAID 5x3, file system of 8 GiB, 6.12";
        assert_eq!(broken(name, 24), ["ext4, RAID 5x3,", "  file system of 8 GiB,", "  6.12"]);
        assert_eq!(broken(name, 80), [name]);
        assert_eq!(broken("", 80), [""; 0]);
    }

    #[test]
    fn lines_of_a_table_are_aligned_and_an_empty_column_takes_no_space() {
        let table = [["", "", "n"], ["比較", "", "12"], ["a", "", "3"]];
        let table = table.map(|row| row.map(String::from).to_vec());
        assert_eq!(aligned(&table, 2), ["       n", "比較  12", "a      3"]);
        assert_eq!(aligned(&[], 1), [""; 0]);
    }

    #[test]
    fn truncated_text_keeps_its_width_and_shows_its_mark() {
        assert_eq!(truncate("reiserfs", 8, "…"), "reiserfs");
        assert_eq!(truncate("reiserfs", 5, "…"), "reis…");
        assert_eq!(truncate("reiserfs", 5, ".."), "rei..");
    }
}
