//! Calls one by one; the engine's tests compare random ones with the kernel's.

use super::*;
use crate::call::{Call, Compound};
use crate::op::{Name, OpenFlags, Payload};
use crate::workload::{Expected, ExpectedKind, Links, Tree};

const ROOT_DIR: DirSlot = DirSlot::ROOT;
const FILE: FileSlot = FileSlot(1);
const WRITE: OpenFlags = OpenFlags { write: true, ..OpenFlags::NONE };

fn op(call: Call, name: &str, other: &str) -> Op {
    let name_of = |text: &str| {
        let mut name = Name::default();
        name.push(text.as_bytes());
        name
    };
    Op { call, name: name_of(name), second_name: name_of(other), ..Op::default() }
}

fn payload(id: u64, length: u32) -> Payload {
    Payload { id, offset: 0, length }
}

impl MemoryFs {
    fn call(&mut self, call: Call, name: &str, other: &str) -> Result<u64, Errno> {
        self.apply(&op(call, name, other))
    }

    fn mkdir(&mut self, name: &str) {
        self.call(Call::Mkdir { dir: ROOT_DIR, mode: 0o755 }, name, "").unwrap();
    }

    /// Creates a file with these bytes.
    fn create_file(&mut self, name: &str, content: Payload) {
        let create = Call::Create { dir: ROOT_DIR, file: FILE, flags: WRITE, mode: 0o644 };
        self.call(create, name, "").unwrap();
        self.call(Call::Write { file: FILE, payload: content }, "", "").unwrap();
        self.call(Call::Close { file: FILE }, "", "").unwrap();
    }

    fn rename_path(&mut self, from: &str, to: &str) -> Result<u64, Errno> {
        self.call(Call::Rename { dir: ROOT_DIR, to: ROOT_DIR }, from, to)
    }

    fn paths(&self) -> Vec<String> {
        self.walk(ROOT).map(|(path, _)| String::from_utf8(path).unwrap()).collect()
    }
}

#[test]
fn a_renamed_directory_keeps_its_names_and_the_slots_that_have_it_open() {
    let mut memory = MemoryFs::new();
    memory.mkdir("a");
    memory.mkdir("b");
    memory.create_file("a/f", payload(1, 10));
    memory.call(Call::OpenDir { dir: ROOT_DIR, slot: DirSlot(4) }, "a", "").unwrap();
    memory.rename_path("a", "b/c").unwrap();
    memory.call(Call::Mkdir { dir: DirSlot(4), mode: 0o700 }, "g", "").unwrap();
    assert_eq!(memory.paths(), ["b", "b/c", "b/c/f", "b/c/g"]);
    let inode = memory.open_dir(0, DirSlot(4)).unwrap();
    assert_eq!(memory.path(inode).as_deref(), Some(&b"b/c"[..]));
    assert_eq!(memory.rename_path("b", "b/c/b"), Err(Errno::Invalid));
    assert_eq!(
        memory.rename_path("b/c/f", "b"),
        Err(Errno::NotEmpty),
        "an ancestor of the old name"
    );
    assert_eq!(memory.rename_path("b/c/f", "b/c/g"), Err(Errno::IsDirectory));
}

#[test]
fn a_file_without_a_name_lives_until_it_is_closed() {
    let mut memory = MemoryFs::new();
    memory.create_file("a", payload(1, 100));
    memory.call(Call::Open { dir: ROOT_DIR, file: FILE, flags: WRITE }, "a", "").unwrap();
    let inode = memory.open_file(0, FILE).unwrap().inode;
    memory.call(Call::Unlink { dir: ROOT_DIR }, "a", "").unwrap();
    memory.call(Call::Write { file: FILE, payload: payload(2, 300) }, "", "").unwrap();
    assert_eq!(memory.totals(), Totals { names: 0, directories: 0, bytes: 300 });
    let close = memory.plan(&op(Call::Close { file: FILE }, "", "")).unwrap().changes;
    let removed = close.into_iter().find_map(|change| memory.commit(change)).unwrap();
    assert_eq!((removed.0, removed.1.size()), (inode, Some(300)));
    assert_eq!(memory.totals(), Totals::default());
    assert!(memory.node(inode).is_none() && memory.open_slots() == 0);
    assert_eq!(memory.call(Call::Close { file: FILE }, "", ""), Err(Errno::BadSlot));
}

#[test]
fn if_slots_are_shared_a_path_may_begin_in_a_directory_that_is_open_as_a_file() {
    let mut memory = MemoryFs::new();
    memory.mkdir("a");
    memory.create_file("f", payload(1, 1));
    let flags = OpenFlags { directory: true, ..OpenFlags::NONE };
    memory.call(Call::Open { dir: ROOT_DIR, file: FILE, flags }, "a", "").unwrap();
    let mkdir = Call::Mkdir { dir: DirSlot(FILE.0), mode: 0o755 };
    assert_eq!(memory.call(mkdir, "b", ""), Err(Errno::BadSlot));
    memory.share_slots();
    memory.call(mkdir, "b", "").unwrap();
    assert_eq!(memory.paths(), ["a", "a/b", "f"]);
    let flags = OpenFlags::NONE;
    memory.call(Call::Open { dir: ROOT_DIR, file: FILE, flags }, "f", "").unwrap();
    assert_eq!(memory.call(mkdir, "c", ""), Err(Errno::NotDirectory));
}

