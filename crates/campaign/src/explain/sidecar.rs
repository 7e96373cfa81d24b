//! Stores explanations with the trials, and adds them to the report of the result.

use std::io::Write;
use std::path::{Path, PathBuf};

use fsdyno_record::Trial;
use fsdyno_record::lines::FILE as TRIALS;
use fsdyno_report::Basis;
use fsdyno_report::why::read_why;
use fsdyno_why::StoredExplanation;
use fsdyno_why::stored::FILE;

use crate::notes::say;
use crate::{Failure, ShareFile, results};

/// The file of explanations in a result folder.
pub struct Sidecar {
    folder: PathBuf,
    /// True once an explanation is stored.
    has_stored: bool,
}

impl Sidecar {
    /// Opens the file in a result folder of `fsdyno run`, which contains `trials.ndjson`; returns `None` for any other
    /// folder, which is not written to. Reads the file, so that an unreadable one is reported before any work.
    pub fn of(result: &Path) -> Result<Option<Sidecar>, Failure> {
        let Some(folder) = folder_of(result) else {
            say(&format!(
                "fsdyno: '{}' is not a folder with {TRIALS}, so the explanation will not be stored",
                result.display()
            ));
            return Ok(None);
        };
        let (_, torn) = read_why(&folder)?;
        torn.iter().for_each(|torn| say(&format!("fsdyno: {torn}")));
        Ok(Some(Sidecar { folder, has_stored: false }))
    }

    /// Stores an explanation, replacing an older one of the same trial. An unwritable folder is not an error, because
    /// the explanation is shown in any case.
    pub fn add(&mut self, explanation: StoredExplanation) -> Result<(), Failure> {
        // Read again each time: a trial takes minutes, and another process may have stored something since.
        let (mut all, _) = read_why(&self.folder)?;
        all.retain(|old| !explanation.replaces(old));
        all.push(explanation);
        match write(&self.folder, &all) {
            Ok(()) => self.has_stored = true,
            Err(error) => say(&format!(
                "fsdyno: explanation not stored: failed to write '{}': {error}",
                self.folder.join(FILE).display()
            )),
        }
        Ok(())
    }

    /// Rewrites the result's report if an explanation was stored, and reports the baseline of its ratios.
    pub fn rewrite_report(&self, result: &Path, basis: Basis<'_>) -> Result<(), Failure> {
        if !self.has_stored {
            return Ok(());
        }
        let loaded = fsdyno_report::load([result])?;
        let mut trials = loaded.trials;
        crate::drop_superseded(&mut trials, &loaded.ends);
        results::in_order(&mut trials);
        let baseline =
            basis.baseline.map(String::from).or_else(|| shard_baseline(&self.folder, &trials));
        let basis = Basis { baseline: baseline.as_deref(), ..basis };
        let page = results::write_page(&self.folder, &trials, basis)?;
        let baseline =
            baseline.unwrap_or_else(|| "the fastest; to change it use --baseline".into());
        say(&format!("report: {} (baseline: {baseline})", page.display()));
        Ok(())
    }
}

/// Returns the result folder, given as such or by its trials.ndjson; `None` if it is not from `fsdyno run`.
fn folder_of(result: &Path) -> Option<PathBuf> {
    if result.is_dir() {
        return result.join(TRIALS).is_file().then(|| result.to_path_buf());
    }
    (result.file_name()? == TRIALS).then(|| result.parent().map(Path::to_path_buf)).flatten()
}

/// Returns the baseline of the command that ran a shard of the trials, if it is one of their labels.
fn shard_baseline(folder: &Path, trials: &[Trial]) -> Option<String> {
    let label = ShareFile::read(folder).ok().flatten()?.baseline?;
    trials.iter().any(|trial| trial.plan.label == label).then_some(label)
}

/// Writes the file atomically.
fn write(folder: &Path, all: &[StoredExplanation]) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    for explanation in all {
        serde_json::to_writer(&mut bytes, explanation)?;
        bytes.push(b'\n');
    }
    fsdyno_media::file::write(&folder.join(FILE), |file| file.write_all(&bytes))
}

#[cfg(test)]
mod tests {
    use fsdyno_why::Explained;

    use super::*;

    fn explanation(id: &str) -> StoredExplanation {
        let it = Explained { trial_id: id.into(), ..Explained::default() };
        StoredExplanation { schema: fsdyno_record::SCHEMA, explained: it, baseline: None }
    }

    #[test]
    fn only_the_folder_of_a_run_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let (records, trials) = (folder.path().join("mine.ndjson"), folder.path().join(TRIALS));
        std::fs::write(&records, "").unwrap();
        assert_eq!((folder_of(&records), folder_of(folder.path())), (None, None));
        std::fs::write(&trials, "").unwrap();
        assert_eq!(folder_of(&records), None, "records of another name, in any folder");
        for result in [folder.path(), &trials] {
            assert_eq!(folder_of(result).as_deref(), Some(folder.path()));
        }
    }

    #[test]
    fn each_explanation_is_stored_at_once_and_those_of_other_trials_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(TRIALS), "").unwrap();
        let mut sidecar = Sidecar::of(folder.path()).unwrap().unwrap();
        let ids = || -> Vec<String> {
            let (all, _) = read_why(folder.path()).unwrap();
            all.into_iter().map(|stored| stored.explained.trial_id).collect()
        };
        for (add, stored) in [("a", &["a"][..]), ("b", &["a", "b"]), ("a", &["b", "a"])] {
            sidecar.add(explanation(add)).unwrap();
            assert_eq!(ids(), stored);
        }
        std::fs::write(folder.path().join(FILE), "broken\n{}\n").unwrap();
        assert!(Sidecar::of(folder.path()).is_err(), "refused before any work");
    }
}
