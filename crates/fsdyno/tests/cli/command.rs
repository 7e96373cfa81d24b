//! `fsdyno run command`: shell commands of the user, timed.

#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::common::lab::trials;
use crate::common::{can_mount, code, fsdyno, run, stderr, stdout};

/// Runs a shell command with `fsdyno run command` and additional arguments.
fn command(folder: &Path, line: &str, args: &str) -> Output {
    let mut fsdyno = fsdyno(folder);
    fsdyno.args(["run", "command", "--out", "out", "--set"]).arg(format!("command={line}"));
    fsdyno.args(args.split_whitespace()).output().unwrap()
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("on")).unwrap();
    folder
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().count() == 0
}

#[test]
fn a_command_is_timed_in_a_new_directory_after_its_setup_and_its_tree_is_hashed() {
    let folder = folder();
    let line = "cat input >output; mkdir d; pwd >$OUT/where; echo \"$HOME\" >$OUT/home";
    let mut fsdyno = fsdyno(folder.path());
    fsdyno.args(["run", "command", "--out", "out", "--on", "on", "--repeat", "2"]);
    fsdyno.args(["--set", "setup=echo before >input", "--set"]).arg(format!("command={line}"));
    let output = fsdyno.env("HOME", "/mine").env("OUT", folder.path()).output().unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let trial = trials(&folder.path().join("out")).remove(0);
    let phase = &trial["measured"]["phases"][0];
    assert_eq!(phase["name"], "command");
    assert!(phase["synced_ns"].as_u64() >= phase["returned_ns"].as_u64(), "{phase}");
    assert!(phase["cpu_ns"].as_u64() > Some(0), "{phase}");
    let tree = &trial["measured"]["tree"];
    assert_eq!((&tree["files"], &tree["directories"]), (&2.into(), &1.into()), "{tree}");
    assert!(stdout(&output).contains("left one tree in each of 2 trials"), "{}", stdout(&output));
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert!(read("where").contains("/on/.fsdyno-"), "{}", read("where"));
    assert_eq!(read("home"), "/mine\n");
    assert!(is_empty(&folder.path().join("on")));
}

#[test]
fn trees_that_differ_between_trials_are_reported_with_the_place() {
    let folder = folder();
    let output = command(
        folder.path(),
        "mkdir d; echo same >d/same; cat /proc/sys/kernel/random/uuid >d/drawn",
        "--on on --repeat 2",
    );
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let table = stdout(&output);
    assert!(table.contains("TREES DIFFER: the command left 2 trees in 2 trials"), "{table}");
    assert!(table.contains("in contents alone") && table.contains("in d/drawn"), "{table}");
}

#[test]
fn a_command_that_fails_is_a_failed_trial_with_its_last_lines_and_leaves_nothing() {
    let folder = folder();
    let output = command(folder.path(), "echo first; echo the reason >&2; exit 7", "--on on");
    assert_eq!(code(&output), 4, "{}", stderr(&output));
    let trial = trials(&folder.path().join("out")).remove(0);
    let reason = trial["reason"].as_str().unwrap();
    assert!(reason.contains("exit code 7") && reason.contains("the reason"), "{reason}");
    assert!(is_empty(&folder.path().join("on")));
}

#[test]
fn processes_that_a_command_leaves_running_are_ended_and_counted() {
    let folder = folder();
    let pid = folder.path().join("pid");
    let line = format!("(sleep 1000 & echo $! >{}); setsid sleep 1000 & :", pid.display());
    let output = command(folder.path(), &line, "--on on");
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let trial = trials(&folder.path().join("out")).remove(0);
    let notes = trial["conditions"]["notes"].to_string();
    assert!(notes.contains("left 2 processes running"), "{notes}");
    let pid = std::fs::read_to_string(pid).unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/cmdline", pid.trim()));
    assert!(!stat.is_ok_and(|line| line.contains("1000")), "process {pid} still runs");
}

