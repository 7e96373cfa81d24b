//! The location of the trial's tree: a file system created for it, or an existing directory.

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

/// The sources of the number of bytes written to a target's devices, in addition to the mailbox counters of the disks'
/// servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteCounters {
    /// Kernel files in the format of /sys/block/NAME/stat.
    pub files: Vec<PathBuf>,
    /// True if the target has a device.
    pub has_device: bool,
}

/// The location of a trial's tree, and the operations on it between phases.
pub trait Target {
    /// Creates the file system of the trial's tree, without mounting it; untimed from here on. The conditions record
    /// the steps. A target that is used as it is creates nothing.
    ///
    /// # Errors
    /// A command that failed, with its own message.
    fn make(&mut self, _conditions: &mut Conditions) -> io::Result<()> {
        Ok(())
    }

    /// Makes the target ready: runs mkfs, if not yet done, and mounts. Records the steps and the effective options in
    /// the conditions.
    ///
    /// # Errors
    /// A command that failed, with its own message.
    fn prepare(&mut self, conditions: &mut Conditions) -> io::Result<()>;

    /// Returns the time that preparation took; `None` if nothing was created.
    fn setup(&self) -> Option<Setup> {
        None
    }

    /// Returns the root of the trial's tree.
    fn root(&self) -> BorrowedFd<'_>;

    /// Returns the root as each client sees it, if several share it; threads are distributed over them.
    fn roots(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.root()]
    }

    /// Calls `examine` with the tree for verification: for a shared one, through a client whose cache is empty.
    ///
    /// # Errors
    /// Errors from `examine` or from the kernel.
    fn with_observer(
        &self,
        examine: &mut dyn FnMut(BorrowedFd<'_>) -> io::Result<VerifyReport>,
    ) -> io::Result<VerifyReport> {
        examine(self.root())
    }

    /// Returns the device that stands for the workload's single file, if there is no file system.
    fn device_file(&self) -> Option<PathBuf> {
        None
    }

    /// Executes the step between two phases; returns what was actually done, as a value of `Gap::done`.
    ///
    /// # Errors
    /// Errors from the kernel.
    fn gap(&mut self, wanted: GapKind) -> io::Result<&'static str>;

    /// Marks the start of a phase: all per-phase counters restart.
    fn start_phase(&mut self) {}

    /// Calls syncfs(2) on the tree's file system.
    ///
    /// # Errors
    /// Errors from the kernel.
    fn sync(&mut self) -> io::Result<()>;

    /// Empties the device's own cache, after [`Target::sync`]; returns true if it is now known to be empty.
    ///
    /// # Errors
    /// Errors from the kernel.
    fn flush_device(&mut self) -> io::Result<bool>;

    /// Sets whether requests take the disk's time (they do not while formatting, verifying and checking).
    fn set_timed(&self, timed: bool);

    /// Returns the device's counters, summed if there are several; `None` if it has none.
    fn device(&self) -> Option<Device>;

    /// Returns the counters of each of several devices, by the kernel's names for them.
    fn devices(&self) -> BTreeMap<String, Device> {
        BTreeMap::new()
    }

    /// Returns the sources of the number of bytes written to its devices during a phase; `None` if other processes
    /// write to them too, in which case dirty bytes are unknown as well.
    fn write_counters(&self) -> Option<WriteCounters> {
        None
    }

    /// Returns the lateness of the device's answers, summed over all requests.
    fn lateness(&self) -> Nanos {
        Nanos(0)
    }

    /// Returns the reason why the instrument itself answered a request with an error, if it did.
    fn device_error(&self) -> Option<io::Error> {
        None
    }

    /// Returns the cause of failed calls on it, if known.
    fn cause(&self) -> Option<String> {
        None
    }

    /// Returns the processes to exclude from the trial's measurements.
    fn instruments(&self) -> Instruments {
        Instruments::default()
    }

    /// Takes the target down; the venue then has it checked.
    ///
    /// # Errors
    /// An unmount that fails.
    fn finish(&mut self) -> io::Result<()>;
}
