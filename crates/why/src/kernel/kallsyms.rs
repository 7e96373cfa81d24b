//! Reads the kernel's own symbol table (CONFIG_KALLSYMS) from a vmlinux.
//!
//! A distribution's vmlinux has no ELF symbols, but it has a symbol table for the running kernel's traces, packed as
//! scripts/kallsyms.c of Linux writes it: names as strings of tokens, a table of 256 tokens, and addresses as offsets
//! from a base or from the address of each entry. The parts are found by their contents: the token table has the digits
//! in sequence, and the names before it must exactly fill the space between their count and the next part. Parts begin
//! at multiples of eight bytes, or of four from Linux 7.2 on.

/// A symbol: its address, name and kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Address of its first byte.
    pub address: u64,
    /// Name.
    pub name: String,
    /// Kind as nm(1) reports it, `t` and `T` for code.
    pub kind: char,
}

/// The ten digits in sequence, as in the token table of every kernel: each single character is a token.
const DIGITS: &[u8] = b"0\x001\x002\x003\x004\x005\x006\x007\x008\x009\x00";

/// Returns all symbols of a vmlinux in ascending order; `None` if its symbol table is missing or has an unknown form.
pub fn read(image: &[u8]) -> Option<Vec<Symbol>> {
    let tokens_offset = token_table(image)?;
    let (tokens, index_offset) = tokens(image, tokens_offset)?;
    let (names_offset, count) = names(image, tokens_offset, &tokens)?;
    let after_index = index_offset + 512;
    let addresses = addresses_before_names(image, names_offset, count)
        .or_else(|| addresses_after_index(image, after_index.next_multiple_of(8), count))
        .or_else(|| self_relative_addresses(image, after_index, count))?;
    let mut symbols = Vec::with_capacity(count);
    let mut offset = names_offset;
    for address in addresses {
        let (name, next) = name(image, offset, &tokens)?;
        offset = next;
        let mut letters = name.chars();
        let kind = letters.next()?;
        symbols.push(Symbol { address, name: letters.collect(), kind });
    }
    symbols.sort_by_key(|symbol| symbol.address);
    Some(symbols)
}

fn find_bytes(image: &[u8], pattern: &[u8], from: usize) -> Option<usize> {
    let rest = image.get(from..)?;
    // Finding the first byte first is faster than comparing at every offset.
    let mut offset = 0;
    while let Some(step) = rest.get(offset..)?.iter().position(|byte| *byte == pattern[0]) {
        offset += step;
        if rest[offset..].starts_with(pattern) {
            return Some(from + offset);
        }
        offset += 1;
    }
    None
}

/// Finds the 256 tokens by the digits among them, and returns the start of the first token.
fn token_table(image: &[u8]) -> Option<usize> {
    let mut from = 0;
    while let Some(digits) = find_bytes(image, DIGITS, from) {
        // Skip back over the tokens before `0`, each terminated by a NUL.
        let mut offset = digits;
        let mut before = usize::from(b'0');
        while before > 0 && offset > 1 {
            let start =
                image[..offset - 1].iter().rposition(|byte| *byte == 0).map_or(0, |nul| nul + 1);
            if offset - start > 64 {
                break;
            }
            offset = start;
            before -= 1;
        }

        if before == 0 && tokens(image, offset).is_some() {
            return Some(offset);
        }
        from = digits + 1;
    }
    None
}

type Tokens<'a> = Vec<&'a [u8]>;

/// The possible alignments of parts.
const ALIGNMENTS: [usize; 2] = [8, 4];

/// Reads the tokens, of which there must be 256; returns them and the start of the index of their offsets, which
/// follows them.
fn tokens(image: &[u8], offset: usize) -> Option<(Tokens<'_>, usize)> {
    let mut tokens = Vec::with_capacity(256);
    let mut end = offset;
    for _ in 0..256 {
        let rest = image.get(end..)?;
        let length = rest.iter().take(128).position(|byte| *byte == 0)?;
        tokens.push(&rest[..length]);
        end += length + 1;
    }
    let is_index = |index: &usize| {
        let mut expected_offset = 0;
        tokens.iter().enumerate().all(|(code, token)| {
            let stored_offset = read_u16(image, index + 2 * code).map(usize::from);
            let expected = expected_offset;
            expected_offset += token.len() + 1;
            stored_offset == Some(expected)
        })
    };
    let index =
        ALIGNMENTS.into_iter().map(|alignment| end.next_multiple_of(alignment)).find(is_index)?;
    Some((tokens, index))
}

