//! Reads files back and compares them with the workload's expectation.

use std::collections::HashMap;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use fsdyno_record::plan::VerifyMode;
use fsdyno_record::seed::mix;
use fsdyno_record::trial::VerifyReport;
use fsdyno_workload::contents::MAX_SLICE;
use fsdyno_workload::{Contents, Expected, ExpectedKind, Links, Payload, Tree};

use crate::clock;
use crate::errno::Errno;
use crate::scan::Directory;

/// Maximum number of differences reported in full.
const MAX_EXAMPLES: usize = 10;

/// The number of files of which [`VerifyMode::Sampled`] reads one.
const SAMPLE_INTERVAL: u64 = 64;

/// The length in bytes from which an expected hole of a file in pieces is not read, if the file system reports it as
/// one.
const LARGE_HOLE: u64 = 1 << 20;

/// Walks everything below `root` and compares it with `tree`: kinds, sizes, bytes (depending on `mode`),
/// and the totals, so that every lost or extra file is found. `seed` selects the sample; `tick`
/// receives the number of entries checked, as a sign of progress.
///
/// It needs memory for one directory buffer per level of the tree, and 8 bytes for each
/// name in the open directories, so that a duplicate name cannot hide a lost
/// one. Access times are not changed if the caller has the right to prevent that.
///
/// # Errors
/// An error from opening the root itself; errors below it are differences.
pub fn verify(
    root: BorrowedFd<'_>,
    tree: &dyn Tree,
    contents: &Contents,
    mode: VerifyMode,
    seed: u64,
    tick: &mut dyn FnMut(u64),
) -> io::Result<VerifyReport> {
    let started = clock::now();
    let mut walk = Walk {
        tree,
        contents,
        seed,
        tick,
        report: VerifyReport { mode, ..VerifyReport::default() },
        path: Vec::new(),
        buffer: vec![0; MAX_SLICE],
        files: 0,
        directories: 0,
        groups: HashMap::new(),
    };
    let root =
        open_directory(root.as_raw_fd(), c".").map_err(|e| io::Error::from_raw_os_error(e.0))?;
    walk.check_directory(root);
    walk.check_totals();
    walk.report.elapsed_ns = clock::now().since(started);
    Ok(walk.report)
}

struct Walk<'a> {
    tree: &'a dyn Tree,
    contents: &'a Contents,
    seed: u64,
    tick: &'a mut dyn FnMut(u64),
    report: VerifyReport,
    /// Current path below the root.
    path: Vec<u8>,
    buffer: Vec<u8>,
    /// Number of expected files whose name was found.
    files: u64,
    /// Number of expected directories whose name was found.
    directories: u64,
    /// Group of hard links → the inode of the first one found.
    groups: HashMap<u64, u64>,
}

