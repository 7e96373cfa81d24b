//! `fsdyno crash`: runs a workload once, cuts its power many times, and checks what survives.

mod args;
mod show;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsdyno_axes::Request;
use fsdyno_campaign::crash::{CrashTest, check, folder as keep, job};
use fsdyno_campaign::{Cell, RunSpec, again, labs, read_inputs, target};
use fsdyno_crash::{AtomicUnit, CutOutcome, FILE, RecoveryRequest, Row};
use fsdyno_filesystem::Author;
use fsdyno_record::Plan;
use fsdyno_record::units::counted;
use fsdyno_report::Format;
use fsdyno_venue::{Commands, Inputs, LabVenue, Venue, VenueError};

pub use args::{Crash, reason_absent};
pub use show::{read, report, stored};

use crate::exit::{Exit, Failure};
use crate::output::{data, json, say};
use crate::{stop, version};

/// Runs the command.
pub fn run(crash: &Crash) -> Result<Exit, Failure> {
    match &crash.replay {
        Some(path) => replay(crash, path),
        None => all(crash),
    }
}

fn all(crash: &Crash) -> Result<Exit, Failure> {
    let run = crash.spec();
    let mut requests = target::parse_targets(&run)?;
    let inputs = match requests.first() {
        Some(request) => read_inputs(&request.question)?,
        None => Inputs::default(),
    };
    requests.iter_mut().for_each(|request| request.question.inputs = inputs.clone());
    let cells = target::cells(&requests)?;
    for cell in &cells {
        check(&cell.plan, &inputs)?;
    }
    let name = || format!("crash-{}", crash.workload.as_deref().unwrap_or_default());
    let folder = crash.out.clone().unwrap_or_else(|| target::default_folder(&name()));
    keep::check_folder(&folder)?;
    if crash.dry_run {
        return dry(crash, &cells);
    }
    let stop = stop::flag()?;
    let (venue, known) = labs::lab_venue(&run, &folder, &stop)?;
    let venue = venue.with_inputs(inputs);
    requests.iter_mut().for_each(|request| request.place = known.clone());
    let cells = target::cells(&requests)?;
    let names = keep::file_names(cells.iter().map(|cell| cell.plan.label.as_str()));
    let (mut skipped, mut failed): (Option<Failure>, Option<Failure>) = (None, None);
    let mut rows = Vec::new();
    for (cell, name) in cells.iter().zip(&names) {
        if let Some(failure) = lacking(&venue, cell)? {
            say(&format!("fsdyno: {} is skipped: {failure}", cell.plan.label));
            rows.push(skipped_row(crash, cell, &failure));
            skipped.get_or_insert(failure);
            if !none_ran(&rows) {
                keep::rows(&folder, &rows)?;
            }
            continue;
        }
        let job = job(&cell.plan, crash.seed, cell.deadline);
        let row = test(crash, &venue, &stop).row(&job);
        let row = row.and_then(|row| {
            keep::findings(&folder, name, &row, job.deadline)?;
            Ok(row)
        });
        match row {
            Ok(row) => rows.push(row),
            // The finished rows are kept and printed before the error is returned.
            Err(failure) => {
                failed = Some(failure);
                break;
            }
        }
        keep::rows(&folder, &rows)?;
    }
    if let Some(failure) = failed.take_if(|_| none_ran(&rows)) {
        return Err(failure);
    }
    if let Some(failure) = skipped.filter(|_| none_ran(&rows)) {
        return Err(failure);
    }
    show::print(&rows, crash.format)?;
    say(&format!("fsdyno: all crash points: {}", folder.join(FILE).display()));
    say(&format!("report: {}", folder.join(keep::PAGE).display()));
    match failed {
        Some(failure) => Err(failure),
        None => Ok(verdict(rows.iter().any(Row::is_bad))),
    }
}

/// Returns the failure of a trial that lacks something here.
fn lacking(venue: &LabVenue, cell: &Cell) -> Result<Option<Failure>, Failure> {
    if let Some(reason) = &cell.skip {
        return Ok(Some(Failure::wrong(reason.clone())));
    }
    match venue.identity(&cell.plan) {
        Ok(_) => Ok(None),
        Err(error @ VenueError::Missing(_)) => Ok(Some(error.into())),
        Err(error) => Err(error.into()),
    }
}

/// The row of a trial that cannot run here.
fn skipped_row(crash: &Crash, cell: &Cell, failure: &Failure) -> Row {
    let reason = failure.message.clone();
    let row = Row::skipped(&cell.plan, crash.seed, crash.misbehave, reason);
    Row { tear: tear(crash, &cell.plan), build: version::build().cloned(), ..row }
}

fn none_ran(rows: &[Row]) -> bool {
    rows.iter().all(|row| row.skipped.is_some())
}

fn verdict(is_bad: bool) -> Exit {
    if is_bad { Exit::VerdictNo } else { Exit::Good }
}

/// The atomic write unit: as requested, else the disk's physical sector.
fn tear(crash: &Crash, plan: &Plan) -> AtomicUnit {
    crash.tear.unwrap_or_else(|| AtomicUnit::of(plan))
}

fn dry(crash: &Crash, cells: &[Cell]) -> Result<Exit, Failure> {
    let lines = cells.iter().map(|cell| {
        let disk = cell.plan.disk_name().unwrap_or_default();
        let (label, workload) = (&cell.plan.label, &cell.plan.workload.name);
        let (calls, tear) = (cell.ops(), tear(crash, &cell.plan));
        let cuts = counted(crash.cuts as usize, "crash point");
        format!("{label}: {workload} once ({calls} calls) on {disk}, {cuts}, torn at {tear}\n")
    });
    data(&lines.collect::<String>())?;
    Ok(Exit::Good)
}

