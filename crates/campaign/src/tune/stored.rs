//! Stores the result of a search in its folder, and reads it.

use std::path::Path;

use fsdyno_record::bounded::{self, RESULTS};
use fsdyno_report::tune::{FILE, Tuned};

use crate::files::{make_folder, pretty, write_file};
use crate::{Failure, store};

/// Reads the result of an earlier search from its folder, if there is one.
///
/// # Errors
/// A result that cannot be read.
pub fn stored(folder: &Path) -> Result<Option<Tuned>, Failure> {
    let path = folder.join(FILE);
    if !path.is_file() {
        return Ok(None);
    }
    let text = bounded::read_to_string(&path, &RESULTS).map_err(|error| error.to_string());
    let tuned = text.and_then(|text| Tuned::parse(&text));
    tuned.map(Some).map_err(|error| {
        Failure::invalid_use(format!(
            "failed to read '{}' as a result of fsdyno tune: {error}",
            path.display()
        ))
    })
}

/// Writes the result and its page.
///
/// # Errors
/// A file that cannot be written.
pub fn keep(folder: &Path, tuned: &Tuned) -> Result<(), Failure> {
    make_folder(folder)?;
    write_file(&folder.join(FILE), &(pretty(tuned)? + "\n"))?;
    write_file(&folder.join(store::PAGE), &fsdyno_report::tune_html(tuned)?)
}
