//! Who uses a drive: mounts in every namespace, swap, devices and file systems of several devices on
//! top of it, processes.
//!
//! Each tells the user what to end. What none of them sees, the kernel's own claim (O_EXCL) does.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fsdyno_record::mount_table::{self, MountLine, unescaped};
use rustix::fs::{major, minor};

use super::drive::{Drive, KernelPart, fact, node_of};
use super::refusal::Reason;
use crate::loops::Backing;

/// The drive, or one of its partitions.
struct Used {
    name: String,
    number: u64,
    folder: PathBuf,
    /// What lies below a loop device.
    below: Option<Backing>,
}

/// Everyone who uses a drive or a partition of it, or the file below a loop device.
pub fn of(drive: &Drive, parts: &[KernelPart]) -> Vec<Reason> {
    let whole = Used {
        name: drive.name(),
        number: drive.number(),
        folder: drive.folder().into(),
        below: Backing::of(&drive.path()),
    };
    let of_part = |part: &KernelPart| Used {
        name: part.name.clone(),
        number: part.device,
        folder: drive.folder().join(&part.name),
        below: None,
    };
    let all: Vec<Used> = std::iter::once(whole).chain(parts.iter().map(of_part)).collect();
    let mut reasons = mounts(&all);
    reasons.extend(swap(&all));
    for used in &all {
        let by = holders(&used.folder).into_iter().chain(btrfs(&used.name));
        reasons.extend(by.map(|by| Reason::Held { part: used.name.clone(), by }));
    }
    let paths = paths(Path::new("/sys/block"), &drive.name());
    reasons.extend(paths.into_iter().map(|other| Reason::Path { other }));
    reasons.extend(loops(&all));
    reasons.extend(open(&all));
    reasons
}

/// The one that a path means, if it means one: by its device, or by the file below it.
fn meant<'a>(all: &'a [Used], path: &Path) -> Option<&'a Used> {
    let status = fs::metadata(path).ok()?;
    if status.file_type().is_block_device() {
        return all.iter().find(|used| used.number == status.rdev());
    }
    let is_below = |below: &Backing| below.is(status.dev(), status.ino());
    all.iter().find(|used| used.below.as_ref().is_some_and(is_below))
}

fn mounts(all: &[Used]) -> Vec<Reason> {
    let (mut reasons, mut seen) = (Vec::new(), BTreeSet::new());
    for (by, table) in tables() {
        for (part, at) in mounts_in(&table, all) {
            // What every namespace sees is told once.
            if seen.insert((part.clone(), at.clone())) {
                reasons.push(Reason::Mounted { part, at, by: by.clone() });
            }
        }
    }
    reasons
}

/// The mount table of this process, and of one process of every other namespace that can be seen.
fn tables() -> Vec<(Option<String>, String)> {
    let own = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mut namespaces: BTreeSet<PathBuf> =
        fs::read_link("/proc/self/ns/mnt").into_iter().collect();
    let mut tables = vec![(None, own)];
    for process in processes() {
        // A thread may have a namespace of its own.
        for thread in fs::read_dir(process.join("task")).into_iter().flatten().flatten() {
            let folder = thread.path();
            let Ok(namespace) = fs::read_link(folder.join("ns/mnt")) else { continue };
            if namespaces.insert(namespace)
                && let Ok(table) = fs::read_to_string(folder.join("mountinfo"))
            {
                tables.push((Some(words(&process)), table));
            }
        }
    }
    tables
}

/// What of it is mounted, and where. A file system of several devices has a number of its own, and only
/// its source tells a device.
fn mounts_in(table: &str, all: &[Used]) -> Vec<(String, String)> {
    let of_line = |line: MountLine| {
        let number = |used: &&Used| (major(used.number), minor(used.number)) == line.device;
        let by_source = || meant(all, Path::new(&line.source)).filter(|_| line.device.0 == 0);
        let found = all.iter().find(number).or_else(by_source)?;
        Some((found.name.clone(), line.at.clone()))
    };
    mount_table::mounts(table).filter_map(of_line).collect()
}

fn swap(all: &[Used]) -> Vec<Reason> {
    let table = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let paths = table.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    let used = paths.filter_map(|path| meant(all, Path::new(&unescaped(path))));
    used.map(|used| Reason::Swap { part: used.name.clone() }).collect()
}

/// What device-mapper, md, bcache and the like lay on it, by the kernel's own links.
fn holders(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder.join("holders")).into_iter().flatten().flatten();
    let mut found: Vec<String> = entries.map(|entry| holder(&entry.path())).collect();
    found.sort();
    found
}

/// A holder in words. device-mapper's UUIDs begin with who made them.
fn holder(folder: &Path) -> String {
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if folder.join("md").exists() {
        return format!("the md array {name}");
    }
    let Some(label) = fact(folder, "dm/name") else { return name };
    let uuid = fact(folder, "dm/uuid").unwrap_or_default();
    let kinds =
        [("LVM-", "LVM volume"), ("CRYPT-", "encrypted volume"), ("mpath-", "multipath map")];
    let kind = kinds.iter().find(|(prefix, _)| uuid.starts_with(prefix));
    format!("the {} {label} ({name})", kind.map_or("device-mapper volume", |(_, words)| words))
}

/// A mounted btrfs of several devices names one of them only in the table of mounts.
fn btrfs(name: &str) -> Option<String> {
    let mut systems = fs::read_dir("/sys/fs/btrfs").into_iter().flatten().flatten();
    let found = systems.find(|system| system.path().join("devices").join(name).exists())?;
    Some(format!("the mounted btrfs {}", found.file_name().to_string_lossy()))
}

