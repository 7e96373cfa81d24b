//! The programs in the kernel during a recording, and the recording of a command.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use fsdyno_trace::End;
use libc::{c_int, pid_t};

use super::btf::Btf;
use super::kernel::{Attached, Map, MapKind};
use super::layout::{COUNTERS, FOREIGN, LOST, NUMBERS, Shape, state};
use super::names::Names;
use super::parts::Record;
use super::program::{Maps, Offsets, Programs, ROOMS, SCRATCH};
use super::ring::{self, Records};
use super::shapes;
use crate::error::RecordError;
use crate::inode::Key;
use crate::launch::{self, Started};
use crate::recorder::Recorder;
use crate::tree::Tree;

/// Maximum number of threads that are recorded at the same time.
const THREADS: u32 = 1 << 16;

/// The inode number of the initial PID namespace (PROC_PID_INIT_INO of Linux).
const FIRST_NAMESPACE: u64 = 0xefff_fffc;

/// The interval at which the recorder checks whether the command has ended.
const WAIT: Duration = Duration::from_millis(20);

/// The programs in the kernel and their ring.
pub struct Session {
    threads: Map,
    counters: Map,
    /// The copies of the program of each tracepoint; one copy at sched_switch, where threads cannot be preempted.
    attached: Vec<Vec<Attached>>,
    records: Records,
    _others: [Map; 3],
}

impl Session {
    /// Loads the programs and attaches them. No thread is recorded yet.
    ///
    /// # Errors
    /// The kernel's BPF does not suffice, or this process may not use it.
    pub fn new() -> Result<Session, RecordError> {
        let own = std::fs::metadata("/proc/self/ns/pid");
        let own = own.map(|it| std::os::unix::fs::MetadataExt::ino(&it));
        if own.is_ok_and(|it| it != FIRST_NAMESPACE) {
            let text = "this container has its own PID namespace; record from the host";
            return Err(RecordError::Bpf(io::Error::new(io::ErrorKind::Unsupported, text)));
        }
        Session::load().map_err(RecordError::Bpf)
    }

    fn load() -> io::Result<Session> {
        unlimit();
        let threads = Map::new(MapKind::Hash, state::LENGTH, THREADS)?;
        let shapes = Map::new(MapKind::Array, size_of::<Shape>() as u32, NUMBERS)?;
        let copies = copies();
        let scratch = Map::new(MapKind::PerProcessor, SCRATCH, ROOMS * copies)?;
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
        Ok(Session { threads, counters, attached, records, _others: [shapes, scratch, ring] })
    }

    /// Records the calls of a thread from now on, and those of all threads and processes that it creates.
    pub fn follow(&self, tid: pid_t) -> io::Result<()> {
        let mut new = [0u64; state::LENGTH as usize / 8];
        // The thread is not running; its CPU time counts from the next switch.
        new[state::SINCE as usize / 8] = crate::clock::monotonic();
        self.threads.set(tid as u32, &new)
    }

    /// Returns the next records; None if none arrive within `wait`.
    pub fn next(&self, wait: Duration) -> io::Result<Option<Vec<u8>>> {
        self.records.next(wait)
    }

    /// Detaches the programs and returns the number of lost records. Records in the ring can still be taken.
    pub fn end(&mut self) -> u64 {
        // An event is lost only if all copies missed it.
        let missed =
            |copies: &Vec<Attached>| copies.iter().map(Attached::missed).min().unwrap_or(0);
        let missed = self.attached.iter().map(missed).sum::<u64>();
        self.attached.clear();
        self.records.end();
        self.lost() + missed
    }

    /// Returns the number of records that were lost so far.
    pub fn lost(&self) -> u64 {
        self.counters.get(LOST).unwrap_or(0)
    }

    /// Returns the number of calls of 32-bit programs.
    pub fn foreign(&self) -> u64 {
        self.counters.get(FOREIGN).unwrap_or(0)
    }
}

/// Returns the number of copies of each program: several where threads can be preempted in programs.
fn copies() -> u32 {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy().into_owned();
    let mut numbers = release.split('.').map(|it| it.parse().unwrap_or(0));
    let version: (u32, u32) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version >= (6, 19) { 4 } else { 1 }
}

/// Removes the limit on locked memory: kernels before 5.11 charge maps to it.
fn unlimit() {
    let unlimited = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the structure outlives the call.
    unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const unlimited) };
}

