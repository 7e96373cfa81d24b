//! Computes the tables of factors: each row's figure divided by that of the best row of the column, paired by seed.

use fsdyno_report::study::{self, Factor, FactorRow, Number};
use fsdyno_report::validity::Flag;
use fsdyno_report::{Pairing, processor_error};
use fsdyno_stats::Summary;
use fsdyno_stats::compare::Verdict;

use super::trials::{CellTrials, Trials, in_unit};
use crate::file::{Cell, Dimension, Factors};

/// The minimum difference that counts, as in tables of trials.
const MIN_DIFFERENCE: f64 = 0.05;

/// Returns all tables of factors of a study. If there are several, and all have the same columns, a table of the means
/// of their factors comes first.
pub fn tables(trials: &Trials<'_>) -> Vec<study::Factors> {
    let tables: Vec<_> = trials.file.factors.iter().map(|factors| table(factors, trials)).collect();
    overall(&tables).into_iter().chain(tables.iter().cloned()).collect()
}

/// The result for a row in a column.
type Side<'a> = Result<(Cell, CellTrials<'a>, f64), String>;

fn table(factors: &Factors, trials: &Trials<'_>) -> study::Factors {
    let mut rows: Vec<FactorRow> = labels(factors, trials)
        .into_iter()
        .map(|label| FactorRow { label, cells: Vec::new() })
        .collect();
    let mut best = Vec::new();
    for column in &factors.columns {
        let side = |row: &FactorRow| side(column.cell_of(&row.label), trials);
        let sides: Vec<Side<'_>> = rows.iter().map(side).collect();
        // A row that may lose acknowledged data cannot be the best one.
        let is_safe =
            |(_, found, _): &&(Cell, CellTrials<'_>, f64)| !found.flags.contains(&Flag::Unsafe);
        let candidates = sides.iter().filter_map(|side| side.as_ref().ok()).filter(is_safe);
        let best_side = candidates.min_by(|a, b| a.2.total_cmp(&b.2));
        best.push(best_side.map(|(_, _, mean)| *mean));
        for (row, side) in rows.iter_mut().zip(&sides) {
            row.cells.push(factor(side, best_side));
        }
    }
    let unit = factors.columns.first().map_or("", |column| column.cell_of("").unit.name);
    study::Factors {
        name: factors.name.clone(),
        caption: factors.caption.clone(),
        unit: unit.into(),
        columns: factors.columns.iter().map(|column| column.head.clone()).collect(),
        rows,
        best,
    }
}

/// Returns the rows of all columns, in their order.
fn labels(factors: &Factors, trials: &Trials<'_>) -> Vec<String> {
    let mut labels: Vec<String> = Vec::new();
    for column in &factors.columns {
        let Some(run) = trials.file.run(column.run()) else { continue };
        let rows = run.serves(trials.variant).and_then(|variant| run.rows(variant));
        for label in rows.unwrap_or_default() {
            if !labels.contains(&label) {
                labels.push(label);
            }
        }
    }
    labels
}

/// Returns a cell with its trials and the geometric mean of their values.
fn side<'a>(cell: Cell, trials: &Trials<'a>) -> Side<'a> {
    let found = trials.of_any_flags(&cell, false)?;
    let values = found.values(&cell)?;
    if values.iter().any(|value| *value <= 0.0) {
        return Err(format!("the {} of '{}' is 0", cell.figure.name(), cell.row));
    }
    let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    let mean = Summary::of(&logs).ok_or("its value is not finite")?.mean.exp();
    Ok((cell, found, mean))
}

/// Returns the factor of a row relative to the best one.
fn factor(side: &Side<'_>, best: Option<&(Cell, CellTrials<'_>, f64)>) -> Factor {
    let (cell, found, mean) = match (side, best) {
        (Err(reason), _) => return Factor { missing: Some(reason.clone()), ..Factor::default() },
        (Ok(side), _) => side,
    };
    let measured = Some(Number { value: *mean, n: found.runs.len(), interval: None });
    let flags = found.flags.iter().map(|flag| flag.name().to_string()).collect();
    let without_factor = Factor { measured, flags, ..Factor::default() };
    let Some((base, base_found, _)) = best else { return without_factor };
    if base.row == cell.row {
        let one = Number { value: 1.0, n: found.runs.len(), interval: None };
        return Factor { factor: Some(one), ..without_factor };
    }
    let pairing = Pairing::of(&base_found.runs, &found.runs);
    let value = |cell: &Cell, run: &fsdyno_report::Run<'_>| in_unit(cell, run.0).ok();
    let compared = pairing.compare_sides(|run| value(base, run), |run| value(cell, run));
    let Some(compared) = compared else {
        let missing = Some("the best row has no trial of the same seed".to_string());
        return Factor { missing, ..without_factor };
    };
    let error = match cell.figure.dimension() {
        Dimension::Time => processor_error(&base_found.runs, &found.runs, false),
        _ => 0.0,
    };
    let compared = compared.with_threshold(MIN_DIFFERENCE).with_systematic(error);
    let undecided = match compared.verdict {
        Verdict::Slower | Verdict::Faster => false,
        Verdict::Same | Verdict::WithinError => true,
        // A single seed has no interval, so only its distance from 1 counts.
        Verdict::Undecided => compared.n > 1 || compared.ratio < 1.0 + error.max(MIN_DIFFERENCE),
    };
    let number = Number { value: compared.ratio, n: compared.n, interval: compared.interval };
    Factor { factor: Some(number), undecided, ..without_factor }
}

/// Returns the geometric means of the factors of several tables with the same columns; `None` if there is only one
/// table, or if the columns differ.
fn overall(tables: &[study::Factors]) -> Option<study::Factors> {
    let (first, others) = tables.split_first()?;
    if others.is_empty() || others.iter().any(|table| table.columns != first.columns) {
        return None;
    }
    let mean = |label: &str, column: usize| {
        let factors = tables.iter().map(|table| {
            let row = table.rows.iter().find(|row| row.label == label)?;
            let cell = &row.cells[column];
            cell.factor.filter(|_| !cell.is_unsafe())
        });
        let Some(factors) = factors.collect::<Option<Vec<Number>>>() else {
            let missing = Some("not in all of the tables, or unsafe in one".to_string());
            return Factor { missing, ..Factor::default() };
        };
        let logs: f64 = factors.iter().map(|factor| factor.value.ln()).sum();
        let value = (logs / factors.len() as f64).exp();
        let n = factors.iter().map(|factor| factor.n).min().unwrap_or_default();
        Factor { factor: Some(Number { value, n, interval: None }), ..Factor::default() }
    };
    let row = |row: &FactorRow| FactorRow {
        label: row.label.clone(),
        cells: (0..first.columns.len()).map(|column| mean(&row.label, column)).collect(),
    };
    Some(study::Factors {
        name: "all".into(),
        caption: format!("geometric mean of the factors of the {} tables below", tables.len()),
        unit: String::new(),
        columns: first.columns.clone(),
        rows: first.rows.iter().map(row).collect(),
        best: vec![None; first.columns.len()],
    })
}
