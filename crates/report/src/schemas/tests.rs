//! Tests of the published schemas against real records and exports.

use super::ALL;
use fsdyno_record::plan::IssuerPlan;
use fsdyno_record::series::{PhaseSeries, Series};
use fsdyno_record::{Nanos, OpKind, Repeats, Trial};
use serde_json::{Value, json};

use crate::compare::{self, CompareOptions, FailOn, Metric};
use crate::part::Part;
use crate::table::{Format, Style};
use crate::trials::table;
use crate::{fixture, statistics};

/// The published schema of this name.
fn published(name: &str) -> Value {
    ALL.iter().find(|schema| schema.name == name).unwrap().schema()
}

fn schema_errors(schema: &str, document: &Value) -> Vec<String> {
    let validator = jsonschema::draft202012::new(&published(schema)).unwrap();
    validator.iter_errors(document).map(|e| format!("{}: {e}", e.instance_path())).collect()
}

fn record_errors(record: &Value) -> Vec<String> {
    schema_errors("trial", record)
}

fn record(trial: &Trial) -> Value {
    serde_json::to_value(trial).unwrap()
}

#[test]
fn every_schema_is_valid_and_has_plain_descriptions() {
    assert!(ALL.len() > 5);
    for published in ALL {
        let schema = published.schema();
        assert!(jsonschema::meta::is_valid(&schema), "{}", published.name);
        let text = schema.to_string();
        for markup in ["[`", "\\n"] {
            assert!(!text.contains(markup), "{}: {markup}", published.name);
        }
        for field in ["properties", "$defs"] {
            check_descriptions(&schema, field, published.name);
        }
    }
}

/// Checks that every field and every type has a description.
fn check_descriptions(schema: &Value, key: &str, path: &str) {
    match schema {
        Value::Object(keys) => {
            if let Some(Value::Object(named)) = keys.get(key) {
                for (name, field) in named {
                    let constant = field.get("const").is_some();
                    assert!(
                        constant || field.get("description").is_some(),
                        "{path}.{name}: {field}"
                    );
                }
            }
            let fields = keys.iter().filter(|(name, _)| !["if", "then"].contains(&name.as_str()));
            fields.for_each(|(name, field)| {
                check_descriptions(field, key, &format!("{path}.{name}"));
            });
        }
        Value::Array(items) => items.iter().for_each(|item| check_descriptions(item, key, path)),
        _ => {}
    }
}

#[test]
fn records_of_lab_and_host_and_failed_ones_fit_the_schema() {
    let several = vec![
        fixture::on_several_disks(),
        fixture::over_another_in_user_space(),
        fixture::in_a_model(),
        fixture::on_an_aged_file_system(),
    ];
    let all = [
        fixture::trials(),
        fixture::with_failures(),
        fixture::on_a_host(),
        fixture::on_a_loop(),
        several,
    ]
    .concat();
    for trial in &all {
        assert_eq!(record_errors(&record(trial)), Vec::<String>::new());
    }
}

#[test]
fn the_schema_allows_every_kind_of_op_and_no_other() {
    let valid = record(&fixture::trials()[0]);
    let op = valid["measured"]["phases"][0]["ops"].as_object().unwrap().values().next().unwrap();
    let with = |name: &str| {
        let mut trial = valid.clone();
        trial["measured"]["phases"][0]["ops"][name] = op.clone();
        record_errors(&trial)
    };
    for kind in OpKind::ALL {
        assert_eq!(with(kind.name()), Vec::<String>::new());
    }
    assert_eq!(with("ioctl").len(), 1);
}

#[test]
fn a_field_that_is_unknown_or_missing_or_of_the_wrong_type_does_not_fit() {
    let valid = record(&fixture::trials()[0]);
    let mut unknown = valid.clone();
    unknown["measured"]["phases"][0]["surprise"] = json!(1);
    let mut missing = valid.clone();
    missing["measured"].as_object_mut().unwrap().remove("gaps");
    let mut mistyped = valid.clone();
    mistyped["seed"] = json!("one");
    let mut without_venue = valid.clone();
    without_venue["plan"].as_object_mut().unwrap().remove("venue");
    assert_eq!(record_errors(&valid), Vec::<String>::new());
    for bad in [unknown, missing, mistyped, without_venue] {
        assert_eq!(record_errors(&bad).len(), 1);
    }
}

