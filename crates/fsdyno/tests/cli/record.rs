//! Recording, through the command line.

#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

use std::path::Path;
use std::process::Output;

use crate::common::{code, fsdyno, run, stderr, stdout};
use serde_json::Value;

/// Records a script as it.trace.
fn record_script(folder: &Path, script: &str) -> Output {
    fsdyno(folder)
        .args(["record", "--how", "inside", "-o", "it.trace", "--", "sh", "-c", script])
        .output()
        .unwrap()
}

#[test]
fn a_recorded_command_keeps_its_output_and_its_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let output = record_script(folder.path(), "echo out; : >made; exit 5");
    assert_eq!((code(&output), stdout(&output).as_str()), (5, "out\n"), "{}", stderr(&output));
    let shown = run(folder.path(), "show trace it.trace --format json");
    let value: Value = serde_json::from_str(&stdout(&shown)).unwrap();
    assert_eq!((&value["complete"], &value["created"]), (&Value::Bool(true), &1.into()));
    assert_eq!(value["status"], 5 << 8);
}

#[test]
fn a_calibration_states_the_ratio_and_the_kinds_of_calls_that_differ_most() {
    let folder = tempfile::tempdir().unwrap();
    let script = "cat /dev/null >a && mv a b && rm b";
    let args = ["record", "--calibrate", "-o", "../it.trace", "--", "sh", "-c", script];
    std::fs::create_dir(folder.path().join("tree")).unwrap();
    let output = fsdyno(&folder.path().join("tree")).args(args).output().unwrap();
    let message = stderr(&output);
    assert_eq!(code(&output), 0, "{message}");
    let line =
        message.lines().find(|line| line.contains("calibration in '.', warm")).expect(&message);
    let (ratio, kinds) = line.split_once(" %; most of the difference: ").expect(line);
    assert!(ratio.rsplit(' ').next().unwrap().parse::<f64>().unwrap() > 0.0, "{line}");
    assert!((3..=6).contains(&kinds.matches(" replayed, ").count()), "{line}");
    let left = std::fs::read_dir(folder.path().join("tree")).unwrap().count();
    assert_eq!(left, 0, "a replay left something in the tree");
}

#[test]
fn a_command_that_a_signal_ends_gives_128_and_its_number() {
    let folder = tempfile::tempdir().unwrap();
    let output = record_script(folder.path(), "kill -TERM $$");
    assert_eq!(code(&output), 128 + 15, "{}", stderr(&output));
}

#[test]
fn marks_name_phases_of_a_recording() {
    let folder = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_fsdyno");
    let output = record_script(folder.path(), &format!("{program} mark second; :"));
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let shown = stdout(&run(folder.path(), "show trace it.trace"));
    assert!(shown.contains("marks: second"), "{shown}");
    assert_eq!(code(&run(folder.path(), "mark a/b")), 2);
}

#[test]
fn what_cannot_be_recorded_or_shown_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let text = "this is a text of some length";
    std::fs::write(folder.path().join("text"), text).unwrap();
    for (line, message) in [
        ("record -- /no/such/program", "cannot record '/no/such/program': program not found"),
        ("record -o text -- true", "'text' exists and is not a trace; not overwriting it"),
        ("record --tree nowhere -- true", "--tree 'nowhere' is not a directory"),
        ("record --pid 2147483647", "there is no process 2147483647"),
        ("record --pid 2147483647 -- true", "the argument '--pid <PID>' cannot be used with"),
        ("record --seconds 5 -- true", "the argument '--seconds <N>' cannot be used with"),
        ("record --pid 2147483647 --how ptrace", "--pid records by BPF: omit --how"),
        ("show trace text", "at byte 0: this is not a trace of fsdyno"),
        ("show trace nothing", "failed to read 'nothing'"),
    ] {
        let output = run(folder.path(), line);
        assert_eq!(code(&output), 2, "{line}");
        assert!(stderr(&output).contains(message), "{line}: {}", stderr(&output));
    }
    assert_eq!(std::fs::read_to_string(folder.path().join("text")).unwrap(), text);
    match std::fs::File::options().read(true).write(true).open("/dev/loop0") {
        Ok(_) => {
            let output = run(folder.path(), "record -o /dev/loop0 -- true");
            assert_eq!(code(&output), 2);
            assert!(stderr(&output).contains("'/dev/loop0' is a drive"), "{}", stderr(&output));
        }
        Err(error) => eprintln!("skipped: no drive can be opened here (/dev/loop0: {error})"),
    }
    assert!(!folder.path().join("fsdyno.trace").exists());
}

