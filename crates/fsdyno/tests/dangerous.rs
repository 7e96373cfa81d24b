//! `--on DRIVE` from the command line: refusals, dry runs, and what a run leaves. The
//! dangerous requests themselves are in crates/media/tests: dangerous.rs and drives_in_use.rs.
#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

mod common;
#[path = "../../media/tests/fixture/mod.rs"]
mod fixture;

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use common::{code, fsdyno, lines, run, stderr, stdout, wait_until};
use fixture::{LoopDevices, command, put, skip_reason, tool};

/// `doctor --clean` cleans the whole machine, so a test that leaves something waits for the one that cleans.
static CLEANING: Mutex<()> = Mutex::new(());

/// The options of these runs.
const WORK: &str = "run dirops";

fn args(device: &str, image: &Path, extra_args: &str) -> String {
    format!("{WORK} --on {device} --erase {} {extra_args}", image.display())
}

#[test]
fn a_drive_is_named_exactly_before_it_is_erased() {
    if let Some(why) = skip_reason() {
        return println!("skipped: {why}");
    }
    let (folder, mut fixture) = (tempfile::tempdir().unwrap(), LoopDevices::new());
    let (device, image) = fixture.device(64);
    let before = fixture.hashes();
    for erase in ["", "--erase S3RIAL"] {
        let output = run(folder.path(), &format!("{WORK} --on {device} {erase}"));
        let printed = stderr(&output);
        assert_eq!(code(&output), 2, "{printed}");
        assert!(printed.contains(&format!("add --erase {}", image.display())), "{printed}");
        assert_eq!(printed.lines().count(), 1, "{printed}");
    }
    // The options of the message are sufficient.
    let output = run(folder.path(), &args(&device, &image, "--dry-run"));
    let printed = stdout(&output);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    for part in [
        &format!("addpart {device} 1 2048 126976"),
        &format!("addpart {device} 2 0 2048"),
        &format!("write fsdyno's mark, 4 KiB at byte 4096 of {device}"),
        "make:  mke2fs",
        &format!(" {device}p1\n"),
        "check: e2fsck",
    ] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    let output = run(folder.path(), &args(&device, &image, "--dry-run --format json"));
    let value: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(value["drives"][0]["device"], format!("{device}p1"));
    assert_eq!(fixture.hashes(), before);
    assert!(!Path::new(&format!("{device}p1")).exists());
}

#[test]
fn requests_that_are_invalid_for_a_drive_are_refused_before_it_is_touched() {
    if let Some(why) = skip_reason() {
        return println!("skipped: {why}");
    }
    let (folder, mut fixture) = (tempfile::tempdir().unwrap(), LoopDevices::new());
    let (device, image) = fixture.device(64);
    for (extra_args, part) in [
        ("--fs xfs", "too small for xfs"),
        ("--fs ext5", "'ext"),
        ("--fs far=ext4/-J/device={journal}", "needs a second disk"),
        ("--disk instant", "--disk works only in the lab"),
        ("--raid 5x3", "--raid works only in the lab"),
        ("--size 32M", "--size works only in the lab"),
        ("--jobs 2", "trials would share the drive"),
        ("--set files=100000 --set size=64K", "writes"),
    ] {
        let args = args(&device, &image, "");
        let mut program = fsdyno(folder.path());
        program.args(args.split_whitespace());
        program.args(extra_args.split_whitespace().map(|word| word.replace('/', " ")));
        let output = program.output().unwrap();
        assert_eq!(code(&output), 2, "{extra_args}: {}", stderr(&output));
        assert!(stderr(&output).contains(part), "{extra_args}: {}", stderr(&output));
    }
    tool("mke2fs", &["-q", "-F", "-t", "ext2", &device]);
    let signed = fixture.hashes();
    let output = run(folder.path(), &args(&device, &image, ""));
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("not fsdyno's: ext2"), "{}", stderr(&output));
    assert_eq!(fixture.hashes(), signed);
    put(&device, 0, &[0; 64 << 10]);
    // The same command without the required privileges.
    let program = env!("CARGO_BIN_EXE_fsdyno");
    let mut unprivileged = command("setpriv", &["--reuid", "65534", "--clear-groups", program]);
    let output =
        unprivileged.args(args(&device, &image, "--out /tmp/x").split_whitespace()).output();
    let output = output.unwrap();
    assert_eq!(code(&output), 3, "{}", stderr(&output));
    assert!(stderr(&output).contains("sudo"), "{}", stderr(&output));
}

