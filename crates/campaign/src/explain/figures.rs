//! Explanations as files: their figures, and all data as JSON.

use std::collections::BTreeSet;
use std::path::Path;

use fsdyno_record::bounded::{self, RESULTS};
use fsdyno_report::why::Explanation;
use fsdyno_report::{Format, Style, is_chart, why_charts};
use fsdyno_why::Explained;

use crate::Failure;
use crate::charts;
use crate::files::{make_folder, write_file};
use crate::notes::say;

/// Writes the figures (requests over time and a flame graph for each phase), and all data as JSON. Replaces the files of
/// an earlier explanation, but writes nothing if any file to be replaced was not written by fsdyno. `written` contains
/// the file names that this command has already used.
///
/// # Errors
/// A file that cannot be written, or that fsdyno did not write.
pub fn write_files(
    folder: &Path,
    explained: &Explained,
    compared_with: Option<&Explained>,
    written: &mut BTreeSet<String>,
) -> Result<(), Failure> {
    let mut files = Vec::new();
    for figure in why_charts(explained, compared_with) {
        let name = unused_name(&figure.name, written);
        charts::check(folder, &name, is_chart)?;
        files.push((name, figure.svg));
    }
    // A label may contain any character; a file name may not.
    let to_safe_character =
        |c: char| if c.is_ascii_alphanumeric() || ".-_".contains(c) { c } else { '_' };
    let name = format!("{}-{}-why.json", explained.workload, explained.label);
    let name: String = name.chars().map(to_safe_character).collect();
    let name = unused_name(&name, written);
    check_data(&folder.join(&name))?;
    let explanation = Explanation { explained, against: compared_with };
    files.push((name, Format::Json.write(&explanation, Style::default())?));
    make_folder(folder)?;
    files.iter().try_for_each(|(name, text)| write_file(&folder.join(name), text))?;
    say(&format!("{} files written to {}", files.len(), folder.display()));
    Ok(())
}

/// Refuses to replace a file that is not the data of an explanation written by fsdyno.
fn check_data(path: &Path) -> Result<(), Failure> {
    let is_ours = match std::fs::symlink_metadata(path) {
        Ok(found) => found.is_file() && is_data(path),
        // Either the path is free, or writing to it reports the error.
        Err(_) => true,
    };
    match is_ours {
        true => Ok(()),
        false => Err(Failure::invalid_use(format!(
            "'{}' exists and is not an explanation written by fsdyno; give another folder, or move the file",
            path.display()
        ))),
    }
}

/// Returns true if a file has the data of an explanation.
fn is_data(path: &Path) -> bool {
    let text = bounded::read_to_string(path, &RESULTS).unwrap_or_default();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    ["trial_id", "sentences", "requests", "functions"].iter().all(|key| value.get(key).is_some())
}

/// Adds a number to a file name that this command has already used: different labels may yield the same file name.
fn unused_name(name: &str, written: &mut BTreeSet<String>) -> String {
    let (stem, extension) = name.rsplit_once('.').unwrap_or((name, ""));
    let mut candidate = name.to_string();
    let mut number = 1;
    while !written.insert(candidate.clone()) {
        number += 1;
        candidate = format!("{stem}-{number}.{extension}");
    }
    candidate
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_unique() {
        let mut written = BTreeSet::new();
        let names = ["a.svg", "b.svg", "a.svg", "a-2.svg", "a.svg"];
        let names = names.map(|name| unused_name(name, &mut written));
        assert_eq!(names, ["a.svg", "b.svg", "a-2.svg", "a-2-2.svg", "a-3.svg"]);
    }

    #[test]
    fn only_data_of_an_earlier_explanation_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dirops-ext4-why.json");
        assert!(check_data(&path).is_ok(), "the path is free");
        let ours = r#"{"trial_id": "a", "sentences": [], "requests": [], "functions": []}"#;
        std::fs::write(&path, ours).unwrap();
        assert!(check_data(&path).is_ok());
        for other in ["", "mine", "[]", "{}", r#"{"trial_id": "a"}"#] {
            std::fs::write(&path, other).unwrap();
            let message = check_data(&path).unwrap_err().message;
            assert!(
                message.contains("exists and is not an explanation written by fsdyno"),
                "{message}"
            );
        }
        assert!(check_data(folder.path()).is_err(), "a folder");
    }
}
