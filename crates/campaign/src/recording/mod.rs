//! Recordings of commands: their files, their replays in the lab, and their calibration.

mod calibrate;
mod command;
mod import;
mod record;
mod trace_file;

use std::path::Path;

use crate::Failure;

pub use calibrate::calibrate;
pub use command::{needs_recording, record_for_replay};
pub use import::import;
pub use record::{RecordRequest, mark, record};
use trace_file::TraceFile;

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
