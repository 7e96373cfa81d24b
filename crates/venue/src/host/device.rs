//! A trial on devices of this host: create, format, run, check, remove.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fsdyno_child::SharedMailbox;
use fsdyno_disk::partition;
use fsdyno_media::{Device, EphemeralMedium, MediaError, loops};
use fsdyno_record::agent::{Handover, InheritedDevice};
use fsdyno_record::mailbox::Progress;
use fsdyno_record::plan::{EphemeralPlan, MediumPlan};
use fsdyno_record::trial::{AgentReport, Host};
use fsdyno_record::{Bytes, Job, Nanos, Plan};

use super::HostVenue;
use crate::agent_report::{internal_error, wait_for_report};
use crate::commands::{Commands, serialize_job};
use crate::error::VenueError;
use crate::md::Array;
use crate::venue::{FinishedTrial, Watch};
use crate::{check, clock, fingerprint, prerequisites, tools};

/// The devices of one trial, released on drop: first the array, then its members.
struct Devices {
    array: Option<Array>,
    data: Vec<Device>,
    journal: Option<Device>,
    /// Dropped last, after all others are closed.
    _release: LoopRelease,
}

/// Loop devices with the names of their backing files. Dropping it waits until they are detached: the kernel detaches
/// a loop device shortly after its last user has ended, once its data have been written.
struct LoopRelease(Vec<(PathBuf, String)>);

/// The time limit for detaching: a loop device that is still in use after that is in use by something else.
const DETACH_TIMEOUT: Duration = Duration::from_secs(30);

impl LoopRelease {
    fn new<'a>(devices: impl Iterator<Item = &'a Device>) -> LoopRelease {
        let loops =
            devices.filter_map(|device| Some((device.path.clone(), loops::backing(&device.path)?)));
        LoopRelease(loops.collect())
    }
}

