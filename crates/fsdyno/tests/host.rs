//! Runs on a directory of this host: real files, real signals, real leftovers.

#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

mod common;

use std::io::Read;
use std::path::Path;
use std::process::{Child, Stdio};

use common::{code, fsdyno, leftover_folders, lines, run, stderr, stdout, wait_until};
use rustix::process::{Pid, Signal, kill_process};

/// Creates a folder that contains a file of the user's.
fn user_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mine"), "the user's").unwrap();
    folder
}

fn has_only_user_file(folder: &Path) -> bool {
    let names: Vec<_> = std::fs::read_dir(folder).unwrap().flatten().collect();
    names.len() == 1 && std::fs::read_to_string(folder.join("mine")).unwrap() == "the user's"
}

fn start(folder: &Path, args: &str) -> Child {
    fsdyno(folder)
        .args(args.split_whitespace())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn a_thousand_files_are_made_verified_and_removed() {
    let (target, out) = (user_folder(), tempfile::tempdir().unwrap());
    let args = format!(
        "run dirops --set files=1000 --repeat 2 --on {} --out {}/r",
        target.path().display(),
        out.path().display()
    );
    let output = run(out.path(), &args);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(stdout(&output).contains("create"), "{}", stdout(&output));
    assert!(stderr(&output).contains("report.html"), "{}", stderr(&output));
    assert!(has_only_user_file(target.path()));
    let records = run(out.path(), "report r --format json");
    let trials: serde_json::Value = serde_json::from_slice(&records.stdout).unwrap();
    assert_eq!(trials.as_array().unwrap().len(), 2);
    for trial in trials.as_array().unwrap() {
        assert_eq!(trial["outcome"], "ok", "{trial}");
        assert_eq!(trial["measured"]["phases"][0]["ops"]["create"]["count"], 1000);
        assert_eq!(trial["measured"]["verify"]["problems"], 0);
        assert!(trial["measured"]["verify"]["files"].as_u64().unwrap() >= 1000);
    }
    let html = std::fs::read_to_string(out.path().join("r/report.html")).unwrap();
    assert!(html.contains("<svg"), "the report has no chart");
}

#[test]
fn back_to_back_phases_are_neither_synced_nor_verified_in_between() {
    let folder = user_folder();
    let args = "run postmark --on . --set gap=back-to-back --set number=50 \
                 --set transactions=100 --format json";
    let done = run(folder.path(), args);
    assert_eq!(code(&done), 0, "{}", stderr(&done));
    let trials: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    let trial = &trials[0];
    let phases = trial["measured"]["phases"].as_array().unwrap();
    let synced: Vec<bool> = phases.iter().map(|phase| !phase["synced_ns"].is_null()).collect();
    assert_eq!(synced, [false, false, true], "create, transactions, delete");
    assert_eq!(phases[1]["unit"], "transactions");
    let notes = trial["conditions"]["notes"].to_string();
    assert!(notes.contains("phase transactions follows phase create immediately"), "{notes}");
}

#[test]
fn a_finished_trial_is_not_run_again_and_an_incomplete_line_is_discarded() {
    let (target, out) = (user_folder(), tempfile::tempdir().unwrap());
    let args = |repeat: u32| {
        format!(
            "run dirops --set files=50 --repeat {repeat} --on {} --out r",
            target.path().display()
        )
    };
    assert_eq!(code(&run(out.path(), &args(2))), 0);
    let file = out.path().join("r/trials.ndjson");
    let first = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{first}{{\"schema\":2,\"tri")).unwrap();
    let output = run(out.path(), &args(3));
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(stderr(&output).contains("is incomplete after a crash"), "{}", stderr(&output));
    assert!(stderr(&output).contains("2 of 3 trials already stored"), "{}", stderr(&output));
    let all = std::fs::read_to_string(&file).unwrap();
    assert!(all.starts_with(&first));
    assert_eq!(lines(&out.path().join("r")), 3);
}

#[test]
fn a_foreign_file_in_the_result_folder_is_not_changed() {
    let (target, out) = (user_folder(), tempfile::tempdir().unwrap());
    let file = out.path().join("r/trials.ndjson");
    std::fs::create_dir(out.path().join("r")).unwrap();
    std::fs::write(&file, "{\"mine\": [1,2,3]}").unwrap();
    let args = format!("run dirops --set files=50 --on {} --out r", target.path().display());
    let output = run(out.path(), &args);
    assert_eq!(code(&output), 2, "{}", stderr(&output));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "{\"mine\": [1,2,3]}");
}

