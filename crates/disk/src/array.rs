//! The layout of an md array on its disks, as in the kernel.
//!
//! Source: linux/include/uapi/linux/raid/md_p.h for the superblock of version 1, and
//! linux/drivers/md/raid{0,1,5,10}.c for the layouts. Only arrays that were never reshaped and have all
//! their disks, of equal size, are supported.

/// Offset of the superblock of version 1.2 on each disk.
pub const SUPERBLOCK_OFFSET: u64 = 4096;

/// Number of bytes of a superblock that [`Array::read`] uses.
pub const SUPERBLOCK_LENGTH: usize = 512;

/// Size of the pieces in which RAID 1, which has no chunks, is compared, in bytes.
const PIECE: u64 = 64 << 10;

/// The shape of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Array {
    /// 0, 1, 5 or 10.
    level: u32,
    /// Number of disks.
    disks: u64,
    /// Bytes of a chunk.
    chunk: u64,
    /// Offset of the array's data on each disk.
    data_offset: u64,
    /// Number of chunks per disk.
    rows: u64,
}

/// An error in reading an array.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArrayError {
    /// A disk without a superblock.
    #[error("disk {0} of the array has no md superblock of version 1.2")]
    NoSuperblock(usize),
    /// A superblock that differs from the others.
    #[error("disk {disk} of the array has {field} {found}, but the first has {first}")]
    Differs {
        /// Index of the disk.
        disk: usize,
        /// The field.
        field: &'static str,
        /// Its value.
        found: u64,
        /// The first disk's value.
        first: u64,
    },
    /// An unsupported layout.
    #[error("an array of level {level} with layout {layout:#x} is not supported")]
    Unknown {
        /// The level.
        level: u32,
        /// The layout.
        layout: u32,
    },
}

/// A piece of a disk, one chunk long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Index of the disk.
    pub disk: usize,
    /// Offset of its first byte on the disk.
    pub at: u64,
}

/// A stripe: some chunks of the array, each with its locations (several if it is mirrored), and their
/// parity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stripe {
    /// For each chunk, its first byte in the array and all pieces that hold it.
    pub chunks: Vec<(u64, Vec<Piece>)>,
    /// The piece with the exclusive or of all chunks.
    pub parity: Option<Piece>,
}

/// The fields of a superblock that define the layout of an array.
struct Superblock {
    level: u32,
    layout: u32,
    size: u64,
    chunk: u64,
    disks: u64,
    data_offset: u64,
    role: u64,
}

impl Superblock {
    fn read(bytes: &[u8]) -> Option<Superblock> {
        const MAGIC: u64 = 0xa92b_4efc;
        let integer = |offset: usize, length: usize| -> Option<u64> {
            let bytes = bytes.get(offset..offset + length)?;
            Some(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
        };
        (integer(0, 4)? == MAGIC && integer(4, 4)? == 1).then_some(())?;
        let device_number = integer(160, 4)? as usize;
        let level = integer(72, 4)? as u32;
        Some(Superblock {
            level,
            // The layout of RAID 0 matters only if the disks differ in size.
            layout: if level == 0 { 0 } else { integer(76, 4)? as u32 },
            // RAID 0 uses the size of each disk, which is in a separate field.
            size: if level == 0 { integer(136, 8)? } else { integer(80, 8)? }.checked_mul(512)?,
            chunk: integer(88, 4)? * 512,
            disks: integer(92, 4)?,
            data_offset: integer(128, 8)?.checked_mul(512)?,
            role: integer(256 + 2 * device_number, 2)?,
        })
    }
}

impl Array {
    /// Reads the shape of an array from the superblocks of its disks, in order.
    ///
    /// # Errors
    /// [`ArrayError`]: a disk that is not part of the array or is in the wrong position; an unsupported layout.
    pub fn read(superblocks: &[Vec<u8>]) -> Result<Array, ArrayError> {
        let parsed: Vec<Superblock> = superblocks
            .iter()
            .enumerate()
            .map(|(disk, bytes)| Superblock::read(bytes).ok_or(ArrayError::NoSuperblock(disk)))
            .collect::<Result<_, _>>()?;
        let first = parsed.first().ok_or(ArrayError::NoSuperblock(0))?;
        for (disk, superblock) in parsed.iter().enumerate() {
            for (field, found, first) in [
                ("level", u64::from(superblock.level), u64::from(first.level)),
                ("layout", u64::from(superblock.layout), u64::from(first.layout)),
                ("size", superblock.size, first.size),
                ("chunk", superblock.chunk, first.chunk),
                ("number of disks", superblock.disks, parsed.len() as u64),
                ("data offset", superblock.data_offset, first.data_offset),
                ("position", superblock.role, disk as u64),
            ] {
                if found != first {
                    return Err(ArrayError::Differs { disk, field, found, first });
                }
            }
        }
        // Left-symmetric is 2 (ALGORITHM_LEFT_SYMMETRIC in raid5.h), two near copies 0x102 (raid10.h).
        let is_supported = match first.level {
            0 => first.chunk > 0,
            1 => true,
            5 => first.layout == 2 && first.chunk > 0,
            10 => first.layout == 0x102 && first.chunk > 0,
            _ => false,
        };
        if !is_supported {
            return Err(ArrayError::Unknown { level: first.level, layout: first.layout });
        }
        let chunk = if first.level == 1 { PIECE } else { first.chunk };
        Ok(Array {
            level: first.level,
            disks: first.disks,
            chunk,
            data_offset: first.data_offset,
            rows: first.size / chunk,
        })
    }

