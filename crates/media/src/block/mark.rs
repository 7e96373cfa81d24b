//! fsdyno's mark on a drive: one block of text in the guard part.
//!
//! It identifies the drive it was written on, so that a copy of the drive is not mistaken for it, and the contents that
//! fsdyno left in the data part, so that a later file system of another user is not mistaken for fsdyno's. A killed
//! fsdyno cannot record the contents that it leaves, so the UUIDs of each mkfs are recorded beforehand, and after a
//! kill only these count as fsdyno's.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use fsdyno_record::Bytes;
use fsdyno_record::canonical::sha256_hex;

/// Offset of the mark: not in the first block, which holds tables and most superblocks.
pub const OFFSET: u64 = 4096;

/// Length of the mark.
const LENGTH: usize = 4096;

const TITLE: &str = "fsdyno may erase this drive";

/// The contents that fsdyno left in the data part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataContents {
    /// Nothing with a signature.
    Nothing,
    /// fsdyno is working or was killed; contents with one of these UUIDs ([`normalize_uuid`]) are its own.
    Unfinished(Vec<String>),
    /// Contents with this signature.
    Formatted(String),
}

/// Normalizes a UUID: lower case, no dashes.
pub fn normalize_uuid(uuid: &str) -> String {
    uuid.replace('-', "").to_lowercase()
}

/// Returns the UUIDs in a command, and the arguments that could be FAT volume numbers.
pub fn uuids_in(argv: &[String]) -> Vec<String> {
    let is_uuid = |piece: &&str| piece.split('-').map(str::len).eq([8, 4, 4, 4, 12]);
    let is_separator = |letter: char| !letter.is_ascii_hexdigit() && letter != '-';
    let pieces = argv.iter().flat_map(|word| word.split(is_separator)).filter(is_uuid);
    let is_volume_number = |word: &&str| word.len() == 8 && !word.contains(is_separator);
    let numbers = argv.iter().map(String::as_str).filter(is_volume_number);
    pieces.chain(numbers).map(normalize_uuid).collect()
}

impl fmt::Display for DataContents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DataContents::Nothing => f.write_str("nothing"),
            DataContents::Unfinished(uuids) => {
                f.write_str("unfinished")?;
                uuids.iter().try_for_each(|uuid| write!(f, " {uuid}"))
            }
            DataContents::Formatted(signature) => write!(f, "made {signature}"),
        }
    }
}

/// A mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriveMark {
    /// The serial number of the drive that it was written on.
    pub serial: String,
    /// The size of that drive.
    pub size: Bytes,
    /// The contents of the data part.
    pub left: DataContents,
}

impl DriveMark {
    /// Reads the mark of a drive; returns `None` if it is missing or damaged.
    pub fn read(drive: &File) -> io::Result<Option<DriveMark>> {
        let mut block = [0; LENGTH];
        match drive.read_exact_at(&mut block, OFFSET) {
            Ok(()) => Ok(DriveMark::parse(&block)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes the mark into the guard part, and waits until it is persisted.
    pub fn write(&self, guard: &File) -> io::Result<()> {
        guard.write_all_at(&self.block()?, OFFSET)?;
        guard.sync_all()
    }

    fn block(&self) -> io::Result<[u8; LENGTH]> {
        let (size, left) = (self.size.0, &self.left);
        let body = format!("{TITLE}\nserial {}\nsize {size}\nleft {left}\n", self.serial);
        let text = format!("{body}sha256 {}\n", sha256_hex(body.as_bytes()));
        let mut block = [0; LENGTH];
        let text_part = block.get_mut(..text.len()).ok_or(io::ErrorKind::FileTooLarge)?;
        text_part.copy_from_slice(text.as_bytes());
        Ok(block)
    }

    fn parse(block: &[u8]) -> Option<DriveMark> {
        let text = block.split(|byte| *byte == 0).next()?;
        let text = std::str::from_utf8(text).ok()?.strip_suffix('\n')?;
        let (body, sum) = text.rsplit_once("sha256 ")?;
        (sha256_hex(body.as_bytes()) == sum).then_some(())?;
        let mut lines = body.lines();
        (lines.next()? == TITLE).then_some(())?;
        let serial = lines.next()?.strip_prefix("serial ")?.to_string();
        let size = Bytes(lines.next()?.strip_prefix("size ")?.parse().ok()?);
        let left = match lines.next()?.strip_prefix("left ")? {
            "nothing" => DataContents::Nothing,
            work if work.split(' ').next() == Some("unfinished") => {
                DataContents::Unfinished(work.split(' ').skip(1).map(String::from).collect())
            }
            made => DataContents::Formatted(made.strip_prefix("made ")?.to_string()),
        };
        Some(DriveMark { serial, size, left })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks() -> Vec<DriveMark> {
        let unfinished = |uuids: &[&str]| {
            DataContents::Unfinished(uuids.iter().map(|uuid| uuid.to_string()).collect())
        };
        let killed = [unfinished(&[]), unfinished(&["1a2b"]), unfinished(&["1a2b", "ff00"])];
        let left = [DataContents::Nothing, DataContents::Formatted("ext4 1-2".into())]
            .into_iter()
            .chain(killed);
        left.map(|left| DriveMark { serial: "/a file".into(), size: Bytes(1 << 30), left })
            .collect()
    }

    #[test]
    fn a_mark_is_read_back_from_its_block() {
        for mark in marks() {
            assert_eq!(DriveMark::parse(&mark.block().unwrap()), Some(mark));
        }
    }

    #[test]
    fn the_uuids_of_a_command_are_found() {
        let words =
            "mkfs.xfs -f -m uuid=1B4E28BA-2FA1-11D2-883F-0016D3CCA427,crc=0 -i 1a2b3c4d /dev/sdb1";
        let argv: Vec<String> = words.split(' ').map(String::from).collect();
        assert_eq!(uuids_in(&argv), ["1b4e28ba2fa111d2883f0016d3cca427", "1a2b3c4d"]);
        assert_eq!(normalize_uuid("1A2B-3C4D"), "1a2b3c4d");
        assert!(uuids_in(&["-I".into(), "256".into(), "/dev/sdabcdef0".into()]).is_empty());
    }

    #[test]
    fn a_mark_with_any_byte_changed_is_invalid() {
        for mark in marks() {
            let block = mark.block().unwrap();
            let length = block.iter().position(|byte| *byte == 0).unwrap();
            for offset in 0..length {
                let mut changed = block;
                changed[offset] ^= 1;
                assert_eq!(DriveMark::parse(&changed), None, "byte {offset}");
            }
        }
        assert_eq!(DriveMark::parse(&[0; LENGTH]), None);
    }

    #[test]
    fn a_serial_number_that_does_not_fit_is_refused() {
        let serial = "x".repeat(LENGTH);
        assert!(DriveMark { serial, size: Bytes(1), left: DataContents::Nothing }.block().is_err());
    }
}
