//! Trials in the report format of the program that the workload reproduces.
//!
//! One file for each program; its row here makes `--format original` print it.

mod bonnie;
mod fdtree;
mod mdtest;
mod postmark;

use fsdyno_record::Trial;
use fsdyno_record::trial::Outcome;

use crate::error::ReportError;

/// Prints a successful trial in the form of the original; ends in a newline.
type Form = fn(&Trial) -> String;

/// Workload and the form of its original.
const FORMS: &[(&str, Form)] =
    &[("fdtree", fdtree::form), ("bonnie", bonnie::form), ("postmark", postmark::form)];

/// Prints every successful trial, one after the other.
///
/// # Errors
/// [`ReportError::NoOriginal`] if no trial's workload has such a form.
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
        let known = format!("{known}, dirops with --ranks");
        return Err(ReportError::NoOriginal(known));
    }
    Ok(texts.concat())
}
