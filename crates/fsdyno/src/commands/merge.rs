//! `fsdyno merge`: merges the shards of one command into one result folder.

use fsdyno_campaign::{Merged, ShareFile, results};
use fsdyno_record::trial::Outcome;
use fsdyno_report::counted;

use crate::cli::Merge;
use crate::commands::report;
use crate::exit::{Exit, Failure};
use crate::output::say;

/// Merges shards and prints the table.
pub fn run(merge: &Merge) -> Result<Exit, Failure> {
    if let Some(first) = merge.shares.first()
        && let Some(share) = ShareFile::read(first)?
    {
        let labels = share.trials.iter().map(|planned| planned.label.as_str());
        results::check_baseline(merge.baseline.as_deref(), labels)?;
    }
    let merged = fsdyno_campaign::merge(&merge.out, &merge.shares, merge.partial)?;
    report_findings(&merged);
    let Merged { mut trials, baseline, missing, .. } = merged;
    let failed = trials.iter().filter(|trial| trial.outcome == Outcome::Failed).count();
    let baseline = merge.baseline.as_deref().or(baseline.as_deref());
    // In a partial merge, the trials of the baseline may be missing.
    let baseline = baseline.filter(|name| trials.iter().any(|trial| trial.plan.label == *name));
    let basis = merge.comparison.basis(baseline);
    results::in_order(&mut trials);
    if !trials.is_empty() {
        report::show(&merge.out, &trials, basis, merge.format)?;
    }
    if !missing.is_empty() {
        say(&format!("fsdyno: merged; missing: {missing}"));
    }
    Ok(if failed > 0 { Exit::TrialFailed } else { Exit::Success })
}

fn report_findings(merged: &Merged) {
    for folder in &merged.torn {
        say(&format!(
            "fsdyno: the last line of '{}' is incomplete after a crash; its trial is omitted",
            folder.display()
        ));
    }
    if merged.twice > 0 {
        let trials = counted(merged.twice, "trial");
        let verb = if merged.twice == 1 { "is" } else { "are" };
        say(&format!("fsdyno: {trials} {verb} in two shards and bit-identical"));
    }
}
