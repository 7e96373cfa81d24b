//! The catalog: one TOML file for each file system, in one ordered table.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use fsdyno_record::plan::FeatureWord;
use fsdyno_record::{Bytes, suggest};
use serde::{Deserialize, Deserializer};

use crate::journal_size::Sizing;
use crate::options::Known;
use crate::{SpecError, version};

/// Every file system in the order of `fsdyno list filesystems`: the ext family by age, then the
/// others by what is most in use, then what lies on no device or in no kernel. Adding one is adding
/// its file and its row here.
const FILES: &[(&str, &str)] = &[
    ("ext2", include_str!("../../../catalog/filesystems/ext2.toml")),
    ("ext3", include_str!("../../../catalog/filesystems/ext3.toml")),
    ("ext4", include_str!("../../../catalog/filesystems/ext4.toml")),
    ("xfs", include_str!("../../../catalog/filesystems/xfs.toml")),
    ("btrfs", include_str!("../../../catalog/filesystems/btrfs.toml")),
    ("reiserfs", include_str!("../../../catalog/filesystems/reiserfs.toml")),
    ("jfs", include_str!("../../../catalog/filesystems/jfs.toml")),
    ("f2fs", include_str!("../../../catalog/filesystems/f2fs.toml")),
    ("nilfs2", include_str!("../../../catalog/filesystems/nilfs2.toml")),
    ("vfat", include_str!("../../../catalog/filesystems/vfat.toml")),
    ("reiser4", include_str!("../../../catalog/filesystems/reiser4.toml")),
    ("tmpfs", include_str!("../../../catalog/filesystems/tmpfs.toml")),
    ("overlayfs", include_str!("../../../catalog/filesystems/overlayfs.toml")),
    ("fuse2fs", include_str!("../../../catalog/filesystems/fuse2fs.toml")),
    ("fuse", include_str!("../../../catalog/filesystems/fuse.toml")),
    ("raw", include_str!("../../../catalog/filesystems/raw.toml")),
];

/// One file system: how it is made, mounted, looked at and checked.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filesystem {
    /// Its name in specs.
    pub name: String,
    /// One line for `fsdyno list`.
    pub about: String,
    /// First Linux release that has it.
    pub since: String,
    /// Last Linux release that has it; none if it is still there.
    pub until: Option<String>,
    /// What brings a kernel that has it, where no distribution's has.
    pub kernel_hint: Option<String>,
    /// What it lies on.
    #[serde(default)]
    pub lies_on: Ground,
    /// Kernel modules to load, before their dependencies are resolved.
    pub modules: Vec<String>,
    /// The Debian and Ubuntu package that brings its tools; empty where it needs none.
    #[serde(default)]
    pub package: String,
    /// All programs that a venue must have: those of mkfs, mount, check and features.
    #[serde(default)]
    pub tools: Vec<String>,
    /// Files that the tools read; where the host has them, the lab's guest gets them too, and they
    /// are part of the lab's identity.
    #[serde(default)]
    pub files: Vec<String>,
    /// More files that the tools read in the guest: path and contents, the same on every host.
    #[serde(default)]
    pub own_files: BTreeMap<String, String>,
    /// A command that prints the version of mkfs, on standard output or error; empty where there is
    /// none.
    #[serde(default)]
    pub version: Vec<String>,
    /// Smallest device that mkfs takes with its own defaults.
    #[serde(default, deserialize_with = "size")]
    pub minimum_size: Bytes,
    /// Longest name of a file, in bytes.
    pub longest_name: usize,
    /// Environment of all its commands beside `PATH`.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// How it is made; no command where nothing is.
    #[serde(default)]
    pub mkfs: Mkfs,
    /// How it is mounted.
    pub mount: Mount,
    /// How it is checked; no command where nothing checks it.
    #[serde(default)]
    pub check: Check,
    /// How its features in effect are read back.
    #[serde(default)]
    pub features: Features,
    /// What it cannot do, in a sentence: `op link` for a kind of op, `workload maildir` for a workload,
    /// `overlayfs` for lying under one. Work that needs it is refused before it begins.
    #[serde(default)]
    pub lacks: BTreeMap<String, String>,
    /// What gives up durability, so that acknowledged work may be lost at a power cut, with the reason: `mount nobarrier`
    /// for a mount option, `mount barrier=0` for one with a value, `always` for the file system itself.
    #[serde(default)]
    pub gives_up_durability: BTreeMap<String, String>,
    /// How its journal or log is put on a second disk; none where it cannot be.
    pub journal: Option<Journal>,
    /// The file system whose `known` table this one shares: one mkfs and one driver serve both.
    pub known_as: Option<String>,
    /// The options there are.
    pub(crate) known: Option<Known>,
    /// Options that only whoever types the command may use on this host → why: they load code, name something
    /// outside of the trial, or may stop the kernel. A name in a list is written `-d name`, a mount option
    /// `mount modules`.
    #[serde(default)]
    pub only_typed: BTreeMap<String, String>,
    /// What a user should know, in prose.
    pub notes: String,
    /// How large it and what is in it can get.
    pub limits: Option<Limits>,
}

