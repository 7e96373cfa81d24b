//! Imports calls on a path or descriptor: status, attributes, size, access, symbolic link, extended attributes, chdir.

use fsdyno_trace::{At, Call, Kind, Object, StatKind, Target, UtimeChange, XattrName};

use super::parsed_call::{ParseError, ParsedCall, field};
use super::state::{Fault, ImportState, Outside, Thread};
use super::symbols::number;

/// Returns the variant of stat(2) that a call is.
fn stat_of(parsed: &ParsedCall<'_>) -> StatKind {
    let follow = !parsed.args.iter().any(|it| it.contains("AT_SYMLINK_NOFOLLOW"));
    match (parsed.name == "statx", follow && !parsed.name.starts_with('l')) {
        (false, true) => StatKind::Stat,
        (false, false) => StatKind::Lstat,
        (true, true) => StatKind::Statx,
        (true, false) => StatKind::Lstatx,
    }
}

/// Returns how a call changes the access and the modification time.
fn changes_of(times: &str) -> (UtimeChange, UtimeChange) {
    let change = |text: &str| match text {
        it if it.contains("UTIME_OMIT") => UtimeChange::Omit,
        it if it.contains("UTIME_NOW") || it.trim() == "NULL" => UtimeChange::Now,
        _ => UtimeChange::Set,
    };
    let (first, second) = times.split_once("}, ").map_or((times, times), |it| it);
    let first = first.split_once(", UTIME_").map_or(first, |it| it.0);
    (change(first), change(second))
}

/// Returns the name of an extended attribute.
fn xattr_of(parsed: &ParsedCall<'_>) -> Result<XattrName, ParseError> {
    let xattr = parsed.text(1)?;
    if xattr.is_empty() || xattr.len() > 255 || xattr.contains(&0) {
        return Err("the name of an extended attribute is empty, too long or contains a NUL".into());
    }
    Ok(xattr.into())
}

/// True for a call with a directory argument before its path.
fn has_dirfd(parsed: &ParsedCall<'_>) -> bool {
    let name = parsed.name;
    (name.ends_with("at") && !["stat", "lstat", "fstat"].contains(&name))
        || ["statx", "newfstatat", "fstatat64", "faccessat2", "fchmodat2"].contains(&name)
}

/// True for a call on a descriptor.
fn is_by_descriptor(parsed: &ParsedCall<'_>) -> bool {
    parsed.name.starts_with('f') && !has_dirfd(parsed)
}

/// Returns the index of the first argument after the path or descriptor.
fn index_after_target(parsed: &ParsedCall<'_>) -> usize {
    usize::from(has_dirfd(parsed)) + 1
}

/// Returns the place of an object that a call can name only by a path.
fn by_path(target: Target) -> Result<At, Outside> {
    match target {
        Target::At(place) => Ok(place),
        Target::File(_) => Err(Outside(Object::None)),
    }
}

impl ImportState {
    /// Returns the object of a call: its descriptor or its path. `kind` is the type that its success implies.
    pub fn target(
        &mut self,
        parsed: &ParsedCall<'_>,
        thread: &Thread,
        kind: Option<Kind>,
    ) -> Result<Target, Fault> {
        let at_dir = has_dirfd(parsed);
        let empty =
            at_dir && parsed.args.get(1).is_some_and(|it| ["\"\"", "NULL"].contains(&it.trim()));
        if is_by_descriptor(parsed) || (empty && !parsed.arg(0)?.starts_with("AT_FDCWD")) {
            return Ok(Target::File(self.file(parsed, thread, 0)?.file));
        }
        let places = if at_dir { (Some(0), 1) } else { (None, 0) };
        let kind = kind.filter(|_| !parsed.fails());
        Ok(Target::At(self.at(parsed, thread, places, (parsed.existed(), kind))?))
    }

    /// Imports stat(2) and its variants.
    pub fn stat(&mut self, parsed: &ParsedCall<'_>, thread: &Thread) -> Result<Call, Fault> {
        let target = self.target(parsed, thread, self.shown_kind(parsed))?;
        self.record_stat(parsed, thread, &target);
        Ok(Call::Stat { target, stat: stat_of(parsed) })
    }

    /// Imports truncate(2), ftruncate(2).
    pub fn truncate(&mut self, parsed: &ParsedCall<'_>, thread: &Thread) -> Result<Call, Fault> {
        let length = parsed.number(1)? as u64;
        let target = self.target(parsed, thread, None)?;
        if let Target::At(At { node: Some(node), .. }) = target {
            self.mark_size_changed(node);
        }
        Ok(Call::Truncate { target, length })
    }

    /// Imports access(2) and its variants.
    pub fn access(&mut self, parsed: &ParsedCall<'_>, thread: &Thread) -> Result<Call, Fault> {
        let at = by_path(self.target(parsed, thread, None)?)?;
        Ok(Call::Access { at, mode: parsed.number(index_after_target(parsed))? as u32 })
    }

