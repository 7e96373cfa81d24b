//! Assembles the image of an array on this host from the images of its disks, and verifies its mirrors
//! or parity.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use fsdyno_disk::array::{Array, Piece, SUPERBLOCK_LENGTH, SUPERBLOCK_OFFSET};
use fsdyno_record::Bytes;
use rustix::fs::SeekFrom;
use rustix::io::Errno;

use crate::error::VenueError;

/// The size, in bytes, of the blocks that are omitted from the sparse image if they are all zeros.
const BLOCK: usize = 4096;

/// An assembled array.
pub struct AssembledArray {
    /// The contents.
    pub image: File,
    /// The number of stripes that contain data other than zeros.
    pub written_stripes: u64,
    /// The number of stripes whose copies differ or whose parity is incorrect.
    pub damaged_stripes: u64,
    /// True if the array has parity.
    pub has_parity: bool,
    /// True if the array has copies or parity; only then is `damaged_stripes` meaningful.
    pub is_redundant: bool,
}

impl AssembledArray {
    /// Describes the result briefly.
    pub fn describe_result(&self) -> String {
        let noun = if self.has_parity { "parity" } else { "copies" };
        match (self.is_redundant, self.damaged_stripes) {
            (false, _) => format!("{} stripes written, no redundancy", self.written_stripes),
            (true, 0) => format!("{} stripes written, {noun} correct in all", self.written_stripes),
            (true, damaged) => {
                format!(
                    "{} stripes written, {noun} incorrect in {damaged} of them",
                    self.written_stripes
                )
            }
        }
    }
}

/// Assembles an array of `size` from the images of its disks, in order.
///
/// # Errors
/// Disks that do not form an array; an image that cannot be read; no space for the new image.
pub fn assemble(disks: &[File], size: Bytes, workdir: &Path) -> Result<AssembledArray, VenueError> {
    let read_error =
        |error| VenueError::io_without_path("read the image of an array's disk")(error);
    let write_error = |error| VenueError::io("write the image to check in", workdir)(error);
    let superblocks: Vec<Vec<u8>> = disks
        .iter()
        .map(|disk| {
            let mut bytes = vec![0; SUPERBLOCK_LENGTH];
            disk.read_exact_at(&mut bytes, SUPERBLOCK_OFFSET).map(|()| bytes)
        })
        .collect::<io::Result<_>>()
        .map_err(read_error)?;
    let array = Array::read(&superblocks)
        .map_err(|error| VenueError::Failed(format!("failed to assemble the array: {error}")))?;
    let mut stripes = BTreeSet::new();
    for (disk, image) in disks.iter().enumerate() {
        visit_written_chunks(image, array.chunk(), &mut |index| {
            stripes.extend(array.stripe_of(disk, index))
        })
        .map_err(read_error)?;
    }
    let image = tempfile::tempfile_in(workdir).map_err(write_error)?;
    image.set_len(size.0).map_err(write_error)?;
    let mut assembled = AssembledArray {
        image,
        written_stripes: 0,
        damaged_stripes: 0,
        has_parity: false,
        is_redundant: false,
    };
    let chunk =
        usize::try_from(array.chunk()).map_err(|error| VenueError::Failed(error.to_string()))?;
    let (mut first, mut buffer, mut parity) = (vec![0; chunk], vec![0; chunk], vec![0; chunk]);
    for stripe in stripes {
        let stripe = array.stripe(stripe);
        let (mut is_intact, mut has_data) = (true, false);
        parity.fill(0);
        for (index, copies) in &stripe.chunks {
            let Some((original, copies)) = copies.split_first() else { continue };
            read_piece(disks, *original, &mut first).map_err(read_error)?;
            for copy in copies {
                read_piece(disks, *copy, &mut buffer).map_err(read_error)?;
                is_intact &= first == buffer;
                assembled.is_redundant = true;
            }
            has_data |= first.iter().any(|byte| *byte != 0);
            parity.iter_mut().zip(&first).for_each(|(parity, byte)| *parity ^= byte);
            write_nonzero_blocks(&assembled.image, *index, size.0, &first).map_err(write_error)?;
        }
        if let Some(piece) = stripe.parity {
            read_piece(disks, piece, &mut buffer).map_err(read_error)?;
            is_intact &= parity == buffer;
            (assembled.has_parity, assembled.is_redundant) = (true, true);
        }
        // A data extent of the sparse file may still contain only zeros.
        assembled.written_stripes += u64::from(has_data);
        assembled.damaged_stripes += u64::from(!is_intact);
    }
    Ok(assembled)
}

