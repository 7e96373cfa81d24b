//! Recorded programs in the lab.
#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

use std::path::Path;

use serde_json::Value;

use crate::common::lab::{fsdyno, lab, main_program, measured, run, size, skipped, trials};
use crate::common::{code, full, stderr, stdout};

/// Arguments of a run that replays a recording; `every_workload_is_verified_in_the_lab_and_bit_identical` checks that
/// it covers this workload.
pub(crate) const REPLAY_ARGS: &str = "replay --set trace=it.trace --fs ext4";

/// Arguments of a run that records a command and replays it, on a file system of the default size.
pub(crate) const COMMAND_ARGS: &str = "command --set 'setup=echo old >old' --set 'command=cp old new; mkdir d; ls' --fs ext4 \
    --size 32G --out out";

/// A script of two concurrent processes that share names and wait for each other.
const SCRIPT: &str = "mkdir a b; \
    (for n in 1 2 3 4 5 6 7 8; do echo $n >a/$n; cat a/$n >>b/sum; done) & \
    (for n in 1 2 3 4 5 6 7 8; do cp old/$n b/$n; mv b/$n b/m$n; done) & \
    wait; ln b/m1 a/hard; ln -s m1 b/soft; chmod 600 b/m2; rm a/3; ls a b >list; sync";

/// Records a script on a tree of eight files as it.trace.
fn record(folder: &Path, script: &str) {
    let old = folder.join("work/old");
    std::fs::create_dir_all(&old).unwrap();
    (1..=8).for_each(|n| std::fs::write(old.join(n.to_string()), vec![b'x'; n * 1000]).unwrap());
    let args = format!("record -o ../it.trace -- sh -c '{script}'");
    let output = fsdyno(main_program(), &folder.join("work"), &args).output().unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
}

#[test]
fn a_command_in_the_lab_is_recorded_once_on_this_host_and_replayed() {
    let Some(folder) = lab() else { return };
    let output = run(folder.path(), COMMAND_ARGS);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(stderr(&output).contains("is recorded once on this host"), "{}", stderr(&output));
    let trial = trials(&folder.path().join("out")).remove(0);
    assert_eq!(trial["plan"]["workload"]["name"], "replay");
    assert_eq!(trial["measured"]["verify"]["problems"], 0);
    // The same command resumes with the same recording; another one does not.
    let again = run(folder.path(), COMMAND_ARGS);
    assert_eq!(code(&again), 0, "{}", stderr(&again));
    assert!(stderr(&again).contains("is already recorded"), "{}", stderr(&again));
    let other = run(folder.path(), "command --set command=ls --fs ext4 --size 32G --out out");
    assert_eq!(code(&other), 2, "{}", stderr(&other));
}

#[test]
fn a_recording_of_several_processes_is_replayed_bit_identically() {
    let Some(folder) = lab() else { return };
    record(folder.path(), SCRIPT);
    for out in ["one", "two"] {
        let output = run(folder.path(), &format!("{REPLAY_ARGS} --out {out}"));
        assert_eq!(code(&output), 0, "{}", stderr(&output));
    }
    assert_eq!(measured(&folder.path().join("one")), measured(&folder.path().join("two")));
    let trial = trials(&folder.path().join("one")).remove(0);
    let notes = trial["conditions"]["notes"].to_string();
    assert!(notes.contains("every replayed call had the recorded result"), "{notes}");
}

/// A script with acknowledged work: one process syncs and renames files one by one, the other syncs nothing and
/// renames a directory.
const SYNCED: &str = "mkdir a b; \
    (for n in 1 2 3 4 5 6 7 8; do dd if=old/$n of=a/t bs=64k conv=fsync 2>/dev/null; mv a/t a/$n; sync a; done) & \
    (for n in 1 2 3 4 5 6 7 8; do cp old/$n b/$n; mv b/$n b/m$n; done; mv b c) & \
    wait; rm old/1; sync old";

/// Returns the sum of violations over all cuts of a row.
fn violations(row: &Value) -> u64 {
    let count_in = |tried: &Value| {
        let count = |key: &str| tried["findings"][key].as_u64().unwrap();
        count("acknowledged_lost") + count("acknowledged_names")
    };
    row["tried"].as_array().unwrap().iter().map(count_in).sum()
}

#[test]
fn power_cuts_during_a_replay_lose_synced_data_only_without_barriers() {
    let Some(folder) = lab() else { return };
    record(folder.path(), SYNCED);
    let cuts = if full() { 100 } else { 3 };
    // Few cuts need one guest, and each guest boots.
    let more = if full() { "--fs xfs --fs btrfs" } else { "--jobs 1" };
    let args = format!(
        "crash replay --set trace=it.trace --fs ext4 --fs 'off=ext4 @ barrier=0' {more} --cuts {cuts} {} --out out \
         --format json",
        size()
    );
    let output = fsdyno(main_program(), folder.path(), &args).output().unwrap();
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    for row in serde_json::from_str::<Vec<Value>>(&stdout(&output)).unwrap() {
        assert_eq!(row["tried"].as_array().unwrap().len(), cuts);
        assert_eq!(
            violations(&row) > 0,
            row["label"] == "off",
            "{}: {}",
            row["label"],
            row["tried"]
        );
    }
    // A finding's file contains the path of the recording, from which the finding is reproduced.
    let findings = folder.path().join("out/findings").read_dir().unwrap().map(Result::unwrap);
    let finding =
        findings.map(|entry| entry.path()).find(|path| path.display().to_string().contains("off"));
    let reported = crate::crash::repeat_finding(folder.path(), &finding.unwrap());
    assert!(reported.contains("the finding is reproduced"), "{reported}");
}

#[test]
fn with_barriers_sqlite_loses_no_committed_transaction_of_its_log_in_a_power_cut() {
    if !full() {
        return skipped("FSDYNO_TEST=full runs it");
    }
    let Some(folder) = lab() else { return };
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/traces/sqlite-wal.trace");
    let args = format!(
        "crash replay --set trace={trace} --fs ext4 --fs 'off=ext4 @ barrier=0' --cuts 24 --out out --format json"
    );
    let output = fsdyno(main_program(), folder.path(), &args).output().unwrap();
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    let rows = serde_json::from_str::<Vec<Value>>(&stdout(&output)).unwrap();
    assert!(violations(&rows[0]) == 0 && violations(&rows[1]) > 0, "{rows:?}");
}
