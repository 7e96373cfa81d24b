//! Runs on loop devices of this host: real mkfs, mounts and checks, as root; skipped for other users.

#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

mod common;

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use common::{can_mount, code, fsdyno, records, run, stderr};
use fsdyno_media::loops;
use fsdyno_venue::{prerequisites, tools};
use serde_json::Value;

/// Runs the program and checks that it leaves nothing: no loop device with the mark of its process, no mount in this
/// namespace, and in the folder only the results.
fn run_and_check(folder: &Path, args: &[&str]) -> std::process::Output {
    let mounts = || std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let (before, places) = (mounts(), mount_places());
    let child = fsdyno(folder)
        .arg("run")
        .args(args)
        .args(["--out", "r"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id() as i32;
    let output = child.wait_with_output().unwrap();
    assert!(loops::marked().iter().all(|left| left.mark.pid != pid), "a loop is left");
    assert_eq!(mounts(), before);
    assert_eq!(mount_places(), places, "something is left next to the mount point");
    let left: Vec<_> =
        std::fs::read_dir(folder).unwrap().flatten().map(|it| it.file_name()).collect();
    assert!(left.iter().all(|name| name == "r" || name == "cache"), "{left:?}");
    output
}

/// The entries at and next to the mount point of trials.
fn mount_places() -> Vec<PathBuf> {
    let names = |folder: &str| std::fs::read_dir(folder).into_iter().flatten().flatten();
    let siblings = names("/").map(|entry| entry.path());
    let siblings = siblings.filter(|path| path.to_string_lossy().starts_with("/mnt"));
    let mut places: Vec<PathBuf> =
        names("/mnt").map(|entry| entry.path()).chain(siblings).collect();
    places.sort();
    places
}

/// The file systems of the catalog that this host can make and mount.
fn supported_kinds() -> Vec<&'static str> {
    let kinds = fsdyno_filesystem::catalog::all().iter();
    let supported = kinds.filter(|kind| {
        prerequisites::has_filesystem(kind)
            && tools::missing(kind).is_empty()
            && kind.mkfs.argv.iter().any(|word| word == "{device}")
    });
    supported.map(|kind| kind.name.as_str()).collect()
}

#[test]
fn every_file_system_that_this_host_has_is_made_filled_verified_and_checked_on_a_loop() {
    if !can_mount() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let kinds = supported_kinds();
    let mut args = vec!["dirops", "--set", "files=500", "--on", "loop:512M"];
    kinds.iter().for_each(|kind| args.extend(["--fs", kind]));
    let output = run_and_check(folder.path(), &args);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let trials = records(&folder.path().join("r"));
    assert_eq!(trials.len(), kinds.len());
    for trial in &trials {
        assert_eq!(trial["outcome"], "ok", "{}", trial["reason"]);
        let conditions = &trial["conditions"];
        assert_eq!(conditions["venue"], "host");
        let device = conditions["device"].as_str().unwrap();
        assert!(device.starts_with("loop over a file on "), "{device}");
        assert_eq!(conditions["device_size"], 512 << 20);
        assert!(conditions["mkfs"].to_string().contains("/dev/loop"), "{conditions}");
        assert!(conditions["queue"]["scheduler"].is_string(), "{conditions}");
        assert!(!conditions["features"].as_object().unwrap().is_empty(), "{conditions}");
        assert!(!conditions["tools"].as_object().unwrap().is_empty(), "{conditions}");
        let measured = &trial["measured"];
        assert_eq!(measured["verify"]["problems"], 0);
        let check = &measured["check"];
        assert_eq!(check["clean"], true, "{check}");
        assert!(check["argv"].to_string().contains("/dev/loop"), "{check}");
        for phase in measured["phases"].as_array().unwrap() {
            // A FUSE process may hold unwritten data in its memory, so no durable time is known.
            let fuse = conditions["userspace"] == true;
            assert_eq!(phase["durable_ns"].is_u64(), !fuse, "{phase}");
            assert_eq!(phase["kernel_cpu_ns"]["fuse"].as_u64() > Some(0), fuse, "{phase}");
            assert!(phase["device"]["writes"].as_u64().unwrap() > 0, "{phase}");
        }
        // Cold by a remount, as in the lab.
        assert!(measured["gaps"].to_string().contains("remount"), "{}", measured["gaps"]);
    }
}

#[test]
fn overlays_and_raw_devices_run_on_a_loop_device() {
    if !can_mount() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let one_file =
        "bonnie --fs raw --on loop:256M --set files=0 --set file-size=16M --set char=64K";
    let over = "dirops --fs overlayfs:ext4 --on loop:256M --set files=100";
    for args in [one_file, over] {
        let args: Vec<&str> = args.split(' ').collect();
        let overlay = fsdyno_filesystem::catalog::get("overlayfs").unwrap();
        if args.contains(&"overlayfs:ext4") && !prerequisites::has_filesystem(overlay) {
            println!("skipped overlayfs: this host's kernel has none");
            continue;
        }
        let output = run_and_check(folder.path(), &args);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let trials = records(&folder.path().join("r"));
        assert_eq!((trials.len(), &trials[0]["outcome"]), (1, &"ok".into()));
        let measured = &trials[0]["measured"];
        assert_eq!(measured["verify"]["problems"], 0);
        assert_eq!(measured["check"]["clean"] == true, args.contains(&"overlayfs:ext4"));
        std::fs::remove_dir_all(folder.path().join("r")).unwrap();
    }
}

#[test]
fn external_journals_and_memory_as_a_medium() {
    if !can_mount() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let external = ["ext4 -J device={journal}", "xfs -l logdev={journal}"];
    let mut args =
        vec!["dirops", "--set", "files=300", "--on", "ram:512M", "--journal-size", "64M"];
    let kinds = supported_kinds();
    external
        .iter()
        .filter(|spec| kinds.iter().any(|kind| spec.starts_with(kind)))
        .for_each(|spec| args.extend(["--fs", spec]));
    let output = run_and_check(folder.path(), &args);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    for trial in records(&folder.path().join("r")) {
        assert_eq!(trial["outcome"], "ok", "{}", trial["reason"]);
        let conditions = &trial["conditions"];
        assert_eq!(conditions["device"], "loop over a file in memory");
        let disks: Vec<&Value> = conditions["disks"].as_object().unwrap().values().collect();
        let disk_size =
            |role: &str| disks.iter().find(|disk| disk["role"] == role).unwrap()["size"].clone();
        assert_eq!(
            (disk_size("data"), disk_size("journal")),
            ((512 << 20).into(), (64 << 20).into())
        );
        assert_eq!(trial["measured"]["check"]["clean"], true);
        assert_eq!(trial["plan"]["medium"]["journal_size"], 64 << 20);
    }
    // The same command has nothing left to do, and its report has the command that repeats it.
    let again = run_and_check(folder.path(), &args);
    assert!(stderr(&again).contains("already stored"), "{}", stderr(&again));
    let html = std::fs::read_to_string(folder.path().join("r/report.html")).unwrap();
    assert!(html.contains("--on ram:512M") && html.contains("--journal-size 64M"));
}

/// Tests FUSE commands that fail, and the reported reasons. The lab's tests include a command that goes into the
/// background.
#[test]
fn a_fuse_process_that_dies_or_hangs_fails_its_trial_with_a_reason() {
    if !can_mount() {
        return;
    }
    let fuse2fs = fsdyno_filesystem::catalog::get("fuse2fs").unwrap();
    if !prerequisites::has_filesystem(fuse2fs) || !tools::missing(fuse2fs).is_empty() {
        return println!("skipped: no fuse2fs here");
    }
    let folder = tempfile::tempdir().unwrap();
    let scripts = tempfile::tempdir().unwrap();
    let command = |name: &str, script: &str| {
        let path = scripts.path().join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, mode).unwrap();
        let mount = format!("{} {{device}} {{mount}}", path.display());
        format!("{name}=fuse: mke2fs -q -F -t ext2 -U {{uuid}} {{device}} ; {mount}")
    };
    let dies = command("dies", "echo last words; (sleep 1; kill -9 $$) & exec fuse2fs $1 $2 -f");
    let refuses = command("refuses", "echo no such option >&2; exit 3");
    let hangs = command("hangs", "fuse2fs $1 $2 -f; exec sleep 1000");
    let killed = "the file system's process ended (killed by signal 9): last words";
    let mut cases = vec![(dies, "40000", killed), (refuses, "10", "(exit code 3): no such option")];
    // The trial waits a minute for this command.
    cases.extend(common::full().then_some((
        hangs,
        "10",
        "hangs: it has not ended after its unmount",
    )));
    for (spec, files, expected) in cases {
        let files = format!("files={files}");
        let output = run_and_check(
            folder.path(),
            &["dirops", "--on", "loop:256M", "--set", &files, "--fs", &spec],
        );
        assert_eq!(code(&output), 4, "{}", stderr(&output));
        let reason = records(&folder.path().join("r"))[0]["reason"].to_string();
        assert!(reason.contains(expected), "{reason}");
        std::fs::remove_dir_all(folder.path().join("r")).unwrap();
    }
}

