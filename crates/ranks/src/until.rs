//! The workload after a stonewall.

use fsdyno_record::plan::WorkloadPlan;
use fsdyno_workload::{Setting, Workload, workloads};

/// The workload of a plan with the number of items that were done until the stonewall and after it, in place of that of
/// the plan.
///
/// # Errors
/// The parameters fit no workload, as a sentence.
pub(crate) fn until(
    plan: &WorkloadPlan,
    seed: u64,
    items: u64,
) -> Result<Box<dyn Workload>, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let (kind, setting) =
        (workloads::find(&plan.name).map_err(|error| text(&error))?, Setting { seed, input: None });
    let whole = kind.build(&plan.params, &setting).map_err(|error| text(&error))?;
    let mut params = plan.params.clone();
    if let Some((_, count)) = whole.stonewalled() {
        params.insert(count.to_string(), items.to_string());
    }
    kind.build(&params, &setting).map_err(|error| text(&error))
}