/// Finds the names, and returns their start and their number. They are preceded by their count and followed by a table
/// of markers, one for every 256 names, and then by the tokens.
fn names(image: &[u8], tokens_offset: usize, tokens: &Tokens<'_>) -> Option<(usize, usize)> {
    const MAX_DISTANCE: usize = 16 << 20;
    let mut index = tokens_offset & !3;
    let lowest = tokens_offset.saturating_sub(MAX_DISTANCE);
    while index > lowest + 8 {
        index -= 4;
        let count = read_u32(image, index)? as usize;
        if !(1000..1_000_000).contains(&count) {
            continue;
        }
        // The count is followed by padding up to the alignment.
        let is_followed_by_names = |alignment: &usize| {
            let names = index + alignment;
            let padded = *alignment == 4 || read_u32(image, index + 4) == Some(0);
            let end =
                skip(image, names, count, tokens).filter(|end| padded && *end <= tokens_offset);
            end.is_some_and(|end| {
                is_markers(image, names, end.next_multiple_of(*alignment), count, tokens)
            })
        };
        if let Some(alignment) = ALIGNMENTS.into_iter().find(is_followed_by_names) {
            return Some((index + alignment, count));
        }
    }
    None
}

/// Returns true if the first two markers are the offsets of names 0 and 256.
fn is_markers(
    image: &[u8],
    names: usize,
    markers: usize,
    count: usize,
    tokens: &Tokens<'_>,
) -> bool {
    let second = skip(image, names, 256.min(count), tokens).map(|end| (end - names) as u32);
    read_u32(image, markers) == Some(0) && (count <= 256 || read_u32(image, markers + 4) == second)
}

/// Returns the end of a given number of names.
fn skip(image: &[u8], from: usize, count: usize, tokens: &Tokens<'_>) -> Option<usize> {
    let mut offset = from;
    for _ in 0..count {
        let (length, start) = length(image, offset)?;
        if length == 0 || length > 1024 {
            return None;
        }
        // The first letter is the symbol kind of nm(1).
        if offset == from {
            let first = tokens.get(usize::from(*image.get(start)?))?.first()?;
            if !first.is_ascii_alphabetic() {
                return None;
            }
        }
        offset = start + length;
    }
    (offset <= image.len()).then_some(offset)
}

/// Reads a length of one byte, or of two if the highest bit is set (since Linux 6.1); returns it and the offset after
/// it.
fn length(image: &[u8], index: usize) -> Option<(usize, usize)> {
    let low = usize::from(*image.get(index)?);
    if low & 0x80 == 0 {
        return Some((low, index + 1));
    }
    let high = usize::from(*image.get(index + 1)?);
    Some(((low & 0x7f) | (high << 7), index + 2))
}

fn name(image: &[u8], offset: usize, tokens: &Tokens<'_>) -> Option<(String, usize)> {
    let (length, start) = length(image, offset)?;
    let codes = image.get(start..start + length)?;
    let bytes: Vec<u8> =
        codes.iter().flat_map(|code| tokens[usize::from(*code)]).copied().collect();
    Some((String::from_utf8_lossy(&bytes).into_owned(), start + length))
}

/// Reads addresses in the layout of kernels up to 6.3: offsets, the base, the count, the names.
fn addresses_before_names(image: &[u8], names_offset: usize, count: usize) -> Option<Vec<u64>> {
    let base_offset = names_offset.checked_sub(16)?;
    let offsets_start = base_offset.checked_sub((count * 4).next_multiple_of(8))?;
    addresses(image, offsets_start, base_offset, count)
}

/// Reads addresses in the layout of later kernels: the offsets and the base after the token index.
fn addresses_after_index(image: &[u8], offsets_start: usize, count: usize) -> Option<Vec<u64>> {
    addresses(image, offsets_start, (offsets_start + count * 4).next_multiple_of(8), count)
}

fn addresses(image: &[u8], offsets: usize, base: usize, count: usize) -> Option<Vec<u64>> {
    let base = u64::from(read_u32(image, base)?) | u64::from(read_u32(image, base + 4)?) << 32;
    if base >> 40 != 0xff_ffff {
        return None;
    }
    let offset = |position: usize| read_u32(image, offsets + 4 * position);
    let all: Vec<u32> = (0..count).map(offset).collect::<Option<_>>()?;
    // If some offsets are negative, the others are absolute addresses, as for per-CPU data; otherwise all are relative
    // to the base (since Linux 6.15).
    let has_absolute = all.iter().any(|offset| (*offset as i32) < 0);
    let address = |offset: u32| match offset as i32 {
        0.. if has_absolute => u64::from(offset),
        0.. => base.wrapping_add(u64::from(offset)),
        negative => base.wrapping_sub(1).wrapping_sub(negative as i64 as u64),
    };
    let addresses: Vec<u64> = all.into_iter().map(address).collect();
    addresses.is_sorted().then_some(addresses)
}

/// Reads addresses in the layout of kernels from 7.2 on: distances from the address of each entry, after the token
/// index.
fn self_relative_addresses(image: &[u8], offsets: usize, count: usize) -> Option<Vec<u64>> {
    let start = virtual_address(image, offsets)?;
    let address = |index: usize| {
        let distance = read_u32(image, offsets + 4 * index)? as i32;
        Some(start.wrapping_add(4 * index as u64).wrapping_add(i64::from(distance) as u64))
    };
    let addresses: Vec<u64> = (0..count).map(address).collect::<Option<_>>()?;
    let in_kernel = addresses.first().is_some_and(|address| address >> 40 == 0xff_ffff);
    (in_kernel && addresses.is_sorted()).then_some(addresses)
}

