//! Imports calls that open, create, remove or rename.

use fsdyno_trace::{At, Call, Kind, NodeId, Object, Target};

use super::parsed_call::{ParseError, ParsedCall, field};
use super::state::{Descriptor, Fault, ImportState, Outside, Thread};
use super::symbols::number;

/// Returns the flags and the mode of an open whose path is the argument `path`.
fn flags_and_mode(parsed: &ParsedCall<'_>, path: usize) -> Result<(u32, u32), ParseError> {
    let creat = (libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC) as u32;
    Ok(match parsed.name {
        "creat" => (creat, parsed.number(1)? as u32),
        "openat2" => {
            let how = parsed.arg(2)?;
            let value = |name| field(how, name).and_then(number).unwrap_or(0) as u32;
            (value("flags"), value("mode"))
        }
        _ => (parsed.number(path + 1)? as u32, parsed.optional(path + 2) as u32),
    })
}

/// True for a call that takes a directory argument before each path.
fn is_at(parsed: &ParsedCall<'_>) -> bool {
    parsed.name.ends_with("at") || parsed.name == "renameat2"
}

/// Returns the indices of the arguments of a call's first name.
fn first(parsed: &ParsedCall<'_>) -> (Option<usize>, usize) {
    if is_at(parsed) { (Some(0), 1) } else { (None, 0) }
}

