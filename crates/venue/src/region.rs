//! A guest's memory, read on the host from its backing file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use fsdyno_disk::store::Memory;

/// Number of bytes read for a single word. A store reads word by word, alternately from its table and from its pages,
/// and the table of a 1 TB disk has half a million words.
const WINDOW_SIZE: u64 = 64 << 10;

/// The number of cached windows: one for the table, one for a page, and a neighbour of each.
const MAX_WINDOWS: usize = 4;

/// The bytes of a PCI region, read on demand after its guest has ended; nothing is written back.
pub struct Region {
    file: File,
    size: u64,
    /// Cached windows by number, the most recently used first.
    windows: Vec<(u64, Vec<u8>)>,
    /// The last slice that did not come from a window.
    buffer: Vec<u8>,
}

impl Region {
    /// Opens the region of a backing file.
    ///
    /// # Errors
    /// The error of dup(2) or fstat(2).
    pub fn open(file: &File) -> io::Result<Region> {
        let file = file.try_clone()?;
        let size = file.metadata()?.len();
        Ok(Region { file, size, windows: Vec::new(), buffer: Vec::new() })
    }

    /// Moves a window to the front, reading it if it is not cached.
    fn load_window(&mut self, number: u64) {
        let cached = self.windows.iter().position(|(cached, _)| *cached == number);
        if cached != Some(0) {
            let index = cached.unwrap_or_else(|| {
                self.windows.truncate(MAX_WINDOWS - 1);
                let from = number * WINDOW_SIZE;
                let mut bytes = vec![0; WINDOW_SIZE.min(self.size - from) as usize];
                read_or_zero(&self.file, &mut bytes, from);
                self.windows.push((number, bytes));
                self.windows.len() - 1
            });
            self.windows[..=index].rotate_right(1);
        }
    }
}

/// Reads bytes of the file. Beyond the last byte that QEMU wrote, the region is zeros, which a store interprets as
/// never written. A read error also results in zeros, so it appears as a damaged file system, not as a clean one.
fn read_or_zero(file: &File, bytes: &mut [u8], offset: u64) {
    if file.read_exact_at(bytes, offset).is_err() {
        bytes.fill(0);
    }
}

impl Memory for Region {
    fn size(&self) -> u64 {
        self.size
    }

    fn slice(&mut self, offset: u64, length: usize) -> &mut [u8] {
        let (number, start) = (offset / WINDOW_SIZE, (offset % WINDOW_SIZE) as usize);
        // Each whole block is read only once; caching it would only evict the words.
        if length <= 64
            && start + length <= WINDOW_SIZE as usize
            && offset + length as u64 <= self.size
        {
            self.load_window(number);
            return &mut self.windows[0].1[start..start + length];
        }
        self.buffer.resize(length, 0);
        read_or_zero(&self.file, &mut self.buffer, offset);
        &mut self.buffer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slice_has_the_bytes_of_the_file() {
        let file = tempfile::tempfile().unwrap();
        let size = 20 * WINDOW_SIZE + 100;
        let bytes: Vec<u8> = (0..size).map(|i| (i ^ (i >> 8) ^ (i >> 16)) as u8).collect();
        file.write_all_at(&bytes, 0).unwrap();
        let mut region = Region::open(&file).unwrap();
        let mut state = 1_u64;
        for _ in 0..5000 {
            // A generator that visits windows near and far, and their edges.
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let offset = match state >> 62 {
                0 => (state >> 33) % size,
                1 => (state >> 33) % 20 * WINDOW_SIZE + WINDOW_SIZE - 3,
                _ => (state >> 33) % (2 * WINDOW_SIZE),
            };
            let length = [1, 4, 8, 64, 4096][(state >> 29) as usize % 5].min(size - offset);
            let expected = &bytes[offset as usize..(offset + length) as usize];
            assert_eq!(region.slice(offset, length as usize), expected, "{offset} {length}");
        }
    }
}
