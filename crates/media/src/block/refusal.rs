//! Reasons and errors for which a drive is not erased.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use fsdyno_record::Bytes;
use fsdyno_record::shell::quote;

use super::layout::{DATA_START, MIN_DRIVE_SIZE};
use super::signature::Signature;

/// A reason to refuse erasing a drive. `part` is the name of the drive or of its partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It is mounted.
    Mounted {
        /// The mounted device.
        part: String,
        /// The mount point.
        at: String,
        /// A process that sees the mount, if this one does not.
        by: Option<String>,
    },
    /// It is used as swap.
    Swap {
        /// The device in use.
        part: String,
    },
    /// Another device or a file system of several devices uses it.
    Held {
        /// The device in use.
        part: String,
        /// A description of the user.
        by: String,
    },
    /// Another device is the same drive (multipath).
    Path {
        /// The name of the other device.
        other: String,
    },
    /// A process has it open for writing.
    Open {
        /// The open device.
        part: String,
        /// The process.
        by: String,
    },
    /// The kernel reports that it is in use, but the user is not visible from here.
    Busy,
    /// Another fsdyno has claimed it.
    Working,
    /// A process has locked it (flock(2)).
    Locked,
    /// It has partitions.
    Partitions(Vec<String>),
    /// It has signatures.
    Signed(Vec<Signature>),
    /// There is a signature at a common start of a first partition, but no table.
    Lost {
        /// The signature.
        found: Signature,
        /// Its position.
        at: Bytes,
    },
    /// It has fsdyno's mark, but the data part has contents different from those that fsdyno left.
    ForeignContents {
        /// The signature found.
        found: Signature,
        /// The contents according to the mark.
        left: String,
    },
    /// It is read-only.
    ReadOnly,
    /// It is too small.
    TooSmall {
        /// Its size.
        size: Bytes,
    },
    /// It is not a drive but is mapped onto others.
    Mapping(&'static str),
    /// It has no serial number to confirm.
    NoSerial,
    /// The kernel supports no partitions on it, so it cannot be claimed.
    NoParts,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Mounted { part, at, by: None } if at == "/" => {
                write!(f, "{part} is mounted at /, so this system runs from it")
            }
            Reason::Mounted { part, at, by: None } => {
                write!(f, "{part} is mounted at {at} (if it is not needed there: umount {at})")
            }
            Reason::Mounted { part, at, by: Some(by) } => {
                write!(f, "{part} is mounted at {at} in the mount namespace of {by}")
            }
            Reason::Swap { part } => {
                write!(f, "{part} is in use as swap (swapoff /dev/{part} ends that)")
            }
            Reason::Held { part, by } => write!(f, "{part} is in use by {by}"),
            Reason::Path { other } => write!(
                f,
                "{other} has the same WWID, so it may be another path to the same drive (multipath), \
                 whose users are not visible here"
            ),
            Reason::Open { part, by } => write!(f, "{part} is open for writing in {by}"),
            Reason::Busy => f.write_str(
                "the kernel reports that it is in use, but the user is not visible from here \
                 (another mount namespace or container, or a file system of several devices)",
            ),
            Reason::Working => f.write_str("another fsdyno is using it"),
            Reason::Locked => f.write_str("another program has locked it (lslocks shows which)"),
            Reason::Partitions(names) => write!(f, "it has partitions: {}", names.join(", ")),
            Reason::Signed(found) => {
                let found: Vec<String> = found.iter().map(ToString::to_string).collect();
                write!(
                    f,
                    "it has signatures that are not fsdyno's: {} (if none of them is \
                     needed, remove them yourself with wipefs)",
                    found.join(", ")
                )
            }
            Reason::Lost { found, at } => write!(
                f,
                "{found} begins at byte {}, where a first partition may begin, but there is no \
                 table: it may have been lost (if none of it is needed, overwrite the drive's \
                 first 34 MiB yourself)",
                at.0
            ),
            Reason::ForeignContents { found, left } => write!(
                f,
                "{found} begins at 1 MiB, which is not what fsdyno left there ({left}) (if nothing \
                 of it is needed, overwrite its first mebibytes yourself)"
            ),
            Reason::ReadOnly => f.write_str("it is read-only"),
            Reason::TooSmall { size } => {
                write!(f, "it has {size}; at least {MIN_DRIVE_SIZE} are needed")
            }
            Reason::Mapping(kind) => {
                write!(f, "it is {kind}, not a drive; name a whole drive (lsblk lists them)")
            }
            Reason::NoSerial => f.write_str("it has no serial number to confirm"),
            Reason::NoParts => f.write_str("the kernel supports no partitions on it"),
        }
    }
}

