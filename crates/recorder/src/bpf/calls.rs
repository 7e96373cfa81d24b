//! Turns the records of the kernel into events of a trace, and updates the recorder's state.

use std::cell::Cell;

use fsdyno_trace::{CallKind, Event, ThreadId};
use libc::pid_t;

use super::layout::{BEGINS, ENDS, EXECS, EXITS, SPAWNS};
use super::names::{OUTSIDE, Walked};
use super::parts::Record;
use crate::error::RecordError;
use crate::inode::{Info, Key};
use crate::process::{Descriptor, Pending};
use crate::recorder::Recorder;
use crate::seen::Seen;
use crate::sys::{CallEntry, RESTARTS};
use crate::table;

/// Calls after which a path may refer to a different file than the recorder assumes.
const REDIRECTING: [libc::c_long; 5] =
    [libc::SYS_chroot, libc::SYS_pivot_root, libc::SYS_mount, libc::SYS_umount2, libc::SYS_setns];

impl Recorder {
    /// Processes a record.
    pub fn process_record(&mut self, record: Record) {
        if record.lost > 0 {
            self.tree.stop(RecordError::Lost(record.lost));
        }
        if !self.threads.contains_key(&record.thread) && record.kind != EXECS {
            return;
        }
        self.event_time = Some(record.wall.0.saturating_sub(self.began_monotonic));
        match record.kind {
            BEGINS => self.handle_entry(record),
            ENDS => self.handle_return(record),
            SPAWNS => {
                let think = self.think(record.thread, record.think);
                let [child, process, flags, ..] = record.args;
                self.add_created_thread(record.thread, child as pid_t, flags, think);
                if let Some(child) = self.threads.get_mut(&(child as pid_t)) {
                    child.process = process as pid_t;
                }
            }
            EXECS => self.handle_exec_event(&record),
            EXITS => self.handle_end(record.thread, record.args[0] as i32),
            _ => {}
        }
        self.event_time = None;
    }

    /// Returns the CPU time of a thread since its last event.
    fn think(&mut self, tid: pid_t, sum: u64) -> u64 {
        let Some(thread) = self.threads.get_mut(&tid) else { return 0 };
        let before = std::mem::replace(&mut thread.used, sum);
        sum.saturating_sub(before)
    }

    /// Processes the entry to a close or exec.
    fn handle_entry(&mut self, record: Record) {
        if !self.running {
            return;
        }
        let (tid, entry) =
            (record.thread, CallEntry { native: true, number: record.number, args: record.args });
        if record.number == libc::SYS_close {
            self.seen = Some(to_seen(record));
            let number = entry.args[0] as i32;
            let closed = self.take_descriptor(tid, number);
            let begin = self.seen.take().map_or(0, |it| it.wall.0);
            if let Some(thread) = self.threads.get_mut(&tid) {
                thread.closing = Some((begin, closed));
            }
            return;
        }
        let closes = record.captured.closing.clone();
        let think = self.think(tid, record.think);
        let (start, entry_sequence) = (self.now(), record.wall.0);
        let mut seen = to_seen(record);
        // The outcome is not known yet. This error implies nothing about the names.
        seen.result = -i64::from(libc::EINPROGRESS);
        self.seen = Some(seen);
        self.walked.clear();
        self.tree.clock = entry_sequence;
        let decoded = self.decode(tid, &entry);
        self.seen = None;
        let Some((call, removed)) = decoded else { return };
        let pending = Pending { call, entry, start, think, removed, entry_sequence, closed: None };
        if let Some(thread) = self.threads.get_mut(&tid) {
            (thread.pending, thread.closes) = (Some(pending), closes);
        }
    }

    fn handle_exec_event(&mut self, record: &Record) {
        let (tid, former) = (record.thread, record.args[0] as pid_t);
        if !self.running && self.threads.contains_key(&tid) {
            self.running = true;
            self.began_monotonic = record.wall.0;
            self.event_time = Some(0);
            self.think(tid, record.think);
            return;
        }
        let take_closes = |thread: &mut crate::process::Thread| std::mem::take(&mut thread.closes);
        let closes = self.threads.get_mut(&former).map(take_closes).unwrap_or_default();
        let unknown = Cell::new(0);
        let stays = |number: i32| match closes.get(number as usize / 8) {
            Some(byte) => byte >> (number % 8) & 1 == 0,
            None => {
                unknown.update(|it| it + 1);
                true
            }
        };
        self.handle_exec_from(tid, former, stays);
        if unknown.get() > 0 {
            let what = "descriptors that exec may have closed";
            self.note(what, unknown.get());
        }
    }

