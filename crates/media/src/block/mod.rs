//! Claims a whole drive of this host for formatting: the only code in fsdyno that opens a block device
//! for writing, or has one formatted.
//!
//! [`check_drive`] collects all reasons to refuse and writes nothing. [`InspectedDrive::claim`] checks them again with
//! the drive held exclusively, and only then writes. It writes only one block itself, the [`mark`]; everything else is
//! written through the data partition.
//!
//! The layout, in whole mebibytes, as partitioning tools align:
//!
//! ```text
//! 0        1 MiB                                   end - 1 MiB     end
//! | guard  | data: for mkfs and mount             | not used       |
//! ```
//!
//! Both parts are partitions in the kernel's table only (blkpg(2)'s ioctl, as `addpart` creates them): no table is
//! written. This has three effects. The guard is held open with O_EXCL, so no other process can take the whole drive,
//! while mkfs, mount and fsck can take the data part exclusively. The mark is in the guard, where no mkfs and no
//! discard can reach it. And fsdyno writes nothing at the positions of a whole drive's signatures, so any signature
//! found there is not fsdyno's. It costs 2 MiB of the drive, and the kernel adds the partition's start to each request,
//! as for most file systems in use.

mod blkid;
mod blkpg;
mod claim;
mod drive;
mod inspect;
mod layout;
mod leftover;
mod mark;
mod refusal;
mod signature;
mod users;

use std::path::Path;

pub use claim::Claim;
pub use layout::MIN_DRIVE_SIZE;
pub use leftover::{LeftoverDrive, find_leftover_drives};
pub use refusal::{BlockError, Reason};
pub use signature::Signature;

use drive::Drive;
use inspect::inspect;
use layout::Layout;
use mark::DriveMark;

/// A drive that may be erased, according to a read-only inspection.
#[derive(Debug)]
pub struct InspectedDrive {
    drive: Drive,
    layout: Layout,
    serial: String,
    mark: Option<DriveMark>,
}

/// Checks whether a drive may be erased, and writes nothing. `erase` is the serial number that the user
/// gave, if any; for a loop device, which has none, the path of its backing file.
///
/// # Errors
/// [`BlockError::Refused`] with all reasons; [`BlockError::Erase`] if only the serial number is missing or
/// wrong; otherwise the error from inspecting it.
pub fn check_drive(path: &Path, erase: Option<&str>) -> Result<InspectedDrive, BlockError> {
    let drive = Drive::find(path)?;
    let (inspected, reasons) = inspect(drive, false)?;
    let what = inspected.drive.describe();
    if !reasons.is_empty() {
        return Err(BlockError::Refused { path: path.into(), what, reasons });
    }
    if erase != Some(inspected.serial.as_str()) {
        return Err(BlockError::Erase {
            path: path.into(),
            what,
            known: inspected.mark.is_some(),
            given: erase.map(str::to_string),
            serial: inspected.serial,
        });
    }
    Ok(inspected)
}

impl InspectedDrive {
    /// Returns the node of the data part, which exists once the drive is claimed.
    pub fn data_path(&self) -> std::path::PathBuf {
        self.drive.part_path(layout::DATA)
    }

    /// Returns the size of the data part.
    pub fn size(&self) -> fsdyno_record::Bytes {
        self.layout.data.size
    }

    /// Returns the description of the drive for records: `disk MODEL SERIAL`.
    pub fn what(&self) -> String {
        format!("{} {}", self.drive.model(), self.serial)
    }

    /// Describes the steps of claiming and releasing, as prose and commands.
    pub fn steps(&self) -> Vec<String> {
        let (node, layout) = (self.drive.path().display().to_string(), self.layout);
        let part = |number: u32, part: layout::Part| {
            format!("addpart {node} {number} {} {}", part.start.0 / 512, part.size.0 / 512)
        };
        vec![
            format!("open {node} with O_EXCL, and check everything again"),
            part(layout::DATA, layout.data),
            part(layout::GUARD, layout.guard),
            format!("write fsdyno's mark, 4 KiB at byte {} of {node}", mark::OFFSET),
            format!(
                "before each mkfs clear the first and the last 4 MiB of {}",
                self.data_path().display()
            ),
            format!("at the end: record the contents in the mark, delpart {node} 1 and 2"),
        ]
    }

    /// Claims the drive exclusively.
    ///
    /// # Errors
    /// New reasons to refuse since the inspection, or errors from the kernel.
    pub fn claim(self) -> Result<Claim, BlockError> {
        Claim::take(self)
    }
}
