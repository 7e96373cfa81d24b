//! An explained trial for programs: CSV and JSON, nothing rounded.

use fsdyno_why::account::Sum;
use fsdyno_why::functions::{Difference, differences};
use fsdyno_why::sentences::sentences;
use fsdyno_why::{Explained, FunctionRow, Phase, Row};
use serde_json::json;

use super::rows::structure_name;
use crate::number::sanitize;
use crate::table::{Column, Rows};

/// A row of requests or a function.
enum Line {
    Requests(Row),
    Function(FunctionRow, u64),
}

/// Every row of requests, then every function. Missing numbers are empty.
pub fn rows(explained: &Explained, out: &mut dyn Rows) {
    let ops = |row: &FunctionRow| {
        explained.phases.iter().find(|phase| phase.name == row.phase).map_or(0, |phase| phase.ops)
    };
    let function = |row: FunctionRow| {
        let ops = ops(&row);
        Line::Function(row, ops)
    };
    let functions = explained.functions().into_iter().map(function);
    out.table(
        &columns(explained),
        explained.rows().into_iter().map(Line::Requests).chain(functions),
    );
}

fn columns(explained: &Explained) -> Vec<Column<'_, Line>> {
    let common = |head: &str, row: fn(&Row) -> String, function: fn(&FunctionRow) -> String| {
        Column::words(head, move |line: &Line| match line {
            Line::Requests(requests) => sanitize(&row(requests)),
            Line::Function(function_row, _) => sanitize(&function(function_row)),
        })
    };
    let sum = |head: &str, value: fn(&Sum) -> u64| {
        Column::number(head, move |line: &Line| match line {
            Line::Requests(row) => value(&row.sum).to_string(),
            Line::Function(..) => String::new(),
        })
    };
    let count = |head: &str, value: fn(&FunctionRow, u64) -> u64| {
        Column::number(head, move |line: &Line| match line {
            Line::Requests(_) => String::new(),
            Line::Function(row, ops) => value(row, *ops).to_string(),
        })
    };
    vec![
        Column::words("trial", |_: &Line| sanitize(&explained.trial_id)),
        Column::words("workload", |_: &Line| sanitize(&explained.workload)),
        Column::words("label", |_: &Line| sanitize(&explained.label)),
        common("table", |_| "requests".into(), |_| "functions".into()),
        common("place", |row| row.place.clone(), |function| function.phase.clone()),
        common("what", |row| structure_name(row).into(), |function| function.function.clone()),
        common(
            "cause_or_task",
            |row| row.cause.name().into(),
            |function| function.task.name().into(),
        ),
        common("layer", |_| String::new(), |function| function.layer.clone()),
        sum("requests", |sum| sum.requests),
        sum("bytes", |sum| sum.bytes.0),
        sum("seeks", |sum| sum.seeks),
        sum("time_ns", |sum| sum.time_ns.0),
        sum("seek_ns", |sum| sum.seek_ns.0),
        count("instructions", |function, _| function.instructions),
        count("calls", |function, _| function.calls),
        count("ops", |_, ops| ops),
    ]
}

/// All data, as one object.
pub fn json(explained: &Explained, other: Option<&Explained>) -> String {
    let attributed = explained.account.as_ref().map(|account| account.attributed_shares());
    let phase = |phase: &Phase| {
        let Phase { name, ops, took_ns, cpu_ns, .. } = phase;
        json!({"name": name, "ops": ops, "took_ns": took_ns, "cpu_ns": cpu_ns})
    };
    let is_explained = |phase: &&Phase| phase.took_ns.0 > 0 || !phase.executed.is_empty();
    let mut value = json!({
        "trial_id": explained.trial_id, "workload": explained.workload, "label": explained.label, "seed": explained.seed,
        "sentences": sentences(explained, other),
        "log": explained.log,
        "attributed": attributed.map(|(requests, time)| json!({"requests": requests, "time": time})),
        "requests": explained.rows(),
        "phases": explained.phases.iter().filter(is_explained).map(phase).collect::<Vec<_>>(),
        "functions": explained.functions(),
        "notes": explained.notes,
        "host": {"first_pass_ns": explained.host_ns.0, "second_pass_ns": explained.host_ns.1},
    });
    if let Some(other) = other {
        let row = |phase: &Phase, difference: Difference| {
            json!({"phase": phase.name, "function": difference.function, "was": difference.old_name, "layer": difference.layer,
                   "here_per_op": difference.instructions, "there_per_op": difference.other_instructions})
        };
        let mut rows = Vec::new();
        for phase in &explained.phases {
            if let Some(other_phase) =
                other.phases.iter().find(|candidate| candidate.name == phase.name)
            {
                rows.extend(
                    differences(phase, other_phase)
                        .into_iter()
                        .map(|difference| row(phase, difference)),
                );
            }
        }
        value["against"] = json!({"trial_id": other.trial_id, "label": other.label,
                                  "requests": other.rows(), "differences": rows});
    }
    format!("{value:#}\n")
}
