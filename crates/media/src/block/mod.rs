//! A whole drive of this host, claimed to be formatted: the only code of fsdyno that opens a block
//! device for writing, or has one formatted.
//!
//! [`look`] asks everything that speaks against it and writes nothing. [`Seen::claim`] asks it all
//! once more with the drive held, and only then writes. What it writes itself is one block, the
//! [`mark`]; everything else is written through the partition that it gives out.
//!
//! The layout, in whole mebibytes, as partitioning tools align:
//!
//! ```text
//! 0        1 MiB                                   end - 1 MiB     end
//! | guard  | data: what mkfs and mount are given  | left alone     |
//! ```
//!
//! Both parts are partitions that only the kernel knows (blkpg(2)'s ioctl, as `addpart` makes them):
//! no table is written. That settles three things at once. The guard is held open with O_EXCL, and the
//! kernel then lets nobody take the whole drive, while mkfs, mount and fsck may take the data part as
//! exclusively as they want to. The mark lies in the guard, where no mkfs and no discard can reach it.
//! And nothing of ours lies where a signature of a whole drive is looked for, so whatever is found there
//! was put there by somebody else. It costs 2 MiB of the drive, and on each request the kernel adds
//! the partition's start, as it does for most file systems in use.

mod blkpg;
mod claim;
mod drive;
mod inspect;
mod layout;
mod left;
mod mark;
mod refusal;
mod signature;
mod users;

use std::path::Path;

pub use claim::Claim;
pub use layout::LEAST;
pub use left::{LeftDrive, left_drives};
pub use refusal::{BlockError, Reason};
pub use signature::Signature;

use drive::Drive;
use inspect::inspect;
use layout::Layout;
use mark::Mark;

/// A drive that may be erased, as far as looking tells.
#[derive(Debug)]
pub struct Seen {
    drive: Drive,
    layout: Layout,
    serial: String,
    mark: Option<Mark>,
}

/// Looks whether a drive may be erased, and writes nothing. `erase` is the serial number that the user
/// typed, if any; of a loop device, which has none, the path of its backing file.
///
/// # Errors
/// [`BlockError::Refused`] with everything that speaks against it; [`BlockError::Erase`] where only the
/// serial number is missing or another drive's; else why it could not be looked at.
pub fn look(typed: &Path, erase: Option<&str>) -> Result<Seen, BlockError> {
    let drive = Drive::find(typed)?;
    let (seen, reasons) = inspect(drive, false)?;
    let what = seen.drive.describe();
    if !reasons.is_empty() {
        return Err(BlockError::Refused { path: typed.into(), what, reasons });
    }
    if erase != Some(seen.serial.as_str()) {
        return Err(BlockError::Erase {
            path: typed.into(),
            what,
            known: seen.mark.is_some(),
            given: erase.map(str::to_string),
            serial: seen.serial,
        });
    }
    Ok(seen)
}

impl Seen {
    /// The node of the part that a file system will get: it is there once the drive is claimed.
    pub fn data_path(&self) -> std::path::PathBuf {
        self.drive.part_path(layout::DATA)
    }

    /// How much a file system may use.
    pub fn size(&self) -> fsdyno_record::Bytes {
        self.layout.data.size
    }

    /// What it is, in words for records: `disk MODEL SERIAL`.
    pub fn what(&self) -> String {
        format!("{} {}", self.drive.model(), self.serial)
    }

    /// What claiming and giving back will do, in words and commands.
    pub fn steps(&self) -> Vec<String> {
        let (node, layout) = (self.drive.path().display().to_string(), self.layout);
        let part = |number: u32, part: layout::Part| {
            format!("addpart {node} {number} {} {}", part.start.0 / 512, part.size.0 / 512)
        };
        vec![
            format!("open {node} with O_EXCL, and check everything once more"),
            part(layout::DATA, layout.data),
            part(layout::GUARD, layout.guard),
            format!("write fsdyno's mark, 4 KiB at byte {} of {node}", mark::OFFSET),
            format!(
                "before each mkfs clear the first and the last 4 MiB of {}",
                self.data_path().display()
            ),
            format!("at the end: note in the mark what is left, delpart {node} 1 and 2"),
        ]
    }

    /// Takes the drive: from here on nobody else can.
    ///
    /// # Errors
    /// Whatever has come up since it was looked at, or what the kernel refused.
    pub fn claim(self) -> Result<Claim, BlockError> {
        Claim::take(self)
    }
}