/// Returns the wait status of a child if it has ended.
fn ended(pid: pid_t) -> Option<c_int> {
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    let done = unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) };
    (done == pid).then_some(status)
}

/// Reads the names below the trees.
///
/// # Errors
/// A tree cannot be read, or there are too many names.
pub fn read_names(trees: &[PathBuf], own: Key) -> Result<Names, RecordError> {
    let mut names = Names::new(own)?;
    for path in trees {
        let wrong = |error| RecordError::Tree { path: path.clone(), error };
        let real = path.canonicalize().map_err(wrong)?;
        names.read(&real).map_err(|most| {
            wrong(io::Error::other(format!(
                "it has more than {most} names, which BPF must know before the start; name smaller trees with --tree"
            )))
        })?;
    }
    Ok(names)
}

/// Records a command that was prepared to start.
///
/// # Errors
/// The command did not run, or its first thread cannot be recorded.
pub fn command(
    mut recorder: Recorder,
    mut session: Session,
    mut started: Started,
) -> Result<(c_int, Tree, End, u64), RecordError> {
    let main = started.pid;
    recorder.begin_names()?;
    let table = recorder.table(BTreeMap::new());
    recorder.add(main, main, table, Rc::default());
    let here = std::env::current_dir().ok();
    recorder.set_directory(main, here.as_deref());
    session.follow(main).map_err(RecordError::Bpf)?;
    let opened = started.open();
    let mut started = Some(started);
    opened?;
    let mut status = None;
    loop {
        if let Some(signal) = launch::signal_to_pass() {
            if status.is_none() {
                // SAFETY: a signal to the command, which has not been reaped yet.
                unsafe { libc::kill(main, signal) };
            }
        }
        let any = recorder.take_records(&session, WAIT);
        status = status.or_else(|| ended(main));
        let gone = recorder.threads.is_empty() || !any && !recorder.tree.is_recording();
        if status.is_some() && gone && !any {
            break;
        }
    }
    let outcome = started.take().map_or(Ok(()), Started::outcome);
    if let Err(error) = outcome {
        return Err(RecordError::Command { command: String::new(), error });
    }
    let end = recorder.end_records(&mut session, status.map(|it| it as u32));
    Ok((status.unwrap_or(0), recorder.tree, end, recorder.inside))
}

impl Recorder {
    /// Writes all directories of a tree to the trace, with their entries.
    pub fn introduce_all(&mut self, path: &Path) {
        let Some(mut names) = self.names.take() else { return };
        let real = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        if let Some(top) = names.reach(&real) {
            for dir in names.directories_below(top) {
                self.introduce(&mut names, dir);
            }
        }
        self.names = Some(names);
    }

    /// Processes the next records, which it waits for. Returns false if there are none; then it checks whether the last
    /// records were lost.
    pub fn take_records(&mut self, session: &Session, wait: Duration) -> bool {
        match session.next(wait) {
            Ok(Some(bytes)) => {
                self.records(&bytes);
                true
            }
            Ok(None) => {
                let lost = session.lost();
                if lost > 0 {
                    self.tree.stop(RecordError::Lost(lost));
                }
                false
            }
            Err(error) => {
                self.tree.stop(error.into());
                false
            }
        }
    }

    fn records(&mut self, mut bytes: &[u8]) {
        while let Some((length, rest)) = bytes.split_first_chunk() {
            let length = u32::from_ne_bytes(*length) as usize;
            let Some((record, rest)) = rest.split_at_checked(length) else { return };
            match Record::read(record) {
                Some(record) => self.record(record),
                None => self.note("records that could not be read", 1),
            }
            bytes = rest;
        }
    }

    /// Ends the recording: processes the last records, and notes what the trace lacks.
    pub fn end_records(&mut self, session: &mut Session, status: Option<u32>) -> End {
        let lost = session.end();
        while self.take_records(session, Duration::ZERO) {}
        if lost > 0 {
            self.tree.stop(RecordError::Lost(lost));
        }
        let foreign = session.foreign();
        if foreign > 0 {
            self.note("calls of 32-bit programs, not recorded", foreign);
        }
        let notes = std::mem::take(&mut self.notes);
        let wall = crate::clock::monotonic().saturating_sub(self.began_monotonic);
        End { wall, status, notes, ..End::default() }
    }
}
