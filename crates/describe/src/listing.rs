//! The tables that lists print.

use fsdyno_report::table::{Block, Document, Fit, Rows, Table};
use fsdyno_report::{Output, ReportError};
use serde_json::{Value, json};

/// Rows with named columns.
#[derive(Default)]
pub struct Listing {
    /// The headers of the columns.
    pub heads: &'static [&'static str],
    /// The cells.
    pub rows: Vec<Vec<String>>,
    /// The message that replaces the table if there are no rows.
    pub empty: &'static str,
    /// Explanations below the table.
    pub notes: Vec<Block>,
    /// The width of the terminal, or `None` in a pipe; wider rows are stacked.
    pub limit: Option<usize>,
    /// The data for JSON, if it differs from the rows.
    pub value: Option<Value>,
}

impl Output for Listing {
    fn document(&self) -> Document {
        if self.rows.is_empty() {
            return Document(vec![Block::Paragraph(self.empty.into())]);
        }
        let heads = self.heads.iter().map(|head| head.to_string()).collect();
        let fit = Fit::Stack { within: self.limit, heads: true };
        let table = Table { fit, ..Table::grid(heads, self.heads.len(), self.rows.clone()) };
        Document(std::iter::once(Block::Table(table)).chain(self.notes.clone()).collect())
    }

    fn rows(&self, out: &mut dyn Rows) {
        out.row(&self.heads.iter().map(|head| head.to_string()).collect::<Vec<_>>());
        self.rows.iter().for_each(|row| out.row(row));
    }

    fn json(&self) -> Result<String, ReportError> {
        let row = |row: &Vec<String>| -> Value {
            self.heads.iter().zip(row).map(|(head, cell)| (head.to_string(), json!(cell))).collect()
        };
        let rows = || self.rows.iter().map(row).collect();
        let value = self.value.clone().unwrap_or_else(rows);
        Ok(serde_json::to_string_pretty(&value)? + "\n")
    }
}
