//! Study files: a question, the runs that answer it, what was published, and claims that can be checked.
//!
//! A file is read whole before anything else is done with it. Whatever is wrong in it is told with file, line
//! and column, and with what would be right. `docs/studies.md` has the format.

pub mod catalog;
mod cell;
mod claim;
mod conditions;
mod error;
mod figure;
mod planned;
mod read;
mod run;
mod scale;
mod table;
mod text;
mod whole;

pub use cell::Cell;
pub use claim::{Bound, Check, Claim, Test};
pub use conditions::{Conditions, OPTIONS, Row, Setting, Typed, Word, refused};
pub use error::{FileError, FileName, Spot};
pub use figure::{Dimension, Figure, Latency, Op, Unit};
pub use planned::{Planned, check_planned};
pub use run::{Run, Variant};
pub use scale::{Scale, with_scale};
pub use table::{Column, Doubt, Published, PublishedRow, Value};
pub use text::{TextError, read_text};

use read::{Node, Source, line_starts};

/// A study: what one file says, checked as far as that needs no plan.
#[derive(Clone, Debug)]
pub struct StudyFile {
    /// What errors call it.
    pub file: FileName,
    /// Its title.
    pub title: String,
    /// What is asked.
    pub question: String,
    /// Who published what is done again, when, and where it stands.
    pub source: String,
    /// What was done then, and what differs here, in paragraphs.
    pub about: String,
    /// The year of what was published, where the file says so: only on a kernel of that year is a number
    /// reproduced.
    pub year: Option<u16>,
    /// At which scale it is run where the command does not say: what was run by `--scale` is stored so.
    pub scale: Scale,
    /// The runs, in the order of the file.
    pub runs: Vec<Run>,
    /// The published tables.
    pub published: Vec<Published>,
    /// The claims.
    pub claims: Vec<Claim>,
}

/// The keys of a file.
const KEYS: &[&str] =
    &["title", "question", "source", "about", "year", "scale", "run", "published", "claim"];

impl StudyFile {
    /// Reads a study; `file` is what errors call it.
    ///
    /// # Errors
    /// The first thing in the file that cannot be meant, with its place and what would be right.
    pub fn parse(file: impl Into<FileName>, text: &str) -> Result<StudyFile, FileError> {
        let file = &file.into();
        let text = text::without_mark(text);
        let source = Source { file, text, lines: &line_starts(text) };
        let document = source.document()?;
        let top = Node::top(source, document.get_ref());
        top.keys(KEYS)?;
        let runs = run::runs(&top)?;
        let published = table::tables(&top, &runs)?;
        let claims = claim::claims(&top, &runs)?;
        let text_of = |key: &str| top.need(key, "write it as text in quotes")?.text();
        let year = top.get("year").map(|item| item.whole(1900, 2100)).transpose()?;
        Ok(StudyFile {
            file: file.clone(),
            title: text_of("title")?,
            question: text_of("question")?,
            source: text_of("source")?,
            about: top.get("about").map_or(Ok(String::new()), |item| item.text())?,
            year: year.and_then(|year| u16::try_from(year).ok()),
            scale: top.get("scale").map_or(Ok(Scale::default()), |item| scale::typed(&item))?,
            runs,
            published,
            claims,
        })
    }

    /// A mistake at a place of this file.
    pub fn error(
        &self,
        spot: Spot,
        problem: impl Into<String>,
        right: impl Into<String>,
    ) -> FileError {
        FileError { file: self.file.clone(), spot, problem: problem.into(), right: right.into() }
    }

    /// The run of this name.
    pub fn run(&self, name: &str) -> Option<&Run> {
        self.runs.iter().find(|run| run.name == name)
    }

    /// The variants that the claims are judged in: then and today as far as any run has them; where none has,
    /// [`Variant::AsItStands`].
    pub fn variants(&self) -> Vec<Variant> {
        let of_any = |variant: &Variant| self.runs.iter().any(|run| run.has(*variant));
        let found: Vec<Variant> =
            [Variant::Then, Variant::Today].into_iter().filter(of_any).collect();
        if found.is_empty() { vec![Variant::AsItStands] } else { found }
    }
}

#[cfg(test)]
mod tests;
