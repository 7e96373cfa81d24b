//! `fsdyno report`: prints stored results as a table or data, or writes them as one HTML file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fsdyno_record::Trial;
use fsdyno_record::bounded::{self, RESULTS};
use fsdyno_record::series::Series;
use fsdyno_report::{Basis, Format, Own, load_series, load_why};
use fsdyno_why::StoredExplanation;

use crate::cli::Report;
use crate::commands::study;
use crate::exit::{Exit, Failure};
use crate::output::{self, say};

/// Reports stored results.
pub fn run(report: &Report) -> Result<Exit, Failure> {
    if let Some(folder) = study::folder_of(&report.results)? {
        return study::report(report, folder);
    }
    if report.archive.is_some() {
        let what =
            "--archive is for the folder of a study (written by fsdyno study, with a study.toml)";
        return Err(Failure::wrong(what));
    }
    if let Some(rows) = super::crash::stored(&report.results)? {
        return super::crash::report(report, &rows);
    }
    if let Some(finding) = report.results.iter().find_map(|path| lone_finding(path)) {
        return Err(Failure::wrong(format!(
            "'{0}' is a finding of fsdyno crash, and the table of its run ({1}) is missing; to repeat the finding: \
             fsdyno crash --replay '{0}'",
            finding.display(),
            fsdyno_crash::FILE
        )));
    }
    let loaded = fsdyno_report::load(&report.results)?;
    if let Some(torn) = &loaded.torn {
        say(&format!("fsdyno: {torn}"));
    }
    let mut trials = loaded.trials;
    fsdyno_campaign::drop_superseded(&mut trials, &loaded.ends);
    let baseline = report.baseline.as_deref();
    check_baseline(baseline, trials.iter().map(|trial| trial.plan.label.as_str()))?;
    in_order(&mut trials);
    let basis = report.least.basis(baseline);
    if let Some(folder) = &report.charts {
        let series = drawn(&report.results, &trials)?;
        let charts = fsdyno_report::charts(&trials, &series, basis);
        super::charts::write(folder, &charts)?;
        say(&format!("charts: {} in {}", charts.len(), folder.display()));
    }
    if let Some(path) = &report.html {
        let series = drawn(&report.results, &trials)?;
        let explanations = explanations(&report.results, &trials)?;
        let page = fsdyno_report::html_with(&trials, &series, &explanations, basis)?;
        if write_page(path, &page)? {
            return Ok(Exit::Good);
        }
    }
    print(&trials, basis, report.format)?;
    Ok(Exit::Good)
}

/// Writes the page of `--html`. Returns true if it went to standard output, where it replaces the table.
pub fn write_page(path: &Path, page: &str) -> Result<bool, Failure> {
    if path == Path::new("-") {
        output::data(page)?;
        return Ok(true);
    }
    write_file(path, page)?;
    say(&format!("report: {}", path.display()));
    Ok(false)
}

/// The first finding of `fsdyno crash` in a folder without records and without the table of crash.json; or the path
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
    let has = |name: &str| fsdyno_report::compressed::find(&path.join(name)).is_some();
    if has(fsdyno_record::lines::FILE) || has(fsdyno_crash::FILE) {
        return None;
    }
    let entries = path.read_dir().into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.extend(super::crash::findings_in(path).unwrap_or_default());
    files.sort();
    files.into_iter().find(is_finding)
}

/// Refuses a baseline that is not among the labels, and names the nearest label.
pub fn check_baseline<'a>(
    baseline: Option<&str>,
    labels: impl Iterator<Item = &'a str> + Clone,
) -> Result<(), Failure> {
    let Some(name) = baseline.filter(|name| !labels.clone().any(|label| label == *name)) else {
        return Ok(());
    };
    let known: std::collections::BTreeSet<&str> = labels.collect();
    let hint = fsdyno_record::suggest::hint(name, known);
    Err(Failure::wrong(format!("unknown baseline '{name}': {hint}")))
}

/// Sorts trials into the order of the table: the order of configurations in the commands of their folder. Records
/// without it follow, in the order in which their labels were first run, a new file system before its aged ones.
pub fn in_order(trials: &mut [Trial]) {
    let mut rows: BTreeMap<(String, String), (u32, String)> = BTreeMap::new();
    let mut labels: BTreeMap<String, String> = BTreeMap::new();
    for trial in trials.iter() {
        let (plan, started) = (&trial.plan, &trial.host.started);
        let row = rows.entry((plan.hash.clone(), plan.label.clone()));
        let (place, first) = row.or_insert_with(|| (u32::MAX, started.clone()));
        *place = (*place).min(trial.row.unwrap_or(u32::MAX));
        *first = first.clone().min(started.clone());
        let first = labels.entry(plan.label.clone()).or_insert_with(|| started.clone());
        *first = first.clone().min(started.clone());
    }
    trials.sort_by_cached_key(|trial| {
        let plan = &trial.plan;
        let row = rows.get(&(plan.hash.clone(), plan.label.clone())).cloned().unwrap_or_default();
        let age = plan.age().map(|age| (age.fill, age.churn));
        (row.0, labels.get(&plan.label).cloned(), age, row.1, trial.seed)
    });
}

