//! The BPF programs that run in the kernel during a recording, and the maps that they share with this process.

use std::ffi::CStr;
use std::io;
use std::time::Duration;

use libc::pid_t;

use super::btf::Btf;
use super::kernel::{Attached, Map, MapKind};
use super::layout::{COUNTERS, FOREIGN, LOST, NUMBERS, Shape, state};
use super::program::{BUFFERS, Maps, Offsets, Programs, SCRATCH};
use super::ring::{self, Records};
use super::shapes;
use crate::error::RecordError;

/// Maximum number of threads that are recorded at the same time.
const THREADS: u32 = 1 << 16;

/// The inode number of the initial PID namespace (PROC_PID_INIT_INO of Linux).
const FIRST_NAMESPACE: u64 = 0xefff_fffc;

/// The programs in the kernel and their ring.
pub struct Session {
    threads: Map,
    counters: Map,
    /// The copies of the program of each tracepoint; one copy at sched_switch, where threads cannot be preempted.
    attached: Vec<Vec<Attached>>,
    /// The program at sched_waking. If it misses an event, a time is less exact, but no call is lost.
    waking: Vec<Attached>,
    records: Records,
    /// The number of times that the ring had been empty when a loss was first seen.
    lost_before: Option<u64>,
    /// The number of events that the programs had missed when they were detached.
    missed: u64,
    _keep_alive: [Map; 3],
}

impl Session {
    /// Loads the programs and attaches them. No thread is recorded yet.
    ///
    /// # Errors
    /// The kernel lacks a BPF feature that the programs need, or does not permit this process to use it.
    pub fn new() -> Result<Session, RecordError> {
        let own = std::fs::metadata("/proc/self/ns/pid");
        let own = own.map(|it| std::os::unix::fs::MetadataExt::ino(&it));
        if own.is_ok_and(|it| it != FIRST_NAMESPACE) {
            let text = "this container has its own PID namespace; record from the host";
            return Err(RecordError::Bpf(io::Error::new(io::ErrorKind::Unsupported, text)));
        }
        // Kernels before 5.11 charge maps to the limit on locked memory.
        let loaded = Session::load().or_else(|error| match error.raw_os_error() {
            Some(libc::EPERM) => without_limit(Session::load),
            _ => Err(error),
        });
        loaded.map_err(RecordError::Bpf)
    }

    fn load() -> io::Result<Session> {
        let threads = Map::new(MapKind::Hash, state::LENGTH, THREADS)?;
        let shapes = Map::new(MapKind::Array, size_of::<Shape>() as u32, NUMBERS)?;
        let copies = copies();
        let scratch = Map::new(MapKind::PerProcessor, SCRATCH, BUFFERS * copies)?;
        let ring = Map::new(MapKind::Ring, 0, ring::LENGTH)?;
        let counters = Map::new(MapKind::Array, 8, COUNTERS)?;
        for (number, shape) in shapes::all() {
            shapes.set(number, &shape)?;
        }
        let offsets = Offsets::new(&Btf::read()?)?;
        let maps = Maps {
            threads: threads.number(),
            shapes: shapes.number(),
            scratch: scratch.number(),
            ring: ring.number(),
            counters: counters.number(),
        };
        let attach = |at: &CStr, make: fn(&Programs<'_>) -> Vec<[u8; 8]>, copies: u32| {
            let copy = |copy| Attached::new(at, &make(&Programs::new(maps, &offsets, copy)));
            (0..copies).map(copy).collect::<io::Result<Vec<_>>>()
        };
        let waking = attach(c"sched_waking", |it| it.wake(), 1)?;
        // sys_exit before sys_enter: a call that is in progress when the last program is attached is ignored.
        let attached = vec![
            attach(c"sched_process_exit", |it| it.end(), copies)?,
            attach(c"sched_process_exec", |it| it.exec(), copies)?,
            attach(c"task_newtask", |it| it.spawn(), copies)?,
            attach(c"sched_switch", |it| it.switch(), 1)?,
            attach(c"sys_exit", |it| it.leave(), copies)?,
            attach(c"sys_enter", |it| it.enter(), copies)?,
        ];
        let records = Records::new(ring.number())?;
        Ok(Session {
            threads,
            counters,
            attached,
            waking,
            records,
            lost_before: None,
            missed: 0,
            _keep_alive: [shapes, scratch, ring],
        })
    }

    /// Records the calls of a thread from now on, and those of all threads and processes that it creates.
    pub fn follow(&self, tid: pid_t) -> io::Result<()> {
        let mut new = [0u64; state::LENGTH as usize / 8];
        // The thread is not running; its CPU time counts from the next switch.
        new[state::SINCE as usize / 8] = crate::clock::monotonic();
        self.threads.set(tid as u32, &new)
    }

    /// Returns the next records; None if none arrive within `wait`.
    ///
    /// # Errors
    /// The records can no longer be read.
    pub fn next(&mut self, wait: Duration) -> Result<Option<Vec<u8>>, RecordError> {
        let times_empty = self.records.times_empty();
        if let Some(bytes) = self.records.next(wait)? {
            return Ok(Some(bytes));
        }
        let lost = self.lost();
        if lost == 0 {
            return Ok(None);
        }
        // After a complete pass over the ring since the loss was discovered, all records from before the loss have been
        // taken.
        match self.lost_before {
            Some(before) if times_empty >= before + 2 => Err(RecordError::Lost(lost)),
            Some(_) => Ok(None),
            None => {
                self.lost_before = Some(self.records.times_empty());
                Ok(None)
            }
        }
    }

    /// Detaches the programs and returns the number of lost records. Records in the ring can still be taken.
    pub fn end(&mut self) -> u64 {
        self.missed = self.missed();
        self.attached.clear();
        self.waking.clear();
        self.records.end();
        self.lost()
    }

    /// Returns the number of records lost so far.
    fn lost(&self) -> u64 {
        self.counters.get(LOST).unwrap_or(0) + self.missed()
    }

    /// Returns the number of events for which no program ran.
    fn missed(&self) -> u64 {
        // An event is lost only if all copies missed it.
        let missed =
            |copies: &Vec<Attached>| copies.iter().map(Attached::missed).min().unwrap_or(0);
        self.missed.max(self.attached.iter().map(missed).sum())
    }

    /// Returns the number of system calls made by 32-bit programs.
    pub fn count_32_bit_calls(&self) -> u64 {
        self.counters.get(FOREIGN).unwrap_or(0)
    }
}

/// Returns the number of copies of each program: several on kernels where a thread can be preempted inside a BPF
/// program.
fn copies() -> u32 {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy().into_owned();
    let mut numbers = release.split(['.', '-']).map(|it| it.parse().unwrap_or(0));
    let version: (u32, u32) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    // Programs can be preempted since Linux 7.0; unneeded copies do no harm, so 6.19 also gets them.
    if version >= (6, 19) { 4 } else { 1 }
}

/// Calls `load` without the limit on locked memory.
fn without_limit<T>(load: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let before = getrlimit(Resource::Memlock);
    setrlimit(Resource::Memlock, Rlimit { current: None, maximum: None })?;
    let result = load();
    // The recorded command must not inherit the change.
    setrlimit(Resource::Memlock, before)?;
    result
}
