//! Encodes calls as records of the compiled form, and decodes them.

use crate::call::Call;
use crate::op::{DirSlot, FileSlot, OpenFlags, Payload};
use crate::rare::{Advice, AllocateMode, RareCall, RenameFlag};
use crate::replay::format::{OpRecord, ZEROS};

/// Number of bits of the open flags in a record's `content`.
const FLAG_COUNT: usize = 13;

fn flag_bits(flags: OpenFlags) -> [bool; FLAG_COUNT] {
    [
        flags.read,
        flags.write,
        flags.create,
        flags.exclusive,
        flags.truncate,
        flags.append,
        flags.directory,
        flags.nofollow,
        flags.nonblock,
        flags.noctty,
        flags.direct,
        flags.dsync,
        flags.sync,
    ]
}

fn decode_flags(bits: u32) -> OpenFlags {
    let bit = |shift: u32| bits >> shift & 1 == 1;
    OpenFlags {
        read: bit(0),
        write: bit(1),
        create: bit(2),
        exclusive: bit(3),
        truncate: bit(4),
        append: bit(5),
        directory: bit(6),
        nofollow: bit(7),
        nonblock: bit(8),
        noctty: bit(9),
        direct: bit(10),
        dsync: bit(11),
        sync: bit(12),
    }
}

/// Number of versions of one location in a file that have distinct contents.
const VERSIONS: u8 = 5;

/// Returns the payload of a file, given the number and the class byte of its content; the class byte includes how often
/// the location was written before.
pub fn payload(content: u32, class: u8, offset: u64, length: u32) -> Payload {
    if class == ZEROS {
        return Payload::zeros(offset, length);
    }
    let version = class >> 4;
    let id = u64::from(content) + u64::from(version) * crate::contents::VERSION_STRIDE;
    Payload::classed(id, class & 15, offset, length)
}

/// Returns the class byte of content of this class at a location that was written `times` times before.
pub fn class(class: u8, times: u64) -> u8 {
    if class == ZEROS { ZEROS } else { class | ((times % u64::from(VERSIONS)) as u8) << 4 }
}

macro_rules! codes {
    ($($code:literal $name:ident),+ $(,)?) => { $(const $name: u8 = $code;)+ };
}

codes!(
    1 MKDIR, 2 OPEN, 3 CREATE, 4 CLOSE, 5 WRITE, 6 READ, 7 READ_AT, 8 WRITE_AT, 9 LINK, 10 SYMLINK,
    11 UNLINK, 12 RMDIR, 13 FSYNC, 14 TRUNCATE, 15 CHMOD, 16 CHMOD_FILE, 17 UTIMES, 18 UTIMES_FILE,
    19 CHOWN, 20 CHOWN_FILE, 21 SYNC, 22 RENAME, 23 FDATASYNC, 24 SYNC_RANGE, 25 READLINK, 26 ACCESS,
    27 STATUS, 28 STATUS_FILE, 29 STATFS, 30 READDIR, 31 SEEK, 32 GETXATTR, 33 GETXATTR_FILE,
    34 LISTXATTR, 35 LISTXATTR_FILE, 36 SETXATTR, 37 SETXATTR_FILE, 38 REMOVEXATTR,
    39 REMOVEXATTR_FILE, 40 TRUNCATE_AT, 41 RENAME_WITH_FLAG, 42 COPY_RANGE, 43 ALLOCATE, 44 FADVISE,
);

const ALLOCATE_MODES: [AllocateMode; 5] = [
    AllocateMode::Extend,
    AllocateMode::KeepSize,
    AllocateMode::PunchHole,
    AllocateMode::Zero,
    AllocateMode::ZeroKeepSize,
];

const ADVICES: [Advice; 6] = [
    Advice::Normal,
    Advice::Random,
    Advice::Sequential,
    Advice::WillNeed,
    Advice::DontNeed,
    Advice::NoReuse,
];

/// Returns the number of a payload's content, for [`OpRecord::content`], and its class byte.
fn content_of(payload: Payload) -> (u32, u8) {
    if payload.id == Payload::ZEROS {
        return (0, ZEROS);
    }
    let class = (payload.id >> Payload::CLASS_SHIFT) as u8;
    let id = payload.id & (Payload::CLASSED - 1);
    let version = id / crate::contents::VERSION_STRIDE;
    ((id - version * crate::contents::VERSION_STRIDE) as u32, class | (version as u8) << 4)
}

