//! One rank of a ring: its op as an entry of io_uring(7), and the meaning of its result.

use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use fsdyno_record::Nanos;
use fsdyno_workload::contents::MAX_SLICE;
use fsdyno_workload::{Call, Contents, DirSlot, Effect, FileSlot, Op, Payload};
use io_uring::types::{Fd, Timespec};
use io_uring::{IoUring, Probe, opcode, squeue};

use crate::clock::MAX_SLEEP;
use crate::failure::Failure;
use crate::issue::Issuer;
use crate::issue::sync::{SyncIssuer, as_ptr};
use crate::meter::Meter;
use crate::progress::Halt;

/// The offset that stands for the file position, as with write(2).
const FILE_POSITION: u64 = u64::MAX;

/// The newer opcodes that the kernel supports.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewOpcodes {
    rename_unlink: bool,
    mkdir_link: bool,
    set_xattr: bool,
    truncate: bool,
}

impl NewOpcodes {
    /// Probes the kernel for the opcodes.
    ///
    /// # Errors
    /// The kernel is older than Linux 5.6, with opcodes for too few calls.
    pub fn probe(ring: &IoUring) -> io::Result<NewOpcodes> {
        let mut probe = Probe::new();
        let probed = ring.submitter().register_probe(&mut probe);
        if probed.is_err() || !probe.is_supported(opcode::OpenAt::CODE) {
            let message = "this kernel's io_uring is too old (Linux 5.6 or later is required); use --issuer sync";
            return Err(io::Error::new(io::ErrorKind::Unsupported, message));
        }
        let supports = |codes: &[u8]| codes.iter().all(|code| probe.is_supported(*code));
        Ok(NewOpcodes {
            rename_unlink: supports(&[opcode::RenameAt::CODE, opcode::UnlinkAt::CODE]),
            mkdir_link: supports(&[
                opcode::MkDirAt::CODE,
                opcode::SymlinkAt::CODE,
                opcode::LinkAt::CODE,
            ]),
            set_xattr: supports(&[opcode::FSetXattr::CODE]),
            truncate: supports(&[opcode::Ftruncate::CODE]),
        })
    }
}

/// The next step of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneStep {
    /// Get an op from the source.
    Generate,
    /// Wait for another rank, if the op needs it.
    Wait,
    /// Spend think time.
    Think,
    /// Wake up from a sleep.
    WakeUp,
    /// Make the call.
    Call,
}

/// A rank with one op in flight.
pub struct Lane {
    /// Holds the rank's open files, and makes the calls that have no opcode.
    pub issuer: SyncIssuer,
    /// The current op.
    pub op: Op,
    /// The next step.
    pub step: LaneStep,
    /// Time of the op's submission.
    pub submitted: Nanos,
    /// Bytes of a write that were accepted so far.
    pub written: u32,
    status: Box<libc::statx>,
    pause: Timespec,
    /// End of a sleep that is split into several, or zero.
    wake_time: Nanos,
}

impl Lane {
    /// Creates a rank with only the trial's root open.
    pub fn new(root: OwnedFd, contents: &Arc<Contents>) -> Lane {
        Lane {
            issuer: SyncIssuer::new(root, Arc::clone(contents)),
            op: Op::default(),
            step: LaneStep::Generate,
            submitted: Nanos(0),
            written: 0,
            // SAFETY: statx is plain numbers, for which all zeroes are valid.
            status: Box::new(unsafe { std::mem::zeroed() }),
            pause: Timespec::new(),
            wake_time: Nanos(0),
        }
    }

    /// Returns the duration of the sleep from `now` on before the op, which is due in `ahead`.
    pub fn pause(&mut self, now: Nanos, ahead: Nanos) -> Nanos {
        match std::mem::take(&mut self.wake_time) {
            Nanos(0) => self.op.think.max(ahead),
            wake => wake.since(now),
        }
    }

    /// Starts a sleep of at most [`MAX_SLEEP`], after which the thread checks whether to stop; returns
    /// its duration as the kernel's type.
    pub fn sleep(&mut self, now: Nanos, pause: Nanos) -> *const Timespec {
        self.step = LaneStep::WakeUp;
        if pause > MAX_SLEEP {
            self.wake_time = now + pause;
        }
        self.pause = Duration::from_nanos(pause.min(MAX_SLEEP).0).into();
        &raw const self.pause
    }

    /// Ends a sleep; returns true if it was the last before the call.
    pub fn wake_up(&mut self, now: Nanos) -> bool {
        let last = self.wake_time <= now;
        self.step = if last { LaneStep::Call } else { LaneStep::Think };
        if last {
            self.wake_time = Nanos(0);
        }
        last
    }

