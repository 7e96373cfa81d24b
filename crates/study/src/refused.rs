//! Rows whose file system cannot be made or mounted: their other trials would end the same.

use std::collections::BTreeMap;

use fsdyno_record::trial::{Outcome, Trial};
use fsdyno_record::{Job, Plan};

/// Rows that were refused → the reason for which their other trials are not run.
#[derive(Debug, Default)]
pub struct Refused(BTreeMap<String, String>);

/// What all trials of a row share: the commands, and what they are run on. Not the seed, of which
/// UUIDs are drawn and nothing that a tool could refuse; not the workload, which comes later.
fn row(plan: &Plan) -> Option<String> {
    let filesystem = plan.filesystem.as_ref()?;
    serde_json::to_string(&(filesystem, &plan.medium)).ok()
}

impl Refused {
    /// Why a job need not be run, if another of its row was refused.
    pub fn reason(&self, job: &Job) -> Option<&String> {
        self.0.get(&row(&job.plan)?)
    }

    /// Remembers a trial that ended because mkfs did not take its options, or the kernel its mount
    /// options. Whatever else goes wrong may go well the next time.
    pub fn note(&mut self, trial: &Trial) {
        let Some(reason) = trial.reason.as_ref().filter(|_| trial.outcome == Outcome::Failed)
        else {
            return;
        };
        let mkfs = format!("{} failed (exit code ", trial.conditions.mkfs.join(" "));
        let made = !trial.conditions.mkfs.is_empty() && reason.contains(&mkfs);
        let mount =
            trial.plan.filesystem.as_ref().map(|plan| format!("mount -t {} ", plan.mount_type));
        let mounted = mount.is_some_and(|mount| reason.contains(&mount))
            && reason.contains("Invalid argument");
        if let Some(row) = row(&trial.plan).filter(|_| made || mounted) {
            let why = format!("not run: trial {} has shown that {reason}", trial.trial_id);
            self.0.entry(row).or_insert(why);
        }
    }
}