impl Walk<'_> {
    fn add_problem(&mut self, description: &str) {
        let path = String::from_utf8_lossy(&self.path).into_owned();
        self.add_problems(1, format!("{path}: {description}"));
    }

    fn add_problems(&mut self, count: u64, description: String) {
        self.report.problems += count;
        if self.report.examples.len() < MAX_EXAMPLES {
            self.report.examples.push(description);
        }
    }

    fn check_directory(&mut self, mut directory: Directory) {
        let mut names = NameHashes::default();
        loop {
            match directory.fill() {
                Ok(true) => {}
                Ok(false) => return self.check_duplicates(names),
                Err(errno) => return self.add_problem(&format!("cannot be read: {errno}")),
            }
            let fd = directory.fd();
            while let Some(entry) = directory.entry() {
                names.add(entry.name.to_bytes());
                let length = self.path.len();
                if length > 0 {
                    self.path.push(b'/');
                }
                self.path.extend_from_slice(entry.name.to_bytes());
                self.check_entry(fd, entry.name);
                self.path.truncate(length);
            }
        }
    }

    /// Reports duplicate names: a broken file system may return a name twice and lose another, with
    /// correct totals.
    fn check_duplicates(&mut self, names: NameHashes) {
        let duplicates = names.duplicates();
        if duplicates > 0 {
            let path = String::from_utf8_lossy(&self.path).into_owned();
            self.add_problems(
                duplicates,
                format!("{path}/: contains {duplicates} duplicate names"),
            );
        }
    }

    fn check_entry(&mut self, parent: RawFd, name: &CStr) {
        let expected = self.tree.lookup(&self.path);
        (self.tick)(self.report.files + self.report.directories);
        let status = match status(parent, name) {
            Ok(status) => status,
            Err(errno) => {
                return self.add_problem(&format!("cannot be examined with stat: {errno}"));
            }
        };
        match expected {
            Some(Expected { kind: ExpectedKind::Directory, .. }) => self.directories += 1,
            Some(_) => self.files += 1,
            None => {}
        }
        let kind = status.st_mode & libc::S_IFMT;
        match kind {
            libc::S_IFDIR => self.report.directories += 1,
            _ => self.report.files += 1,
        }
        let Some(expected) = expected else {
            self.report.extra += 1;
            return self.add_problem("should not be there");
        };
        self.check_attributes(expected, &status);
        match (expected.kind, kind) {
            (ExpectedKind::Directory, libc::S_IFDIR) => match open_directory(parent, name) {
                Ok(directory) => self.check_directory(directory),
                Err(errno) => self.add_problem(&format!("cannot be opened: {errno}")),
            },
            (ExpectedKind::Symlink, libc::S_IFLNK) => self.check_symlink(parent, name),
            (ExpectedKind::File(payload), libc::S_IFREG) => {
                let size = u64::from(payload.length);
                self.check_file(parent, name, (status.st_size as u64, size), Some(payload));
            }
            (ExpectedKind::Pieces(size), libc::S_IFREG) => {
                self.check_file(parent, name, (status.st_size as u64, size), None);
            }
            (ExpectedKind::Sized(size), libc::S_IFREG) => {
                if status.st_size as u64 != size {
                    self.add_problem(&format!("is {} bytes long, not {size}", status.st_size));
                }
            }
            (expected, kind) => {
                self.add_problem(&format!(
                    "is {}, not {}",
                    kind_name(kind),
                    expected_name(expected)
                ));
            }
        }
    }

    /// Checks mode, time and links, if the workload specifies them. If it does not specify links, a file has one.
    fn check_attributes(&mut self, expected: Expected, status: &libc::stat) {
        let mode = status.st_mode & 0o7777;
        if expected.mode.is_some_and(|expected_value| expected_value != mode) {
            let expected_value = expected.mode.unwrap_or_default();
            self.add_problem(&format!("has mode {mode:o}, not {expected_value:o}"));
        }
        if expected.mtime.is_some_and(|expected_value| expected_value != status.st_mtime) {
            let (found, expected_value) = (status.st_mtime, expected.mtime.unwrap_or_default());
            self.add_problem(&format!(
                "has modification time {found}, not {expected_value} (seconds since 1970)"
            ));
        }
        if let Some(Links { group, count }) = expected.links {
            if count != status.st_nlink {
                self.add_problem(&format!("has {} links, not {count}", status.st_nlink));
            }
            if *self.groups.entry(group).or_insert(status.st_ino) != status.st_ino {
                self.add_problem("is not the same file as its other links");
            }
        } else if status.st_mode & libc::S_IFMT == libc::S_IFREG && status.st_nlink != 1 {
            // If a broken file system assigns one inode to two names, the bytes may still be right.
            self.add_problem(&format!("has {} links, not 1", status.st_nlink));
        }
    }

    fn check_symlink(&mut self, parent: RawFd, name: &CStr) {
        let mut found = [0u8; libc::PATH_MAX as usize];
        // SAFETY: the name ends in NUL, the buffer is valid for writes of its whole length.
        let length = unsafe {
            libc::readlinkat(parent, name.as_ptr(), found.as_mut_ptr().cast(), found.len())
        };
        if length < 0 {
            return self.add_problem(&format!("cannot be read: {}", Errno::last()));
        }
        let found = &found[..length as usize];
        let expected = self.tree.target(&self.path);
        if expected.as_deref() != Some(found) {
            let display = |target: &[u8]| String::from_utf8_lossy(target).into_owned();
            let expected =
                expected.as_deref().map_or_else(|| "the expected target".to_string(), display);
            self.add_problem(&format!("points to {}, not {expected}", display(found)));
        }
    }

    fn check_file(
        &mut self,
        parent: RawFd,
        name: &CStr,
        (size, wanted): (u64, u64),
        payload: Option<Payload>,
    ) {
        if size != wanted {
            self.add_problem(&format!("is {size} bytes long, not {wanted}"));
        } else if size > 0 && self.should_compare() {
            match self.compare(parent, name, size, payload) {
                Ok(None) => {}
                Ok(Some(at)) => self.add_problem(&format!("byte {at} is not what was written")),
                Err(errno) => self.add_problem(&format!("cannot be read: {errno}")),
            }
        }
    }

    /// Returns true if the bytes of the file at the current path are compared.
    fn should_compare(&self) -> bool {
        match self.report.mode {
            VerifyMode::Full => true,
            VerifyMode::Names => false,
            VerifyMode::Sampled => {
                let hash =
                    self.path.iter().fold(self.seed, |hash, byte| mix(hash ^ u64::from(*byte)));
                hash % SAMPLE_INTERVAL == 0
            }
        }
    }

    /// Returns the offset of the first difference between the file and its payload (or its pieces), if
    /// any.
    fn compare(
        &mut self,
        parent: RawFd,
        name: &CStr,
        size: u64,
        payload: Option<Payload>,
    ) -> Result<Option<u64>, Errno> {
        let file = open(parent, name, libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_CLOEXEC)?;
        let mut done = 0u64;
        while done < size {
            if payload.is_none() {
                done = self.skip_hole(&file, done)?;
                if done >= size {
                    break;
                }
            }
            // SAFETY: the buffer is valid for writes of its whole length.
            let count = unsafe {
                libc::read(file.as_raw_fd(), self.buffer.as_mut_ptr().cast(), self.buffer.len())
            };
            match count {
                0 => return Ok(Some(done)),
                1.. => {}
                _ => return Err(Errno::last()),
            }
            self.report.bytes.0 += count as u64;
            let difference = match payload {
                Some(payload) => {
                    let remaining = Contents::rest(payload, done as u32);
                    self.contents.difference(remaining, &self.buffer[..count as usize])
                }
                None => self.pieces_difference(done, count as usize),
            };
            if let Some(offset) = difference {
                return Ok(Some(done + offset));
            }
            done += count as u64;
        }
        Ok(None)
    }

    /// Returns the end of the hole in a file at `offset`, as far as zeros are expected there; the file's position is
    /// then there, too. Small holes are read.
    fn skip_hole(&self, file: &OwnedFd, offset: u64) -> Result<u64, Errno> {
        let zeros = |at: u64| {
            let piece = self.tree.piece(&self.path, at)?;
            (piece.id == Payload::ZEROS).then_some(u64::from(piece.length))
        };
        if zeros(offset).is_none_or(|length| length < LARGE_HOLE) {
            return Ok(offset);
        }
        let seek = |to: u64, whence| {
            // SAFETY: takes no pointers.
            let at = unsafe { libc::lseek(file.as_raw_fd(), to as i64, whence) };
            if at < 0 { Err(Errno::last()) } else { Ok(at as u64) }
        };
        let data = match seek(offset, libc::SEEK_DATA) {
            Err(Errno(libc::ENXIO)) => u64::MAX,
            Err(Errno(libc::EINVAL | libc::EOPNOTSUPP)) => offset,
            data => data?,
        };
        let mut end = offset;
        while end < data
            && let Some(length) = zeros(end).filter(|length| *length > 0)
        {
            end += length;
        }
        seek(end.min(data), libc::SEEK_SET)
    }

    /// Returns the offset of the first difference in the buffer, which holds the file from `offset` on.
    fn pieces_difference(&self, offset: u64, length: usize) -> Option<u64> {
        let mut checked = 0;
        while checked < length {
            let piece = self.tree.piece(&self.path, offset + checked as u64);
            let Some(piece) = piece.filter(|piece| piece.length > 0) else {
                return Some(checked as u64);
            };
            let part = (piece.length as usize).min(length - checked);
            if let Some(difference) =
                self.contents.difference(piece, &self.buffer[checked..checked + part])
            {
                return Some(checked as u64 + difference);
            }
            checked += part;
        }
        None
    }

    /// Compares the totals: only the number of missing files is known, since the tree cannot list its paths.
    fn check_totals(&mut self) {
        let totals = [
            ("files", self.files, self.tree.files()),
            ("directories", self.directories, self.tree.directories()),
        ];
        for (kind, found, wanted) in totals {
            if found < wanted {
                let sentence = format!("{} of {wanted} {kind} are missing", wanted - found);
                self.report.missing += wanted - found;
                self.add_problems(wanted - found, sentence);
            } else if found > wanted {
                let sentence = format!("found {found} {kind}, expected {wanted}");
                self.add_problems(found - wanted, sentence);
            }
        }
    }
}