    /// Returns the call as an entry; `None` if the kernel has no opcode for it.
    #[deny(clippy::wildcard_enum_match_arm, reason = "a new call must be classified here")]
    pub fn entry(&mut self, opcodes: NewOpcodes, contents: &Contents) -> Option<squeue::Entry> {
        let name = as_ptr(&self.op.name);
        Some(match self.op.call {
            Call::Create { dir, flags, mode, .. } => {
                let flags = self.issuer.flags(flags) | libc::O_CREAT;
                self.open(dir, flags, mode)
            }
            Call::Open { dir, flags, .. } => {
                let flags = self.issuer.flags(flags);
                self.open(dir, flags, 0)
            }
            Call::OpenDir { dir, .. } => self.open(dir, libc::O_RDONLY | libc::O_DIRECTORY, 0),
            Call::Close { file } => opcode::Close::new(Fd(self.issuer.file(file))).build(),
            Call::CloseDir { slot: DirSlot::ROOT } => return None,
            Call::CloseDir { slot } => opcode::Close::new(self.dir(slot)).build(),
            Call::Stat { dir } => self.stat(self.issuer.dir(dir), name, libc::AT_SYMLINK_NOFOLLOW),
            Call::StatFile { file } => {
                self.stat(self.issuer.file(file), c"".as_ptr(), libc::AT_EMPTY_PATH)
            }
            Call::Fsync { file } => opcode::Fsync::new(Fd(self.issuer.file(file))).build(),
            Call::FsyncDir { dir } => opcode::Fsync::new(self.dir(dir)).build(),
            Call::Fallocate { file, length } => self.allocate(file, length),
            Call::Write { file, payload } | Call::Append { file, payload } => {
                self.write(file, payload, FILE_POSITION, contents)
            }
            Call::WriteAt { file, offset, payload } => {
                self.write(file, payload, offset + u64::from(self.written), contents)
            }
            Call::Read { file, length } => self.read(file, length, FILE_POSITION),
            Call::ReadAt { file, offset, length } => self.read(file, length, offset),
            Call::Rename { dir, to } if opcodes.rename_unlink => self.rename(dir, to),
            Call::Unlink { dir } if opcodes.rename_unlink => self.unlink(dir, 0),
            Call::Rmdir { dir } if opcodes.rename_unlink => self.unlink(dir, libc::AT_REMOVEDIR),
            Call::Mkdir { dir, mode } if opcodes.mkdir_link => self.mkdir(dir, mode),
            Call::Link { dir, to } if opcodes.mkdir_link => self.link(dir, to),
            Call::Symlink { dir } if opcodes.mkdir_link => self.symlink(dir),
            Call::Truncate { file, length } if opcodes.truncate => self.truncate(file, length),
            Call::Setxattr { file, length } if opcodes.set_xattr => {
                self.set_xattr(file, length, contents)
            }
            // No opcode in this kernel or, for the rest, in any kernel.
            Call::Rename { .. }
            | Call::Unlink { .. }
            | Call::Rmdir { .. }
            | Call::Mkdir { .. }
            | Call::Link { .. }
            | Call::Symlink { .. }
            | Call::Truncate { .. }
            | Call::Setxattr { .. }
            | Call::ChmodFile { .. }
            | Call::Chmod { .. }
            | Call::UtimesFile { .. }
            | Call::Utimes { .. }
            | Call::ChownFile { .. }
            | Call::Chown { .. }
            | Call::Sync
            | Call::Rare(_)
            | Call::Compound(_) => return None,
        })
    }

    fn dir(&self, slot: DirSlot) -> Fd {
        Fd(self.issuer.dir(slot))
    }

    fn open(&self, dir: DirSlot, flags: i32, mode: u32) -> squeue::Entry {
        let flags = flags | libc::O_CLOEXEC;
        opcode::OpenAt::new(self.dir(dir), as_ptr(&self.op.name)).flags(flags).mode(mode).build()
    }

    fn rename(&self, dir: DirSlot, to: DirSlot) -> squeue::Entry {
        let (name, new_name) = (as_ptr(&self.op.name), as_ptr(&self.op.second_name));
        opcode::RenameAt::new(self.dir(dir), name, self.dir(to), new_name).build()
    }

    fn unlink(&self, dir: DirSlot, flags: i32) -> squeue::Entry {
        opcode::UnlinkAt::new(self.dir(dir), as_ptr(&self.op.name)).flags(flags).build()
    }

    fn mkdir(&self, dir: DirSlot, mode: u32) -> squeue::Entry {
        opcode::MkDirAt::new(self.dir(dir), as_ptr(&self.op.name)).mode(mode).build()
    }

    fn link(&self, dir: DirSlot, to: DirSlot) -> squeue::Entry {
        let (name, new_name) = (as_ptr(&self.op.name), as_ptr(&self.op.second_name));
        opcode::LinkAt::new(self.dir(dir), name, self.dir(to), new_name).build()
    }

    fn symlink(&self, dir: DirSlot) -> squeue::Entry {
        let (name, target) = (as_ptr(&self.op.name), as_ptr(&self.op.second_name));
        opcode::SymlinkAt::new(self.dir(dir), target, name).build()
    }

