//! The paths between host and drive: each carries one command at a time, in order of arrival.
//!
//! SATA has one, which commands and the data of both directions share. NVMe has three: the controller,
//! which takes the commands, and the two directions of PCI Express, which carry data at the same time.

use std::collections::VecDeque;

use super::command::{Command, Stage, Times};

/// Number of paths.
const PATHS: usize = 3;

/// The path of commands; with SATA, of everything.
const COMMANDS: usize = 0;
/// The path of data from the host.
const INBOUND: usize = 1;
/// The path of data to the host.
const OUTBOUND: usize = 2;

/// One path.
#[derive(Debug)]
struct Path {
    queue: VecDeque<usize>,
    /// The command that it carries, and the time at which its transfer ends.
    current: Option<(usize, u64)>,
}

/// All paths of a drive.
#[derive(Debug)]
pub struct Link {
    paths: [Path; PATHS],
}

impl Link {
    /// Creates idle paths for at most `depth` commands.
    pub fn new(depth: usize) -> Link {
        let path = || Path { queue: VecDeque::with_capacity(depth), current: None };
        Link { paths: std::array::from_fn(|_| path()) }
    }

    /// Returns the path of a command in its current stage.
    fn path(command: &Command, times: &Times) -> usize {
        match command.stage {
            _ if !times.full_duplex => COMMANDS,
            Stage::Leaving => OUTBOUND,
            Stage::Incoming => INBOUND,
            _ => COMMANDS,
        }
    }

    /// Queues a command for the path of its stage.
    pub fn push(&mut self, index: usize, command: &Command, times: &Times) {
        self.paths[Link::path(command, times)].queue.push_back(index);
    }

    /// Starts the next command of an idle path; it takes `time` there. Returns the command and the time at which its
    /// transfer ends.
    pub fn start(&mut self, now: u64, time: impl Fn(usize) -> u64) -> Option<(usize, u64)> {
        let idle = |path: &&mut Path| path.current.is_none() && !path.queue.is_empty();
        let path = self.paths.iter_mut().find(idle)?;
        let at = path.queue.pop_front()?;
        path.current = Some((at, now + time(at)));
        path.current
    }

    /// Takes a command whose transfer has ended by `now`.
    pub fn take_finished(&mut self, now: u64) -> Option<usize> {
        let mut paths = self.paths.iter_mut();
        paths.find_map(|path| path.current.take_if(|(_, until)| *until <= now)).map(|(at, _)| at)
    }

    /// Returns the time at which the next transfer ends.
    pub fn next_end(&self) -> Option<u64> {
        self.paths.iter().filter_map(|path| path.current).map(|(_, until)| until).min()
    }

    /// Returns the end of the current transfer on a command's path, before which the command cannot start.
    pub fn free_at(&self, command: &Command, times: &Times) -> Option<u64> {
        self.paths[Link::path(command, times)].current.map(|(_, until)| until)
    }
}
