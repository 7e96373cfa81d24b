//! Runs a guest: starts QEMU, watches the mailbox, and tells the ways apart in which a run ends.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fsdyno_record::Bytes;
use fsdyno_record::mailbox::{self, Mailbox, Progress, Stage};

use crate::error::RunError;
use crate::memory::{Mapping, memory_file};
use crate::process::{Ended, Process};
use crate::qemu::{self, Inherited, Machine};

/// What a watcher answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// The guest goes on.
    GoOn,
    /// The guest is ended; the run fails with [`RunError::Stopped`].
    Stop,
}

/// A run that brought its report.
#[derive(Debug)]
pub struct Finished {
    /// What the agent put into the mailbox.
    pub report: Vec<u8>,
    /// Host time from the start of QEMU to the report.
    pub elapsed: Duration,
    /// Host time from the start of QEMU until the first phase was seen.
    pub first_op: Option<Duration>,
    /// CPU time that QEMU took.
    pub cpu: Option<Duration>,
    /// Bytes that the disks took on the host.
    pub stored: Bytes,
    /// Where the trial was when its report was seen.
    pub progress: Progress,
    /// The disks' bytes as the guest left them.
    pub disks: Vec<File>,
    /// Last lines of the guest's console.
    pub console: Vec<String>,
}

/// How often the mailbox is looked at. Looking costs the guest nothing.
const POLL: Duration = Duration::from_millis(10);

/// How long a guest may take to power off once its report is complete.
const GRACE: Duration = Duration::from_secs(3);

/// A guest that runs.
struct Run<'a> {
    machine: &'a Machine,
    process: Process,
    mailbox: Mapping,
    disks: Vec<File>,
    console: File,
    messages: File,
    started: Instant,
}

/// Boots the kernel with the initramfs, hands over the job, and waits for the report.
///
/// # Errors
/// [`RunError`]; whatever it is, QEMU has ended and nothing is left.
pub fn run(
    program: &Path,
    kernel: &Path,
    initramfs: &File,
    machine: &Machine,
    job: &[u8],
    watch: &mut dyn FnMut(&Progress) -> Watch,
) -> Result<Finished, RunError> {
    Run::start(program, kernel, initramfs, machine, job)?.watch(watch)
}

