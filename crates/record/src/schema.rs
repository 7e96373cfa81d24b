//! The parts of the JSON Schemas of records that cannot be derived from the types: plans of schema 1, and shared
//! values.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Value, json};

use crate::op::OpKind;
use crate::plan::{FlatMedium, MediumPlan};
use crate::shared::Shared;

/// The medium of a plan; in records of schema 1 with its venue.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
#[allow(dead_code, reason = "only its schema is used")]
#[allow(clippy::large_enum_variant, reason = "only its schema is used")]
pub enum StoredMedium {
    /// The medium alone.
    Own(MediumPlan),
    /// Medium and venue, as in records of schema 1.
    Flat(FlatMedium),
}

/// Returns the kinds of op, as a constraint on the names of a map's fields.
pub fn op_names() -> Value {
    json!({"enum": OpKind::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>()})
}

/// Requires the venue of a plan from schema 2 on; in schema 1, it is part of the medium.
pub fn venue_since_schema_2(trial: &mut Schema) {
    trial.insert("if".into(), json!({"properties": {"schema": {"minimum": 2}}}));
    trial.insert("then".into(), json!({"properties": {"plan": {"required": ["venue"]}}}));
}

impl<T: JsonSchema> JsonSchema for Shared<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}
