//! A comparison for programs: JSON and CSV, without rounding.

use fsdyno_stats::compare::Comparison;
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    Compared, Difference, ExplainedStep, Metric, Row, Side, Step, Unfinished, Unmatched, words,
};
use crate::error::ReportError;
use crate::exports::{self, method, pretty, verdict};
use crate::measure::{Amount, Measure};
use crate::number::sanitize;
use crate::table::{Column, Rows};
use crate::validity::Flag;

/// Version of the JSON form.
const SCHEMA: u32 = 1;

/// Two results compared. Ratios are new over base; nothing is rounded.
#[derive(Serialize, JsonSchema)]
pub struct ComparedJson {
    /// Version of this form.
    #[schemars(extend("const" = SCHEMA))]
    schema: u32,
    /// The axis along which the steps are taken, if both sides are from one result (`--by`).
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'static str>,
    /// The requested metric.
    #[schemars(extend("enum" = Metric::ALL.iter().map(|(name, ..)| *name).collect::<Vec<_>>()))]
    metric: &'static str,
    /// The least difference that matters, relative.
    threshold: f64,
    /// The result in a sentence.
    summary: String,
    /// A row for each phase of each pair of cells, in the order of the base.
    rows: Vec<RowJson>,
    /// Differences other than the measured values.
    differences: Vec<Difference>,
    /// Cells and phases that only one side has.
    without_partner: Vec<UnmatchedJson>,
    /// Failed and skipped trials.
    unfinished: Vec<UnfinishedJson>,
}

/// A phase of a pair of cells.
#[derive(Serialize, JsonSchema)]
struct RowJson {
    /// Workload and file system, with the conditions that distinguish them from others of that name.
    cell: String,
    /// The values of the axis before and after the step, if both sides are of one result.
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<StepJson>,
    /// Phase of the workload.
    phase: String,
    /// The measure that was compared: `operation` if a phase has a time limit, `room` (device space per file) if file
    /// systems were filled.
    #[schemars(extend("enum" = Measure::NAMES))]
    metric: &'static str,
    /// Values of the base.
    base: SideJson,
    /// Values of the new result.
    new: SideJson,
    /// The t interval of the logarithms: of pairs by seed, or Welch's; null if there is no ratio.
    #[schemars(schema_with = "exports::methods_or_null")]
    method: Option<&'static str>,
    /// Ratio, new over base.
    ratio: Option<f64>,
    /// Lower end of the 95 % interval of the ratio.
    low: Option<f64>,
    /// Upper end of the 95 % interval of the ratio.
    high: Option<f64>,
    /// p-value of the t test.
    p: Option<f64>,
    /// p-value adjusted by Holm's method for all rows.
    p_in_table: Option<f64>,
    /// p-value of the permutation test, only for a host's trials.
    relabelled_p: Option<f64>,
    /// True if no two repeats differed.
    exact: bool,
    /// Number of repeats that would find a difference of the threshold or show that there is none.
    n_that_would_decide: Option<u32>,
    /// Verdict on the new result.
    #[schemars(schema_with = "exports::verdicts")]
    verdict: &'static str,
    /// Note that there was only one repeat, or that no two repeats differed, if so.
    note: Option<&'static str>,
    /// Flags of the trials.
    flags: Vec<Flag>,
    /// Options of either side that give up durability, each with the reason.
    #[serde(rename = "unsafe")]
    risks: Vec<String>,
    /// Notes of the table.
    notes: Vec<String>,
    /// The instructions of both sides, if the step was explained (`--explain`).
    #[serde(skip_serializing_if = "Option::is_none")]
    explained: Option<ExplainedJson>,
}

