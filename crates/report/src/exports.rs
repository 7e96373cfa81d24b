//! The names of methods and verdicts in outputs for programs, their schemas, and the form of JSON.

use fsdyno_stats::compare::{Comparison, Method, Verdict};
use schemars::{Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde_json::json;

/// `paired` or `welch`.
pub fn method(comparison: &Comparison) -> &'static str {
    method_name(comparison.method)
}

/// The name of a method in exports.
pub fn method_name(method: Method) -> &'static str {
    match method {
        Method::Paired => "paired",
        Method::Welch => "welch",
    }
}

/// The verdict as a string.
pub fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::Same => "same",
        Verdict::Undecided => "undecided",
        Verdict::WithinError => "within the processor model's error",
    }
}

/// The schema of a set of strings, each with its meaning.
pub(crate) fn string_enum<'v>(values: impl IntoIterator<Item = (&'v str, &'v str)>) -> Schema {
    let value = |(value, meaning): (&str, &str)| json!({"const": value, "description": meaning});
    json_schema!({"type": "string", "oneOf": values.into_iter().map(value).collect::<Vec<_>>()})
}

/// The schema of the methods of a comparison.
pub(crate) fn methods(_: &mut SchemaGenerator) -> Schema {
    let names = [Method::Paired, Method::Welch].map(method_name);
    json_schema!({"type": "string", "enum": names})
}

/// The schema of a comparison's method, or null.
pub(crate) fn methods_or_null(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({"anyOf": [methods(generator), {"type": "null"}]})
}

/// The schema of the verdicts of a comparison.
pub(crate) fn verdicts(_: &mut SchemaGenerator) -> Schema {
    string_enum([
        (Verdict::Faster, "It took less time (or space)."),
        (Verdict::Slower, "It took more time (or space)."),
        (Verdict::Same, "The difference is smaller than the smallest one that matters."),
        (Verdict::Undecided, "The trials do not decide."),
        (
            Verdict::WithinError,
            "The trials decide, but the ratio is that of two file systems in the lab, and no larger than the error of its \
             processor profile.",
        ),
    ].map(|(value, meaning)| (verdict(value), meaning)))
}

/// A value as indented JSON with a newline at the end.
pub(crate) fn pretty(value: &impl Serialize) -> Result<String, serde_json::Error> {
    // The value becomes a map first, which sorts the keys.
    Ok(format!("{:#}\n", serde_json::to_value(value)?))
}
