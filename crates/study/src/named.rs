//! Finds a study by its name or by the path of its file, and a result by its name or path.

use std::path::{Path, PathBuf};

use fsdyno_campaign::{Failure, about};
use fsdyno_record::shell::quote;

use crate::file::{FileError, StudyFile, TextError, catalog, read_text};
use crate::stored;

/// Reads and parses a study: one that comes with fsdyno, or a study file.
///
/// # Errors
/// An unknown name, or an invalid study file.
pub fn find_study(name: &str) -> Result<(String, StudyFile), Failure> {
    let folder = Path::new(name);
    if catalog::text(name).is_err() && folder.join(stored::FILE).is_file() {
        return Err(Failure::invalid_use(format!(
            "'{}' is the folder of a study; to report it: fsdyno report {}; to repeat some trials: --check N; to \
             repeat all of it: fsdyno study {}",
            folder.display(),
            quote(name),
            quote(&folder.join(stored::FILE).to_string_lossy())
        )));
    }
    let is_path = name.contains('/') || name.ends_with(".toml");
    if !is_path {
        let text = catalog::text(name)?;
        return Ok((text.to_string(), built_in(name)?));
    }
    let text = read_text(name)?;
    let file = StudyFile::parse(name, &text)?;
    Ok((text, file))
}

/// Parses a study that comes with fsdyno.
///
/// # Errors
/// An unknown name.
pub fn built_in(name: &str) -> Result<StudyFile, Failure> {
    let text = catalog::text(name)?;
    Ok(StudyFile::parse(catalog::file_name(name), text)?)
}

/// Returns true for the name of a study that comes with fsdyno.
pub fn is_built_in(name: &str) -> bool {
    catalog::names().contains(&name)
}

/// Returns the path of a result, given its path or name.
///
/// # Errors
/// No result has the name, or several results have it. The name of a study, which is not a result, gets a hint.
pub fn result_path(name: &Path) -> Result<PathBuf, Failure> {
    about::find(name).map_err(|failure| match name.to_str().filter(|name| is_built_in(name)) {
        Some(name) => Failure::invalid_use(format!(
            "'{name}' is a study, not a result: 'fsdyno show study {name}' has its stored verdicts, and 'fsdyno study \
             {name} --out FOLDER' runs it"
        )),
        None => failure,
    })
}

/// Converts errors that mean an invalid request to failures.
macro_rules! invalid_requests {
    ($($error:ty),*) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Failure {
                Failure::invalid_use(error.to_string())
            }
        }
    )*};
}

invalid_requests!(FileError, TextError, catalog::Unknown);
