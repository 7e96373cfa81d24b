//! Completions, manual pages, the demo, the list of results, and defaults from fsdyno.toml.
#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

use std::path::Path;
use std::process::Output;

use crate::common::{code, fsdyno, lines, records, run, stderr, stdout};

#[test]
fn each_shell_gets_completions_with_commands_options_and_names() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let output = run(folder.path(), &format!("completions {shell}"));
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let text = stdout(&output);
        for word in ["study", "least-difference", "spreadsheet"] {
            assert!(text.contains(word), "{shell}: no {word}");
        }
    }
    let bad = run(folder.path(), "completions tcsh");
    assert!(code(&bad) == 2 && stderr(&bad).contains("possible values: bash"), "{}", stderr(&bad));
}

#[test]
fn there_is_a_manual_page_for_each_command() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), "man share/man1");
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let page = |name: &str| {
        let path = folder.path().join(format!("share/man1/{name}.1"));
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    assert!(page("fsdyno").contains("fsdyno\\-run(1)"), "{}", page("fsdyno"));
    assert!(page("fsdyno-run").contains("\\-\\-least\\-difference"));
    let help = stdout(&run(folder.path(), "--help"));
    let (_, commands) = help.split_once("Commands:\n").unwrap();
    let names = commands.lines().take_while(|line| !line.is_empty());
    let names: Vec<&str> = names
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    assert!(names.len() > 12, "{names:?}");
    names.iter().for_each(|name| assert!(page(&format!("fsdyno-{name}")).contains("SYNOPSIS")));
    let file = run(folder.path(), "man share/man1/fsdyno.1");
    assert!(code(&file) == 2 && stderr(&file).contains("share/man1/fsdyno.1"), "{}", stderr(&file));
}

/// Runs `fsdyno demo --quick` without QEMU.
fn demo(folder: &Path, extra_args: &[&str]) -> Output {
    let mut command = fsdyno(folder);
    command.args(["demo", "--quick"]).args(extra_args).env("PATH", folder).output().unwrap()
}

