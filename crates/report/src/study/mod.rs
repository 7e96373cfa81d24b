//! The results of a study: every claim with its verdict, and the published tables with the measured numbers.
//!
//! These types only hold the results; the claims are judged in a crate that depends on this one. [`Results`] are
//! printed, and [`crate::study_page`] puts them at the front of the page.

mod document;
mod extras;
mod factors;
mod lines;
mod merged;
mod timeline;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ReportError;
use crate::table::{Block, Document, Output, Rows, SpecialFormat};
use crate::trials::Trials;

pub use extras::{Extras, NotRun};
pub use factors::{Factor, FactorRow, Factors};
pub(crate) use lines::{
    claim_facts, claim_notes, count, grids, notes_of_table, published, subject,
};
pub use lines::{counts, digits};
pub(crate) use timeline::{CHANGES_MEAN, Timeline, changes, timelines};

/// The results of a study.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Judged {
    /// The study's title.
    pub title: String,
    /// The study's question.
    pub question: String,
    /// The publication, or empty for a study of its own.
    pub source: String,
    /// Each variant that was run, with its own verdicts.
    pub variants: Vec<Variant>,
}

/// A study under one set of conditions.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Variant {
    /// `as then`, `as today`, with the kernel that distinguishes it from others: `as today, kernel 5.10`.
    pub name: String,
    /// `as then`, `as today`, `as it stands`: equal for all kernels of a timeline.
    pub conditions: String,
    /// Its kernel, if the study is a timeline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The divisor of sizes; 1 at full scale.
    pub scale: u64,
    /// The kernels that it ran on, each once, or empty if it ran only in a model.
    pub kernels: Vec<String>,
    /// The claims, in the order of the file.
    pub claims: Vec<Claim>,
    /// The tables of factors. If there are several over the same columns, the means of their factors come first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub factors: Vec<Factors>,
    /// The published tables, in the order of the file.
    pub tables: Vec<Table>,
}

/// The verdict on a claim.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Verdict {
    /// It holds, on a kernel of the publication's time.
    #[serde(rename = "reproduced")]
    Reproduced,
    /// It holds, on a kernel of another time.
    #[serde(rename = "still holds")]
    StillHolds,
    /// The measured number lies on the wrong side of the bound.
    #[serde(rename = "no longer holds")]
    NoLongerHolds,
    /// The number claimed to be greater is smaller.
    #[serde(rename = "reversed")]
    Reversed,
    /// The trials do not decide.
    #[serde(rename = "undecided")]
    Undecided,
    /// Its subject cannot be measured here.
    #[serde(rename = "not testable here")]
    NotTestable,
    /// A run that it needs has no trial yet.
    #[serde(rename = "not run yet")]
    NotRun,
}

impl Verdict {
    /// Every verdict, in the order of counts.
    pub const ALL: [Verdict; 7] = [
        Verdict::Reproduced,
        Verdict::StillHolds,
        Verdict::NoLongerHolds,
        Verdict::Reversed,
        Verdict::Undecided,
        Verdict::NotTestable,
        Verdict::NotRun,
    ];

    /// The word for one claim.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Reproduced => "reproduced",
            Verdict::StillHolds => "still holds",
            Verdict::NoLongerHolds => "no longer holds",
            Verdict::Reversed => "reversed",
            Verdict::Undecided => "undecided",
            Verdict::NotTestable => "not testable here",
            Verdict::NotRun => "not run yet",
        }
    }

    /// The words for `n` claims, after their number: `2 still hold`.
    pub fn words(self, n: usize) -> &'static str {
        match self {
            Verdict::StillHolds if n != 1 => "still hold",
            Verdict::NoLongerHolds if n != 1 => "no longer hold",
            _ => self.word(),
        }
    }

    /// The meaning, in a sentence.
    pub fn meaning(self) -> &'static str {
        match self {
            Verdict::Reproduced => {
                "The measured number lies clearly within the bounds of the claim, on a kernel of the \
                 publication's time."
            }
            Verdict::StillHolds => {
                "The measured number lies clearly within the bounds of the claim; the kernel is not of the \
                 publication's time, so it is not called reproduced."
            }
            Verdict::NoLongerHolds => {
                "The measured number lies clearly outside the bounds of the claim, or of one part of it, \
                 or the claimed difference is within the margin."
            }
            Verdict::Reversed => {
                "The difference is in the opposite direction, by more than the margin: what was claimed \
                 to be faster is slower; for a claim of several parts, in all of them."
            }
            Verdict::Undecided => {
                "The interval of the measured number contains the bound, or the number is within the margin of it \
                 (5 % unless the claim states another margin)."
            }
            Verdict::NotTestable => {
                "The claim needs a file system, a kernel or a number that is missing; the reason is given \
                 with it."
            }
            Verdict::NotRun => "The claim needs a run of the study that has no trial yet.",
        }
    }
}

