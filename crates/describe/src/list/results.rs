//! Lists the results below a folder, with their workloads and file systems.

use fsdyno_campaign::Failure;
use fsdyno_campaign::about::About;
use fsdyno_campaign::crash;
use fsdyno_campaign::target::RESULTS;
use fsdyno_record::trial::Outcome;
use fsdyno_record::{Plan, Trial};
use fsdyno_report::{compressed, counted};
use serde_json::{Value, json};
use std::path::Path;

use crate::listing::Listing;

/// The headers used if no result has a name or a note.
const HEADS: &[&str] = &["result", "began", "workloads", "file systems", "trials"];

/// The headers of all columns, used if any result has a name or a note.
const ALL_HEADS: &[&str] =
    &["result", "name", "began", "workloads", "file systems", "trials", "note"];

/// Lists the results below a folder, by name.
///
/// # Errors
/// A folder that cannot be read.
pub fn listing(folder: Option<&Path>) -> Result<Listing, Failure> {
    let root = folder.unwrap_or(Path::new(RESULTS));
    if let (Some(_), Err(error)) = (folder, root.read_dir()) {
        return Err(Failure::invalid_use(format!("failed to read '{}': {error}", root.display())));
    }
    let mut rows: Vec<Vec<String>> =
        fsdyno_report::results_below(root).iter().map(|result| row(result)).collect();
    let empty = "no results here; fsdyno run writes them below fsdyno-results";
    let value = rows.iter().map(|row| object(row)).collect();
    rows.iter_mut().for_each(|row| row[BEGAN] = to_the_minute(&row[BEGAN]));
    let has_name_or_note = |row: &Vec<String>| [NAME, NOTE].iter().any(|index| row[*index] != NONE);
    let (heads, rows) = match rows.iter().any(has_name_or_note) {
        true => (ALL_HEADS, rows),
        false => (HEADS, rows.into_iter().map(without_name_and_note).collect()),
    };
    Ok(Listing { heads, rows, empty, value: Some(value), ..Listing::default() })
}

/// Lists the name and the note of one result.
///
/// # Errors
/// A file that is unreadable.
pub fn about(result: &Path) -> Result<Listing, Failure> {
    let about = About::read(result)?;
    let result = result.display().to_string();
    let value = json!({"result": result, "name": about.name, "note": about.note});
    let cell = |text: Option<String>| text.unwrap_or_else(|| NONE.into());
    Ok(Listing {
        heads: &["result", "name", "note"],
        rows: vec![vec![result, cell(about.name), cell(about.note)]],
        value: Some(value),
        ..Listing::default()
    })
}

/// Indices into [`ALL_HEADS`]: the name, the beginning, and the note.
const NAME: usize = 1;
const BEGAN: usize = 2;
const NOTE: usize = 6;

/// A cell without a value.
const NONE: &str = "-";

fn object(row: &[String]) -> Value {
    ALL_HEADS.iter().zip(row).map(|(head, cell)| (head.to_string(), json!(cell))).collect()
}

/// Shortens an RFC 3339 time to minutes, for a reader: `2026-11-27 16:22`.
fn to_the_minute(time: &str) -> String {
    match (time.get(..10), time.get(10..11), time.get(11..16)) {
        (Some(day), Some("T"), Some(minute)) => format!("{day} {minute}"),
        _ => time.to_string(),
    }
}

fn without_name_and_note(row: Vec<String>) -> Vec<String> {
    let cells = row.into_iter().enumerate();
    cells.filter(|(index, _)| ![NAME, NOTE].contains(index)).map(|(_, cell)| cell).collect()
}

/// Returns the cells of a result, in the order of [`ALL_HEADS`].
fn row(result: &Path) -> Vec<String> {
    let (name, note) = match About::read(result) {
        Ok(about) => (about.name, about.note),
        Err(failure) => (None, Some(format!("unreadable: {}", failure.message))),
    };
    let cell = |text: Option<String>| text.unwrap_or_else(|| NONE.into());
    let measured = measured_cells(result);
    let path = result.display().to_string();
    [path, cell(name)].into_iter().chain(measured).chain([cell(note)]).collect()
}

fn measured_cells(result: &Path) -> [String; 4] {
    let has_rows = || compressed::find(&result.join(fsdyno_crash::ROWS_FILE)).is_some();
    if let Some(title) = study_of(result) {
        return ["-".into(), format!("study: {title}"), "-".into(), "-".into()];
    }
    match crash::part::Part::read(result) {
        Ok(None) if !has_rows() => run_cells(result),
        Ok(part) => crash_cells(result, has_rows(), part),
        Err(failure) => unreadable(&failure.message),
    }
}

/// Returns the title of the study to which a result folder belongs.
fn study_of(result: &Path) -> Option<String> {
    let file = result.join("study.toml");
    let text =
        fsdyno_record::bounded::read_to_string(&file, &fsdyno_record::bounded::WRITTEN).ok()?;
    let table: toml::Table = text.parse().ok()?;
    Some(table.get("title")?.as_str()?.to_string())
}

fn run_cells(result: &Path) -> [String; 4] {
    match fsdyno_report::load([result]) {
        Ok(loaded) => trial_cells(loaded.trials),
        Err(error) => unreadable(&error.to_string()),
    }
}

fn trial_cells(mut trials: Vec<Trial>) -> [String; 4] {
    fsdyno_campaign::results::in_order(&mut trials);
    let began = trials.iter().map(|trial| trial.host.started.as_str()).min().unwrap_or("-");
    let failed = trials.iter().filter(|trial| trial.outcome != Outcome::Ok).count();
    let failed = if failed > 0 { format!(" ({failed} failed)") } else { String::new() };
    let [workloads, labels] = names(trials.iter().map(|trial| &trial.plan));
    [began.into(), workloads, labels, format!("{}{failed}", trials.len())]
}

fn crash_cells(result: &Path, has_rows: bool, part: Option<crash::part::Part>) -> [String; 4] {
    let rows = match has_rows {
        true => crash::stored::read(&result.join(fsdyno_crash::ROWS_FILE)),
        false => Ok(Vec::new()),
    };
    match rows {
        Ok(mut rows) => {
            let note = if part.is_some() { " (unfinished)" } else { "" };
            rows.extend(part.map(|part| part.row));
            let cuts: usize = rows.iter().map(|row| row.outcomes.len()).sum();
            let [workloads, labels] = names(rows.iter().map(|row| &row.plan));
            ["-".into(), format!("{workloads} (crash)"), labels, counted(cuts, "cut") + note]
        }
        Err(failure) => unreadable(&failure.message),
    }
}

fn unreadable(reason: &str) -> [String; 4] {
    ["-".into(), format!("unreadable: {reason}"), "-".into(), "-".into()]
}

/// Returns the distinct workloads and labels of plans.
fn names<'a>(plans: impl Iterator<Item = &'a Plan> + Clone) -> [String; 2] {
    let workloads = distinct(plans.clone().map(|plan| plan.workload.name.as_str()));
    let labels = distinct(plans.map(|plan| plan.label.as_str()));
    [workloads.join(" "), labels.join(", ")]
}

/// Returns the names in order, without repetitions.
fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut known = Vec::new();
    for name in names {
        if !known.contains(&name) {
            known.push(name);
        }
    }
    known
}

#[cfg(test)]
mod tests {
    use super::to_the_minute;

    #[test]
    fn the_beginning_is_shown_to_the_minute() {
        assert_eq!(to_the_minute("2026-11-27T16:22:40.933660Z"), "2026-11-27 16:22");
        assert_eq!(["-", "2026-11-27"].map(to_the_minute), ["-", "2026-11-27"]);
    }
}
