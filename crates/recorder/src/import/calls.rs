//! Converts a call of an imported text to events of a trace: calls on processes and descriptors here, others by group.

use std::rc::Rc;

use fsdyno_trace::{At, Call, CallKind, Kind, LockOp, Object};

use super::said::{Said, Wrong, descriptor, field};
use super::symbols::number;
use super::world::{Descriptor, Fault, Open, Outside, Thread, World, outside, readable};

impl World {
    /// Records a call. Returns true if a trace can have such a call.
    ///
    /// # Errors
    /// The call cannot be read; then nothing was recorded.
    pub fn call(&mut self, said: &Said<'_>) -> Result<bool, Wrong> {
        let thread = self.thread(said.thread);
        if let Some(known) = self.of_process(said, &thread)? {
            return Ok(known);
        }
        let Some(of) = super::said::kind(said.name) else { return Ok(false) };
        // An anonymous mapping.
        if of == CallKind::Map && said.number(3)? as i32 & libc::MAP_ANONYMOUS != 0 {
            return Ok(true);
        }
        let call = readable(self.of_files(of, said, &thread))?;
        let call = call.unwrap_or_else(|it| outside(of, &it));
        let plain = matches!(call, Call::Open { .. } | Call::Map { .. });
        let result = if plain && said.result >= 0 { 0 } else { said.result };
        self.event(thread.id, said.start, said.duration, result, call);
        Ok(true)
    }

    /// Records a call that changes processes or tables of descriptors. Returns true if a trace can have such a call,
    /// None for any other call.
    fn of_process(&mut self, said: &Said<'_>, thread: &Thread) -> Result<Option<bool>, Wrong> {
        match said.name {
            "clone" | "clone3" | "fork" | "vfork" => self.forked(said, thread.clone()),
            "exit" | "exit_group" => {}
            "socket" | "accept" | "accept4" | "eventfd" | "eventfd2" | "epoll_create"
            | "epoll_create1" | "inotify_init" | "inotify_init1" | "timerfd_create"
            | "signalfd" | "signalfd4" | "memfd_create" | "pidfd_open" => {
                if !said.fails() {
                    self.put(said, thread, Descriptor { open: None, cloexec: false });
                }
                return Ok(Some(false));
            }
            "pipe" | "pipe2" | "socketpair" => {
                self.piped(said, thread);
                return Ok(Some(false));
            }
            "execve" | "execveat" => self.executed(said, thread)?,
            "close" => self.closed(said, thread)?,
            "dup" | "dup2" | "dup3" => self.duplicated(said, thread)?,
            "fcntl" | "fcntl64" => self.controlled(said, thread)?,
            _ => return Ok(None),
        }
        Ok(Some(true))
    }

    fn of_files(&mut self, of: CallKind, said: &Said<'_>, thread: &Thread) -> Result<Call, Fault> {
        use CallKind as K;
        match of {
            K::Open => self.opens(said, thread),
            K::Mkdir => self.mkdir(said, thread),
            K::Mknod => self.mknod(said, thread),
            K::Symlink => self.symlink(said, thread),
            K::Rmdir | K::Unlink => self.remove(said, thread),
            K::Rename => self.rename_call(said, thread),
            K::Link => self.link(said, thread),
            K::Read => self.read(said, thread),
            K::Write => self.write_call(said, thread),
            K::Seek => self.seek(said, thread),
            K::Copy => self.copied(said, thread),
            K::Fallocate => self.fallocate(said, thread),
            K::Sync => self.sync(said, thread),
            K::SyncAll => Ok(Call::SyncAll {}),
            K::Readdir => self.readdir(said, thread),
            K::Lock => self.flock(said, thread),
            K::Map => self.map(said, thread),
            K::Advise => self.advise(said, thread),
            K::Stat => self.stat(said, thread),
            K::Truncate => self.truncate(said, thread),
            K::Access => self.access(said, thread),
            K::Readlink => self.readlink(said, thread),
            K::Chmod => self.chmod(said, thread),
            K::Chown => Ok(Call::Chown { target: self.target(said, thread, None)? }),
            K::Utimes => self.utimes(said, thread),
            K::Setxattr => self.setxattr(said, thread),
            K::Getxattr => self.getxattr(said, thread),
            K::Listxattr => self.listxattr(said, thread),
            K::Removexattr => self.removexattr(said, thread),
            K::Chdir => self.chdir(said, thread),
            K::Statfs => Ok(Call::Statfs { target: self.target(said, thread, None)? }),
            // `said::kind` does not return these kinds.
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
            | K::Mark => Err(format!("a text has no call {}", said.name).into()),
        }
    }

