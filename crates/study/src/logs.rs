//! The logs of requests that go with merged trials: copied beside them, none ever written over.

use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use fsdyno_media::file;
use fsdyno_record::Trial;
use fsdyno_record::bounded::{self, Bounded, LOGS};
use fsdyno_venue::request_log;

use crate::merge::MergeError;

/// A log that is to be copied.
#[derive(Debug)]
pub struct Copy {
    from: PathBuf,
    to: PathBuf,
}

/// What has to be copied so that the log of `trial`, which lies in the folder `from`, is in `out` too;
/// nothing if it has none or is there. A log that is gone is no longer said to be there.
///
/// # Errors
/// Another log has its place; a file cannot be read.
pub fn plan(trial: &mut Trial, from: &Path, out: &Path) -> Result<Option<Copy>, MergeError> {
    if trial.host.log.is_none() {
        return Ok(None);
    }
    // The name follows from the trial; what a line of a file says is no path to write to.
    let name = request_log::name(&trial.trial_id);
    let (from, to) = (from.join(&name), out.join(&name));
    if !from.is_file() {
        trial.host.log = None;
        return Ok(None);
    }
    trial.host.log = Some(name);
    if !to.exists() {
        return Ok(Some(Copy { from, to }));
    }
    let failed = |source| MergeError::Log { what: "read", path: to.clone(), source };
    match same(&from, &to).map_err(failed)? {
        true => Ok(None),
        false => Err(MergeError::OtherLog { there: to, of: from }),
    }
}

impl Copy {
    /// Copies it; under its own name it is always whole.
    ///
    /// # Errors
    /// What the file system says.
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

fn same(a: &Path, b: &Path) -> io::Result<bool> {
    let (a, b) = (bounded::open(a)?, bounded::open(b)?);
    if a.metadata()?.len() != b.metadata()?.len() {
        return Ok(false);
    }
    let mut pairs = BufReader::new(a).bytes().zip(BufReader::new(b).bytes());
    pairs.try_fold(true, |same, (one, other)| Ok(same && one? == other?))
}
