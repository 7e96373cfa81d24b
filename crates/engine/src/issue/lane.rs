//! One rank of a ring: its op as an entry of io_uring(7), and what the answer means.

use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use fsdyno_record::Nanos;
use fsdyno_workload::contents::LONGEST_SLICE;
use fsdyno_workload::{Call, Contents, DirSlot, Op, Payload};
use io_uring::types::{Fd, Timespec};
use io_uring::{IoUring, Probe, opcode, squeue};

use crate::board::Halt;
use crate::clock::LONGEST_SLEEP;
use crate::issue::Issuer;
use crate::issue::sync::{Sync, text};
use crate::run::{Failure, Meter};

/// The offset that means the file's own, as write(2) uses it.
const OWN_OFFSET: u64 = u64::MAX;

/// Which of the younger opcodes the kernel has.
#[derive(Clone, Copy, Debug, Default)]
pub struct Able {
    rename_unlink: bool,
    mkdir_link: bool,
    set_xattr: bool,
    truncate: bool,
}

impl Able {
    /// What the kernel behind a ring can do.
    ///
    /// # Errors
    /// It lacks what came with Linux 5.6, without which too little would go through the ring.
    pub fn of(ring: &IoUring) -> io::Result<Able> {
        let mut probe = Probe::new();
        let probed = ring.submitter().register_probe(&mut probe);
        if probed.is_err() || !probe.is_supported(opcode::OpenAt::CODE) {
            let text =
                "this kernel's io_uring is too old (Linux 5.6 it must be); use --issuer sync";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        let has = |codes: &[u8]| codes.iter().all(|code| probe.is_supported(*code));
        Ok(Able {
            rename_unlink: has(&[opcode::RenameAt::CODE, opcode::UnlinkAt::CODE]),
            mkdir_link: has(&[
                opcode::MkDirAt::CODE,
                opcode::SymlinkAt::CODE,
                opcode::LinkAt::CODE,
            ]),
            set_xattr: has(&[opcode::FSetXattr::CODE]),
            truncate: has(&[opcode::Ftruncate::CODE]),
        })
    }
}

/// What a lane does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Ask the source for an op.
    Generate,
    /// Wait for another rank, if the op has to.
    Wait,
    /// Think.
    Think,
    /// Wake up from thinking.
    Slept,
    /// Make the call.
    Call,
}

/// One rank.
pub struct Lane {
    /// Holds what the rank has open, and makes the calls that have no opcode.
    pub own: Sync,
    /// The op that it is at.
    pub op: Op,
    /// What comes next.
    pub step: Step,
    /// When the op was submitted.
    pub since: Nanos,
    /// How much of a write has been taken.
    pub taken: u32,
    status: Box<libc::statx>,
    pause: Timespec,
    /// When a sleep ends that is cut into several; zero for all others.
    wake: Nanos,
}

impl Lane {
    /// A rank with nothing open but the trial's root.
    pub fn new(root: OwnedFd, contents: &Arc<Contents>) -> Lane {
        Lane {
            own: Sync::new(root, Arc::clone(contents)),
            op: Op::default(),
            step: Step::Generate,
            since: Nanos(0),
            taken: 0,
            // SAFETY: statx is plain numbers, for which all zeroes are valid.
            status: Box::new(unsafe { std::mem::zeroed() }),
            pause: Timespec::new(),
            wake: Nanos(0),
        }
    }

    /// How long it is to sleep from `now` on before its op, which is due so far ahead.
    pub fn pause(&mut self, now: Nanos, ahead: Nanos) -> Nanos {
        match std::mem::take(&mut self.wake) {
            Nanos(0) => self.op.think.max(ahead),
            wake => wake.since(now),
        }
    }

    /// Begins to sleep, at most as long as a thread does before it looks whether all are to stop; for
    /// how long, as the kernel wants it.
    pub fn sleep(&mut self, now: Nanos, pause: Nanos) -> *const Timespec {
        self.step = Step::Slept;
        if pause > LONGEST_SLEEP {
            self.wake = now + pause;
        }
        self.pause = Duration::from_nanos(pause.min(LONGEST_SLEEP).0).into();
        &raw const self.pause
    }

