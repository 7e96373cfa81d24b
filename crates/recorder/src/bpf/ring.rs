//! The ring buffer of records. A separate thread empties it, so that it does not fill up while the recorder is busy.

use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::fs::FallocateFlags;
use rustix::mm::{MapFlags, ProtFlags};

/// Length of the ring in bytes: a power of two.
pub const LENGTH: u32 = 32 << 20;

/// Maximum number of bytes that wait in memory for the recorder; the rest is spooled to a file.
const MEMORY: usize = 16 << 20;

/// The number of bytes at which a chunk is handed over.
const CHUNK: usize = 1 << 20;

/// The minimum and the maximum interval at which the thread polls the ring; it polls at the minimum after it found
/// records.
const ACTIVE: Duration = Duration::from_micros(500);
const IDLE: Duration = Duration::from_millis(8);

const PAGE: usize = 4096;
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;

/// Consecutive records, each preceded by its length.
enum Chunk {
    Memory(Vec<u8>),
    /// Offset in the file, and length.
    Spooled(u64, usize),
}

/// Data that the thread shares with its owner.
struct Common {
    ended: AtomicBool,
    /// The number of times that the ring was empty.
    times_empty: AtomicU64,
    waiting: AtomicUsize,
    spool: File,
}

/// The records of a recording, in order.
pub struct Records {
    chunks: Receiver<io::Result<Chunk>>,
    common: Arc<Common>,
    thread: Option<JoinHandle<()>>,
}

/// The mapped ring.
struct Ring {
    consumer: *mut u8,
    producer: *mut u8,
}

// SAFETY: only one thread at a time uses the ring.
unsafe impl Send for Ring {}

impl Ring {
    fn new(map: RawFd) -> io::Result<Ring> {
        // SAFETY: the map is open during this call.
        let map = unsafe { BorrowedFd::borrow_raw(map) };
        let null = std::ptr::null_mut();
        let read_write = ProtFlags::READ | ProtFlags::WRITE;
        let rest = PAGE + 2 * LENGTH as usize;
        // SAFETY: new mappings at addresses that the kernel chooses, to which no other code refers.
        unsafe {
            let consumer = rustix::mm::mmap(null, PAGE, read_write, MapFlags::SHARED, map, 0)?;
            let at = PAGE as u64;
            let producer = rustix::mm::mmap(null, rest, ProtFlags::READ, MapFlags::SHARED, map, at)
                .inspect_err(|_| _ = rustix::mm::munmap(consumer, PAGE))?;
            Ok(Ring { consumer: consumer.cast(), producer: producer.cast() })
        }
    }

    /// Takes available records, each with its length, until `to` has at least a chunk.
    fn take(&self, to: &mut Vec<u8>) {
        // SAFETY: each mapping begins with a position. The data follow the second position and are mapped twice in a
        // row, so that a record that wraps around is contiguous. The kernel does not overwrite a record before it is
        // consumed.
        unsafe {
            let consumed = &*self.consumer.cast::<AtomicU64>();
            let produced = &*self.producer.cast::<AtomicU64>();
            let data = self.producer.add(PAGE);
            let mut at = consumed.load(Ordering::Acquire);
            let end = produced.load(Ordering::Acquire);
            while at < end && to.len() < CHUNK {
                let head = data.add((at % u64::from(LENGTH)) as usize);
                let length = (*head.cast::<AtomicU32>()).load(Ordering::Acquire);
                if length & BUSY != 0 {
                    break;
                }
                let bytes = (length & !DISCARDED) as usize;
                if length & DISCARDED == 0 {
                    to.extend_from_slice(&(bytes as u32).to_ne_bytes());
                    to.extend_from_slice(std::slice::from_raw_parts(head.add(8), bytes));
                }
                at += (bytes as u64 + 8).next_multiple_of(8);
                consumed.store(at, Ordering::Release);
            }
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: no reference to the mappings is left.
        unsafe {
            let _ = rustix::mm::munmap(self.consumer.cast(), PAGE);
            let _ = rustix::mm::munmap(self.producer.cast(), PAGE + 2 * LENGTH as usize);
        }
    }
}

impl Records {
    /// Begins to empty the ring of a map.
    ///
    /// # Errors
    /// The ring cannot be mapped, or the temporary file or the thread cannot be created.
    pub fn new(map: RawFd) -> io::Result<Records> {
        let ring = Ring::new(map)?;
        let common = Arc::new(Common {
            ended: AtomicBool::new(false),
            times_empty: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            spool: tempfile::tempfile()?,
        });
        let (sender, chunks) = channel();
        let shared = common.clone();
        let thread = std::thread::Builder::new().name("ring".into());
        let thread = thread.spawn(move || empty(&ring, &shared, &sender))?;
        Ok(Records { chunks, common, thread: Some(thread) })
    }