/// Returns the address at which the byte at an offset of an ELF file is loaded (System V ABI, program headers).
fn virtual_address(image: &[u8], offset: usize) -> Option<u64> {
    const LOAD: u32 = 1;
    if !image.starts_with(b"\x7fELF") {
        return None;
    }
    let read_u64 =
        |offset: usize| Some(u64::from_le_bytes(image.get(offset..offset + 8)?.try_into().ok()?));
    let (first, size) = (usize::try_from(read_u64(32)?).ok()?, usize::from(read_u16(image, 54)?));
    let offset = offset as u64;
    (0..usize::from(read_u16(image, 56)?)).find_map(|header| {
        let header = first.checked_add(header * size)?;
        let (from, address, length) =
            (read_u64(header + 8)?, read_u64(header + 16)?, read_u64(header + 32)?);
        let inside = read_u32(image, header)? == LOAD && offset.checked_sub(from)? < length;
        inside.then(|| address.wrapping_add(offset - from))
    })
}

fn read_u32(image: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_le_bytes(image.get(offset..offset + 4)?.try_into().ok()?))
}

fn read_u16(image: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_le_bytes(image.get(offset..offset + 2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The layouts of the addresses, named after the first kernel that has each.
    #[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
    enum Since {
        /// Before the names.
        First,
        /// After the token index.
        V6_4,
        /// All relative to the base.
        V6_15,
        /// Relative to the address of each entry; parts at multiples of four.
        V7_2,
    }

    /// Builds a table as scripts/kallsyms.c writes it, with one token per letter.
    fn image(since: Since) -> Vec<u8> {
        let (after_names, alignment) =
            (since > Since::First, if since == Since::V7_2 { 4 } else { 8 });
        let count = 2000usize;
        let base = 0xffff_ffff_8100_0000_u64;
        let mut names = Vec::new();
        let mut second = 0;
        for index in 0..count {
            if index == 256 {
                second = names.len() as u32;
            }
            let name = format!("tfn_{index}");
            names.push(name.len() as u8);
            names.extend(name.bytes());
        }
        let mut image = elf(base);
        image.extend(b"preceding bytes without a table");
        let align = |image: &mut Vec<u8>| image.resize(image.len().next_multiple_of(alignment), 0);
        let write_addresses = |image: &mut Vec<u8>| {
            align(image);
            let start = image.len() as i32;
            let offset = |index: i32| match since {
                Since::First | Since::V6_4 => -1 - index * 16,
                Since::V6_15 => index * 16,
                Since::V7_2 => index * 16 - (start + 4 * index),
            };
            image.extend((0..count as i32).flat_map(|index| offset(index).to_le_bytes()));
            align(image);
            if since < Since::V7_2 {
                image.extend(base.to_le_bytes());
            }
        };
        if !after_names {
            write_addresses(&mut image);
        }
        align(&mut image);
        image.extend(&(count as u64).to_le_bytes()[..alignment]);
        image.extend(&names);
        align(&mut image);
        image.extend(0u32.to_le_bytes());
        image.extend(second.to_le_bytes());
        (2..8).for_each(|index| image.extend((second * index).to_le_bytes()));
        align(&mut image);
        let mut index = Vec::new();
        let mut length = 0u16;
        for code in 0..=255u8 {
            index.extend(length.to_le_bytes());
            // Unused codes are tokens of several letters.
            match code.is_ascii_graphic() {
                true => image.push(code),
                false => image.extend(b"ab"),
            }
            length += if code.is_ascii_graphic() { 2 } else { 3 };
            image.push(0);
        }
        align(&mut image);
        image.extend(index);
        if after_names {
            write_addresses(&mut image);
        }
        image.extend([0; 64]);
        image
    }

    /// Returns the headers of an ELF file whose first byte is loaded at an address.
    fn elf(address: u64) -> Vec<u8> {
        let mut out = vec![0; 120];
        out[..4].copy_from_slice(b"\x7fELF");
        for (offset, value) in [(32, 64), (64, 1), (80, address), (96, 1 << 20)] {
            out[offset..offset + 8].copy_from_slice(&u64::to_le_bytes(value));
        }
        // The size and the number of program headers.
        (out[54], out[56]) = (56, 1);
        out
    }

    #[test]
    fn symbols_are_read_in_the_layouts_of_all_kernels() {
        for since in [Since::First, Since::V6_4, Since::V6_15, Since::V7_2] {
            let symbols = read(&image(since)).unwrap_or_else(|| panic!("{since:?}"));
            assert_eq!(symbols.len(), 2000);
            assert_eq!(symbols[7].name, "fn_7");
            let found = (symbols[7].address, symbols[7].kind);
            assert_eq!(found, (0xffff_ffff_8100_0070, 't'), "{since:?}");
        }
    }

    #[test]
    fn an_image_without_a_table_has_no_symbols() {
        assert_eq!(read(b""), None);
        assert_eq!(read(&[0; 4096]), None);
        let mut cut = image(Since::First);
        cut.truncate(cut.len() - 400);
        assert_eq!(read(&cut), None);
        assert_eq!(read(DIGITS), None);
    }
}
