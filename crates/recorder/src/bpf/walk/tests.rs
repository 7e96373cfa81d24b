#![allow(clippy::unwrap_used, reason = "tests may unwrap")]

use std::fs;
use std::path::PathBuf;

use super::*;
use crate::{Options, RecordMethod, recorder_with_names};

struct Bench {
    recorder: Recorder,
    names: Names,
    top: Key,
    path: PathBuf,
    _dir: tempfile::TempDir,
}

/// Creates a recorder that knows the names of a tree with the directory `d` and a link to it.
fn bench(dir: tempfile::TempDir) -> Bench {
    let path = dir.path().canonicalize().unwrap();
    fs::create_dir(path.join("d")).unwrap();
    std::os::unix::fs::symlink("d", path.join("link")).unwrap();
    let options = Options { how: RecordMethod::Bpf, ..Options::default() };
    let out = tempfile::tempfile().unwrap();
    let mut recorder = recorder_with_names(&options, std::slice::from_ref(&path), out).unwrap();
    let mut names = recorder.names.take().unwrap();
    names.begin();
    names.wait_for_tick();
    let top = names.reach(&path).unwrap();
    Bench { recorder, names, top, path, _dir: dir }
}

impl Bench {
    fn walk(
        &mut self,
        text: &str,
        succeeded: bool,
        name_outcome: NameOutcome,
    ) -> Result<Walked, Outside> {
        let (recorder, names) = (&mut self.recorder, &mut self.names);
        let walk = Walk {
            recorder,
            names,
            begin: 1,
            succeeded,
            name_outcome: Some(name_outcome),
            follow: false,
        };
        walk.path(self.top, text.as_bytes())
    }

    fn key(&mut self, path: &str) -> Key {
        self.names.reach(&self.path.join(path)).unwrap()
    }
}

#[test]
fn a_directory_created_by_an_unrecorded_program_is_found() {
    let mut bench = bench(tempfile::tempdir().unwrap());
    fs::create_dir_all(bench.path.join("d/new")).unwrap();
    // A failed call may have failed because `new` did not exist yet.
    let it = bench.walk("d/new/x", false, NameOutcome::Nothing).unwrap();
    assert_eq!((it.dir, it.key, it.beyond), (bench.key("d"), None, 1));
    let it = bench.walk("d/new/x", true, NameOutcome::Made).unwrap();
    assert_eq!((it.dir, it.key, it.beyond), (bench.key("d/new"), None, 0));
    assert_eq!(it.name.unwrap(), b"x");
}

#[test]
fn a_directory_that_was_removed_again_is_added_once() {
    let mut bench = bench(tempfile::tempdir().unwrap());
    let it = bench.walk("d/gone/x", true, NameOutcome::Made).unwrap();
    let parent = bench.names.parent_and_name(it.dir).unwrap();
    assert_eq!((parent.0, &parent.1[..]), (bench.key("d"), &b"gone"[..]));
    assert_eq!(bench.walk("d/gone/y", true, NameOutcome::Made).unwrap().dir, it.dir);
    assert_eq!(bench.recorder.notes.len(), 1, "{:?}", bench.recorder.notes);
}

#[test]
fn a_call_that_failed_with_eexist_sees_a_name_that_another_call_just_created() {
    let mut bench = bench(tempfile::tempdir().unwrap());
    let (d, made) = (bench.key("d"), bench.names.fresh_key());
    bench.names.make(d, b"x", made, libc::S_IFDIR | 0o755, None, 5);
    let exists = NameOutcome::Exists(libc::S_IFREG | 0o644);
    assert_eq!(bench.walk("d/x", false, exists).unwrap().key, Some(made));
    assert_eq!(bench.walk("d/x", false, NameOutcome::Nothing).unwrap().key, None);
    assert_eq!(bench.recorder.notes.len(), 0, "{:?}", bench.recorder.notes);
}

#[test]
fn links_and_dots_are_resolved_as_in_the_kernel() {
    let mut bench = bench(tempfile::tempdir().unwrap());
    let (top, d) = (bench.top, bench.key("d"));
    let it = bench.walk("./link/../d//x", true, NameOutcome::Made).unwrap();
    assert_eq!((it.dir, it.links), (d, 0));
    let it = bench.walk("link", true, NameOutcome::Exists(libc::S_IFLNK)).unwrap();
    assert_eq!((it.dir, it.links), (top, 0));
    let it = bench.walk("link/", true, DIRECTORY).unwrap();
    assert_eq!((it.dir, it.key, it.links), (top, Some(d), 1));
}

#[test]
fn a_loop_of_links_ends() {
    let mut bench = bench(tempfile::tempdir().unwrap());
    std::os::unix::fs::symlink("round", bench.path.join("round")).unwrap();
    let it = bench.walk("round/x", true, NameOutcome::Made);
    assert!(it.is_err_and(|it| it.0 == Object::None));
}

#[test]
fn files_in_a_file_system_mounted_below_dev_are_recorded() {
    let device_of = |path: &str| fs::metadata(path).map(|it| info_device(&it)).ok();
    if device_of("/dev/shm") == device_of("/dev") || device_of("/dev") == device_of("/") {
        eprintln!("skipped: /dev/shm is not a separate file system");
        return;
    }
    let mut bench = bench(tempfile::tempdir_in("/dev/shm").unwrap());
    let text = bench.path.join("d/x");
    let it = bench.walk(text.to_str().unwrap(), true, NameOutcome::Made).unwrap();
    assert_eq!(it.dir, bench.key("d"));
    let it = bench.walk("/dev/x", true, NameOutcome::Made);
    assert!(it.is_err_and(|it| it.0 == Object::Kernel));
}

fn info_device(it: &fs::Metadata) -> u64 {
    crate::bpf::names::info(it).key.0
}