    fn handle_return(&mut self, record: Record) {
        if !self.running || RESTARTS.contains(&record.result) {
            return;
        }
        let (tid, number, result) = (record.thread, record.number, record.result);
        if record.captured.unread > 0 && table::kind(number).is_some_and(is_vectored) {
            self.note("vectored calls whose buffers could not be read", 1);
        }
        match number {
            libc::SYS_io_uring_setup if result >= 0 => {
                self.note(
                    "io_uring instances (io_uring_setup), whose operations are not in the trace",
                    1,
                );
            }
            libc::SYS_unshare if result >= 0 => self.separate(tid, number, record.args[0]),
            _ if REDIRECTING.contains(&number) && result >= 0 => {
                self.note(
                    "changes of the root or of mounts, after which paths may refer to other files",
                    1,
                );
            }
            libc::SYS_execve | libc::SYS_execveat => self.complete_exec(tid, &record),
            _ => self.complete_call(tid, record),
        }
    }

    fn complete_exec(&mut self, tid: pid_t, record: &Record) {
        let pending = self.threads.get_mut(&tid).and_then(|it| it.pending.take());
        let Some(Pending { call, start, think, .. }) = pending else { return };
        let duration = record.wall.1.saturating_sub(record.wall.0).saturating_sub(record.delay);
        let (thread, result) = (ThreadId(0), record.result);
        self.write(tid, Event { thread, think, start, duration, result, call });
    }

    fn complete_call(&mut self, tid: pid_t, record: Record) {
        let (number, end, result) = (record.number, record.wall.1, record.result);
        if !table::is_wanted(number, &record.args) {
            return;
        }
        let mut seen = to_seen(record);
        let made_mode = match table::kind(number) {
            Some(CallKind::Mkdir) => Some(libc::S_IFDIR | 0o755),
            Some(CallKind::Symlink) => Some(libc::S_IFLNK | 0o777),
            Some(CallKind::Mknod) => {
                let mode = seen.args[if number == libc::SYS_mknod { 1 } else { 2 }] as u32;
                Some(if mode & libc::S_IFMT == 0 { mode | libc::S_IFREG } else { mode })
            }
            _ => None,
        };
        if let (Some(mode), Some(names), true) = (made_mode, &mut self.names, result >= 0) {
            seen.made = Some(Info { key: names.fresh_key(), mode, links: 1, ..Info::default() });
        }
        self.walked.clear();
        // None if the call is not in the trace.
        if let Some(seen) = self.record_complete_call(tid, seen) {
            if result >= 0 {
                self.apply_call(tid, &seen, end);
            }
        }
    }

    /// Applies the change of a successful call to the known names and to the state of the thread.
    fn apply_call(&mut self, tid: pid_t, seen: &Seen, end: u64) {
        let Some(kind) = table::kind(seen.number) else { return };
        let walked = std::mem::take(&mut self.walked);
        let first = walked.first();
        match kind {
            CallKind::Mkdir | CallKind::Mknod | CallKind::Symlink | CallKind::Open => {
                self.apply_creation(seen, first, end);
            }
            CallKind::Unlink | CallKind::Rmdir => {
                if let (Some(names), Some((dir, name, Some(key)))) = (&mut self.names, parts(first))
                {
                    names.remove(dir, name, key);
                }
            }
            CallKind::Rename => self.apply_rename(seen, first, walked.get(1), end),
            CallKind::Link => {
                let open = || match self.threads.get(&tid)?.descriptors.get(seen.args[0] as i32)? {
                    Descriptor::File(open) => Some(open.key),
                    Descriptor::Outside(..) => None,
                };
                let from = if walked.len() > 1 { first.and_then(object) } else { open() };
                if let (Some(names), Some(key), Some((dir, name, _))) =
                    (&mut self.names, from, parts(walked.last()))
                {
                    names.link(dir, name, key, end);
                }
            }
            CallKind::Chdir => self.apply_chdir(tid, seen, first),
            _ => {}
        }
        self.walked = walked;
    }

