//! The catalog: one TOML file per file system, in one ordered table.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use fsdyno_record::plan::{FeatureWord, PoolPlan};
use fsdyno_record::{Bytes, suggest};
use serde::Deserialize;

use crate::foreign::foreign_hint;
use crate::known::Known;
use crate::sizing::{Sizing, size};
use crate::{Guarantee, SpecError, version};

/// All file systems, in the order of `fsdyno list filesystems`: the ext family by age, then the others by use, then
/// those without a device or outside the kernel. To add one, add its file and a row here.
const FILES: &[(&str, &str)] = &[
    ("ext2", include_str!("../../../catalog/filesystems/ext2.toml")),
    ("ext3", include_str!("../../../catalog/filesystems/ext3.toml")),
    ("ext4", include_str!("../../../catalog/filesystems/ext4.toml")),
    ("xfs", include_str!("../../../catalog/filesystems/xfs.toml")),
    ("btrfs", include_str!("../../../catalog/filesystems/btrfs.toml")),
    ("bcachefs", include_str!("../../../catalog/filesystems/bcachefs.toml")),
    ("zfs", include_str!("../../../catalog/filesystems/zfs.toml")),
    ("reiserfs", include_str!("../../../catalog/filesystems/reiserfs.toml")),
    ("jfs", include_str!("../../../catalog/filesystems/jfs.toml")),
    ("f2fs", include_str!("../../../catalog/filesystems/f2fs.toml")),
    ("nilfs2", include_str!("../../../catalog/filesystems/nilfs2.toml")),
    ("vfat", include_str!("../../../catalog/filesystems/vfat.toml")),
    ("exfat", include_str!("../../../catalog/filesystems/exfat.toml")),
    ("ntfs3", include_str!("../../../catalog/filesystems/ntfs3.toml")),
    ("reiser4", include_str!("../../../catalog/filesystems/reiser4.toml")),
    ("tmpfs", include_str!("../../../catalog/filesystems/tmpfs.toml")),
    ("overlayfs", include_str!("../../../catalog/filesystems/overlayfs.toml")),
    ("nfs", include_str!("../../../catalog/filesystems/nfs.toml")),
    ("smb", include_str!("../../../catalog/filesystems/smb.toml")),
    ("fuse2fs", include_str!("../../../catalog/filesystems/fuse2fs.toml")),
    ("fuse", include_str!("../../../catalog/filesystems/fuse.toml")),
    ("raw", include_str!("../../../catalog/filesystems/raw.toml")),
];

