//! Calls on an object by its path or its descriptor: attributes, access, links, extended attributes.

use fsdyno_trace::{At, Call, CallKind, Kind, Object, StatKind, Target, UtimeChange, XattrName};

use super::said::{Said, Wrong, field};
use super::symbols::number;
use super::world::{Outside, Thread, World};

/// The kind of a stat.
fn stat_of(said: &Said<'_>) -> StatKind {
    let follow = !said.args.iter().any(|it| it.contains("AT_SYMLINK_NOFOLLOW"));
    match (said.name == "statx", follow && !said.name.starts_with('l')) {
        (false, true) => StatKind::Stat,
        (false, false) => StatKind::Lstat,
        (true, true) => StatKind::Statx,
        (true, false) => StatKind::Lstatx,
    }
}

/// The changes of the times of access and of modification.
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

/// The name of an extended attribute.
fn xattr_of(said: &Said<'_>) -> Result<XattrName, Wrong> {
    let xattr = said.text(1)?;
    if xattr.is_empty() || xattr.len() > 255 || xattr.contains(&0) {
        return Err("the name of an extended attribute has no valid length".into());
    }
    Ok(xattr.into())
}

impl World {
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

    /// A call on a path, or on a descriptor in the place of one.
    pub fn on_target(
        &mut self,
        of: CallKind,
        said: &Said<'_>,
        thread: &Thread,
    ) -> Result<Result<Call, Outside>, Wrong> {
        let name = said.name;
        let at_dir = (name.ends_with("at") && name != "stat" && name != "lstat" && name != "fstat")
            || ["statx", "newfstatat", "fstatat64", "faccessat2", "fchmodat2"].contains(&name);
        let by_descriptor = !at_dir && name.starts_with('f') && name != "fstatat64";
        let kind = match of {
            CallKind::Stat => self.shown_kind(said),
            CallKind::Readlink => Some(Kind::Symlink),
            CallKind::Chdir => Some(Kind::Directory),
            _ => None,
        };
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
                let target = target!();
                self.show(said, thread, &target);
                Call::Stat { target, stat: stat_of(said) }
            }
            CallKind::Truncate => {
                let length = said.number(1)? as u64;
                let target = target!();
                if let Target::At(At { node: Some(node), .. }) = target {
                    self.changed(node);
                }
                Call::Truncate { target, length }
            }
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
            CallKind::Chmod => {
                let mode = said.number(at + 1)? as u32 & 0o7777;
                Call::Chmod { target: target!(), mode }
            }
            CallKind::Chown => Call::Chown { target: target!() },
            CallKind::Utimes => {
                let times = said.args.get(at + 1).copied().unwrap_or("NULL");
                let (accessed, modified) = changes_of(times);
                Call::Utimes { target: target!(), accessed, modified }
            }
            CallKind::Setxattr | CallKind::Getxattr | CallKind::Removexattr => {
                let name = xattr_of(said)?;
                let target = target!();
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
            CallKind::Chdir => {
                let target = target!();
                if !said.fails() {
                    match self.new_cwd(said, thread, by_descriptor)? {
                        Ok(path) => *thread.cwd.borrow_mut() = path,
                        Err(it) => return Ok(Err(it)),
                    }
                }
                Call::Chdir { target }
            }
            _ => Call::Statfs { target: target!() },
        }))
    }

    /// The directory that a chdir(2) or fchdir(2) leads to.
    fn new_cwd(
        &mut self,
        said: &Said<'_>,
        thread: &Thread,
        by_descriptor: bool,
    ) -> Result<Result<Vec<u8>, Outside>, Wrong> {
        match by_descriptor {
            true => Ok(self.file(said, thread, 0)?.map(|open| open.path.clone())),
            false => Ok(Ok(self.path(said, thread, None, 0)?)),
        }
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
