//! Mounts a file system that is implemented by a process (FUSE) by running its command, and waits for the end of that
//! process.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use fsdyno_engine::clock;
use fsdyno_record::Nanos;
use rustix::process::Pid;

use crate::account::process_time;
use crate::exit_status::ExitStatus;
use crate::mount_info;
use crate::output::OutputTail;
use crate::process;

/// The maximum time for a command to mount, and for its process to end after the unmount: it may have gigabytes to
/// write to a slow disk.
const TIME_LIMIT: Nanos = Nanos(3600 * 1_000_000_000);

/// The time after which a process that neither uses CPU time nor waits for a device counts as hung.
const IDLE_LIMIT: Nanos = Nanos(60 * 1_000_000_000);

/// The maximum time until the mount appears after its command has ended: a command that daemonizes has already mounted,
/// or mounts soon afterwards.
const MOUNT_DELAY: Nanos = Nanos(10_000_000_000);

/// The maximum time for a process to end after it has stopped serving.
const END_LIMIT: Nanos = Nanos(500_000_000);

const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Number of lines kept from the end of the command's output.
const MAX_LINES: usize = 6;

/// The processes that do the work of a mounted file system.
#[derive(Debug, Default)]
pub struct Workers {
    /// The output of the command; `None` while nothing is mounted.
    output: Option<OutputTail>,
    /// The processes seen at work, so that their end is noticed even if it is immediate.
    pids: Vec<Pid>,
    /// The children of this process that existed before the command: the modelled disks' servers.
    earlier_children: Vec<Pid>,
}

