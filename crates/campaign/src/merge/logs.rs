//! Copies the request logs of merged trials without overwriting any.

use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use fsdyno_media::file;
use fsdyno_record::Trial;
use fsdyno_record::bounded::{self, Bounded, LOGS};
use fsdyno_venue::request_log;

use super::MergeError;

/// A log to be copied.
#[derive(Debug)]
pub struct LogCopy {
    from: PathBuf,
    to: PathBuf,
}

/// Returns the copy that adds the log of `trial` from its folder `from` to `out`; `None` if the trial has no log or
/// `out` already contains it. Removes the trial's reference to a log that is missing.
///
/// # Errors
/// A different log already has that name; a file cannot be read.
pub fn plan(trial: &mut Trial, from: &Path, out: &Path) -> Result<Option<LogCopy>, MergeError> {
    if trial.host.log.is_none() {
        return Ok(None);
    }
    // The name is derived from the trial, because the text in a record is not trusted as a path to write to.
    let name = request_log::name(&trial.trial_id);
    let (from, to) = (from.join(&name), out.join(&name));
    if !from.is_file() {
        trial.host.log = None;
        return Ok(None);
    }
    trial.host.log = Some(name);
    if !to.exists() {
        return Ok(Some(LogCopy { from, to }));
    }
    let failed = |source| MergeError::Log { what: "read", path: to.clone(), source };
    match have_equal_contents(&from, &to).map_err(failed)? {
        true => Ok(None),
        false => Err(MergeError::OtherLog { existing: to, log: from }),
    }
}

impl LogCopy {
    /// Copies the log completely or not at all.
    ///
    /// # Errors
    /// An I/O error.
    pub fn make(&self) -> Result<(), MergeError> {
        let copy = || -> io::Result<()> {
            file::make_folder(self.to.parent().unwrap_or(&self.to))?;
            let mut from = Bounded::new(bounded::open(&self.from)?, &LOGS);
            file::write(&self.to, |to| io::copy(&mut from, to).map(drop))
        };
        let failed = |source| MergeError::Log { what: "write", path: self.to.clone(), source };
        copy().map_err(failed)
    }
}

fn have_equal_contents(a: &Path, b: &Path) -> io::Result<bool> {
    let (a, b) = (bounded::open(a)?, bounded::open(b)?);
    if a.metadata()?.len() != b.metadata()?.len() {
        return Ok(false);
    }
    let mut pairs = BufReader::new(a).bytes().zip(BufReader::new(b).bytes());
    pairs.try_fold(true, |same, (one, other)| Ok(same && one? == other?))
}
