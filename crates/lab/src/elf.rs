//! A minimal ELF parser: sections, interpreter, needed libraries, and notes. It supports only 64-bit little-endian
//! files (x86-64), and checks every offset.

use std::ops::Range;

/// The reason why a file is not a supported ELF file.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ElfError {
    /// No ELF magic, or not 64-bit little-endian.
    #[error("it is not a 64-bit little-endian ELF file")]
    NotElf,
    /// A header points outside the file.
    #[error("one of its headers points outside the file")]
    OutOfBounds,
}

/// The requests of a dynamic executable or library to the loader.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Dynamic {
    /// Sonames of the libraries it needs, in order.
    pub needed: Vec<String>,
    /// Folders to search first (RUNPATH, or else RPATH), in which `$ORIGIN` is not yet replaced.
    pub search: Vec<String>,
}

/// An ELF file in memory.
#[derive(Debug)]
pub struct Elf<'a> {
    bytes: &'a [u8],
    segments: Vec<Segment>,
}

#[derive(Debug)]
struct Segment {
    kind: u32,
    file: Range<usize>,
    address: u64,
}

// Program header types and dynamic tags of the System V ABI, chapter 5.
const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const PT_NOTE: u32 = 4;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_RPATH: u64 = 15;
const DT_RUNPATH: u64 = 29;

impl<'a> Elf<'a> {
    /// Reads the headers.
    ///
    /// # Errors
    /// [`ElfError`].
    pub fn parse(bytes: &'a [u8]) -> Result<Elf<'a>, ElfError> {
        if !bytes.starts_with(b"\x7fELF\x02\x01") {
            return Err(ElfError::NotElf);
        }
        let mut elf = Elf { bytes, segments: Vec::new() };
        let (table, size, count) = (elf.u64(32)?, elf.u16(54)?, elf.u16(56)?);
        for index in 0..u64::from(count) {
            let at = index_in(table, index, size)?;
            let (offset, length) = (elf.u64(at + 8)?, elf.u64(at + 32)?);
            let segment = Segment {
                kind: elf.u32(at)?,
                file: range(offset, length)?,
                address: elf.u64(at + 16)?,
            };
            elf.segments.push(segment);
        }
        Ok(elf)
    }

    /// Returns the contents of a section by name.
    ///
    /// # Errors
    /// [`ElfError::OutOfBounds`]; a missing section is `None`.
    pub fn section(&self, name: &str) -> Result<Option<&'a [u8]>, ElfError> {
        self.section_range(name)?.map(|range| self.slice(range)).transpose()
    }

    /// Returns the range of a section's contents in the file.
    ///
    /// # Errors
    /// [`ElfError::OutOfBounds`]; a missing section is `None`.
    pub fn section_range(&self, name: &str) -> Result<Option<Range<usize>>, ElfError> {
        let (table, size, count, names) =
            (self.u64(40)?, self.u16(58)?, self.u16(60)?, self.u16(62)?);
        let header = |index: u16| index_in(table, u64::from(index), size);
        let contents = |at: usize| -> Result<Range<usize>, ElfError> {
            range(self.u64(at + 24)?, self.u64(at + 32)?)
        };
        if count == 0 {
            return Ok(None);
        }
        let names = self.slice(contents(header(names)?)?)?;
        for index in 0..count {
            let at = header(index)?;
            if string(names, self.u32(at)? as usize) == name {
                return contents(at).map(Some);
            }
        }
        Ok(None)
    }

    /// Returns the loader of a dynamic executable.
    ///
    /// # Errors
    /// [`ElfError::OutOfBounds`].
    pub fn interpreter(&self) -> Result<Option<String>, ElfError> {
        match self.segments.iter().find(|segment| segment.kind == PT_INTERP) {
            Some(segment) => Ok(Some(string(self.slice(segment.file.clone())?, 0))),
            None => Ok(None),
        }
    }

