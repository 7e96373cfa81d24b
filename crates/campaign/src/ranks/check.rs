//! Checks a request for several processes, and what it requires of workloads and targets.

use fsdyno_record::Bytes;
use fsdyno_record::plan::{IssuerPlan, RanksPlan};
use fsdyno_workload::{Needs, OpCounts, Threads, Workload};

use crate::RunSpec;
use crate::failure::Failure;

/// Refuses options that are not possible with several processes.
///
/// # Errors
/// The first such option.
pub(crate) fn check(run: &RunSpec) -> Result<(), Failure> {
    let Some(request) = &run.ranks else { return Ok(()) };
    let invalid = |text: String| Err(Failure::invalid_use(text));
    if run.axes.on.len() != 1 {
        return invalid("--ranks needs one --on DIR: the directory that all hosts share".into());
    }
    if run.jobs > 1 {
        return invalid("--ranks runs one trial at a time: remove --jobs".into());
    }
    if run.shard.is_some() {
        return invalid(
            "--ranks shares each trial among processes, and --shard divides the trials: remove one"
                .into(),
        );
    }
    if matches!(run.axes.issuer, IssuerPlan::IoUring { .. }) {
        return invalid(format!(
            "--ranks with --issuer {} is not possible yet; remove --issuer and use --threads",
            run.axes.issuer
        ));
    }
    // A single rank is not shifted, but the option is accepted: the first point of a curve has the options of the
    // others.
    if request.plan.shift >= request.plan.ranks && request.plan.ranks > 1 {
        return invalid(format!(
            "--shift {} must be below the number of ranks, {}",
            request.plan.shift, request.plan.ranks
        ));
    }
    Ok(())
}

/// Checks that ranks can share a workload, or that each of them can run all of it.
///
/// # Errors
/// The reason, with the possible alternatives.
pub(crate) fn check_workload(
    name: &str,
    work: &dyn Workload,
    plan: &RanksPlan,
) -> Result<(), String> {
    if work.command().is_some() {
        return Err(format!(
            "workload '{name}' runs a command, but ranks make their own calls; remove --ranks"
        ));
    }
    if work.fills_file_system() {
        return Err(format!(
            "workload '{name}' fills its file system, and cannot run with --ranks"
        ));
    }
    if plan.stonewall.is_some() && work.stonewalled().is_none() {
        return Err(format!(
            "workload '{name}' with these parameters has no phase that a stonewall can end; the workloads that \
             have one are: dirops with create-order=forward, many-files, fdtree, tarball, postmark, maildir with \
             deliverers=0, churn without seconds and rate; remove --stonewall"
        ));
    }
    let phases = work.phases();
    if work.shared_slots().is_some() && plan.shift > 0 && plan.ranks > 1 && phases.len() > 1 {
        return Err(format!(
            "workload '{name}' keeps files open from one phase to the next, so each rank must stay in its own \
             directory; remove --shift"
        ));
    }
    if work.prefill().is_some() && !plan.own {
        return Err(format!(
            "workload '{name}' finds a tree before its first phase, which ranks cannot share; add --own, and each rank \
             has such a tree and does all of the work in a separate directory"
        ));
    }
    let shared = phases.iter().all(|phase| phase.threads == Threads::Any);
    match shared || plan.own {
        true => Ok(()),
        false => Err(format!(
            "workload '{name}' has phases that cannot be shared among ranks; add --own, and each rank does all of it \
             in a separate directory"
        )),
    }
}

/// Phases by name, with their operation counts.
type Phases = Vec<(String, OpCounts)>;

/// Returns the requirements and counts of all ranks. If each rank runs the whole workload, `needs` and `phases` are
/// those of one rank.
pub(crate) fn for_all_ranks(plan: &RanksPlan, needs: Needs, phases: Phases) -> (Needs, Phases) {
    if !plan.own {
        return (needs, phases);
    }
    let ranks = u64::from(plan.ranks);
    let needs = Needs {
        bytes: Bytes(needs.bytes.0.saturating_mul(ranks)),
        inodes: (needs.inodes + 1).saturating_mul(ranks),
        ..needs
    };
    let times = |(name, counts): (String, OpCounts)| {
        (
            name,
            counts.into_iter().map(|(kind, count)| (kind, count.saturating_mul(ranks))).collect(),
        )
    };
    (needs, phases.into_iter().map(times).collect())
}
