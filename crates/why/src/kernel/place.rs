//! Locates loaded modules from observed calls.
//!
//! A module's address is the page-aligned address for which observed calls go to the starts of the module's functions
//! and the first bytes of the called code match the module's code.

use std::collections::{BTreeMap, BTreeSet};

use super::module::Module;

const PAGE: u64 = 4096;

/// Number of matching bytes that rules out a coincidence: many functions begin with the same few instructions (pushes).
const CONCLUSIVE_BYTES: usize = 8;

/// Observed calls to code outside the kernel proper.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// All called addresses.
    pub all: BTreeSet<u64>,
    /// Addresses called after all modules were loaded. Each lies in one of the modules.
    pub after_loading: BTreeSet<u64>,
    /// First bytes of the called code, if known.
    pub code_by_address: BTreeMap<u64, Vec<u8>>,
}

impl Calls {
    /// Returns the number of code bytes that confirm that a call goes to an offset of a module; `None` if a byte
    /// differs.
    fn matching_bytes(&self, call: u64, module: &Module, offset: u64) -> Option<usize> {
        self.code_by_address.get(&call).map_or(Some(0), |code| module.matching_bytes(offset, code))
    }
}

/// Returns the index and address of each module that can be located.
pub fn locate_modules(modules: &[Module], calls: &Calls) -> BTreeMap<usize, u64> {
    let mut unassigned = calls.all.clone();
    let mut found = BTreeMap::new();
    // The more functions a module has, the more certain its address.
    let mut order: Vec<usize> = (0..modules.len()).collect();
    order.sort_by_key(|index| std::cmp::Reverse(modules[*index].functions.len()));
    for index in order {
        if let Some(address) = locate_by_votes(&modules[index], &unassigned, calls) {
            unassigned.retain(|call| !(address..address + modules[index].size).contains(call));
            found.insert(index, address);
        }
    }
    locate_by_single_calls(modules, &unassigned, calls, &mut found);
    found
}

/// Locates modules by a single call each. A call suffices if it is in [`Calls::after_loading`] and fits only one
/// function; if it fits several functions, the bytes of the called code decide.
fn locate_by_single_calls(
    modules: &[Module],
    unassigned: &BTreeSet<u64>,
    calls: &Calls,
    found: &mut BTreeMap<usize, u64>,
) {
    let mut candidates: BTreeMap<usize, BTreeSet<u64>> = BTreeMap::new();
    for call in calls.after_loading.intersection(unassigned) {
        let mut matches: Vec<(usize, u64, usize)> = Vec::new();
        for (index, module) in
            modules.iter().enumerate().filter(|(index, _)| !found.contains_key(index))
        {
            let offsets = module.functions.iter().map(|(offset, _)| *offset);
            let offsets = offsets.filter(|offset| offset % PAGE == call % PAGE && offset <= call);
            matches.extend(offsets.filter_map(|offset| {
                Some((index, call - offset, calls.matching_bytes(*call, module, offset)?))
            }));
        }
        let conclusive = matches
            .iter()
            .filter(|(.., matching_bytes)| *matching_bytes >= CONCLUSIVE_BYTES)
            .count();
        if conclusive == 1 {
            matches.retain(|(.., matching_bytes)| *matching_bytes >= CONCLUSIVE_BYTES);
        }
        if let [(index, address, _)] = matches[..] {
            candidates.entry(index).or_default().insert(address);
        }
    }
    for (index, addresses) in candidates {
        if let (Some(address), 1) = (addresses.first(), addresses.len()) {
            found.insert(index, *address);
        }
    }
}

fn locate_by_votes(module: &Module, unassigned: &BTreeSet<u64>, calls: &Calls) -> Option<u64> {
    let mut by_offset: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for (offset, _) in &module.functions {
        by_offset.entry(offset % PAGE).or_default().push(*offset);
    }
    let mut votes: BTreeMap<u64, u64> = BTreeMap::new();
    for call in unassigned {
        for offset in by_offset.get(&(call % PAGE)).into_iter().flatten() {
            let address = call.checked_sub(*offset);
            if let Some(address) =
                address.filter(|_| calls.matching_bytes(*call, module, *offset).is_some())
            {
                *votes.entry(address).or_default() += 1;
            }
        }
    }
    let (address, most_votes) =
        votes.iter().max_by_key(|(_, votes)| **votes).map(|(a, b)| (*a, *b))?;
    let tied = votes.values().filter(|votes| **votes == most_votes).count();
    // At least 80 % of the calls into the module must go to starts of functions; the rest may be jumps from
    // elsewhere in the kernel.
    let calls_inside = unassigned.range(address..address + module.size).count() as u64;
    (tied == 1 && most_votes >= 2 && most_votes * 10 >= calls_inside * 8).then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(name: &str, offsets: &[u64], size: u64) -> Module {
        let functions =
            offsets.iter().map(|offset| (*offset, format!("{name}_{offset:x}"))).collect();
        Module { name: name.into(), functions, size, ..Module::default() }
    }

    fn calls(all: &[u64], after_loading: &[u64]) -> Calls {
        let (all, after_loading) =
            (all.iter().copied().collect(), after_loading.iter().copied().collect());
        Calls { all, after_loading, ..Calls::default() }
    }

    #[test]
    fn modules_are_located_by_calls_to_their_functions() {
        let first = module("one", &[0, 0x40, 0x123, 0x1050, 0x2220], 0x3000);
        let second = module("two", &[0, 0x10, 0x777], 0x1000);
        let unlocated = module("never", &[0, 0x8, 0x999], 0x1000);
        let observed = [0xc0040, 0xc1050, 0xc2220, 0xd5010, 0xd5777];
        let modules = [second, first, unlocated];
        let found = locate_modules(&modules, &calls(&observed, &[]));
        assert_eq!(found, BTreeMap::from([(0, 0xd5000), (1, 0xc0000)]));
        // A single call locates a module if it was made after all modules were loaded, and fits no other module.
        let observed = [&observed[..], &[0xe6999, 0xe7008]].concat();
        assert_eq!(locate_modules(&modules, &calls(&observed, &[0xe6999]))[&2], 0xe6000);
        assert_eq!(locate_modules(&modules, &calls(&observed, &[])).get(&2), None);
    }

    #[test]
    fn code_decides_where_calls_alone_are_ambiguous() {
        let code = |bytes: &[u8]| bytes.iter().copied().map(Some).collect::<Vec<_>>();
        let crc = Module { code: code(b"crc of 16 bits"), ..module("crc16", &[0], 14) };
        let other = Module { code: code(b"something else"), ..module("other", &[0], 14) };
        let modules = [crc, other];
        let mut observed = calls(&[0xc0000], &[0xc0000]);
        assert!(locate_modules(&modules, &observed).is_empty(), "either is possible");
        observed.code_by_address.insert(0xc0000, b"crc of 16".to_vec());
        assert_eq!(locate_modules(&modules, &observed), BTreeMap::from([(0, 0xc0000)]));
        // Calls alone fit a module at two addresses.
        let twice =
            [Module { code: code(b"a long begin......another"), ..module("m", &[0, 18], 25) }];
        let mut observed = calls(&[0xc0000, 0xc0012, 0xd0000, 0xd0012], &[]);
        assert!(locate_modules(&twice, &observed).is_empty());
        observed.code_by_address.insert(0xd0000, b"a long xegin".to_vec());
        assert_eq!(locate_modules(&twice, &observed), BTreeMap::from([(0, 0xc0000)]));
    }
}
