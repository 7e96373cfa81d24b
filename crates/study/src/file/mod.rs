//! Study files: a question, the runs that answer it, published tables, and testable claims.
//!
//! A file is parsed completely before anything else is done with it. Every error is reported with file, line and
//! column, and with a remedy. `docs/studies.md` describes the format.

pub mod catalog;
mod cell;
mod claim;
mod conditions;
mod error;
mod factors;
mod figure;
mod planned;
mod read;
mod request;
mod run;
mod scale;
mod table;
mod text;
mod whole;

pub use cell::Cell;
pub use claim::{Bound, Check, Claim, Test};
pub use conditions::{Argument, Conditions, Row, RunOption, Setting, options, refused};
pub use error::{FileError, FileName, Spot};
pub use factors::{FactorColumn, Factors};
pub use figure::{Dimension, Figure, Latency, Op, Unit};
pub use planned::{Planned, check_planned};
pub use request::InvalidValue;
pub use run::{Group, Run, Variant};
pub use scale::{Scale, with_scale};
pub use table::{Column, Doubt, Published, PublishedRow, Value};
pub use text::{TextError, read_text};

use read::{Node, Source, line_starts};

/// A study file, checked as far as possible without a plan.
#[derive(Clone, Debug)]
pub struct StudyFile {
    /// Name in errors.
    pub file: FileName,
    /// Its title.
    pub title: String,
    /// The question.
    pub question: String,
    /// Authors, date and place of the publication, or empty for a study that reproduces none.
    pub source: String,
    /// The original work and the differences here, in paragraphs.
    pub about: String,
    /// Year of the publication, if given: a number is reproduced only on kernels of that year or earlier.
    pub year: Option<u16>,
    /// Default scale; the copy of the file that is stored with a result has the result's scale.
    pub scale: Scale,
    /// The runs, in the order of the file.
    pub runs: Vec<Run>,
    /// The published tables.
    pub published: Vec<Published>,
    /// The tables of factors.
    pub factors: Vec<Factors>,
    /// The claims.
    pub claims: Vec<Claim>,
}

/// Top-level keys of a file.
const KEYS: &[&str] = &[
    "title",
    "question",
    "source",
    "about",
    "year",
    "scale",
    "run",
    "published",
    "factors",
    "claim",
];

impl StudyFile {
    /// Parses a study; `file` is its name in errors.
    ///
    /// # Errors
    /// The first error in the file, with its position and a remedy.
    pub fn parse(file: impl Into<FileName>, text: &str) -> Result<StudyFile, FileError> {
        let file = &file.into();
        let text = text::without_mark(text);
        let source = Source { file, text, lines: &line_starts(text) };
        let document = source.document()?;
        let top = Node::top(source, document.get_ref());
        top.keys(KEYS)?;
        let runs = run::runs(&top)?;
        let published = table::tables(&top, &runs)?;
        let factors = factors::tables(&top, &runs)?;
        let claims = claim::claims(&top, &runs)?;
        let has_no_source = top.get("source").is_none();
        if let Some(table) = published.iter().find(|table| has_no_source && table.source.is_empty())
        {
            let problem = format!("neither the study nor table '{}' has a source", table.name);
            let remedy = "name the publication: source = \"Author, 2008\"".to_string();
            return Err(FileError { file: file.clone(), spot: table.spot, problem, remedy });
        }
        let required_text = |key: &str| top.require(key, "write it as text in quotes")?.text();
        let year = top.get("year").map(|item| item.whole(1900, 2100)).transpose()?;
        Ok(StudyFile {
            file: file.clone(),
            title: required_text("title")?,
            question: required_text("question")?,
            source: top.get("source").map_or(Ok(String::new()), |item| item.text())?,
            about: top.get("about").map_or(Ok(String::new()), |item| item.text())?,
            year: year.and_then(|year| u16::try_from(year).ok()),
            scale: top.get("scale").map_or(Ok(Scale::default()), |item| scale::read(&item))?,
            runs,
            published,
            factors,
            claims,
        })
    }

    /// Returns an error at a position in this file.
    pub fn error(
        &self,
        spot: Spot,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> FileError {
        FileError { file: self.file.clone(), spot, problem: problem.into(), remedy: remedy.into() }
    }

    /// Returns the run with this name.
    pub fn run(&self, name: &str) -> Option<&Run> {
        self.runs.iter().find(|run| run.name == name)
    }

    /// Returns the variants in which the claims are judged: historical and current if any run has them, else
    /// [`Variant::AsItStands`].
    pub fn variants(&self) -> Vec<Variant> {
        let is_present = |variant: &Variant| self.runs.iter().any(|run| run.has(*variant));
        let found: Vec<Variant> =
            [Variant::Historical, Variant::Current].into_iter().filter(is_present).collect();
        if found.is_empty() { vec![Variant::AsItStands] } else { found }
    }
}

#[cfg(test)]
mod tests;
