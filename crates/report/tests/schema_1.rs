//! Records of schema 1, which are published in results/: read, identified and hashed as when they were written.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use fsdyno_record::plan::FlatPlan;
use fsdyno_record::trial::trial_id;
use fsdyno_record::{Plan, SCHEMA, Trial};
use serde_json::Value;

fn files(folder: &Path, end: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            files(&entry, end, found);
        } else if entry.to_string_lossy().ends_with(end) {
            found.push(entry);
        }
    }
}

fn results(end: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../results");
    files(Path::new(folder), end, &mut found);
    found.sort();
    found
}

/// Checks that the plan of schema 1 in `value` loses nothing, and keeps its identity.
fn check(value: &Value, place: &str) -> Plan {
    let plan: Plan = serde_json::from_value(value.clone()).unwrap();
    assert_eq!(plan.clone().with_hash().hash, plan.hash, "{place}");
    let flat = FlatPlan::try_from(plan.clone()).unwrap();
    assert_eq!(serde_json::to_value(&flat).unwrap()["medium"], value["medium"], "{place}");
    let reread_plan: Plan = serde_json::from_value(serde_json::to_value(&plan).unwrap()).unwrap();
    assert_eq!(reread_plan, plan, "{place}");
    plan
}

/// The validator of the published schema with this name.
fn validator(name: &str) -> jsonschema::Validator {
    let published = fsdyno_report::schemas::ALL.iter().find(|schema| schema.name == name).unwrap();
    jsonschema::draft202012::new(&published.schema()).unwrap()
}

#[test]
fn published_trials_keep_their_identity_in_the_latest_schema() {
    let files = results("trials.ndjson.zst");
    let schema = validator("trial");
    let (mut trials, mut kinds) = (0, std::collections::BTreeSet::new());
    for file in &files {
        let text = zstd::Decoder::new(File::open(file).unwrap()).unwrap();
        for (line, text) in BufReader::new(text).lines().enumerate() {
            let place = format!("{}:{}", file.display(), line + 1);
            let value: Value = serde_json::from_str(&text.unwrap()).unwrap();
            // Newer results have a later schema.
            if value["schema"] != 1 {
                continue;
            }
            schema.validate(&value).unwrap_or_else(|error| panic!("{place}: {error}"));
            let plan = check(&value["plan"], &place);
            kinds.insert(value["plan"]["medium"]["kind"].as_str().unwrap().to_string());
            let trial: Trial = serde_json::from_value(value.clone()).unwrap();
            assert_eq!(trial.schema, 1, "{place}");
            assert_eq!(trial_id(&plan, trial.seed), trial.trial_id, "{place}");
            let written = serde_json::to_value(&trial).unwrap();
            assert_eq!(written["schema"], SCHEMA, "{place}");
            schema.validate(&written).unwrap_or_else(|error| panic!("{place}: {error}"));
            assert_eq!(written["measured"], value["measured"], "{place}");
            let reread: Trial = serde_json::from_value(written).unwrap();
            assert_eq!(Trial { schema: 1, ..reread }, trial, "{place}");
            trials += 1;
        }
    }
    assert!(trials > 700, "{trials} in {} files", files.len());
    assert!(kinds.contains("lab") && kinds.contains("model"), "{kinds:?}");
}

#[test]
fn published_crash_findings_keep_the_hash_of_their_plan() {
    let mut plans = 0;
    for file in results(".json") {
        let value: Value = serde_json::from_reader(File::open(&file).unwrap()).unwrap();
        let mut pending = vec![&value];
        while let Some(value) = pending.pop() {
            if let Some(plan) = value.get("plan").filter(|plan| plan.get("medium").is_some()) {
                check(plan, &file.display().to_string());
                plans += 1;
            }
            match value {
                Value::Array(all) => pending.extend(all),
                Value::Object(all) => pending.extend(all.values()),
                _ => {}
            }
        }
    }
    assert!(plans > 10, "{plans}");
}
