//! `fsdyno run --width`: the number of repeats that a pilot determines: stored, resumed, and refused where it cannot
//! apply. The tests run in the model, which needs no kernel and is bit-identical each time.
#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

use std::fs;
use std::path::Path;

use crate::common::{code, records, run, stderr, stdout};
use serde_json::Value;

const COMMAND: &str =
    "run dirops --on model --set files=300 --set order=random --width 0.2% --at-most 9";

/// The part that must be equal after any number of stops.
fn results(folder: &Path) -> Vec<(String, Value, Value)> {
    let trial = |trial: Value| {
        let id = format!("{} {}", trial["trial_id"], trial["plan"]["label"]);
        (id, trial["measured"].clone(), trial["repeats"].clone())
    };
    records(folder).into_iter().map(trial).collect()
}

#[test]
fn a_run_stopped_at_any_trial_resumes_to_the_same_number_in_the_same_order() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let done = run(folder, &format!("{COMMAND} --out whole"));
    assert_eq!(code(&done), 0, "{}", stderr(&done));
    let whole = results(&folder.join("whole"));
    // Three file systems, five of each in the pilot.
    assert!(whole.len() > 15 && whole.len() % 3 == 0, "{} trials", whole.len());
    assert!(whole[..15].iter().all(|(_, _, rule)| rule["wanted"].is_null()));
    assert!(whole[15..].iter().all(|(_, _, rule)| rule["wanted"].as_u64() > Some(5)));
    let lines = fs::read_to_string(folder.join("whole/trials.ndjson")).unwrap();
    let lines: Vec<&str> = lines.lines().collect();
    for stopped_after in [7, 15, 16] {
        let name = format!("stopped-{stopped_after}");
        fs::create_dir(folder.join(&name)).unwrap();
        let text = lines[..stopped_after].join("\n") + "\n";
        fs::write(folder.join(&name).join("trials.ndjson"), text).unwrap();
        let resumed = run(folder, &format!("{COMMAND} --out {name}"));
        assert_eq!(code(&resumed), 0, "{}", stderr(&resumed));
        assert_eq!(results(&folder.join(&name)), whole, "stopped after {stopped_after}");
    }
}

#[test]
fn a_width_that_cannot_be_reached_is_reported_at_once_and_in_the_table() {
    let place = tempfile::tempdir().unwrap();
    let args = COMMAND.replace("0.2%", "0.0001%").replace("9", "5") + " --out few";
    let done = run(place.path(), &args);
    assert_eq!(code(&done), 0, "{}", stderr(&done));
    assert!(stderr(&done).contains("NOT REACHED: --at-most 5"), "{}", stderr(&done));
    assert!(stdout(&done).contains("NOT REACHED"), "{}", stdout(&done));
    assert_eq!(records(&place.path().join("few")).len(), 15);
}

#[test]
fn a_rule_does_not_change_after_results_and_shards_have_none() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    assert_eq!(code(&run(folder, &format!("{COMMAND} --out there"))), 0);
    let fixed = "run dirops --on model --set files=300 --set order=random --repeat 20 --out there";
    for (args, expected) in [
        (fixed.to_string(), "give --out a new folder"),
        (
            COMMAND.replace("0.2%", "0.1%") + " --out there",
            "under --width 0.2% --at-most 9 --seed 1",
        ),
        (
            format!("{COMMAND} --shard 1/2 --out share"),
            "pass the number that it prints to all shards with --repeat",
        ),
        (COMMAND.replace("0.2%", "0%"), "such as 2%"),
        (COMMAND.replace("0.2%", "0.002"), "ambiguous: 0.002% or 0.2%; write the percent sign"),
        (format!("{COMMAND} --repeat 3"), "cannot be used with"),
    ] {
        let refused = run(folder, &args);
        assert_eq!(code(&refused), 2, "{args}: {}", stderr(&refused));
        assert!(stderr(&refused).contains(expected), "{args}: {}", stderr(&refused));
    }
    assert!(!folder.join("share").exists());
}

#[test]
fn a_dry_run_shows_the_pilot_in_its_order() {
    let place = tempfile::tempdir().unwrap();
    let shown = run(place.path(), &format!("{COMMAND} --dry-run --seed 7"));
    assert_eq!(code(&shown), 0, "{}", stderr(&shown));
    let text = stdout(&shown);
    assert!(text.contains("15 trials in this order: "), "{text}");
    assert!(text.contains("(number above/seed; shuffled by --seed 7)"), "{text}");
    assert!(text.contains("--width then adds trials"), "{text}");
}
