//! Stores the request log of a trial as a file in the result folder.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use fsdyno_disk::log::{file, region};

use crate::error::VenueError;
use crate::region::Region;

/// The folder of the logs within a result folder.
pub const FOLDER: &str = "logs";

/// Returns the name of a trial's log within a result folder: always a file in [`FOLDER`], even if the trial's id
/// comes from another user's file.
pub fn name(trial_id: &str) -> String {
    let to_plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    format!("{FOLDER}/{}.log", trial_id.chars().map(to_plain).collect::<String>())
}

/// Writes the guest's log to `results`/[`name`] and returns the number of requests that did not fit into
/// the guest's memory.
///
/// # Errors
/// The region is not a log, or the file cannot be written.
pub fn store(log: &File, results: &Path, trial_id: &str) -> Result<u64, VenueError> {
    let mut region =
        Region::open(log).map_err(VenueError::io_without_path("open the request log"))?;
    let logged = region::read(&mut region)
        .map_err(|error| VenueError::Failed(format!("failed to read the request log: {error}")))?;
    let path = results.join(name(trial_id));
    write(&logged, &path).map_err(VenueError::io("write the request log", &path))?;
    Ok(logged.lost)
}

/// Writes the file atomically.
fn write(logged: &region::RequestLog, path: &Path) -> io::Result<()> {
    fsdyno_media::file::make_folder(path.parent().unwrap_or(path))?;
    fsdyno_media::file::write(path, |file| {
        let mut out = BufWriter::new(file);
        file::write(logged, &mut out)?;
        out.flush()
    })
}
