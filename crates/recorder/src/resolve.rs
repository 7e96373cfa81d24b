//! Resolves paths and descriptors of a thread to objects of the trace.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use fsdyno_trace::{At, Base, Call, FileId, Kind, NodeId, Object, Target};
use libc::pid_t;
use rustix::fs::{Mode, OFlags, Stat};

use crate::inode::{Key, attributes, directory, key, kind};
use crate::process::{Descriptor, Open};
use crate::recorder::{Recorder, Source};

/// An object that is not a file on a recorded file system, with its number.
#[derive(Clone, Copy, Debug)]
pub struct Outside(pub Object, pub u64);

/// The prefix of the paths by which `fsdyno mark` names phases. No such file exists; the recorder sees the call.
pub const MARK: &[u8] = b"/fsdyno-mark/";

/// A resolved path, and the attributes of its inode.
pub struct Place {
    /// The path as an argument of a call in the trace.
    pub at: At,
    /// The attributes of the inode; None if the name does not exist.
    pub stat: Option<Stat>,
}

/// File systems of the kernel's own state (linux/magic.h): proc, sysfs, cgroup, cgroup2, debugfs, tracefs, devpts,
/// securityfs, selinuxfs, bpf, nsfs, pipefs, sockfs, anon_inodefs.
pub const KERNEL: &[u64] = &[
    0x9fa0,
    0x6265_6572,
    0x27_e0eb,
    0x6367_7270,
    0x6462_6720,
    0x7472_6163,
    0x1cd1,
    0x7363_6673,
    0xf97c_ff8c,
    0xcafe_4a11,
    0x6e73_6673,
    0x5049_5045,
    0x534f_434b,
    0x0904_1934,
];

/// True for a path below procfs or sysfs, or of a descriptor.
pub fn is_of_kernel(text: &[u8]) -> bool {
    let prefixes = [&b"/proc/"[..], b"/sys/", b"/dev/fd", b"/dev/std"];
    prefixes.iter().any(|it| text.starts_with(it))
}

/// Returns the directory from which a path is resolved.
pub fn base_of(text: &[u8], dirfd: i32) -> Base {
    match (text.first(), dirfd) {
        (Some(b'/'), _) => Base::Root,
        (_, libc::AT_FDCWD) => Base::Cwd,
        _ => Base::Directory,
    }
}

/// Maximum number of symbolic links that a path may follow (MAXSYMLINKS of Linux).
pub const LINKS: u8 = 40;

/// Returns the flags and the position of an open file of a thread.
pub fn flags_and_offset(tid: pid_t, number: i32) -> (u32, u64) {
    let mut text = String::new();
    let _ = File::open(format!("/proc/{tid}/fdinfo/{number}"))
        .map(|mut it| it.read_to_string(&mut text));
    let field = |name: &str, radix| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        u64::from_str_radix(line.trim(), radix).ok()
    };
    (field("flags:", 8).unwrap_or(0) as u32, field("pos:", 10).unwrap_or(0))
}

impl Recorder {
    /// True for a file system of the kernel's own state, such as procfs, and for /dev.
    pub fn is_kernel_file_system(&mut self, dir: &OwnedFd, device: u64) -> bool {
        if let Some(known) = self.devices.get(&device) {
            return *known;
        }
        let own = rustix::fs::fstatfs(dir).is_ok_and(|it| KERNEL.contains(&(it.f_type as u64)));
        let dev = rustix::fs::stat("/dev").is_ok_and(|it| it.st_dev == device)
            && rustix::fs::stat("/").is_ok_and(|it| it.st_dev != device);
        self.devices.insert(device, own || dev);
        own || dev
    }

    /// Returns the node of an open directory; an error if it is on a file system of the kernel.
    fn inside(&mut self, dir: &OwnedFd) -> Result<NodeId, Outside> {
        let stat = rustix::fs::fstat(dir).map_err(|_| Outside(Object::None, 0))?;
        if self.is_kernel_file_system(dir, stat.st_dev) {
            return Err(Outside(Object::Kernel, stat.st_ino));
        }
        self.tree.directory(dir).ok_or(Outside(Object::None, 0))
    }

    /// Resolves a path of a thread, given as an address.
    pub fn place(
        &mut self,
        tid: pid_t,
        dirfd: i32,
        path: u64,
        follow: bool,
    ) -> Result<Place, Outside> {
        match self.source() {
            Source::Kernel => self.place_by_names(tid, dirfd, path, follow),
            Source::Inside => self.seen_place(path).ok_or(Outside(Object::None, 0)),
            Source::Stop => {
                let text = crate::sys::text(tid, path).ok_or(Outside(Object::None, 0))?;
                self.place_of(tid, dirfd, &text, follow)
            }
        }
    }

