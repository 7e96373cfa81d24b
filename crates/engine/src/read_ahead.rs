//! Asks the kernel to read the beginnings of many files at once.
//!
//! Whoever reads small files one after the other has a request of each, with all that it takes: in the
//! lab some 70 us of the guest's CPU, most of them for switching between driver, server and reader. One
//! madvise(2) over the files mapped side by side starts all reads under one plug (linux/mm/madvise.c,
//! linux/block/blk-core.c), where those of neighbours on the disk become one request. Nothing is read
//! through the mappings, so that a file that shrinks or cannot be read harms nobody.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// How many files are asked for at once.
pub const FILES: usize = 128;

/// The most that is asked for of one file, in bytes; what lies behind is left to the kernel's own
/// read-ahead, which is as long.
const MOST: u64 = 128 << 10;

const PAGE: u64 = 4096;

/// Addresses for the mappings of [`FILES`] files.
pub struct ReadAhead {
    start: *mut libc::c_void,
}

impl ReadAhead {
    /// None where the addresses cannot be had; then there is no reading ahead.
    pub fn new() -> Option<ReadAhead> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: reserves addresses of the kernel's choice without access rights.
        let start = unsafe { libc::mmap(ptr::null_mut(), ROOM, libc::PROT_NONE, flags, -1, 0) };
        (start != libc::MAP_FAILED).then_some(ReadAhead { start })
    }

    /// Starts to read the beginnings of these files, given with their sizes, but for those of a batch
    /// whose first is in the page cache. That it could not be done shows only in how long reading takes.
    pub fn start(&mut self, files: &[(BorrowedFd<'_>, u64)]) {
        let files = &files[..files.len().min(FILES)];
        if !files.first().is_some_and(|(file, _)| must_be_read(*file)) {
            return;
        }
        let mut length = 0;
        for (file, size) in files {
            let part = (*size).min(MOST).next_multiple_of(PAGE) as usize;
            if part > 0 && self.map(length, part, file.as_raw_fd()) {
                length += part;
            }
        }
        // SAFETY: the range lies within the reservation; MADV_WILLNEED changes no memory.
        unsafe { libc::madvise(self.start, length, libc::MADV_WILLNEED) };
        self.map(0, length, -1);
    }

    /// Maps a file, or nothing (-1), over a part of the reservation.
    fn map(&mut self, at: usize, length: usize, file: libc::c_int) -> bool {
        let (rights, kind) = match file {
            -1 => (libc::PROT_NONE, libc::MAP_ANONYMOUS | libc::MAP_NORESERVE),
            _ => (libc::PROT_READ, 0),
        };
        let flags = kind | libc::MAP_PRIVATE | libc::MAP_FIXED;
        // SAFETY: `at + length` is at most ROOM, so that the range lies within the reservation, which
        // nobody else uses and through which nothing is ever read.
        let mapped = unsafe {
            let start = self.start.cast::<u8>().add(at).cast();
            libc::mmap(start, length, rights, flags, file, 0)
        };
        mapped != libc::MAP_FAILED
    }
}

/// How many addresses all mappings together need at most.
const ROOM: usize = FILES * MOST as usize;

impl Drop for ReadAhead {
    fn drop(&mut self) {
        // SAFETY: the reservation is ours, and no reference into it was ever made.
        unsafe { libc::munmap(self.start, ROOM) };
    }
}

/// Whether the first byte of a file has to come from the device. Where the file system cannot tell
/// (EOPNOTSUPP: only some know RWF_NOWAIT) it is taken to be there.
fn must_be_read(file: BorrowedFd<'_>) -> bool {
    let mut byte = 0u8;
    let part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    // SAFETY: one part, valid for writing one byte.
    let got = unsafe { libc::preadv2(file.as_raw_fd(), &part, 1, 0, libc::RWF_NOWAIT) };
    got < 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EAGAIN)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn what_is_in_the_cache_need_not_be_read_and_nothing_is_left_mapped() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 10_000]).unwrap();
        assert!(!must_be_read(file.as_fd()), "just written");
        let mut ahead = ReadAhead::new().unwrap();
        ahead.start(&[(file.as_fd(), 10_000); 3]);
        assert!(ahead.map(0, 8192, file.as_raw_fd()));
        assert!(ahead.map(0, 8192, -1));
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let of_start = format!("{:x}-", ahead.start as usize);
        let line = maps.lines().find(|line| line.starts_with(&of_start));
        assert!(line.is_none_or(|line| line.contains("---p")), "{line:?}");
    }
}
