//! The result folder: `trials.ndjson`, with a line for each trial, written when the trial ends, and `series.ndjson`.
//!
//! Every line is persisted before the next trial starts. A line torn by a crash is removed before the next one is
//! written; any other unreadable line means that fsdyno did not write the file, which is left unchanged.

mod error;
pub mod series_file;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use fsdyno_media::{NewFolder, file};
use fsdyno_record::bounded;
use fsdyno_record::lines::{FILE, Lines, read_file};
use fsdyno_record::series::{self, Series};
use fsdyno_record::trial::{Outcome, Trial};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use series_file::SeriesFile;

pub use error::StoreError;
pub(crate) use error::{io, unread};

/// Name of the page of a result folder.
pub const PAGE: &str = "report.html";

/// Name of the file of a share's schedule.
pub const SCHEDULE: &str = "schedule.json";

/// Name of the file with the name and the note of a result.
pub const ABOUT: &str = "result.json";

/// Names of the files that a run may write into its folder.
const OURS: [&str; 5] = [FILE, series::FILE, SCHEDULE, PAGE, ABOUT];

/// Names of files that may remain in a folder whose trials were removed: useless without the trials, and never
/// the user's own.
const WITHOUT_TRIALS: [&str; 3] = [series::FILE, fsdyno_why::stored::FILE, ABOUT];

/// A result folder that is open for writing, locked against other runs.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    file: File,
    length: u64,
    trials: Vec<Trial>,
    series: SeriesFile,
    torn: Option<usize>,
    created: Vec<NewFolder>,
}

impl Store {
    /// Opens a result folder, or creates it.
    ///
    /// # Errors
    /// The reason why results cannot be stored there; nothing has been changed.
    pub fn open(folder: &Path) -> Result<Store, StoreError> {
        let created = prepare(folder)?;
        let path = folder.join(FILE);
        let file = file::append(&path, true).map_err(io("write", &path))?;
        lock(&file, folder, FILE)?;
        bounded::check_regular(&file).map_err(io("read", &path))?;
        let lines: Lines = read_file(&file, Some).map_err(|error| unread(&path, error))?;
        let Lines { records: trials, valid_length, is_unterminated, torn, .. } = lines;
        let length = file.metadata().map_err(io("read", &path))?.len() as usize;
        let torn = torn.map(|_| length.saturating_sub(valid_length));
        let series = SeriesFile::open(folder, &trials)?;
        let (folder, length) = (folder.into(), valid_length as u64);
        let mut store = Store { folder, file, length, trials, series, torn, created };
        if torn.is_some() {
            store.file.set_len(store.length).map_err(io("remove the torn line of", &path))?;
        }
        if is_unterminated && torn.is_none() {
            store.file.write_all(b"\n").map_err(io("end the last line of", &path))?;
            store.length += 1;
        }
        Ok(store)
    }

    /// Reads the trials of a result folder without creating or changing anything. There are none if it does not exist.
    ///
    /// # Errors
    /// The error of [`Store::open`].
    pub fn read_trials(folder: &Path) -> Result<Vec<Trial>, StoreError> {
        let exists = folder_exists(folder)?;
        file::check_folder(folder)
            .map_err(io(if exists { "write in" } else { "create" }, folder))?;
        let path = folder.join(FILE);
        match file::append(&path, false) {
            Ok(file) => {
                bounded::check_regular(&file).map_err(io("read", &path))?;
                let lines: Lines = read_file(file, Some).map_err(|error| unread(&path, error))?;
                Ok(lines.records)
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(io("write", &path)(error)),
        }
    }

    /// Appends a trial with its time series, and waits until it is persisted.
    ///
    /// # Errors
    /// An I/O error; a partly written line is removed.
    pub fn append(&mut self, trial: Trial, series: Option<Series>) -> Result<(), StoreError> {
        if let Some(series) = &series {
            self.series.append(series)?;
        }
        let path = self.folder.join(FILE);
        let mut line = serde_json::to_vec(&trial)
            .map_err(|error| io("write", &path)(std::io::Error::other(error)))?;
        line.push(b'\n');
        let written = self.file.write_all(&line).and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            let _ = self.file.set_len(self.length);
            let _ = self.file.seek(SeekFrom::Start(self.length));
            return Err(io("write", &path)(error));
        }
        self.length += line.len() as u64;
        self.trials.push(trial);
        Ok(())
    }