/// The instructions of one trial of each side.
#[derive(Serialize, JsonSchema)]
struct ExplainedJson {
    /// Seed of the trials.
    seed: u64,
    /// Instructions per op of the threads that issue ops, of the base.
    base: f64,
    /// Instructions per op of the same threads, of the new side.
    new: f64,
    /// Function that accounts for most of the difference; null if no single function does.
    function: Option<String>,
    /// Its part of the difference, in instructions per op.
    delta: Option<f64>,
    /// True if that includes its callees.
    with_callees: Option<bool>,
}

impl From<&ExplainedStep> for ExplainedJson {
    fn from(step: &ExplainedStep) -> ExplainedJson {
        let source = step.source.as_ref();
        ExplainedJson {
            seed: step.seed,
            base: step.base,
            new: step.new,
            function: source.map(|source| sanitize(&source.function)),
            delta: source.map(|source| source.delta),
            with_callees: source.map(|source| source.with_callees),
        }
    }
}

/// A step along an axis.
#[derive(Serialize, JsonSchema)]
struct StepJson {
    /// The value of the base.
    from: String,
    /// The value of the new side.
    to: String,
}

/// The values of one side: their geometric mean (arithmetic if one is zero), in the unit of its key.
#[derive(Serialize, JsonSchema)]
struct SideJson {
    /// Number of trials.
    n: usize,
    #[serde(flatten)]
    value: Amount,
}

/// A side without a match.
#[derive(Serialize, JsonSchema)]
struct UnmatchedJson {
    /// The side that has it.
    side: SideName,
    /// Cell or phase.
    what: String,
}

/// A failed or skipped trial.
#[derive(Serialize, JsonSchema)]
struct UnfinishedJson {
    /// The side that it belongs to.
    side: SideName,
    /// Its value on the axis of the steps, if they are of one result (`--by`).
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    /// Its cell.
    cell: String,
    /// Its seed.
    seed: u64,
    /// Its outcome.
    outcome: UnfinishedOutcome,
    /// Reason for the failure or skip.
    reason: String,
}

/// One of the two results.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum SideName {
    /// The base.
    Base,
    /// The new result.
    New,
}

/// The outcome of a trial without measured values.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum UnfinishedOutcome {
    /// It failed.
    Failed,
    /// It could not run.
    Skipped,
}

impl From<Side> for SideName {
    fn from(side: Side) -> SideName {
        match side {
            Side::Base => SideName::Base,
            Side::New => SideName::New,
        }
    }
}

/// A comparison as one object, pretty-printed: docs/schema/compare.schema.json.
///
/// # Errors
/// Only [`ReportError::Json`].
pub fn json(compared: &Compared) -> Result<String, ReportError> {
    let unmatched =
        |item: &Unmatched| UnmatchedJson { side: item.side.into(), what: item.name.clone() };
    let unfinished = |trial: &Unfinished| UnfinishedJson {
        side: trial.side.into(),
        value: trial.value.clone(),
        cell: trial.cell.clone(),
        seed: trial.seed,
        outcome: match trial.failed {
            true => UnfinishedOutcome::Failed,
            false => UnfinishedOutcome::Skipped,
        },
        reason: sanitize(&trial.reason),
    };
    Ok(pretty(&ComparedJson {
        schema: SCHEMA,
        by: compared.axis_key,
        metric: compared.metric.name(),
        threshold: compared.threshold,
        summary: words::summary(compared),
        rows: compared.rows.iter().map(row).collect(),
        differences: compared.differences.clone(),
        without_partner: compared.unmatched.iter().map(unmatched).collect(),
        unfinished: compared.unfinished.iter().map(unfinished).collect(),
    })?)
}

