//! Reads the kernel's own symbol table (CONFIG_KALLSYMS) from a vmlinux.
//!
//! A distribution's vmlinux has no ELF symbols, but it has a symbol table for the running kernel's traces, packed as
//! scripts/kallsyms.c of Linux writes it: names as strings of tokens, 256 tokens, and addresses as offsets from a base,
//! or from the address of each entry. The parts are found by their contents: the token table has the digits in
//! sequence, and the names before it must exactly fill the space between their count and the next part. Parts begin at
//! multiples of eight bytes; from 7.2 on, of four.

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

/// The ten digits in sequence, as in the token table of any kernel: single characters are their own tokens.
const DIGITS: &[u8] = b"0\x001\x002\x003\x004\x005\x006\x007\x008\x009\x00";

/// Returns all symbols of a vmlinux in ascending order; `None` if it has no such table, or one in an unknown form.
pub fn read(image: &[u8]) -> Option<Vec<Symbol>> {
    let tokens_at = token_table(image)?;
    let (tokens, index_at) = tokens(image, tokens_at)?;
    let (names_at, count) = names(image, tokens_at, &tokens)?;
    let after_index = index_at + 512;
    let addresses = addresses_before_names(image, names_at, count)
        .or_else(|| addresses_after_index(image, after_index.next_multiple_of(8), count))
        .or_else(|| self_relative_addresses(image, after_index, count))?;
    let mut symbols = Vec::with_capacity(count);
    let mut at = names_at;
    for address in addresses {
        let (name, next) = name(image, at, &tokens)?;
        at = next;
        let mut letters = name.chars();
        let kind = letters.next()?;
        symbols.push(Symbol { address, name: letters.collect(), kind });
    }
    symbols.sort_by_key(|symbol| symbol.address);
    Some(symbols)
}

fn find(image: &[u8], what: &[u8], from: usize) -> Option<usize> {
    let rest = image.get(from..)?;
    // Searches for the first byte before it compares, because a plain search is slow.
    let mut at = 0;
    while let Some(step) = rest.get(at..)?.iter().position(|byte| *byte == what[0]) {
        at += step;
        if rest[at..].starts_with(what) {
            return Some(from + at);
        }
        at += 1;
    }
    None
}

/// Returns the start of the 256 tokens: the digits are the tokens from `0` on.
fn token_table(image: &[u8]) -> Option<usize> {
    let mut from = 0;
    while let Some(digits) = find(image, DIGITS, from) {
        // Goes back over the tokens before `0`, each terminated by a NUL.
        let mut at = digits;
        let mut before = usize::from(b'0');
        while before > 0 && at > 1 {
            let start =
                image[..at - 1].iter().rposition(|byte| *byte == 0).map_or(0, |nul| nul + 1);
            if at - start > 64 {
                break;
            }
            at = start;
            before -= 1;
        }
        // The table is aligned, and so are the padding bytes before it.
        if before == 0 && tokens(image, at).is_some() {
            return Some(at);
        }
        from = digits + 1;
    }
    None
}

type Tokens<'a> = Vec<&'a [u8]>;

/// The possible alignments of parts.
const UNITS: [usize; 2] = [8, 4];

/// Returns the tokens, of which there must be 256, and the start of the index of their offsets, which follows them.
fn tokens(image: &[u8], at: usize) -> Option<(Tokens<'_>, usize)> {
    let mut tokens = Vec::with_capacity(256);
    let mut end = at;
    for _ in 0..256 {
        let rest = image.get(end..)?;
        let length = rest.iter().take(128).position(|byte| *byte == 0)?;
        tokens.push(&rest[..length]);
        end += length + 1;
    }
    let is_index = |index: &usize| {
        let mut place = 0;
        tokens.iter().enumerate().all(|(code, token)| {
            let found = half(image, index + 2 * code).map(usize::from);
            let expected = place;
            place += token.len() + 1;
            found == Some(expected)
        })
    };
    let index = UNITS.into_iter().map(|unit| end.next_multiple_of(unit)).find(is_index)?;
    Some((tokens, index))
}

