//! Stored results of crash tests: their rows, and findings that are stored without rows.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use fsdyno_crash::{PART_FILE, ROWS_FILE, Row};
use fsdyno_record::bounded::{self, RESULTS};
use fsdyno_record::lines::FILE as TRIALS;
use fsdyno_report::compressed;

use super::folder::findings_in;
use crate::Failure;

/// Reads the rows of stored results of `fsdyno crash`; returns `None` if no result is from that command.
///
/// # Errors
/// Results of different commands, or an unreadable file.
pub fn stored(results: &[PathBuf]) -> Result<Option<Vec<Row>>, Failure> {
    let files: Vec<Option<PathBuf>> = results.iter().map(|path| file_of(path)).collect();
    let is_part = |path: &&PathBuf| path.join(PART_FILE).exists() && file_of(path).is_none();
    if let Some(part) = results.iter().find(is_part) {
        return Err(Failure::invalid_use(format!(
            "'{}' has only crash points of a file system that is not finished ({PART_FILE}); repeat the command with \
             this --out to resume it",
            part.display()
        )));
    }
    if files.iter().all(Option::is_none) {
        return Ok(None);
    }
    let mut rows = Vec::new();
    for (file, result) in files.iter().zip(results) {
        let Some(file) = file else {
            return Err(Failure::invalid_use(format!(
                "'{}' has no {ROWS_FILE}, and others have one; report results of fsdyno crash and of fsdyno run \
                 separately",
                result.display()
            )));
        };
        rows.extend(read(file)?);
    }
    Ok(Some(rows))
}

/// Reads the rows of a result file of `fsdyno crash`, compressed or not.
///
/// # Errors
/// A file that is unreadable or in a different format.
pub fn read(file: &Path) -> Result<Vec<Row>, Failure> {
    let mut text = String::new();
    let opened =
        compressed::open(file, &RESULTS).and_then(|mut source| source.read_to_string(&mut text));
    let read = opened.map_err(|error| error.to_string()).and_then(|_| fsdyno_crash::rows(&text));
    read.map_err(|error| {
        let file = file.display();
        Failure::invalid_use(format!(
            "failed to read '{file}' as a result of fsdyno crash: {error}"
        ))
    })
}

/// Returns the file with the rows: the path itself, or the file in a folder that has no trials.
fn file_of(result: &Path) -> Option<PathBuf> {
    if result.is_dir() {
        let file = result.join(ROWS_FILE);
        let trials = result.join(TRIALS);
        // A run that was stopped during its first trial leaves an empty file.
        let has_rows = |it: &PathBuf| it.metadata().is_ok_and(|it| it.len() > 0);
        return compressed::find(&file)
            .filter(|it| has_rows(it) && compressed::find(&trials).is_none());
    }
    let ours = [Path::new(ROWS_FILE), &compressed::name(Path::new(ROWS_FILE))];
    ours.contains(&Path::new(result.file_name()?)).then(|| result.to_path_buf())
}

/// Refuses findings of `fsdyno crash` without the rows of their run.
///
/// # Errors
/// The first such finding, with the command that repeats it.
pub fn refuse_lone_findings(results: &[PathBuf]) -> Result<(), Failure> {
    let Some(finding) = results.iter().find_map(|path| lone_finding(path)) else { return Ok(()) };
    Err(Failure::invalid_use(format!(
        "'{0}' is a finding of fsdyno crash, and the table of its run ({ROWS_FILE}) is missing; to repeat the finding: \
         fsdyno crash --replay '{0}'",
        finding.display(),
    )))
}

/// Returns the first finding of `fsdyno crash` in a folder that has neither records nor a crash.json, or the path
/// itself if it is a finding.
fn lone_finding(path: &Path) -> Option<PathBuf> {
    let is_finding = |path: &PathBuf| {
        let is_json = path.extension().is_some_and(|ending| ending == "json") && path.is_file();
        let text = || bounded::read_to_string(path, &RESULTS).ok();
        is_json && text().is_some_and(|text| fsdyno_crash::Finding::read(&text).is_ok())
    };
    if path.is_file() {
        return Some(path.to_path_buf()).filter(is_finding);
    }
    let has = |name: &str| compressed::find(&path.join(name)).is_some();
    if has(TRIALS) || has(ROWS_FILE) {
        return None;
    }
    let entries = path.read_dir().into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.extend(findings_in(path).unwrap_or_default());
    files.sort();
    files.into_iter().find(is_finding)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_with_trials_even_compressed_ones_is_not_a_crash_folder() {
        let folder = tempfile::tempdir().unwrap();
        let (file, trials) = (folder.path().join(ROWS_FILE), folder.path().join(TRIALS));
        std::fs::write(&file, "").unwrap();
        assert_eq!(file_of(folder.path()), None);
        std::fs::remove_file(&file).unwrap();
        std::fs::write(compressed::name(&file), "rows").unwrap();
        assert_eq!(file_of(folder.path()), Some(compressed::name(&file)));
        for trials in [compressed::name(&trials), trials] {
            std::fs::write(&trials, "").unwrap();
            assert_eq!(file_of(folder.path()), None, "{}", trials.display());
            std::fs::remove_file(&trials).unwrap();
        }
    }

    #[test]
    fn a_folder_with_only_a_part_of_a_row_is_refused_with_the_way_to_resume_it() {
        let folder = tempfile::tempdir().unwrap();
        let results = [folder.path().to_path_buf()];
        assert!(stored(&results).unwrap().is_none());
        std::fs::write(folder.path().join(ROWS_FILE), "").unwrap();
        std::fs::write(folder.path().join(PART_FILE), "{}").unwrap();
        let refused = stored(&results).unwrap_err().message;
        assert!(refused.contains("not finished (crash.part.json); repeat"), "{refused}");
        std::fs::write(folder.path().join(ROWS_FILE), "[]").unwrap();
        assert_eq!(stored(&results).unwrap().map(|rows| rows.len()), Some(0));
    }

    #[test]
    fn a_finding_without_the_table_of_its_run_is_recognized() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let results = concat!(env!("CARGO_MANIFEST_DIR"), "/../../results/2026-11-22-crash");
        let text = std::fs::read_to_string(Path::new(results).join("ext4-0079.json")).unwrap();
        std::fs::write(at("a.json"), "{}").unwrap();
        assert_eq!(lone_finding(folder.path()), None);
        std::fs::create_dir(at("findings")).unwrap();
        std::fs::write(at("findings/ext4-0079.json"), text).unwrap();
        assert_eq!(lone_finding(folder.path()), Some(at("findings/ext4-0079.json")));
        let itself = lone_finding(&at("findings/ext4-0079.json"));
        assert_eq!(itself, Some(at("findings/ext4-0079.json")));
        assert_eq!(lone_finding(&at("a.json")), None);
        std::fs::write(at("crash.json"), "[]").unwrap();
        assert_eq!(lone_finding(folder.path()), None);
    }
}
