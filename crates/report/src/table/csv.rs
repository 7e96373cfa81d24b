//! CSV: RFC 4180, but lines end in a bare newline.

use super::data::Column;

/// A writer of rows of data, such as the lines of a CSV file. The column heads are the first row.
pub trait Rows {
    /// Writes a row.
    fn row(&mut self, cells: &[String]);
}

impl dyn Rows + '_ {
    /// Writes the heads of these columns, then the rows.
    pub fn table<R>(&mut self, columns: &[Column<'_, R>], rows: impl IntoIterator<Item = R>) {
        self.row(&columns.iter().map(|column| column.head.text.clone()).collect::<Vec<_>>());
        for row in rows {
            self.row(&columns.iter().map(|column| (column.cell)(&row)).collect::<Vec<_>>());
        }
    }
}

struct Csv(String);

/// Formats rows as CSV.
pub fn csv(rows: impl FnOnce(&mut dyn Rows)) -> String {
    let mut out = Csv(String::new());
    rows(&mut out);
    out.0
}

impl Rows for Csv {
    fn row(&mut self, cells: &[String]) {
        for (index, field) in cells.iter().enumerate() {
            if index > 0 {
                self.0.push(',');
            }
            if field.contains([',', '"', '\n', '\r']) {
                self.0.push('"');
                self.0.push_str(&field.replace('"', "\"\""));
                self.0.push('"');
            } else {
                self.0.push_str(field);
            }
        }
        self.0.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_quotes_and_newlines_stay_inside_their_field() {
        let cells = ["a,b", "say \"x\"", "two\nlines", "plain"].map(String::from);
        let out = csv(|rows| rows.row(&cells));
        assert_eq!(out, "\"a,b\",\"say \"\"x\"\"\",\"two\nlines\",plain\n");
    }
}
