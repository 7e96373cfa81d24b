//! From the number and the arguments of a system call, at its begin, to the call of a trace.

use fsdyno_trace::{
    Call, CallKind, Compressibility, CopyKind, Kind, Object, StatKind, SyncKind, Target,
};
use libc::pid_t;

use crate::process::Descriptor;
use crate::resolve::{MARK, Outside, Place};
use crate::run::Recorder;
use crate::sys::{Begun, memory, text, words};
use crate::table::{self, FCHMODAT2, FICLONE};
use crate::tree::{Key, key, kind};

/// A call between its begin and its return.
pub struct Pending {
    /// The call, with what is known at its begin.
    pub call: Call,
    /// The number and arguments.
    pub begun: Begun,
    /// Wall time of the begin, in nanoseconds since the start of the command.
    pub start: u64,
    /// CPU time of the thread since its event before.
    pub think: u64,
    /// The inode that is gone if it succeeds.
    pub gone: Option<Key>,
    /// The sequence number of the begin.
    pub before: u64,
    /// The descriptor that close removed from the table at its begin.
    pub closed: Option<Descriptor>,
}

/// A call and the inode that is gone if it succeeds.
type Decoded = Result<(Call, Option<Key>), Outside>;

const CWD: i32 = libc::AT_FDCWD;

impl Recorder {
    /// The call that begins. None for one that is not recorded.
    pub fn decode(&mut self, tid: pid_t, it: &Begun) -> Option<(Call, Option<Key>)> {
        let kind = table::kind(it.number)?;
        if let Some(mark) = self.mark(tid, it) {
            return Some((mark, None));
        }
        let decoded = match kind {
            CallKind::Wait => return Some((Call::Wait { child: Default::default() }, None)),
            CallKind::Close | CallKind::Dup | CallKind::Map | CallKind::Unmap | CallKind::Msync => {
                // The return knows them.
                return Some((Call::SyncAll {}, None));
            }
            CallKind::Open
            | CallKind::Exec
            | CallKind::Mkdir
            | CallKind::Rmdir
            | CallKind::Unlink
            | CallKind::Rename
            | CallKind::Link
            | CallKind::Symlink
            | CallKind::Mknod => self.name_call(tid, kind, it),
            _ => self.other_call(tid, kind, it),
        };
        Some(decoded.unwrap_or_else(|Outside(object, number)| {
            (Call::Outside { call: kind, object, number }, None)
        }))
    }

    /// The mark that a call on a path below [`MARK`] is.
    fn mark(&mut self, tid: pid_t, it: &Begun) -> Option<Call> {
        let address = match it.number {
            libc::SYS_access | libc::SYS_stat => it.args[0],
            libc::SYS_faccessat | libc::SYS_faccessat2 | libc::SYS_newfstatat | libc::SYS_statx => {
                it.args[1]
            }
            _ => return None,
        };
        if self.memory(tid, address, MARK.len()) != MARK {
            return None;
        }
        let name = fsdyno_trace::Name::new(text(tid, address)?.strip_prefix(MARK)?).ok()?;
        Some(Call::Mark { name })
    }

