//! The guest's first file system: a newc cpio archive whose bytes depend only on its contents.
//!
//! The format is that of Documentation/driver-api/early-userspace/buffer-format.rst. Names are sorted, timestamps and
//! owners are zero, and inode numbers start at one, because these bytes affect the guest's results (24 bytes of
//! timestamps changed the time of a create by 0.005 % [RUN]).

use std::collections::BTreeMap;

/// An archive under construction.
#[derive(Debug, Default)]
pub struct Archive {
    entries: BTreeMap<String, Entry>,
}

#[derive(Debug)]
struct Entry {
    mode: u32,
    device: (u32, u32),
    contents: Vec<u8>,
}

const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const CHARACTER_DEVICE: u32 = 0o020_600;

impl Archive {
    /// Creates an archive with the folders of every guest, and the console for standard input and output of
    /// PID 1.
    pub fn new() -> Archive {
        let mut archive = Archive::default();
        for folder in ["dev", "etc", "mnt", "proc", "sys", "tmp"] {
            archive.add(folder, Entry { mode: FOLDER, device: (0, 0), contents: Vec::new() });
        }
        // The console is device 5:1, see Documentation/admin-guide/devices.txt.
        let console = Entry { mode: CHARACTER_DEVICE, device: (5, 1), contents: Vec::new() };
        archive.add("dev/console", console);
        archive
    }

    /// Adds a file at an absolute path, with its parent folders, or replaces it.
    pub fn file(&mut self, path: &str, contents: Vec<u8>) {
        let path = path.trim_matches('/');
        for (at, _) in path.match_indices('/') {
            let folder = Entry { mode: FOLDER, device: (0, 0), contents: Vec::new() };
            self.entries.entry(path[..at].to_string()).or_insert(folder);
        }
        // All files are executable: a guest needs no finer modes, and a fixed mode does not vary between hosts.
        self.add(path, Entry { mode: PROGRAM, device: (0, 0), contents });
    }

    /// Returns the archive for QEMU's `-initrd`.
    pub fn bytes(&self) -> Vec<u8> {
        let size: usize = self.entries.iter().map(|(n, e)| n.len() + e.contents.len() + 120).sum();
        let mut out = Vec::with_capacity(size + 1024);
        // In byte order, a folder precedes its contents.
        for (inode, (name, entry)) in (1..).zip(&self.entries) {
            write(&mut out, inode, name, entry);
        }
        write(&mut out, 0, "TRAILER!!!", &Entry { mode: 0, device: (0, 0), contents: Vec::new() });
        out
    }

    fn add(&mut self, path: &str, entry: Entry) {
        self.entries.insert(path.to_string(), entry);
    }
}

fn write(out: &mut Vec<u8>, inode: u32, name: &str, entry: &Entry) {
    // The format has 32-bit sizes; larger files do not fit into a guest anyway.
    let size = u32::try_from(entry.contents.len()).unwrap_or(u32::MAX);
    let name_size = u32::try_from(name.len() + 1).unwrap_or(u32::MAX);
    let (major, minor) = entry.device;
    out.extend_from_slice(b"070701");
    // inode, mode, uid, gid, links, mtime, size, device of the file system, device of the file,
    // length of the name, checksum.
    for field in [inode, entry.mode, 0, 0, 1, 0, size, 0, 0, major, minor, name_size, 0] {
        out.extend_from_slice(format!("{field:08X}").as_bytes());
    }
    out.extend_from_slice(name.as_bytes());
    out.push(0);
    out.resize(out.len().next_multiple_of(4), 0);
    out.extend_from_slice(&entry.contents);
    out.resize(out.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_do_not_depend_on_the_order_of_additions() {
        let (mut one, mut two) = (Archive::new(), Archive::new());
        one.file("/bin/mke2fs", b"tool".to_vec());
        one.file("/init", b"agent".to_vec());
        two.file("/init", b"agent".to_vec());
        two.file("/bin/mke2fs", b"tool".to_vec());
        assert_eq!(one.bytes(), two.bytes());
    }

    #[test]
    fn every_entry_is_aligned_and_folders_come_before_their_files() {
        let mut archive = Archive::new();
        archive.file("/lab/ko/x.ko", b"12345".to_vec());
        let bytes = archive.bytes();
        let mut names = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            assert_eq!(&bytes[at..at + 6], b"070701");
            let field = |index: usize| {
                let start = at + 6 + index * 8;
                let text = std::str::from_utf8(&bytes[start..start + 8]).unwrap();
                usize::from_str_radix(text, 16).unwrap()
            };
            let (size, name) = (field(6), field(11));
            assert_eq!(field(5), 0, "a time is not zero");
            names.push(String::from_utf8(bytes[at + 110..at + 110 + name - 1].to_vec()).unwrap());
            at = (at + 110 + name).next_multiple_of(4) + size.next_multiple_of(4);
        }
        let expected = "dev dev/console etc lab lab/ko lab/ko/x.ko mnt proc sys tmp TRAILER!!!";
        assert_eq!(names.join(" "), expected);
    }

    #[test]
    fn cpio_reads_it() {
        use std::io::Write;
        use std::process::{Command, Stdio};
        let mut archive = Archive::new();
        archive.file("/init", b"agent".to_vec());
        let child = Command::new("cpio")
            .args(["-it", "--quiet"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut child) = child else {
            println!("skipped: cpio is not installed");
            return;
        };
        child.stdin.take().unwrap().write_all(&archive.bytes()).unwrap();
        let listing = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
        assert_eq!(listing, "dev\ndev/console\netc\ninit\nmnt\nproc\nsys\ntmp\n");
    }
}
