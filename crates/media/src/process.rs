//! What distinguishes a process from a later one with the same number: its start, and the namespace of its number.

use std::os::unix::fs::MetadataExt;

/// Returns the start of a process in clock ticks since boot: field 22 of /proc/PID/stat (proc(5)). None if it
/// has ended, even if its parent has not waited for it yet.
pub fn start_time(pid: i32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the command in parentheses and may contain anything, including spaces.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
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
