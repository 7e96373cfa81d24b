//! Decodes the arguments of calls on attributes, access, times, extended attributes, locks and flags.

use fsdyno_trace::{Call, CallKind, LockOp, Object, StatKind, UtimeChange, XattrName};
use libc::pid_t;

use crate::decode::CWD;
use crate::recorder::Recorder;
use crate::resolve::Outside;
use crate::sys::CallEntry;
use crate::table::FCHMODAT2;

/// True if a call with these flags follows a symbolic link.
fn follows(flags: u64) -> bool {
    flags as i32 & libc::AT_SYMLINK_NOFOLLOW == 0
}

impl Recorder {
    /// Decodes stat(2) and its variants.
    pub fn stat(&mut self, tid: pid_t, entry: &CallEntry) -> Result<Call, Outside> {
        let args = entry.args;
        let (target, stat) = match entry.number {
            libc::SYS_stat => (self.at_path(tid, args[0], true)?, StatKind::Stat),
            libc::SYS_lstat => (self.at_path(tid, args[0], false)?, StatKind::Lstat),
            libc::SYS_fstat => (self.target(tid, args[0])?, StatKind::Stat),
            number => {
                let flags = if number == libc::SYS_statx { args[2] } else { args[3] } as i32;
                let follow = flags & libc::AT_SYMLINK_NOFOLLOW == 0;
                let stat = match (number == libc::SYS_statx, follow) {
                    (false, true) => StatKind::Stat,
                    (false, false) => StatKind::Lstat,
                    (true, true) => StatKind::Statx,
                    (true, false) => StatKind::Lstatx,
                };
                (self.at_or_file(tid, args[0] as i32, args[1], flags, follow)?, stat)
            }
        };
        Ok(Call::Stat { target, stat })
    }

    /// Decodes access(2), faccessat(2), faccessat2(2).
    pub fn access(&mut self, tid: pid_t, entry: &CallEntry) -> Result<Call, Outside> {
        let args = entry.args;
        let (dir, path, mode) = if entry.number == libc::SYS_access {
            (CWD, args[0], args[1])
        } else {
            (args[0] as i32, args[1], args[2])
        };
        Ok(Call::Access { at: self.place(tid, dir, path, true)?.at, mode: mode as u32 })
    }

    /// Decodes readlink(2), readlinkat(2).
    pub fn readlink(&mut self, tid: pid_t, entry: &CallEntry) -> Result<Call, Outside> {
        let args = entry.args;
        let (dir, path, length) = if entry.number == libc::SYS_readlink {
            (CWD, args[0], args[2])
        } else {
            (args[0] as i32, args[1], args[3])
        };
        Ok(Call::Readlink { at: self.place(tid, dir, path, false)?.at, length })
    }

    /// Decodes chmod(2), fchmod(2), fchmodat(2), fchmodat2(2).
    pub fn chmod(&mut self, tid: pid_t, entry: &CallEntry) -> Result<Call, Outside> {
        let args = entry.args;
        let (target, mode) = match entry.number {
            libc::SYS_chmod => (self.at_path(tid, args[0], true)?, args[1]),
            libc::SYS_fchmod => (self.target(tid, args[0])?, args[1]),
            FCHMODAT2 => (
                self.at_or_file(tid, args[0] as i32, args[1], args[3] as i32, follows(args[3]))?,
                args[2],
            ),
            _ => (self.at_or_file(tid, args[0] as i32, args[1], 0, true)?, args[2]),
        };
        Ok(Call::Chmod { target, mode: mode as u32 & 0o7777 })
    }

    /// Decodes chown(2), lchown(2), fchown(2), fchownat(2).
    pub fn chown(&mut self, tid: pid_t, entry: &CallEntry) -> Result<Call, Outside> {
        let args = entry.args;
        let target = match entry.number {
            libc::SYS_fchown => self.target(tid, args[0])?,
            libc::SYS_fchownat => {
                self.at_or_file(tid, args[0] as i32, args[1], args[4] as i32, follows(args[4]))?
            }
            number => self.at_path(tid, args[0], number == libc::SYS_chown)?,
        };
        Ok(Call::Chown { target })
    }

