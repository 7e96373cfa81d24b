//! A tar archive as a list of members: kind, path, and position of the data.
//!
//! Nothing is copied: a file's data stays in the input, and a payload of [`crate::Payload::INPUT`]
//! refers to it by its position.
//!
//! Members that GNU tar would refuse or query are refused here before any work, with the member and
//! its position: names that lead out of the folder, devices and pipes (no op creates them), sparse
//! files (their data is not that of the file). Conditions that depend on other members are checked by
//! [`crate::tar::unpack`].

use std::fmt;

use fsdyno_record::{Bytes, quote};

use crate::input::Input;
use crate::op::Name;

mod blocks;
mod headers;

use blocks::{Blocks, Header};
pub use headers::Headers;

/// Maximum length of a member's path in bytes; leaves space for the folder into which it is unpacked and for the NUL.
pub const MAX_PATH: usize = Name::CAPACITY - 24;

/// Maximum length in bytes of a name between two slashes; no Linux file system allows more.
pub const MAX_NAME: usize = 255;

/// An archive whose headers have been read and are valid.
#[derive(Clone, Debug)]
pub struct Archive {
    members: Vec<Member>,
}

/// One member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its path below the folder into which it is unpacked, without `.` and doubled slashes, or empty for that folder
    /// itself.
    pub path: Box<[u8]>,
    /// Its kind, with the position of its data or its target.
    pub kind: MemberKind,
    /// Permission bits.
    pub mode: u32,
    /// Modification time in whole seconds since 1970; fractions are dropped.
    pub mtime: i64,
    /// Position of its header, in bytes from the start of the archive.
    pub header: u64,
}

/// The kind of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberKind {
    /// A regular file.
    File {
        /// Position of its data, in bytes from the start of the archive.
        data: u64,
        /// Number of bytes.
        size: u64,
    },
    /// A directory.
    Directory,
    /// A symbolic link and its target.
    Symlink(Box<[u8]>),
    /// A hard link to an earlier file, given by that file's path.
    Link(Box<[u8]>),
}

/// A mistake in an archive; its message fits after "the archive".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveError {
    /// Position of the header with the mistake, in bytes from the start.
    pub offset: u64,
    /// The member with the mistake, if it has a name.
    pub member: Option<String>,
    /// The mistake.
    pub fault: Fault,
}

/// A mistake in an archive or one of its members.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the variants")]
pub enum Fault {
    #[error("is not a tar archive: a header with its checksum was expected")]
    NotTar,
    #[error("is empty; at least one member was expected")]
    Empty,
    #[error("the checksum of the header is wrong")]
    Checksum,
    #[error("the archive ends within a header of 512 bytes; it is truncated")]
    ShortHeader,
    #[error("{size} bytes of data were expected, but only {found} exist; the archive is truncated")]
    Truncated { size: u64, found: u64 },
    #[error("the {0} in the header is not a valid number")]
    Number(&'static str),
    #[error("a pax record does not have the form LENGTH KEY=VALUE")]
    Record,
    #[error("it declares {} of data; the maximum size of an archive is {} here", Bytes(*size), Bytes(*max))]
    TooLarge { size: u64, max: u64 },
    #[error("the archive ends here, but more than {} follow", Bytes(*_0))]
    After(u64),
    #[error("an extension of the header has {0} bytes; at most 1 MiB is allowed")]
    LongExtension(u64),
    #[error("the extension is not followed by the header of its member")]
    NoMember,
    #[error("is a sparse file; pack it again without --sparse")]
    Sparse,
    #[error("is a {0}; pack it again without devices and pipes")]
    Special(&'static str),
    #[error("has the type flag {0:?}; files, directories and links were expected")]
    Kind(char),
    #[error("has no name")]
    NoName,
    #[error("has an absolute path; pack it again without --absolute-names")]
    Absolute,
    #[error("has '..' in its path, which may lead out of the folder; pack it from a parent folder")]
    DotDot,
    #[error("has a NUL in its {0}")]
    Nul(&'static str),
    #[error("has a {what} of {length} bytes; at most {max} are allowed")]
    Long { what: &'static str, length: usize, max: usize },
    #[error("is a link without a target")]
    NoTarget,
    #[error("lies below '{}', which is {what} of the archive", quote::short(parent))]
    Below { parent: String, what: &'static str },
    #[error(
        "is a hard link to '{}', which is not an earlier file of the archive",
        quote::short(_0)
    )]
    DeadLink(String),
    #[error("is a hard link to itself")]
    SelfLink,
    #[error("would replace a directory of the archive; only a directory can")]
    OverDirectory,
    #[error("would replace a symbolic link that leads out of its folder, which tar creates last")]
    OverPlaceholder,
    #[error("is one of more than {0} members, the maximum number")]
    TooMany(u32),
}

impl ArchiveError {
    pub(crate) fn new(offset: u64, fault: Fault) -> ArchiveError {
        ArchiveError { offset, member: None, fault }
    }

    pub(crate) fn with_member(self, name: &[u8]) -> ArchiveError {
        ArchiveError { member: Some(String::from_utf8_lossy(name).into_owned()), ..self }
    }

    /// Returns the error for a mistake in a member.
    pub(crate) fn in_member(member: &Member, fault: Fault) -> ArchiveError {
        ArchiveError::new(member.header, fault).with_member(&member.path)
    }
}

impl fmt::Display for ArchiveError {
    /// Writes, for example, `member 'a/b' (at byte 1024) has an absolute path; ...`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.member, &self.fault) {
            (_, Fault::NotTar | Fault::Empty) => write!(f, "{}", self.fault),
            (Some(member), fault) => {
                let member = quote::short(member);
                write!(f, "member '{member}' (at byte {}): {fault}", self.offset)
            }
            (None, fault) => write!(f, "at byte {}: {fault}", self.offset),
        }
    }
}

impl std::error::Error for ArchiveError {}

impl Archive {
    /// Reads the headers of an uncompressed archive.
    ///
    /// # Errors
    /// The first mistake, with the member and its position.
    pub fn read(input: &Input) -> Result<Archive, ArchiveError> {
        let mut blocks = Blocks::new(input.bytes());
        let mut members = Vec::new();
        while let Some(header) = blocks.next_header()? {
            // The label that `tar --label` gives to a volume is not a member.
            if header.kind == b'V' {
                continue;
            }
            members.push(parse_member(&header).map_err(|fault| {
                ArchiveError::new(header.offset, fault).with_member(&header.name)
            })?);
        }
        if members.is_empty() {
            return Err(ArchiveError::new(0, Fault::Empty));
        }
        Ok(Archive { members })
    }

