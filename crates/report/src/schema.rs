//! Tests of the published schemas, docs/schema/*.schema.json, against real records and exports.

use crate::validity::Flag;
use fsdyno_record::plan::IssuerPlan;
use fsdyno_record::series::{PhaseSeries, Series};
use fsdyno_record::{Nanos, OpKind, Repeats, Trial};
use serde_json::{Value, json};

use crate::compare::{self, CompareOptions, Metric};
use crate::part::Part;
use crate::table::{Format, Style};
use crate::trials::table;
use crate::{fixture, statistics};

fn schema() -> Value {
    serde_json::from_str(include_str!("../../../docs/schema/trial.schema.json")).unwrap()
}

fn problems(record: &Value) -> Vec<String> {
    let validator = jsonschema::draft202012::new(&schema()).unwrap();
    validator.iter_errors(record).map(|e| format!("{}: {e}", e.instance_path())).collect()
}

fn series_schema() -> Value {
    serde_json::from_str(include_str!("../../../docs/schema/series.schema.json")).unwrap()
}

fn record(trial: &Trial) -> Value {
    serde_json::to_value(trial).unwrap()
}

#[test]
fn the_schema_is_itself_a_schema() {
    assert!(jsonschema::meta::is_valid(&schema()));
    assert!(jsonschema::meta::is_valid(&series_schema()));
}

#[test]
fn records_of_lab_and_host_and_failed_ones_fit_the_schema() {
    let several = vec![
        fixture::on_several_disks(),
        fixture::over_another_in_user_space(),
        fixture::in_a_model(),
        fixture::on_an_aged_one(),
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
        assert_eq!(problems(&record(trial)), Vec::<String>::new());
    }
}

#[test]
fn the_schema_knows_every_kind_of_op_and_no_other() {
    let known = schema()["$defs"]["phase"]["properties"]["ops"]["propertyNames"]["enum"].clone();
    let names: Vec<&str> = OpKind::ALL.iter().map(|kind| kind.name()).collect();
    assert_eq!(known, json!(names));
}

#[test]
fn a_field_that_is_unknown_or_missing_or_of_the_wrong_type_does_not_fit() {
    let good = record(&fixture::trials()[0]);
    let mut unknown = good.clone();
    unknown["measured"]["phases"][0]["surprise"] = json!(1);
    let mut missing = good.clone();
    missing["measured"].as_object_mut().unwrap().remove("gaps");
    let mut wrong = good.clone();
    wrong["seed"] = json!("one");
    for bad in [unknown, missing, wrong] {
        assert_eq!(problems(&bad).len(), 1);
    }
}

fn misfits(schema: &str, document: &str) -> Vec<String> {
    let schema: Value = serde_json::from_str(schema).unwrap();
    assert!(jsonschema::meta::is_valid(&schema));
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let document: Value = serde_json::from_str(document).unwrap();
    validator.iter_errors(&document).map(|e| format!("{}: {e}", e.instance_path())).collect()
}

/// Trials of all kinds: lab, host, failures, single trials, a rule, and calls that were never made.
fn of_all_kinds() -> Vec<Vec<Trial>> {
    let mut ruled = fixture::trials();
    for trial in &mut ruled {
        let (width_ppm, pilot, at_most, first_seed) = (10_000, 2, 3, 1);
        let wanted = Some(9);
        trial.repeats = Some(Repeats { width_ppm, pilot, at_most, first_seed, wanted });
        trial.deadline_ns = Some(Nanos(60_000_000_000));
        assert_eq!(problems(&record(trial)), Vec::<String>::new());
    }
    let mut null = fixture::trials();
    null.iter_mut().for_each(|trial| trial.plan.issuer = IssuerPlan::Null);
    let host = fixture::on_a_host();
    let (single, full) = (fixture::single(), fixture::filled());
    vec![fixture::trials(), fixture::with_failures(), host, single, ruled, null, full]
}

#[test]
fn statistics_of_all_kinds_fit_their_schema() {
    let schema = include_str!("../../../docs/schema/statistics.schema.json");
    for trials in of_all_kinds() {
        let text = statistics::json(&[Part::whole(&trials)], Some("ext4"));
        assert_eq!(misfits(schema, &text), Vec::<String>::new());
    }
    let trials = [fixture::trials(), fixture::curve()].concat();
    let kernel = Some("6.1.0-44-amd64");
    let part = Part { run: "names", variant: "then", kernel, trials: &trials };
    let text = statistics::json(&[part, Part { run: "again", ..part }], None);
    assert_eq!(misfits(schema, &text), Vec::<String>::new());
    let empty = r#"{"schema":1,"answer":[],"rows":[{}],"exponents":[{}]}"#;
    assert_eq!(misfits(schema, empty).len(), 31 + 13);
}

#[test]
fn comparisons_of_all_kinds_fit_their_schema() {
    let schema = include_str!("../../../docs/schema/compare.schema.json");
    for new in of_all_kinds() {
        for metric in [Metric::Durable, Metric::P99] {
            let options = CompareOptions { metric, threshold: 0.03 };
            let compared = compare::compare(&fixture::with_failures(), &new, options);
            let Ok(compared) = compared else { continue };
            let text = Format::Json.write(&compared, Style::default()).unwrap();
            assert_eq!(misfits(schema, &text), Vec::<String>::new());
        }
    }
    assert!(!misfits(schema, "{}").is_empty());
}

