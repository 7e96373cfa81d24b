//! `fsdyno advise`: the commands that follow from its options, and their execution.

use crate::common::{
    can_run_the_lab, code, fsdyno, lines, link_kernels, run, stderr, stdout, write_speeds,
};

#[test]
fn without_a_terminal_the_missing_flags_are_named() {
    let folder = tempfile::tempdir().unwrap();
    for (args, missing) in [
        ("advise", "missing: --for, --on ("),
        ("advise --for mail", "missing: --on ("),
        ("advise --for own --on .", "missing: -- COMMAND ("),
    ] {
        let output = run(folder.path(), args);
        assert_eq!(code(&output), 2, "{args}");
        assert!(stderr(&output).contains(missing), "{}", stderr(&output));
        assert_eq!(stderr(&output).lines().count(), 1);
        assert_eq!(stdout(&output), "");
    }
}

#[test]
fn an_invalid_flag_gets_a_message_that_names_the_valid_one() {
    let folder = tempfile::tempdir().unwrap();
    for (args, expected) in [
        ("--for mial --on .", "did you mean 'mail'?"),
        ("--for mail --on laptop-2025", "did you mean 'laptop-2026'?"),
        ("--for mail --on . --time soon", "such as 90s, 30m or 2h"),
        ("--for mail --on loop:1G --fs xsf", "did you mean 'xfs'?"),
        ("--for mail --on . --fs xfs", "'.' is already on a file system"),
        ("--for mail --on . -- make", "only with --for own"),
        ("--for mail --on /dev/null", "which fsdyno advise does not erase"),
    ] {
        let output = run(folder.path(), &format!("advise {args}"));
        assert_eq!(code(&output), 2, "{args}");
        assert!(stderr(&output).contains(expected), "{args}: {}", stderr(&output));
    }
}

#[test]
fn advice_for_a_machine_compares_and_searches_and_runs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let advice = |extra_args: &str| {
        let args = format!("advise --for unpack --on laptop-2026 --time 1h {extra_args}");
        let output = run(folder.path(), &args);
        assert!([0, 3].contains(&code(&output)), "{}", stderr(&output));
        stdout(&output)
    };
    let text = advice("--fs ext4,vfat");
    let run = "fsdyno run tarball --set files=20000 --machine laptop-2026 --boot snapshot --fs ext4 --fs vfat --repeat 3";
    assert!(text.contains(run), "{text}");
    let tune = "fsdyno tune tarball --set files=20000 --machine laptop-2026 --fs ext4 --budget 40m";
    assert!(text.contains(&format!("{tune}\n")), "{text}");
    assert!(text.contains("time: not known before the first such trial"), "{text}");
    assert!(advice("--fs ext4 --safety unsafe").contains("--fs ext4 --unsafe --budget"));
    let text = advice("--fs vfat");
    assert!(!text.contains("fsdyno tune") && text.contains("only ext4, xfs"), "{text}");
    assert!(!folder.path().join("fsdyno-results").exists());
}

#[test]
fn the_time_of_a_comparison_has_the_boots_for_snapshots_that_its_dry_run_has() {
    if !can_run_the_lab() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    link_kernels(folder.path());
    write_speeds(folder.path(), &[("lab laptop-2024 Snapshot/tarball", 20.0), ("snapshot", 30.0)]);
    let args = "advise --for unpack --on laptop-2026 --time 1h --fs ext4,xfs";
    let advice = stdout(&run(folder.path(), args));
    let mut lines = advice.lines().skip_while(|line| !line.starts_with("   fsdyno run tarball "));
    let command = lines.next().unwrap_or_else(|| panic!("{advice}"));
    let time = lines.next().unwrap().trim();
    assert!(time.contains(" (60 s of it to boot guests for snapshots; "), "{advice}");
    let dry = format!("{} --dry-run", command.trim().strip_prefix("fsdyno ").unwrap());
    let dry = run(folder.path(), &dry);
    assert!(stdout(&dry).contains(&format!("\n{time}\n")), "{time}: {}", stdout(&dry));
}

#[test]
fn if_data_must_be_safe_power_cuts_during_the_same_workload_are_advised() {
    let folder = tempfile::tempdir().unwrap();
    let advice = |args: &str| {
        let output = run(folder.path(), &format!("advise {args}"));
        assert!([0, 3].contains(&code(&output)), "{}", stderr(&output));
        stdout(&output)
    };
    let mail = "--for mail --on server-2026 --time 2h --fs ext4,xfs,zfs";
    let crash =
        "fsdyno crash maildir --set ops=2000 --machine server-2026 --fs ext4 --fs xfs --cuts ";
    assert!(advice(mail).contains(crash), "{}", advice(mail));
    assert!(!advice(&format!("{mail} --safety unsafe")).contains("fsdyno crash"));
    assert!(!advice("--for unpack --on server-2026 --fs ext4").contains("fsdyno crash"));
    assert!(
        advice("--for mail --on loop:1G --fs ext4")
            .contains("no power cuts: power cuts are simulated only in the lab")
    );
    let recorded = advice("--for own --on server-2026 --fs ext4 -- sh -c true");
    let crash =
        "fsdyno crash replay --set trace=sh.trace --machine server-2026 --fs ext4 --cuts 50\n";
    assert!(recorded.contains(crash), "{recorded}");
    // The command is one that fsdyno crash accepts.
    let args =
        "crash maildir --set ops=2000 --machine server-2026 --fs ext4 --fs xfs --cuts 50 --dry-run";
    let output = run(folder.path(), args);
    assert!([0, 3].contains(&code(&output)), "{}", stderr(&output));
}

#[test]
fn the_commands_run_only_with_yes_and_the_first_failure_ends_them() {
    let folder = tempfile::tempdir().unwrap();
    let advise = |command: &str| {
        let args = "advise --for own --on . --time 5m --yes -- sh -c";
        fsdyno(folder.path()).args(args.split(' ')).arg(command).output().unwrap()
    };
    let output = run(folder.path(), "advise --for own --on . -- sh -c true");
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(stdout(&output).contains("\n   fsdyno record -o sh.trace -- sh -c true\n"));
    assert!(!folder.path().join("sh.trace").exists());
    let output = advise("exit 7");
    assert_eq!(code(&output), 7, "{}", stderr(&output));
    assert!(
        stderr(&output).contains("were not run") && !folder.path().join("fsdyno-results").exists()
    );
    let output = advise("echo x > file; cat file > other");
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let results = folder.path().join("fsdyno-results").read_dir().unwrap();
    let stored: Vec<usize> = results.flatten().map(|it| lines(&it.path())).collect();
    assert_eq!(stored, [3]);
}