/// How large a file system and what is in it can get, in words: most limits depend on options.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// The largest file.
    pub file: String,
    /// The largest file system.
    pub filesystem: String,
    /// The most files, or what bounds them.
    pub files: String,
    /// The most that a directory holds, where the format bounds it.
    pub directory: Option<String>,
    /// What a file or directory takes at least, with the options that make it smallest: its inode, or what
    /// stands for one. 0 where it is not known.
    #[serde(default, deserialize_with = "size")]
    pub smallest_file: Bytes,
}

/// What a file system lies on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ground {
    /// A device, of which it is made anew.
    #[default]
    Device,
    /// Memory: there is no device, and an unmount loses all.
    Memory,
    /// Another file system, which its spec names.
    Filesystem,
    /// Whatever its own command makes of the device; the spec is that command.
    Command,
}

/// How a file system is made.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mkfs {
    /// The command; the user's options come where `{options}` stands.
    pub argv: Vec<String>,
    /// Options that hold under a condition.
    #[serde(default)]
    pub add: Vec<Addition>,
}

/// Options of mkfs that hold under a condition.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Addition {
    /// The options.
    pub options: Vec<String>,
    /// Only in the lab, where the disk reads zeros wherever nobody has written.
    #[serde(default)]
    pub lab: bool,
    /// Not on an array of disks.
    #[serde(default)]
    pub one_disk: bool,
    /// First version of mkfs that knows them.
    pub since: Option<String>,
}

/// How a file system is mounted.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mount {
    /// The type that mount(2) is given.
    #[serde(rename = "type")]
    pub kind: String,
    /// Options before the user's, comma-separated.
    #[serde(default)]
    pub options: String,
    /// The command that mounts it in place of mount(2), for a file system whose work a process does
    /// (FUSE): `{mount}` is where, and `-o` with the mount options comes where `{options}` stands.
    #[serde(default)]
    pub command: Vec<String>,
    /// The options that this command knows, where they are not those of `known`.
    #[serde(default)]
    pub known: Vec<String>,
    /// Whether the first mount of its life does work that no later one does, which a trial is spared.
    #[serde(default)]
    pub settles: bool,
}

/// How a file system is checked without repairing it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// The command.
    pub argv: Vec<String>,
    /// Whether it writes to the device even so; none of its writes may come before a measurement.
    #[serde(default)]
    pub writes: bool,
    /// Exit codes that mean "clean".
    pub clean: Vec<i32>,
    /// Exit code → what it means.
    pub codes: BTreeMap<String, String>,
}

/// How a journal or log on a second disk, `{journal}`, is asked for, made, mounted, looked at and
/// checked.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Journal {
    /// Where `{journal}` stands in a spec: an option of mkfs, or option and name such as `-J device`.
    pub at: String,
    /// How mkfs is told its size, on a second disk or not.
    pub size: Option<Sizing>,
    /// The command that makes it, before mkfs; none where mkfs does. The options of `shared` come
    /// where `{options}` stands.
    #[serde(default)]
    pub make: Vec<String>,
    /// Options of mkfs in which both must agree, with the value that is taken where the user gives
    /// none.
    #[serde(default)]
    pub shared: BTreeMap<String, String>,
    /// Options of mkfs that do not go with it → why.
    #[serde(default)]
    pub excludes: BTreeMap<String, String>,
    /// Mount options that go with it, comma-separated.
    #[serde(default)]
    pub mount: String,
    /// Options that the check then needs.
    pub check: Vec<String>,
    /// How its own features in effect are read back, where the file system's do not say them.
    pub features: Option<Features>,
}

/// How the features in effect are read back; see [`crate::features`].
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Features {
    /// The command; empty where mkfs itself prints them.
    pub argv: Vec<String>,
    /// What to keep of its output.
    pub keys: Vec<String>,
    /// What no tool prints, read from where the format keeps it.
    #[serde(default)]
    pub words: Vec<FeatureWord>,
    /// Features whose product is the size in bytes of the journal in use.
    #[serde(default)]
    pub journal_bytes: Vec<String>,
}

/// A name that the catalog does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no file system '{name}'; {hint}")]
pub struct Unknown {
    /// What was asked for.
    pub name: String,
    /// The nearest right name, or all names.
    pub hint: String,
}

