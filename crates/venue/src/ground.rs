//! What a directory or device stands on: the kernel, the mount and its device. Trials may stand in one row
//! only if these are equal.

use std::collections::BTreeMap;
use std::path::Path;

use fsdyno_record::mount_table::mounts;
use fsdyno_record::trial::Conditions;
use rustix::fs::{major, minor, stat};

use crate::error::VenueError;

/// What the conditions of a trial in this directory will say of its ground, by their names.
///
/// # Errors
/// A directory that cannot be looked at.
pub fn of_directory(path: &Path) -> Result<BTreeMap<String, String>, VenueError> {
    let stat = stat(path).map_err(|error| VenueError::io("look at the directory")(error.into()))?;
    let device = (major(stat.st_dev), minor(stat.st_dev));
    let table = std::fs::read_to_string("/proc/self/mountinfo")
        .map_err(VenueError::io("read /proc/self/mountinfo"))?;
    let (mount, device) = find(&table, device).unwrap_or_default();
    Ok(named(&kernel(), &mount, &device))
}

/// The kernel alone, which is all that a device made for each trial stands on.
pub fn of_kernel() -> BTreeMap<String, String> {
    named(&kernel(), "", "")
}

fn kernel() -> String {
    let uname = rustix::system::uname();
    let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
    format!("{} {}", text(uname.release()), text(uname.version()))
}

/// The same, as a record has it.
pub fn of_record(conditions: &Conditions) -> BTreeMap<String, String> {
    named(&conditions.kernel, &conditions.mount, &conditions.device)
}

fn named(kernel: &str, mount: &str, device: &str) -> BTreeMap<String, String> {
    let pairs = [("kernel", kernel), ("mount", mount), ("device", device)];
    // What is unknown differs from nothing; the agent says so of a mount that it cannot find.
    let known = |(_, value): &(&str, &str)| !value.is_empty() && *value != "unknown";
    pairs.into_iter().filter(known).map(|(name, value)| (name.into(), value.into())).collect()
}

/// Type and options, as the agent writes them into the record, and the source of the newest mount
/// of a device.
fn find(table: &str, device: (u32, u32)) -> Option<(String, String)> {
    let line = mounts(table).rev().find(|line| line.device == device)?;
    Some((line.in_effect(), line.source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_mount_of_a_device_tells_its_type_options_and_source() {
        let table = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro\n\
                      40 22 0:41 / /mnt rw - tmpfs none rw,size=1024k\n";
        let found = find(table, (8, 1)).unwrap();
        assert_eq!(found.0, "ext4 rw,relatime rw,errors=remount-ro");
        assert_eq!(found.1, "/dev/sda1");
        assert_eq!(find(table, (8, 2)), None);
    }

    #[test]
    fn a_directory_stands_on_this_kernel() {
        let ground = of_directory(Path::new("/")).unwrap();
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        assert!(ground["kernel"].starts_with(&release));
    }

    #[test]
    fn what_a_record_does_not_know_is_left_out() {
        let conditions = Conditions { mount: "unknown".into(), ..Conditions::default() };
        assert!(of_record(&conditions).is_empty());
    }
}
