//! The calls that recorded programs make but generators rarely do: one table of facts, as for [`Call`](crate::Call).

use fsdyno_record::OpKind;

use crate::arguments::{DirSlot, FileSlot};
use crate::facts::{Effect, Facts, SlotsOf, Synced};

/// A file system call that is issued out of line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are the call's own arguments")]
pub enum RareCall {
    /// fdatasync(2).
    Fdatasync { file: FileSlot },
    /// sync_file_range(2) that starts the writeback of `length` bytes from `offset` on and waits for it; it makes
    /// nothing durable.
    SyncRange { file: FileSlot, offset: u64, length: u64 },
    /// readlinkat(2); its result is the length of the target.
    Readlink { dir: DirSlot },
    /// faccessat(2) that checks whether `name` exists.
    Access { dir: DirSlot },
    /// fstatat(2); its result is the size of a regular file or symbolic link, and 0 for everything else.
    Status { dir: DirSlot, follow: bool },
    /// fstat(2); its result is as for [`RareCall::Status`].
    StatusFile { file: FileSlot },
    /// fstatfs(2) of the trial's root.
    Statfs,
    /// getdents64(2) into a buffer of `length` bytes; with `to_end`, repeated until it returns nothing. Its result is
    /// 0.
    Readdir { file: FileSlot, length: u32, to_end: bool },
    /// lseek(2) to `offset` bytes from the beginning; its result is `offset`.
    Seek { file: FileSlot, offset: u64 },
    /// lgetxattr(2) of the attribute `second_name`; its result is 0.
    Getxattr { dir: DirSlot },
    /// fgetxattr(2) of the attribute `second_name`; its result is 0.
    GetxattrFile { file: FileSlot },
    /// llistxattr(2); its result is 0.
    Listxattr { dir: DirSlot },
    /// flistxattr(2); its result is 0.
    ListxattrFile { file: FileSlot },
    /// lsetxattr(2) of the attribute `second_name` to `length` bytes.
    Setxattr { dir: DirSlot, length: u32 },
    /// fsetxattr(2) of the attribute `second_name` to `length` bytes.
    SetxattrFile { file: FileSlot, length: u32 },
    /// lremovexattr(2) of the attribute `second_name`.
    Removexattr { dir: DirSlot },
    /// fremovexattr(2) of the attribute `second_name`.
    RemovexattrFile { file: FileSlot },
    /// truncate(2).
    Truncate { dir: DirSlot, length: u64 },
    /// renameat2(2) with a flag.
    Rename { dir: DirSlot, to: DirSlot, flag: RenameFlag },
    /// copy_file_range(2) of `length` bytes of `from` at `from_offset` to `file` at `offset`, repeated until all are
    /// copied or a call copies nothing; its result is the number of bytes copied.
    CopyRange { from: FileSlot, from_offset: u64, file: FileSlot, offset: u64, length: u32 },
    /// fallocate(2).
    Allocate { file: FileSlot, mode: AllocateMode, offset: u64, length: u64 },
    /// posix_fadvise(2).
    Fadvise { file: FileSlot, offset: u64, length: u64, advice: Advice },
}

/// The flag of renameat2(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenameFlag {
    /// RENAME_NOREPLACE.
    NoReplace,
    /// RENAME_EXCHANGE.
    Exchange,
}

/// The mode of fallocate(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllocateMode {
    /// Reserves space, and extends the file if the range ends past its end.
    Extend,
    /// FALLOC_FL_KEEP_SIZE.
    KeepSize,
    /// FALLOC_FL_PUNCH_HOLE with FALLOC_FL_KEEP_SIZE.
    PunchHole,
    /// FALLOC_FL_ZERO_RANGE.
    Zero,
    /// FALLOC_FL_ZERO_RANGE with FALLOC_FL_KEEP_SIZE.
    ZeroKeepSize,
}

/// The advice of posix_fadvise(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// POSIX_FADV_NORMAL.
    Normal,
    /// POSIX_FADV_RANDOM.
    Random,
    /// POSIX_FADV_SEQUENTIAL.
    Sequential,
    /// POSIX_FADV_WILLNEED.
    WillNeed,
    /// POSIX_FADV_DONTNEED.
    DontNeed,
    /// POSIX_FADV_NOREUSE.
    NoReuse,
}

