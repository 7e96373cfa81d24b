//! QEMU's file of a saved machine: a hash of everything that the guest can see, and the changes needed to load it
//! into a new machine.
//!
//! The file also contains data that no guest can see: two offsets of host clocks, and the boundaries of the pieces in
//! which memory was written, which depend on host time (every 50 ms). These are excluded. A piece may begin with
//! pages of the last block of the previous piece, which is then not named again.
//!
//! The format is that of QEMU's migration/savevm.c and migration/ram.c: each section has a type of one byte, a number,
//! and, if it is the first section of its kind or a complete one, a name; numbers are big-endian.

use std::collections::BTreeMap;
use std::rc::Rc;

use fsdyno_record::canonical::sha256_hex;

use crate::digest;

const SECTION_START: u8 = 1;
const SECTION_PART: u8 = 2;
const SECTION_END: u8 = 3;
const SECTION_FULL: u8 = 4;
const SECTION_FOOTER: u8 = 0x7e;

const FLAG_ZERO: u64 = 0x02;
const FLAG_MEM_SIZE: u64 = 0x04;
const FLAG_PAGE: u64 = 0x08;
const FLAG_EOS: u64 = 0x10;
const FLAG_CONTINUE: u64 = 0x20;

const PAGE: u64 = 4096;

/// The start of the first memory section, after its number.
const RAM: &[u8] = b"\x03ram";

/// The position and the name of the section of clocks, `timer`, and the positions of its two offsets of host clocks
/// (`cpu_ticks_offset`, `cpu_clock_offset` of softmmu/cpu-timers.c; with `-icount`, the guest's clock is neither).
const TIMER: (usize, &[u8]) = (5, b"\x05timer");
const HOST_CLOCKS: [std::ops::Range<usize>; 2] = [19..27, 35..43];

/// Returns the positions in the file of the guest addresses of PCI devices' shared memory. A new machine, whose devices
/// have no addresses before they are loaded, accepts the file only if these 8 bytes are zero; loading a device then
/// restores its address.
pub fn pci_addresses(file: &[u8]) -> Option<Vec<usize>> {
    let mut reader = Reader { bytes: file, at: memory_section(file)? };
    // Type, number, name, instance, version of the first section.
    reader.skip(1 + 4 + RAM.len() as u64 + 8)?;
    let word = reader.number()?;
    if word & FLAG_MEM_SIZE == 0 {
        return None;
    }
    let blocks = blocks(&mut reader, word & !(PAGE - 1))?;
    let of_pci = blocks.into_iter().filter(|(name, _)| name.starts_with("0000:"));
    Some(of_pci.map(|(_, at)| at).collect())
}

fn memory_section(file: &[u8]) -> Option<usize> {
    let head = file.get(..1024.min(file.len()))?;
    head.windows(RAM.len()).position(|at| at == RAM)?.checked_sub(5)
}

/// A saved machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// The SHA-256, in hex, of memory and devices.
    pub sha256: String,
    /// The guest's clock, in nanoseconds since power-on: instructions, and time asleep.
    pub clock: u64,
}

/// The name of the clock's subsection of `timer`; it is followed by the version, the time asleep and the instructions
/// (`qemu_icount_bias`, `qemu_icount`).
const ICOUNT: &[u8] = b"\x0ctimer/icount";

/// Parses a saved machine; returns `None` if the format of the file is unknown.
pub fn read(file: &[u8]) -> Option<Saved> {
    let mut reader = Reader { bytes: file, at: memory_section(file)? };
    let mut memory = Memory::default();
    loop {
        let kind = reader.byte()?;
        reader.skip(4)?;
        match kind {
            // Name, instance, version.
            SECTION_START => reader.skip(RAM.len() as u64 + 8)?,
            SECTION_PART | SECTION_END => {}
            _ => return None,
        }
        memory.read(&mut reader)?;
        if file.get(reader.at) == Some(&SECTION_FOOTER) {
            reader.skip(5)?;
        }
        if kind == SECTION_END {
            break;
        }
    }
    let mut devices = file.get(reader.at..)?.to_vec();
    if devices.first() != Some(&SECTION_FULL) || !devices.get(TIMER.0..)?.starts_with(TIMER.1) {
        return None;
    }
    for range in HOST_CLOCKS {
        devices.get_mut(range)?.fill(0);
    }
    let head = devices.get(..1024.min(devices.len()))?;
    let icount = head.windows(ICOUNT.len()).position(|at| at == ICOUNT)?;
    let mut words = Reader { bytes: head, at: icount + ICOUNT.len() + 4 };
    let clock = words.number()?.checked_add(words.number()?)?;
    Some(Saved { sha256: sha256_hex(&[memory.digests(), devices].concat()), clock })
}

/// The guest's memory read so far.
#[derive(Default)]
struct Memory<'a> {
    /// The pages that are not zero, by block and address.
    pages: BTreeMap<(Rc<str>, u64), &'a [u8]>,
    /// The block of the last page read, in any section.
    block: Rc<str>,
}

impl<'a> Memory<'a> {
    /// Reads one section.
    fn read(&mut self, reader: &mut Reader<'a>) -> Option<()> {
        loop {
            let word = reader.number()?;
            let (address, flags) = (word & !(PAGE - 1), word & (PAGE - 1));
            match flags & !FLAG_CONTINUE {
                FLAG_EOS => return Some(()),
                FLAG_MEM_SIZE => drop(blocks(reader, address)?),
                kind @ (FLAG_ZERO | FLAG_PAGE) => {
                    if flags & FLAG_CONTINUE == 0 {
                        self.block = reader.name()?.into();
                    }
                    let page = (Rc::clone(&self.block), address);
                    if kind == FLAG_PAGE {
                        self.pages.insert(page, reader.take(PAGE)?);
                    } else {
                        reader.skip(1)?;
                        self.pages.remove(&page);
                    }
                }
                _ => return None,
            }
        }
    }

