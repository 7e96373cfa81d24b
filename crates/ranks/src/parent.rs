//! The process that a launcher started for a rank: it starts the worker, waits for it, and reports to rank 0 how it
//! ended.

use std::fs::File;
use std::io::{Seek, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fsdyno_child::Process;

use crate::launcher::Position;
use crate::meet::{self, Meeting};
use crate::wire::{Hello, Role};
use crate::worker::{ENDED_BY_ORDER, Join, ORPHANED, connect};

/// The hidden argument by which the program becomes a worker.
pub const WORKER: &str = "rank-worker";

/// Time from a signal to the end of this process, if rank 0 does not end the run.
const GRACE: Duration = Duration::from_secs(8);

/// Interval at which this process checks whether the worker is halted.
const LOOK: Duration = Duration::from_secs(1);

/// Number of consecutive checks after which a halted worker can no longer end by order: rank 0 has given up on it by
/// then.
const HALTED: u32 = 16;

/// Number of consecutive failed connections after which rank 0 is considered gone.
const UNHEARD: u32 = 3;

/// Time for a killed worker to end.
const DEATH: Duration = Duration::from_secs(2);

/// Starts a worker as a child process that the kernel kills when the calling thread ends.
///
/// # Errors
/// The program cannot be started.
pub fn start(program: &Path, join: &Join) -> Result<Process, String> {
    let failed = |error: std::io::Error| {
        format!("failed to start the worker of rank {}: {error}", join.rank)
    };
    let memory = || -> std::io::Result<File> {
        let fd = rustix::fs::memfd_create("fsdyno-join", rustix::fs::MemfdFlags::CLOEXEC)?;
        Ok(File::from(fd))
    };
    let mut input = memory().map_err(failed)?;
    input
        .write_all(&serde_json::to_vec(join).map_err(|error| failed(error.into()))?)
        .map_err(failed)?;
    input.rewind().map_err(failed)?;
    let mut command = Command::new(program);
    command.arg(WORKER);
    Process::start_with_io(command, input, &memory().map_err(failed)?, &[]).map_err(failed)
}

/// The end of a rank's work, as its parent observed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerEnd {
    /// By order of rank 0, or in a way that rank 0 knows.
    Done,
    /// Rank 0 is gone. A trial directory with this name may remain in the shared directory.
    Orphaned(Option<String>),
    /// The worker hangs in the kernel and is left behind; the message.
    Hanging(String),
}

/// Waits until the worker of a rank ends, and reports to rank 0 if it did not end by order; signals set `stop`.
///
/// # Errors
/// The worker could not run, for a reason that rank 0 cannot know.
pub fn attend(
    worker: Process,
    meeting: &Meeting,
    hello: &Hello,
    stop: &AtomicBool,
) -> Result<WorkerEnd, String> {
    wait(worker, meeting, hello, (stop, GRACE))
}

/// Waits as [`attend`] does, for the ssh of a worker on another host; ends it immediately when `stop` is set.
pub(crate) fn attend_until(
    ssh: Process,
    meeting: &Meeting,
    hello: &Hello,
    stop: &AtomicBool,
) -> Result<WorkerEnd, String> {
    wait(ssh, meeting, hello, (stop, Duration::ZERO))
}