    /// Resolves a path of a thread.
    pub fn place_of(
        &mut self,
        tid: pid_t,
        dirfd: i32,
        text: &[u8],
        follow: bool,
    ) -> Result<Place, Outside> {
        let base = base_of(text, dirfd);
        let from = match base {
            Base::Root => "/".to_string(),
            Base::Cwd => format!("/proc/{tid}/cwd"),
            Base::Directory => format!("/proc/{tid}/fd/{dirfd}"),
        };
        if is_of_kernel(text) {
            return Err(Outside(Object::Kernel, 0));
        }
        let parts = text.split(|byte| *byte == b'/');
        let walked = parts.filter(|it| !it.is_empty() && *it != b".").count();
        let mut place = self.walk(&PathBuf::from(from), text, follow, 0)?;
        place.at.base = base;
        place.at.walked = u8::try_from(walked).unwrap_or(u8::MAX);
        Ok(place)
    }

    fn walk(
        &mut self,
        from: &Path,
        text: &[u8],
        follow: bool,
        links: u8,
    ) -> Result<Place, Outside> {
        let end = text.iter().rposition(|byte| *byte != b'/').map_or(0, |at| at + 1);
        let slash = text[..end].iter().rposition(|byte| *byte == b'/');
        let (above, name) = match slash {
            Some(at) => (&text[..at + 1], &text[at + 1..end]),
            None => (&b""[..], &text[..end]),
        };
        let join = |part: &[u8]| from.join(OsStr::from_bytes(part));
        if matches!(name, b"" | b"." | b"..") {
            return match directory(&join(text)) {
                Ok(dir) => self.itself(&dir, links),
                Err(_) => self.missing(from, text, links),
            };
        }
        let Ok(dir) = directory(&join(above)) else {
            return self.missing(from, text, links);
        };
        let node = self.inside(&dir)?;
        let stat = attributes(&dir, name).ok();
        if let Some(stat) = stat {
            if kind(&stat) == Kind::Symlink && (follow || end < text.len()) && links < LINKS {
                // The link itself is part of the tree.
                self.tree.node(&dir, node, name, &stat);
                let target = rustix::fs::readlinkat(&dir, OsStr::from_bytes(name), Vec::new());
                let target = target.map_err(|_| Outside(Object::None, 0))?;
                let here = PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd()));
                if target.as_bytes().starts_with(b"/proc/") {
                    return Err(Outside(Object::Kernel, 0));
                }
                return self.walk(&here, target.as_bytes(), true, links + 1);
            }
            match rustix::fs::FileType::from_raw_mode(stat.st_mode) {
                rustix::fs::FileType::CharacterDevice | rustix::fs::FileType::BlockDevice => {
                    return Err(Outside(Object::Device, stat.st_rdev));
                }
                _ => {}
            }
        }
        let known = stat.map(|stat| self.tree.node(&dir, node, name, &stat));
        let Some(name) = self.tree.name(name) else { return Err(Outside(Object::None, 0)) };
        Ok(Place { at: At { links, ..At::new(node, name, known) }, stat })
    }

    /// Returns the place of a directory whose path does not end in a name.
    fn itself(&mut self, dir: &OwnedFd, links: u8) -> Result<Place, Outside> {
        let node = self.inside(dir)?;
        let stat = rustix::fs::fstat(dir).ok();
        Ok(Place { at: At { links, ..At::of_node(node) }, stat })
    }

    /// Returns the place of a path whose directory does not exist: the place of the first missing name.
    fn missing(&mut self, from: &Path, text: &[u8], links: u8) -> Result<Place, Outside> {
        let absolute = text.starts_with(b"/");
        let mut path = if absolute { PathBuf::from("/") } else { from.to_path_buf() };
        let parts: Vec<&[u8]> =
            text.split(|byte| *byte == b'/').filter(|it| !it.is_empty()).collect();
        let mut dir = directory(&path).map_err(|_| Outside(Object::None, 0))?;
        for (at, part) in parts.iter().enumerate() {
            path.push(OsStr::from_bytes(part));
            match directory(&path) {
                Ok(next) => dir = next,
                Err(_) => {
                    let node = self.inside(&dir)?;
                    let stat = attributes(&dir, part).ok();
                    let known = stat.map(|stat| self.tree.node(&dir, node, part, &stat));
                    let name = self.tree.name(part).ok_or(Outside(Object::None, 0))?;
                    let beyond = u8::try_from(parts.len() - at - 1).unwrap_or(u8::MAX);
                    return Ok(Place {
                        at: At { links, beyond, ..At::new(node, name, known) },
                        stat,
                    });
                }
            }
        }
        self.itself(&dir, links)
    }

    /// Returns the open file of a descriptor. Looks up an unknown one, which the command inherited or received.
    pub fn descriptor(&mut self, tid: pid_t, number: i32) -> Result<Rc<Open>, Outside> {
        let Some(thread) = self.threads.get(&tid) else { return Err(Outside(Object::None, 0)) };
        let table = thread.descriptors.clone();
        let descriptor = match table.get(number) {
            Some(known) => known,
            None if self.source() == Source::Inside => {
                self.note("calls inside a program on unknown descriptors", 1);
                return Err(Outside(Object::None, 0));
            }
            None => {
                let found = self.look_up(tid, number).ok_or(Outside(Object::None, 0))?;
                table.insert(number, found.clone(), false);
                found
            }
        };
        match descriptor {
            Descriptor::File(open) => Ok(open),
            Descriptor::Outside(object, number) => Err(Outside(object, number)),
        }
    }

    fn look_up(&mut self, tid: pid_t, number: i32) -> Option<Descriptor> {
        if self.source() == Source::Kernel {
            return self.look_up_by_names(tid, number);
        }
        let path = PathBuf::from(format!("/proc/{tid}/fd/{number}"));
        let stat = rustix::fs::stat(&path).ok()?;
        if let Some(outside) = self.outside(&path, &stat) {
            return Some(outside);
        }
        let (node, key) = self.node_of(&path, &stat)?;
        let file = self.next_file();
        let (flags, offset) = flags_and_offset(tid, number);
        self.event(tid, Call::Inherit { file, node, flags, offset }, 0);
        Some(Descriptor::File(Rc::new(Open { file, node, key })))
    }

    /// Describes an object that is not a file or directory on a recorded file system; None if it is one.
    pub fn outside(&mut self, path: &Path, stat: &Stat) -> Option<Descriptor> {
        use rustix::fs::FileType as T;
        let object = match T::from_raw_mode(stat.st_mode) {
            T::Fifo => Object::Pipe,
            T::Socket => Object::Socket,
            T::CharacterDevice if (136..144).contains(&rustix::fs::major(stat.st_rdev)) => {
                Object::Terminal
            }
            T::CharacterDevice | T::BlockDevice => Object::Device,
            // The injected code opens only files and directories in known directories.
            T::RegularFile | T::Directory if self.source() == Source::Inside => return None,
            T::RegularFile | T::Directory => {
                // memfd, and files of the kernel.
                let open =
                    rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
                if std::fs::read_link(path)
                    .is_ok_and(|it| it.as_os_str().as_bytes().starts_with(b"/memfd:"))
                {
                    Object::Anonymous
                } else if self.is_kernel_file_system(&open, stat.st_dev) {
                    Object::Kernel
                } else {
                    return None;
                }
            }
            _ => Object::Anonymous,
        };
        Some(Descriptor::Outside(object, stat.st_ino))
    }

    /// Returns the node and the key of an open file, found by the path of its descriptor.
    pub fn node_of(&mut self, path: &Path, stat: &Stat) -> Option<(NodeId, Key)> {
        if kind(stat) == Kind::Directory {
            let dir = directory(path).ok()?;
            return Some((self.tree.directory(&dir)?, key(stat)));
        }
        let target = std::fs::read_link(path).ok()?;
        let dir = directory(target.parent()?).ok()?;
        let parent = self.tree.directory(&dir)?;
        // A deleted file gets its last name.
        let name = target.file_name()?.as_bytes();
        let name = name.strip_suffix(b" (deleted)").unwrap_or(name);
        Some((self.tree.node(&dir, parent, name, stat), key(stat)))
    }

    /// Returns the target of a call on a descriptor.
    pub fn target(&mut self, tid: pid_t, number: u64) -> Result<Target, Outside> {
        self.descriptor(tid, number as i32).map(|open| Target::File(open.file))
    }

    /// Returns a new identity for an open file.
    pub fn next_file(&mut self) -> FileId {
        self.files += 1;
        FileId(self.files - 1)
    }
}
