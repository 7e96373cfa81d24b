//! Each command of the README can be repeated.
#![allow(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

mod common;

use std::path::Path;
use std::process::{Command, Stdio};

use common::{STUDY, can_mount, can_run_the_lab, code, run, stderr};

/// The requirements of a command.
#[derive(Clone, Copy, PartialEq)]
enum Needs {
    Nothing,
    Mounts,
    Lab,
}
use Needs::{Lab, Mounts, Nothing};

/// The beginning of a command of the README, its requirements, and a small version of it. In the lab, commands with
/// a new folder are only planned.
const SMALL: &[(&str, Needs, &[&str])] = &[
    ("run dirops --on . --set files=50000", Nothing, &["run dirops --on . --set files=50"]),
    (
        "run dirops tarball --on /srv/scratch",
        Nothing,
        &["run dirops tarball --set dirops.files=20 --set tarball.files=20 --on . --repeat 2"],
    ),
    (
        "run dirops --on loop:8G",
        Mounts,
        &["run dirops --on loop:16M --fs ext4 --fs ext2 --set files=20"],
    ),
    (
        "run dirops --on loop:2G --on ram:2G",
        Mounts,
        &["run dirops --on loop:16M --on ram:16M --fs ext4 --set files=20"],
    ),
    // Needs a drive: tests/dangerous.rs runs one twice.
    ("run dirops --on /dev/disk/by-id/usb-...", Nothing, &[]),
    ("run dirops --fs ext4 --fs xfs --fs btrfs", Lab, &["run dirops --fs ext4 --fs xfs --dry-run"]),
    ("run tarball --fs 'ext4 -I 128'", Lab, &["run tarball --fs ext4 --set files=200 --dry-run"]),
    ("run dirops --fs ext4 --fs 'linear=", Lab, &["run dirops --fs ext4 --disk instant --dry-run"]),
    (
        "run dirops --fs ext4,xfs --machine server-2026",
        Lab,
        &["run dirops --fs ext4,xfs --machine server-2026 --machine desktop-2008 --dry-run"],
    ),
    ("list machines", Nothing, &["list machines"]),
    ("list workloads", Nothing, &["list workloads"]),
    ("show workload tarball", Nothing, &["show workload tarball"]),
    ("doctor", Lab, &["doctor"]),
    (
        "run dirops --fs ext4 --fs xfs --repeat 20 --shard 1/8 --out share-1",
        Nothing,
        &[
            "run dirops --on . --set files=30 --repeat 2 --shard 1/2 --out share-1",
            "run dirops --on . --set files=30 --repeat 2 --shard 2/2 --out share-2",
        ],
    ),
    ("record -o build.trace", Nothing, &["record -o build.trace -- true"]),
    ("show trace build.trace", Nothing, &["show trace build.trace"]),
    ("merge whole share-*", Nothing, &["merge whole share-1 share-2"]),
    (
        "compare base new --threshold 3%",
        Nothing,
        &[
            "run dirops --on . --set files=30 --repeat 2 --out base",
            "run dirops --on . --set files=30 --repeat 2 --out new",
            "compare base new --threshold 3% --format mail",
        ],
    ),
    (
        "why base --against new",
        Lab,
        &[
            "run dirops --fs ext4 --disk instant --set files=20 --out lab",
            "why lab --phase delete --out pictures",
        ],
    ),
    ("crash maildir", Lab, &["crash dirops --set files=20 --fs ext4 --size 64M --cuts 2"]),
    ("list studies", Nothing, &["list studies"]),
    ("study guenter-2008", Lab, &["study guenter-2008 --scale 1/10 --dry-run"]),
    ("study ./my-study.toml", Nothing, &["study ./my-study.toml --out study"]),
    ("fit /dev/sdb --out mine.toml", Nothing, &["fit a-drive --seconds 5 --out mine.toml"]),
    (
        "run tarball --fs ext3 --fs ext4 --period 2008",
        Lab,
        &["run tarball --fs ext3 --period 2008 --dry-run"],
    ),
    (
        "run dirops --fs ext4 --age none --age",
        Lab,
        &["run dirops --fs ext4 --age fill=50% --dry-run"],
    ),
    ("run capacity", Lab, &["run capacity --fs ext4 --size 64M --dry-run"]),
    (
        "run dirops --set curve=1000..8000x2",
        Lab,
        &["run dirops --set curve=100..200x2 --fs ext4 --disk instant --dry-run"],
    ),
    (
        "run postmark --set config=mail.pmrc",
        Nothing,
        &["run postmark --set config=mail.pmrc --on . --out pm", "report pm --format original"],
    ),
    ("run churn --set seconds=60", Nothing, &["run churn --set seconds=1 --threads 2 --on ."]),
    (
        "run dirops --on /srv/scratch --issuer",
        Nothing,
        &["run dirops --on . --issuer null --set files=20"],
    ),
];

fn readme() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md")).unwrap()
}

/// The commands of the README, without `fsdyno` and what follows as a comment.
fn commands(readme: &str) -> Vec<&str> {
    let lines = readme.lines().filter_map(|line| line.strip_prefix("    "));
    let commands = lines.map(|line| line.strip_prefix("sudo ").unwrap_or(line));
    commands.filter_map(|line| line.strip_prefix("fsdyno ")).map(str::trim).collect()
}

#[test]
fn each_command_of_the_readme_succeeds_a_second_time() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("my-study.toml"), STUDY).unwrap();
    std::fs::write(at("mail.pmrc"), "set number 20\nset transactions 20\nrun\nquit\n").unwrap();
    std::fs::write(at("a-drive"), vec![1; 32 << 20]).unwrap();
    let readme = readme();
    let commands = commands(&readme);
    assert!(commands.len() > 20, "{commands:?}");
    let here = |needs| match needs {
        Nothing => true,
        Mounts => can_mount(),
        Lab => can_run_the_lab(),
    };
    for command in commands {
        let known = SMALL.iter().filter(|(begin, ..)| command.starts_with(begin));
        let longest = known.max_by_key(|(begin, ..)| begin.len());
        let (_, needs, small) = longest.unwrap_or_else(|| panic!("no small variant of: {command}"));
        if !here(*needs) {
            continue;
        }
        for time in ["the first time", "the second time"] {
            for words in *small {
                let output = match needs {
                    Lab => common::lab::fsdyno(common::PROGRAM.as_ref(), folder.path(), words)
                        .output()
                        .unwrap(),
                    _ => run(folder.path(), words),
                };
                assert_eq!(code(&output), 0, "{words}, {time}: {}", stderr(&output));
            }
        }
    }
}

/// A program in the place of fsdyno: there is no lab, and the demo is small.
const SMALL_DEMO: &str = r#"#!/bin/sh
[ "$1" != doctor ] || exit 3
for word; do
    shift
    case $word in
    *.files=*) word=${word%%=*}=20 ;;
    esac
    set -- "$@" "$word"
done
exec "$FSDYNO" "$@"
"#;

#[test]
fn make_demo_succeeds_a_second_time() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("fsdyno");
    std::fs::write(&program, SMALL_DEMO).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/demo.sh");
    for time in ["first", "second"] {
        let output = Command::new("sh")
            .arg(&demo)
            .arg(&program)
            .current_dir(folder.path())
            .env("FSDYNO", env!("CARGO_BIN_EXE_fsdyno"))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_eq!(code(&output), 0, "{time}: {}", stderr(&output));
        let results = folder.path().join("fsdyno-results/demo");
        // Whether there is a series, too, depends on how long the phases take here.
        assert!(results.join("report.html").is_file());
        assert_eq!(common::lines(&results), 6, "{time}");
    }
}
