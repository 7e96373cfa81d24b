//! `fsdyno doctor --clean`: finds the leftovers of killed fsdyno processes by fsdyno's own marks, and removes them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fsdyno_child::orphans::{self, Orphan};
use fsdyno_media::block::{LeftoverDrive, find_leftover_drives};
use fsdyno_media::loops::{self, MarkedLoop};
use fsdyno_media::mark::OwnerState;
use fsdyno_media::{Leftover, Mark, leftovers};
use fsdyno_record::mount_table::mounts;
use fsdyno_venue::md;

use crate::failure::{Exit, Failure};
use crate::notes::{say, say_error};

/// A leftover of a dead fsdyno process. The variants are in the order of removal: a process uses a mount, a mount uses
/// an array, and an array uses loop devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeftoverItem {
    /// A child process.
    Process(Orphan),
    /// A mount, in this namespace, of a file system on the dead process's loop devices.
    Mount(Mounted, Mark),
    /// An md array of the dead process's loop devices.
    Array(PathBuf, Mark),
    /// A loop device.
    Loop(MarkedLoop),
    /// The two partitions of a drive.
    Drive(LeftoverDrive),
    /// A folder or an empty file.
    Folder(Leftover),
}

impl LeftoverItem {
    /// Describes the leftover in one line.
    pub fn describe(&self) -> String {
        match self {
            LeftoverItem::Process(orphan) => {
                let (pid, parent) = (orphan.pid, orphan.parent.pid);
                format!("process {pid} ({}), left by process {parent}", orphan.program)
            }
            LeftoverItem::Mount(mount, mark) => {
                format!("mount {}, left by process {}", mount.at.display(), mark.pid)
            }
            LeftoverItem::Array(at, mark) => {
                format!("array {}, left by process {}", at.display(), mark.pid)
            }
            LeftoverItem::Loop(device) => {
                format!("{}, left by process {}", device.path.display(), device.mark.pid)
            }
            LeftoverItem::Drive(drive) => {
                let parts =
                    format!("two partitions of {} ({})", drive.path.display(), drive.serial);
                match &drive.foreign {
                    None => parts,
                    Some(found) => {
                        format!(
                            "{parts}, which are kept: they contain {found}, which may not be fsdyno's"
                        )
                    }
                }
            }
            LeftoverItem::Folder(folder) => {
                format!("{} (left by process {})", folder.path.display(), folder.pid)
            }
        }
    }

    /// Returns advice on how to remove it.
    fn remedy(&self) -> &'static str {
        match self {
            LeftoverItem::Drive(LeftoverDrive { foreign: Some(_), .. }) => {
                "for the commands that remove them see: fsdyno doctor --clean"
            }
            _ => "clean up with: fsdyno doctor --clean",
        }
    }

    fn clean(&self) -> Result<(), Failure> {
        let failed = |error: std::io::Error| {
            Failure::invalid_use(format!("failed to remove {}: {error}", self.describe()))
        };
        match self {
            LeftoverItem::Process(orphan) => orphans::kill(orphan).map_err(failed),
            LeftoverItem::Mount(mount, _) => mount.unmount().map_err(failed),
            LeftoverItem::Array(device, _) => {
                let output = md::stop(device)?;
                let error = String::from_utf8_lossy(&output.stderr).trim().to_string();
                let stopped = output.status.success();
                if stopped { Ok(()) } else { Err(failed(std::io::Error::other(error))) }
            }
            LeftoverItem::Loop(left) => Ok(loops::clear(left)?),
            LeftoverItem::Drive(left) => Ok(left.clear()?),
            LeftoverItem::Folder(left) => Ok(fsdyno_media::clean(left)?),
        }
    }
}

/// Finds the leftovers of dead fsdyno processes on this machine and in a folder.
pub fn find(folder: Option<&Path>) -> Result<Vec<LeftoverItem>, Failure> {
    let mut found: Vec<LeftoverItem> =
        orphans::orphans(&started_by_us).into_iter().map(LeftoverItem::Process).collect();
    let dead: Vec<MarkedLoop> = loops::marked()
        .into_iter()
        .filter(|device| device.mark.owner() == OwnerState::Dead)
        .collect();
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    for mark in dead.iter().map(|device| device.mark).collect::<BTreeSet<_>>() {
        let of_owner = dead.iter().filter(|device| device.mark == mark);
        let loops: Vec<PathBuf> = of_owner.map(|device| device.path.clone()).collect();
        let arrays = md::arrays_over(&loops);
        let numbers = loops.iter().chain(&arrays).filter_map(|path| device_number(path));
        let devices: Vec<u64> = numbers.collect();
        found.extend(
            find_mounts(&table, &devices).into_iter().map(|at| LeftoverItem::Mount(at, mark)),
        );
        found.extend(arrays.into_iter().map(|device| LeftoverItem::Array(device, mark)));
    }
    found.extend(dead.into_iter().map(LeftoverItem::Loop));
    found.extend(find_leftover_drives().into_iter().map(LeftoverItem::Drive));
    let folders = folder.map(leftovers).transpose()?.unwrap_or_default();
    found.extend(folders.into_iter().map(LeftoverItem::Folder));
    Ok(found)
}

