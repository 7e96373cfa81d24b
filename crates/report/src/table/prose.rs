//! Paragraphs and columns of plain text for a terminal or a pipe.

use unicode_width::UnicodeWidthStr;

use super::text::stacked;

/// The maximum width of a line of prose that is comfortable to read.
const MAX_PROSE_WIDTH: usize = 100;

/// The destination of plain text.
#[derive(Clone, Copy, Debug)]
pub struct Prose {
    /// Columns of a line of prose.
    pub width: usize,
    /// The width at which a row of a table is stacked, or `None` in a pipe.
    pub limit: Option<usize>,
}

impl Prose {
    /// Formats a text table with two spaces between columns. A row that is wider than the terminal is stacked, one
    /// cell per line, except in a pipe, where each row stays one line.
    pub fn columns(self, rows: &[Vec<String>]) -> String {
        self.rows_of(rows).concat()
    }

    /// Formats the rows of such a table, each with its newlines.
    pub fn rows_of(self, rows: &[Vec<String>]) -> Vec<String> {
        stacked(rows, self.limit)
    }

    /// Wraps prose to the terminal's width, but at most to a readable one.
    pub fn wrapped(self, text: &str) -> String {
        text.lines().map(|line| self.indented(line, 0)).collect()
    }

    /// Wraps one paragraph, indented by `indent` columns; lines after the first are indented by two more.
    pub fn indented(self, text: &str, indent: usize) -> String {
        let limit = self.width.min(MAX_PROSE_WIDTH);
        let mut out = String::new();
        let mut line = " ".repeat(indent);
        for word in text.split(' ').filter(|word| !word.is_empty()) {
            if !line.trim().is_empty() && line.width() + 1 + word.width() > limit {
                out.push_str(&line);
                out.push('\n');
                line = " ".repeat(indent + if indent > 0 { 2 } else { 0 });
            } else if !line.trim().is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        out + &line + "\n"
    }
}
