//! The commands that create, describe and stop an md array.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fsdyno_record::plan::{MD_DATA_OFFSET, RaidPlan};

/// The device of the lab's only array.
pub const DEVICE: &str = "/dev/md0";

/// The program that creates and describes arrays.
pub const TOOL: &str = "mdadm";

/// The Debian and Ubuntu package that provides it.
pub const PACKAGE: &str = "mdadm";

/// The option for no write-intent bitmap.
const NO_BITMAP: &str = "--bitmap=none";

/// The kernel's folder of block devices.
const BLOCKS: &str = "/sys/block";

/// The keys of `mdadm --detail` that are recorded.
const KEYS: &[&str] = &[
    "Version",
    "Raid Level",
    "Raid Devices",
    "Array Size",
    "Used Dev Size",
    "Layout",
    "Chunk Size",
    "Consistency Policy",
];

/// Returns the command that creates the array `{device}` from these disks; `{uuid:array}` is drawn from the
/// seed.
///
/// Nothing is resynchronised (fresh disks read as zeros, for which mirrors and parity are correct), and there is no
/// write-intent bitmap, so that nothing runs during the trial. `--run` suppresses mdadm's questions.
pub fn create(raid: RaidPlan, disks: &[String]) -> Vec<String> {
    let arguments = [
        TOOL,
        "--create",
        "{device}",
        "--run",
        "--metadata=1.2",
        "--assume-clean",
        NO_BITMAP,
        "--homehost=lab",
        "--name=array",
        "--uuid={uuid:array}",
    ];
    // RAID 0 has no bitmap, and mdadm refuses the option.
    let arguments = arguments.into_iter().filter(|word| raid.level != 0 || *word != NO_BITMAP);
    let mut argv: Vec<String> = arguments.map(String::from).collect();
    argv.push(format!("--data-offset={}K", MD_DATA_OFFSET.0 / 1024));
    argv.push(format!("--level={}", raid.level));
    argv.extend(raid.chunk.map(|chunk| format!("--chunk={}K", chunk.0 / 1024)));
    argv.push(format!("--raid-devices={}", raid.disks));
    argv.extend(disks.iter().cloned());
    argv
}

/// Returns the command that describes an array.
pub fn detail(device: &str) -> Vec<String> {
    [TOOL, "--detail", device].map(String::from).to_vec()
}

/// Returns the command that stops an array; the contents of its disks do not change.
pub fn stop(device: &str) -> Vec<String> {
    [TOOL, "--stop", device].map(String::from).to_vec()
}

/// Returns the nodes of this machine's arrays whose members are all among these devices.
pub fn arrays_over(members: &[PathBuf]) -> Vec<PathBuf> {
    find_arrays(Path::new(BLOCKS), members)
}

/// Implements [`arrays_over`]; the device of a stopped array has no members and does not count.
fn find_arrays(blocks: &Path, members: &[PathBuf]) -> Vec<PathBuf> {
    let blocks = std::fs::read_dir(blocks).into_iter().flatten().flatten();
    let arrays = blocks.filter(|entry| entry.path().join("md").exists());
    let matching = arrays.filter(|entry| {
        let slaves = std::fs::read_dir(entry.path().join("slaves")).into_iter().flatten().flatten();
        let mut slaves = slaves.map(|slave| Path::new("/dev").join(slave.file_name())).peekable();
        slaves.peek().is_some() && slaves.all(|slave| members.contains(&slave))
    });
    let mut nodes: Vec<PathBuf> =
        matching.map(|entry| Path::new("/dev").join(entry.file_name())).collect();
    nodes.sort();
    nodes
}

/// Returns the command that prints mdadm's version.
pub fn version() -> Vec<String> {
    [TOOL, "--version"].map(String::from).to_vec()
}

/// Returns the environment of these commands: without it, mdadm waits for udev, which the guest lacks.
pub fn env() -> BTreeMap<String, String> {
    [("MDADM_NO_UDEV", "1"), ("LC_ALL", "C")].map(|(k, v)| (k.to_string(), v.to_string())).into()
}

/// Parses the output of `mdadm --detail`, omitting dates.
pub fn parse_detail(output: &str) -> BTreeMap<String, String> {
    let keys: Vec<String> = KEYS.iter().map(ToString::to_string).collect();
    crate::features(output, &keys)
}

/// Returns the kernel module of a RAID level.
pub fn module(raid: RaidPlan) -> &'static str {
    match raid.level {
        0 => "raid0",
        1 => "raid1",
        // The module benchmarks parity algorithms at boot, for 1.6 virtual seconds.
        5 => "raid456",
        _ => "raid10",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chunk_is_mdadms_default_unless_given() {
        let disks = ["/dev/nbd0", "/dev/nbd1", "/dev/nbd2"].map(String::from);
        let line = |raid: &str| create(raid.parse().unwrap(), &disks).join(" ");
        assert!(line("5x3").ends_with(
            "--data-offset=1024K --level=5 --raid-devices=3 /dev/nbd0 /dev/nbd1 /dev/nbd2"
        ));
        assert!(line("5x3:64K").contains("--level=5 --chunk=64K --raid-devices=3 "));
        assert!(line("1x3").contains(" --bitmap=none ") && !line("0x3").contains("bitmap"));
    }

    #[test]
    fn an_array_is_returned_only_if_all_its_members_are_listed() {
        let blocks = tempfile::tempdir().unwrap();
        let array = |name: &str, slaves: &[&str]| {
            std::fs::create_dir_all(blocks.path().join(name).join("md")).unwrap();
            for slave in slaves {
                std::fs::create_dir_all(blocks.path().join(name).join("slaves").join(slave))
                    .unwrap();
            }
        };
        array("md119", &["loop1", "loop2"]);
        array("md127", &["loop2", "sda"]);
        array("md126", &["sdb", "sdc"]);
        array("md118", &[]);
        std::fs::create_dir_all(blocks.path().join("dm-0/slaves/loop1")).unwrap();
        let members = |names: &[&str]| -> Vec<PathBuf> {
            names.iter().map(|name| Path::new("/dev").join(name)).collect()
        };
        assert_eq!(find_arrays(blocks.path(), &members(&["loop1", "loop2"])), members(&["md119"]));
        assert!(find_arrays(blocks.path(), &members(&["loop1"])).is_empty());
        assert!(find_arrays(blocks.path(), &[]).is_empty());
    }

    #[test]
    fn the_output_of_mdadm_is_parsed_without_its_dates() {
        let output = "/dev/md0:\n           Version : 1.2\n     Creation Time : Wed Jan  1\n        \
                      Raid Level : raid5\n            Layout : left-symmetric\n        Chunk Size : 512K\n";
        let pairs = [
            ("Chunk Size", "512K"),
            ("Layout", "left-symmetric"),
            ("Raid Level", "raid5"),
            ("Version", "1.2"),
        ];
        let expected: BTreeMap<String, String> =
            pairs.map(|(key, value)| (key.to_string(), value.to_string())).into();
        assert_eq!(parse_detail(output), expected);
    }
}
