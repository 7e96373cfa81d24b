//! Checks reproducibility: one lab identity, one plan and one seed must produce bit-identical results. If two
//! records differ, every output reports it first.

use std::collections::BTreeMap;

use fsdyno_record::Trial;
use fsdyno_record::trial::Outcome;
use serde_json::Value;

use crate::number::sanitize;

/// A sentence for each pair of records that must be equal and are not.
pub fn differences(trials: &[Trial]) -> Vec<String> {
    let mut firsts: BTreeMap<(&str, &str), &Trial> = BTreeMap::new();
    let mut sentences = Vec::new();
    for trial in trials.iter().filter(|trial| trial.outcome == Outcome::Ok) {
        let Some(lab) = &trial.lab_id else { continue };
        let first = *firsts.entry((lab, &trial.trial_id)).or_insert(trial);
        if first.measured != trial.measured {
            sentences.push(sentence(first, trial));
        }
    }
    sentences
}

fn sentence(first: &Trial, second: &Trial) -> String {
    let json = |trial: &Trial| serde_json::to_value(&trial.measured).unwrap_or_default();
    let found = difference("measured", &json(first), &json(second));
    let (place, a, b) = found.unwrap_or_else(|| ("measured".into(), "?".into(), "?".into()));
    let lab: String = second.lab_id.iter().flat_map(|id| id.chars()).take(12).collect();
    sanitize(&format!(
        "NOT BIT-IDENTICAL: {} on {}, seed {}, has two results in lab {lab}, which must be equal but \
         differ, first in {place}: {a} and {b}. Only the first is counted; trust neither.",
        second.plan.workload.name, second.plan.label, second.seed
    ))
}

/// The first path at which two values differ, with both values.
fn difference(place: &str, a: &Value, b: &Value) -> Option<(String, String, String)> {
    let inside = |name: String, a: Option<&Value>, b: Option<&Value>| {
        difference(&format!("{place}{name}"), a.unwrap_or(&Value::Null), b.unwrap_or(&Value::Null))
    };
    match (a, b) {
        (Value::Object(x), Value::Object(y)) => {
            let keys = x.keys().chain(y.keys());
            keys.into_iter().find_map(|key| inside(format!(".{key}"), x.get(key), y.get(key)))
        }
        (Value::Array(x), Value::Array(y)) => (0..x.len().max(y.len()))
            .find_map(|index| inside(format!("[{index}]"), x.get(index), y.get(index))),
        _ => (a != b).then(|| (place.to_string(), truncated(a), truncated(b))),
    }
}

fn truncated(value: &Value) -> String {
    value.to_string().chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, Style, fixture, html, table};

    fn trials_with_a_contradiction() -> Vec<Trial> {
        let mut trials = fixture::trials();
        let mut other = trials[4].clone();
        other.measured.phases[1].returned_ns.0 += 1;
        trials.push(other);
        trials
    }

    #[test]
    fn equal_records_and_records_of_hosts_give_no_sentence() {
        let twice = [fixture::trials(), fixture::trials()].concat();
        assert_eq!(differences(&twice), Vec::<String>::new());
        let mut hosts = [fixture::on_a_host(), fixture::on_a_host()].concat();
        hosts[0].measured.phases[0].returned_ns.0 += 1;
        assert_eq!(differences(&hosts), Vec::<String>::new());
    }

    #[test]
    fn one_nanosecond_of_difference_is_reported_with_its_path_in_table_and_page() {
        let trials = trials_with_a_contradiction();
        let sentences = differences(&trials);
        assert_eq!(sentences.len(), 1);
        assert!(
            sentences[0].contains("first in measured.phases[1].returned_ns: "),
            "{sentences:?}"
        );
        for format in [Format::Text, Format::Mail, Format::Markdown] {
            let text = table(&trials, None, format, Style::default()).unwrap();
            assert!(text.contains("NOT BIT-IDENTICAL"), "{format:?}: {text}");
        }
        assert!(html(&trials, &[], None).unwrap().contains("NOT BIT-IDENTICAL"));
    }
}