    fn apply_creation(&mut self, seen: &Seen, first: Option<&Walked>, end: u64) {
        let (Some(names), Some(made)) = (&mut self.names, seen.made) else { return };
        if names.info(made.key).is_some() {
            return;
        }
        let captured = seen.captured.as_ref();
        let target = (made.mode & libc::S_IFMT == libc::S_IFLNK)
            .then(|| captured.and_then(|it| it.text(seen.args[0])).unwrap_or_default());
        // A file created with O_TMPFILE has no name.
        if let Some((dir, name, None)) = parts(first) {
            names.make(dir, name, made.key, made.mode, target, end);
        }
    }

    fn apply_rename(&mut self, seen: &Seen, from: Option<&Walked>, to: Option<&Walked>, end: u64) {
        let exchanges =
            seen.number == libc::SYS_renameat2 && seen.args[4] as u32 & libc::RENAME_EXCHANGE != 0;
        let (Some(names), Some((dir, name, Some(key))), Some((to_dir, to_name, replaced))) =
            (&mut self.names, parts(from), parts(to))
        else {
            return;
        };
        match replaced {
            Some(same) if same == key => {}
            Some(other) if exchanges => {
                names.exchange((dir, name), (to_dir, to_name), (key, other), end);
            }
            other => {
                if let Some(other) = other {
                    names.remove(to_dir, to_name, other);
                }
                names.rename((dir, name), (to_dir, to_name), key, end);
            }
        }
    }

    fn apply_chdir(&mut self, tid: pid_t, seen: &Seen, first: Option<&Walked>) {
        let Some(thread) = self.threads.get(&tid) else { return };
        let key = if seen.number == libc::SYS_fchdir {
            match thread.descriptors.get(seen.args[0] as i32) {
                Some(Descriptor::File(open)) => Some(open.key),
                _ => None,
            }
        } else {
            first.map(|walked| object(walked).unwrap_or(walked.dir))
        };
        thread.cwd.set(key.unwrap_or(OUTSIDE));
    }
}

fn is_vectored(kind: CallKind) -> bool {
    matches!(kind, CallKind::Read | CallKind::Write)
}

/// Returns the directory, the name and the object of a path that ends in a name.
fn parts(walked: Option<&Walked>) -> Option<(Key, &[u8], Option<Key>)> {
    let walked = walked?;
    Some((walked.dir, walked.name.as_deref()?, walked.key))
}

fn object(walked: &Walked) -> Option<Key> {
    match walked.name {
        Some(_) => walked.key,
        None => Some(walked.dir),
    }
}

/// Converts the record of a call.
fn to_seen(record: Record) -> Box<Seen> {
    let mut more = [0; 4];
    let text = record.captured.text(record.args[0]).map_or(0, <[u8]>::len) as u64;
    match record.number {
        libc::SYS_symlink | libc::SYS_symlinkat => more[0] = text,
        libc::SYS_readv
        | libc::SYS_preadv
        | libc::SYS_preadv2
        | libc::SYS_writev
        | libc::SYS_pwritev
        | libc::SYS_pwritev2 => {
            let buffers = record.captured.memory(record.args[1]).chunks_exact(16);
            let length =
                |buffer: &[u8]| buffer[8..].first_chunk().copied().map_or(0, u64::from_ne_bytes);
            let sum = buffers.map(length).fold(0, u64::saturating_add);
            (more[0], more[1]) = (sum.max(record.result.max(0) as u64), record.args[2].min(1024));
        }
        _ => {}
    }
    Box::new(Seen {
        sequence: record.wall,
        wall: record.wall,
        delay: record.delay,
        cpu: (record.think, record.think),
        number: record.number,
        args: record.args,
        result: record.result,
        more,
        captured: Some(record.captured),
        ..Seen::default()
    })
}