/// Calls `visit` with an offset in every chunk of a sparse file that contains data.
fn visit_written_chunks(file: &File, chunk: u64, visit: &mut dyn FnMut(u64)) -> io::Result<()> {
    let mut position = 0;
    loop {
        let data = match rustix::fs::seek(file, SeekFrom::Data(position)) {
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
        position = hole;
    }
}

fn read_piece(disks: &[File], piece: Piece, buffer: &mut [u8]) -> io::Result<()> {
    let disk = disks.get(piece.disk).ok_or(io::ErrorKind::NotFound)?;
    disk.read_exact_at(buffer, piece.at)
}

/// Writes the blocks that are within `size` and not all zeros.
fn write_nonzero_blocks(image: &File, offset: u64, size: u64, bytes: &[u8]) -> io::Result<()> {
    for (block, offset) in bytes.chunks(BLOCK).zip((offset..).step_by(BLOCK)) {
        let length = size.saturating_sub(offset).min(block.len() as u64) as usize;
        if block[..length].iter().any(|byte| *byte != 0) {
            image.write_all_at(&block[..length], offset)?;
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
                let more_fields = [(92, 3), (128, 2048), (160, u32::from(role))];
                for (offset, word) in fields.into_iter().chain(more_fields) {
                    bytes[offset..offset + 4].copy_from_slice(&word.to_le_bytes());
                }
                for slot in 0..3u16 {
                    let offset = 256 + 2 * usize::from(slot);
                    bytes[offset..offset + 2].copy_from_slice(&slot.to_le_bytes());
                }
                let file = tempfile::tempfile().unwrap();
                file.set_len(2 * MIB).unwrap();
                file.write_all_at(&bytes, SUPERBLOCK_OFFSET).unwrap();
                file
            })
            .collect()
    }

    fn assemble_in_temp_dir(disks: &[File]) -> AssembledArray {
        assemble(disks, Bytes(2 * MIB), &std::env::temp_dir()).unwrap()
    }

    #[test]
    fn the_contents_of_an_array_are_read_and_its_parity_is_verified() {
        let disks = disks();
        let empty = assemble_in_temp_dir(&disks);
        assert_eq!((empty.written_stripes, empty.damaged_stripes), (0, 0));
        // Stripe 1: parity on disk 1, data on disks 2 and 0.
        let row_start = MIB + CHUNK;
        disks[2].write_all_at(&[5; 4096], row_start).unwrap();
        disks[0].write_all_at(&[3; 4096], row_start).unwrap();
        disks[1].write_all_at(&[6; 4096], row_start).unwrap();
        let intact = assemble_in_temp_dir(&disks);
        assert_eq!(
            (intact.written_stripes, intact.damaged_stripes, intact.has_parity),
            (1, 0, true)
        );
        let mut bytes = vec![0; 2 * MIB as usize];
        intact.image.read_exact_at(&mut bytes, 0).unwrap();
        let offset = |chunk: u64| (chunk * CHUNK) as usize;
        assert_eq!(bytes[offset(2)..offset(2) + 4096], [5; 4096]);
        assert_eq!(bytes[offset(3)..offset(3) + 4096], [3; 4096]);
        assert_eq!(bytes.iter().filter(|byte| **byte != 0).count(), 8192);

        disks[1].write_all_at(&[7], row_start + 100).unwrap();
        let damaged = assemble_in_temp_dir(&disks);
        assert_eq!(damaged.damaged_stripes, 1);
        assert_eq!(damaged.describe_result(), "1 stripes written, parity incorrect in 1 of them");
    }

    #[test]
    fn disks_without_an_array_are_an_error() {
        let blank_disk = || tempfile::tempfile().and_then(|file| file.set_len(MIB).map(|()| file));
        let disks = [blank_disk().unwrap(), blank_disk().unwrap()];
        let error = assemble(&disks, Bytes(MIB), &std::env::temp_dir()).err().unwrap();
        assert!(error.to_string().contains("no md superblock"), "{error}");
    }
}
