//! Writes the page of `--html`.

use std::path::Path;

use fsdyno_campaign::files::write_file;

use crate::exit::Failure;
use crate::output::{self, say};

/// Writes the page of `--html`. Returns true if it went to standard output, where it replaces the table.
pub fn write_page(path: &Path, page: &str) -> Result<bool, Failure> {
    if path == Path::new("-") {
        output::write_data(page)?;
        return Ok(true);
    }
    write_file(path, page)?;
    say(&format!("report: {}", path.display()));
    Ok(false)
}
