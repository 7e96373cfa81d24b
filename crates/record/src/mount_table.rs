//! Parses the kernel's mount table, /proc/PID/mountinfo (proc(5)).

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// Maximum time for which a client of a network file system may not see a change by another client: NFS caches the
/// attributes of directories, and the absence of names, for up to 60 s (nfs(5), acdirmax), sshfs for 20 s. A tenth is
/// added.
pub const CLIENT_CACHE: Duration = Duration::from_secs(66);

/// Types of file systems that several clients can mount and cache at the same time, other than those of FUSE.
const NETWORK_TYPES: [&str; 12] = [
    "nfs", "nfs4", "cifs", "smb3", "ceph", "lustre", "beegfs", "gpfs", "9p", "afs", "orangefs",
    "pvfs2",
];

/// A line of the table: `id parent major:minor root mountpoint options [tags] - type source options`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountLine {
    /// The id of the mount.
    pub id: u64,
    /// Device number of the file system, major and minor. A file system on several devices or on none has an anonymous
    /// device number, with major 0.
    pub device: (u32, u32),
    /// The mount point.
    pub mount_point: String,
    /// The mount's own options.
    pub options: String,
    /// File system type.
    pub kind: String,
    /// The source: usually a device's path, but it can be any string.
    pub source: String,
    /// The file system's options.
    pub superblock: String,
}

impl MountLine {
    fn parse(line: &str) -> Option<MountLine> {
        let (before_separator, after_separator) = line.split_once(" - ")?;
        let (mut before_separator, mut after_separator) =
            (before_separator.split(' '), after_separator.split(' '));
        let id = before_separator.next()?.parse().ok()?;
        let (major, minor) = before_separator.nth(1)?.split_once(':')?;
        Some(MountLine {
            id,
            device: (major.parse().ok()?, minor.parse().ok()?),
            mount_point: unescape(before_separator.nth(1)?),
            options: before_separator.next().unwrap_or_default().to_string(),
            kind: after_separator.next()?.to_string(),
            source: unescape(after_separator.next().unwrap_or_default()),
            superblock: after_separator.next().unwrap_or_default().to_string(),
        })
    }

    /// Returns true if several clients may mount the file system and cache it.
    pub fn is_network(&self) -> bool {
        NETWORK_TYPES.contains(&self.kind.as_str()) || self.kind.starts_with("fuse")
    }

    /// Returns the type, mount options and file system options, in the form used in a record's conditions.
    pub fn type_and_options(&self) -> String {
        format!("{} {} {}", self.kind, self.options, self.superblock)
    }
}

/// Returns the lines of a table, the newest mount last.
pub fn mounts(table: &str) -> impl DoubleEndedIterator<Item = MountLine> + '_ {
    table.lines().filter_map(MountLine::parse)
}

/// Returns the mount that an open file is on. The file's device number does not suffice: each subvolume of a btrfs has
/// its own, which is in no table.
///
/// # Errors
/// If /proc is not mounted.
pub fn mount_of_file(file: BorrowedFd<'_>) -> io::Result<Option<MountLine>> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd()))?;
    let id = info.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse::<u64>().ok());
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    Ok(id.and_then(|id| mounts(&table).find(|line| line.id == id)))
}

/// Decodes a path in /proc, in which blank, tab, newline, hash and backslash are octal escapes.
pub fn unescape(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\043", "#"), ("\\134", "\\")]
        .iter()
        .fold(text.to_string(), |text, (from, to)| text.replace(from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_recognized_by_their_type() {
        let is_network = |kind: &str| {
            let line = format!("40 22 0:43 / /mnt rw - {kind} server:/export rw");
            mounts(&line).next().unwrap().is_network()
        };
        assert!(["nfs4", "fuse.sshfs", "fuse"].into_iter().all(is_network));
        assert!(!["ext4", "tmpfs", "overlay"].into_iter().any(is_network));
    }

    const TABLE: &str = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro
not a line of a table
40 22 43:0 / /mnt/two\\040words rw,noatime - xfs /dev/nbd0 rw,attr2,noquota
";

    #[test]
    fn lines_are_parsed_and_other_text_is_skipped() {
        let lines: Vec<MountLine> = mounts(TABLE).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0].type_and_options(), "ext4 rw,relatime rw,errors=remount-ro");
        assert_eq!((lines[0].id, lines[1].id), (22, 40));
        assert_eq!((lines[1].device, lines[1].mount_point.as_str()), ((43, 0), "/mnt/two words"));
        assert_eq!(lines[1].source, "/dev/nbd0");
        assert_eq!(mounts(TABLE).next_back().unwrap().kind, "xfs", "the newest first");
    }

    #[test]
    fn an_open_file_is_on_a_mount_of_its_own_device() {
        use std::os::fd::AsFd;
        let line = mount_of_file(fs::File::open("/proc").unwrap().as_fd()).unwrap().unwrap();
        assert_eq!((line.mount_point.as_str(), line.kind.as_str()), ("/proc", "proc"));
    }

    #[test]
    fn an_escaped_backslash_is_decoded_once() {
        assert_eq!(unescape("a\\134040b\\011c"), "a\\040b\tc");
        assert_eq!(unescape("mfs\\04310.0.0.1:9421"), "mfs#10.0.0.1:9421");
    }
}
