//! Trials as the program that the workload stands for would have reported them.
//!
//! One file for each program; its row here makes `--format original` print it.

mod bonnie;
mod fdtree;
mod postmark;

use fsdyno_record::Trial;
use fsdyno_record::trial::Outcome;

use crate::error::ReportError;

/// Prints a trial that ended well in the form of the original; ends in a newline.
type Form = fn(&Trial) -> String;

/// Workload and the form of its original.
const FORMS: &[(&str, Form)] =
    &[("fdtree", fdtree::form), ("bonnie", bonnie::form), ("postmark", postmark::form)];

/// Every trial that ended well, one after the other.
///
/// # Errors
/// [`ReportError::NoOriginal`] where no trial's workload has such a form.
pub fn original(trials: &[Trial]) -> Result<String, ReportError> {
    let form_of = |trial: &&Trial| {
        let form = FORMS.iter().find(|(name, _)| *name == trial.plan.workload.name)?.1;
        (trial.outcome == Outcome::Ok).then_some(form)
    };
    let texts: Vec<String> =
        trials.iter().filter_map(|trial| form_of(&trial).map(|form| form(trial))).collect();
    if texts.is_empty() {
        let known = FORMS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        return Err(ReportError::NoOriginal(known));
    }
    Ok(texts.concat())
}