/// The names of one directory, as 64-bit hashes: among 10^7 names, two would collide by
/// chance once in 370,000 directories.
#[derive(Debug, Default)]
struct NameHashes(Vec<u64>);

impl NameHashes {
    fn add(&mut self, name: &[u8]) {
        let words = name.chunks(8).map(|part| {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            u64::from_le_bytes(word)
        });
        self.0.push(words.fold(name.len() as u64, |hash, word| mix(hash ^ word)));
    }

    /// Returns the number of duplicates: occurrences of a name beyond its first.
    fn duplicates(mut self) -> u64 {
        self.0.sort_unstable();
        self.0.windows(2).filter(|pair| pair[0] == pair[1]).count() as u64
    }
}

fn kind_name(mode: libc::mode_t) -> &'static str {
    match mode {
        libc::S_IFDIR => "a directory",
        libc::S_IFREG => "a file",
        libc::S_IFLNK => "a symbolic link",
        _ => "a special file",
    }
}

fn expected_name(expected: ExpectedKind) -> &'static str {
    match expected {
        ExpectedKind::Directory => "a directory",
        ExpectedKind::File(_) | ExpectedKind::Pieces(_) | ExpectedKind::Sized(_) => "a file",
        ExpectedKind::Symlink => "a symbolic link",
    }
}

