//! A guest's memory, read on the host out of the file behind it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use fsdyno_disk::store::Memory;

/// What is read at a time where single words are asked for. A store asks for one word after the other, of
/// its table and of its pages in turn, and a table of a TB has half a million of them.
const WINDOW: u64 = 64 << 10;

/// How many windows are kept: one for the table, one for a page, and room for a neighbour of each.
const WINDOWS: usize = 4;

/// The bytes of a PCI region, read as they are asked for, after its guest has ended; nothing is written
/// back.
pub struct Region {
    file: File,
    size: u64,
    /// Parts of it by their number, the one asked for last in front.
    windows: Vec<(u64, Vec<u8>)>,
    /// What no window holds whole.
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
        Ok(Region { file, size, windows: Vec::new(), buffer: Vec::new() })
    }

    /// Brings a window to the front, reading it if it is not there.
    fn bring(&mut self, number: u64) {
        let held = self.windows.iter().position(|(held, _)| *held == number);
        if held != Some(0) {
            let at = held.unwrap_or_else(|| {
                self.windows.truncate(WINDOWS - 1);
                let from = number * WINDOW;
                let mut bytes = vec![0; WINDOW.min(self.size - from) as usize];
                fill(&self.file, &mut bytes, from);
                self.windows.push((number, bytes));
                self.windows.len() - 1
            });
            self.windows[..=at].rotate_right(1);
        }
    }
}

/// Past the end of what QEMU wrote the region reads as zeros, which is what a store takes for "never
/// written"; a read error shows as a damaged file system, not as a clean one.
fn fill(file: &File, bytes: &mut [u8], offset: u64) {
    if file.read_exact_at(bytes, offset).is_err() {
        bytes.fill(0);
    }
}

impl Memory for Region {
    fn size(&self) -> u64 {
        self.size
    }

    fn slice(&mut self, offset: u64, length: usize) -> &mut [u8] {
        let (number, at) = (offset / WINDOW, (offset % WINDOW) as usize);
        // Whole blocks are read once each, and would only drive the words out.
        if length <= 64 && at + length <= WINDOW as usize && offset + length as u64 <= self.size {
            self.bring(number);
            return &mut self.windows[0].1[at..at + length];
        }
        self.buffer.resize(length, 0);
        fill(&self.file, &mut self.buffer, offset);
        &mut self.buffer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slice_is_what_the_file_has_there() {
        let file = tempfile::tempfile().unwrap();
        let size = 20 * WINDOW + 100;
        let bytes: Vec<u8> = (0..size).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect();
        file.write_all_at(&bytes, 0).unwrap();
        let mut region = Region::open(&file).unwrap();
        let mut at = 1_u64;
        for _ in 0..5000 {
            // Steps of a generator that visits windows near and far, their edges among them.
            at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let offset = match at >> 62 {
                0 => (at >> 33) % size,
                1 => (at >> 33) % 20 * WINDOW + WINDOW - 3,
                _ => (at >> 33) % (2 * WINDOW),
            };
            let length = [1, 4, 8, 64, 4096][(at >> 29) as usize % 5].min(size - offset);
            let want = &bytes[offset as usize..(offset + length) as usize];
            assert_eq!(region.slice(offset, length as usize), want, "{offset} {length}");
        }
    }
}