#[test]
fn a_demo_without_a_lab_measures_the_directory_and_reports_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("fsdyno-results/demo");
    for time in ["first", "second"] {
        let output = demo(folder.path(), &[]);
        assert_eq!(code(&output), 0, "{time}: {}", stderr(&output));
        assert!(stderr(&output).contains("qemu: failed to"), "{}", stderr(&output));
        assert!(results.join("report.html").is_file());
        assert_eq!(lines(&results), 2, "{time}");
    }
    let first = records(&results);
    let output = demo(folder.path(), &["--out", "fsdyno-results/demo"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(records(&results), first, "a demo with --out resumes the stored result");
}

#[test]
fn results_are_listed_with_their_workloads_and_trials() {
    let folder = tempfile::tempdir().unwrap();
    let none = run(folder.path(), "list results");
    assert!(stdout(&none).contains("no results here"), "{}", stdout(&none));
    for out in ["fsdyno-results/a", "fsdyno-results/deep/b"] {
        let args = format!("run dirops --on . --set files=20 --repeat 2 --out {out}");
        assert_eq!(code(&run(folder.path(), &args)), 0);
    }
    std::fs::create_dir(folder.path().join("fsdyno-results/torn")).unwrap();
    std::fs::write(folder.path().join("fsdyno-results/torn/trials.ndjson"), "{}\n{}\n").unwrap();
    let listed = run(folder.path(), "list results --format json");
    let listed: Vec<serde_json::Value> = serde_json::from_str(&stdout(&listed)).unwrap();
    let cells = |key: &str| listed.iter().map(|it| it[key].as_str().unwrap()).collect::<Vec<_>>();
    let names = ["fsdyno-results/a", "fsdyno-results/deep/b", "fsdyno-results/torn"];
    assert_eq!(cells("result"), names);
    assert_eq!(cells("trials"), ["2", "2", "-"]);
    assert_eq!(cells("workloads")[..2], ["dirops", "dirops"]);
    assert!(cells("workloads")[2].starts_with("unreadable: "));
    let began = cells("began")[0];
    let (day, minute) = (&began[..10], &began[11..16]);
    let table = stdout(&run(folder.path(), "list results"));
    assert!(table.contains(&format!("{day} {minute}")) && !table.contains(began), "{table}");
    let nowhere = run(folder.path(), "list results nowhere");
    assert!(code(&nowhere) == 2 && stderr(&nowhere).contains("'nowhere'"), "{}", stderr(&nowhere));
    assert_eq!(code(&run(folder.path(), "list disks here")), 2);
}

#[test]
fn a_result_has_a_name_that_commands_accept_and_a_note() {
    let folder = tempfile::tempdir().unwrap();
    let fsdyno = |args: &str| {
        let output = run(folder.path(), args);
        (code(&output), stdout(&output), stderr(&output))
    };
    let work = "run dirops --on . --set files=20 --out fsdyno-results/";
    let (exit, _, message) = fsdyno(&format!("{work}a --name monday --note first"));
    assert_eq!(exit, 0, "{message}");
    assert_eq!(fsdyno(&format!("{work}b")).0, 0);
    let stored = records(&folder.path().join("fsdyno-results/a"));
    assert!(!serde_json::to_string(&stored).unwrap().contains("monday"));
    // A name belongs to one result; the same command resumes that result.
    let (exit, _, message) = fsdyno(&format!("{work}c --name monday"));
    assert!(
        exit == 2 && message.contains("'monday' is the name of 'fsdyno-results/a'"),
        "{message}"
    );
    assert!(!folder.path().join("fsdyno-results/c").exists());
    assert_eq!(fsdyno(&format!("{work}a --name monday")).0, 0);
    let (exit, _, message) = fsdyno("note b --name friday");
    assert!(exit == 0 && message.contains("fsdyno-results/b: named friday"), "{message}");
    for args in [
        "report monday friday --format mail",
        "compare monday friday --threshold 100%",
        "show series monday",
        "report a",
    ] {
        let (exit, _, message) = fsdyno(args);
        assert_eq!(exit, 0, "{args}: {message}");
    }
    let (exit, _, message) = fsdyno("why monday --against mondya");
    assert!(
        exit == 2 && message.contains("no such name below fsdyno-results; did you mean 'monday'?")
    );
    let (_, listed, _) = fsdyno("list results");
    let head = listed.lines().next().unwrap().to_lowercase();
    assert!(head.contains("name") && listed.contains("first"), "{listed}");
    let (exit, shown, _) = fsdyno("note friday --format json");
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert!(exit == 0 && shown["name"] == "friday" && shown["note"].is_null(), "{shown}");
    let (exit, _, message) = fsdyno("note . --name here");
    assert!(exit == 2 && message.contains("'.' is not a result folder"), "{message}");
    let (exit, _, message) = fsdyno("note friday --name a/b");
    assert!(exit == 2 && message.contains("'/' cannot be in a name"), "{message}");
}

/// Runs fsdyno with the defaults in the files of this folder, and without other settings of this host.
fn run_with_defaults(folder: &Path, args: &str) -> Output {
    let mut command = fsdyno(folder);
    command.env_remove("FSDYNO_MACHINE").env_remove("FSDYNO_CONFIG");
    command.env("XDG_CONFIG_HOME", folder.join("config"));
    command.args(args.split_whitespace()).output().unwrap()
}

#[test]
fn defaults_of_the_project_override_those_of_the_user_and_the_command_line_overrides_both() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("config/fsdyno")).unwrap();
    let user = "disk = \"ide-2008\"\nrepeat = 3\nsize = \"2G\"\n";
    std::fs::write(folder.path().join("config/fsdyno/fsdyno.toml"), user).unwrap();
    std::fs::write(folder.path().join("fsdyno.toml"), "disk = \"sata-2009\"\n").unwrap();
    let run = |extra_args: &str| {
        run_with_defaults(folder.path(), &format!("run dirops --set files=20 {extra_args}"))
    };
    // A directory has no disk, so of the defaults in the files only the number of repeats applies.
    let output = run("--on . --out r");
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(lines(&folder.path().join("r")), 3);
    assert!(stderr(&output).contains("defaults: --repeat 3 ("), "{}", stderr(&output));
    let output = run("--on . --out r --repeat 4 --quiet");
    assert_eq!((code(&output), lines(&folder.path().join("r"))), (0, 4));
    assert_eq!(stderr(&output), "");
    // The plan is complete whether or not there is a lab here.
    let plan = |extra_args: &str| {
        let output = run(&format!("--fs ext4 --dry-run --out new {extra_args}"));
        (stdout(&output), stderr(&output))
    };
    let (text, note) = plan("");
    assert!(text.is_empty() || text.contains("sata-2009"), "{text}");
    assert!(note.contains("--disk sata-2009 (fsdyno.toml:1)"), "{note}");
    assert!(note.contains("--size 2G"), "{note}");
    let (_, note) = plan("--machine desktop-2008");
    assert!(!note.contains("--disk"), "the machine of the command line has its own disk: {note}");
}

#[test]
fn an_invalid_default_is_an_error_before_any_work_and_no_file_decides_where_fsdyno_writes() {
    let folder = tempfile::tempdir().unwrap();
    let error = |text: &str| {
        std::fs::write(folder.path().join("fsdyno.toml"), text).unwrap();
        let output = run_with_defaults(folder.path(), "run dirops --on . --set files=20 --out r");
        assert_eq!(code(&output), 2, "{text}: {}", stderr(&output));
        assert!(!folder.path().join("r").exists());
        stderr(&output)
    };
    assert!(error("\nrepaet = 2").contains("fsdyno.toml:2: unknown option 'repaet'"));
    assert!(error("repeat = \"x\"").contains("fsdyno.toml:1: invalid value 'x' for '--repeat"));
    assert!(error("out = \"/tmp/x\"").contains("fsdyno.toml:1: --out cannot be set in a file"));
    assert!(error("on = \"/srv\"").contains("--on cannot be set in a file"));
    // Help and other commands do not read the file.
    assert_eq!(code(&run_with_defaults(folder.path(), "list disks")), 0);
}
