//! Assembles the image of an array on this host from the images of its disks, and verifies its mirrors
//! or parity.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use fsdyno_disk::array::{Array, Piece, SUPERBLOCK_AT, SUPERBLOCK_LENGTH};
use fsdyno_record::Bytes;
use rustix::fs::SeekFrom;
use rustix::io::Errno;

use crate::error::VenueError;

/// The size, in bytes, of the blocks that are omitted from the sparse image if they are all zeros.
const BLOCK: usize = 4096;

/// An assembled array.
pub struct Assembled {
    /// The contents.
    pub image: File,
    /// The number of stripes that are not all zeros.
    pub stripes: u64,
    /// The number of stripes whose copies differ or whose parity is wrong.
    pub wrong: u64,
    /// True if the array has parity.
    pub parity: bool,
    /// True if the array has copies or parity, so that `wrong` is meaningful.
    pub redundant: bool,
}

impl Assembled {
    /// Describes the result briefly.
    pub fn finding(&self) -> String {
        let what = if self.parity { "parity" } else { "copies" };
        match (self.redundant, self.wrong) {
            (false, _) => format!("{} stripes written, no redundancy", self.stripes),
            (true, 0) => format!("{} stripes written, {what} correct in all", self.stripes),
            (true, wrong) => {
                format!("{} stripes written, {what} wrong in {wrong} of them", self.stripes)
            }
        }
    }
}

/// Assembles an array of `size` from the images of its disks, in order.
///
/// # Errors
/// Disks that do not form an array; an image that cannot be read; no space for the new image.
pub fn assemble(disks: &[File], size: Bytes, workdir: &Path) -> Result<Assembled, VenueError> {
    let read = |error| VenueError::io("read the image of an array's disk")(error);
    let out = |error| VenueError::io("write the image to check")(error);
    let superblocks: Vec<Vec<u8>> = disks
        .iter()
        .map(|disk| {
            let mut bytes = vec![0; SUPERBLOCK_LENGTH];
            disk.read_exact_at(&mut bytes, SUPERBLOCK_AT).map(|()| bytes)
        })
        .collect::<io::Result<_>>()
        .map_err(read)?;
    let array = Array::read(&superblocks)
        .map_err(|error| VenueError::Failed(format!("failed to assemble the array: {error}")))?;
    let mut stripes = BTreeSet::new();
    for (disk, image) in disks.iter().enumerate() {
        touched(image, array.chunk(), &mut |at| stripes.extend(array.stripe_of(disk, at)))
            .map_err(read)?;
    }
    let image = tempfile::tempfile_in(workdir).map_err(out)?;
    image.set_len(size.0).map_err(out)?;
    let mut assembled = Assembled { image, stripes: 0, wrong: 0, parity: false, redundant: false };
    let chunk =
        usize::try_from(array.chunk()).map_err(|error| VenueError::Failed(error.to_string()))?;
    let (mut first, mut other, mut sum) = (vec![0; chunk], vec![0; chunk], vec![0; chunk]);
    for stripe in stripes {
        let stripe = array.stripe(stripe);
        let (mut right, mut any) = (true, false);
        sum.fill(0);
        for (at, copies) in &stripe.chunks {
            let Some((one, copies)) = copies.split_first() else { continue };
            fetch(disks, *one, &mut first).map_err(read)?;
            for copy in copies {
                fetch(disks, *copy, &mut other).map_err(read)?;
                right &= first == other;
                assembled.redundant = true;
            }
            any |= first.iter().any(|byte| *byte != 0);
            sum.iter_mut().zip(&first).for_each(|(sum, byte)| *sum ^= byte);
            store(&assembled.image, *at, size.0, &first).map_err(out)?;
        }
        if let Some(parity) = stripe.parity {
            fetch(disks, parity, &mut other).map_err(read)?;
            right &= sum == other;
            (assembled.parity, assembled.redundant) = (true, true);
        }
        // A data extent of the sparse file may still contain only zeros.
        assembled.stripes += u64::from(any);
        assembled.wrong += u64::from(!right);
    }
    Ok(assembled)
}

