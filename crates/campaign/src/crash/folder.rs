//! Writes the result folder of `fsdyno crash`: the rows, the report, and a file for each finding.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use fsdyno_crash::{Finding, PART_FILE, ROWS_FILE, Row, findings as findings_of};
use fsdyno_media::{NewFolder, file};
use fsdyno_record::bounded::{self, RESULTS};
use fsdyno_record::lines::FILE as TRIALS;
use fsdyno_record::{Bytes, Nanos};
use fsdyno_report::{compressed, counted};

use crate::failure::Failure;
use crate::files::{make_folder, pretty, write_file};
use crate::notes::say;
use crate::store::{lock, replace_locked};

/// The file name of the report.
pub const PAGE: &str = crate::store::PAGE;

/// The folder of the findings.
const FINDINGS: &str = "findings";

/// Maximum number of finding files per file system.
const MAX_FINDINGS: usize = 100;

/// Maximum number of characters of a label in a file name, to keep the name short enough for any file system.
const MAX_LABEL: usize = 60;

/// Refuses a folder that is neither new nor from a crash test (which is resumed). Also refuses an archive, because a
/// new file would hide its compressed form.
pub fn check_folder(folder: &Path) -> Result<(), Failure> {
    file::check_folder(folder).map_err(|error| Failure::io("write to", folder, &error))?;
    if contains(folder, TRIALS) {
        return Err(Failure::invalid_use(format!(
            "'{}' has results of fsdyno run ({TRIALS}); give a new folder with --out",
            folder.display()
        )));
    }
    if folder.join(ROWS_FILE).exists() {
        return Ok(());
    }
    let conflict = [ROWS_FILE, FINDINGS, PAGE].into_iter().find(|name| contains(folder, name));
    conflict.map_or(Ok(()), |name| {
        let folder = folder.display();
        Err(Failure::invalid_use(format!(
            "'{folder}' has {name} from something else, but no {ROWS_FILE} to resume; give a new folder with --out"
        )))
    })
}

/// Refuses a folder of `fsdyno crash`, whose report `fsdyno run` would overwrite, and an archive.
pub fn refuse(folder: &Path) -> Result<(), Failure> {
    if contains(folder, TRIALS) && !folder.join(TRIALS).exists() {
        return Err(Failure::invalid_use(format!(
            "'{}' is an archive (report --archive), which is read-only; give a new folder with --out",
            folder.display()
        )));
    }
    if contains(folder, ROWS_FILE) && !contains(folder, TRIALS) {
        return Err(Failure::invalid_use(format!(
            "'{}' has results of fsdyno crash ({ROWS_FILE}); give a new folder with --out",
            folder.display()
        )));
    }
    Ok(())
}

/// Tests whether a folder contains an entry with this name, or its compressed form.
fn contains(folder: &Path, name: &str) -> bool {
    let path = folder.join(name);
    path.exists() || compressed::find(&path).is_some()
}

/// A result folder that is open for writing, locked against other runs.
#[derive(Debug)]
pub struct ResultFolder {
    path: PathBuf,
    /// The file of the rows, or empty before the first row.
    file: File,
    created: Vec<NewFolder>,
}

impl ResultFolder {
    /// Opens a result folder that [`check_folder`] accepts, or creates it.
    ///
    /// # Errors
    /// The reason why results cannot be stored there: another run writes to it, or an I/O error.
    pub fn open(path: &Path) -> Result<ResultFolder, Failure> {
        let created =
            file::make_folder(path).map_err(|error| Failure::io("create", path, &error))?;
        let rows = path.join(ROWS_FILE);
        let file =
            file::append(&rows, true).map_err(|error| Failure::io("write", &rows, &error))?;
        lock(&file, path, ROWS_FILE)?;
        Ok(ResultFolder { path: path.into(), file, created })
    }

    /// Returns true if no row is stored.
    pub fn is_empty(&self) -> bool {
        self.file.metadata().is_ok_and(|file| file.len() == 0)
    }

    /// Returns true if a part of an unfinished row is stored.
    pub fn has_part(&self) -> bool {
        self.path.join(PART_FILE).exists()
    }

    /// Writes the rows so far, and their report.
    ///
    /// # Errors
    /// An I/O error.
    pub fn write(&mut self, rows: &[Row]) -> Result<(), Failure> {
        let path = self.path.join(ROWS_FILE);
        self.file = replace_locked(&path, pretty(&rows)?.as_bytes())
            .map_err(|error| Failure::io("write", &path, &error))?;
        write(&self.path.join(PAGE), &fsdyno_report::crash_html(rows)?)
    }