/// One file system: how it is made, mounted, inspected and checked.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filesystem {
    /// The name in specs.
    pub name: String,
    /// One line for `fsdyno list`.
    pub about: String,
    /// The first Linux release that has it.
    pub since: String,
    /// The first release with which the lab can use it, if that is a later release.
    pub lab: Option<InLab>,
    /// The last Linux release that has it; `None` if current releases still have it.
    pub until: Option<String>,
    /// A kernel that has it, to be requested if the default one does not: a Debian series (`6.12`), or a full release.
    pub kernel: Option<String>,
    /// A hint for getting a kernel that has it, if no distribution's kernel does.
    pub kernel_hint: Option<String>,
    /// Its backing.
    #[serde(default)]
    pub lies_on: Backing,
    /// Kernel modules to load, before their dependencies are resolved.
    pub modules: Vec<String>,
    /// The Debian and Ubuntu package of its tools, or empty if it needs none.
    #[serde(default)]
    pub package: String,
    /// All programs that a venue must have: those of mkfs, mount, check and features.
    #[serde(default)]
    pub tools: Vec<String>,
    /// Packages, from any Debian suite, that provide `tools` and all their libraries. A host without these tools gets
    /// them in the lab's cache.
    #[serde(default)]
    pub downloaded: Vec<String>,
    /// Files that the tools read. If the host has them, they are copied into the lab's guest and are
    /// part of the lab's identity.
    #[serde(default)]
    pub files: Vec<String>,
    /// Additional files that the tools read in the guest, identical on every host: path and contents.
    #[serde(default)]
    pub own_files: BTreeMap<String, String>,
    /// A command that prints the version of mkfs, on standard output or error, or empty if there is none.
    #[serde(default)]
    pub version: Vec<String>,
    /// The minimum size of a device that mkfs accepts with its defaults.
    #[serde(default, deserialize_with = "size")]
    pub minimum_size: Bytes,
    /// The maximum length of a file name, in bytes.
    pub longest_name: usize,
    /// Its magic number in statfs(2); `None` if a different file system has the same.
    pub magic: Option<u64>,
    /// Its colour in reports, an index into the palette; `None` if its name determines it.
    pub colour: Option<usize>,
    /// The way to read the locations of its structures; `None` if there is none.
    pub map: Option<MapFormat>,
    /// Programs of the package other than `tools`.
    #[serde(default)]
    pub more_tools: Vec<String>,
    /// The durability guarantee in a power cut, with the repair commands; `None` if it cannot be crash-tested.
    pub guarantee: Option<Guarantee>,
    /// Environment of all its commands, in addition to `PATH`.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The mkfs command, or empty if there is none.
    #[serde(default)]
    pub mkfs: Mkfs,
    /// The way to mount it.
    pub mount: Mount,
    /// The check command, or empty if there is none.
    #[serde(default)]
    pub check: Check,
    /// The way to read back its features in effect.
    #[serde(default)]
    pub features: Features,
    /// Missing capabilities → the reason: `op link` for a kind of op, `workload maildir` for a workload, `overlayfs`
    /// for being its lower file system. Work that needs one is refused before it begins.
    #[serde(default)]
    pub lacks: BTreeMap<String, String>,
    /// Options that give up durability, so that acknowledged work may be lost in a power cut → the reason: `mount
    /// nobarrier` for a mount option, `mount barrier=0` for one with a value, `-O sync=disabled` for an mkfs option,
    /// `always` for the file system itself.
    #[serde(default)]
    pub gives_up_durability: BTreeMap<String, String>,
    /// The way to put its journal or log on a second disk; `None` if that is impossible.
    pub journal: Option<Journal>,
    /// The file system whose `known` table this one shares, because they share mkfs and driver.
    pub known_as: Option<String>,
    /// The known options.
    pub(crate) known: Option<Known>,
    /// Options that are allowed on this host only on the command line, not in files → the reason: they load code, name
    /// something outside the trial, or may stop the kernel. A name in a list is written `-d name`, a mount option
    /// `mount modules`.
    #[serde(default)]
    pub only_typed: BTreeMap<String, String>,
    /// Notes for the user.
    pub notes: String,
    /// Size limits.
    pub limits: Option<Limits>,
}

/// The first Linux release with which the lab can use a file system.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InLab {
    /// The release.
    pub since: String,
    /// The reason why the lab cannot use it with earlier releases.
    pub why: String,
}

/// Size limits, as text because most depend on options.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// The maximum size of a file.
    pub file: String,
    /// The maximum size of a file system.
    pub filesystem: String,
    /// The maximum number of files, or what limits it.
    pub files: String,
    /// The maximum number of entries in a directory, if the format limits it.
    pub directory: Option<String>,
    /// The minimum space that a file or directory takes, with the options that make it smallest: its inode or
    /// equivalent. 0 if unknown.
    #[serde(default, deserialize_with = "size")]
    pub smallest_file: Bytes,
}

/// A reader of the structures of file systems, through their own tools (`why::map`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MapFormat {
    /// ext2, ext3 and ext4.
    Ext,
    /// XFS.
    Xfs,
    /// Btrfs.
    Btrfs,
    /// ReiserFS.
    Reiserfs,
}

/// The backing of a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backing {
    /// A device, formatted for each trial.
    #[default]
    Device,
    /// Memory: no device; unmounting loses all data.
    Memory,
    /// Another file system, named in the spec.
    Filesystem,
    /// A device, used by the user's own command, which the spec contains.
    Command,
}

