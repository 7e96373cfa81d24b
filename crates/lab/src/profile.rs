//! A second pass of a trial, looked at: every instruction is counted, and the machine stands still where
//! the trial goes from one stage to the next.
//!
//! QEMU loads a plugin (profile/profile.c says how it counts), which is compiled with this crate and
//! reaches QEMU as nameless memory. It is no part of a lab's identity, for it touches nothing that the
//! guest could see: the same seed has to bring the same `measured`, and whoever asks for a second pass
//! compares that.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::fs::FileExt;

use fsdyno_child::memory_file;
use fsdyno_record::mailbox::Stage;

/// The plugin, an ELF shared object for the host.
const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/profile.so"));

// `struct shared` of profile.c.
const BEGUN: u64 = 0;
const SEEN: u64 = 8;
const FUNCTIONS: u64 = 48;
const ENTRY_AT: u64 = 4096;
const MOST_ENTRIES: usize = 1 << 10;
const INTERRUPT_AT: u64 = ENTRY_AT + 8 * MOST_ENTRIES as u64;
const FUNCTION_AT: u64 = INTERRUPT_AT + 8 * MOST_ENTRIES as u64;
const MOST_FUNCTIONS: usize = 1 << 18;
const NODE_AT: u64 = FUNCTION_AT + 8 * MOST_FUNCTIONS as u64;
const NODE: u64 = 32;
const MOST_NODES: u64 = 1 << 22;
const CODES: u64 = 96;
const CODE_AT: u64 = NODE_AT + MOST_NODES * NODE;
const CODE: u64 = 40;
const MOST_CODES: u64 = 1 << 14;

/// The kernel's code, as far as following its calls needs it. All addresses rise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Code {
    /// Where functions begin, and last where the code ends.
    pub functions: Vec<u64>,
    /// Where what runs enters the kernel: system calls, faults.
    pub entries: Vec<u64>,
    /// Where interrupts enter it, whatever runs.
    pub interrupts: Vec<u64>,
    /// The code that changes from one task's stack to another's.
    pub switch: Range<u64>,
    /// Where a new task begins.
    pub fork: u64,
}

/// A function with a chain of calls above it, and what was executed in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Where the function begins; of a root the number of its stack, 1 for all that is no kernel, 2 for interrupts.
    pub function: u64,
    /// Instructions executed in it, without those of what it calls.
    pub instructions: u64,
    /// How often it was called.
    pub calls: u64,
    /// Which node called it; none of a root, which stands for a task.
    pub parent: Option<u32>,
}

/// What was counted from the start of the machine until a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The tree of calls; later counts go on where earlier ones ended. The first stands for nothing.
    pub nodes: Vec<Node>,
    /// Calls that found no room in it.
    pub lost: u64,
    /// How functions outside the kernel proper begin, by their addresses: their first bytes as they lie in memory.
    pub codes: BTreeMap<u64, Vec<u8>>,
}

/// A stage that has begun; the machine stands still until it is let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begun {
    /// Which.
    pub stage: Stage,
    /// In or after which phase.
    pub phase: u64,
    at: u64,
}

/// The plugin for one QEMU.
#[derive(Debug)]
pub struct Profile {
    library: File,
    shared: File,
}

impl Profile {
    /// A plugin that knows a kernel's code.
    ///
    /// # Errors
    /// What memfd_create(2) or write(2) reports; a kernel with more functions than there is room for.
    pub fn new(code: &Code) -> io::Result<Profile> {
        let entries = code.entries.len().max(code.interrupts.len());
        if code.functions.len() > MOST_FUNCTIONS || entries > MOST_ENTRIES {
            return Err(io::Error::other("the kernel has more functions than there is room for"));
        }
        let mut library = memory_file(c"fsdyno-profile")?;
        library.write_all(LIBRARY)?;
        let shared = memory_file(c"fsdyno-counts")?;
        shared.set_len(CODE_AT + MOST_CODES * CODE)?;
        let put = |list: &[u64], at: u64| {
            let bytes: Vec<u8> = list.iter().flat_map(|word| word.to_le_bytes()).collect();
            shared.write_all_at(&bytes, at)
        };
        let [functions, entries, interrupts] =
            [&code.functions, &code.entries, &code.interrupts].map(|list| list.len() as u64);
        let Range { start, end } = code.switch;
        put(&[functions, entries, interrupts, start, end, code.fork], FUNCTIONS)?;
        put(&code.entries, ENTRY_AT)?;
        put(&code.interrupts, INTERRUPT_AT)?;
        put(&code.functions, FUNCTION_AT)?;
        Ok(Profile { library, shared })
    }