/// The names, in the order of the table.
pub fn names() -> Vec<&'static str> {
    FILES.iter().map(|(name, _)| *name).collect()
}

/// Every file system, in the order of the table.
pub fn all() -> &'static [Filesystem] {
    static ALL: OnceLock<Vec<Filesystem>> = OnceLock::new();
    // The files are part of the program and a test reads each: none is ever left out here.
    ALL.get_or_init(|| FILES.iter().filter_map(|(_, text)| toml::from_str(text).ok()).collect())
}

/// The whole file of this name with its comments, for `fsdyno show`.
///
/// # Errors
/// [`Unknown`], with the nearest right name.
pub fn source(kind: &str) -> Result<&'static str, Unknown> {
    let found = FILES.iter().find(|(name, _)| *name == kind);
    found.map(|(_, text)| *text).ok_or_else(|| unknown(kind))
}

/// The file system of this name.
///
/// # Errors
/// [`Unknown`], with the nearest right name.
pub fn get(kind: &str) -> Result<&'static Filesystem, Unknown> {
    all().iter().find(|filesystem| filesystem.name == kind).ok_or_else(|| unknown(kind))
}

fn unknown(kind: &str) -> Unknown {
    let hint = foreign(kind).unwrap_or_else(|| suggest::hint(kind, names()));
    Unknown { name: kind.to_string(), hint }
}

/// File systems that there are and that are not in the catalog, with a spec that makes one by FUSE, where
/// there is one: no slip of the finger, and none of the names that look alike would be meant.
const FOREIGN: &[(&str, &str)] = &[
    ("ntfs", "fuse: mkfs.ntfs -Q -F {device} ; ntfs-3g {device} {mount}"),
    ("ntfs3", "fuse: mkfs.ntfs -Q -F {device} ; ntfs-3g {device} {mount}"),
    ("ntfs-3g", "fuse: mkfs.ntfs -Q -F {device} ; ntfs-3g {device} {mount}"),
    ("exfat", "fuse: mkfs.exfat {device} ; mount.exfat-fuse {device} {mount}"),
    ("zfs", ""),
    ("bcachefs", ""),
    ("ufs", ""),
    ("hfs", ""),
    ("hfsplus", ""),
    ("apfs", ""),
    ("udf", ""),
    ("gfs2", ""),
    ("ocfs2", ""),
    ("erofs", ""),
    ("squashfs", ""),
    ("nfs", ""),
    ("cifs", ""),
    ("smb", ""),
    ("ceph", ""),
    ("lustre", ""),
    ("glusterfs", ""),
    ("9p", ""),
    ("virtiofs", ""),
    ("ubifs", ""),
    ("minix", ""),
];

/// What to do about a file system that there is elsewhere.
pub fn foreign(kind: &str) -> Option<String> {
    let (name, fuse) = FOREIGN.iter().find(|(name, _)| *name == kind)?;
    Some(match *fuse {
        "" => format!("fsdyno does not make {name}; where one is mounted, --on DIR runs on it"),
        spec => format!("by FUSE there is: --fs '{spec}' (or --on DIR, where one is mounted)"),
    })
}

impl Filesystem {
    /// The options there are, its own or those of the file system that it is like.
    pub(crate) fn known(&self) -> &Known {
        static NONE: OnceLock<Known> = OnceLock::new();
        let shared = || get(self.known_as.as_deref()?).ok()?.known.as_ref();
        self.known.as_ref().or_else(shared).unwrap_or_else(|| NONE.get_or_init(Known::default))
    }

    /// What gives up durability, its own entries or those of the file system whose driver it shares.
    pub(crate) fn given_up(&self) -> &BTreeMap<String, String> {
        let shared = self.known_as.as_deref().and_then(|name| get(name).ok());
        &shared.unwrap_or(self).gives_up_durability
    }

    /// Whether a process does its work, and not the kernel.
    pub fn in_user_space(&self) -> bool {
        !self.mount.command.is_empty() || self.lies_on == Ground::Command
    }

    /// Whether Linux of this release (`uname -r`) can have it at all.
    ///
    /// # Errors
    /// If it came later or has gone.
    pub fn check_kernel(&self, release: &str) -> Result<(), SpecError> {
        let name = &self.name;
        if !version::at_least(release, &self.since) {
            let problem = format!("Linux {release} has no {name} yet");
            return Err(SpecError::new(problem, format!("take {} or later", self.since)));
        }
        match &self.until {
            Some(last) if version::later_series(release, last) => {
                let problem = format!("Linux {release} no longer has {name}");
                Err(SpecError::new(problem, format!("take {last} or earlier with --kernel")))
            }
            _ => Ok(()),
        }
    }
}

