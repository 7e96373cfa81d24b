//! Maps memory that is shared with another process: the mailbox, the modelled disk's bytes, the server's counters.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::ptr;
use std::sync::atomic::AtomicU64;

use fsdyno_disk::store::Memory;
use fsdyno_record::Bytes;
use fsdyno_workload::Input;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous};

/// Size of the part of a region that is mapped at a time. Page tables cost the guest 1/512 of the mapped size (lab.md),
/// so only windows in use are mapped.
const WINDOW: u64 = 16 << 20;

/// Maps `length` bytes of a file as words that live as long as the process.
///
/// # Errors
/// Errors from mmap(2).
pub fn shared_words(fd: BorrowedFd<'_>, length: usize) -> io::Result<&'static [AtomicU64]> {
    shared_words_at(fd, 0, length)
}

/// Maps words like [`shared_words`], but from byte `offset` of the file, which must be a multiple of the page size.
///
/// # Errors
/// Errors from mmap(2).
pub fn shared_words_at(
    fd: BorrowedFd<'_>,
    offset: u64,
    length: usize,
) -> io::Result<&'static [AtomicU64]> {
    let prot = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing of ours.
    let start = unsafe { mmap(ptr::null_mut(), length, prot, MapFlags::SHARED, fd, offset)? };
    // SAFETY: the mapping is page-aligned, `length` bytes long, never unmapped, and any bit pattern is a valid
    // AtomicU64; the other side also accesses it only as 64-bit words.
    Ok(unsafe { std::slice::from_raw_parts(start.cast(), length / 8) })
}

/// Maps the first bytes of the workload's input; they stay mapped as long as the process lives.
///
/// # Errors
/// Errors from mmap(2).
pub fn map_input(fd: BorrowedFd<'_>, Bytes(length): Bytes) -> io::Result<Input> {
    let length = usize::try_from(length).map_err(io::Error::other)?;
    // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing of ours.
    let start = unsafe { mmap(ptr::null_mut(), length, ProtFlags::READ, MapFlags::SHARED, fd, 0)? };
    // SAFETY: the mapping is `length` bytes long and never unmapped, and the process that handed the file over no
    // longer writes to it or shrinks it.
    let bytes: &'static [u8] = unsafe { std::slice::from_raw_parts(start.cast(), length) };
    Ok(Input::new(bytes))
}

/// Returns zeroed words shared with the children that this process forks.
///
/// # Errors
/// Errors from mmap(2).
pub fn shared_with_children(words: usize) -> io::Result<&'static [AtomicU64]> {
    let prot = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a fresh anonymous mapping at an address of the kernel's choice.
    let start = unsafe { mmap_anonymous(ptr::null_mut(), words * 8, prot, MapFlags::SHARED)? };
    // SAFETY: as above: aligned, long enough, zeroed, never unmapped.
    Ok(unsafe { std::slice::from_raw_parts(start.cast(), words) })
}

/// Opens the memory of an ivshmem device.
///
/// # Errors
/// If there is no such device, which means that the lab and the agent disagree.
pub fn open_pci_memory(address: &str) -> io::Result<File> {
    let folder = PathBuf::from("/sys/bus/pci/devices").join(address);
    std::fs::write(folder.join("enable"), "1")?;
    File::options().read(true).write(true).open(folder.join("resource2"))
}

/// A large region of a file, mapped window by window as it is touched.
pub struct Windows {
    file: File,
    start: *mut u8,
    size: u64,
    mapped: Vec<bool>,
}

impl Windows {
    /// Reserves addresses for the whole region but maps nothing yet. The table of windows is the only allocation, so
    /// that none is needed once the disk is being served.
    ///
    /// # Errors
    /// Errors from mmap(2) and fstat(2).
    pub fn new(file: File) -> io::Result<Windows> {
        let size = file.metadata()?.len();
        let length = usize::try_from(size).map_err(io::Error::other)?;
        // SAFETY: reserves addresses of the kernel's choice without access rights.
        let start = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                length,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )?
        };
        let windows = size.div_ceil(WINDOW) as usize;
        Ok(Windows { file, start: start.cast(), size, mapped: vec![false; windows] })
    }

    /// Maps `length` bytes from `start` now, so that the first writes of a trial need not wait for the mapping.
    ///
    /// # Errors
    /// Errors from mmap(2).
    pub fn map_ahead(&mut self, start: u64, length: u64) -> io::Result<()> {
        for window in start / WINDOW..(start + length).min(self.size).div_ceil(WINDOW) {
            self.map(window as usize)?;
        }
        Ok(())
    }

    fn map(&mut self, window: usize) -> io::Result<()> {
        let offset = window as u64 * WINDOW;
        let length = WINDOW.min(self.size - offset) as usize;
        // SAFETY: the range lies within the reservation made in `new`, which only this struct uses, so replacing that
        // part of it harms nothing.
        unsafe {
            let window = mmap(
                self.start.add(offset as usize).cast(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::FIXED,
                self.file.as_fd(),
                offset,
            )?;
            // A fork need not copy the page tables of memory that is used only by a disk's server.
            madvise(window, length, Advice::LinuxDontFork)?;
        }
        self.mapped[window] = true;
        Ok(())
    }
}

impl Drop for Windows {
    fn drop(&mut self) {
        // SAFETY: unmaps the reservation made in `new`; no slice of it outlives this struct. After a failure it stays
        // mapped, which is harmless.
        let _ = unsafe { rustix::mm::munmap(self.start.cast(), self.size as usize) };
    }
}

impl Memory for Windows {
    fn size(&self) -> u64 {
        self.size
    }

    fn slice(&mut self, offset: u64, length: usize) -> &mut [u8] {
        let end = offset.saturating_add(length as u64).min(self.size);
        let offset = offset.min(end);
        for window in offset / WINDOW..end.div_ceil(WINDOW) {
            if !self.mapped[window as usize] && self.map(window as usize).is_err() {
                // A disk that cannot reach its own bytes has failed; the trial notices the server's death, as it would
                // notice a drive that stops responding.
                std::process::abort();
            }
        }
        // SAFETY: the range was mapped readable and writable above, and `&mut self` makes this the only slice of it.
        unsafe {
            std::slice::from_raw_parts_mut(self.start.add(offset as usize), (end - offset) as usize)
        }
    }
}
