//! Converts a call of an imported text to events of a trace: calls on processes and descriptors are converted here,
//! other calls in the module of their group.

use std::rc::Rc;

use fsdyno_trace::{At, Call, CallKind, Kind, LockOp, Object};

use super::parsed_call::{ParseError, ParsedCall, descriptor, field};
use super::state::{Descriptor, Fault, ImportState, Open, Outside, Thread, outside, readable};
use super::symbols::number;

impl ImportState {
    /// Records a call. Returns true if a trace can represent it.
    ///
    /// # Errors
    /// The call cannot be read; then nothing was recorded.
    pub fn call(&mut self, parsed: &ParsedCall<'_>) -> Result<bool, ParseError> {
        let thread = self.thread(parsed.thread);
        if let Some(known) = self.process_call(parsed, &thread)? {
            return Ok(known);
        }
        let Some(kind) = super::parsed_call::kind(parsed.name) else { return Ok(false) };
        // Anonymous mappings are ignored.
        if kind == CallKind::Map && parsed.number(3)? as i32 & libc::MAP_ANONYMOUS != 0 {
            return Ok(true);
        }
        let call = readable(self.file_call(kind, parsed, &thread))?;
        let call = call.unwrap_or_else(|it| outside(kind, &it));
        let plain = matches!(call, Call::Open { .. } | Call::Map { .. });
        let result = if plain && parsed.result >= 0 { 0 } else { parsed.result };
        self.event(thread.id, parsed.start, parsed.duration, result, call);
        Ok(true)
    }

    /// Records a call that changes processes or tables of descriptors. Returns true if a trace can represent
    /// it, None for any other call.
    fn process_call(
        &mut self,
        parsed: &ParsedCall<'_>,
        thread: &Thread,
    ) -> Result<Option<bool>, ParseError> {
        match parsed.name {
            "clone" | "clone3" | "fork" | "vfork" => self.fork(parsed, thread.clone()),
            "exit" | "exit_group" => {}
            "socket" | "accept" | "accept4" | "eventfd" | "eventfd2" | "epoll_create"
            | "epoll_create1" | "inotify_init" | "inotify_init1" | "timerfd_create"
            | "signalfd" | "signalfd4" | "memfd_create" | "pidfd_open" => {
                if !parsed.fails() {
                    self.put(parsed, thread, Descriptor { open: None, cloexec: false });
                }
                return Ok(Some(false));
            }
            "pipe" | "pipe2" | "socketpair" => {
                self.pipe(parsed, thread);
                return Ok(Some(false));
            }
            "execve" | "execveat" => self.exec(parsed, thread)?,
            "close" => self.close_call(parsed, thread)?,
            "dup" | "dup2" | "dup3" => self.dup(parsed, thread)?,
            "fcntl" | "fcntl64" => self.fcntl(parsed, thread)?,
            _ => return Ok(None),
        }
        Ok(Some(true))
    }

    fn file_call(
        &mut self,
        kind: CallKind,
        parsed: &ParsedCall<'_>,
        thread: &Thread,
    ) -> Result<Call, Fault> {
        use CallKind as K;
        match kind {
            K::Open => self.open_call(parsed, thread),
            K::Mkdir => self.mkdir(parsed, thread),
            K::Mknod => self.mknod(parsed, thread),
            K::Symlink => self.symlink(parsed, thread),
            K::Rmdir | K::Unlink => self.remove(parsed, thread),
            K::Rename => self.rename_call(parsed, thread),
            K::Link => self.link(parsed, thread),
            K::Read => self.read(parsed, thread),
            K::Write => self.write_call(parsed, thread),
            K::Seek => self.seek(parsed, thread),
            K::Copy => self.copy(parsed, thread),
            K::Fallocate => self.fallocate(parsed, thread),
            K::Sync => self.sync(parsed, thread),
            K::SyncAll => Ok(Call::SyncAll {}),
            K::Readdir => self.readdir(parsed, thread),
            K::Lock => self.flock(parsed, thread),
            K::Map => self.map(parsed, thread),
            K::Advise => self.advise(parsed, thread),
            K::Stat => self.stat(parsed, thread),
            K::Truncate => self.truncate(parsed, thread),
            K::Access => self.access(parsed, thread),
            K::Readlink => self.readlink(parsed, thread),
            K::Chmod => self.chmod(parsed, thread),
            K::Chown => Ok(Call::Chown { target: self.target(parsed, thread, None)? }),
            K::Utimes => self.utimes(parsed, thread),
            K::Setxattr => self.setxattr(parsed, thread),
            K::Getxattr => self.getxattr(parsed, thread),
            K::Listxattr => self.listxattr(parsed, thread),
            K::Removexattr => self.removexattr(parsed, thread),
            K::Chdir => self.chdir(parsed, thread),
            K::Statfs => Ok(Call::Statfs { target: self.target(parsed, thread, None)? }),
            // `parsed_call::kind` does not return these kinds.
            K::Close
            | K::Dup
            | K::Inherit
            | K::SetFlags
            | K::Unmap
            | K::Msync
            | K::Outside
            | K::Spawn
            | K::Exec
            | K::Exit
            | K::Wait
            | K::Mark => Err(format!("a text cannot contain the call {}", parsed.name).into()),
        }
    }

