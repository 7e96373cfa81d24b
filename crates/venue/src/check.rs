//! Runs the file system's own check on this host, on the image of a guest's disk or on the device.
//!
//! A check needs no guest: the same tool reads the same bytes here, about fifty times faster, and without any
//! privilege. The image is a nameless sparse file, so nothing is left behind.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use fsdyno_child::{Process, ProcessOutcome};
use fsdyno_disk::store::View;
use fsdyno_filesystem::Devices;
use fsdyno_record::mailbox::Progress;
use fsdyno_record::trial::{AgentReport, CheckReport, Outcome};
use fsdyno_record::{Bytes, Job, Nanos};

use crate::agent_report::nanos;
use crate::commands::Commands;
use crate::disk_image;
use crate::error::{VenueError, from_lab};
use crate::venue::Watch;

/// The maximum number of last lines of the check's output that are recorded.
const MAX_LINES: usize = 12;

/// The limit of a check's host time. A check of a sparse image in the page cache takes seconds at most; a check that
/// exceeds this limit is in an endless loop.
const TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// The polling interval of the check.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The names of the image and of a journal's image in records, used because their paths differ from trial to trial.
pub const IMAGES: [&str; 2] = ["image", "journal"];

/// Writes a partition of a modelled disk, as persisted on the medium, into a nameless sparse file. After a
/// clean end, everything must be persisted.
///
/// # Errors
/// The store cannot be read, the disk's cache was not empty at the end, or there is no space for the image.
pub fn medium_image(
    region: &File,
    start: Bytes,
    length: Bytes,
    workdir: &Path,
) -> Result<File, VenueError> {
    let mut store = disk_image::open(region)?;
    if !store.is_persisted() {
        let mut lost = 0;
        store.volatile(&mut |_, bytes| lost += bytes);
        return Err(VenueError::Failed(format!(
            "failed to shut down cleanly: {} remained in the disk's cache",
            Bytes(lost)
        )));
    }
    disk_image::partition_image(&mut store, View::Medium, start, length, workdir)
        .map_err(VenueError::io("write the image to check in", workdir))
}

/// The files to check.
pub struct Images {
    /// The file system.
    pub device: File,
    /// Its journal, if separate.
    pub journal: Option<File>,
    /// The names of both in records.
    pub names: [String; 2],
}

/// Checks the file system of a successful trial, if it has a check, adds the result to the report, and returns
/// the host time of the check. `images` opens the files to check; it is called only if there is a check, and may
/// fail the trial.
///
/// # Errors
/// Those of `images` and [`check`].
pub fn check_trial(
    job: &Job,
    report: &mut AgentReport,
    progress: &Progress,
    watch: &mut dyn FnMut(&Progress) -> Watch,
    images: impl FnOnce(&mut AgentReport) -> Result<Images, VenueError>,
) -> Result<Option<Nanos>, VenueError> {
    let commands = Commands::derive(&job.plan)?.filter(|commands| !commands.check.is_empty());
    let (Some(commands), Outcome::Ok) = (commands, report.outcome) else {
        return Ok(None);
    };
    let images = images(report)?;
    let (check_report, elapsed) = check(&commands, &images, job.seed, progress, watch)?;
    if !check_report.clean && report.outcome == Outcome::Ok {
        report.outcome = Outcome::Failed;
        report.reason = Some(reason(&check_report));
    }
    report.measured.check = Some(check_report);
    Ok(Some(nanos(elapsed)))
}