/// Trials of all kinds: lab, host, failures, single trials, a rule, and calls that were never made.
fn trials_of_all_kinds() -> Vec<Vec<Trial>> {
    let mut ruled = fixture::trials();
    for trial in &mut ruled {
        let (width_ppm, pilot, at_most, first_seed) = (10_000, 2, 3, 1);
        let required = Some(9);
        trial.repeats = Some(Repeats { width_ppm, pilot, at_most, first_seed, wanted: required });
        trial.deadline_ns = Some(Nanos(60_000_000_000));
        assert_eq!(record_errors(&record(trial)), Vec::<String>::new());
    }
    let mut null = fixture::trials();
    null.iter_mut().for_each(|trial| trial.plan.issuer = IssuerPlan::Null);
    let host = fixture::on_a_host();
    let (single, full) = (fixture::single(), fixture::filled());
    vec![fixture::trials(), fixture::with_failures(), host, single, ruled, null, full]
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn statistics_of_all_kinds_fit_their_schema_and_others_do_not() {
    for trials in trials_of_all_kinds() {
        let text = statistics::json(&[Part::whole(&trials)], Some("ext4")).unwrap();
        assert_eq!(schema_errors("statistics", &parsed(&text)), Vec::<String>::new());
    }
    let trials = [fixture::trials(), fixture::curve()].concat();
    let kernel = Some("6.1.0-44-amd64");
    let part = Part { run: "names", variant: "then", kernel, trials: &trials };
    let text = statistics::json(&[part, Part { run: "again", ..part }], None).unwrap();
    let valid = parsed(&text);
    assert_eq!(schema_errors("statistics", &valid), Vec::<String>::new());
    let empty = json!({"schema": 1, "answer": [], "rows": [{}], "exponents": [{}]});
    assert_eq!(schema_errors("statistics", &empty).len(), 31 + 13);
    for (pointer, value) in [
        ("/rows/0/surprise", json!(1)),
        ("/rows/0/values/0/surprise", json!(1)),
        ("/rows/0/measure", json!("speed")),
        ("/rows/0/flags", json!(["FAST"])),
        ("/rows/1/comparison/verdict", json!("better")),
        ("/rows/0/values/0/seed", json!(-1)),
        ("/exponents/0/points", json!(0)),
        ("/schema", json!(2)),
    ] {
        assert!(
            !schema_errors("statistics", &changed(&valid, pointer, value)).is_empty(),
            "{pointer}"
        );
    }
}

/// A document with another value at a place; its last name may be new.
fn changed(valid: &Value, pointer: &str, value: Value) -> Value {
    let mut bad = valid.clone();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    bad.pointer_mut(parent).unwrap()[name] = value;
    bad
}

#[test]
fn comparisons_of_all_kinds_fit_their_schema_and_others_do_not() {
    let (mut rows, mut unfinished) = (0, 0);
    for new in trials_of_all_kinds() {
        for metric in [Metric::Durable, Metric::P99] {
            let options = CompareOptions { metric, threshold: 0.03, fail_on: FailOn::Slower };
            let compared = compare::compare(&fixture::with_failures(), &new, options);
            let Ok(compared) = compared else { continue };
            let valid = parsed(&Format::Json.write(&compared, Style::default()).unwrap());
            assert_eq!(schema_errors("compare", &valid), Vec::<String>::new());
            rows += compared.rows.len();
            unfinished += compared.unfinished.len();
            for (pointer, value) in [
                ("/rows/0/surprise", json!(1)),
                ("/rows/0/base/surprise", json!(1)),
                ("/rows/0/method", json!("guess")),
                ("/unfinished/0/outcome", json!("ok")),
                ("/unfinished/0/side", json!("BASE")),
                ("/metric", json!("room")),
            ] {
                assert!(
                    !schema_errors("compare", &changed(&valid, pointer, value)).is_empty(),
                    "{pointer}"
                );
            }
        }
    }
    assert!(rows > 0 && unfinished > 0);
    assert!(!schema_errors("compare", &json!({})).is_empty());
}

#[test]
fn the_json_report_fits_its_schema() {
    let trials = [fixture::trials(), fixture::with_failures()].concat();
    let mut printed = parsed(&table(&trials, None, Format::Json, Style::default()).unwrap());
    assert_eq!(schema_errors("report", &printed), Vec::<String>::new());
    // It is derived, so records do not contain it.
    printed[0]["unsafe"] = json!(["barrier=0: ..."]);
    assert_eq!(schema_errors("report", &printed), Vec::<String>::new());
    assert_eq!(record_errors(&printed[0]).len(), 1);
    for (name, value) in [("seed", json!("one")), ("surprise", json!(1)), ("unsafe", json!("x"))] {
        assert!(
            !schema_errors("report", &changed(&printed, &format!("/0/{name}"), value)).is_empty()
        );
    }
}

#[test]
fn phases_over_time_fit_their_schema_and_others_do_not() {
    let phase = PhaseSeries {
        name: "create".into(),
        interval_ns: Nanos(40_000_000),
        length_ns: Nanos(100_000_000),
        ops: vec![5, 6, 0],
        dirty_bytes: vec![4096, 8192, 0],
        ..PhaseSeries::default()
    };
    let value = |trial: &Trial| {
        serde_json::to_value(Series::new(trial, vec![phase.clone()]).unwrap()).unwrap()
    };
    let (lab, host) = (value(&fixture::trials()[0]), value(&fixture::on_a_host()[0]));
    assert!(lab["lab_id"].is_string() && host["lab_id"].is_null());
    for valid in [&lab, &host] {
        assert_eq!(schema_errors("series", valid), Vec::<String>::new());
    }
    for (key, value) in [
        ("surprise", json!(1)),
        ("ops", json!([1])),
        ("interval_ns", json!(0)),
        ("ops", json!([-1, 2])),
    ] {
        assert_eq!(
            schema_errors("series", &changed(&lab, &format!("/phases/0/{key}"), value)).len(),
            1
        );
    }
}

/// The schema at a path of names, through its references.
fn resolve<'a>(root: &'a Value, mut node: &'a Value, path: &[&str]) -> Option<&'a Value> {
    for name in path {
        while let Some(reference) = node.get("$ref").and_then(Value::as_str) {
            node = root.pointer(reference.strip_prefix('#')?)?;
        }
        // A nullable value is one of two.
        node = node
            .get("oneOf")
            .or_else(|| node.get("anyOf"))
            .and_then(|all| all.get(0))
            .unwrap_or(node);
        while let Some(reference) = node.get("$ref").and_then(Value::as_str) {
            node = root.pointer(reference.strip_prefix('#')?)?;
        }
        node = node.get("properties")?.get(name)?;
    }
    Some(node)
}

#[test]
fn the_examples_of_analysis_use_existing_fields_and_columns() {
    let schema = published("trial");
    let sql = include_str!("../../../../examples/analysis/phases.sql");
    let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    let words = sql.lines().filter(|line| !line.starts_with("--"));
    let words = words.flat_map(|line| line.split(|c| !is_name(c)));
    let mut named = 0;
    for word in words {
        let mut path = word.split('.');
        let root = match path.next() {
            Some("trial") => &schema,
            Some("phase") => &schema["$defs"]["Phase"],
            _ => continue,
        };
        let path: Vec<&str> = path.collect();
        assert!(resolve(&schema, root, &path).is_some(), "{word} is no field of a record");
        named += usize::from(!path.is_empty());
    }
    assert!(named >= 6, "{named}");
    let scripts = [
        (include_str!("../../../../examples/analysis/latency.py"), crate::records::heads()),
        (include_str!("../../../../examples/analysis/over_time.py"), crate::series::heads()),
    ];
    for (script, known) in scripts {
        let list = script.lines().find_map(|line| line.strip_prefix("COLUMNS = "));
        let columns: Vec<String> = serde_json::from_str(list.unwrap()).unwrap();
        assert!(columns.len() > 5);
        assert!(columns.iter().all(|column| known.contains(column)), "{columns:?}");
    }
}
