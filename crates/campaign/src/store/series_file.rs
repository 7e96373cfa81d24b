//! `series.ndjson`: the time series of the phases of each successful trial.
//!
//! A trial's series are written before the trial itself, so a crash in between leaves series of an unfinished trial.
//! These are last in the file, and are removed when the folder is opened again: after a crash, the file gets the same
//! contents as without one. A folder without any series has no such file.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use fsdyno_media::file;
use fsdyno_record::bounded;
use fsdyno_record::lines::{LinesOf, read_file};
use fsdyno_record::series::{FILE, Series};
use fsdyno_record::trial::{Outcome, Trial};

use super::{StoreError, io, unread};

/// The series file of a folder that is locked through its trials file.
#[derive(Debug)]
pub struct SeriesFile {
    path: PathBuf,
    file: Option<File>,
    length: u64,
}

impl SeriesFile {
    /// Opens the file if it exists, and removes series that belong to no trial.
    ///
    /// # Errors
    /// The file was not written by fsdyno, and is left unchanged; or an I/O error.
    pub fn open(folder: &Path, trials: &[Trial]) -> Result<SeriesFile, StoreError> {
        let path = folder.join(FILE);
        let Some(lines) = read_if_present(&path)? else {
            return Ok(SeriesFile { path, file: None, length: 0 });
        };
        let has_trial = |series: &&Series| trials.iter().any(|trial| belongs(series, trial));
        // A crash can leave series without a trial only at the end of the file.
        let last = lines.records.iter().rposition(|series| has_trial(&series));
        let length = last.map_or(0, |last| lines.ends[last]) as u64;
        let mut file = file::append(&path, false).map_err(io("write", &path))?;
        if length < file.metadata().map_err(io("read", &path))?.len() {
            file.set_len(length).map_err(io("truncate", &path))?;
        }
        let mut series = SeriesFile { path: path.clone(), file: None, length };
        let mut last_byte = *b"\n";
        if length > 0 {
            file.read_exact_at(&mut last_byte, length - 1).map_err(io("read", &path))?;
        }
        if last_byte != *b"\n" {
            file.write_all(b"\n").map_err(io("append a newline to", &path))?;
            series.length += 1;
        }
        series.file = Some(file);
        Ok(series)
    }

    /// Appends a trial's series and waits until they are persisted.
    ///
    /// # Errors
    /// An I/O error; a partly written line is removed.
    pub fn append(&mut self, series: &Series) -> Result<(), StoreError> {
        let line = to_line(&self.path, series)?;
        let file = match self.file.take() {
            Some(file) => file,
            None => file::append(&self.path, true).map_err(io("write", &self.path))?,
        };
        let file = self.file.insert(file);
        let written = file.write_all(&line).and_then(|()| file.sync_data());
        if let Err(error) = written {
            let _ = file.set_len(self.length);
            return Err(io("write", &self.path)(error));
        }
        self.length += line.len() as u64;
        Ok(())
    }

    /// Replaces all series atomically and durably.
    ///
    /// # Errors
    /// An I/O error; the old series are unchanged.
    pub fn replace(&mut self, all: &[Series]) -> Result<(), StoreError> {
        if all.is_empty() && self.file.is_none() {
            return Ok(());
        }
        let mut bytes = Vec::new();
        for series in all {
            bytes.extend(to_line(&self.path, series)?);
        }
        let written = file::write(&self.path, |file| file.write_all(&bytes));
        written.map_err(io("replace", &self.path))?;
        self.file = Some(file::append(&self.path, false).map_err(io("write", &self.path))?);
        self.length = bytes.len() as u64;
        Ok(())
    }

    /// Returns all series.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(&self) -> Result<Vec<Series>, StoreError> {
        Ok(read_if_present(&self.path)?.unwrap_or_default().records)
    }

    /// Removes the file.
    pub fn remove(&self) {
        let _ = file::remove(&self.path);
    }
}

/// Reads the series of a folder that another process may be writing to.
///
/// # Errors
/// The file cannot be read.
pub fn read(folder: &Path) -> Result<Vec<Series>, StoreError> {
    SeriesFile { path: folder.join(FILE), file: None, length: 0 }.read()
}

