//! `fsdyno note`: names a result, or writes a note on it.

use fsdyno_campaign::about::About;
use fsdyno_describe::{Listing, list};
use fsdyno_report::is_result;

use crate::cli::Note;
use crate::exit::{Exit, Failure};
use crate::output::{self, say};

/// Runs the command.
pub fn run(note: &Note) -> Result<Exit, Failure> {
    let folder = &note.result;
    if !is_result(folder) {
        return Err(Failure::invalid_use(format!(
            "'{}' is not a result folder; 'fsdyno list results' lists them",
            folder.display()
        )));
    }
    match About::requested(folder, note.name.as_deref(), note.note.as_deref())? {
        Some(about) => {
            about.store(folder)?;
            say(&format!("fsdyno: {}: {about}", folder.display()));
        }
        None => {
            let listing = Listing { limit: output::limit(), ..list::about(folder)? };
            output::print(&listing, note.format)?;
        }
    }
    Ok(Exit::Success)
}