    /// Adds a thread that appears before the call that created it returns.
    pub fn starts_early(&mut self, parsed: &ParsedCall<'_>) {
        let thread = self.thread(parsed.thread);
        self.fork(parsed, thread);
        self.early.insert(parsed.result);
    }

    fn fork(&mut self, parsed: &ParsedCall<'_>, thread: Thread) {
        let flags =
            parsed.args.iter().find_map(|it| it.split_once("flags=")).map_or(0, |(_, it)| {
                let end = it.find([',', '}', ' ']).unwrap_or(it.len());
                number(&it[..end]).unwrap_or(0)
            });
        let has = |flag: i32| flags & i64::from(flag) != 0;
        // The child may have ended before the call that created it returned.
        let early = self.early.remove(&parsed.result);
        if parsed.result > 0 && !early && !self.has_thread(parsed.result) {
            self.spawn(
                Some(thread),
                parsed.result,
                !has(libc::CLONE_THREAD),
                has(libc::CLONE_FILES),
            );
        }
    }

    fn exec(&mut self, parsed: &ParsedCall<'_>, thread: &Thread) -> Result<(), ParseError> {
        let at = usize::from(parsed.name == "execveat");
        let path = parsed.text(at)?;
        if parsed.fails() {
            let cwd = thread.cwd.borrow().clone();
            let path = self.absolute(&cwd, &path);
            if let Ok(at) = self.place(&path, parsed.existed(), Kind::File, true) {
                if let Some(program) = at.name.clone() {
                    let call = Call::Exec { program, at: Some(at) };
                    self.event(thread.id, parsed.start, parsed.duration, parsed.result, call);
                }
            }
            return Ok(());
        }
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let cwd = thread.cwd.borrow().clone();
        let full_path = self.absolute(&cwd, &path);
        let at = self.place(&full_path, true, Kind::File, true).ok();
        if let Some(program) = self.name(name) {
            self.event(thread.id, parsed.start, parsed.duration, 0, Call::Exec { program, at });
        }
        let closed: Vec<i32> = thread
            .descriptors
            .borrow()
            .iter()
            .filter(|(_, it)| it.cloexec)
            .map(|(number, _)| *number)
            .collect();
        for number in closed {
            if let Some(it) = thread.descriptors.borrow_mut().remove(&number) {
                self.close(thread.id, parsed.start, it, true);
            }
        }
        Ok(())
    }

    fn close_call(&mut self, parsed: &ParsedCall<'_>, thread: &Thread) -> Result<(), ParseError> {
        let text = parsed.arg(0)?;
        let (number, _) =
            descriptor(text).ok_or_else(|| format!("'{text}' is not a descriptor"))?;
        let _ = readable(self.file(parsed, thread, 0))?;
        let known = thread.descriptors.borrow_mut().remove(&number);
        let call = match known.and_then(|it| it.open) {
            Some(open) => {
                let last = Rc::strong_count(&open) == 1;
                Call::Close { file: open.file, last, implicit: false }
            }
            None => outside(CallKind::Close, &Outside(Object::None)),
        };
        self.event(thread.id, parsed.start, parsed.duration, parsed.result, call);
        Ok(())
    }

    fn dup(&mut self, parsed: &ParsedCall<'_>, thread: &Thread) -> Result<(), ParseError> {
        let from = readable(self.file(parsed, thread, 0))?;
        let cloexec = parsed.name == "dup3" && parsed.number(2)? & i64::from(libc::O_CLOEXEC) != 0;
        let call = match &from {
            Ok(open) => Call::Dup { file: open.file },
            Err(it) => outside(CallKind::Dup, it),
        };
        if parsed.result >= 0
            && descriptor(parsed.arg(0)?).is_none_or(|it| i64::from(it.0) != parsed.result)
        {
            self.put(parsed, thread, Descriptor { open: from.ok(), cloexec });
        }
        self.event(thread.id, parsed.start, parsed.duration, parsed.result.min(0), call);
        Ok(())
    }

    /// Adds the descriptor that is the result of a call.
    pub fn put(&mut self, parsed: &ParsedCall<'_>, thread: &Thread, it: Descriptor) {
        let replaced = thread.descriptors.borrow_mut().insert(parsed.result as i32, it);
        if let Some(it) = replaced {
            self.close(thread.id, parsed.start, it, true);
        }
    }

    /// Adds two descriptors that are not files: `[3, 4]`.
    fn pipe(&mut self, parsed: &ParsedCall<'_>, thread: &Thread) {
        let pair = parsed
            .args
            .iter()
            .find_map(|it| it.strip_prefix('[')?.strip_suffix(']'))
            .unwrap_or_default();
        let numbers = pair.split(',').filter_map(|it| Some(descriptor(it.trim())?.0));
        for number in numbers.filter(|_| !parsed.fails()) {
            let parsed = ParsedCall { result: i64::from(number), ..parsed.clone() };
            self.put(&parsed, thread, Descriptor { open: None, cloexec: false });
        }
    }

