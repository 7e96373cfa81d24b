#![allow(clippy::unwrap_used, reason = "tests may unwrap")]

use super::*;

const DIRECTORY: u32 = libc::S_IFDIR | 0o755;
const FILE: u32 = libc::S_IFREG | 0o644;

fn names() -> Names {
    Names::new([(0, 0); 2]).unwrap()
}

/// Adds an object to a directory, on a device that no other test object uses.
fn add(names: &mut Names, dir: Key, name: &str, inode: u64, mode: u32) -> Key {
    let info = Info { key: (u64::MAX - 1, inode), mode, links: 1, ..Info::default() };
    names.add(dir, name.as_bytes(), info, Path::new(""))
}

#[test]
fn a_directory_that_an_unrecorded_program_moved_is_at_its_new_place() {
    let mut names = names();
    let root = names.root();
    let a = add(&mut names, root, "A", 10, DIRECTORY);
    let b = add(&mut names, a, "B", 11, DIRECTORY);
    assert_eq!(names.path(b), Path::new("/A/B"));
    // mv /A/B /B; then a recorded mv /A /B/A
    assert_eq!(add(&mut names, root, "B", 11, DIRECTORY), b);
    names.rename((root, b"A"), (b, b"A"), a, 1);
    assert_eq!(names.path(a), Path::new("/B/A"));
    assert_eq!(names.above(a).collect::<Vec<_>>(), [a, b, root]);
}

#[test]
fn a_directory_does_not_become_a_part_of_itself() {
    let mut names = names();
    let root = names.root();
    let a = add(&mut names, root, "A", 10, DIRECTORY);
    let b = add(&mut names, a, "B", 11, DIRECTORY);
    // The move of B to the root is not known.
    names.rename((root, b"A"), (b, b"A"), a, 1);
    assert_eq!(names.known(b, b"A", 2), Some(a));
    assert_eq!(names.path(b), Path::new("/A/B"));
    // A mount shows the root of its file system again.
    add(&mut names, b, "again", 10, DIRECTORY);
    assert_eq!(names.path(a), Path::new("/A"));
}

#[test]
fn a_call_that_began_before_a_name_changed_sees_the_former_object() {
    let mut names = names();
    let root = names.root();
    let old = add(&mut names, root, "name", 10, FILE);
    let new = names.fresh_key();
    names.make(root, b"new", new, FILE, None, 5);
    names.rename((root, b"new"), (root, b"name"), new, 20);
    assert_eq!(names.known(root, b"name", 10), Some(old));
    assert_eq!(names.known(root, b"name", 20), Some(new));
    assert_eq!(names.known(root, b"new", 20), None);
}

#[test]
fn an_exchange_swaps_two_names() {
    let mut names = names();
    let root = names.root();
    let (one, other) =
        (add(&mut names, root, "1", 10, FILE), add(&mut names, root, "2", 11, DIRECTORY));
    names.exchange((root, b"1"), (root, b"2"), (one, other), 5);
    assert_eq!((names.known(root, b"1", 6), names.known(root, b"2", 6)), (Some(other), Some(one)));
    assert_eq!(names.path(one), Path::new("/2"));
    assert_eq!(names.path(other), Path::new("/1"));
}

#[test]
fn equal_inode_numbers_of_two_subvolumes_are_two_files() {
    let mut names = names();
    let root = names.root();
    // Subvolumes of btrfs have different device numbers, but share one device number in the kernel.
    let kernel = (7, 257);
    let add_on = |names: &mut Names, device, name: &str| {
        let info = Info { key: (device, 257), mode: FILE, links: 1, ..Info::default() };
        names.add(root, name.as_bytes(), info, Path::new(""))
    };
    let (one, other) = (add_on(&mut names, 100, "one"), add_on(&mut names, 101, "other"));
    assert_eq!(names.opened(one, kernel), (one, true));
    assert_eq!(names.of_kernel(kernel), Some(one));
    assert_eq!(names.opened(other, kernel), (other, true));
    assert_eq!(names.of_kernel(kernel), None);
    assert_eq!(names.opened(one, kernel), (one, true));
}

#[test]
fn a_file_that_another_program_replaced_is_noticed() {
    let mut names = names();
    let root = names.root();
    let file = add(&mut names, root, "file", 10, FILE);
    assert_eq!(names.opened(file, (7, 10)), (file, true));
    assert_eq!(names.opened(file, (7, 99)), (file, false));
}

#[test]
fn a_removed_name_is_unknown_and_its_inode_number_can_be_reused() {
    let mut names = names();
    let root = names.root();
    let file = add(&mut names, root, "file", 10, FILE);
    names.set_kernel_inode(file, (7, 10));
    names.link(root, b"second", file, 5);
    names.remove(root, b"file", file);
    assert_eq!(names.known(root, b"file", 9), None);
    assert_eq!(
        (names.known(root, b"second", 9), names.of_kernel((7, 10))),
        (Some(file), Some(file))
    );
    names.remove(root, b"second", file);
    assert!(names.info(file).is_none() && names.of_kernel((7, 10)).is_none());
}
