//! Imports calls on a path or descriptor: attributes, access, links, extended attributes.

use fsdyno_trace::{At, Call, Kind, Object, StatKind, Target, UtimeChange, XattrName};

use super::said::{Said, Wrong, field};
use super::symbols::number;
use super::world::{Fault, Outside, Thread, World};

/// Returns the kind of a stat.
fn stat_of(said: &Said<'_>) -> StatKind {
    let follow = !said.args.iter().any(|it| it.contains("AT_SYMLINK_NOFOLLOW"));
    match (said.name == "statx", follow && !said.name.starts_with('l')) {
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
fn xattr_of(said: &Said<'_>) -> Result<XattrName, Wrong> {
    let xattr = said.text(1)?;
    if xattr.is_empty() || xattr.len() > 255 || xattr.contains(&0) {
        return Err("the name of an extended attribute has no valid length".into());
    }
    Ok(xattr.into())
}

/// True for a call with a directory argument before its path.
fn is_at(said: &Said<'_>) -> bool {
    let name = said.name;
    (name.ends_with("at") && !["stat", "lstat", "fstat"].contains(&name))
        || ["statx", "newfstatat", "fstatat64", "faccessat2", "fchmodat2"].contains(&name)
}

/// True for a call on a descriptor.
fn is_by_descriptor(said: &Said<'_>) -> bool {
    said.name.starts_with('f') && !is_at(said)
}

/// Returns the index of the first argument after the path or descriptor.
fn behind(said: &Said<'_>) -> usize {
    usize::from(is_at(said)) + 1
}

/// Returns the place of an object that a call can only name by a path.
fn by_path(target: Target) -> Result<At, Outside> {
    match target {
        Target::At(place) => Ok(place),
        Target::File(_) => Err(Outside(Object::None)),
    }
}

impl World {
    /// Returns the object of a call: its descriptor, or its path, with the kind that a successful call shows.
    pub fn target(
        &mut self,
        said: &Said<'_>,
        thread: &Thread,
        kind: Option<Kind>,
    ) -> Result<Target, Fault> {
        let at_dir = is_at(said);
        let empty =
            at_dir && said.args.get(1).is_some_and(|it| ["\"\"", "NULL"].contains(&it.trim()));
        if is_by_descriptor(said) || (empty && !said.arg(0)?.starts_with("AT_FDCWD")) {
            return Ok(Target::File(self.file(said, thread, 0)?.file));
        }
        let places = if at_dir { (Some(0), 1) } else { (None, 0) };
        let kind = kind.filter(|_| !said.fails());
        Ok(Target::At(self.at(said, thread, places, (said.existed(), kind))?))
    }

    /// Imports stat(2) and its variants.
    pub fn stat(&mut self, said: &Said<'_>, thread: &Thread) -> Result<Call, Fault> {
        let target = self.target(said, thread, self.shown_kind(said))?;
        self.show(said, thread, &target);
        Ok(Call::Stat { target, stat: stat_of(said) })
    }

    /// Imports truncate(2), ftruncate(2).
    pub fn truncate(&mut self, said: &Said<'_>, thread: &Thread) -> Result<Call, Fault> {
        let length = said.number(1)? as u64;
        let target = self.target(said, thread, None)?;
        if let Target::At(At { node: Some(node), .. }) = target {
            self.changed(node);
        }
        Ok(Call::Truncate { target, length })
    }

    /// Imports access(2) and its variants.
    pub fn access(&mut self, said: &Said<'_>, thread: &Thread) -> Result<Call, Fault> {
        let at = by_path(self.target(said, thread, None)?)?;
        Ok(Call::Access { at, mode: said.number(behind(said))? as u32 })
    }

    /// Imports readlink(2), readlinkat(2).
    pub fn readlink(&mut self, said: &Said<'_>, thread: &Thread) -> Result<Call, Fault> {
        let at = by_path(self.target(said, thread, Some(Kind::Symlink))?)?;
        if let (Some(node), 0..) = (at.node, said.result) {
            self.shown(node, Some(Kind::Symlink), None, Some(said.result as u64));
        }
        Ok(Call::Readlink { at, length: said.number(behind(said) + 1)? as u64 })
    }

    /// Imports chmod(2) and its variants.
    pub fn chmod(&mut self, said: &Said<'_>, thread: &Thread) -> Result<Call, Fault> {
        let mode = said.number(behind(said))? as u32 & 0o7777;
        Ok(Call::Chmod { target: self.target(said, thread, None)?, mode })
    }

    /// Imports utimensat(2) and its variants.
    pub fn utimes(&mut self, said: &Said<'_>, thread: &Thread) -> Result<Call, Fault> {
        let times = said.args.get(behind(said)).copied().unwrap_or("NULL");
        let (accessed, modified) = changes_of(times);
        Ok(Call::Utimes { target: self.target(said, thread, None)?, accessed, modified })
    }

    /// Imports setxattr(2) and its variants.
    pub fn setxattr(&mut self, said: &Said<'_>, thread: &Thread) -> Result<Call, Fault> {
        let (name, target) = (xattr_of(said)?, self.target(said, thread, None)?);
        let (size, flags) = (said.number(3)? as u32, said.optional(4) as u32);
        Ok(Call::Setxattr { target, name, size, flags })
    }

    /// Imports getxattr(2) and its variants.
    pub fn getxattr(&mut self, said: &Said<'_>, thread: &Thread) -> Result<Call, Fault> {
        let (name, target) = (xattr_of(said)?, self.target(said, thread, None)?);
        Ok(Call::Getxattr { target, name, size: said.number(3)? as u32 })
    }

    /// Imports removexattr(2) and its variants.
    pub fn removexattr(&mut self, said: &Said<'_>, thread: &Thread) -> Result<Call, Fault> {
        let (name, target) = (xattr_of(said)?, self.target(said, thread, None)?);
        Ok(Call::Removexattr { target, name })
    }

    /// Imports listxattr(2) and its variants.
    pub fn listxattr(&mut self, said: &Said<'_>, thread: &Thread) -> Result<Call, Fault> {
        let target = self.target(said, thread, None)?;
        Ok(Call::Listxattr { target, size: said.number(2)? as u32 })
    }

    /// Imports chdir(2), fchdir(2).
    pub fn chdir(&mut self, said: &Said<'_>, thread: &Thread) -> Result<Call, Fault> {
        let target = self.target(said, thread, Some(Kind::Directory))?;
        if !said.fails() {
            let path = match is_by_descriptor(said) {
                true => self.file(said, thread, 0)?.path.clone(),
                false => self.path(said, thread, None, 0)?,
            };
            *thread.cwd.borrow_mut() = path;
        }
        Ok(Call::Chdir { target })
    }

    /// Returns the type of an object that a stat shows.
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
