//! Reads functions and code of kernel modules from their files.
//!
//! A module's code is laid out as kernel/module/main.c of Linux does it: its code sections in file order, each aligned,
//! with init sections kept separate. Only the address of the first section is unknown; [`super::place`] finds it.

use std::collections::BTreeMap;

/// A module's functions, by offset from its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Module {
    /// Name.
    pub name: String,
    /// The module's functions as offset and name, ascending.
    pub functions: Vec<(u64, String)>,
    /// Size of its code in bytes.
    pub size: u64,
    /// The module's code; `None` for bytes into which the loader stores an address.
    pub code: Vec<Option<u8>>,
}

impl Module {
    /// Compares observed bytes with the code at an offset. Returns the number of bytes compared, or `None` if any of
    /// them differs.
    pub fn matching_bytes(&self, offset: u64, observed: &[u8]) -> Option<usize> {
        let from = usize::try_from(offset).ok()?;
        let code = self.code.get(from..).unwrap_or_default().iter();
        let known = code.zip(observed).filter_map(|(code, observed)| Some(((*code)?, *observed)));
        known
            .map(|(code, observed)| code == observed)
            .try_fold(0, |count, same| same.then_some(count + 1))
    }
}

// ELF (System V ABI): section types and flags, symbol types.
const SHT_SYMTAB: u32 = 2;
const SHT_RELA: u32 = 4;
const SHF_ALLOC: u64 = 2;
const SHF_EXECINSTR: u64 = 4;
const STT_FUNC: u8 = 2;
/// The only 8-byte relocation in code (x86-64 psABI, table 4.9). All others have four bytes.
const R_X86_64_64: u64 = 1;
/// The opcodes of near calls and jumps, which the kernel may replace or remove (ftrace, returns).
const CALL_AND_JUMP: [Option<u8>; 2] = [Some(0xe8), Some(0xe9)];

/// Parses a module's file; `None` if it is not a module.
pub fn read(name: &str, bytes: &[u8]) -> Option<Module> {
    if !bytes.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let file = File(bytes);
    let mut sections = file.sections()?;
    let relocation_tables = std::mem::take(&mut sections.relocation_tables);
    for (section, range) in relocation_tables {
        if let Some(offset) = sections.section_offsets.get(&section) {
            file.clear_relocated(*offset, range, &mut sections.code)?;
        }
    }
    let functions = file.functions(&sections)?;
    let Sections { size, code, .. } = sections;
    Some(Module { name: name.to_string(), functions, size, code })
}

/// The relevant sections of a module.
struct Sections {
    /// Offset of the table of section headers, and the size of a header.
    headers: (usize, usize),
    /// Offset and size of the symbol table, and the section of its names.
    symbols: Option<(usize, usize, usize)>,
    /// The relocation tables: the section to which they apply, and their offset and size.
    relocation_tables: Vec<(u64, (usize, usize))>,
    /// The offsets of the code sections in the module, by section.
    section_offsets: BTreeMap<u64, u64>,
    /// The code; `None` for bytes that the kernel changes.
    code: Vec<Option<u8>>,
    size: u64,
}

/// The bytes of an ELF file.
struct File<'a>(&'a [u8]);

