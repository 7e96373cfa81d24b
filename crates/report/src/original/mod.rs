//! Trials in the report format of the program that the workload reproduces.
//!
//! One module for each program; its entry in [`FORMS`] makes `--format original` print it.

mod bonnie;
mod fdtree;
mod mdtest;
mod postmark;

use fsdyno_record::Trial;
use fsdyno_record::trial::Outcome;

use crate::error::ReportError;

/// Formats a successful trial as the original program does; the text ends in a newline.
type Form = fn(&Trial) -> String;

/// Each workload with the format of its original program.
const FORMS: &[(&str, Form)] =
    &[("fdtree", fdtree::form), ("bonnie", bonnie::form), ("postmark", postmark::form)];

/// Formats all successful trials, one after the other.
///
/// # Errors
/// [`ReportError::NoOriginal`] if no successful trial has such a format.
pub fn original(trials: &[Trial]) -> Result<String, ReportError> {
    let form_of = |trial: &&Trial| {
        let form = FORMS.iter().find(|(name, _)| *name == trial.plan.workload.name)?.1;
        (trial.outcome == Outcome::Ok).then_some(form)
    };
    let mut texts: Vec<String> =
        trials.iter().filter_map(|trial| form_of(&trial).map(|form| form(trial))).collect();
    texts.extend(mdtest::summaries(trials));
    if texts.is_empty() {
        let known = FORMS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        let known = format!("{known}, dirops shared by ranks or clients");
        return Err(ReportError::NoOriginal(known));
    }
    Ok(texts.concat())
}
