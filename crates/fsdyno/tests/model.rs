//! The model of ext2 directories from end to end: the same digits each time, what it is said wherever it is
//! shown, and what it cannot do refused.
#![allow(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

mod common;

use common::{code, run, stderr, stdout};
use serde_json::Value;

fn trials(folder: &std::path::Path, results: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.join(results).join("trials.ndjson")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn the_three_of_2001_run_in_seconds_and_twice_the_same() {
    let folder = tempfile::tempdir().unwrap();
    for results in ["one", "two"] {
        let words = format!("run dirops --on model --set files=1000 --repeat 2 --out {results}");
        let ran = run(folder.path(), &words);
        assert_eq!(code(&ran), 0, "{}", stderr(&ran));
        let table = stdout(&ran);
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
fn what_the_model_has_not_is_refused_before_any_work() {
    let folder = tempfile::tempdir().unwrap();
    for (words, right) in [
        ("dirops --on model --kernel 6.1", "--kernel is for the lab"),
        ("dirops --on model --fs ext4", "there is no model 'ext4'"),
        ("dirops --on model --threads 2", "leave --threads"),
        ("tarball --on model", "workload 'tarball' cannot run in the model"),
        ("capacity --on model", "cannot run in the model"),
    ] {
        let ran = run(folder.path(), &format!("run {words}"));
        assert_eq!(code(&ran), 2, "{words}: {}", stderr(&ran));
        assert!(stderr(&ran).contains(right), "{words}: {}", stderr(&ran));
    }
}
