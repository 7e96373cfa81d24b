//! Recordings of commands: their files, their replays in the lab, and their calibration.

mod calibrate;
mod command;
mod import;
mod record;

use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use crate::Failure;

pub use calibrate::calibrate;
pub use command::{needs_recording, record_for_replay};
pub use import::import;
pub use record::{RecordRequest, mark, record};

/// Refuses a program that does not exist, before any file is written.
///
/// # Errors
/// The program was not found.
fn check_program(program: &str) -> Result<(), Failure> {
    let is_executable = |file: &Path| rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok();
    let found = if program.contains('/') {
        is_executable(Path::new(program))
    } else {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder| is_executable(&folder.join(program)))
    };
    if found {
        return Ok(());
    }
    Err(Failure::invalid_use(format!("cannot record '{program}': program not found")))
}

/// Creates the trace file. Replaces an older trace but no other file: the opened file is checked before it is
/// changed.
///
/// # Errors
/// A file that is not a trace or cannot be written.
fn create(path: &Path) -> Result<File, Failure> {
    let failed = |error: std::io::Error| Failure::io("write the trace", path, &error);
    let refused =
        |why| Err(Failure::invalid_use(format!("'{}' {why}; not overwriting it", path.display())));
    let mut options = File::options();
    let file = options.read(true).write(true).create(true).truncate(false).open(path);
    let mut file = file.map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if metadata.file_type().is_block_device() {
        return refused("is a drive");
    }
    if metadata.is_file() {
        let mut start = Vec::new();
        let length = fsdyno_trace::MAGIC.len() as u64;
        (&file).take(length).read_to_end(&mut start).map_err(failed)?;
        if !start.is_empty() && start != fsdyno_trace::MAGIC {
            return refused("exists and is not a trace");
        }
        file.rewind().map_err(failed)?;
        file.set_len(0).map_err(failed)?;
    }
    Ok(file)
}
