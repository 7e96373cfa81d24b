//! The selection of the columns that fit into a line, and their widths, for tables that share a layout.

use unicode_width::UnicodeWidthStr;

use super::data::{Fit, Head, Kind, Table};

/// The minimum width to which the names of rows are wrapped.
const MIN_NAME: usize = 16;
/// The minimum width to which the names of rows are truncated.
const MIN_WIDTH: usize = 8;

/// The widths of columns.
pub struct Layout {
    /// By index in the table; 0 for a column that is not displayed.
    pub widths: Vec<usize>,
    /// The spaces between columns.
    pub gap: usize,
}

impl Layout {
    /// Omits the same columns from all tables, those with the largest `priority` number (the least important) first.
    /// Digits are never truncated.
    pub fn of(tables: &[&Table], width: usize) -> Layout {
        let mut priorities: Vec<u8> =
            tables.iter().flat_map(|table| columns(table)).map(|(_, head)| head.priority).collect();
        priorities.sort_unstable();
        priorities.dedup();
        let tight = tables.iter().any(|table| table.fit == Fit::Tight);
        let in_line = |head: &&Head| !matches!(head.kind, Kind::Group | Kind::Notes);
        let max_columns =
            tables.first().map_or(0, |table| table.heads.iter().filter(in_line).count());
        let all = widths(tables, &priorities, usize::MAX);
        let gap = if tight && total_width(&all, 2) > width { 1 } else { 2 };
        // The gaps of empty columns are counted too, so that every table omits the same columns.
        let fit = |names: usize| {
            let mut shown = priorities.clone();
            let reserved = |shown: &[u8]| {
                let widths = widths(tables, shown, names);
                let empty =
                    max_columns.saturating_sub(widths.iter().filter(|width| **width > 0).count());
                total_width(&widths, gap) + empty * gap
            };
            while shown.len() > 1 && reserved(&shown) > width {
                shown.pop();
            }
            shown
        };
        // Long names wrap before a column is omitted.
        let (with_whole_names, wrapped_width) = (fit(usize::MAX), longest_part(tables));
        let with_wrapped_names = fit(wrapped_width);
        let (shown, max_name) = match with_wrapped_names.len() > with_whole_names.len() {
            true => (with_wrapped_names, wrapped_width),
            false => (with_whole_names, usize::MAX),
        };
        let mut widths = widths(tables, &shown, max_name);
        let over = total_width(&widths, gap).saturating_sub(width);
        if let Some(names) = label_column(tables).and_then(|index| widths.get_mut(index)) {
            *names = names.saturating_sub(over).max(MIN_WIDTH.min(*names));
        }
        Layout { widths, gap }
    }

    /// The indices of a table's columns that are displayed.
    pub fn shown<'t>(&self, table: &'t Table) -> impl Iterator<Item = usize> + use<'t, '_> {
        columns(table).map(|(index, _)| index).filter(|index| self.widths[*index] > 0)
    }

    /// A line of a table: its cells by index. A column that exists only in other tables of the layout
    /// stays blank.
    pub fn line(&self, table: &Table, cell: impl Fn(usize) -> String, mark: &str) -> String {
        let mut line = String::new();
        for (index, width) in self.widths.iter().enumerate().filter(|(_, width)| **width > 0) {
            // Another table of the layout may have more columns.
            let Some(head) = table.heads.get(index) else { continue };
            let text =
                if head.empty { String::new() } else { truncate(&cell(index), *width, mark) };
            if !line.is_empty() {
                line.push_str(&" ".repeat(self.gap));
            }
            line.push_str(&padded(&text, *width, head.kind.is_left()));
        }
        line
    }
}

/// A text padded with spaces to a width.
pub fn padded(text: &str, width: usize, align_left: bool) -> String {
    let pad = " ".repeat(width.saturating_sub(text.width()));
    if align_left { format!("{text}{pad}") } else { format!("{pad}{text}") }
}

/// The columns that share a line.
fn columns(table: &Table) -> impl Iterator<Item = (usize, &Head)> {
    let in_line = |head: &Head| !head.empty && !matches!(head.kind, Kind::Group | Kind::Notes);
    table.heads.iter().enumerate().filter(move |(_, head)| in_line(head))
}

/// The index of the column with the rows' names: the first column of text.
pub fn label_column(tables: &[&Table]) -> Option<usize> {
    let first = tables.first()?;
    columns(first).find(|(_, head)| head.kind.is_left()).map(|(index, _)| index)
}

fn total_width(widths: &[usize], gap: usize) -> usize {
    let used = widths.iter().filter(|width| **width > 0);
    used.map(|width| width + gap).sum::<usize>().saturating_sub(gap)
}

/// The width of every column over all tables; the column of names is at most `names` characters wide.
fn widths(tables: &[&Table], shown: &[u8], names: usize) -> Vec<usize> {
    let mut widths = vec![0; tables.iter().map(|table| table.heads.len()).max().unwrap_or(0)];
    for table in tables {
        for (index, head) in columns(table).filter(|(_, head)| shown.contains(&head.priority)) {
            let cells = table.rows.iter().map(|row| row.cells[index].width()).max().unwrap_or(0);
            widths[index] = widths[index].max(cells).max(head.text.width());
        }
    }
    if let Some(label) = label_column(tables) {
        widths[label] = widths[label].min(names);
    }
    widths
}

/// The width of the longest part of a name between its commas.
fn longest_part(tables: &[&Table]) -> usize {
    let label = label_column(tables);
    let rows = tables.iter().flat_map(|table| &table.rows);
    let names = rows.filter_map(|row| row.cells.get(label?));
    let parts =
        names.flat_map(|name| name.split_inclusive(", ")).map(|part| part.trim_end().width() + 2);
    parts.max().unwrap_or(0).max(MIN_NAME)
}

/// Wraps a name to this width, after its commas; continuation lines are indented by two.
pub fn wrap_name(name: &str, width: usize) -> Vec<String> {
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

/// A text truncated to a width in columns, with a mark at its end that has no other meaning in a table.
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
    use super::*;

    #[test]
    fn a_long_name_is_wrapped_after_its_commas_and_stays_complete() {
        let name = "ext4, RAID 5x3, file system of 8 GiB, 6.12";
        assert_eq!(wrap_name(name, 24), ["ext4, RAID 5x3,", "  file system of 8 GiB,", "  6.12"]);
        assert_eq!(wrap_name(name, 80), [name]);
        assert_eq!(wrap_name("", 80), [""; 0]);
    }

    #[test]
    fn truncated_text_keeps_its_width_and_shows_its_mark() {
        assert_eq!(truncate("reiserfs", 8, "…"), "reiserfs");
        assert_eq!(truncate("reiserfs", 5, "…"), "reis…");
        assert_eq!(truncate("reiserfs", 5, ".."), "rei..");
    }
}
