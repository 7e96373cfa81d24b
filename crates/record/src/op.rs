//! The kinds of ops, named after their system calls.

use serde::{Deserialize, Serialize};

/// The bytes that the result of a call counts, if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// None: the result counts no bytes.
    None,
    /// Bytes read.
    Read,
    /// Bytes written.
    Written,
}

/// The validity of a call on a raw device instead of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDevice {
    /// The device handles it as a file does, or it has no meaning there (unlink).
    Valid,
    /// It needs a file system.
    Invalid,
}

use self::Moved as M;
use self::OnDevice as D;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $moved:expr, $device:expr;)+) => {
        /// The kind of an op; one kind is one system call.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(rename_all = "snake_case")]
        #[repr(u8)]
        pub enum OpKind { $($(#[$doc])* $name),+ }

        impl OpKind {
            /// All kinds, in the order of this table.
            pub const ALL: &[OpKind] = &[$(OpKind::$name),+];

            /// Returns the name in records, tables and `--help`.
            pub fn name(self) -> &'static str {
                match self { $(OpKind::$name => $text),+ }
            }

            /// Returns the kind of bytes that its result counts.
            #[inline]
            pub fn moved(self) -> Moved {
                match self { $(OpKind::$name => $moved),+ }
            }

            /// Returns whether it can be made on a raw device.
            pub fn on_device(self) -> OnDevice {
                match self { $(OpKind::$name => $device),+ }
            }
        }
    };
}

kinds! {
    /// open(2) with O_CREAT.
    Create = "create", M::None, D::Valid;
    /// open(2) of an existing file or directory.
    Open = "open", M::None, D::Valid;
    /// close(2).
    Close = "close", M::None, D::Valid;
    /// read(2) or pread(2).
    Read = "read", M::Read, D::Valid;
    /// write(2) or pwrite(2).
    Write = "write", M::Written, D::Valid;
    /// write(2) on a file opened with O_APPEND.
    Append = "append", M::Written, D::Invalid;
    /// stat(2), lstat(2), fstat(2) and their *at forms.
    Stat = "stat", M::None, D::Invalid;
    /// getdents64(2).
    Readdir = "readdir", M::None, D::Invalid;
    /// rename(2).
    Rename = "rename", M::None, D::Invalid;
    /// link(2).
    Link = "link", M::None, D::Invalid;
    /// symlink(2).
    Symlink = "symlink", M::None, D::Invalid;
    /// unlink(2).
    Unlink = "unlink", M::None, D::Valid;
    /// mkdir(2).
    Mkdir = "mkdir", M::None, D::Invalid;
    /// rmdir(2).
    Rmdir = "rmdir", M::None, D::Invalid;
    /// fsync(2) of a file or a directory.
    Fsync = "fsync", M::None, D::Valid;
    /// ftruncate(2).
    Truncate = "truncate", M::None, D::Invalid;
    /// fallocate(2).
    Fallocate = "fallocate", M::None, D::Invalid;
    /// setxattr(2).
    Setxattr = "setxattr", M::None, D::Invalid;
    /// chmod(2).
    Chmod = "chmod", M::None, D::Invalid;
    /// utimensat(2).
    Utimes = "utimes", M::None, D::Invalid;
    /// chown(2).
    Chown = "chown", M::None, D::Invalid;
    /// syncfs(2).
    Sync = "sync", M::None, D::Valid;
    /// fdatasync(2).
    Fdatasync = "fdatasync", M::None, D::Valid;
    /// sync_file_range(2).
    SyncRange = "sync_range", M::None, D::Invalid;
    /// readlink(2).
    Readlink = "readlink", M::None, D::Invalid;
    /// access(2).
    Access = "access", M::None, D::Invalid;
    /// statfs(2).
    Statfs = "statfs", M::None, D::Invalid;
    /// lseek(2).
    Seek = "seek", M::None, D::Invalid;
    /// getxattr(2).
    Getxattr = "getxattr", M::None, D::Invalid;
    /// listxattr(2).
    Listxattr = "listxattr", M::None, D::Invalid;
    /// removexattr(2).
    Removexattr = "removexattr", M::None, D::Invalid;
    /// copy_file_range(2).
    CopyRange = "copy_range", M::Written, D::Invalid;
    /// posix_fadvise(2).
    Fadvise = "fadvise", M::None, D::Invalid;
}

impl std::fmt::Display for OpKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_kind_is_its_name_in_records() {
        for kind in OpKind::ALL {
            assert_eq!(serde_json::to_string(kind).unwrap(), format!("\"{}\"", kind.name()));
        }
    }
}