    fn fcntl(&mut self, parsed: &ParsedCall<'_>, thread: &Thread) -> Result<(), ParseError> {
        let command = parsed.number(1)? as i32;
        let Ok(open) = readable(self.file(parsed, thread, 0))? else { return Ok(()) };
        let file = open.file;
        let call = match command {
            libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => return self.dup(parsed, thread),
            libc::F_SETFD => {
                let cloexec = parsed.number(2)? & i64::from(libc::FD_CLOEXEC) != 0;
                let number = descriptor(parsed.arg(0)?).map_or(-1, |it| it.0);
                if let Some(it) = thread.descriptors.borrow_mut().get_mut(&number) {
                    it.cloexec = cloexec;
                }
                return Ok(());
            }
            libc::F_SETFL => Call::SetFlags { file, flags: parsed.number(2)? as u32 },
            libc::F_GETLK..=libc::F_SETLKW | libc::F_OFD_GETLK..=libc::F_OFD_SETLKW => {
                let lock = parsed.arg(2)?;
                let value = |name| field(lock, name).and_then(number).unwrap_or(0);
                let get = [libc::F_GETLK, libc::F_OFD_GETLK].contains(&command);
                let wait = [libc::F_SETLKW, libc::F_OFD_SETLKW].contains(&command);
                Call::Lock {
                    file,
                    lock: match field(lock, "l_type") {
                        _ if get => LockOp::Query,
                        Some("F_RDLCK") => LockOp::Shared,
                        Some("F_WRLCK") => LockOp::Exclusive,
                        _ => LockOp::Unlock,
                    },
                    whole: false,
                    waits: wait,
                    offset: value("l_start") as u64,
                    length: value("l_len") as u64,
                }
            }
            _ => return Ok(()),
        };
        self.event(thread.id, parsed.start, parsed.duration, parsed.result, call);
        Ok(())
    }

    /// Returns the open file of a descriptor. A file that is known only from `-y` was open at the start.
    pub fn file(
        &mut self,
        parsed: &ParsedCall<'_>,
        thread: &Thread,
        at: usize,
    ) -> Result<Rc<Open>, Fault> {
        let text = parsed.arg(at)?;
        let (number, path) =
            descriptor(text).ok_or_else(|| format!("'{text}' is not a descriptor"))?;
        let known = thread.descriptors.borrow().get(&number).cloned();
        if let Some(known) = known {
            return Ok(known.open.ok_or(Outside(Object::None))?);
        }
        let Some(path) = path.filter(|it| it.starts_with(b"/")) else {
            if number > 2 && parsed.result != i64::from(-libc::EBADF) {
                self.note("calls on descriptors whose open is not in the text", 1);
            }
            return Err(Outside(Object::None).into());
        };
        let place = self.place(&path, true, Kind::File, false)?;
        let node = place.node.ok_or(Outside(Object::None))?;
        let open = self.open(node, path);
        let call = Call::Inherit { file: open.file, node, flags: libc::O_RDWR as u32, offset: 0 };
        self.event(thread.id, parsed.start, 0, 0, call);
        let it = Descriptor { open: Some(open.clone()), cloexec: false };
        thread.descriptors.borrow_mut().insert(number, it);
        Ok(open)
    }

    /// Returns the absolute path of the arguments `dir` (None for the working directory) and `path`.
    pub fn path(
        &mut self,
        parsed: &ParsedCall<'_>,
        thread: &Thread,
        dir: Option<usize>,
        path: usize,
    ) -> Result<Vec<u8>, ParseError> {
        let path = parsed.text(path)?;
        let cwd = thread.cwd.borrow().clone();
        let Some(dir) = dir.filter(|_| !path.starts_with(b"/")) else {
            return Ok(self.absolute(&cwd, &path));
        };
        let text = parsed.arg(dir)?;
        let (number, shown) =
            descriptor(text).ok_or_else(|| format!("'{text}' is not a descriptor"))?;
        let from = match thread.descriptors.borrow().get(&number).and_then(|it| it.open.clone()) {
            _ if number == libc::AT_FDCWD => shown.unwrap_or(cwd),
            Some(open) => open.path.clone(),
            None => {
                shown.ok_or("the directory of a relative path is a descriptor that is not open")?
            }
        };
        Ok(self.absolute(&from, &path))
    }

    /// Returns the place that these arguments name.
    pub fn at(
        &mut self,
        parsed: &ParsedCall<'_>,
        thread: &Thread,
        (dir, path): (Option<usize>, usize),
        (exists, kind): (bool, Option<Kind>),
    ) -> Result<At, Fault> {
        let path = self.path(parsed, thread, dir, path)?;
        Ok(self.place(&path, exists, kind.unwrap_or(Kind::File), kind.is_some())?)
    }
}
