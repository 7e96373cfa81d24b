//! Reads the explanations stored in result folders.

use std::io::ErrorKind;
use std::path::Path;

use fsdyno_record::Trial;
use fsdyno_record::bounded::RECORDS;
use fsdyno_record::lines::{self, LinesOf, ReadError};
use fsdyno_why::StoredExplanation;
use fsdyno_why::stored::FILE;

use crate::load::{LoadError, Torn};

/// Reads the explanations in result folders, or in the folders of records; those of trials other than these
/// (superseded ones, say) are skipped. A folder without explanations yields none. One torn last line of each
/// file is skipped and reported.
///
/// # Errors
/// A file that cannot be read, a bad line that is not a torn last one, a newer schema.
pub fn load_why<P: AsRef<Path>>(
    paths: impl IntoIterator<Item = P>,
    trials: &[Trial],
) -> Result<(Vec<StoredExplanation>, Vec<Torn>), LoadError> {
    let (mut all, mut torn) = (Vec::new(), Vec::new());
    for path in paths {
        let path = path.as_ref();
        let folder = if path.is_dir() { path } else { path.parent().unwrap_or(path) };
        let (told, line) = read_why(folder)?;
        let known = |told: &StoredExplanation| {
            let it = &told.explained;
            trials.iter().any(|trial| {
                (&trial.trial_id, &trial.lab_id) == (&it.trial_id, &it.lab_id)
                    && trial.plan.label == it.plan_label
            })
        };
        all.extend(told.into_iter().filter(known));
        torn.extend(line);
    }
    Ok((all, torn))
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