#[test]
fn a_file_system_is_aged_in_each_trial_and_no_figure_includes_it() {
    if !can_mount() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let args = "dirops --set files=100 --on loop:256M --fs ext4 --age none \
                 --age fill=50%,churn=1,files=16K-256K --repeat 2";
    let args: Vec<&str> = args.split_whitespace().collect();
    let output = run_and_check(folder.path(), &args);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let trials = records(&folder.path().join("r"));
    assert_eq!(trials.len(), 4);
    let is_aged = |trial: &&Value| !trial["plan"]["filesystem"]["age"].is_null();
    let used = |trial: &Value| trial["measured"]["phases"][0]["space_used"].as_u64().unwrap();
    let young = trials.iter().find(|trial| !is_aged(trial)).unwrap();
    assert!(young["conditions"]["aged"].is_null() && young["host"]["stages"]["age"].is_null());
    for trial in trials.iter().filter(is_aged) {
        assert_eq!(trial["outcome"], "ok", "{}", trial["reason"]);
        let aged = |what: &str| trial["conditions"]["aged"][what].as_u64().unwrap();
        let fill = 100.0 * aged("used") as f64 / aged("size") as f64;
        assert!((49.5..51.5).contains(&fill), "{fill} % full");
        assert!(aged("files") > 300 && aged("removed") >= aged("files") * 9 / 10, "{trial}");
        assert!(
            used(trial) > used(young) + aged("bytes"),
            "the files that aged the disk stay during the phases"
        );
        assert_eq!(trial["measured"]["check"]["clean"], true);
        assert_eq!(trial["host"]["stages"]["age"], trial["measured"]["setup"]["age_ns"]);
        assert!(trial["host"]["stages"]["age"].as_u64() > Some(0), "{}", trial["host"]);
        assert_eq!(trial["measured"]["verify"]["problems"], 0);
    }
}

