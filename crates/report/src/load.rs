//! Reads trials.ndjson, compressed or not. One torn last line is skipped and reported; every other error is returned.

use std::path::{Path, PathBuf};

use fsdyno_record::bounded;
use fsdyno_record::lines::{self, BadLine, FILE as RECORDS, Fault, ReadError};
use fsdyno_record::value_pool::ValuePool;
use fsdyno_record::{SCHEMA, Trial};

use crate::compressed;

/// The records of some files.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loaded {
    /// The trials in the order of files and lines.
    pub trials: Vec<Trial>,
    /// For each file, the index in `trials` after its last trial.
    pub ends: Vec<usize>,
    /// The line that was truncated while it was being written. There is at most one in all files.
    pub torn: Option<Torn>,
}

/// A truncated last line: its trial did not end and does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torn {
    /// The file.
    pub file: PathBuf,
    /// Its line, counted from one.
    pub line: usize,
}

impl Torn {
    /// Returns the file and the line number, as `FILE:LINE`.
    fn place(&self) -> String {
        format!("{}:{}", self.file.display(), self.line)
    }
}

impl std::fmt::Display for Torn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: the last line is truncated; its trial is skipped", self.place())
    }
}

/// The reason why records could not be read; each message completes "failed to ...".
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("read {}: {source}; name a result folder or its {RECORDS}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The folder is not a result, but contains result folders.
    #[error(
        "find a {RECORDS} in '{}'; name a result folder; those below it: {}", folder.display(), list_paths(below)
    )]
    AboveResults {
        /// The folder.
        folder: PathBuf,
        /// The results below it.
        below: Vec<PathBuf>,
    },
    /// The file is compressed and cannot be unpacked.
    #[error(
        "read {}: it is damaged or truncated ({source}); copy it again from its source", file.display()
    )]
    Damaged {
        /// The file.
        file: PathBuf,
        /// The library's error.
        source: std::io::Error,
    },
    /// A line is not a trial.
    #[error("read {}:{line}: {message}", file.display())]
    BadLine {
        /// The file.
        file: PathBuf,
        /// Its line, counted from one.
        line: usize,
        /// The error in it.
        message: String,
    },
    /// A line was written by a newer fsdyno.
    #[error(
        "read {}:{line}: its schema is {found}, but this fsdyno knows schemas up to {SCHEMA}; \
         use the newer fsdyno that wrote it", file.display()
    )]
    Newer {
        /// The file.
        file: PathBuf,
        /// Its line, counted from one.
        line: usize,
        /// Its schema.
        found: u64,
    },
    /// Two files have a torn last line; a crash tears only one.
    #[error(
        "read {} and {}: both lines are truncated, but at most one truncated line is allowed",
        first.place(), second.place()
    )]
    TwoTorn {
        /// The first.
        first: Torn,
        /// The second.
        second: Torn,
    },
}

impl LoadError {
    pub(crate) fn of(file: &Path, error: ReadError) -> LoadError {
        // The error names the existing file, which may be the compressed form.
        let file = compressed::find(file).unwrap_or_else(|| file.into());
        match error {
            ReadError::Io(source) if compressed::is_damage(&file, &source) => {
                LoadError::Damaged { file, source }
            }
            ReadError::Io(source) => LoadError::Unreadable { file, source },
            ReadError::Bad(BadLine { line, fault: Fault::Newer(found) }) => {
                LoadError::Newer { file, line, found }
            }
            ReadError::Bad(BadLine { line, fault: Fault::Broken(message) }) => {
                LoadError::BadLine { file, line, message }
            }
        }
    }
}

