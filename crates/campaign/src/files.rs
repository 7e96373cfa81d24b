//! Creates output folders and files.

use std::path::Path;

use crate::failure::Failure;

/// Creates an output folder.
///
/// # Errors
/// A folder that cannot be created.
pub fn make_folder(folder: &Path) -> Result<(), Failure> {
    let created = fsdyno_media::file::make_folder(folder).map(drop);
    created.map_err(|error| Failure::io("create", folder, &error))
}

/// Formats a value as indented JSON.
///
/// # Errors
/// A value that cannot be represented in JSON.
pub fn pretty(value: &impl serde::Serialize) -> Result<String, Failure> {
    serde_json::to_string_pretty(value)
        .map_err(|error| Failure::invalid_use(format!("failed to write JSON: {error}")))
}

/// Writes an output file atomically: completely or not at all.
///
/// # Errors
/// A file that cannot be written.
pub fn write_file(path: &Path, bytes: impl AsRef<[u8]>) -> Result<(), Failure> {
    fsdyno_media::file::write(path, |file| std::io::Write::write_all(file, bytes.as_ref()))
        .map_err(|error| Failure::io("write", path, &error))
}
