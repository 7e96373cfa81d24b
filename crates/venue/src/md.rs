//! An md array of this host while a trial lasts: unlike a loop it does not go with its last user.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use fsdyno_filesystem::array;
use fsdyno_lab::find_program;

use crate::error::VenueError;
use crate::lab::from_lab;

/// What is mounted in a namespace is let go a moment after its last process ended.
const PATIENCE: Duration = Duration::from_secs(10);

/// Numbers of arrays that mdadm itself would take for arrays without one of their own.
const NUMBERS: std::ops::RangeInclusive<u32> = 64..=127;

/// An array, taken apart when it is dropped.
#[derive(Debug)]
pub struct Array {
    /// Its node.
    pub device: PathBuf,
}

impl Array {
    /// A place for an array that is to be made; nothing is there yet.
    ///
    /// # Errors
    /// If all are taken.
    pub fn free() -> Result<Array, VenueError> {
        let taken = |number: &u32| {
            let name = format!("md{number}");
            Path::new("/sys/block").join(&name).exists() || Path::new("/dev").join(name).exists()
        };
        let number = NUMBERS.rev().find(|number| !taken(number));
        let device = number.map(|number| PathBuf::from(format!("/dev/md{number}")));
        let device = device.ok_or_else(|| VenueError::Missing("no md number is free".into()))?;
        Ok(Array { device })
    }

    fn is_there(&self) -> bool {
        self.device.file_name().is_some_and(|name| {
            let folder = Path::new("/sys/block").join(name).join("md");
            // An array that was stopped may leave its device, which then has no members.
            std::fs::read_to_string(folder.join("array_state"))
                .is_ok_and(|state| !matches!(state.trim(), "clear" | "inactive"))
        })
    }
}

impl Drop for Array {
    fn drop(&mut self) {
        let begin = Instant::now();
        while self.is_there() && begin.elapsed() < PATIENCE {
            // What could not be stopped is found again by the marks of its members.
            let _ = stop(&self.device);
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Takes an array apart.
///
/// # Errors
/// If mdadm is missing or cannot be started; what it says of the array is in its output.
pub fn stop(device: &Path) -> Result<Output, VenueError> {
    let argv = array::stop(&device.to_string_lossy());
    let (program, arguments) = argv.split_first().map_or(("", &[][..]), |(a, b)| (a.as_str(), b));
    let mut command = Command::new(find_program(program).map_err(from_lab)?);
    command.args(arguments).envs(array::env()).stdin(Stdio::null());
    command.output().map_err(VenueError::io("start mdadm"))
}

/// The arrays all of whose members are among these devices.
pub fn arrays_over(members: &[PathBuf]) -> Vec<PathBuf> {
    let blocks = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let arrays = blocks.filter(|entry| entry.path().join("md").exists());
    let ours = arrays.filter(|entry| {
        let slaves = std::fs::read_dir(entry.path().join("slaves")).into_iter().flatten().flatten();
        let mut slaves = slaves.map(|slave| Path::new("/dev").join(slave.file_name())).peekable();
        slaves.peek().is_some() && slaves.all(|slave| members.contains(&slave))
    });
    let mut found: Vec<PathBuf> =
        ours.map(|entry| Path::new("/dev").join(entry.file_name())).collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_is_free_is_not_there_and_nothing_is_stopped() {
        let array = Array::free().unwrap();
        assert!(!array.is_there());
        assert_eq!(arrays_over(&[]), Vec::<PathBuf>::new());
    }
}
