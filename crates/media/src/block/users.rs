//! Finds the users of a drive: mounts in every namespace, swap, devices and file systems of several devices
//! on top of it, processes.
//!
//! Each result names what the operator must stop or unmount. Uses that are not found here are detected by the
//! kernel's own claim (O_EXCL).

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fsdyno_record::mount_table::{self, MountLine, unescape};
use rustix::fs::{major, minor};

use super::drive::{Drive, node_of, read_attribute};
use super::layout::KernelPart;
use super::refusal::Reason;
use crate::loops::Backing;

/// A drive, or one of its partitions.
struct UsedDevice {
    name: String,
    number: u64,
    folder: PathBuf,
    /// The backing of a loop device.
    below: Option<Backing>,
}

/// Returns all users of a drive, of its partitions, or of a loop device's backing file.
pub fn list_users(drive: &Drive, parts: &[KernelPart]) -> Vec<Reason> {
    let whole = UsedDevice {
        name: drive.name(),
        number: drive.number(),
        folder: drive.folder().into(),
        below: Backing::of(&drive.path()),
    };
    let of_part = |part: &KernelPart| UsedDevice {
        name: part.name.clone(),
        number: part.device,
        folder: drive.folder().join(&part.name),
        below: None,
    };
    let devices: Vec<UsedDevice> =
        std::iter::once(whole).chain(parts.iter().map(of_part)).collect();
    let mut reasons = find_mounts(&devices);
    reasons.extend(find_swap(&devices));
    for used in &devices {
        let by = list_holders(&used.folder).into_iter().chain(find_btrfs(&used.name));
        reasons.extend(by.map(|by| Reason::Held { part: used.name.clone(), by }));
    }
    let paths = find_other_paths(Path::new("/sys/block"), &drive.name());
    reasons.extend(paths.into_iter().map(|other| Reason::Path { other }));
    reasons.extend(find_loops(&devices));
    reasons.extend(find_writers(&devices));
    reasons
}

/// Finds the device to which a path refers, by its number or by its backing file.
fn find_by_path<'a>(devices: &'a [UsedDevice], path: &Path) -> Option<&'a UsedDevice> {
    let status = fs::metadata(path).ok()?;
    if status.file_type().is_block_device() {
        return devices.iter().find(|used| used.number == status.rdev());
    }
    let is_below = |below: &Backing| below.is(status.dev(), status.ino());
    devices.iter().find(|used| used.below.as_ref().is_some_and(is_below))
}

fn find_mounts(devices: &[UsedDevice]) -> Vec<Reason> {
    let (mut reasons, mut seen) = (Vec::new(), BTreeSet::new());
    for (by, table) in mount_tables() {
        for (part, at) in mounts_in(&table, devices) {
            // A mount in several namespaces is reported once.
            if seen.insert((part.clone(), at.clone())) {
                reasons.push(Reason::Mounted { part, at, by: by.clone() });
            }
        }
    }
    reasons
}

/// Returns the mount tables of this process and of one process of every other visible namespace.
fn mount_tables() -> Vec<(Option<String>, String)> {
    let own = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mut namespaces: BTreeSet<PathBuf> =
        fs::read_link("/proc/self/ns/mnt").into_iter().collect();
    let mut tables = vec![(None, own)];
    for process in processes() {
        // A thread may have its own namespace.
        for thread in fs::read_dir(process.join("task")).into_iter().flatten().flatten() {
            let folder = thread.path();
            let Ok(namespace) = fs::read_link(folder.join("ns/mnt")) else { continue };
            if namespaces.insert(namespace)
                && let Ok(table) = fs::read_to_string(folder.join("mountinfo"))
            {
                tables.push((Some(describe_process(&process)), table));
            }
        }
    }
    tables
}

/// Returns the mounted devices and their mount points. A file system of several devices has its own number,
/// so only its source identifies a device.
fn mounts_in(table: &str, devices: &[UsedDevice]) -> Vec<(String, String)> {
    let of_line = |line: MountLine| {
        let number = |used: &&UsedDevice| (major(used.number), minor(used.number)) == line.device;
        let by_source =
            || find_by_path(devices, Path::new(&line.source)).filter(|_| line.device.0 == 0);
        let found = devices.iter().find(number).or_else(by_source)?;
        Some((found.name.clone(), line.mount_point.clone()))
    };
    mount_table::mounts(table).filter_map(of_line).collect()
}

fn find_swap(devices: &[UsedDevice]) -> Vec<Reason> {
    let table = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let paths = table.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    let used = paths.filter_map(|path| find_by_path(devices, Path::new(&unescape(path))));
    used.map(|used| Reason::Swap { part: used.name.clone() }).collect()
}

