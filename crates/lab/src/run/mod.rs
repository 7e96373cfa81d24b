//! Runs a guest: starts QEMU, watches the mailbox, and classifies the end of the run.

mod start;

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use fsdyno_child::process::last_lines;
use fsdyno_child::{Process, ProcessOutcome, SharedMailbox};
use fsdyno_record::Bytes;
use fsdyno_record::mailbox::{Progress, Stage, Word};
use fsdyno_record::stages::Stages;
use fsdyno_record::trial::AgentReport;
use serde_json::json;

use crate::error::RunError;
use crate::finished::{Cut, Finished, Watch};
use crate::guard::Guard;
use crate::machine::{Machine, StartMode};
use crate::profile::{Code, Counts, PausedStage, Profile};
use crate::qmp::Qmp;
use crate::snapshot::Snapshot;

pub use start::BootConfig;
use start::{copy_image, host_error};

/// The polling interval of the mailbox. Polling costs the guest nothing.
const POLL: Duration = Duration::from_millis(10);

/// The number of consecutive polls for which a machine must be asleep to count as stopped.
const POLLS_ASLEEP: u32 = 5;

/// The maximum number of last lines in errors, separately for the console and for QEMU's output.
const LINES: usize = 60;

/// The time that a guest has to power off once its report is complete.
const GRACE: Duration = Duration::from_secs(3);

/// A running guest.
struct Run<'a> {
    config: BootConfig<'a>,
    machine: &'a Machine,
    process: Process,
    guard: Guard,
    mailbox: SharedMailbox,
    disks: Vec<File>,
    log: Option<File>,
    console: File,
    /// The profile, or `None` in a run that is not profiled.
    profile: Option<Profile>,
    /// The socket of QEMU's control protocol, until it is connected.
    socket: Option<UnixStream>,
    control: Option<Qmp>,
    started: Instant,
}

/// Boots a guest or resumes a saved one, passes the job, and waits for the report.
///
/// # Errors
/// [`RunError`]; in any case, QEMU has ended and nothing is left behind.
pub fn run(
    config: BootConfig<'_>,
    machine: &Machine,
    snapshot: Option<&Snapshot>,
    job: &[u8],
    watch: &mut dyn FnMut(&Progress) -> Watch,
) -> Result<Finished, RunError> {
    profile(config, machine, snapshot, job, None, watch)
}

/// A callback for the start of a stage; it receives the disks and the counts so far.
pub type StageCallback<'a> = &'a mut dyn FnMut(&PausedStage, &[File], Counts) -> io::Result<()>;