    /// Returns the file's requests to the loader, or empty if it is static.
    ///
    /// # Errors
    /// [`ElfError::OutOfBounds`].
    pub fn dynamic(&self) -> Result<Dynamic, ElfError> {
        let Some(segment) = self.segments.iter().find(|segment| segment.kind == PT_DYNAMIC) else {
            return Ok(Dynamic::default());
        };
        let word = |pair: &[u8], at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&pair[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        let entries: Vec<(u64, u64)> = self
            .slice(segment.file.clone())?
            .chunks_exact(16)
            .map(|pair| (word(pair, 0), word(pair, 8)))
            .take_while(|(tag, _)| *tag != 0)
            .collect();
        let value = |tag| entries.iter().find(|(t, _)| *t == tag).map(|(_, value)| *value);
        let Some(table) = value(DT_STRTAB) else { return Ok(Dynamic::default()) };
        let strings = self.slice(self.file_offset(table)?..self.bytes.len())?;
        let text = |at: u64| string(strings, usize::try_from(at).unwrap_or(usize::MAX));
        let needed = entries.iter().filter(|(tag, _)| *tag == DT_NEEDED).map(|(_, at)| text(*at));
        let search = value(DT_RUNPATH).or(value(DT_RPATH)).map(text).unwrap_or_default();
        Ok(Dynamic {
            needed: needed.collect(),
            search: search.split(':').filter(|s| !s.is_empty()).map(String::from).collect(),
        })
    }

    /// Returns true if the file has a note with this owner and type.
    pub fn has_note(&self, owner: &[u8], kind: u32) -> bool {
        let notes = self.segments.iter().filter(|segment| segment.kind == PT_NOTE);
        notes.into_iter().any(|segment| {
            let mut rest = self.slice(segment.file.clone()).unwrap_or_default();
            while let Some((head, after)) = rest.split_at_checked(12) {
                let word =
                    |at| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
                let (name, data) = (word(0) as usize, word(4) as usize);
                if word(8) == kind && after.get(..name) == Some(owner) {
                    return true;
                }
                let length = name.next_multiple_of(4) + data.next_multiple_of(4);
                rest = after.get(length..).unwrap_or_default();
            }
            false
        })
    }

    /// Returns the file offset of a loaded address.
    fn file_offset(&self, address: u64) -> Result<usize, ElfError> {
        self.segments
            .iter()
            .filter(|segment| segment.kind == PT_LOAD)
            .find_map(|segment| {
                let inside = usize::try_from(address.checked_sub(segment.address)?).ok()?;
                (inside < segment.file.len()).then(|| segment.file.start + inside)
            })
            .ok_or(ElfError::OutOfBounds)
    }

    fn slice(&self, range: Range<usize>) -> Result<&'a [u8], ElfError> {
        self.bytes.get(range).ok_or(ElfError::OutOfBounds)
    }

    fn array<const N: usize>(&self, at: usize) -> Result<[u8; N], ElfError> {
        let bytes = at.checked_add(N).and_then(|end| self.bytes.get(at..end));
        bytes.and_then(|bytes| bytes.try_into().ok()).ok_or(ElfError::OutOfBounds)
    }

    fn u16(&self, at: usize) -> Result<u16, ElfError> {
        self.array(at).map(u16::from_le_bytes)
    }

    fn u32(&self, at: usize) -> Result<u32, ElfError> {
        self.array(at).map(u32::from_le_bytes)
    }

    fn u64(&self, at: usize) -> Result<u64, ElfError> {
        self.array(at).map(u64::from_le_bytes)
    }
}

/// Returns the offset of entry `index` in a table of entries of `size` bytes.
fn index_in(table: u64, index: u64, size: u16) -> Result<usize, ElfError> {
    let at = table.checked_add(index * u64::from(size)).ok_or(ElfError::OutOfBounds)?;
    // Far below the end of the address space, so that offsets of fields can be added without a check.
    usize::try_from(at).ok().filter(|at| *at < usize::MAX / 2).ok_or(ElfError::OutOfBounds)
}

fn range(offset: u64, length: u64) -> Result<Range<usize>, ElfError> {
    let end = offset.checked_add(length).ok_or(ElfError::OutOfBounds)?;
    match (usize::try_from(offset), usize::try_from(end)) {
        (Ok(start), Ok(end)) => Ok(start..end),
        _ => Err(ElfError::OutOfBounds),
    }
}

/// Returns the string at an offset of a string table, or empty if there is none.
fn string(table: &[u8], at: usize) -> String {
    let text = table.get(at..).unwrap_or_default();
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    String::from_utf8_lossy(&text[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_test_program_itself_needs_libc_and_names_its_loader() {
        let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let elf = Elf::parse(&bytes).unwrap();
        assert!(elf.interpreter().unwrap().unwrap().contains("ld-linux"));
        let needed = elf.dynamic().unwrap().needed;
        assert!(needed.iter().any(|name| name.starts_with("libc.so")), "{needed:?}");
        assert!(elf.section(".text").unwrap().is_some_and(|text| !text.is_empty()));
        assert_eq!(elf.section(".no such section").unwrap(), None);
    }

    #[test]
    fn damaged_files_are_refused_and_never_panic() {
        assert_eq!(Elf::parse(b"MZ").unwrap_err(), ElfError::NotElf);
        let bytes = std::fs::read("/proc/self/exe").unwrap();
        for length in [6, 63, 64, 100, 200, 1000] {
            let cut = &bytes[..length];
            if let Ok(elf) = Elf::parse(cut) {
                assert!(elf.section(".text").is_err());
                assert!(elf.dynamic().is_err());
            }
        }
        let mut corrupted = bytes[..4096].to_vec();
        corrupted[40..48].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(Elf::parse(&corrupted).unwrap().section(".text"), Err(ElfError::OutOfBounds));
    }
}
