//! Memory and files without a name: whatever happens to this process, nothing of them is left.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::sync::atomic::AtomicU64;

/// An empty file in memory that vanishes with its last user. It is closed on exec.
pub fn memory_file(name: &std::ffi::CStr) -> io::Result<File> {
    // SAFETY: the name is a C string that outlives the call, which touches no other memory.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and nobody else owns it.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// Lets a child that is about to exec keep this descriptor.
pub fn keep_on_exec(fd: RawFd) -> io::Result<()> {
    // SAFETY: fcntl with F_SETFD takes a number and changes only the descriptor's flags.
    match unsafe { libc::fcntl(fd, libc::F_SETFD, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A file mapped as shared 64-bit words.
#[derive(Debug)]
pub struct Mapping {
    start: *const AtomicU64,
    length: usize,
}

// SAFETY: the memory is only ever accessed as atomics, from any thread.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `length` bytes of a file that is at least that long.
    pub fn new(file: &File, length: usize) -> io::Result<Mapping> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                protection,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Mapping { start: start.cast(), length })
    }

    /// The words.
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is page-aligned, lives as long as self, and every bit pattern is an
        // AtomicU64; other processes change it only through memory that is atomic for us.
        unsafe { std::slice::from_raw_parts(self.start, self.length / 8) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `new` made; no borrow of it outlives self.
        unsafe { libc::munmap(self.start.cast_mut().cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn what_one_mapping_writes_another_reads() {
        let file = memory_file(c"test").unwrap();
        file.set_len(4096).unwrap();
        let (one, two) = (Mapping::new(&file, 4096).unwrap(), Mapping::new(&file, 4096).unwrap());
        one.words()[511].store(7, Ordering::Release);
        assert_eq!(two.words()[511].load(Ordering::Acquire), 7);
        assert_eq!(one.words().len(), 512);
    }
}