/// Other devices that are the same drive by another way (multipath), by what the drive itself says it is: what
/// is mounted from one of them is in no table of another.
fn paths(blocks: &Path, name: &str) -> Vec<String> {
    let identity = |folder: &Path| ["device/wwid", "wwid"].iter().find_map(|at| fact(folder, at));
    let Some(own) = identity(&blocks.join(name)) else { return Vec::new() };
    let entries = fs::read_dir(blocks).into_iter().flatten().flatten();
    // The paths below an NVMe drive of several controllers are hidden, and nothing can open them.
    let open = entries.filter(|entry| fact(&entry.path(), "hidden").is_none_or(|it| it == "0"));
    let same = open.filter(|entry| identity(&entry.path()).as_ref() == Some(&own));
    let names = same.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut others: Vec<String> = names.filter(|other| other != name).collect();
    others.sort();
    others
}

/// Loop devices that lie on it, or on the same bytes of one file.
fn loops(all: &[Used]) -> Vec<Reason> {
    let entries = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let of_loop = |entry: fs::DirEntry| {
        let file = fact(&entry.path(), "loop/backing_file")?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let backing = Backing::of(&node_of(&entry.path()));
        let below = |used: &&Used| match &backing {
            Some(backing) => backing.block == Some(used.number),
            None => meant(all, Path::new(&file)).is_some_and(|it| it.number == used.number),
        };
        if let Some(used) = all.iter().find(below) {
            let by = format!("the loop device {name}");
            return Some(Reason::Held { part: used.name.clone(), by });
        }
        let same = |used: &&Used| {
            let both = used.below.as_ref().zip(backing.as_ref());
            both.is_some_and(|(one, other)| one.overlaps(other)) && used.name != name
        };
        let by = format!(
            "the loop device {name}, which lies over the same file (if it is not needed: losetup --detach /dev/{name})"
        );
        Some(Reason::Held { part: all.iter().find(same)?.name.clone(), by })
    };
    entries.filter_map(of_loop).collect()
}

/// How often, and how far apart in milliseconds, a process is looked at that has it open for writing.
const LOOKS: (u32, u64) = (5, 100);

/// Processes that have it open for writing, and keep it: a virtual machine or a database claims nothing.
/// Who only reads (udev, a monitor of drives) loses nothing, and tools that look at every device open
/// it for a moment.
fn open(all: &[Used]) -> Vec<Reason> {
    let mut writers = open_now(all, processes());
    for _ in 1..LOOKS.0 {
        if writers.is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_millis(LOOKS.1));
        writers = open_now(all, writers.into_iter().map(|(_, process)| process));
    }
    let reason = |(part, process): (String, PathBuf)| Reason::Open { part, by: words(&process) };
    writers.into_iter().map(reason).collect()
}

/// What each of these processes has open for writing at this moment.
fn open_now(all: &[Used], processes: impl Iterator<Item = PathBuf>) -> BTreeSet<(String, PathBuf)> {
    let own = std::process::id().to_string();
    let mut found = BTreeSet::new();
    for process in processes.filter(|process| !process.ends_with(&own)) {
        for entry in fs::read_dir(process.join("fd")).into_iter().flatten().flatten() {
            let Some(used) = meant(all, &entry.path()) else { continue };
            let info = fs::read_to_string(process.join("fdinfo").join(entry.file_name()));
            if writes(&info.unwrap_or_default()) {
                found.insert((used.name.clone(), process.clone()));
            }
        }
    }
    found
}

/// Whether the access mode of `flags:`, an octal number in fdinfo (proc(5)), lets it write. What
/// cannot be read is taken for a yes.
fn writes(info: &str) -> bool {
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|text| u32::from_str_radix(text.trim(), 8).ok());
    flags.is_none_or(|flags| flags & 3 != 0)
}

fn processes() -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let number = |name: &std::ffi::OsStr| name.as_encoded_bytes().iter().all(u8::is_ascii_digit);
    entries.filter(move |entry| number(&entry.file_name())).map(|entry| entry.path())
}

/// A process in words.
fn words(process: &Path) -> String {
    let number = process.file_name().unwrap_or_default().to_string_lossy();
    let name = fact(process, "comm").unwrap_or_else(|| "?".into());
    format!("process {number} ({name})")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used() -> Vec<Used> {
        let used =
            |name: &str, number| Used { name: name.into(), number, folder: "".into(), below: None };
        vec![used("sdb", rustix::fs::makedev(8, 16)), used("sdb1", rustix::fs::makedev(8, 17))]
    }

    #[test]
    fn a_mount_is_found_by_its_number_wherever_it_is() {
        let table = "22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n\
                     40 22 8:17 / /my\\040disk rw - xfs /dev/gone rw\n\
                     41 22 8:170 / /other rw - xfs /dev/sdk10 rw\n";
        assert_eq!(mounts_in(table, &used()), [("sdb1".to_string(), "/my disk".to_string())]);
    }

    #[test]
    fn holders_are_told_by_what_they_are() {
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
            holders(folder.path()),
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
        assert_eq!(paths(blocks.path(), "sda"), ["sdc"]);
        for alone in ["sdb", "nvme0n1", "loop0"] {
            assert_eq!(paths(blocks.path(), alone), [""; 0], "{alone}");
        }
    }

    #[test]
    fn a_reader_is_told_from_a_writer() {
        assert!(!writes("pos:\t0\nflags:\t0100000\nmnt_id:\t5\n"));
        assert!(writes("pos:\t0\nflags:\t0100001\n"));
        assert!(writes("pos:\t0\nflags:\t02100002\n"));
        assert!(writes(""), "what cannot be read");
    }
}
