//! A comparison for programs: JSON and CSV, nothing rounded.

use serde_json::{Value, json};

use super::{Compared, Row, words};
use crate::csv::push_line;
use crate::number::clean;
use crate::statistics::{method, verdict};

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

const HEAD: &str = "cell,phase,metric,unit,method,n_base,n_new,base,new,ratio,low,high,p,\
    p_in_table,relabelled_p,exact,verdict,n_that_would_decide,notes\n";

/// A line for each row; unknown values are empty.
pub fn csv(compared: &Compared) -> String {
    let mut out = String::from(HEAD);
    let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    for row in &compared.rows {
        let c = row.comparison;
        let interval = c.and_then(|c| c.interval);
        let decides = c.and_then(|c| c.n_that_would_decide());
        let fields = [
            row.cell.clone(),
            row.phase.clone(),
            row.measure.name().into(),
            row.measure.unit().into(),
            c.map(|c| method(&c)).unwrap_or_default().into(),
            row.base.0.to_string(),
            row.new.0.to_string(),
            number(row.base.1),
            number(row.new.1),
            number(c.map(|c| c.ratio)),
            number(interval.map(|interval| interval.0)),
            number(interval.map(|interval| interval.1)),
            number(c.and_then(|c| c.p)),
            number(c.and_then(|c| c.p_in_table)),
            number(c.and_then(|c| c.relabelled).map(|test| test.p)),
            c.map(|c| if c.exact { "yes" } else { "no" }).unwrap_or_default().into(),
            verdict(row.verdict()).into(),
            decides.map(|n| n.to_string()).unwrap_or_default(),
            words::marks(row),
        ];
        push_line(&mut out, fields.iter());
    }
    out
}