    /// Writes the findings of a row as files whose names begin with `name`, and prints their number.
    ///
    /// # Errors
    /// An I/O error.
    pub fn write_findings(&self, name: &str, row: &Row, deadline: Nanos) -> Result<(), Failure> {
        let (stored, more) = findings_of(row, deadline, MAX_FINDINGS);
        for finding in &stored {
            let file = format!("{name}-{:04}.json", finding.outcome.cut.number);
            write(&self.path.join(FINDINGS).join(file), &pretty(finding)?)?;
        }
        if !stored.is_empty() {
            let (label, all, stored) = (&row.label, stored.len() + more, stored.len());
            let all = counted(all, "finding");
            say(&format!("fsdyno: {label}: {all}, {stored} of them in {FINDINGS}/"));
        }
        Ok(())
    }
}

impl Drop for ResultFolder {
    /// Removes what was created if nothing was stored.
    fn drop(&mut self) {
        if self.is_empty() && !self.has_part() {
            let _ = file::remove(&self.path.join(ROWS_FILE));
            for folder in self.created.iter().rev() {
                let _ = folder.remove();
            }
        }
    }
}

/// Lists the finding files in a folder of `fsdyno crash`; it may have none.
///
/// # Errors
/// A folder of findings that cannot be read.
pub fn findings_in(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let folder = folder.join(FINDINGS);
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let entries = folder.read_dir().and_then(|entries| {
        entries.map(|entry| entry.map(|it| it.path())).collect::<io::Result<Vec<_>>>()
    });
    let mut files = entries.map_err(|error| {
        Failure::invalid_use(format!("failed to read '{}': {error}", folder.display()))
    })?;
    files.retain(|path| path.extension().is_some_and(|it| it == "json") && path.is_file());
    files.sort();
    Ok(files)
}

/// Reads a finding file.
pub fn read_finding(path: &Path) -> Result<Finding, Failure> {
    let text = bounded::read_to_string(path, &RESULTS).map_err(|error| error.to_string());
    text.and_then(|text| Finding::read(&text)).map_err(|error| {
        let path = path.display();
        Failure::invalid_use(format!(
            "failed to read '{path}' as a finding (a file that fsdyno crash writes to {FINDINGS}/): {error}"
        ))
    })
}

/// Refuses, before any work, an image path that exists or whose folder does not exist.
pub fn check_image(path: &Path) -> Result<(), Failure> {
    let shown = path.display();
    if path.symlink_metadata().is_ok() {
        return Err(Failure::invalid_use(format!(
            "'{shown}' exists; give a new file with --image"
        )));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder.is_none_or(Path::is_dir) {
        true => Ok(()),
        false => Err(Failure::invalid_use(format!("cannot write '{shown}': no such folder"))),
    }
}

/// Writes an image as a sparse file, atomically.
pub fn write_image(path: &Path, mut image: File) -> Result<(), Failure> {
    let mut length = 0;
    let copy = |file: &mut File| {
        length = copy_sparse(&mut image, file)?;
        Ok(())
    };
    file::write_new(path, copy).map_err(|error| Failure::io("write", path, &error))?;
    say(&format!("fsdyno: image at the crash point: '{}' ({})", path.display(), Bytes(length)));
    Ok(())
}

fn copy_sparse(from: &mut File, to: &File) -> io::Result<u64> {
    let length = from.seek(SeekFrom::End(0))?;
    from.rewind()?;
    to.set_len(length)?;
    let (mut offset, mut block) = (0, vec![0; 1 << 16]);
    loop {
        let count = from.read(&mut block)?;
        if count == 0 {
            break;
        }
        if block[..count].iter().any(|byte| *byte != 0) {
            to.write_all_at(&block[..count], offset)?;
        }
        offset += count as u64;
    }
    Ok(length)
}

/// Makes a unique file name from each label: characters other than letters and digits become dashes, and the second of
/// two equal names gets a number.
pub fn file_names<'a>(labels: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for label in labels {
        let plain = |letter: char| if letter.is_alphanumeric() { letter } else { '-' };
        let name: String = label.chars().take(MAX_LABEL).map(plain).collect();
        let numbered = (2..).map(|number| format!("{name}-{number}"));
        let mut candidates = std::iter::once(name.clone()).chain(numbered);
        names.extend(candidates.find(|name| !names.contains(name)));
    }
    names
}

