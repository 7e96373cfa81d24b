//! Ownership marks of loop devices and child processes, which have no folder for a marker file.

use std::fmt;

use crate::process::{namespace, start_time};

/// The owning process of a resource, written `fsdyno-PID-STARTED-NAMESPACE`.
///
/// A process ID may be reused, so the mark includes the start time of the process (in clock ticks after boot); and
/// it is meaningless in another PID namespace (a container), so the mark includes the namespace too. Marked
/// resources do not survive a reboot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// The process.
    pub pid: i32,
    pub(crate) started: u64,
    pub(crate) namespace: u64,
}

/// The state of a mark's owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerState {
    /// It is running.
    Running,
    /// It has ended.
    Dead,
    /// It is in another container, so its state is unknown.
    Elsewhere,
}

impl Mark {
    /// Returns the mark of this process.
    pub fn current() -> Mark {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        Mark { pid, started: start_time(pid).unwrap_or(0), namespace: namespace() }
    }

    /// Parses a mark; returns none if the string is not a mark.
    pub fn parse(text: &str) -> Option<Mark> {
        let mut numbers = text.strip_prefix("fsdyno-")?.split('-');
        let pid = numbers.next()?.parse().ok().filter(|pid| *pid > 0)?;
        let (started, namespace) = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
        numbers.next().is_none().then_some(Mark { pid, started, namespace })
    }

    /// Returns the state of the mark's owner.
    pub fn owner(&self) -> OwnerState {
        if self.namespace != namespace() {
            return OwnerState::Elsewhere;
        }
        match start_time(self.pid) == Some(self.started) {
            true => OwnerState::Running,
            false => OwnerState::Dead,
        }
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fsdyno-{}-{}-{}", self.pid, self.started, self.namespace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_formatted_mark_parses_to_itself_and_shows_whether_its_owner_is_running() {
        let current = Mark::current();
        assert_eq!(Mark::parse(&current.to_string()), Some(current));
        assert!(current.to_string().len() < 64, "a loop device stores 63 bytes");
        assert_eq!(current.owner(), OwnerState::Running);
        assert_eq!(Mark { started: current.started + 1, ..current }.owner(), OwnerState::Dead);
        assert_eq!(Mark { namespace: 1, ..current }.owner(), OwnerState::Elsewhere);
    }

    #[test]
    fn other_text_is_not_a_mark() {
        for text in ["", "fsdyno", "fsdyno-1", "fsdyno-0-1-2", "fsdyno-1-2-3-4", "disk.img"] {
            assert_eq!(Mark::parse(text), None, "{text}");
        }
    }
}
