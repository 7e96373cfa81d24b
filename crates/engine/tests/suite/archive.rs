//! Unpacks an archive of GNU tar with the engine and with GNU tar itself: the trees must be equal.

#![allow(clippy::unwrap_used, reason = "a test may")]

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use fsdyno_engine::issue::sync::SyncIssuer;
use fsdyno_engine::{Recorder, run_phase, verify};
use fsdyno_record::plan::VerifyMode;
use fsdyno_workload::{Contents, Input, Setting, Share, workloads};

/// A tree with every kind of file, all with old times.
fn make(root: &Path) {
    fs::create_dir_all(root.join("d/deep/deeper")).unwrap();
    fs::create_dir(root.join("private")).unwrap();
    let long = format!("{}/{}", "l".repeat(90), "n".repeat(90));
    fs::create_dir(root.join(&long[..90])).unwrap();
    for (name, size, mode) in [
        ("d/empty", 0, 0o644),
        ("d/small", 17, 0o600),
        ("d/deep/big", 300_000, 0o4755),
        ("d/deep/deeper/f", 10_240, 0o640),
        ("private/key", 5, 0o400),
        (&long, 513, 0o666),
    ] {
        let bytes: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
        fs::write(root.join(name), bytes).unwrap();
        fs::set_permissions(root.join(name), PermissionsExt::from_mode(mode)).unwrap();
    }
    fs::hard_link(root.join("d/deep/big"), root.join("d/other-name")).unwrap();
    symlink("small", root.join("d/near")).unwrap();
    symlink("../../small", root.join("d/deep/out")).unwrap();
    symlink("/etc/passwd", root.join("absolute")).unwrap();
    for (name, mode) in [("private", 0o700), ("d/deep", 0o2775), ("d", 0o1777)] {
        fs::set_permissions(root.join(name), PermissionsExt::from_mode(mode)).unwrap();
    }
    let touch = "find . -depth -exec touch -h -d '2001-02-03 04:05:06 UTC' {} +";
    assert!(Command::new("sh").args(["-c", touch]).current_dir(root).status().unwrap().success());
}

/// The compared properties of one path: mode, seconds, links, size or target, contents.
type Seen = (u32, i64, u64, Vec<u8>);

fn look(root: &Path, below: &Path, seen: &mut BTreeMap<String, Seen>) {
    for entry in fs::read_dir(root.join(below)).unwrap() {
        let path = below.join(entry.unwrap().file_name());
        let full = root.join(&path);
        let status = fs::symlink_metadata(&full).unwrap();
        let contents = match status.file_type() {
            kind if kind.is_symlink() => {
                fs::read_link(&full).unwrap().into_os_string().into_encoded_bytes()
            }
            kind if kind.is_dir() => Vec::new(),
            _ => fs::read(&full).unwrap(),
        };
        let all = (status.mode(), status.mtime(), status.nlink(), contents);
        seen.insert(path.display().to_string(), all);
        if status.is_dir() {
            look(root, &path, seen);
        }
    }
}

fn tree(root: &Path) -> BTreeMap<String, Seen> {
    let mut seen = BTreeMap::new();
    look(root, Path::new(""), &mut seen);
    seen
}

#[test]
fn the_engine_makes_the_same_tree_as_gnu_tar() {
    let version = Command::new("tar").arg("--version").output();
    let gnu = version.is_ok_and(|output| output.stdout.starts_with(b"tar (GNU tar)"));
    // SAFETY: takes nothing and cannot fail.
    let root = unsafe { libc::geteuid() } == 0;
    if !gnu || !root {
        println!("skipped: it takes GNU tar and root, whose calls these are");
        return;
    }
    for format in ["gnu", "ustar", "posix"] {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("source")).unwrap();
        make(&at("source"));
        let archive = at("x.tar");
        let tar = |words: &[&str], folder: &Path| {
            let mut command = Command::new("tar");
            command.arg("-C").arg(folder).args(words).arg(&archive);
            assert!(command.arg(".").status().unwrap().success());
        };
        tar(&[&format!("--format={format}"), "-cf"], &at("source"));
        fs::create_dir(at("theirs")).unwrap();
        tar(&["-xf"], &at("theirs"));
        fs::create_dir(at("ours")).unwrap();
        unpack(&at("ours"), &fs::read(&archive).unwrap());
        let (theirs, ours) = (tree(&at("theirs")), tree(&at("ours/t")));
        assert_eq!(theirs.len(), 15, "{format}");
        for (path, right) in &theirs {
            assert_eq!(ours.get(path), Some(right), "{format}: {path}");
        }
        assert_eq!(ours.len(), theirs.len(), "{format}");
    }
}

/// Extracts the archive, verifies every byte, and leaves the tree.
fn unpack(folder: &Path, bytes: &[u8]) {
    let input = Some(Input::new(bytes.to_vec()));
    let kind = workloads::find("tarball").unwrap();
    let set = kind.resolve(&[("archive", "x.tar")]).unwrap();
    let work = kind.build(&set, &Setting { seed: 1, input: input.clone() }).unwrap();
    let contents = Arc::new(Contents::new(1).with_input(input));
    let root = fs::File::open(folder).unwrap();
    let mut issuer = SyncIssuer::new(root.try_clone().unwrap().into(), Arc::clone(&contents));
    let mut recorder = Recorder::new();
    let mut ops = work.ops(0, Share::WHOLE);
    run_phase(ops.as_mut(), &mut issuer, &mut recorder, &mut |_| {}).unwrap();
    let made: u64 = recorder.ops().values().map(|op| op.count).sum();
    assert_eq!(made, work.counts(0, 1).values().sum::<u64>());
    let tree = work.tree(0);
    let seen = verify(root.as_fd(), tree.as_ref(), &contents, VerifyMode::Full, 1, &mut |_| {});
    let seen = seen.unwrap();
    assert_eq!(seen.examples, Vec::<String>::new());
    assert_eq!((seen.files, seen.directories), (10, 6));
}