/// Encodes a call into a record; returns false for a call that replays never make. The caller sets the strings of the
/// call's names.
pub fn encode(call: Call, record: &mut OpRecord) -> bool {
    let slots = call.slots();
    record.file = slots.files[0];
    (record.dir, record.to) = (slots.dirs[0], slots.dirs[1]);
    encode_arguments(call, record);
    record.code = match call {
        Call::Mkdir { .. } => MKDIR,
        Call::Open { .. } => OPEN,
        Call::Create { .. } => CREATE,
        Call::Close { .. } => CLOSE,
        Call::Write { .. } => WRITE,
        Call::WriteAt { .. } => WRITE_AT,
        Call::Read { .. } => READ,
        Call::ReadAt { .. } => READ_AT,
        Call::Link { .. } => LINK,
        Call::Symlink { .. } => SYMLINK,
        Call::Unlink { .. } => UNLINK,
        Call::Rmdir { .. } => RMDIR,
        Call::Fsync { .. } => FSYNC,
        Call::Truncate { .. } => TRUNCATE,
        Call::Chmod { .. } => CHMOD,
        Call::ChmodFile { .. } => CHMOD_FILE,
        Call::Utimes { .. } => UTIMES,
        Call::UtimesFile { .. } => UTIMES_FILE,
        Call::Chown { .. } => CHOWN,
        Call::ChownFile { .. } => CHOWN_FILE,
        Call::Sync => SYNC,
        Call::Rename { .. } => RENAME,
        Call::Rare(rare) => encode_rare(rare, slots.files[1], record),
        Call::OpenDir { .. }
        | Call::CloseDir { .. }
        | Call::Append { .. }
        | Call::Stat { .. }
        | Call::StatFile { .. }
        | Call::FsyncDir { .. }
        | Call::Fallocate { .. }
        | Call::Setxattr { .. }
        | Call::Compound(_) => return false,
    };
    true
}

/// Encodes the arguments of a call, other than its slots, into a record.
#[deny(clippy::wildcard_enum_match_arm, reason = "a new call must be classified here")]
fn encode_arguments(call: Call, record: &mut OpRecord) {
    match call {
        Call::Mkdir { mode, .. } | Call::Chmod { mode, .. } | Call::ChmodFile { mode, .. } => {
            record.number = mode;
        }
        Call::Open { flags, .. } => record.content = encode_flags(flags),
        Call::Create { flags, mode, .. } => {
            (record.content, record.number) = (encode_flags(flags), mode)
        }
        Call::Write { payload, .. } => encode_payload(payload, record),
        Call::WriteAt { offset, payload, .. } => {
            encode_payload(payload, record);
            record.offset = offset;
        }
        Call::Read { length, .. } => record.number = length,
        Call::ReadAt { offset, length, .. } => (record.offset, record.number) = (offset, length),
        Call::Truncate { length, .. } => record.length = length,
        Call::Utimes { mtime, .. } | Call::UtimesFile { mtime, .. } => {
            record.offset = mtime as u64;
        }
        // Calls without arguments, rare calls, and calls that replays never make.
        Call::Close { .. }
        | Call::Link { .. }
        | Call::Symlink { .. }
        | Call::Unlink { .. }
        | Call::Rmdir { .. }
        | Call::Fsync { .. }
        | Call::Chown { .. }
        | Call::ChownFile { .. }
        | Call::Sync
        | Call::Rename { .. }
        | Call::Rare(_)
        | Call::OpenDir { .. }
        | Call::CloseDir { .. }
        | Call::Append { .. }
        | Call::Stat { .. }
        | Call::StatFile { .. }
        | Call::FsyncDir { .. }
        | Call::Fallocate { .. }
        | Call::Setxattr { .. }
        | Call::Compound(_) => {}
    }
}

fn encode_payload(payload: Payload, record: &mut OpRecord) {
    (record.content, record.class) = content_of(payload);
    record.length = payload.offset;
    record.number = payload.length;
}

fn encode_flags(flags: OpenFlags) -> u32 {
    let set = flag_bits(flags).into_iter().zip(0..);
    set.fold(0, |bits, (set, shift)| bits | u32::from(set) << shift)
}

fn encode_rare(call: RareCall, from: u16, record: &mut OpRecord) -> u8 {
    match call {
        RareCall::Fdatasync { .. } => FDATASYNC,
        RareCall::SyncRange { offset, length, .. } => {
            (record.offset, record.length) = (offset, length);
            SYNC_RANGE
        }
        RareCall::Readlink { .. } => READLINK,
        RareCall::Access { .. } => ACCESS,
        RareCall::Status { follow, .. } => {
            record.number = u32::from(follow);
            STATUS
        }
        RareCall::StatusFile { .. } => STATUS_FILE,
        RareCall::Statfs => STATFS,
        RareCall::Readdir { length, to_end, .. } => {
            (record.number, record.content) = (length, u32::from(to_end));
            READDIR
        }
        RareCall::Seek { offset, .. } => {
            record.offset = offset;
            SEEK
        }
        RareCall::Getxattr { .. } => GETXATTR,
        RareCall::GetxattrFile { .. } => GETXATTR_FILE,
        RareCall::Listxattr { .. } => LISTXATTR,
        RareCall::ListxattrFile { .. } => LISTXATTR_FILE,
        RareCall::Setxattr { length, .. } | RareCall::SetxattrFile { length, .. } => {
            record.number = length;
            if matches!(call, RareCall::Setxattr { .. }) { SETXATTR } else { SETXATTR_FILE }
        }
        RareCall::Removexattr { .. } => REMOVEXATTR,
        RareCall::RemovexattrFile { .. } => REMOVEXATTR_FILE,
        RareCall::Truncate { length, .. } => {
            record.length = length;
            TRUNCATE_AT
        }
        RareCall::Rename { flag, .. } => {
            record.number = u32::from(flag == RenameFlag::Exchange);
            RENAME_WITH_FLAG
        }
        RareCall::CopyRange { from_offset, offset, length, .. } => {
            record.dir = from;
            (record.offset, record.length, record.number) = (offset, from_offset, length);
            COPY_RANGE
        }
        RareCall::Allocate { mode, offset, length, .. } => {
            (record.offset, record.length) = (offset, length);
            record.number =
                ALLOCATE_MODES.iter().position(|known| *known == mode).unwrap_or(0) as u32;
            ALLOCATE
        }
        RareCall::Fadvise { offset, length, advice, .. } => {
            (record.offset, record.length) = (offset, length);
            record.number = ADVICES.iter().position(|known| *known == advice).unwrap_or(0) as u32;
            FADVISE
        }
    }
}

