//! File systems shared over a modelled network: bit-identical, and what a record has of server and clients.
#![allow(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::common::lab::{lab, measured, run, skipped, trials};
use crate::common::{code, full, stderr, stdout};
use serde_json::Value;

const SMALL: &str = "dirops --set files=48 --size 1G --seed 3";

fn good(folder: &Path, words: &str) {
    let output = run(folder, words);
    assert_eq!(code(&output), 0, "{words}: {}{}", stdout(&output), stderr(&output));
}

#[test]
fn two_clients_of_a_server_repeat_to_the_byte_and_have_the_work_in_two() {
    let Some(folder) = lab() else { return };
    let words = format!("{SMALL} --fs nfs:ext4 --clients 2 --network lan-10g");
    for out in ["one", "two"] {
        good(folder.path(), &format!("{words} --out {out}"));
    }
    let of = |out: &str| measured(&folder.path().join(out));
    assert_eq!(of("one"), of("two"));
    let trial = trials(&folder.path().join("one")).remove(0);
    let create = &trial["measured"]["phases"][0];
    assert_eq!(create["ops"]["create"]["count"], 48);
    assert_eq!(create["ops"]["open"]["count"], 2, "each client opens the directory");
    assert!(create["durable_ns"].as_u64() > create["returned_ns"].as_u64(), "{create}");
    assert!(create["kernel_cpu_ns"]["nfsd"].as_u64().unwrap() > 1_000_000, "{create}");
    let conditions = &trial["conditions"];
    let mount = conditions["mount"].as_str().unwrap();
    assert!(mount.starts_with("nfs4 ") && mount.contains("vers=4.2"), "{mount}");
    assert!(conditions["below"].as_str().unwrap().starts_with("ext4 "), "{}", conditions["below"]);
    assert!(conditions["notes"].to_string().contains("shared its one processor"));
    assert_eq!(trial["measured"]["check"]["clean"], true);
}

#[test]
fn a_longer_network_makes_each_call_wait_for_its_round_trip() {
    let Some(folder) = lab() else { return };
    let words =
        format!("{SMALL} --fs 'nfs:ext4 @ vers=3' --network lan-10g --network wan-20ms --out r");
    good(folder.path(), &words);
    let create = |trial: &Value| trial["measured"]["phases"][0]["returned_ns"].as_u64().unwrap();
    let all = trials(&folder.path().join("r"));
    // NFS 3 creates a file in one call at least, and writes it in another.
    let more = create(&all[1]) - create(&all[0]);
    assert!(more > 48 * 19_900_000, "{more}");
    assert!(all[0]["conditions"]["mount"].as_str().unwrap().contains("vers=3"));
}

#[test]
fn one_to_eight_clients_repeat_to_the_byte_beside_load_too() {
    if !full() {
        return skipped("long (make test-full)");
    }
    let Some(folder) = lab() else { return };
    let words = "dirops --set files=160 --size 1G --seed 3 --fs nfs:ext4 --clients 1,2,4,8";
    good(folder.path(), &format!("{words} --out one"));
    good(folder.path(), &format!("{words} --out two --jobs 2"));
    let burner = || {
        Command::new("sh").args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn().unwrap()
    };
    let burners: Vec<Child> = (0..3).map(|_| burner()).collect();
    let busy = run(folder.path(), &format!("{words} --out busy --jobs 2"));
    for mut burner in burners {
        burner.kill().unwrap();
        burner.wait().unwrap();
    }
    assert_eq!(code(&busy), 0, "{}", stderr(&busy));
    let of = |out: &str| measured(&folder.path().join(out));
    assert_eq!(of("one").len(), 4);
    assert!(of("one") == of("two") && of("one") == of("busy"), "measured differs");
}
