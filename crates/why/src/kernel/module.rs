//! Modules: their functions out of their own files, and where they were loaded out of the calls that
//! were seen.
//!
//! A module's code is laid out as kernel/module/main.c of Linux does it: its sections of code in the
//! order of the file, each aligned, those of its start and end apart. Only the address of the first is
//! not known, a multiple of a page; it is the one at which calls that were seen go to where functions
//! begin.

use std::collections::{BTreeMap, BTreeSet};

const PAGE: u64 = 4096;

/// A module's functions, by their places from its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Module {
    /// Its name.
    pub name: String,
    /// Its functions: place and name, rising.
    pub functions: Vec<(u64, String)>,
    /// Bytes of its code.
    pub size: u64,
}

// ELF (System V ABI): section types and flags, symbol types.
const SHT_SYMTAB: u32 = 2;
const SHF_ALLOC: u64 = 2;
const SHF_EXECINSTR: u64 = 4;
const STT_FUNC: u8 = 2;

/// Reads a module's file; none where it is no such file.
pub fn read(name: &str, bytes: &[u8]) -> Option<Module> {
    if !bytes.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let number = |at: usize, size: usize| -> Option<u64> {
        let part = bytes.get(at..at.checked_add(size)?)?;
        Some(part.iter().rev().fold(0, |sum, byte| (sum << 8) | u64::from(*byte)))
    };
    let usize_at =
        |at: usize, size: usize| number(at, size).and_then(|it| usize::try_from(it).ok());
    let (table, each, count, names) =
        (usize_at(40, 8)?, usize_at(58, 2)?, usize_at(60, 2)?, usize_at(62, 2)?);
    let section = |index: usize| table.checked_add(index.checked_mul(each)?);
    let text = |table: usize, at: usize| -> Option<String> {
        let rest = bytes.get(table.checked_add(at)?..)?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        Some(String::from_utf8_lossy(&rest[..end]).into_owned())
    };
    let names_at = usize_at(section(names)? + 24, 8)?;
    let mut places = BTreeMap::new();
    let mut symbols = None;
    let mut size = 0u64;
    for index in 0..count {
        let at = section(index)?;
        let (kind, flags) = (number(at + 4, 4)? as u32, number(at + 8, 8)?);
        let called = text(names_at, usize_at(at, 4)?)?;
        if kind == SHT_SYMTAB {
            symbols = Some((usize_at(at + 24, 8)?, usize_at(at + 32, 8)?, usize_at(at + 40, 4)?));
        }
        let code = SHF_ALLOC | SHF_EXECINSTR;
        if flags & code == code && !called.starts_with(".init") {
            size = size.checked_next_multiple_of(number(at + 48, 8)?.max(1))?;
            places.insert(index as u64, size);
            size = size.checked_add(number(at + 32, 8)?)?;
        }
    }
    let (symbols_at, symbols_size, strings) = symbols?;
    let strings_at = usize_at(section(strings)? + 24, 8)?;
    let mut functions = BTreeMap::new();
    for at in (symbols_at..symbols_at.checked_add(symbols_size)?).step_by(24) {
        let kind = number(at + 4, 1)? as u8 & 15;
        let Some(place) = places.get(&number(at + 6, 2)?) else { continue };
        if kind == STT_FUNC
            && let Some(name) = text(strings_at, usize_at(at, 4)?)
        {
            functions.entry(place + number(at + 8, 8)?).or_insert(name);
        }
    }
    Some(Module { name: name.to_string(), functions: functions.into_iter().collect(), size })
}

/// Where modules were loaded: for each that can be told, its index and its address. `called` are the
/// addresses outside the kernel proper that were called, `late` those of them that were called after all
/// modules had started. A call of that kind goes into one of these modules, so where it fits one function
/// of one module alone, it is that.
pub fn place(
    modules: &[Module],
    called: &BTreeSet<u64>,
    late: &BTreeSet<u64>,
) -> BTreeMap<usize, u64> {
    let mut left = called.clone();
    let mut found = BTreeMap::new();
    // The larger a module is, the surer it is.
    let mut order: Vec<usize> = (0..modules.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(modules[*at].functions.len()));
    for at in order {
        if let Some(address) = place_one(&modules[at], &left) {
            left.retain(|call| !(address..address + modules[at].size).contains(call));
            found.insert(at, address);
        }
    }
    for call in late.intersection(&left) {
        let fits: Vec<(usize, u64)> = modules
            .iter()
            .enumerate()
            .filter(|(at, _)| !found.contains_key(at))
            .flat_map(|(at, module)| module.functions.iter().map(move |(place, _)| (at, *place)))
            .filter(|(_, place)| place % PAGE == call % PAGE)
            .collect();
        if let [(at, place)] = fits[..] {
            found.insert(at, call - place);
        }
    }
    found
}

fn place_one(module: &Module, called: &BTreeSet<u64>) -> Option<u64> {
    let mut by_offset: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for (place, _) in &module.functions {
        by_offset.entry(place % PAGE).or_default().push(*place);
    }
    let mut votes: BTreeMap<u64, u64> = BTreeMap::new();
    for call in called {
        for place in by_offset.get(&(call % PAGE)).into_iter().flatten() {
            if let Some(address) = call.checked_sub(*place) {
                *votes.entry(address).or_default() += 1;
            }
        }
    }
    let (address, best) = votes.iter().max_by_key(|(_, votes)| **votes).map(|(a, b)| (*a, *b))?;
    let as_good = votes.values().filter(|votes| **votes == best).count();
    // All that was called within it has to be the start of a function, but for what is reached by a
    // jump from elsewhere.
    let within = called.range(address..address + module.size).count() as u64;
    (as_good == 1 && best >= 2 && best * 10 >= within * 8).then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(name: &str, places: &[u64], size: u64) -> Module {
        let functions = places.iter().map(|at| (*at, format!("{name}_{at:x}"))).collect();
        Module { name: name.into(), functions, size }
    }

    #[test]
    fn modules_are_placed_by_the_calls_into_them() {
        let one = module("one", &[0, 0x40, 0x123, 0x1050, 0x2220], 0x3000);
        let two = module("two", &[0, 0x10, 0x777], 0x1000);
        let none = module("never", &[0, 0x8, 0x999], 0x1000);
        let called =
            [0xc0040, 0xc1050, 0xc2220, 0xd5010, 0xd5777].map(|at: u64| at << 4 >> 4).into();
        let modules = [two, one, none];
        let found = place(&modules, &called, &BTreeSet::new());
        assert_eq!(found, BTreeMap::from([(0, 0xd5000), (1, 0xc0000)]));
        // One call alone places a module if it was made when nothing but these modules ran, and fits no
        // other.
        let called: BTreeSet<u64> = called.into_iter().chain([0xe6999, 0xe7008]).collect();
        assert_eq!(place(&modules, &called, &[0xe6999].into())[&2], 0xe6000);
        assert_eq!(place(&modules, &called, &BTreeSet::new()).get(&2), None);
    }

    #[test]
    fn what_is_no_module_is_refused() {
        assert_eq!(read("x", b""), None);
        assert_eq!(read("x", b"\x7fELF\x02\x01 and no more"), None);
        let mut cut = b"\x7fELF\x02\x01".to_vec();
        cut.resize(64, 0xff);
        assert_eq!(read("x", &cut), None);
    }
}
