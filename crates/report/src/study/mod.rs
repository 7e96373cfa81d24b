//! The end of a study: every claim with its verdict, and the published tables beside the measured ones.
//!
//! These are the plain results; who judges them stands above this crate. [`text`], [`mail`],
//! [`markdown`] and [`json`] print them, and [`crate::study_page`] puts them in front of the page.

mod beside;
mod lines;
mod markdown;
mod text;
mod timeline;

use serde::{Deserialize, Serialize};

pub use beside::{Beside, NotRun};
pub(crate) use lines::{claim_facts, claim_notes, count, grids, notes_of_table, subject};
pub use lines::{counts, digits};
pub use markdown::markdown;
pub use text::{mail, text};
pub(crate) use timeline::{CHANGES_MEAN, Timeline, changes, timelines};

/// A study's end.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// The study's title.
    pub title: String,
    /// What was asked.
    pub question: String,
    /// Who published it.
    pub source: String,
    /// Each variant that was run, with its own verdicts.
    pub variants: Vec<Variant>,
}

/// A study under one set of conditions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Variant {
    /// `as then`, `as today`, with what else tells it from others: `as today, kernel 5.10`.
    pub name: String,
    /// `as then`, `as today`, `as it stands`: alike for all kernels of a timeline.
    pub conditions: String,
    /// Its kernel, where the study is a timeline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// What sizes were divided by; 1 at full scale.
    pub scale: u64,
    /// The kernels that it ran on, each once; empty of what ran in a model alone.
    pub kernels: Vec<String>,
    /// The claims, in the order of the file.
    pub claims: Vec<Claim>,
    /// The published tables, in the order of the file.
    pub tables: Vec<Table>,
}

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Verdict {
    /// It holds, on a kernel of its time.
    #[serde(rename = "reproduced")]
    Reproduced,
    /// It holds, on a kernel of another time.
    #[serde(rename = "still holds")]
    StillHolds,
    /// The measured number lies on the wrong side of the bound.
    #[serde(rename = "no longer holds")]
    NoLongerHolds,
    /// What was claimed to be the greater is the smaller.
    #[serde(rename = "reversed")]
    Reversed,
    /// The trials leave it open.
    #[serde(rename = "undecided")]
    Undecided,
    /// What it is about cannot be measured here.
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

    /// Of one claim.
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

    /// Of `n` claims, behind their number: `2 still hold`.
    pub fn words(self, n: usize) -> &'static str {
        match self {
            Verdict::StillHolds if n != 1 => "still hold",
            Verdict::NoLongerHolds if n != 1 => "no longer hold",
            _ => self.word(),
        }
    }

    /// What it means, in a sentence.
    pub fn meaning(self) -> &'static str {
        match self {
            Verdict::Reproduced => {
                "What was measured lies beyond doubt within the bounds of the claim, on a kernel of its \
                 own time."
            }
            Verdict::StillHolds => {
                "What was measured lies beyond doubt within the bounds of the claim; the kernel is not the \
                 one of then, so nothing is called reproduced."
            }
            Verdict::NoLongerHolds => {
                "What was measured lies beyond doubt outside of the bounds of the claim, or in one part of it, \
                 or the difference that it tells of is none that counts."
            }
            Verdict::Reversed => {
                "The difference goes the other way, by more than the least that counts: what was claimed \
                 to be the faster is the slower. Of a claim of several parts all of them do."
            }
            Verdict::Undecided => {
                "The interval of what was measured holds the bound, or the number is nearer to it than counts \
                 (5 % unless the claim says otherwise): nothing is claimed."
            }
            Verdict::NotTestable => {
                "The claim needs a file system, a kernel or a number that is not there; the reason stands \
                 with it."
            }
            Verdict::NotRun => "The claim needs a run of the study of which no trial is there.",
        }
    }
}

