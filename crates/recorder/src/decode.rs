//! Converts the number and arguments of a system call, at its entry, to a call of a trace.

use fsdyno_trace::{
    Call, CallKind, Compressibility, CopyKind, FileId, Name, Object, SyncKind, Target,
};
use libc::{c_long, pid_t};

use crate::inode::{Key, directory, key};
use crate::process::Descriptor;
use crate::recorder::{Recorder, Source};
use crate::resolve::{MARK, Outside};
use crate::sys::{CallEntry, memory};
use crate::table::{self, FICLONE};

/// A call, and the inode that no longer exists if the call succeeds.
pub type Decoded = Result<(Call, Option<Key>), Outside>;

/// The descriptor that denotes the working directory.
pub const CWD: i32 = libc::AT_FDCWD;

impl Recorder {
    /// Decodes a call that begins; None for one that is not recorded.
    pub fn decode(&mut self, tid: pid_t, entry: &CallEntry) -> Option<(Call, Option<Key>)> {
        use CallKind as K;
        let kind = table::kind(entry.number)?;
        if let Some(mark) = self.mark(tid, entry) {
            return Some((mark, None));
        }
        let call = match kind {
            K::Wait => Ok(Call::Wait { child: Default::default() }),
            // These calls are completed when they return.
            K::Close | K::Dup | K::Map | K::Unmap | K::Msync => Ok(Call::SyncAll {}),
            K::Open => self.open(tid, entry),
            K::Exec => self.exec(tid, entry),
            K::Mkdir => self.mkdir(tid, entry),
            K::Rmdir | K::Unlink => return Some(to_call(kind, self.unlink(tid, entry))),
            K::Rename => return Some(to_call(kind, self.rename(tid, entry))),
            K::Link => self.link(tid, entry),
            K::Symlink => self.symlink(tid, entry),
            K::Mknod => self.mknod(tid, entry),
            K::Read => self.read(tid, entry),
            K::Write => self.decode_write(tid, entry),
            K::Seek => self.seek(tid, entry),
            K::Copy => self.copy(tid, entry),
            K::Truncate => self.truncate(tid, entry),
            K::Fallocate => self.fallocate(tid, entry),
            K::Sync => self.sync(tid, entry),
            K::SyncAll => Ok(Call::SyncAll {}),
            K::Advise => self.advise(tid, entry),
            K::Readdir => self.readdir(tid, entry),
            K::Stat => self.stat(tid, entry),
            K::Access => self.access(tid, entry),
            K::Readlink => self.readlink(tid, entry),
            K::Chmod => self.chmod(tid, entry),
            K::Chown => self.chown(tid, entry),
            K::Utimes => self.utimes(tid, entry),
            K::Setxattr | K::Getxattr | K::Listxattr | K::Removexattr => {
                self.xattr(tid, kind, entry)
            }
            K::Lock => self.lock(tid, entry),
            K::Chdir => {
                self.path_or_file(tid, entry, libc::SYS_chdir).map(|target| Call::Chdir { target })
            }
            K::Statfs => self
                .path_or_file(tid, entry, libc::SYS_statfs)
                .map(|target| Call::Statfs { target }),
            // No system call corresponds to these.
            K::Inherit | K::SetFlags | K::Outside | K::Spawn | K::Exit | K::Mark => return None,
        };
        Some(to_call(kind, call.map(|call| (call, None))))
    }

    /// Decodes a call on a path below [`MARK`] as a mark.
    fn mark(&mut self, tid: pid_t, entry: &CallEntry) -> Option<Call> {
        let address = match entry.number {
            libc::SYS_access | libc::SYS_stat => entry.args[0],
            libc::SYS_faccessat | libc::SYS_faccessat2 | libc::SYS_newfstatat | libc::SYS_statx => {
                entry.args[1]
            }
            _ => return None,
        };
        if self.memory(tid, address, MARK.len()) != MARK {
            return None;
        }
        let name = Name::new(self.text(tid, address)?.strip_prefix(MARK)?).ok()?;
        Some(Call::Mark { name })
    }

    /// Resolves a path, or the descriptor itself if the path is empty and the flags have AT_EMPTY_PATH.
    pub fn at_or_file(
        &mut self,
        tid: pid_t,
        dir: i32,
        path: u64,
        flags: i32,
        follow: bool,
    ) -> Result<Target, Outside> {
        let empty = || match &self.seen {
            Some(seen) => {
                let text = seen.captured.as_ref().and_then(|it| it.text(path));
                seen.empty || path == 0 || text == Some(b"")
            }
            None => path == 0 || memory(tid, path, 1) == [0],
        };
        if flags & libc::AT_EMPTY_PATH != 0 && dir != CWD && empty() {
            return self.target(tid, dir as u64);
        }
        Ok(Target::At(self.place(tid, dir, path, follow)?.at))
    }

