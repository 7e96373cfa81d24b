//! The agent as a child process on a host: the mailbox and the directory are passed as descriptors, devices by name and
//! with a descriptor that holds them.

use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use fsdyno_disk::Partition;
use fsdyno_filesystem::array;
use fsdyno_record::Bytes;
use fsdyno_record::agent::{Handover, Job, NAME};
use fsdyno_record::mailbox::{self, Mailbox};
use fsdyno_record::plan::FlatDevice;
use fsdyno_record::trial::DiskRole;
use fsdyno_workload::Input;
use rustix::mount::MountFlags;

use crate::held_device::HeldDevice;
use crate::memory::{map_input, shared_words};
use crate::sampler::Sampler;
use crate::target::{Directory, Formatted, Medium, ModelledDisk, Target};
use crate::{keeper, tool, trial};

/// Candidates for the folder below which a file system is mounted, in a private mount namespace: the first that exists
/// is used. The user's files in it are neither touched nor visible meanwhile.
const MOUNT_POINTS: &[&str] = &["/mnt", "/media", "/srv", "/tmp"];

/// Runs the job in the mailbox and puts the report into the mailbox.
///
/// Exit code 0 means that there is a report, whether or not the trial succeeded.
pub fn host(handover: &Handover) -> ExitCode {
    match begin(handover) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{NAME}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the job. The keeper holds the devices too, until everything that may write to them has ended.
fn begin(handover: &Handover) -> io::Result<()> {
    let devices = handover
        .devices
        .iter()
        .map(|device| HeldDevice::new(take(device.fd)?, device.path.clone()));
    let devices: Arc<[HeldDevice]> = devices.collect::<io::Result<Vec<_>>>()?.into();
    match devices.is_empty() {
        true => serve(handover, &devices),
        false => {
            keeper::run_until_parent_ends(|| serve(handover, &devices), || stop_arrays(&devices))
        }
    }
}

/// Stops the arrays on our devices, once our parent has ended; until then, the parent stops them itself, after checking
/// their contents. An array on any other device is not ours, whatever its name.
fn stop_arrays(held: &[HeldDevice]) {
    let members: Vec<PathBuf> = held.iter().map(|device| device.path().to_path_buf()).collect();
    for device in array::arrays_over(&members) {
        let argv = array::stop(&device.to_string_lossy());
        // There is no process left to report to; `fsdyno doctor` finds what could not be stopped.
        let _ = tool::run(&argv, &array::env());
    }
}

fn serve(handover: &Handover, held: &Arc<[HeldDevice]>) -> io::Result<()> {
    let memory = take(handover.mailbox)?;
    let words = shared_words(memory.as_fd(), mailbox::SIZE)?;
    let mailbox = Mailbox::new(words).map_err(io::Error::other)?;
    let job: Job = serde_json::from_slice(&mailbox.job().map_err(io::Error::other)?)?;
    let input = match (&job.plan.workload.input, handover.input) {
        (Some(plan), Some(fd)) => Some(map_input(take(fd)?.as_fd(), plan.bytes)?),
        _ => None,
    };
    // Dirty bytes are sampled only on file systems that belong to the trial.
    let has_device = job.plan.device().is_some();
    let sampler = has_device.then(|| Sampler::start(mailbox, false)).transpose()?;
    let run = |target: &mut dyn Target, input: Option<Input>| {
        let report = trial::run(&job, target, mailbox, input, sampler);
        trial::put_report(mailbox, &report)
    };
    match (job.plan.device(), handover.root) {
        (Some(plan), _) => run(&mut format_target(&job, plan, handover, held)?, input),
        (None, Some(root)) => run(&mut Directory::new(take(root)?)?, input),
        (None, None) => Err(io::Error::other("neither a directory nor a device was handed over")),
    }
}

fn format_target(
    job: &Job,
    plan: &FlatDevice,
    handover: &Handover,
    held: &Arc<[HeldDevice]>,
) -> io::Result<Formatted> {
    let Some(filesystem) = job.plan.filesystem.clone() else {
        return Err(io::Error::other("the plan names no file system"));
    };
    let data = plan.data_disks() as usize;
    let disks = held.iter().enumerate().map(|(index, device)| {
        let role = match plan.raid {
            _ if index >= data => DiskRole::Journal,
            Some(_) => DiskRole::Member,
            None => DiskRole::Data,
        };
        let name = name_of(device.path())?;
        let size = Bytes(crate::block_queue::size(&name)?);
        let partition = Partition { start: Bytes(0), size };
        let medium = Medium::Real { name };
        Ok(ModelledDisk { name: plan.on.clone(), spec: None, role, partition, medium })
    });
    let disks = disks.collect::<io::Result<Vec<_>>>()?;
    let array = handover.array.as_deref().map(name_of).transpose()?;
    let formatted = Formatted::new(filesystem, job.seed, disks, plan.raid, None, mount_point()?);
    let uuids =
        handover.uuids.ok_or_else(|| io::Error::other("the handover has no seed for UUIDs"))?;
    Ok(formatted.for_host(array, uuids, held.clone()))
}

/// Creates the mount point, on a tmpfs in this private mount namespace: anything created next to it (the mount point of
/// a file system below another) is also on the tmpfs and disappears with it, and nothing is written to the user's
/// files.
fn mount_point() -> io::Result<PathBuf> {
    let parent = MOUNT_POINTS.iter().map(Path::new).find(|path| path.is_dir());
    let parent = parent.ok_or_else(|| io::Error::other("there is no /mnt to mount on"))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount("fsdyno", parent, "tmpfs", flags, Some(c"size=1m,mode=755")).map_err(
        |error| io::Error::other(format!("mount -t tmpfs {}: {error}", parent.display())),
    )?;
    let mount_point = parent.join("trial");
    std::fs::create_dir(&mount_point)?;
    Ok(mount_point)
}

/// Returns the kernel's name of a device.
fn name_of(path: &Path) -> io::Result<String> {
    let name = path.file_name().and_then(|name| name.to_str());
    name.map(String::from).ok_or_else(|| io::Error::other("a device without a name"))
}

/// Takes over a descriptor of the handover.
fn take(fd: RawFd) -> io::Result<OwnedFd> {
    if fd <= 2 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("no descriptor {fd}")));
    }
    // SAFETY: F_GETFD only checks whether the number is an open descriptor.
    if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is open, the parent handed it over by number, and nothing else in this process owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