    /// Replaces all trials atomically and durably, after their series.
    ///
    /// # Errors
    /// An I/O error; the old trials are unchanged.
    pub fn replace(&mut self, trials: Vec<Trial>, series: &[Series]) -> Result<(), StoreError> {
        self.series.replace(series)?;
        let path = self.folder.join(FILE);
        let mut bytes = Vec::new();
        for trial in &trials {
            serde_json::to_writer(&mut bytes, trial)
                .map_err(|error| io("write", &path)(std::io::Error::other(error)))?;
            bytes.push(b'\n');
        }
        self.file = replace_locked(&path, &bytes).map_err(io("replace", &path))?;
        self.length = bytes.len() as u64;
        self.trials = trials;
        Ok(())
    }

    /// Returns the time series of the successful trials that have any.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn series(&self) -> Result<Vec<Series>, StoreError> {
        self.series.read()
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns all trials, including those of earlier runs, in the order in which they ended.
    pub fn trials(&self) -> &[Trial] {
        &self.trials
    }

    /// Returns the number of bytes of a torn last line that were removed when the store was opened.
    pub fn torn(&self) -> Option<usize> {
        self.torn
    }

    /// Returns whether a trial succeeded and need not run again. The trial's identity does not include
    /// the label, and a different label is a different row.
    pub fn has(&self, trial_id: &str, label: &str) -> bool {
        let is_same = |trial: &&Trial| trial.trial_id == trial_id && trial.plan.label == label;
        self.trials.iter().filter(is_same).any(|trial| trial.outcome == Outcome::Ok)
    }

    /// Removes the store's files and the folders that it created, if nothing was stored.
    pub fn discard_if_empty(self) {
        if self.trials.is_empty() && self.length == 0 {
            self.series.remove();
            let _ = file::remove(&self.folder.join(FILE));
            let _ = file::remove(&self.folder.join(SCHEDULE));
            let _ = file::remove(&self.folder.join(ABOUT));
            for folder in self.created.iter().rev() {
                let _ = folder.remove();
            }
        }
    }
}

/// Locks the file of a result folder against other runs.
///
/// # Errors
/// [`StoreError::InUse`] if another run has locked or replaced it.
pub(crate) fn lock(file: &File, folder: &Path, name: &str) -> Result<(), StoreError> {
    let locked = flock(file, FlockOperation::NonBlockingLockExclusive);
    // Another run may have replaced the file before it was locked.
    match locked == Err(Errno::AGAIN) || !file::refers_to(file, &folder.join(name)) {
        true => Err(StoreError::InUse(folder.into())),
        false => Ok(()),
    }
}

/// Replaces a locked file atomically with a new file that is also locked.
///
/// # Errors
/// An I/O error; the old file is unchanged.
pub(crate) fn replace_locked(path: &Path, bytes: &[u8]) -> std::io::Result<File> {
    let mut new_file = None;
    file::write(path, |file| {
        // Locked before it becomes visible. Without support for locks, the old file was not locked either.
        let _ = flock(&*file, FlockOperation::NonBlockingLockExclusive);
        new_file = Some(file.try_clone()?);
        file.write_all(bytes)
    })?;
    new_file.ok_or_else(|| std::io::Error::other("it was not written"))
}

/// Returns the trials of one folder that are not superseded: a failed or skipped trial is superseded by a successful
/// trial of the same row and seed, or by a later unsuccessful one.
pub fn without_superseded(trials: &[Trial]) -> Vec<Trial> {
    let current = trials.iter().zip(are_current(trials, &[])).filter(|(_, is_current)| *is_current);
    current.map(|(trial, _)| trial.clone()).collect()
}

/// Removes superseded trials in place, without copying the list. `ends` contains the end of each result folder's
/// trials. In the lab, a trial in one folder may supersede a failure in another. On a host, another folder is
/// another run, perhaps on another host, and a failure is superseded only within its own folder.
pub fn drop_superseded(trials: &mut Vec<Trial>, ends: &[usize]) {
    let mut is_current = are_current(trials, ends).into_iter();
    trials.retain(|_| is_current.next().unwrap_or(true));
}

/// Returns, for each trial, true if it is not superseded.
fn are_current(trials: &[Trial], ends: &[usize]) -> Vec<bool> {
    let mut indices: BTreeMap<(&str, &str), Vec<usize>> = BTreeMap::new();
    for (index, trial) in trials.iter().enumerate() {
        indices.entry((&trial.trial_id, &trial.plan.label)).or_default().push(index);
    }
    let ok = |trial: &Trial| trial.outcome == Outcome::Ok;
    let folder = |index: usize| ends.partition_point(|end| *end <= index);
    let is_current = |(index, trial): (usize, &Trial)| {
        let same_trial = indices.get(&(trial.trial_id.as_str(), trial.plan.label.as_str()));
        let supersedes = |other: &usize| {
            let later = &trials[*other];
            let repeats = trial.is_bit_identical() || later.is_bit_identical();
            // Of several failures, the last one is kept.
            (ok(later) || *other > index)
                && same_slot(trial, later)
                && (repeats || folder(*other) == folder(index))
        };
        ok(trial) || !same_trial.into_iter().flatten().any(supersedes)
    };
    trials.iter().enumerate().map(is_current).collect()
}

