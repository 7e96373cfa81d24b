//! An explained trial for programs: CSV and JSON, nothing rounded.

use fsdyno_why::account::Sum;
use fsdyno_why::functions::{Difference, differences};
use fsdyno_why::sentences::sentences;
use fsdyno_why::{Explained, FunctionRow, Phase, Row};
use serde_json::json;

use super::rows::what;
use crate::number::sanitize;
use crate::table::{Column, Rows};

/// A row of requests or a function.
enum Line {
    Requests(Row),
    Function(FunctionRow, u64),
}

/// Every row of requests, then every function. Missing numbers are empty.
pub fn rows(it: &Explained, out: &mut dyn Rows) {
    let ops = |row: &FunctionRow| {
        it.phases.iter().find(|phase| phase.name == row.phase).map_or(0, |phase| phase.ops)
    };
    let function = |row: FunctionRow| {
        let ops = ops(&row);
        Line::Function(row, ops)
    };
    let functions = it.functions().into_iter().map(function);
    out.table(&columns(it), it.rows().into_iter().map(Line::Requests).chain(functions));
}

fn columns(it: &Explained) -> Vec<Column<'_, Line>> {
    let both = |head: &str, row: fn(&Row) -> String, function: fn(&FunctionRow) -> String| {
        Column::words(head, move |line: &Line| match line {
            Line::Requests(of) => sanitize(&row(of)),
            Line::Function(of, _) => sanitize(&function(of)),
        })
    };
    let sum = |head: &str, of: fn(&Sum) -> u64| {
        Column::number(head, move |line: &Line| match line {
            Line::Requests(row) => of(&row.sum).to_string(),
            Line::Function(..) => String::new(),
        })
    };
    let count = |head: &str, of: fn(&FunctionRow, u64) -> u64| {
        Column::number(head, move |line: &Line| match line {
            Line::Requests(_) => String::new(),
            Line::Function(row, ops) => of(row, *ops).to_string(),
        })
    };
    vec![
        Column::words("trial", |_: &Line| sanitize(&it.trial_id)),
        Column::words("workload", |_: &Line| sanitize(&it.workload)),
        Column::words("label", |_: &Line| sanitize(&it.label)),
        both("table", |_| "requests".into(), |_| "functions".into()),
        both("place", |row| row.place.clone(), |it| it.phase.clone()),
        both("what", |row| what(row).into(), |it| it.function.clone()),
        both("cause_or_task", |row| row.cause.name().into(), |it| it.task.name().into()),
        both("layer", |_| String::new(), |it| it.layer.clone()),
        sum("requests", |sum| sum.requests),
        sum("bytes", |sum| sum.bytes.0),
        sum("seeks", |sum| sum.seeks),
        sum("time_ns", |sum| sum.time_ns.0),
        sum("seek_ns", |sum| sum.seek_ns.0),
        count("instructions", |it, _| it.instructions),
        count("calls", |it, _| it.calls),
        count("ops", |_, ops| ops),
    ]
}

/// All data, as one object.
pub fn json(it: &Explained, other: Option<&Explained>) -> String {
    let attributed = it.account.as_ref().map(|account| account.attributed_shares());
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
                   "here_per_op": it.instructions, "there_per_op": it.other_instructions})
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