/// A claim and its verdict.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Claim {
    /// Its short identifier: `C1`.
    pub id: String,
    /// The statement.
    pub text: String,
    /// The verdict.
    pub verdict: Verdict,
    /// The reason, in a sentence.
    pub why: String,
    /// The measured quantity and its bound: `returned of tarball unpack, ext3 over ext4: more than 1`, or null for an
    /// untestable claim.
    pub check: Option<String>,
    /// The unit of the numbers, or empty for a ratio or an exponent.
    pub unit: String,
    /// The published number.
    pub published: Option<f64>,
    /// The measured number.
    pub measured: Option<Number>,
    /// The p-value of the verdict, adjusted for all claims of the variant (Holm), or null for one seed, and if nothing
    /// varied.
    pub p: Option<f64>,
    /// Notes: one seed, flags, a model.
    pub notes: Vec<String>,
    /// The divisor of sizes; 1 at full scale.
    pub scale: u64,
    /// True if the verdict is that of a single seed.
    pub one_seed: bool,
    /// The verdict at full scale, if this is at another scale and it is known.
    pub full_scale: Option<FullScale>,
}

impl Claim {
    /// Returns true if it has a verdict, not only the reason why there is none.
    pub fn is_judged(&self) -> bool {
        !matches!(self.verdict, Verdict::NotTestable | Verdict::NotRun)
    }

    /// Returns true if its verdict is about the study, not about a smaller experiment.
    pub fn is_full(&self) -> bool {
        self.scale == 1 || !self.is_judged()
    }

    /// The verdict with its scale and a single seed: `at 1/32: reversed, one seed`.
    pub fn verdict_text(&self) -> String {
        let scale = if self.is_full() { String::new() } else { format!("at 1/{}: ", self.scale) };
        let seed = if self.one_seed && self.is_judged() { ", one seed" } else { "" };
        format!("{scale}{}{seed}", self.verdict.word())
    }
}

/// The verdict on a claim in the full study.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FullScale {
    /// The folder below `results/` of fsdyno's source that has the records.
    pub result: String,
    /// The kernels that it ran on.
    pub kernels: Vec<String>,
    /// The verdict.
    pub verdict: Verdict,
    /// True if it is that of a single seed.
    pub one_seed: bool,
    /// The measured number.
    pub measured: Option<Number>,
}

/// A measured number, in the unit of its cell or claim.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Number {
    /// The mean, ratio or exponent.
    pub value: f64,
    /// Number of trials, pairs or (for an exponent) points.
    pub n: usize,
    /// The 95 % interval, its lower and its upper end, or null for a single trial.
    pub interval: Option<(f64, f64)>,
}

/// A published table and the numbers measured for it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Table {
    /// Its short name.
    pub name: String,
    /// Its contents.
    pub caption: String,
    /// Its publication.
    pub source: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows.
    pub rows: Vec<Row>,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// The unit of its numbers.
    pub unit: String,
}

/// A row.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Row {
    /// Its label.
    pub label: String,
    /// One for each column.
    pub cells: Vec<Cell>,
}

/// A published number and the measured one.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Cell {
    /// The number as printed, `28.40±1.28`, or null if none was published.
    pub published: Option<String>,
    /// The reasons why the published number is wrong or misleading.
    pub doubts: Vec<String>,
    /// The measured number.
    pub measured: Option<Number>,
    /// The reason why it was not measured.
    pub missing: Option<String>,
    /// Measured over published, or null if either is missing or zero, or if another scale makes it meaningless.
    pub ratio: Option<f64>,
}

/// Version of the JSON form.
const SCHEMA: u32 = 1;

/// The results of a study: claims with their verdicts, published tables with measured numbers. Nothing is rounded.
#[derive(Serialize, JsonSchema)]
pub(crate) struct JudgedJson<'a> {
    /// Version of this form.
    #[schemars(extend("const" = SCHEMA))]
    schema: u32,
    #[serde(flatten)]
    judged: &'a Judged,
    /// Conditions of the study without a trial.
    not_run: &'a [NotRun],
}

/// The results of a study to print, with the records that they come from.
#[derive(Clone, Copy, Debug)]
pub struct Results<'a> {
    /// The claims and tables.
    pub judged: &'a Judged,
    /// Additions before and after them.
    pub extras: Extras<'a>,
    /// The records, for formats of records and of other programs.
    pub records: Trials<'a>,
}

impl<'a> Results<'a> {
    /// The results without additions.
    pub fn of(judged: &'a Judged) -> Results<'a> {
        let records = Trials { trials: &[], parts: &[], basis: None.into() };
        Results { judged, extras: Extras::default(), records }
    }
}

impl Output for Results<'_> {
    fn document(&self) -> Document {
        let mut out = document::document(self.judged);
        // These go after the counts, which are the first items.
        if let Some(Block::Items(first)) = out.0.first_mut() {
            first.extend(self.extras.not_run());
        }
        out.0.extend(self.extras.blocks());
        out
    }

    fn rows(&self, out: &mut dyn Rows) {
        self.records.rows(out);
    }

    fn json(&self) -> Result<String, ReportError> {
        json(self.judged, self.extras)
    }

    fn special(&self, format: SpecialFormat) -> Option<Result<String, ReportError>> {
        self.records.special(format)
    }
}

/// All results as JSON, nothing rounded, with the conditions that were not run: docs/schema/judged.schema.json; ends
/// in a newline.
///
/// # Errors
/// Only [`crate::ReportError::Json`].
fn json(judged: &Judged, extras: Extras<'_>) -> Result<String, ReportError> {
    let document = JudgedJson { schema: SCHEMA, judged, not_run: extras.not_run };
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

#[cfg(test)]
pub mod sample;
#[cfg(test)]
mod tests;
