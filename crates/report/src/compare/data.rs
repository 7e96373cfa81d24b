//! A comparison for programs: JSON and CSV, nothing rounded.

use fsdyno_stats::compare::Comparison;
use serde_json::{Value, json};

use super::{Compared, Row, words};
use crate::number::clean;
use crate::statistics::{method, verdict};
use crate::table::{Column, Rows};

/// Version of the JSON form.
const SCHEMA: u32 = 1;

/// One object, pretty-printed: docs/schema/compare.schema.json. Values are in the unit of their key (`seconds`, `bytes`), ratios new over base.
pub fn json(compared: &Compared) -> String {
    let rows: Vec<Value> = compared.rows.iter().map(row).collect();
    let differences: Vec<Value> = compared
        .differences
        .iter()
        .map(|d| json!({"what": d.what, "base": d.base, "new": d.new, "cells": d.cells}))
        .collect();
    let alone: Vec<Value> = compared
        .alone
        .iter()
        .map(|alone| json!({"side": side(alone.side.name()), "what": alone.what}))
        .collect();
    let unfinished: Vec<Value> = compared
        .unfinished
        .iter()
        .map(|trial| {
            json!({
                "side": side(trial.side.name()), "cell": trial.cell, "seed": trial.seed,
                "outcome": if trial.failed { "failed" } else { "skipped" },
                "reason": clean(&trial.reason),
            })
        })
        .collect();
    let all = json!({
        "schema": SCHEMA, "metric": compared.metric.name(), "threshold": compared.threshold,
        "summary": words::summary(compared), "rows": rows, "differences": differences,
        "without_partner": alone, "unfinished": unfinished,
    });
    format!("{all:#}\n")
}

fn side(name: &str) -> String {
    name.to_lowercase()
}

fn row(row: &Row) -> Value {
    let (c, unit) = (row.comparison, row.measure.unit());
    json!({
        "cell": row.cell, "phase": row.phase, "metric": row.measure.name(),
        "base": {"n": row.base.0, unit: row.base.1},
        "new": {"n": row.new.0, unit: row.new.1},
        "method": c.map(|c| method(&c)),
        "ratio": c.map(|c| c.ratio),
        "low": c.and_then(|c| c.interval).map(|interval| interval.0),
        "high": c.and_then(|c| c.interval).map(|interval| interval.1),
        "p": c.and_then(|c| c.p),
        "p_in_table": c.and_then(|c| c.p_in_table),
        "relabelled_p": c.and_then(|c| c.relabelled).map(|test| test.p),
        "exact": c.is_some_and(|c| c.exact),
        "n_that_would_decide": c.and_then(|c| c.n_that_would_decide()),
        "verdict": verdict(row.verdict()),
        "note": c.and_then(|c| c.note()),
        "flags": row.flags().map(|flag| flag.name()).collect::<Vec<_>>(),
        "unsafe": row.risks,
        "notes": words::marks_of(row),
    })
}

/// A row for each cell and phase; unknown values are empty.
pub fn rows(compared: &Compared, out: &mut dyn Rows) {
    out.table(&columns(), &compared.rows);
}

/// The columns, for programs that know them by name: new ones come last.
fn columns<'r>() -> Vec<Column<'static, &'r Row>> {
    let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    let low = |c: &Comparison| c.interval.map(|interval| interval.0);
    let high = |c: &Comparison| c.interval.map(|interval| interval.1);
    vec![
        Column::words("cell", |row: &&Row| row.cell.clone()),
        Column::words("phase", |row: &&Row| row.phase.clone()),
        Column::words("metric", |row: &&Row| row.measure.name().into()),
        Column::words("unit", |row: &&Row| row.measure.unit().into()),
        of("method", |c| method(c).into()),
        Column::number("n_base", |row: &&Row| row.base.0.to_string()),
        Column::number("n_new", |row: &&Row| row.new.0.to_string()),
        Column::number("base", move |row: &&Row| number(row.base.1)),
        Column::number("new", move |row: &&Row| number(row.new.1)),
        of("ratio", |c| c.ratio.to_string()),
        of("low", move |c| number(low(c))),
        of("high", move |c| number(high(c))),
        of("p", move |c| number(c.p)),
        of("p_in_table", move |c| number(c.p_in_table)),
        of("relabelled_p", move |c| number(c.relabelled.map(|test| test.p))),
        of("exact", |c| if c.exact { "yes" } else { "no" }.into()),
        Column::words("verdict", |row: &&Row| verdict(row.verdict()).into()),
        of("n_that_would_decide", |c| {
            c.n_that_would_decide().map(|n| n.to_string()).unwrap_or_default()
        }),
        Column::words("notes", |row: &&Row| words::marks(row)),
    ]
}

/// A column of the comparison; empty without one.
fn of<'r>(head: &str, cell: impl Fn(&Comparison) -> String + 'static) -> Column<'static, &'r Row> {
    Column::number(head, move |row: &&Row| row.comparison.as_ref().map(&cell).unwrap_or_default())
}
