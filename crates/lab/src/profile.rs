//! Profiled runs: a QEMU plugin counts every instruction, and pauses the machine at the start of each stage.
//!
//! The plugin (profile/profile.c describes the counting) is compiled with this crate and passed to QEMU as a file in
//! memory. It is not part of a lab's identity, because it changes nothing that the guest can see: the same seed must
//! result in the same `measured`, and the caller of a profiled run compares them.

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

// The layout of `struct shared` in profile.c, which calls the limits MOST_*.
const BEGUN: u64 = 0;
const SEEN: u64 = 8;
const FUNCTIONS: u64 = 48;
const ENTRY_AT: u64 = 4096;
const MAX_ENTRIES: usize = 1 << 10;
const INTERRUPT_AT: u64 = ENTRY_AT + 8 * MAX_ENTRIES as u64;
const FUNCTION_AT: u64 = INTERRUPT_AT + 8 * MAX_ENTRIES as u64;
const MAX_FUNCTIONS: usize = 1 << 18;
const NODE_AT: u64 = FUNCTION_AT + 8 * MAX_FUNCTIONS as u64;
const NODE: u64 = 40;
const MAX_NODES: u64 = 1 << 22;
const CODES: u64 = 96;
const CODE_AT: u64 = NODE_AT + MAX_NODES * NODE;
const CODE: u64 = 40;
const MAX_CODES: u64 = 1 << 14;

/// The addresses in the kernel's code that are needed to follow its calls, in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Code {
    /// The starts of functions, followed by the end of the code.
    pub functions: Vec<u64>,
    /// The entries of system calls and faults.
    pub entries: Vec<u64>,
    /// The entries of interrupts.
    pub interrupts: Vec<u64>,
    /// The code that switches from the stack of one task to that of another.
    pub switch: Range<u64>,
    /// The start of a new task.
    pub fork: u64,
}

/// A node of the call tree: a function with its chain of callers, and its counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// The start address of the function, or the number of a task's stack for a root. All user-space code of a task has
    /// a node with the value 1, and its interrupt handlers are called from a node with the value 2.
    pub function: u64,
    /// Instructions executed in the function, excluding its callees.
    pub instructions: u64,
    /// The number of calls.
    pub calls: u64,
    /// The time that the processor model charged for it, in 1/1024 of the time of an instruction; zero without a model.
    pub charged: u64,
    /// The caller's node, or `None` for a root, which is a task.
    pub parent: Option<u32>,
}

/// The counts since the start of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The call tree; later counts extend earlier ones. The first node is unused.
    pub nodes: Vec<Node>,
    /// The number of calls that did not fit into the tree.
    pub lost: u64,
    /// The first bytes, in memory, of functions outside the kernel image, by address.
    pub codes: BTreeMap<u64, Vec<u8>>,
}

/// A stage that has begun; the machine is paused until [`Profile::go_on`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PausedStage {
    /// The stage.
    pub stage: Stage,
    /// The phase that the stage is in or follows.
    pub phase: u64,
    /// The number of stages that have begun.
    count: u64,
}

/// The plugin for one QEMU process.
#[derive(Debug)]
pub struct Profile {
    library: File,
    shared: File,
}

impl Profile {
    /// Creates a plugin for a kernel's code.
    ///
    /// # Errors
    /// An error of memfd_create(2) or write(2), or a kernel with too many functions.
    pub fn new(code: &Code) -> io::Result<Profile> {
        let entries = code.entries.len().max(code.interrupts.len());
        if code.functions.len() > MAX_FUNCTIONS || entries > MAX_ENTRIES {
            return Err(io::Error::other("the kernel has too many functions to count"));
        }
        let mut library = memory_file(c"fsdyno-profile")?;
        library.write_all(LIBRARY)?;
        let shared = memory_file(c"fsdyno-counts")?;
        shared.set_len(CODE_AT + MAX_CODES * CODE)?;
        let write = |list: &[u64], at: u64| {
            let bytes: Vec<u8> = list.iter().flat_map(|word| word.to_le_bytes()).collect();
            shared.write_all_at(&bytes, at)
        };
        let [functions, entries, interrupts] =
            [&code.functions, &code.entries, &code.interrupts].map(|list| list.len() as u64);
        let Range { start, end } = code.switch;
        write(&[functions, entries, interrupts, start, end, code.fork], FUNCTIONS)?;
        write(&code.entries, ENTRY_AT)?;
        write(&code.interrupts, INTERRUPT_AT)?;
        write(&code.functions, FUNCTION_AT)?;
        Ok(Profile { library, shared })
    }

