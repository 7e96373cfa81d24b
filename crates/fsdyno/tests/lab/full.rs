//! In the lab: a file system filled to its last block, and a device without a file system. Where the lab cannot run,
//! these tests are skipped with the reason; with CI set in the environment, that is a failure.
#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::lab::boot;
use crate::common::{PROGRAM, code, full, stderr, stdout};
use fsdyno_lab::Cache;
use serde_json::Value;

fn fsdyno(folder: &Path, args: &str) -> Output {
    Command::new(PROGRAM)
        .current_dir(folder)
        .stdin(Stdio::null())
        .env("XDG_CACHE_HOME", Cache::of_user().unwrap().path().parent().unwrap())
        .args(args.split_whitespace())
        .output()
        .unwrap()
}

fn lab() -> Option<tempfile::TempDir> {
    let folder = tempfile::tempdir().unwrap();
    if code(&fsdyno(folder.path(), "doctor")) == 0 {
        return Some(folder);
    }
    assert!(std::env::var_os("CI").is_none(), "CI has to run the lab");
    let _ =
        writeln!(std::io::stderr(), "skipped: the lab cannot run here; fsdyno doctor reports why");
    None
}

fn trials(folder: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.join("out/trials.ndjson")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_file_system_is_filled_to_enospc_verified_and_checked_clean() {
    let Some(folder) = lab() else { return };
    let kinds = if full() { "--fs ext2 --fs ext4" } else { "--fs ext4" };
    let args = format!(
        "run capacity --size 8M --disk instant {kinds} --set size=2000-9000 {} --out out",
        boot()
    );
    let output = fsdyno(folder.path(), &args);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(stdout(&output).contains("full, ext4: "), "{}", stdout(&output));
    for trial in trials(folder.path()) {
        let capacity = &trial["measured"]["capacity"];
        let value_of = |what: &str| capacity[what].as_u64().unwrap();
        let (files, taken) = (value_of("files"), value_of("free_empty") - value_of("free_full"));
        assert!(files > 500 && value_of("data") > files * 2000, "{capacity}");
        assert!(taken > value_of("data") && value_of("free_full") < 1 << 20, "{capacity}");
        assert_eq!(
            value_of("inodes_empty") - value_of("inodes_full"),
            files + value_of("directories"),
            "{capacity}"
        );
        assert!(
            value_of("device") > value_of("total") || value_of("device") > value_of("free_empty"),
            "{capacity}"
        );
        assert_eq!(trial["measured"]["verify"]["files"], files);
        assert_eq!(trial["measured"]["check"]["clean"], true);
    }
}

#[test]
fn the_large_file_of_bonnie_runs_on_the_device_itself_and_is_verified() {
    let Some(folder) = lab() else { return };
    // The boot is cold, because no other test has a guest for devices without a file system. trials.rs has bonnie's file
    // on ext4.
    let size: u64 = if full() { 16 } else { 8 };
    let args = format!(
        "run bonnie --fs raw {} --size 1G --set file-size={size}M --set char=64K --set seeks=50 --set files=0 \
         --set gap=remount --out out",
        if full() { "--fs ext2" } else { "" }
    );
    let output = fsdyno(folder.path(), &args);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let trials = trials(folder.path());
    let raw = trials.iter().find(|trial| trial["plan"]["label"] == "raw").unwrap();
    assert_eq!(raw["measured"]["verify"]["problems"], 0);
    assert!(
        raw["measured"]["verify"]["bytes"].as_u64().unwrap() >= size << 20,
        "{}",
        raw["measured"]["verify"]
    );
    assert!(raw["conditions"]["mount"].as_str().unwrap().starts_with("none: /dev/nbd0"));
    let phases = raw["measured"]["phases"].as_array().unwrap();
    let written: u64 =
        phases.iter().map(|phase| phase["device"]["bytes_written"].as_u64().unwrap()).sum();
    // The pass in blocks and the rewrite each write the whole file.
    assert!(written >= 2 * (size << 20), "{written} bytes reached the disk");
}

#[test]
fn workloads_that_would_fill_a_users_file_system_or_make_a_tree_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (args, expected) in [
        ("capacity --on .", "a directory of this host is on your own file system"),
        ("capacity", "--size 256M"),
        ("capacity --size 64M --issuer null", "goes on until a call fails"),
        ("dirops --fs raw", "its phase create calls mkdir"),
        ("bonnie --fs raw", "bonnie with --set bonnie.files=0 can"),
    ] {
        let output = fsdyno(folder.path(), &format!("run {args} --dry-run"));
        assert_eq!(code(&output), 2, "{args}: {}", stderr(&output));
        assert!(stderr(&output).contains(expected), "{args}: {}", stderr(&output));
    }
}
