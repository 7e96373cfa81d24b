//! The memory that the recorder shares with the programs that it records (inside/layout.h), and the code for them.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use rustix::fs::MemfdFlags;
use rustix::mm::{MapFlags, ProtFlags};

use crate::inode::Key;

/// The constants of inside/layout.h.
#[allow(dead_code, missing_docs, reason = "generated from a header that other files also use")]
pub mod layout {
    include!(concat!(env!("OUT_DIR"), "/layout.rs"));
}
use layout::*;

/// The code that runs inside recorded programs.
pub const INSIDE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/inside.bin"));

/// The shared memory.
pub struct Shared {
    file: OwnedFd,
    start: *mut u8,
    /// True if the register gs, which the recorder sets, has the address of each thread's ring.
    pub by_register: bool,
    rings: RefCell<Vec<u16>>,
    tables: RefCell<Vec<u16>>,
}

impl Shared {
    /// Creates memory with the code.
    ///
    /// # Errors
    /// The host cannot provide the memory.
    pub fn new() -> io::Result<Rc<Shared>> {
        let file = rustix::fs::memfd_create("fsdyno-record", MemfdFlags::CLOEXEC)?;
        let mut file = File::from(file);
        file.write_all(INSIDE)?;
        file.set_len((CODE_LENGTH + SHARED_LENGTH) as u64)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let (null, offset) = (std::ptr::null_mut(), CODE_LENGTH as u64);
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe {
            rustix::mm::mmap(null, SHARED_LENGTH, access, MapFlags::SHARED, &file, offset)?
        };
        /// HWCAP2_FSGSBASE: programs may read the bases of fs and gs.
        const FSGSBASE: u64 = 2;
        // SAFETY: it reads a number.
        let by_register = unsafe { libc::getauxval(libc::AT_HWCAP2) } & FSGSBASE != 0;
        // Ring 0 means none; no table is in use twice.
        let shared = Rc::new(Shared {
            file: file.into(),
            start: start.cast(),
            by_register,
            rings: RefCell::new((1..RINGS_COUNT as u16).rev().collect()),
            tables: RefCell::new((0..TABLES_COUNT as u16).rev().collect()),
        });
        shared.at::<AtomicU32>(BY_REGISTER).store(by_register.into(), Ordering::SeqCst);
        Ok(shared)
    }

