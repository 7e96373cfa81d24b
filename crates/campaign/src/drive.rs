//! A whole drive as the target: its inspection, and its confirmation by `--erase`.

use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use crate::{DevicePlace, HostDevice, Place};
use fsdyno_axes::TargetKind;
use fsdyno_media::block::{self, InspectedDrive};
use fsdyno_record::plan::Target;

use crate::RunSpec;
use crate::failure::Failure;
use crate::unsupported::refuse_unsupported;

/// Tests whether a target is a drive: a path below /dev that is not a folder such as /dev/shm, or a block device
/// elsewhere, possibly behind a symbolic link.
pub fn is_drive(on: &Target) -> bool {
    let Target::Path(path) = on else { return false };
    let path = Path::new(path);
    let is_device = path.metadata().is_ok_and(|found| found.file_type().is_block_device());
    is_device || (path.starts_with("/dev/") && !path.is_dir())
}

/// Inspects the drive; fails if there is a reason not to erase it, or if `--erase` does not confirm it. Writes nothing.
pub fn inspect(run: &RunSpec, on: &str) -> Result<InspectedDrive, Failure> {
    Ok(block::check_drive(Path::new(on), run.erase.as_deref())?)
}

/// Inspects the drive and returns it as a target; refuses options that a drive does not support.
pub fn place(run: &RunSpec, on: &str) -> Result<Place, Failure> {
    refuse_unsupported(run, &Target::Path(on.into()), TargetKind::Drive)?;
    if run.jobs > 1 {
        return Err(Failure::invalid_use(format!(
            "--jobs {} is not possible with --on {on}: trials would share the drive; remove --jobs",
            run.jobs
        )));
    }
    if let Some(spec) = run.axes.filesystems.iter().find(|spec| spec.contains("{journal}")) {
        return Err(Failure::invalid_use(format!(
            "--fs '{spec}' needs a second disk, and --on {on} is one drive; use an internal journal, \
             or --on lab or --on loop:SIZE"
        )));
    }
    let drive = inspect(run, on)?;
    let (raid, journal_size) = (None, None);
    let device = HostDevice::Drive(on.to_string());
    Ok(Place::Device(DevicePlace { device, size: drive.size(), raid, journal_size }))
}