/// Runs the check of a file system on an image.
///
/// # Errors
/// The check is not installed, cannot be started, does not end, or was stopped.
pub fn check(
    commands: &Commands,
    images: &Images,
    seed: u64,
    progress: &Progress,
    watch: &mut dyn FnMut(&Progress) -> Watch,
) -> Result<(CheckReport, Duration), VenueError> {
    let path = |image: &File| format!("/dev/fd/{}", image.as_raw_fd());
    let (device, journal) = (path(&images.device), images.journal.as_ref().map(path));
    let devices = Devices { device: &device, journal: journal.as_deref(), uuids: None };
    let argv = fsdyno_filesystem::fill(&commands.check, devices, seed);
    let Some((program, arguments)) = argv.split_first() else {
        return Err(VenueError::Failed(format!("{} has no check", commands.kind)));
    };
    // The same lookup as for the lab's identity, so that both refer to the same program.
    let program = fsdyno_lab::find_program(program).map_err(from_lab)?;
    let mut command = Command::new(&program);
    command.args(arguments).env("PATH", "/sbin:/usr/sbin:/bin:/usr/bin").envs(&commands.env);
    let started = Instant::now();
    let files: Vec<_> = images.journal.iter().chain([&images.device]).map(File::as_fd).collect();
    let mut process =
        Process::start(command, &files).map_err(VenueError::io("start the check", &program))?;
    let exit = wait(&mut process, TIMEOUT, &mut || watch(progress))?.status.code();
    // `/dev/fd/1` is a prefix of `/dev/fd/12`, so the longer name is replaced first.
    let mut names = vec![(device.as_str(), images.names[0].as_str())];
    names.extend(journal.as_deref().map(|path| (path, images.names[1].as_str())));
    names.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
    let replace_paths = |line: &String| {
        names.iter().fold(line.clone(), |line, (path, name)| line.replace(path, name))
    };
    let clean = exit.is_some_and(|code| commands.check_clean.contains(&code));
    // The output for a clean file system may contain the time of day (jfs_fsck), so it is not recorded
    // in `measured`, which must be bit-identical.
    let output = if clean { Vec::new() } else { process.last_lines(MAX_LINES) };
    let report = CheckReport {
        argv: argv.iter().map(replace_paths).collect(),
        exit,
        clean,
        output: output.iter().map(replace_paths).collect(),
    };
    Ok((report, started.elapsed()))
}

/// Waits for the end of a check. A check that has not ended is killed when the caller drops it.
fn wait(
    process: &mut Process,
    timeout: Duration,
    watch: &mut dyn FnMut() -> Watch,
) -> Result<ProcessOutcome, VenueError> {
    let started = Instant::now();
    loop {
        if let Some(outcome) =
            process.poll().map_err(VenueError::io_without_path("wait for the check"))?
        {
            return Ok(outcome);
        }
        if watch() == Watch::Stop {
            return Err(VenueError::Stopped);
        }
        if started.elapsed() >= timeout {
            return Err(VenueError::Failed(format!(
                "failed to check the file system: the check did not finish within {} s of host time; its last lines: \
                 {}",
                timeout.as_secs(),
                process.last_lines(MAX_LINES).join(" / ")
            )));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Returns the reason why a check that is not clean fails its trial.
pub fn reason(check: &CheckReport) -> String {
    format!(
        "{} found damage ({}): {}",
        check.argv.first().map_or("the check", String::as_str),
        check.exit.map_or("killed".to_string(), |code| format!("exit code {code}")),
        check.output.join(" / ")
    )
}

#[cfg(test)]
mod tests {
    use fsdyno_record::Nanos;
    use fsdyno_record::mailbox::Stage;

    use super::*;

    /// Starts a check that prints a line and never ends.
    fn endless() -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", "echo pass 1 again; while :; do sleep 1; done"]);
        Process::start(command, &[]).unwrap()
    }

    #[test]
    fn a_check_past_its_deadline_is_an_error_with_its_last_lines() {
        let mut process = endless();
        while process.last_lines(1).is_empty() {
            std::thread::sleep(POLL_INTERVAL);
        }
        let error = wait(&mut process, Duration::ZERO, &mut || Watch::GoOn).unwrap_err();
        let message = error.to_string();
        assert!(message.contains("did not finish within 0 s"), "{message}");
        assert!(message.ends_with("pass 1 again"), "{message}");
    }

    #[test]
    fn a_check_is_stopped_on_request() {
        let error = wait(&mut endless(), TIMEOUT, &mut || Watch::Stop).unwrap_err();
        assert!(matches!(error, VenueError::Stopped), "{error}");
    }

    #[test]
    fn a_check_that_is_not_installed_is_missing() {
        let spec = fsdyno_filesystem::Spec::parse("ext4").unwrap();
        let kind = fsdyno_filesystem::catalog::get("ext4").unwrap();
        let mut plan = kind.plan(&spec, fsdyno_filesystem::Context::Lab, None).unwrap();
        plan.check[0] = "no-such-check".into();
        let image = tempfile::tempfile().unwrap();
        let progress = Progress {
            stage: Stage::Checking,
            phase: 0,
            phases: 1,
            ops_done: 0,
            ops_total: 0,
            now: Nanos(0),
            requests: 0,
        };
        let error = check(
            &Commands::unchecked(plan),
            &Images { device: image, journal: None, names: IMAGES.map(String::from) },
            1,
            &progress,
            &mut |_| Watch::GoOn,
        )
        .unwrap_err();
        assert!(
            matches!(&error, VenueError::Missing(message) if message.contains("no-such-check"))
        );
    }
}