    /// Returns the size of a chunk in bytes.
    pub fn chunk(&self) -> u64 {
        self.chunk
    }

    /// Returns the stripe to which a byte of a disk belongs, or none if the byte is outside the array's data.
    pub fn stripe_of(&self, disk: usize, at: u64) -> Option<u64> {
        let row = at.checked_sub(self.data_offset)? / self.chunk;
        let index = row * self.disks + disk as u64;
        (row < self.rows).then_some(match self.level {
            0 => index,
            1 | 5 => row,
            _ => index / 2,
        })
    }

    /// Returns the pieces of a stripe.
    pub fn stripe(&self, stripe: u64) -> Stripe {
        let piece = |disk: u64, row: u64| Piece {
            disk: disk as usize,
            at: self.data_offset + row * self.chunk,
        };
        let striped_piece = |index: u64| piece(index % self.disks, index / self.disks);
        let start = stripe * self.chunk;
        match self.level {
            0 => Stripe { chunks: vec![(start, vec![striped_piece(stripe)])], parity: None },
            1 => {
                let copies = (0..self.disks).map(|disk| piece(disk, stripe)).collect();
                Stripe { chunks: vec![(start, copies)], parity: None }
            }
            5 => {
                // As in raid5_compute_sector: parity rotates backwards over the disks, and the data follow it.
                let parity = self.disks - 1 - stripe % self.disks;
                let chunks = (0..self.disks - 1).map(|chunk| {
                    let disk = (parity + 1 + chunk) % self.disks;
                    ((stripe * (self.disks - 1) + chunk) * self.chunk, vec![piece(disk, stripe)])
                });
                Stripe { chunks: chunks.collect(), parity: Some(piece(parity, stripe)) }
            }
            _ => {
                let copies = [2 * stripe, 2 * stripe + 1].map(striped_piece).to_vec();
                Stripe { chunks: vec![(start, copies)], parity: None }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const K: u64 = 1024;

    fn superblock(level: u32, layout: u32, disks: u32, role: u32) -> Vec<u8> {
        let mut bytes = vec![0; SUPERBLOCK_LENGTH];
        let mut put = |at: usize, word: u32| bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
        put(0, 0xa92b_4efc);
        put(4, 1);
        put(72, level);
        put(76, layout);
        put(if level == 0 { 136 } else { 80 }, 2048); // 1 MiB of each disk
        put(88, 128); // chunks of 64 KiB
        put(92, disks);
        put(128, 2048); // data from 1 MiB on
        put(160, role);
        for slot in 0..disks as usize {
            let at = 256 + 2 * slot;
            bytes[at..at + 2].copy_from_slice(&(slot as u16).to_le_bytes());
        }
        bytes
    }

    fn array(level: u32, layout: u32, disks: u32) -> Array {
        let superblocks: Vec<_> =
            (0..disks).map(|role| superblock(level, layout, disks, role)).collect();
        Array::read(&superblocks).unwrap()
    }

    /// Every piece of every disk belongs to exactly one stripe, which lists it, and the chunks of all stripes
    /// cover the array without gaps.
    #[test]
    fn every_piece_belongs_to_one_stripe_and_the_chunks_cover_the_array() {
        for (level, layout, disks, data) in
            [(0, 0, 3, 3.0), (1, 0, 2, 1.0), (5, 2, 3, 2.0), (5, 2, 5, 4.0), (10, 0x102, 4, 2.0)]
        {
            let array = array(level, layout, disks);
            let mut pieces = Vec::new();
            let mut starts = Vec::new();
            let stripes: std::collections::BTreeSet<u64> = (0..disks as usize)
                .flat_map(|disk| (0..16).map(move |row| (disk, (1 << 20) + row * 64 * K)))
                .map(|(disk, at)| array.stripe_of(disk, at).unwrap())
                .collect();
            for stripe in stripes.into_iter().map(|stripe| array.stripe(stripe)) {
                pieces.extend(stripe.chunks.iter().flat_map(|(_, copies)| copies.clone()));
                pieces.extend(stripe.parity);
                starts.extend(stripe.chunks.iter().map(|(at, _)| *at));
            }
            pieces.sort_by_key(|piece| (piece.disk, piece.at));
            let expected_pieces: Vec<Piece> = (0..disks as usize)
                .flat_map(|disk| {
                    (0..16).map(move |row| Piece { disk, at: (1 << 20) + row * 64 * K })
                })
                .collect();
            assert_eq!(pieces, expected_pieces, "level {level}");
            starts.sort_unstable();
            let expected: Vec<u64> =
                (0..(16.0 * data) as u64).map(|chunk| chunk * 64 * K).collect();
            assert_eq!(starts, expected, "level {level}");
        }
    }

    /// md(4): "left-symmetric", the default, as in the diagram of three disks.
    #[test]
    fn parity_rotates_backwards_and_data_follow_it() {
        let array = array(5, 2, 3);
        let disks = |stripe: u64| {
            let stripe = array.stripe(stripe);
            let mut disks: Vec<usize> = stripe.chunks.iter().map(|(_, c)| c[0].disk).collect();
            disks.extend(stripe.parity.map(|parity| parity.disk));
            disks
        };
        assert_eq!([0, 1, 2, 3].map(disks), [[0, 1, 2], [2, 0, 1], [1, 2, 0], [0, 1, 2]]);
    }

    /// md(4): near copies on three disks begin `A A B / B C C`.
    #[test]
    fn copies_on_an_odd_number_of_disks_lie_on_neighbours() {
        let array = array(10, 0x102, 3);
        let locations = |stripe: u64| -> Vec<(usize, u64)> {
            let copies = array.stripe(stripe).chunks.remove(0).1;
            copies.iter().map(|piece| (piece.disk, (piece.at - (1 << 20)) / (64 * K))).collect()
        };
        assert_eq!(locations(0), [(0, 0), (1, 0)]);
        assert_eq!(locations(1), [(2, 0), (0, 1)]);
        assert_eq!(locations(2), [(1, 1), (2, 1)]);
        assert_eq!(array.stripe_of(0, (1 << 20) + 64 * K), Some(1));
    }

    #[test]
    fn bytes_outside_the_data_belong_to_no_stripe() {
        let array = array(5, 2, 3);
        assert_eq!(array.stripe_of(0, 4096), None);
        assert_eq!(array.stripe_of(0, (1 << 20) - 1), None);
        assert_eq!(array.stripe_of(0, (2 << 20) - 1), Some(15));
        assert_eq!(array.stripe_of(0, 2 << 20), None);
    }

    #[test]
    fn disks_of_different_arrays_are_refused() {
        let read = |blocks: &[Vec<u8>]| Array::read(blocks).unwrap_err().to_string();
        let raid5 = |role| superblock(5, 2, 3, role);
        assert!(
            read(&[raid5(0), vec![0; 512], raid5(2)]).contains("disk 1 of the array has no md")
        );
        assert!(
            read(&[raid5(0), raid5(2), raid5(1)]).contains("disk 1 of the array has position 2")
        );
        assert!(read(&[raid5(0), raid5(1)]).contains("number of disks 3"));
        assert!(read(&[raid5(0), superblock(0, 0, 3, 1), raid5(2)]).contains("level 0"));
        let (first, second) = (superblock(10, 0x201, 2, 0), superblock(10, 0x201, 2, 1));
        assert!(read(&[first, second]).contains("0x201 is not supported"));
        assert!(Array::read(&[]).is_err());
    }
}