/// Returns the start and number of the names: a count, then names that end before the tokens, with a table of markers
/// between, one for every 256 names.
fn names(image: &[u8], tokens_at: usize, tokens: &Tokens<'_>) -> Option<(usize, usize)> {
    const MAX_DISTANCE: usize = 16 << 20;
    let mut at = tokens_at & !3;
    let lowest = tokens_at.saturating_sub(MAX_DISTANCE);
    while at > lowest + 8 {
        at -= 4;
        let count = word(image, at)? as usize;
        if !(1000..1_000_000).contains(&count) {
            continue;
        }
        // The count is followed by padding up to the unit.
        let begins = |unit: &usize| {
            let names = at + unit;
            let padded = *unit == 4 || word(image, at + 4) == Some(0);
            let end = skip(image, names, count, tokens).filter(|end| padded && *end <= tokens_at);
            end.is_some_and(|end| {
                is_markers(image, names, end.next_multiple_of(*unit), count, tokens)
            })
        };
        if let Some(unit) = UNITS.into_iter().find(begins) {
            return Some((at + unit, count));
        }
    }
    None
}

/// Returns whether the first two markers hold the offsets of names 0 and 256.
fn is_markers(
    image: &[u8],
    names: usize,
    markers: usize,
    count: usize,
    tokens: &Tokens<'_>,
) -> bool {
    let second = skip(image, names, 256.min(count), tokens).map(|end| (end - names) as u32);
    word(image, markers) == Some(0) && (count <= 256 || word(image, markers + 4) == second)
}

/// Returns the end of a given number of names.
fn skip(image: &[u8], from: usize, count: usize, tokens: &Tokens<'_>) -> Option<usize> {
    let mut at = from;
    for _ in 0..count {
        let (length, start) = length(image, at)?;
        if length == 0 || length > 1024 {
            return None;
        }
        // The first letter is the symbol kind of nm(1).
        if at == from {
            let first = tokens.get(usize::from(*image.get(start)?))?.first()?;
            if !first.is_ascii_alphabetic() {
                return None;
            }
        }
        at = start + length;
    }
    (at <= image.len()).then_some(at)
}

/// Reads a length: one byte, or two if the highest bit is set (since 6.1).
fn length(image: &[u8], at: usize) -> Option<(usize, usize)> {
    let low = usize::from(*image.get(at)?);
    if low & 0x80 == 0 {
        return Some((low, at + 1));
    }
    let high = usize::from(*image.get(at + 1)?);
    Some(((low & 0x7f) | (high << 7), at + 2))
}

fn name(image: &[u8], at: usize, tokens: &Tokens<'_>) -> Option<(String, usize)> {
    let (length, start) = length(image, at)?;
    let codes = image.get(start..start + length)?;
    let bytes: Vec<u8> =
        codes.iter().flat_map(|code| tokens[usize::from(*code)]).copied().collect();
    Some((String::from_utf8_lossy(&bytes).into_owned(), start + length))
}

/// Reads addresses in the layout of kernels up to 6.3: offsets, the base, the count, the names.
fn addresses_before_names(image: &[u8], names_at: usize, count: usize) -> Option<Vec<u64>> {
    let base_at = names_at.checked_sub(16)?;
    let offsets_at = base_at.checked_sub((count * 4).next_multiple_of(8))?;
    addresses(image, offsets_at, base_at, count)
}

/// Reads addresses in the layout of later kernels: the offsets and the base after the token index.
fn addresses_after_index(image: &[u8], offsets_at: usize, count: usize) -> Option<Vec<u64>> {
    addresses(image, offsets_at, (offsets_at + count * 4).next_multiple_of(8), count)
}

fn addresses(image: &[u8], offsets: usize, base: usize, count: usize) -> Option<Vec<u64>> {
    let base = u64::from(word(image, base)?) | u64::from(word(image, base + 4)?) << 32;
    if base >> 40 != 0xff_ffff {
        return None;
    }
    let offset = |at: usize| word(image, offsets + 4 * at);
    let all: Vec<u32> = (0..count).map(offset).collect::<Option<_>>()?;
    // If some are negative, the others are absolute, as for per-CPU data; otherwise all are relative to the base (since
    // 6.15).
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
    let place = virtual_address(image, offsets)?;
    let address = |at: usize| {
        let distance = word(image, offsets + 4 * at)? as i32;
        Some(place.wrapping_add(4 * at as u64).wrapping_add(i64::from(distance) as u64))
    };
    let addresses: Vec<u64> = (0..count).map(address).collect::<Option<_>>()?;
    let in_kernel = addresses.first().is_some_and(|address| address >> 40 == 0xff_ffff);
    (in_kernel && addresses.is_sorted()).then_some(addresses)
}

