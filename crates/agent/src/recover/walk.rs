//! Lists everything in a tree, with names, sizes and hashes.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use fsdyno_crash::recovered::{self, Entry, Kind, SECTOR};

/// Appends all entries below `root` to an encoded tree. For an entry that cannot be read, the number of the error is
/// stored.
pub fn walk(root: &Path, tree: &mut Vec<u8>) {
    let mut pending = vec![root.to_path_buf()];
    while let Some(folder) = pending.pop() {
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) => {
                recovered::put(tree, &unreadable_entry(root, &folder, &error));
                continue;
            }
        };
        for listed in entries {
            match listed {
                Err(error) => {
                    recovered::put(tree, &unreadable_entry(root, &folder, &error));
                    break;
                }
                Ok(listed) => {
                    let path = listed.path();
                    let entry = read_entry(root, &path);
                    if entry.kind == Kind::Directory && entry.error == 0 {
                        pending.push(path);
                    }
                    recovered::put(tree, &entry);
                }
            }
        }
    }
}

fn relative_path(root: &Path, path: &Path) -> Vec<u8> {
    path.strip_prefix(root).unwrap_or(path).as_os_str().as_bytes().to_vec()
}

fn errno(error: &io::Error) -> u8 {
    error.raw_os_error().and_then(|errno| errno.try_into().ok()).unwrap_or(u8::MAX)
}

fn unreadable_entry(root: &Path, path: &Path, error: &io::Error) -> Entry {
    let (kind, path) = (Kind::Directory, relative_path(root, path));
    Entry { kind, error: errno(error), path, size: 0, inode: 0, hashes: Vec::new() }
}

fn read_entry(root: &Path, path: &Path) -> Entry {
    let mut entry = Entry {
        kind: Kind::Other,
        error: 0,
        path: relative_path(root, path),
        size: 0,
        inode: 0,
        hashes: Vec::new(),
    };
    let result = path.symlink_metadata().and_then(|status| {
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
    entry.error = result.err().map_or(0, |error| errno(&error));
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
                count => filled += count,
            }
        }
        hashes.extend(buffer[..filled].chunks(SECTOR).map(recovered::hash));
        if filled < buffer.len() {
            return Ok(hashes);
        }
    }
}
