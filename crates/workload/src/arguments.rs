//! The arguments of calls: slots of open files and directories, flags, and payloads.

/// An open directory, by number. Slot 0 is the root of the trial and always open. Threads that share their open files have
/// one table of slots for files and directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirSlot(pub u16);

impl DirSlot {
    /// The root of the trial.
    pub const ROOT: DirSlot = DirSlot(0);
}

/// An open file, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSlot(pub u16);

/// Flags of open(2) that matter to a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenFlags {
    /// O_RDONLY, or O_RDWR with `write`. If neither is set, O_RDONLY is used.
    pub read: bool,
    /// O_WRONLY, or O_RDWR with `read`.
    pub write: bool,
    /// O_CREAT for an open of an existing file, as fopen(3) sets it for appending;
    /// [`Call::Create`](crate::Call::Create) always sets it.
    pub create: bool,
    /// O_EXCL.
    pub exclusive: bool,
    /// O_TRUNC.
    pub truncate: bool,
    /// O_APPEND.
    pub append: bool,
    /// O_DIRECTORY.
    pub directory: bool,
    /// O_NOFOLLOW.
    pub nofollow: bool,
    /// O_NONBLOCK (GNU tar sets it).
    pub nonblock: bool,
    /// O_NOCTTY (GNU tar sets it).
    pub noctty: bool,
    /// O_DIRECT.
    pub direct: bool,
    /// O_DSYNC.
    pub dsync: bool,
    /// O_SYNC.
    pub sync: bool,
}

impl OpenFlags {
    /// O_RDONLY and nothing else; equals the default, for constants.
    pub const NONE: OpenFlags = OpenFlags {
        read: false,
        write: false,
        create: false,
        exclusive: false,
        truncate: false,
        append: false,
        directory: false,
        nofollow: false,
        nonblock: false,
        noctty: false,
        direct: false,
        dsync: false,
        sync: false,
    };
}

/// Percentage of zeros in each class of compressible contents.
pub const CLASSES: [u64; 3] = [80, 50, 20];

/// Computed bytes: bytes `offset + k` of content `id`, for each `k` below `length`.
///
/// [`crate::contents`] defines those bytes; the engine and the verifier compute them, so no payload is ever stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payload {
    /// Identity of the content; contents with different ids differ, with the exceptions stated at [`crate::Contents`].
    pub id: u64,
    /// Offset of the first byte within the content.
    pub offset: u64,
    /// Number of bytes.
    pub length: u32,
}

impl Payload {
    /// The all-zero content, for workloads whose original program wrote zeros.
    pub const ZEROS: u64 = u64::MAX;

    /// The workload's input file (an archive, real mail): offsets are positions in it.
    pub const INPUT: u64 = u64::MAX - 1;

    /// Minimum id of a content with a class; contents of the pool without a class have smaller ids.
    pub const CLASSED: u64 = 1 << Payload::CLASS_SHIFT;

    /// Lowest bit of the class in an id.
    pub const CLASS_SHIFT: u32 = 60;

    /// Returns the payload of content `id` in class `class`: class 0 is incompressible, and classes from 1 on are those
    /// of [`CLASSES`].
    pub fn classed(id: u64, class: u8, offset: u64, length: u32) -> Payload {
        let class = u64::from(class).min(CLASSES.len() as u64);
        let id = id & (Payload::CLASSED - 1) | class << Payload::CLASS_SHIFT;
        Payload { id, offset, length }
    }

    /// Returns `length` zeros from `offset` on.
    pub fn zeros(offset: u64, length: u32) -> Payload {
        Payload { id: Payload::ZEROS, offset, length }
    }
}
