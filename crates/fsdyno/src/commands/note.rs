//! `fsdyno note`: names a result, or writes a note on it.

use std::path::Path;

use fsdyno_campaign::about::{About, check_free};
use fsdyno_describe::Listing;
use fsdyno_report::is_result;
use serde_json::json;

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
    match requested_about(folder, note.name.as_deref(), note.note.as_deref())? {
        Some(about) => {
            about.store(folder)?;
            say(&format!("fsdyno: {}: {}", folder.display(), describe(&about)));
        }
        None => output::print(&listing(folder, &About::read(folder)?), note.format)?,
    }
    Ok(Exit::Success)
}

/// Returns the name and the note that a result is to have; `None` if neither changes.
///
/// # Errors
/// Another result has the name, or the folder has a file that is not fsdyno's.
pub fn requested_about(
    folder: &Path,
    name: Option<&str>,
    note: Option<&str>,
) -> Result<Option<About>, Failure> {
    if name.is_none() && note.is_none() {
        return Ok(None);
    }
    if let Some(name) = name.filter(|name| !name.is_empty()) {
        check_free(name, folder)?;
    }
    About::read(folder).map(|about| Some(about.changed(name, note)))
}

fn describe(about: &About) -> String {
    match (&about.name, &about.note) {
        (None, None) => "no name and no note".into(),
        (Some(name), None) => format!("named {name}"),
        (None, Some(note)) => format!("noted: {note}"),
        (Some(name), Some(note)) => format!("named {name}; noted: {note}"),
    }
}

fn listing(folder: &Path, about: &About) -> Listing {
    let cell = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".into());
    let result = folder.display().to_string();
    Listing {
        heads: &["result", "name", "note"],
        rows: vec![vec![result.clone(), cell(&about.name), cell(&about.note)]],
        limit: output::limit(),
        value: Some(json!({"result": result, "name": about.name, "note": about.note})),
        ..Listing::default()
    }
}