/// Prints the table in a format.
pub fn print(trials: &[Trial], basis: Basis<'_>, format: Format) -> Result<(), Failure> {
    output::data(&fsdyno_report::table(trials, basis, format, output::style())?)?;
    say_verdicts(trials, format);
    Ok(())
}

/// Says the flags of trials if they are printed in the format of another program, which does not include them.
pub fn say_verdicts(trials: &[Trial], format: Format) {
    if format == Format::Own(Own::Original) {
        fsdyno_report::verdicts(trials).iter().for_each(|line| say(&format!("fsdyno: {line}")));
    }
}

/// The series that the charts of these trials need.
pub fn drawn<P: AsRef<Path>>(results: &[P], trials: &[Trial]) -> Result<Vec<Series>, Failure> {
    over_time(results, fsdyno_report::drawn_trials(trials))
}

/// Loads the series of these trials from these results.
pub fn over_time<'t, P: AsRef<Path>>(
    results: &[P],
    trials: impl IntoIterator<Item = &'t Trial>,
) -> Result<Vec<Series>, Failure> {
    let (series, torn) = load_series(results, trials)?;
    torn.iter().for_each(|torn| say(&format!("fsdyno: {torn}")));
    Ok(series)
}

/// Loads the explanations of these trials from these results.
pub fn explanations<P: AsRef<Path>>(
    results: &[P],
    trials: &[Trial],
) -> Result<Vec<StoredExplanation>, Failure> {
    let (explanations, torn) = load_why(results, trials)?;
    torn.iter().for_each(|torn| say(&format!("fsdyno: {torn}")));
    Ok(explanations)
}

/// Writes the report as one HTML file.
pub fn write_html(
    path: &Path,
    trials: &[Trial],
    series: &[Series],
    basis: Basis<'_>,
) -> Result<(), Failure> {
    write_html_with(path, trials, (series, &[]), basis)
}

/// Writes the report with explanations as one HTML file.
pub fn write_html_with(
    path: &Path,
    trials: &[Trial],
    (series, explanations): (&[Series], &[StoredExplanation]),
    basis: Basis<'_>,
) -> Result<(), Failure> {
    write_file(path, &fsdyno_report::html_with(trials, series, explanations, basis)?)
}

/// Creates an output folder.
pub fn make_folder(folder: &Path) -> Result<(), Failure> {
    let made = fsdyno_media::file::make_folder(folder).map(drop);
    made.map_err(|error| Failure::io("create", folder, &error))
}

/// Writes an output file atomically: completely or not at all.
pub fn write_file(path: &Path, bytes: impl AsRef<[u8]>) -> Result<(), Failure> {
    fsdyno_media::file::write(path, |file| std::io::Write::write_all(file, bytes.as_ref()))
        .map_err(|error| Failure::io("write", path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_without_the_table_of_its_run_is_recognized() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/../../results/2026-11-22-crash");
        let text = std::fs::read_to_string(Path::new(kept).join("ext4-0079.json")).unwrap();
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

    /// Trials in the order of storage, each with its label, row and start time.
    fn stored(all: &[(&str, Option<u32>, u32)]) -> Vec<Trial> {
        let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/../../results");
        let path = Path::new(kept).join("2026-11-22-phillips-2001/then/forward");
        let model = fsdyno_report::load(&[path]).unwrap().trials.remove(0);
        let trial = |(label, row, began): &(&str, Option<u32>, u32)| {
            let mut trial = model.clone();
            (trial.plan.label, trial.row) = (label.to_string(), *row);
            trial.host.started = format!("2026-11-22T00:00:{began:02}Z");
            trial
        };
        all.iter().map(trial).collect()
    }

    fn ordered(mut trials: Vec<Trial>) -> Vec<String> {
        in_order(&mut trials);
        trials.into_iter().map(|trial| trial.plan.label).collect()
    }

    #[test]
    fn rows_are_in_the_order_of_the_command_whatever_the_order_of_their_trials() {
        let all = [("b", Some(2), 1), ("xfs", Some(0), 2), ("a", Some(1), 3), ("xfs", Some(0), 0)];
        assert_eq!(ordered(stored(&all)), ["xfs", "xfs", "a", "b"]);
    }

    #[test]
    fn records_without_a_row_are_in_the_order_of_their_first_run() {
        let all = [("b", None, 3), ("a", None, 2), ("c", None, 1), ("a", None, 4), ("b", None, 0)];
        assert_eq!(ordered(stored(&all)), ["b", "b", "c", "a", "a"]);
    }

    #[test]
    fn a_baseline_must_be_one_of_the_labels() {
        let labels = || ["ext4", "small", "ext4"].into_iter();
        assert!(check_baseline(None, labels()).is_ok());
        assert!(check_baseline(Some("small"), labels()).is_ok());
        let wrong = |name| check_baseline(Some(name), labels()).map_err(|f| (f.exit, f.message));
        assert_eq!(
            wrong("smal"),
            Err((
                crate::exit::Exit::WrongUse,
                "unknown baseline 'smal': did you mean 'small'?".into()
            ))
        );
        assert_eq!(
            wrong("reiserfs").map_err(|(_, message)| message),
            Err("unknown baseline 'reiserfs': there are: ext4, small".into())
        );
    }
}
