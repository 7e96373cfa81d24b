//! Injects code (inside/inside.c) into a program that starts, and redirects the calls of its C library to it.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use libc::{c_long, pid_t};

use crate::filter::OWN;
use crate::shared::Shared;
use crate::shared::layout::{CLOCK, CODE, CODE_LENGTH, GATE, SHARED, SHARED_LENGTH};
use crate::sites::{self, JUMP, Site};
use crate::{sys, vdso};

/// Maximum size in bytes of a library that is searched.
const LARGEST: u64 = 16 << 20;

/// Size in bytes of the memory for stubs that a program gets at first.
const STUB_MEMORY_SIZE: u64 = 32 << 10;

const PAGE: u64 = 4096;
const PRIVATE: u64 = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
const FIXED: u64 = libc::MAP_FIXED_NOREPLACE as u64;
const READ_RUN: u64 = (libc::PROT_READ | libc::PROT_EXEC) as u64;
const READ_WRITE: u64 = (libc::PROT_READ | libc::PROT_WRITE) as u64;

/// The code of a library, and the sites of its calls.
struct Library {
    text: Vec<u8>,
    sites: Vec<Site>,
}

/// The searched parts of libraries, by device, inode, modification time, offset and length.
type Searched = HashMap<(u64, u64, i64, u64, u64), Rc<Library>>;

/// Memory in a program for stubs that jump to the injected code.
pub struct StubMemory {
    memory: File,
    next: u64,
    end: u64,
}

/// The code and memory that are put into programs.
pub struct Injector {
    shared: Rc<Shared>,
    searched: Searched,
    /// The offset of the clock in the vDSO, which is the same in every program.
    clock: Option<u64>,
}

/// Makes a thread execute a call, and converts a negative result to an error.
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

/// The code of a dynamic loader in the memory of a program.
struct Loader {
    start: u64,
    length: u64,
    offset: u64,
    inode: u64,
    path: PathBuf,
}

/// Parses a line of /proc/PID/maps; None unless it is the code of a loader.
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

/// Parses a line of /proc/PID/maps; returns the beginning of the vDSO, if the line describes it.
fn vdso_start(line: &str) -> Option<u64> {
    let start = line.strip_suffix("[vdso]")?.split_once('-')?.0;
    u64::from_str_radix(start, 16).ok()
}

/// Code that makes a sequence of calls. Each has a number, arguments, and an instruction that saves its result in a
/// register, if any. An argument is a number or the first result.
struct CallSequence(Vec<u8>);

/// An argument that denotes the first result.
const FIRST: u64 = u64::MAX - 1;

impl CallSequence {
    fn call(&mut self, number: c_long, args: [u64; 6], keep: &[u8]) {
        // movabs to rdi, rsi, rdx, r10, r8, r9; mov %rbx to the same registers.
        const MOVE: [[u8; 2]; 6] =
            [[0x48, 0xbf], [0x48, 0xbe], [0x48, 0xba], [0x49, 0xba], [0x49, 0xb8], [0x49, 0xb9]];
        const FROM_RBX: [[u8; 3]; 6] = [
            [0x48, 0x89, 0xdf],
            [0x48, 0x89, 0xde],
            [0x48, 0x89, 0xda],
            [0x49, 0x89, 0xda],
            [0x49, 0x89, 0xd8],
            [0x49, 0x89, 0xd9],
        ];
        for (at, arg) in args.into_iter().enumerate() {
            if arg == FIRST {
                self.0.extend(FROM_RBX[at]);
            } else {
                self.0.extend(MOVE[at]);
                self.0.extend(arg.to_le_bytes());
            }
        }
        self.0.push(0xb8);
        self.0.extend((number as u32).to_le_bytes());
        self.0.extend([0x0f, 0x05]);
        self.0.extend(keep);
    }
}

/// Converts the result of a call to an error if it is one.
fn checked(result: u64) -> io::Result<u64> {
    match result as i64 {
        error @ -4095..0 => Err(io::Error::from_raw_os_error(-error as i32)),
        _ => Ok(result),
    }
}

impl Injector {
    /// Creates an injector of code that uses this memory.
    pub fn new(shared: Rc<Shared>) -> Injector {
        Injector { shared, searched: HashMap::new(), clock: vdso::clock() }
    }

