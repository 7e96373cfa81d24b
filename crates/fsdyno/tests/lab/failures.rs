//! Trials of the lab that fail: each has its reason, and no guest or file is left.
#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::common::lab::{boot, fsdyno, lab, main_program, run, skipped, trials};
use crate::common::{code, stderr, wait_until};

/// Returns the QEMU guests that are children of `root`.
fn guests_of(root: u32) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let Some((_, rest)) = stat.rsplit_once(") ") else { continue };
        let fields: Vec<&str> = rest.split(' ').collect();
        let running = fields.first().is_some_and(|state| *state != "Z" && *state != "X");
        let child = fields.get(1).is_some_and(|parent| *parent == root.to_string());
        // QEMU is also started to print its version; only a guest has a kernel.
        let words = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let kernel = words.split(|byte| *byte == 0).any(|word| word == b"-kernel");
        if running && child && kernel {
            found.push(pid);
        }
    }
    found
}

fn kill(pid: u32, signal: i32) {
    // SAFETY: kill takes numbers; the process is a child of this test's own child.
    assert_eq!(unsafe { libc::kill(pid as i32, signal) }, 0);
}

/// Starts a long run and waits until its guest runs the workload.
fn start_guest(folder: &Path) -> (Child, u32) {
    let words = "run dirops --fs ext4 --disk hdd-7200 --set files=500000 --out out";
    let mut command = fsdyno(main_program(), folder, words);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("a guest", || !guests_of(child.id()).is_empty());
    let guest = guests_of(child.id())[0];
    std::thread::sleep(Duration::from_secs(3));
    (child, guest)
}

fn has_ended(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
}

#[test]
fn a_guest_without_enough_memory_is_a_failed_trial_with_a_reason() {
    let Some(folder) = lab() else { return };
    // vm.min_free_kbytes keeps nearly all of it free.
    let words = "dirops --fs ext4 --ram 112M --sysctl vm.min_free_kbytes=94000 --set files=20000 \
            --out out";
    let output = run(folder.path(), words);
    assert_eq!(code(&output), 4, "{}", stderr(&output));
    let trial = trials(&folder.path().join("out")).remove(0);
    assert_eq!(trial["outcome"], "failed");
    let reason = trial["reason"].as_str().unwrap().to_lowercase();
    assert!(reason.contains("memory"), "{reason}");
}

#[test]
fn a_trial_that_takes_too_long_by_the_guests_clock_has_failed() {
    let Some(folder) = lab() else { return };
    let words =
        "dirops --fs ext4 --set files=200000 --size 32G --boot snapshot --deadline 1 --out out";
    let output = run(folder.path(), words);
    assert_eq!(code(&output), 4, "{}", stderr(&output));
    let trial = trials(&folder.path().join("out")).remove(0);
    let reason = trial["reason"].as_str().unwrap();
    assert!(reason.contains("not done within 1.00 s of virtual time"), "{reason}");
    assert!(reason.contains("the kernel's last lines"), "{reason}");
}

#[test]
fn a_full_file_system_fails_with_the_failed_call() {
    let Some(folder) = lab() else { return };
    // The bytes and the inodes fit; a block for each byte does not.
    let words =
        "dirops --fs 'ext4 -b 4096 -N 4000' --set files=3500 --set size=1 --size 12M --out out";
    let output = run(folder.path(), words);
    assert_eq!(code(&output), 4, "{}", stderr(&output));
    let trial = trials(&folder.path().join("out")).remove(0);
    let reason = trial["reason"].as_str().unwrap();
    assert!(reason.contains("ENOSPC") && reason.contains("after"), "{reason}");
}

#[test]
fn work_that_does_not_fit_is_refused_before_the_first_op_with_the_space_needed() {
    let Some(folder) = lab() else { return };
    // With every block stored twice, 300 MiB hold less than 250 MiB of data.
    let words = "tarball --fs 'btrfs -m dup -d dup' --set files=250 --set size=1M --size 300M \
            --out out";
    let output = run(folder.path(), words);
    assert_eq!(code(&output), 4, "{}", stderr(&output));
    let trial = trials(&folder.path().join("out")).remove(0);
    let reason = trial["reason"].as_str().unwrap();
    assert!(reason.contains("250 MiB of file data at once"), "{reason}");
    assert_eq!(trial["measured"]["phases"].as_array().unwrap().len(), 0);
}

#[test]
fn a_killed_guest_is_a_failed_trial_and_fsdyno_continues() {
    let Some(folder) = lab() else { return };
    let (child, guest) = start_guest(folder.path());
    kill(guest, libc::SIGKILL);
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 4, "{}", stderr(&output));
    let trial = trials(&folder.path().join("out")).remove(0);
    assert!(trial["reason"].as_str().unwrap().contains("killed by signal 9"), "{trial}");
}

#[test]
fn ctrl_c_ends_the_guest_and_the_exit_code_is_130() {
    let Some(folder) = lab() else { return };
    let (child, guest) = start_guest(folder.path());
    // timeout(1) sends a signal to its command and to the process group.
    kill(child.id(), libc::SIGINT);
    kill(child.id(), libc::SIGINT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 130, "{}", stderr(&output));
    assert!(stderr(&output).contains("resume with:"), "{}", stderr(&output));
    wait_until("the end of the guest", || has_ended(guest));
}

#[test]
fn the_guest_of_a_killed_fsdyno_ends_and_no_file_is_left() {
    let Some(folder) = lab() else { return };
    let (mut child, guest) = start_guest(folder.path());
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("the end of the guest", || has_ended(guest));
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().flatten().collect();
    assert!(left.iter().all(|entry| entry.file_name() == "out"), "{left:?}");
}

#[test]
fn a_full_host_is_distinguished_from_a_broken_guest() {
    let Some(folder) = lab() else { return };
    let small = folder.path().join("small");
    std::fs::create_dir(&small).unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=24M", "tmpfs"])
        .arg(&small)
        .status()
        .is_ok_and(|status| status.success());
    if !mounted {
        skipped("only root can mount a small file system to fill");
        return;
    }
    let words = format!("run tarball --fs ext4 --set files=100 --set size=1M {}", boot());
    let mut command = fsdyno(main_program(), folder.path(), &words);
    // The data of the disk is in the folder of temporary files.
    let output = command.env("TMPDIR", &small).args(["--out", "out"]).output().unwrap();
    let text = stderr(&output);
    let record = trials(&folder.path().join("out")).remove(0).to_string();
    assert!(Command::new("umount").arg("-l").arg(&small).status().unwrap().success());
    assert_eq!(code(&output), 4, "{text}");
    let all = format!("{text}{record}");
    assert!(all.contains("space") || all.contains("room"), "{all}");
}
