//! Prepared images: disks made by another guest than the measured one, cached, and used as copies.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsdyno_lab::{Cache, Guest, Machine, Made, Snapshot, Watch};
use fsdyno_record::mailbox::Progress;
use fsdyno_record::trial::AgentReport;
use fsdyno_record::{Job, Plan};

use crate::commands::text_of;
use crate::error::VenueError;
use crate::lab::from_run;

/// Hooks of the lab's preparation.
#[derive(Clone)]
pub struct SetupHooks {
    /// Receives a line about each slow step.
    pub log: fn(&str),
    /// Set to cancel.
    pub cancel: Arc<AtomicBool>,
}

impl Default for SetupHooks {
    fn default() -> SetupHooks {
        SetupHooks { log: |_| {}, cancel: Arc::default() }
    }
}

impl std::fmt::Debug for SetupHooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cancel: {:?}", self.cancel)
    }
}

/// Reports whether the disks of a plan's trials are prepared by another guest. An array is then created again
/// from its prepared members by the same command: with `--assume-clean` and the same data offset mdadm writes
/// its superblocks and nothing else.
fn is_prepared(plan: &Plan) -> bool {
    // A file system in memory has no disk.
    let formatted = plan.filesystem.as_ref().is_some_and(|filesystem| !filesystem.mkfs.is_empty());
    let snapshot = plan.lab().is_some_and(|lab| !lab.boot.is_cold());
    formatted && (plan.age().is_some() || snapshot)
}

/// Prepares the disks of a job, if they are made by another guest: aged ones, and with `--boot snapshot`
/// formatted ones.
///
/// # Errors
/// The preparing guest ended without a report.
pub fn prepare_disks(
    job: &Job,
    (guest, snapshot): (&Guest, Option<&Snapshot>),
    machine: &Machine,
    cache: &Cache,
    watch: &mut dyn FnMut(&Progress) -> Watch,
) -> Result<Option<Made>, VenueError> {
    if !is_prepared(&job.plan) {
        return Ok(None);
    }
    let text = text_of(job.preparation())?;
    guest.image(snapshot, machine, &text, cache, watch).map(Some).map_err(from_run)
}

/// Adds the facts of the preparing guest to a report.
pub fn merge_report(made: &AgentReport, report: &mut AgentReport) {
    let (from, to) = (&made.conditions, &mut report.conditions);
    to.mkfs.clone_from(&from.mkfs);
    to.mkfs_output.clone_from(&from.mkfs_output);
    to.before_mkfs.clone_from(&from.before_mkfs);
    // Features that only a mount shows come from the measured guest.
    let measured = std::mem::replace(&mut to.features, from.features.clone());
    to.features.extend(measured);
    to.aged = from.aged;
    let notes = from.notes.iter().filter(|note| !to.notes.contains(note));
    let notes: Vec<String> = notes.cloned().collect();
    to.notes.extend(notes);
    if let (Some(from), Some(to)) = (&made.measured.setup, &mut report.measured.setup) {
        (to.mkfs_ns, to.age_ns) = (from.mkfs_ns, from.age_ns);
    }
}
