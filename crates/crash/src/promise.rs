//! What a file system promises of fsync(2), and how one is repaired that a check finds damaged.

/// Of what a new name is durable once fsync(2) of the file has come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// The file's own names, and the directories on the way to them.
    WithFile,
    /// None: the directory has to be synced too, as fsync(2) says.
    WithDirectory,
}

/// What is promised by a kind of file system.
#[derive(Clone, Copy, Debug)]
pub struct Promise {
    /// The kind.
    pub kind: &'static str,
    /// Which names fsync(2) of a file makes durable.
    pub names: Names,
    /// Whether sync(2) and syncfs(2) make all of it durable. The kernel hands them to a process that serves
    /// a file system only where `sync_fs` is set, as virtiofs alone does (fs/fuse/inode.c, fuse_sync_fs).
    pub whole: bool,
    /// The command that repairs it without asking; empty where none does so safely.
    pub repair: &'static [&'static str],
    /// The command that is left where after the repair it cannot be mounted, and that may lose what the journal
    /// has; empty where the tool names none.
    pub last_resort: &'static [&'static str],
    /// Where that is said.
    pub source: &'static str,
}

/// Of each kind that can lose its power here.
///
/// All are held to this of rename(2): a file with a durable name that is renamed is there by the old name or by the new
/// one, and a name that a file was renamed to stands for that file or for the one before. The journals of those with
/// [`Names::WithFile`] give it, for a rename is one transaction; POSIX says nothing of a crash, but every program that
/// replaces a file relies on it.
///
/// fsync(2) itself: "Calling fsync() does not necessarily ensure that the entry in the directory
/// containing the file has also reached disk. For that an explicit fsync() on a file descriptor for
/// the directory is also needed." What goes beyond that is the file system's own; the sources named for
/// it are from memory and were not read again. [MEM]
pub const PROMISES: &[Promise] = &[
    Promise {
        kind: "ext2",
        names: Names::WithDirectory,
        whole: true,
        repair: &["e2fsck", "-f", "-y", "{device}"],
        last_resort: &[],
        source: "fsync(2)",
    },
    Promise {
        kind: "ext3",
        names: Names::WithFile,
        whole: true,
        repair: &["e2fsck", "-f", "-y", "{device}"],
        last_resort: &[],
        source: "fsync commits the running transaction, in which the name was made (fs/ext4/fsync.c)",
    },
    Promise {
        kind: "ext4",
        names: Names::WithFile,
        whole: true,
        repair: &["e2fsck", "-f", "-y", "{device}"],
        last_resort: &[],
        source: "fsync commits the running transaction, in which the name was made (fs/ext4/fsync.c)",
    },
    Promise {
        kind: "xfs",
        names: Names::WithFile,
        whole: true,
        repair: &["xfs_repair", "{device}"],
        last_resort: &["xfs_repair", "-L", "{device}"],
        source: "fsync forces the log up to the inode's last change; the log is in order (xfs_file.c)",
    },
    Promise {
        kind: "btrfs",
        names: Names::WithFile,
        whole: true,
        repair: &[],
        last_resort: &[],
        source: "fsync logs the names of the inode too (fs/btrfs/tree-log.c)",
    },
    Promise {
        kind: "f2fs",
        names: Names::WithFile,
        whole: true,
        repair: &["fsck.f2fs", "-f", "{device}"],
        last_resort: &[],
        source: "fsync marks the inode so that its name is recovered (fs/f2fs/recovery.c)",
    },
    Promise {
        kind: "reiserfs",
        names: Names::WithFile,
        whole: true,
        repair: &["reiserfsck", "--fix-fixable", "--yes", "{device}"],
        last_resort: &[],
        source: "fsync commits the transaction of the inode's last change (fs/reiserfs/file.c)",
    },
    Promise {
        kind: "jfs",
        names: Names::WithFile,
        whole: true,
        repair: &["jfs_fsck", "-f", "{device}"],
        last_resort: &[],
        source: "fsync flushes the log, which is in order (fs/jfs/file.c)",
    },
    Promise {
        kind: "nilfs2",
        names: Names::WithFile,
        whole: true,
        repair: &[],
        last_resort: &[],
        source: "fsync builds a segment, and the log is in order (fs/nilfs2/file.c)",
    },
    Promise {
        kind: "vfat",
        names: Names::WithDirectory,
        whole: true,
        repair: &["fsck.vfat", "-a", "{device}"],
        last_resort: &[],
        source: "fsync(2)",
    },
    // With `volatile` it keeps none of it, and says so (Documentation/filesystems/overlayfs.rst).
    Promise {
        kind: "overlayfs",
        names: Names::WithDirectory,
        whole: true,
        repair: &[],
        last_resort: &[],
        source: "fsync(2), which is handed to the layer above (fs/overlayfs/file.c, readdir.c)",
    },
    Promise {
        kind: "fuse2fs",
        names: Names::WithDirectory,
        whole: false,
        repair: &["e2fsck", "-f", "-y", "{device}"],
        last_resort: &[],
        source: "fsync(2)",
    },
    Promise {
        kind: "fuse",
        names: Names::WithDirectory,
        whole: false,
        repair: &[],
        last_resort: &[],
        source: "fsync(2)",
    },
];

/// What is promised by a kind; none of one that cannot lose its power here.
pub fn of(kind: &str) -> Option<&'static Promise> {
    PROMISES.iter().find(|promise| promise.kind == kind)
}
