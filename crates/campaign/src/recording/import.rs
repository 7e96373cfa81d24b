//! Imports what another tool recorded, and reports what was not understood.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use fsdyno_recorder::RecordError;
use fsdyno_recorder::import::{Format, ImportOptions};

use super::TraceFile;
use crate::Failure;
use crate::notes::say;

/// Imports a file into a trace.
///
/// # Errors
/// A file that cannot be read or is not in this format; a trace that cannot be written.
pub fn import(
    from: &Path,
    format: Format,
    options: &ImportOptions,
    out: &Path,
) -> Result<(), Failure> {
    if let Some(tree) = options.tree.as_ref().filter(|tree| !tree.is_absolute()) {
        let message = format!("--tree '{}' is not an absolute path", tree.display());
        return Err(Failure::invalid_use(message));
    }
    let opened = File::open(from).and_then(|file| {
        if file.metadata()?.is_dir() {
            return Err(std::io::ErrorKind::IsADirectory.into());
        }
        Ok(file)
    });
    let file = opened.map_err(|error| Failure::io("read", from, &error))?;
    let reader = BufReader::with_capacity(1 << 20, file);
    let (mut create_failure, mut trace) = (None, None);
    let create_out = || {
        let created = TraceFile::create(out).map_err(|failure| {
            let message = failure.message.clone();
            create_failure = Some(failure);
            std::io::Error::other(message)
        });
        trace.insert(created?).file()
    };
    let imported = fsdyno_recorder::import::import(format, reader, options, create_out);
    if let Some(failure) = create_failure {
        return Err(failure);
    }
    let name = from.display();
    let imported = imported.map_err(|error| match error {
        RecordError::Write(_) => Failure::from(error),
        error => Failure::invalid_use(format!("'{name}': {error}")),
    })?;
    trace.map(TraceFile::complete).transpose()?;
    let (events, lines, out) = (imported.events, imported.lines, out.display());
    say(&format!("fsdyno: {events} events of {lines} lines in '{out}'"));
    for (line, problem) in &imported.first {
        say(&format!("fsdyno: '{name}' line {line}: {problem}"));
    }
    for (note, count) in &imported.notes {
        say(&format!("fsdyno: {note}: {count}"));
    }
    Ok(())
}
