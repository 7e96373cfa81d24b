//! Reads mounts from /proc/self/mountinfo.

use std::fs;
use std::io;

use fsdyno_record::mount_table::mounts;

/// Returns the type, per-mount options and superblock options of the newest mount at a path; `None` if there is none.
///
/// # Errors
/// If /proc does not exist.
pub fn in_effect(mount_point: &str) -> io::Result<Option<String>> {
    Ok(find(&fs::read_to_string("/proc/self/mountinfo")?, mount_point))
}

/// Returns every option in effect of the file system on a device (`nbd0`), including its driver's defaults, if the
/// driver reports them: mountinfo omits defaults, such as ext4's data=, commit=, delalloc and barrier. ext4.ko
/// lists them in /proc/fs/ext4/DEVICE/options, one per line.
pub fn all_options(device: &str) -> Option<String> {
    let mut drivers: Vec<_> =
        fs::read_dir("/proc/fs").ok()?.flatten().map(|entry| entry.path()).collect();
    drivers.sort();
    let options = drivers
        .iter()
        .find_map(|driver| fs::read_to_string(driver.join(device).join("options")).ok())?;
    Some(options.lines().map(str::trim).collect::<Vec<_>>().join(","))
}

fn find(table: &str, mount_point: &str) -> Option<String> {
    mounts(table)
        .rev()
        .find(|line| line.mount_point == mount_point)
        .map(|line| line.type_and_options())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro
40 22 43:0 / /mnt rw,noatime - xfs /dev/nbd0 rw,attr2,noquota
";

    #[test]
    fn a_mount_is_found_by_its_path() {
        assert_eq!(find(MOUNTS, "/mnt").as_deref(), Some("xfs rw,noatime rw,attr2,noquota"));
        assert_eq!(find(MOUNTS, "/mn"), None);
    }
}