#[test]
fn an_option_that_mkfs_refuses_fails_with_mkfss_message_and_leaves_nothing() {
    if !can_mount() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let args = ["dirops", "--on", "loop:64M", "--fs", "ext4 -I 100"];
    let output = run_and_check(folder.path(), &args);
    assert_eq!(code(&output), 4, "{}", stderr(&output));
    let trials = records(&folder.path().join("r"));
    let reason = trials[0]["reason"].as_str().unwrap();
    assert!(reason.contains("mke2fs") && reason.contains("invalid inode size"), "{reason}");
}

#[test]
fn a_loop_device_without_space_for_its_file_is_refused_before_any_work() {
    if !can_mount() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for on in ["loop:9000000G", "ram:9000000G"] {
        let output = run_and_check(folder.path(), &["dirops", "--on", on]);
        assert_eq!(code(&output), 2, "{}", stderr(&output));
        assert!(stderr(&output).contains("are available"), "{}", stderr(&output));
    }
    let left = std::fs::read_dir(folder.path()).unwrap().flatten();
    assert_eq!(left.filter(|entry| entry.file_name() == "r").count(), 0, "an empty folder is left");
}

#[test]
fn an_array_of_loops_runs_or_the_missing_driver_is_reported() {
    if !can_mount() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let args = ["dirops", "--set", "files=300", "--on", "loop:256M", "--raid", "5x3:64K"];
    let output = run_and_check(folder.path(), &args);
    if !Path::new("/proc/mdstat").exists() && code(&output) == 3 {
        assert!(stderr(&output).contains("needs the md driver"), "{}", stderr(&output));
        return eprintln!("skipped the rest: {}", stderr(&output));
    }
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let trials = records(&folder.path().join("r"));
    assert_eq!(trials[0]["outcome"], "ok", "{}", trials[0]["reason"]);
    assert_eq!(trials[0]["conditions"]["array"]["Raid Level"], "raid5");
    assert_eq!(trials[0]["conditions"]["disks"].as_object().unwrap().len(), 3);
}