#[test]
fn texts_of_other_tools_are_imported_and_mistakes_have_their_line() {
    let folder = tempfile::tempdir().unwrap();
    let text = "open(\"a\", O_RDWR|O_CREAT, 0600) = 3\nhm\nwrite(3, \"x\", 1) = 1\n";
    std::fs::write(folder.path().join("it.strace"), text).unwrap();
    std::fs::write(folder.path().join("it.fio"), "fio version 2 iolog\na open\na read\n").unwrap();
    let output = run(folder.path(), "import it.strace --from strace -o it.trace");
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(stderr(&output).contains("2 events of 3 lines in 'it.trace'"), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("'it.strace' line 2: it is not a call"),
        "{}",
        stderr(&output)
    );
    assert_eq!(code(&run(folder.path(), "show trace it.trace")), 0);
    for (line, message) in [
        (
            "import it.fio --from fio-v2 -o no.trace",
            "'it.fio': line 3: offset and length are missing",
        ),
        ("import none --from strace", "failed to read 'none'"),
        ("import it.strace --from strace --tree rel", "--tree 'rel' is not an absolute path"),
        ("import it.strace --from strace -o it.fio", "'it.fio' exists and is not a trace"),
    ] {
        let output = run(folder.path(), line);
        assert_eq!(code(&output), 2, "{line}: {}", stderr(&output));
        assert!(stderr(&output).contains(message), "{line}: {}", stderr(&output));
    }
    assert!(!folder.path().join("no.trace").exists());
}

#[test]
fn auto_falls_back_to_ptrace_and_reports_why() {
    let folder = tempfile::tempdir().unwrap();
    let record = |how: &str| {
        // The limit on file sizes is a few MiB; the memory that is shared with programs is larger.
        let script =
            format!("ulimit -f 20000; exec \"$0\" record --how {how} -o t -- cat /dev/null");
        let mut command = std::process::Command::new("sh");
        let command = command.args(["-c", &script, env!("CARGO_BIN_EXE_fsdyno")]);
        command.current_dir(folder.path()).output().unwrap()
    };
    let auto = record("auto");
    let message = stderr(&auto);
    assert_eq!(code(&auto), 0, "{message}");
    assert!(
        message.contains(
            "recorded by ptrace, since no memory can be shared with programs (File too large"
        ),
        "{message}"
    );
    let inside = record("inside");
    assert_eq!(code(&inside), 3, "{}", stderr(&inside));
    assert!(stderr(&inside).contains("--how ptrace needs none"), "{}", stderr(&inside));
}

/// Tests a case that only an unprivileged user has: a setuid program runs without its privileges, and is recorded.
#[test]
fn a_user_without_privileges_records_all_and_setuid_programs_too() {
    use std::os::unix::fs::PermissionsExt;
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can become another user and make a setuid program");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder_path = folder.path().display();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let program = folder.path().join("suid-id");
    std::fs::copy("/usr/bin/id", &program).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o4755)).unwrap();
    let fsdyno_path = env!("CARGO_BIN_EXE_fsdyno");
    let args = [
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        fsdyno_path,
        "record",
        "-o",
        "it.trace",
        "--",
        "sh",
        "-c",
    ];
    let output = std::process::Command::new("setpriv")
        .args(args)
        .arg(format!("{folder_path}/suid-id -u; : >made; cat made"))
        .current_dir(folder.path())
        .output();
    let output = match output {
        Ok(output) if !stderr(&output).contains("Permission denied") => output,
        _ => {
            eprintln!("skipped: there is no setpriv, or {fsdyno_path} is not readable for others");
            return;
        }
    };
    assert_eq!((code(&output), stdout(&output).as_str()), (0, "65534\n"), "{}", stderr(&output));
    let message = stderr(&output);
    assert!(
        message.contains("setuid programs, which ran without their privileges: 1"),
        "{message}"
    );
    assert!(message.contains("inside the programs") && !message.contains(" 0 inside"), "{message}");
}

#[test]
fn recording_by_bpf_without_privileges_reports_what_it_needs_before_any_work() {
    use std::os::unix::fs::PermissionsExt;
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can become another user");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let program = env!("CARGO_BIN_EXE_fsdyno");
    for rest in [&["--how", "bpf", "--", "true"][..], &["--pid", "1"]] {
        let output = std::process::Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups", program, "record"])
            .args(["-o", "it.trace"])
            .args(rest)
            .current_dir(folder.path())
            .output();
        let output = match output {
            Ok(output) if !stderr(&output).contains("failed to execute") => output,
            _ => {
                eprintln!("skipped: there is no setpriv, or {program} is not readable for others");
                return;
            }
        };
        let message = stderr(&output);
        assert_eq!(code(&output), 3, "{message}");
        assert!(message.contains("it needs root, or the capabilities CAP_BPF"), "{message}");
        assert!(!folder.path().join("it.trace").exists());
    }
}