    /// Returns the path at which a recorded program can open the memory.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    fn at<T>(&self, offset: usize) -> &T {
        assert!(offset + size_of::<T>() <= SHARED_LENGTH && offset % align_of::<T>() == 0);
        // SAFETY: it lies within the mapping, which lives as long as this value. `T` is an atomic number in every use.
        unsafe { &*self.start.add(offset).cast::<T>() }
    }

    /// Returns the last sequence number that was issued, and the number of events so far.
    pub fn progress(&self) -> (u64, u64) {
        let load = |offset| self.at::<AtomicU64>(offset).load(Ordering::SeqCst);
        (load(SEQUENCE), load(PUBLISHED))
    }

    /// Returns a new sequence number.
    pub fn next(&self) -> u64 {
        self.at::<AtomicU64>(SEQUENCE).fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Turns the injected code off: from now on, all calls stop for the recorder.
    pub fn turn_off(&self) {
        self.at::<AtomicU32>(OFF).store(1, Ordering::SeqCst);
    }

    /// Invalidates the cached directories of paths.
    pub fn invalidate_paths(&self) {
        for epoch in [EPOCH, MADE_EPOCH] {
            self.at::<AtomicU64>(epoch).fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Disables the cache of directories from now on: a path refers to different directories in different programs.
    pub fn disable_path_cache(&self) {
        self.at::<AtomicU32>(ALWAYS).store(1, Ordering::SeqCst);
    }

    /// Marks a file without calls to redirect. Does nothing if the programs do not know the file.
    pub fn mark_plain(&self, (dev, ino): Key) {
        let key = fingerprint(dev, ino);
        for at in slots(dev, ino, key) {
            let slot = self.at::<AtomicU64>(NODES + 8 * at);
            if slot.load(Ordering::SeqCst) & !7 == key {
                slot.fetch_or(NODE_PLAIN as u64, Ordering::SeqCst);
                return;
            }
        }
    }

    /// Adds flags to a node, which makes it known to the programs, unless the table has no free slot for it.
    pub fn mark(&self, (dev, ino): Key, flags: usize) {
        let key = fingerprint(dev, ino);
        for at in slots(dev, ino, key) {
            let slot = self.at::<AtomicU64>(NODES + 8 * at);
            let new = key | flags as u64;
            match slot.compare_exchange(0, new, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return,
                Err(found) if found & !7 == key => {
                    slot.fetch_or(flags as u64, Ordering::SeqCst);
                    return;
                }
                Err(_) => {}
            }
        }
    }

    /// Returns an empty table of descriptors; None if all are in use.
    pub fn table(self: &Rc<Shared>) -> Option<SharedTable> {
        let index = self.tables.borrow_mut().pop()?;
        Some(SharedTable { index, shared: self.clone() })
    }

    /// Returns a ring for a thread with a table; None if all are in use, or the thread ID is too large.
    pub fn ring(self: &Rc<Shared>, thread: i32, process: i32, table: &SharedTable) -> Option<Ring> {
        let thread = usize::try_from(thread).ok().filter(|it| *it < THREADS)?;
        let index = self.rings.borrow_mut().pop()?;
        let ring = Ring { index, thread, shared: self.clone() };
        ring.word(RING_HEAD).store(0, Ordering::SeqCst);
        ring.word(RING_TAIL).store(0, Ordering::SeqCst);
        self.at::<AtomicU32>(ring.offset(RING_BUSY)).store(0, Ordering::SeqCst);
        self.at::<AtomicU32>(ring.offset(RING_THREAD)).store(thread as u32, Ordering::SeqCst);
        self.at::<AtomicU32>(ring.offset(RING_PROCESS)).store(process as u32, Ordering::SeqCst);
        ring.invalidate_cpu_time();
        ring.use_table(table);
        self.at::<AtomicU16>(RING_OF + 2 * thread).store(index, Ordering::SeqCst);
        Some(ring)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: no reference is left: every reference borrows this value.
        let _ = unsafe { rustix::mm::munmap(self.start.cast(), SHARED_LENGTH) };
    }
}

/// Returns the key of a node in the shared table, as in inside.c.
fn fingerprint(dev: u64, ino: u64) -> u64 {
    let mut it = ino.wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ dev.wrapping_add(0x7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    it ^= it >> 29;
    it = it.wrapping_mul(0x94d0_49bb_1331_11eb);
    it ^= it >> 32;
    (it | 8) & !7
}

/// Returns the possible slots of a node in the shared table, in probing order, as in inside.c.
fn slots(dev: u64, ino: u64, key: u64) -> impl Iterator<Item = usize> {
    let near = ino.wrapping_add(dev.wrapping_mul(0x2545_f491_4f6c_dd1d));
    let anywhere = (8..16).map(move |probe| (key >> 8) + probe - 8);
    let all = (0..8).map(move |probe| near.wrapping_add(probe)).chain(anywhere);
    all.map(|at| (at % NODES_COUNT as u64) as usize)
}

/// A shared table of the descriptors that the recorder knows.
pub struct SharedTable {
    index: u16,
    shared: Rc<Shared>,
}

impl SharedTable {
    /// Sets the kind of a descriptor: 0 (unknown), [`DESCRIPTOR_FILE`] or [`DESCRIPTOR_OUTSIDE`].
    pub fn set(&self, number: i32, what: usize) {
        if let Some(number) = usize::try_from(number).ok().filter(|it| *it < DESCRIPTORS) {
            let at = TABLES + usize::from(self.index) * DESCRIPTORS + number;
            self.shared.at::<AtomicU8>(at).store(what as u8, Ordering::SeqCst);
        }
    }
}

impl Drop for SharedTable {
    fn drop(&mut self) {
        let at = TABLES + usize::from(self.index) * DESCRIPTORS;
        // SAFETY: the table is within the mapping, and no thread uses it any longer.
        unsafe { self.shared.start.add(at).write_bytes(0, DESCRIPTORS) };
        self.shared.tables.borrow_mut().push(self.index);
    }
}

/// The ring of a thread: the thread writes events, the recorder reads them.
pub struct Ring {
    index: u16,
    thread: usize,
    shared: Rc<Shared>,
}

impl Ring {
    fn offset(&self, field: usize) -> usize {
        RINGS + usize::from(self.index) * RING_LENGTH + field
    }

    fn word(&self, field: usize) -> &AtomicU64 {
        self.shared.at(self.offset(field))
    }

    /// Sets the thread's table of descriptors.
    pub fn use_table(&self, table: &SharedTable) {
        let at = self.shared.at::<AtomicU32>(self.offset(RING_TABLE));
        at.store(u32::from(table.index), Ordering::SeqCst);
    }

    /// Returns the address of the ring in the recorded programs.
    pub fn address(&self) -> u64 {
        (SHARED + self.offset(0)) as u64
    }

    /// Makes the injected code read the thread's CPU time again at the next call.
    pub fn invalidate_cpu_time(&self) {
        self.word(RING_WALL).store(0, Ordering::SeqCst);
    }

    /// Returns the end of the written data.
    pub fn tail(&self) -> u64 {
        self.word(RING_TAIL).load(Ordering::SeqCst)
    }

    /// Takes the events up to `tail`. Calls `each` with the position and the bytes of each event.
    pub fn take(&self, tail: u64, mut each: impl FnMut(u64, &[u8])) {
        let mut head = self.word(RING_HEAD).load(Ordering::SeqCst);
        let mut bytes = Vec::with_capacity(EVENT_MAX);
        while head < tail {
            let at = (head % RING_CAPACITY as u64) as usize;
            let begin = self.offset(RING_DATA + at);
            let length = self.shared.at::<AtomicU32>(begin).load(Ordering::SeqCst) as usize;
            if length == SKIP {
                head += (RING_CAPACITY - at) as u64;
                continue;
            }
            // The program may have overwritten the ring. That must do no harm except to the trace.
            if length < 8 || length % 8 != 0 || at + length > RING_CAPACITY {
                break;
            }
            bytes.clear();
            for word in (0..length).step_by(8) {
                let word = self.shared.at::<AtomicU64>(begin + word).load(Ordering::Relaxed);
                bytes.extend_from_slice(&word.to_ne_bytes());
            }
            each(head, &bytes);
            head += length as u64;
        }
        self.word(RING_HEAD).store(tail, Ordering::SeqCst);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let ring_number = self.shared.at::<AtomicU16>(RING_OF + 2 * self.thread);
        // A thread that ran another program may have taken over the number.
        let _ = ring_number.compare_exchange(self.index, 0, Ordering::SeqCst, Ordering::SeqCst);
        self.shared.rings.borrow_mut().push(self.index);
    }
}
