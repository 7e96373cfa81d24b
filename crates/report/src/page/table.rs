//! The tables of the page: the numbers of each chart.

use super::colour::Appearance;
use crate::table::{Head, Kind, Row, Table};

impl Table {
    /// An empty table. A head that begins with `<` marks a column of text, and `±` is the spread of the column
    /// before it.
    pub fn new(caption: impl Into<String>, heads: &[&str]) -> Table {
        let head = |text: &&str| match text.strip_prefix('<') {
            Some(words) => Head { text: words.into(), kind: Kind::Text, ..Head::default() },
            None if *text == "±" => {
                Head { text: "±".into(), kind: Kind::Spread, ..Head::default() }
            }
            None => Head { text: text.to_string(), ..Head::default() },
        };
        let heads = heads.iter().map(head).collect();
        Table { caption: caption.into(), heads, ..Table::default() }
    }

    /// Adds a row for a file system.
    pub fn row(&mut self, appearance: Appearance, cells: Vec<String>) {
        self.rows.push(Row { dot: appearance.dot(), cells, ..Row::default() });
    }

    /// The approximate number of bytes that it takes in the page.
    pub fn size(&self) -> usize {
        200 + self.rows.iter().map(|row| self.size_of(row)).sum::<usize>()
    }

    /// Truncates the table to the rows that fit into this number of bytes.
    pub fn within(mut self, bytes: usize) -> Table {
        let mut remaining = bytes;
        let fits = |row: &&Row| {
            let size = self.size_of(row);
            let fits = size <= remaining;
            remaining = remaining.saturating_sub(size);
            fits
        };
        let kept = self.rows.iter().take_while(fits).count();
        self.omitted_rows += self.rows.len() - kept;
        self.rows.truncate(kept);
        self
    }

    fn size_of(&self, row: &Row) -> usize {
        // Characters that HTML escapes (`&lt;`) are rare enough to be ignored.
        let cells: usize = self.shown().map(|column| row.cells[column].len() + 18).sum();
        60 + row.dot.len() + cells + 60 * row.flags.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_columns_are_removed_and_omitted_rows_are_counted() {
        let mut table = Table::new("t", &["file system", "n", "±", "<where"]);
        for n in 0..100 {
            let cells = ["ext4".into(), n.to_string(), String::new(), "–".into()];
            table.row(Appearance { colour: 0, hatch: 0 }, cells.into());
        }
        let table = table.without_empty();
        assert_eq!(table.shown().count(), 2);
        let size = table.size();
        let table = table.within(size / 2);
        assert!((35..=50).contains(&table.rows.len()), "{}", table.rows.len());
        assert_eq!(table.rows.len() + table.omitted_rows, 100);
    }
}