    /// Imports readlink(2), readlinkat(2).
    pub fn readlink(&mut self, parsed: &ParsedCall<'_>, thread: &Thread) -> Result<Call, Fault> {
        let at = by_path(self.target(parsed, thread, Some(Kind::Symlink))?)?;
        if let (Some(node), 0..) = (at.node, parsed.result) {
            self.set_shown_attributes(node, Some(Kind::Symlink), None, Some(parsed.result as u64));
        }
        Ok(Call::Readlink { at, length: parsed.number(index_after_target(parsed) + 1)? as u64 })
    }

    /// Imports chmod(2) and its variants.
    pub fn chmod(&mut self, parsed: &ParsedCall<'_>, thread: &Thread) -> Result<Call, Fault> {
        let mode = parsed.number(index_after_target(parsed))? as u32 & 0o7777;
        Ok(Call::Chmod { target: self.target(parsed, thread, None)?, mode })
    }

    /// Imports utimensat(2) and its variants.
    pub fn utimes(&mut self, parsed: &ParsedCall<'_>, thread: &Thread) -> Result<Call, Fault> {
        let times = parsed.args.get(index_after_target(parsed)).copied().unwrap_or("NULL");
        let (accessed, modified) = changes_of(times);
        Ok(Call::Utimes { target: self.target(parsed, thread, None)?, accessed, modified })
    }

    /// Imports setxattr(2) and its variants.
    pub fn setxattr(&mut self, parsed: &ParsedCall<'_>, thread: &Thread) -> Result<Call, Fault> {
        let (name, target) = (xattr_of(parsed)?, self.target(parsed, thread, None)?);
        let (size, flags) = (parsed.number(3)? as u32, parsed.optional(4) as u32);
        Ok(Call::Setxattr { target, name, size, flags })
    }

    /// Imports getxattr(2) and its variants.
    pub fn getxattr(&mut self, parsed: &ParsedCall<'_>, thread: &Thread) -> Result<Call, Fault> {
        let (name, target) = (xattr_of(parsed)?, self.target(parsed, thread, None)?);
        Ok(Call::Getxattr { target, name, size: parsed.number(3)? as u32 })
    }

    /// Imports removexattr(2) and its variants.
    pub fn removexattr(&mut self, parsed: &ParsedCall<'_>, thread: &Thread) -> Result<Call, Fault> {
        let (name, target) = (xattr_of(parsed)?, self.target(parsed, thread, None)?);
        Ok(Call::Removexattr { target, name })
    }

    /// Imports listxattr(2) and its variants.
    pub fn listxattr(&mut self, parsed: &ParsedCall<'_>, thread: &Thread) -> Result<Call, Fault> {
        let target = self.target(parsed, thread, None)?;
        Ok(Call::Listxattr { target, size: parsed.number(2)? as u32 })
    }

    /// Imports chdir(2), fchdir(2).
    pub fn chdir(&mut self, parsed: &ParsedCall<'_>, thread: &Thread) -> Result<Call, Fault> {
        let target = self.target(parsed, thread, Some(Kind::Directory))?;
        if !parsed.fails() {
            let path = match is_by_descriptor(parsed) {
                true => self.file(parsed, thread, 0)?.path.clone(),
                false => self.path(parsed, thread, None, 0)?,
            };
            *thread.cwd.borrow_mut() = path;
        }
        Ok(Call::Chdir { target })
    }

    /// Returns the type of an object in the output of a stat.
    fn shown_kind(&self, parsed: &ParsedCall<'_>) -> Option<Kind> {
        let stat_text = parsed.args.iter().find(|it| it.contains("_mode="))?;
        let mode = field(stat_text, "st_mode").or_else(|| field(stat_text, "stx_mode"))?;
        Some(match mode.split('|').next()? {
            "S_IFREG" => Kind::File,
            "S_IFDIR" => Kind::Directory,
            "S_IFLNK" => Kind::Symlink,
            _ => Kind::Special,
        })
    }

    fn record_stat(&mut self, parsed: &ParsedCall<'_>, thread: &Thread, target: &Target) {
        let node = match target {
            Target::At(at) => at.node,
            Target::File(file) => {
                let all = thread.descriptors.borrow();
                all.values()
                    .find_map(|it| it.open.as_ref().filter(|it| it.file == *file).map(|it| it.node))
            }
        };
        let stat_text = parsed.args.iter().find(|it| it.contains("_mode="));
        let (Some(node), Some(stat_text)) = (node, stat_text) else { return };
        let value = |name: &str| {
            let text = field(stat_text, &format!("st_{name}"))
                .or_else(|| field(stat_text, &format!("stx_{name}")))?;
            number(text)
        };
        let kind = self.shown_kind(parsed);
        self.set_shown_attributes(
            node,
            kind,
            value("mode").map(|it| it as u32 & 0o7777),
            value("size").map(|it| it as u64),
        );
    }
}
