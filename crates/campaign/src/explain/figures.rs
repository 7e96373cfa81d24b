//! Explanations as files: their figures, and all data as JSON.

use std::collections::BTreeSet;
use std::path::Path;

use fsdyno_report::why::Explanation;
use fsdyno_report::{Format, Style, why_charts};
use fsdyno_why::Explained;

use crate::Failure;
use crate::files::{make_folder, write_file};
use crate::notes::say;

/// Writes the figures (requests over time and a flame graph for each phase), and all data as JSON. `written`
/// contains the file names that this command has already used.
///
/// # Errors
/// A file that cannot be written.
pub fn write_files(
    folder: &Path,
    explained: &Explained,
    compared_with: Option<&Explained>,
    written: &mut BTreeSet<String>,
) -> Result<(), Failure> {
    make_folder(folder)?;
    let mut add = |name: &str, text: &str| -> Result<(), Failure> {
        write_file(&folder.join(unused_name(name, written)), text)
    };
    let figures = why_charts(explained, compared_with);
    for figure in &figures {
        add(&figure.name, &figure.svg)?;
    }
    // A label may contain any character; a file name may not.
    let to_safe_character =
        |c: char| if c.is_ascii_alphanumeric() || ".-_".contains(c) { c } else { '_' };
    let name = format!("{}-{}-why.json", explained.workload, explained.label);
    let name: String = name.chars().map(to_safe_character).collect();
    let explanation = Explanation { explained, against: compared_with };
    add(&name, &Format::Json.write(&explanation, Style::default())?)?;
    say(&format!("{} files written to {}", figures.len() + 1, folder.display()));
    Ok(())
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
}
