//! The file that `fsdyno fit` writes.

use std::io::{Read as _, Write as _};
use std::path::Path;

use crate::exit::Failure;

/// The first bytes of a file that `fsdyno fit` writes.
const HEAD: &[u8] = b"# Fitted by `fsdyno fit`";

/// Tests whether the path is a file that an earlier fit wrote.
pub fn is_ours(path: &Path) -> bool {
    // Opening a pipe would block.
    if !std::fs::metadata(path).is_ok_and(|status| status.is_file()) {
        return false;
    }
    let mut head = [0; HEAD.len()];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && head == *HEAD
}

/// Writes a new file or replaces one of an earlier fit, atomically.
///
/// # Errors
/// What the kernel reports.
pub fn write(out: &Path, text: &str) -> Result<(), Failure> {
    let fill = |file: &mut std::fs::File| file.write_all(text.as_bytes());
    let written = match is_ours(out) {
        true => fsdyno_media::file::write(out, fill),
        false => fsdyno_media::file::write_new(out, fill),
    };
    written.map_err(|error| Failure::io("write", out, &error))
}
