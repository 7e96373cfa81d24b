//! Why a drive is not erased.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use fsdyno_record::Bytes;
use fsdyno_record::shell::quote;

use super::layout::{DATA_START, LEAST};
use super::signature::Signature;

/// One thing that speaks against erasing a drive. `part` is the name of the drive or of its partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It is in somebody's tree of directories.
    Mounted {
        /// What is mounted.
        part: String,
        /// Where.
        at: String,
        /// The process that sees it there, where this one does not.
        by: Option<String>,
    },
    /// Memory is swapped to it.
    Swap {
        /// What is in use.
        part: String,
    },
    /// Another device or a file system of several devices lies on it.
    Held {
        /// What is held.
        part: String,
        /// By what, in words.
        by: String,
    },
    /// Another device is the same drive.
    Path {
        /// Its name.
        other: String,
    },
    /// A process has it open for writing.
    Open {
        /// What is open.
        part: String,
        /// The process.
        by: String,
    },
    /// The kernel says that it is in use, and by whom is not to be seen from here.
    Busy,
    /// Another fsdyno has claimed it.
    Working,
    /// A process has asked everybody else to leave it alone (flock(2)).
    Locked,
    /// It has partitions.
    Partitions(Vec<String>),
    /// It carries signatures.
    Signed(Vec<Signature>),
    /// Something begins where a first partition would, without a table.
    Lost {
        /// What it is.
        found: Signature,
        /// Where it begins.
        at: Bytes,
    },
    /// fsdyno's mark is there, and what lies beside it is not what fsdyno left.
    NotLeft {
        /// What is there.
        found: Signature,
        /// What the mark says.
        left: String,
    },
    /// It cannot be written.
    ReadOnly,
    /// Nothing useful fits.
    TooSmall {
        /// Its size.
        size: Bytes,
    },
    /// It is no drive but lies on others.
    Mapping(&'static str),
    /// It cannot be named beyond doubt.
    NoSerial,
    /// The kernel gives it no partitions, and so no way to hold it.
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
                 and what uses that is not seen here"
            ),
            Reason::Open { part, by } => write!(f, "{part} is open for writing in {by}"),
            Reason::Busy => f.write_str(
                "the kernel says that it is in use, by what is not to be seen from here \
                 (another mount namespace or container, or a file system of several devices)",
            ),
            Reason::Working => f.write_str("another fsdyno is at work on it"),
            Reason::Locked => f.write_str("another program has locked it (lslocks shows which)"),
            Reason::Partitions(names) => write!(f, "it has partitions: {}", names.join(", ")),
            Reason::Signed(found) => {
                let found: Vec<String> = found.iter().map(ToString::to_string).collect();
                write!(
                    f,
                    "it carries signatures that are not fsdyno's: {} (if nothing of that is \
                     needed, remove them yourself with wipefs)",
                    found.join(", ")
                )
            }
            Reason::Lost { found, at } => write!(
                f,
                "{found} begins at byte {}, where a first partition may begin, though there is no \
                 table: one may have been lost (if nothing of it is needed, overwrite the drive's \
                 first 34 MiB yourself)",
                at.0
            ),
            Reason::NotLeft { found, left } => write!(
                f,
                "{found} begins at 1 MiB, which is not what fsdyno left there ({left}) (if nothing \
                 of it is needed, overwrite its first mebibytes yourself)"
            ),
            Reason::ReadOnly => f.write_str("it is read-only"),
            Reason::TooSmall { size } => write!(f, "it is {size} large; {LEAST} is the least"),
            Reason::Mapping(kind) => {
                write!(f, "it is {kind} and no drive; name a whole drive (lsblk lists them)")
            }
            Reason::NoSerial => f.write_str("it has no serial number to confirm it by"),
            Reason::NoParts => f.write_str("the kernel takes no partitions on it"),
        }
    }
}

