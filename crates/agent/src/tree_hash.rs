//! Hashes a tree of unknown content, for comparison with other trees.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use fsdyno_record::Bytes;
use fsdyno_record::canonical::Hash;
use fsdyno_record::trial::TreeReport;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, openat, readlinkat, statat};

/// Maximum depth of a tree, in directories: each level has an open file.
const MAX_DEPTH: usize = 400;

/// Maximum number of entries whose own hashes are reported.
const MAX_PARTS: usize = 256;

/// Maximum number of entries kept per level as candidates.
const MAX_KNOWN: usize = 20_000;

/// Number of hex digits of the hash of a part.
const DIGITS: usize = 16;

/// The walk of a tree.
struct Walk<'a> {
    on_progress: &'a mut dyn FnMut(),
    /// The number of each inode with several links, in the order of their first names.
    links: HashMap<(u64, u64), u64>,
    /// Hashes of the entries of the first and the second level.
    parts: [BTreeMap<String, String>; 2],
    report: TreeReport,
}

/// The hashes of an entry without and with the contents of files.
struct Hashes {
    shape: String,
    whole: String,
}

/// Returns the hash of the tree below `root`, without `root` itself. `on_progress` is called for each entry.
///
/// # Errors
/// An entry that cannot be read.
pub fn hash(root: BorrowedFd<'_>, on_progress: &mut dyn FnMut()) -> io::Result<TreeReport> {
    let (links, parts) = (HashMap::new(), [BTreeMap::new(), BTreeMap::new()]);
    let mut walk = Walk { on_progress, links, parts, report: TreeReport::default() };
    let hashes = walk.hash_directory(root, b"")?;
    let Walk { parts: [first, second], report, .. } = walk;
    let parts = select_parts(first, second);
    Ok(TreeReport { shape: hashes.shape, whole: hashes.whole, parts, ..report })
}

/// Selects the entries of the first level, and from the second level those of the smallest directories: files in large
/// directories tend to differ together, while small directories hold private files of a program.
fn select_parts(
    mut first: BTreeMap<String, String>,
    second: BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    if first.len() > MAX_PARTS {
        return BTreeMap::new();
    }
    let mut by_directory: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for (path, hash) in second {
        let directory = path.split('/').next().unwrap_or_default().to_string();
        by_directory.entry(directory).or_default().push((path, hash));
    }
    let mut directories: Vec<Vec<(String, String)>> = by_directory.into_values().collect();
    directories.sort_by_key(Vec::len);
    for entries in directories {
        if first.len() + entries.len() > MAX_PARTS {
            break;
        }
        first.extend(entries);
    }
    first
}

