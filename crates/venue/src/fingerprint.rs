//! Host fingerprints: the kernel, the mount and the device of a trial. Trials are pooled only if these are
//! the same.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::Path;

use fsdyno_record::mount_table;
use fsdyno_record::trial::Conditions;

use crate::error::VenueError;

/// Returns the fingerprint of a trial in this directory, keyed by the names of the conditions.
///
/// # Errors
/// A directory that cannot be inspected.
pub fn of_directory(path: &Path) -> Result<BTreeMap<String, String>, VenueError> {
    let opened = std::fs::File::open(path).map_err(VenueError::io("open the directory", path))?;
    let mount = mount_table::mount_of_file(opened.as_fd());
    let mount = mount.map_err(VenueError::io("read", Path::new("/proc/self/mountinfo")))?;
    let (mount, device) =
        mount.map(|line| (line.type_and_options(), line.source)).unwrap_or_default();
    Ok(known_values(&kernel(), &mount, &device))
}

/// Returns the fingerprint of a trial on a device that is created for it: the kernel alone.
pub fn kernel_only() -> BTreeMap<String, String> {
    known_values(&kernel(), "", "")
}

fn kernel() -> String {
    let uname = rustix::system::uname();
    let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
    format!("{} {}", text(uname.release()), text(uname.version()))
}

/// Returns the fingerprint in a record.
pub fn of_record(conditions: &Conditions) -> BTreeMap<String, String> {
    known_values(&conditions.kernel, &conditions.mount, &conditions.device)
}

fn known_values(kernel: &str, mount: &str, device: &str) -> BTreeMap<String, String> {
    let pairs = [("kernel", kernel), ("mount", mount), ("device", device)];
    // "unknown" (for a mount that the agent cannot find) never counts as a difference.
    let is_known = |(_, value): &(&str, &str)| !value.is_empty() && *value != "unknown";
    pairs.into_iter().filter(is_known).map(|(name, value)| (name.into(), value.into())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fingerprint_of_a_directory_has_kernel_and_mount() {
        let fingerprint = of_directory(Path::new("/")).unwrap();
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        assert!(fingerprint["kernel"].starts_with(&release));
        let root = mount_table::mounts(&std::fs::read_to_string("/proc/self/mountinfo").unwrap())
            .rfind(|line| line.mount_point == "/");
        assert_eq!(fingerprint.get("mount"), root.map(|line| line.type_and_options()).as_ref());
    }

    #[test]
    fn unknown_values_of_a_record_are_omitted() {
        let conditions = Conditions { mount: "unknown".into(), ..Conditions::default() };
        assert!(of_record(&conditions).is_empty());
    }
}
