//! Records a process that is already running.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fsdyno_trace::{Call, End};
use libc::pid_t;

use super::command::WAIT;
use super::names::{Names, OUTSIDE};
use super::session::Session;
use super::stop::{Stopped, threads};
use crate::error::RecordError;
use crate::launch;
use crate::process::{Mapping, numeric_entries};
use crate::recorder::Recorder;
use crate::tree::Tree;

/// The process to record, and the maximum duration.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The process ID.
    pub pid: pid_t,
    /// The maximum duration; None to record until the process ends.
    pub max_duration: Option<Duration>,
}

/// Returns the working directory of a process.
///
/// # Errors
/// There is no such process, or its working directory is the root, which gives no hint of where its files are.
pub fn directory_of(pid: pid_t) -> Result<PathBuf, RecordError> {
    let path = std::fs::read_link(format!("/proc/{pid}/cwd"));
    let path = path.map_err(|error| RecordError::Process { pid, error })?;
    if path == Path::new("/") {
        let text = "it is the working directory of the process; name the directories of its files with --tree";
        return Err(RecordError::Tree { path, error: io::Error::other(text) });
    }
    Ok(path)
}

/// Records a process until it ends, the maximum duration has passed, or the recorder receives a signal. Calls `begins`
/// once the recording has begun.
///
/// # Errors
/// The process does not exist, or its threads cannot be recorded.
pub fn attach(
    mut recorder: Recorder,
    mut session: Session,
    bounds: Bounds,
    begins: impl FnOnce(),
) -> Result<(Option<u32>, Tree, End, u64), RecordError> {
    let pid = bounds.pid;
    // Most changes since the names were read are read here, so that the process is stopped only briefly.
    recorder.refresh_names()?;
    let stopped = Stopped::new(pid);
    if let Err(error) = &stopped {
        let what = "processes that could not be stopped while their files were listed";
        recorder.note(&format!("{what} ({error})"), 1);
    }
    recorder.watched = Some(pid);
    let begun = recorder.begin_process(&session, pid);
    drop(stopped);
    begun?;
    begins();
    let until = bounds.max_duration.map(|it| Instant::now() + it);
    let mut status = None;
    loop {
        let any = recorder.take_records(&mut session, WAIT);
        if recorder.threads.is_empty() && !any {
            status = recorder.status;
            break;
        }
        let expired = until.is_some_and(|it| Instant::now() >= it);
        let lost = !recorder.tree.is_recording();
        if expired || lost || launch::take_signal().is_some() {
            break;
        }
    }
    let end = recorder.end_records(&mut session, status);
    Ok((status, recorder.tree, end, recorder.inside))
}

impl Recorder {
    /// Sets the working directory of a process or thread.
    pub fn set_directory(&mut self, tid: pid_t, path: Option<&Path>) {
        let Some(names) = &mut self.names else { return };
        let key = path.and_then(|path| names.reach(path)).unwrap_or(OUTSIDE);
        if let Some(thread) = self.threads.get(&tid) {
            thread.cwd.set(key);
        }
    }

    fn refresh_names(&mut self) -> Result<(), RecordError> {
        self.names.as_mut().map_or(Ok(()), Names::refresh)
    }

    /// Reads the state of a stopped process: its threads, working directory, descriptors and mappings.
    fn begin_process(&mut self, session: &Session, pid: pid_t) -> Result<(), RecordError> {
        self.running = true;
        self.began_monotonic = crate::clock::monotonic();
        self.event_time = Some(0);
        self.refresh_names()?;
        self.names.iter_mut().for_each(Names::begin);
        let table = self.table(BTreeMap::new());
        // Repeats until there are no new threads: a process that was not stopped may create some meanwhile.
        while let Some(tid) = threads(pid).into_iter().find(|it| !self.threads.contains_key(it)) {
            let mappings = self.threads.get(&pid).map(|it| it.mappings.clone()).unwrap_or_default();
            let id = self.add(tid, pid, table.clone(), mappings);
            let cwd = self.threads.get(&pid).map(|it| it.cwd.clone()).unwrap_or_default();
            if let Some(thread) = self.threads.get_mut(&tid) {
                thread.cwd = cwd;
            }
            if tid != pid {
                self.event(pid, Call::Spawn { child: id, process: false }, 0);
            }
            session.follow(tid).map_err(RecordError::Bpf)?;
        }
        if self.threads.is_empty() {
            let error = io::Error::from_raw_os_error(libc::ESRCH);
            return Err(RecordError::Process { pid, error });
        }
        let cwd: Option<PathBuf> = std::fs::read_link(format!("/proc/{pid}/cwd")).ok();
        self.set_directory(pid, cwd.as_deref());
        let mut open = numeric_entries(&format!("/proc/{pid}/fd")).unwrap_or_default();
        open.sort_unstable();
        for number in open {
            let _ = self.descriptor(pid, number);
        }
        self.begin_mappings(pid);
        let ended: Vec<pid_t> =
            self.threads.keys().copied().filter(|tid| has_ended(pid, *tid)).collect();
        ended.into_iter().for_each(|tid| self.handle_end(tid, 0));
        self.names.iter().for_each(Names::wait_for_tick);
        self.event_time = None;
        Ok(())
    }

    /// Adds the shared mappings of files that a process has.
    fn begin_mappings(&mut self, pid: pid_t) {
        let text = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        let Some(mappings) = self.threads.get(&pid).map(|it| it.mappings.clone()) else { return };
        for (start, mut mapping, path) in text.lines().filter_map(shared_mapping) {
            let Some(mut names) = self.names.take() else { return };
            let node = names.reach(&path).and_then(|key| self.introduce(&mut names, key));
            self.names = Some(names);
            if let Some(node) = node {
                mapping.node = node;
                mappings.borrow_mut().insert(start, mapping);
            }
        }
    }
}

/// True if a thread has ended before its end could be recorded. (The first thread of a process remains as a zombie.)
fn has_ended(pid: pid_t, tid: pid_t) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat"));
    stat.map_or(true, |it| it.rsplit_once(") ").is_none_or(|it| it.1.starts_with(['Z', 'X'])))
}

/// Parses a line of /proc/PID/maps; None unless it is a shared mapping of a file.
fn shared_mapping(line: &str) -> Option<(u64, Mapping, PathBuf)> {
    let mut words = line.split_ascii_whitespace();
    let (range, rights, offset) = (words.next()?, words.next()?, words.next()?);
    let path = &line[line.find('/')?..];
    if !rights.ends_with('s') || ["/dev/", "/memfd:", "/SYSV"].iter().any(|it| path.starts_with(it))
    {
        return None;
    }
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (start, end) = range.split_once('-')?;
    let (end, offset, stores) = (hex(end)?, hex(offset)?, rights.contains('w'));
    let mapping = Mapping { end, node: fsdyno_trace::NodeId(0), offset, stores };
    Some((hex(start)?, mapping, path.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_mappings_of_files_are_found_among_others() {
        let line =
            "7f00000000-7f00002000 rw-s 00001000 fe:00 123                        /srv/a file";
        let (start, it, path) = shared_mapping(line).unwrap();
        assert_eq!(
            (start, it.end, it.offset, it.stores),
            (0x7f_0000_0000, 0x7f_0000_2000, 0x1000, true)
        );
        assert_eq!(path, Path::new("/srv/a file"));
        assert!(shared_mapping(&line.replace("rw-s", "rw-p")).is_none());
        assert!(
            shared_mapping("7f00000000-7f00002000 rw-s 00000000 00:01 9   /dev/zero").is_none()
        );
    }
}