/// The reason why a drive is not used.
#[derive(Debug, thiserror::Error)]
pub enum BlockError {
    /// The path does not exist.
    #[error("'{}' does not exist; lsblk lists the drives", .0.display())]
    Missing(PathBuf),
    /// It is not a block device.
    #[error("'{}' is not a block device; name a whole drive such as /dev/disk/by-id/ata-...", .0.display())]
    NotADevice(PathBuf),
    /// It is a partition.
    #[error(
        "'{}' is a partition, and fsdyno uses whole drives only; name {whole} if nothing on it is \
         needed", .path.display()
    )]
    Partition {
        /// The path as given.
        path: PathBuf,
        /// The whole drive.
        whole: String,
    },
    /// This user has no permission.
    #[error("no permission to format '{}': {}", .0.display(), permission())]
    NotAllowed(PathBuf),
    /// The path now refers to a different device.
    #[error("'{}' was {former} and is now {current}; nothing was written", .path.display())]
    Changed {
        /// The path as given.
        path: PathBuf,
        /// The former device.
        former: String,
        /// The current device.
        current: String,
    },
    /// There are reasons to refuse.
    #[error("'{}' ({what}) is not erased: {}", .path.display(), join_reasons(.reasons))]
    Refused {
        /// The path as given.
        path: PathBuf,
        /// Its description.
        what: String,
        /// All reasons.
        reasons: Vec<Reason>,
    },
    /// A killed fsdyno left its partitions, and one of them now has different contents.
    #[error("{}", foreign_message(.path, .part, .serial, .found))]
    Foreign {
        /// The drive.
        path: PathBuf,
        /// The partition with the contents.
        part: PathBuf,
        /// The drive's serial number.
        serial: String,
        /// The signature of the contents.
        found: String,
    },
    /// There is no reason to refuse, but the user has not confirmed it.
    #[error("{}", confirm(.path, .what, *.known, .given.as_deref(), .serial))]
    Erase {
        /// The path as given.
        path: PathBuf,
        /// Its description.
        what: String,
        /// True if it has fsdyno's mark.
        known: bool,
        /// The serial number given.
        given: Option<String>,
        /// The correct serial number.
        serial: String,
    },
    /// A tool is missing.
    #[error(
        "{0}, which identifies the contents of a drive, is missing; apt-get install util-linux"
    )]
    NoTool(&'static str),
    /// A tool failed.
    #[error("{tool} cannot identify the contents of the drive, so it is not erased: {output}")]
    Tool {
        /// The tool.
        tool: &'static str,
        /// The last line of its output.
        output: String,
    },
    /// A system call failed.
    #[error("failed to {what} '{}': {source}", .path.display())]
    Io {
        /// The attempted action.
        what: &'static str,
        /// The path.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
}

impl BlockError {
    pub(super) fn io(
        what: &'static str,
        path: impl AsRef<Path>,
        source: impl Into<io::Error>,
    ) -> BlockError {
        BlockError::Io { what, path: path.as_ref().into(), source: source.into() }
    }
}

/// Returns the remedy for a missing permission.
fn permission() -> &'static str {
    match rustix::process::geteuid().is_root() {
        true => "even root lacks it here, as in a container; run it on the host itself",
        false => "run the same command with sudo",
    }
}

fn join_reasons(reasons: &[Reason]) -> String {
    reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Explains a partition that is left in place: the commands to inspect it, to rescue it, and to give it up.
fn foreign_message(path: &Path, part: &Path, serial: &str, found: &str) -> String {
    let (path, part) = (path.display(), part.display());
    format!(
        "the two partitions of '{path}' ({serial}) are not removed: {part} holds {found}, which may not be \
         fsdyno's; to inspect it without writing: mount -o ro,norecovery {part} /mnt (ext3, ext4, xfs, btrfs, \
         nilfs2) or -o ro; if it is needed, copy it to another drive, or remove only the \
         partitions (delpart {path} 1; delpart {path} 2): it is then on {path} from byte {DATA_START} on; if \
         none of it is needed: wipefs --all {part}, then fsdyno doctor --clean"
    )
}

fn confirm(path: &Path, what: &str, known: bool, given: Option<&str>, serial: &str) -> String {
    let holds = match known {
        true => "fsdyno has used it before",
        false => "it has no signature and no partition table, and fsdyno has not used it before",
    };
    let mismatch = given.map_or_else(String::new, |given| {
        // A loop device is confirmed by the path of its file.
        let what = match serial.starts_with('/') {
            true => "the path of its backing file",
            false => "its serial number",
        };
        format!("; --erase {} is not {what}", quote(given))
    });
    format!(
        "'{}' is {what}; {holds}{mismatch}; all data on it will be lost; to confirm, add --erase {}",
        path.display(),
        quote(serial)
    )
}
