//! What `fsdyno why` shows: sentences and tables on stdout, pictures in files.

use std::collections::BTreeSet;
use std::path::Path;

use fsdyno_report::{Style, why_charts};
use fsdyno_why::Explained;

use crate::cli::Why;
use crate::commands::report::{make_folder, write_file};
use crate::exit::Failure;
use crate::output::{self, data, say};

/// Shows one trial, against another where there is one. `written` are the names of files that this command has
/// written.
pub fn show(
    why: &Why,
    it: &Explained,
    other: Option<&Explained>,
    written: &mut BTreeSet<String>,
) -> Result<(), Failure> {
    let style = Style { color: output::colour(), width: output::width() };
    data(&fsdyno_report::why::write(it, other, why.format, style))?;
    match &why.out {
        Some(folder) => files(folder, it, other, written),
        None => Ok(()),
    }
}

/// Writes the pictures (the requests of each phase, and a flame graph of each), and everything as JSON.
fn files(
    folder: &Path,
    it: &Explained,
    other: Option<&Explained>,
    written: &mut BTreeSet<String>,
) -> Result<(), Failure> {
    make_folder(folder)?;
    let mut add = |name: &str, text: &str| -> Result<(), Failure> {
        write_file(&folder.join(another(name, written)), text)
    };
    let pictures = why_charts(it, other);
    for picture in &pictures {
        add(&picture.name, &picture.svg)?;
    }
    // A label may be anything; a file's name may not.
    let plain = |c: char| if c.is_ascii_alphanumeric() || ".-_".contains(c) { c } else { '_' };
    let name: String =
        format!("{}-{}-why.json", it.workload, it.label).chars().map(plain).collect();
    let json = fsdyno_report::why::Format::Json;
    add(&name, &fsdyno_report::why::write(it, other, json, Style::default()))?;
    say(&format!("files: {} in {}", pictures.len() + 1, folder.display()));
    Ok(())
}

/// The name, with a number before its ending where this command has a file of that name already: two rows may
/// differ in letters that no file's name has.
fn another(name: &str, written: &mut BTreeSet<String>) -> String {
    let (stem, ending) = name.rsplit_once('.').unwrap_or((name, ""));
    let mut free = name.to_string();
    let mut number = 1;
    while !written.insert(free.clone()) {
        number += 1;
        free = format!("{stem}-{number}.{ending}");
    }
    free
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_files_never_have_one_name() {
        let mut written = BTreeSet::new();
        let names = ["a.svg", "b.svg", "a.svg", "a-2.svg", "a.svg"];
        let names = names.map(|name| another(name, &mut written));
        assert_eq!(names, ["a.svg", "b.svg", "a-2.svg", "a-2-2.svg", "a-3.svg"]);
    }
}
