//! The folder in which the lab keeps what it boots: whose it is, what comes into it, and what is believed
//! of it.
#![allow(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

mod common;

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Output};

use common::{as_built, can_run_the_lab, code, fsdyno, stderr, stdout};

/// `fsdyno` with a cache in a folder.
fn with_cache(folder: &Path, cache: &Path, words: &str) -> Output {
    let mut command = fsdyno(folder);
    command.env("XDG_CACHE_HOME", cache).args(words.split_whitespace()).output().unwrap()
}

/// A kernel as far as `fsdyno list kernels` looks.
fn plant(cache: &Path) {
    let root = cache.join("kernels/9.9");
    fs::create_dir_all(root.join("lib/modules/9.9-planted/kernel")).unwrap();
    fs::create_dir_all(root.join("boot")).unwrap();
    fs::write(root.join("boot/vmlinuz-9.9-planted"), "").unwrap();
}

#[test]
fn a_cache_that_others_can_change_is_refused_before_any_work() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("own");
    plant(&cache.join("fsdyno"));
    let listed = with_cache(folder.path(), &cache, "list kernels");
    assert!(stdout(&listed).contains("9.9-planted"), "{}", stderr(&listed));
    let commands = ["list kernels", "run dirops --fs ext4 --out out", "doctor --clear-caches"];
    let refused = |why: &str| {
        for words in commands {
            let output = with_cache(folder.path(), &cache, words);
            let said = stderr(&output);
            assert_eq!(code(&output), 2, "{words}: {said}");
            assert!(said.contains(why) && said.contains("XDG_CACHE_HOME="), "{words}: {said}");
        }
        assert!(!folder.path().join("out").exists());
        let doctor = with_cache(folder.path(), &cache, "doctor");
        assert_eq!(code(&doctor), 3);
        assert!(stdout(&doctor).contains(why), "{}", stdout(&doctor));
    };
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o777)).unwrap();
    refused("other users may write to");
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o700)).unwrap();
    if chown(cache.join("fsdyno"), Some(65534), None).is_ok() {
        refused("belongs to the user 65534");
    }
}

#[test]
fn without_a_home_nothing_in_the_folder_of_temporary_files_is_believed() {
    let folder = tempfile::tempdir().unwrap();
    let user = rustix::process::geteuid().as_raw();
    plant(&folder.path().join(format!("fsdyno-cache-{user}")));
    let mut list = fsdyno(folder.path());
    list.env_remove("XDG_CACHE_HOME").env_remove("HOME").env("TMPDIR", folder.path());
    let output = list.args(["list", "kernels"]).output().unwrap();
    assert!(!stdout(&output).contains("9.9-planted"), "{}", stdout(&output));
}

/// A folder of programs in place of apt's, whose package is not the one that its list names.
fn apt(folder: &Path) {
    let put = |name: &str, script: &str| {
        let path = folder.join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    put(
        "apt-cache",
        "[ $1 = pkgnames ] || shift 6; [ $1 = pkgnames ] && echo linux-image-9.9-amd64",
    );
    put(
        "apt-get",
        "case \"$*\" in\n\
         *--print-uris*) echo \"'http://x/a.deb' a.deb 8 SHA256:$(echo listed | sha256sum | cut -c 1-64)\";;\n\
         *) echo another >a.deb;;\nesac",
    );
    put("dpkg-deb", &format!("touch {}/unpacked", folder.display()));
}

#[test]
fn a_package_that_is_not_the_listed_one_is_not_unpacked() {
    if !can_run_the_lab() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    apt(folder.path());
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let mut run = Command::new(as_built());
    run.current_dir(folder.path())
        .env("XDG_CACHE_HOME", folder.path().join("cache"))
        .env("PATH", path)
        .args("run dirops --fs ext4 --kernel 9.9 --out out".split(' '));
    let output = run.output().unwrap();
    let said = stderr(&output);
    assert_eq!(code(&output), 3, "{said}");
    assert!(
        said.contains("a.deb has the SHA-256 ") && said.contains(", and the list says "),
        "{said}"
    );
    assert!(!folder.path().join("unpacked").exists(), "{said}");
    let left: Vec<_> =
        fs::read_dir(folder.path().join("cache/fsdyno")).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "only the empty folder of kernels: {left:?}");
}
