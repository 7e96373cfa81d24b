//! The traced threads: their descriptors, their mappings, and their current calls.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

use fsdyno_trace::{Call, FileId, NodeId, Object, ThreadId};
use libc::pid_t;

use crate::inject::StubMemory;
use crate::inode::Key;
use crate::shared::layout::{DESCRIPTOR_FILE, DESCRIPTOR_OUTSIDE};
use crate::shared::{Ring, SharedTable};
use crate::sys::CallEntry;

/// Returns the entries of a directory of /proc whose names are numbers: threads or descriptors. None if it cannot be
/// read.
pub fn numeric_entries(path: &str) -> Option<Vec<i32>> {
    let all = std::fs::read_dir(path).ok()?.flatten();
    Some(all.filter_map(|it| it.file_name().to_str()?.parse().ok()).collect())
}

/// An open file, shared by the descriptors that refer to it.
#[derive(Debug)]
pub struct Open {
    /// Its identity in the trace.
    pub file: FileId,
    /// The node of the file.
    pub node: NodeId,
    /// The key of its inode.
    pub key: Key,
}

/// The object that a descriptor refers to.
#[derive(Clone, Debug)]
pub enum Descriptor {
    /// A file in a file system.
    File(Rc<Open>),
    /// Any other object (pipe, socket, ...), with the number that identifies it.
    Outside(Object, u64),
}

impl Descriptor {
    fn shared_kind(&self) -> usize {
        match self {
            Descriptor::File(_) => DESCRIPTOR_FILE,
            Descriptor::Outside(..) => DESCRIPTOR_OUTSIDE,
        }
    }
}

/// A table of descriptors. The code injected into the program can read which descriptors are in it.
#[derive(Default)]
pub struct Table {
    all: RefCell<BTreeMap<i32, Descriptor>>,
    shared: Option<SharedTable>,
}

/// A table of descriptors, shared by threads.
pub type Descriptors = Rc<Table>;

impl Table {
    /// Creates a table with these descriptors.
    pub fn new(all: BTreeMap<i32, Descriptor>, shared: Option<SharedTable>) -> Table {
        if let Some(shared) = &shared {
            all.iter().for_each(|(number, it)| shared.set(*number, it.shared_kind()));
        }
        Table { all: RefCell::new(all), shared }
    }

    /// Returns all descriptors.
    pub fn all(&self) -> BTreeMap<i32, Descriptor> {
        self.all.borrow().clone()
    }

    /// Returns the table that the injected code reads.
    pub fn shared(&self) -> Option<&SharedTable> {
        self.shared.as_ref()
    }

    /// Returns a descriptor.
    pub fn get(&self, number: i32) -> Option<Descriptor> {
        self.all.borrow().get(&number).cloned()
    }

    /// Adds a descriptor and returns the one that it replaces. With `seen`, the injected code has already added it.
    pub fn insert(&self, number: i32, it: Descriptor, seen: bool) -> Option<Descriptor> {
        if let (Some(shared), false) = (&self.shared, seen) {
            shared.set(number, it.shared_kind());
        }
        self.all.borrow_mut().insert(number, it)
    }

    /// Removes a descriptor. With `seen`, the injected code has already removed it.
    pub fn remove(&self, number: i32, seen: bool) -> Option<Descriptor> {
        if let (Some(shared), false) = (&self.shared, seen) {
            shared.set(number, 0);
        }
        self.all.borrow_mut().remove(&number)
    }

    /// Removes all descriptors.
    pub fn take(&self) -> BTreeMap<i32, Descriptor> {
        self.all.take()
    }
}

/// A mapping of a file.
#[derive(Clone, Debug)]
pub struct Mapping {
    /// The end of its addresses; the beginning is the key in [`Mappings`].
    pub end: u64,
    /// The file.
    pub node: NodeId,
    /// The offset of the first address in the file.
    pub offset: u64,
    /// True if stores change the file.
    pub stores: bool,
}

/// The mappings of files by address, shared by threads.
pub type Mappings = Rc<RefCell<BTreeMap<u64, Mapping>>>;

/// A call between its entry and its return.
pub struct Pending {
    /// The call, as far as it is known at its entry.
    pub call: Call,
    /// The call's number and arguments.
    pub entry: CallEntry,
    /// Wall time at which the recorder resumed the thread at the entry, in nanoseconds since the start of the command.
    pub start: u64,
    /// CPU time of the thread since its previous event.
    pub think: u64,
    /// The inode that is removed if the call succeeds.
    pub removed: Option<Key>,
    /// The sequence number of the entry.
    pub entry_sequence: u64,
    /// The descriptor that close removed from the table at its entry.
    pub closed: Option<Descriptor>,
}