fn wait(
    mut worker: Process,
    meeting: &Meeting,
    hello: &Hello,
    (stop, grace): (&AtomicBool, Duration),
) -> Result<WorkerEnd, String> {
    let mut signalled: Option<Instant> = None;
    let mut halt = Halt { looked: Instant::now(), looks: 0, unheard: 0 };
    let exit = loop {
        let exit =
            worker.poll().map_err(|error| format!("failed to wait for the worker: {error}"))?;
        if let Some(exit) = exit {
            break exit.status;
        }
        if stop.load(Ordering::Relaxed)
            && *signalled.get_or_insert_with(Instant::now) + grace <= Instant::now()
        {
            report(meeting, hello, "its process received a signal to end");
            return Ok(end(worker, hello));
        }
        if halt.is_for_good(&worker, &|| is_gone(meeting, hello)) {
            return Ok(end(worker, hello));
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let lines = worker.last_lines(3).join(" | ");
    match exit.code() {
        Some(0 | ENDED_BY_ORDER) => Ok(WorkerEnd::Done),
        Some(ORPHANED) => Ok(WorkerEnd::Orphaned(worker.last_lines(1).pop().filter(|name| {
            // Before the first trial, the last line is not a name.
            name.starts_with(".fsdyno-") && !name.contains('/')
        }))),
        Some(1) => Err(lines),
        _ => {
            report(meeting, hello, &format!("its worker {}", describe_exit(exit, &lines)));
            Ok(WorkerEnd::Done)
        }
    }
}

/// Detects a worker that is halted, by a signal or in a call.
struct Halt {
    looked: Instant,
    /// Number of consecutive checks at which the worker was halted.
    looks: u32,
    /// Number of consecutive failed connections to rank 0.
    unheard: u32,
}

impl Halt {
    /// Returns true if the worker is halted and rank 0 is gone, so that no order ends the worker.
    fn is_for_good(&mut self, worker: &Process, is_gone: &dyn Fn() -> bool) -> bool {
        if self.looked.elapsed() < LOOK {
            return false;
        }
        self.looked = Instant::now();
        self.looks = if worker.is_halted() { self.looks + 1 } else { 0 };
        let is_due = self.looks > 0 && self.looks % HALTED < UNHEARD && self.looks >= HALTED;
        match is_due && is_gone() {
            true => self.unheard += 1,
            false => self.unheard = 0,
        }
        self.unheard == UNHEARD
    }
}

fn is_gone(meeting: &Meeting, hello: &Hello) -> bool {
    let hello = Hello { role: Role::Asking, ..hello.clone() };
    connect(meeting, &hello, Duration::ZERO).is_err()
}

/// Kills a worker that does not end by order.
fn end(worker: Process, hello: &Hello) -> WorkerEnd {
    match worker.kill_within(DEATH) {
        true => WorkerEnd::Done,
        false => WorkerEnd::Hanging(format!(
            "rank {} on {}: its worker hangs in a call that no signal ends, and may still write when that returns",
            hello.rank, hello.host
        )),
    }
}

/// Describes how a process ended.
pub fn describe_exit(ended: ExitStatus, lines: &str) -> String {
    let more = if lines.is_empty() { String::new() } else { format!("; its last lines: {lines}") };
    match (ended.signal(), ended.code()) {
        (Some(libc::SIGKILL), _) => {
            format!("was killed by signal 9 (SIGKILL: by a user, or out of memory){more}")
        }
        (Some(signal), _) => format!("was killed by signal {signal}{more}"),
        (None, Some(code)) => format!("ended with code {code}{more}"),
        (None, None) => format!("ended{more}"),
    }
}

/// Reports to rank 0 how a rank ended.
pub(crate) fn report(meeting: &Meeting, hello: &Hello, text: &str) {
    let hello = Hello { role: Role::Parent, text: text.to_string(), ..hello.clone() };
    // If rank 0 is gone, nothing can be reported.
    let _ = connect(meeting, &hello, Duration::ZERO);
}

/// Reports to rank 0 that a rank does not take part, once rank 0 can be reached; gives up after `patience`, or if rank
/// 0 refuses the run. With PMI-1, the launcher ends the run.
pub fn report_refusal(
    position: &Position,
    folder: &Path,
    version: &str,
    patience: Duration,
    why: &str,
) {
    if position.pmi.is_some() {
        return;
    }
    // Without rank 0, nothing can be reported.
    let Ok(Some(meeting)) = meet::find(position, folder, patience) else { return };
    let hello = hello(position.rank, position.ranks, version);
    let hello = Hello { role: Role::Parent, text: why.to_string(), ..hello };
    let _ = connect(&meeting, &hello, patience);
}

/// Returns the hello message of a parent.
pub fn hello(rank: u32, ranks: u32, version: &str) -> Hello {
    let (host, pid) = (meet::host_name(), std::process::id());
    Hello { rank, ranks, version: version.to_string(), host, pid, ..Hello::default() }
}
