//! The model of ext2 directories from end to end: bit-identical each time, marked as a model wherever it is
//! shown, and unsupported options refused.
#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

use crate::common::{code, run, stderr, stdout};
use serde_json::Value;

fn trials(folder: &std::path::Path, results: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.join(results).join("trials.ndjson")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn the_three_models_are_bit_identical_in_two_runs() {
    let folder = tempfile::tempdir().unwrap();
    for results in ["one", "two"] {
        let args =
            format!("run dirops --on model --set files=1000 --repeat 2 --verbose --out {results}");
        let output = run(folder.path(), &args);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let table = stdout(&output);
        assert!(table.contains("model (in this program, no kernel)"), "{table}");
        assert!(table.contains("entries examined"), "{table}");
    }
    let (one, two) = (trials(folder.path(), "one"), trials(folder.path(), "two"));
    assert_eq!(one.len(), 6);
    for (one, two) in one.iter().zip(&two) {
        assert_eq!(one["measured"].to_string(), two["measured"].to_string());
        assert_eq!(one["lab_id"], two["lab_id"]);
        assert_eq!(one["conditions"]["venue"], "model");
        let note = one["conditions"]["notes"][0].as_str().unwrap();
        assert!(note.contains("a model in this program, no kernel"), "{note}");
    }
}

#[test]
fn options_that_the_model_lacks_are_refused_before_any_work() {
    let folder = tempfile::tempdir().unwrap();
    for (args, expected) in [
        ("dirops --on model --kernel 6.1", "--kernel works only in the lab"),
        ("dirops --on model --fs ext4", "there is no model 'ext4'"),
        ("dirops --on model --threads 2", "leave --threads"),
        ("tarball --on model", "workload 'tarball' cannot run in the model"),
        ("capacity --on model", "cannot run in the model"),
    ] {
        let output = run(folder.path(), &format!("run {args}"));
        assert_eq!(code(&output), 2, "{args}: {}", stderr(&output));
        assert!(stderr(&output).contains(expected), "{args}: {}", stderr(&output));
    }
}

#[test]
fn the_commit_is_in_the_version_and_the_record_and_not_in_the_lab_identity() {
    let folder = tempfile::tempdir().unwrap();
    let version = run(folder.path(), "--version");
    assert_eq!(code(&version), 0);
    let Some(commit) = head() else {
        assert_eq!(stdout(&version), format!("fsdyno {}\n", env!("CARGO_PKG_VERSION")));
        return;
    };
    assert!(stdout(&version).contains(&format!(" ({}", &commit[..12])), "{}", stdout(&version));

    // The commit is only in the section that identities exclude.
    let program = std::fs::read(env!("CARGO_BIN_EXE_fsdyno")).unwrap();
    let found: Vec<usize> = program
        .windows(commit.len())
        .enumerate()
        .filter_map(|(at, part)| (part == commit.as_bytes()).then_some(at))
        .collect();
    assert_eq!(found.len(), 1, "the commit is in the program at {found:?}");
    let other = commit.replace(|letter: char| letter.is_ascii_hexdigit(), "0");
    let mut changed = program;
    changed[found[0]..][..other.len()].copy_from_slice(other.as_bytes());
    let path = folder.path().join("other");
    std::fs::copy(env!("CARGO_BIN_EXE_fsdyno"), &path).unwrap();
    std::fs::write(&path, changed).unwrap();

    let args = "run dirops --on model --fs cached-ext2 --set files=100 --out";
    assert_eq!(code(&run(folder.path(), &format!("{args} own"))), 0);
    let mut command = std::process::Command::new(&path);
    command.current_dir(folder.path()).args(args.split(' ')).arg("changed");
    let output = command.output().unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let (own, changed) = (trials(folder.path(), "own"), trials(folder.path(), "changed"));
    assert_eq!(own[0]["host"]["build"]["commit"], commit);
    assert_eq!(changed[0]["host"]["build"]["commit"], other);
    assert_eq!(own[0]["lab_id"], changed[0]["lab_id"]);
    assert_eq!(own[0]["measured"], changed[0]["measured"]);
    let compared = run(folder.path(), "compare own changed");
    assert!(stdout(&compared).contains(&other[..12]), "{}", stdout(&compared));
}

/// Returns the commit of this checkout; `None` outside a checkout.
fn head() -> Option<String> {
    let git = std::process::Command::new("git")
        .args(["rev-parse", "HEAD"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output();
    let output = git.ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).unwrap().trim().to_string())
}
