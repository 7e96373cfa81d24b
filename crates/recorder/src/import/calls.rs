//! From a call as a text has it, name and arguments, to the events of a trace.

use std::rc::Rc;

use fsdyno_trace::{
    At, Call, CallKind, Compressibility, CopyKind, Kind, LockOp, NodeId, Object, StatKind,
    SyncKind, Target, UtimeChange,
};

use super::symbols::number;
use super::world::{Descriptor, Open, Outside, Thread, World, outside};

/// A call of a text.
#[derive(Clone, Debug, Default)]
pub struct Said<'t> {
    /// Its name, such as `openat`.
    pub name: &'t str,
    /// Its arguments as they stand there: texts with their quotes, numbers, flags.
    pub args: Vec<&'t str>,
    /// Its result, or the negative errno.
    pub result: i64,
    /// The thread that made it.
    pub thread: i64,
    /// Nanoseconds since the first call.
    pub start: u64,
    /// Nanoseconds that it took.
    pub duration: u64,
}

/// A call cannot be read: what is wrong.
type Wrong = String;

impl Said<'_> {
    fn arg(&self, at: usize) -> Result<&str, Wrong> {
        self.args
            .get(at)
            .copied()
            .ok_or_else(|| format!("{} has no argument {}", self.name, at + 1))
    }

    fn number(&self, at: usize) -> Result<i64, Wrong> {
        let text = self.arg(at)?;
        number(text).ok_or_else(|| format!("'{text}' is no number and no flags"))
    }

    fn optional(&self, at: usize) -> i64 {
        self.args.get(at).and_then(|text| number(text)).unwrap_or(0)
    }

    fn text(&self, at: usize) -> Result<Vec<u8>, Wrong> {
        let text = self.arg(at)?;
        unquoted(text).ok_or_else(|| format!("'{text}' is no text in quotes, or only its begin"))
    }

    fn fails(&self) -> bool {
        self.result < 0
    }

    /// The object of a path was there: the call succeeded, or failed with another error.
    fn existed(&self) -> bool {
        let missing = [i64::from(-libc::ENOENT), i64::from(-libc::ENOTDIR)];
        !missing.contains(&self.result)
    }
}

/// A descriptor with what strace -y shows: `3</path>`, `4<pipe:[123]>`.
fn descriptor(text: &str) -> Option<(i32, Option<Vec<u8>>)> {
    let (digits, rest) = text.split_at(text.find('<').unwrap_or(text.len()));
    let number = match digits.trim() {
        "AT_FDCWD" => libc::AT_FDCWD,
        digits => digits.parse().ok()?,
    };
    let path = rest.strip_prefix('<').and_then(|it| it.rsplit_once('>')).map(|it| it.0);
    // -yy shows more behind the path of a device.
    let path = path.map(|it| it.strip_suffix(" (deleted)").unwrap_or(it));
    Some((number, path.and_then(|it| unquoted(&format!("\"{it}\"")))))
}

/// The bytes of a text in quotes with the escapes of strace(1); none if it is none, or shortened.
pub fn unquoted(text: &str) -> Option<Vec<u8>> {
    let inner = text.trim().strip_prefix('"')?.strip_suffix('"')?.as_bytes();
    let mut out = Vec::with_capacity(inner.len());
    let mut at = 0;
    while at < inner.len() {
        if inner[at] != b'\\' {
            out.push(inner[at]);
            at += 1;
            continue;
        }
        at += 1;
        match inner.get(at)? {
            b'x' => {
                let digits = std::str::from_utf8(inner.get(at + 1..at + 3)?).ok()?;
                out.push(u8::from_str_radix(digits, 16).ok()?);
                at += 3;
            }
            b'0'..=b'7' => {
                let digits = inner[at..].iter().take(3).take_while(|it| (b'0'..=b'7').contains(it));
                let value = digits.clone().fold(0u32, |sum, it| sum * 8 + u32::from(it - b'0'));
                out.push(u8::try_from(value).ok()?);
                at += digits.count();
            }
            other => {
                out.push(match other {
                    b'n' => b'\n',
                    b't' => b'\t',
                    b'r' => b'\r',
                    b'v' => 11,
                    b'f' => 12,
                    other => *other,
                });
                at += 1;
            }
        }
    }
    Some(out)
}

