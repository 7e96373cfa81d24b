//! bpf(2): maps, programs, and the attachment of programs to tracepoints.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// The declared licence of the programs: the kernel offers the helper functions that read memory only to
/// GPL-compatible programs. (The licence of fsdyno is MIT or Apache-2.0.)
const LICENSE: &CStr = c"Dual MIT/GPL";

const MAP_CREATE: i32 = 0;
const MAP_LOOKUP: i32 = 1;
const MAP_UPDATE: i32 = 2;
const PROG_LOAD: i32 = 5;
const OBJ_GET_INFO: i32 = 15;
const RAW_TRACEPOINT_OPEN: i32 = 17;

/// BPF_PROG_TYPE_RAW_TRACEPOINT
const RAW_TRACEPOINT: u32 = 17;

/// The kind of a map.
#[derive(Clone, Copy, Debug)]
pub enum MapKind {
    /// Arbitrary keys.
    Hash = 1,
    /// Keys from 0.
    Array = 2,
    /// Keys from 0, with a value for each processor.
    PerProcessor = 6,
    /// A ring buffer of records.
    Ring = 27,
}

/// Calls bpf(2). `words` is the beginning of union bpf_attr; the rest of the union is 0.
///
/// # Safety
/// The kernel reads and writes memory at the addresses in `words`, which must be as long as the command requires.
unsafe fn bpf(command: i32, words: &[u32]) -> io::Result<RawFd> {
    let mut all = [0u32; 32];
    all[..words.len()].copy_from_slice(words);
    // SAFETY: `all` outlives the call; the caller guarantees the rest.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, all.as_mut_ptr(), size_of_val(&all)) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as RawFd) }
}

fn halves<T>(address: *const T) -> [u32; 2] {
    [address as u64 as u32, (address as u64 >> 32) as u32]
}

fn owned(number: RawFd) -> OwnedFd {
    // SAFETY: the kernel just returned this descriptor, and nothing else owns it.
    unsafe { OwnedFd::from_raw_fd(number) }
}

/// A BPF map.
pub struct Map {
    map: OwnedFd,
    /// Length of a value in bytes.
    value: usize,
}

impl Map {
    /// Creates a map with keys of 4 bytes (a ring has no keys).
    pub fn new(kind: MapKind, value: u32, entries: u32) -> io::Result<Map> {
        let ring = matches!(kind, MapKind::Ring);
        let key = if ring { 0 } else { 4 };
        // BPF_F_NO_PREALLOC
        let flags = u32::from(matches!(kind, MapKind::Hash));
        // SAFETY: the command has no addresses.
        let map = unsafe { bpf(MAP_CREATE, &[kind as u32, key, value, entries, flags]) }?;
        Ok(Map { map: owned(map), value: value as usize })
    }

    /// Returns the descriptor of the map.
    pub fn number(&self) -> RawFd {
        self.map.as_raw_fd()
    }

    /// Sets a value.
    ///
    /// # Errors
    /// The key does not exist, the map is full, or its values have another length.
    pub fn set<T>(&self, key: u32, value: &T) -> io::Result<()> {
        self.has_values_of(size_of::<T>())?;
        let ([a, b], [c, d]) = (halves(&raw const key), halves(std::ptr::from_ref(value)));
        // SAFETY: the key has 4 bytes, and the value has the length of the map's values.
        unsafe { bpf(MAP_UPDATE, &[self.number() as u32, 0, a, b, c, d]) }.map(|_| ())
    }

    /// Returns a value.
    ///
    /// # Errors
    /// The key does not exist, or the values of the map do not have 8 bytes.
    pub fn get(&self, key: u32) -> io::Result<u64> {
        let mut value = 0u64;
        self.has_values_of(size_of_val(&value))?;
        let ([a, b], [c, d]) = (halves(&raw const key), halves(&raw mut value));
        // SAFETY: the key has 4 bytes, and the value has the length of the map's values.
        unsafe { bpf(MAP_LOOKUP, &[self.number() as u32, 0, a, b, c, d]) }?;
        Ok(value)
    }

    fn has_values_of(&self, length: usize) -> io::Result<()> {
        if self.value == length { Ok(()) } else { Err(io::ErrorKind::InvalidInput.into()) }
    }
}

/// A program that runs at a tracepoint until this value is dropped.
pub struct Attached {
    program: OwnedFd,
    _link: OwnedFd,
}

impl Attached {
    /// Loads a program and attaches it.
    ///
    /// # Errors
    /// The kernel rejects the program; the message has the last lines of the verifier's log.
    pub fn new(tracepoint: &CStr, code: &[[u8; 8]]) -> io::Result<Attached> {
        let program = load(code).map_err(|error| {
            let name = tracepoint.to_string_lossy();
            io::Error::new(
                error.kind(),
                format!("the program for {name} cannot be loaded: {error}"),
            )
        })?;
        let [a, b] = halves(tracepoint.as_ptr());
        // SAFETY: the address is that of a string with its NUL.
        let link = unsafe { bpf(RAW_TRACEPOINT_OPEN, &[a, b, program.as_raw_fd() as u32, 0]) }?;
        Ok(Attached { program, _link: owned(link) })
    }

    /// Returns how often the program did not run because it was already running on the same processor.
    pub fn missed(&self) -> u64 {
        /// The offset of recursion_misses in struct bpf_prog_info.
        const AT: usize = 208;
        let mut info = [0u64; 32];
        let [a, b] = halves(info.as_mut_ptr());
        let length = size_of_val(&info) as u32;
        // SAFETY: `info` has `length` bytes.
        let read = unsafe { bpf(OBJ_GET_INFO, &[self.program.as_raw_fd() as u32, length, a, b]) };
        if read.is_ok() { info[AT / 8] } else { 0 }
    }
}

fn load(code: &[[u8; 8]]) -> io::Result<OwnedFd> {
    let attempt = |log: &mut [u8]| {
        let ([a, b], [c, d], [e, f]) =
            (halves(code.as_ptr()), halves(LICENSE.as_ptr()), halves(log.as_mut_ptr()));
        let level = u32::from(!log.is_empty());
        let log_address = if log.is_empty() { [0, 0] } else { [e, f] };
        let words = [
            RAW_TRACEPOINT,
            code.len() as u32,
            a,
            b,
            c,
            d,
            level,
            log.len() as u32,
            log_address[0],
            log_address[1],
        ];
        // SAFETY: the code, the licence with its NUL, and the log with its length outlive the call.
        unsafe { bpf(PROG_LOAD, &words) }.map(owned)
    };
    attempt(&mut []).or_else(|error| {
        if error.raw_os_error() == Some(libc::EPERM) {
            return Err(error);
        }
        let mut log = vec![0; 1 << 20];
        let error = match attempt(&mut log) {
            Ok(program) => return Ok(program),
            Err(error) => error,
        };
        let end = log.iter().position(|byte| *byte == 0).unwrap_or(0);
        let text = String::from_utf8_lossy(&log[..end]);
        let last: Vec<&str> = text.trim().lines().rev().take(4).collect();
        let last = last.into_iter().rev().collect::<Vec<_>>().join("; ");
        Err(io::Error::new(error.kind(), format!("{error} ({last})")))
    })
}
