//! A trial on devices of this host: made, formatted, checked, and gone.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fsdyno_child::SharedMailbox;
use fsdyno_disk::partition;
use fsdyno_media::{Device, Made, MediaError, loops};
use fsdyno_record::mailbox::Progress;
use fsdyno_record::plan::DevicePlan;
use fsdyno_record::trial::{AgentReport, Host};
use fsdyno_record::{Bytes, Job, Nanos, Plan};

use crate::commands::{Commands, text_of};
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
    /// Dropped last: the others have been closed by then.
    _gone: Gone,
}

/// Loops with the names of the files below them, waited for when this is dropped: the kernel clears a loop a
/// moment after its last user has ended, once what was written to it is written out.
struct Gone(Vec<(PathBuf, String)>);

/// So long at most: what still holds the loop then is no trial of ours.
const PATIENCE: Duration = Duration::from_secs(30);

impl Gone {
    fn of<'a>(devices: impl Iterator<Item = &'a Device>) -> Gone {
        let loops = devices.filter_map(|it| Some((it.path.clone(), loops::backing(&it.path)?)));
        Gone(loops.collect())
    }
}

impl Drop for Gone {
    fn drop(&mut self) {
        let begin = Instant::now();
        let there = |(path, file): &(PathBuf, String)| loops::backing(path).as_ref() == Some(file);
        while self.0.iter().any(there) && begin.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Devices {
    fn of(
        venue: &HostVenue,
        job: &Job,
        plan: &DevicePlan,
        uuids: u64,
    ) -> Result<Devices, VenueError> {
        let Some(drive) = venue.drive() else { return Devices::make(plan, venue.folder()) };
        let commands = Commands::of(&job.plan)?;
        let mkfs = commands.as_ref().map_or(&[][..], |commands| &commands.mkfs);
        let devices = fsdyno_filesystem::Devices { uuids: Some(uuids), ..Default::default() };
        drive.blank(&fsdyno_filesystem::fill(mkfs, devices, job.seed)).map_err(MediaError::from)?;
        let data = vec![drive.device().map_err(MediaError::from)?];
        Ok(Devices { array: None, data, journal: None, _gone: Gone(Vec::new()) })
    }

    fn make(plan: &DevicePlan, folder: &Path) -> Result<Devices, VenueError> {
        let made = made(plan)?;
        let each = each(&made, plan);
        let data = (0..plan.data_disks()).map(|_| made.make(folder, each));
        let data = data.collect::<Result<Vec<_>, MediaError>>()?;
        let journal = plan.journal_size.map(|size| made.make(folder, size)).transpose()?;
        let members = || data.iter().map(|device| device.path.clone()).collect();
        let array = plan.raid.map(|_| Array::free(members())).transpose()?;
        let gone = Gone::of(data.iter().chain(&journal));
        Ok(Devices { array, data, journal, _gone: gone })
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

    /// Whether the page cache keeps what lies on them, so that an unmount leaves it warm.
    fn are_cached(&self) -> bool {
        self.all().any(|it| loops::is_loop(&it.path) && !loops::is_direct(&it.path))
    }
}

/// What a trial's UUIDs are drawn from: a number that no other trial on this host gets.
fn never_again() -> u64 {
    std::time::UNIX_EPOCH.elapsed().map_or(0, |elapsed| elapsed.as_nanos() as u64)
}

/// What a reader must know of devices of a plan.
fn notes(plan: &DevicePlan, cached: bool) -> Vec<String> {
    let whole = "kernel threads and dirty pages are those of the whole machine";
    let memory =
        "the file below the loop lies in memory: nothing is read from a disk or written to one";
    let warm = "the loop reads and writes its file through the page cache: what a cold phase reads may come \
                from memory";
    let of_file = if in_memory(plan) { Some(memory) } else { cached.then_some(warm) };
    std::iter::once(whole).chain(of_file).map(String::from).collect()
}

fn in_memory(plan: &DevicePlan) -> bool {
    plan.on.starts_with("ram:")
}

/// A remount leaves warm what lies below a loop that does not go past the page cache: the gap was not what the
/// workload wanted. Memory is what was asked for with `ram:`.
fn tell_warm(report: &mut AgentReport) {
    for gap in report.measured.gaps.iter_mut().filter(|gap| gap.done == REMOUNT) {
        gap.done = format!("{REMOUNT}, the loop's file still cached");
    }
}

const REMOUNT: &str = "remount";

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
    let Some(filesystem) = Commands::of(plan)? else { return Err(no_filesystem()) };
    // A drive is not made, and has been looked at.
    if Made::parse(&device.on).is_some() {
        let made = made(device)?;
        made.check(venue.folder(), room(&made, device))?;
    }
    prerequisites::check(&filesystem, device.raid)
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
        // A drive that is only looked at is not held.
        None if Made::parse(&plan.on).is_none() => return Ok(ground),
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
    let text = text_of(job.for_agent())?;
    mailbox.put_job(&text).map_err(other)?;
    let mut process = venue.start(&shared, devices.arguments(uuids), &devices.held(), input)?;
    let watched = follow(&mut process, &mailbox, job, begin, watch);
    process.kill().map_err(VenueError::io("end the agent"))?;
    let mut followed = watched?;
    let report = &mut followed.report;
    let what = devices.data.first().map(|device| device.what.clone());
    report.conditions.device = what.unwrap_or_default();
    report.conditions.tools = tools::of_plan(&job.plan);
    report.conditions.notes.extend(notes(plan, devices.are_cached()));
    if devices.are_cached() && !in_memory(plan) {
        tell_warm(report);
    }
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
    fn a_remount_over_a_cached_file_is_not_called_cold_and_memory_is_no_disk() {
        let gap = |done: &str| fsdyno_record::trial::Gap {
            before: "read".into(),
            wanted: REMOUNT.into(),
            done: done.into(),
            elapsed_ns: Nanos(1),
        };
        let mut report = AgentReport::default();
        report.measured.gaps = vec![gap(REMOUNT), gap("none")];
        tell_warm(&mut report);
        let done: Vec<&str> = report.measured.gaps.iter().map(|gap| gap.done.as_str()).collect();
        assert_eq!(done, ["remount, the loop's file still cached", "none"]);
        let plan = |on: &str| DevicePlan { on: on.into(), raid: None, journal_size: None };
        assert!(notes(&plan("loop:1G"), true)[1].contains("page cache"));
        assert!(notes(&plan("ram:1G"), true)[1].contains("lies in memory"));
        assert_eq!(notes(&plan("loop:1G"), false).len(), 1);
    }

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