    fn name_call(&mut self, tid: pid_t, of: CallKind, it: &Begun) -> Decoded {
        let a = it.args;
        let fd = |at: usize| a[at] as i32;
        let gone = |place: &Place| {
            let last =
                |stat: &rustix::fs::Stat| stat.st_nlink == 1 || kind(stat) == Kind::Directory;
            place.stat.as_ref().filter(|stat| last(stat)).map(key)
        };
        Ok(match of {
            CallKind::Open => (self.open(tid, it)?, None),
            CallKind::Exec => {
                let at = match it.number {
                    libc::SYS_execve => self.place(tid, CWD, a[0], true)?,
                    _ => self.place(tid, fd(0), a[1], true)?,
                };
                let program = at.at.name.clone().ok_or(Outside(Object::None, 0))?;
                (Call::Exec { program, at: Some(at.at) }, None)
            }
            CallKind::Mkdir => {
                let (dir, path, mode) = if it.number == libc::SYS_mkdir {
                    (CWD, a[0], a[1])
                } else {
                    (fd(0), a[1], a[2])
                };
                let at = self.place(tid, dir, path, false)?.at;
                (Call::Mkdir { at, mode: mode as u32 & 0o7777, created: None }, None)
            }
            CallKind::Rmdir | CallKind::Unlink => {
                let (dir, path) =
                    if it.number == libc::SYS_unlinkat { (fd(0), a[1]) } else { (CWD, a[0]) };
                let place = self.place(tid, dir, path, false)?;
                let gone = gone(&place);
                let removes_dir = it.number == libc::SYS_rmdir
                    || it.number == libc::SYS_unlinkat && a[2] as i32 & libc::AT_REMOVEDIR != 0;
                let at = place.at;
                (if removes_dir { Call::Rmdir { at } } else { Call::Unlink { at } }, gone)
            }
            CallKind::Rename => {
                let (from, to, flags) = match it.number {
                    libc::SYS_rename => ((CWD, a[0]), (CWD, a[1]), 0),
                    libc::SYS_renameat => ((fd(0), a[1]), (fd(2), a[3]), 0),
                    _ => ((fd(0), a[1]), (fd(2), a[3]), a[4] as u32),
                };
                let old = self.place(tid, from.0, from.1, false)?;
                let new = self.place(tid, to.0, to.1, false)?;
                // Exchanged or identical files stay.
                let stays = flags & libc::RENAME_EXCHANGE != 0 || old.at.node == new.at.node;
                let gone = gone(&new).filter(|_| !stays);
                (Call::Rename { from: old.at, to: new.at, flags }, gone)
            }
            CallKind::Link => {
                let (from, to, flags) = match it.number {
                    libc::SYS_link => ((CWD, a[0]), (CWD, a[1]), 0),
                    _ => ((fd(0), a[1]), (fd(2), a[3]), a[4] as i32),
                };
                let follow = flags & libc::AT_SYMLINK_FOLLOW != 0;
                let from = self.at_or_file(tid, from.0, from.1, flags, follow)?;
                (Call::Link { from, to: self.place(tid, to.0, to.1, false)?.at }, None)
            }
            CallKind::Symlink => {
                let (dir, path) =
                    if it.number == libc::SYS_symlink { (CWD, a[1]) } else { (fd(1), a[2]) };
                let length = match &self.seen {
                    Some(seen) => seen.more[0] as u32,
                    None => text(tid, a[0]).map_or(0, |it| it.len() as u32),
                };
                let at = self.place(tid, dir, path, false)?.at;
                (Call::Symlink { at, length, created: None }, None)
            }
            _ => {
                let (dir, path, mode) = if it.number == libc::SYS_mknod {
                    (CWD, a[0], a[1])
                } else {
                    (fd(0), a[1], a[2])
                };
                let at = self.place(tid, dir, path, false)?.at;
                let file = matches!(mode as u32 & libc::S_IFMT, 0 | libc::S_IFREG);
                let node = if file { Kind::File } else { Kind::Special };
                (Call::Mknod { at, node, mode: mode as u32 & 0o7777, created: None }, None)
            }
        })
    }

    fn open(&mut self, tid: pid_t, it: &Begun) -> Result<Call, Outside> {
        let a = it.args;
        let creat = (libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC) as u64;
        let (dir, path, flags, mode) = match it.number {
            libc::SYS_open => (CWD, a[0], a[1], a[2]),
            libc::SYS_creat => (CWD, a[0], creat, a[1]),
            libc::SYS_openat => (a[0] as i32, a[1], a[2], a[3]),
            _ => {
                let [flags, mode] = words::<2>(tid, a[2]).ok_or(Outside(Object::None, 0))?;
                (a[0] as i32, a[1], flags, mode)
            }
        };
        let flags = flags as u32;
        let makes =
            flags & (libc::O_CREAT | libc::O_TMPFILE) as u32 & !(libc::O_DIRECTORY as u32) != 0;
        let exclusive = (libc::O_CREAT | libc::O_EXCL) as u32;
        let follow = flags & libc::O_NOFOLLOW as u32 == 0 && flags & exclusive != exclusive;
        let at = self.place(tid, dir, path, follow)?.at;
        let mode = if makes { mode as u32 & 0o7777 } else { 0 };
        Ok(Call::Open { at, flags, mode, created: None, file: None })
    }

    /// A path, or the descriptor itself with AT_EMPTY_PATH and an empty one.
    pub fn at_or_file(
        &mut self,
        tid: pid_t,
        dir: i32,
        path: u64,
        flags: i32,
        follow: bool,
    ) -> Result<Target, Outside> {
        let empty = || match &self.seen {
            Some(seen) => seen.empty || path == 0,
            None => path == 0 || memory(tid, path, 1) == [0],
        };
        if flags & libc::AT_EMPTY_PATH != 0 && dir != CWD && empty() {
            return self.target(tid, dir as u64);
        }
        Ok(Target::At(self.place(tid, dir, path, follow)?.at))
    }

