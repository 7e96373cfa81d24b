//! The file system's own check, on this host, on the image that the guest left or on the device.
//!
//! A check needs no guest: the same tool reads the same bytes here, some fifty times faster, and
//! without any privilege. The image is a nameless sparse file; nothing of it is left behind.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use fsdyno_child::{Ended, Process};
use fsdyno_disk::store::View;
use fsdyno_filesystem::Devices;
use fsdyno_record::mailbox::Progress;
use fsdyno_record::trial::{AgentReport, CheckReport, Outcome};
use fsdyno_record::{Bytes, Job, Nanos};

use crate::commands::Commands;
use crate::cut;
use crate::error::VenueError;
use crate::host::nanos;
use crate::lab::from_lab;
use crate::venue::Watch;

/// How many of the check's last lines are kept.
const LINES: usize = 12;

/// Host time that a check may take. It reads a sparse image in the page cache, which takes seconds
/// at most; one that needs longer than this loops on what it found.
const DEADLINE: Duration = Duration::from_secs(30 * 60);

/// How often the check is looked at.
const PERIOD: Duration = Duration::from_millis(20);

/// What stands for images, and for that of a journal, in records: where they lay is of no interest
/// and never the same.
pub const IMAGES: [&str; 2] = ["image", "journal"];

/// Writes a partition of a modelled disk into a nameless sparse file: what is on the
/// medium, which after a clean end has to be all of it.
///
/// # Errors
/// A store that cannot be read; a disk whose cache was not empty at the end; no room for the image.
pub fn image(
    region: &File,
    start: Bytes,
    length: Bytes,
    workdir: &Path,
) -> Result<File, VenueError> {
    let mut store = cut::open(region)?;
    if !store.is_landed() {
        let mut lost = 0;
        store.volatile(&mut |_, bytes| lost += bytes);
        return Err(VenueError::Died(format!(
            "failed to end the trial as a shutdown does: {} were left in the disk's cache",
            Bytes(lost)
        )));
    }
    cut::partition_image(&mut store, View::Medium, start, length, workdir)
        .map_err(VenueError::io("write the image to check"))
}

/// What is checked.
pub struct Images {
    /// The file system.
    pub device: File,
    /// Its journal, where that lies apart.
    pub journal: Option<File>,
    /// What records call the two.
    pub called: [String; 2],
}

/// Has the file system that a good trial left checked, where it has a check, and puts into the report what
/// came of it; how long that took on this host. `images` opens what is checked, only then, and may itself find
/// that the trial has failed.
///
/// # Errors
/// Those of `images` and [`check`].
pub fn of_trial(
    job: &Job,
    report: &mut AgentReport,
    progress: &Progress,
    watch: &mut dyn FnMut(&Progress) -> Watch,
    images: impl FnOnce(&mut AgentReport) -> Result<Images, VenueError>,
) -> Result<Option<Nanos>, VenueError> {
    let commands = Commands::of(&job.plan)?.filter(|commands| !commands.check.is_empty());
    let (Some(commands), Outcome::Ok) = (commands, report.outcome) else {
        return Ok(None);
    };
    let images = images(report)?;
    let (checked, elapsed) = check(&commands, &images, job.seed, progress, watch)?;
    if !checked.clean && report.outcome == Outcome::Ok {
        report.outcome = Outcome::Failed;
        report.reason = Some(reason(&checked));
    }
    report.measured.check = Some(checked);
    Ok(Some(nanos(elapsed)))
}

/// Runs the check of a file system on an image.
///
/// # Errors
/// A check that is not installed, cannot be started, does not end, or was stopped.
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
        return Err(VenueError::Died(format!("{} has no check", commands.kind)));
    };
    // The same lookup as that of the lab's identity, so that this is the program named there.
    let mut command = Command::new(fsdyno_lab::find_program(program).map_err(from_lab)?);
    command.args(arguments).env("PATH", "/sbin:/usr/sbin:/bin:/usr/bin").envs(&commands.env);
    let started = Instant::now();
    let files: Vec<_> = images.journal.iter().chain([&images.device]).map(File::as_fd).collect();
    let mut process = Process::start(command, &files).map_err(VenueError::io("start the check"))?;
    let exit = wait(&mut process, DEADLINE, &mut || watch(progress))?.status.code();
    // `/dev/fd/1` is the beginning of `/dev/fd/12`, so the longer name first.
    let mut names = vec![(device.as_str(), images.called[0].as_str())];
    names.extend(journal.as_deref().map(|path| (path, images.called[1].as_str())));
    names.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
    let named = |text: &String| {
        names.iter().fold(text.clone(), |text, (path, name)| text.replace(path, name))
    };
    let clean = exit.is_some_and(|code| commands.check_clean.contains(&code));
    // What a check says of a clean file system may hold the time of day (jfs_fsck) and decides
    // nothing, so it stays out of what has to be the same everywhere.
    let output = if clean { Vec::new() } else { process.last_lines(LINES) };
    let report = CheckReport {
        argv: argv.iter().map(named).collect(),
        exit,
        clean,
        output: output.iter().map(named).collect(),
    };
    Ok((report, started.elapsed()))
}

/// Waits for the end of a check. One that is not waited for any longer is killed by its drop.
fn wait(
    process: &mut Process,
    deadline: Duration,
    watch: &mut dyn FnMut() -> Watch,
) -> Result<Ended, VenueError> {
    let started = Instant::now();
    loop {
        if let Some(ended) = process.poll().map_err(VenueError::io("wait for the check"))? {
            return Ok(ended);
        }
        if watch() == Watch::Stop {
            return Err(VenueError::Stopped);
        }
        if started.elapsed() >= deadline {
            return Err(VenueError::Died(format!(
                "failed to check the file system: not done after {} s of host time; its last words: \
                 {}",
                deadline.as_secs(),
                process.last_lines(LINES).join(" / ")
            )));
        }
        std::thread::sleep(PERIOD);
    }
}

/// Why a check that is not clean fails its trial.
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

    /// A check that says something and goes on for ever.
    fn endless() -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", "echo pass 1 again; while :; do sleep 1; done"]);
        Process::start(command, &[]).unwrap()
    }

    #[test]
    fn a_check_that_does_not_end_is_ended_and_its_last_words_are_told() {
        let mut process = endless();
        while process.last_lines(1).is_empty() {
            std::thread::sleep(PERIOD);
        }
        let error = wait(&mut process, Duration::ZERO, &mut || Watch::GoOn).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("not done after 0 s") && text.ends_with("pass 1 again"), "{text}");
    }

    #[test]
    fn a_check_is_stopped_on_request() {
        let error = wait(&mut endless(), DEADLINE, &mut || Watch::Stop).unwrap_err();
        assert!(matches!(error, VenueError::Stopped), "{error}");
    }

    #[test]
    fn a_check_that_is_not_installed_is_missing_with_what_brings_it() {
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
            &Commands::made_up(plan),
            &Images { device: image, journal: None, called: IMAGES.map(String::from) },
            1,
            &progress,
            &mut |_| Watch::GoOn,
        )
        .unwrap_err();
        assert!(matches!(&error, VenueError::Missing(text) if text.contains("no-such-check")));
    }
}
