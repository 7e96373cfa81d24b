//! The calls on times, extended attributes, locks and flags, from their arguments to a call of a trace.

use fsdyno_trace::{Call, CallKind, LockOp, Object, Target, UtimeChange, XattrName};
use libc::pid_t;

use crate::resolve::Outside;
use crate::run::Recorder;
use crate::sys::{Begun, text};

const CWD: i32 = libc::AT_FDCWD;

impl Recorder {
    /// utimensat and its older forms.
    pub fn utimes(&mut self, tid: pid_t, it: &Begun) -> Result<Call, Outside> {
        let a = it.args;
        let (mut accessed, mut modified) = (UtimeChange::Set, UtimeChange::Set);
        let target = match it.number {
            libc::SYS_utime | libc::SYS_utimes => {
                if a[1] == 0 {
                    (accessed, modified) = (UtimeChange::Now, UtimeChange::Now);
                }
                Target::At(self.place(tid, CWD, a[0], true)?.at)
            }
            _ => {
                let change = |nanoseconds: u64| match nanoseconds as i64 {
                    libc::UTIME_NOW => UtimeChange::Now,
                    libc::UTIME_OMIT => UtimeChange::Omit,
                    _ => UtimeChange::Set,
                };
                match self.words::<4>(tid, a[2]) {
                    Some([_, first, _, second]) if a[2] != 0 => {
                        (accessed, modified) = (change(first), change(second));
                    }
                    _ => (accessed, modified) = (UtimeChange::Now, UtimeChange::Now),
                }
                let flags = if it.number == libc::SYS_utimensat { a[3] as i32 } else { 0 };
                match a[1] {
                    0 => self.target(tid, a[0])?,
                    path => {
                        let follow = flags & libc::AT_SYMLINK_NOFOLLOW == 0;
                        self.at_or_file(tid, a[0] as i32, path, flags, follow)?
                    }
                }
            }
        };
        Ok(Call::Utimes { target, accessed, modified })
    }

    /// The calls on extended attributes.
    pub fn xattr(&mut self, tid: pid_t, of: CallKind, it: &Begun) -> Result<Call, Outside> {
        let a = it.args;
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
        let target = if open.contains(&it.number) {
            self.target(tid, a[0])?
        } else {
            Target::At(self.place(tid, CWD, a[0], !link.contains(&it.number))?.at)
        };
        if of == CallKind::Listxattr {
            return Ok(Call::Listxattr { target, size: a[2] as u32 });
        }
        let name = text(tid, a[1]).filter(|it| (1..=255).contains(&it.len()));
        let name: XattrName = name.ok_or(Outside(Object::None, 0))?.into();
        Ok(match of {
            CallKind::Setxattr => {
                Call::Setxattr { target, name, size: a[3] as u32, flags: a[4] as u32 }
            }
            CallKind::Getxattr => Call::Getxattr { target, name, size: a[3] as u32 },
            _ => Call::Removexattr { target, name },
        })
    }

    /// flock and the commands of fcntl.
    pub fn lock(&mut self, tid: pid_t, it: &Begun) -> Result<Call, Outside> {
        let a = it.args;
        let open = self.descriptor(tid, a[0] as i32)?;
        let file = open.file;
        if it.number == libc::SYS_flock {
            let lock = match a[1] as i32 & !libc::LOCK_NB {
                libc::LOCK_SH => LockOp::Shared,
                libc::LOCK_EX => LockOp::Exclusive,
                _ => LockOp::Unlock,
            };
            let waits = a[1] as i32 & libc::LOCK_NB == 0;
            return Ok(Call::Lock { file, lock, whole: true, waits, offset: 0, length: 0 });
        }
        let command = a[1] as i32;
        match command {
            libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => Ok(Call::Dup { file }),
            libc::F_SETFL => Ok(Call::SetFlags { file, flags: a[2] as u32 }),
            _ => {
                // struct flock: two shorts, padding, start, length, process.
                let [kinds, offset, length] =
                    self.words::<3>(tid, a[2]).ok_or(Outside(Object::None, 0))?;
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
