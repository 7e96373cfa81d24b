//! A drive of the user's after `--on`: looked at, confirmed by `--erase`, taken.

use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use fsdyno_media::block::{self, InspectedDrive};
use fsdyno_study::{DevicePlace, Place};

use crate::cli::Run;
use crate::exit::Failure;
use crate::place::refuse_for_lab;

/// Whether what was typed after `--on` means a device: a name in /dev that is no folder (/dev/shm is
/// one), or a link to a device from elsewhere.
pub fn is_named(on: &str) -> bool {
    let path = Path::new(on);
    let is_device = path.metadata().is_ok_and(|found| found.file_type().is_block_device());
    is_device || (path.starts_with("/dev/") && !path.is_dir())
}

/// The drive, if nothing speaks against erasing it and `--erase` confirms it. Nothing is written.
pub fn look(run: &Run, on: &str) -> Result<InspectedDrive, Failure> {
    Ok(block::look(Path::new(on), run.erase.as_deref())?)
}

/// The drive as a place.
pub fn place(run: &Run, on: &str) -> Result<Place, Failure> {
    refuse_for_lab(run, on, "a drive of this host", &["--age"])?;
    if run.jobs > 1 {
        return Err(Failure::wrong(format!(
            "--jobs {} is not possible with --on {on}: there is one drive; leave --jobs out",
            run.jobs
        )));
    }
    if let Some(spec) = run.filesystems.iter().find(|spec| spec.contains("{journal}")) {
        return Err(Failure::wrong(format!(
            "--fs '{spec}' takes a second disk, and --on {on} is one drive; leave the journal inside, \
             or use --on lab or --on loop:SIZE"
        )));
    }
    let seen = look(run, on)?;
    let (raid, journal_size) = (None, None);
    Ok(Place::Device(DevicePlace { on: on.to_string(), size: seen.size(), raid, journal_size }))
}