#[test]
fn the_same_command_leaves_the_same_tree_on_several_file_systems() {
    if !can_mount() {
        return;
    }
    let folder = folder();
    let line =
        "mkdir -p a/b; for n in 1 2 3; do echo $n >a/b/$n; done; ln a/b/1 hard; ln -s a soft";
    let mut fsdyno = fsdyno(folder.path());
    fsdyno.args(["run", "command", "--out", "out", "--on", "loop:64M", "--fs", "ext4"]);
    fsdyno.args(["--fs", "small=ext4 -b 1024", "--set"]).arg(format!("command={line}"));
    let output = fsdyno.output().unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let table = stdout(&output);
    assert!(table.contains("left one tree in each of 2 trials: 5 files and 2 dir"), "{table}");
    let trial = trials(&folder.path().join("out")).remove(0);
    assert!(trial["measured"]["phases"][0]["durable_ns"].is_u64(), "{trial}");
}

#[test]
fn only_the_command_line_of_the_user_runs_a_command() {
    let folder = folder();
    let canary = folder.path().join("canary");
    let study = format!(
        "title = \"t\"\nquestion = \"q?\"\nsource = \"s\"\n[[run]]\nname = \"r\"\nworkload = \"command\"\non = \"loop:64M\"\n\
         set = {{ command = \"touch {}\" }}\nfs = {{ ext4 = \"ext4\" }}\n",
        canary.display()
    );
    std::fs::write(folder.path().join("s.toml"), study).unwrap();
    let output = run(folder.path(), "study ./s.toml --out studied");
    assert_eq!(code(&output), 2, "{}", stderr(&output));
    assert!(stderr(&output).contains("a command runs only if you give it yourself"));

    // A stored record documents its command: report prints it, why does not run it again.
    let output = command(folder.path(), &format!("touch {}", canary.display()), "--on on");
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    std::fs::remove_file(&canary).unwrap();
    assert_eq!(code(&run(folder.path(), "report out")), 0);
    assert_eq!(code(&run(folder.path(), "why out")), 2);
    // The trial now claims to have run in the lab, so that `why` could repeat it.
    let path = folder.path().join("out/trials.ndjson");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut trial: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    trial["lab_id"] = "0123456789abcdef".into();
    std::fs::write(&path, format!("{trial}\n")).unwrap();
    assert_ne!(code(&run(folder.path(), "why out")), 0);
    assert!(!canary.exists());
}

#[test]
fn invalid_requests_are_refused_before_any_work() {
    let folder = folder();
    let lines: [(&[&str], &str); 7] = [
        (&["run", "command", "--on", "on"], "needs a command to time"),
        (&["run", "command"], "needs a command to time"),
        (&["run", "command", "--set", "command= ", "--on", "on"], "a line for sh(1)"),
        (
            &["run", "command", "--set", "command=true", "--set", "comand=x"],
            "did you mean 'command'",
        ),
        (&["run", "command", "--set", "command=true", "--fs", "ext5"], "did you mean 'ext4'"),
        (&["run", "command", "dirops", "--set", "command=true"], "run it alone"),
        (&["run", "git clone /src ."], "fsdyno run command --set 'command=git clone /src .'"),
    ];
    for (args, message) in lines {
        let output = fsdyno(folder.path()).args(args).output().unwrap();
        let printed = stderr(&output);
        assert_eq!(code(&output), 2, "{args:?}: {printed}");
        assert!(printed.contains(message), "{args:?}: {printed}");
    }
    assert!(is_empty(&folder.path().join("on")));
}

#[test]
fn a_folder_with_other_files_is_refused_before_a_command_is_recorded() {
    let folder = folder();
    let (out, canary) = (folder.path().join("out"), folder.path().join("canary"));
    std::fs::create_dir(&out).unwrap();
    std::fs::write(out.join("thesis"), "mine").unwrap();
    let line = format!("touch {}", canary.display());
    for args in ["", "--dry-run", "--on lab", "--on on"] {
        let output = command(folder.path(), &line, args);
        assert_eq!(code(&output), 2, "{args}: {}", stderr(&output));
        let message = stderr(&output);
        assert!(message.contains("'out' is not empty and holds no trials.ndjson"), "{message}");
    }
    assert!(!canary.exists());
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 1);
}

#[test]
fn show_workload_names_what_a_workload_needs_first() {
    let folder = folder();
    for (name, needs) in [("command", "needs a command to time"), ("replay", "needs a recording")] {
        let shown = run(folder.path(), &format!("show workload {name}"));
        assert_eq!(code(&shown), 0, "{}", stderr(&shown));
        let text = stdout(&shown).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("parameters (--set") && text.contains(needs), "{text}");
    }
}