/// Returns the device-mapper, md, bcache and similar devices on top of a device, from the kernel's links.
fn list_holders(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder.join("holders")).into_iter().flatten().flatten();
    let mut found: Vec<String> = entries.map(|entry| describe_holder(&entry.path())).collect();
    found.sort();
    found
}

/// Describes a holder. The prefix of a device-mapper UUID identifies its subsystem.
fn describe_holder(folder: &Path) -> String {
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if folder.join("md").exists() {
        return format!("the md array {name}");
    }
    let Some(label) = read_attribute(folder, "dm/name") else { return name };
    let uuid = read_attribute(folder, "dm/uuid").unwrap_or_default();
    let kinds =
        [("LVM-", "LVM volume"), ("CRYPT-", "encrypted volume"), ("mpath-", "multipath map")];
    let kind = kinds.iter().find(|(prefix, _)| uuid.starts_with(prefix));
    format!("the {} {label} ({name})", kind.map_or("device-mapper volume", |(_, words)| words))
}

/// Finds a mounted btrfs with this device: the mount table names only one of its devices.
fn find_btrfs(name: &str) -> Option<String> {
    let mut systems = fs::read_dir("/sys/fs/btrfs").into_iter().flatten().flatten();
    let found = systems.find(|system| system.path().join("devices").join(name).exists())?;
    Some(format!("the mounted btrfs {}", found.file_name().to_string_lossy()))
}

/// Returns other devices with the same identity, which are other paths to the drive (multipath): mounts of one
/// path are not visible at another.
fn find_other_paths(blocks: &Path, name: &str) -> Vec<String> {
    let identity =
        |folder: &Path| ["device/wwid", "wwid"].iter().find_map(|at| read_attribute(folder, at));
    let Some(own) = identity(&blocks.join(name)) else { return Vec::new() };
    let entries = fs::read_dir(blocks).into_iter().flatten().flatten();
    // The paths of an NVMe drive with several controllers are hidden and cannot be opened.
    let open =
        entries.filter(|entry| read_attribute(&entry.path(), "hidden").is_none_or(|it| it == "0"));
    let same = open.filter(|entry| identity(&entry.path()).as_ref() == Some(&own));
    let names = same.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut others: Vec<String> = names.filter(|other| other != name).collect();
    others.sort();
    others
}

/// Returns loop devices on top of the drive, or over the same bytes of a file.
fn find_loops(devices: &[UsedDevice]) -> Vec<Reason> {
    let entries = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let of_loop = |entry: fs::DirEntry| {
        let file = read_attribute(&entry.path(), "loop/backing_file")?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let backing = Backing::of(&node_of(&entry.path()));
        let below = |used: &&UsedDevice| match &backing {
            Some(backing) => backing.block == Some(used.number),
            None => {
                find_by_path(devices, Path::new(&file)).is_some_and(|it| it.number == used.number)
            }
        };
        if let Some(used) = devices.iter().find(below) {
            let by = format!("the loop device {name}");
            return Some(Reason::Held { part: used.name.clone(), by });
        }
        let same = |used: &&UsedDevice| {
            let both = used.below.as_ref().zip(backing.as_ref());
            both.is_some_and(|(one, other)| one.overlaps(other)) && used.name != name
        };
        let by = format!(
            "the loop device {name}, which is over the same file (if it is not needed: losetup --detach /dev/{name})"
        );
        Some(Reason::Held { part: devices.iter().find(same)?.name.clone(), by })
    };
    entries.filter_map(of_loop).collect()
}

/// Number of polls for a process that has the drive open for writing, and their interval in milliseconds.
const POLLS: (u32, u64) = (5, 100);

/// Returns processes that keep the drive open for writing, such as a virtual machine or a database. Readers (udev,
/// drive monitors) lose nothing, and tools that inspect every device open it only briefly.
fn find_writers(devices: &[UsedDevice]) -> Vec<Reason> {
    let mut writers = current_writers(devices, processes());
    for _ in 1..POLLS.0 {
        if writers.is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_millis(POLLS.1));
        writers = current_writers(devices, writers.into_iter().map(|(_, process)| process));
    }
    let reason =
        |(part, process): (String, PathBuf)| Reason::Open { part, by: describe_process(&process) };
    writers.into_iter().map(reason).collect()
}

