//! The inputs of a lab identity: the agent changes it; reports, studies, the command line and the path of a checkout do
//! not. Where the lab cannot run, the tests that need it are skipped, with the reason; with CI set that is a failure.
//!
//! `FSDYNO_TEST=full` (`make test-full`) builds both programs a second time, in another checkout.
#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::lab::{agent, boot, fsdyno, lab, main_program, measured, size, skipped, trials};
use crate::common::{code, full, stderr, stdout};
use fsdyno_record::canonical::sha256_hex;

/// Texts of the command line, of reports and of results, each with its source and a replacement of the same length.
const TEXTS: [(&str, &str, &str); 3] = [
    ("crates/campaign/src/failure.rs", "a verdict is negative", "a verdict IS NEGATIVE"),
    ("crates/report/src/table/text.rs", "from the lab above", "from the LAB ABOVE"),
    ("crates/campaign/src/store/error.rs", "give --out a folder", "give --out A FOLDER"),
];

/// The crates of which the agent is made.
const OF_THE_AGENT: [&str; 7] = [
    "fsdyno-agent",
    "fsdyno-crash",
    "fsdyno-disk",
    "fsdyno-engine",
    "fsdyno-filesystem",
    "fsdyno-record",
    "fsdyno-workload",
];

#[test]
fn the_agent_is_built_from_what_runs_in_a_guest_and_nothing_else() {
    let tree = |edges: &str| -> BTreeSet<String> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let output = Command::new(cargo)
            .args([
                "tree",
                "--offline",
                "--locked",
                "--package",
                "fsdyno-agent",
                "--prefix",
                "none",
            ])
            .args(["--no-dedupe", "--format", "{lib}", "--edges", edges])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output).lines().map(|line| line.replace('_', "-")).collect()
    };
    let ours: BTreeSet<String> =
        tree("normal,build").into_iter().filter(|name| name.starts_with("fsdyno")).collect();
    assert_eq!(ours, OF_THE_AGENT.map(String::from).into());
    // A dependency for something else would be in the agent, too.
    let foreign =
        ["clap", "minijinja", "indicatif", "tempfile", "cc", "liblzma", "zstd", "schemars"];
    let all = tree("normal,build");
    assert!(foreign.iter().all(|name| !all.contains(*name)), "{all:?}");
}

/// Runs one small trial and returns its record; `out` names the result folder.
fn trial(program: &Path, folder: &Path, out: &str) -> serde_json::Value {
    // The long tests have a processor profile, whose model is in the main program; the others use a guest of other tests.
    let cpu = if full() { "--cpu epyc-2024" } else { "" };
    let args = format!("run dirops --fs ext4 --set files=100 --seed 7 {cpu} {}", size());
    let mut command = fsdyno(program, folder, &format!("{args} {} --out {out}", boot()));
    let output = command.env_remove("FSDYNO_AGENT").output().unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    trials(&folder.join(out)).remove(0)
}

