//! Machines: their list, their description, and the plans that they make.

use serde_json::Value;

use crate::common::{code, link_kernels, plans, run, stderr, stdout};

#[test]
fn every_machine_is_listed_and_shown_with_its_file_and_plans_a_trial() {
    let folder = tempfile::tempdir().unwrap();
    let listed = run(folder.path(), "list machines --format json");
    let listed: Vec<Value> = serde_json::from_str(&stdout(&listed)).unwrap();
    assert_eq!(listed.len(), fsdyno_machine::names().count());
    for row in listed {
        let name = row["name"].as_str().unwrap();
        let shown = stdout(&run(folder.path(), &format!("show machine {name}")));
        let file = fsdyno_machine::text(name).unwrap();
        assert!(shown.contains("sources (") && shown.ends_with(&file), "{shown}");
        let args = format!("run dirops --set files=100 --machine {name} --size 1G");
        let plan = plans(folder.path(), &args).remove(0);
        assert_eq!(plan["venue"]["machine"], name);
        assert_eq!(plan["medium"]["disk"]["name"], row["disk"], "{name}");
        // A copy of the printed file describes the same machine under another name.
        std::fs::write(folder.path().join("copy.toml"), file).unwrap();
        let args = "run dirops --set files=100 --machine copy.toml --size 1G";
        let copy = plans(folder.path(), args).remove(0);
        assert_eq!(copy["venue"]["machine"], "copy.toml");
        assert_eq!(copy["hash"], plan["hash"], "{name}");
    }
}

#[test]
fn several_machines_are_rows_of_one_table() {
    let folder = tempfile::tempdir().unwrap();
    link_kernels(folder.path());
    let args = "run dirops tarball --set dirops.files=100 --set tarball.files=100 --fs ext4,xfs \
                 --machine pc-2001 --machine server-2004 --size 1G --dry-run";
    let printed = stdout(&run(folder.path(), args));
    for row in ["dirops on ext4, pc-2001: ", "tarball on xfs, server-2004: "] {
        assert!(printed.contains(row), "{row} in {printed}");
    }
    assert!(printed.contains("8 trials in this order"), "{printed}");
}

#[test]
fn a_study_names_its_machine_or_has_the_classic_one() {
    let folder = tempfile::tempdir().unwrap();
    link_kernels(folder.path());
    let study = |condition: &str| {
        let text = format!(
            "title = \"t\"\nquestion = \"q?\"\nsource = \"s\"\nyear = 2026\nabout = \"a\"\n[[run]]\nname = \"r\"\n\
             workload = \"dirops\"\nset = {{ files = 10 }}\n{condition}\n"
        );
        std::fs::write(folder.path().join("study.toml"), text).unwrap();
        stdout(&run(folder.path(), "study study.toml --dry-run"))
    };
    let printed = study("machine = \"pc-2001\"");
    assert!(printed.contains("on ide-2001") && printed.contains("RAM 256 MiB"), "{printed}");
    let printed = study("machine = \"pc-2001\"\nram = \"512M\"");
    assert!(printed.contains("on ide-2001") && printed.contains("RAM 512 MiB"), "{printed}");
    let printed = study("");
    assert!(printed.contains("on hdd-7200") && printed.contains("RAM 1 GiB"), "{printed}");
}

#[test]
fn a_machine_file_with_an_error_is_refused_in_one_line_with_its_position() {
    let folder = tempfile::tempdir().unwrap();
    let valid = fsdyno_machine::text("pc-2001").unwrap();
    for (line, replacement, part) in [
        ("disk = \"ide-2001\"", "disk = \"ide-2002\"", "did you mean 'ide-2001'?"),
        ("disk = \"ide-2001\"", "disk = \"/etc/hostname.toml\"", "outside the folder"),
        ("cpu = \"pc-2001\"", "cpu = \"1/3\"", "a power of two"),
        ("ram = \"256M\"", "ram = \"32M\"", "at least 96 MiB"),
        ("ram = \"256M\"", "network = \"10G\"", "unknown field `network`, expected one of"),
    ] {
        assert!(valid.contains(line), "{line}");
        std::fs::write(folder.path().join("mine.toml"), valid.replacen(line, replacement, 1))
            .unwrap();
        for args in ["run dirops --machine mine.toml --dry-run", "show machine mine.toml"] {
            let output = run(folder.path(), args);
            let printed = stderr(&output);
            assert_eq!(code(&output), 2, "{replacement}: {printed}");
            let has_line = printed.contains("mine.toml:") && printed.contains(part);
            assert!(has_line && printed.lines().count() == 1, "{replacement}: {printed}");
        }
    }
}
