//! Handles the return of a call: completes the event with its result, and updates the recorder's state.

use std::path::PathBuf;
use std::rc::Rc;

use fsdyno_trace::{At, Call, CallKind, Event, NodeId, Object, ThreadId};
use libc::pid_t;

use crate::inode::{attributes, key};
use crate::process::{Descriptor, Mapping, Open, Pending, unmap};
use crate::recorder::Recorder;
use crate::resolve::Outside;
use crate::sys::{self, RESTARTS};

impl Recorder {
    /// Handles the return of a call, which stopped the thread at the time `now`.
    pub fn finish(&mut self, tid: pid_t, now: u64) {
        let returned = sys::call_result(tid);
        self.inject(tid);
        let pending = self.threads.get_mut(&tid).and_then(|it| it.pending.take());
        let (Some(mut it), Ok(result)) = (pending, returned) else { return };
        if RESTARTS.contains(&result) {
            return;
        }
        let duration = now.saturating_sub(it.start).saturating_sub(self.stop_cost.wall);
        self.invalidate_paths_after(it.entry.number);
        self.tree.clock = self.tick();
        if self.complete(tid, &mut it, result) {
            let Pending { call, start, think, .. } = it;
            // The result is a descriptor or an address, which is meaningless in another process.
            let returns_handle =
                matches!(call, Call::Open { .. } | Call::Dup { .. } | Call::Map { .. });
            let result = if returns_handle && result >= 0 { 0 } else { result };
            self.write(tid, Event { thread: ThreadId(0), think, start, duration, result, call });
        }
        self.update_used(tid);
    }

    /// Completes the event of a call. Returns false if the call has no event.
    pub fn complete(&mut self, tid: pid_t, it: &mut Pending, result: i64) -> bool {
        let succeeded = result >= 0;
        let (entry, entry_sequence, removed) = (it.entry, it.entry_sequence, it.removed);
        let args = entry.args;
        match entry.number {
            libc::SYS_close => return self.complete_close(tid, it),
            libc::SYS_close_range => return self.complete_close_range(tid, args, succeeded),
            libc::SYS_dup | libc::SYS_dup2 | libc::SYS_dup3 => {
                it.call =
                    self.complete_dup(tid, args[0] as i32, result, entry.number == libc::SYS_dup2);
                return true;
            }
            libc::SYS_mmap => return self.complete_mmap(tid, it, result),
            libc::SYS_munmap => return self.complete_munmap(tid, it, succeeded),
            libc::SYS_msync => return self.complete_msync(tid, it),
            libc::SYS_wait4 | libc::SYS_waitid => return self.complete_wait(tid, it, result),
            _ => {}
        }
        if let (true, Some(removed)) = (succeeded, removed) {
            self.tree.remove(removed, entry_sequence);
        }
        match &mut it.call {
            Call::Open { .. } if succeeded => {
                self.complete_open(tid, &mut it.call, result as i32, entry_sequence)
            }
            Call::Dup { .. } | Call::Outside { call: CallKind::Lock, .. }
                if succeeded
                    && entry.number == libc::SYS_fcntl
                    && [libc::F_DUPFD, libc::F_DUPFD_CLOEXEC].contains(&(args[1] as i32)) =>
            {
                it.call = self.complete_dup(tid, args[0] as i32, result, false);
            }
            Call::Mkdir { at, created, .. }
            | Call::Symlink { at, created, .. }
            | Call::Mknod { at, created, .. }
                if succeeded =>
            {
                let at = at.clone();
                *created = self.created_node(tid, &entry, &at, entry_sequence);
            }
            Call::Exec { .. } if succeeded => {
                // The descriptors that exec closes were already removed.
            }
            _ => {}
        }
        true
    }

    /// Returns the node that a call created under a name.
    fn created_node(
        &mut self,
        tid: pid_t,
        entry: &sys::CallEntry,
        at: &At,
        entry_sequence: u64,
    ) -> Option<NodeId> {
        if let Some(seen) = &self.seen {
            let (node, new) = self.tree.created_node(seen.made?.key, at.dir, entry_sequence, true);
            return new.then_some(node);
        }
        let (dir, path) = match entry.number {
            libc::SYS_mkdir | libc::SYS_mknod => (libc::AT_FDCWD, entry.args[0]),
            libc::SYS_symlink => (libc::AT_FDCWD, entry.args[1]),
            libc::SYS_symlinkat => (entry.args[1] as i32, entry.args[2]),
            _ => (entry.args[0] as i32, entry.args[1]),
        };
        let text = sys::text(tid, path)?;
        let from = match (text.first(), dir) {
            (Some(b'/'), _) => "/".to_string(),
            (_, libc::AT_FDCWD) => format!("/proc/{tid}/cwd/"),
            _ => format!("/proc/{tid}/fd/{dir}/"),
        };
        let end = text.iter().rposition(|byte| *byte != b'/')? + 1;
        let mut full_path = from.into_bytes();
        full_path.extend_from_slice(&text[..end]);
        let stat = attributes(rustix::fs::CWD, &full_path).ok()?;
        let (node, new) = self.tree.created_node(key(&stat), at.dir, entry_sequence, true);
        new.then_some(node)
    }

