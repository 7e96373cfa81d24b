//! A leftover tree deeper than the limit of open files.
#![allow(clippy::unwrap_used, reason = "tests may unwrap")]

use std::os::fd::OwnedFd;

use fsdyno_media::{clean, leftovers};
use rustix::fs::{Mode, OFlags, mkdirat, open, openat};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const LEVELS: u32 = 60_000;

/// An impossible process number: the kernel's largest is 2^22.
const GONE: i32 = 4_194_305;

fn enter(dir: &OwnedFd, name: &str) -> OwnedFd {
    openat(dir, name, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap()
}

#[test]
fn a_tree_of_any_depth_is_removed_with_few_descriptors() {
    let base = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let path = base.path().join(format!(".fsdyno-{GONE}-00000000000000aa"));
    std::fs::create_dir_all(path.join("root/deep-1")).unwrap();
    std::fs::write(path.join("root/deep-1/file"), "").unwrap();
    let marker =
        format!("fsdyno works here; made and removed by it\npid {GONE}\nboot of old\nstarted 1\n");
    std::fs::write(path.join("fsdyno.marker"), marker).unwrap();
    let mut dir = open(path.join("root"), OFlags::RDONLY, Mode::empty()).unwrap();
    for level in 0..LEVELS {
        if level % 1000 == 999 {
            let mode = Mode::from_raw_mode(0o600);
            openat(&dir, "file", OFlags::CREATE | OFlags::WRONLY, mode).unwrap();
        }
        mkdirat(&dir, "d", Mode::from_raw_mode(0o755)).unwrap();
        dir = enter(&dir, "d");
    }
    drop(dir);
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), ..limit }).unwrap();
    let found = leftovers(base.path()).unwrap();
    assert_eq!(found.len(), 1);
    let cleaned = clean(&found[0]);
    setrlimit(Resource::Nofile, limit).unwrap();
    cleaned.unwrap();
    assert_eq!(std::fs::read_dir(base.path()).unwrap().count(), 0);
}