#[test]
fn a_run_formats_checks_and_releases_its_drive() {
    if let Some(why) = skip_reason() {
        return println!("skipped: {why}");
    }
    let (folder, mut fixture) = (tempfile::tempdir().unwrap(), LoopDevices::new());
    let (device, image) = fixture.device(160);
    let args = args(
        &device,
        &image,
        "--fs ext4 --fs btrfs --fs ext2 --repeat 2 --out results --set files=200",
    );
    let output = run(folder.path(), &args);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = std::fs::read_to_string(folder.path().join("results/trials.ndjson")).unwrap();
    let trials: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(trials.len(), 6);
    for trial in &trials {
        assert_eq!(trial["outcome"], "ok", "{trial}");
        assert_eq!(trial["measured"]["check"]["clean"], true, "{trial}");
        let conditions = &trial["conditions"];
        assert_eq!(conditions["device"], format!("loop over {}", image.display()));
        assert_eq!(conditions["device_size"], 158 << 20);
        assert!(conditions["queue"]["scheduler"].is_string(), "{conditions}");
        let written = trial["measured"]["phases"][0]["device"]["bytes_written"].as_u64();
        assert!(written.is_some_and(|bytes| bytes > 0), "{}", trial["measured"]["phases"][0]);
    }
    assert!(!Path::new(&format!("{device}p1")).exists(), "the drive was not released");
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(&device), "{mounts}");
    // All trials are stored; the same command has nothing left to do.
    let output = run(folder.path(), &args);
    assert_eq!((code(&output), lines(&folder.path().join("results"))), (0, 6));
}

#[test]
fn a_killed_run_leaves_no_mount_and_the_next_one_uses_the_drive_again() {
    if let Some(why) = skip_reason() {
        return println!("skipped: {why}");
    }
    let _cleaning = CLEANING.lock().unwrap_or_else(PoisonError::into_inner);
    let (folder, mut fixture) = (tempfile::tempdir().unwrap(), LoopDevices::new());
    let (device, image) = fixture.device(64);
    let long = args(&device, &image, "--set files=10000 --repeat 50 --out killed");
    for _ in 0..3 {
        let mut child = fsdyno(folder.path()).args(long.split_whitespace()).spawn().unwrap();
        let killed = folder.path().join("killed");
        let stored = lines(&killed);
        wait_until("the next trial", || lines(&killed) > stored);
        child.kill().unwrap();
        child.wait().unwrap();
        // Its child ends with it, and so does the mount namespace.
        let free = || {
            let checked = fsdyno_media::block::check_drive(Path::new(&device), image.to_str());
            checked.is_ok()
        };
        wait_until("the release of the drive", free);
    }
    let output = run(folder.path(), &args(&device, &image, "--set files=200 --out whole"));
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(!Path::new(&format!("{device}p1")).exists());
}

#[test]
fn foreign_content_on_a_partition_of_a_killed_run_is_named_and_kept() {
    if let Some(why) = skip_reason() {
        return println!("skipped: {why}");
    }
    let _cleaning = CLEANING.lock().unwrap_or_else(PoisonError::into_inner);
    let (folder, mut fixture) = (tempfile::tempdir().unwrap(), LoopDevices::new());
    let (device, image) = fixture.device(64);
    let part = format!("{device}p1");
    let killed = args(&device, &image, "--set files=10000 --repeat 50 --out killed");
    let mut child = fsdyno(folder.path()).args(killed.split_whitespace()).spawn().unwrap();
    wait_until("a trial", || lines(&folder.path().join("killed")) > 0);
    child.kill().unwrap();
    child.wait().unwrap();
    let free = || fsdyno_media::block::check_drive(Path::new(&device), image.to_str()).is_ok();
    wait_until("the release of the drive", free);
    tool("mke2fs", &["-q", "-F", "-t", "ext4", "-L", "thesis", &part]);
    let before = fixture.hashes();
    let doctor = || run(folder.path(), "doctor --clean");
    for _ in 0..2 {
        let cleaned = doctor();
        assert_eq!(code(&cleaned), 2, "{}", stderr(&cleaned));
        for expected in
            [&format!("{part} holds ext4 "), "'thesis'", &format!("wipefs --all {part}")]
        {
            assert!(stderr(&cleaned).contains(expected), "{expected}: {}", stderr(&cleaned));
        }
        assert!(Path::new(&part).exists() && fixture.hashes() == before);
    }
    tool("wipefs", &["--quiet", "--all", &part]);
    let cleaned = doctor();
    let removed = format!("removed two partitions of {device}");
    assert!(code(&cleaned) == 0 && stderr(&cleaned).contains(&removed), "{}", stderr(&cleaned));
    assert!(!Path::new(&part).exists());
}

#[test]
fn a_report_is_not_written_over_a_drive() {
    if let Some(why) = skip_reason() {
        return println!("skipped: {why}");
    }
    let (folder, mut fixture) = (tempfile::tempdir().unwrap(), LoopDevices::new());
    let (device, _) = fixture.device(24);
    let output = run(folder.path(), "run dirops --set files=10 --on . --out results");
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let before = fixture.hashes();
    let output = run(folder.path(), &format!("report results --html {device}"));
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("it is a block device"), "{}", stderr(&output));
    assert_eq!(fixture.hashes(), before);
}