impl<'a> Run<'a> {
    fn start(
        program: &Path,
        kernel: &Path,
        initramfs: &File,
        machine: &'a Machine,
        job: &[u8],
    ) -> Result<Run<'a>, RunError> {
        let memory = |name| memory_file(name).map_err(host("get memory for a guest"));
        let (mailbox_file, console, messages) =
            (memory(c"fsdyno-mailbox")?, memory(c"fsdyno-console")?, memory(c"fsdyno-messages")?);
        mailbox_file.set_len(mailbox::SIZE as u64).map_err(host("get memory for a mailbox"))?;
        let mailbox = Mapping::new(&mailbox_file, mailbox::SIZE).map_err(host("map a mailbox"))?;
        Mailbox::new(mailbox.words())?.put_job(job)?;
        let disks = machine.disks.iter().map(|disk| {
            let file = tempfile::tempfile_in(&machine.workdir)?;
            file.set_len(qemu::region_size(disk.region))?;
            Ok(file)
        });
        let disks: Vec<File> =
            disks.collect::<io::Result<_>>().map_err(|error| no_room(error, machine))?;
        let files = Inherited {
            mailbox: mailbox_file.as_raw_fd(),
            console: console.as_raw_fd(),
            initramfs: initramfs.as_raw_fd(),
            disks: disks.iter().map(AsRawFd::as_raw_fd).collect(),
        };
        let mut command = Command::new(program);
        command.args(qemu::arguments(kernel, machine, &files)).env("LC_ALL", "C");
        let mut inherited = vec![files.mailbox, files.console, files.initramfs];
        inherited.extend(&files.disks);
        let said = messages.try_clone().map_err(host("open QEMU's messages"))?;
        let process =
            Process::start(command, &inherited, Stdio::from(said)).map_err(host("start QEMU"))?;
        let started = Instant::now();
        Ok(Run { machine, process, mailbox, disks, console, messages, started })
    }

    fn watch(mut self, watch: &mut dyn FnMut(&Progress) -> Watch) -> Result<Finished, RunError> {
        let mut first_op = None;
        let mut last = (self.progress()?, Instant::now());
        loop {
            // The end is asked for before the report: a guest that has ended has written all.
            let ended = self.process.poll().map_err(host("wait for QEMU"))?;
            let progress = self.progress()?;
            let elapsed = self.started.elapsed();
            if progress.stage >= Stage::Running {
                first_op.get_or_insert(elapsed);
            }
            if watch(&progress) == Watch::Stop {
                return Err(RunError::Stopped);
            }
            if let Some(report) = Mailbox::new(self.mailbox.words())?.report() {
                return self.finish(report, elapsed, first_op, progress);
            }
            if let Some(ended) = ended {
                return Err(self.died(ended));
            }
            if progress != last.0 {
                last = (progress, Instant::now());
            } else if last.1.elapsed() >= self.machine.stall {
                return Err(self.give_up(|after, console| RunError::Stalled { after, console }));
            }
            if elapsed >= self.machine.deadline {
                return Err(self.give_up(|after, console| RunError::Deadline { after, console }));
            }
            std::thread::sleep(POLL);
        }
    }

    fn progress(&self) -> Result<Progress, RunError> {
        Ok(Mailbox::new(self.mailbox.words())?.progress())
    }

    fn finish(
        mut self,
        report: Vec<u8>,
        elapsed: Duration,
        first_op: Option<Duration>,
        progress: Progress,
    ) -> Result<Finished, RunError> {
        let seen = Instant::now();
        let wait = host("wait for QEMU");
        let mut ended = None;
        while ended.is_none() && seen.elapsed() < GRACE {
            ended = self.process.poll().map_err(&wait)?;
            std::thread::sleep(POLL);
        }
        if ended.is_none() {
            ended = self.process.kill().map_err(&wait)?;
        }
        // Blocks of stat(2) are of 512 bytes.
        let stored = self.disks.iter().filter_map(|disk| disk.metadata().ok());
        let stored = Bytes(stored.map(|metadata| metadata.blocks() * 512).sum());
        let console = self.lines();
        let (disks, cpu) = (self.disks, ended.map(|ended| ended.cpu));
        Ok(Finished { report, elapsed, first_op, cpu, stored, progress, disks, console })
    }

    fn give_up(mut self, error: impl Fn(Duration, Vec<String>) -> RunError) -> RunError {
        let after = match error(Duration::ZERO, Vec::new()) {
            RunError::Stalled { .. } => self.machine.stall,
            _ => self.machine.deadline,
        };
        match self.process.kill() {
            Ok(_) => error(after, self.lines()),
            Err(error) => host("end QEMU")(error),
        }
    }

    fn died(self, ended: Ended) -> RunError {
        let console = self.lines();
        // Memory of a file that its file system has no room for is answered with SIGBUS.
        if ended.signal == Some(libc::SIGBUS) && !self.disks.is_empty() {
            return RunError::OutOfSpace { workdir: self.machine.workdir.clone() };
        }
        if console.iter().any(|line| line.contains("Kernel panic")) {
            return RunError::Panicked { console };
        }
        let how = match (ended.signal, ended.status) {
            (Some(signal), _) => format!("was killed by signal {signal}"),
            (None, 0) => "ended, as when a guest powers off,".into(),
            (None, status) => format!("ended with status {status}"),
        };
        RunError::Died { how, console }
    }

    /// The last lines of the console, and after them what QEMU itself had to say.
    fn lines(&self) -> Vec<String> {
        let mut lines = last_lines(&self.console);
        lines.extend(last_lines(&self.messages));
        lines
    }
}

fn host(action: &'static str) -> impl Fn(io::Error) -> RunError {
    move |error| RunError::Host { action, error }
}

fn no_room(error: io::Error, machine: &Machine) -> RunError {
    match error.kind() {
        io::ErrorKind::StorageFull => RunError::OutOfSpace { workdir: machine.workdir.clone() },
        _ => RunError::Host { action: "make the file of a modelled disk", error },
    }
}

/// The last lines of a file, without what only a terminal understands.
fn last_lines(file: &File) -> Vec<String> {
    const LINES: usize = 60;
    const BYTES: u64 = 64 << 10;
    let length = file.metadata().map_or(0, |metadata| metadata.len());
    let start = length.saturating_sub(BYTES);
    let mut bytes = vec![0; usize::try_from(length - start).unwrap_or(0)];
    let read = file.read_at(&mut bytes, start).unwrap_or(0);
    let text = String::from_utf8_lossy(&bytes[..read]).into_owned();
    let lines: Vec<String> = text.lines().map(printable).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(LINES)..].to_vec()
}

/// A line without control characters and escape sequences.
fn printable(line: &str) -> String {
    let mut out = String::new();
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\x1b' if chars.peek() == Some(&'[') => {
                chars.next();
                while chars.next().is_some_and(|c| !c.is_ascii_alphabetic()) {}
            }
            '\t' => out.push(' '),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out.trim_end().to_string()
}

#[cfg(test)]
mod tests;