    fn allocate(&self, file: FileSlot, length: u64) -> squeue::Entry {
        opcode::Fallocate::new(Fd(self.issuer.file(file)), length).build()
    }

    fn truncate(&self, file: FileSlot, length: u64) -> squeue::Entry {
        opcode::Ftruncate::new(Fd(self.issuer.file(file)), length).build()
    }

    fn set_xattr(&self, file: FileSlot, length: u32, contents: &Contents) -> squeue::Entry {
        const NAME: &CStr = c"user.fsdyno";
        let value = contents.slice(Payload { id: 0, offset: 0, length });
        let (value_pointer, length) = (value.as_ptr().cast(), value.len() as u32);
        opcode::FSetXattr::new(Fd(self.issuer.file(file)), NAME.as_ptr(), value_pointer, length)
            .build()
    }

    fn stat(&mut self, dir: i32, name: *const libc::c_char, flags: i32) -> squeue::Entry {
        let status: *mut libc::statx = &raw mut *self.status;
        opcode::Statx::new(Fd(dir), name, status.cast())
            .flags(flags)
            .mask(libc::STATX_BASIC_STATS)
            .build()
    }

    /// Returns the rest of a write as an entry.
    fn write(
        &self,
        file: FileSlot,
        payload: Payload,
        offset: u64,
        contents: &Contents,
    ) -> squeue::Entry {
        let bytes = contents.slice(Contents::rest(payload, self.written));
        let (file, pointer, length) =
            (Fd(self.issuer.file(file)), bytes.as_ptr(), bytes.len() as u32);
        opcode::Write::new(file, pointer, length).offset(offset).build()
    }

    fn read(&mut self, file: FileSlot, length: u32, offset: u64) -> squeue::Entry {
        let length = length.min(MAX_SLICE as u32);
        let (file, pointer) =
            (Fd(self.issuer.file(file)), self.issuer.read_buffer(length as usize).as_mut_ptr());
        opcode::Read::new(file, pointer, length).offset(offset).build()
    }

    /// Adds the result of a part of a write; returns true if more remains to write.
    pub fn add_partial_write(&mut self, result: i32) -> bool {
        let Effect::Write { payload, .. } = self.op.call.facts().effect else { return false };
        self.written += result.max(0) as u32;
        result > 0 && self.written < payload.length
    }

    /// Completes the op: stores what it opened, checks its result and counts it.
    ///
    /// # Errors
    /// A result that the workload does not expect; the failure of another thread.
    pub fn complete(
        &mut self,
        result: i32,
        rank: u32,
        now: Nanos,
        meter: &mut Meter<'_>,
    ) -> Result<(), Failure> {
        let result = self.apply_result(result);
        self.step = LaneStep::Generate;
        let Some(kind) = self.op.call.kind() else { return Ok(()) };
        let checked = meter.check_result(result, kind, &self.op);
        checked.map_err(|cause| meter.failure(&self.op, self.issuer.path_of(&self.op), cause))?;
        if meter.count_completion(rank, kind, self.submitted, now) {
            return Ok(());
        }
        Err(meter.failure(&self.op, self.issuer.path_of(&self.op), Halt::Stopped))
    }

    /// Takes a result after a failure, without checking it: an opened file is stored, to be closed at the end.
    pub fn settle(&mut self, result: i32) {
        if self.step == LaneStep::Call {
            self.apply_result(result);
        }
    }

    /// Converts the result to that of [`Issuer::issue`]. Stores an opened file in its slot; a closed slot is
    /// released only here, so that it keeps its file if the close is never submitted.
    #[deny(clippy::wildcard_enum_match_arm, reason = "a new effect must be decided here")]
    fn apply_result(&mut self, result: i32) -> i64 {
        match self.op.call.facts().effect {
            Effect::Open { file, .. } if result >= 0 => {
                self.issuer.set_file(file, result);
                return 0;
            }
            Effect::OpenDir { dir, slot } if result >= 0 => {
                self.issuer.set_dir(dir, &self.op.name, slot, result);
                return 0;
            }
            Effect::Write { payload, .. } if result >= 0 => {
                return match self.written == payload.length {
                    true => i64::from(self.written),
                    false => -i64::from(libc::ENOSPC),
                };
            }
            Effect::Close { file } => {
                self.issuer.release_file(file);
            }
            Effect::CloseDir { slot } if slot != DirSlot::ROOT => {
                self.issuer.release_dir(slot);
            }
            Effect::Open { .. }
            | Effect::OpenDir { .. }
            | Effect::CloseDir { .. }
            | Effect::Write { .. }
            | Effect::None
            | Effect::Lookup { .. }
            | Effect::MakeDir { .. }
            | Effect::MakeLink { .. }
            | Effect::Advance { .. }
            | Effect::Resize { .. }
            | Effect::Rename { .. }
            | Effect::Link { .. }
            | Effect::Remove { .. }
            | Effect::RemoveTree { .. }
            | Effect::Sync(_)
            | Effect::Untracked(_) => {}
        }
        i64::from(result)
    }
}