/// Returns the address at which the byte at an offset of an ELF file is loaded (System V ABI, program headers).
fn virtual_address(image: &[u8], at: usize) -> Option<u64> {
    const LOAD: u32 = 1;
    if !image.starts_with(b"\x7fELF") {
        return None;
    }
    let long = |at: usize| Some(u64::from_le_bytes(image.get(at..at + 8)?.try_into().ok()?));
    let (first, size) = (usize::try_from(long(32)?).ok()?, usize::from(half(image, 54)?));
    let at = at as u64;
    (0..usize::from(half(image, 56)?)).find_map(|header| {
        let header = first.checked_add(header * size)?;
        let (from, address, length) = (long(header + 8)?, long(header + 16)?, long(header + 32)?);
        let inside = word(image, header)? == LOAD && at.checked_sub(from)? < length;
        inside.then(|| address.wrapping_add(at - from))
    })
}

fn word(image: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(image.get(at..at + 4)?.try_into().ok()?))
}

fn half(image: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(image.get(at..at + 2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The layouts of the addresses, by the first kernel that has them.
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
        let (later, unit) = (since > Since::First, if since == Since::V7_2 { 4 } else { 8 });
        let count = 2000usize;
        let base = 0xffff_ffff_8100_0000_u64;
        let mut names = Vec::new();
        let mut second = 0;
        for at in 0..count {
            if at == 256 {
                second = names.len() as u32;
            }
            let text = format!("tfn_{at}");
            names.push(text.len() as u8);
            names.extend(text.bytes());
        }
        let mut out = elf(base);
        out.extend(b"something before that is no table");
        let align = |out: &mut Vec<u8>| out.resize(out.len().next_multiple_of(unit), 0);
        let place = |out: &mut Vec<u8>| {
            align(out);
            let begin = out.len() as i32;
            let offset = |at: i32| match since {
                Since::First | Since::V6_4 => -1 - at * 16,
                Since::V6_15 => at * 16,
                Since::V7_2 => at * 16 - (begin + 4 * at),
            };
            out.extend((0..count as i32).flat_map(|at| offset(at).to_le_bytes()));
            align(out);
            if since < Since::V7_2 {
                out.extend(base.to_le_bytes());
            }
        };
        if !later {
            place(&mut out);
        }
        align(&mut out);
        out.extend(&(count as u64).to_le_bytes()[..unit]);
        out.extend(&names);
        align(&mut out);
        out.extend(0u32.to_le_bytes());
        out.extend(second.to_le_bytes());
        (2..8).for_each(|at| out.extend((second * at).to_le_bytes()));
        align(&mut out);
        let mut index = Vec::new();
        let mut length = 0u16;
        for code in 0..=255u8 {
            index.extend(length.to_le_bytes());
            // Unused codes are tokens of several letters.
            match code.is_ascii_graphic() {
                true => out.push(code),
                false => out.extend(b"ab"),
            }
            length += if code.is_ascii_graphic() { 2 } else { 3 };
            out.push(0);
        }
        align(&mut out);
        out.extend(index);
        if later {
            place(&mut out);
        }
        out.extend([0; 64]);
        out
    }

    /// Returns the headers of an ELF file whose first byte is loaded at an address.
    fn elf(address: u64) -> Vec<u8> {
        let mut out = vec![0; 120];
        out[..4].copy_from_slice(b"\x7fELF");
        for (at, value) in [(32, 64), (64, 1), (80, address), (96, 1 << 20)] {
            out[at..at + 8].copy_from_slice(&u64::to_le_bytes(value));
        }
        // The size and the number of program headers.
        (out[54], out[56]) = (56, 1);
        out
    }

    #[test]
    fn symbols_are_read_in_the_forms_of_earlier_and_later_kernels() {
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