    /// Maps code and memory into a thread that returns from exec, and redirects the calls of its loader to the code.
    /// The program can see only the mappings. Returns true if the loader is also the C library, and the memory for more
    /// stubs.
    ///
    /// # Errors
    /// It is a 32-bit program, cannot open the memory (different root or user), or has other mappings at the
    /// addresses: it is recorded without the code.
    pub fn begin(&mut self, tid: pid_t) -> io::Result<(bool, Option<StubMemory>)> {
        if !sys::is_native_return(tid) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let memory = memory(tid)?;
        let maps = std::fs::read_to_string(format!("/proc/{tid}/maps"))?;
        let loader = maps.lines().find_map(loader);
        let stubs = self.map(tid, &memory, loader.is_some())?;
        let clock = maps.lines().find_map(vdso_start).zip(self.clock);
        let clock = clock.map_or(0, |(start, offset)| start + offset);
        memory.write_all_at(&clock.to_le_bytes(), (CODE + CLOCK) as u64)?;
        let Some(loader) = loader else { return Ok((false, None)) };
        let mut stub_memory =
            Some(StubMemory { memory, next: stubs, end: stubs + STUB_MEMORY_SIZE });
        // Without redirection, the calls of the loader stop.
        let redirected = self.redirect_loader(tid, &loader, &mut stub_memory).unwrap_or(false);
        Ok((redirected, stub_memory))
    }

    /// Redirects the calls of the dynamic loader, which the kernel mapped. Returns true if it is also the C library.
    fn redirect_loader(
        &mut self,
        tid: pid_t,
        loader: &Loader,
        stub_memory: &mut Option<StubMemory>,
    ) -> io::Result<bool> {
        let file = File::open(&loader.path)?;
        // In the root of the program, the path may name a different file.
        if file.metadata()?.ino() != loader.inode {
            return Ok(false);
        }
        let redirected = self.redirect_file(
            tid,
            &file,
            (loader.start, loader.length, loader.offset),
            stub_memory,
        )?;
        Ok(redirected && is_c_library(&loader.path))
    }

    /// Maps the code, the shared memory and, for a program with a loader, memory for stubs, whose address it returns.
    fn map(&self, tid: pid_t, memory: &File, with_stubs: bool) -> io::Result<u64> {
        let registers = sys::registers(tid)?;
        // The page of the program's first instruction is mapped entirely.
        let at = registers.rip & !(PAGE - 1);
        let flags = (libc::O_RDWR | libc::O_CLOEXEC) as u64;
        let cwd = libc::AT_FDCWD as u64;
        let code = |path: u64| {
            let mut it = CallSequence(Vec::new());
            it.call(libc::SYS_openat, [cwd, path, flags, 0, 0, OWN], &[0x48, 0x89, 0xc3]);
            let (start, length) = (CODE as u64, CODE_LENGTH as u64);
            // The page with the clock's address is private to the program.
            let private = FIXED | libc::MAP_PRIVATE as u64;
            let map = [start, length, READ_RUN, private, FIRST, 0];
            it.call(libc::SYS_mmap, map, &[0x49, 0x89, 0xc4]);
            let shared = FIXED | libc::MAP_SHARED as u64;
            let map = [SHARED as u64, SHARED_LENGTH as u64, READ_WRITE, shared, FIRST, length];
            it.call(libc::SYS_mmap, map, &[0x49, 0x89, 0xc5]);
            it.call(libc::SYS_close, [FIRST, 0, 0, 0, 0, OWN], &[]);
            if with_stubs {
                let map = [0, STUB_MEMORY_SIZE, READ_RUN, PRIVATE, u64::MAX, 0];
                it.call(libc::SYS_mmap, map, &[0x49, 0x89, 0xc6]);
            }
            it.call(libc::SYS_unshare, [0; 6], &[]);
            it.0
        };
        let end = at + code(0).len() as u64;
        let code_and_path = [&code(end)[..], self.shared.path().as_bytes(), b"\0"].concat();
        let mut before = vec![0; code_and_path.len()];
        memory.read_exact_at(&mut before, at)?;
        memory.write_all_at(&code_and_path, at)?;
        let after = sys::run(tid, at);
        memory.write_all_at(&before, at)?;
        let after = after?;
        checked(after.rbx)?;
        checked(after.r12)?;
        checked(after.r13)?;
        if with_stubs { checked(after.r14) } else { Ok(0) }
    }

    /// Redirects the calls of a C library, a part of which a thread has mapped as code (address, length and offset), to
    /// the injected code. Any other file is not changed, and its next mapping need not stop. Returns true if
    /// redirected.
    ///
    /// # Errors
    /// The library cannot be changed: its calls stop for the recorder.
    pub fn redirect(
        &mut self,
        tid: pid_t,
        fd: i32,
        part: (u64, u64, u64),
        stub_memory: &mut Option<StubMemory>,
    ) -> io::Result<bool> {
        let file = PathBuf::from(format!("/proc/{tid}/fd/{fd}"));
        if !is_c_library(&std::fs::read_link(&file)?) {
            let metadata = file.metadata()?;
            self.shared.mark_plain((metadata.dev(), metadata.ino()));
            return Ok(false);
        }
        self.redirect_file(tid, &File::open(&file)?, part, stub_memory)
    }

