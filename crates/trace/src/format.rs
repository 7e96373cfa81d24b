//! The version of the format, and its limits.

/// The version of the format that is written; no other version is read.
pub const VERSION: u32 = 1;

/// The maximum size of a frame, in bytes before compression.
pub const FRAME_LIMIT: usize = 1 << 20;