/// A field of a structure, such as `st_size` in `{st_mode=S_IFREG|0644, st_size=5, ...}`.
fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let at = text.find(&format!("{name}="))? + name.len() + 1;
    let rest = &text[at..];
    Some(rest[..rest.find([',', '}']).unwrap_or(rest.len())].trim())
}

impl World {
    /// Records a call. True if it is one that a trace could have.
    ///
    /// # Errors
    /// What is wrong with it; nothing was recorded then.
    pub fn call(&mut self, said: &Said<'_>) -> Result<bool, Wrong> {
        let thread = self.thread(said.thread);
        let of = match said.name {
            "clone" | "clone3" | "fork" | "vfork" => {
                self.forked(said, thread);
                return Ok(true);
            }
            "exit" | "exit_group" => return Ok(true),
            "socket" | "accept" | "accept4" | "eventfd" | "eventfd2" | "epoll_create"
            | "epoll_create1" | "inotify_init" | "inotify_init1" | "timerfd_create"
            | "signalfd" | "signalfd4" | "memfd_create" | "pidfd_open" => {
                if !said.fails() {
                    self.put(said, &thread, Descriptor { open: None, cloexec: false });
                }
                return Ok(false);
            }
            "pipe" | "pipe2" | "socketpair" => {
                self.piped(said, &thread);
                return Ok(false);
            }
            "execve" | "execveat" => {
                self.executed(said, &thread)?;
                return Ok(true);
            }
            "close" => {
                self.closed(said, &thread)?;
                return Ok(true);
            }
            "dup" | "dup2" | "dup3" => {
                self.duplicated(said, &thread)?;
                return Ok(true);
            }
            "fcntl" | "fcntl64" => return self.controlled(said, &thread),
            name => match super::calls::kind(name) {
                Some(kind) => kind,
                None => return Ok(false),
            },
        };
        let call = match of {
            CallKind::Open => self.opens(said, &thread)?,
            CallKind::Mkdir
            | CallKind::Rmdir
            | CallKind::Unlink
            | CallKind::Rename
            | CallKind::Link
            | CallKind::Symlink
            | CallKind::Mknod => self.names(of, said, &thread)?,
            CallKind::Read | CallKind::Write | CallKind::Seek | CallKind::Copy => {
                self.moves(of, said, &thread)?
            }
            _ => self.others(of, said, &thread)?,
        };
        let call = call.unwrap_or_else(|it| outside(of, &it));
        let plain = matches!(call, Call::Open { .. } | Call::Map { .. });
        let result = if plain && said.result >= 0 { 0 } else { said.result };
        self.event(thread.id, said.start, said.duration, result, call);
        Ok(true)
    }

    /// A thread appears before the call that made it returns.
    pub fn begun(&mut self, said: &Said<'_>) {
        let thread = self.thread(said.thread);
        self.forked(said, thread);
    }

