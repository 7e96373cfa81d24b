//! Unpacks an archive of GNU tar with the engine and with GNU tar itself: the trees must be equal.

#![allow(clippy::unwrap_used, reason = "tests may unwrap")]

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
fn create_tree(root: &Path) {
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
        let bytes: Vec<u8> = (0..size).map(|index| (index % 251) as u8).collect();
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
type FileProperties = (u32, i64, u64, Vec<u8>);

fn collect_properties(
    root: &Path,
    relative: &Path,
    properties: &mut BTreeMap<String, FileProperties>,
) {
    for entry in fs::read_dir(root.join(relative)).unwrap() {
        let path = relative.join(entry.unwrap().file_name());
        let full = root.join(&path);
        let status = fs::symlink_metadata(&full).unwrap();
        let contents = match status.file_type() {
            kind if kind.is_symlink() => {
                fs::read_link(&full).unwrap().into_os_string().into_encoded_bytes()
            }
            kind if kind.is_dir() => Vec::new(),
            _ => fs::read(&full).unwrap(),
        };
        let file_properties = (status.mode(), status.mtime(), status.nlink(), contents);
        properties.insert(path.display().to_string(), file_properties);
        if status.is_dir() {
            collect_properties(root, &path, properties);
        }
    }
}

fn tree_properties(root: &Path) -> BTreeMap<String, FileProperties> {
    let mut properties = BTreeMap::new();
    collect_properties(root, Path::new(""), &mut properties);
    properties
}

#[test]
fn the_engine_makes_the_same_tree_as_gnu_tar() {
    let version = Command::new("tar").arg("--version").output();
    let has_gnu_tar = version.is_ok_and(|output| output.stdout.starts_with(b"tar (GNU tar)"));
    // SAFETY: takes no arguments and cannot fail.
    let is_root = unsafe { libc::geteuid() } == 0;
    if !has_gnu_tar || !is_root {
        println!("skipped: this test requires GNU tar and root");
        return;
    }
    for format in ["gnu", "ustar", "posix"] {
        let folder = tempfile::tempdir().unwrap();
        let path_of = |name: &str| folder.path().join(name);
        fs::create_dir(path_of("source")).unwrap();
        create_tree(&path_of("source"));
        let archive = path_of("x.tar");
        let tar = |args: &[&str], folder: &Path| {
            let mut command = Command::new("tar");
            command.arg("-C").arg(folder).args(args).arg(&archive);
            assert!(command.arg(".").status().unwrap().success());
        };
        tar(&[&format!("--format={format}"), "-cf"], &path_of("source"));
        fs::create_dir(path_of("theirs")).unwrap();
        tar(&["-xf"], &path_of("theirs"));
        fs::create_dir(path_of("ours")).unwrap();
        unpack(&path_of("ours"), &fs::read(&archive).unwrap());
        let (gnu_tar_tree, engine_tree) =
            (tree_properties(&path_of("theirs")), tree_properties(&path_of("ours/t")));
        assert_eq!(gnu_tar_tree.len(), 15, "{format}");
        for (path, expected) in &gnu_tar_tree {
            assert_eq!(engine_tree.get(path), Some(expected), "{format}: {path}");
        }
        assert_eq!(engine_tree.len(), gnu_tar_tree.len(), "{format}");
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
    let issued_ops: u64 = recorder.ops().values().map(|op| op.count).sum();
    assert_eq!(issued_ops, work.counts(0, 1).values().sum::<u64>());
    let tree = work.tree(0);
    let report = verify(root.as_fd(), tree.as_ref(), &contents, VerifyMode::Full, 1, &mut |_| {});
    let report = report.unwrap();
    assert_eq!(report.examples, Vec::<String>::new());
    assert_eq!((report.files, report.directories), (10, 6));
}