    /// Adds a thread that appears before the call that created it returns.
    pub fn begun(&mut self, said: &Said<'_>) {
        let thread = self.thread(said.thread);
        self.forked(said, thread);
        self.early.insert(said.result);
    }

    fn forked(&mut self, said: &Said<'_>, thread: Thread) {
        let flags = said.args.iter().find_map(|it| it.split_once("flags=")).map_or(0, |(_, it)| {
            let end = it.find([',', '}', ' ']).unwrap_or(it.len());
            number(&it[..end]).unwrap_or(0)
        });
        let has = |flag: i32| flags & i64::from(flag) != 0;
        // It may have ended before the call that created it returned.
        let early = self.early.remove(&said.result);
        if said.result > 0 && !early && !self.has_thread(said.result) {
            self.spawn(Some(thread), said.result, !has(libc::CLONE_THREAD), has(libc::CLONE_FILES));
        }
    }

    fn executed(&mut self, said: &Said<'_>, thread: &Thread) -> Result<(), Wrong> {
        let at = usize::from(said.name == "execveat");
        let path = said.text(at)?;
        if said.fails() {
            let cwd = thread.cwd.borrow().clone();
            let path = self.absolute(&cwd, &path);
            if let Ok(at) = self.place(&path, said.existed(), Kind::File, true) {
                if let Some(program) = at.name.clone() {
                    let call = Call::Exec { program, at: Some(at) };
                    self.event(thread.id, said.start, said.duration, said.result, call);
                }
            }
            return Ok(());
        }
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let cwd = thread.cwd.borrow().clone();
        let whole = self.absolute(&cwd, &path);
        let at = self.place(&whole, true, Kind::File, true).ok();
        if let Some(program) = self.name(name) {
            self.event(thread.id, said.start, said.duration, 0, Call::Exec { program, at });
        }
        let gone: Vec<i32> = thread
            .descriptors
            .borrow()
            .iter()
            .filter(|(_, it)| it.cloexec)
            .map(|(number, _)| *number)
            .collect();
        for number in gone {
            if let Some(it) = thread.descriptors.borrow_mut().remove(&number) {
                self.close(thread.id, said.start, it, true);
            }
        }
        Ok(())
    }

    fn closed(&mut self, said: &Said<'_>, thread: &Thread) -> Result<(), Wrong> {
        let text = said.arg(0)?;
        let (number, _) = descriptor(text).ok_or_else(|| format!("'{text}' is no descriptor"))?;
        let _ = readable(self.file(said, thread, 0))?;
        let known = thread.descriptors.borrow_mut().remove(&number);
        let call = match known.and_then(|it| it.open) {
            Some(open) => {
                let last = Rc::strong_count(&open) == 1;
                Call::Close { file: open.file, last, implicit: false }
            }
            None => outside(CallKind::Close, &Outside(Object::None)),
        };
        self.event(thread.id, said.start, said.duration, said.result, call);
        Ok(())
    }

    fn duplicated(&mut self, said: &Said<'_>, thread: &Thread) -> Result<(), Wrong> {
        let from = readable(self.file(said, thread, 0))?;
        let cloexec = said.name == "dup3" && said.number(2)? & i64::from(libc::O_CLOEXEC) != 0;
        let call = match &from {
            Ok(open) => Call::Dup { file: open.file },
            Err(it) => outside(CallKind::Dup, it),
        };
        if said.result >= 0
            && descriptor(said.arg(0)?).is_none_or(|it| i64::from(it.0) != said.result)
        {
            self.put(said, thread, Descriptor { open: from.ok(), cloexec });
        }
        self.event(thread.id, said.start, said.duration, said.result.min(0), call);
        Ok(())
    }

    /// Adds the descriptor that is the result of a call.
    pub fn put(&mut self, said: &Said<'_>, thread: &Thread, it: Descriptor) {
        let replaced = thread.descriptors.borrow_mut().insert(said.result as i32, it);
        if let Some(it) = replaced {
            self.close(thread.id, said.start, it, true);
        }
    }

