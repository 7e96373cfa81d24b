//! Calls that open, make, remove or move names.

use fsdyno_trace::{At, Call, CallKind, Kind, NodeId, Object, Target};

use super::said::{Said, Wrong, field};
use super::symbols::number;
use super::world::{Descriptor, Outside, Thread, World};

/// The flags and the mode of an open whose path is the argument `path`.
fn flags_and_mode(said: &Said<'_>, path: usize) -> Result<(u32, u32), Wrong> {
    let creat = (libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC) as u32;
    Ok(match said.name {
        "creat" => (creat, said.number(1)? as u32),
        "openat2" => {
            let how = said.arg(2)?;
            let value = |name| field(how, name).and_then(number).unwrap_or(0) as u32;
            (value("flags"), value("mode"))
        }
        _ => (said.number(path + 1)? as u32, said.optional(path + 2) as u32),
    })
}

impl World {
    /// open(2) and its other forms.
    pub fn opens(
        &mut self,
        said: &Said<'_>,
        thread: &Thread,
    ) -> Result<Result<Call, Outside>, Wrong> {
        let at_dir = said.name.starts_with("openat");
        let (dir, path) = if at_dir { (Some(0), 1) } else { (None, 0) };
        let (flags, mode) = flags_and_mode(said, path)?;
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

    /// A call on one or two names.
    pub fn names(
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
        // A name that an earlier call found cannot be made: another program removed it.
        if !done || at.node.is_some() || at.name.is_none() {
            return None;
        }
        let created = self.node(kind, mode);
        self.set_name(at, Some(created));
        Some(created)
    }
}
