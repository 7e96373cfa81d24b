//! Disks that another guest makes than the one that is measured: kept, and used again as copies.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsdyno_lab::{Cache, Guest, Machine, Made, Snapshot, Watch};
use fsdyno_record::mailbox::Progress;
use fsdyno_record::trial::AgentReport;
use fsdyno_record::{Job, Plan};

use crate::commands::text_of;
use crate::error::VenueError;
use crate::lab::from_run;

/// Who is there while the venue gets ready.
#[derive(Clone)]
pub struct Attention {
    /// Is told, in a line, what takes long.
    pub say: fn(&str),
    /// Whether all is to end.
    pub stop: Arc<AtomicBool>,
}

impl Default for Attention {
    fn default() -> Attention {
        Attention { say: |_| {}, stop: Arc::default() }
    }
}

impl std::fmt::Debug for Attention {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "stop: {:?}", self.stop)
    }
}

/// Whether the disks of a plan's trials are made by another guest than the one that is measured. An array is
/// then put together again of the members that were kept, by the command that made it: with `--assume-clean`
/// and the same data offset mdadm writes its superblocks and nothing else.
fn is_beforehand(plan: &Plan) -> bool {
    // What lies in memory has no disk that could be kept.
    let formatted = plan.filesystem.as_ref().is_some_and(|filesystem| !filesystem.mkfs.is_empty());
    let snapshot = plan.lab().is_some_and(|lab| !lab.boot.is_cold());
    formatted && (plan.age().is_some() || snapshot)
}

/// The disks that a job's guest finds made, where they are made beforehand: aged ones, and with
/// `--boot snapshot` formatted ones.
///
/// # Errors
/// Why the guest that was to make them brought no report.
pub fn beforehand(
    job: &Job,
    (guest, snapshot): (&Guest, Option<&Snapshot>),
    machine: &Machine,
    cache: &Cache,
    watch: &mut dyn FnMut(&Progress) -> Watch,
) -> Result<Option<Made>, VenueError> {
    if !is_beforehand(&job.plan) {
        return Ok(None);
    }
    let text = text_of(job.to_make())?;
    guest.image(snapshot, machine, &text, cache, watch).map(Some).map_err(from_run)
}

/// Adds to a report what only the guest knows that made the disks.
pub fn tell(made: &AgentReport, report: &mut AgentReport) {
    let (from, to) = (&made.conditions, &mut report.conditions);
    to.mkfs.clone_from(&from.mkfs);
    to.mkfs_output.clone_from(&from.mkfs_output);
    to.before_mkfs.clone_from(&from.before_mkfs);
    // What only a mount tells, the measured guest has seen.
    let seen = std::mem::replace(&mut to.features, from.features.clone());
    to.features.extend(seen);
    to.aged = from.aged;
    let notes = from.notes.iter().filter(|note| !to.notes.contains(note));
    let notes: Vec<String> = notes.cloned().collect();
    to.notes.extend(notes);
    if let (Some(from), Some(to)) = (&made.measured.setup, &mut report.measured.setup) {
        (to.mkfs_ns, to.age_ns) = (from.mkfs_ns, from.age_ns);
    }
}