    /// Returns the members, in their order.
    pub fn members(&self) -> &[Member] {
        &self.members
    }
}

fn parse_member(header: &Header<'_>) -> Result<Member, Fault> {
    let kind = match header.kind {
        // Archives older than POSIX mark a directory only by the slash at the end of its name.
        b'0' | 0 | b'7' if header.name.ends_with(b"/") => MemberKind::Directory,
        b'0' | 0 | b'7' => MemberKind::File { data: header.data, size: header.size },
        b'1' => MemberKind::Link(parse_path(header.target)?),
        b'2' => MemberKind::Symlink(parse_symlink(header.target)?),
        b'5' => MemberKind::Directory,
        b'3' => return Err(Fault::Special("character device")),
        b'4' => return Err(Fault::Special("block device")),
        b'6' => return Err(Fault::Special("named pipe")),
        b'S' => return Err(Fault::Sparse),
        flag => return Err(Fault::Kind(char::from(flag))),
    };
    let path = parse_path(&header.name)?;
    if path.is_empty() && kind != MemberKind::Directory {
        return Err(Fault::NoName);
    }
    Ok(Member { path, kind, mode: header.mode, mtime: header.mtime, header: header.offset })
}

/// Normalizes a path; refuses one that may lead out of the folder.
fn parse_path(name: &[u8]) -> Result<Box<[u8]>, Fault> {
    if name.is_empty() {
        return Err(Fault::NoName);
    }
    if name[0] == b'/' {
        return Err(Fault::Absolute);
    }
    if name.contains(&0) {
        return Err(Fault::Nul("path"));
    }
    let mut path = Vec::with_capacity(name.len());
    for part in name.split(|byte| *byte == b'/').filter(|part| !matches!(*part, b"" | b".")) {
        if part == b".." {
            return Err(Fault::DotDot);
        }
        if part.len() > MAX_NAME {
            return Err(Fault::Long { what: "name", length: part.len(), max: MAX_NAME });
        }
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(part);
    }
    if path.len() > MAX_PATH {
        return Err(Fault::Long { what: "path", length: path.len(), max: MAX_PATH });
    }
    Ok(path.into_boxed_slice())
}

/// Accepts any target that a symbolic link can have.
fn parse_symlink(target: &[u8]) -> Result<Box<[u8]>, Fault> {
    match target.len() {
        0 => Err(Fault::NoTarget),
        _ if target.contains(&0) => Err(Fault::Nul("target")),
        length if length >= Name::CAPACITY => {
            Err(Fault::Long { what: "target", length, max: Name::CAPACITY - 1 })
        }
        _ => Ok(target.into()),
    }
}
