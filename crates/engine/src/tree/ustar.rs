//! The header of an archive member (POSIX.1-1988 ustar): one block, numbers in octal text.

use std::ops::Range;

use fsdyno_workload::Name;

/// Size of a block.
pub const BLOCK: usize = 512;

const NAME: Range<usize> = 0..100;
const MODE: Range<usize> = 100..108;
const UID: Range<usize> = 108..116;
const GID: Range<usize> = 116..124;
const SIZE: Range<usize> = 124..136;
const MTIME: Range<usize> = 136..148;
const CHECKSUM: Range<usize> = 148..156;
const KIND: usize = 156;
const MAGIC: Range<usize> = 257..265;

/// The contents of a header, except the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// True for a directory, false for a regular file.
    pub is_directory: bool,
    /// Permission bits.
    pub mode: u32,
    /// Modification time in seconds since 1970.
    pub mtime: i64,
    /// Size in bytes.
    pub size: u64,
}

impl Header {
    /// Returns the block of this header and `path`, which must fit into the field for the name; `None` if
    /// a value does not fit.
    pub fn block(&self, path: &[u8]) -> Option<[u8; BLOCK]> {
        let mut block = [0; BLOCK];
        // The name of a directory ends in a slash.
        let length = path.len() + usize::from(self.is_directory);
        block[NAME].get_mut(..length)?.fill(b'/');
        block[..path.len()].copy_from_slice(path);
        for (field, number) in [
            (MODE, u64::from(self.mode)),
            (UID, 0),
            (GID, 0),
            (SIZE, self.size),
            (MTIME, u64::try_from(self.mtime).ok()?),
        ] {
            write_octal(&mut block[field], number)?;
        }
        block[KIND] = if self.is_directory { b'5' } else { b'0' };
        block[MAGIC].copy_from_slice(b"ustar\x0000");
        let sum = checksum(&block);
        write_octal(&mut block[CHECKSUM], sum)?;
        Some(block)
    }

    /// Parses the header in a block and its path, without the slash of a directory; `None` if invalid.
    pub fn parse(block: &[u8]) -> Option<(Header, Name)> {
        let block: &[u8; BLOCK] = block.try_into().ok()?;
        let is_valid =
            block[MAGIC] == *b"ustar\x0000" && parse_octal(&block[CHECKSUM])? == checksum(block);
        let is_directory = match block[KIND] {
            b'5' => true,
            b'0' => false,
            _ => return None,
        };
        let path = block[NAME].split(|byte| *byte == 0).next()?;
        let mut name = Name::default();
        name.push(path.strip_suffix(b"/").unwrap_or(path));
        let header = Header {
            is_directory,
            mode: parse_octal(&block[MODE])? as u32,
            mtime: parse_octal(&block[MTIME])? as i64,
            size: parse_octal(&block[SIZE])?,
        };
        is_valid.then_some((header, name))
    }
}

/// Writes octal digits, padded with zeros, and a NUL.
fn write_octal(field: &mut [u8], mut number: u64) -> Option<()> {
    let (_, digits) = field.split_last_mut()?;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 8) as u8;
        number /= 8;
    }
    (number == 0).then_some(())
}

fn parse_octal(field: &[u8]) -> Option<u64> {
    let digits = field.split(|byte| *byte == 0).next()?;
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()
}

/// Returns the sum of the header's bytes, with the checksum field taken as spaces.
fn checksum(block: &[u8; BLOCK]) -> u64 {
    let space = |index: usize, byte: u8| if CHECKSUM.contains(&index) { b' ' } else { byte };
    block.iter().enumerate().map(|(index, byte)| u64::from(space(index, *byte))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_back_and_an_invalid_one_is_refused() {
        let header = Header { is_directory: false, mode: 0o644, mtime: 1_158_710_400, size: 4711 };
        let block = header.block(b"in/tree0/f1").unwrap();
        let (found, path) = Header::parse(&block).unwrap();
        assert_eq!((found, path.as_bytes()), (header, &b"in/tree0/f1"[..]));
        let mut invalid = block;
        invalid[3] ^= 1;
        assert!(Header::parse(&invalid).is_none());
        assert!(Header::parse(&block[1..]).is_none());
    }

    #[test]
    fn a_value_that_does_not_fit_has_no_header() {
        let header = Header { is_directory: true, mode: 0o755, mtime: 0, size: 0 };
        assert!(header.block(&[b'x'; 99]).is_some());
        assert!(header.block(&[b'x'; 100]).is_none());
        assert!(Header { mtime: -1, ..header }.block(b"x").is_none());
        assert!(Header { size: 1 << 33, ..header }.block(b"x").is_none());
    }
}
