//! The descriptors and mappings of the traced processes.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

use fsdyno_trace::{FileId, NodeId, Object, ThreadId};
use libc::pid_t;

use crate::decode::Pending;

/// An open file: the descriptors that refer to it share it.
#[derive(Debug)]
pub struct Open {
    /// Its identity.
    pub file: FileId,
    /// The object.
    pub node: NodeId,
}

/// The object of a descriptor.
#[derive(Clone, Debug)]
pub enum Descriptor {
    /// A file of a file system.
    File(Rc<Open>),
    /// Anything else, with the number of the object.
    Outside(Object, u64),
}

/// A table of descriptors; threads share it.
pub type Descriptors = Rc<RefCell<BTreeMap<i32, Descriptor>>>;

/// A mapping of a file.
#[derive(Clone, Debug)]
pub struct Mapping {
    /// The end of its addresses; the beginning is its key.
    pub end: u64,
    /// The file.
    pub node: NodeId,
    /// The offset in the file of the first address.
    pub offset: u64,
    /// Stores change the file.
    pub stores: bool,
}

/// The mappings of files by address; threads share them.
pub type Mappings = Rc<RefCell<BTreeMap<u64, Mapping>>>;

/// A traced thread.
pub struct Thread {
    /// Its identity in the trace.
    pub id: ThreadId,
    /// Its process.
    pub process: pid_t,
    /// Its descriptors.
    pub descriptors: Descriptors,
    /// Its mappings.
    pub mappings: Mappings,
    /// The call that it is in.
    pub pending: Option<Pending>,
    /// /proc/TID/schedstat, whose first number is its CPU time in nanoseconds.
    schedstat: Option<File>,
    /// Its CPU time at the end of its last event.
    pub used: u64,
}

impl Thread {
    /// A thread that was just made.
    pub fn new(
        tid: pid_t,
        id: ThreadId,
        process: pid_t,
        descriptors: Descriptors,
        mappings: Mappings,
    ) -> Thread {
        let schedstat = File::open(format!("/proc/{tid}/schedstat")).ok();
        Thread { id, process, descriptors, mappings, pending: None, schedstat, used: 0 }
    }

    /// The CPU time that it used so far, in nanoseconds; 0 if the kernel does not say.
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
        // `end` of a part is its length.
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
        let left: Vec<_> = all.iter().map(|(start, it)| (*start, it.end, it.offset)).collect();
        assert_eq!(left, [(0x1000, 0x2000, 0x4000), (0x3000, 0x5000, 0x6000)]);
        assert_eq!(unmap(&mut all, 0, u64::MAX).len(), 2);
        assert!(all.is_empty());
    }
}
