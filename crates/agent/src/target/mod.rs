//! What the trial's tree lies on: a file system made for it, or a directory as it is.

mod array;
mod directory;
mod disk;
mod formatted;
mod making;
mod mount;
mod mounting;
mod sharing;
mod userspace;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use fsdyno_record::Nanos;
use fsdyno_record::trial::{Conditions, Device, Setup, VerifyReport};
use fsdyno_workload::GapKind;

use crate::account::Instruments;

pub use directory::Directory;
pub use disk::{Medium, ModelledDisk};
pub use formatted::Formatted;
pub use userspace::{Child, children};

/// The counters of bytes written to a target's devices, in addition to those of the disks' servers in the mailbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WrittenAt {
    /// Files of the kernel's, as /sys/block/NAME/stat.
    pub files: Vec<PathBuf>,
    /// True if it has a device.
    pub any: bool,
}

/// The place of a trial's tree and what can be done to it between phases.
pub trait Target {
    /// Makes what the trial's tree lies on, without mounting it, untimed from here on. Says into the
    /// conditions what was done; a target that is as it is makes nothing.
    ///
    /// # Errors
    /// A command that failed, with its own words.
    fn make(&mut self, _conditions: &mut Conditions) -> io::Result<()> {
        Ok(())
    }

    /// Makes it ready: mkfs, if it was not made, and mount. Says into the conditions what was done and is in effect.
    ///
    /// # Errors
    /// A command that failed, with its own words.
    fn prepare(&mut self, conditions: &mut Conditions) -> io::Result<()>;

    /// The time that preparation took; none if nothing was made.
    fn setup(&self) -> Option<Setup> {
        None
    }

    /// The root of the trial's tree.
    fn root(&self) -> BorrowedFd<'_>;

    /// The root as each client sees it, if several share it; threads are distributed over them.
    fn roots(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.root()]
    }

    /// Looks at the tree as it is for verification: a shared one through a client that has nothing in a cache.
    ///
    /// # Errors
    /// What `look` or the kernel reports.
    fn observed(
        &self,
        look: &mut dyn FnMut(BorrowedFd<'_>) -> io::Result<VerifyReport>,
    ) -> io::Result<VerifyReport> {
        look(self.root())
    }

    /// The device that stands for the workload's one file, where there is no file system.
    fn device_file(&self) -> Option<PathBuf> {
        None
    }

    /// Does what lies between two phases; what was really done, in the words of `Gap::done`.
    ///
    /// # Errors
    /// What the kernel reports.
    fn gap(&mut self, wanted: GapKind) -> io::Result<&'static str>;

    /// A phase begins: whatever is counted by phase starts anew.
    fn start_phase(&mut self) {}

    /// syncfs(2) on the tree's file system.
    ///
    /// # Errors
    /// What the kernel reports.
    fn sync(&mut self) -> io::Result<()>;

    /// Empties the device's own cache, after [`Target::sync`]; whether it is now shown to be empty.
    ///
    /// # Errors
    /// What the kernel reports.
    fn flush_device(&mut self) -> io::Result<bool>;

    /// Sets whether requests take the disk's time (not while formatting, verifying, checking).
    fn set_timed(&self, timed: bool);

    /// The device's counters, of several the sum; none where it has none.
    fn device(&self) -> Option<Device>;

    /// The counters of each of several devices, by the kernel's names for them.
    fn devices(&self) -> BTreeMap<String, Device> {
        BTreeMap::new()
    }

    /// The counters of bytes that are written to its devices while a phase runs; none if others write
    /// to them too, and then dirty bytes are not known either.
    fn written_at(&self) -> Option<WrittenAt> {
        None
    }

    /// Sum of the delays of the device's answers beyond the time due.
    fn late(&self) -> Nanos {
        Nanos(0)
    }

    /// The reason why the instrument itself answered a request with an error, if it did.
    fn device_error(&self) -> Option<io::Error> {
        None
    }

    /// The cause of failed calls on it, if known.
    fn cause(&self) -> Option<String> {
        None
    }

    /// The processes to keep out of the trial's figures.
    fn instruments(&self) -> Instruments {
        Instruments::default()
    }

    /// Takes it down; the venue then has it checked.
    ///
    /// # Errors
    /// An unmount that fails.
    fn finish(&mut self) -> io::Result<()>;
}
