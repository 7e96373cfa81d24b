//! Dry runs: the trials that a run would make, the errors that it would report, and no file.

use super::bad_input::CASES;
use crate::common;
use crate::common::{code, fsdyno, run, stderr};

/// Errors outside the arguments: missing or unsuitable files and tools.
const NOT_HERE: &[(&str, i32, &str)] = &[
    ("run dirops --on ram:900T --fs ext4", 2, "use a smaller one"),
    ("run dirops --on loop:900T --fs ext4", 2, "use a smaller one"),
    ("run dirops --on loop:1G --fs reiser4", 3, "does not support reiser4; use --on lab"),
    ("run dirops --on loop:1G --fs zfs", 3, "does not support zfs; use --on lab"),
    ("crash dirops --fs zfs", 2, "zfs cannot be crash-tested"),
    ("run dirops --out a-file", 2, "is not a folder"),
    ("run dirops --out .", 2, "holds no trials.ndjson"),
    ("run dirops --kernel ./a-file", 2, "neither a bzImage nor a vmlinux"),
];

/// Removes the amount of memory that is available, which other programs change: `22.9 GiB are available`.
fn without_available(text: &str) -> String {
    match (text.find(", but "), text.find(" are available")) {
        (Some(start), Some(end)) if start < end => format!("{}{}", &text[..start], &text[end..]),
        _ => text.to_string(),
    }
}

#[test]
fn a_dry_run_reports_the_errors_of_a_run() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a-file"), "mine").unwrap();
    let root = common::can_mount();
    let from_arguments = CASES.iter().filter(|(words, ..)| {
        words.starts_with("run ") && !words.contains("/proc") && !words.contains("--format")
    });
    let from_host = NOT_HERE.iter().filter(|(words, ..)| root || !words.contains("--on"));
    for (words, exit, part) in from_arguments.chain(from_host) {
        let words = words.replace(" --dry-run", "");
        let (actual, dry) =
            (run(folder.path(), &words), run(folder.path(), &format!("{words} --dry-run")));
        assert_eq!(code(&dry), *exit, "fsdyno {words} --dry-run: {}", stderr(&dry));
        let errors =
            [&dry, &actual].map(|output| (code(output), without_available(&stderr(output))));
        assert_eq!(errors[0], errors[1], "fsdyno {words}");
        assert!(stderr(&dry).contains(part), "fsdyno {words} --dry-run: {}", stderr(&dry));
        // If only this host lacks something, the plan is printed nevertheless.
        assert_eq!(dry.stdout.is_empty(), *exit == 2, "fsdyno {words}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_dry_run_refuses_a_folder_of_other_trials_as_a_run_does() {
    let folder = tempfile::tempdir().unwrap();
    const MODEL: &str = "run dirops --on model --fs cached-ext2 --set files=50";
    for words in ["--repeat 2 --out plain", "--repeat 2 --shard 1/2 --out share"] {
        let done = run(folder.path(), &format!("{MODEL} {words}"));
        assert_eq!(code(&done), 0, "{}", stderr(&done));
    }
    for (words, part) in [
        ("--width 2% --at-most 9 --out plain", "repeats must be fixed before"),
        ("--repeat 2 --out share", "'share' holds share 1/2, and a run without --shard"),
        ("--repeat 2 --shard 2/2 --out share", "and share 2/2 cannot be stored there"),
        ("--repeat 3 --shard 1/2 --out share", "holds share 1/2 of other trials"),
        ("--repeat 2 --shard 1/2 --out plain", "so it is not a share"),
    ] {
        let dry = run(folder.path(), &format!("{MODEL} {words} --dry-run"));
        let actual = run(folder.path(), &format!("{MODEL} {words}"));
        // A run also prints the stored results of the folder.
        assert_eq!((code(&dry), code(&actual)), (2, 2), "{words}: {}", stderr(&dry));
        assert!(stderr(&actual).contains(&stderr(&dry)), "{words}: {}", stderr(&actual));
        assert!(dry.stdout.is_empty() && stderr(&dry).contains(part), "{words}: {}", stderr(&dry));
    }
    let resumed =
        run(folder.path(), &format!("{MODEL} --repeat 2 --shard 1/2 --out share --dry-run"));
    assert_eq!(code(&resumed), 0, "{}", stderr(&resumed));
}

#[test]
fn a_dry_run_prints_the_trials_without_qemu_and_leaves_no_files() {
    let folder = tempfile::tempdir().unwrap();
    let output = fsdyno(folder.path())
        .args(["run", "dirops", "--fs", "ext4 -I 128", "--repeat", "2", "--dry-run"])
        .env("PATH", "/nonexistent")
        .output()
        .unwrap();
    // A missing requirement is reported as by a run.
    assert!([0, 3].contains(&code(&output)), "{}", stderr(&output));
    let text = common::stdout(&output);
    assert!(text.contains("-I 128") && text.contains("10000 create"), "{text}");
    assert!(text.contains("2 trials in this order: 1/1 1/2"), "{text}");
    let missing = !std::path::Path::new("/usr/sbin/qemu-system-x86_64").exists();
    assert!(!missing || stderr(&output).contains("apt-get install qemu-system-x86"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
