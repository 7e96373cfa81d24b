//! Blocking calls on descriptors that all threads share, like those of a recorded program.
//!
//! Files and directories share one numbering here: the directory slot `n` is the file slot `n`, opened with
//! O_DIRECTORY. Slot 0 is the trial's root.

use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use fsdyno_workload::facts::NO_SLOT;
use fsdyno_workload::{Contents, Effect, Op};

use crate::failure::Failure;
use crate::issue::Issuer;
use crate::issue::sync::SyncIssuer;
use crate::meter::Meter;

/// An empty slot; the kernel returns EBADF.
const CLOSED: RawFd = -1;

/// The open files of all threads, which outlive a phase.
#[derive(Debug)]
pub struct Slots(Box<[AtomicI32]>);

impl Slots {
    /// Creates a table of `count` slots, all closed.
    pub fn new(count: u16) -> Slots {
        Slots((0..count).map(|_| AtomicI32::new(CLOSED)).collect())
    }

    /// Closes all files, before an unmount.
    pub fn close_all(&self) {
        for slot in &self.0 {
            let fd = slot.swap(CLOSED, Ordering::AcqRel);
            if fd != CLOSED {
                // SAFETY: the slot owned it and has just released it.
                unsafe { libc::close(fd) };
            }
        }
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        self.close_all();
    }
}

/// Issues calls like [`SyncIssuer`], on the files of a shared table.
pub struct SharedIssuer {
    calls: SyncIssuer,
    slots: Arc<Slots>,
}

impl SharedIssuer {
    /// Creates an issuer of calls below `root` on the files in `slots`.
    pub fn new(root: OwnedFd, contents: Arc<Contents>, slots: Arc<Slots>) -> SharedIssuer {
        let mut calls = SyncIssuer::new(root, contents);
        calls.files.resize(slots.0.len(), CLOSED);
        calls.dirs.resize(slots.0.len().max(1), CLOSED);
        SharedIssuer { calls, slots }
    }

    #[inline]
    fn fd(&self, slot: u16) -> RawFd {
        self.slots.0.get(usize::from(slot)).map_or(CLOSED, |fd| fd.load(Ordering::Acquire))
    }

    /// Puts a descriptor in a slot of the table, and closes the previous one.
    fn store_fd(&self, slot: u16, fd: RawFd) {
        let Some(entry) = self.slots.0.get(usize::from(slot)) else { return };
        let previous = entry.swap(fd, Ordering::AcqRel);
        if previous != CLOSED {
            // SAFETY: the slot owned it and has just released it.
            unsafe { libc::close(previous) };
        }
    }
}

impl Issuer for SharedIssuer {
    fn issue(&mut self, op: &Op) -> i64 {
        let used = op.call.slots();
        let effect = op.call.facts().effect;
        let opens = matches!(effect, Effect::Open { .. });
        for slot in used.files {
            if slot != NO_SLOT && !opens {
                let fd = match effect {
                    // The slot is released before the call, since close(2) frees its number for the next open.
                    Effect::Close { .. } => self.slots.0[..]
                        .get(usize::from(slot))
                        .map_or(CLOSED, |entry| entry.swap(CLOSED, Ordering::AcqRel)),
                    _ => self.fd(slot),
                };
                if let Some(entry) = self.calls.files.get_mut(usize::from(slot)) {
                    *entry = fd;
                }
            }
        }
        for slot in used.dirs {
            if slot != NO_SLOT && slot != 0 {
                let fd = self.fd(slot);
                if let Some(entry) = self.calls.dirs.get_mut(usize::from(slot)) {
                    *entry = fd;
                }
            }
        }
        let result = self.calls.issue(op);
        for slot in used.files {
            if slot != NO_SLOT {
                let fd = self
                    .calls
                    .files
                    .get_mut(usize::from(slot))
                    .map_or(CLOSED, |entry| std::mem::replace(entry, CLOSED));
                if opens && result >= 0 {
                    self.store_fd(slot, fd);
                }
            }
        }
        for slot in used.dirs {
            if slot != NO_SLOT
                && slot != 0
                && let Some(entry) = self.calls.dirs.get_mut(usize::from(slot))
            {
                *entry = CLOSED;
            }
        }
        result
    }

    fn expand(&mut self, op: &Op, meter: &mut Meter<'_>) -> Result<(), Failure> {
        self.calls.expand(op, meter)
    }
}