/// Runs the command until something is mounted at `at`.
///
/// This process starts nothing else while the file system is mounted: all children that it then has but did not have
/// before are assumed to belong to the file system, and are waited for after the unmount.
///
/// # Errors
/// The command's own message, if it fails or does not mount.
pub fn mount<'a>(
    argv: &[String],
    env: impl IntoIterator<Item = (&'a String, &'a String)>,
    mount_point: &Path,
) -> io::Result<Workers> {
    let Some((program, arguments)) = argv.split_first() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "an empty command"));
    };
    // A process that daemonizes stays our child, so that its end can be waited for.
    // SAFETY: takes only numbers.
    if unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let (writer, output) = OutputTail::start()?;
    let earlier_children = children()?.into_iter().map(|child| child.pid).collect();
    let child = Command::new(program)
        .args(arguments)
        .env_clear()
        .env("PATH", "/bin:/sbin:/usr/bin:/usr/sbin")
        .envs(env)
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .spawn()
        .map_err(|error| io::Error::new(error.kind(), format!("{program}: {error}")))?;
    let workers = Workers { output: Some(output), pids: Vec::new(), earlier_children };
    let mount_error = |workers: &Workers, status: &str| {
        io::Error::other(format!("{} {status}: {}", argv.join(" "), workers.last_lines()))
    };
    let started = clock::now();
    let mut work = ActivityTracker::now(IDLE_LIMIT);
    let mut ended_at = None;
    let path = mount_point.to_string_lossy();
    while mount_info::in_effect(&path)?.is_none() {
        let now = clock::now();
        if ended_at.is_none()
            && let Some(status) =
                Pid::from_raw(child.id() as i32).map(process::try_wait).transpose()?.flatten()
        {
            if status != ExitStatus::SUCCESS {
                return Err(mount_error(&workers, &format!("failed ({status})")));
            }
            ended_at = Some(now);
        }
        if ended_at.is_some_and(|ended| now.since(ended) > MOUNT_DELAY) {
            return Err(mount_error(&workers, "ended and mounted nothing"));
        }
        if work.has_stalled(&workers.children()?) {
            return Err(mount_error(
                &workers,
                &format!("has been idle for {IDLE_LIMIT} without mounting"),
            ));
        }
        if now.since(started) > TIME_LIMIT {
            return Err(mount_error(&workers, &format!("has not mounted within {TIME_LIMIT}")));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    Ok(workers)
}

impl Workers {
    /// Returns the processes that do its work now: a command that daemonizes does so after the mount, so that the
    /// working process differs from the one that was started.
    pub fn current_pids(&self) -> Vec<Pid> {
        if self.output.is_none() {
            return Vec::new();
        }
        let children = self.children().unwrap_or_default().into_iter();
        children.filter(|child| !child.has_ended).map(|child| child.pid).collect()
    }

    /// Describes the end of the first process seen at work that should still run; `None` while all do. To be used after
    /// a call has failed: a failure becomes visible shortly before the end of the process that served the call.
    pub fn describe_death(&self) -> Option<String> {
        let ended = |pid: &Pid| process::try_wait(*pid).ok().flatten();
        let started = clock::now();
        while self.output.is_some() && clock::now().since(started) < END_LIMIT {
            if let Some(status) = self.pids.iter().find_map(ended) {
                return Some(self.describe_end(status));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        None
    }

    /// Records the processes at work, once the file system has answered.
    pub fn record_pids(&mut self) {
        self.pids = self.current_pids();
    }

    fn children(&self) -> io::Result<Vec<Child>> {
        Ok(children()?
            .into_iter()
            .filter(|child| !self.earlier_children.contains(&child.pid))
            .collect())
    }

    /// Waits, after the unmount, until all have ended: until then they may write. A process may leave its child to
    /// us when it ends, so they are listed again until there are none.
    ///
    /// # Errors
    /// A process that does not end, or that was seen running and ends with a failure.
    pub fn wait(&mut self) -> io::Result<()> {
        self.wait_until_ended(IDLE_LIMIT)
    }

    fn wait_until_ended(&mut self, idle_limit: Nanos) -> io::Result<()> {
        if self.output.is_none() {
            return Ok(());
        }
        let started = clock::now();
        let mut work = ActivityTracker::now(idle_limit);
        let mut waited = std::mem::take(&mut self.pids);
        loop {
            let children = self.children()?;
            let has_new = add_running(&children, &mut waited);
            if waited.is_empty() && !has_new {
                break;
            }
            let ended_pids = self.ended_among(&waited)?;
            waited.retain(|pid| !ended_pids.contains(pid));
            if work.has_stalled(&children) {
                return Err(io::Error::other(format!(
                    "the file system's process hangs: it has not ended after its unmount, and done nothing \
                     for {idle_limit}: {}",
                    self.last_lines()
                )));
            }
            if clock::now().since(started) > TIME_LIMIT {
                return Err(io::Error::other(format!(
                    "the file system's process has not ended within {TIME_LIMIT} of its unmount"
                )));
            }
            if ended_pids.is_empty() {
                std::thread::sleep(POLL_INTERVAL);
            }
        }
        self.output = None;
        Ok(())
    }

    /// Returns those of the processes that have ended.
    ///
    /// # Errors
    /// A process that ended with a failure.
    fn ended_among(&self, pids: &[Pid]) -> io::Result<Vec<Pid>> {
        let mut ended_pids = Vec::new();
        for pid in pids {
            match process::try_wait(*pid) {
                Ok(Some(ExitStatus::SUCCESS)) => ended_pids.push(*pid),
                Ok(Some(status)) => return Err(io::Error::other(self.describe_end(status))),
                Ok(None) => {}
                Err(error) if error.raw_os_error() == Some(libc::ECHILD) => ended_pids.push(*pid),
                Err(error) => return Err(error),
            }
        }
        Ok(ended_pids)
    }

    fn describe_end(&self, status: ExitStatus) -> String {
        format!("the file system's process ended ({status}): {}", self.last_lines())
    }

    /// Returns the last lines of the command's output.
    fn last_lines(&self) -> String {
        let text = self.output.as_ref().map(OutputTail::text).unwrap_or_default();
        let lines: Vec<&str> =
            text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        match lines.len() {
            0 => "it printed nothing".into(),
            count => lines[count.saturating_sub(MAX_LINES)..].join(" / "),
        }
    }
}

/// A child of this process that has not been waited for yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Child {
    /// Its pid.
    pub pid: Pid,
    /// True while it waits for a device, or in any other uninterruptible sleep.
    is_waiting: bool,
    /// True if it has ended.
    pub has_ended: bool,
}

/// Adds the running children to the processes that are waited for, and reaps the others. Returns true if any child is
/// new.
fn add_running(children: &[Child], waited: &mut Vec<Pid>) -> bool {
    let mut has_new = false;
    for Child { pid, has_ended, .. } in children {
        if waited.contains(pid) {
            continue;
        }
        has_new = true;
        match has_ended {
            // It did not serve the unmount, so its exit status does not matter.
            true => _ = process::try_wait(*pid),
            false => waited.push(*pid),
        }
    }
    has_new
}

/// Tracks the progress of the processes.
struct ActivityTracker {
    /// The CPU time at the last progress, and when that was.
    last_progress: (Nanos, Nanos),
    idle_limit: Nanos,
}

impl ActivityTracker {
    /// Starts with progress made now.
    fn now(idle_limit: Nanos) -> ActivityTracker {
        ActivityTracker { last_progress: (Nanos(0), clock::now()), idle_limit }
    }

    /// Returns true if none of these has used any CPU time, or waited for a device, for too long.
    fn has_stalled(&mut self, children: &[Child]) -> bool {
        let (now, times) = (clock::now(), children.iter().map(|child| process_time(child.pid)));
        let time = times.fold(Nanos(0), |sum, time| sum + time);
        if time != self.last_progress.0 || children.iter().any(|child| child.is_waiting) {
            self.last_progress = (time, now);
        }
        now.since(self.last_progress.1) > self.idle_limit
    }
}

/// Returns the children of this process, according to /proc.
///
/// This includes children that have ended: one of them may have started a process after /proc was read, which is then a
/// child of ours but not in the list. So only an empty list proves that no descendant is left.
///
/// On a host, this process is PID 1 of a PID namespace, but /proc is still that of the outer namespace, where kernel
/// threads are visible: there, we and our children have pids different from those that waitpid(2) takes, which are the
/// last in `NSpid` (proc(5)).
pub fn children() -> io::Result<Vec<Child>> {
    let own_pid = fs::read_link("/proc/self")?;
    let own_pid = own_pid.to_str().unwrap_or_default();
    let mut children = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| name.bytes().all(|b| b.is_ascii_digit()))
        else {
            continue;
        };
        let status = fs::read_to_string(entry.path().join("status")).unwrap_or_default();
        children.extend(child_of(&status, own_pid, name));
    }
    children.sort_unstable_by_key(|child| child.pid.as_raw_nonzero());
    Ok(children)
}