impl Drop for LoopRelease {
    fn drop(&mut self) {
        let begin = Instant::now();
        let is_attached =
            |(path, file): &(PathBuf, String)| loops::backing(path).as_ref() == Some(file);
        while self.0.iter().any(is_attached) && begin.elapsed() < DETACH_TIMEOUT {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Devices {
    fn acquire(venue: &HostVenue, job: &Job, uuids: u64) -> Result<Devices, VenueError> {
        let Some(drive) = venue.drive() else {
            return Devices::create(&job.plan.medium, venue.backing_folder());
        };
        let commands = Commands::derive(&job.plan)?;
        let mkfs = commands.as_ref().map_or(&[][..], |commands| &commands.mkfs);
        let devices = fsdyno_filesystem::Devices { uuids: Some(uuids), ..Default::default() };
        drive.clear(&fsdyno_filesystem::fill(mkfs, devices, job.seed)).map_err(MediaError::from)?;
        let data = vec![drive.device().map_err(MediaError::from)?];
        Ok(Devices { array: None, data, journal: None, _release: LoopRelease(Vec::new()) })
    }

    fn create(medium: &MediumPlan, folder: &Path) -> Result<Devices, VenueError> {
        let (kind, plan) = ephemeral(medium).ok_or_else(no_drive)?;
        let member_size = device_size(plan);
        let data = (0..medium.data_disks()).map(|_| kind.make(folder, member_size));
        let data = data.collect::<Result<Vec<_>, MediaError>>()?;
        let journal = plan.journal_size.map(|size| kind.make(folder, size)).transpose()?;
        let members = || data.iter().map(|device| device.path.clone()).collect();
        let array = plan.raid.map(|_| Array::with_free_node(members())).transpose()?;
        let release = LoopRelease::new(data.iter().chain(&journal));
        Ok(Devices { array, data, journal, _release: release })
    }

    /// Returns the device of the file system.
    fn path(&self) -> &Path {
        let single = self.data.first().map_or(Path::new(""), |device| &device.path);
        self.array.as_ref().map_or(single, |array| &array.device)
    }

    fn data_and_journal(&self) -> impl Iterator<Item = &Device> {
        self.data.iter().chain(&self.journal)
    }

    /// Returns the information about the devices that the agent needs.
    fn handover(&self, uuids: u64) -> Handover {
        let device = |device: &Device| InheritedDevice {
            fd: device.held.as_raw_fd(),
            path: device.path.clone(),
        };
        Handover {
            devices: self.data_and_journal().map(device).collect(),
            array: self.array.as_ref().map(|array| array.device.clone()),
            uuids: Some(uuids),
            ..Handover::default()
        }
    }

    /// Returns the descriptors that the agent inherits, so that a device stays in use until all its writers
    /// have ended, even if this process is killed.
    fn inherited_fds(&self) -> Vec<BorrowedFd<'_>> {
        self.data_and_journal().map(|device| device.held.as_fd()).collect()
    }

    /// Returns true if the page cache holds the devices' backing files, so data stay cached after an unmount.
    fn are_cached(&self) -> bool {
        self.data_and_journal()
            .any(|device| loops::is_loop(&device.path) && !loops::is_direct(&device.path))
    }
}

/// Returns the seed of a trial's UUIDs, different from that of any other trial on this host.
fn unique_seed() -> u64 {
    std::time::UNIX_EPOCH.elapsed().map_or(0, |elapsed| elapsed.as_nanos() as u64)
}

/// Returns the notes for the record about a plan's devices.
fn notes(medium: &MediumPlan, cached: bool) -> Vec<String> {
    let scope_note = "kernel threads and dirty pages are those of the whole machine";
    let memory_note =
        "the loop device's file is in memory: nothing is read from or written to a disk";
    let cache_note = "the loop device's file is cached in the page cache: reads of a cold phase may come from memory";
    let file_note =
        if in_memory(medium) { Some(memory_note) } else { cached.then_some(cache_note) };
    std::iter::once(scope_note).chain(file_note).map(String::from).collect()
}

fn in_memory(medium: &MediumPlan) -> bool {
    matches!(medium, MediumPlan::Ram(_))
}

/// Marks gaps whose remount left the backing file in the page cache: such a gap is not what the workload requested.
/// This is not called for `ram:`, where memory is the requested medium.
fn mark_warm_gaps(report: &mut AgentReport) {
    for gap in report.measured.gaps.iter_mut().filter(|gap| gap.done == REMOUNT) {
        gap.done = format!("{REMOUNT}, the loop's file still cached");
    }
}

const REMOUNT: &str = "remount";

/// Returns the devices to create, or `None` if the medium is a drive.
fn ephemeral(medium: &MediumPlan) -> Option<(EphemeralMedium, &EphemeralPlan)> {
    let (kind, plan) = medium.ephemeral()?;
    Some((kind.into(), plan))
}

fn no_drive() -> VenueError {
    VenueError::Failed("the plan's drive was not claimed".into())
}

/// Returns the size of each device of the file system.
fn device_size(plan: &EphemeralPlan) -> Bytes {
    plan.raid.map_or(plan.size, |raid| partition::member_size(plan.size, raid))
}

/// Returns the maximum total size of the devices of a trial.
fn total_size(plan: &EphemeralPlan) -> Bytes {
    let devices = plan.raid.map_or(1, |raid| u64::from(raid.disks));
    let data = device_size(plan).0.saturating_mul(devices);
    Bytes(data.saturating_add(plan.journal_size.unwrap_or_default().0))
}

/// Checks that a plan can run here.
///
/// # Errors
/// Something is missing.
pub fn can_run(venue: &HostVenue, plan: &Plan) -> Result<(), VenueError> {
    let Some(filesystem) = Commands::derive(plan)? else { return Err(no_filesystem()) };
    // A drive is not created, and has already been inspected.
    if let Some((kind, plan)) = ephemeral(&plan.medium) {
        kind.check(venue.backing_folder(), total_size(plan))?;
    }
    prerequisites::check(&filesystem, plan.medium.raid())
}

fn no_filesystem() -> VenueError {
    VenueError::Failed("a plan for a device must name a file system".into())
}

/// Returns the host fingerprint of every trial of this plan.
pub fn fingerprint(
    venue: &HostVenue,
    medium: &MediumPlan,
) -> Result<BTreeMap<String, String>, VenueError> {
    let mut fingerprint = fingerprint::kernel_only();
    let description = match (venue.drive(), ephemeral(medium)) {
        (Some(drive), _) => drive.what(),
        (None, Some((kind, _))) => (kind.kind.what)(venue.backing_folder())?,
        // A drive that is only inspected is not claimed.
        (None, None) => return Ok(fingerprint),
    };
    fingerprint.insert("device".into(), description);
    Ok(fingerprint)
}

/// Runs one trial on devices that are created for it, or on a drive.
pub fn run(
    venue: &HostVenue,
    job: &Job,
    watch: &mut dyn FnMut(&Progress) -> Watch,
) -> Result<FinishedTrial, VenueError> {
    let input = venue.inputs().for_workload(&job.plan.workload)?;
    let started_at = clock::now();
    let start = Instant::now();
    let uuids = unique_seed();
    let devices = Devices::acquire(venue, job, uuids)?;
    let shared = SharedMailbox::new().map_err(VenueError::io_without_path("create the mailbox"))?;
    let mailbox = shared.mailbox().map_err(internal_error)?;
    let text = serialize_job(job.for_agent())?;
    mailbox.write_job(&text).map_err(internal_error)?;
    let mut process =
        venue.start(&shared, devices.handover(uuids), &devices.inherited_fds(), input)?;
    let result = wait_for_report(&mut process, &mailbox, job, start, watch);
    process.kill().map_err(VenueError::io_without_path("kill the agent"))?;
    let mut finished = result?;
    let report = &mut finished.report;
    let description = devices.data.first().map(|device| device.what.clone());
    report.conditions.device = description.unwrap_or_default();
    report.conditions.tools = tools::of_plan(&job.plan);
    report.conditions.notes.extend(notes(&job.plan.medium, devices.are_cached()));
    if devices.are_cached() && !in_memory(&job.plan.medium) {
        mark_warm_gaps(report);
    }
    let check_ns = check_devices(job, &devices, &mailbox.progress(), report, watch)?;
    let host = Host { check_ns, ..finished.host(started_at, start) };
    Ok(FinishedTrial { report: finished.report, host, identity: None })
}

/// Checks the file system of a successful trial, and returns the time of the check.
fn check_devices(
    job: &Job,
    devices: &Devices,
    progress: &Progress,
    report: &mut AgentReport,
    watch: &mut dyn FnMut(&Progress) -> Watch,
) -> Result<Option<Nanos>, VenueError> {
    check::check_trial(job, report, progress, watch, |_| {
        let open = |path: &Path| {
            File::open(path).map_err(VenueError::io("open the device to check", path))
        };
        let journal = devices.journal.as_ref();
        let name = |path: &Path| path.to_string_lossy().into_owned();
        Ok(check::Images {
            device: open(devices.path())?,
            journal: journal.map(|journal| open(&journal.path)).transpose()?,
            names: [
                name(devices.path()),
                journal.map(|journal| name(&journal.path)).unwrap_or_default(),
            ],
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remount_over_a_cached_file_is_not_cold_and_memory_is_not_a_disk() {
        let gap = |done: &str| fsdyno_record::trial::Gap {
            before: "read".into(),
            wanted: REMOUNT.into(),
            done: done.into(),
            elapsed_ns: Nanos(1),
        };
        let mut report = AgentReport::default();
        report.measured.gaps = vec![gap(REMOUNT), gap("none")];
        mark_warm_gaps(&mut report);
        let done: Vec<&str> = report.measured.gaps.iter().map(|gap| gap.done.as_str()).collect();
        assert_eq!(done, ["remount, the loop's file still cached", "none"]);
        let plan = || EphemeralPlan { size: Bytes(1 << 30), raid: None, journal_size: None };
        let (file, memory) = (MediumPlan::Loop(plan()), MediumPlan::Ram(plan()));
        assert!(notes(&file, true)[1].contains("page cache"));
        assert!(notes(&memory, true)[1].contains("is in memory"));
        assert_eq!(notes(&file, false).len(), 1);
    }

    #[test]
    fn the_total_size_includes_all_devices() {
        let total = |raid: Option<&str>, journal: Option<u64>| {
            let raid = raid.map(|raid| raid.parse().unwrap());
            let journal_size = journal.map(Bytes);
            total_size(&EphemeralPlan { size: Bytes(8 << 30), raid, journal_size }).0
        };
        assert_eq!(total(None, None), 8 << 30);
        assert_eq!(total(None, Some(1 << 30)), 9 << 30);
        assert!(total(Some("1x2"), None) >= 16 << 30, "both halves of a mirror are written");
        assert!((12 << 30..13 << 30).contains(&total(Some("5x3:64K"), None)));
    }
}
