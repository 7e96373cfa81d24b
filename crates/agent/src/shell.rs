//! Runs a command of the user with sh(1) in the root of a trial.

use std::ffi::c_uint;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};

use fsdyno_engine::clock;
use fsdyno_record::Nanos;
use rustix::fs::Mode;
use rustix::process::{
    Pid, Signal, WaitOptions, kill_process, set_parent_process_death_signal, waitpid,
};

use crate::output::OutputTail;
use crate::target::{Child, children};

/// Number of lines of a command's output that an error quotes.
const MAX_QUOTED_LINES: usize = 3;

/// Maximum number of rounds for ending the processes that a command left running: each finds the children of those
/// that the previous round ended.
const MAX_ROUNDS: usize = 100;

/// A command that has ended.
#[derive(Debug)]
pub struct CommandResult {
    /// The time just before it was started.
    pub started: Nanos,
    /// The time just after it had ended.
    pub returned: Nanos,
    /// CPU time in user mode of the command and the children that it waited for.
    pub user: Nanos,
    /// CPU time in the kernel, likewise.
    pub system: Nanos,
    /// Number of processes that it left running, which were then ended.
    pub left_running: usize,
    /// The failure with its last lines; `None` if its exit code was 0.
    pub failure: Option<String>,
}

/// Runs a command line in the directory `root` under this umask, with this process's environment, and ends every
/// process that it leaves running.
///
/// # Errors
/// Errors from the kernel, for example when the shell is started.
pub fn run(line: &str, root: BorrowedFd<'_>, umask: Mode) -> io::Result<CommandResult> {
    // Makes orphaned descendants children of this process.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let (writer, tail) = OutputTail::start()?;
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(line).env_remove("PWD").env_remove("OLDPWD");
    command.stdin(Stdio::null()).stdout(Stdio::from(writer.try_clone()?)).stderr(writer);
    let (parent, root) = (rustix::process::getpid(), root.as_raw_fd());
    // SAFETY: between fork and exec, the closure makes only system calls and allocates nothing.
    unsafe { command.pre_exec(move || before_exec(parent, root, umask)) };
    let before = children()?;
    let started = clock::now();
    let child = command.spawn()?;
    let outcome = wait(Pid::from_child(&child));
    let returned = clock::now();
    let left_running = kill_others(&before)?;
    let (status, user, system) = outcome?;
    let failure = (!status.success()).then(|| {
        let ending = match (status.code(), status.signal()) {
            (Some(code), _) => format!("ended with exit code {code}"),
            (None, signal) => format!("was killed by signal {}", signal.unwrap_or(0)),
        };
        format!("{ending}; {}", last_lines(&tail.text()))
    });
    Ok(CommandResult { started, returned, user, system, left_running, failure })
}

/// Runs in the child. No descriptor of this process except the standard streams stays open in the command.
fn before_exec(parent: Pid, root: i32, umask: Mode) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if rustix::process::getppid() != Some(parent) {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    rustix::process::umask(umask);
    // SAFETY: takes only numbers; the directory is open until this process has been started.
    check(unsafe { libc::fchdir(root) }.into())?;
    let (first, last): (c_uint, c_uint) = (3, c_uint::MAX);
    // SAFETY: takes only numbers, and closes nothing before exec.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, last, libc::CLOSE_RANGE_CLOEXEC) })
}

fn check(result: libc::c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Waits for a child; returns how it ended and its CPU time in user mode and in the kernel.
fn wait(pid: Pid) -> io::Result<(std::process::ExitStatus, Nanos, Nanos)> {
    let nanos = |t: libc::timeval| Nanos(t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1000);
    let mut status = 0;
    // SAFETY: rusage is plain numbers, for which all zeroes are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both pointers are to live variables of the right type.
        let waited = unsafe { libc::wait4(pid.as_raw_nonzero().get(), &mut status, 0, &mut usage) };
        if waited > 0 {
            let status = std::process::ExitStatus::from_raw(status);
            return Ok((status, nanos(usage.ru_utime), nanos(usage.ru_stime)));
        }
        match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => {}
            error => return Err(error),
        }
    }
}

/// Ends all children of this process except those in `before`; returns how many were running.
fn kill_others(before: &[Child]) -> io::Result<usize> {
    let mut count = 0;
    for _ in 0..MAX_ROUNDS {
        let current = children()?;
        let is_other = |candidate: &&Child| before.iter().all(|child| child.pid != candidate.pid);
        let others: Vec<&Child> = current.iter().filter(is_other).collect();
        if others.is_empty() {
            return Ok(count);
        }
        for Child { pid, .. } in &others {
            // A child that has ended only needs to be waited for.
            let _ = kill_process(*pid, Signal::KILL);
            while matches!(waitpid(Some(*pid), WaitOptions::empty()), Err(rustix::io::Errno::INTR))
            {
            }
        }
        count += others.iter().filter(|child| !child.has_ended).count();
    }
    Err(io::Error::other("the command left processes running that keep starting new ones"))
}

/// Returns the last lines of an output, without control characters.
fn last_lines(text: &str) -> String {
    let lines: Vec<String> = text
        .lines()
        .map(|line| line.chars().filter(|letter| !letter.is_control()).collect::<String>())
        .filter(|line| !line.trim().is_empty())
        .collect();
    match lines.len() {
        0 => "it printed nothing".to_string(),
        count => format!(
            "its last lines: {}",
            lines[count.saturating_sub(MAX_QUOTED_LINES)..].join(" / ")
        ),
    }
}
