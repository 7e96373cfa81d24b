//! A job: a plan with a seed, ready for one agent.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::plan::{
    BootPlan, FlatPlan, IssuerPlan, KernelPlan, Plan, VenuePlan, VerifyMode, WorkloadPlan,
};
use crate::units::Nanos;

/// A plan with a seed, ready for one agent, which receives the plan in its flat form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job<P = Plan> {
    /// The trial's id.
    pub trial_id: String,
    /// The seed that determines all random choices.
    pub seed: u64,
    /// The plan.
    pub plan: P,
    /// Deadline of the trial, on the venue's clock.
    pub deadline: Nanos,
    /// The part of the trial to run.
    #[serde(default, skip_serializing_if = "Task::is_whole")]
    pub task: Task,
}

/// The part of a trial that an agent runs: one guest may prepare a disk image that other guests use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// The whole trial.
    #[default]
    Whole,
    /// Only the preparation, which persists on the disk: mkfs and ageing.
    #[serde(rename = "make")]
    Prepare,
    /// The trial on prepared disks, without that part.
    #[serde(rename = "use")]
    RunPrepared,
    /// The whole trial, with a log of the bytes written and of the time at which each op returned, in a memory region
    /// after those of the disks ([`crate::acks`]).
    Logged,
    /// No phases: the file system of this plan is recovered repeatedly from the states that a logged trial left at its
    /// crash points.
    Recover,
    /// The whole trial of a command that the user has just given on the command line. An agent runs a command only for
    /// this task, so a plan that someone else wrote cannot run one.
    Command,
}

impl Task {
    /// Returns true for [`Task::Whole`], the default.
    pub fn is_whole(&self) -> bool {
        *self == Task::Whole
    }

    /// Returns true if it begins with an empty disk and runs to the end.
    pub fn is_complete_trial(&self) -> bool {
        matches!(self, Task::Whole | Task::Logged | Task::Command)
    }
}

/// The deadline for preparing a disk, on the venue's clock: two days.
const PREPARATION_DEADLINE: Nanos = Nanos(2 * 86_400 * 1_000_000_000);

impl Job {
    /// Returns the job that prepares the disks of this one. It contains only what determines their contents, so that
    /// two such jobs with equal text have equal disks in one lab.
    pub fn preparation_job(&self) -> Job {
        let mut job = self.for_agent();
        job.trial_id = "make".into();
        job.task = Task::Prepare;
        job.deadline = PREPARATION_DEADLINE;
        let plan = &mut job.plan;
        plan.workload = WorkloadPlan { name: String::new(), params: BTreeMap::new(), input: None };
        (plan.threads, plan.issuer, plan.verify) = (1, IssuerPlan::Sync, VerifyMode::Full);
        plan.hash.clear();
        if let VenuePlan::Lab(lab) = &mut plan.venue {
            lab.cacheable = None;
            // The network begins beyond the server's disk, so it cannot affect the disk.
            (lab.clients, lab.network) = (None, None);
        }
        job
    }

    /// Returns the job as sent to an agent, without the fields that the hash excludes and the agent does not need: in
    /// the lab, a name that is one byte longer costs instructions, but must not change the result.
    pub fn for_agent(&self) -> Job {
        let mut job = self.clone();
        job.plan.label.clear();
        // The agent does not need the boot mode.
        if let VenuePlan::Lab(lab) = &mut job.plan.venue {
            lab.boot = BootPlan::Cold;
            lab.kernel = KernelPlan { request: None, ..lab.kernel.clone() };
            if let Some(network) = &mut lab.network {
                network.name.clear();
            }
        }
        let workload = &mut job.plan.workload;
        if let Some(input) = &workload.input {
            workload.params.insert(input.parameter.clone(), input.sha256.clone());
        }
        job
    }

    /// Returns the job with its plan in the flat form.
    ///
    /// # Errors
    /// A venue that cannot use the medium.
    pub fn into_flat(self) -> Result<Job<FlatPlan>, String> {
        let Job { trial_id, seed, plan, deadline, task } = self;
        Ok(Job { trial_id, seed, plan: plan.try_into()?, deadline, task })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{InputPlan, tests::plan};
    use crate::units::Bytes;

    #[test]
    fn an_agent_receives_nothing_that_the_hash_excludes() {
        let job = |label: &str, path: &str| {
            let mut plan = Plan { label: label.into(), ..plan() };
            plan.workload.params.insert("archive".into(), path.into());
            let (parameter, sha256) = ("archive".to_string(), "5".repeat(64));
            plan.workload.input = Some(InputPlan { parameter, sha256, bytes: Bytes(1) });
            Job {
                trial_id: "t".into(),
                seed: 1,
                plan: plan.with_hash(),
                deadline: Nanos(1),
                task: Task::Whole,
            }
        };
        let (first, second) = (job("a", "/x.tar"), job("longer", "/home/me/y.tar.gz"));
        assert_eq!(first.for_agent(), second.for_agent());
        assert_eq!(first.for_agent().plan.with_hash().hash, first.plan.hash);
    }

    #[test]
    fn the_preparation_job_contains_only_what_determines_the_disk() {
        let job = |plan: Plan| {
            let (trial_id, deadline) = (plan.hash.clone(), Nanos(u64::from(plan.threads)));
            Job { trial_id, seed: 1, plan: plan.with_hash(), deadline, task: Task::Whole }
        };
        let base = job(plan());
        let mut plan_with_other_workload = plan();
        plan_with_other_workload.workload.name = "tarball".into();
        (plan_with_other_workload.threads, plan_with_other_workload.verify) =
            (4, VerifyMode::Names);
        assert_eq!(base.preparation_job(), job(plan_with_other_workload).preparation_job());
        assert_ne!(base.preparation_job(), Job { seed: 2, ..base.clone() }.preparation_job());
        let sysctls = [("vm.dirty_ratio".to_string(), "5".to_string())].into();
        assert_ne!(base.preparation_job(), job(Plan { sysctls, ..plan() }).preparation_job());
    }
}