#[test]
fn trials_of_another_kernel_are_not_shown_as_those_of_this_one() {
    let (target, out) = (user_folder(), tempfile::tempdir().unwrap());
    let args = format!("run dirops --set files=50 --on {} --out r", target.path().display());
    assert_eq!(code(&run(out.path(), &args)), 0);
    let file = out.path().join("r/trials.ndjson");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("\"kernel\":\"", "\"kernel\":\"2.4.18 ")).unwrap();
    let output = run(out.path(), &args);
    assert_eq!(code(&output), 2, "{}", stderr(&output));
    assert!(stderr(&output).contains("with the kernel '2.4.18 "), "{}", stderr(&output));
    assert_eq!(lines(&out.path().join("r")), 1);
}

#[test]
fn reports_and_ctrl_c_work_in_a_folder_whose_name_is_not_utf_8() {
    use std::os::unix::ffi::OsStrExt;
    let (target, out) = (user_folder(), tempfile::tempdir().unwrap());
    let results = out.path().join(std::ffi::OsStr::from_bytes(b"r\xff"));
    let child = fsdyno(out.path())
        .args(["run", "dirops", "--set", "files=300", "--repeat", "9000", "--on"])
        .args([target.path(), Path::new("--out"), &results])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("the first trial", || lines(&results) >= 1);
    signal(&child, Signal::INT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 130, "{}", stderr(&output));
    assert!(stderr(&output).contains("resume with:"), "{}", stderr(&output));
}

#[test]
fn ctrl_c_keeps_finished_trials_removes_the_rest_and_the_run_can_be_resumed() {
    for sent in [Signal::INT, Signal::TERM] {
        let (target, out) = (user_folder(), tempfile::tempdir().unwrap());
        let args = |repeat: u32| {
            format!(
                "run dirops --set files=300 --repeat {repeat} --on {} --out r",
                target.path().display()
            )
        };
        let results = out.path().join("r");
        let child = start(out.path(), &args(9000));
        wait_until("the second trial", || lines(&results) >= 2);
        signal(&child, sent);
        let output = child.wait_with_output().unwrap();
        assert_eq!(code(&output), 130, "{}", stderr(&output));
        let message = stderr(&output);
        assert!(message.contains("resume with:") && message.contains("--out r"), "{message}");
        assert!(results.join("report.html").exists());
        assert!(stdout(&output).contains("create"));
        assert!(has_only_user_file(target.path()));
        let stored = lines(&results);
        let again = run(out.path(), &args(2));
        assert_eq!(code(&again), 0, "{}", stderr(&again));
        assert_eq!(lines(&results), stored);
    }
}

#[test]
fn trials_of_another_plan_are_mixed_only_with_mix_and_never_across_clocks() {
    let (target, out) = (user_folder(), tempfile::tempdir().unwrap());
    let on = target.path().display();
    let first = run(out.path(), &format!("run dirops --set files=10 --on {on} --out r"));
    assert_eq!(code(&first), 0, "{}", stderr(&first));
    let args = format!("run dirops --set files=20 --on {on} --out r");
    for args in [args.clone(), format!("{args} --dry-run")] {
        let other = run(out.path(), &args);
        let message = stderr(&other);
        assert_eq!(code(&other), 2, "{message}");
        assert!(message.contains("holds 1 trial that this command does not request"), "{message}");
        assert!(
            message.contains("dirops files=10 on ") && message.contains("add --mix"),
            "{message}"
        );
    }
    assert_eq!(lines(&out.path().join("r")), 1);
    let other = run(out.path(), &format!("{args} --mix"));
    assert_eq!(code(&other), 0, "{}", stderr(&other));
    assert!(stderr(&other).contains("the report includes them"), "{}", stderr(&other));
    let model = run(out.path(), "run dirops --on model --size 64M --set files=10 --out r");
    assert_eq!(code(&model), 2, "{}", stderr(&model));
    let message = stderr(&model);
    assert!(message.contains("ran on a host, and these would run in the model"), "{message}");
    assert_eq!(lines(&out.path().join("r")), 2);
}

#[test]
fn leftovers_of_a_killed_run_are_named_and_removed_only_on_request() {
    let (target, out) = (user_folder(), tempfile::tempdir().unwrap());
    let on = target.path().display().to_string();
    let mut child = start(
        out.path(),
        &format!("run dirops --set files=500000 --on {on} --out r --verify names"),
    );
    let has_begun = || {
        leftover_folders(target.path()).first().is_some_and(|path| {
            std::fs::read_dir(path.join("root")).is_ok_and(|mut entries| entries.next().is_some())
        })
    };
    wait_until("the first file", has_begun);
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    let leftovers = leftover_folders(target.path());
    assert_eq!(leftovers.len(), 1);
    // The kernel kills the agent when its parent dies; until the agent is gone, the directory may still grow.
    wait_until("the agent to end", || {
        !stderr(&run(out.path(), &format!("doctor --clean {on}"))).contains("is not removed")
            && leftover_folders(target.path()).is_empty()
    });
    assert!(has_only_user_file(target.path()));
}

