//! `fsdyno merge`: the shares of one command, run on several machines, become one result folder.

use fsdyno_record::trial::Outcome;
use fsdyno_report::counted;
use fsdyno_study::{Merged, Share};

use crate::cli::Merge;
use crate::commands::report;
use crate::exit::{Exit, Failure};
use crate::output::say;

/// Puts shares together and shows what they are.
pub fn run(merge: &Merge) -> Result<Exit, Failure> {
    if let Some(first) = merge.shares.first()
        && let Some(share) = Share::read(first)?
    {
        let labels = share.trials.iter().map(|planned| planned.label.as_str());
        report::check_baseline(merge.baseline.as_deref(), labels)?;
    }
    let merged = fsdyno_study::merge(&merge.out, &merge.shares, merge.partial)?;
    say_what_was_found(&merged);
    let Merged { mut trials, baseline, missing, .. } = merged;
    let failed = trials.iter().filter(|trial| trial.outcome == Outcome::Failed).count();
    let baseline = merge.baseline.as_deref().or(baseline.as_deref());
    // Of a merge that is not whole the baseline's own trials may be what is missing.
    let baseline = baseline.filter(|name| trials.iter().any(|trial| trial.plan.label == *name));
    let basis = merge.least.basis(baseline);
    report::in_order(&mut trials);
    if !trials.is_empty() {
        let html = merge.out.join(fsdyno_study::store::PAGE);
        let series = report::drawn(&[&merge.out], &trials)?;
        report::write_html(&html, &trials, &series, basis)?;
        report::print(&trials, basis, merge.format)?;
        say(&format!("report: {}", html.display()));
    }
    if !missing.is_empty() {
        say(&format!("fsdyno: merged without what is missing: {missing}"));
    }
    Ok(if failed > 0 { Exit::TrialFailed } else { Exit::Good })
}

fn say_what_was_found(merged: &Merged) {
    for folder in &merged.torn {
        say(&format!(
            "fsdyno: the last line of '{}' was torn off by a crash; its trial is left out",
            folder.display()
        ));
    }
    if merged.twice > 0 {
        let (trials, were) =
            (counted(merged.twice, "trial"), if merged.twice == 1 { "was" } else { "were" });
        say(&format!("fsdyno: {trials} {were} there twice, with the same digits"));
    }
}
