//! Recorded programs in the lab.
#![allow(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::path::Path;

use crate::common::lab::{fsdyno, lab, measured, ours, run, trials};
use crate::common::{code, stderr};

/// The run of a recording; `every_workload_is_verified_in_the_lab_and_bit_identical` counts it.
pub(crate) const WORDS: &str = "replay --set trace=it.trace --fs ext4";

/// The run of a command, which is recorded and replayed.
pub(crate) const COMMAND: &str = "command --set 'setup=echo old >old' --set 'command=cp old new; mkdir d; ls' --fs ext4 --out out";

/// Two processes at a time, that share names and wait for one another.
const SCRIPT: &str = "mkdir a b; \
    (for n in 1 2 3 4 5 6 7 8; do echo $n >a/$n; cat a/$n >>b/sum; done) & \
    (for n in 1 2 3 4 5 6 7 8; do cp old/$n b/$n; mv b/$n b/m$n; done) & \
    wait; ln b/m1 a/hard; ln -s m1 b/soft; chmod 600 b/m2; rm a/3; ls a b >list; sync";

/// Records the script on a tree of eight files as it.trace.
fn record(folder: &Path) {
    let old = folder.join("work/old");
    std::fs::create_dir_all(&old).unwrap();
    (1..=8).for_each(|n| std::fs::write(old.join(n.to_string()), vec![b'x'; n * 1000]).unwrap());
    let words = format!("record -o ../it.trace -- sh -c '{SCRIPT}'");
    let output = fsdyno(ours(), &folder.join("work"), &words).output().unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
}

#[test]
fn a_command_in_the_lab_is_recorded_once_on_this_host_and_replayed() {
    let Some(folder) = lab() else { return };
    let output = run(folder.path(), COMMAND);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(stderr(&output).contains("is recorded once on this host"), "{}", stderr(&output));
    let trial = trials(&folder.path().join("out")).remove(0);
    assert_eq!(trial["plan"]["workload"]["name"], "replay");
    assert_eq!(trial["measured"]["verify"]["problems"], 0);
    // The same command goes on with the same recording, another one does not.
    let again = run(folder.path(), COMMAND);
    assert_eq!(code(&again), 0, "{}", stderr(&again));
    assert!(stderr(&again).contains("was recorded before"), "{}", stderr(&again));
    let other = run(folder.path(), "command --set command=ls --fs ext4 --out out");
    assert_eq!(code(&other), 2, "{}", stderr(&other));
}

#[test]
fn a_recording_of_several_processes_is_replayed_bit_identically() {
    let Some(folder) = lab() else { return };
    record(folder.path());
    for out in ["one", "two"] {
        let output = run(folder.path(), &format!("{WORDS} --out {out}"));
        assert_eq!(code(&output), 0, "{}", stderr(&output));
    }
    assert_eq!(measured(&folder.path().join("one")), measured(&folder.path().join("two")));
    let trial = trials(&folder.path().join("one")).remove(0);
    let notes = trial["conditions"]["notes"].to_string();
    assert!(notes.contains("every replayed call had the recorded result"), "{notes}");
}