    fn redirect_file(
        &mut self,
        tid: pid_t,
        file: &File,
        (start, length, offset): (u64, u64, u64),
        stub_memory: &mut Option<StubMemory>,
    ) -> io::Result<bool> {
        let metadata = file.metadata()?;
        if !metadata.is_file() || metadata.len() > LARGEST {
            return Ok(false);
        }
        let key = (
            metadata.dev(),
            metadata.ino(),
            metadata.mtime_nsec() ^ metadata.mtime(),
            offset,
            length,
        );
        let library = match self.searched.get(&key) {
            Some(known) => known.clone(),
            None => {
                let mut text = vec![0; length.min(metadata.len().saturating_sub(offset)) as usize];
                file.read_exact_at(&mut text, offset)?;
                let found = Rc::new(Library { sites: sites::find(&text), text });
                self.searched.insert(key, found.clone());
                found
            }
        };
        if library.sites.is_empty() {
            return Ok(false);
        }
        let size = library.stubs_length() as u64;
        let stubs = match stub_memory {
            Some(it) if it.end - it.next >= size => it.next,
            _ => {
                let gate = (CODE + GATE) as u64;
                let size = size.next_multiple_of(PAGE);
                let no_file = u64::MAX;
                let next =
                    call(tid, gate, libc::SYS_mmap, [0, size, READ_RUN, PRIVATE, no_file, 0])?;
                *stub_memory = Some(StubMemory { memory: memory(tid)?, next, end: next + size });
                next
            }
        };
        let Some(it) = stub_memory else { return Ok(false) };
        // None: a jump does not reach the stubs.
        let Some((code, changed)) = library.patches(start, stubs) else { return Ok(false) };
        it.next += size;
        it.memory.write_all_at(&code, stubs)?;
        changed.iter().try_for_each(|(at, bytes)| it.memory.write_all_at(bytes, *at))?;
        Ok(true)
    }
}

impl Library {
    /// Returns the length in bytes of the stubs for all its sites.
    fn stubs_length(&self) -> usize {
        self.sites.iter().map(Site::stub_length).sum()
    }

    /// Returns the stubs for the sites of a library at `start`, to be put at `stubs`, and the changed bytes of the
    /// library: one piece per page, because each piece costs a call. None if a jump does not reach that far.
    #[allow(clippy::type_complexity, reason = "addresses and bytes")]
    fn patches(&self, start: u64, stubs: u64) -> Option<(Vec<u8>, Vec<(u64, Vec<u8>)>)> {
        let mut code = Vec::with_capacity(self.stubs_length());
        let mut changed: Vec<(u64, Vec<u8>)> = Vec::new();
        let page = |at: u64| at / PAGE;
        for site in &self.sites {
            let (stub, jump) = sites::stub(site, start, stubs + code.len() as u64)?;
            code.extend(stub);
            let at = start + site.at as u64;
            match changed.last_mut() {
                Some((from, bytes)) if page(*from) == page(at) => {
                    let end = (*from - start) as usize + bytes.len();
                    bytes.extend(self.text.get(end..site.at)?);
                    bytes.extend(jump);
                }
                _ => changed.push((at, jump.to_vec())),
            }
        }
        debug_assert!(changed.iter().all(|(_, bytes)| bytes.len() >= JUMP));
        Some((code, changed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sites::Form;

    #[test]
    fn the_changed_bytes_of_a_page_are_one_piece() {
        let form = Form::Number([0xb8, 3, 0, 0, 0]);
        let sites = [10, 40, 5000].map(|at| Site { at, form }).to_vec();
        let library = Library { text: (0..6000).map(|at| at as u8).collect(), sites };
        let (code, changed) = library.patches(0x10000, 0x20000).unwrap();
        assert_eq!(code.len(), library.stubs_length());
        let pieces: Vec<_> = changed.iter().map(|(at, bytes)| (*at, bytes.len())).collect();
        assert_eq!(pieces, [(0x1000a, 35), (0x11388, 5)]);
        // A jump, unchanged code, and a jump.
        let bytes = &changed[0].1;
        assert_eq!((bytes[0], &bytes[5..30], bytes[30]), (0xe9, &library.text[15..40], 0xe9));
        assert!(library.patches(0x10000, 0x1_2000_0000).is_none());
    }

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
