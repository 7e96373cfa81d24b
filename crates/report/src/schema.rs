//! The published schemas, docs/schema/*.schema.json, held against real records and what is made of them.

use fsdyno_record::plan::IssuerPlan;
use fsdyno_record::{OpKind, Repeats, Trial};
use fsdyno_stats::validity::Flag;
use serde_json::{Value, json};

use crate::compare::{self, Format, Metric, Wanted};
use crate::table::Style;
use crate::{fixture, statistics};

fn schema() -> Value {
    serde_json::from_str(include_str!("../../../docs/schema/trial.schema.json")).unwrap()
}

fn problems(record: &Value) -> Vec<String> {
    let validator = jsonschema::draft202012::new(&schema()).unwrap();
    validator.iter_errors(record).map(|e| format!("{}: {e}", e.instance_path())).collect()
}

fn record(trial: &Trial) -> Value {
    serde_json::to_value(trial).unwrap()
}

#[test]
fn the_schema_is_itself_a_schema() {
    assert!(jsonschema::meta::is_valid(&schema()));
}

#[test]
fn records_of_lab_and_host_and_those_that_failed_fit_the_schema() {
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

/// Lab, host, failures, single trials, a rule, and calls that were never made.
fn of_all_kinds() -> Vec<Vec<Trial>> {
    let mut ruled = fixture::trials();
    for trial in &mut ruled {
        let (width_ppm, pilot, at_most, first_seed) = (10_000, 2, 3, 1);
        let wanted = Some(9);
        trial.repeats = Some(Repeats { width_ppm, pilot, at_most, first_seed, wanted });
        assert_eq!(problems(&record(trial)), Vec::<String>::new());
    }
    let mut null = fixture::trials();
    null.iter_mut().for_each(|trial| trial.plan.issuer = IssuerPlan::Null);
    let host = fixture::on_a_host();
    vec![fixture::trials(), fixture::with_failures(), host, fixture::single(), ruled, null]
}

#[test]
fn statistics_of_all_kinds_fit_their_schema() {
    let schema = include_str!("../../../docs/schema/statistics.schema.json");
    for trials in of_all_kinds() {
        let text = statistics::json(&trials, Some("ext4"));
        assert_eq!(misfits(schema, &text), Vec::<String>::new());
    }
    assert_eq!(misfits(schema, r#"{"schema":1,"answer":[],"rows":[{}]}"#).len(), 25);
}

#[test]
fn comparisons_of_all_kinds_fit_their_schema() {
    let schema = include_str!("../../../docs/schema/compare.schema.json");
    for new in of_all_kinds() {
        for metric in [Metric::Durable, Metric::P99] {
            let wanted = Wanted { metric, threshold: 0.03 };
            let compared = compare::compare(&fixture::with_failures(), &new, wanted);
            let Ok(compared) = compared else { continue };
            let text = compare::print(&compared, Format::Json, Style::default());
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