impl File<'_> {
    fn integer(&self, offset: usize, size: usize) -> Option<u64> {
        let part = self.0.get(offset..offset.checked_add(size)?)?;
        Some(part.iter().rev().fold(0, |value, byte| (value << 8) | u64::from(*byte)))
    }

    fn usize_at(&self, offset: usize, size: usize) -> Option<usize> {
        self.integer(offset, size).and_then(|value| usize::try_from(value).ok())
    }

    fn text(&self, table: usize, offset: usize) -> Option<String> {
        let rest = self.0.get(table.checked_add(offset)?..)?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        Some(String::from_utf8_lossy(&rest[..end]).into_owned())
    }

    /// Reads the section headers, and concatenates the code sections.
    fn sections(&self) -> Option<Sections> {
        let (number, usize_at) =
            (|offset, size| self.integer(offset, size), |offset, size| self.usize_at(offset, size));
        let (table, entry_size, count, names) =
            (usize_at(40, 8)?, usize_at(58, 2)?, usize_at(60, 2)?, usize_at(62, 2)?);
        let section = |index: usize| section((table, entry_size), index);
        let names_at = usize_at(section(names)? + 24, 8)?;
        let mut section_offsets = BTreeMap::new();
        let (mut symbols, mut relocation_tables) = (None, Vec::new());
        let mut code: Vec<Option<u8>> = Vec::new();
        let mut size = 0u64;
        for index in 0..count {
            let header = section(index)?;
            let (kind, flags) = (number(header + 4, 4)? as u32, number(header + 8, 8)?);
            let name = self.text(names_at, usize_at(header, 4)?)?;
            if kind == SHT_SYMTAB {
                symbols = Some((
                    usize_at(header + 24, 8)?,
                    usize_at(header + 32, 8)?,
                    usize_at(header + 40, 4)?,
                ));
            }
            if kind == SHT_RELA {
                let table = (usize_at(header + 24, 8)?, usize_at(header + 32, 8)?);
                relocation_tables.push((number(header + 44, 4)?, table));
            }
            let executable = SHF_ALLOC | SHF_EXECINSTR;
            if flags & executable == executable && !name.starts_with(".init") {
                size = size.checked_next_multiple_of(number(header + 48, 8)?.max(1))?;
                section_offsets.insert(index as u64, size);
                let contents =
                    self.0.get(usize_at(header + 24, 8)?..)?.get(..usize_at(header + 32, 8)?)?;
                code.resize(usize::try_from(size).ok()?, None);
                code.extend(contents.iter().copied().map(Some));
                size = size.checked_add(number(header + 32, 8)?)?;
            }
        }
        let headers = (table, entry_size);
        Some(Sections { headers, symbols, relocation_tables, section_offsets, code, size })
    }

    /// Clears the code bytes that relocations change.
    fn clear_relocated(
        &self,
        section_offset: u64,
        (from, length): (usize, usize),
        code: &mut [Option<u8>],
    ) -> Option<()> {
        for offset in (from..from.checked_add(length)?).step_by(24) {
            let from =
                usize::try_from(section_offset.checked_add(self.integer(offset, 8)?)?).ok()?;
            let width = if self.integer(offset + 8, 4)? == R_X86_64_64 { 8 } else { 4 };
            let follows_opcode =
                code.get(from.wrapping_sub(1)).is_some_and(|byte| CALL_AND_JUMP.contains(byte));
            let from = from - usize::from(follows_opcode);
            let end = code.len().min(from + width + usize::from(follows_opcode));
            code.get_mut(from..end)?.fill(None);
        }
        Some(())
    }

    /// Reads the functions: their positions and names.
    fn functions(&self, sections: &Sections) -> Option<Vec<(u64, String)>> {
        let (symbols_at, symbols_size, strings) = sections.symbols?;
        let strings_at = self.usize_at(section(sections.headers, strings)? + 24, 8)?;
        let mut functions = BTreeMap::new();
        for offset in (symbols_at..symbols_at.checked_add(symbols_size)?).step_by(24) {
            let kind = self.integer(offset + 4, 1)? as u8 & 15;
            let Some(section_offset) = sections.section_offsets.get(&self.integer(offset + 6, 2)?)
            else {
                continue;
            };
            if kind == STT_FUNC
                && let Some(name) = self.text(strings_at, self.usize_at(offset, 4)?)
            {
                functions.entry(section_offset + self.integer(offset + 8, 8)?).or_insert(name);
            }
        }
        Some(functions.into_iter().collect())
    }
}

/// Returns the offset of a section's header.
fn section((table, entry_size): (usize, usize), index: usize) -> Option<usize> {
    table.checked_add(index.checked_mul(entry_size)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_matches_except_for_bytes_that_the_loader_changes() {
        let code = [Some(0x0f), None, None, Some(0x55), Some(0xc3)].into();
        let module = Module { code, ..Module::default() };
        assert_eq!(module.matching_bytes(0, &[0x0f, 1, 2, 0x55]), Some(2));
        assert_eq!(module.matching_bytes(0, &[0x0f, 1, 2, 0x56]), None);
        assert_eq!(
            (module.matching_bytes(3, &[0x55, 0xc3, 9]), module.matching_bytes(9, &[1])),
            (Some(2), Some(0))
        );
    }

    #[test]
    fn a_file_that_is_not_a_module_is_rejected() {
        assert_eq!(read("x", b""), None);
        assert_eq!(read("x", b"\x7fELF\x02\x01 and no more"), None);
        let mut cut = b"\x7fELF\x02\x01".to_vec();
        cut.resize(64, 0xff);
        assert_eq!(read("x", &cut), None);
    }
}
