//! What a directory or device stands on: the kernel, the mount and its device. Trials may stand in one row
//! only if these are equal.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::Path;

use fsdyno_record::mount_table;
use fsdyno_record::trial::Conditions;

use crate::error::VenueError;

/// What the conditions of a trial in this directory will say of its ground, by their names.
///
/// # Errors
/// A directory that cannot be looked at.
pub fn of_directory(path: &Path) -> Result<BTreeMap<String, String>, VenueError> {
    let opened = std::fs::File::open(path).map_err(VenueError::io("look at the directory"))?;
    let mount = mount_table::of_file(opened.as_fd());
    let mount = mount.map_err(VenueError::io("read /proc/self/mountinfo"))?;
    let (mount, device) = mount.map(|line| (line.in_effect(), line.source)).unwrap_or_default();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_stands_on_this_kernel() {
        let ground = of_directory(Path::new("/")).unwrap();
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        assert!(ground["kernel"].starts_with(&release));
        let root = mount_table::mounts(&std::fs::read_to_string("/proc/self/mountinfo").unwrap())
            .rfind(|line| line.at == "/");
        assert_eq!(ground.get("mount"), root.map(|line| line.in_effect()).as_ref());
    }

    #[test]
    fn what_a_record_does_not_know_is_left_out() {
        let conditions = Conditions { mount: "unknown".into(), ..Conditions::default() };
        assert!(of_record(&conditions).is_empty());
    }
}
