//! A child process that dies with its parent, in its own process group, reaped with its CPU time.

use std::fs::File;
use std::io::{PipeWriter, Seek};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use fsdyno_media::process::stat_fields;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::cpu_lease::{self, CpuLease};
use crate::memory::memory_file;
use crate::orphans;

/// The flag of an exiting thread: `PF_EXITING` in linux/sched.h.
const EXITING: u32 = 4;

/// A child process; dropping it kills its whole group.
#[derive(Debug)]
pub struct Process {
    pid: Pid,
    output: File,
    outcome: Option<ProcessOutcome>,
    /// Released only after the child has been reaped.
    _cpu: Option<CpuLease>,
}

/// The outcome of a child process.
#[derive(Clone, Copy, Debug)]
pub struct ProcessOutcome {
    /// The exit code or signal.
    pub status: ExitStatus,
    /// User and system CPU time.
    pub cpu: Duration,
    /// Peak resident memory in bytes, including mapped pages of files.
    pub memory: u64,
}

impl Process {
    /// Starts `command`; the descriptors in `inherit` stay open in the child under the same numbers. No other
    /// descriptors do, except those of its standard streams.
    ///
    /// The calling thread must outlive the child: the kernel kills the child when that thread ends (prctl(2),
    /// PR_SET_PDEATHSIG).
    ///
    /// # Errors
    /// The error of memfd_create(2), fork(2) or execve(2).
    pub fn start(command: Command, inherit: &[BorrowedFd<'_>]) -> std::io::Result<Process> {
        Process::start_on(None, command, inherit)
    }

    /// Starts `command` as [`Process::start`] does, pinned to the leased processor if there is one.
    ///
    /// # Errors
    /// The error of memfd_create(2), fork(2) or execve(2).
    pub fn start_on(
        cpu: Option<CpuLease>,
        mut command: Command,
        inherit: &[BorrowedFd<'_>],
    ) -> std::io::Result<Process> {
        // A file accepts any amount of output without a reader; a full pipe would block the child.
        let output = memory_file(c"fsdyno-output")?;
        command.stdin(Stdio::null()).stdout(Stdio::from(OwnedFd::from(output.try_clone()?)));
        Process::spawn(cpu, command, inherit, output)
    }

    /// Starts `command` as [`Process::start`] does, with `input` (from its start) as stdin and `output` as stdout. Only
    /// stderr is then captured.
    ///
    /// # Errors
    /// The error of memfd_create(2), fork(2) or execve(2).
    pub fn start_with_io(
        mut command: Command,
        input: File,
        output: &File,
        inherit: &[BorrowedFd<'_>],
    ) -> std::io::Result<Process> {
        let captured = memory_file(c"fsdyno-output")?;
        (&input).rewind()?;
        command.stdin(Stdio::from(input)).stdout(Stdio::from(output.try_clone()?));
        Process::spawn(None, command, inherit, captured)
    }

    /// Starts `command` as [`Process::start`] does, with a pipe as stdin, which stays open until the returned end is
    /// dropped.
    ///
    /// # Errors
    /// The error of memfd_create(2), pipe(2), fork(2) or execve(2).
    pub fn start_with_pipe(mut command: Command) -> std::io::Result<(Process, PipeWriter)> {
        let output = memory_file(c"fsdyno-output")?;
        let (reader, writer) = std::io::pipe()?;
        command.stdin(Stdio::from(reader)).stdout(Stdio::from(OwnedFd::from(output.try_clone()?)));
        Ok((Process::spawn(None, command, &[], output)?, writer))
    }

    fn spawn(
        cpu: Option<CpuLease>,
        mut command: Command,
        inherit: &[BorrowedFd<'_>],
        output: File,
    ) -> std::io::Result<Process> {
        command.stderr(Stdio::from(OwnedFd::from(output.try_clone()?))).process_group(0);
        orphans::mark(&mut command);
        let fds: Vec<RawFd> = inherit.iter().map(AsRawFd::as_raw_fd).collect();
        let parent = rustix::process::getpid();
        let processor = cpu.as_ref().map(CpuLease::processor);
        // SAFETY: between fork and exec, the closure only makes system calls and allocates nothing.
        unsafe { command.pre_exec(move || before_exec(parent, processor, &fds)) };
        let child = command.spawn()?;
        let pid = Pid::from_child(&child);
        Ok(Process { pid, output, outcome: None, _cpu: cpu })
    }

    /// Returns the outcome of the process, or `None` while it runs. Never blocks.
    ///
    /// # Errors
    /// The error of wait4(2).
    pub fn poll(&mut self) -> std::io::Result<Option<ProcessOutcome>> {
        self.wait(libc::WNOHANG)
    }

    /// Kills the process group, unless the process has ended, and reaps the process.
    ///
    /// # Errors
    /// The error of wait4(2).
    pub fn kill(&mut self) -> std::io::Result<Option<ProcessOutcome>> {
        if self.outcome.is_none() {
            // If the process has ended in the meantime, the wait below returns its status.
            let _ = kill_process_group(self.pid, Signal::KILL);
        }
        self.wait(0)
    }

    /// Returns true if all threads of the process sleep: none runs or waits for a processor. A process that has ended
    /// counts as sleeping.
    pub fn is_sleeping(&self) -> bool {
        self.threads().all(|(state, _)| state != 'R')
    }

    /// Returns true if a thread of the process is stopped by a signal, or waits in the kernel and cannot be
    /// interrupted, for example while it exits and closes a file on a mount that does not respond.
    pub fn is_halted(&self) -> bool {
        self.threads().any(|(state, flags)| {
            matches!(state, 'T' | 't' | 'D') || (state != 'Z' && flags & EXITING != 0)
        })
    }

    /// Kills the process group and waits up to `timeout` for the process to end. A process that hangs in the kernel is
    /// left to end when its system call returns. Returns true if it has ended.
    pub fn kill_within(mut self, timeout: Duration) -> bool {
        let start = std::time::Instant::now();
        // If the process has ended in the meantime, the wait below returns its status.
        let _ = kill_process_group(self.pid, Signal::KILL);
        while !matches!(self.poll(), Ok(Some(_)) | Err(_)) {
            if start.elapsed() > timeout {
                // Dropping the process would wait for its end.
                std::mem::forget(self);
                return false;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        true
    }

    /// Returns the states of all threads, as the letters of proc(5), and their flags (PF_*).
    fn threads(&self) -> impl Iterator<Item = (char, u32)> {
        let folder = format!("/proc/{}/task", self.pid.as_raw_nonzero());
        let threads = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let stats =
            threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("stat")).ok());
        stats.filter_map(|stat| state_and_flags(&stat))
    }

    /// Returns the last lines that the process wrote to its captured output.
    pub fn last_lines(&self, count: usize) -> Vec<String> {
        last_lines(&self.output, count)
    }

    fn wait(&mut self, flags: libc::c_int) -> std::io::Result<Option<ProcessOutcome>> {
        if self.outcome.is_some() {
            return Ok(self.outcome);
        }
        let mut status = 0;
        // SAFETY: rusage consists of plain numbers, for which zero is a valid value.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        let pid = self.pid.as_raw_nonzero().get();
        loop {
            // SAFETY: both pointers are to live variables of the correct type, and the child has not been reaped, so
            // its PID has not been reused.
            match unsafe { libc::wait4(pid, &mut status, flags, &mut usage) } {
                0 => return Ok(None),
                reaped if reaped == pid => break,
                _ => match std::io::Error::last_os_error() {
                    error if error.kind() == std::io::ErrorKind::Interrupted => {}
                    error => return Err(error),
                },
            }
        }
        let cpu = duration(usage.ru_utime) + duration(usage.ru_stime);
        // getrusage(2): in KiB.
        let memory = u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024;
        self.outcome = Some(ProcessOutcome { status: ExitStatus::from_raw(status), cpu, memory });
        Ok(self.outcome)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Nothing can be done about a child that cannot be waited for.
        let _ = self.kill();
    }
}

/// Returns the last nonblank lines of a file, without terminal escape sequences.
pub fn last_lines(file: &File, count: usize) -> Vec<String> {
    const BYTES: u64 = 64 << 10;
    let length = file.metadata().map_or(0, |metadata| metadata.len());
    let start = length.saturating_sub(BYTES);
    let mut bytes = vec![0; usize::try_from(length - start).unwrap_or(0)];
    let read = file.read_at(&mut bytes, start).unwrap_or(0);
    let output = String::from_utf8_lossy(&bytes[..read]).into_owned();
    let lines: Vec<String> =
        output.lines().map(printable).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(count)..].to_vec()
}

/// Removes control characters and escape sequences from a line.
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

/// Runs in the child: requests death with the parent, pins the processor, and clears close-on-exec of `fds`.
fn before_exec(parent: Pid, processor: Option<usize>, fds: &[RawFd]) -> std::io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have died between the fork and the line above.
    if rustix::process::getppid() != Some(parent) {
        return Err(std::io::Error::from_raw_os_error(libc::ESRCH));
    }
    // An unpinned child is merely slower.
    let _ = processor.map(cpu_lease::pin);
    // Applies to descriptors that a launcher left open in its processes: a child that hangs in the kernel would keep
    // the launcher waiting for the end of a pipe. The call needs Linux 5.9, and this flag 5.11; on older kernels the
    // descriptors stay open.
    // SAFETY: the call changes flags of descriptors only.
    let _ = unsafe {
        libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC)
    };
    for fd in fds {
        // SAFETY: the parent keeps the descriptor open until this child has been started.
        let fd = unsafe { BorrowedFd::borrow_raw(*fd) };
        rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty())?;
    }
    Ok(())
}

