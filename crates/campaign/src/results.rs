//! Loads stored results in the order of tables, and the other files that reports need.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use fsdyno_record::Trial;
use fsdyno_record::series::Series;
use fsdyno_report::{Basis, Format, SpecialFormat, load_series, load_why};
use fsdyno_why::StoredExplanation;

use crate::failure::Failure;
use crate::files::write_file;
use crate::notes::say;
use crate::store::PAGE;

/// Loads the trials of results, without superseded ones, in the order of the tables: by the row's position in its
/// command; rows with equal positions follow the order in which the results are given. Reports a torn line.
///
/// # Errors
/// A file that cannot be read.
pub fn load<P: AsRef<Path>>(results: &[P]) -> Result<Vec<Trial>, Failure> {
    let loaded = fsdyno_report::load(results)?;
    if let Some(torn) = &loaded.torn {
        say(&format!("fsdyno: {torn}"));
    }
    let mut trials = loaded.trials;
    let mut first_results: BTreeMap<String, usize> = BTreeMap::new();
    for (index, trial) in trials.iter().enumerate() {
        let result = loaded.ends.partition_point(|end| *end <= index);
        first_results.entry(trial.plan.label.clone()).or_insert(result);
    }
    crate::drop_superseded(&mut trials, &loaded.ends);
    sort(&mut trials, &first_results);
    Ok(trials)
}

/// Refuses a baseline that is not among the labels, and suggests the nearest label.
///
/// # Errors
/// An unknown label.
pub fn check_baseline<'a>(
    baseline: Option<&str>,
    labels: impl Iterator<Item = &'a str> + Clone,
) -> Result<(), Failure> {
    let Some(name) = baseline.filter(|name| !labels.clone().any(|label| label == *name)) else {
        return Ok(());
    };
    let known: BTreeSet<&str> = labels.collect();
    let hint = fsdyno_record::suggest::hint(name, known);
    Err(Failure::invalid_use(format!("unknown baseline '{name}': {hint}")))
}

/// Sorts trials into the order of the table: the order of the configurations in their folder's commands. Records
/// without a row follow, in the order in which their labels first ran, a fresh file system before its aged ones.
pub fn in_order(trials: &mut [Trial]) {
    sort(trials, &BTreeMap::new());
}

/// Sorts like [`in_order`], but orders labels with the same position by the results that they come from.
fn sort(trials: &mut [Trial], first_results: &BTreeMap<String, usize>) {
    let mut rows: BTreeMap<(String, String), (u32, String)> = BTreeMap::new();
    let mut labels: BTreeMap<String, String> = BTreeMap::new();
    for trial in trials.iter() {
        let (plan, started) = (&trial.plan, &trial.host.started);
        let row = rows.entry((plan.hash.clone(), plan.label.clone()));
        let (position, first) = row.or_insert_with(|| (u32::MAX, started.clone()));
        *position = (*position).min(trial.row.unwrap_or(u32::MAX));
        *first = first.clone().min(started.clone());
        let first = labels.entry(plan.label.clone()).or_insert_with(|| started.clone());
        *first = first.clone().min(started.clone());
    }
    trials.sort_by_cached_key(|trial| {
        let plan = &trial.plan;
        let row = rows.get(&(plan.hash.clone(), plan.label.clone())).cloned().unwrap_or_default();
        let age = plan.age().map(|age| (age.fill, age.churn));
        let result = first_results.get(&plan.label).copied();
        (row.0, result, labels.get(&plan.label).cloned(), age, row.1, trial.seed)
    });
}

/// Reports the flags of trials that are printed in the format of another program, which does not include flags.
pub fn say_flags(trials: &[Trial], format: Format) {
    if format == Format::Special(SpecialFormat::Original) {
        fsdyno_report::flags_and_failures(trials)
            .iter()
            .for_each(|line| say(&format!("fsdyno: {line}")));
    }
}

/// Loads the series that the charts of these trials need.
///
/// # Errors
/// A file that cannot be read.
pub fn drawn<P: AsRef<Path>>(results: &[P], trials: &[Trial]) -> Result<Vec<Series>, Failure> {
    over_time(results, fsdyno_report::drawn_trials(trials))
}

/// Loads the series of these trials from these results.
///
/// # Errors
/// A file that cannot be read.
pub fn over_time<'t, P: AsRef<Path>>(
    results: &[P],
    trials: impl IntoIterator<Item = &'t Trial>,
) -> Result<Vec<Series>, Failure> {
    let (series, torn) = load_series(results, trials)?;
    torn.iter().for_each(|torn| say(&format!("fsdyno: {torn}")));
    Ok(series)
}

/// Loads the explanations of these trials from these results.
///
/// # Errors
/// A file that cannot be read.
pub fn explanations<P: AsRef<Path>>(
    results: &[P],
    trials: &[Trial],
) -> Result<Vec<StoredExplanation>, Failure> {
    let (explanations, torn) = load_why(results, trials)?;
    torn.iter().for_each(|torn| say(&format!("fsdyno: {torn}")));
    Ok(explanations)
}

/// Returns the report of these trials from these results as one HTML file, with charts and explanations.
///
/// # Errors
/// A file that cannot be read.
pub fn page<P: AsRef<Path>>(
    results: &[P],
    trials: &[Trial],
    basis: Basis<'_>,
) -> Result<String, Failure> {
    let series = drawn(results, trials)?;
    let explanations = explanations(results, trials)?;
    Ok(fsdyno_report::html_with(trials, &series, &explanations, basis)?)
}

/// Writes the report of a result folder into it. Returns the path of its file.
///
/// # Errors
/// A file that cannot be read or written.
pub fn write_page(folder: &Path, trials: &[Trial], basis: Basis<'_>) -> Result<PathBuf, Failure> {
    let path = folder.join(PAGE);
    write_file(&path, &page(&[folder], trials, basis)?)?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Trials in the order of storage, each with its label, row and start time.
    fn stored(all: &[(&str, Option<u32>, u32)]) -> Vec<Trial> {
        let results = concat!(env!("CARGO_MANIFEST_DIR"), "/../../results");
        let path = Path::new(results).join("2026-11-22-phillips-2001/then/forward");
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
    fn rows_of_several_results_are_in_the_order_of_the_results() {
        let folder = tempfile::tempdir().unwrap();
        let result = |name: &str, label: &str, began| {
            let path = folder.path().join(name);
            std::fs::create_dir(&path).unwrap();
            let trials = stored(&[(label, Some(0), began)]);
            let line = serde_json::to_string(&trials[0]).unwrap();
            std::fs::write(path.join("trials.ndjson"), line + "\n").unwrap();
            path
        };
        let (one, eight) = (result("c1", "1 rank", 9), result("c8", "8 ranks", 2));
        let labels = |results: &[&Path]| -> Vec<String> {
            load(results).unwrap().into_iter().map(|trial| trial.plan.label).collect()
        };
        assert_eq!(labels(&[&one, &eight]), ["1 rank", "8 ranks"]);
        assert_eq!(labels(&[&eight, &one]), ["8 ranks", "1 rank"]);
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
        let invalid = |name| check_baseline(Some(name), labels()).map_err(|f| (f.exit, f.message));
        assert_eq!(
            invalid("smal"),
            Err((
                crate::failure::Exit::InvalidUse,
                "unknown baseline 'smal': did you mean 'small'?".into()
            ))
        );
        assert_eq!(
            invalid("reiserfs").map_err(|(_, message)| message),
            Err("unknown baseline 'reiserfs': there are: ext4, small".into())
        );
    }
}