/// Calls fstatat(2), without following a symbolic link.
pub(crate) fn status(parent: RawFd, name: &CStr) -> Result<libc::stat, Errno> {
    let mut status = std::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the name ends in NUL, `status` is valid for writes of one `stat`.
    let result = unsafe {
        libc::fstatat(parent, name.as_ptr(), status.as_mut_ptr(), libc::AT_SYMLINK_NOFOLLOW)
    };
    if result != 0 {
        return Err(Errno::last());
    }
    // SAFETY: zeroed before, and filled by the call; every bit pattern is a valid `stat`.
    Ok(unsafe { status.assume_init() })
}

/// Opens a directory without changing its access time, if permitted (owner and root only).
fn open_directory(parent: RawFd, name: &CStr) -> Result<Directory, Errno> {
    match Directory::open(parent, name, libc::O_NOATIME) {
        Err(Errno(libc::EPERM)) => Directory::open(parent, name, 0),
        result => result,
    }
}

fn open(parent: RawFd, name: &CStr, flags: libc::c_int) -> Result<OwnedFd, Errno> {
    let mut last = Errno(libc::EPERM);
    for flags in [flags | libc::O_NOATIME, flags] {
        // SAFETY: the name ends in NUL and lives as long as the call.
        let fd = unsafe { libc::openat(parent, name.as_ptr(), flags) };
        if fd >= 0 {
            // SAFETY: the descriptor is new and owned by no one else.
            return Ok(unsafe { OwnedFd::from_raw_fd(fd) });
        }
        last = Errno::last();
        if last != Errno(libc::EPERM) {
            break;
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicate_names_are_counted_however_far_apart() {
        let mut names = NameHashes::default();
        for number in 0..20_000 {
            names.add(format!("f{number:07}").as_bytes());
        }
        names.add(b"f");
        names.add(b"f\xff");
        assert_eq!(NameHashes(names.0.clone()).duplicates(), 0);
        names.add(b"f0000000");
        names.add(b"f0019999");
        names.add(b"f0019999");
        assert_eq!(names.duplicates(), 3);
    }
}
