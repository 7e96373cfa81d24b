//! A guest's memory, read on the host out of the file behind it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use fsdyno_disk::store::Memory;

/// The bytes of a PCI region, read as they are asked for; what is written to it is forgotten.
pub struct Region {
    file: File,
    size: u64,
    buffer: Vec<u8>,
}

impl Region {
    /// The region behind a file.
    ///
    /// # Errors
    /// What dup(2) and fstat(2) report.
    pub fn open(file: &File) -> io::Result<Region> {
        let file = file.try_clone()?;
        let size = file.metadata()?.len();
        Ok(Region { file, size, buffer: Vec::new() })
    }
}

impl Memory for Region {
    fn size(&self) -> u64 {
        self.size
    }

    fn slice(&mut self, offset: u64, length: usize) -> &mut [u8] {
        self.buffer.resize(length, 0);
        // Past the end of what QEMU wrote the region reads as zeros, which is what a store takes
        // for "never written"; a read error shows as a damaged file system, not as a clean one.
        if self.file.read_exact_at(&mut self.buffer, offset).is_err() {
            self.buffer.fill(0);
        }
        &mut self.buffer
    }
}