#[test]
fn without_root_it_is_refused_before_it_starts() {
    if !can_mount() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // The user nobody cannot read the build folder, so the program is copied.
    let program = folder.path().join("fsdyno");
    std::fs::copy(env!("CARGO_BIN_EXE_fsdyno"), &program).unwrap();
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    let mut command = std::process::Command::new(&program);
    command.args(["run", "dirops", "--on", "loop:64M", "--out", "/nowhere/r"]);
    let output = command.uid(65534).gid(65534).current_dir("/").output().unwrap();
    assert_eq!(code(&output), 3, "{}", stderr(&output));
    assert!(stderr(&output).contains("--on loop:64M needs root"), "{}", stderr(&output));
    // A dry run does not need root.
    let dry = run(folder.path(), "run dirops --on loop:64M --dry-run");
    assert!(String::from_utf8_lossy(&dry.stdout).contains("newly created on loop:64M"));
}

#[test]
fn two_targets_are_rows_of_one_table_and_each_has_its_command() {
    if !can_mount() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let args = "dirops --on loop:64M --on ram:64M --fs ext4 --set files=10 --verbose"
        .split(' ')
        .collect::<Vec<_>>();
    let output = run_and_check(folder.path(), &args);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = common::stdout(&output);
    for part in ["ext4, loop:64M", "ext4, ram:64M", "ram:SIZE is in memory and has none"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let page = std::fs::read_to_string(folder.path().join("r/report.html")).unwrap();
    assert_eq!(page.matches("sudo fsdyno run dirops").count(), 2);
}

#[test]
fn ctrl_c_returns_when_the_loop_is_gone() {
    if !can_mount() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut child = fsdyno(folder.path())
        .args(["run", "capacity", "--on", "loop:300M", "--fs", "ext4", "--set", "size=8K"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let pid = child.id() as i32;
    let ours = || loops::marked().into_iter().find(|it| it.mark.pid == pid);
    common::wait_until("the loop", || ours().is_some());
    // The kernel releases a loop device only after pending writes are complete, so wait until one is in flight.
    let stat =
        Path::new("/sys/block").join(ours().unwrap().path.file_name().unwrap()).join("inflight");
    common::wait_until("a write", || {
        let text = std::fs::read_to_string(&stat).unwrap_or_default();
        text.split_whitespace().nth(1).is_some_and(|writes| writes != "0")
    });
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&child),
        rustix::process::Signal::INT,
    )
    .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(ours(), None);
}
