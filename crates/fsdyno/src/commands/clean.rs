//! `fsdyno doctor --clean`: what killed fsdyno processes left, found by fsdyno's own marks.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fsdyno_child::orphans::{self, Orphan};
use fsdyno_media::loops::{self, MarkedLoop};
use fsdyno_media::mark::Owner;
use fsdyno_media::{Leftover, Mark, leftovers};
use fsdyno_venue::md;

use crate::exit::{Exit, Failure};
use crate::output::say;

/// Something that a dead fsdyno process left, in the order in which it has to go: a process uses a
/// mount, a mount an array, an array its loops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Left {
    /// A child of its.
    Process(Orphan),
    /// A mount in this namespace of what lies on its loops.
    Mount(PathBuf, Mark),
    /// An array of its loops.
    Array(PathBuf, Mark),
    /// A loop device.
    Loop(MarkedLoop),
    /// A folder or an empty file.
    Folder(Leftover),
}

impl Left {
    /// What it is, in a line.
    pub fn words(&self) -> String {
        match self {
            Left::Process(it) => {
                format!("process {} ({}), of process {}", it.pid, it.program, it.parent.pid)
            }
            Left::Mount(at, mark) => format!("the mount {}, of process {}", at.display(), mark.pid),
            Left::Array(at, mark) => format!("the array {}, of process {}", at.display(), mark.pid),
            Left::Loop(it) => format!("{}, of process {}", it.path.display(), it.mark.pid),
            Left::Folder(it) => format!("{} (of process {})", it.path.display(), it.pid),
        }
    }

    fn clean(&self) -> Result<(), Failure> {
        let failed = |error: std::io::Error| {
            Failure::wrong(format!("failed to clean {}: {error}", self.words()))
        };
        match self {
            Left::Process(orphan) => orphans::end(orphan).map_err(failed),
            Left::Mount(at, _) => {
                let flags = rustix::mount::UnmountFlags::NOFOLLOW;
                rustix::mount::unmount(at, flags).map_err(|error| failed(error.into()))
            }
            Left::Array(device, _) => {
                let output = md::stop(device)?;
                let said = String::from_utf8_lossy(&output.stderr).trim().to_string();
                let stopped = output.status.success();
                if stopped { Ok(()) } else { Err(failed(std::io::Error::other(said))) }
            }
            Left::Loop(left) => Ok(loops::clear(left)?),
            Left::Folder(left) => Ok(fsdyno_media::clean(left)?),
        }
    }
}

/// What dead fsdyno processes left on this machine, and in a folder.
pub fn find(folder: Option<&Path>) -> Result<Vec<Left>, Failure> {
    let mut found: Vec<Left> = orphans::orphans().into_iter().map(Left::Process).collect();
    let dead: Vec<MarkedLoop> =
        loops::marked().into_iter().filter(|it| it.mark.owner() == Owner::Dead).collect();
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    for mark in dead.iter().map(|it| it.mark).collect::<BTreeSet<_>>() {
        let of_it = dead.iter().filter(|it| it.mark == mark);
        let loops: Vec<PathBuf> = of_it.map(|it| it.path.clone()).collect();
        let arrays = md::arrays_over(&loops);
        let devices: Vec<&PathBuf> = loops.iter().chain(&arrays).collect();
        found.extend(mounted(&mounts, &devices).into_iter().map(|at| Left::Mount(at, mark)));
        found.extend(arrays.into_iter().map(|device| Left::Array(device, mark)));
    }
    found.extend(dead.into_iter().map(Left::Loop));
    let folders = folder.map(leftovers).transpose()?.unwrap_or_default();
    found.extend(folders.into_iter().map(Left::Folder));
    Ok(found)
}

/// Where devices are mounted, the newest mount first. A line is `id parent major:minor root
/// mountpoint options [tags] - type source options` (proc(5)).
fn mounted(mounts: &str, devices: &[&PathBuf]) -> Vec<PathBuf> {
    let lines = mounts.lines().rev().filter_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let source = Path::new(right.split(' ').nth(1)?);
        devices.iter().any(|device| *device == source).then_some(())?;
        left.split(' ').nth(4).map(unescaped)
    });
    lines.collect()
}

/// A path as mountinfo writes it, with blanks and the like as `\040` (proc(5)).
fn unescaped(text: &str) -> PathBuf {
    let pairs = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    PathBuf::from(pairs.iter().fold(text.to_string(), |text, (from, to)| text.replace(from, to)))
}

/// What was killed a moment ago goes by itself, and better.
const GRACE: Duration = Duration::from_millis(500);

/// Cleans it all, saying what.
pub fn run(folder: &Path) -> Result<Exit, Failure> {
    let mut found = find(Some(folder))?;
    if !found.is_empty() {
        std::thread::sleep(GRACE);
        found = find(Some(folder))?;
    }
    if found.is_empty() {
        say(&format!("nothing of a killed fsdyno is left here, nor in '{}'", folder.display()));
    }
    let mut first = None;
    for left in &found {
        match left.clean() {
            Ok(()) => say(&format!("removed {}", left.words())),
            Err(failure) => {
                say(&format!("fsdyno: {failure}"));
                first.get_or_insert(failure);
            }
        }
    }
    first.map_or(Ok(Exit::Good), Err)
}

/// At the start of a run: what an earlier one left on this machine, and how to clean it.
pub fn offer() {
    // What cannot be looked at is no reason not to run.
    let found = find(None).unwrap_or_default();
    if let Some(first) = found.first() {
        let more = match found.len() {
            1 => String::new(),
            many => format!(" and {} more", many - 1),
        };
        say(&format!(
            "fsdyno: an earlier run was killed and left {}{more}; clean it with: fsdyno doctor --clean",
            first.words()
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_of_a_device_are_found_the_newest_first() {
        let mounts = "22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n\
                      40 22 7:3 / /a\\040b rw - xfs /dev/loop3 rw\n\
                      41 22 7:30 / /c rw - xfs /dev/loop30 rw\n\
                      42 22 7:3 / /d rw - xfs /dev/loop3 rw\n";
        let device = PathBuf::from("/dev/loop3");
        assert_eq!(mounted(mounts, &[&device]), [Path::new("/d"), Path::new("/a b")]);
        assert!(mounted(mounts, &[]).is_empty());
    }
}
