//! Prints the results of `fsdyno crash`: after a run, and of stored results for `fsdyno report`.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use fsdyno_crash::{FILE, Row};
use fsdyno_record::bounded::RESULTS;
use fsdyno_report::{Crashed, Format, compressed};

use crate::cli::Report;
use crate::commands::page::write_page;
use crate::exit::{Exit, Failure};
use crate::output;

/// Reads the rows of stored results of `fsdyno crash`; returns none if no result is of that command.
pub fn stored(results: &[PathBuf]) -> Result<Option<Vec<Row>>, Failure> {
    let files: Vec<Option<PathBuf>> = results.iter().map(|path| file_of(path)).collect();
    if files.iter().all(Option::is_none) {
        return Ok(None);
    }
    let mut rows = Vec::new();
    for (file, result) in files.iter().zip(results) {
        let Some(file) = file else {
            return Err(Failure::wrong(format!(
                "'{}' has no {FILE}, and others have one; report results of fsdyno crash and of fsdyno run \
                 separately",
                result.display()
            )));
        };
        rows.extend(read(file)?);
    }
    Ok(Some(rows))
}

/// Reads the rows of a file of `fsdyno crash` or of its compressed form.
///
/// # Errors
/// A file that is unreadable or in another format.
pub fn read(file: &Path) -> Result<Vec<Row>, Failure> {
    let mut text = String::new();
    let opened =
        compressed::open(file, &RESULTS).and_then(|mut source| source.read_to_string(&mut text));
    let read = opened.map_err(|error| error.to_string()).and_then(|_| fsdyno_crash::rows(&text));
    read.map_err(|error| {
        let file = file.display();
        Failure::wrong(format!("failed to read '{file}' as a result of fsdyno crash: {error}"))
    })
}

/// The file with the rows: the path itself, or in a folder without trials.
fn file_of(result: &Path) -> Option<PathBuf> {
    if result.is_dir() {
        let file = result.join(FILE);
        let trials = result.join(fsdyno_record::lines::FILE);
        return compressed::find(&file).filter(|_| compressed::find(&trials).is_none());
    }
    let ours = [Path::new(FILE), &compressed::name(Path::new(FILE))];
    ours.contains(&Path::new(result.file_name()?)).then(|| result.to_path_buf())
}

/// Runs `fsdyno report` for such rows.
pub fn report(report: &Report, rows: &[Row]) -> Result<Exit, Failure> {
    let least = report.least.least_difference;
    if report.charts.is_some() || report.baseline.is_some() || least.is_some() {
        let what = "--charts, --baseline and --least-difference are not for results of fsdyno crash; remove them";
        return Err(Failure::wrong(what));
    }
    if report.least.sort.is_some() || !report.least.columns.is_empty() {
        let what = "--sort and --columns are not for results of fsdyno crash; remove them";
        return Err(Failure::wrong(what));
    }
    if let Some(path) = &report.html
        && write_page(path, &fsdyno_report::crash_html(rows)?)?
    {
        return Ok(Exit::Good);
    }
    print(rows, report.format)?;
    Ok(Exit::Good)
}

/// Prints the rows in a format.
pub fn print(rows: &[Row], format: Format) -> Result<(), Failure> {
    if matches!(format, Format::Own(_)) {
        let usual: Vec<&str> = Format::ALL.iter().map(|(name, ..)| *name).collect();
        return Err(Failure::wrong(format!(
            "results of fsdyno crash have no such format; use one of {}",
            usual.join(", ")
        )));
    }
    output::print(&Crashed(rows), format)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_with_trials_even_compressed_ones_is_not_one_of_crash() {
        let folder = tempfile::tempdir().unwrap();
        let (file, trials) =
            (folder.path().join(FILE), folder.path().join(fsdyno_record::lines::FILE));
        std::fs::write(compressed::name(&file), "").unwrap();
        assert_eq!(file_of(folder.path()), Some(compressed::name(&file)));
        for trials in [compressed::name(&trials), trials] {
            std::fs::write(&trials, "").unwrap();
            assert_eq!(file_of(folder.path()), None, "{}", trials.display());
            std::fs::remove_file(&trials).unwrap();
        }
    }
}