impl ImportState {
    /// Imports open(2) and its variants.
    pub fn open_call(&mut self, parsed: &ParsedCall<'_>, thread: &Thread) -> Result<Call, Fault> {
        let at_dir = parsed.name.starts_with("openat");
        let (dir, path) = if at_dir { (Some(0), 1) } else { (None, 0) };
        let (flags, mode) = flags_and_mode(parsed, path)?;
        let has = |flag: i32| flags & flag as u32 == flag as u32;
        let full_path = self.path(parsed, thread, dir, path)?;
        let temporary = has(libc::O_TMPFILE);
        let kind = if has(libc::O_DIRECTORY) { Kind::Directory } else { Kind::File };
        let created_by = has(libc::O_CREAT) && !parsed.fails();
        // With O_CREAT, a file that was not seen before is assumed not to have existed.
        let exists = parsed.existed() && !created_by;
        let (cloexec, sure) = (has(libc::O_CLOEXEC), !temporary && has(libc::O_DIRECTORY));
        let place = self.place(&full_path, exists || temporary, kind, sure);
        if place.is_err() && !parsed.fails() {
            self.put(parsed, thread, Descriptor { open: None, cloexec });
        }
        let place = place?;
        let mut created = None;
        let node = if parsed.fails() {
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
                self.mark_size_changed(node);
            }
            let open = self.open(node, full_path);
            file = Some(open.file);
            self.put(parsed, thread, Descriptor { open: Some(open), cloexec });
        }
        if !parsed.fails() && file.is_none() {
            return Err(Outside(Object::None).into());
        }
        let mode = if has(libc::O_CREAT) || temporary { mode & 0o7777 } else { 0 };
        Ok(Call::Open { at: place, flags, mode, created, file })
    }

    /// Returns the place of a name that a call creates; the name did not exist if the call succeeded.
    fn new_name(
        &mut self,
        parsed: &ParsedCall<'_>,
        thread: &Thread,
        places: (Option<usize>, usize),
    ) -> Result<At, Fault> {
        self.at(parsed, thread, places, (parsed.existed() && parsed.fails(), None))
    }

    /// Imports mkdir(2), mkdirat(2).
    pub fn mkdir(&mut self, parsed: &ParsedCall<'_>, thread: &Thread) -> Result<Call, Fault> {
        let places = first(parsed);
        let mode = parsed.number(places.1 + 1)? as u32 & 0o7777;
        let at = self.new_name(parsed, thread, places)?;
        let created = self.create(&at, parsed, Kind::Directory, mode);
        Ok(Call::Mkdir { at, mode, created })
    }

    /// Imports mknod(2), mknodat(2).
    pub fn mknod(&mut self, parsed: &ParsedCall<'_>, thread: &Thread) -> Result<Call, Fault> {
        let places = first(parsed);
        let mode = parsed.number(places.1 + 1)? as u32;
        let node = match mode & libc::S_IFMT {
            0 | libc::S_IFREG => Kind::File,
            _ => Kind::Special,
        };
        let mode = mode & 0o7777;
        let at = self.new_name(parsed, thread, places)?;
        let created = self.create(&at, parsed, node, mode);
        Ok(Call::Mknod { at, node, mode, created })
    }

    /// Imports symlink(2), symlinkat(2).
    pub fn symlink(&mut self, parsed: &ParsedCall<'_>, thread: &Thread) -> Result<Call, Fault> {
        let length = parsed.text(0)?.len().min(4095) as u32;
        let places = if is_at(parsed) { (Some(1), 2) } else { (None, 1) };
        let at = self.new_name(parsed, thread, places)?;
        let created = self.create(&at, parsed, Kind::Symlink, 0o777);
        Ok(Call::Symlink { at, length, created })
    }

    /// Imports rmdir(2), unlink(2), unlinkat(2).
    pub fn remove(&mut self, parsed: &ParsedCall<'_>, thread: &Thread) -> Result<Call, Fault> {
        let flags = if is_at(parsed) { parsed.number(2)? as i32 } else { 0 };
        let rmdir = parsed.name == "rmdir" || flags & libc::AT_REMOVEDIR != 0;
        let kind = if rmdir && !parsed.fails() { Some(Kind::Directory) } else { None };
        let at = self.at(parsed, thread, first(parsed), (parsed.existed(), kind))?;
        if !parsed.fails() {
            self.set_name(&at, None);
        }
        Ok(if rmdir { Call::Rmdir { at } } else { Call::Unlink { at } })
    }

    /// Imports rename(2), renameat(2), renameat2(2).
    pub fn rename_call(&mut self, parsed: &ParsedCall<'_>, thread: &Thread) -> Result<Call, Fault> {
        let flags = if parsed.name == "renameat2" { parsed.number(4)? as u32 } else { 0 };
        let exchanges = flags & libc::RENAME_EXCHANGE != 0;
        let (from, to) = self.two_names(parsed, thread, exchanges)?;
        if !parsed.fails() {
            let (old, new) = (from.node, to.node);
            self.set_name(&to, old);
            self.set_name(&from, new.filter(|_| exchanges));
        }
        Ok(Call::Rename { from, to, flags })
    }

    /// Imports link(2), linkat(2).
    pub fn link(&mut self, parsed: &ParsedCall<'_>, thread: &Thread) -> Result<Call, Fault> {
        let (from, to) = self.two_names(parsed, thread, false)?;
        if !parsed.fails() {
            self.set_name(&to, from.node);
        }
        Ok(Call::Link { from: Target::At(from), to })
    }

    /// Returns the old and the new name of a call. With `both`, the new name must have existed, too.
    fn two_names(
        &mut self,
        parsed: &ParsedCall<'_>,
        thread: &Thread,
        both: bool,
    ) -> Result<(At, At), Fault> {
        let second = if is_at(parsed) { (Some(2), 3) } else { (None, 1) };
        let from = self.at(parsed, thread, first(parsed), (parsed.existed(), None))?;
        let to = self.at(parsed, thread, second, (both && parsed.existed(), None))?;
        Ok((from, to))
    }

    fn create(
        &mut self,
        at: &At,
        parsed: &ParsedCall<'_>,
        kind: Kind,
        mode: u32,
    ) -> Option<NodeId> {
        // A name that an earlier call found cannot be created: an unrecorded program removed it.
        if parsed.fails() || at.node.is_some() || at.name.is_none() {
            return None;
        }
        let created = self.node(kind, mode);
        self.set_name(at, Some(created));
        Some(created)
    }
}
