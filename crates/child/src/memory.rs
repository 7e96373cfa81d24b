//! Files in memory that vanish with their last user, and the mailbox as one of them.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::AtomicU64;

use fsdyno_record::mailbox::{Mailbox, MailboxError, SIZE};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// An empty file in memory, closed on exec unless a child is told to inherit it.
///
/// # Errors
/// What memfd_create(2) reports.
pub fn memory_file(name: &CStr) -> io::Result<File> {
    Ok(File::from(memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?))
}

/// A file in memory with these bytes, which nobody can change any more.
///
/// # Errors
/// What memfd_create(2) or write(2) reports.
pub fn sealed_file(name: &CStr, bytes: &[u8]) -> io::Result<File> {
    let mut file = memory_file(name)?;
    file.write_all(bytes)?;
    let seals = SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    fcntl_add_seals(&file, seals)?;
    Ok(file)
}

/// The first bytes of a file, to read.
///
/// The file must be ours alone: if somebody shrank it, reading would end this process.
#[derive(Debug)]
pub struct Mapped {
    start: *mut libc::c_void,
    length: usize,
}

// SAFETY: the memory is only ever read, from any thread.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Maps `length` bytes, of which the file must have as many.
    ///
    /// # Errors
    /// What mmap(2) refused.
    pub fn new(file: &File, length: usize) -> io::Result<Mapped> {
        if length == 0 {
            return Ok(Mapped { start: std::ptr::null_mut(), length });
        }
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
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
        // SAFETY: the mapping is that long, lives as long as self, and nobody writes to the file.
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

/// A mailbox in memory that a child can map too.
#[derive(Debug)]
pub struct SharedMailbox {
    file: File,
    memory: *mut libc::c_void,
}

// SAFETY: the memory is only ever accessed as atomics, from any thread.
unsafe impl Send for SharedMailbox {}
// SAFETY: as above.
unsafe impl Sync for SharedMailbox {}

impl SharedMailbox {
    /// Fresh, zeroed memory.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn new() -> io::Result<SharedMailbox> {
        let file = memory_file(c"fsdyno-mailbox")?;
        file.set_len(SIZE as u64)?;
        // A child that shrank the file would kill this process with SIGBUS at the next look.
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing; the file is
        // SIZE bytes long and sealed against shrinking.
        let memory =
            unsafe { mmap(std::ptr::null_mut(), SIZE, access, MapFlags::SHARED, &file, 0)? };
        Ok(SharedMailbox { file, memory })
    }

    /// The mailbox in it.
    ///
    /// # Errors
    /// None in practice: the memory is as large as a mailbox has to be.
    pub fn mailbox(&self) -> Result<Mailbox<'_>, MailboxError> {
        // SAFETY: the mapping is SIZE bytes, page-aligned, and lives as long as self; any bits are
        // an AtomicU64, and the child too writes it only as whole words.
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
    fn what_the_mailbox_holds_is_in_the_file_that_a_child_inherits() {
        let shared = SharedMailbox::new().unwrap();
        shared.mailbox().unwrap().put_job(b"a job").unwrap();
        let mut bytes = [0; 5];
        shared.file.read_exact_at(&mut bytes, 4096).unwrap();
        assert_eq!(&bytes, b"a job");
    }

    #[test]
    fn a_sealed_file_has_its_bytes_and_keeps_them() {
        let file = sealed_file(c"sealed", b"bytes").unwrap();
        let mut bytes = [0; 5];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"bytes");
        assert!(file.write_at(b"other", 0).is_err() && file.set_len(0).is_err());
    }

    #[test]
    fn nobody_can_shrink_it() {
        assert!(SharedMailbox::new().unwrap().file.set_len(0).is_err());
    }
}