/// Decodes the call of a record, adding `base` to every slot except the root's; returns `None` for an unknown code.
#[inline]
pub fn decode(record: &OpRecord, base: u16) -> Option<Call> {
    let file = FileSlot(record.file.wrapping_add(base));
    let dir_of = |slot: u16| DirSlot(if slot == 0 { 0 } else { slot.wrapping_add(base) });
    let (dir, to) = (dir_of(record.dir), dir_of(record.to));
    let payload = || payload(record.content, record.class, record.length, record.number);
    Some(match record.code {
        MKDIR => Call::Mkdir { dir, mode: record.number },
        OPEN => Call::Open { dir, file, flags: decode_flags(record.content) },
        CREATE => {
            Call::Create { dir, file, flags: decode_flags(record.content), mode: record.number }
        }
        CLOSE => Call::Close { file },
        WRITE => Call::Write { file, payload: payload() },
        WRITE_AT => Call::WriteAt { file, offset: record.offset, payload: payload() },
        READ => Call::Read { file, length: record.number },
        READ_AT => Call::ReadAt { file, offset: record.offset, length: record.number },
        LINK => Call::Link { dir, to },
        SYMLINK => Call::Symlink { dir },
        UNLINK => Call::Unlink { dir },
        RMDIR => Call::Rmdir { dir },
        FSYNC => Call::Fsync { file },
        TRUNCATE => Call::Truncate { file, length: record.length },
        CHMOD => Call::Chmod { dir, mode: record.number },
        CHMOD_FILE => Call::ChmodFile { file, mode: record.number },
        UTIMES => Call::Utimes { dir, mtime: record.offset as i64 },
        UTIMES_FILE => Call::UtimesFile { file, mtime: record.offset as i64 },
        CHOWN => Call::Chown { dir },
        CHOWN_FILE => Call::ChownFile { file },
        SYNC => Call::Sync,
        RENAME => Call::Rename { dir, to },
        _ => Call::Rare(decode_rare(record, file, dir, to)?),
    })
}

fn decode_rare(record: &OpRecord, file: FileSlot, dir: DirSlot, to: DirSlot) -> Option<RareCall> {
    let (offset, length) = (record.offset, record.length);
    Some(match record.code {
        FDATASYNC => RareCall::Fdatasync { file },
        SYNC_RANGE => RareCall::SyncRange { file, offset, length },
        READLINK => RareCall::Readlink { dir },
        ACCESS => RareCall::Access { dir },
        STATUS => RareCall::Status { dir, follow: record.number == 1 },
        STATUS_FILE => RareCall::StatusFile { file },
        STATFS => RareCall::Statfs,
        READDIR => RareCall::Readdir { file, length: record.number, to_end: record.content == 1 },
        SEEK => RareCall::Seek { file, offset },
        GETXATTR => RareCall::Getxattr { dir },
        GETXATTR_FILE => RareCall::GetxattrFile { file },
        LISTXATTR => RareCall::Listxattr { dir },
        LISTXATTR_FILE => RareCall::ListxattrFile { file },
        SETXATTR => RareCall::Setxattr { dir, length: record.number },
        SETXATTR_FILE => RareCall::SetxattrFile { file, length: record.number },
        REMOVEXATTR => RareCall::Removexattr { dir },
        REMOVEXATTR_FILE => RareCall::RemovexattrFile { file },
        TRUNCATE_AT => RareCall::Truncate { dir, length },
        RENAME_WITH_FLAG => {
            let flag =
                if record.number == 1 { RenameFlag::Exchange } else { RenameFlag::NoReplace };
            RareCall::Rename { dir, to, flag }
        }
        COPY_RANGE => RareCall::CopyRange {
            from: FileSlot(dir.0),
            from_offset: length,
            file,
            offset,
            length: record.number,
        },
        ALLOCATE => RareCall::Allocate {
            file,
            mode: *ALLOCATE_MODES.get(record.number as usize)?,
            offset,
            length,
        },
        FADVISE => {
            let advice = *ADVICES.get(record.number as usize)?;
            RareCall::Fadvise { file, offset, length, advice }
        }
        _ => return None,
    })
}