    fn other_call(&mut self, tid: pid_t, of: CallKind, it: &Begun) -> Decoded {
        let a = it.args;
        let path = |it: &mut Self, at: u64, follow: bool| -> Result<Target, Outside> {
            Ok(Target::At(it.place(tid, CWD, at, follow)?.at))
        };
        let nofollow = |flags: u64| flags as i32 & libc::AT_SYMLINK_NOFOLLOW == 0;
        Ok((
            match of {
                CallKind::Read => {
                    let (offset, length, buffers) = self.extent(tid, it);
                    Call::Read { file: self.file(tid, a[0])?, offset, length, buffers }
                }
                CallKind::Write => {
                    let file = self.file(tid, a[0])?;
                    let (offset, length, buffers) = self.extent(tid, it);
                    Call::Write {
                        file,
                        offset,
                        length,
                        buffers,
                        class: self.sample(tid, it, length),
                    }
                }
                CallKind::Seek => Call::Seek {
                    file: self.file(tid, a[0])?,
                    offset: a[1] as i64,
                    whence: a[2] as u32,
                },
                CallKind::Copy => self.copy(tid, it)?,
                CallKind::Truncate => {
                    let target = match it.number {
                        libc::SYS_truncate => path(self, a[0], true)?,
                        _ => self.target(tid, a[0])?,
                    };
                    Call::Truncate { target, length: a[1] }
                }
                CallKind::Fallocate => Call::Fallocate {
                    file: self.file(tid, a[0])?,
                    mode: a[1] as u32,
                    offset: a[2],
                    length: a[3],
                },
                CallKind::Sync => {
                    let sync = match it.number {
                        libc::SYS_fsync => SyncKind::Fsync,
                        libc::SYS_fdatasync => SyncKind::Fdatasync,
                        libc::SYS_syncfs => SyncKind::Syncfs,
                        _ => SyncKind::Range,
                    };
                    let (offset, length) =
                        if sync == SyncKind::Range { (a[1], a[2]) } else { (0, 0) };
                    Call::Sync { sync, file: self.file(tid, a[0])?, offset, length }
                }
                CallKind::SyncAll => Call::SyncAll {},
                CallKind::Stat => self.stat(tid, it)?,
                CallKind::Access => {
                    let (dir, path, mode) = if it.number == libc::SYS_access {
                        (CWD, a[0], a[1])
                    } else {
                        (a[0] as i32, a[1], a[2])
                    };
                    Call::Access { at: self.place(tid, dir, path, true)?.at, mode: mode as u32 }
                }
                CallKind::Readlink => {
                    let (dir, path, length) = if it.number == libc::SYS_readlink {
                        (CWD, a[0], a[2])
                    } else {
                        (a[0] as i32, a[1], a[3])
                    };
                    Call::Readlink { at: self.place(tid, dir, path, false)?.at, length }
                }
                CallKind::Readdir => {
                    let open = self.descriptor(tid, a[0] as i32)?;
                    if self.seen.is_none() {
                        self.list_open(tid, a[0]);
                    }
                    Call::Readdir { file: open.file, length: a[2] }
                }
                CallKind::Chmod => {
                    let (target, mode) = match it.number {
                        libc::SYS_chmod => (path(self, a[0], true)?, a[1]),
                        libc::SYS_fchmod => (self.target(tid, a[0])?, a[1]),
                        FCHMODAT2 => (
                            self.at_or_file(tid, a[0] as i32, a[1], a[3] as i32, nofollow(a[3]))?,
                            a[2],
                        ),
                        _ => (self.at_or_file(tid, a[0] as i32, a[1], 0, true)?, a[2]),
                    };
                    Call::Chmod { target, mode: mode as u32 & 0o7777 }
                }
                CallKind::Chown => Call::Chown {
                    target: match it.number {
                        libc::SYS_fchown => self.target(tid, a[0])?,
                        libc::SYS_fchownat => {
                            self.at_or_file(tid, a[0] as i32, a[1], a[4] as i32, nofollow(a[4]))?
                        }
                        number => path(self, a[0], number == libc::SYS_chown)?,
                    },
                },
                CallKind::Utimes => self.utimes(tid, it)?,
                CallKind::Setxattr
                | CallKind::Getxattr
                | CallKind::Listxattr
                | CallKind::Removexattr => self.xattr(tid, of, it)?,
                CallKind::Lock => self.lock(tid, it)?,
                CallKind::Chdir => Call::Chdir {
                    target: if it.number == libc::SYS_chdir {
                        path(self, a[0], true)?
                    } else {
                        self.target(tid, a[0])?
                    },
                },
                CallKind::Statfs => Call::Statfs {
                    target: if it.number == libc::SYS_statfs {
                        path(self, a[0], true)?
                    } else {
                        self.target(tid, a[0])?
                    },
                },
                _ => {
                    let advice = if it.number == libc::SYS_readahead {
                        libc::POSIX_FADV_WILLNEED as u32
                    } else {
                        a[3] as u32
                    };
                    Call::Advise { file: self.file(tid, a[0])?, advice, offset: a[1], length: a[2] }
                }
            },
            None,
        ))
    }