/// The crash tests of a command.
fn test<'a>(crash: &Crash, venue: &'a LabVenue, stop: &'a Arc<AtomicBool>) -> CrashTest<'a> {
    CrashTest {
        venue,
        stop,
        build: version::build(),
        cuts: crash.cuts,
        disk: crash.misbehave,
        tear: crash.tear,
        jobs: crash.jobs,
    }
}

/// Repeats a finding.
fn replay(crash: &Crash, path: &Path) -> Result<Exit, Failure> {
    let finding = keep::finding(path)?;
    // The finding may come from someone else: its commands are checked, with --dry-run too.
    Commands::of(&finding.plan)?;
    let inputs = again::inputs(&[&finding.plan])?;
    check(&finding.plan, &inputs)?;
    crash.image.as_deref().map_or(Ok(()), keep::check_image)?;
    if crash.dry_run {
        let label = &finding.plan.label;
        data(&format!(
            "{label}: {} once, cut {}, torn at {}\n",
            finding.plan.workload.name, finding.tried.cut.number, finding.tear
        ))?;
        return Ok(Exit::Good);
    }
    let stop = stop::flag()?;
    // The plan has everything but the path of the kernel.
    let kernel = finding.plan.lab().map(|lab| lab.kernel.release.clone());
    let kernels = crash.axes.0.kernels.first().cloned().or(kernel).into_iter().collect();
    let axes = Request { kernels, ..Request::default() };
    let workloads = vec![finding.plan.workload.name.clone()];
    let run = RunSpec { author: Author::File, workloads, axes, ..RunSpec::default() };
    let (venue, _) = labs::lab_venue(&run, Path::new("."), &stop)?;
    let venue = venue.with_inputs(inputs);
    let one = test(crash, &venue, &stop);
    let job = job(&finding.plan, finding.seed, finding.deadline);
    let lab_id = venue.identity(&job.plan)?.map(|identity| identity.lab_id);
    if lab_id != finding.lab_id {
        say(
            "fsdyno: this lab is not that of the finding; its crash point may lie at another operation",
        );
    }
    let logged = one.logged(&job)?;
    let (cuts, disk, tear) = (vec![finding.tried.cut], finding.disk, finding.tear);
    let order = RecoveryRequest { cuts, disk, tear, ..RecoveryRequest::default() };
    if let Some(path) = &crash.image {
        let image = venue.image_of_cut(&job, &logged, &order)?;
        keep::image(path, image)?;
    }
    let tried = one.recover(&job, &logged, order)?;
    let Some(tried) = tried.first() else {
        return Err(Failure::wrong("the crash point was not tested"));
    };
    match crash.format {
        Format::Json => json(tried)?,
        _ => data(&describe(tried))?,
    }
    say(match tried.agrees_with(&finding.tried) {
        true => "fsdyno: the finding is reproduced",
        false => "fsdyno: the result differs from the finding",
    });
    Ok(verdict(tried.findings.violations() > 0 || tried.recovery.lost.is_some()))
}

/// Describes the result of a crash point.
fn describe(tried: &CutOutcome) -> String {
    let CutOutcome { cut, recovery, findings } = tried;
    let mut lines = vec![format!(
        "crash point {} at {} ({:?}, {:?}): {} violations",
        cut.number,
        cut.at,
        cut.moment,
        cut.choice,
        findings.violations()
    )];
    lines.push(format!("mounted in {}", recovery.mount_ns));
    let words = [
        ("mount refused", &recovery.refused),
        ("check", &recovery.unclean),
        ("repair", &recovery.repair),
        ("last resort", &recovery.last_resort),
        ("lost", &recovery.lost),
    ];
    lines.extend(
        words.iter().filter_map(|(what, text)| Some(format!("{what}: {}", text.as_ref()?))),
    );
    lines.extend(recovery.kernel.iter().map(|line| format!("kernel: {line}")));
    lines.extend(findings.examples.iter().cloned());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use fsdyno_campaign::Experiment;

    use super::*;
    use crate::cli::{Cli, Command};

    fn replayed(finding: &Path) -> Result<Exit, Failure> {
        let words = ["fsdyno", "crash", "--dry-run", "--replay", finding.to_str().unwrap()];
        match Cli::try_parse_from(words).map(|cli| cli.command) {
            Ok(Command::Crash(crash)) => run(&crash),
            _ => panic!("the arguments are refused"),
        }
    }

    #[test]
    fn a_finding_whose_commands_are_not_the_catalogs_is_refused() {
        let kept =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../results/2026-11-22-crash/ext4-0079.json");
        let mut finding = keep::finding(Path::new(kept)).unwrap();
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
        assert_eq!(replayed(&current).unwrap(), Exit::Good);
        let plan = finding.plan.filesystem.as_mut().unwrap();
        plan.check = ["sh", "-c", "id > left"].map(String::from).into();
        let forged = folder.path().join("forged.json");
        std::fs::write(&forged, serde_json::to_vec(&finding).unwrap()).unwrap();
        let failure = replayed(&forged).unwrap_err();
        assert_eq!(failure.exit, Exit::WrongUse);
        assert!(failure.message.contains("its 'check' has"), "{}", failure.message);
    }
}