    /// Decodes utimensat(2) and its older variants.
    pub fn utimes(&mut self, tid: pid_t, entry: &CallEntry) -> Result<Call, Outside> {
        let args = entry.args;
        let (mut accessed, mut modified) = (UtimeChange::Set, UtimeChange::Set);
        let target = match entry.number {
            libc::SYS_utime | libc::SYS_utimes => {
                if args[1] == 0 {
                    (accessed, modified) = (UtimeChange::Now, UtimeChange::Now);
                }
                self.at_path(tid, args[0], true)?
            }
            _ => {
                let change = |nanoseconds: u64| match nanoseconds as i64 {
                    libc::UTIME_NOW => UtimeChange::Now,
                    libc::UTIME_OMIT => UtimeChange::Omit,
                    _ => UtimeChange::Set,
                };
                match self.words::<4>(tid, args[2]) {
                    Some([_, first, _, second]) if args[2] != 0 => {
                        (accessed, modified) = (change(first), change(second));
                    }
                    _ => (accessed, modified) = (UtimeChange::Now, UtimeChange::Now),
                }
                let flags = if entry.number == libc::SYS_utimensat { args[3] as i32 } else { 0 };
                match args[1] {
                    0 => self.target(tid, args[0])?,
                    path => {
                        let follow = flags & libc::AT_SYMLINK_NOFOLLOW == 0;
                        self.at_or_file(tid, args[0] as i32, path, flags, follow)?
                    }
                }
            }
        };
        Ok(Call::Utimes { target, accessed, modified })
    }

    /// Decodes the calls on extended attributes.
    pub fn xattr(
        &mut self,
        tid: pid_t,
        kind: CallKind,
        entry: &CallEntry,
    ) -> Result<Call, Outside> {
        let args = entry.args;
        let open = [
            libc::SYS_fsetxattr,
            libc::SYS_fgetxattr,
            libc::SYS_flistxattr,
            libc::SYS_fremovexattr,
        ];
        let link = [
            libc::SYS_lsetxattr,
            libc::SYS_lgetxattr,
            libc::SYS_llistxattr,
            libc::SYS_lremovexattr,
        ];
        let target = if open.contains(&entry.number) {
            self.target(tid, args[0])?
        } else {
            self.at_path(tid, args[0], !link.contains(&entry.number))?
        };
        if kind == CallKind::Listxattr {
            return Ok(Call::Listxattr { target, size: args[2] as u32 });
        }
        let name = self.text(tid, args[1]).filter(|it| (1..=255).contains(&it.len()));
        let name: XattrName = name.ok_or(Outside(Object::None, 0))?.into();
        Ok(match kind {
            CallKind::Setxattr => {
                Call::Setxattr { target, name, size: args[3] as u32, flags: args[4] as u32 }
            }
            CallKind::Getxattr => Call::Getxattr { target, name, size: args[3] as u32 },
            _ => Call::Removexattr { target, name },
        })
    }

    /// Decodes flock(2) and the recorded commands of fcntl(2).
    pub fn lock(&mut self, tid: pid_t, entry: &CallEntry) -> Result<Call, Outside> {
        let args = entry.args;
        let open = self.descriptor(tid, args[0] as i32)?;
        let file = open.file;
        if entry.number == libc::SYS_flock {
            let lock = match args[1] as i32 & !libc::LOCK_NB {
                libc::LOCK_SH => LockOp::Shared,
                libc::LOCK_EX => LockOp::Exclusive,
                _ => LockOp::Unlock,
            };
            let waits = args[1] as i32 & libc::LOCK_NB == 0;
            return Ok(Call::Lock { file, lock, whole: true, waits, offset: 0, length: 0 });
        }
        let command = args[1] as i32;
        match command {
            libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => Ok(Call::Dup { file }),
            libc::F_SETFL => Ok(Call::SetFlags { file, flags: args[2] as u32 }),
            _ => {
                // struct flock: two shorts, padding, start, length, process.
                let [kinds, offset, length] =
                    self.words::<3>(tid, args[2]).ok_or(Outside(Object::None, 0))?;
                let lock = match (command, kinds as u16 as i32) {
                    (libc::F_GETLK | libc::F_OFD_GETLK, _) => LockOp::Query,
                    (_, libc::F_RDLCK) => LockOp::Shared,
                    (_, libc::F_WRLCK) => LockOp::Exclusive,
                    _ => LockOp::Unlock,
                };
                let waits = [libc::F_SETLKW, libc::F_OFD_SETLKW].contains(&command);
                Ok(Call::Lock { file, lock, whole: false, waits, offset, length })
            }
        }
    }
}
