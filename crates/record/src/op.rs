//! Kinds of op, named like their system calls.

use serde::{Deserialize, Serialize};

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $text:literal),+ $(,)?) => {
        /// The kind of an op; one kind is one system call.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[repr(u8)]
        pub enum OpKind { $($(#[$doc])* $name),+ }

        impl OpKind {
            /// All kinds, in the order of this table.
            pub const ALL: &[OpKind] = &[$(OpKind::$name),+];

            /// The name in records, tables and `--help`.
            pub fn name(self) -> &'static str {
                match self { $(OpKind::$name => $text),+ }
            }
        }
    };
}

kinds! {
    /// open(2) with O_CREAT.
    Create = "create",
    /// open(2) of an existing file or directory.
    Open = "open",
    /// close(2).
    Close = "close",
    /// read(2) or pread(2).
    Read = "read",
    /// write(2) or pwrite(2).
    Write = "write",
    /// write(2) on a file opened with O_APPEND.
    Append = "append",
    /// stat(2), lstat(2), fstat(2) and their *at forms.
    Stat = "stat",
    /// getdents64(2).
    Readdir = "readdir",
    /// rename(2).
    Rename = "rename",
    /// link(2).
    Link = "link",
    /// symlink(2).
    Symlink = "symlink",
    /// unlink(2).
    Unlink = "unlink",
    /// mkdir(2).
    Mkdir = "mkdir",
    /// rmdir(2).
    Rmdir = "rmdir",
    /// fsync(2) of a file or a directory.
    Fsync = "fsync",
    /// ftruncate(2).
    Truncate = "truncate",
    /// fallocate(2).
    Fallocate = "fallocate",
    /// setxattr(2).
    Setxattr = "setxattr",
    /// chmod(2).
    Chmod = "chmod",
    /// utimensat(2).
    Utimes = "utimes",
    /// chown(2).
    Chown = "chown",
    /// syncfs(2).
    Sync = "sync",
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