/// Writes a main program and an agent to a new folder.
fn install(folder: &Path, program: &[u8], agent: &[u8]) -> PathBuf {
    fs::create_dir(folder).unwrap();
    for (name, bytes) in [("fsdyno", program), ("fsdyno-agent", agent)] {
        fs::write(folder.join(name), bytes).unwrap();
        fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    folder.join("fsdyno")
}

/// Replaces every occurrence of one text by another of its length.
fn replace_text(mut bytes: Vec<u8>, text: &str, other: &str) -> Vec<u8> {
    assert_eq!(text.len(), other.len());
    let found: Vec<usize> =
        (0..bytes.len()).filter(|at| bytes[*at..].starts_with(text.as_bytes())).collect();
    assert!(!found.is_empty(), "'{text}' is not in the program; TEXTS needs another text");
    for at in found {
        bytes[at..at + other.len()].copy_from_slice(other.as_bytes());
    }
    bytes
}

#[test]
fn other_texts_in_the_main_program_do_not_change_the_identity_and_another_agent_does() {
    let Some(folder) = lab() else { return };
    let (program, agent) = (fs::read(main_program()).unwrap(), fs::read(agent()).unwrap());
    let other =
        TEXTS.iter().fold(program.clone(), |it, (_, text, other)| replace_text(it, text, other));
    assert_ne!(program, other);
    let path_of = |name: &str| folder.path().join(name);
    let one = trial(&install(&path_of("1"), &program, &agent), folder.path(), "one");
    let two = trial(&install(&path_of("2"), &other, &agent), folder.path(), "two");
    assert_eq!(one["lab_id"], two["lab_id"]);
    assert_eq!(measured(&path_of("one")), measured(&path_of("two")));
    assert_eq!(one["lab"]["agent"], format!("sha256:{}", sha256_hex(&agent)));

    // A byte after the last section of a program is never executed, but it makes another agent.
    let longer = [agent.as_slice(), b"\0"].concat();
    let last = install(&path_of("3"), &program, &longer);
    let three = trial(&last, folder.path(), "three");
    assert_ne!(one["lab_id"], three["lab_id"]);
    let components = one["lab"].as_object().unwrap();
    let differ = components.keys().filter(|name| one["lab"][*name] != three["lab"][*name]);
    let changed = ["agent", "initramfs", "snapshot"];
    // A guest that boots cold has no snapshot.
    let changed = if full() { &changed[..2] } else { &changed };
    assert_eq!(differ.collect::<Vec<_>>(), changed);
    let compared = fsdyno(&last, folder.path(), "compare one three").output().unwrap();
    assert!(stdout(&compared).contains("lab agent: sha256:"), "{}", stdout(&compared));
    let both = ["one", "three"].map(|out| fs::read(path_of(out).join("trials.ndjson")).unwrap());
    fs::create_dir(path_of("both")).unwrap();
    fs::write(path_of("both").join("trials.ndjson"), both.concat()).unwrap();
    let report = fsdyno(&last, folder.path(), "report both").output().unwrap();
    let named = format!("differs from the lab above in: {}", changed.join(", "));
    assert!(stdout(&report).contains(&named), "{}", stdout(&report));
}

/// Copies this checkout, with its uncommitted files, and replaces the texts.
fn other_checkout(folder: &Path) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let checkout = folder.join("another checkout of it");
    let files = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(&root)
        .output()
        .unwrap();
    assert!(files.status.success(), "git lists no files of this checkout");
    for file in String::from_utf8(files.stdout).unwrap().split('\0').filter(|f| !f.is_empty()) {
        if root.join(file).is_file() {
            fs::create_dir_all(checkout.join(file).parent().unwrap()).unwrap();
            fs::copy(root.join(file), checkout.join(file)).unwrap();
        }
    }
    for (file, text, other) in TEXTS {
        let source = fs::read(checkout.join(file)).unwrap();
        fs::write(checkout.join(file), replace_text(source, text, other)).unwrap();
    }
    checkout
}

#[test]
fn another_checkout_with_other_texts_builds_the_same_agent() {
    if !full() {
        return skipped("FSDYNO_TEST=full builds both programs once more, which takes minutes");
    }
    let folder = tempfile::tempdir().unwrap();
    let checkout = other_checkout(folder.path());
    let mut make = Command::new("make");
    make.arg("build").current_dir(&checkout).stdin(Stdio::null());
    for variable in [
        "CARGO_TARGET_DIR",
        "RUSTFLAGS",
        "CARGO_ENCODED_RUSTFLAGS",
        "MAKEFLAGS",
        "FSDYNO_AGENT",
        "RUSTC_BOOTSTRAP",
    ] {
        make.env_remove(variable);
    }
    let built = make.output().unwrap();
    assert!(built.status.success(), "{}", stderr(&built));
    let elsewhere = checkout.join("target/release/fsdyno");
    let theirs = fs::read(elsewhere.with_file_name("fsdyno-agent")).unwrap();
    assert!(fs::read(agent()).unwrap() == theirs, "two checkouts built two agents");
    if lab().is_none() {
        return;
    }
    // Its texts differ, and its measurements are bit-identical.
    let help = Command::new(&elsewhere).arg("--help").output().unwrap();
    assert!(stdout(&help).contains(TEXTS[0].2), "{}", stdout(&help));
    let program = install(&folder.path().join("ours"), &fs::read(main_program()).unwrap(), &theirs);
    let one = trial(&program, folder.path(), "one");
    let two = trial(&elsewhere, folder.path(), "two");
    assert_eq!(one["lab_id"], two["lab_id"]);
    assert_eq!(measured(&folder.path().join("one")), measured(&folder.path().join("two")));
}