/// Parses /proc/NAME/status; returns the process if it is a child of `parent`, which is the pid in that /proc.
fn child_of(status: &str, parent: &str, name: &str) -> Option<Child> {
    let field = |key: &str| {
        let mut lines = status.lines();
        lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).map(str::trim)
    };
    let state = field("State")?;
    if field("PPid") != Some(parent) {
        return None;
    }
    // Kernels before 4.1 do not report it; then there is only one pid, or waiting for it fails.
    let pid_here = field("NSpid").and_then(|all| all.split_whitespace().last()).unwrap_or(name);
    let pid = pid_here.parse().ok().and_then(Pid::from_raw)?;
    // A zombie, or one that is being reaped.
    let ended = state.starts_with(['Z', 'X']);
    Some(Child { pid, is_waiting: state.starts_with('D'), has_ended: ended })
}

#[cfg(test)]
mod tests {
    use rustix::process::{WaitId, WaitIdOptions};

    use super::*;

    fn mount_error(argv: &[&str]) -> String {
        let argv: Vec<String> = argv.iter().map(ToString::to_string).collect();
        mount(&argv, [], Path::new("/no/such/place")).unwrap_err().to_string()
    }

    #[test]
    fn a_command_that_fails_is_reported_with_its_own_message() {
        let text = mount_error(&["sh", "-c", "echo no such option >&2; exit 3"]);
        assert!(text.ends_with("failed (exit code 3): no such option"), "{text}");
        assert!(mount_error(&["no-such-fuse"]).starts_with("no-such-fuse: "));
    }