    fn forked(&mut self, said: &Said<'_>, thread: Thread) {
        let flags = said.args.iter().find_map(|it| it.split_once("flags=")).map_or(0, |(_, it)| {
            let end = it.find([',', '}', ' ']).unwrap_or(it.len());
            number(&it[..end]).unwrap_or(0)
        });
        let has = |flag: i32| flags & i64::from(flag) != 0;
        if said.result > 0 && !self.has_thread(said.result) {
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
        let _ = self.file(said, thread, 0)?;
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
        let from = self.file(said, thread, 0)?;
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

    fn put(&mut self, said: &Said<'_>, thread: &Thread, it: Descriptor) {
        let replaced = thread.descriptors.borrow_mut().insert(said.result as i32, it);
        if let Some(it) = replaced {
            self.close(thread.id, said.start, it, true);
        }
    }

    /// Two descriptors that are no files: `[3, 4]`.
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

    fn controlled(&mut self, said: &Said<'_>, thread: &Thread) -> Result<bool, Wrong> {
        let command = said.number(1)? as i32;
        let file = match self.file(said, thread, 0)? {
            Ok(open) => open.file,
            Err(_) => return Ok(true),
        };
        let call = match command {
            libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => {
                self.duplicated(said, thread)?;
                return Ok(true);
            }
            libc::F_SETFD => {
                let cloexec = said.number(2)? & i64::from(libc::FD_CLOEXEC) != 0;
                let number = descriptor(said.arg(0)?).map_or(-1, |it| it.0);
                if let Some(it) = thread.descriptors.borrow_mut().get_mut(&number) {
                    it.cloexec = cloexec;
                }
                return Ok(true);
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
            _ => return Ok(true),
        };
        self.event(thread.id, said.start, said.duration, said.result, call);
        Ok(true)
    }

    /// The open file of a descriptor. One that the text shows only with -y was there at the start.
    fn file(
        &mut self,
        said: &Said<'_>,
        thread: &Thread,
        at: usize,
    ) -> Result<Result<Rc<Open>, Outside>, Wrong> {
        let text = said.arg(at)?;
        let (number, path) =
            descriptor(text).ok_or_else(|| format!("'{text}' is no descriptor"))?;
        let known = thread.descriptors.borrow().get(&number).cloned();
        if let Some(known) = known {
            return Ok(known.open.ok_or(Outside(Object::None)));
        }
        let Some(path) = path.filter(|it| it.starts_with(b"/")) else {
            if number > 2 && said.result != i64::from(-libc::EBADF) {
                self.note("calls on descriptors whose open is not in the text", 1);
            }
            return Ok(Err(Outside(Object::None)));
        };
        let place = match self.place(&path, true, Kind::File, false) {
            Ok(at) => at,
            Err(it) => return Ok(Err(it)),
        };
        let Some(node) = place.node else { return Ok(Err(Outside(Object::None))) };
        let open = self.open(node, path);
        let call = Call::Inherit { file: open.file, node, flags: libc::O_RDWR as u32, offset: 0 };
        self.event(thread.id, said.start, 0, 0, call);
        let it = Descriptor { open: Some(open.clone()), cloexec: false };
        thread.descriptors.borrow_mut().insert(number, it);
        Ok(Ok(open))
    }

    /// The absolute path of the arguments `dir` (none for the working directory) and `path`.
    fn path(
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

    fn at(
        &mut self,
        said: &Said<'_>,
        thread: &Thread,
        (dir, path): (Option<usize>, usize),
        (exists, kind): (bool, Option<Kind>),
    ) -> Result<Result<At, Outside>, Wrong> {
        let path = self.path(said, thread, dir, path)?;
        Ok(self.place(&path, exists, kind.unwrap_or(Kind::File), kind.is_some()))
    }

    fn opens(&mut self, said: &Said<'_>, thread: &Thread) -> Result<Result<Call, Outside>, Wrong> {
        let at_dir = said.name.starts_with("openat");
        let (dir, path) = if at_dir { (Some(0), 1) } else { (None, 0) };
        let creat = (libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC) as u32;
        let (flags, mode) = match said.name {
            "creat" => (creat, said.number(1)? as u32),
            "openat2" => {
                let how = said.arg(2)?;
                let value = |name| field(how, name).and_then(number).unwrap_or(0) as u32;
                (value("flags"), value("mode"))
            }
            _ => (said.number(path + 1)? as u32, said.optional(path + 2) as u32),
        };
        let has = |flag: i32| flags & flag as u32 == flag as u32;
        let whole = self.path(said, thread, dir, path)?;
        let temporary = has(libc::O_TMPFILE);
        let kind = if has(libc::O_DIRECTORY) { Kind::Directory } else { Kind::File };
        let created_by = has(libc::O_CREAT) && !said.fails();
        // With O_CREAT, what was not seen before was not there, unless O_EXCL says so.
        let exists = said.existed() && !created_by;
        let place = match self.place(
            &whole,
            exists || temporary,
            kind,
            !temporary && has(libc::O_DIRECTORY),
        ) {
            Ok(place) => place,
            Err(it) => {
                if !said.fails() {
                    self.put(
                        said,
                        thread,
                        Descriptor { open: None, cloexec: has(libc::O_CLOEXEC) },
                    );
                }
                return Ok(Err(it));
            }
        };
        let mut created = None;
        let node = if said.fails() {
            None
        } else if temporary || (created_by && place.node.is_none() && place.beyond == 0) {
            created = Some(self.node(Kind::File, mode & 0o7777));
            if !temporary {
                self.set_name(&place, created);
            }
            created
        } else {
            place.node
        };
        let mut file = None;
        if let Some(node) = node {
            if has(libc::O_TRUNC) {
                self.changed(node);
            }
            let open = self.open(node, whole);
            file = Some(open.file);
            let it = Descriptor { open: Some(open), cloexec: has(libc::O_CLOEXEC) };
            self.put(said, thread, it);
        }
        if !said.fails() && file.is_none() {
            return Ok(Err(Outside(Object::None)));
        }
        let mode = if has(libc::O_CREAT) || temporary { mode & 0o7777 } else { 0 };
        Ok(Ok(Call::Open { at: place, flags, mode, created, file }))
    }

    fn names(
        &mut self,
        of: CallKind,
        said: &Said<'_>,
        thread: &Thread,
    ) -> Result<Result<Call, Outside>, Wrong> {
        let at_dir = said.name.ends_with("at") || said.name == "renameat2";
        let first = if at_dir { (Some(0), 1) } else { (None, 0) };
        let mode = |at: usize| said.number(at).map(|it| it as u32 & 0o7777);
        let done = !said.fails();
        // What these make was not there.
        let makes =
            |it: &mut World, places| it.at(said, thread, places, (said.existed() && !done, None));
        Ok(Ok(match of {
            CallKind::Mkdir | CallKind::Mknod => {
                let mode_at = first.1 + 1;
                let kind = match (of, said.number(mode_at)? as u32 & libc::S_IFMT) {
                    (CallKind::Mkdir, _) => Kind::Directory,
                    (_, 0 | libc::S_IFREG) => Kind::File,
                    _ => Kind::Special,
                };
                let at = match makes(self, first)? {
                    Ok(at) => at,
                    Err(it) => return Ok(Err(it)),
                };
                let created = self.create(&at, done, kind, mode(mode_at)?);
                match of {
                    CallKind::Mkdir => Call::Mkdir { at, mode: mode(mode_at)?, created },
                    _ => Call::Mknod { at, node: kind, mode: mode(mode_at)?, created },
                }
            }
            CallKind::Symlink => {
                let length = said.text(0)?.len().min(4095) as u32;
                let at = match makes(self, if at_dir { (Some(1), 2) } else { (None, 1) })? {
                    Ok(at) => at,
                    Err(it) => return Ok(Err(it)),
                };
                let created = self.create(&at, done, Kind::Symlink, 0o777);
                Call::Symlink { at, length, created }
            }
            CallKind::Rmdir | CallKind::Unlink => {
                let flags = if at_dir { said.number(2)? as i32 } else { 0 };
                let rmdir = of == CallKind::Rmdir || flags & libc::AT_REMOVEDIR != 0;
                let kind = if rmdir { Kind::Directory } else { Kind::File };
                let sure = (said.existed(), Some(kind).filter(|_| done && rmdir));
                let at = match self.at(said, thread, first, sure)? {
                    Ok(at) => at,
                    Err(it) => return Ok(Err(it)),
                };
                if done {
                    self.set_name(&at, None);
                }
                if rmdir { Call::Rmdir { at } } else { Call::Unlink { at } }
            }
            _ => {
                let second = if at_dir { (Some(2), 3) } else { (None, 1) };
                let flags = if said.name == "renameat2" { said.number(4)? as u32 } else { 0 };
                let exchanges = flags & libc::RENAME_EXCHANGE != 0;
                let from = match self.at(said, thread, first, (said.existed(), None))? {
                    Ok(at) => at,
                    Err(it) => return Ok(Err(it)),
                };
                let to = match self.at(said, thread, second, (exchanges && said.existed(), None))? {
                    Ok(at) => at,
                    Err(it) => return Ok(Err(it)),
                };
                if done {
                    let (old, new) = (from.node, to.node);
                    self.set_name(&to, old);
                    if of == CallKind::Rename {
                        self.set_name(&from, new.filter(|_| exchanges));
                    }
                }
                match of {
                    CallKind::Rename => Call::Rename { from, to, flags },
                    _ => Call::Link { from: Target::At(from), to },
                }
            }
        }))
    }

    fn create(&mut self, at: &At, done: bool, kind: Kind, mode: u32) -> Option<NodeId> {
        // A name that an earlier call found cannot be made: somebody else removed it.
        if !done || at.node.is_some() || at.name.is_none() {
            return None;
        }
        let created = self.node(kind, mode);
        self.set_name(at, Some(created));
        Some(created)
    }

    fn moves(
        &mut self,
        of: CallKind,
        said: &Said<'_>,
        thread: &Thread,
    ) -> Result<Result<Call, Outside>, Wrong> {
        let moved = said.result.max(0) as u64;
        if of == CallKind::Copy {
            let (from_at, to_at) = if said.name.starts_with("sendfile") { (1, 0) } else { (0, 2) };
            let copy = match said.name {
                "sendfile" | "sendfile64" => CopyKind::Sendfile,
                "splice" => CopyKind::Splice,
                _ => CopyKind::CopyFileRange,
            };
            let length_at = if copy == CopyKind::Sendfile { 3 } else { 4 };
            let offset = |at: usize| -> Option<u64> {
                let text = said.args.get(at)?.split("=>").next()?;
                number(text.trim().trim_matches(['[', ']']))
                    .filter(|_| text.contains('['))
                    .map(|it| it as u64)
            };
            let (from_offset, to_offset) = match copy {
                CopyKind::Sendfile => (offset(2), None),
                _ => (offset(1), offset(3)),
            };
            let from = self.file(said, thread, from_at)?;
            let to = self.file(said, thread, to_at)?;
            if let (Err(it), Err(_)) = (&from, &to) {
                return Ok(Err(Outside(it.0)));
            }
            if let Ok(open) = &to {
                self.changed(open.node);
            }
            let (from, to) = (from.ok().map(|it| it.file), to.ok().map(|it| it.file));
            let length = said.number(length_at)? as u64;
            return Ok(Ok(Call::Copy { copy, from, from_offset, to, to_offset, length }));
        }
        let open = match self.file(said, thread, 0)? {
            Ok(open) => open,
            Err(it) => return Ok(Err(it)),
        };
        let (file, node) = (open.file, open.node);
        if of == CallKind::Seek {
            let (offset, whence) = (said.number(1)?, said.number(2)? as u32);
            if !said.fails() {
                *open.position.borrow_mut() = moved;
            }
            return Ok(Ok(Call::Seek { file, offset, whence }));
        }
        let vector = said.name.contains("readv") || said.name.contains("writev");
        let positioned = said.name.starts_with('p');
        let (length, buffers) = if vector {
            let sum = said.arg(1)?.split("iov_len=").skip(1);
            let sum = sum.filter_map(|it| number(&it[..it.find([',', '}']).unwrap_or(it.len())]));
            (
                sum.fold(0u64, |sum, it| sum.saturating_add(it as u64)),
                said.number(2)?.clamp(0, 1024) as u32,
            )
        } else {
            (said.number(2)? as u64, 0)
        };
        let offset = if positioned { Some(said.number(3)? as u64) } else { None };
        let begin = offset.unwrap_or(*open.position.borrow());
        if offset.is_none() && !said.fails() {
            *open.position.borrow_mut() = begin.saturating_add(moved);
        }
        Ok(Ok(if of == CallKind::Read {
            self.reached(node, begin.saturating_add(moved));
            Call::Read { file, offset, length, buffers }
        } else {
            if !said.fails() {
                // What was not shown until now was there without these bytes.
                self.changed(node);
            }
            Call::Write { file, offset, length, buffers, class: Compressibility::Unknown }
        }))
    }

    /// The object of a call: its descriptor, or its path.
    fn target(
        &mut self,
        said: &Said<'_>,
        thread: &Thread,
        by_descriptor: bool,
        at_dir: bool,
        kind: Option<Kind>,
    ) -> Result<Result<Target, Outside>, Wrong> {
        let empty =
            at_dir && said.args.get(1).is_some_and(|it| ["\"\"", "NULL"].contains(&it.trim()));
        if by_descriptor || (empty && !said.arg(0)?.starts_with("AT_FDCWD")) {
            return Ok(self.file(said, thread, 0)?.map(|it| Target::File(it.file)));
        }
        let places = if at_dir { (Some(0), 1) } else { (None, 0) };
        let kind = kind.filter(|_| !said.fails());
        Ok(self.at(said, thread, places, (said.existed(), kind))?.map(Target::At))
    }

    fn others(
        &mut self,
        of: CallKind,
        said: &Said<'_>,
        thread: &Thread,
    ) -> Result<Result<Call, Outside>, Wrong> {
        let name = said.name;
        let open = |it: &mut World| it.file(said, thread, 0);
        let at_dir = (name.ends_with("at") && name != "stat" && name != "lstat" && name != "fstat")
            || ["statx", "newfstatat", "fstatat64", "faccessat2", "fchmodat2"].contains(&name);
        let by_descriptor = !at_dir && name.starts_with('f') && name != "fstatat64";
        let kind = match of {
            CallKind::Stat => self.shown_kind(said),
            CallKind::Readlink => Some(Kind::Symlink),
            CallKind::Chdir => Some(Kind::Directory),
            _ => None,
        };
        macro_rules! opened {
            () => {
                match open(self)? {
                    Ok(open) => open,
                    Err(it) => return Ok(Err(it)),
                }
            };
        }
        macro_rules! target {
            () => {
                match self.target(said, thread, by_descriptor, at_dir, kind)? {
                    Ok(target) => target,
                    Err(it) => return Ok(Err(it)),
                }
            };
        }
        let at = usize::from(at_dir);
        Ok(Ok(match of {
            CallKind::Stat => {
                let follow = !said.args.iter().any(|it| it.contains("AT_SYMLINK_NOFOLLOW"));
                let target = target!();
                self.show(said, thread, &target);
                let stat = match (name == "statx", follow && !name.starts_with('l')) {
                    (false, true) => StatKind::Stat,
                    (false, false) => StatKind::Lstat,
                    (true, true) => StatKind::Statx,
                    (true, false) => StatKind::Lstatx,
                };
                Call::Stat { target, stat }
            }
            CallKind::Truncate => {
                let length = said.number(1)? as u64;
                let target = target!();
                if let Target::At(At { node: Some(node), .. }) = target {
                    self.changed(node);
                }
                Call::Truncate { target, length }
            }
            CallKind::Fallocate => {
                let open = opened!();
                self.changed(open.node);
                let number = |at| said.number(at);
                let (mode, offset) = (number(1)? as u32, number(2)? as u64);
                Call::Fallocate { file: open.file, mode, offset, length: number(3)? as u64 }
            }
            CallKind::Sync => {
                let file = opened!().file;
                let sync = match name {
                    "fsync" => SyncKind::Fsync,
                    "fdatasync" => SyncKind::Fdatasync,
                    "syncfs" => SyncKind::Syncfs,
                    _ => SyncKind::Range,
                };
                let range = sync == SyncKind::Range;
                let value = |at| if range { said.number(at).map(|it| it as u64) } else { Ok(0) };
                Call::Sync { sync, file, offset: value(1)?, length: value(2)? }
            }
            CallKind::SyncAll => Call::SyncAll {},
            CallKind::Access => match target!() {
                Target::At(place) => Call::Access { at: place, mode: said.number(at + 1)? as u32 },
                Target::File(_) => return Ok(Err(Outside(Object::None))),
            },
            CallKind::Readlink => match target!() {
                Target::At(place) => {
                    if let (Some(node), 0..) = (place.node, said.result) {
                        self.shown(node, Some(Kind::Symlink), None, Some(said.result as u64));
                    }
                    Call::Readlink { at: place, length: said.number(at + 2)? as u64 }
                }
                Target::File(_) => return Ok(Err(Outside(Object::None))),
            },
            CallKind::Readdir => {
                let open = opened!();
                self.shown(open.node, Some(Kind::Directory), None, None);
                Call::Readdir { file: open.file, length: said.number(2)? as u64 }
            }
            CallKind::Chmod => {
                let mode = said.number(at + 1)? as u32 & 0o7777;
                Call::Chmod { target: target!(), mode }
            }
            CallKind::Chown => Call::Chown { target: target!() },
            CallKind::Utimes => {
                let times = said.args.get(at + 1).copied().unwrap_or("NULL");
                let change = |text: &str| match text {
                    it if it.contains("UTIME_OMIT") => UtimeChange::Omit,
                    it if it.contains("UTIME_NOW") || it.trim() == "NULL" => UtimeChange::Now,
                    _ => UtimeChange::Set,
                };
                let (first, second) = times.split_once("}, ").map_or((times, times), |it| it);
                let first = first.split_once(", UTIME_").map_or(first, |it| it.0);
                let (accessed, modified) = (change(first), change(second));
                Call::Utimes { target: target!(), accessed, modified }
            }
            CallKind::Setxattr | CallKind::Getxattr | CallKind::Removexattr => {
                let xattr = said.text(1)?;
                if xattr.is_empty() || xattr.len() > 255 || xattr.contains(&0) {
                    return Err("the name of an extended attribute has no valid length".into());
                }
                let (name, target) = (xattr.into(), target!());
                match of {
                    CallKind::Setxattr => {
                        let (size, flags) = (said.number(3)? as u32, said.optional(4) as u32);
                        Call::Setxattr { target, name, size, flags }
                    }
                    CallKind::Getxattr => {
                        Call::Getxattr { target, name, size: said.number(3)? as u32 }
                    }
                    _ => Call::Removexattr { target, name },
                }
            }
            CallKind::Listxattr => {
                Call::Listxattr { target: target!(), size: said.number(2)? as u32 }
            }
            CallKind::Lock => {
                let flags = said.number(1)? as i32;
                let lock = match flags & !libc::LOCK_NB {
                    libc::LOCK_SH => LockOp::Shared,
                    libc::LOCK_EX => LockOp::Exclusive,
                    _ => LockOp::Unlock,
                };
                let waits = flags & libc::LOCK_NB == 0;
                Call::Lock { file: opened!().file, lock, whole: true, waits, offset: 0, length: 0 }
            }
            CallKind::Chdir => {
                let target = target!();
                if !said.fails() {
                    let path = match by_descriptor {
                        true => opened!().path.clone(),
                        false => self.path(said, thread, None, 0)?,
                    };
                    *thread.cwd.borrow_mut() = path;
                }
                Call::Chdir { target }
            }
            CallKind::Statfs => Call::Statfs { target: target!() },
            CallKind::Map => {
                let flags = said.number(3)? as i32;
                if flags & libc::MAP_ANONYMOUS != 0 {
                    return Ok(Err(Outside(Object::None)));
                }
                let number = |at: usize| said.number(at).map(|it| it as u64);
                let (length, offset) = (number(1)?, number(5)?);
                let writable = said.number(2)? as i32 & libc::PROT_WRITE != 0;
                let shared = flags & libc::MAP_TYPE != libc::MAP_PRIVATE;
                match self.file(said, thread, 4)? {
                    Ok(open) => Call::Map { file: open.file, offset, length, shared, writable },
                    Err(it) => return Ok(Err(it)),
                }
            }
            _ => {
                let file = opened!().file;
                let readahead = name == "readahead";
                let advice = if readahead {
                    libc::POSIX_FADV_WILLNEED as u32
                } else {
                    said.number(3)? as u32
                };
                let (offset, length) = (said.number(1)? as u64, said.number(2)? as u64);
                Call::Advise { file, advice, offset, length }
            }
        }))
    }

    /// The type of an object in the result of a stat.
    fn shown_kind(&self, said: &Said<'_>) -> Option<Kind> {
        let all = said.args.iter().find(|it| it.contains("_mode="))?;
        let mode = field(all, "st_mode").or_else(|| field(all, "stx_mode"))?;
        Some(match mode.split('|').next()? {
            "S_IFREG" => Kind::File,
            "S_IFDIR" => Kind::Directory,
            "S_IFLNK" => Kind::Symlink,
            _ => Kind::Special,
        })
    }

    fn show(&mut self, said: &Said<'_>, thread: &Thread, target: &Target) {
        let node = match target {
            Target::At(at) => at.node,
            Target::File(file) => {
                let all = thread.descriptors.borrow();
                all.values()
                    .find_map(|it| it.open.as_ref().filter(|it| it.file == *file).map(|it| it.node))
            }
        };
        let all = said.args.iter().find(|it| it.contains("_mode="));
        let (Some(node), Some(all)) = (node, all) else { return };
        let value = |name: &str| {
            let text =
                field(all, &format!("st_{name}")).or_else(|| field(all, &format!("stx_{name}")))?;
            number(text)
        };
        let kind = self.shown_kind(said);
        self.shown(
            node,
            kind,
            value("mode").map(|it| it as u32 & 0o7777),
            value("size").map(|it| it as u64),
        );
    }
}

/// The kind of a call by its name; none for one that a trace does not have.
pub fn kind(name: &str) -> Option<CallKind> {
    use CallKind as K;
    Some(match name {
        "open" | "openat" | "openat2" | "creat" => K::Open,
        "read" | "readv" | "pread64" | "pread" | "preadv" | "preadv2" => K::Read,
        "write" | "writev" | "pwrite64" | "pwrite" | "pwritev" | "pwritev2" => K::Write,
        "lseek" => K::Seek,
        "sendfile" | "sendfile64" | "copy_file_range" | "splice" => K::Copy,
        "truncate" | "ftruncate" => K::Truncate,
        "fallocate" => K::Fallocate,
        "fsync" | "fdatasync" | "sync_file_range" | "syncfs" => K::Sync,
        "sync" => K::SyncAll,
        "stat" | "lstat" | "fstat" | "newfstatat" | "fstatat64" | "statx" => K::Stat,
        "access" | "faccessat" | "faccessat2" => K::Access,
        "readlink" | "readlinkat" => K::Readlink,
        "getdents" | "getdents64" => K::Readdir,
        "mkdir" | "mkdirat" => K::Mkdir,
        "rmdir" => K::Rmdir,
        "unlink" | "unlinkat" => K::Unlink,
        "rename" | "renameat" | "renameat2" => K::Rename,
        "link" | "linkat" => K::Link,
        "symlink" | "symlinkat" => K::Symlink,
        "mknod" | "mknodat" => K::Mknod,
        "chmod" | "fchmod" | "fchmodat" | "fchmodat2" => K::Chmod,
        "chown" | "fchown" | "lchown" | "fchownat" => K::Chown,
        "utime" | "utimes" | "futimesat" | "utimensat" => K::Utimes,
        "setxattr" | "lsetxattr" | "fsetxattr" => K::Setxattr,
        "getxattr" | "lgetxattr" | "fgetxattr" => K::Getxattr,
        "listxattr" | "llistxattr" | "flistxattr" => K::Listxattr,
        "removexattr" | "lremovexattr" | "fremovexattr" => K::Removexattr,
        "flock" => K::Lock,
        "chdir" | "fchdir" => K::Chdir,
        "statfs" | "fstatfs" => K::Statfs,
        "fadvise64" | "readahead" => K::Advise,
        "mmap" => K::Map,
        _ => return None,
    })
}
