//! The version of the format, and its limits.

/// The version of the format that is written, and the only one that is read.
pub const VERSION: u32 = 1;

/// The largest frame, in bytes before compression.
pub const FRAME_LIMIT: usize = 1 << 20;
