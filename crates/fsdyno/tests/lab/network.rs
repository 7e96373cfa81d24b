//! File systems shared over a modelled network: their trials are bit-identical, and records describe the server and the
//! clients.
#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::common::lab::{lab, measured, run, skipped, trials};
use crate::common::{code, full, stderr, stdout};
use serde_json::Value;

const SMALL: &str = "dirops --set files=48 --size 512M --seed 3";

fn run_ok(folder: &Path, args: &str) {
    let output = run(folder, args);
    assert_eq!(code(&output), 0, "{args}: {}{}", stdout(&output), stderr(&output));
}

#[test]
fn two_clients_of_a_server_are_bit_identical_and_share_the_work() {
    let Some(folder) = lab() else { return };
    let args = format!("{SMALL} --fs nfs:ext4 --clients 2 --network lan-10g");
    for out in ["one", "two"] {
        run_ok(folder.path(), &format!("{args} --out {out}"));
    }
    let measured_in = |out: &str| measured(&folder.path().join(out));
    assert_eq!(measured_in("one"), measured_in("two"));
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
    assert!(conditions["notes"].to_string().contains("shared its single processor"));
    assert_eq!(trial["measured"]["check"]["clean"], true);
}

/// A kernel whose SMB server works; that of the default kernel does not (catalog/filesystems/smb.toml).
const SMB_KERNEL: &str = "--kernel 6.12";

#[test]
fn one_and_two_clients_of_an_smb_server_are_bit_identical() {
    let Some(folder) = lab() else { return };
    // One client does only a part of what two do.
    let counts: &[u64] = if full() { &[1, 2] } else { &[2] };
    let clients = if full() { "1,2" } else { "2" };
    for out in ["one", "two"] {
        let args = format!("{SMALL} --fs smb:ext4 --clients {clients} --network lan-10g");
        run_ok(folder.path(), &format!("{args} {SMB_KERNEL} --out {out}"));
    }
    let [one, two] = ["one", "two"].map(|out| measured(&folder.path().join(out)));
    assert_eq!((one.len(), two.len()), (counts.len(), counts.len()));
    assert!(two == one, "measured differs");
    let all = trials(&folder.path().join("one"));
    let mut clients: Vec<u64> =
        all.iter().filter_map(|trial| trial["plan"]["venue"]["clients"].as_u64()).collect();
    clients.sort_unstable();
    assert_eq!(clients, counts);
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
        let args = format!("{work} --size 32G --fs 'smb:ext4 @ posix' {SMB_KERNEL} --out r");
        let output = run(folder.path(), &args);
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
    if !full() {
        return skipped("SMB with its defaults is tested above (make test-full)");
    }
    let Some(folder) = lab() else { return };
    let spec = "smb:ext4 @ vers=3.0,seal,smb2-leases=yes,closetimeo=3,actimeo=30";
    let args =
        "churn --set files=50 --set ops=200 --set cache=cold --size 512M --seed 3 --clients 2";
    run_ok(folder.path(), &format!("{args} --fs '{spec}' {SMB_KERNEL} --out r"));
    let trial = trials(&folder.path().join("r")).remove(0);
    let mount = trial["conditions"]["mount"].as_str().unwrap();
    assert!(mount.contains("vers=3.0,") && mount.contains(",seal,"), "{mount}");
    let phases = trial["measured"]["phases"].as_array().unwrap();
    let links = phases.iter().filter_map(|phase| phase["ops"]["link"]["count"].as_u64());
    assert!(links.sum::<u64>() > 0, "{phases:?}");
}

#[test]
fn a_slower_network_makes_each_call_wait_for_its_round_trip() {
    let Some(folder) = lab() else { return };
    // Without a network, the trial of the other test takes a few milliseconds.
    let networks: &[&str] = if full() { &["wan-20ms", "lan-10g"] } else { &["wan-20ms"] };
    // A snapshot for a single trial takes longer than a cold boot.
    let args = format!(
        "{SMALL} --fs 'nfs:ext4 @ vers=3' --network {} --boot cold --out r",
        networks.join(" --network ")
    );
    run_ok(folder.path(), &args);
    let create = |trial: &Value| trial["measured"]["phases"][0]["returned_ns"].as_u64().unwrap();
    let all = trials(&folder.path().join("r"));
    // NFS 3 creates a file in one call at least, and writes it in another.
    let slower = create(&all[0]) - all.get(1).map_or(0, create);
    assert!(slower > 48 * 19_900_000, "{slower}");
    assert!(slower < 48 * 20 * 20_000_000, "{slower}");
    assert!(all[0]["conditions"]["mount"].as_str().unwrap().contains("vers=3"));
}

#[test]
fn one_to_eight_clients_are_bit_identical_also_under_load() {
    if !full() {
        return skipped("long (make test-full)");
    }
    let Some(folder) = lab() else { return };
    let args = "dirops --set files=160 --size 1G --seed 3 --fs nfs:ext4 --clients 1,2,4,8";
    run_ok(folder.path(), &format!("{args} --out one"));
    run_ok(folder.path(), &format!("{args} --out two --jobs 2"));
    let burner = || {
        Command::new("sh").args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn().unwrap()
    };
    let burners: Vec<Child> = (0..3).map(|_| burner()).collect();
    let busy = run(folder.path(), &format!("{args} --out busy --jobs 2"));
    for mut burner in burners {
        burner.kill().unwrap();
        burner.wait().unwrap();
    }
    assert_eq!(code(&busy), 0, "{}", stderr(&busy));
    let measured_in = |out: &str| measured(&folder.path().join(out));
    assert_eq!(measured_in("one").len(), 4);
    assert!(
        measured_in("one") == measured_in("two") && measured_in("one") == measured_in("busy"),
        "measured differs"
    );
}
