//! Bad input fails before any work, in one line with what would be right.

mod common;

use common::{code, fsdyno, run, stderr};

/// What is typed, the exit code, and a part of the one line that is said.
const CASES: &[(&str, i32, &str)] = &[
    ("run dirop", 2, "no workload 'dirop'; did you mean 'dirops'?"),
    ("run dirops dirops", 2, "named twice"),
    ("run dirops --fs ext5", 2, "'ext"),
    ("run dirops --fs ext4 --fs ext4", 2, "two file systems are called 'ext4'"),
    ("run dirops --disk hdd-720", 2, "did you mean 'hdd-7200'?"),
    ("run tarball --set archive=a-file", 2, "--set archive=a-file: is no tar archive"),
    ("run tarball --set archive=nowhere", 2, "--set archive=nowhere: cannot be read"),
    ("run tarball --set archive=a-file --set files=5", 2, "files=5 is for an archive that is made"),
    ("run dirops --set fils=5", 2, "did you mean 'files'?"),
    ("run dirops --set files=many", 2, "files=many is not right"),
    ("run dirops --set files", 2, "has no value"),
    ("run dirops --set tarball.files=5", 2, "for workload 'tarball', which is not run"),
    ("run dirops --scheduler mq-dedline", 2, "did you mean 'mq-deadline'?"),
    ("run dirops --ram 10M", 2, "--ram"),
    ("run dirops --size 1K", 2, "too small for ext4"),
    ("run dirops --size 1000T", 2, "more than disk"),
    ("run dirops --sysctl dirty", 2, "vm.dirty_ratio=10"),
    ("run dirops --threads 0", 2, "--threads"),
    ("run dirops --on loop:4G", 2, "there are: lab, or a directory"),
    ("run dirops --on ram:1G", 2, "there are: lab, or a directory"),
    ("run dirops --on /dev/null", 2, "there are: lab, or a directory"),
    ("run dirops --on nowhere", 2, "no medium and no directory 'nowhere'"),
    ("run dirops --on ./nowhere", 2, "mkdir -p"),
    ("run dirops --on a-file", 2, "not a directory"),
    ("run dirops --on . --fs ext4", 2, "leave --fs out"),
    ("run dirops --on . --disk instant", 2, "--disk is for the lab"),
    ("run dirops --on . --set files=99999999999", 2, "not right"),
    ("run dirops --on . --out a-file", 2, "is not a folder"),
    ("run dirops --on . --out .", 2, "holds no trials.ndjson"),
    ("run dirops --on . --out /proc/fsdyno", 2, "/proc/fsdyno"),
    ("run dirops --on . --dry-run --format csv", 2, "text or json"),
    ("show workload dirop", 2, "did you mean 'dirops'?"),
    ("show filesystem riserfs", 2, "did you mean 'reiserfs'?"),
    ("show disk hdd", 2, "no disk 'hdd'"),
    ("report nowhere", 2, "nowhere"),
    ("doctor --clean nowhere", 2, "does not exist"),
];

#[test]
fn every_mistake_is_one_line_with_its_exit_code_and_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a-file"), "mine").unwrap();
    for (words, exit, part) in CASES {
        let output = run(folder.path(), words);
        let said = stderr(&output);
        assert_eq!(code(&output), *exit, "fsdyno {words}: {said}");
        assert!(said.contains(part), "fsdyno {words}: {said}");
        assert_eq!(said.lines().count(), 1, "fsdyno {words}: {said}");
        assert!(output.stdout.is_empty(), "fsdyno {words}");
    }
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn what_no_table_knows_is_wrong_use_too() {
    let folder = tempfile::tempdir().unwrap();
    for words in ["", "runn", "run", "run dirops --jobs 0", "run dirops --repeat 0", "list all"] {
        let output = run(folder.path(), words);
        assert_eq!(code(&output), 2, "fsdyno {words}");
    }
}

#[test]
fn a_missing_qemu_is_named_with_the_command_that_brings_it() {
    let folder = tempfile::tempdir().unwrap();
    let output = fsdyno(folder.path())
        .args(["run", "dirops", "--fs", "ext4"])
        .env("PATH", "/nonexistent")
        .output()
        .unwrap();
    if std::path::Path::new("/usr/sbin/qemu-system-x86_64").exists() {
        println!("skipped: this host has QEMU where it is found without PATH");
        return;
    }
    assert_eq!(code(&output), 3, "{}", stderr(&output));
    assert!(stderr(&output).contains("apt-get install qemu-system-x86"), "{}", stderr(&output));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_dry_run_needs_no_qemu_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let output = fsdyno(folder.path())
        .args(["run", "dirops", "--fs", "ext4 -I 128", "--repeat", "2", "--dry-run"])
        .env("PATH", "/nonexistent")
        .output()
        .unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = common::stdout(&output);
    assert!(text.contains("-I 128") && text.contains("10000 create"), "{text}");
    assert!(text.contains("2 trials in this order: 1/1 1/2"), "{text}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