fn row(row: &Row) -> RowJson {
    let c = row.comparison;
    let side = |(n, value): (usize, Option<f64>)| SideJson { n, value: row.measure.amount(value) };
    RowJson {
        cell: row.cell.clone(),
        step: row
            .step
            .as_ref()
            .map(|step| StepJson { from: step.from.clone(), to: step.to.clone() }),
        phase: row.phase.clone(),
        metric: row.measure.name(),
        base: side(row.base),
        new: side(row.new),
        method: c.map(|c| method(&c)),
        ratio: c.map(|c| c.ratio),
        low: c.and_then(|c| c.interval).map(|interval| interval.0),
        high: c.and_then(|c| c.interval).map(|interval| interval.1),
        p: c.and_then(|c| c.p),
        p_in_table: c.and_then(|c| c.p_in_table),
        relabelled_p: c.and_then(|c| c.relabelled).map(|test| test.p),
        exact: c.is_some_and(|c| c.exact),
        n_that_would_decide: c.and_then(|c| c.n_that_would_decide()),
        verdict: verdict(row.verdict()),
        note: c.and_then(|c| c.note()),
        flags: row.flags().collect(),
        risks: row.risks.clone(),
        notes: words::marks_of(row),
        explained: row.explained.as_ref().map(Into::into),
    }
}

/// A row for each cell and phase; unknown values are empty.
pub fn rows(compared: &Compared, out: &mut dyn Rows) {
    out.table(&columns(), &compared.rows);
}

/// The columns. Other programs refer to them by name, so new columns are only appended.
fn columns<'r>() -> Vec<Column<'static, &'r Row>> {
    let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    let low = |c: &Comparison| c.interval.map(|interval| interval.0);
    let high = |c: &Comparison| c.interval.map(|interval| interval.1);
    vec![
        Column::words("cell", |row: &&Row| row.cell.clone()),
        Column::words("phase", |row: &&Row| row.phase.clone()),
        Column::words("metric", |row: &&Row| row.measure.name().into()),
        Column::words("unit", |row: &&Row| row.measure.unit().into()),
        compared("method", |c| method(c).into()),
        Column::number("n_base", |row: &&Row| row.base.0.to_string()),
        Column::number("n_new", |row: &&Row| row.new.0.to_string()),
        Column::number("base", move |row: &&Row| number(row.base.1)),
        Column::number("new", move |row: &&Row| number(row.new.1)),
        compared("ratio", |c| c.ratio.to_string()),
        compared("low", move |c| number(low(c))),
        compared("high", move |c| number(high(c))),
        compared("p", move |c| number(c.p)),
        compared("p_in_table", move |c| number(c.p_in_table)),
        compared("relabelled_p", move |c| number(c.relabelled.map(|test| test.p))),
        compared("exact", |c| if c.exact { "yes" } else { "no" }.into()),
        Column::words("verdict", |row: &&Row| verdict(row.verdict()).into()),
        compared("n_that_would_decide", |c| {
            c.n_that_would_decide().map(|n| n.to_string()).unwrap_or_default()
        }),
        Column::words("notes", |row: &&Row| words::marks(row)),
        Column::words("from", |row: &&Row| step(row).map_or("", |step| step.from.as_str()).into()),
        Column::words("to", |row: &&Row| step(row).map_or("", |step| step.to.as_str()).into()),
        explained("instructions_base", |step| step.base.to_string()),
        explained("instructions_new", |step| step.new.to_string()),
        explained("function", |step| {
            step.source.as_ref().map(|source| sanitize(&source.function)).unwrap_or_default()
        }),
    ]
}

/// A column computed from the explanation of a step; empty in rows without an explanation.
fn explained<'r>(head: &str, cell: fn(&ExplainedStep) -> String) -> Column<'static, &'r Row> {
    Column::words(head, move |row: &&Row| row.explained.as_ref().map(cell).unwrap_or_default())
}

fn step<'r>(row: &&'r Row) -> Option<&'r Step> {
    row.step.as_ref()
}

/// A column computed from the comparison; empty in rows without a comparison.
fn compared<'r>(
    head: &str,
    cell: impl Fn(&Comparison) -> String + 'static,
) -> Column<'static, &'r Row> {
    Column::number(head, move |row: &&Row| row.comparison.as_ref().map(&cell).unwrap_or_default())
}