/// A traced thread.
pub struct Thread {
    /// Its identity in the trace.
    pub id: ThreadId,
    /// The ID of its process.
    pub process: pid_t,
    /// Its descriptors.
    pub descriptors: Descriptors,
    /// Its mappings.
    pub mappings: Mappings,
    /// Its working directory, shared by threads; set if the kernel records the calls.
    pub cwd: Rc<Cell<Key>>,
    /// A bitmap of the descriptors that its exec closes; set if the kernel records the calls.
    pub closes: Vec<u8>,
    /// Its current call.
    pub pending: Option<Pending>,
    /// /proc/TID/schedstat, whose first number is its CPU time in nanoseconds; open only if the thread
    /// is stopped at its calls.
    schedstat: Option<File>,
    /// Its CPU time at the end of its last event.
    pub used: u64,
    /// The ring in which the injected code puts its calls.
    pub ring: Option<Ring>,
    /// The sequence number of the last close that began inside the program, and the descriptor that it closes.
    pub closing: Option<(u64, Option<Descriptor>)>,
    /// True if code is injected into its program.
    pub injected: bool,
    /// True if the calls of its C library are redirected to that code.
    pub redirected: bool,
    /// True if it is about to return from an exec.
    pub in_exec: bool,
    /// True if it has not stopped since it began.
    pub fresh: bool,
    /// Memory for stubs; only the thread that started the program has it, so that no part is used twice.
    pub stub_memory: Option<StubMemory>,
}

impl Thread {
    /// Tracks a thread that was just created. Its CPU time is read from /proc if it `stops`.
    pub fn new(
        tid: pid_t,
        id: ThreadId,
        process: pid_t,
        descriptors: Descriptors,
        mappings: Mappings,
        stops: bool,
    ) -> Thread {
        let schedstat = stops.then(|| File::open(format!("/proc/{tid}/schedstat")).ok()).flatten();
        Thread {
            id,
            process,
            descriptors,
            mappings,
            cwd: Rc::default(),
            closes: Vec::new(),
            pending: None,
            schedstat,
            used: 0,
            ring: None,
            closing: None,
            injected: false,
            redirected: false,
            in_exec: false,
            fresh: false,
            stub_memory: None,
        }
    }

    /// Returns the CPU time that the thread has used, in nanoseconds; 0 if that is unknown.
    pub fn cpu(&self) -> u64 {
        let mut text = [0; 64];
        let read =
            self.schedstat.as_ref().and_then(|it| it.read_at(&mut text, 0).ok()).unwrap_or(0);
        let digits = text[..read].iter().take_while(|byte| byte.is_ascii_digit());
        digits.fold(0, |value, digit| value * 10 + u64::from(digit - b'0'))
    }
}

/// Removes a range of addresses from mappings; returns the parts that were mapped.
pub fn unmap(mappings: &mut BTreeMap<u64, Mapping>, from: u64, to: u64) -> Vec<Mapping> {
    let touched: Vec<u64> =
        mappings.range(..to).filter(|(_, it)| it.end > from).map(|(start, _)| *start).collect();
    let mut parts = Vec::new();
    for start in touched {
        let Some(it) = mappings.remove(&start) else { continue };
        let (first, last) = (start.max(from), it.end.min(to));
        if start < first {
            mappings.insert(start, Mapping { end: first, ..it.clone() });
        }
        if last < it.end {
            mappings.insert(last, Mapping { offset: it.offset + (last - start), ..it.clone() });
        }
        // Here `end` is the length of the part.
        parts.push(Mapping { end: last - first, offset: it.offset + (first - start), ..it });
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_is_unmapped_in_parts() {
        let mut all = BTreeMap::new();
        let node = NodeId(1);
        all.insert(0x1000, Mapping { end: 0x5000, node, offset: 0x4000, stores: true });
        let parts = unmap(&mut all, 0x2000, 0x3000);
        let seen: Vec<(u64, u64)> = parts.iter().map(|it| (it.offset, it.end)).collect();
        assert_eq!(seen, [(0x5000, 0x1000)]);
        let remaining: Vec<_> = all.iter().map(|(start, it)| (*start, it.end, it.offset)).collect();
        assert_eq!(remaining, [(0x1000, 0x2000, 0x4000), (0x3000, 0x5000, 0x6000)]);
        assert_eq!(unmap(&mut all, 0, u64::MAX).len(), 2);
        assert!(all.is_empty());
    }
}