/// The mkfs command of a file system.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mkfs {
    /// The command; `{options}` is replaced by the user's options.
    pub argv: Vec<String>,
    /// Options that apply conditionally.
    #[serde(default)]
    pub add: Vec<Addition>,
}

/// Options of mkfs that apply conditionally.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Addition {
    /// The options.
    pub options: Vec<String>,
    /// True if they apply only in the lab, where unwritten blocks of the disk read as zeros.
    #[serde(default)]
    pub lab: bool,
    /// True if they apply only to a single disk, not to an array.
    #[serde(default)]
    pub one_disk: bool,
    /// The first version of mkfs that supports them.
    pub since: Option<String>,
}

/// The way to mount a file system.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mount {
    /// The type argument of mount(2).
    #[serde(rename = "type")]
    pub kind: String,
    /// Options before the user's, comma-separated.
    #[serde(default)]
    pub options: String,
    /// The command that mounts it instead of mount(2), for a file system in user space (FUSE): `{mount}` is
    /// the mount point, `{options}` is replaced by `-o` and the mount options.
    #[serde(default)]
    pub command: Vec<String>,
    /// The mount options of this command, if they differ from those of `known`.
    #[serde(default)]
    pub known: Vec<String>,
    /// The pool that it is mounted from, if any.
    pub pool: Option<PoolPlan>,
    /// True if the first mount does extra work; it is then mounted once before a trial.
    #[serde(default)]
    pub settles: bool,
}

/// The way to check a file system without repairing it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// The command.
    pub argv: Vec<String>,
    /// True if the check nevertheless writes to the device; it must then not precede a measurement.
    #[serde(default)]
    pub writes: bool,
    /// Exit codes that mean "clean".
    pub clean: Vec<i32>,
    /// Exit code → its meaning.
    pub codes: BTreeMap<String, String>,
}

/// The way to request, make, mount, inspect and check a journal or log on a second disk, `{journal}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Journal {
    /// The option of `{journal}` in a spec: an option of mkfs, or option and name such as `-J device`.
    pub at: String,
    /// The option for its size, whether on a second disk or not.
    pub size: Option<Sizing>,
    /// The command that makes it, before mkfs, or empty if mkfs makes it. `{options}` is replaced by the options of
    /// `shared`.
    #[serde(default)]
    pub make: Vec<String>,
    /// Options of mkfs that must be the same for the file system and its journal, with their default values.
    #[serde(default)]
    pub shared: BTreeMap<String, String>,
    /// Options of mkfs that conflict with it → the reason.
    #[serde(default)]
    pub excludes: BTreeMap<String, String>,
    /// Mount options that it needs, comma-separated.
    #[serde(default)]
    pub mount: String,
    /// Options that the check needs.
    pub check: Vec<String>,
    /// The way to read back its own features, if the file system's do not include them.
    pub features: Option<Features>,
}

/// The way to read back the features in effect; see [`crate::features`].
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Features {
    /// The command, or empty if mkfs itself prints them.
    pub argv: Vec<String>,
    /// The keys to record from its output.
    pub keys: Vec<String>,
    /// Features that no tool prints, read from the device.
    #[serde(default)]
    pub words: Vec<FeatureWord>,
    /// Features whose product is the size in bytes of the journal in use.
    #[serde(default)]
    pub journal_bytes: Vec<String>,
}

/// An unknown file system name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no file system '{name}'; {hint}")]
pub struct Unknown {
    /// The requested name.
    pub name: String,
    /// The nearest valid name, or all names.
    pub hint: String,
}

/// Returns the names, in the order of the table.
pub fn names() -> Vec<&'static str> {
    FILES.iter().map(|(name, _)| *name).collect()
}

/// Returns all file systems, in the order of the table.
pub fn all() -> &'static [Filesystem] {
    static ALL: OnceLock<Vec<Filesystem>> = OnceLock::new();
    // The files are part of the program, and a test parses each of them.
    ALL.get_or_init(|| FILES.iter().filter_map(|(_, text)| toml::from_str(text).ok()).collect())
}