/// A mount of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    /// The mount point.
    at: PathBuf,
    /// The device number.
    device: u64,
}

impl Mounted {
    /// Unmounts the file system, unless something else is mounted over it.
    fn unmount(&self) -> std::io::Result<()> {
        let status = rustix::fs::lstat(&self.at)?;
        if status.st_dev != self.device {
            let why = "something else is mounted over it; unmount that first";
            return Err(std::io::Error::other(why));
        }
        Ok(rustix::mount::unmount(&self.at, rustix::mount::UnmountFlags::NOFOLLOW)?)
    }
}

/// Returns the device number of a block device.
fn device_number(path: &Path) -> Option<u64> {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    let metadata = std::fs::metadata(path).ok()?;
    metadata.file_type().is_block_device().then(|| metadata.rdev())
}

/// Returns the mounts of devices, newest first. Devices are compared by number, because the source of a mount is
/// arbitrary text. (Mounts with an anonymous device number, such as those of btrfs, are not found.)
fn find_mounts(table: &str, devices: &[u64]) -> Vec<Mounted> {
    let lines = mounts(table).rev().map(|line| {
        let device = rustix::fs::makedev(line.device.0, line.device.1);
        Mounted { at: line.mount_point.into(), device }
    });
    lines.filter(|line| devices.contains(&line.device)).collect()
}

/// Tests whether an executable is one that fsdyno starts: fsdyno or its agent, QEMU, or a file system's checker.
fn started_by_us(executable: &Path) -> bool {
    let name = executable.file_name().unwrap_or_default().to_string_lossy();
    let agent = fsdyno_venue::agent::location().canonicalize();
    let is_checker = || {
        let kinds = fsdyno_filesystem::catalog::all().iter();
        let checks = kinds.filter_map(|kind| kind.check.argv.first());
        let files = checks.filter_map(|name| fsdyno_lab::find_program(name).ok());
        files.filter_map(|file| file.canonicalize().ok()).any(|file| file == executable)
    };
    agent.is_ok_and(|agent| agent == executable)
        || name.starts_with("fsdyno")
        || name.starts_with("qemu-system-")
        || is_checker()
}

/// Time given to processes that were just killed to clean up after themselves.
const GRACE: Duration = Duration::from_millis(500);

/// Removes all leftovers and reports each.
pub fn run(folder: &Path) -> Result<Exit, Failure> {
    let mut found = find(Some(folder))?;
    if !found.is_empty() {
        std::thread::sleep(GRACE);
        found = find(Some(folder))?;
    }
    if found.is_empty() {
        say(&format!(
            "killed fsdyno processes left nothing on this machine or in '{}'",
            folder.display()
        ));
    }
    let mut first_failure = None;
    for leftover in &found {
        match leftover.clean() {
            Ok(()) => say(&format!("removed {}", leftover.describe())),
            // The first error is returned at the end.
            Err(failure) if first_failure.is_none() => first_failure = Some(failure),
            Err(failure) => say_error(&format!("fsdyno: {failure}")),
        }
    }
    first_failure.map_or(Ok(Exit::Success), Err)
}

/// Reports what an earlier run left behind on this machine, and how to remove it. Called at the start of a run.
pub fn report() {
    // A failed search does not prevent the run.
    let found = find(None).unwrap_or_default();
    if let Some(first) = found.first() {
        let more = match found.len() {
            1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        say(&format!(
            "fsdyno: an earlier run was killed and left {}{more}; {}",
            first.describe(),
            first.remedy()
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_of_a_device_are_found_newest_first() {
        let mounts = "22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n\
                      40 22 7:3 / /a\\040b rw - xfs /dev/root rw\n\
                      41 22 7:30 / /c rw - xfs /dev/loop3 rw\n\
                      42 22 7:3 / /d rw - xfs /dev/loop3 rw\n";
        let device = rustix::fs::makedev(7, 3);
        let at = |path: &str| Mounted { at: path.into(), device };
        assert_eq!(find_mounts(mounts, &[device]), [at("/d"), at("/a b")]);
        assert!(find_mounts(mounts, &[]).is_empty());
    }

    #[test]
    fn a_foreign_mount_over_one_of_fsdyno_is_not_unmounted() {
        // The file system at / is not on this device.
        let ours = Mounted { at: "/".into(), device: rustix::fs::makedev(7, 4095) };
        let error = ours.unmount().unwrap_err().to_string();
        assert!(error.contains("mounted over it"), "{error}");
    }

    #[test]
    fn only_programs_that_fsdyno_starts_are_recognized_as_its_children() {
        for ours in ["/usr/bin/qemu-system-x86_64", "/opt/fsdyno-0.1"] {
            assert!(started_by_us(Path::new(ours)), "{ours}");
        }
        for other in ["/usr/bin/sudo", "/usr/bin/su", "/usr/bin/sleep", ""] {
            assert!(!started_by_us(Path::new(other)), "{other}");
        }
        if let Ok(check) = fsdyno_lab::find_program("e2fsck") {
            assert!(started_by_us(&check.canonicalize().unwrap()));
        }
    }
}