/// Returns whether two trials have the same slot in a table. A trial that failed before its lab was known matches
/// any lab.
fn same_slot(a: &Trial, b: &Trial) -> bool {
    let labs = (&a.lab_id, &b.lab_id);
    a.trial_id == b.trial_id
        && a.plan.label == b.plan.label
        && (labs.0 == labs.1 || labs.0.is_none() || labs.1.is_none())
}

/// Creates the folder if necessary; returns the created folders, outermost first.
fn prepare(folder: &Path) -> Result<Vec<NewFolder>, StoreError> {
    match folder_exists(folder)? {
        true => Ok(Vec::new()),
        false => file::make_folder(folder).map_err(io("create", folder)),
    }
}

/// Returns whether the folder exists; refuses a folder with other contents.
fn folder_exists(folder: &Path) -> Result<bool, StoreError> {
    match std::fs::metadata(folder) {
        Ok(meta) if !meta.is_dir() => Err(StoreError::NotAFolder(folder.into())),
        Ok(_) => {
            for name in OURS {
                let path = folder.join(name);
                file::check_writable(&path).map_err(io("write", &path))?;
            }
            let entries = std::fs::read_dir(folder).map_err(io("read", folder))?;
            let foreign = |name: std::ffi::OsString| !WITHOUT_TRIALS.iter().any(|it| name == *it);
            if !folder.join(FILE).exists() && entries.flatten().any(|it| foreign(it.file_name())) {
                return Err(StoreError::Foreign(folder.into()));
            }
            Ok(true)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) if error.kind() == ErrorKind::NotADirectory => {
            Err(StoreError::NotAFolder(folder.into()))
        }
        Err(error) => Err(io("read", folder)(error)),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use fsdyno_record::plan::{MediumPlan, VenuePlan, VerifyMode, WorkloadPlan};
    use fsdyno_record::{Plan, SCHEMA};

    use super::*;

    pub(crate) fn trial(id: &str, outcome: Outcome) -> Trial {
        let workload =
            WorkloadPlan { name: "dirops".into(), params: Default::default(), input: None };
        Trial {
            schema: SCHEMA,
            trial_id: id.into(),
            lab_id: None,
            lab: Default::default(),
            seed: 1,
            repeats: None,
            version: "0".into(),
            row: None,
            deadline_ns: None,
            outcome,
            reason: None,
            plan: Plan {
                label: "x".into(),
                workload,
                filesystem: None,
                medium: MediumPlan::Directory { path: "/x".into() },
                venue: VenuePlan::Host,
                threads: 1,
                issuer: fsdyno_record::plan::IssuerPlan::Sync,
                verify: VerifyMode::Full,
                sysctls: Default::default(),
                hash: "h".into(),
            },
            conditions: Default::default(),
            measured: Default::default(),
            host: Default::default(),
        }
    }

    #[test]
    fn reading_a_folder_refuses_what_opening_refuses_and_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mine = folder.path().join("mine");
        std::fs::write(&mine, "the user's").unwrap();
        for invalid in [folder.path(), &mine, &mine.join("below")] {
            let opened = Store::open(invalid).unwrap_err().to_string();
            assert_eq!(Store::read_trials(invalid).unwrap_err().to_string(), opened);
        }
        let new = folder.path().join("a/b");
        assert_eq!(Store::read_trials(&new).unwrap(), []);
        assert!(!folder.path().join("a").exists());
    }

    #[test]
    fn stored_trials_are_read_when_the_folder_is_opened_again() {
        let base = tempfile::tempdir().unwrap();
        let folder = base.path().join("a/b");
        let mut store = Store::open(&folder).unwrap();
        store.append(trial("one", Outcome::Ok), None).unwrap();
        store.append(trial("two", Outcome::Failed), None).unwrap();
        drop(store);
        let again = Store::open(&folder).unwrap();
        assert_eq!(again.trials().len(), 2);
        assert!(again.has("one", "x") && !again.has("two", "x") && !again.has("one", "y"));
    }

    #[test]
    fn a_torn_last_line_is_removed_and_reported() {
        let base = tempfile::tempdir().unwrap();
        let mut store = Store::open(base.path()).unwrap();
        store.append(trial("one", Outcome::Ok), None).unwrap();
        drop(store);
        let path = base.path().join(FILE);
        let contents = std::fs::read(&path).unwrap();
        std::fs::write(&path, [&contents[..], b"{\"schema\":1,\"tri"].concat()).unwrap();
        let mut store = Store::open(base.path()).unwrap();
        assert_eq!(store.torn(), Some(16));
        store.append(trial("two", Outcome::Ok), None).unwrap();
        drop(store);
        assert_eq!(Store::open(base.path()).unwrap().trials().len(), 2);
    }

    #[test]
    fn a_last_line_without_a_newline_is_completed() {
        let base = tempfile::tempdir().unwrap();
        let mut store = Store::open(base.path()).unwrap();
        store.append(trial("one", Outcome::Ok), None).unwrap();
        drop(store);
        let path = base.path().join(FILE);
        let contents = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, contents.trim_end()).unwrap();
        let mut store = Store::open(base.path()).unwrap();
        assert_eq!((store.torn(), store.trials().len()), (None, 1));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), contents);
        store.append(trial("two", Outcome::Ok), None).unwrap();
        drop(store);
        assert_eq!(Store::open(base.path()).unwrap().trials().len(), 2);
    }

    #[test]
    fn a_foreign_folder_or_file_is_left_unchanged() {
        let base = tempfile::tempdir().unwrap();
        std::fs::write(base.path().join("thesis"), "mine").unwrap();
        assert!(matches!(Store::open(base.path()), Err(StoreError::Foreign(_))));
        let file = base.path().join("thesis");
        assert!(matches!(Store::open(&file), Err(StoreError::NotAFolder(_))));
        assert!(matches!(Store::open(&file.join("x")), Err(StoreError::NotAFolder(_))));
        let other = tempfile::tempdir().unwrap();
        for text in ["not ours\n", "not ours", "{}\n{}\n", "{\"mine\": [1,2,3]}", "{\"mine\": [1"] {
            std::fs::write(other.path().join(FILE), text).unwrap();
            let error = Store::open(other.path()).unwrap_err();
            assert!(matches!(error, StoreError::BadLine { line: 1, .. }), "{text}");
            assert_eq!(std::fs::read_to_string(other.path().join(FILE)).unwrap(), text);
        }
    }

    #[test]
    fn two_runs_never_write_to_one_folder() {
        let base = tempfile::tempdir().unwrap();
        let _first = Store::open(base.path()).unwrap();
        assert!(matches!(Store::open(base.path()), Err(StoreError::InUse(_))));
    }

    #[test]
    fn a_later_success_supersedes_a_failure() {
        let all = [
            trial("a", Outcome::Failed),
            trial("b", Outcome::Failed),
            trial("a", Outcome::Ok),
            trial("b", Outcome::Failed),
        ];
        let current = without_superseded(&all);
        let ids: Vec<&str> = current.iter().map(|trial| trial.trial_id.as_str()).collect();
        assert_eq!(ids, ["a", "b"]);
        let mut in_place = all.to_vec();
        drop_superseded(&mut in_place, &[4]);
        assert_eq!(in_place, current);
    }

    #[test]
    fn a_success_in_a_lab_supersedes_a_failure_without_one() {
        let in_lab =
            |id: &str, lab: &str, outcome| Trial { lab_id: Some(lab.into()), ..trial(id, outcome) };
        let all = [trial("a", Outcome::Failed), in_lab("a", "here", Outcome::Ok)];
        assert_eq!(without_superseded(&all), all[1..]);
        let two_labs = [in_lab("a", "there", Outcome::Failed), in_lab("a", "here", Outcome::Ok)];
        assert_eq!(without_superseded(&two_labs), two_labs);
        let mut other_row = trial("a", Outcome::Failed);
        other_row.plan.label = "y".into();
        let two_rows = [other_row, in_lab("a", "here", Outcome::Ok)];
        assert_eq!(without_superseded(&two_rows), two_rows);
    }

    #[test]
    fn a_success_on_one_host_does_not_supersede_a_failure_on_another() {
        let two = [trial("a", Outcome::Failed), trial("a", Outcome::Ok)];
        let remaining = |ends: &[usize], lab: Option<&str>| {
            let mut trials = two.to_vec();
            trials.iter_mut().for_each(|trial| trial.lab_id = lab.map(String::from));
            drop_superseded(&mut trials, ends);
            trials.len()
        };
        assert_eq!((remaining(&[2], None), remaining(&[1, 2], None)), (1, 2));
        assert_eq!((remaining(&[2], Some("here")), remaining(&[1, 2], Some("here"))), (1, 1));
    }

    #[test]
    fn a_folder_created_without_results_is_removed() {
        let base = tempfile::tempdir().unwrap();
        let folder = base.path().join("new/deep");
        Store::open(&folder).unwrap().discard_if_empty();
        assert!(!base.path().join("new").exists() && base.path().exists());
    }
}