    /// Resolves the path of the call with the number `path`, or the descriptor of its other form.
    fn path_or_file(
        &mut self,
        tid: pid_t,
        entry: &CallEntry,
        path: c_long,
    ) -> Result<Target, Outside> {
        if entry.number == path {
            self.at_path(tid, entry.args[0], true)
        } else {
            self.target(tid, entry.args[0])
        }
    }

    /// Resolves a path relative to the working directory.
    pub fn at_path(&mut self, tid: pid_t, path: u64, follow: bool) -> Result<Target, Outside> {
        Ok(Target::At(self.place(tid, CWD, path, follow)?.at))
    }

    fn read(&mut self, tid: pid_t, entry: &CallEntry) -> Result<Call, Outside> {
        let (offset, length, buffers) = self.extent(tid, entry);
        Ok(Call::Read { file: self.file(tid, entry.args[0])?, offset, length, buffers })
    }

    fn decode_write(&mut self, tid: pid_t, entry: &CallEntry) -> Result<Call, Outside> {
        let file = self.file(tid, entry.args[0])?;
        let (offset, length, buffers) = self.extent(tid, entry);
        Ok(Call::Write { file, offset, length, buffers, class: self.sample(tid, entry, length) })
    }

    fn seek(&mut self, tid: pid_t, entry: &CallEntry) -> Result<Call, Outside> {
        let [file, offset, whence, ..] = entry.args;
        let file = self.file(tid, file)?;
        Ok(Call::Seek { file, offset: offset as i64, whence: whence as u32 })
    }

    fn truncate(&mut self, tid: pid_t, entry: &CallEntry) -> Result<Call, Outside> {
        let target = self.path_or_file(tid, entry, libc::SYS_truncate)?;
        Ok(Call::Truncate { target, length: entry.args[1] })
    }

    fn fallocate(&mut self, tid: pid_t, entry: &CallEntry) -> Result<Call, Outside> {
        let [file, mode, offset, length, ..] = entry.args;
        Ok(Call::Fallocate { file: self.file(tid, file)?, mode: mode as u32, offset, length })
    }

    fn sync(&mut self, tid: pid_t, entry: &CallEntry) -> Result<Call, Outside> {
        let [file, offset, length, ..] = entry.args;
        let sync = match entry.number {
            libc::SYS_fsync => SyncKind::Fsync,
            libc::SYS_fdatasync => SyncKind::Fdatasync,
            libc::SYS_syncfs => SyncKind::Syncfs,
            _ => SyncKind::Range,
        };
        let (offset, length) = if sync == SyncKind::Range { (offset, length) } else { (0, 0) };
        Ok(Call::Sync { sync, file: self.file(tid, file)?, offset, length })
    }

    fn advise(&mut self, tid: pid_t, entry: &CallEntry) -> Result<Call, Outside> {
        let [file, offset, length, advice, ..] = entry.args;
        let readahead = entry.number == libc::SYS_readahead;
        let advice = if readahead { libc::POSIX_FADV_WILLNEED as u32 } else { advice as u32 };
        Ok(Call::Advise { file: self.file(tid, file)?, advice, offset, length })
    }

    fn readdir(&mut self, tid: pid_t, entry: &CallEntry) -> Result<Call, Outside> {
        let [number, _, length, ..] = entry.args;
        let file = self.file(tid, number)?;
        match self.source() {
            Source::Kernel => self.list_known(tid, number),
            Source::Inside => {}
            Source::Stop => self.list_open(tid, number),
        }
        Ok(Call::Readdir { file, length })
    }

    /// Lists a directory that a thread is about to read.
    fn list_open(&mut self, tid: pid_t, number: u64) {
        if let Ok(dir) = directory(format!("/proc/{tid}/fd/{number}").as_ref()) {
            if let Ok(stat) = rustix::fs::fstat(&dir) {
                self.tree.list(&dir, key(&stat));
            }
        }
    }

