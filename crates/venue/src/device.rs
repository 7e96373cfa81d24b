//! A trial on devices of this host: made, formatted, checked, and gone.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;
use std::time::Instant;

use fsdyno_child::SharedMailbox;
use fsdyno_disk::partition;
use fsdyno_media::{Device, Made, MediaError, loops};
use fsdyno_record::mailbox::Progress;
use fsdyno_record::plan::DevicePlan;
use fsdyno_record::trial::{AgentReport, Host};
use fsdyno_record::{Bytes, Job, Nanos, Plan};

use crate::error::VenueError;
use crate::host::{HostVenue, follow, other};
use crate::md::Array;
use crate::venue::{Ran, Watch};
use crate::{check, clock, ground, prerequisites, tools};

/// The devices of one trial, given back when they are dropped: first the array, then what it is of.
struct Devices {
    array: Option<Array>,
    data: Vec<Device>,
    journal: Option<Device>,
}

impl Devices {
    fn of(
        venue: &HostVenue,
        job: &Job,
        plan: &DevicePlan,
        uuids: u64,
    ) -> Result<Devices, VenueError> {
        let Some(drive) = venue.drive() else { return Devices::make(plan, venue.folder()) };
        let mkfs = job.plan.filesystem.as_ref().map_or(&[][..], |plan| &plan.mkfs);
        let devices = fsdyno_filesystem::Devices { uuids: Some(uuids), ..Default::default() };
        drive.blank(&fsdyno_filesystem::fill(mkfs, devices, job.seed)).map_err(MediaError::from)?;
        let data = vec![drive.device().map_err(MediaError::from)?];
        Ok(Devices { array: None, data, journal: None })
    }

    fn make(plan: &DevicePlan, folder: &Path) -> Result<Devices, VenueError> {
        let made = made(plan)?;
        let each = each(&made, plan);
        let data = (0..plan.data_disks()).map(|_| made.make(folder, each));
        let data = data.collect::<Result<Vec<_>, MediaError>>()?;
        let journal = plan.journal_size.map(|size| made.make(folder, size)).transpose()?;
        let members = || data.iter().map(|device| device.path.clone()).collect();
        let array = plan.raid.map(|_| Array::free(members())).transpose()?;
        Ok(Devices { array, data, journal })
    }

    /// What the file system lies on.
    fn path(&self) -> &Path {
        let one = self.data.first().map_or(Path::new(""), |device| &device.path);
        self.array.as_ref().map_or(one, |array| &array.device)
    }

    fn all(&self) -> impl Iterator<Item = &Device> {
        self.data.iter().chain(&self.journal)
    }

    /// What the agent is told.
    fn arguments(&self, uuids: u64) -> Vec<OsString> {
        let uuids = [OsString::from("--uuids"), uuids.to_string().into()];
        let device = |device: &Device| {
            let mut handed = OsString::from(format!("{}:", device.held.as_raw_fd()));
            handed.push(&device.path);
            [OsString::from("--device"), handed]
        };
        let array = |array: &Array| [OsString::from("--array"), array.device.clone().into()];
        let devices = self.all().flat_map(device).chain(self.array.iter().flat_map(array));
        devices.chain(uuids).collect()
    }

    /// What the agent holds too, so that a device is nobody else's before all that may write to it has
    /// ended, even if this process is killed.
    fn held(&self) -> Vec<BorrowedFd<'_>> {
        self.all().map(|device| device.held.as_fd()).collect()
    }

    /// What a reader must know of them.
    fn notes(&self) -> Vec<String> {
        let mut notes =
            vec!["kernel threads and dirty pages are those of the whole machine".to_string()];
        let by_cache =
            |device: &Device| loops::is_loop(&device.path) && !loops::is_direct(&device.path);
        if self.all().any(by_cache) {
            notes.push(
                "the loop reads and writes its file through the page cache: what a cold phase reads \
                 may come from memory"
                    .to_string(),
            );
        }
        notes
    }
}

/// What a trial's UUIDs are drawn from: a number that no other trial on this host gets.
fn never_again() -> u64 {
    std::time::UNIX_EPOCH.elapsed().map_or(0, |elapsed| elapsed.as_nanos() as u64)
}

fn made(plan: &DevicePlan) -> Result<Made, VenueError> {
    let unknown = || Err(format!("'{}' is no medium that is made here", plan.on));
    Made::parse(&plan.on).unwrap_or_else(unknown).map_err(VenueError::Died)
}

