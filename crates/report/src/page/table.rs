//! The tables of the page: the numbers of each chart.

use serde::Serialize;

use super::colour::Look;

/// A table whose first column names its rows.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    /// Its contents, and the meaning of n.
    pub caption: String,
    /// The columns.
    pub heads: Vec<Head>,
    /// The rows.
    pub rows: Vec<Row>,
    /// Number of rows omitted because the page has no space for them.
    pub left_out: usize,
}

/// A column.
#[derive(Clone, Debug, Serialize)]
pub struct Head {
    text: String,
    class: &'static str,
}

/// A row.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Row {
    /// The classes of the dot in its file system's look; empty for none.
    pub dot: String,
    /// The cells.
    pub cells: Vec<String>,
    /// True if it is displayed as the best.
    pub best: bool,
    /// Flags displayed below it.
    pub flags: Vec<&'static str>,
}

impl Table {
    /// An empty table. A head that begins with `<` marks a column of words, `±` one of the spread of
    /// the column before it.
    pub fn new(caption: impl Into<String>, heads: &[&str]) -> Table {
        let head = |text: &&str| match text.strip_prefix('<') {
            Some(words) => Head { text: words.into(), class: "left" },
            None if *text == "±" => Head { text: "±".into(), class: "spread" },
            None => Head { text: text.to_string(), class: "" },
        };
        let heads = heads.iter().map(head).collect();
        Table { caption: caption.into(), heads, rows: Vec::new(), left_out: 0 }
    }

    /// Adds a row of a file system.
    pub fn row(&mut self, look: Look, cells: Vec<String>) {
        self.rows.push(Row { dot: look.dot(), cells, ..Row::default() });
    }

    /// Adds a row that belongs to no file system.
    pub fn plain(&mut self, cells: Vec<String>) {
        self.rows.push(Row { cells, ..Row::default() });
    }

    /// Removes every column but the first that is empty in all rows, such as the spread of single
    /// trials or the device of a directory.
    pub fn without_empty(mut self) -> Table {
        let empty = |cell: Option<&String>| cell.is_none_or(|text| text.is_empty() || text == "–");
        let used: Vec<bool> = (0..self.heads.len())
            .map(|at| at == 0 || self.rows.iter().any(|row| !empty(row.cells.get(at))))
            .collect();
        let mut keep = used.iter();
        self.heads.retain(|_| keep.next() != Some(&false));
        for row in &mut self.rows {
            let mut keep = used.iter();
            row.cells.retain(|_| keep.next() != Some(&false));
        }
        self
    }

    /// The approximate number of bytes it takes in the page.
    pub fn size(&self) -> usize {
        200 + self.rows.iter().map(Row::size).sum::<usize>()
    }

    /// Truncates the table to the rows that fit into this number of bytes.
    pub fn fit(mut self, bytes: usize) -> Table {
        let mut left = bytes;
        let fits = |row: &&Row| {
            let size = row.size();
            let fits = size <= left;
            left = left.saturating_sub(size);
            fits
        };
        let kept = self.rows.iter().take_while(fits).count();
        self.left_out += self.rows.len() - kept;
        self.rows.truncate(kept);
        self
    }
}

impl Row {
    fn size(&self) -> usize {
        // Characters that HTML escapes (`&lt;`) are rare enough.
        let cells: usize = self.cells.iter().map(|cell| cell.len() + 18).sum();
        60 + self.dot.len() + cells + 60 * self.flags.len()
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
            table.row(Look { colour: 0, hatch: 0 }, cells.into());
        }
        let table = table.without_empty();
        assert_eq!(table.heads.len(), 2);
        assert!(table.rows.iter().all(|row| row.cells.len() == 2));
        let size = table.size();
        let table = table.fit(size / 2);
        assert!((35..=50).contains(&table.rows.len()), "{}", table.rows.len());
        assert_eq!(table.rows.len() + table.left_out, 100);
    }
}
