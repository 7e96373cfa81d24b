//! Offsets of fields in structures of the running kernel, from its BTF (/sys/kernel/btf/vmlinux;
//! Documentation/bpf/btf.rst).

use std::collections::HashMap;
use std::io;

/// The file with the BTF of the running kernel.
const PATH: &str = "/sys/kernel/btf/vmlinux";

const INT: u32 = 1;
const ARRAY: u32 = 3;
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const ENUM: u32 = 6;
const FUNC_PROTO: u32 = 13;
const VAR: u32 = 14;
const DATASEC: u32 = 15;
const DECL_TAG: u32 = 17;
const ENUM64: u32 = 19;

/// A type. `info` has the kind and the number of members; `members` is the offset of the first member in the BTF.
#[derive(Clone, Copy)]
struct Type {
    name: u32,
    info: u32,
    size_or_type: u32,
    members: usize,
}

impl Type {
    fn kind(self) -> u32 {
        self.info >> 24 & 0x1f
    }

    fn count(self) -> usize {
        (self.info & 0xffff) as usize
    }
}

/// The BTF of a kernel, parsed.
pub struct Btf {
    bytes: Vec<u8>,
    strings: usize,
    types: Vec<Type>,
    structs: HashMap<String, usize>,
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_le_bytes)
}

impl Btf {
    /// Reads the BTF of the running kernel.
    ///
    /// # Errors
    /// The kernel has no BTF (CONFIG_DEBUG_INFO_BTF), or it cannot be read.
    pub fn read() -> io::Result<Btf> {
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, format!("{PATH} is damaged"));
        let bytes = std::fs::read(PATH)
            .map_err(|error| io::Error::new(error.kind(), format!("{PATH}: {error}")))?;
        Btf::parse(bytes).ok_or_else(damaged)
    }

    fn parse(bytes: Vec<u8>) -> Option<Btf> {
        let header = word(&bytes, 4)? as usize;
        let from = header + word(&bytes, 8)? as usize;
        let end = from + word(&bytes, 12)? as usize;
        let strings = header + word(&bytes, 16)? as usize;
        // Type 0 is void.
        let mut types = vec![Type { name: 0, info: 0, size_or_type: 0, members: 0 }];
        let mut at = from;
        while at < end {
            let (name, info) = (word(&bytes, at)?, word(&bytes, at + 4)?);
            let it = Type { name, info, size_or_type: word(&bytes, at + 8)?, members: at + 12 };
            let tail = match it.kind() {
                INT | VAR | DECL_TAG => 4,
                ARRAY => 12,
                STRUCT | UNION | DATASEC | ENUM64 => 12 * it.count(),
                ENUM | FUNC_PROTO => 8 * it.count(),
                _ => 0,
            };
            types.push(it);
            at += 12 + tail;
        }
        let mut btf = Btf { bytes, strings, types, structs: HashMap::new() };
        for (id, it) in btf.types.iter().enumerate().filter(|(_, it)| it.kind() == STRUCT) {
            if let Some(name) = btf.text(it.name) {
                btf.structs.entry(name.to_string()).or_insert(id);
            }
        }
        Some(btf)
    }

    fn text(&self, at: u32) -> Option<&str> {
        let bytes = self.bytes.get(self.strings + at as usize..)?;
        let end = bytes.iter().position(|byte| *byte == 0)?;
        std::str::from_utf8(&bytes[..end]).ok().filter(|it| !it.is_empty())
    }

    /// Returns the offset in bytes of a field of a structure or of a nested structure (`thread_info.status`).
    ///
    /// # Errors
    /// The kernel has no such field.
    pub fn offset(&self, structure: &str, path: &str) -> io::Result<i32> {
        let missing = || {
            let text = format!("this kernel has no field {path} in struct {structure}");
            io::Error::new(io::ErrorKind::Unsupported, text)
        };
        let mut id = *self.structs.get(structure).ok_or_else(missing)?;
        let mut sum = 0;
        for name in path.split('.') {
            let (offset, member_type) = self.member(id, name).ok_or_else(missing)?;
            sum += offset;
            id = member_type;
        }
        i32::try_from(sum).map_err(|_| missing())
    }

    /// Returns the offset and type of a member, including members of anonymous structures and unions.
    fn member(&self, id: usize, name: &str) -> Option<(u32, usize)> {
        let it = *self.types.get(id)?;
        if ![STRUCT, UNION].contains(&it.kind()) {
            return None;
        }
        let has_bits = it.info >> 31 != 0;
        for at in (0..it.count()).map(|member| it.members + 12 * member) {
            let (own, type_id) = (word(&self.bytes, at)?, word(&self.bytes, at + 4)? as usize);
            let bits = word(&self.bytes, at + 8)?;
            let bytes = if has_bits { bits & 0xff_ffff } else { bits } / 8;
            match self.text(own) {
                Some(own) if own == name => return Some((bytes, self.strip_qualifiers(type_id))),
                Some(_) => {}
                None => {
                    if let Some((inner, inner_type)) =
                        self.member(self.strip_qualifiers(type_id), name)
                    {
                        return Some((bytes + inner, inner_type));
                    }
                }
            }
        }
        None
    }

    /// Returns a type without typedef, const, volatile, restrict and type tags.
    fn strip_qualifiers(&self, mut id: usize) -> usize {
        while let Some(it) = self.types.get(id).filter(|it| [8, 9, 10, 11, 18].contains(&it.kind()))
        {
            id = it.size_or_type as usize;
        }
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_of_the_running_kernel_are_found() {
        let Ok(btf) = Btf::read() else { return };
        // tgid follows pid directly in every kernel.
        let pid = btf.offset("task_struct", "pid").unwrap();
        assert_eq!(btf.offset("task_struct", "tgid").unwrap(), pid + 4);
        assert_eq!(btf.offset("pt_regs", "di").unwrap(), 112);
        assert!(btf.offset("inode", "i_nlink").unwrap() > 0);
        assert!(btf.offset("task_struct", "no_such_field").is_err());
    }
}
