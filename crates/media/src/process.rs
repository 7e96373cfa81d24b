//! Fields of /proc/PID/stat, and the values that distinguish a process from a later one with the same PID: its start
//! time and its PID namespace.

use std::os::unix::fs::MetadataExt;

/// Returns the fields of /proc/PID/stat (proc(5)) from the third one (the state) on; None if the second one is missing
/// (the command name in parentheses, which may contain any characters, including spaces).
pub fn stat_fields(stat: &str) -> Option<impl Iterator<Item = &str>> {
    Some(stat.rsplit_once(')')?.1.split_whitespace())
}

/// Returns the start time of a process in clock ticks since boot: field 22 of /proc/PID/stat (proc(5)). None if it
/// has ended, even if its parent has not waited for it yet.
pub fn start_time(pid: i32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat_fields(&stat)?;
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// Returns the PID namespace of this process (namespaces(7)); 0 without /proc.
pub(crate) fn namespace() -> u64 {
    std::fs::metadata("/proc/self/ns/pid").map_or(0, |file| file.ino())
}
