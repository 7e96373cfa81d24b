//! Tables: columns with their heads, cells and meanings.
//!
//! Every command and the page use the type [`Table`]. A command's output is an [`Output`]: a [`Document`] for people,
//! rows for spreadsheets and JSON for programs. Each format has one file here and its entries in [`Format`].

mod csv;
mod data;
mod document;
pub mod html;
mod layout;
mod markdown;
mod prose;
mod style;
mod text;

pub use csv::{Rows, csv};
pub use data::{Column, Fit, Head, Kind, Row, Table, Tone};
pub use document::{Block, Document, Failure, Lab, Legend, Term, legend};
pub use layout::truncate;
pub use prose::Prose;
pub use style::{MAIL_WIDTH, Style};

use crate::error::ReportError;

/// An output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Aligned columns as wide as the terminal.
    Text,
    /// Aligned columns in 72 columns of plain ASCII.
    Mail,
    /// Pipe tables.
    Markdown,
    /// Tables and paragraphs of HTML.
    Html,
    /// Rows of data, one per line.
    Csv,
    /// Everything, for programs.
    Json,
    /// A format that only some commands have.
    Special(SpecialFormat),
}

/// A format that only some commands have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecialFormat {
    /// The statistics of the records, as one object.
    Statistics,
    /// The statistics, one line per row of the tables.
    StatisticsCsv,
    /// The tables for a spreadsheet, one line per row and phase.
    Spreadsheet,
    /// The report of the program that a workload reproduces.
    Original,
    /// A test case for each cell and phase.
    Junit,
}

impl Format {
    /// The formats of every command, with their names for `--format` and their descriptions.
    pub const ALL: &[(&str, &str, Format)] = &[
        ("text", "Tables for a terminal", Format::Text),
        ("mail", "Tables of 72 columns for a mailing list", Format::Mail),
        ("markdown", "Tables for an issue tracker", Format::Markdown),
        ("html", "Tables for a page", Format::Html),
        ("csv", "Rows of data", Format::Csv),
        ("json", "Everything, for programs", Format::Json),
    ];

    /// Writes a command's output in this format; ends in a newline.
    ///
    /// # Errors
    /// A record that has no such form; [`ReportError::Format`] if this output is not available in this format.
    pub fn write(self, output: &dyn Output, style: Style) -> Result<String, ReportError> {
        Ok(match self {
            Format::Text => text::text(&output.document(), style, false),
            Format::Mail => {
                let document = if style.full { output.document() } else { output.mail() };
                text::text(&document, Style { color: false, width: MAIL_WIDTH, ..style }, true)
            }
            Format::Markdown => markdown::markdown(&output.document()),
            Format::Html => html::html(&output.document()),
            Format::Csv => csv(|rows| output.rows(rows)),
            Format::Json => output.json()?,
            Format::Special(special) => {
                output.special(special).unwrap_or(Err(ReportError::Format))?
            }
        })
    }
}

/// The output of a command.
pub trait Output {
    /// The output for people.
    fn document(&self) -> Document;

    /// The output for a mailing list; the document is used instead if everything is requested.
    fn mail(&self) -> Document {
        self.document()
    }

    /// The rows of data, unrounded, their heads first.
    fn rows(&self, out: &mut dyn Rows);

    /// Everything as JSON; ends in a newline.
    ///
    /// # Errors
    /// A record that has no JSON form.
    fn json(&self) -> Result<String, ReportError>;

    /// The output in a format that only some commands have, or `None` if this command does not have it.
    fn special(&self, _: SpecialFormat) -> Option<Result<String, ReportError>> {
        None
    }
}

#[cfg(test)]
mod tests;