/// Calls `visit` with an offset in every chunk of a sparse file that contains data.
fn touched(file: &File, chunk: u64, visit: &mut dyn FnMut(u64)) -> io::Result<()> {
    let mut at = 0;
    loop {
        let data = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(Errno::NXIO) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let hole = rustix::fs::seek(file, SeekFrom::Hole(data))?;
        let mut next = data;
        while next < hole {
            visit(next);
            next = (next / chunk + 1) * chunk;
        }
        at = hole;
    }
}

fn fetch(disks: &[File], piece: Piece, into: &mut [u8]) -> io::Result<()> {
    let disk = disks.get(piece.disk).ok_or(io::ErrorKind::NotFound)?;
    disk.read_exact_at(into, piece.at)
}

/// Writes the blocks that are within `size` and not all zeros.
fn store(image: &File, at: u64, size: u64, bytes: &[u8]) -> io::Result<()> {
    for (block, at) in bytes.chunks(BLOCK).zip((at..).step_by(BLOCK)) {
        let length = size.saturating_sub(at).min(block.len() as u64) as usize;
        if block[..length].iter().any(|byte| *byte != 0) {
            image.write_all_at(&block[..length], at)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const CHUNK: u64 = 64 << 10;

    /// Creates three disks of RAID 5 with chunks of 64 KiB, 1 MiB of each in use, nothing written.
    fn disks() -> Vec<File> {
        (0..3u16)
            .map(|role| {
                let mut bytes = vec![0; SUPERBLOCK_LENGTH];
                let fields =
                    [(0, 0xa92b_4efc_u32), (4, 1), (72, 5), (76, 2), (80, 2048), (88, 128)];
                let more = [(92, 3), (128, 2048), (160, u32::from(role))];
                for (at, word) in fields.into_iter().chain(more) {
                    bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
                }
                for slot in 0..3u16 {
                    let at = 256 + 2 * usize::from(slot);
                    bytes[at..at + 2].copy_from_slice(&slot.to_le_bytes());
                }
                let file = tempfile::tempfile().unwrap();
                file.set_len(2 * MIB).unwrap();
                file.write_all_at(&bytes, SUPERBLOCK_AT).unwrap();
                file
            })
            .collect()
    }

    fn assembled(disks: &[File]) -> Assembled {
        assemble(disks, Bytes(2 * MIB), &std::env::temp_dir()).unwrap()
    }

    #[test]
    fn the_contents_of_an_array_are_read_and_its_parity_is_verified() {
        let disks = disks();
        let nothing = assembled(&disks);
        assert_eq!((nothing.stripes, nothing.wrong), (0, 0));
        // Stripe 1: parity on disk 1, data on disks 2 and 0.
        let row = MIB + CHUNK;
        disks[2].write_all_at(&[5; 4096], row).unwrap();
        disks[0].write_all_at(&[3; 4096], row).unwrap();
        disks[1].write_all_at(&[6; 4096], row).unwrap();
        let good = assembled(&disks);
        assert_eq!((good.stripes, good.wrong, good.parity), (1, 0, true));
        let mut bytes = vec![0; 2 * MIB as usize];
        good.image.read_exact_at(&mut bytes, 0).unwrap();
        let at = |chunk: u64| (chunk * CHUNK) as usize;
        assert_eq!(bytes[at(2)..at(2) + 4096], [5; 4096]);
        assert_eq!(bytes[at(3)..at(3) + 4096], [3; 4096]);
        assert_eq!(bytes.iter().filter(|byte| **byte != 0).count(), 8192);

        disks[1].write_all_at(&[7], row + 100).unwrap();
        let bad = assembled(&disks);
        assert_eq!(bad.wrong, 1);
        assert_eq!(bad.finding(), "1 stripes written, parity wrong in 1 of them");
    }

    #[test]
    fn disks_without_an_array_are_an_error() {
        let none = || tempfile::tempfile().and_then(|file| file.set_len(MIB).map(|()| file));
        let disks = [none().unwrap(), none().unwrap()];
        let error = assemble(&disks, Bytes(MIB), &std::env::temp_dir()).err().unwrap();
        assert!(error.to_string().contains("no md superblock"), "{error}");
    }
}
