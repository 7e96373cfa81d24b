//! What a directory or device stands on: the kernel, the mount and its device. Trials may stand in one row
//! only if these are equal.

use std::collections::BTreeMap;
use std::path::Path;

use fsdyno_record::trial::Conditions;
use rustix::fs::{major, minor, stat};

use crate::error::VenueError;

/// What the conditions of a trial in this directory will say of its ground, by their names.
///
/// # Errors
/// A directory that cannot be looked at.
pub fn of_directory(path: &Path) -> Result<BTreeMap<String, String>, VenueError> {
    let stat = stat(path).map_err(|error| VenueError::io("look at the directory")(error.into()))?;
    let device = format!("{}:{}", major(stat.st_dev), minor(stat.st_dev));
    let mounts = std::fs::read_to_string("/proc/self/mountinfo")
        .map_err(VenueError::io("read /proc/self/mountinfo"))?;
    let (mount, device) = find(&mounts, &device).unwrap_or_default();
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
/// of a device. A line is `id parent major:minor root mountpoint options [tags] - type source
/// options` (proc(5)).
fn find(mounts: &str, device: &str) -> Option<(String, String)> {
    mounts.lines().rev().find_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let left: Vec<&str> = left.split(' ').collect();
        let right: Vec<&str> = right.split(' ').collect();
        (left.get(2) == Some(&device)).then_some(())?;
        let (kind, source) = (right.first()?, right.get(1)?);
        let (own, superblock) = (left.get(5).unwrap_or(&""), right.get(2).unwrap_or(&""));
        Some((format!("{kind} {own} {superblock}"), source.to_string()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_mount_of_a_device_tells_its_type_options_and_source() {
        let mounts = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro\n\
                      40 22 0:41 / /mnt rw - tmpfs none rw,size=1024k\n";
        let found = find(mounts, "8:1").unwrap();
        assert_eq!(found.0, "ext4 rw,relatime rw,errors=remount-ro");
        assert_eq!(found.1, "/dev/sda1");
        assert_eq!(find(mounts, "8:2"), None);
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
