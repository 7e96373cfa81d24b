//! The JSON Schemas of everything that is stored or printed for programs, generated from the types that are written.
//!
//! They are published in docs/schema (`make docs`) and printed by `fsdyno show schema`.

use fsdyno_record::Trial;
use fsdyno_record::series::Series;
use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};

use crate::compare::ComparedJson;
use crate::statistics::Statistics;
use crate::study::JudgedJson;
use crate::trials::ReportedTrials;

/// A published schema.
#[derive(Clone, Copy, Debug)]
pub struct Published {
    /// Name: `trial` is docs/schema/trial.schema.json.
    pub name: &'static str,
    /// A short description of the data that has this form.
    pub about: &'static str,
    generate: fn() -> Schema,
}

/// All published schemas, in the order in which they are listed.
pub const ALL: &[Published] = &[
    Published { name: "trial", about: "A line of trials.ndjson", generate: schema_of::<Trial> },
    Published { name: "series", about: "A line of series.ndjson", generate: schema_of::<Series> },
    Published {
        name: "report",
        about: "Output of fsdyno report --format json",
        generate: schema_of::<ReportedTrials<'static>>,
    },
    Published {
        name: "statistics",
        about: "Output of fsdyno report --format statistics",
        generate: schema_of::<Statistics>,
    },
    Published {
        name: "compare",
        about: "Output of fsdyno compare --format json",
        generate: schema_of::<ComparedJson>,
    },
    Published {
        name: "judged",
        about: "Output of fsdyno study --format json",
        generate: schema_of::<JudgedJson<'static>>,
    },
];

impl Published {
    /// The schema (JSON Schema, draft 2020-12).
    pub fn schema(&self) -> Value {
        let mut schema = (self.generate)();
        schema.insert("title".into(), json!(format!("fsdyno: {}", self.about)));
        schema.to_value()
    }
}

/// The schema of a type as it is written.
fn schema_of<T: JsonSchema>() -> Schema {
    let settings = SchemaSettings::draft2020_12().for_serialize().with_transform(Exact);
    settings.into_generator().into_root_schema_for::<T>()
}

/// Narrows a schema to what the program writes: no unknown fields, and no null where a field is absent instead.
#[derive(Clone)]
struct Exact;

impl Transform for Exact {
    fn transform(&mut self, schema: &mut Schema) {
        let is_composed = ["anyOf", "oneOf", "allOf"].iter().any(|key| schema.get(*key).is_some());
        // A condition (`if`) has fields, but no type.
        let is_object = schema.get("type").is_some_and(|kind| *kind == "object");
        let has_fields = is_object && schema.get("properties").is_some();
        if is_composed && has_fields {
            // Fields of its alternatives are also known fields.
            schema.insert("unevaluatedProperties".into(), false.into());
        } else if has_fields && schema.get("additionalProperties").is_none() {
            schema.insert("additionalProperties".into(), false.into());
        }
        remove_null_of_optional(schema);
        if let Some(Value::String(text)) = schema.get_mut("description") {
            *text = text.replace('\n', " ");
        }
        transform_subschemas(self, schema);
        if is_composed && has_fields {
            allow_additional_fields(schema);
        }
    }
}

/// Removes `additionalProperties: false` from the alternatives of an object, which would reject the object's own
/// fields.
fn allow_additional_fields(schema: &mut Schema) {
    for key in ["anyOf", "oneOf", "allOf"] {
        let Some(Value::Array(alternatives)) = schema.get_mut(key) else { continue };
        for alternative in alternatives.iter_mut().filter_map(Value::as_object_mut) {
            alternative.remove("additionalProperties");
        }
    }
}

/// Removes null from the fields that are not required: they are omitted instead.
fn remove_null_of_optional(schema: &mut Schema) {
    let required: Vec<String> = match schema.get("required") {
        Some(Value::Array(names)) => {
            names.iter().filter_map(|name| name.as_str().map(String::from)).collect()
        }
        _ => Vec::new(),
    };
    let Some(Value::Object(fields)) = schema.get_mut("properties") else { return };
    for (_, field) in fields.iter_mut().filter(|(name, _)| !required.contains(name)) {
        if let Some(Value::Array(types)) = field.get_mut("type") {
            types.retain(|name| name != "null");
            if let [only] = types.as_slice() {
                field["type"] = only.clone();
            }
        }
        let Some(Value::Array(alternatives)) = field.get_mut("anyOf") else { continue };
        alternatives.retain(|alternative| *alternative != json!({"type": "null"}));
        if let [Value::Object(only)] = alternatives.as_slice()
            && let only = only.clone()
            && let Some(field) = field.as_object_mut()
        {
            field.remove("anyOf");
            only.into_iter().for_each(|(key, value)| {
                field.entry(key).or_insert(value);
            });
        }
    }
}

#[cfg(test)]
mod tests;
