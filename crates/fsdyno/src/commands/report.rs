//! `fsdyno report`: prints stored results as a table or data, or writes them as one HTML file.

use std::path::{Path, PathBuf};

use crate::cli::Report;
use crate::commands::page::write_page;
use crate::commands::study;
use crate::exit::{Exit, Failure};
use crate::output::{self, say};
use fsdyno_campaign::results::{check_baseline, drawn, explanations, in_order};
use fsdyno_record::Trial;
use fsdyno_record::bounded::{self, RESULTS};
use fsdyno_report::{Basis, Format, Own};

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
    if let [folder] = report.results.as_slice()
        && let Some(tuned) = super::tune::stored(folder)?
    {
        if let Some(path) = &report.html
            && write_page(path, &fsdyno_report::tune_html(&tuned)?)?
        {
            return Ok(Exit::Good);
        }
        output::print(&tuned, report.format)?;
        return Ok(Exit::Good);
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
        fsdyno_campaign::charts::write(folder, &charts, report.png)?;
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
    files.extend(fsdyno_campaign::crash::folder::findings_in(path).unwrap_or_default());
    files.sort();
    files.into_iter().find(is_finding)
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
}
