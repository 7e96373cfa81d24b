//! Records a command with BPF, and processes the kernel's records.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use fsdyno_trace::End;
use libc::{c_int, pid_t};

use super::parts::Record;
use super::session::Session;
use crate::error::RecordError;
use crate::launch::{self, Prepared};
use crate::process::numeric_entries;
use crate::recorder::Recorder;
use crate::resolve::flags_and_offset;
use crate::tree::Tree;

/// The maximum time that the recorder waits for records before it checks whether to end.
pub const WAIT: Duration = Duration::from_millis(20);

/// Returns the wait status of a child if it has ended.
fn exit_status(pid: pid_t) -> Option<c_int> {
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    let done = unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) };
    let interrupted = || io::Error::last_os_error().kind() == io::ErrorKind::Interrupted;
    match done {
        -1 if interrupted() => None,
        // The status is unknown if the caller ignores SIGCHLD.
        -1 => Some(0),
        _ => (done == pid).then_some(status),
    }
}

/// Runs a prepared command and records it.
///
/// # Errors
/// The command did not run, or its first thread cannot be recorded.
pub fn record_command(
    mut recorder: Recorder,
    mut session: Session,
    mut started: Prepared,
) -> Result<(c_int, Tree, End, u64), RecordError> {
    let main = started.pid;
    if let Some(names) = &mut recorder.names {
        names.begin();
        names.wait_for_tick();
    }
    let table = recorder.table(BTreeMap::new());
    recorder.add(main, main, table, Rc::default());
    let working_directory = std::env::current_dir().ok();
    recorder.set_directory(main, working_directory.as_deref());
    recorder.begin_descriptors(main);
    session.follow(main).map_err(RecordError::Bpf)?;
    started.open()?;
    let mut status = None;
    // Once the trace has ended, only wait for the command.
    while status.is_none() || recorder.tree.is_recording() {
        match launch::take_signal() {
            // Processes that the command left behind are no longer recorded.
            Some(_) if status.is_some() => break,
            // The terminal also sends Ctrl-C to the command.
            Some(signal @ (libc::SIGTERM | libc::SIGHUP)) => {
                // SAFETY: a signal to the command, which has not been reaped yet.
                unsafe { libc::kill(main, signal) };
            }
            _ => {}
        }
        let mut any = false;
        if recorder.tree.is_recording() {
            any = recorder.take_records(&mut session, WAIT);
        } else {
            session.end();
            std::thread::sleep(WAIT);
        }
        status = status.or_else(|| exit_status(main));
        if status.is_some() && recorder.threads.is_empty() && !any {
            break;
        }
    }
    let outcome = started.outcome();
    outcome.map_err(|error| RecordError::Command { command: String::new(), error })?;
    let end = recorder.end_records(&mut session, status.map(|it| it as u32));
    Ok((status.unwrap_or(0), recorder.tree, end, recorder.inside))
}

impl Recorder {
    /// Writes the descriptors that a process waiting to start will inherit.
    fn begin_descriptors(&mut self, pid: pid_t) {
        (self.running, self.event_time) = (true, Some(0));
        let mut open = numeric_entries(&format!("/proc/{pid}/fd")).unwrap_or_default();
        open.sort_unstable();
        for number in open {
            let (flags, _) = flags_and_offset(pid, number);
            if flags & libc::O_CLOEXEC as u32 == 0 {
                let _ = self.descriptor(pid, number);
            }
        }
        (self.running, self.event_time) = (false, None);
    }

    /// Writes all directories of a tree to the trace, with their entries.
    pub fn introduce_all(&mut self, path: &Path) {
        let Some(mut names) = self.names.take() else { return };
        let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        if let Some(top) = names.reach(&path) {
            for dir in names.directories_below(top) {
                self.introduce(&mut names, dir);
            }
        }
        self.names = Some(names);
    }

    /// Waits for the next records, and processes them. Returns false if there are none. An error ends the trace.
    pub fn take_records(&mut self, session: &mut Session, wait: Duration) -> bool {
        let next = session.next(wait).unwrap_or_else(|error| {
            self.tree.stop(error);
            None
        });
        next.inspect(|bytes| self.process_records(bytes)).is_some()
    }

    fn process_records(&mut self, mut bytes: &[u8]) {
        while let Some((length, rest)) = bytes.split_first_chunk() {
            let length = u32::from_ne_bytes(*length) as usize;
            let Some((record, rest)) = rest.split_at_checked(length) else { return };
            match Record::read(record) {
                Some(record) => self.process_record(record),
                None => self.note("records that could not be read", 1),
            }
            bytes = rest;
        }
    }

    /// Ends the recording: processes the last records, and notes missing data.
    pub fn end_records(&mut self, session: &mut Session, status: Option<u32>) -> End {
        let lost = session.end();
        while self.take_records(session, Duration::ZERO) {}
        if lost > 0 {
            self.tree.stop(RecordError::Lost(lost));
        }
        let count = session.count_32_bit_calls();
        if count > 0 {
            self.note("calls by 32-bit programs, not recorded", count);
        }
        let notes = std::mem::take(&mut self.notes);
        let wall = crate::clock::monotonic().saturating_sub(self.began_monotonic);
        End { wall, status, notes, ..End::default() }
    }
}
