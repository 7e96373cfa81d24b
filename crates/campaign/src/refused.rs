//! Rows whose file system cannot be created or mounted: their other trials would fail for the same reason.

use std::collections::BTreeMap;

use fsdyno_record::trial::{Outcome, Trial};
use fsdyno_record::{Job, Plan};

/// Keys of refused rows → the reason not to run their other trials.
#[derive(Debug, Default)]
pub struct RefusedRows(BTreeMap<String, String>);

/// Returns the key that all trials of a row share: the commands, the medium and the venue. It omits the seed, which
/// determines only UUIDs, and the workload, which starts after the mount.
fn row_key(plan: &Plan) -> Option<String> {
    let filesystem = plan.filesystem.as_ref()?;
    serde_json::to_string(&(filesystem, &plan.medium, &plan.venue)).ok()
}

impl RefusedRows {
    /// Returns the reason not to run a job, if another trial of its row was refused.
    pub fn reason(&self, job: &Job) -> Option<&String> {
        self.0.get(&row_key(&job.plan)?)
    }

    /// Records a trial that failed because mkfs refused its options, or the kernel its mount options. After any other
    /// failure, the next trial may succeed.
    pub fn note(&mut self, trial: &Trial) {
        let Some(reason) = trial.reason.as_ref().filter(|_| trial.outcome == Outcome::Failed)
        else {
            return;
        };
        let mkfs = format!("{} failed (exit code ", trial.conditions.mkfs.join(" "));
        let mkfs_failed = !trial.conditions.mkfs.is_empty() && reason.contains(&mkfs);
        let mount =
            trial.plan.filesystem.as_ref().map(|plan| format!("mount -t {} ", plan.mount_type));
        let mount_refused = mount.is_some_and(|mount| reason.contains(&mount))
            && reason.contains("Invalid argument");
        if let Some(row) = row_key(&trial.plan).filter(|_| mkfs_failed || mount_refused) {
            let why = format!("not run: trial {} failed: {reason}", trial.trial_id);
            self.0.entry(row).or_insert(why);
        }
    }
}
