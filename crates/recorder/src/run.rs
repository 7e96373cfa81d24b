//! Follows the threads of a command from stop to stop.

use std::cell::Cell;
use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;
use std::time::Instant;

use fsdyno_trace::{Call, CallKind, End, Event};
use libc::{c_int, pid_t};

use crate::clock::{Ticker, monotonic};
use crate::error::RecordError;
use crate::filter;
use crate::launch::{self, Prepared};
use crate::process::{Descriptor, Mapping, Mappings, Pending, numeric_entries, unmap};
use crate::recorder::Recorder;
use crate::shared::Ring;
use crate::sys::{self, Change, Resume};
use crate::table;
use crate::tree::Tree;

/// The interval in milliseconds at which the recorder drains the rings, while they have calls and while they do not.
const ACTIVE: i64 = 4;
const IDLE: i64 = 200;

impl Recorder {
    /// Follows the command to the end of its last process. Returns the status of the command as wait(2) returns it,
    /// the trace with its end item, and the number of calls that were recorded inside the programs.
    pub fn follow(mut self, started: Prepared) -> Result<(c_int, Tree, End, u64), RecordError> {
        let main = started.pid;
        let mut started = Some(started);
        let table = self.table(BTreeMap::new());
        self.add(main, main, table, Rc::default());
        let ticker = self.shared.as_ref().and_then(|_| Ticker::new());
        let mut status = 0;
        while !(self.threads.is_empty() && self.early.is_empty()) {
            if let Some(signal) =
                launch::signal_to_pass().filter(|_| self.threads.contains_key(&main))
            {
                // SAFETY: a signal to the command; it is not reaped before its thread leaves the table.
                unsafe { libc::kill(main, signal) };
            }
            let Some((tid, change)) = (match sys::wait() {
                Ok(changed) => changed,
                Err(_) => break,
            }) else {
                let active = self.drain();
                ticker.iter().for_each(|it| it.interrupt_after(if active { ACTIVE } else { IDLE }));
                continue;
            };
            // If a call has returned, this is the latest possible time of its return.
            let now = self.now();
            self.drain();
            if tid == main {
                if let Change::Ended(code) = change {
                    status = code;
                }
            }
            if change == Change::Exec && !self.running {
                self.running = true;
                self.began = Instant::now();
                self.began_monotonic = monotonic();
                ticker.iter().for_each(|it| it.interrupt_after(ACTIVE));
                self.add_standard_descriptors(main);
            }
            if let Some(how) = self.change(tid, change, now) {
                sys::resume(tid, how);
            }
            if self.threads.is_empty() {
                self.add_orphans();
            }
        }
        let outcome = started.take().map_or(Ok(()), Prepared::outcome);
        if let Err(error) = outcome {
            return Err(RecordError::Command { command: String::new(), error });
        }
        if self.not_redirected > 0 {
            let what = "programs without a dynamic C library (static, Go), whose calls all stopped";
            self.note(what, self.not_redirected);
        }
        let end = End {
            wall: self.now(),
            status: Some(status as u32),
            notes: std::mem::take(&mut self.notes),
            ..End::default()
        };
        Ok((status, self.tree, end, self.inside))
    }

    /// Adds threads whose parent was killed before its event arrived.
    fn add_orphans(&mut self) {
        for tid in std::mem::take(&mut self.early) {
            let table = self.table(BTreeMap::new());
            self.add(tid, tid, table, Rc::default());
            // Until now, it has the ring of the thread that created it.
            sys::set_base(tid, 0);
            sys::resume(tid, Resume::Continue(0));
        }
    }

    /// Adds the standard descriptors that the command inherits.
    fn add_standard_descriptors(&mut self, tid: pid_t) {
        for number in 0..3 {
            let _ = self.descriptor(tid, number);
        }
    }

    /// Handles a change of a thread that was seen at the time `now`; returns how to resume it, or None.
    fn change(&mut self, tid: pid_t, change: Change, now: u64) -> Option<Resume> {
        let in_call = |it: &Self| it.threads.get(&tid).is_some_and(|it| it.pending.is_some());
        if !self.threads.contains_key(&tid) && !matches!(change, Change::Ended(_)) {
            self.early.insert(tid);
            return None;
        }
        if let Some(thread) = self.threads.get_mut(&tid) {
            if std::mem::take(&mut thread.fresh) {
                self.set_ring(tid);
            }
        }
        Some(match change {
            Change::Call => self.begin(tid),
            Change::Return => {
                self.finish(tid, now);
                Resume::Continue(0)
            }
            Change::Spawn => {
                self.handle_spawn(tid);
                if in_call(self) { Resume::ToReturn(0) } else { Resume::Continue(0) }
            }
            Change::Exec => {
                self.handle_exec(tid);
                if in_call(self) || self.injector.is_some() {
                    Resume::ToReturn(0)
                } else {
                    Resume::Continue(0)
                }
            }
            Change::GroupStop => Resume::Listen,
            Change::Attached => Resume::Continue(0),
            Change::Signal(signal) => Resume::Continue(signal),
            Change::Ended(status) => {
                self.handle_end(tid, status);
                return None;
            }
        })
    }