#[test]
fn nothing_is_created_in_a_removed_directory_that_is_still_open() {
    let mut memory = MemoryFs::new();
    memory.mkdir("a");
    memory.call(Call::OpenDir { dir: ROOT_DIR, slot: DirSlot(1) }, "a", "").unwrap();
    memory.call(Call::Rmdir { dir: ROOT_DIR }, "a", "").unwrap();
    let mkdir = Call::Mkdir { dir: DirSlot(1), mode: 0o755 };
    assert_eq!(memory.call(mkdir, "b", ""), Err(Errno::Missing));
    assert_eq!(memory.path(memory.open_dir(0, DirSlot(1)).unwrap()), None);
    assert_eq!(memory.call(Call::CloseDir { slot: ROOT_DIR }, "", ""), Err(Errno::BadSlot));
}

#[test]
fn a_plan_changes_nothing_and_a_failing_call_has_no_plan() {
    let mut memory = MemoryFs::new();
    memory.mkdir("a");
    let before = format!("{memory:?}");
    let mkdir = |name| op(Call::Mkdir { dir: ROOT_DIR, mode: 0o755 }, name, "");
    assert_eq!(memory.plan(&mkdir("b")).unwrap().changes.len(), 1);
    assert_eq!(memory.apply(&mkdir("a")), Err(Errno::Exists));
    assert_eq!(memory.apply(&mkdir("b/c")), Err(Errno::Missing));
    assert_eq!(memory.apply(&mkdir(&"x".repeat(256))), Err(Errno::NameTooLong));
    assert_eq!(format!("{memory:?}"), before);
}

#[test]
fn the_tree_is_that_of_the_ops() {
    let mut memory = MemoryFs::new();
    memory.mkdir("d");
    memory.create_file("d/f", payload(7, 1000));
    memory.call(Call::Link { dir: ROOT_DIR, to: ROOT_DIR }, "d/f", "g").unwrap();
    memory.call(Call::Symlink { dir: ROOT_DIR }, "s", "d/f").unwrap();
    memory.call(Call::Utimes { dir: ROOT_DIR, mtime: 5 }, "g", "").unwrap();
    let links = Links { group: 2, count: 2 };
    let file = Expected::pieces(1000).with_mode(0o644).with_mtime(5).with_links(links);
    assert_eq!(memory.lookup(b"d/f"), Some(file));
    assert_eq!(memory.lookup(b"s"), Some(Expected::SYMLINK));
    assert_eq!(memory.target(b"s").as_deref(), Some(&b"d/f"[..]));
    assert_eq!(memory.piece(b"g", 10), Some(Payload { id: 7, offset: 10, length: 990 }));
    assert_eq!((memory.files(), memory.directories()), (3, 1));
    assert!(memory.lookup(b"").is_none() && memory.lookup(b"d/x").is_none());
    // A write sets the time to one that is not modelled.
    memory.create_file("d/f", payload(8, 10));
    assert_eq!(memory.lookup(b"g").unwrap().mtime, None);
}

#[test]
fn an_unpacked_tree_is_the_packed_one_with_its_times() {
    let mut memory = MemoryFs::new();
    memory.mkdir("t");
    memory.mkdir("t/d");
    memory.create_file("t/d/f", payload(1, 1000));
    memory.call(Call::Utimes { dir: ROOT_DIR, mtime: 9 }, "t/d", "").unwrap();
    let compute = fsdyno_record::Nanos(0);
    memory
        .call(
            Call::Compound(Compound::PackTree { dir: ROOT_DIR, to: ROOT_DIR, compute }),
            "t",
            "t.tar",
        )
        .unwrap();
    // A header for each of the three, two blocks of content, two at the end: seven, in a record of 20.
    assert_eq!(memory.lookup(b"t.tar").unwrap().kind, ExpectedKind::Sized(10_240));
    memory.mkdir("u");
    memory
        .call(
            Call::Compound(Compound::UnpackTree { dir: ROOT_DIR, to: ROOT_DIR, compute }),
            "t.tar",
            "u",
        )
        .unwrap();
    assert_eq!(memory.lookup(b"u/t/d"), memory.lookup(b"t/d"));
    assert_eq!(memory.lookup(b"u/t/d").unwrap().mtime, Some(9));
    assert_eq!(memory.piece(b"u/t/d/f", 0), Some(payload(1, 1000)));
    memory
        .call(Call::Compound(Compound::CopyTree { dir: ROOT_DIR, to: ROOT_DIR }), "u/t", "v")
        .unwrap();
    assert_eq!(memory.lookup(b"v/d"), memory.lookup(b"t/d"));
    let order = crate::RemoveOrder::Name;
    memory
        .call(Call::Compound(Compound::RemoveTree { dir: ROOT_DIR, order, synced: false }), "u", "")
        .unwrap();
    assert_eq!(memory.paths(), ["t", "t/d", "t/d/f", "t.tar", "v", "v/d", "v/d/f"]);
    // Its bytes are not known, so only its end can be written.
    memory.call(Call::Open { dir: ROOT_DIR, file: FILE, flags: WRITE }, "t.tar", "").unwrap();
    let write = Call::Write { file: FILE, payload: payload(1, 1) };
    assert_eq!(memory.call(write, "", ""), Err(Errno::NotSupported));
    memory.call(Call::Truncate { file: FILE, length: 0 }, "", "").unwrap();
    assert_eq!(memory.call(write, "", ""), Ok(1));
    assert_eq!(memory.totals().bytes, 2001);
}

/// The bound of the module's documentation, from the sizes of the parts.
#[test]
fn a_file_takes_no_more_memory_than_stated() {
    use std::mem::size_of;
    // A slot of the table, which is at least 7/16 full, and its control byte.
    let inode = (size_of::<(Inode, Node)>() + 1) * 16 / 7;
    // A name in a B-tree, whose nodes have 11 places and are at least 5/11 full.
    let name = (size_of::<(Box<[u8]>, Inode)>() + 2) * 11 / 5;
    assert!(inode + name <= 400, "{inode} and {name}");
    assert!(size_of::<(u64, Payload)>() * 11 + 16 <= 400);
}
