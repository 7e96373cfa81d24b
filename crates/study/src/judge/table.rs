//! Compares a published table with the measured one, cell by cell.

use std::collections::BTreeMap;

use fsdyno_report::study::{self, Number};
use fsdyno_stats::Summary;
use fsdyno_stats::consistency::{self, Divisor, Range, Sample, parse_rounded};

use super::figure;
use super::trials::Trials;
use crate::file::{Cell, Column, Published, Value};

/// Returns the table with the measured values.
pub fn table(published: &Published, trials: &Trials<'_>) -> study::Table {
    let doubts = doubts(published);
    let columns = published
        .columns
        .iter()
        .map(|column| study::Column { name: column.name.clone(), unit: column.unit.name.into() });
    let rows = published.rows.iter().enumerate().map(|(row_index, row)| {
        let cells =
            published.columns.iter().zip(&row.cells).enumerate().map(|(index, (column, value))| {
                let doubts = doubts.get(&(row_index, index)).cloned().unwrap_or_default();
                cell(column, &row.label, value.as_ref(), doubts, trials)
            });
        study::Row { label: row.label.clone(), cells: cells.collect() }
    });
    let source = match published.source.as_str() {
        "" => trials.file.source.clone(),
        single => single.to_string(),
    };
    study::Table {
        name: published.name.clone(),
        caption: published.caption.clone(),
        source,
        columns: columns.collect(),
        rows: rows.collect(),
    }
}

fn cell(
    column: &Column,
    label: &str,
    value: Option<&Value>,
    doubts: Vec<String>,
    trials: &Trials<'_>,
) -> study::Cell {
    let cell = column.measured.as_ref().map(|column| column.cell_of(label));
    let measured =
        cell.as_ref().map_err(|reason| (*reason).clone()).and_then(|cell| number(cell, trials));
    let comparable = trials.scale == 1 || cell.is_ok_and(|cell| figure::is_size_independent(&cell));
    let ratio = measured.as_ref().ok().zip(value).filter(|_| comparable).and_then(|(m, v)| {
        let ratio = m.value / v.value;
        (v.value > 0.0 && m.value > 0.0).then_some(ratio)
    });
    study::Cell {
        published: value.map(Value::printed),
        doubts,
        missing: measured.as_ref().err().cloned(),
        measured: measured.ok(),
        ratio,
    }
}

/// Returns the mean over the trials of a cell.
fn number(cell: &Cell, trials: &Trials<'_>) -> Result<Number, String> {
    let values = trials.of(cell, false)?.values(cell)?;
    let summary = Summary::of(&values).ok_or("its value is not finite")?;
    Ok(Number { value: summary.mean, n: summary.n, interval: summary.interval() })
}

/// Returns the doubts about published cells, by row and column: those of the file, and contradictions within the
/// table.
pub fn doubts(published: &Published) -> BTreeMap<(usize, usize), Vec<String>> {
    let mut doubts: BTreeMap<(usize, usize), Vec<String>> = BTreeMap::new();
    let row_of = |label: &str| published.rows.iter().position(|row| row.label == label);
    let column_of = |name: &str| published.columns.iter().position(|column| column.name == name);
    for doubt in &published.doubts {
        if let Some(position) = row_of(&doubt.row).zip(column_of(&doubt.column)) {
            doubts.entry(position).or_default().push(doubt.why.clone());
        }
    }
    for (rate_column, column) in published.columns.iter().enumerate() {
        let (Some(of), Some(per)) = (column.of, &column.per) else { continue };
        let Some(time_column) = column_of(per) else { continue };
        for (row, what, problem) in contradictions(published, time_column, rate_column, of) {
            // If time and rate contradict each other, the table does not show which is wrong, so both are doubted.
            let (time, rate) = (&published.columns[time_column].name, &column.name);
            let (doubted_columns, reason) = match what {
                Subject::Time => (vec![time_column], problem),
                Subject::Rate => (vec![rate_column], problem),
                Subject::Both => (
                    vec![time_column, rate_column],
                    format!("'{time}' and '{rate}' contradict each other: {problem}"),
                ),
            };
            for index in doubted_columns {
                let reasons = doubts.entry((row, index)).or_default();
                if !reasons.contains(&reason) {
                    reasons.push(reason.clone());
                }
            }
        }
    }
    doubts
}

/// The subject of a contradiction.
enum Subject {
    Time,
    Rate,
    Both,
}

/// Returns the contradictions between a column of rates and the column of its times, each with its row.
fn contradictions(
    published: &Published,
    time_column: usize,
    rate_column: usize,
    amount: f64,
) -> Vec<(usize, Subject, String)> {
    let columns = &published.columns;
    let cells = published.rows.iter().enumerate().filter_map(|(row_index, row)| {
        let time = sample(row.cells[time_column].as_ref()?, published)?;
        let rate = sample(row.cells[rate_column].as_ref()?, published)?;
        // Rates are per second, but times may have a different unit.
        let time = scaled(time, columns[time_column].unit.factor);
        Some(consistency::Cell { name: row_index.to_string(), time, rate })
    });
    let cells: Vec<consistency::Cell> = cells.collect();
    let found = consistency::check_cells(&cells, Some(Range::exactly(amount)));
    let locate = |contradiction: consistency::Contradiction| {
        let (row, part) = match contradiction.name.split_once(", ") {
            Some((row, part)) => (row.to_string(), part.to_string()),
            None => (contradiction.name.clone(), String::new()),
        };
        let subject = match part.as_str() {
            "time" => Subject::Time,
            "rate" => Subject::Rate,
            _ => Subject::Both,
        };
        Some((row.parse().ok()?, subject, contradiction.message))
    };
    found.into_iter().filter_map(locate).collect()
}

/// Returns a printed cell as a sample of runs; `None` if a deviation is printed without the number of runs.
fn sample(value: &Value, published: &Published) -> Option<Sample> {
    let mean = parse_rounded(&value.text)?;
    let sd = value.deviation_text.as_deref().and_then(parse_rounded);
    match (sd, published.runs) {
        (None, None) => Some(Sample::single(mean)),
        (Some(_), None) => None,
        (sd, Some(runs)) => Some(Sample {
            mean,
            sd,
            divisor: Divisor::Runs,
            runs,
            unit: published.step,
            extremes: None,
        }),
    }
}

fn scaled(sample: Sample, unit: f64) -> Sample {
    Sample {
        mean: sample.mean.scaled(unit),
        sd: sample.sd.map(|sd| sd.scaled(unit)),
        unit: sample.unit.map(|step| step * unit),
        ..sample
    }
}