    /// Returns the next records; None if none arrive within `wait`.
    ///
    /// # Errors
    /// The temporary file cannot be written or read.
    pub fn next(&self, wait: Duration) -> io::Result<Option<Vec<u8>>> {
        let chunk = match self.chunks.recv_timeout(wait) {
            Ok(chunk) => chunk?,
            Err(RecvTimeoutError::Disconnected) if self.thread.is_some() => {
                return Err(io::Error::other("the thread that empties the ring buffer has ended"));
            }
            Err(_) => return Ok(None),
        };
        match chunk {
            Chunk::Memory(bytes) => {
                self.common.waiting.fetch_sub(bytes.len(), Ordering::SeqCst);
                Ok(Some(bytes))
            }
            Chunk::Spooled(at, length) => {
                let mut bytes = vec![0; length];
                self.common.spool.read_exact_at(&mut bytes, at)?;
                let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                let _ = rustix::fs::fallocate(&self.common.spool, hole, at, length as u64);
                Ok(Some(bytes))
            }
        }
    }

    /// Returns the number of times so far that the ring was empty. All records that arrived before the last such time
    /// have been handed over.
    pub fn times_empty(&self) -> u64 {
        self.common.times_empty.load(Ordering::SeqCst)
    }

    /// Takes the rest of the ring and ends the thread. [`Records::next`] still returns the records.
    pub fn end(&mut self) {
        self.common.ended.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        self.end();
    }
}

/// Empties the ring until the owner ends the thread.
fn empty(ring: &Ring, common: &Common, sender: &Sender<io::Result<Chunk>>) {
    // The thread has little work, which must be done before the ring is full. (Linux sets the nice value per thread.)
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), -20);
    let (mut spooled, mut pause) = (0u64, ACTIVE);
    loop {
        let ending = common.ended.load(Ordering::SeqCst);
        let mut bytes = Vec::new();
        ring.take(&mut bytes);
        if bytes.is_empty() {
            common.times_empty.fetch_add(1, Ordering::SeqCst);
            if ending {
                return;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(IDLE);
            continue;
        }
        pause = ACTIVE;
        let full = bytes.len() >= CHUNK;
        let waiting = common.waiting.load(Ordering::SeqCst);
        let chunk = if waiting + bytes.len() <= MEMORY {
            common.waiting.fetch_add(bytes.len(), Ordering::SeqCst);
            Ok(Chunk::Memory(bytes))
        } else {
            let at = spooled;
            spooled += bytes.len() as u64;
            let written = common.spool.write_all_at(&bytes, at);
            let dir = std::env::temp_dir();
            let spool_error =
                |error| io::Error::other(format!("a file in {}: {error}", dir.display()));
            written.map(|()| Chunk::Spooled(at, bytes.len())).map_err(spool_error)
        };
        let failed = chunk.is_err();
        if sender.send(chunk).is_err() || failed {
            return;
        }
        if !full && !ending {
            std::thread::sleep(ACTIVE);
        }
    }
}
