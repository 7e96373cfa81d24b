//! Networks and shared file systems: their lists, their plans, and what is refused before any work.

use serde_json::Value;

use crate::common::{code, plans, run, stderr, stdout};

#[test]
fn every_network_is_listed_and_shown_with_its_file_which_can_be_copied() {
    let folder = tempfile::tempdir().unwrap();
    let listed = run(folder.path(), "list networks --format json");
    let listed: Vec<Value> = serde_json::from_str(&stdout(&listed)).unwrap();
    assert_eq!(listed.len(), fsdyno_network::names().count());
    for row in listed {
        let name = row["name"].as_str().unwrap();
        let shown = stdout(&run(folder.path(), &format!("show network {name}")));
        let file = fsdyno_network::text(name).unwrap();
        assert!(shown.contains("round trip") && shown.ends_with(&file), "{shown}");
        std::fs::write(folder.path().join("copy.toml"), file).unwrap();
        let network_of = |network: &str| {
            let args = format!("run dirops --set files=100 --fs nfs:ext4 --network {network}");
            plans(folder.path(), &args).remove(0)["venue"]["network"].clone()
        };
        let (mut copy, own) = (network_of("copy.toml"), network_of(name));
        assert_eq!(copy["name"], "copy.toml");
        copy["name"] = name.into();
        assert_eq!(copy, own);
    }
}

#[test]
fn only_shared_file_systems_have_rows_for_clients_and_networks() {
    let folder = tempfile::tempdir().unwrap();
    let args = "run dirops --set files=96 --fs ext4 --fs nfs:ext4 --clients 1,2 --clients 4 --network lan-1g --network lan-25g";
    let all = plans(folder.path(), args);
    let clients: Vec<&Value> = all.iter().map(|plan| &plan["venue"]["clients"]).collect();
    assert_eq!(serde_json::to_string(&clients).unwrap(), "[null,1,2,4,1,2,4]");
    assert_eq!(all[0]["venue"].get("network"), None, "{}", all[0]);
    let mut hashes: Vec<String> = all.iter().map(|plan| plan["hash"].to_string()).collect();
    hashes.sort();
    hashes.dedup();
    assert_eq!(hashes.len(), 7);
    let printed = stdout(&run(folder.path(), &format!("{args} --dry-run")));
    assert!(printed.contains("nfs:ext4, 4 clients, network lan-25g: "), "{printed}");
    let plan = plans(folder.path(), "run dirops --set files=96 --fs nfs:ext4").remove(0);
    assert_eq!(
        (&plan["venue"]["clients"], &plan["venue"]["network"]["name"]),
        (&1.into(), &"lan-10g".into())
    );
}

#[test]
fn invalid_shared_file_systems_are_refused_with_the_accepted_values() {
    let folder = tempfile::tempdir().unwrap();
    for (args, expected) in [
        ("--fs nfs:ext4 --clients 0", "a whole number from 1 to 64"),
        ("--fs nfs:ext4 --clients 65", "a whole number from 1 to 64"),
        ("--fs nfs:ext4 --clients 1..8", "'1..8' is not a whole number"),
        ("--fs nfs:ext4 --clients 1,,2", "empty value before or after a comma"),
        ("--fs nfs:ext4 --network lan-1g,lan-11g", "lan-11g: there is no network with this name"),
        ("--fs nfs:ext4 --network=", "no network name given; available networks: lan-1g, "),
        ("--fs nfs:ext4@sync,async", "an export cannot be both sync and async"),
        ("--fs nfs:ext4@rsize=1M", "'rsize=1M' does not have a valid value"),
        ("--fs nfs:ext4 --clients 2,2", "--clients names 2 twice"),
        (
            "--fs nfs:ext4 --network lan-11g",
            "lan-11g: there is no network with this name; did you mean 'lan-1",
        ),
        ("--fs nfs:ext4 --network none.toml", "none.toml: cannot be read"),
        ("--fs ext4 --clients 2", "write --fs 'nfs:ext4'"),
        ("--fs ext4 --network lan-1g", "write --fs 'nfs:ext4'"),
        ("--fs nfs:exfat", "the kernel cannot export exFAT"),
        ("--fs smb:raw", "there is no file system to share"),
        ("--fs smb:ext4@vers=1.0", "write one of: 2.1, 3.0, 3.02, 3.1.1"),
        ("--fs smb:ext4@seal,vers=2.1", "'seal' is not part of SMB 2.1"),
        ("--fs smb:ext4@oplocks=maybe", "write one of: yes, no"),
        ("--fs smb:ext4@file_mode=644", "SMB has no modes, and the lab emulates none"),
        ("--fs smb:ext4 --on loop:1G", "only in the lab"),
        ("--fs nfs:ext4@vers=2", "write one of: 3, 4.0, 4.1, 4.2"),
        ("--fs nfs:ext4 --on loop:1G", "only in the lab"),
        ("--fs nfs:ext4 --on .", "--fs 'nfs:ext4' cannot be created in a directory"),
        ("--clients 2 --on .", "networks are modelled in the lab only"),
        ("--fs nfs:ext4 --clients 64 --threads 9", "would be 576 threads"),
    ] {
        let output = run(folder.path(), &format!("run dirops --set files=100 {args}"));
        assert_eq!(code(&output), 2, "{args}: {}", stderr(&output));
        assert!(stderr(&output).contains(expected), "{args}: {}", stderr(&output));
    }
    let output = run(folder.path(), "run tarball --set files=100 --fs nfs:ext4 --clients 2");
    assert!(stderr(&output).contains("can be shared; leave it at 1"), "{}", stderr(&output));
    for fs in ["nfs:ext4", "smb:ext4"] {
        let output = run(folder.path(), &format!("crash dirops --set files=100 --fs {fs}"));
        assert_eq!(code(&output), 2, "{}", stderr(&output));
    }
    assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none());
}
