//! Each command of the README can be repeated.
#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

mod common;

use std::path::Path;

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
    (
        "run dirops --on . --set files=5000",
        Nothing,
        &["run dirops --on . --set files=50 --repeat 2"],
    ),
    ("run maildir --set ops=1000", Lab, &["run maildir --set ops=20 --fs ext4,xfs --dry-run"]),
    (
        "run dirops --kernel 5.10..7.3",
        Lab,
        &["run dirops --fs ext4,xfs --repeat 3 --boot snapshot --dry-run"],
    ),
    // Needs a result of two kernels: tests/lab/kernels.rs has one.
    ("compare kernels --by kernel", Nothing, &[]),
    ("run command", Nothing, &["run command --set command=true --on ."]),
    ("tune maildir", Lab, &["tune dirops --set files=200 --fs ext4 --dry-run"]),
    // tests/lab/crash.rs tests it into a new folder, and its second run into the same.
    (
        "crash maildir",
        Lab,
        &["crash dirops --set files=20 --fs ext4 --size 64M --cuts 2 --dry-run"],
    ),
    ("crash replay", Lab, &["crash replay --set trace=build.trace --fs ext4 --cuts 2 --dry-run"]),
    ("import make.strace", Nothing, &["import make.strace --from strace -o make.trace"]),
    ("record -o build.trace", Nothing, &["record -o build.trace -- true"]),
    (
        "run replay --set trace=build.trace",
        Nothing,
        &[
            "record -o build.trace -- cp my-study.toml copy.toml",
            "run replay --set trace=build.trace --on .",
        ],
    ),
    ("study phillips-2001 --only", Lab, &["study phillips-2001 --only forward --dry-run"]),
    ("study guenter-2008", Lab, &["study guenter-2008 --scale 1/10 --dry-run"]),
    ("list workloads", Nothing, &["list workloads", "list results"]),
    ("show workload tarball", Nothing, &["show workload tarball"]),
    (
        "run tarball --fs ext3 --fs ext4 --period 2008",
        Lab,
        &["run tarball --fs ext3 --period 2008 --dry-run"],
    ),
    (
        "run dirops --fs ext4,xfs --repeat 3 --name base",
        Nothing,
        &["run dirops --on . --set files=30 --out fsdyno-results/a --name first"],
    ),
    ("report base --charts", Nothing, &["report first --charts figures"]),
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
        "run dirops --on loop:8G",
        Mounts,
        &["run dirops --on loop:16M --fs ext4 --fs ext2 --set files=20"],
    ),
    // Needs a drive of 1 GiB or more: the tests of crates/fit fit a simulated one.
    ("fit /dev/sdb --out mine.toml", Nothing, &[]),
];

fn readme() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md")).unwrap()
}

/// Returns the commands of the README, without `fsdyno`.
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
    let calls = "openat(AT_FDCWD, \"a\", O_WRONLY|O_CREAT, 0644) = 3\nclose(3) = 0\n";
    std::fs::write(at("make.strace"), calls).unwrap();
    let readme = readme();
    let commands = commands(&readme);
    assert!(commands.len() > 10, "{commands:?}");
    let is_possible = |needs| match needs {
        Nothing => true,
        Mounts => can_mount(),
        Lab => can_run_the_lab(),
    };
    for command in commands {
        let known = SMALL.iter().filter(|(start, ..)| command.starts_with(start));
        let longest = known.max_by_key(|(start, ..)| start.len());
        let (_, needs, small) = longest.unwrap_or_else(|| panic!("no small variant of: {command}"));
        if !is_possible(*needs) {
            continue;
        }
        for time in ["the first time", "the second time"] {
            for args in *small {
                let output = match needs {
                    Lab => common::lab::fsdyno(common::PROGRAM.as_ref(), folder.path(), args)
                        .output()
                        .unwrap(),
                    _ => run(folder.path(), args),
                };
                assert_eq!(code(&output), 0, "{args}, {time}: {}", stderr(&output));
            }
        }
    }
}

/// Returns the blocks of output in the README, each with the source that the preceding comment names.
fn quoted(readme: &str) -> Vec<(&str, &str)> {
    let parts = readme.split("<!-- from: ").skip(1);
    parts
        .map(|part| {
            let (source, rest) = part.split_once(" -->\n").unwrap();
            let block = rest.strip_prefix("```text\n").unwrap_or_else(|| panic!("{source}"));
            (source, block.split_once("\n```").unwrap().0)
        })
        .collect()
}

#[test]
fn output_in_the_readme_is_that_of_the_results_in_the_repository() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let readme = readme();
    let quoted = quoted(&readme);
    assert!(!quoted.is_empty());
    for (source, block) in quoted {
        let text = match source.strip_prefix("fsdyno ") {
            Some(args) => common::stdout(&run(Path::new(root), args)),
            None => std::fs::read_to_string(Path::new(root).join(source)).unwrap(),
        };
        let mut lines = text.lines();
        for line in block.lines().filter(|line| !["", "..."].contains(line)) {
            assert!(lines.any(|it| it == line), "not in {source}, or in another order: {line}");
        }
    }
}

/// Statements of the README, each with a document and the text there that supports it.
const FACTS: &[(&str, &str, &str)] = &[
    ("48.6 deliveries/s", "docs/crash-cost.md", "| ext4 | 48.6 deliveries/s | 50 | 0 |"),
    (
        "fewer than 5.9 %",
        "docs/crash-cost.md",
        "with 95 % confidence for each of them fewer than 5.9 % of such cuts",
    ),
    ("1203 deliveries/s", "docs/crash-cost.md", "| UNSAFE ext4-nobarrier | 1203.1 deliveries/s |"),
    (
        "lost in 27 of 50 cuts",
        "docs/crash-cost.md",
        "UNSAFE ext4-nobarrier: acknowledged bytes or names were lost in 27 of 50 cuts",
    ),
    (
        "64 still hold, 22 no longer hold, 14 are reversed, 5 are undecided, 14 cannot be tested",
        "docs/studies.md",
        "| as today | 64 | 22 | 14 | 5 | 14 |",
    ),
    (
        "ext4 takes 25.1 % more CPU time",
        "docs/kernels.md",
        "| dirops create | ext4 | 5.10 to 6.1 | +25.1 |",
    ),
    (
        "most of the increase in `ext4_match`",
        "docs/kernels.md",
        "| +12,977 | `ext4_match`: +8,424 |",
    ),
    (
        "a create on btrfs takes 10.7 % more",
        "results/timelines/2026-11-27-kernels/steps-cpu.md",
        "6.1.0-56-amd64 -> 6.12.117+deb12-amd64 | create | 3 | 24.0 ms | 26.6 ms | +10.7 |",
    ),
    ("the median error of CPU times is 7 %", "catalog/processors/epyc-2024.toml", "median = 7"),
];

#[test]
fn statements_of_the_readme_are_those_of_the_documents() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = readme();
    for (statement, document, source) in FACTS {
        assert!(readme.contains(statement), "not in README: {statement}");
        let text = std::fs::read_to_string(root.join(document)).unwrap();
        assert!(text.contains(source), "{document} does not say: {source}");
    }
}
