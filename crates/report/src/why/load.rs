//! Reads the explanations stored in result folders.

use std::io::ErrorKind;
use std::path::Path;

use fsdyno_record::Trial;
use fsdyno_record::bounded::RECORDS;
use fsdyno_record::lines::{self, LinesOf, ReadError};
use fsdyno_why::StoredExplanation;
use fsdyno_why::stored::FILE;

use crate::load::{LoadError, Torn};

/// Reads the explanations of `trials` in result folders; a path to a file of records stands for its folder. Those of
/// other trials, such as superseded ones, are skipped. A folder without explanations yields none. One torn last line of
/// each file is skipped and reported.
///
/// # Errors
/// A file that cannot be read, a bad line that is not a torn last one, a newer schema.
pub fn load_why<P: AsRef<Path>>(
    paths: impl IntoIterator<Item = P>,
    trials: &[Trial],
) -> Result<(Vec<StoredExplanation>, Vec<Torn>), LoadError> {
    let (mut explanations, mut torn) = (Vec::new(), Vec::new());
    for path in paths {
        let path = path.as_ref();
        let folder = if path.is_dir() { path } else { path.parent().unwrap_or(path) };
        let (found, torn_line) = read_why(folder)?;
        let is_requested = |explanation: &StoredExplanation| {
            let explained = &explanation.explained;
            trials.iter().any(|trial| {
                (&trial.trial_id, &trial.lab_id) == (&explained.trial_id, &explained.lab_id)
                    && trial.plan.label == explained.plan_label
            })
        };
        explanations.extend(found.into_iter().filter(is_requested));
        torn.extend(torn_line);
    }
    Ok((explanations, torn))
}

/// Reads all explanations in a folder, of any trials.
///
/// # Errors
/// As [`load_why`].
pub fn read_why(folder: &Path) -> Result<(Vec<StoredExplanation>, Option<Torn>), LoadError> {
    let file = folder.join(FILE);
    let source = match crate::compressed::open(&file, &RECORDS) {
        Ok(opened) => opened,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok((Vec::new(), None)),
        Err(error) => return Err(LoadError::of(&file, ReadError::Io(error))),
    };
    let lines: LinesOf<StoredExplanation> =
        lines::read_from(source, Some).map_err(|error| LoadError::of(&file, error))?;
    Ok((lines.records, lines.torn.map(|line| Torn { file, line })))
}
