//! Prepared images: disks that are made by a guest other than the measured one, cached, and copied for use.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsdyno_filesystem::{Context, Spec, catalog};
use fsdyno_lab::{Cache, Guest, ImageResult, Machine, Snapshot, Watch};
use fsdyno_record::mailbox::Progress;
use fsdyno_record::plan::FilesystemPlan;
use fsdyno_record::trial::AgentReport;
use fsdyno_record::{Job, Plan};

use crate::commands::serialize_job;
use crate::error::{VenueError, from_run};

/// Hooks of the lab's preparation.
#[derive(Clone)]
pub struct SetupHooks {
    /// Receives a line about each slow step.
    pub log: fn(&str),
    /// True once the preparation is to be cancelled.
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

/// Returns true if the disks of a plan's trials are prepared by a separate guest. An array is then created again
/// from its prepared members by the same command: with `--assume-clean` and the same data offset, mdadm writes
/// its superblocks and nothing else.
fn is_prepared(plan: &Plan) -> bool {
    // A file system in memory has no disk.
    let formatted = plan.filesystem.as_ref().is_some_and(|filesystem| !filesystem.mkfs.is_empty());
    let snapshot = plan.lab().is_some_and(|lab| !lab.boot.is_cold());
    formatted && (plan.age().is_some() || snapshot)
}

/// Returns the job that prepares the disks of the given job. Settings that take effect only while a file system is
/// mounted do not affect one that is only formatted; they are removed, so that trials that differ only in them share
/// an image.
fn preparation(job: &Job) -> Job {
    let mut prepared = job.preparation_job();
    if let Some(server) = job.plan.filesystem.as_ref().and_then(server_plan) {
        prepared.plan.filesystem = Some(server);
    }
    let is_aged = prepared.plan.age().is_some();
    let Some(filesystem) = prepared.plan.filesystem.as_mut() else { return prepared };
    if is_aged || filesystem.settles {
        return prepared;
    }
    prepared.plan.sysctls.clear();
    if let Some((spec, options)) = without_mount_options(filesystem) {
        (filesystem.spec, filesystem.mount_options) = (spec, options);
    }
    prepared
}

/// Returns the catalog's plan of a server's file system, which is what the server's disk holds, or `None` if the plan
/// is not for clients of a server.
fn server_plan(shared: &FilesystemPlan) -> Option<FilesystemPlan> {
    let spec = Spec::parse(&shared.spec).ok()?;
    let server_spec = spec.below.filter(|_| shared.is_shared())?;
    let mut plan =
        catalog::get(&server_spec.kind).ok()?.plan(&server_spec, Context::Lab, None).ok()?;
    plan.age.clone_from(&shared.age);
    Some(plan)
}

/// Returns the spec of a file system without its mount options, and the options that the catalog then uses, or `None`
/// if the spec has no mount options, or if they do not depend on the spec alone.
fn without_mount_options(plan: &FilesystemPlan) -> Option<(String, String)> {
    let mut spec = Spec::parse(&plan.spec).ok()?;
    if plan.period.is_some() || spec.below.is_some() || spec.mount.is_empty() {
        return None;
    }
    spec.mount.clear();
    let plan_without_options =
        catalog::get(&spec.kind).ok()?.plan(&spec, Context::Lab, None).ok()?;
    Some((plan_without_options.spec, plan_without_options.mount_options))
}

/// Prepares the disks of a job, if they are made by a separate guest: aged ones, and, with `--boot snapshot`,
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
) -> Result<Option<ImageResult>, VenueError> {
    if !is_prepared(&job.plan) {
        return Ok(None);
    }
    let text = serialize_job(preparation(job))?;
    guest.image(snapshot, machine, &text, cache, watch).map(Some).map_err(from_run)
}

/// Adds the facts of the preparing guest to a report.
pub fn merge_report(prepared: &AgentReport, report: &mut AgentReport) {
    let (from, to) = (&prepared.conditions, &mut report.conditions);
    to.mkfs.clone_from(&from.mkfs);
    to.mkfs_output.clone_from(&from.mkfs_output);
    to.before_mkfs.clone_from(&from.before_mkfs);
    // Features that are known only after a mount come from the measured guest.
    let measured = std::mem::replace(&mut to.features, from.features.clone());
    to.features.extend(measured);
    to.aged = from.aged;
    let notes = from.notes.iter().filter(|note| !to.notes.contains(note));
    let notes: Vec<String> = notes.cloned().collect();
    to.notes.extend(notes);
    if let (Some(from), Some(to)) = (&prepared.measured.setup, &mut report.measured.setup) {
        (to.mkfs_ns, to.age_ns) = (from.mkfs_ns, from.age_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disk_of_a_server_is_prepared_as_one_of_its_own_file_system() {
        let plan_of = |text: &str| {
            let spec = Spec::parse(text).unwrap();
            catalog::get(&spec.kind).unwrap().plan(&spec, Context::Lab, None).unwrap()
        };
        let shared = plan_of("nfs:xfs -i size=1024 @ vers=3,noatime");
        assert!(shared.is_shared());
        assert_eq!(server_plan(&shared), Some(plan_of("xfs -i size=1024 @ noatime")));
        assert_eq!(server_plan(&plan_of("overlayfs:xfs")), None);
    }
}
