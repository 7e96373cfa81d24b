//! The published schema of a record, docs/schema/trial.schema.json, held against real records.

use fsdyno_record::{OpKind, Trial};
use serde_json::{Value, json};

use crate::fixture;

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