/// Returns the devices that these processes currently have open for writing.
fn current_writers(
    devices: &[UsedDevice],
    processes: impl Iterator<Item = PathBuf>,
) -> BTreeSet<(String, PathBuf)> {
    let own = std::process::id().to_string();
    let mut found = BTreeSet::new();
    for process in processes.filter(|process| !process.ends_with(&own)) {
        for entry in fs::read_dir(process.join("fd")).into_iter().flatten().flatten() {
            let Some(used) = find_by_path(devices, &entry.path()) else { continue };
            let info = fs::read_to_string(process.join("fdinfo").join(entry.file_name()));
            if may_write(&info.unwrap_or_default()) {
                found.insert((used.name.clone(), process.clone()));
            }
        }
    }
    found
}

/// Reports whether the access mode of `flags:`, an octal number in fdinfo (proc(5)), permits writing; true
/// if it cannot be read.
fn may_write(info: &str) -> bool {
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|text| u32::from_str_radix(text.trim(), 8).ok());
    flags.is_none_or(|flags| flags & 3 != 0)
}

fn processes() -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let number = |name: &std::ffi::OsStr| name.as_encoded_bytes().iter().all(u8::is_ascii_digit);
    entries.filter(move |entry| number(&entry.file_name())).map(|entry| entry.path())
}

/// Describes a process.
fn describe_process(process: &Path) -> String {
    let number = process.file_name().unwrap_or_default().to_string_lossy();
    let name = read_attribute(process, "comm").unwrap_or_else(|| "?".into());
    format!("process {number} ({name})")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used_devices() -> Vec<UsedDevice> {
        let device = |name: &str, number| UsedDevice {
            name: name.into(),
            number,
            folder: "".into(),
            below: None,
        };
        vec![device("sdb", rustix::fs::makedev(8, 16)), device("sdb1", rustix::fs::makedev(8, 17))]
    }

    #[test]
    fn a_mount_is_found_by_its_device_number() {
        let table = "22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n\
                     40 22 8:17 / /my\\040disk rw - xfs /dev/gone rw\n\
                     41 22 8:170 / /other rw - xfs /dev/sdk10 rw\n";
        assert_eq!(
            mounts_in(table, &used_devices()),
            [("sdb1".to_string(), "/my disk".to_string())]
        );
    }

    #[test]
    fn holders_are_described_by_their_kind() {
        let folder = tempfile::tempdir().unwrap();
        let of = |holder: &str| folder.path().join("holders").join(holder);
        for (name, label, uuid) in
            [("dm-0", "vg-root", "LVM-abc"), ("dm-1", "home", "CRYPT-LUKS2-d"), ("dm-2", "x", "")]
        {
            fs::create_dir_all(of(name).join("dm")).unwrap();
            fs::write(of(name).join("dm/name"), format!("{label}\n")).unwrap();
            fs::write(of(name).join("dm/uuid"), format!("{uuid}\n")).unwrap();
        }
        fs::create_dir_all(of("md127").join("md")).unwrap();
        fs::create_dir_all(of("bcache0")).unwrap();
        assert_eq!(
            list_holders(folder.path()),
            [
                "bcache0",
                "the LVM volume vg-root (dm-0)",
                "the device-mapper volume x (dm-2)",
                "the encrypted volume home (dm-1)",
                "the md array md127",
            ]
        );
    }

    #[test]
    fn another_path_to_the_same_drive_is_found_by_its_wwid() {
        let blocks = tempfile::tempdir().unwrap();
        for (name, file, wwid) in [
            ("sda", "device/wwid", "naa.5000c500a1b2c3d4"),
            ("sdb", "device/wwid", "naa.5000c500a1b2c3d5"),
            ("sdc", "device/wwid", "naa.5000c500a1b2c3d4"),
            ("nvme0n1", "wwid", "eui.0025385b71b0e1f2"),
            ("nvme0c0n1", "wwid", "eui.0025385b71b0e1f2"),
        ] {
            let path = blocks.path().join(name).join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{wwid}\n")).unwrap();
        }
        fs::write(blocks.path().join("nvme0c0n1/hidden"), "1\n").unwrap();
        fs::create_dir(blocks.path().join("loop0")).unwrap();
        assert_eq!(find_other_paths(blocks.path(), "sda"), ["sdc"]);
        for alone in ["sdb", "nvme0n1", "loop0"] {
            assert_eq!(find_other_paths(blocks.path(), alone), [""; 0], "{alone}");
        }
    }

    #[test]
    fn readers_and_writers_are_distinguished() {
        assert!(!may_write("pos:\t0\nflags:\t0100000\nmnt_id:\t5\n"));
        assert!(may_write("pos:\t0\nflags:\t0100001\n"));
        assert!(may_write("pos:\t0\nflags:\t02100002\n"));
        assert!(may_write(""), "unreadable flags count as writing");
    }
}
