//! Whose a loop device or a child process is: the mark on what has no folder to put a marker into.

use std::fmt;
use std::os::unix::fs::MetadataExt;

use crate::marker::start_time;

/// The process that something belongs to, written `fsdyno-PID-STARTED-NAMESPACE`.
///
/// A process number alone may have been given anew, so its start (in clock ticks after boot) goes
/// with it; and it means nothing in another namespace of process numbers (a container), so that
/// goes with it too. What it marks does not outlive a boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// The process.
    pub pid: i32,
    pub(crate) started: u64,
    pub(crate) namespace: u64,
}

/// What has become of a mark's owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// It runs.
    Lives,
    /// It has ended.
    Dead,
    /// It is a process of another container, of which nothing can be told from here.
    Elsewhere,
}

impl Mark {
    /// The mark of this process.
    pub fn mine() -> Mark {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        Mark { pid, started: start_time(pid).unwrap_or(0), namespace: namespace() }
    }

    /// None for what is no mark.
    pub fn parse(text: &str) -> Option<Mark> {
        let mut numbers = text.strip_prefix("fsdyno-")?.split('-');
        let pid = numbers.next()?.parse().ok().filter(|pid| *pid > 0)?;
        let (started, namespace) = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
        numbers.next().is_none().then_some(Mark { pid, started, namespace })
    }

    /// What has become of its owner.
    pub fn owner(&self) -> Owner {
        if self.namespace != namespace() {
            return Owner::Elsewhere;
        }
        match start_time(self.pid) == Some(self.started) {
            true => Owner::Lives,
            false => Owner::Dead,
        }
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fsdyno-{}-{}-{}", self.pid, self.started, self.namespace)
    }
}

/// The namespace of process numbers that this process is in (namespaces(7)); 0 without /proc.
pub(crate) fn namespace() -> u64 {
    std::fs::metadata("/proc/self/ns/pid").map_or(0, |file| file.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_survives_its_text_and_tells_whether_its_owner_lives() {
        let mine = Mark::mine();
        assert_eq!(Mark::parse(&mine.to_string()), Some(mine));
        assert!(mine.to_string().len() < 64, "a loop device keeps 63 bytes");
        assert_eq!(mine.owner(), Owner::Lives);
        assert_eq!(Mark { started: mine.started + 1, ..mine }.owner(), Owner::Dead);
        assert_eq!(Mark { namespace: 1, ..mine }.owner(), Owner::Elsewhere);
    }

    #[test]
    fn what_is_no_mark_is_none() {
        for text in ["", "fsdyno", "fsdyno-1", "fsdyno-0-1-2", "fsdyno-1-2-3-4", "disk.img"] {
            assert_eq!(Mark::parse(text), None, "{text}");
        }
    }
}