    /// Handles the entry to a call.
    fn begin(&mut self, tid: pid_t) -> Resume {
        let untraced = Resume::Continue(0);
        let Ok(entry) = sys::call_entry(tid) else { return untraced };
        if !entry.native {
            self.note("calls by 32-bit programs, not recorded", 1);
            return untraced;
        }
        if entry.number == libc::SYS_io_uring_setup {
            self.note("io_uring_setup answered with ENOSYS", 1);
            let _ = sys::refuse(tid, libc::ENOSYS);
            return untraced;
        }
        if [libc::SYS_unshare, libc::SYS_setns].contains(&entry.number) {
            let flags = entry.args[usize::from(entry.number == libc::SYS_setns)];
            self.separate(tid, entry.number, flags);
            return untraced;
        }
        if filter::MOUNTS.contains(&entry.number) {
            self.shared.iter().for_each(|it| it.disable_path_cache());
            return untraced;
        }
        if !self.running || !self.tree.is_recording() {
            return untraced;
        }
        let Some(thread) = self.threads.get(&tid) else { return untraced };
        let think = thread.cpu().saturating_sub(thread.used).saturating_sub(self.stop_cost.cpu);
        let entry_sequence = self.tick();
        self.tree.clock = entry_sequence;
        if entry.number == libc::SYS_munmap && !self.is_mapped(tid, entry.args[0], entry.args[1]) {
            return untraced;
        }
        let Some((call, removed)) = self.decode(tid, &entry) else { return untraced };
        let closed = (entry.number == libc::SYS_close)
            .then(|| self.take_descriptor(tid, entry.args[0] as i32))
            .flatten();
        self.invalidate_paths_after(entry.number);
        let start = self.now();
        let pending = Pending { call, entry, start, think, removed, entry_sequence, closed };
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.pending = Some(pending);
        }
        Resume::ToReturn(0)
    }

    /// Invalidates the cached directories of paths if a call that begins or has returned may change them.
    pub fn invalidate_paths_after(&self, number: libc::c_long) {
        use CallKind as K;
        let kind = table::kind(number);
        let makes = matches!(kind, Some(K::Mkdir | K::Symlink | K::Link));
        if makes || matches!(kind, Some(K::Rename | K::Rmdir | K::Unlink | K::Chdir)) {
            self.shared.iter().for_each(|it| it.invalidate_paths());
        }
    }

    /// True if a range of addresses overlaps a mapping of a file.
    pub fn is_mapped(&self, tid: pid_t, from: u64, length: u64) -> bool {
        let Some(thread) = self.threads.get(&tid) else { return false };
        let to = from.saturating_add(length);
        thread.mappings.borrow().range(..to).any(|(_, it)| it.end > from)
    }

    /// Removes a descriptor; looks it up first if it is unknown.
    pub fn take_descriptor(&mut self, tid: pid_t, number: i32) -> Option<Descriptor> {
        let _ = self.descriptor(tid, number);
        let thread = self.threads.get(&tid)?;
        thread.descriptors.remove(number, false)
    }

    /// Handles the creation of a thread, as ptrace(2) reports it.
    fn handle_spawn(&mut self, tid: pid_t) {
        let Ok(child) = sys::message(tid) else { return };
        let flags = sys::registers(tid).map_or(0, |it| match it.orig_rax as i64 {
            libc::SYS_clone => it.rdi,
            libc::SYS_clone3 => sys::words::<1>(tid, it.rdi).map_or(0, |[flags]| flags),
            _ => 0,
        });
        let Some(parent) = self.threads.get(&tid) else { return };
        let think = parent.cpu().saturating_sub(parent.used).saturating_sub(self.stop_cost.cpu);
        self.add_created_thread(tid, child, flags, think);
        self.update_used(tid);
        if self.early.remove(&child) {
            self.set_ring(child);
            sys::resume(child, Resume::Continue(0));
        }
    }

    /// Adds a thread that another thread created with these flags of clone(2).
    pub fn add_created_thread(&mut self, tid: pid_t, child: pid_t, flags: u64, think: u64) {
        let has = |flag: c_int| flags & flag as u64 != 0;
        let Some(parent) = self.threads.get(&tid) else { return };
        let (process, parent_process) = (!has(libc::CLONE_THREAD), parent.process);
        let descriptors = match has(libc::CLONE_FILES) {
            true => parent.descriptors.clone(),
            false => self.table(parent.descriptors.all()),
        };
        // vfork shares memory until the child's exec, which makes new mappings.
        let mappings = match has(libc::CLONE_VM) {
            true => parent.mappings.clone(),
            false => Rc::new(std::cell::RefCell::new(parent.mappings.borrow().clone())),
        };
        let cwd = match has(libc::CLONE_FS) {
            true => parent.cwd.clone(),
            false => Rc::new(Cell::new(parent.cwd.get())),
        };
        let owner = if process { child } else { parent_process };
        let code = (parent.injected, parent.redirected);
        let id = self.add(child, owner, descriptors, mappings);
        if let Some(thread) = self.threads.get_mut(&child) {
            (thread.injected, thread.redirected) = code;
            (thread.fresh, thread.cwd) = (true, cwd);
        }
        self.separate(child, libc::SYS_clone, flags);
        let start = self.now();
        let call = Call::Spawn { child: id, process };
        self.write(tid, Event { thread: id, think, start, duration: 0, result: 0, call });
    }

    /// Marks the CPU time until now as accounted for.
    pub fn update_used(&mut self, tid: pid_t) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.used = thread.cpu();
            thread.ring.iter().for_each(Ring::invalidate_cpu_time);
        }
    }

    /// Handles an exec: the other threads of the process have ended, and some descriptors are closed.
    fn handle_exec(&mut self, tid: pid_t) {
        let former = sys::message(tid).unwrap_or(tid);
        let open = numeric_entries(&format!("/proc/{tid}/fd")).unwrap_or_default();
        let open: HashSet<i32> = open.into_iter().collect();
        self.handle_exec_from(tid, former, |number| open.contains(&number));
        let setuid =
            rustix::fs::stat(format!("/proc/{tid}/exe")).is_ok_and(|it| it.st_mode & 0o6000 != 0);
        if setuid && !rustix::process::geteuid().is_root() {
            self.note("setuid programs, which ran without their privileges", 1);
        }
    }

    /// Handles an exec of a thread that had the ID `former`; descriptors for which `stays` is true stay open.
    pub fn handle_exec_from(&mut self, tid: pid_t, former: pid_t, stays: impl Fn(i32) -> bool) {
        if former != tid {
            if let Some(it) = self.threads.remove(&former) {
                self.threads.insert(tid, it);
            }
        }
        let Some(all) = self.threads.get(&tid).map(|it| it.descriptors.all()) else { return };
        let table = self.table(all);
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let before = std::mem::replace(&mut thread.descriptors, table.clone());
        let mappings = std::mem::take(&mut thread.mappings);
        (thread.injected, thread.in_exec) = (false, true);
        drop(before);
        self.give_ring(tid);
        self.end_mappings(tid, mappings);
        let closed: Vec<i32> = table.all().into_keys().filter(|it| !stays(*it)).collect();
        for number in closed {
            let descriptor = table.remove(number, false);
            self.release(tid, descriptor, true);
        }
    }

    /// Releases a descriptor that is no longer in a table: writes a close if it was the last one of its file. An
    /// explicit close is always written.
    pub fn release(&mut self, tid: pid_t, descriptor: Option<Descriptor>, implicit: bool) {
        if let Some(Descriptor::File(open)) = descriptor {
            let last = Rc::strong_count(&open) == 1;
            if last || !implicit {
                self.event(tid, Call::Close { file: open.file, last, implicit }, 0);
            }
        }
    }

    /// Ends the mappings of a process, unless another process still shares them.
    fn end_mappings(&mut self, tid: pid_t, mappings: Mappings) {
        if Rc::strong_count(&mappings) > 1 {
            return;
        }
        for it in unmap(&mut mappings.borrow_mut(), 0, u64::MAX) {
            if it.stores {
                self.unmap_event(tid, &it, true);
            }
        }
    }

    /// Writes the end of a part of a mapping.
    pub fn unmap_event(&mut self, tid: pid_t, it: &Mapping, implicit: bool) {
        let (node, offset, length, stores) = (it.node, it.offset, it.end, it.stores);
        self.event(tid, Call::Unmap { node, offset, length, stores, implicit }, 0);
    }

    /// Handles the end of a thread.
    pub fn handle_end(&mut self, tid: pid_t, status: c_int) {
        self.early.remove(&tid);
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        thread.ring = None;
        let process = thread.process;
        if self.watched == Some(process) {
            self.status = Some(status as u32);
        }
        let descriptors = std::mem::take(&mut thread.descriptors);
        let mappings = std::mem::take(&mut thread.mappings);
        if Rc::strong_count(&descriptors) == 1 {
            for (_, descriptor) in descriptors.take() {
                self.release(tid, Some(descriptor), true);
            }
        }
        self.end_mappings(tid, mappings);
        let result = match libc::WIFEXITED(status) {
            true => i64::from(libc::WEXITSTATUS(status)),
            false => -i64::from(libc::WTERMSIG(status)),
        };
        let last = self.threads.values().filter(|it| it.process == process).count() == 1;
        self.event(tid, Call::Exit { process: last }, result);
        self.threads.remove(&tid);
    }
}