impl Walk<'_> {
    fn hash_directory(&mut self, dir: BorrowedFd<'_>, path: &[u8]) -> io::Result<Hashes> {
        let depth = path.iter().filter(|byte| **byte == b'/').count();
        if depth > MAX_DEPTH {
            return Err(io::Error::other(format!(
                "the tree is deeper than {MAX_DEPTH} directories"
            )));
        }
        let entries = Dir::read_from(dir)?.collect::<rustix::io::Result<Vec<_>>>()?;
        let mut names: Vec<_> = entries.iter().map(|entry| entry.file_name()).collect();
        names.retain(|name| !matches!(name.to_bytes(), b"." | b".."));
        names.sort_unstable();
        let (mut shape, mut whole) = (Hash::default(), Hash::default());
        for name in names {
            (self.on_progress)();
            let mut entry_path = path.to_vec();
            entry_path.extend_from_slice(name.to_bytes());
            let hashes = self.hash_entry(dir, name, &entry_path)?;
            for (hash, entry_hash) in [(&mut shape, &hashes.shape), (&mut whole, &hashes.whole)] {
                hash.update(name.to_bytes_with_nul());
                hash.update(entry_hash.as_bytes());
            }
            if let Some(parts) = self.parts.get_mut(depth).filter(|known| known.len() < MAX_KNOWN) {
                let text = String::from_utf8_lossy(&entry_path).escape_debug().to_string();
                parts.insert(text, hashes.whole[..DIGITS].to_string());
            }
        }
        Ok(Hashes { shape: shape.hex(), whole: whole.hex() })
    }

    fn hash_entry(
        &mut self,
        dir: BorrowedFd<'_>,
        name: &std::ffi::CStr,
        path: &[u8],
    ) -> io::Result<Hashes> {
        let with_path = |error: rustix::io::Errno| {
            let error = io::Error::from(error);
            io::Error::new(error.kind(), format!("{}: {error}", String::from_utf8_lossy(path)))
        };
        let stat = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).map_err(with_path)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        let (mut shape, mut whole) = (Hash::default(), Hash::default());
        let mut update_both = |bytes: &[u8]| {
            shape.update(bytes);
            whole.update(bytes);
        };
        update_both(&stat.st_mode.to_le_bytes());
        let open = |flags: OFlags| {
            let flags = flags | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            openat(dir, name, flags, Mode::empty()).map_err(with_path)
        };
        if kind == FileType::Directory {
            self.report.directories += 1;
            let opened = open(OFlags::DIRECTORY)?;
            let directory_hashes =
                self.hash_directory(opened.as_fd(), &[path, b"/".as_slice()].concat())?;
            shape.update(directory_hashes.shape.as_bytes());
            whole.update(directory_hashes.whole.as_bytes());
            return Ok(Hashes { shape: shape.hex(), whole: whole.hex() });
        }
        self.report.files += 1;
        let is_first_name = self.add_links(&stat, &mut update_both);
        match kind {
            FileType::Symlink => {
                update_both(readlinkat(dir, name, Vec::new()).map_err(with_path)?.to_bytes())
            }
            FileType::RegularFile => {
                update_both(&stat.st_size.to_le_bytes());
                let bytes = if is_first_name { stat.st_size as u64 } else { 0 };
                self.report.bytes = self.report.bytes + Bytes(bytes);
                self.hash_contents(open(OFlags::empty())?, &mut whole)?;
            }
            _ => update_both(&stat.st_rdev.to_le_bytes()),
        }
        Ok(Hashes { shape: shape.hex(), whole: whole.hex() })
    }

    /// Adds the link count of a file, and its group if it has several links; returns true for its first name.
    fn add_links(&mut self, stat: &Stat, update: &mut dyn FnMut(&[u8])) -> bool {
        update(&stat.st_nlink.to_le_bytes());
        if stat.st_nlink < 2 {
            return true;
        }
        let next = self.links.len() as u64;
        let group = *self.links.entry((stat.st_dev, stat.st_ino)).or_insert(next);
        update(&group.to_le_bytes());
        group == next
    }

    fn hash_contents(&mut self, file: OwnedFd, hash: &mut Hash) -> io::Result<()> {
        let (mut file, mut buffer) = (File::from(file), vec![0; 256 << 10]);
        loop {
            match file.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(count) => hash.update(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            (self.on_progress)();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;

    use super::*;

    fn hash_changed_tree(change: impl FnOnce(&Path)) -> TreeReport {
        let folder = tempfile::tempdir().unwrap();
        let path_of = |name: &str| folder.path().join(name);
        fs::create_dir_all(path_of("d/e")).unwrap();
        fs::write(path_of("d/file"), b"content").unwrap();
        fs::write(path_of("d/e/deep"), b"deep").unwrap();
        fs::hard_link(path_of("d/file"), path_of("link")).unwrap();
        symlink("nowhere", path_of("soft")).unwrap();
        change(folder.path());
        hash(File::open(folder.path()).unwrap().as_fd(), &mut || {}).unwrap()
    }

    #[test]
    fn equal_trees_have_equal_hashes_whatever_their_times_and_inodes() {
        let original = hash_changed_tree(|_| {});
        let changed = hash_changed_tree(|folder| {
            // The directory gets another inode and another time.
            fs::rename(folder.join("d/e"), folder.join("x")).unwrap();
            fs::create_dir(folder.join("d/e")).unwrap();
            fs::rename(folder.join("x/deep"), folder.join("d/e/deep")).unwrap();
            fs::remove_dir(folder.join("x")).unwrap();
        });
        assert_eq!(original, changed);
        assert_eq!((original.files, original.directories, original.bytes), (4, 2, Bytes(11)));
        let parts: Vec<&str> = original.parts.keys().map(String::as_str).collect();
        assert_eq!(parts, ["d", "d/e", "d/file", "link", "soft"]);
    }

    #[test]
    fn changed_contents_change_the_whole_hash_and_those_of_the_affected_parts_only() {
        let original = hash_changed_tree(|_| {});
        let changed =
            hash_changed_tree(|folder| fs::write(folder.join("d/e/deep"), b"peed").unwrap());
        assert_eq!(original.shape, changed.shape);
        assert_ne!(original.whole, changed.whole);
        let differing: Vec<&str> = original
            .parts
            .iter()
            .filter(|(path, hash)| changed.parts[*path] != **hash)
            .map(|(path, _)| path.as_str())
            .collect();
        assert_eq!(differing, ["d", "d/e"]);
    }

    #[test]
    fn names_modes_sizes_targets_and_links_change_the_shape() {
        type Change = fn(&Path);
        let changes: [Change; 5] = [
            |folder| fs::rename(folder.join("d/file"), folder.join("d/life")).unwrap(),
            |folder| {
                let mode = fs::Permissions::from_mode(0o600);
                fs::set_permissions(folder.join("d/e/deep"), mode).unwrap();
            },
            |folder| fs::write(folder.join("d/e/deep"), b"deeper").unwrap(),
            |folder| {
                fs::remove_file(folder.join("soft")).unwrap();
                symlink("elsewhere", folder.join("soft")).unwrap();
            },
            |folder| {
                fs::remove_file(folder.join("link")).unwrap();
                fs::write(folder.join("link"), b"content").unwrap();
            },
        ];
        let original = hash_changed_tree(|_| {}).shape;
        let mut shapes: Vec<String> =
            changes.map(|change| hash_changed_tree(change).shape).to_vec();
        shapes.push(original);
        shapes.sort();
        shapes.dedup();
        assert_eq!(shapes.len(), changes.len() + 1);
    }
}
