//! Lists everything in a tree, with names, sizes and hashes.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use fsdyno_crash::found::{self, Entry, Kind, SECTOR};

/// Appends all entries below `root` to the bytes of a tree. An entry that cannot be read is marked as such.
pub fn walk(root: &Path, tree: &mut Vec<u8>) {
    let mut open = vec![root.to_path_buf()];
    while let Some(folder) = open.pop() {
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) => {
                found::put(tree, &unreadable(root, &folder, &error));
                continue;
            }
        };
        for entry in entries {
            match entry {
                Err(error) => {
                    found::put(tree, &unreadable(root, &folder, &error));
                    break;
                }
                Ok(entry) => {
                    let path = entry.path();
                    let seen = look(root, &path);
                    if seen.kind == Kind::Directory && seen.error == 0 {
                        open.push(path);
                    }
                    found::put(tree, &seen);
                }
            }
        }
    }
}

fn below(root: &Path, path: &Path) -> Vec<u8> {
    path.strip_prefix(root).unwrap_or(path).as_os_str().as_bytes().to_vec()
}

fn errno(error: &io::Error) -> u8 {
    error.raw_os_error().and_then(|errno| errno.try_into().ok()).unwrap_or(u8::MAX)
}

fn unreadable(root: &Path, path: &Path, error: &io::Error) -> Entry {
    let (kind, path) = (Kind::Directory, below(root, path));
    Entry { kind, error: errno(error), path, size: 0, inode: 0, hashes: Vec::new() }
}

fn look(root: &Path, path: &Path) -> Entry {
    let mut entry = Entry {
        kind: Kind::Other,
        error: 0,
        path: below(root, path),
        size: 0,
        inode: 0,
        hashes: Vec::new(),
    };
    let seen = path.symlink_metadata().and_then(|status| {
        (entry.size, entry.inode) = (status.len(), status.ino());
        entry.kind = match () {
            () if status.is_file() => Kind::File,
            () if status.is_dir() => Kind::Directory,
            () => Kind::Other,
        };
        if entry.kind == Kind::File {
            entry.hashes = hashes(path)?;
        }
        Ok(())
    });
    entry.error = seen.err().map_or(0, |error| errno(&error));
    entry
}

fn hashes(path: &Path) -> io::Result<Vec<u32>> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0; 64 << 10];
    let mut hashes = Vec::new();
    loop {
        let mut filled = 0;
        while filled < buffer.len() {
            match file.read(&mut buffer[filled..])? {
                0 => break,
                got => filled += got,
            }
        }
        hashes.extend(buffer[..filled].chunks(SECTOR).map(found::hash));
        if filled < buffer.len() {
            return Ok(hashes);
        }
    }
}