    /// Lists a directory that a thread is about to read.
    fn list_open(&mut self, tid: pid_t, number: u64) {
        if let Ok(dir) = crate::tree::directory(format!("/proc/{tid}/fd/{number}").as_ref()) {
            if let Ok(stat) = rustix::fs::fstat(&dir) {
                self.tree.list(&dir, key(&stat));
            }
        }
    }

    fn file(&mut self, tid: pid_t, number: u64) -> Result<fsdyno_trace::FileId, Outside> {
        self.descriptor(tid, number as i32).map(|open| open.file)
    }

    /// Offset, length and number of buffers of a read or write.
    fn extent(&self, tid: pid_t, it: &Begun) -> (Option<u64>, u64, u32) {
        let a = it.args;
        let positioned = |offset: u64| (offset as i64 >= 0).then_some(offset);
        match it.number {
            libc::SYS_read | libc::SYS_write => (None, a[2], 0),
            libc::SYS_pread64 | libc::SYS_pwrite64 => (positioned(a[3]), a[2], 0),
            number => {
                let offset = [libc::SYS_readv, libc::SYS_writev].contains(&number);
                let offset = if offset { None } else { positioned(a[3]) };
                if let Some(seen) = &self.seen {
                    return (offset, seen.more[0], seen.more[1] as u32);
                }
                // IOV_MAX of Linux.
                let buffers = a[2].min(1024);
                let list = memory(tid, a[1], 16 * buffers as usize);
                let lengths = list
                    .chunks_exact(16)
                    .map(|it| it[8..].try_into().map(u64::from_ne_bytes).unwrap_or(0));
                (offset, lengths.fold(0, u64::saturating_add), buffers as u32)
            }
        }
    }

    /// The class of the bytes of every 16th write of at least 512 bytes. (The code inside stops at those.)
    fn sample(&mut self, tid: pid_t, it: &Begun, length: u64) -> Compressibility {
        self.writes += 1;
        let plain = [libc::SYS_write, libc::SYS_pwrite64].contains(&it.number);
        let inside = self.threads.get(&tid).is_some_and(|it| it.inside);
        let due = (inside || self.writes % 16 == 1) && self.seen.is_none();
        if length >= 512 && plain && due {
            Compressibility::of(&memory(tid, it.args[1], length.min(4096) as usize))
        } else {
            Compressibility::Unknown
        }
    }

    fn copy(&mut self, tid: pid_t, it: &Begun) -> Result<Call, Outside> {
        let a = it.args;
        let offset = |at: u64| if at == 0 { None } else { words::<1>(tid, at).map(|[it]| it) };
        let (copy, from, from_offset, to, to_offset, length) = match it.number {
            libc::SYS_sendfile => (CopyKind::Sendfile, a[1], offset(a[2]), a[0], None, a[3]),
            libc::SYS_copy_file_range => {
                (CopyKind::CopyFileRange, a[0], offset(a[1]), a[2], offset(a[3]), a[4])
            }
            libc::SYS_splice => (CopyKind::Splice, a[0], offset(a[1]), a[2], offset(a[3]), a[4]),
            _ if a[1] as u32 == FICLONE => (CopyKind::Clone, a[2], Some(0), a[0], Some(0), 0),
            _ => {
                let [from, source, length, to] =
                    words::<4>(tid, a[2]).ok_or(Outside(Object::None, 0))?;
                (CopyKind::Clone, from, Some(source), a[0], Some(to), length)
            }
        };
        let from = self.file(tid, from);
        let to = self.file(tid, to);
        if let (Err(outside), Err(_)) = (&from, &to) {
            return Err(*outside);
        }
        Ok(Call::Copy { copy, from: from.ok(), from_offset, to: to.ok(), to_offset, length })
    }

    fn stat(&mut self, tid: pid_t, it: &Begun) -> Result<Call, Outside> {
        let a = it.args;
        let (target, stat) = match it.number {
            libc::SYS_stat => (Target::At(self.place(tid, CWD, a[0], true)?.at), StatKind::Stat),
            libc::SYS_lstat => (Target::At(self.place(tid, CWD, a[0], false)?.at), StatKind::Lstat),
            libc::SYS_fstat => (self.target(tid, a[0])?, StatKind::Stat),
            number => {
                let flags = if number == libc::SYS_statx { a[2] } else { a[3] } as i32;
                let follow = flags & libc::AT_SYMLINK_NOFOLLOW == 0;
                let stat = match (number == libc::SYS_statx, follow) {
                    (false, true) => StatKind::Stat,
                    (false, false) => StatKind::Lstat,
                    (true, true) => StatKind::Statx,
                    (true, false) => StatKind::Lstatx,
                };
                (self.at_or_file(tid, a[0] as i32, a[1], flags, follow)?, stat)
            }
        };
        Ok(Call::Stat { target, stat })
    }
}