    /// Adds the descriptor of a file that a call opened.
    fn complete_open(&mut self, tid: pid_t, call: &mut Call, number: i32, entry_sequence: u64) {
        let path = PathBuf::from(format!("/proc/{tid}/fd/{number}"));
        let stat = match &self.seen {
            Some(seen) => seen.made.map(|it| it.stat()).ok_or(rustix::io::Errno::BADF),
            None => rustix::fs::stat(&path),
        };
        let Ok(stat) = stat else { return };
        // The kernel's record holds for the time of the call, /proc only for the present.
        let captured =
            self.seen.as_ref().and_then(|it| it.captured.as_ref()?.file(number)).copied();
        let outside = match captured {
            Some(file) => file.outside(),
            None => self.outside(&path, &stat),
        };
        if let Some(outside) = outside {
            if let Descriptor::Outside(object, object_number) = outside {
                *call = Call::Outside { call: CallKind::Open, object, number: object_number };
            }
            self.put(tid, number, outside);
            return;
        }
        let Call::Open { at, flags, created, file, .. } = call else { return };
        let creates = *flags & libc::O_CREAT as u32 != 0 && at.node.is_none()
            || *flags & libc::O_TMPFILE as u32 == libc::O_TMPFILE as u32;
        let node = if creates {
            let exclusive =
                *flags & (libc::O_EXCL | libc::O_TMPFILE) as u32 & !(libc::O_DIRECTORY as u32) != 0;
            let (node, new) = self.tree.created_node(key(&stat), at.dir, entry_sequence, exclusive);
            *created = new.then_some(node);
            node
        } else if let Some(node) = at.node {
            node
        } else {
            // The file appeared between the start of the call and its execution.
            let found = match &self.seen {
                Some(_) => self.tree.known(key(&stat), u64::MAX),
                None => self.node_of(&path, &stat).map(|(node, _)| node),
            };
            match found {
                Some(node) => node,
                None => return,
            }
        };
        let open = Rc::new(Open { file: self.next_file(), node, key: key(&stat) });
        *file = Some(open.file);
        self.put(tid, number, Descriptor::File(open));
    }

    /// Adds a descriptor to the table of a thread. A descriptor that it replaces was closed by an unobserved call.
    fn put(&mut self, tid: pid_t, number: i32, descriptor: Descriptor) {
        let Some(thread) = self.threads.get(&tid) else { return };
        let replaced = thread.descriptors.insert(number, descriptor, self.seen.is_some());
        self.release(tid, replaced, true);
    }

    fn complete_close(&mut self, tid: pid_t, it: &mut Pending) -> bool {
        let _ = tid;
        it.call = match it.closed.take() {
            Some(Descriptor::File(open)) => {
                let last = Rc::strong_count(&open) == 1;
                Call::Close { file: open.file, last, implicit: false }
            }
            Some(Descriptor::Outside(object, number)) => {
                Call::Outside { call: CallKind::Close, object, number }
            }
            None => Call::Outside { call: CallKind::Close, object: Object::None, number: 0 },
        };
        true
    }

    fn complete_close_range(&mut self, tid: pid_t, args: [u64; 6], succeeded: bool) -> bool {
        /// CLOSE_RANGE_CLOEXEC: the descriptors stay open until exec.
        const CLOEXEC: u64 = 4;
        if succeeded && args[2] & CLOEXEC == 0 {
            let Some(thread) = self.threads.get(&tid) else { return false };
            let table = thread.descriptors.clone();
            let is_in_range = |number: &i32| (args[0]..=args[1]).contains(&(*number as u64));
            let numbers: Vec<i32> = table.all().into_keys().filter(is_in_range).collect();
            for number in numbers {
                let descriptor = table.remove(number, false);
                self.release(tid, descriptor, false);
            }
        }
        false
    }