/// Writes a file atomically, and creates its folder if necessary.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    make_folder(path.parent().unwrap_or(path))?;
    write_file(path, text)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn file_names_of_labels_are_unique() {
        let long = "x".repeat(300);
        let labels = ["off", "a b", "a-b", "比較", "比-", "a b-2", "比-", &long, &long];
        let names = file_names(labels.into_iter());
        assert_eq!(names[..6], ["off", "a-b", "a-b-2", "比較", "比-", "a-b-2-2"]);
        let mut all = names.clone();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), labels.len(), "{names:?}");
        assert!(names.iter().all(|name| name.len() < 240 && !name.contains(['/', '.'])));
    }

    #[test]
    fn a_file_is_written_completely_and_no_other_file_remains() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("findings/one.json");
        for text in ["first", "2"] {
            write(&path, text).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        assert!(
            check_folder(folder.path())
                .unwrap_err()
                .message
                .contains("findings from something else")
        );
    }

    #[test]
    fn two_runs_never_write_to_one_folder() {
        let base = tempfile::tempdir().unwrap();
        let folder = base.path().join("new/deep");
        let mut first = ResultFolder::open(&folder).unwrap();
        let refused = || ResultFolder::open(&folder).unwrap_err().message;
        assert!(refused().contains("in use by another fsdyno"), "{}", refused());
        first.write(&[]).unwrap();
        assert!(refused().contains("in use by another fsdyno"), "{}", refused());
        drop(first);
        // A child process that another test has just forked holds the lock until its exec.
        let reopened = (0..1000).find_map(|_| {
            let opened = ResultFolder::open(&folder).ok();
            if opened.is_none() {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            opened
        });
        assert!(!reopened.unwrap().is_empty());
    }

    #[test]
    fn a_folder_without_rows_is_removed() {
        let base = tempfile::tempdir().unwrap();
        let folder = base.path().join("new/deep");
        let opened = ResultFolder::open(&folder).unwrap();
        assert!(opened.is_empty() && check_folder(&folder).is_ok());
        drop(opened);
        assert!(!base.path().join("new").exists() && base.path().exists());
    }

    #[test]
    fn an_image_is_sparse_and_never_overwrites_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("left.img"), folder.path().join("no/left.img"));
        assert!(check_image(&path).is_ok());
        assert!(check_image(&other).unwrap_err().message.contains("no such folder"));
        let from = tempfile::tempfile().unwrap();
        from.set_len(8 << 20).unwrap();
        from.write_all_at(b"here", (5 << 20) + 7).unwrap();
        write_image(&path, from).unwrap();
        let copied = fs::read(&path).unwrap();
        assert_eq!((copied.len(), &copied[(5 << 20) + 7..][..4]), (8 << 20, b"here".as_slice()));
        assert_eq!(copied.iter().filter(|byte| **byte != 0).count(), 4);
        assert!(fs::metadata(&path).unwrap().blocks() < 1024);
        assert!(check_image(&path).unwrap_err().message.contains("exists"));
        assert!(write_image(&path, tempfile::tempfile().unwrap()).is_err());
        assert_eq!(fs::read(&path).unwrap().len(), 8 << 20);
    }

    #[test]
    fn neither_command_accepts_a_folder_of_the_other() {
        let folder = tempfile::tempdir().unwrap();
        assert!(check_folder(folder.path()).is_ok() && refuse(folder.path()).is_ok());
        fs::write(folder.path().join(ROWS_FILE), "[]").unwrap();
        let refused = refuse(folder.path()).unwrap_err();
        assert!(refused.message.contains("results of fsdyno crash"), "{refused}");
        fs::write(folder.path().join(TRIALS), "").unwrap();
        let refused = check_folder(folder.path()).unwrap_err();
        assert!(refused.message.contains("results of fsdyno run"), "{refused}");
        assert_eq!(refused.exit, crate::failure::Exit::InvalidUse);
    }

    #[test]
    fn neither_command_accepts_an_archive() {
        for (name, run, crash) in [
            (ROWS_FILE, "results of fsdyno crash", "has crash.json from something else"),
            (TRIALS, "which is read-only", "results of fsdyno run"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            fs::write(compressed::name(&folder.path().join(name)), "").unwrap();
            let refused = [refuse(folder.path()), check_folder(folder.path())];
            for (refused, expected) in refused.into_iter().zip([run, crash]) {
                let message = refused.unwrap_err().message;
                assert!(message.contains(expected) && message.contains("new folder"), "{message}");
            }
        }
    }
}
