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

/// The kernel whose SMB server works; the default one's does not (catalog/filesystems/smb.toml).
const SMB_KERNEL: &str = "--kernel 6.12";

#[test]
fn one_and_two_clients_of_an_smb_server_repeat_to_the_byte() {
    let Some(folder) = lab() else { return };
    let words = format!("{SMALL} --fs smb:ext4 --clients 1,2 --network lan-10g {SMB_KERNEL}");
    for out in ["one", "two"] {
        good(folder.path(), &format!("{words} --out {out}"));
    }
    let of = |out: &str| measured(&folder.path().join(out));
    assert_eq!(of("one").len(), 2);
    assert_eq!(of("one"), of("two"));
    let all = trials(&folder.path().join("one"));
    let mut clients: Vec<u64> =
        all.iter().filter_map(|trial| trial["plan"]["venue"]["clients"].as_u64()).collect();
    clients.sort_unstable();
    assert_eq!(clients, [1, 2]);
    for trial in &all {
        let create = &trial["measured"]["phases"][0];
        assert_eq!(create["ops"]["create"]["count"], 48);
        assert_eq!(create["ops"]["open"]["count"], trial["plan"]["venue"]["clients"]);
        let cpu = |thread: &str| create["kernel_cpu_ns"][thread].as_u64().unwrap_or_default();
        assert!(cpu("cifsd") > 100_000 && cpu("ksmbd") > 100_000, "{create}");
        let conditions = &trial["conditions"];
        let mount = conditions["mount"].as_str().unwrap();
        assert!(mount.starts_with("cifs ") && mount.contains("vers=3.1.1"), "{mount}");
        assert!(conditions["below"].as_str().unwrap().starts_with("ext4 "), "{conditions}");
        assert!(conditions["notes"].to_string().contains("network of SMB were in one guest"));
        assert_eq!(trial["measured"]["check"]["clean"], true);
    }
}

#[test]
fn workloads_that_need_more_than_smb_has_are_refused_before_any_work() {
    let Some(folder) = lab() else { return };
    for (work, why) in [
        ("tarball", "SMB has no modes"),
        ("calls", "SMB has no"),
        ("source-tree", "SMB has no"),
        ("bonnie", "it needs files with their own modes"),
    ] {
        let words = format!("{work} --size 32G --fs 'smb:ext4 @ posix' {SMB_KERNEL} --out r");
        let output = run(folder.path(), &words);
        let error = stderr(&output);
        assert!(error.contains("cannot run on smb:ext4") && error.contains(why), "{work}: {error}");
        assert_ne!(code(&output), 0, "{work}");
    }
    assert!(!folder.path().join("r").exists());
}

/// churn makes hard links, and its verification counts them; cold steps between phases stop the server, and a client
/// with leases keeps files open after their close.
#[test]
fn smb_with_leases_is_verified_with_its_links_after_a_restart_of_the_server() {
    let Some(folder) = lab() else { return };
    let spec = "smb:ext4 @ vers=3.0,seal,smb2-leases=yes,closetimeo=3,actimeo=30";
    let words =
        "churn --set files=100 --set ops=300 --set cache=cold --size 1G --seed 3 --clients 2";
    good(folder.path(), &format!("{words} --fs '{spec}' {SMB_KERNEL} --out r"));
    let trial = trials(&folder.path().join("r")).remove(0);
    let mount = trial["conditions"]["mount"].as_str().unwrap();
    assert!(mount.contains("vers=3.0,") && mount.contains(",seal,"), "{mount}");
    let phases = trial["measured"]["phases"].as_array().unwrap();
    let links = phases.iter().filter_map(|phase| phase["ops"]["link"]["count"].as_u64());
    assert!(links.sum::<u64>() > 0, "{phases:?}");
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
