//! What was found out stays beside the trials, and stands in the page of their result.

use std::io::Write;
use std::path::{Path, PathBuf};

use fsdyno_record::Trial;
use fsdyno_record::lines::FILE as TRIALS;
use fsdyno_report::why::read_why;
use fsdyno_study::Share;
use fsdyno_why::StoredExplanation;
use fsdyno_why::stored::FILE;

use crate::cli::Why;
use crate::commands::report;
use crate::exit::Failure;
use crate::output::say;

/// Where the explanations of a result are kept.
pub struct Kept {
    folder: PathBuf,
    /// Whether any was.
    any: bool,
}

impl Kept {
    /// The folder of a result, if it is one of `fsdyno run`: it, or the file that is named, is or holds
    /// `trials.ndjson`. What lies beside records of another name is not ours to write. What is kept there already
    /// is read, so that a file that cannot be is told before any work.
    pub fn of(result: &Path) -> Result<Option<Kept>, Failure> {
        let Some(folder) = folder_of(result) else {
            say(&format!(
                "fsdyno: '{}' is no folder with {TRIALS}, so nothing will be kept of what is explained",
                result.display()
            ));
            return Ok(None);
        };
        let (_, torn) = read_why(&folder)?;
        torn.iter().for_each(|torn| say(&format!("fsdyno: {torn}")));
        Ok(Some(Kept { folder, any: false }))
    }

    /// Keeps an explanation, in place of an older one of the same trial. A folder that cannot be written is no
    /// error: what was asked has been shown.
    pub fn add(&mut self, told: StoredExplanation) -> Result<(), Failure> {
        // Read anew each time: a second pass takes minutes, and another may have kept something since.
        let (mut all, _) = read_why(&self.folder)?;
        all.retain(|old| !told.replaces(old));
        all.push(told);
        match store(&self.folder, &all) {
            Ok(()) => self.any = true,
            Err(error) => say(&format!(
                "fsdyno: not kept for the page: failed to write '{}': {error}",
                self.folder.join(FILE).display()
            )),
        }
        Ok(())
    }

    /// Writes the result's page anew, if anything was kept, and says what its ratios are to.
    pub fn page(&self, why: &Why) -> Result<(), Failure> {
        if !self.any {
            return Ok(());
        }
        let results = [&why.result];
        let loaded = fsdyno_report::load(results)?;
        let mut trials = loaded.trials;
        fsdyno_study::drop_superseded(&mut trials, &loaded.ends);
        report::in_order(&mut trials);
        let baseline = why.baseline.clone().or_else(|| of_share(&self.folder, &trials));
        let html = self.folder.join(fsdyno_study::store::PAGE);
        let series = report::drawn(&results, &trials)?;
        let all = report::told(&results, &trials)?;
        let basis = why.least.basis(baseline.as_deref());
        report::write_html_with(&html, &trials, (&series, &all), basis)?;
        let to = baseline.map_or("the best; --baseline names another".into(), |label| {
            format!("the baseline {label}")
        });
        say(&format!("report: {} (ratios are to {to})", html.display()));
        Ok(())
    }
}

/// The folder that a result is, or that its file lies in; none where that is not one of `fsdyno run`.
fn folder_of(result: &Path) -> Option<PathBuf> {
    if result.is_dir() {
        return result.join(TRIALS).is_file().then(|| result.to_path_buf());
    }
    (result.file_name()? == TRIALS).then(|| result.parent().map(Path::to_path_buf)).flatten()
}

/// The baseline of the command that ran a share of the trials, where it still names one of them.
fn of_share(folder: &Path, trials: &[Trial]) -> Option<String> {
    let label = Share::read(folder).ok().flatten()?.baseline?;
    trials.iter().any(|trial| trial.plan.label == label).then_some(label)
}

/// Writes the file whole or not at all.
fn store(folder: &Path, all: &[StoredExplanation]) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    for told in all {
        serde_json::to_writer(&mut bytes, told)?;
        bytes.push(b'\n');
    }
    fsdyno_media::file::write(&folder.join(FILE), |file| file.write_all(&bytes))
}

#[cfg(test)]
mod tests {
    use fsdyno_why::Explained;

    use super::*;

    fn told(id: &str) -> StoredExplanation {
        let it = Explained { trial_id: id.into(), ..Explained::default() };
        StoredExplanation { schema: fsdyno_record::SCHEMA, it, against: None }
    }

    #[test]
    fn only_the_folder_of_a_run_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let (records, trials) = (folder.path().join("mine.ndjson"), folder.path().join(TRIALS));
        std::fs::write(&records, "").unwrap();
        assert_eq!((folder_of(&records), folder_of(folder.path())), (None, None));
        std::fs::write(&trials, "").unwrap();
        assert_eq!(folder_of(&records), None, "records of another name, wherever they lie");
        for result in [folder.path(), &trials] {
            assert_eq!(folder_of(result).as_deref(), Some(folder.path()));
        }
    }

    #[test]
    fn each_is_kept_at_once_and_those_of_other_trials_stay() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(TRIALS), "").unwrap();
        let mut kept = Kept::of(folder.path()).unwrap().unwrap();
        let ids = || -> Vec<String> {
            let (all, _) = read_why(folder.path()).unwrap();
            all.into_iter().map(|told| told.it.trial_id).collect()
        };
        for (add, there) in [("a", &["a"][..]), ("b", &["a", "b"]), ("a", &["b", "a"])] {
            kept.add(told(add)).unwrap();
            assert_eq!(ids(), there);
        }
        std::fs::write(folder.path().join(FILE), "broken\n{}\n").unwrap();
        assert!(Kept::of(folder.path()).is_err(), "told before any work");
    }
}