/// Runs a guest as [`run`] does; with `profiling`, counts the executed instructions by location in the kernel's
/// code, and calls the callback at the start of each stage.
///
/// # Errors
/// [`RunError`]; in any case, QEMU has ended and nothing is left behind.
pub fn profile(
    config: BootConfig<'_>,
    machine: &Machine,
    snapshot: Option<&Snapshot>,
    job: &[u8],
    profiling: Option<(&Code, StageCallback<'_>)>,
    watch: &mut dyn FnMut(&Progress) -> Watch,
) -> Result<Finished, RunError> {
    let (code, on_stage) = profiling.unzip();
    match snapshot {
        None => Run::start(config, machine, StartMode::GoOn, job, code)?.watch(on_stage, watch),
        Some(snapshot) => {
            let mut run = Run::start(config, machine, StartMode::Restore, job, code)?;
            let result = run.load(snapshot);
            // This is done while QEMU loads: the disks are not part of a snapshot, and are not read yet.
            copy_image(machine, &run.disks)?;
            match result.and_then(|()| run.go_on()) {
                Ok(()) => run.watch(on_stage, watch),
                Err(error) => Err(run.command_error("resume from a snapshot", error)),
            }
        }
    }
}

/// Runs a guest as [`run`] does, but kills QEMU when `is_time` returns true.
///
/// # Errors
/// [`RunError`]; in any case, QEMU has ended and nothing is left behind.
pub fn cut(
    config: BootConfig<'_>,
    machine: &Machine,
    job: &[u8],
    is_time: &mut dyn FnMut(&Progress) -> bool,
) -> Result<Cut, RunError> {
    let mut run = Run::start(config, machine, StartMode::GoOn, job, None)?;
    while !is_time(&run.progress()?) {
        if let Some(ended) = run.process.poll().map_err(host_error("wait for QEMU"))? {
            return Err(run.died(ended));
        }
        if run.started.elapsed() >= machine.deadline {
            return Err(run.give_up(|after, console| RunError::Deadline { after, console }));
        }
        std::thread::sleep(POLL);
    }
    run.process.kill().map_err(host_error("end QEMU"))?;
    run.check_guard()?;
    // Reads the progress again, because the guest ran until it was killed.
    let progress = run.progress()?;
    Ok(Cut { progress, disks: run.disks, log: run.log })
}

/// Boots a guest until it stops, saves it into `file`, and returns the time at which it stopped, by its own clock, in
/// nanoseconds.
///
/// # Errors
/// [`RunError`]; in any case, QEMU has ended.
pub fn save(
    config: BootConfig<'_>,
    machine: &Machine,
    file: &File,
    watch: &mut dyn FnMut(&Progress) -> Watch,
) -> Result<u64, RunError> {
    // There is no job yet: the saved state precedes every job.
    let mut run = Run::start(config, machine, StartMode::Save, b"", None)?.watch_boot(watch)?;
    match run.write_state(file) {
        Ok(()) => Ok(run.mailbox.mailbox()?.get(Word::StoppedAt)),
        Err(error) => Err(run.command_error("save a booted guest", error)),
    }
}

/// Excludes memory shared with the host from saving and restoring.
fn exclude_shared_memory(control: &mut Qmp) -> io::Result<()> {
    let capabilities = json!([{ "capability": "x-ignore-shared", "state": true }]);
    let arguments = json!({ "capabilities": capabilities });
    control.command("migrate-set-capabilities", &arguments).map(drop)
}

/// Waits until QEMU has loaded a snapshot. The error has the kind `TimedOut` if `is_late` returns true before that.
fn wait_until_loaded(control: &mut Qmp, is_late: &dyn Fn() -> bool) -> io::Result<()> {
    while control.status()? == "inmigrate" {
        check_time(is_late)?;
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Waits until QEMU has saved the machine. The error has the kind `TimedOut` if `is_late` returns true before that.
fn wait_until_saved(control: &mut Qmp, is_late: &dyn Fn() -> bool) -> io::Result<()> {
    loop {
        let answer = control.command("query-migrate", &json!({}))?;
        match answer["status"].as_str() {
            Some("completed") => return Ok(()),
            Some("failed" | "cancelled") => {
                let reason = answer["error-desc"].as_str().unwrap_or("no reason given");
                return Err(io::Error::other(format!("QEMU failed to save it: {reason}")));
            }
            _ => check_time(is_late)?,
        }
        std::thread::sleep(POLL);
    }
}

fn check_time(is_late: &dyn Fn() -> bool) -> io::Result<()> {
    match is_late() {
        true => {
            Err(io::Error::new(io::ErrorKind::TimedOut, "the time limit of the run has passed"))
        }
        false => Ok(()),
    }
}

impl<'a> Run<'a> {
    /// Connects to QEMU's control protocol. Must not be called while a guest boots: each command wakes QEMU's main
    /// loop, which then serves timers of the guest that its processor would have served at a different instruction.
    fn control(&mut self) -> io::Result<&mut Qmp> {
        if let Some(socket) = self.socket.take() {
            self.control = Some(Qmp::start(socket)?);
        }
        self.control.as_mut().ok_or_else(|| io::Error::other("no control socket"))
    }

    /// Starts loading a snapshot in QEMU.
    fn load(&mut self, snapshot: &Snapshot) -> io::Result<()> {
        let control = self.control()?;
        exclude_shared_memory(control)?;
        control.pass_file(&snapshot.open()?, "snapshot")?;
        control.command("migrate-incoming", &json!({ "uri": "fd:snapshot" })).map(drop)
    }

    /// Resumes the guest once everything is loaded. The socket stays open until the end, because closing it would also
    /// wake QEMU's main loop.
    fn go_on(&mut self) -> io::Result<()> {
        let is_late = self.lateness();
        let control = self.control()?;
        wait_until_loaded(control, &is_late)?;
        control.command("cont", &json!({})).map(drop)
    }

    /// Waits until the guest has booted and stopped.
    fn watch_boot(
        mut self,
        watch: &mut dyn FnMut(&Progress) -> Watch,
    ) -> Result<Run<'a>, RunError> {
        let mut asleep = 0;
        loop {
            if let Some(ended) = self.process.poll().map_err(host_error("wait for QEMU"))? {
                return Err(self.died(ended));
            }
            let progress = self.progress()?;
            if watch(&progress) == Watch::Stop {
                return Err(RunError::Stopped);
            }
            if let Some(report) = self.mailbox.mailbox()?.report() {
                let report: Result<AgentReport, _> = serde_json::from_slice(&report);
                let reason = report.ok().and_then(|report| report.reason).unwrap_or_default();
                return Err(host_error("boot a guest")(io::Error::other(reason)));
            }
            // The guest reports that it is ready a few instructions before it stops; a stopped machine sleeps.
            let ready = progress.stage >= Stage::Ready && self.process.is_sleeping();
            asleep = if ready { asleep + 1 } else { 0 };
            if asleep > POLLS_ASLEEP {
                match self.control().and_then(Qmp::status) {
                    // The guest stops itself by a deliberate panic event (pvpanic), so this is the expected state.
                    Ok(status) if status == "guest-panicked" => return Ok(self),
                    Ok(_) => {}
                    Err(error) => return Err(self.command_error("boot a guest", error)),
                }
            }
            if self.started.elapsed() >= self.machine.stall {
                return Err(self.give_up(|after, console| RunError::Stalled { after, console }));
            }
            std::thread::sleep(POLL);
        }
    }

    /// Makes QEMU write everything except the shared memory into `file`.
    fn write_state(&mut self, file: &File) -> io::Result<()> {
        let is_late = self.lateness();
        let control = self.control()?;
        exclude_shared_memory(control)?;
        // In bytes per second: practically unlimited.
        let speed = json!({ "max-bandwidth": 100_000_000_000_u64 });
        control.command("migrate-set-parameters", &speed)?;
        control.pass_file(file, "snapshot")?;
        control.command("migrate", &json!({ "uri": "fd:snapshot" }))?;
        wait_until_saved(control, &is_late)
    }

    /// Returns a function that tells whether the time limit of the run has passed.
    fn lateness(&self) -> impl Fn() -> bool + use<> {
        let (started, deadline) = (self.started, self.machine.deadline);
        move || started.elapsed() >= deadline
    }

    /// Returns the reason why QEMU did not execute a command: it ended, it exceeded the time limit, or it reported an
    /// error.
    fn command_error(mut self, action: &'static str, error: io::Error) -> RunError {
        if error.kind() == io::ErrorKind::TimedOut && self.lateness()() {
            return self.give_up(|after, console| RunError::Deadline { after, console });
        }
        let seen = Instant::now();
        while error.kind() != io::ErrorKind::Other && seen.elapsed() < GRACE {
            match self.process.poll() {
                Ok(Some(ended)) => return self.died(ended),
                _ => std::thread::sleep(POLL),
            }
        }
        host_error(action)(error)
    }

    fn watch(
        mut self,
        mut on_stage: Option<StageCallback<'_>>,
        watch: &mut dyn FnMut(&Progress) -> Watch,
    ) -> Result<Finished, RunError> {
        let mut first_op = None;
        let mut stages = Stages::default();
        let mut last_change = (self.progress()?, Instant::now());
        loop {
            // Poll for the end first: if the guest has ended, the mailbox is then complete.
            let ended = self.process.poll().map_err(host_error("wait for QEMU"))?;
            let progress = self.progress()?;
            if let Some(on_stage) = on_stage.as_mut() {
                self.report_stages(on_stage).map_err(host_error("inspect a stage of the trial"))?;
            }
            let elapsed = self.started.elapsed();
            stages.observe(&progress, elapsed);
            if progress.stage == Stage::Running && first_op.is_none() {
                self.check_guard()?;
                first_op = Some(elapsed);
            }
            if watch(&progress) == Watch::Stop {
                return Err(RunError::Stopped);
            }
            if let Some(report) = self.mailbox.mailbox()?.report() {
                self.check_guard()?;
                let finished = self.finish(report, elapsed, first_op, progress)?;
                return Ok(Finished { stages, ..finished });
            }
            if let Some(ended) = ended {
                return Err(self.died(ended));
            }
            if progress != last_change.0 {
                last_change = (progress, Instant::now());
            } else if last_change.1.elapsed() >= self.machine.stall {
                return Err(self.give_up(|after, console| RunError::Stalled { after, console }));
            }
            if elapsed >= self.machine.deadline {
                return Err(self.give_up(|after, console| RunError::Deadline { after, console }));
            }
            std::thread::sleep(POLL);
        }
    }

    /// Calls `on_stage` for each stage that has begun, and resumes the machine.
    fn report_stages(&self, on_stage: &mut StageCallback<'_>) -> io::Result<()> {
        let Some(profile) = &self.profile else { return Ok(()) };
        while let Some(paused) = profile.paused_stage()? {
            on_stage(&paused, &self.disks, profile.counts()?)?;
            profile.go_on(&paused)?;
        }
        Ok(())
    }

    /// Fails if the clock guard is not active.
    fn check_guard(&self) -> Result<(), RunError> {
        if !self.machine.accel.is_exact() {
            return Ok(());
        }
        match self.guard.is_active().map_err(host_error("inspect the clock guard"))? {
            true => Ok(()),
            false => Err(RunError::Unguarded { console: self.lines() }),
        }
    }

    fn progress(&self) -> Result<Progress, RunError> {
        Ok(self.mailbox.mailbox()?.progress())
    }

    fn finish(
        mut self,
        report: Vec<u8>,
        elapsed: Duration,
        first_op: Option<Duration>,
        progress: Progress,
    ) -> Result<Finished, RunError> {
        let seen = Instant::now();
        let wait = host_error("wait for QEMU");
        let mut ended = None;
        while ended.is_none() && seen.elapsed() < GRACE {
            ended = self.process.poll().map_err(&wait)?;
            std::thread::sleep(POLL);
        }
        if ended.is_none() {
            ended = self.process.kill().map_err(&wait)?;
        }
        self.config.check_unchanged()?;
        // stat(2) counts blocks of 512 bytes.
        let stored = self.disks.iter().filter_map(|disk| disk.metadata().ok());
        let stored = Bytes(stored.map(|metadata| metadata.blocks() * 512).sum());
        let console = self.lines();
        Ok(Finished {
            report,
            elapsed,
            first_op,
            stages: Stages::default(),
            cpu: ended.map(|ended| ended.cpu),
            memory: ended.map(|ended| Bytes(ended.memory)),
            stored,
            progress,
            disks: self.disks,
            log: self.log,
            console,
        })
    }

    fn give_up(mut self, error: impl Fn(Duration, Vec<String>) -> RunError) -> RunError {
        let after = match error(Duration::ZERO, Vec::new()) {
            RunError::Stalled { .. } => self.machine.stall,
            _ => self.machine.deadline,
        };
        match self.process.kill() {
            Ok(_) => error(after, self.lines()),
            Err(error) => host_error("end QEMU")(error),
        }
    }

    fn died(self, ended: ProcessOutcome) -> RunError {
        let console = self.lines();
        // Touching memory of a file on a full file system raises SIGBUS.
        if ended.status.signal() == Some(libc::SIGBUS) && !self.disks.is_empty() {
            return RunError::OutOfSpace { workdir: self.machine.workdir.clone() };
        }
        if console.iter().any(|line| line.contains("Kernel panic")) {
            return RunError::Panicked { console };
        }
        let how = match (ended.status.signal(), ended.status.code()) {
            (Some(signal), _) => format!("was killed by signal {signal}"),
            (None, Some(0)) => "ended, as when a guest powers off,".into(),
            (None, code) => format!("exited with status {}", code.unwrap_or_default()),
        };
        let powered_off = ended.status.success();
        RunError::Died { how, powered_off, console }
    }

    /// Returns the last lines of the console, followed by those of QEMU's own output.
    fn lines(&self) -> Vec<String> {
        let mut lines = last_lines(&self.console, LINES);
        lines.extend(self.process.last_lines(LINES));
        lines
    }
}

#[cfg(test)]
mod tests;