    /// Adds two descriptors that are not files: `[3, 4]`.
    fn piped(&mut self, said: &Said<'_>, thread: &Thread) {
        let pair = said
            .args
            .iter()
            .find_map(|it| it.strip_prefix('[')?.strip_suffix(']'))
            .unwrap_or_default();
        let numbers = pair.split(',').filter_map(|it| Some(descriptor(it.trim())?.0));
        for number in numbers.filter(|_| !said.fails()) {
            let said = Said { result: i64::from(number), ..said.clone() };
            self.put(&said, thread, Descriptor { open: None, cloexec: false });
        }
    }

    fn controlled(&mut self, said: &Said<'_>, thread: &Thread) -> Result<(), Wrong> {
        let command = said.number(1)? as i32;
        let Ok(open) = readable(self.file(said, thread, 0))? else { return Ok(()) };
        let file = open.file;
        let call = match command {
            libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => return self.duplicated(said, thread),
            libc::F_SETFD => {
                let cloexec = said.number(2)? & i64::from(libc::FD_CLOEXEC) != 0;
                let number = descriptor(said.arg(0)?).map_or(-1, |it| it.0);
                if let Some(it) = thread.descriptors.borrow_mut().get_mut(&number) {
                    it.cloexec = cloexec;
                }
                return Ok(());
            }
            libc::F_SETFL => Call::SetFlags { file, flags: said.number(2)? as u32 },
            libc::F_GETLK..=libc::F_SETLKW | libc::F_OFD_GETLK..=libc::F_OFD_SETLKW => {
                let lock = said.arg(2)?;
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
        self.event(thread.id, said.start, said.duration, said.result, call);
        Ok(())
    }

    /// Returns the open file of a descriptor. One that only `-y` shows was open at the start.
    pub fn file(&mut self, said: &Said<'_>, thread: &Thread, at: usize) -> Result<Rc<Open>, Fault> {
        let text = said.arg(at)?;
        let (number, path) =
            descriptor(text).ok_or_else(|| format!("'{text}' is no descriptor"))?;
        let known = thread.descriptors.borrow().get(&number).cloned();
        if let Some(known) = known {
            return Ok(known.open.ok_or(Outside(Object::None))?);
        }
        let Some(path) = path.filter(|it| it.starts_with(b"/")) else {
            if number > 2 && said.result != i64::from(-libc::EBADF) {
                self.note("calls on descriptors whose open is not in the text", 1);
            }
            return Err(Outside(Object::None).into());
        };
        let place = self.place(&path, true, Kind::File, false)?;
        let node = place.node.ok_or(Outside(Object::None))?;
        let open = self.open(node, path);
        let call = Call::Inherit { file: open.file, node, flags: libc::O_RDWR as u32, offset: 0 };
        self.event(thread.id, said.start, 0, 0, call);
        let it = Descriptor { open: Some(open.clone()), cloexec: false };
        thread.descriptors.borrow_mut().insert(number, it);
        Ok(open)
    }

    /// Returns the absolute path of the arguments `dir` (None for the working directory) and `path`.
    pub fn path(
        &mut self,
        said: &Said<'_>,
        thread: &Thread,
        dir: Option<usize>,
        path: usize,
    ) -> Result<Vec<u8>, Wrong> {
        let path = said.text(path)?;
        let cwd = thread.cwd.borrow().clone();
        let Some(dir) = dir.filter(|_| !path.starts_with(b"/")) else {
            return Ok(self.absolute(&cwd, &path));
        };
        let text = said.arg(dir)?;
        let (number, shown) =
            descriptor(text).ok_or_else(|| format!("'{text}' is no descriptor"))?;
        let from = match thread.descriptors.borrow().get(&number).and_then(|it| it.open.clone()) {
            _ if number == libc::AT_FDCWD => shown.unwrap_or(cwd),
            Some(open) => open.path.clone(),
            None => shown
                .ok_or("the directory of a relative path is a descriptor that was not opened")?,
        };
        Ok(self.absolute(&from, &path))
    }

    /// Returns the place that these arguments name.
    pub fn at(
        &mut self,
        said: &Said<'_>,
        thread: &Thread,
        (dir, path): (Option<usize>, usize),
        (exists, kind): (bool, Option<Kind>),
    ) -> Result<At, Fault> {
        let path = self.path(said, thread, dir, path)?;
        Ok(self.place(&path, exists, kind.unwrap_or(Kind::File), kind.is_some())?)
    }
}
