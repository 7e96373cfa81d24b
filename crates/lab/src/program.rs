//! The files of fsdyno's programs: their bytes for an identity, excluding the sections that name the build, and their
//! sections.

use std::path::Path;

use fsdyno_record::build;

use crate::elf::{Elf, ElfError};
use crate::error::LabError;

/// Sections that name a build and contain no code: the commit, and the linker's hash, which covers the commit.
const BUILD_SECTIONS: [&str; 2] = [build::SECTION, ".note.gnu.build-id"];

/// Returns the bytes of a program, which are the same for all commits with the same source.
///
/// # Errors
/// A file that cannot be read or is not an ELF file.
pub fn program_bytes(path: &Path) -> Result<Vec<u8>, LabError> {
    let bytes = crate::read(path)?;
    without_build(bytes).map_err(LabError::damaged(path))
}

/// Returns the contents of a section of a program, or `None` if it has no such section.
///
/// # Errors
/// As [`program_bytes`].
pub fn section(path: &Path, name: &str) -> Result<Option<Vec<u8>>, LabError> {
    let bytes = crate::read(path)?;
    let section = Elf::parse(&bytes).and_then(|elf| elf.section(name).map(|it| it.map(Vec::from)));
    section.map_err(LabError::damaged(path))
}

fn without_build(mut bytes: Vec<u8>) -> Result<Vec<u8>, ElfError> {
    for section in BUILD_SECTIONS {
        // The headers do not change, so they can be parsed again.
        if let Some(range) = Elf::parse(&bytes)?.section_range(section)? {
            bytes.get_mut(range).ok_or(ElfError::OutOfBounds)?.fill(0);
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[used]
    // SAFETY: the section has no meaning for the linker and the loader.
    #[unsafe(link_section = ".fsdyno.build")]
    static STAMP: [u8; 8] = *b"7d48d33+";

    #[test]
    fn the_sections_that_name_the_build_are_zeroed_and_nothing_else_changes() {
        let bytes = std::fs::read("/proc/self/exe").unwrap();
        let at = Elf::parse(&bytes).unwrap().section_range(build::SECTION).unwrap().unwrap();
        assert_eq!(bytes[at.clone()], STAMP);
        let mut other = bytes.clone();
        other[at.clone()].copy_from_slice(b"0a1b2c3d");
        let blank = without_build(bytes.clone()).unwrap();
        assert_eq!(blank, without_build(other).unwrap());
        assert_eq!(blank[at.clone()], [0; 8]);
        let build_id = Elf::parse(&bytes).unwrap().section_range(BUILD_SECTIONS[1]).unwrap();
        let is_in_build_section = |index: usize| {
            at.contains(&index) || build_id.as_ref().is_some_and(|id| id.contains(&index))
        };
        let changed = (0..bytes.len()).filter(|index| bytes[*index] != blank[*index]);
        assert_eq!(changed.filter(|index| !is_in_build_section(*index)).count(), 0);
        assert_eq!(without_build(b"#!/bin/sh".to_vec()), Err(ElfError::NotElf));
    }
}