/// Why a drive is not used.
#[derive(Debug, thiserror::Error)]
pub enum BlockError {
    /// There is nothing by that name.
    #[error("'{}' does not exist; lsblk lists the drives", .0.display())]
    Missing(PathBuf),
    /// It is something else.
    #[error("'{}' is no block device; name a whole drive such as /dev/disk/by-id/ata-...", .0.display())]
    NotADevice(PathBuf),
    /// It is a part of a drive.
    #[error(
        "'{}' is a partition, and fsdyno takes whole drives only; name {whole} if nothing on it is \
         needed", .path.display()
    )]
    Partition {
        /// What was named.
        path: PathBuf,
        /// The drive that it is a part of.
        whole: String,
    },
    /// This user may not.
    #[error("no permission to open '{}' for formatting it: {}", .0.display(), permission())]
    NotAllowed(PathBuf),
    /// The name means another device than it did a moment ago.
    #[error("'{}' was {was} and is {is} now; nothing was written", .path.display())]
    Changed {
        /// What was named.
        path: PathBuf,
        /// What it was.
        was: String,
        /// What it is.
        is: String,
    },
    /// Something speaks against it.
    #[error("'{}' ({what}) is left alone: {}", .path.display(), list(.reasons))]
    Refused {
        /// What was named.
        path: PathBuf,
        /// What it is.
        what: String,
        /// All that speaks against it.
        reasons: Vec<Reason>,
    },
    /// A killed fsdyno left its parts, and something lies in one by now that it has not made.
    #[error("{}", kept(.path, .part, .serial, .found))]
    Foreign {
        /// The drive.
        path: PathBuf,
        /// The part in which it lies.
        part: PathBuf,
        /// The drive's serial number.
        serial: String,
        /// What lies there, by its signature.
        found: String,
    },
    /// Nothing speaks against it, but the user has not confirmed it.
    #[error("{}", confirm(.path, .what, *.known, .given.as_deref(), .serial))]
    Erase {
        /// What was named.
        path: PathBuf,
        /// What it is.
        what: String,
        /// Whether it carries fsdyno's mark.
        known: bool,
        /// What was typed.
        given: Option<String>,
        /// What would be right.
        serial: String,
    },
    /// A tool is not there.
    #[error(
        "{0} is missing, which tells what is on a drive; install it: apt-get install util-linux"
    )]
    NoTool(&'static str),
    /// A tool could not tell.
    #[error("{tool} cannot tell what is on the drive, so it is left alone: {said}")]
    Tool {
        /// Which.
        tool: &'static str,
        /// Its last words.
        said: String,
    },
    /// A system call failed.
    #[error("failed to {what} '{}': {source}", .path.display())]
    Io {
        /// The attempt.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// What the kernel said.
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

/// What brings the permission.
fn permission() -> &'static str {
    match rustix::process::geteuid().is_root() {
        true => "not even root has it here, as in a container; run it on the host itself",
        false => "run the same command with sudo",
    }
}

fn list(reasons: &[Reason]) -> String {
    reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// What to type about a part that stays: to look, to take it out, and to give it up.
fn kept(path: &Path, part: &Path, serial: &str, found: &str) -> String {
    let (path, part) = (path.display(), part.display());
    format!(
        "the two partitions of '{path}' ({serial}) stay as they are: {part} holds {found}, which fsdyno cannot \
         tell to be its own; to see it without a write: mount -o ro,norecovery {part} /mnt (ext3, ext4, xfs, btrfs, nilfs2) or -o ro; if it is needed, copy it to another drive, or take only the \
         partitions (delpart {path} 1; delpart {path} 2): it then lies on {path} from byte {DATA_START} on; if \
         nothing of it is needed: wipefs --all {part}, then fsdyno doctor --clean"
    )
}

fn confirm(path: &Path, what: &str, known: bool, given: Option<&str>, serial: &str) -> String {
    let holds = match known {
        true => "fsdyno has used it before",
        false => "it has no signature and no partition table, and fsdyno has not used it before",
    };
    let wrong = given.map_or_else(String::new, |given| {
        // A loop device is confirmed by a path.
        let what = match serial.starts_with('/') {
            true => "the path of its backing file",
            false => "its serial number",
        };
        format!("; --erase {} is not {what}", quote(given))
    });
    format!(
        "'{}' is {what}; {holds}{wrong}; all that is on it will be lost: if that is meant, add \
         --erase {}",
        path.display(),
        quote(serial)
    )
}
