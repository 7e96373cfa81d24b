//! The mailbox as a memfd: mapped here, inherited by the child.

use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU64;

use fsdyno_record::mailbox::{Mailbox, MailboxError, SIZE};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A mailbox in memory that a child can map too.
#[derive(Debug)]
pub struct Shared {
    memory: *mut libc::c_void,
    /// The memory as a file, closed on exec unless the child's own code says otherwise.
    pub fd: OwnedFd,
}

impl Shared {
    /// Fresh, zeroed memory.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn new() -> Result<Shared, Errno> {
        let fd = memfd_create("fsdyno-mailbox", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&fd, SIZE as u64)?;
        // A child that shrank the file would kill this process with SIGBUS at the next look.
        fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing; the file
        // is SIZE bytes long and sealed against shrinking.
        let memory = unsafe { mmap(std::ptr::null_mut(), SIZE, access, MapFlags::SHARED, &fd, 0)? };
        Ok(Shared { memory, fd })
    }

    /// The mailbox in it.
    pub fn mailbox(&self) -> Result<Mailbox<'_>, MailboxError> {
        // SAFETY: the mapping is SIZE bytes, page-aligned, and lives as long as self; the child
        // writes it only through atomics, as this side does.
        let words =
            unsafe { std::slice::from_raw_parts(self.memory.cast::<AtomicU64>(), SIZE / 8) };
        Mailbox::new(words)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `new` with this size, and no view of it outlives self.
        let _ = unsafe { munmap(self.memory, SIZE) };
    }
}