/// The first paths of a list, and the number of further paths.
fn list_paths(paths: &[PathBuf]) -> String {
    const MAX_LISTED: usize = 6;
    let first: Vec<String> =
        paths.iter().take(MAX_LISTED).map(|path| path.display().to_string()).collect();
    let more = paths.len().saturating_sub(MAX_LISTED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", first.join(", "))
}

/// The results below a folder, sorted by name: results of `fsdyno run`, of studies, and of `fsdyno crash`.
pub fn results_below(folder: &Path) -> Vec<PathBuf> {
    results_within(folder, DEPTH)
}

fn results_within(folder: &Path, depth: usize) -> Vec<PathBuf> {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect();
    folders.sort();
    let results = folders.into_iter().flat_map(|folder| match (is_result(&folder), depth) {
        (true, _) => vec![folder],
        (false, 1) => Vec::new(),
        (false, _) => results_within(&folder, depth - 1),
    });
    results.collect()
}

/// Returns true if a folder is a result of `fsdyno run`, of a study, or of `fsdyno crash`.
pub fn is_result(folder: &Path) -> bool {
    let contains = |name| compressed::find(&folder.join(name)).is_some();
    contains(RECORDS)
        || [fsdyno_crash::ROWS_FILE, fsdyno_crash::PART_FILE].into_iter().any(contains)
        || folder.join("study.toml").is_file()
}

/// The depth below a folder down to which results are searched for; the runs of a study are that deep.
const DEPTH: usize = 3;

/// Reads the records of result folders or files, in the order given.
///
/// # Errors
/// A file that cannot be read, a bad line other than a torn last line, a newer schema, or a second torn line.
pub fn load<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> Result<Loaded, LoadError> {
    let mut loaded = Loaded::default();
    let mut pool = ValuePool::default();
    for path in paths {
        let path = path.as_ref();
        let file = if path.is_dir() { path.join(RECORDS) } else { path.to_path_buf() };
        if path.is_dir() && compressed::find(&file).is_none() {
            let below = results_below(path);
            if !below.is_empty() {
                return Err(LoadError::AboveResults { folder: path.into(), below });
            }
        }
        let torn = read(&file, &mut loaded.trials, &mut pool)?;
        loaded.ends.push(loaded.trials.len());
        loaded.torn = match (loaded.torn.take(), torn) {
            (Some(first), Some(second)) => return Err(LoadError::TwoTorn { first, second }),
            (first, second) => first.or(second),
        };
    }
    Ok(loaded)
}

fn read(
    file: &Path,
    trials: &mut Vec<Trial>,
    pool: &mut ValuePool,
) -> Result<Option<Torn>, LoadError> {
    let opened = compressed::open(file, &bounded::RECORDS);
    let source = opened.map_err(|error| LoadError::of(file, ReadError::Io(error)))?;
    let keep = |mut trial: Trial| {
        pool.share(&mut trial);
        Some(trial)
    };
    let lines: lines::Lines =
        lines::read_from(source, keep).map_err(|error| LoadError::of(file, error))?;
    if trials.is_empty() {
        *trials = lines.records;
    } else {
        trials.extend(lines.records);
    }
    let file = || compressed::find(file).unwrap_or_else(|| file.into());
    Ok(lines.torn.map(|line| Torn { file: file(), line }))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::fixture;

    fn lines() -> Vec<String> {
        fixture::trials().iter().map(|t| serde_json::to_string(t).unwrap() + "\n").collect()
    }

    fn folder(content: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(RECORDS), content).unwrap();
        folder
    }

    #[test]
    fn a_folder_and_its_file_give_the_same_trials() {
        let folder = folder(&lines().concat());
        let loaded = load([folder.path()]).unwrap();
        assert_eq!(loaded.trials, fixture::trials());
        assert_eq!(loaded, load([folder.path().join(RECORDS)]).unwrap());
        assert_eq!(loaded.torn, None);
    }

    #[test]
    fn a_folder_above_results_names_them() {
        let above = tempfile::tempdir().unwrap();
        let path = |name: &str| above.path().join(name);
        let error = || load([above.path()]).unwrap_err().to_string();
        assert!(error().contains("name a result folder or its trials.ndjson"), "{}", error());
        for (folder, file) in
            [("b/deep", RECORDS), ("a", "crash.json"), ("c", "study.toml"), ("d", "other")]
        {
            fs::create_dir_all(path(folder)).unwrap();
            fs::write(path(folder).join(file), "").unwrap();
        }
        let below = ["a", "b/deep", "c"].map(|name| path(name).display().to_string()).join(", ");
        assert!(error().ends_with(&format!("those below it: {below}")), "{}", error());
    }

    #[test]
    fn a_torn_last_line_is_skipped_and_reported_wherever_it_is_truncated() {
        let lines = lines();
        for cut in [1, 17, lines[1].len() / 2, lines[1].len() - 2] {
            let folder = folder(&format!("{}{}", lines[0], &lines[1][..cut]));
            let loaded = load([folder.path()]).unwrap();
            assert_eq!(loaded.trials.len(), 1);
            assert_eq!(loaded.torn.unwrap().line, 2);
        }
    }

    #[test]
    fn a_last_line_that_lacks_only_its_newline_counts() {
        let folder = folder(lines()[0].trim_end());
        assert_eq!(load([folder.path()]).unwrap().trials.len(), 1);
    }

    #[test]
    fn a_bad_line_elsewhere_is_an_error_with_file_and_line() {
        let lines = lines();
        let middle = folder(&format!("{}{}\n{}", lines[0], &lines[1][..40], lines[2]));
        let message = load([middle.path()]).unwrap_err().to_string();
        assert!(message.contains("trials.ndjson:2: "), "{message}");
        let whole = folder(&format!("{}{{\"schema\":2}}\n", lines[0]));
        let message = load([whole.path()]).unwrap_err().to_string();
        assert!(message.contains(":2: missing field"), "{message}");
    }

    #[test]
    fn a_newer_schema_is_rejected_even_in_the_last_line() {
        let folder = folder("{\"schema\":3,\"shape\":\"unknown\"}");
        let message = load([folder.path()]).unwrap_err().to_string();
        assert!(message.contains("schema is 3") && message.contains("newer fsdyno"), "{message}");
    }

    #[test]
    fn a_damaged_compressed_file_is_named_by_its_own_path() {
        let folder = tempfile::tempdir().unwrap();
        let file = compressed::name(&folder.path().join(RECORDS));
        let whole = compressed::compress(lines().concat().as_bytes()).unwrap();
        for bytes in [&whole[..whole.len() / 2], &b"no such thing"[..], &[]] {
            fs::write(&file, bytes).unwrap();
            let message = load([folder.path()]).unwrap_err().to_string();
            let begin = format!("read {}: it is damaged or truncated (", file.display());
            assert!(message.starts_with(&begin), "{message}");
            assert!(!message.contains("name a result folder"), "{message}");
        }
        let bad = compressed::compress(&b"{\"schema\":2}\n"[..]).unwrap();
        fs::write(&file, bad).unwrap();
        let message = load([folder.path()]).unwrap_err().to_string();
        assert!(message.contains("trials.ndjson.zst:1: "), "{message}");
    }

    #[test]
    fn only_one_torn_line_is_allowed() {
        let torn = &lines()[0][..50];
        let (a, b) = (folder(torn), folder(torn));
        assert!(matches!(load([a.path(), b.path()]), Err(LoadError::TwoTorn { .. })));
    }

    #[test]
    fn the_error_for_a_missing_folder_states_what_to_name() {
        let message = load(["/nonexistent/results"]).unwrap_err().to_string();
        assert!(message.contains("/nonexistent/results") && message.contains(RECORDS));
    }
}