#[test]
fn a_run_that_finds_leftovers_reports_how_to_remove_them_and_keeps_them() {
    let (target, out) = (user_folder(), tempfile::tempdir().unwrap());
    // This pid is above the kernel's limit, so no such process exists.
    let leftover = target.path().join(".fsdyno-4194305-0123456789abcdef");
    std::fs::create_dir_all(leftover.join("root")).unwrap();
    let marker = "fsdyno works here; made and removed by it\npid 4194305\nboot none\nstarted 1\n";
    std::fs::write(leftover.join("fsdyno.marker"), marker).unwrap();
    let on = target.path().display();
    let output = run(out.path(), &format!("run dirops --set files=20 --on {on} --out r"));
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(stderr(&output).contains("fsdyno doctor --clean"), "{}", stderr(&output));
    assert!(leftover.exists());
    assert_eq!(code(&run(out.path(), &format!("doctor --clean {on}"))), 0);
    assert!(has_only_user_file(target.path()));
}

#[test]
fn a_broken_pipe_is_not_an_error() {
    let folder = tempfile::tempdir().unwrap();
    for args in ["show workload tarball", "list filesystems", "--help", "show disk hdd-7200"] {
        let mut child = start(folder.path(), args);
        drop(child.stdout.take());
        let mut message = String::new();
        child.stderr.take().unwrap().read_to_string(&mut message).unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.code(), Some(0), "fsdyno {args}: {message}");
        assert_eq!(message, "", "fsdyno {args}");
    }
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = fsdyno(folder.path()).args(["list", "workloads"]).stdout(full).output().unwrap();
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("No space left on device"), "{}", stderr(&output));
}

#[test]
fn a_run_continues_if_stderr_is_closed() {
    let (target, out) = (user_folder(), tempfile::tempdir().unwrap());
    let args = format!("run dirops --set files=20 --on {} --out r", target.path().display());
    let mut child = start(out.path(), &args);
    drop(child.stderr.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 0);
    assert_eq!(lines(&out.path().join("r")), 1);
}

#[test]
fn two_trials_run_at_the_same_time_in_their_own_directories() {
    let (target, out) = (user_folder(), tempfile::tempdir().unwrap());
    let args = format!(
        "run dirops tarball --set dirops.files=100 --set tarball.files=200 --repeat 3 --jobs 2 \
         --on {} --out r --format csv",
        target.path().display()
    );
    let output = run(out.path(), &args);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(lines(&out.path().join("r")), 6);
    assert!(has_only_user_file(target.path()));
}

#[test]
fn a_tar_file_given_by_the_user_is_extracted_verified_and_removed_from_any_folder() {
    let (target, out) = (user_folder(), tempfile::tempdir().unwrap());
    let tree = out.path().join("tree/sub");
    std::fs::create_dir_all(&tree).unwrap();
    std::fs::write(tree.join("a"), vec![b'x'; 70_000]).unwrap();
    std::fs::write(tree.join("b"), "b").unwrap();
    std::fs::hard_link(tree.join("b"), tree.join("c")).unwrap();
    std::os::unix::fs::symlink("../sub/a", tree.join("link")).unwrap();
    let tar = "tar -cf x.tar tree && gzip -k x.tar && mkdir else && mv x.tar else/y";
    let made = std::process::Command::new("sh").args(["-c", tar]).current_dir(out.path()).status();
    if !made.is_ok_and(|status| status.success()) {
        println!("skipped: tar and gzip are needed");
        return;
    }
    let args = |archive: &str| {
        format!("run tarball --on {} --set archive={archive} --out r", target.path().display())
    };
    let output = run(out.path(), &args("x.tar.gz"));
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(has_only_user_file(target.path()));
    // The same bytes under another name and without compression are the same workload.
    let again = run(out.path(), &args("else/y"));
    assert!(stderr(&again).contains("1 of 1 trials already stored"), "{}", stderr(&again));
    let records = run(out.path(), "report r --format json");
    let trials: serde_json::Value = serde_json::from_slice(&records.stdout).unwrap();
    let trial = &trials[0];
    assert_eq!(trial["outcome"], "ok", "{trial}");
    assert_eq!(trial["measured"]["phases"][0]["bytes_written"], 70_001);
    assert_eq!(trial["measured"]["phases"][0]["ops"]["link"]["count"], 1);
    assert_eq!(trial["measured"]["verify"]["files"], 4);
    let workload = &trial["plan"]["workload"];
    let archive = out.path().join("x.tar.gz").display().to_string();
    assert_eq!(workload["params"]["archive"], archive, "the command to repeat it needs the path");
    assert_eq!(workload["params"]["files"], serde_json::Value::Null);
    assert_eq!(workload["input"]["parameter"], "archive");
    // A folder given as `archive` is packed into a tar file before the run.
    let output = run(out.path(), &args("tree").replace("--out r", "--out f"));
    assert_eq!(code(&output), 0, "{}", stderr(&output));
}
