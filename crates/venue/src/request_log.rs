//! Keeps the log of a trial's requests as a file beside its results.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use fsdyno_disk::log::{file, region};

use crate::error::VenueError;
use crate::region::Region;

/// The folder of the logs within a result folder.
pub const FOLDER: &str = "logs";

/// The name of a trial's log within a result folder: always of a file in [`FOLDER`], for the id of a trial may stand in
/// a file that somebody else wrote.
pub fn name(trial_id: &str) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    format!("{FOLDER}/{}.log", trial_id.chars().map(plain).collect::<String>())
}

/// Writes what the guest has logged to `results`/[`name`]; how many requests were lost, for want of
/// room in the guest's memory.
///
/// # Errors
/// A region that is no log; a file that cannot be written.
pub fn keep(log: &File, results: &Path, trial_id: &str) -> Result<u64, VenueError> {
    let mut region = Region::open(log).map_err(VenueError::io("open the request log"))?;
    let logged = region::read(&mut region)
        .map_err(|wrong| VenueError::Died(format!("failed to read the request log: {wrong}")))?;
    let path = results.join(name(trial_id));
    write(&logged, &path).map_err(VenueError::io("write the request log"))?;
    Ok(logged.lost)
}

/// Under its own name it is always whole.
fn write(logged: &region::Logged, path: &Path) -> io::Result<()> {
    fsdyno_media::file::make_folder(path.parent().unwrap_or(path))?;
    fsdyno_media::file::write(path, |file| {
        let mut out = BufWriter::new(file);
        file::write(logged, &mut out)?;
        out.flush()
    })
}
