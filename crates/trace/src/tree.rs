//! The initial tree of a trace.

use crate::class::Compressibility;
use crate::error::Problem;
use crate::header::{put_text, text};
use crate::ids::NodeId;
use crate::name::{NAME_MAX, Name};
use crate::wire::{Sink, Source, Wire, codes, fields};

/// The maximum number of extended attributes of an entry.
const XATTRS: u64 = 128;

/// The maximum size of an extended attribute, in bytes (XATTR_SIZE_MAX of Linux).
const XATTR_SIZE: u64 = 65_536;

/// The maximum size of a file, in bytes (MAX_LFS_FILESIZE of Linux).
pub(crate) const SIZE: u64 = i64::MAX as u64;

codes! {
    /// The reason why a directory is a root.
    RootKind, "kind of root" {
        /// A directory of `--tree`, or the command's working directory.
        Tree = 0, "tree";
        /// The directory `/`, for everything that is not in a recorded tree.
        System = 1, "system";
    }
}

/// A directory that has no parent in the trace. Every node is below one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Its identity.
    pub node: NodeId,
    /// The reason why it is a root.
    pub kind: RootKind,
    /// Its name for reports: the last component of its path, or `system`.
    pub label: Name,
    /// The file system that it was on, such as `ext4`, or empty if unknown.
    pub file_system: String,
}

impl Wire for Root {
    fn put(&self, out: &mut Sink) {
        self.node.put(out);
        self.kind.put(out);
        self.label.put(out);
        put_text(&self.file_system, out);
    }

    fn get(from: &mut Source<'_>) -> Result<Root, Problem> {
        Ok(Root {
            node: Wire::get(from)?,
            kind: Wire::get(from)?,
            label: Wire::get(from)?,
            file_system: text(from)?,
        })
    }
}

codes! {
    /// The type of a node.
    Kind, "type of node" {
        /// A regular file.
        File = 0, "file";
        /// A directory.
        Directory = 1, "directory";
        /// A symbolic link.
        Symlink = 2, "symlink";
        /// A pipe, socket or device with a name in a file system.
        Special = 3, "special";
    }
}

fields! {
    /// An extended attribute.
    Xattr {
        /// Its name with the name space, such as `user.mime_type`: 1 to 255 bytes without NUL.
        name: XattrName,
        /// The size of its value in bytes.
        size: u32,
    }
}

/// The name of an extended attribute; it may contain '/'.
pub type XattrName = Box<[u8]>;

impl Wire for XattrName {
    fn put(&self, out: &mut Sink) {
        out.put_text(&self[..self.len().min(NAME_MAX)]);
    }

    fn get(from: &mut Source<'_>) -> Result<XattrName, Problem> {
        match from.text(NAME_MAX)? {
            [] => Err(Problem::Name("the name of an extended attribute is empty")),
            name if name.contains(&0) => {
                Err(Problem::Name("the name of an extended attribute contains NUL"))
            }
            name => Ok(name.into()),
        }
    }
}

/// An entry of a directory in its state before the program changed it. Entries of one directory are in the order in
/// which getdents64(2) returned them. A second entry with the same node is a hard link; its other fields are ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The directory, introduced before this entry.
    pub parent: NodeId,
    /// The name in it.
    pub name: Name,
    /// The node; new, or that of an earlier entry.
    pub node: NodeId,
    /// Its type.
    pub kind: Kind,
    /// Its size in bytes; for a symbolic link, the length of its target.
    pub size: u64,
    /// The number of bytes allocated to it (st_blocks): less than the size for a sparse file.
    pub allocated: u64,
    /// Its permission bits (07777).
    pub mode: u32,
    /// Its number of links, including those that the trace does not contain.
    pub links: u32,
    /// Its inode number: files created in sequence mostly have ascending numbers.
    pub inode: u64,
    /// The compressibility of its contents.
    pub class: Compressibility,
    /// Its extended attributes.
    pub xattrs: Vec<Xattr>,
}

impl Wire for Entry {
    fn put(&self, out: &mut Sink) {
        self.parent.put(out);
        self.name.put(out);
        self.node.put(out);
        self.kind.put(out);
        self.size.put(out);
        self.allocated.put(out);
        self.mode.put(out);
        self.links.put(out);
        self.inode.put(out);
        self.class.put(out);
        let xattrs = &self.xattrs[..self.xattrs.len().min(XATTRS as usize)];
        (xattrs.len() as u64).put(out);
        xattrs.iter().for_each(|it| it.put(out));
    }

    fn get(from: &mut Source<'_>) -> Result<Entry, Problem> {
        let mut entry = Entry {
            parent: Wire::get(from)?,
            name: Wire::get(from)?,
            node: Wire::get(from)?,
            kind: Wire::get(from)?,
            size: bounded(from, "the size", SIZE)?,
            allocated: bounded(from, "the allocated size", SIZE)?,
            mode: bounded(from, "the mode", 0o7777)? as u32,
            links: Wire::get(from)?,
            inode: Wire::get(from)?,
            class: Wire::get(from)?,
            xattrs: Vec::new(),
        };
        if entry.kind == Kind::Symlink && entry.size > 4095 {
            return Err(Problem::Limit("the length of a link", entry.size, 4095));
        }
        for _ in 0..bounded(from, "the number of extended attributes", XATTRS)? {
            let xattr = Xattr::get(from)?;
            if u64::from(xattr.size) > XATTR_SIZE {
                let size = u64::from(xattr.size);
                return Err(Problem::Limit("an extended attribute", size, XATTR_SIZE));
            }
            entry.xattrs.push(xattr);
        }
        Ok(entry)
    }
}

/// Reads a number that is at most `limit`.
pub(crate) fn bounded(
    from: &mut Source<'_>,
    what: &'static str,
    limit: u64,
) -> Result<u64, Problem> {
    match from.number()? {
        value if value > limit => Err(Problem::Limit(what, value, limit)),
        value => Ok(value),
    }
}