pub(crate) fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

pub(crate) fn some_size<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Bytes>, D::Error> {
    size(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_file_is_read_and_bears_its_own_name() {
        for (name, text) in FILES {
            let filesystem: Filesystem =
                toml::from_str(text).unwrap_or_else(|error| panic!("{name}.toml: {error}"));
            assert_eq!(filesystem.name, *name);
        }
        assert_eq!(all().len(), FILES.len());
    }

    #[test]
    fn no_file_in_the_catalog_folder_is_forgotten() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../catalog/filesystems");
        let files: BTreeSet<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        let listed = names().into_iter().map(|name| format!("{name}.toml")).collect();
        assert_eq!(files, listed, "left: catalog/filesystems, right: FILES in catalog.rs");
    }

    #[test]
    fn every_command_begins_with_a_tool_that_is_listed() {
        for filesystem in all() {
            let commands =
                [&filesystem.mkfs.argv, &filesystem.check.argv, &filesystem.features.argv];
            let journal = filesystem.journal.as_ref();
            let outer = journal.iter().flat_map(|journal| {
                [journal.make.first(), journal.features.as_ref().and_then(|f| f.argv.first())]
            });
            let own = commands.iter().map(|argv| argv.first());
            let own = own.chain([filesystem.mount.command.first()]);
            for program in own.chain(outer).flatten() {
                assert!(filesystem.tools.contains(program), "{}: {program}", filesystem.name);
            }
            let clean = &filesystem.check.clean;
            assert!(
                clean.iter().all(|code| filesystem.check.codes.contains_key(&code.to_string()))
            );
        }
    }

    #[test]
    fn words_of_features_fit_their_field_and_the_journals_size_is_a_product_of_what_is_read() {
        for filesystem in all() {
            let Features { keys, words, journal_bytes, .. } = &filesystem.features;
            assert!(words.iter().all(|word| (1..=32).contains(&word.bits)), "{}", filesystem.name);
            for key in journal_bytes {
                let known = keys.contains(key) || words.iter().any(|word| word.key == *key);
                assert!(known, "{}: nothing reads '{key}'", filesystem.name);
            }
        }
    }

    #[test]
    fn a_wrong_name_gets_the_nearest_right_one() {
        assert_eq!(get("xfs").unwrap().name, "xfs");
        assert!(source("xfs").unwrap().contains("name = \"xfs\""));
        let error = get("riserfs").unwrap_err().to_string();
        assert_eq!(error, "there is no file system 'riserfs'; did you mean 'reiserfs'?");
        assert!(get("postgresql").unwrap_err().hint.contains("ext2, ext3, ext4, xfs"));
    }

    #[test]
    fn what_a_file_system_lacks_is_said_of_things_that_there_are() {
        use fsdyno_record::OpKind;
        for filesystem in all() {
            for (what, why) in &filesystem.lacks {
                let known = match what.split_once(' ') {
                    Some(("op", op)) => OpKind::ALL.iter().any(|kind| kind.name() == op),
                    Some(("workload", name)) => !name.is_empty(),
                    _ => what == "overlayfs",
                };
                assert!(known && !why.is_empty(), "{}: {what}", filesystem.name);
            }
        }
    }

    #[test]
    fn only_what_lies_on_a_device_is_made_of_one() {
        for filesystem in all() {
            let device = filesystem.lies_on == Ground::Device;
            // Raw is the device itself: nothing makes it.
            let made = device && !filesystem.mount.kind.is_empty();
            assert_eq!(made, !filesystem.mkfs.argv.is_empty(), "{}", filesystem.name);
            assert_eq!(device, filesystem.minimum_size > Bytes(0), "{}", filesystem.name);
            assert_eq!(filesystem.package.is_empty(), filesystem.tools.is_empty());
        }
        assert!(get("fuse2fs").unwrap().in_user_space() && !get("ext4").unwrap().in_user_space());
    }

    #[test]
    fn what_has_a_format_has_limits() {
        let without = all().iter().filter(|filesystem| filesystem.limits.is_none());
        let without: Vec<&str> = without.map(|filesystem| filesystem.name.as_str()).collect();
        // A command's are those of what it mounts, and a device's is its size.
        assert_eq!(without, ["fuse", "raw"]);
    }

    #[test]
    fn reiserfs_ends_with_linux_6_12() {
        let reiserfs = get("reiserfs").unwrap();
        assert_eq!(reiserfs.check_kernel("6.12.38+deb12-amd64"), Ok(()));
        assert!(reiserfs.check_kernel("6.13.0").unwrap_err().problem.contains("no longer"));
        assert!(get("ext4").unwrap().check_kernel("2.4.18").is_err());
    }
}