    /// Lists a directory outside the trees that a thread read.
    fn list_known(&mut self, tid: pid_t, number: u64) {
        let thread = self.threads.get(&tid);
        if let Some(Descriptor::File(open)) =
            thread.and_then(|it| it.descriptors.get(number as i32))
        {
            self.list_by_names(open.key);
        }
    }

    fn file(&mut self, tid: pid_t, number: u64) -> Result<FileId, Outside> {
        self.descriptor(tid, number as i32).map(|open| open.file)
    }

    /// Returns offset, length and number of buffers of a read or write.
    fn extent(&self, tid: pid_t, entry: &CallEntry) -> (Option<u64>, u64, u32) {
        let args = entry.args;
        let positioned = |offset: u64| (offset as i64 >= 0).then_some(offset);
        match entry.number {
            libc::SYS_read | libc::SYS_write => (None, args[2], 0),
            libc::SYS_pread64 | libc::SYS_pwrite64 => (positioned(args[3]), args[2], 0),
            number => {
                let offset = [libc::SYS_readv, libc::SYS_writev].contains(&number);
                let offset = if offset { None } else { positioned(args[3]) };
                if let Some(seen) = &self.seen {
                    return (offset, seen.more[0], seen.more[1] as u32);
                }
                // IOV_MAX of Linux.
                let buffers = args[2].min(1024);
                let list = memory(tid, args[1], 16 * buffers as usize);
                let lengths = list
                    .chunks_exact(16)
                    .map(|it| it[8..].try_into().map(u64::from_ne_bytes).unwrap_or(0));
                (offset, lengths.fold(0, u64::saturating_add), buffers as u32)
            }
        }
    }

    /// Classifies the data of every 16th write of at least 512 bytes. (The injected code lets those writes stop.)
    fn sample(&mut self, tid: pid_t, entry: &CallEntry, length: u64) -> Compressibility {
        self.writes += 1;
        let plain = [libc::SYS_write, libc::SYS_pwrite64].contains(&entry.number);
        let due = match self.source() {
            // The kernel recorded only due samples.
            Source::Kernel => true,
            Source::Inside => false,
            Source::Stop => {
                self.writes % 16 == 1 || self.threads.get(&tid).is_some_and(|it| it.injected)
            }
        };
        let sample = || self.memory(tid, entry.args[1], length.min(4096) as usize);
        if let Some(sample) =
            (length >= 512 && plain && due).then(sample).filter(|it| !it.is_empty())
        {
            Compressibility::of(&sample)
        } else {
            Compressibility::Unknown
        }
    }

    fn copy(&mut self, tid: pid_t, entry: &CallEntry) -> Result<Call, Outside> {
        let args = entry.args;
        // The kernel recorded the memory after the call, which had added the copied length to the offsets.
        let captured = self.seen.as_ref().filter(|it| it.captured.is_some());
        let copied = captured.map_or(0, |it| it.result.max(0) as u64);
        let before = |at: u64| self.words::<1>(tid, at).map(|[it]| it.saturating_sub(copied));
        let offset = |at: u64| if at == 0 { None } else { before(at) };
        let (copy, from, from_offset, to, to_offset, length) = match entry.number {
            libc::SYS_sendfile => {
                (CopyKind::Sendfile, args[1], offset(args[2]), args[0], None, args[3])
            }
            libc::SYS_copy_file_range => (
                CopyKind::CopyFileRange,
                args[0],
                offset(args[1]),
                args[2],
                offset(args[3]),
                args[4],
            ),
            libc::SYS_splice => {
                (CopyKind::Splice, args[0], offset(args[1]), args[2], offset(args[3]), args[4])
            }
            _ if args[1] as u32 == FICLONE => {
                (CopyKind::Clone, args[2], Some(0), args[0], Some(0), 0)
            }
            _ => {
                let [from, source, length, to] =
                    self.words::<4>(tid, args[2]).ok_or(Outside(Object::None, 0))?;
                (CopyKind::Clone, from, Some(source), args[0], Some(to), length)
            }
        };
        let from = self.file(tid, from);
        let to = self.file(tid, to);
        if let (Err(outside), Err(_)) = (&from, &to) {
            return Err(*outside);
        }
        Ok(Call::Copy { copy, from: from.ok(), from_offset, to: to.ok(), to_offset, length })
    }
}

/// Returns the decoded call, or the call on an object outside the recorded file systems.
fn to_call(kind: CallKind, it: Decoded) -> (Call, Option<Key>) {
    it.unwrap_or_else(|Outside(object, number)| {
        (Call::Outside { call: kind, object, number }, None)
    })
}