/// How large each device of the file system is.
fn each(made: &Made, plan: &DevicePlan) -> Bytes {
    plan.raid.map_or(made.size, |raid| partition::member_size(made.size, raid))
}

/// How much all the devices of a trial may come to take.
fn room(made: &Made, plan: &DevicePlan) -> Bytes {
    let data = each(made, plan).0.saturating_mul(u64::from(plan.data_disks()));
    Bytes(data.saturating_add(plan.journal_size.unwrap_or_default().0))
}

/// Whether a plan can run here.
///
/// # Errors
/// What is missing.
pub fn can_run(venue: &HostVenue, plan: &Plan, device: &DevicePlan) -> Result<(), VenueError> {
    let Some(filesystem) = &plan.filesystem else { return Err(no_filesystem()) };
    if venue.drive().is_none() {
        let made = made(device)?;
        made.check(venue.folder(), room(&made, device))?;
    }
    prerequisites::check(filesystem, device.raid)
}

fn no_filesystem() -> VenueError {
    VenueError::Died("a plan for a device names no file system".into())
}

/// What the place gives to every trial of this plan.
pub fn ground(
    venue: &HostVenue,
    plan: &DevicePlan,
) -> Result<BTreeMap<String, String>, VenueError> {
    let mut ground = ground::of_kernel();
    let what = match venue.drive() {
        Some(drive) => drive.what(),
        None => (made(plan)?.kind.what)(venue.folder())?,
    };
    ground.insert("device".into(), what);
    Ok(ground)
}

/// Runs one trial on devices that are made for it.
pub fn run(
    venue: &HostVenue,
    job: &Job,
    plan: &DevicePlan,
    watch: &mut dyn FnMut(&Progress) -> Watch,
) -> Result<Ran, VenueError> {
    let input = venue.inputs().of(&job.plan.workload)?;
    let started = clock::now();
    let begin = Instant::now();
    let uuids = never_again();
    let devices = Devices::of(venue, job, plan, uuids)?;
    let shared = SharedMailbox::new().map_err(VenueError::io("make the mailbox"))?;
    let mailbox = shared.mailbox().map_err(other)?;
    let text = serde_json::to_vec(&job.for_agent()).map_err(other)?;
    mailbox.put_job(&text).map_err(other)?;
    let mut process = venue.start(&shared, devices.arguments(uuids), &devices.held(), input)?;
    let watched = follow(&mut process, &mailbox, job, begin, watch);
    process.kill().map_err(VenueError::io("end the agent"))?;
    let mut followed = watched?;
    let report = &mut followed.report;
    let what = devices.data.first().map(|device| device.what.clone());
    report.conditions.device = what.unwrap_or_default();
    report.conditions.tools = tools::of_plan(&job.plan);
    report.conditions.notes.extend(devices.notes());
    let check_ns = checked(job, &devices, &mailbox.progress(), report, watch)?;
    let host = Host { check_ns, ..followed.host(started, begin) };
    Ok(Ran { report: followed.report, host, identity: None })
}

/// Has the file system that a good trial left checked; how long that took.
fn checked(
    job: &Job,
    devices: &Devices,
    progress: &Progress,
    report: &mut AgentReport,
    watch: &mut dyn FnMut(&Progress) -> Watch,
) -> Result<Option<Nanos>, VenueError> {
    check::of_trial(job, report, progress, watch, |_| {
        let open =
            |path: &Path| File::open(path).map_err(VenueError::io("open the device to check"));
        let journal = devices.journal.as_ref();
        let name = |path: &Path| path.to_string_lossy().into_owned();
        Ok(check::Images {
            device: open(devices.path())?,
            journal: journal.map(|journal| open(&journal.path)).transpose()?,
            called: [
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
    fn room_is_asked_for_all_that_is_made() {
        let room_of = |raid: Option<&str>, journal: Option<u64>| {
            let plan = DevicePlan {
                on: "ram:8G".into(),
                raid: raid.map(|raid| raid.parse().unwrap()),
                journal_size: journal.map(Bytes),
            };
            room(&made(&plan).unwrap(), &plan).0
        };
        assert_eq!(room_of(None, None), 8 << 30);
        assert_eq!(room_of(None, Some(1 << 30)), 9 << 30);
        assert!(room_of(Some("1x2"), None) >= 16 << 30, "both halves of a mirror are written");
        assert!((12 << 30..13 << 30).contains(&room_of(Some("5x3:64K"), None)));
    }
}
