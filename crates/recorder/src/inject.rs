//! Puts the code inside (inside/inside.c) into a program that begins, and leads the calls of its C library to it.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use libc::{c_long, pid_t};

use crate::shared::Shared;
use crate::shared::layout::{CODE, CODE_LENGTH, GATE, SHARED, SHARED_LENGTH};
use crate::sites::{self, STUB, Site};
use crate::sys;

/// The largest library that is searched, in bytes.
const LARGEST: u64 = 16 << 20;

const FIXED: u64 = (libc::MAP_SHARED | libc::MAP_FIXED_NOREPLACE) as u64;
const READ_RUN: u64 = (libc::PROT_READ | libc::PROT_EXEC) as u64;
const READ_WRITE: u64 = (libc::PROT_READ | libc::PROT_WRITE) as u64;

/// The part of a library that a mapping shows, by its file and its change: its places.
type Searched = HashMap<(u64, u64, i64, u64, u64), Rc<Vec<Site>>>;

/// The code and memory that are put into programs.
pub struct Injector {
    shared: Rc<Shared>,
    searched: Searched,
}

/// Makes a call that fails an error.
fn call(tid: pid_t, at: u64, number: c_long, args: [u64; 6]) -> io::Result<u64> {
    match sys::call(tid, at, number, args)? {
        error @ -4095..0 => Err(io::Error::from_raw_os_error(-error as i32)),
        result => Ok(result as u64),
    }
}

fn memory(tid: pid_t) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(format!("/proc/{tid}/mem"))
}

/// True for the name of a C library.
fn is_c_library(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    ["libc.so", "libc-2", "libpthread.so", "libpthread-2", "ld-musl-", "libc.musl-"]
        .iter()
        .any(|it| name.starts_with(it))
}

impl Injector {
    /// An injector of the code that uses this memory.
    pub fn new(shared: Rc<Shared>) -> Injector {
        Injector { shared, searched: HashMap::new() }
    }

    /// Maps code and memory into a thread that returns from exec. The program sees nothing of it but the mappings.
    ///
    /// # Errors
    /// The program is of 32 bits, cannot open the memory (another root, another user), or has something at the
    /// addresses: it is recorded without.
    pub fn begin(&self, tid: pid_t) -> io::Result<()> {
        if !sys::is_native_return(tid) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let memory = memory(tid)?;
        let registers = sys::registers(tid)?;
        let mut code = [0; 2];
        memory.read_exact_at(&mut code, registers.rip)?;
        memory.write_all_at(&[0x0f, 0x05], registers.rip)?;
        let done = self.map(tid, registers.rip, registers.rsp - 4096, &memory);
        memory.write_all_at(&code, registers.rip)?;
        done
    }

    fn map(&self, tid: pid_t, at: u64, stack: u64, memory: &File) -> io::Result<()> {
        let path = [self.shared.path().as_bytes(), b"\0"].concat();
        memory.write_all_at(&path, stack)?;
        let flags = (libc::O_RDWR | libc::O_CLOEXEC) as u64;
        let cwd = libc::AT_FDCWD as u64;
        let file = call(tid, at, libc::SYS_openat, [cwd, stack, flags, 0, 0, 0])?;
        let (code, length) = (CODE as u64, CODE_LENGTH as u64);
        let mapped = call(tid, at, libc::SYS_mmap, [code, length, READ_RUN, FIXED, file, 0])
            .and_then(|_| {
                let (start, size) = (SHARED as u64, SHARED_LENGTH as u64);
                call(tid, at, libc::SYS_mmap, [start, size, READ_WRITE, FIXED, file, length])
            });
        call(tid, at, libc::SYS_close, [file, 0, 0, 0, 0, 0])?;
        mapped.map(|_| ())
    }

    /// Leads the calls of a C library, a part of which a thread has mapped as code, to the code inside. Another file is
    /// left alone. True if it was led.
    ///
    /// # Errors
    /// The library cannot be changed: its calls stop for the recorder.
    pub fn lead(
        &mut self,
        tid: pid_t,
        fd: i32,
        start: u64,
        length: u64,
        offset: u64,
    ) -> io::Result<bool> {
        let file = PathBuf::from(format!("/proc/{tid}/fd/{fd}"));
        if !is_c_library(&std::fs::read_link(&file)?) {
            return Ok(false);
        }
        let facts = std::fs::metadata(&file)?;
        if !facts.is_file() || facts.len() > LARGEST {
            return Ok(false);
        }
        let key = (facts.dev(), facts.ino(), facts.mtime_nsec() ^ facts.mtime(), offset, length);
        let sites = match self.searched.get(&key) {
            Some(known) => known.clone(),
            None => {
                let mut text = vec![0; length.min(facts.len().saturating_sub(offset)) as usize];
                File::open(&file)?.read_exact_at(&mut text, offset)?;
                let found = Rc::new(sites::find(&text));
                self.searched.insert(key, found.clone());
                found
            }
        };
        if sites.is_empty() {
            return Ok(false);
        }
        let private = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
        let size = (sites.len() * STUB).next_multiple_of(4096) as u64;
        let gate = (CODE + GATE) as u64;
        let none = u64::MAX;
        let stubs = call(tid, gate, libc::SYS_mmap, [0, size, READ_RUN, private, none, 0])?;
        let memory = memory(tid)?;
        let made = sites.iter().enumerate().map(|(at, site)| {
            let (stub, jump) = sites::stub(site, start, stubs + (at * STUB) as u64)?;
            Some((stub, jump, start + site.at as u64))
        });
        let Some(made) = made.collect::<Option<Vec<_>>>() else {
            // Further away than a jump reaches.
            call(tid, gate, libc::SYS_munmap, [stubs, size, 0, 0, 0, 0])?;
            return Ok(false);
        };
        let code: Vec<u8> = made.iter().flat_map(|(stub, ..)| *stub).collect();
        memory.write_all_at(&code, stubs)?;
        made.iter().try_for_each(|(_, jump, at)| memory.write_all_at(jump, *at))?;
        Ok(true)
    }
}
