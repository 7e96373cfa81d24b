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
        let words = format!("run dirops --set files=100 --machine {name} --size 1G");
        let plan = plans(folder.path(), &words).remove(0);
        assert_eq!(plan["venue"]["machine"], name);
        assert_eq!(plan["medium"]["disk"]["name"], row["disk"], "{name}");
        // The file that is shown can be copied, and is the same machine under another name.
        std::fs::write(folder.path().join("copy.toml"), file).unwrap();
        let words = "run dirops --set files=100 --machine copy.toml --size 1G";
        let copy = plans(folder.path(), words).remove(0);
        assert_eq!(copy["venue"]["machine"], "copy.toml");
        assert_eq!(copy["hash"], plan["hash"], "{name}");
    }
}

#[test]
fn several_machines_are_rows_of_one_table() {
    let folder = tempfile::tempdir().unwrap();
    link_kernels(folder.path());
    let words = "run dirops tarball --set dirops.files=100 --set tarball.files=100 --fs ext4,xfs \
                 --machine pc-2001 --machine server-2004 --size 1G --dry-run";
    let said = stdout(&run(folder.path(), words));
    for row in ["dirops on ext4, pc-2001: ", "tarball on xfs, server-2004: "] {
        assert!(said.contains(row), "{row} in {said}");
    }
    assert!(said.contains("8 trials in this order"), "{said}");
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
    let said = study("machine = \"pc-2001\"");
    assert!(said.contains("on ide-2001") && said.contains("RAM 256 MiB"), "{said}");
    let said = study("machine = \"pc-2001\"\nram = \"512M\"");
    assert!(said.contains("on ide-2001") && said.contains("RAM 512 MiB"), "{said}");
    let said = study("");
    assert!(said.contains("on hdd-7200") && said.contains("RAM 1 GiB"), "{said}");
}

#[test]
fn a_machine_file_with_an_error_is_refused_in_one_line_with_its_position() {
    let folder = tempfile::tempdir().unwrap();
    let good = fsdyno_machine::text("pc-2001").unwrap();
    for (line, instead, part) in [
        ("disk = \"ide-2001\"", "disk = \"ide-2002\"", "did you mean 'ide-2001'?"),
        ("disk = \"ide-2001\"", "disk = \"/etc/hostname.toml\"", "outside the folder"),
        ("cpu = \"pc-2001\"", "cpu = \"1/3\"", "a power of two"),
        ("ram = \"256M\"", "ram = \"32M\"", "at least 96 MiB"),
        ("ram = \"256M\"", "network = \"10G\"", "unknown field `network`, expected one of"),
    ] {
        assert!(good.contains(line), "{line}");
        std::fs::write(folder.path().join("mine.toml"), good.replacen(line, instead, 1)).unwrap();
        for words in ["run dirops --machine mine.toml --dry-run", "show machine mine.toml"] {
            let output = run(folder.path(), words);
            let said = stderr(&output);
            assert_eq!(code(&output), 2, "{instead}: {said}");
            let has_line = said.contains("mine.toml:") && said.contains(part);
            assert!(has_line && said.lines().count() == 1, "{instead}: {said}");
        }
    }
}
