//! An explained trial for programs: CSV and JSON, nothing rounded.

use fsdyno_why::functions::{Difference, differences};
use fsdyno_why::say::sentences;
use fsdyno_why::{Explained, FunctionRow, Phase, Row};
use serde_json::json;

use super::rows::what;
use crate::csv::push_line;
use crate::number::clean;

/// The head of the rows of [`csv`].
const COLUMNS: &str = "trial,workload,label,table,place,what,cause_or_task,layer,requests,bytes,seeks,\
    time_ns,seek_ns,instructions,calls,ops";

/// Every row of requests, then every function, one per line. Missing numbers are empty.
pub fn csv(it: &Explained) -> String {
    let mut out = format!("{COLUMNS}\n");
    let first = [&it.trial_id, &it.workload, &it.label].map(|text| clean(text));
    let mut push = |table: &str, words: [&str; 4], numbers: [Option<u64>; 8]| {
        let words = words.map(clean);
        let numbers = numbers.map(|number| number.map(|n| n.to_string()).unwrap_or_default());
        let table = [table.to_string()];
        push_line(&mut out, first.iter().chain(&table).chain(&words).chain(&numbers));
    };
    for row in it.rows() {
        let Row { place, cause, sum, .. } = &row;
        let numbers = [sum.requests, sum.bytes.0, sum.seeks, sum.time_ns.0, sum.seek_ns.0];
        let [requests, bytes, seeks, time, seek] = numbers.map(Some);
        let words = [place.as_str(), what(&row), cause.name(), ""];
        push("requests", words, [requests, bytes, seeks, time, seek, None, None, None]);
    }
    for row in it.functions() {
        let ops = it.phases.iter().find(|phase| phase.name == row.phase).map_or(0, |it| it.ops);
        let FunctionRow { phase, task, function, layer, instructions, calls, .. } = &row;
        let words = [phase.as_str(), function, task.name(), layer];
        let [instructions, calls, ops] = [*instructions, *calls, ops].map(Some);
        push("functions", words, [None, None, None, None, None, instructions, calls, ops]);
    }
    out
}

/// All data, as one object.
pub fn json(it: &Explained, other: Option<&Explained>) -> String {
    let attributed = it.account.as_ref().map(|account| account.attributed());
    let phase = |phase: &Phase| {
        let Phase { name, ops, took_ns, cpu_ns, .. } = phase;
        json!({"name": name, "ops": ops, "took_ns": took_ns, "cpu_ns": cpu_ns})
    };
    let there = |phase: &&Phase| phase.took_ns.0 > 0 || !phase.executed.is_empty();
    let mut value = json!({
        "trial_id": it.trial_id, "workload": it.workload, "label": it.label, "seed": it.seed,
        "sentences": sentences(it, other),
        "log": it.log,
        "attributed": attributed.map(|(requests, time)| json!({"requests": requests, "time": time})),
        "requests": it.rows(),
        "phases": it.phases.iter().filter(there).map(phase).collect::<Vec<_>>(),
        "functions": it.functions(),
        "notes": it.notes,
        "host": {"first_pass_ns": it.host_ns.0, "second_pass_ns": it.host_ns.1},
    });
    if let Some(other) = other {
        let row = |phase: &Phase, it: Difference| {
            json!({"phase": phase.name, "function": it.function, "was": it.old_name, "layer": it.layer,
                   "here_per_op": it.here, "there_per_op": it.there})
        };
        let mut rows = Vec::new();
        for phase in &it.phases {
            if let Some(there) = other.phases.iter().find(|there| there.name == phase.name) {
                rows.extend(differences(phase, there).into_iter().map(|it| row(phase, it)));
            }
        }
        value["against"] = json!({"trial_id": other.trial_id, "label": other.label,
                                  "requests": other.rows(), "differences": rows});
    }
    format!("{value:#}\n")
}
