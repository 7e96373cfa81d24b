//! The clock guard, from outside: a QEMU that is disturbed where host time could reach the guest's
//! clock is bit-identical, and one without the guard is refused. Skipped, with the reason, where
//! the lab cannot run; with CI set in the environment that is a failure.
#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::{PROGRAM, code, stderr};
use fsdyno_lab::{Cache, probe_qemu};
use serde_json::Value;

fn fsdyno(folder: &Path, args: &str) -> Command {
    let mut path = folder.join("bin").into_os_string();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let mut command = Command::new(PROGRAM);
    command
        .current_dir(folder)
        .stdin(Stdio::null())
        .env("XDG_CACHE_HOME", Cache::of_user().unwrap().path().parent().unwrap())
        .env("PATH", path)
        .args(args.split_whitespace());
    command
}

/// Replaces QEMU by a script that sets `LD_PRELOAD` as `PRELOADS` selects and starts QEMU.
fn stand_in(folder: &Path, qemu: &Path) {
    let bin = folder.join("bin");
    fs::create_dir(&bin).unwrap();
    let script = bin.join("qemu-system-x86_64");
    let qemu = qemu.display();
    // Guests have the guard in LD_PRELOAD; the probe of QEMU's version does not.
    let text = format!(
        "#!/bin/sh\n\
         if [ -n \"$LD_PRELOAD\" ]; then case $PRELOADS in\n\
         disturbed) export LD_PRELOAD=\"$LD_PRELOAD:$PWD/disturb.so\" ;;\n\
         none) unset LD_PRELOAD ;;\n\
         esac; fi\n\
         exec '{qemu}' \"$@\"\n"
    );
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/disturb.c");
    let mut compile = Command::new("cc");
    compile.args(["-std=gnu11", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o"]);
    assert!(compile.arg(folder.join("disturb.so")).arg(source).status().unwrap().success());
}

fn run(folder: &Path, preloads: &str) -> Output {
    let args = format!("run dirops --fs ext4 --set files=100 --size 512M --out {preloads}");
    let mut command = fsdyno(folder, &args);
    command.env("PRELOADS", preloads).env("FSDYNO_DISTURBED", folder.join("mark"));
    command.output().unwrap()
}

fn trial(results: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(results.join("trials.ndjson")).unwrap()).unwrap()
}

#[test]
fn a_disturbed_qemu_is_bit_identical_and_one_without_the_guard_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let doctor = fsdyno(folder, "doctor").output().unwrap();
    if !doctor.status.success() {
        let why = String::from_utf8_lossy(&doctor.stdout).into_owned();
        assert!(std::env::var_os("CI").is_none(), "CI has to run the lab; here it lacks\n{why}");
        writeln!(std::io::stderr(), "skipped: the lab cannot run here; fsdyno doctor reports why")
            .unwrap();
        return;
    }
    stand_in(folder, &probe_qemu(None).unwrap().path);

    let quiet = run(folder, "guarded");
    assert_eq!(code(&quiet), 0, "{}", stderr(&quiet));
    assert!(!folder.join("mark").exists());
    let disturbed = run(folder, "disturbed");
    assert_eq!(code(&disturbed), 0, "{}", stderr(&disturbed));
    assert!(folder.join("mark").exists(), "nothing was disturbed");
    let (quiet, disturbed) = (trial(&folder.join("guarded")), trial(&folder.join("disturbed")));
    assert!(quiet["lab"]["clock guard"].as_str().unwrap().starts_with("sha256:"));
    assert_eq!(quiet["lab_id"], disturbed["lab_id"]);
    assert_eq!(quiet["measured"], disturbed["measured"]);

    let bare = run(folder, "none");
    assert_eq!(code(&bare), 4, "{}", stderr(&bare));
    let failed = trial(&folder.join("none"));
    assert_eq!(failed["outcome"], "failed");
    let reason = failed["reason"].as_str().unwrap();
    assert!(reason.contains("did not load the library that keeps host time out"), "{reason}");
}
