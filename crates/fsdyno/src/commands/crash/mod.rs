//! `fsdyno crash`: runs a workload once, cuts its power many times, and checks what survives.

mod args;

use std::path::Path;

use fsdyno_campaign::crash::{CrashRun, folder as result_folder, replay};
use fsdyno_campaign::{stop, target};
use fsdyno_crash::{ROWS_FILE, Row};
use fsdyno_report::{CrashReport, Format};

pub use args::{Crash, reason_absent};

use crate::cli::Report;
use crate::commands::page::write_page;
use crate::exit::{Exit, Failure};
use crate::output::{self, say, write_data, write_json};
use crate::{session, version};

/// Runs the command.
pub fn run(crash: &Crash) -> Result<Exit, Failure> {
    match &crash.replay {
        Some(path) => repeat(crash, path),
        None => test_all(crash),
    }
}

/// Tests all requested file systems.
fn test_all(crash: &Crash) -> Result<Exit, Failure> {
    let run = CrashRun::resolve(crash.spec(), crash.cuts())?;
    let name = || format!("crash-{}", crash.workload.as_deref().unwrap_or_default());
    let folder = crash.out.clone().unwrap_or_else(|| target::default_folder(&name()));
    result_folder::check_folder(&folder)?;
    if crash.dry_run {
        write_data(&run.plan())?;
        return Ok(Exit::Success);
    }
    let tested = run.test(&folder, &stop::flag()?, version::build())?;
    // A run that was stopped in its first row has none.
    if !tested.rows.is_empty() {
        print(&tested.rows, crash.format)?;
        say(&format!("fsdyno: all crash points: {}", folder.join(ROWS_FILE).display()));
        say(&format!("report: {}", folder.join(result_folder::PAGE).display()));
    }
    match tested.failed {
        Some(failure) if failure.exit == Exit::Stopped => {
            say(&format!("fsdyno: stopped; resume with:\n  {}", session::resume_command(&folder)));
            Ok(Exit::Stopped)
        }
        Some(failure) => Err(failure),
        None => Ok(verdict(tested.rows.iter().any(Row::may_lose_data))),
    }
}

fn verdict(is_negative: bool) -> Exit {
    if is_negative { Exit::NegativeVerdict } else { Exit::Success }
}

/// Repeats a finding.
fn repeat(crash: &Crash, path: &Path) -> Result<Exit, Failure> {
    let finding = replay::read(path)?;
    crash.image.as_deref().map_or(Ok(()), result_folder::check_image)?;
    if crash.dry_run {
        let label = &finding.plan.label;
        write_data(&format!(
            "{label}: {} once, cut {}, torn at {}\n",
            finding.plan.workload.name, finding.outcome.cut.number, finding.atomic_unit
        ))?;
        return Ok(Exit::Success);
    }
    let options = (crash.cuts(), crash.axes.0.kernels.first().cloned(), crash.image.as_deref());
    let repeated = replay::replay(&finding, options, &stop::flag()?, version::build())?;
    match crash.format {
        Format::Json => write_json(&repeated)?,
        _ => write_data(&replay::describe(&repeated))?,
    }
    say(match repeated.agrees_with(&finding.outcome) {
        true => "fsdyno: the finding is reproduced",
        false => "fsdyno: the result differs from the finding",
    });
    Ok(verdict(repeated.findings.violations() > 0 || repeated.recovery.lost.is_some()))
}

/// Runs `fsdyno report` on the rows of a crash test.
pub fn report(report: &Report, rows: &[Row]) -> Result<Exit, Failure> {
    let least = report.comparison.least_difference;
    if report.charts.is_some() || report.baseline.is_some() || least.is_some() {
        let message = "--charts, --baseline and --least-difference do not apply to results of fsdyno crash; remove them";
        return Err(Failure::invalid_use(message));
    }
    if report.comparison.sort.is_some() || !report.comparison.columns.is_empty() {
        let message = "--sort and --columns do not apply to results of fsdyno crash; remove them";
        return Err(Failure::invalid_use(message));
    }
    if let Some(path) = &report.html
        && write_page(path, &fsdyno_report::crash_html(rows)?)?
    {
        return Ok(Exit::Success);
    }
    print(rows, report.format)?;
    Ok(Exit::Success)
}

/// Prints the rows in a format.
fn print(rows: &[Row], format: Format) -> Result<(), Failure> {
    if matches!(format, Format::Special(_)) {
        let common: Vec<&str> = Format::ALL.iter().map(|(name, ..)| *name).collect();
        return Err(Failure::invalid_use(format!(
            "results of fsdyno crash cannot be printed in this format; use one of {}",
            common.join(", ")
        )));
    }
    output::print(&CrashReport(rows), format)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use fsdyno_campaign::Experiment;

    use super::*;
    use crate::cli::{Cli, Command};

    fn dry_replay(finding: &Path) -> Result<Exit, Failure> {
        let args = ["fsdyno", "crash", "--dry-run", "--replay", finding.to_str().unwrap()];
        match Cli::try_parse_from(args).map(|cli| cli.command) {
            Ok(Command::Crash(crash)) => run(&crash),
            _ => panic!("the arguments are refused"),
        }
    }

    #[test]
    fn a_finding_whose_commands_differ_from_the_catalog_is_refused() {
        let stored =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../results/2026-11-22-crash/ext4-0079.json");
        let mut finding = result_folder::read_finding(Path::new(stored)).unwrap();
        let Ok(Command::Crash(crash)) =
            Cli::try_parse_from(["fsdyno", "crash", "dirops", "--fs", "ext4"])
                .map(|cli| cli.command)
        else {
            panic!("the arguments are refused");
        };
        let cells = Experiment::resolve(crash.spec()).unwrap().cells;
        finding.plan.filesystem = cells[0].plan.filesystem.clone();
        let folder = tempfile::tempdir().unwrap();
        let current = folder.path().join("current.json");
        std::fs::write(&current, serde_json::to_vec(&finding).unwrap()).unwrap();
        assert_eq!(dry_replay(&current).unwrap(), Exit::Success);
        let plan = finding.plan.filesystem.as_mut().unwrap();
        plan.check = ["sh", "-c", "id > left"].map(String::from).into();
        let forged = folder.path().join("forged.json");
        std::fs::write(&forged, serde_json::to_vec(&finding).unwrap()).unwrap();
        let failure = dry_replay(&forged).unwrap_err();
        assert_eq!(failure.exit, Exit::InvalidUse);
        assert!(failure.message.contains("its 'check' has"), "{}", failure.message);
    }
}