const COPIES: &str = "copies a range of a file, which is not tracked";
const RESERVES: &str = "reserves or removes space, whose state after a power cut is not modelled";
const EXCHANGES: &str = "exchanges two names, which is not tracked";

#[deny(clippy::wildcard_enum_match_arm, reason = "a new call must be classified here")]
impl RareCall {
    /// Returns the slots that the call uses.
    pub fn slots(self) -> SlotsOf {
        match self {
            RareCall::Fdatasync { file }
            | RareCall::SyncRange { file, .. }
            | RareCall::StatusFile { file }
            | RareCall::Readdir { file, .. }
            | RareCall::Seek { file, .. }
            | RareCall::GetxattrFile { file }
            | RareCall::ListxattrFile { file }
            | RareCall::SetxattrFile { file, .. }
            | RareCall::RemovexattrFile { file }
            | RareCall::Allocate { file, .. }
            | RareCall::Fadvise { file, .. } => SlotsOf::file(file),
            RareCall::Readlink { dir }
            | RareCall::Access { dir }
            | RareCall::Status { dir, .. }
            | RareCall::Getxattr { dir }
            | RareCall::Listxattr { dir }
            | RareCall::Setxattr { dir, .. }
            | RareCall::Removexattr { dir }
            | RareCall::Truncate { dir, .. } => SlotsOf::dir(dir),
            RareCall::Rename { dir, to, .. } => SlotsOf::dirs(dir, to),
            RareCall::CopyRange { from, file, .. } => {
                SlotsOf { files: [file.0, from.0], ..SlotsOf::NONE }
            }
            RareCall::Statfs => SlotsOf::NONE,
        }
    }

    /// Returns the facts of the call, one row per call.
    pub fn facts(self) -> Facts {
        use OpKind as K;
        let on_slot = |kind, effect| Facts { kind: Some(kind), dir: None, effect };
        let on_name = |kind, dir, effect| Facts { kind: Some(kind), dir: Some(dir), effect };
        match self {
            RareCall::Fdatasync { file } => on_slot(K::Fdatasync, Effect::Sync(Synced::File(file))),
            RareCall::SyncRange { .. } => on_slot(K::SyncRange, Effect::None),
            RareCall::Readlink { dir } => on_name(K::Readlink, dir, Effect::Lookup { dir }),
            RareCall::Access { dir } => on_name(K::Access, dir, Effect::Lookup { dir }),
            RareCall::Status { dir, .. } => on_name(K::Stat, dir, Effect::Lookup { dir }),
            RareCall::StatusFile { .. } => on_slot(K::Stat, Effect::None),
            RareCall::Statfs => on_slot(K::Statfs, Effect::None),
            RareCall::Readdir { .. } => on_slot(K::Readdir, Effect::None),
            RareCall::Seek { .. } => on_slot(K::Seek, Effect::None),
            RareCall::Getxattr { dir } => on_name(K::Getxattr, dir, Effect::Lookup { dir }),
            RareCall::GetxattrFile { .. } => on_slot(K::Getxattr, Effect::None),
            RareCall::Listxattr { dir } => on_name(K::Listxattr, dir, Effect::Lookup { dir }),
            RareCall::ListxattrFile { .. } => on_slot(K::Listxattr, Effect::None),
            RareCall::Setxattr { dir, .. } => on_name(K::Setxattr, dir, Effect::Lookup { dir }),
            RareCall::SetxattrFile { .. } => on_slot(K::Setxattr, Effect::None),
            RareCall::Removexattr { dir } => on_name(K::Removexattr, dir, Effect::Lookup { dir }),
            RareCall::RemovexattrFile { .. } => on_slot(K::Removexattr, Effect::None),
            RareCall::Truncate { dir, .. } => {
                on_name(K::Truncate, dir, Effect::Untracked("truncates a file by its name"))
            }
            RareCall::Rename { dir, to, flag: RenameFlag::NoReplace } => {
                on_name(K::Rename, dir, Effect::Rename { dir, to })
            }
            RareCall::Rename { dir, flag: RenameFlag::Exchange, .. } => {
                on_name(K::Rename, dir, Effect::Untracked(EXCHANGES))
            }
            RareCall::CopyRange { .. } => on_slot(K::CopyRange, Effect::Untracked(COPIES)),
            RareCall::Allocate { .. } => on_slot(K::Fallocate, Effect::Untracked(RESERVES)),
            RareCall::Fadvise { .. } => on_slot(K::Fadvise, Effect::None),
        }
    }
}