    /// Returns the block, address and hash of each page that is not zero.
    fn digests(&self) -> Vec<u8> {
        let pages: Vec<&[u8]> = self.pages.values().copied().collect();
        let hashed = self.pages.keys().zip(digest::of_each(&pages));
        hashed
            .flat_map(|((block, address), hash)| {
                [format!("{block} {address:x} ").as_bytes(), &hash].concat()
            })
            .collect()
    }
}

/// Reads the list of memory blocks (name, size and, with x-ignore-shared, address), and returns the names and the file
/// positions of the addresses.
fn blocks(reader: &mut Reader<'_>, total: u64) -> Option<Vec<(String, usize)>> {
    let mut found = Vec::new();
    let mut remaining = total;
    while remaining > 0 {
        let name = reader.name()?;
        remaining = remaining.checked_sub(reader.number()?)?;
        found.push((name, reader.at));
        reader.skip(8)?;
    }
    Some(found)
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: u64) -> Option<&'a [u8]> {
        let end = self.at.checked_add(usize::try_from(length).ok()?)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    fn skip(&mut self, length: u64) -> Option<()> {
        self.take(length).map(drop)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn number(&mut self) -> Option<u64> {
        Some(u64::from_be_bytes(self.take(8)?.try_into().ok()?))
    }

    fn name(&mut self) -> Option<String> {
        let length = self.byte()?;
        Some(String::from_utf8_lossy(self.take(length.into())?).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a file of one block of two pages, written in one piece or two, at a given host time.
    fn saved(pieces: usize, host_time: u64, page: u8, device: &[u8]) -> Vec<u8> {
        let mut out = b"QEVM\0\0\0\x03\x07\0\0\0\x04q35!".to_vec();
        let section = |out: &mut Vec<u8>, kind: u8| out.extend([kind, 0, 0, 0, 2]);
        let eos = |out: &mut Vec<u8>| {
            out.extend(FLAG_EOS.to_be_bytes());
            out.extend([SECTION_FOOTER, 0, 0, 0, 2]);
        };
        section(&mut out, SECTION_START);
        out.extend(b"\x03ram\0\0\0\0\0\0\0\x04");
        out.extend(((3 * PAGE) | FLAG_MEM_SIZE).to_be_bytes());
        for (name, size, address) in [(&b"\x06pc.ram"[..], 2 * PAGE, 0), (DISK, PAGE, 7 << 30)] {
            out.extend(name);
            out.extend(size.to_be_bytes());
            out.extend(u64::to_be_bytes(address));
        }
        eos(&mut out);
        let zero = |out: &mut Vec<u8>| {
            out.extend(FLAG_ZERO.to_be_bytes());
            out.extend(b"\x06pc.ram\0");
        };
        if pieces == 2 {
            section(&mut out, SECTION_PART);
            zero(&mut out);
            eos(&mut out);
        }
        section(&mut out, SECTION_END);
        if pieces == 1 {
            zero(&mut out);
        }
        out.extend((PAGE | FLAG_PAGE | FLAG_CONTINUE).to_be_bytes());
        out.extend(vec![page; PAGE as usize]);
        eos(&mut out);
        section(&mut out, SECTION_FULL);
        out.extend(b"\x05timer\0\0\0\0\0\0\0\x02");
        for word in [host_time, 0, host_time * 3] {
            out.extend(word.to_be_bytes());
        }
        out.extend(b"\x05\x0ctimer/icount\0\0\0\x01");
        for word in [30u64, 12] {
            out.extend(word.to_be_bytes());
        }
        out.extend(device);
        out
    }

    const DISK: &[u8] = b"\x120000:00:11.0/disk0";

    #[test]
    fn the_address_of_a_devices_memory_is_found_and_no_other() {
        let file = saved(1, 1, 7, b"");
        let at = pci_addresses(&file).unwrap();
        let words: Vec<&[u8]> = at.iter().map(|at| &file[*at..at + 8]).collect();
        assert_eq!(words, [(7u64 << 30).to_be_bytes()]);
        assert_eq!(pci_addresses(&file[..40]), None);
    }

    #[test]
    fn host_time_and_pieces_do_not_affect_the_hash() {
        let one = read(&saved(1, 1000, 7, b"rtc")).unwrap();
        assert_eq!(read(&saved(2, 77, 7, b"rtc")).unwrap(), one);
        assert_eq!(one.clock, 42);
    }

    #[test]
    fn a_changed_byte_of_memory_or_of_a_device_changes_the_hash() {
        let one = read(&saved(1, 1000, 7, b"rtc"));
        assert!(one.is_some());
        assert_ne!(read(&saved(1, 1000, 8, b"rtc")), one);
        assert_ne!(read(&saved(1, 1000, 7, b"rtd")), one);
    }

    #[test]
    fn a_truncated_file_or_one_in_another_format_has_no_hash() {
        let whole = saved(2, 1, 7, b"");
        assert!((0..whole.len() - 1).all(|end| read(&whole[..end]).is_none()));
        assert_eq!(read(b"anything"), None);
    }
}