    /// Adds a descriptor that was duplicated as `result`, and returns the call.
    fn complete_dup(&mut self, tid: pid_t, from: i32, result: i64, same: bool) -> Call {
        match self.descriptor(tid, from) {
            Ok(open) => {
                if result >= 0 && !(same && i64::from(from) == result) {
                    self.put(tid, result as i32, Descriptor::File(open.clone()));
                }
                Call::Dup { file: open.file }
            }
            Err(Outside(object, number)) => {
                if result >= 0 {
                    self.put(tid, result as i32, Descriptor::Outside(object, number));
                }
                Call::Outside { call: CallKind::Dup, object, number }
            }
        }
    }

    fn complete_mmap(&mut self, tid: pid_t, it: &mut Pending, result: i64) -> bool {
        let [_, length, protection, flags, number, offset] = it.entry.args;
        let open = match self.descriptor(tid, number as i32) {
            Ok(open) => open,
            Err(Outside(object, number)) => {
                it.call = Call::Outside { call: CallKind::Map, object, number };
                return true;
            }
        };
        if protection as i32 & libc::PROT_EXEC != 0 && !(-4095..0).contains(&result) {
            self.redirect(tid, number as i32, result as u64, length, offset);
        }
        let shared = flags as i32 & libc::MAP_TYPE != libc::MAP_PRIVATE;
        let writable = protection as i32 & libc::PROT_WRITE != 0;
        it.call = Call::Map { file: open.file, offset, length, shared, writable };
        // Results from -4095 to -1 are errors.
        if !(-4095..0).contains(&result) {
            let start = result as u64;
            let end = start.saturating_add(length.next_multiple_of(4096));
            let Some(thread) = self.threads.get(&tid) else { return true };
            let mappings = thread.mappings.clone();
            let replaced = unmap(&mut mappings.borrow_mut(), start, end);
            for part in replaced.iter().filter(|part| part.stores) {
                self.unmap_event(tid, part, true);
            }
            let stores = shared && writable;
            mappings.borrow_mut().insert(start, Mapping { end, node: open.node, offset, stores });
        }
        true
    }

    fn complete_munmap(&mut self, tid: pid_t, it: &mut Pending, succeeded: bool) -> bool {
        let [start, length, ..] = it.entry.args;
        let Some(thread) = self.threads.get(&tid) else { return false };
        if !succeeded {
            return false;
        }
        let end = start.saturating_add(length.next_multiple_of(4096));
        let parts = unmap(&mut thread.mappings.borrow_mut(), start, end);
        let Some((last, others)) = parts.split_last() else { return false };
        others.iter().for_each(|part| self.unmap_event(tid, part, false));
        let (node, offset, length, stores) = (last.node, last.offset, last.end, last.stores);
        it.call = Call::Unmap { node, offset, length, stores, implicit: false };
        true
    }

    fn complete_msync(&mut self, tid: pid_t, it: &mut Pending) -> bool {
        let [start, length, flags, ..] = it.entry.args;
        let Some(thread) = self.threads.get(&tid) else { return false };
        let mappings = thread.mappings.borrow();
        let found = mappings.range(..=start).next_back().filter(|(_, it)| it.end > start);
        let Some((first, mapping)) = found else { return false };
        it.call = Call::Msync {
            node: mapping.node,
            offset: mapping.offset + (start - first),
            length: length.min(mapping.end - start),
            stores: mapping.stores,
            synchronous: flags as i32 & libc::MS_SYNC != 0,
        };
        true
    }

    /// Completes a wait: only a wait that returned a child is an event.
    fn complete_wait(&mut self, tid: pid_t, it: &mut Pending, result: i64) -> bool {
        let _ = tid;
        let pid = match it.entry.number {
            libc::SYS_wait4 => result as pid_t,
            // si_pid is at byte 12 of siginfo_t for SIGCHLD.
            _ if result == 0 && it.entry.args[2] != 0 => {
                let info = self.memory(tid, it.entry.args[2].saturating_add(12), 4);
                info.try_into().map_or(0, pid_t::from_ne_bytes)
            }
            _ => 0,
        };
        let child = self.ids.get(&pid).copied().filter(|_| pid > 0);
        if let Some(child) = child {
            it.call = Call::Wait { child };
            if !self.threads.contains_key(&pid) {
                self.ids.remove(&pid);
            }
        }
        child.is_some()
    }
}
