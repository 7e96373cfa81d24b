//! Parses the kernel's mount table, /proc/PID/mountinfo (proc(5)).

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// A line of the table: `id parent major:minor root mountpoint options [tags] - type source options`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountLine {
    /// The id of the mount.
    pub id: u64,
    /// Device number of the file system, major and minor. A file system on several devices or on none has an anonymous
    /// device number, with major 0.
    pub device: (u32, u32),
    /// The mount point.
    pub at: String,
    /// The mount's own options.
    pub options: String,
    /// File system type.
    pub kind: String,
    /// The source: usually a device's path, but it can be any text.
    pub source: String,
    /// The file system's options.
    pub superblock: String,
}

impl MountLine {
    fn parse(line: &str) -> Option<MountLine> {
        let (left, right) = line.split_once(" - ")?;
        let (mut left, mut right) = (left.split(' '), right.split(' '));
        let id = left.next()?.parse().ok()?;
        let (major, minor) = left.nth(1)?.split_once(':')?;
        Some(MountLine {
            id,
            device: (major.parse().ok()?, minor.parse().ok()?),
            at: unescape(left.nth(1)?),
            options: left.next().unwrap_or_default().to_string(),
            kind: right.next()?.to_string(),
            source: unescape(right.next().unwrap_or_default()),
            superblock: right.next().unwrap_or_default().to_string(),
        })
    }

    /// Returns the type, mount options and file system options, in the form used in a record's conditions.
    pub fn in_effect(&self) -> String {
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
pub fn of_file(file: BorrowedFd<'_>) -> io::Result<Option<MountLine>> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd()))?;
    let id = info.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse::<u64>().ok());
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    Ok(id.and_then(|id| mounts(&table).find(|line| line.id == id)))
}

/// Decodes a path in /proc, in which blank, tab, newline, hash and backslash are octal numbers.
pub fn unescape(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\043", "#"), ("\\134", "\\")]
        .iter()
        .fold(text.to_string(), |text, (from, to)| text.replace(from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro
not a line of a table
40 22 43:0 / /mnt/two\\040words rw,noatime - xfs /dev/nbd0 rw,attr2,noquota
";

    #[test]
    fn lines_are_parsed_and_other_text_is_skipped() {
        let lines: Vec<MountLine> = mounts(TABLE).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0].in_effect(), "ext4 rw,relatime rw,errors=remount-ro");
        assert_eq!((lines[0].id, lines[1].id), (22, 40));
        assert_eq!((lines[1].device, lines[1].at.as_str()), ((43, 0), "/mnt/two words"));
        assert_eq!(lines[1].source, "/dev/nbd0");
        assert_eq!(mounts(TABLE).next_back().unwrap().kind, "xfs", "the newest first");
    }

    #[test]
    fn an_open_file_is_on_a_mount_of_its_own_device() {
        use std::os::fd::AsFd;
        let line = of_file(fs::File::open("/proc").unwrap().as_fd()).unwrap().unwrap();
        assert_eq!((line.at.as_str(), line.kind.as_str()), ("/proc", "proc"));
    }

    #[test]
    fn an_escaped_backslash_is_decoded_once() {
        assert_eq!(unescape("a\\134040b\\011c"), "a\\040b\tc");
        assert_eq!(unescape("mfs\\04310.0.0.1:9421"), "mfs#10.0.0.1:9421");
    }
}