/// A claim and its verdict.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Claim {
    /// Its short name: `C1`.
    pub id: String,
    /// What is claimed.
    pub text: String,
    /// What became of it.
    pub verdict: Verdict,
    /// Why, in a sentence.
    pub why: String,
    /// What was measured and what it has to be: `returned of tarball unpack, ext3 over ext4: more
    /// than 1`; none of a claim that nobody can test.
    pub check: Option<String>,
    /// The unit of the numbers; empty of a ratio or an exponent.
    pub unit: String,
    /// What was published.
    pub published: Option<f64>,
    /// What was measured.
    pub measured: Option<Number>,
    /// The p-value of the verdict, raised for all claims of the variant (Holm); none with one seed, and where
    /// nothing varied.
    pub p: Option<f64>,
    /// What else a reader must know: one seed, flags, a model.
    pub notes: Vec<String>,
    /// What sizes were divided by; 1 at full scale.
    pub scale: u64,
    /// Whether the verdict is that of a single seed.
    pub one_seed: bool,
    /// What became of it at full scale, where this is another and that is known.
    pub full_scale: Option<FullScale>,
}

impl Claim {
    /// Whether it has a verdict, and not only the reason why there is none.
    pub fn is_judged(&self) -> bool {
        !matches!(self.verdict, Verdict::NotTestable | Verdict::NotRun)
    }

    /// Whether its verdict is one about the study, and not about a smaller experiment.
    pub fn is_full(&self) -> bool {
        self.scale == 1 || !self.is_judged()
    }

    /// The verdict as what it is: `at 1/32: reversed, one seed`.
    pub fn called(&self) -> String {
        let scale = if self.is_full() { String::new() } else { format!("at 1/{}: ", self.scale) };
        let seed = if self.one_seed && self.is_judged() { ", one seed" } else { "" };
        format!("{scale}{}{seed}", self.verdict.word())
    }
}

/// What became of a claim in the full study.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FullScale {
    /// The folder below `results/` of fsdyno's source that has the records.
    pub result: String,
    /// The kernels that it ran on.
    pub kernels: Vec<String>,
    /// The verdict.
    pub verdict: Verdict,
    /// Whether that is of a single seed.
    pub one_seed: bool,
    /// What was measured.
    pub measured: Option<Number>,
}

/// A measured number, in the unit of where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Number {
    /// The mean, ratio or exponent.
    pub value: f64,
    /// How many trials, pairs or (of an exponent) points it comes from.
    pub n: usize,
    /// The 95 % interval; none of a single trial.
    pub interval: Option<(f64, f64)>,
}

/// A published table and what was measured of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// Its short name.
    pub name: String,
    /// What it shows.
    pub caption: String,
    /// Where it was published.
    pub source: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows.
    pub rows: Vec<Row>,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// The unit of its numbers.
    pub unit: String,
}

/// A row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Its label.
    pub label: String,
    /// One for each column.
    pub cells: Vec<Cell>,
}

/// A published number beside the measured one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// As it was printed, `28.40±1.28`; none where none was published.
    pub published: Option<String>,
    /// Why the published number cannot be right, or not be what it seems.
    pub doubts: Vec<String>,
    /// What was measured.
    pub measured: Option<Number>,
    /// Why nothing was.
    pub missing: Option<String>,
    /// Measured over published; none where either is not there or zero, and where another scale makes it
    /// say nothing.
    pub ratio: Option<f64>,
}

/// Version of the JSON form.
const SCHEMA: u32 = 1;

/// The whole of it for programs, nothing rounded, with what was not run: docs/schema/judged.schema.json; ends in a
/// newline.
///
/// # Errors
/// Only [`crate::ReportError::Json`].
pub fn json(judged: &Judged, beside: Beside<'_>) -> Result<String, crate::ReportError> {
    #[derive(Serialize)]
    struct Versioned<'a> {
        schema: u32,
        #[serde(flatten)]
        judged: &'a Judged,
        not_run: &'a [NotRun],
    }
    let whole = Versioned { schema: SCHEMA, judged, not_run: beside.not_run };
    Ok(serde_json::to_string_pretty(&whole)? + "\n")
}

#[cfg(test)]
pub mod sample;
#[cfg(test)]
mod tests;
