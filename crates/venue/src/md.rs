//! An md array on this host during a trial; unlike a loop device, it must be stopped explicitly.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use fsdyno_filesystem::array;
pub use fsdyno_filesystem::array::arrays_over;
use fsdyno_lab::find_program;

use crate::error::{VenueError, from_lab};

/// The time limit for stopping an array: it stays busy until the mounts of the trial's namespace are released.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// The numbers of fsdyno's arrays: high ones, but well below those that auto-assembly uses first (127, 126, 125 and so
/// on).
const MD_NUMBERS: std::ops::RangeInclusive<u32> = 64..=119;

/// An array, stopped on drop.
#[derive(Debug)]
pub struct Array {
    /// The device node.
    pub device: PathBuf,
    /// The member devices; their owner keeps them open for longer than this array exists.
    members: Vec<PathBuf>,
}

impl Array {
    /// Chooses a free device node for an array of these devices; the array does not exist yet.
    ///
    /// # Errors
    /// All numbers are taken.
    pub fn with_free_node(members: Vec<PathBuf>) -> Result<Array, VenueError> {
        let is_taken = |number: &u32| {
            let name = format!("md{number}");
            Path::new("/sys/block").join(&name).exists() || Path::new("/dev").join(name).exists()
        };
        let number = MD_NUMBERS.rev().find(|number| !is_taken(number));
        let device = number.map(|number| PathBuf::from(format!("/dev/md{number}")));
        let device = device.ok_or_else(|| {
            VenueError::Missing("no md device number from 64 to 119 is free".into())
        })?;
        Ok(Array { device, members })
    }
}

impl Drop for Array {
    /// Stops all arrays on this array's loop devices and nothing else: the number may belong to a different array by
    /// now, and udev may have assembled the loop devices under a different number.
    fn drop(&mut self) {
        let start = Instant::now();
        loop {
            let ours = arrays_over(&self.members);
            if ours.is_empty() || start.elapsed() >= STOP_TIMEOUT {
                return;
            }
            for array in ours {
                // `fsdyno doctor --clean` finds an array that cannot be stopped by the owner marks of its loop devices.
                let _ = stop(&array);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Stops an array.
///
/// # Errors
/// mdadm is missing or cannot be started. Its exit status is in the output.
pub fn stop(device: &Path) -> Result<Output, VenueError> {
    let argv = array::stop(&device.to_string_lossy());
    let (program, arguments) = argv.split_first().map_or(("", &[][..]), |(a, b)| (a.as_str(), b));
    let program = find_program(program).map_err(from_lab)?;
    let mut command = Command::new(&program);
    command.args(arguments).envs(array::env()).stdin(Stdio::null());
    command.output().map_err(VenueError::io("start", &program))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chosen_node_is_free_and_dropping_an_array_without_members_stops_none() {
        let array = Array::with_free_node(Vec::new()).unwrap();
        assert!(!array.device.exists());
        let number: u32 = array.device.to_str().unwrap()[7..].parse().unwrap();
        assert!(number < 120, "auto-assembly takes {number} soon");
        assert_eq!(arrays_over(&[]), Vec::<PathBuf>::new());
    }
}
