//! What `fsdyno why` shows: sentences and tables on stdout, pictures in files.

use std::io::Write;
use std::path::Path;

use fsdyno_report::{Style, why_charts};
use fsdyno_why::Explained;

use crate::cli::Why;
use crate::exit::Failure;
use crate::output::{self, data, say};

/// Shows one trial, against another where there is one.
pub fn show(why: &Why, it: &Explained, other: Option<&Explained>) -> Result<(), Failure> {
    let style = Style { color: output::colour(), width: output::width() };
    data(&fsdyno_report::why::write(it, other, why.format, style))?;
    match &why.out {
        Some(folder) => files(folder, it, other),
        None => Ok(()),
    }
}

/// Writes the pictures (the requests of each phase, and a flame graph of each), and everything as JSON.
fn files(folder: &Path, it: &Explained, other: Option<&Explained>) -> Result<(), Failure> {
    std::fs::create_dir_all(folder).map_err(|error| {
        Failure::wrong(format!("failed to create '{}': {error}", folder.display()))
    })?;
    let add = |name: &str, text: &str| -> Result<(), Failure> {
        let path = folder.join(name);
        fsdyno_media::file::create(&path)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|error| {
                Failure::wrong(format!("failed to write '{}': {error}", path.display()))
            })
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
