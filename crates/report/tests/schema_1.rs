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
fn check(value: &Value, at: &str) -> Plan {
    let plan: Plan = serde_json::from_value(value.clone()).unwrap();
    assert_eq!(plan.clone().with_hash().hash, plan.hash, "{at}");
    let flat = FlatPlan::try_from(plan.clone()).unwrap();
    assert_eq!(serde_json::to_value(&flat).unwrap()["medium"], value["medium"], "{at}");
    let own: Plan = serde_json::from_value(serde_json::to_value(&plan).unwrap()).unwrap();
    assert_eq!(own, plan, "{at}");
    plan
}

/// A check against the published schema of this name.
fn validator(name: &str) -> jsonschema::Validator {
    let published = fsdyno_report::schemas::ALL.iter().find(|it| it.name == name).unwrap();
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
            let at = format!("{}:{}", file.display(), line + 1);
            let value: Value = serde_json::from_str(&text.unwrap()).unwrap();
            // Results stored since have a later schema.
            if value["schema"] != 1 {
                continue;
            }
            schema.validate(&value).unwrap_or_else(|error| panic!("{at}: {error}"));
            let plan = check(&value["plan"], &at);
            kinds.insert(value["plan"]["medium"]["kind"].as_str().unwrap().to_string());
            let trial: Trial = serde_json::from_value(value.clone()).unwrap();
            assert_eq!(trial.schema, 1, "{at}");
            assert_eq!(trial_id(&plan, trial.seed), trial.trial_id, "{at}");
            let written = serde_json::to_value(&trial).unwrap();
            assert_eq!(written["schema"], SCHEMA, "{at}");
            schema.validate(&written).unwrap_or_else(|error| panic!("{at}: {error}"));
            assert_eq!(written["measured"], value["measured"], "{at}");
            let again: Trial = serde_json::from_value(written).unwrap();
            assert_eq!(Trial { schema: 1, ..again }, trial, "{at}");
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
        let mut open = vec![&value];
        while let Some(value) = open.pop() {
            if let Some(plan) = value.get("plan").filter(|plan| plan.get("medium").is_some()) {
                check(plan, &file.display().to_string());
                plans += 1;
            }
            match value {
                Value::Array(all) => open.extend(all),
                Value::Object(all) => open.extend(all.values()),
                _ => {}
            }
        }
    }
    assert!(plans > 10, "{plans}");
}