/// Returns the file with this name, including its comments, for `fsdyno show`.
///
/// # Errors
/// [`Unknown`], with the nearest valid name.
pub fn source(kind: &str) -> Result<&'static str, Unknown> {
    let found = FILES.iter().find(|(name, _)| *name == kind);
    found.map(|(_, text)| *text).ok_or_else(|| unknown(kind))
}

/// Returns the file system with this name.
///
/// # Errors
/// [`Unknown`], with the nearest valid name.
pub fn get(kind: &str) -> Result<&'static Filesystem, Unknown> {
    all().iter().find(|filesystem| filesystem.name == kind).ok_or_else(|| unknown(kind))
}

fn unknown(kind: &str) -> Unknown {
    let hint = foreign_hint(kind).unwrap_or_else(|| suggest::hint(kind, names()));
    Unknown { name: kind.to_string(), hint }
}

impl Filesystem {
    /// Returns the known options: its own, or those of `known_as`.
    pub(crate) fn known(&self) -> &Known {
        static NONE: OnceLock<Known> = OnceLock::new();
        let shared = || get(self.known_as.as_deref()?).ok()?.known.as_ref();
        self.known.as_ref().or_else(shared).unwrap_or_else(|| NONE.get_or_init(Known::default))
    }

    /// Returns the options that give up durability: its own, or those of `known_as`.
    pub(crate) fn durability_losses(&self) -> &BTreeMap<String, String> {
        let shared = self.known_as.as_deref().and_then(|name| get(name).ok());
        &shared.unwrap_or(self).gives_up_durability
    }

    /// Reports whether it runs in user space.
    pub fn in_user_space(&self) -> bool {
        !self.mount.command.is_empty() || self.lies_on == Backing::Command
    }

    /// Checks that a Linux release (`uname -r`) can support it.
    ///
    /// # Errors
    /// It was added in a later release or removed in an earlier one, or the lab cannot use it with this release.
    pub fn check_kernel(&self, release: &str) -> Result<(), SpecError> {
        let name = &self.name;
        if !version::at_least(release, &self.since) {
            let problem = format!("Linux {release} has no {name} yet");
            let hint = self.kernels().unwrap_or_else(|| format!("use {} or later", self.since));
            return Err(SpecError::new(problem, hint));
        }
        if let Some(InLab { since, why }) =
            self.lab.as_ref().filter(|lab| !version::at_least(release, &lab.since))
        {
            let problem = format!("the lab has no {name} with Linux {release}: {why}");
            let kernel = self.kernel.as_ref().unwrap_or(since);
            let hint = format!("the lab needs Linux {since} or later for it; --kernel {kernel}");
            return Err(SpecError::new(problem, hint));
        }
        match &self.until {
            Some(last) if version::later_series(release, last) => {
                let problem = format!("Linux {release} no longer has {name}");
                let hint = format!("use {last} or earlier with --kernel");
                Err(SpecError::new(problem, self.kernels().unwrap_or(hint)))
            }
            _ => Ok(()),
        }
    }

    /// Returns the kernels that have it, with a Debian kernel to request, if Debian's default kernel does not: `it is
    /// in kernels 6.7 to 6.17; --kernel 6.16`.
    pub fn kernels(&self) -> Option<String> {
        let (kernel, since) = (self.kernel.as_deref()?, &self.since);
        let range = match &self.until {
            Some(last) => format!("kernels {since} to {last}"),
            None => format!("kernels since {since}, if configured"),
        };
        Some(format!("it is in {range}; --kernel {kernel}"))
    }
}

impl Guarantee {
    /// Returns the guarantee of a kind; `None` if it cannot be crash-tested.
    pub fn of(kind: &str) -> Option<&'static Guarantee> {
        get(kind).ok()?.guarantee.as_ref()
    }

    /// Returns the kinds that can be crash-tested, in the order of the catalog.
    pub fn kinds() -> impl Iterator<Item = &'static str> {
        let tested = all().iter().filter(|filesystem| filesystem.guarantee.is_some());
        tested.map(|filesystem| filesystem.name.as_str())
    }
}

#[cfg(test)]
mod tests;
