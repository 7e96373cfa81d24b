//! The lab's cache: its owner, its content, and the checks before it is trusted.
#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::{PROGRAM, can_run_the_lab, code, fsdyno, stderr, stdout};

/// Runs `fsdyno` with a cache in a folder.
fn with_cache(folder: &Path, cache: &Path, args: &str) -> Output {
    let mut command = fsdyno(folder);
    command.env("XDG_CACHE_HOME", cache).args(args.split_whitespace()).output().unwrap()
}

/// Creates the files of a kernel that `fsdyno list kernels` inspects.
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
        for args in commands {
            let output = with_cache(folder.path(), &cache, args);
            let message = stderr(&output);
            assert_eq!(code(&output), 2, "{args}: {message}");
            assert!(
                message.contains(why) && message.contains("XDG_CACHE_HOME="),
                "{args}: {message}"
            );
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
        refused("belongs to user 65534");
    }
}

#[test]
fn without_a_home_nothing_in_the_temporary_directory_is_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let user = rustix::process::geteuid().as_raw();
    plant(&folder.path().join(format!("fsdyno-cache-{user}")));
    let mut list = fsdyno(folder.path());
    list.env_remove("XDG_CACHE_HOME").env_remove("HOME").env("TMPDIR", folder.path());
    let output = list.args(["list", "kernels"]).output().unwrap();
    assert!(!stdout(&output).contains("9.9-planted"), "{}", stdout(&output));
}

/// Stand-ins for apt's programs, and `fsdyno` with these and its own cache.
struct Apt {
    folder: tempfile::TempDir,
}

impl Apt {
    fn new() -> Apt {
        let apt = Apt { folder: tempfile::tempdir().unwrap() };
        apt.put("dpkg-deb", "touch $(dirname $0)/unpacked");
        apt
    }

    fn put(&self, name: &str, script: &str) {
        let path = self.folder.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Returns the path of an entry of the cache.
    fn cached(&self, name: &str) -> PathBuf {
        self.folder.path().join("cache/fsdyno").join(name)
    }

    fn run(&self, args: &str) -> Output {
        let path = format!("{}:{}", self.folder.path().display(), std::env::var("PATH").unwrap());
        let mut run = Command::new(PROGRAM);
        run.current_dir(&self.folder)
            .env("XDG_CACHE_HOME", self.folder.path().join("cache"))
            .env("PATH", path)
            .args("run dirops --fs ext4 --kernel 9.9 --out out".split(' '))
            .args(args.split_whitespace());
        run.output().unwrap()
    }
}

/// A script that prints a package list with one kernel, whose package contains the word `listed`.
const LIST: &str = "printf 'Package: linux-image-9.9-amd64\\nVersion: 1\\nSHA256: %s\\n' \
                    $(echo listed | sha256sum | cut -c 1-64)";

/// Returns the same script for the case that apt has a separate folder of lists.
fn only_in_suites() -> String {
    format!("case \"$*\" in *Dir::State::Lists=*) {LIST};; esac")
}

#[test]
fn a_package_that_is_not_the_listed_one_or_holds_no_kernel_is_not_used() {
    if !can_run_the_lab() {
        return;
    }
    for (word, why) in [
        ("another", "linux-image-9.9-amd64_1_amd64.deb has the SHA-256 "),
        ("listed", "the packages of 9.9-amd64 contain no kernel image with modules"),
    ] {
        let apt = Apt::new();
        apt.put("apt-cache", LIST);
        apt.put("apt-get", &format!("echo {word} >linux-image-9.9-amd64_1_amd64.deb"));
        let output = apt.run("");
        let message = stderr(&output);
        assert_eq!(code(&output), 3, "{message}");
        assert!(message.contains(why), "{message}");
        let unpacked = apt.folder.path().join("unpacked").exists();
        assert_eq!(unpacked, word == "listed", "{message}");
        let left: Vec<_> = fs::read_dir(apt.cached("")).unwrap().flatten().collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn package_lists_are_fetched_once_and_not_used_if_they_were_altered() {
    if !can_run_the_lab() {
        return;
    }
    let apt = Apt::new();
    apt.put("apt-cache", &only_in_suites());
    // A suite that is gone does not prevent the use of the others.
    apt.put(
        "apt-get",
        "echo x >>$(dirname $0)/updates; echo 'Get:1 x InRelease'; echo 'E: gone' >&2; exit 100",
    );
    let looked_up = |times: usize| {
        let output = apt.run("--dry-run");
        let message = stderr(&output);
        assert_eq!(code(&output), 0, "{message}");
        assert!(message.contains("kernel 9.9-amd64 is not installed"), "{message}");
        let updates = fs::read_to_string(apt.folder.path().join("updates")).unwrap();
        assert_eq!(updates.lines().count(), times, "{message}");
        message
    };
    assert!(looked_up(1).contains("apt-get update failed: E: gone"));
    looked_up(1);
    let list_path = apt.cached("apt/kernels");
    let list = fs::read_to_string(&list_path).unwrap();
    let altered = list.replace("Version: 1", "Version: 2");
    assert_ne!(altered, list);
    fs::write(&list_path, &altered).unwrap();
    looked_up(2);
    // Without a network, only unaltered lists can be used.
    apt.put("apt-get", "echo 'Err:1 x InRelease'; echo 'E: no network' >&2; exit 100");
    fs::write(&list_path, &altered).unwrap();
    let output = apt.run("--dry-run");
    assert_eq!(code(&output), 3, "{}", stderr(&output));
    assert!(
        stderr(&output).contains("apt-get update failed: E: no network"),
        "{}",
        stderr(&output)
    );
    fs::write(&list_path, &list).unwrap();
    looked_up(2);
}