    /// A sleep has ended; whether it was the last before the call.
    pub fn wakes(&mut self, now: Nanos) -> bool {
        let last = self.wake <= now;
        self.step = if last { Step::Call } else { Step::Think };
        if last {
            self.wake = Nanos(0);
        }
        last
    }

    /// The call as an entry; none where the kernel has no opcode for it.
    pub fn entry(&mut self, able: Able, contents: &Contents) -> Option<squeue::Entry> {
        let name = text(&self.op.name);
        Some(match self.op.call {
            Call::Create { dir, flags, mode, .. } => {
                let flags = self.own.flags(flags) | libc::O_CREAT | libc::O_CLOEXEC;
                opcode::OpenAt::new(Fd(self.own.dir(dir)), name).flags(flags).mode(mode).build()
            }
            Call::Open { dir, flags, .. } => {
                let flags = self.own.flags(flags) | libc::O_CLOEXEC;
                opcode::OpenAt::new(Fd(self.own.dir(dir)), name).flags(flags).build()
            }
            Call::OpenDir { dir, .. } => {
                let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
                opcode::OpenAt::new(Fd(self.own.dir(dir)), name).flags(flags).build()
            }
            Call::Close { file } => opcode::Close::new(Fd(self.own.file(file))).build(),
            Call::CloseDir { slot } if slot != DirSlot::ROOT => {
                opcode::Close::new(Fd(self.own.dir(slot))).build()
            }
            Call::Stat { dir } => self.stat(self.own.dir(dir), name, libc::AT_SYMLINK_NOFOLLOW),
            Call::StatFile { file } => {
                self.stat(self.own.file(file), c"".as_ptr(), libc::AT_EMPTY_PATH)
            }
            Call::Fsync { file } => opcode::Fsync::new(Fd(self.own.file(file))).build(),
            Call::FsyncDir { dir } => opcode::Fsync::new(Fd(self.own.dir(dir))).build(),
            Call::Fallocate { file, length } => {
                opcode::Fallocate::new(Fd(self.own.file(file)), length).build()
            }
            Call::Write { .. } | Call::Append { .. } | Call::WriteAt { .. } => {
                self.write(contents)?
            }
            Call::Read { .. } | Call::ReadAt { .. } => self.read()?,
            _ => return self.younger(able, contents),
        })
    }

    /// Opcodes that came after Linux 5.6.
    fn younger(&self, able: Able, contents: &Contents) -> Option<squeue::Entry> {
        let (name, other) = (text(&self.op.name), text(&self.op.other));
        let dir = |slot| Fd(self.own.dir(slot));
        Some(match self.op.call {
            Call::Rename { dir: from, to } if able.rename_unlink => {
                opcode::RenameAt::new(dir(from), name, dir(to), other).build()
            }
            Call::Unlink { dir: from } if able.rename_unlink => {
                opcode::UnlinkAt::new(dir(from), name).build()
            }
            Call::Rmdir { dir: from } if able.rename_unlink => {
                opcode::UnlinkAt::new(dir(from), name).flags(libc::AT_REMOVEDIR).build()
            }
            Call::Mkdir { dir: at, mode } if able.mkdir_link => {
                opcode::MkDirAt::new(dir(at), name).mode(mode).build()
            }
            Call::Link { dir: from, to } if able.mkdir_link => {
                opcode::LinkAt::new(dir(from), name, dir(to), other).build()
            }
            Call::Symlink { dir: at } if able.mkdir_link => {
                opcode::SymlinkAt::new(dir(at), other, name).build()
            }
            Call::Truncate { file, length } if able.truncate => {
                opcode::Ftruncate::new(Fd(self.own.file(file)), length).build()
            }
            Call::Setxattr { file, length } if able.set_xattr => {
                const NAME: &CStr = c"user.fsdyno";
                let value = contents.slice(Payload { id: 0, offset: 0, length });
                let (at, length) = (value.as_ptr().cast(), value.len() as u32);
                let file = Fd(self.own.file(file));
                opcode::FSetXattr::new(file, NAME.as_ptr(), at, length).build()
            }
            _ => return None,
        })
    }

