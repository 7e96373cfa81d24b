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

/// The code of a loader in the memory of a program.
struct Loader {
    start: u64,
    length: u64,
    offset: u64,
    inode: u64,
    path: PathBuf,
}

/// The loader in a line of /proc/PID/maps, which is that of its code.
fn loader(line: &str) -> Option<Loader> {
    let mut words = line.split_ascii_whitespace();
    let (range, rights, offset) = (words.next()?, words.next()?, words.next()?);
    let (_device, inode, path) = (words.next()?, words.next()?, words.next()?);
    let name = path.rsplit('/').next()?;
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (start, end) = range.split_once('-')?;
    let (start, end) = (hex(start)?, hex(end)?);
    let is_code = rights.starts_with("r-x");
    (is_code && ["ld-linux", "ld-2", "ld-musl-"].iter().any(|it| name.starts_with(it))).then_some(
        Loader {
            start,
            length: end - start,
            offset: hex(offset)?,
            inode: inode.parse().ok()?,
            path: path.into(),
        },
    )
}

impl Injector {
    /// An injector of the code that uses this memory.
    pub fn new(shared: Rc<Shared>) -> Injector {
        Injector { shared, searched: HashMap::new() }
    }

    /// Maps code and memory into a thread that returns from exec, and leads the calls of its loader to the code. The
    /// program sees nothing of it but the mappings. True if the loader is the C library, too.
    ///
    /// # Errors
    /// The program is of 32 bits, cannot open the memory (another root, another user), or has something at the
    /// addresses: it is recorded without.
    pub fn begin(&mut self, tid: pid_t) -> io::Result<bool> {
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
        done?;
        // A loader that is not led, or not found, stops at its calls.
        Ok(self.lead_loader(tid).unwrap_or(false))
    }

    /// Leads the calls of the loader of shared libraries, which the kernel mapped. True if it is the C library, too.
    fn lead_loader(&mut self, tid: pid_t) -> io::Result<bool> {
        let maps = std::fs::read_to_string(format!("/proc/{tid}/maps"))?;
        let Some(it) = maps.lines().find_map(loader) else { return Ok(false) };
        let file = File::open(&it.path)?;
        // It may be another one in the root of the program.
        if file.metadata()?.ino() != it.inode {
            return Ok(false);
        }
        let led = self.lead_file(tid, &file, it.start, it.length, it.offset)?;
        Ok(led && is_c_library(&it.path))
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
        self.lead_file(tid, &File::open(&file)?, start, length, offset)
    }

    fn lead_file(
        &mut self,
        tid: pid_t,
        file: &File,
        start: u64,
        length: u64,
        offset: u64,
    ) -> io::Result<bool> {
        let facts = file.metadata()?;
        if !facts.is_file() || facts.len() > LARGEST {
            return Ok(false);
        }
        let key = (facts.dev(), facts.ino(), facts.mtime_nsec() ^ facts.mtime(), offset, length);
        let sites = match self.searched.get(&key) {
            Some(known) => known.clone(),
            None => {
                let mut text = vec![0; length.min(facts.len().saturating_sub(offset)) as usize];
                file.read_exact_at(&mut text, offset)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loader_is_the_code_of_a_file_with_its_name() {
        let at =
            "7f1c0a2e4000-7f1c0a30a000 r-xp 00001000 fe:01 1234    /usr/lib/ld-linux-x86-64.so.2";
        let it = loader(at).unwrap();
        let found = (it.start, it.length, it.offset, it.inode, it.path.to_str());
        let path = Some("/usr/lib/ld-linux-x86-64.so.2");
        assert_eq!(found, (0x7f1c_0a2e_4000, 0x26000, 0x1000, 1234, path));
        assert!(loader(&at.replace("r-xp", "r--p")).is_none());
        assert!(loader(&at.replace("ld-linux", "cat")).is_none());
        assert!(loader("7ffe1000-7ffe2000 r-xp 00000000 00:00 0    [vdso]").is_none());
    }
}
