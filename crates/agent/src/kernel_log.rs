//! Reads the messages of the guest's kernel, for the message of a failed trial.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;

use rustix::fs::OFlags;

/// Kernel messages after which no result of the trial can be trusted. Those of the nbd driver precede its I/O errors
/// and name their cause.
const FATAL: &[&str] = &[
    "Out of memory",
    "oom-kill:",
    "BUG:",
    "Oops:",
    "Send control failed",
    "Send data failed",
    "Receive control failed",
    "Receive data failed",
    "I/O error",
    "blocked for more than",
];

/// Number of the most recent messages in a report.
const TAIL: usize = 20;

/// The nbd driver logs this for every request that takes over 30 s. A full drive cache may legitimately take that long
/// to destage, so only a request that takes [`STUCK_SECONDS`] counts as stuck.
const STUCK: &str = "Possible stuck request";
const STUCK_SECONDS: u64 = 120;

/// Returns all messages still in the kernel's log, without their time stamps.
fn messages() -> Vec<String> {
    let Ok(mut log) = File::open("/dev/kmsg") else { return Vec::new() };
    if rustix::fs::fcntl_setfl(log.as_fd(), OFlags::NONBLOCK).is_err() {
        return Vec::new();
    }
    let mut lines = Vec::new();
    let mut record = [0; 8192];
    // Each read returns one record, "level,sequence,time,flags;text\n KEY=value" (kmsg ABI).
    while let Ok(length @ 1..) = log.read(&mut record) {
        let text = String::from_utf8_lossy(&record[..length]);
        if let Some((_, message)) = text.split_once(';') {
            lines.push(message.lines().next().unwrap_or_default().to_string());
        }
    }
    lines
}

/// Returns the first message that invalidates the trial.
pub fn find_fatal() -> Option<String> {
    messages().into_iter().find(|line| is_fatal(line))
}

fn is_fatal(line: &str) -> bool {
    if line.contains(STUCK) {
        let runtime = line.split("Runtime ").nth(1).and_then(|rest| rest.split(' ').next());
        return runtime.and_then(|seconds| seconds.parse().ok()).unwrap_or(u64::MAX)
            >= STUCK_SECONDS;
    }
    FATAL.iter().any(|phrase| line.contains(phrase))
}

/// Returns the message that names the cause, if any, and the most recent messages, for a trial that ended without its
/// own message.
pub fn tail() -> String {
    let lines = messages();
    let cause = lines.iter().find(|line| is_fatal(line));
    let cause =
        cause.map(|line| format!("; message of the guest's kernel: {line}")).unwrap_or_default();
    let last = &lines[lines.len().saturating_sub(TAIL)..];
    if last.is_empty() {
        cause
    } else {
        format!("{cause}; the kernel's last lines: {}", last.join(" | "))
    }
}

/// Returns the last message in parentheses, for an error whose reason only the kernel log states.
pub fn hint() -> String {
    messages().last().map(|line| format!(" (kernel: {line})")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_flush_does_not_count_as_stuck_and_a_hanging_one_does() {
        let line = |n| {
            format!(
                "block nbd0: Possible stuck request 0: control (flush@0,0B). Runtime {n} seconds"
            )
        };
        assert!(!is_fatal(&line(30)));
        assert!(is_fatal(&line(120)));
        assert!(is_fatal("Out of memory: Killed process 99 (fsdyno)"));
        assert!(is_fatal("block nbd0: Send data failed (result -105)"));
        assert!(!is_fatal("EXT4-fs (nbd0): mounted filesystem"));
    }
}
