//! The source of row names: a plan, and facts that only its trial provides.

use fsdyno_record::{Plan, Trial};

/// A named item: a plan, and facts that only its trial provides.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The kernel of a trial on a host, as in the record, or empty if unknown.
    pub host_kernel: &'a str,
    /// The CPU of the host, or empty if unknown.
    pub host_cpu: &'a str,
    /// The lab identity, if any.
    pub lab_id: Option<&'a str>,
}

impl<'a> From<&'a Plan> for Subject<'a> {
    fn from(plan: &'a Plan) -> Subject<'a> {
        Subject { plan, host_kernel: "", host_cpu: "", lab_id: None }
    }
}

impl<'a> From<&'a Trial> for Subject<'a> {
    fn from(trial: &'a Trial) -> Subject<'a> {
        Subject {
            plan: &trial.plan,
            host_kernel: &trial.conditions.kernel,
            host_cpu: &trial.conditions.cpu,
            lab_id: trial.lab_id.as_deref(),
        }
    }
}
