//! Durability guarantees of file systems after fsync(2), and their repair commands.

/// The directory entries that fsync(2) of a file makes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// The file's own names, and the directories on the way to them.
    WithFile,
    /// None: the directory has to be synced too, as fsync(2) says.
    WithDirectory,
}

/// The durability guarantee of a kind of file system.
#[derive(Clone, Copy, Debug)]
pub struct Guarantee {
    /// Kind of file system.
    pub kind: &'static str,
    /// Names that fsync(2) of a file makes durable.
    pub names: Names,
    /// True if sync(2) and syncfs(2) make everything durable. The kernel passes them to a process that serves a
    /// file system only if `sync_fs` is set, which only virtiofs does (fs/fuse/inode.c, fuse_sync_fs).
    pub whole: bool,
    /// Command that repairs it unattended; empty if none does so safely.
    pub repair: &'static [&'static str],
    /// Command to try if it cannot be mounted after the repair, which may discard the journal; empty if the
    /// tool has none.
    pub last_resort: &'static [&'static str],
    /// Source of the guarantee.
    pub source: &'static str,
}

/// The guarantees, one for each kind that can be crash-tested.
///
/// All include this for rename(2): a file with a durable name that is renamed has the old name or the new one,
/// and the target name of a rename refers to that file or to the one before. The journals of those with
/// [`Names::WithFile`] provide it, for a rename is one transaction; POSIX does not specify crashes, but every
/// program that replaces a file relies on it.
///
/// fsync(2) itself: "Calling fsync() does not necessarily ensure that the entry in the directory
/// containing the file has also reached disk. For that an explicit fsync() on a file descriptor for
/// the directory is also needed." Guarantees beyond that are the file system's own; their sources are cited
/// from memory. [MEM]
pub const GUARANTEES: &[Guarantee] = &[
    Guarantee {
        kind: "ext2",
        names: Names::WithDirectory,
        whole: true,
        repair: &["e2fsck", "-f", "-y", "{device}"],
        last_resort: &[],
        source: "fsync(2)",
    },
    Guarantee {
        kind: "ext3",
        names: Names::WithFile,
        whole: true,
        repair: &["e2fsck", "-f", "-y", "{device}"],
        last_resort: &[],
        source: "fsync commits the running transaction, in which the name was made (fs/ext4/fsync.c)",
    },
    Guarantee {
        kind: "ext4",
        names: Names::WithFile,
        whole: true,
        repair: &["e2fsck", "-f", "-y", "{device}"],
        last_resort: &[],
        source: "fsync commits the running transaction, in which the name was made (fs/ext4/fsync.c)",
    },
    Guarantee {
        kind: "xfs",
        names: Names::WithFile,
        whole: true,
        repair: &["xfs_repair", "{device}"],
        last_resort: &["xfs_repair", "-L", "{device}"],
        source: "fsync forces the log up to the inode's last change; the log is in order (xfs_file.c)",
    },
    Guarantee {
        kind: "btrfs",
        names: Names::WithFile,
        whole: true,
        repair: &[],
        last_resort: &[],
        source: "fsync logs the names of the inode too (fs/btrfs/tree-log.c)",
    },
    Guarantee {
        kind: "f2fs",
        names: Names::WithFile,
        whole: true,
        repair: &["fsck.f2fs", "-f", "{device}"],
        last_resort: &[],
        source: "fsync marks the inode so that its name is recovered (fs/f2fs/recovery.c)",
    },
    Guarantee {
        kind: "reiserfs",
        names: Names::WithFile,
        whole: true,
        repair: &["reiserfsck", "--fix-fixable", "--yes", "{device}"],
        last_resort: &[],
        source: "fsync commits the transaction of the inode's last change (fs/reiserfs/file.c)",
    },
    Guarantee {
        kind: "jfs",
        names: Names::WithFile,
        whole: true,
        repair: &["jfs_fsck", "-f", "{device}"],
        last_resort: &[],
        source: "fsync flushes the log, which is in order (fs/jfs/file.c)",
    },
    Guarantee {
        kind: "nilfs2",
        names: Names::WithFile,
        whole: true,
        repair: &[],
        last_resort: &[],
        source: "fsync builds a segment, and the log is in order (fs/nilfs2/file.c)",
    },
    Guarantee {
        kind: "vfat",
        names: Names::WithDirectory,
        whole: true,
        repair: &["fsck.vfat", "-a", "{device}"],
        last_resort: &[],
        source: "fsync(2)",
    },
    // With `volatile` it guarantees none of it (Documentation/filesystems/overlayfs.rst).
    Guarantee {
        kind: "overlayfs",
        names: Names::WithDirectory,
        whole: true,
        repair: &[],
        last_resort: &[],
        source: "fsync(2), which is passed to the upper layer (fs/overlayfs/file.c, readdir.c)",
    },
    Guarantee {
        kind: "fuse2fs",
        names: Names::WithDirectory,
        whole: false,
        repair: &["e2fsck", "-f", "-y", "{device}"],
        last_resort: &[],
        source: "fsync(2)",
    },
    Guarantee {
        kind: "fuse",
        names: Names::WithDirectory,
        whole: false,
        repair: &[],
        last_resort: &[],
        source: "fsync(2)",
    },
];

/// Returns the guarantee of a kind; `None` if it cannot be crash-tested.
pub fn of(kind: &str) -> Option<&'static Guarantee> {
    GUARANTEES.iter().find(|guarantee| guarantee.kind == kind)
}
