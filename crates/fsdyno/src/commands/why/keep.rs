//! What was found out stays beside the trials, and stands in the page of their result.

use std::io::Write;
use std::path::{Path, PathBuf};

use fsdyno_report::load_why;
use fsdyno_why::Told;
use fsdyno_why::stored::FILE;

use crate::cli::Why;
use crate::commands::report;
use crate::exit::Failure;
use crate::output::say;

/// Keeps the explanations in the result's folder, in place of older ones of the same trials, and writes its page
/// anew. A folder that cannot be written is no error: what was asked has been shown.
pub fn keep(why: &Why, told: Vec<Told>) -> Result<(), Failure> {
    let folder = match why.result.is_dir() {
        true => why.result.clone(),
        false => why.result.parent().map(Path::to_path_buf).unwrap_or_default(),
    };
    let results = [&why.result];
    let loaded = fsdyno_report::load(results)?;
    let mut trials = loaded.trials;
    fsdyno_study::drop_superseded(&mut trials, &loaded.ends);
    report::in_order(&mut trials, &[]);
    let (mut all, _) = load_why(results, &trials)?;
    all.retain(|old| !told.iter().any(|new| new.replaces(old)));
    all.extend(told);
    if let Err(error) = store(&folder, &all) {
        let file = folder.join(FILE);
        say(&format!(
            "fsdyno: not kept for the page: failed to write '{}': {error}",
            file.display()
        ));
        return Ok(());
    }
    let html = folder.join("report.html");
    let series = report::drawn(&results, &trials)?;
    report::write_html_with(&html, &trials, (&series, &all), why.baseline.as_deref())?;
    say(&format!("report: {}", html.display()));
    Ok(())
}

/// Writes the file whole or not at all.
fn store(folder: &Path, all: &[Told]) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    for told in all {
        serde_json::to_writer(&mut bytes, told)?;
        bytes.push(b'\n');
    }
    let new: PathBuf = folder.join(format!("{FILE}.new"));
    let mut file = fsdyno_media::file::create(&new)?;
    file.write_all(&bytes).and_then(|()| file.sync_all())?;
    std::fs::rename(&new, folder.join(FILE))
}
