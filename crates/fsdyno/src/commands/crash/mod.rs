//! `fsdyno crash`: runs a workload once, cuts its power many times, and checks what survives.

mod args;
mod show;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fsdyno_axes::Request;
use fsdyno_campaign::crash::folder as keep;
use fsdyno_campaign::{Cell, RunSpec, target};
use fsdyno_crash::{
    AtomicUnit, CutOutcome, FILE, Rate, RecoveryRequest, Replay, Row, acknowledged, cut, judge,
};
use fsdyno_filesystem::Author;
use fsdyno_filesystem::Guarantee;
use fsdyno_record::job::Task;
use fsdyno_record::mailbox::Progress;
use fsdyno_record::trial::trial_id;
use fsdyno_record::units::counted;
use fsdyno_record::{Job, Nanos, Plan};
use fsdyno_report::Format;
use fsdyno_venue::{Commands, LabVenue, LoggedTrial, Venue, VenueError, Watch, logged};
use fsdyno_workload::{Contents, Setting, Workload, workloads};

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
    let cells = target::cells(&requests)?;
    for cell in &cells {
        check(&cell.plan)?;
    }
    let name = || format!("crash-{}", crash.workload.as_deref().unwrap_or_default());
    let folder = crash.out.clone().unwrap_or_else(|| target::default_folder(&name()));
    keep::check_folder(&folder)?;
    if crash.dry_run {
        return dry(crash, &cells);
    }
    let stop = stop::flag()?;
    let (venue, known) = target::lab_venue(&run, &folder, &stop)?;
    requests.iter_mut().for_each(|request| request.place = known.clone());
    let cells = target::cells(&requests)?;
    let names = keep::file_names(cells.iter().map(|cell| cell.plan.label.as_str()));
    let mut skipped: Option<Failure> = None;
    let mut failed: Option<Failure> = None;
    let mut rows = Vec::new();
    for (cell, name) in cells.iter().zip(&names) {
        let missing = match &cell.skip {
            Some(reason) => Some(Failure::wrong(reason.clone())),
            None => match venue.identity(&cell.plan) {
                Ok(_) => None,
                Err(error @ VenueError::Missing(_)) => Some(error.into()),
                Err(error) => return Err(error.into()),
            },
        };
        if let Some(failure) = missing {
            say(&format!("fsdyno: {} is skipped: {failure}", cell.plan.label));
            let reason = failure.message.clone();
            let row = Row::skipped(&cell.plan, crash.seed, crash.misbehave, reason);
            let build = version::build().cloned();
            rows.push(Row { tear: tear(crash, &cell.plan), build, ..row });
            skipped.get_or_insert(failure);
            if !none_ran(&rows) {
                keep::rows(&folder, &rows)?;
            }
            continue;
        }
        let one = CrashTest { crash, venue: &venue, stop: &stop };
        let job = job(&cell.plan, crash.seed, cell.deadline);
        match one.row(&job, &folder, name) {
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

fn none_ran(rows: &[Row]) -> bool {
    rows.iter().all(|row| row.skipped.is_some())
}

fn verdict(is_bad: bool) -> Exit {
    if is_bad { Exit::VerdictNo } else { Exit::Good }
}

/// Refuses a plan that cannot be crash-tested, before any work.
fn check(plan: &Plan) -> Result<(), Failure> {
    let cannot =
        |why: String| Failure::wrong(format!("{} cannot be crash-tested: {why}", plan.label));
    guarantee_of(plan).map_err(|failure| cannot(failure.message))?;
    if let Some(why) = logged::refusal(plan) {
        return Err(cannot(why));
    }
    if plan.workload.input.is_some() {
        return Err(cannot("its workload reads an input file".into()));
    }
    let work = workload(plan, 1)?;
    match fsdyno_crash::refusal(work.as_ref(), plan.ranks()) {
        Some(why) => Err(cannot(format!("workload {}: {why}", plan.workload.name))),
        None => Ok(()),
    }
}

/// The durability guarantees of a plan's file system.
fn guarantee_of(plan: &Plan) -> Result<&'static Guarantee, Failure> {
    let kind = plan.filesystem.as_ref().map_or("", |filesystem| filesystem.kind.as_str());
    Guarantee::of(kind).ok_or_else(|| {
        let known = Guarantee::kinds().collect::<Vec<_>>().join(", ");
        Failure::wrong(format!(
            "the durability guarantees of '{kind}' are not known; they are for {known}"
        ))
    })
}

fn workload(plan: &Plan, seed: u64) -> Result<Box<dyn Workload>, Failure> {
    let kind =
        workloads::find(&plan.workload.name).map_err(|error| Failure::wrong(error.to_string()))?;
    kind.build(&plan.workload.params, &Setting::seed(seed))
        .map_err(|error| Failure::wrong(error.to_string()))
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

fn job(plan: &Plan, seed: u64, deadline: Nanos) -> Job {
    let (trial_id, plan) = (trial_id(plan, seed), plan.clone());
    Job { trial_id, seed, plan, deadline, task: Task::Logged }
}

/// A crash test of one command, for any of its file systems.
struct CrashTest<'a> {
    crash: &'a Crash,
    venue: &'a LabVenue,
    stop: &'a Arc<AtomicBool>,
}

impl CrashTest<'_> {
    fn watch(&self) -> Watch {
        if self.stop.load(Ordering::Relaxed) { Watch::Stop } else { Watch::GoOn }
    }

    /// Tests one file system: runs the trial, recovers each crash point, and writes the findings.
    fn row(&self, job: &Job, folder: &Path, name: &str) -> Result<Row, Failure> {
        let label = &job.plan.label;
        let lab_id = self.venue.identity(&job.plan)?.map(|identity| identity.lab_id);
        say(&format!(
            "fsdyno: {label}: {} runs with a log of all its writes",
            job.plan.workload.name
        ));
        let logged = self.logged(job)?;
        let (bytes, acks) = (logged.bytes()?, logged.acks()?);
        let (work, guarantee) = (workload(&job.plan, job.seed)?, guarantee_of(&job.plan)?);
        let acknowledged = acknowledged(work.as_ref(), job.plan.ranks(), guarantee, &acks);
        let cuts = cut::choose(bytes.events(), &acks, &acknowledged, job.seed, self.crash.cuts);
        say(&format!(
            "fsdyno: {label}: {} among {} events on the disk; the trial took {:.0} s",
            counted(cuts.len(), "crash point"),
            bytes.events().len(),
            logged.elapsed.as_secs_f64()
        ));
        drop(bytes);
        let (disk, tear) = (self.crash.misbehave, tear(self.crash, &job.plan));
        let tried = self.recover(
            job,
            &logged,
            RecoveryRequest { cuts, disk, tear, ..RecoveryRequest::default() },
        )?;
        let rate = Rate::of(&logged.report);
        let build = version::build().cloned();
        let row = Row { lab_id, build, tear, ..Row::new(&job.plan, job.seed, disk, rate, tried) };
        keep::findings(folder, name, &row, job.deadline)?;
        Ok(row)
    }

    fn logged(&self, job: &Job) -> Result<LoggedTrial, VenueError> {
        self.venue.run_logged(job, &mut |_: &Progress| self.watch())
    }

    /// Recovers each crash point's image and judges it.
    fn recover(
        &self,
        job: &Job,
        logged: &LoggedTrial,
        order: RecoveryRequest,
    ) -> Result<Vec<CutOutcome>, Failure> {
        let (label, all) = (&job.plan.label, order.cuts.len() as u64);
        let reported = AtomicU64::new(0);
        let watch = |done: u64| {
            // Reports each tenth, once.
            let part = done * 10 / all.max(1);
            if part > reported.fetch_max(part, Ordering::Relaxed) && done < all {
                say(&format!("fsdyno: {label}: {done} of {all} crash points"));
            }
            self.watch()
        };
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let jobs = self.crash.jobs.map_or(processors, usize::from);
        let found = self.venue.recover(job, logged, order, jobs, &watch)?;
        let work = workload(&job.plan, job.seed)?;
        let (acks, mut contents) = (logged.acks()?, Contents::new(job.seed));
        contents.thin(work.zeros());
        let guarantee = guarantee_of(&job.plan)?;
        let mut done = Replay::new(work.as_ref(), job.plan.ranks(), guarantee, &acks);
        let judged = found.into_iter().map(|(cut, found)| {
            let tree = done.tree_at(cut.at);
            let findings = judge(&tree, &found, &contents, cut.at);
            CutOutcome::new(cut, &found, findings)
        });
        Ok(judged.collect())
    }
}

/// Repeats a finding.
fn replay(crash: &Crash, path: &Path) -> Result<Exit, Failure> {
    let finding = keep::finding(path)?;
    check(&finding.plan)?;
    // The finding may come from someone else: its commands are checked, with --dry-run too.
    Commands::of(&finding.plan)?;
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
    let (venue, _) = target::lab_venue(&run, Path::new("."), &stop)?;
    let one = CrashTest { crash, venue: &venue, stop: &stop };
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