    /// Returns QEMU's argument that loads the plugin. QEMU must inherit [`Profile::files`] and the mailbox.
    pub fn argument(&self, mailbox: RawFd) -> String {
        let (library, shared) = (self.library.as_raw_fd(), self.shared.as_raw_fd());
        format!("file=/proc/self/fd/{library},shared={shared},mailbox={mailbox}")
    }

    /// Returns the files that QEMU must inherit.
    pub fn files(&self) -> [BorrowedFd<'_>; 2] {
        [self.library.as_fd(), self.shared.as_fd()]
    }

    /// Returns the stage that has begun, if the machine is paused.
    ///
    /// # Errors
    /// The error of pread(2).
    pub fn paused_stage(&self) -> io::Result<Option<PausedStage>> {
        let [count, seen, stage, phase] = self.words(BEGUN)?;
        Ok((count != seen).then(|| PausedStage { stage: Stage::from_word(stage), phase, count }))
    }

    /// Resumes the machine.
    ///
    /// # Errors
    /// The error of pwrite(2).
    pub fn go_on(&self, paused: &PausedStage) -> io::Result<()> {
        self.shared.write_all_at(&paused.count.to_le_bytes(), SEEN)
    }

    /// Returns the counts so far; the machine must be paused or have ended.
    ///
    /// # Errors
    /// The error of pread(2).
    pub fn counts(&self) -> io::Result<Counts> {
        let [nodes, lost] = self.words(32)?;
        let mut bytes = vec![0; (nodes.min(MAX_NODES) * NODE) as usize];
        self.shared.read_exact_at(&mut bytes, NODE_AT)?;
        let node = |bytes: &[u8]| {
            let parent = word(bytes, 32) as u32;
            let parent = (parent != u32::MAX).then_some(parent);
            let [function, instructions, calls, charged] = [0, 8, 16, 24].map(|at| word(bytes, at));
            Node { function, instructions, calls, charged, parent }
        };
        let nodes = bytes.chunks_exact(NODE as usize).map(node).collect();
        let [codes] = self.words(CODES)?;
        let mut bytes = vec![0; (codes.min(MAX_CODES) * CODE) as usize];
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
    fn the_machine_is_paused_at_a_stage_until_it_is_resumed() {
        let profile = Profile::new(&Code::default()).unwrap();
        assert_eq!(profile.paused_stage().unwrap(), None);
        // As the plugin writes it.
        for (at, word) in [(16, Stage::Running as u64), (24, 3), (BEGUN, 1)] {
            profile.shared.write_all_at(&word.to_le_bytes(), at).unwrap();
        }
        let paused = profile.paused_stage().unwrap().unwrap();
        assert_eq!((paused.stage, paused.phase), (Stage::Running, 3));
        profile.go_on(&paused).unwrap();
        assert_eq!(profile.paused_stage().unwrap(), None);
        assert_eq!(profile.counts().unwrap(), Counts::default());
        // The first bytes of a function.
        profile.shared.write_all_at(&1u64.to_le_bytes(), CODES).unwrap();
        profile.shared.write_all_at(&0xc0de_u64.to_le_bytes(), CODE_AT).unwrap();
        profile.shared.write_all_at(&[2, 0x90, 0xc3, 7], CODE_AT + 8).unwrap();
        let codes = [(0xc0de, vec![0x90, 0xc3])].into();
        assert_eq!(profile.counts().unwrap(), Counts { codes, ..Counts::default() });
    }

    #[test]
    fn too_many_functions_are_refused() {
        let code = Code { functions: vec![0; MAX_FUNCTIONS + 1], ..Code::default() };
        assert!(Profile::new(&code).is_err());
    }
}