/// Returns whether series belong to a trial: only those of successful trials are kept.
pub fn belongs(series: &Series, trial: &Trial) -> bool {
    trial.outcome == Outcome::Ok && series.belongs_to(trial)
}

/// Reads the file; `None` if there is none.
fn read_if_present(path: &Path) -> Result<Option<LinesOf<Series>>, StoreError> {
    match bounded::open(path) {
        Ok(file) => read_file(file, Some).map(Some).map_err(|error| unread(path, error)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io("read", path)(error)),
    }
}

fn to_line(path: &Path, series: &Series) -> Result<Vec<u8>, StoreError> {
    let line = serde_json::to_vec(series);
    let mut line = line.map_err(|error| io("write", path)(std::io::Error::other(error)))?;
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use fsdyno_record::Nanos;
    use fsdyno_record::series::PhaseSeries;

    use super::*;
    use crate::store::Store;
    use crate::store::tests::trial;

    fn successful_trial(id: &str) -> Trial {
        trial(id, Outcome::Ok)
    }

    fn series(id: &str) -> Series {
        let phase = PhaseSeries {
            name: "create".into(),
            interval_ns: Nanos(10_000_000),
            length_ns: Nanos(15_000_000),
            ops: vec![3, 4],
            ..PhaseSeries::default()
        };
        Series::new(&successful_trial(id), vec![phase]).unwrap()
    }

    fn text(folder: &Path) -> String {
        std::fs::read_to_string(folder.join(FILE)).unwrap()
    }

    /// Returns the series file of an uninterrupted run of two trials, and that of a run that stopped before its second
    /// trial was stored, was damaged by `harm`, and was resumed.
    fn resume_after(harm: impl Fn(&Path)) -> (String, String) {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(folder.path()).unwrap();
        store.append(successful_trial("one"), Some(series("one"))).unwrap();
        let trials = std::fs::read(folder.path().join(fsdyno_record::lines::FILE)).unwrap();
        store.append(successful_trial("two"), Some(series("two"))).unwrap();
        drop(store);
        let uninterrupted = text(folder.path());
        // The second trial is not stored yet.
        std::fs::write(folder.path().join(fsdyno_record::lines::FILE), trials).unwrap();
        harm(folder.path());
        let mut store = Store::open(folder.path()).unwrap();
        store.append(successful_trial("two"), Some(series("two"))).unwrap();
        (uninterrupted, text(folder.path()))
    }

    #[test]
    fn series_of_an_unfinished_trial_are_written_only_once() {
        let (uninterrupted, resumed) = resume_after(|_| {});
        assert_eq!(uninterrupted, resumed);
        assert_eq!(uninterrupted.lines().count(), 2);
        let cut = |by: usize| {
            move |folder: &Path| {
                let text = text(folder);
                std::fs::write(folder.join(FILE), &text[..text.len() - by]).unwrap();
            }
        };
        // Cuts off the newline alone, parts of the last line, the whole line, and one byte more.
        let length = uninterrupted.lines().last().unwrap().len();
        for by in [1, 2, length / 2, length - 1, length, length + 1] {
            let (uninterrupted, resumed) = resume_after(cut(by));
            assert_eq!(uninterrupted, resumed, "{by} bytes cut");
        }
    }

    #[test]
    fn a_folder_gets_the_file_with_its_first_series() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(folder.path()).unwrap();
        store.append(trial("bad", Outcome::Failed), None).unwrap();
        assert!(!folder.path().join(FILE).exists());
        store.append(successful_trial("one"), Some(series("one"))).unwrap();
        assert_eq!(store.series().unwrap(), [series("one")]);
        store.replace(vec![successful_trial("two")], &[series("two")]).unwrap();
        assert_eq!(read(folder.path()).unwrap(), [series("two")]);
        store.append(successful_trial("one"), Some(series("one"))).unwrap();
        assert_eq!(store.series().unwrap(), [series("two"), series("one")]);
    }

    #[test]
    fn a_foreign_file_is_left_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        drop(Store::open(folder.path()).unwrap());
        std::fs::write(folder.path().join(FILE), "mine\n").unwrap();
        let error = Store::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains("series.ndjson' line 1 is not"), "{error}");
        assert_eq!(text(folder.path()), "mine\n");
    }
}