    fn stat(&mut self, dir: i32, name: *const libc::c_char, flags: i32) -> squeue::Entry {
        let status: *mut libc::statx = &raw mut *self.status;
        opcode::Statx::new(Fd(dir), name, status.cast())
            .flags(flags)
            .mask(libc::STATX_BASIC_STATS)
            .build()
    }

    /// What is left of a write.
    fn write(&self, contents: &Contents) -> Option<squeue::Entry> {
        let (file, payload, offset) = match self.op.call {
            Call::Write { file, payload } | Call::Append { file, payload } => {
                (file, payload, OWN_OFFSET)
            }
            Call::WriteAt { file, offset, payload } => {
                (file, payload, offset + u64::from(self.taken))
            }
            _ => return None,
        };
        let bytes = contents.slice(Contents::rest(payload, self.taken));
        let (file, at, length) = (Fd(self.own.file(file)), bytes.as_ptr(), bytes.len() as u32);
        Some(opcode::Write::new(file, at, length).offset(offset).build())
    }

    fn read(&mut self) -> Option<squeue::Entry> {
        let (file, length, offset) = match self.op.call {
            Call::Read { file, length } => (file, length, OWN_OFFSET),
            Call::ReadAt { file, offset, length } => (file, length, offset),
            _ => return None,
        };
        let length = length.min(LONGEST_SLICE as u32);
        let (file, at) = (Fd(self.own.file(file)), self.own.room(length as usize).as_mut_ptr());
        Some(opcode::Read::new(file, at, length).offset(offset).build())
    }

    /// Takes the answer to a part of a write; whether there is more to write.
    pub fn goes_on(&mut self, answer: i32) -> bool {
        match self.op.call {
            Call::Write { payload, .. }
            | Call::Append { payload, .. }
            | Call::WriteAt { payload, .. }
                if answer > 0 =>
            {
                self.taken += answer as u32;
                self.taken < payload.length
            }
            _ => false,
        }
    }

    /// The op is done: keeps what it opened, and has its answer judged and counted.
    ///
    /// # Errors
    /// The answer is not what the workload says; that another thread has failed.
    pub fn completed(
        &mut self,
        answer: i32,
        rank: u32,
        now: Nanos,
        meter: &mut Meter<'_>,
    ) -> Result<(), Failure> {
        let answer = self.meaning(answer);
        self.step = Step::Generate;
        let Some(kind) = self.op.call.kind() else { return Ok(()) };
        let judged = meter.judge(answer, kind, &self.op);
        judged.map_err(|cause| meter.failure(&self.op, self.own.path_of(&self.op), cause))?;
        if meter.completed(rank, kind, self.since, now) {
            return Ok(());
        }
        Err(meter.failure(&self.op, self.own.path_of(&self.op), Halt::Stopped))
    }

    /// Takes an answer that nobody judges any more: what it opened is kept, to be closed in the end.
    pub fn settle(&mut self, answer: i32) {
        if self.step == Step::Call {
            self.meaning(answer);
        }
    }

    /// The answer as [`Issuer::issue`] gives it. What was opened is kept in its slot; a slot that was
    /// closed is given up only here, so that what is never handed in stays its own.
    fn meaning(&mut self, answer: i32) -> i64 {
        match self.op.call {
            Call::Create { file, .. } | Call::Open { file, .. } if answer >= 0 => {
                self.own.keep_file(file, answer);
                0
            }
            Call::OpenDir { dir, slot } if answer >= 0 => {
                self.own.keep_dir(dir, &self.op.name, slot, answer);
                0
            }
            Call::Write { payload, .. }
            | Call::Append { payload, .. }
            | Call::WriteAt { payload, .. }
                if answer >= 0 =>
            {
                match self.taken == payload.length {
                    true => i64::from(self.taken),
                    false => -i64::from(libc::ENOSPC),
                }
            }
            Call::Close { file } => {
                self.own.give_up_file(file);
                i64::from(answer)
            }
            Call::CloseDir { slot } if slot != DirSlot::ROOT => {
                self.own.give_up_dir(slot);
                i64::from(answer)
            }
            _ => i64::from(answer),
        }
    }
}