#[test]
fn the_schemas_know_every_flag() {
    let names: Vec<&str> = Flag::ALL.iter().map(|flag| flag.name()).collect();
    for schema in [
        include_str!("../../../docs/schema/statistics.schema.json"),
        include_str!("../../../docs/schema/compare.schema.json"),
    ] {
        let schema: Value = serde_json::from_str(schema).unwrap();
        let row = &schema["properties"]["rows"]["items"]["properties"];
        assert_eq!(row["flags"]["items"]["enum"], json!(names));
    }
}

#[test]
fn what_the_report_prints_as_json_fits_its_schema_which_is_an_array_of_records() {
    let text = include_str!("../../../docs/schema/report.schema.json");
    let mut all: Value = serde_json::from_str(text).unwrap();
    assert_eq!(all["items"], json!({"$ref": "trial.schema.json"}));
    // Bundled with the file that it refers to, as the standard requires (2020-12, 9.3).
    let mut trial = schema();
    trial["$id"] = json!("https://fsdyno.invalid/trial.schema.json");
    all["items"] = json!({"$ref": "https://fsdyno.invalid/trial.schema.json"});
    all["$defs"] = json!({"trial": trial});
    let validator = jsonschema::draft202012::new(&all).unwrap();
    let trials = [fixture::trials(), fixture::with_failures()].concat();
    let printed = table(&trials, None, Format::Json, Style::default()).unwrap();
    let mut printed: Value = serde_json::from_str(&printed).unwrap();
    let problems: Vec<String> = validator.iter_errors(&printed).map(|e| e.to_string()).collect();
    assert_eq!(problems, Vec::<String>::new());
    printed[0]["seed"] = json!("one");
    assert!(!validator.is_valid(&printed));
}

#[test]
fn phases_over_time_fit_their_schema_and_others_do_not() {
    let validator = jsonschema::draft202012::new(&series_schema()).unwrap();
    let phase = PhaseSeries {
        name: "create".into(),
        interval_ns: Nanos(40_000_000),
        length_ns: Nanos(100_000_000),
        ops: vec![5, 6, 0],
        dirty_bytes: vec![4096, 8192, 0],
        ..PhaseSeries::default()
    };
    let of = |trial: &Trial| {
        serde_json::to_value(Series::of(trial, vec![phase.clone()]).unwrap()).unwrap()
    };
    let (lab, host) = (of(&fixture::trials()[0]), of(&fixture::on_a_host()[0]));
    assert!(lab["lab_id"].is_string() && host["lab_id"].is_null());
    assert!(validator.is_valid(&lab) && validator.is_valid(&host));
    for (key, value) in [
        ("surprise", json!(1)),
        ("ops", json!([1])),
        ("interval_ns", json!(0)),
        ("ops", json!([-1, 2])),
    ] {
        let mut bad = lab.clone();
        bad["phases"][0][key] = value;
        assert_eq!(validator.iter_errors(&bad).count(), 1, "{key}");
    }
}

/// The schema at a path of names, through its references.
fn resolve<'a>(root: &'a Value, mut at: &'a Value, path: &[&str]) -> Option<&'a Value> {
    for name in path {
        while let Some(reference) = at.get("$ref").and_then(Value::as_str) {
            at = root.pointer(reference.strip_prefix('#')?)?;
        }
        // A nullable value is one of two.
        at = at.get("oneOf").or_else(|| at.get("anyOf")).and_then(|all| all.get(0)).unwrap_or(at);
        while let Some(reference) = at.get("$ref").and_then(Value::as_str) {
            at = root.pointer(reference.strip_prefix('#')?)?;
        }
        at = at.get("properties")?.get(name)?;
    }
    Some(at)
}

#[test]
fn the_examples_of_analysis_use_existing_fields_and_columns() {
    let schema = schema();
    let sql = include_str!("../../../examples/analysis/phases.sql");
    let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    let words = sql.lines().filter(|line| !line.starts_with("--"));
    let words = words.flat_map(|line| line.split(|c| !is_name(c)));
    let mut named = 0;
    for word in words {
        let mut path = word.split('.');
        let root = match path.next() {
            Some("trial") => &schema,
            Some("phase") => &schema["$defs"]["phase"],
            _ => continue,
        };
        let path: Vec<&str> = path.collect();
        assert!(resolve(&schema, root, &path).is_some(), "{word} is no field of a record");
        named += usize::from(!path.is_empty());
    }
    assert!(named >= 6, "{named}");
    let scripts = [
        (include_str!("../../../examples/analysis/latency.py"), crate::records::heads()),
        (include_str!("../../../examples/analysis/over_time.py"), crate::series::heads()),
    ];
    for (script, known) in scripts {
        let list = script.lines().find_map(|line| line.strip_prefix("COLUMNS = "));
        let columns: Vec<String> = serde_json::from_str(list.unwrap()).unwrap();
        assert!(columns.len() > 5);
        assert!(columns.iter().all(|column| known.contains(column)), "{columns:?}");
    }
}
