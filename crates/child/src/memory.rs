//! Files in memory (memfd), freed when their last user closes them; one of them is the mailbox.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::AtomicU64;

use fsdyno_record::mailbox::{Mailbox, MailboxError, SIZE};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Creates an empty file in memory; it is closed on exec unless a child inherits it explicitly.
///
/// # Errors
/// The error of memfd_create(2).
pub fn memory_file(name: &CStr) -> io::Result<File> {
    Ok(File::from(memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?))
}

/// Creates a file in memory with these bytes, sealed against any change.
///
/// # Errors
/// The error of memfd_create(2) or write(2).
pub fn sealed_file(name: &CStr, bytes: &[u8]) -> io::Result<File> {
    let mut file = memory_file(name)?;
    file.write_all(bytes)?;
    let seals = SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    fcntl_add_seals(&file, seals)?;
    Ok(file)
}

/// A read-only mapping of the beginning of a file.
///
/// The file must be private to this process: if it shrinks, a read ends the process (SIGBUS).
#[derive(Debug)]
pub struct Mapped {
    start: *mut libc::c_void,
    length: usize,
}

// SAFETY: the memory is never written, so any thread may read it.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Maps `length` bytes; the file must be at least that long.
    ///
    /// # Errors
    /// The error of mmap(2).
    pub fn new(file: &File, length: usize) -> io::Result<Mapped> {
        if length == 0 {
            return Ok(Mapped { start: std::ptr::null_mut(), length });
        }
        // SAFETY: a new mapping at an address chosen by the kernel overlaps nothing.
        let start = unsafe {
            mmap(std::ptr::null_mut(), length, ProtFlags::READ, MapFlags::SHARED, file, 0)?
        };
        Ok(Mapped { start, length })
    }
}

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        if self.length == 0 {
            return &[];
        }
        // SAFETY: the mapping is `length` bytes long, lives as long as self, and no process writes to the file.
        unsafe { std::slice::from_raw_parts(self.start.cast(), self.length) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        if self.length > 0 {
            // SAFETY: the mapping was made in `new` with this size, and no view of it outlives self.
            let _ = unsafe { munmap(self.start, self.length) };
        }
    }
}

/// A mailbox in memory that a child can also map.
#[derive(Debug)]
pub struct SharedMailbox {
    file: File,
    memory: *mut libc::c_void,
}

// SAFETY: the memory is accessed only as atomics, from any thread.
unsafe impl Send for SharedMailbox {}
// SAFETY: as above.
unsafe impl Sync for SharedMailbox {}

impl SharedMailbox {
    /// Allocates zeroed memory.
    ///
    /// # Errors
    /// The error of memfd_create(2), fcntl(2) or mmap(2).
    pub fn new() -> io::Result<SharedMailbox> {
        let file = memory_file(c"fsdyno-mailbox")?;
        file.set_len(SIZE as u64)?;
        // A child that shrank the file would kill this process with SIGBUS at the next access.
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address chosen by the kernel overlaps nothing; the file is
        // SIZE bytes long and sealed against shrinking.
        let memory =
            unsafe { mmap(std::ptr::null_mut(), SIZE, access, MapFlags::SHARED, &file, 0)? };
        Ok(SharedMailbox { file, memory })
    }

    /// Returns the mailbox in this memory.
    ///
    /// # Errors
    /// None in practice: the memory is exactly as large as a mailbox.
    pub fn mailbox(&self) -> Result<Mailbox<'_>, MailboxError> {
        // SAFETY: the mapping is SIZE bytes, page-aligned, and lives as long as self; any bits are
        // a valid AtomicU64, and the child also writes only whole words.
        let words =
            unsafe { std::slice::from_raw_parts(self.memory.cast::<AtomicU64>(), SIZE / 8) };
        Mailbox::new(words)
    }
}

impl AsFd for SharedMailbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for SharedMailbox {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `new` with this size, and no view of it outlives self.
        let _ = unsafe { munmap(self.memory, SIZE) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn the_contents_of_the_mailbox_are_in_the_file_that_a_child_inherits() {
        let shared = SharedMailbox::new().unwrap();
        shared.mailbox().unwrap().write_job(b"a job").unwrap();
        let mut bytes = [0; 5];
        shared.file.read_exact_at(&mut bytes, 4096).unwrap();
        assert_eq!(&bytes, b"a job");
    }

    #[test]
    fn a_sealed_file_has_its_bytes_and_cannot_change() {
        let file = sealed_file(c"sealed", b"bytes").unwrap();
        let mut bytes = [0; 5];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"bytes");
        assert!(file.write_at(b"other", 0).is_err() && file.set_len(0).is_err());
    }

    #[test]
    fn the_mailbox_cannot_be_shrunk() {
        assert!(SharedMailbox::new().unwrap().file.set_len(0).is_err());
    }
}