    #[test]
    fn a_child_is_found_by_its_outer_pid_and_reported_by_its_own() {
        let status = |state: &str, ppid: u32| {
            format!("Name:\tfuse2fs\nState:\t{state} (x)\nPPid:\t{ppid}\nNSpid:\t4711\t2\n")
        };
        let child = |pid, waits| {
            Some(Child { pid: Pid::from_raw(pid).unwrap(), is_waiting: waits, has_ended: false })
        };
        assert_eq!(child_of(&status("S", 4710), "4710", "4711"), child(2, false));
        assert_eq!(child_of(&status("D", 4710), "4710", "4711"), child(2, true));
        let ended = child(2, false).map(|it| Child { has_ended: true, ..it });
        assert_eq!(child_of(&status("Z", 4710), "4710", "4711"), ended);
        // A daemon of the host, whose parent is the host's first process.
        assert_eq!(child_of(&status("S", 1), "4710", "4711"), None);
        let old = "State:\tR (running)\nPPid:\t1\n";
        assert_eq!(child_of(old, "1", "7"), child(7, false));
        let mut sleeper = Command::new("sleep").arg("1000").spawn().unwrap();
        let found = children().unwrap();
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        assert!(found.iter().any(|it| it.pid.as_raw_nonzero().get() == sleeper.id() as i32));
    }

    /// A process that is killed at the end of the test.
    struct KillOnDrop(std::process::Child);

    impl Drop for KillOnDrop {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn all_processes_left_by_the_command_are_waited_for() {
        // In a separate process: other tests have children too.
        let child = process::fork(|| {
            let sleeper =
                || Ok::<_, io::Error>(KillOnDrop(Command::new("sleep").arg("1000").spawn()?));
            let _other = sleeper()?;
            let pids = || -> io::Result<Vec<Pid>> {
                Ok(children()?.into_iter().map(|child| child.pid).collect())
            };
            let others = pids()?;
            // Like a daemon: in its own session, and orphaned by its parent, so that it becomes our child.
            let daemon = "sh -c 'setsid sleep 0.05 & exit 0'";
            // SAFETY: takes numbers only.
            unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
            let output = || Some(OutputTail::start().unwrap().1);
            // Repeated, so that in some rounds the parent ends while /proc is being read.
            for _ in 0..20 {
                Command::new("sh").args(["-c", daemon]).spawn()?;
                let mut workers = Workers {
                    output: output(),
                    pids: Vec::new(),
                    earlier_children: others.clone(),
                };
                workers.wait()?;
                let remaining = pids()?;
                if remaining != others || !workers.current_pids().is_empty() {
                    return Err(io::Error::other(format!(
                        "{remaining:?} are left, not {others:?}"
                    )));
                }
                // Returns immediately, since nothing is left to wait for.
                workers.wait()?;
            }
            // Waits until it has ended, but does not reap it.
            let wait_without_reaping = |pid: Pid| {
                let flags = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
                rustix::process::waitid(WaitId::Pid(pid), flags)
            };
            let failing = Command::new("false").spawn()?;
            wait_without_reaping(Pid::from_child(&failing))?;
            let pids = vec![Pid::from_child(&failing)];
            let result =
                Workers { output: output(), pids, earlier_children: others.clone() }.wait();
            // A process that makes progress is waited for, a hung one is not.
            let mut hanging = sleeper()?;
            let mut workers =
                Workers { output: output(), pids: Vec::new(), earlier_children: others };
            workers.record_pids();
            let waited = workers.wait_until_ended(Nanos(200_000_000));
            let died = Workers { pids: vec![Pid::from_child(&hanging.0)], ..workers };
            let before_death = died.describe_death();
            hanging.0.kill()?;
            wait_without_reaping(Pid::from_child(&hanging.0))?;
            let after_death = died.describe_death();
            let expect_message = |result: io::Result<()>, expected: &str| match result {
                Err(error) if error.to_string().contains(expected) => Ok(()),
                result => Err(io::Error::other(format!("{result:?} and not {expected}"))),
            };
            expect_message(result, "process ended (exit code 1)")?;
            expect_message(waited, "hangs: it has not ended after its unmount")?;
            match (before_death, after_death) {
                (None, Some(status)) if status.contains("killed by signal 9") => Ok(()),
                result => Err(io::Error::other(format!("{result:?}"))),
            }
        })
        .unwrap();
        loop {
            if let Some(status) = process::try_wait(child).unwrap() {
                break assert_eq!(status, ExitStatus::SUCCESS);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    #[test]
    fn a_command_that_mounts_nothing_is_reported() {
        let text = mount_error(&["true"]);
        assert!(text.ends_with("ended and mounted nothing: it printed nothing"), "{text}");
    }
}