    /// QEMU's word for it. QEMU must inherit [`Profile::files`] and the mailbox.
    pub fn argument(&self, mailbox: RawFd) -> String {
        let (library, shared) = (self.library.as_raw_fd(), self.shared.as_raw_fd());
        format!("file=/proc/self/fd/{library},shared={shared},mailbox={mailbox}")
    }

    /// The files that it reaches QEMU through.
    pub fn files(&self) -> [BorrowedFd<'_>; 2] {
        [self.library.as_fd(), self.shared.as_fd()]
    }

    /// The stage that has begun and waits to be let go.
    ///
    /// # Errors
    /// What pread(2) reports.
    pub fn begun(&self) -> io::Result<Option<Begun>> {
        let [at, seen, stage, phase] = self.words(BEGUN)?;
        Ok((at != seen).then(|| Begun { stage: Stage::from_word(stage), phase, at }))
    }

    /// Lets the machine go on.
    ///
    /// # Errors
    /// What pwrite(2) reports.
    pub fn go_on(&self, begun: &Begun) -> io::Result<()> {
        self.shared.write_all_at(&begun.at.to_le_bytes(), SEEN)
    }

    /// What was counted so far; only of a machine that stands still or has ended.
    ///
    /// # Errors
    /// What pread(2) reports.
    pub fn counts(&self) -> io::Result<Counts> {
        let [nodes, lost] = self.words(32)?;
        let mut bytes = vec![0; (nodes.min(MOST_NODES) * NODE) as usize];
        self.shared.read_exact_at(&mut bytes, NODE_AT)?;
        let node = |bytes: &[u8]| {
            let parent = word(bytes, 24) as u32;
            let parent = (parent != u32::MAX).then_some(parent);
            let (instructions, calls) = (word(bytes, 8), word(bytes, 16));
            Node { function: word(bytes, 0), instructions, calls, parent }
        };
        let nodes = bytes.chunks_exact(NODE as usize).map(node).collect();
        let [codes] = self.words(CODES)?;
        let mut bytes = vec![0; (codes.min(MOST_CODES) * CODE) as usize];
        self.shared.read_exact_at(&mut bytes, CODE_AT)?;
        let code = |bytes: &[u8]| {
            let size = usize::from(bytes[8]).min(bytes.len() - 9);
            (word(bytes, 0), bytes[9..9 + size].to_vec())
        };
        let codes = bytes.chunks_exact(CODE as usize).map(code).collect();
        Ok(Counts { nodes, lost, codes })
    }

    fn words<const N: usize>(&self, at: u64) -> io::Result<[u64; N]> {
        let mut words = [0; N];
        for (index, word) in words.iter_mut().enumerate() {
            let mut bytes = [0; 8];
            self.shared.read_exact_at(&mut bytes, at + 8 * index as u64)?;
            *word = u64::from_le_bytes(bytes);
        }
        Ok(words)
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().rev().fold(0, |sum, byte| (sum << 8) | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_that_has_begun_waits_until_it_is_let_go() {
        let profile = Profile::new(&Code::default()).unwrap();
        assert_eq!(profile.begun().unwrap(), None);
        // As the plugin does it.
        for (at, word) in [(16, Stage::Running as u64), (24, 3), (BEGUN, 1)] {
            profile.shared.write_all_at(&word.to_le_bytes(), at).unwrap();
        }
        let begun = profile.begun().unwrap().unwrap();
        assert_eq!((begun.stage, begun.phase), (Stage::Running, 3));
        profile.go_on(&begun).unwrap();
        assert_eq!(profile.begun().unwrap(), None);
        assert_eq!(profile.counts().unwrap(), Counts::default());
        // How a function begins.
        profile.shared.write_all_at(&1u64.to_le_bytes(), CODES).unwrap();
        profile.shared.write_all_at(&0xc0de_u64.to_le_bytes(), CODE_AT).unwrap();
        profile.shared.write_all_at(&[2, 0x90, 0xc3, 7], CODE_AT + 8).unwrap();
        let codes = [(0xc0de, vec![0x90, 0xc3])].into();
        assert_eq!(profile.counts().unwrap(), Counts { codes, ..Counts::default() });
    }

    #[test]
    fn more_functions_than_there_is_room_for_are_refused() {
        let code = Code { functions: vec![0; MOST_FUNCTIONS + 1], ..Code::default() };
        assert!(Profile::new(&code).is_err());
    }
}