/// Returns the third and the ninth field of /proc/PID/stat (proc(5)).
fn state_and_flags(stat: &str) -> Option<(char, u32)> {
    let mut fields = stat_fields(stat)?;
    Some((fields.next()?.chars().next()?, fields.nth(5)?.parse().ok()?))
}

fn duration(time: libc::timeval) -> Duration {
    Duration::new(time.tv_sec.max(0) as u64, (time.tv_usec.max(0) as u32) * 1000)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    fn shell(script: &str) -> Process {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        Process::start(command, &[]).unwrap()
    }

    #[test]
    fn the_exit_code_and_the_last_lines_of_a_child_are_returned() {
        let mut child = shell("echo one >&2; echo two >&2; exit 7");
        let outcome = child.wait(0).unwrap().unwrap();
        assert_eq!(outcome.status.code(), Some(7));
        assert_eq!(child.last_lines(1), ["two"]);
        assert_eq!(child.last_lines(9), ["one", "two"]);
    }

    #[test]
    fn state_and_flags_follow_the_name_of_a_thread() {
        let stat = "7 (a) b) S 1 2 3 0 -1 4194564 100 0";
        assert_eq!(state_and_flags(stat), Some(('S', 4_194_564)));
        assert_ne!(4_194_564 & EXITING, 0);
        assert_eq!(state_and_flags("7 (a"), None);
    }

    #[test]
    fn a_stopped_child_is_halted_and_one_that_waits_is_not() {
        let child = shell("sleep 60");
        let becomes_true = |condition: &dyn Fn() -> bool| {
            let start = std::time::Instant::now();
            while !condition() && start.elapsed() < Duration::from_secs(20) {
                std::thread::sleep(Duration::from_millis(5));
            }
            condition()
        };
        assert!(becomes_true(&|| child.is_sleeping() && !child.is_halted()));
        kill_process_group(child.pid, Signal::STOP).unwrap();
        assert!(becomes_true(&|| child.is_halted()));
    }

    #[test]
    fn an_open_descriptor_is_not_inherited_even_without_close_on_exec() {
        let (reader, writer) = std::io::pipe().unwrap();
        for end in [reader.as_fd(), writer.as_fd()] {
            rustix::io::fcntl_setfd(end, rustix::io::FdFlags::empty()).unwrap();
        }
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "for fd in /proc/$$/fd/*; do readlink $fd; done | grep -c pipe:"]);
        let mut child = Process::start(command, &[reader.as_fd()]).unwrap();
        child.wait(0).unwrap();
        // The shell's own pipe to grep(1) is not open in the shell itself while it lists.
        assert_eq!(child.last_lines(1), ["1"]);
    }

    #[test]
    fn a_child_that_waits_is_sleeping_and_one_that_computes_is_not() {
        let reaches = |child: &Process, sleeps: bool| {
            (0..1000).any(|_| {
                std::thread::sleep(Duration::from_millis(5));
                child.is_sleeping() == sleeps
            })
        };
        assert!(reaches(&shell("exec sleep 1000"), true));
        assert!(reaches(&shell("while :; do :; done"), false));
    }

    #[test]
    fn a_child_reads_from_its_pipe_until_the_other_end_is_dropped() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "read line; echo \"$line\"; cat; exit 3"]);
        let (mut child, mut writer) = Process::start_with_pipe(command).unwrap();
        std::io::Write::write_all(&mut writer, b"one\ntwo\n").unwrap();
        while child.last_lines(1) != ["two"] {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(child.poll().unwrap().is_none());
        drop(writer);
        assert_eq!(child.wait(0).unwrap().unwrap().status.code(), Some(3));
        assert_eq!(child.last_lines(2), ["one", "two"]);
    }

    #[test]
    fn killing_a_child_kills_its_children_too() {
        let mut child = shell("sleep 1000 & echo $! >&2; wait");
        let grandchild = loop {
            if let [line] = child.last_lines(1).as_slice() {
                break line.parse::<i32>().unwrap();
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        child.kill().unwrap();
        assert_eq!(child.wait(0).unwrap().unwrap().status.signal(), Some(9));
        // The orphan is reaped by init; until then it is a zombie, which is dead as well.
        let state = std::fs::read_to_string(format!("/proc/{grandchild}/stat"));
        let is_dead = |stat: &String| stat.contains(") Z ") || stat.contains(") X ");
        let is_gone = (0..1000).any(|_| {
            std::thread::sleep(Duration::from_millis(5));
            let now = std::fs::read_to_string(format!("/proc/{grandchild}/stat"));
            now.as_ref().map_or(true, is_dead)
        });
        assert!(is_gone, "{state:?}");
    }

    #[test]
    fn only_the_listed_descriptors_are_inherited() {
        let inherited = memory_file(c"inherited").unwrap();
        let unlisted = memory_file(c"unlisted").unwrap();
        let mut command = Command::new("/bin/sh");
        let script = format!(
            "test -e /proc/self/fd/{} && ! test -e /proc/self/fd/{}",
            inherited.as_raw_fd(),
            unlisted.as_raw_fd()
        );
        command.args(["-c", &script]);
        let mut child = Process::start(command, &[std::os::fd::AsFd::as_fd(&inherited)]).unwrap();
        assert!(child.wait(0).unwrap().unwrap().status.success());
    }

    #[test]
    fn a_child_dies_with_the_thread_that_started_it() {
        let pid = std::thread::spawn(|| {
            let child = shell("exec sleep 1000");
            let pid = child.pid;
            std::mem::forget(child);
            pid
        })
        .join()
        .unwrap();
        let output = memory_file(c"output").unwrap();
        let mut orphan = Process { pid, output, outcome: None, _cpu: None };
        assert_eq!(orphan.wait(0).unwrap().unwrap().status.signal(), Some(9));
    }

    #[test]
    fn escape_sequences_are_removed_from_a_line() {
        assert_eq!(printable("\x1b[?7l\x1b[2J\x1b[0mSeaBIOS (1)\r"), "SeaBIOS (1)");
    }

    #[test]
    fn only_the_last_lines_are_returned() {
        let file = memory_file(c"test").unwrap();
        let content: String = (0..100_000).map(|n| format!("line {n}\r\n")).collect();
        file.write_all_at(content.as_bytes(), 0).unwrap();
        let lines = last_lines(&file, 60);
        assert_eq!((lines.len(), lines[59].as_str()), (60, "line 99999"));
    }
}
