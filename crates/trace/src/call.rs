//! The calls of a trace, in one table: number, name, arguments.

use crate::args::{At, CopyKind, LockOp, Object, StatKind, SyncKind, Target, UtimeChange};
use crate::class::Compressibility;
use crate::error::Problem;
use crate::ids::{FileId, NodeId, ThreadId};
use crate::name::Name;
use crate::tree::{Kind, XattrName};
use crate::wire::{Sink, Source, Wire, codes};

macro_rules! calls {
    ($($(#[$doc:meta])* $number:literal $name:ident = $text:literal { $($(#[$item:meta])* $field:ident: $type:ty,)* })+) => {
        /// A call with its arguments. Results are in [`Event::result`](crate::Event::result).
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Call { $($(#[$doc])* $name { $($(#[$item])* $field: $type),* }),+ }

        codes! {
            /// The kind of a call.
            CallKind, "call" { $($(#[$doc])* $name = $number, $text;)+ }
        }

        impl Call {
            /// Returns its kind.
            pub fn kind(&self) -> CallKind {
                match self { $(Call::$name { .. } => CallKind::$name),+ }
            }
        }

        impl Wire for Call {
            fn put(&self, out: &mut Sink) {
                self.kind().put(out);
                match self { $(Call::$name { $($field),* } => { $($field.put(out);)* })+ }
            }

            fn get(from: &mut Source<'_>) -> Result<Call, Problem> {
                Ok(match CallKind::get(from)? {
                    $(CallKind::$name => Call::$name { $($field: Wire::get(from)?),* }),+
                })
            }
        }
    };
}

calls! {
    /// open(2), openat(2), openat2(2), creat(2).
    1 Open = "open" {
        /// The name; with O_TMPFILE the directory.
        at: At,
        /// The flags (O_* of Linux on x86-64).
        flags: u32,
        /// The permission bits of a new file, before the umask is applied.
        mode: u32,
        /// The new file, if the call created one.
        created: Option<NodeId>,
        /// The open file, or `None` if the call failed.
        file: Option<FileId>,
    }
    /// close(2), and the implicit close of a descriptor by exit, exec or dup2.
    2 Close = "close" {
        /// The open file.
        file: FileId,
        /// True if no descriptor refers to it any more.
        last: bool,
        /// True if no call closed it: the process ended, an exec closed it, or dup2 replaced it.
        implicit: bool,
    }
    /// dup(2), dup2, dup3, fcntl(2) with F_DUPFD: one more descriptor.
    3 Dup = "dup" {
        /// The open file.
        file: FileId,
    }
    /// A descriptor that the command had at its start, or that it received through a socket.
    4 Inherit = "inherit" {
        /// The open file, new.
        file: FileId,
        /// The object that it is open on.
        node: NodeId,
        /// Its flags (O_*).
        flags: u32,
        /// Its position in bytes.
        offset: u64,
    }
    /// read(2), readv, pread64, preadv, preadv2.
    5 Read = "read" {
        /// The open file.
        file: FileId,
        /// The offset of a positioned read, or `None` for the position of the file.
        offset: Option<u64>,
        /// The number of bytes requested.
        length: u64,
        /// The number of buffers of a vectored call; 0 for a plain call.
        buffers: u32,
    }
    /// write(2), writev, pwrite64, pwritev, pwritev2.
    6 Write = "write" {
        /// The open file.
        file: FileId,
        /// The offset of a positioned write, or `None` for the position of the file.
        offset: Option<u64>,
        /// The number of bytes to write.
        length: u64,
        /// The number of buffers of a vectored call; 0 for a plain call.
        buffers: u32,
        /// The compressibility of the bytes.
        class: Compressibility,
    }
    /// lseek(2).
    7 Seek = "seek" {
        /// The open file.
        file: FileId,
        /// The offset.
        offset: i64,
        /// SEEK_*.
        whence: u32,
    }
    /// A copy within the kernel; its source or its destination is a file.
    8 Copy = "copy" {
        /// The call.
        copy: CopyKind,
        /// The source, or `None` if it is not a file.
        from: Option<FileId>,
        /// The offset in the source, or `None` for its position.
        from_offset: Option<u64>,
        /// The destination, or `None` if it is not a file.
        to: Option<FileId>,
        /// The offset in the destination, or `None` for its position.
        to_offset: Option<u64>,
        /// The number of bytes requested.
        length: u64,
    }
    /// truncate(2), ftruncate(2).
    9 Truncate = "truncate" {
        /// The file.
        target: Target,
        /// The new size in bytes.
        length: u64,
    }
    /// fallocate(2).
    10 Fallocate = "fallocate" {
        /// The open file.
        file: FileId,
        /// FALLOC_FL_*.
        mode: u32,
        /// The offset in bytes.
        offset: u64,
        /// The length in bytes.
        length: u64,
    }
    /// fsync(2), fdatasync, sync_file_range, syncfs.
    11 Sync = "sync" {
        /// The call.
        sync: SyncKind,
        /// The open file.
        file: FileId,
        /// The offset of a range in bytes, else 0.
        offset: u64,
        /// The length of a range in bytes, else 0.
        length: u64,
    }
    /// sync(2).
    12 SyncAll = "sync_all" {}
    /// stat(2), fstat, lstat, newfstatat, statx.
    13 Stat = "stat" {
        /// The object.
        target: Target,
        /// The call.
        stat: StatKind,
    }
    /// access(2), faccessat, faccessat2.
    14 Access = "access" {
        /// The object.
        at: At,
        /// R_OK, W_OK, X_OK, or 0 for F_OK.
        mode: u32,
    }
    /// readlink(2), readlinkat.
    15 Readlink = "readlink" {
        /// The link.
        at: At,
        /// The size of the buffer in bytes.
        length: u64,
    }
    /// getdents64(2), getdents.
    16 Readdir = "readdir" {
        /// The open directory.
        file: FileId,
        /// The size of the buffer in bytes.
        length: u64,
    }
    /// mkdir(2), mkdirat.
    17 Mkdir = "mkdir" {
        /// The name.
        at: At,
        /// The permission bits, before the umask is applied.
        mode: u32,
        /// The new directory, or `None` if the call failed.
        created: Option<NodeId>,
    }
    /// rmdir(2), unlinkat(2) with AT_REMOVEDIR.
    18 Rmdir = "rmdir" {
        /// The name.
        at: At,
    }
    /// unlink(2), unlinkat.
    19 Unlink = "unlink" {
        /// The name.
        at: At,
    }
    /// rename(2), renameat, renameat2.
    20 Rename = "rename" {
        /// The old name.
        from: At,
        /// The new name; its node is the one that was replaced.
        to: At,
        /// RENAME_*.
        flags: u32,
    }
    /// link(2), linkat.
    21 Link = "link" {
        /// The file.
        from: Target,
        /// The new name.
        to: At,
    }
    /// symlink(2), symlinkat.
    22 Symlink = "symlink" {
        /// The name.
        at: At,
        /// The length of the target in bytes. The target itself is not recorded.
        length: u32,
        /// The new link, or `None` if the call failed.
        created: Option<NodeId>,
    }
    /// mknod(2), mknodat.
    23 Mknod = "mknod" {
        /// The name.
        at: At,
        /// The type of the node.
        node: Kind,
        /// The permission bits, before the umask is applied.
        mode: u32,
        /// The new node, or `None` if the call failed.
        created: Option<NodeId>,
    }
    /// chmod(2), fchmod, fchmodat.
    24 Chmod = "chmod" {
        /// The object.
        target: Target,
        /// The permission bits.
        mode: u32,
    }
    /// chown(2), fchown, lchown, fchownat. The ids are not recorded.
    25 Chown = "chown" {
        /// The object.
        target: Target,
    }
    /// utimensat(2), futimens, utimes, utime.
    26 Utimes = "utimes" {
        /// The object.
        target: Target,
        /// The change of the access time.
        accessed: UtimeChange,
        /// The change of the modification time.
        modified: UtimeChange,
    }
    /// setxattr(2), lsetxattr, fsetxattr.
    27 Setxattr = "setxattr" {
        /// The object.
        target: Target,
        /// The name of the attribute.
        name: XattrName,
        /// The size of the value in bytes.
        size: u32,
        /// XATTR_CREATE or XATTR_REPLACE, or 0.
        flags: u32,
    }
    /// getxattr(2), lgetxattr, fgetxattr.
    28 Getxattr = "getxattr" {
        /// The object.
        target: Target,
        /// The name of the attribute.
        name: XattrName,
        /// The size of the buffer in bytes.
        size: u32,
    }
    /// listxattr(2), llistxattr, flistxattr.
    29 Listxattr = "listxattr" {
        /// The object.
        target: Target,
        /// The size of the buffer in bytes.
        size: u32,
    }
    /// removexattr(2), lremovexattr, fremovexattr.
    30 Removexattr = "removexattr" {
        /// The object.
        target: Target,
        /// The name of the attribute.
        name: XattrName,
    }
    /// flock(2), fcntl(2) with F_SETLK, F_SETLKW, F_OFD_SETLK, ...
    31 Lock = "lock" {
        /// The open file.
        file: FileId,
        /// The action.
        lock: LockOp,
        /// True for flock(2): it covers the whole file.
        whole: bool,
        /// True if it waits for the lock.
        waits: bool,
        /// The offset of the range in bytes.
        offset: u64,
        /// The length of the range in bytes; 0 means to the end.
        length: u64,
    }
    /// chdir(2), fchdir.
    32 Chdir = "chdir" {
        /// The directory.
        target: Target,
    }
    /// statfs(2), fstatfs.
    33 Statfs = "statfs" {
        /// The object.
        target: Target,
    }
    /// posix_fadvise(2), readahead(2).
    34 Advise = "advise" {
        /// The open file.
        file: FileId,
        /// POSIX_FADV_*.
        advice: u32,
        /// The offset in bytes.
        offset: u64,
        /// The length in bytes; 0 means to the end.
        length: u64,
    }
    /// fcntl(2) with F_SETFL.
    35 SetFlags = "set_flags" {
        /// The open file.
        file: FileId,
        /// The flags (O_APPEND, O_DIRECT, O_NOATIME, O_NONBLOCK).
        flags: u32,
    }
    /// mmap(2) of a file.
    36 Map = "mmap" {
        /// The open file.
        file: FileId,
        /// The offset in bytes.
        offset: u64,
        /// The length in bytes.
        length: u64,
        /// True for MAP_SHARED.
        shared: bool,
        /// True for PROT_WRITE.
        writable: bool,
    }
    /// munmap(2) of a part of a mapping of a file, or its implicit end by exit, exec or another mmap.
    37 Unmap = "munmap" {
        /// The file.
        node: NodeId,
        /// The offset in the file, in bytes.
        offset: u64,
        /// The length in bytes.
        length: u64,
        /// True if stores to it change the file: shared and writable. The stores themselves are not recorded.
        stores: bool,
        /// True if no munmap ended it.
        implicit: bool,
    }
    /// msync(2) of a mapping of a file.
    38 Msync = "msync" {
        /// The file.
        node: NodeId,
        /// The offset in the file, in bytes.
        offset: u64,
        /// The length in bytes.
        length: u64,
        /// True if stores to it change the file.
        stores: bool,
        /// True for MS_SYNC.
        synchronous: bool,
    }
    /// A call on an object that is not a file of a file system. It only orders threads.
    39 Outside = "outside" {
        /// The kind that the call would have on a file.
        call: CallKind,
        /// The kind of object.
        object: Object,
        /// Calls with the same number are on the same object; 0 if that is unknown.
        number: u64,
    }
    /// clone(2), fork, vfork: a new thread begins.
    40 Spawn = "spawn" {
        /// The new thread.
        child: ThreadId,
        /// True for a process, false for a thread.
        process: bool,
    }
    /// execve(2). Arguments and environment are not recorded.
    41 Exec = "exec" {
        /// The name of the program: the last component of its path.
        program: Name,
        /// The file.
        at: Option<At>,
    }
    /// A thread ends. The result is the exit code, or the negative number of a signal.
    42 Exit = "exit" {
        /// True if it is the last thread of its process.
        process: bool,
    }
    /// wait4(2), waitid: a child process has ended and its parent has received its status.
    43 Wait = "wait" {
        /// The first thread of the child.
        child: ThreadId,
    }
    /// `fsdyno mark NAME`: a phase begins.
    44 Mark = "mark" {
        /// The name.
        name: Name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kinds_of_calls_are_numbered_without_a_gap() {
        for (at, kind) in CallKind::ALL.iter().enumerate() {
            let mut out = Sink::default();
            kind.put(&mut out);
            assert_eq!(out.bytes, [at as u8 + 1]);
        }
    }
}
