#![allow(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::fs;
use std::path::PathBuf;

use super::*;
use crate::{Options, RecordMethod, by_names};

struct Bench {
    recorder: Recorder,
    names: Names,
    top: Key,
    path: PathBuf,
    _dir: tempfile::TempDir,
}

/// A recorder that knows the names of a tree with the directory `d` and a link to it.
fn bench(dir: tempfile::TempDir) -> Bench {
    let path = dir.path().canonicalize().unwrap();
    fs::create_dir(path.join("d")).unwrap();
    std::os::unix::fs::symlink("d", path.join("link")).unwrap();
    let options = Options { how: RecordMethod::Bpf, ..Options::default() };
    let out = tempfile::tempfile().unwrap();
    let mut recorder = by_names(&options, std::slice::from_ref(&path), out).unwrap();
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
        good: bool,
        name_outcome: NameOutcome,
    ) -> Result<Walked, Outside> {
        let (recorder, names) = (&mut self.recorder, &mut self.names);
        let walk = Walk {
            recorder,
            names,
            begin: 1,
            good,
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
fn a_directory_of_an_unrecorded_program_is_found() {
    let mut bench = bench(tempfile::tempdir().unwrap());
    fs::create_dir_all(bench.path.join("d/new")).unwrap();
    // What failed may have done so because `new` did not exist yet.
    let it = bench.walk("d/new/x", false, NameOutcome::Nothing).unwrap();
    assert_eq!((it.dir, it.key, it.beyond), (bench.key("d"), None, 1));
    let it = bench.walk("d/new/x", true, NameOutcome::Made).unwrap();
    assert_eq!((it.dir, it.key, it.beyond), (bench.key("d/new"), None, 0));
    assert_eq!(it.name.unwrap(), b"x");
}

#[test]
fn a_directory_that_is_gone_again_is_made_up_once() {
    let mut bench = bench(tempfile::tempdir().unwrap());
    let it = bench.walk("d/gone/x", true, NameOutcome::Made).unwrap();
    let home = bench.names.home(it.dir).unwrap();
    assert_eq!((home.0, &home.1[..]), (bench.key("d"), &b"gone"[..]));
    assert_eq!(bench.walk("d/gone/y", true, NameOutcome::Made).unwrap().dir, it.dir);
    assert_eq!(bench.recorder.notes.len(), 1, "{:?}", bench.recorder.notes);
}

#[test]
fn a_call_that_failed_because_of_a_name_found_what_another_call_made_meanwhile() {
    let mut bench = bench(tempfile::tempdir().unwrap());
    let (d, made) = (bench.key("d"), bench.names.fresh());
    bench.names.make(d, b"x", made, libc::S_IFDIR | 0o755, None, 5);
    let exists = NameOutcome::There(libc::S_IFREG | 0o644);
    assert_eq!(bench.walk("d/x", false, exists).unwrap().key, Some(made));
    assert_eq!(bench.walk("d/x", false, NameOutcome::Nothing).unwrap().key, None);
    assert_eq!(bench.recorder.notes.len(), 0, "{:?}", bench.recorder.notes);
}

#[test]
fn links_and_dots_lead_where_the_kernel_goes() {
    let mut bench = bench(tempfile::tempdir().unwrap());
    let (top, d) = (bench.top, bench.key("d"));
    let it = bench.walk("./link/../d//x", true, NameOutcome::Made).unwrap();
    assert_eq!((it.dir, it.links), (d, 0));
    let it = bench.walk("link", true, NameOutcome::There(libc::S_IFLNK)).unwrap();
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
    let apart = |path: &str| fs::metadata(path).map(|it| info_device(&it)).ok();
    if apart("/dev/shm") == apart("/dev") || apart("/dev") == apart("/") {
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
