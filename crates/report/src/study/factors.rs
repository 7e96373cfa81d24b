//! Tables of factors of a study: a figure of each row over that of the best row of its column.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::Number;
use super::lines::digits;
use crate::number::{format_ratio, sanitize, seconds};
use crate::table::{Fit, Table};
use crate::validity::Flag;

/// A table of factors.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Factors {
    /// Its short name.
    pub name: String,
    /// Its contents.
    pub caption: String,
    /// The unit of the measured numbers, or empty if there are none.
    pub unit: String,
    /// The heads of its columns.
    pub columns: Vec<String>,
    /// Its rows.
    pub rows: Vec<FactorRow>,
    /// The figure of the best row of each column (geometric mean of its trials), in the unit, or null without trials,
    /// and for means of other tables.
    pub best: Vec<Option<f64>>,
}

/// A row.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FactorRow {
    /// Its label.
    pub label: String,
    /// One cell for each column.
    pub cells: Vec<Factor>,
}

/// A cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Factor {
    /// The figure over that of the best row, paired by seed; 1 for the best row itself.
    pub factor: Option<Number>,
    /// The measured figure, the geometric mean of its trials.
    pub measured: Option<Number>,
    /// True if no difference from the best row is shown: the interval has 1 in it, or the factor lies within the
    /// processor model's error or within 5 %.
    pub undecided: bool,
    /// Flags of its trials.
    pub flags: Vec<String>,
    /// The reason why there is no factor.
    pub missing: Option<String>,
}

impl Factor {
    /// Returns true if its trials may lose acknowledged data. Such a cell is never the best and is not part of a mean.
    pub fn is_unsafe(&self) -> bool {
        self.flags.iter().any(|flag| flag == Flag::Unsafe.name())
    }

    /// The factor as text: `1.53x`, `~ 1.05x`, `1.00`, `UNSAFE 0.06x`, or `-`.
    pub fn text(&self) -> String {
        match self.factor {
            None => "-".into(),
            Some(factor) if self.is_unsafe() => {
                format!("{} {}", Flag::Unsafe, format_ratio(factor.value))
            }
            Some(factor) if factor.value == 1.0 => format_ratio(1.0),
            Some(factor) if self.undecided => format!("~ {}", format_ratio(factor.value)),
            Some(factor) => format_ratio(factor.value),
        }
    }
}

impl Factors {
    /// The table as text, with its notes.
    pub fn table(&self) -> Table {
        let heads =
            std::iter::once(String::new()).chain(self.columns.iter().map(|head| sanitize(head)));
        let row = |row: &FactorRow| {
            std::iter::once(sanitize(&row.label))
                .chain(row.cells.iter().map(Factor::text))
                .collect()
        };
        let mut rows: Vec<Vec<String>> = self.rows.iter().map(row).collect();
        if self.best.iter().any(Option::is_some) {
            let best =
                self.best.iter().map(|best| best.map_or("-".into(), |best| self.format(best)));
            rows.push(std::iter::once("1.00 is".to_string()).chain(best).collect());
        }
        let fit = Fit::Blocks { labels: 1, indent: 2 };
        Table {
            title: self.title(),
            fit,
            details: self.notes(),
            ..Table::grid(heads.collect(), 1, rows)
        }
    }

    /// The title: `maildir: 300 deliveries`.
    pub fn title(&self) -> String {
        sanitize(&format!("{}: {}", self.name, self.caption))
    }

    fn format(&self, value: f64) -> String {
        match self.unit.as_str() {
            "s" => seconds(value),
            "count" => digits(value),
            unit => format!("{} {unit}", digits(value)),
        }
    }

    /// The notes below the table: the number of seeds, flags, and why cells are missing.
    pub fn notes(&self) -> Vec<String> {
        let cells =
            || self.rows.iter().flat_map(|row| row.cells.iter().map(move |cell| (row, cell)));
        let n = || cells().filter_map(|(_, cell)| Some(cell.factor?.n));
        let mut notes = Vec::new();
        match (n().min(), n().max()) {
            (Some(1), Some(1)) => notes.push("One seed: the spread is unknown.".to_string()),
            (Some(min), Some(max)) if min == max => notes.push(format!("{min} seeds.")),
            (Some(min), Some(max)) => notes.push(format!("{min} to {max} seeds.")),
            _ => {}
        }
        if cells().any(|(_, cell)| cell.undecided) {
            notes.push(
                "~: no difference from the best is shown: it lies within 5 %, within the error of the processor model, \
                 or within the spread."
                    .into(),
            );
        }
        let (mut flags, mut missing): (Places, Places) = Default::default();
        for row in &self.rows {
            for (cell, column) in row.cells.iter().zip(&self.columns) {
                match &cell.missing {
                    Some(why) => push_place(&mut missing, why, &row.label, column),
                    None => cell
                        .flags
                        .iter()
                        .for_each(|flag| push_place(&mut flags, flag, &row.label, column)),
                }
            }
        }
        let all = self.columns.len();
        notes.extend(flags.iter().map(|(flag, rows)| format!("{flag}: {}", places(rows, all))));
        notes.extend(missing.iter().map(|(why, rows)| format!("- {}: {why}", places(rows, all))));
        notes.iter().map(|note| sanitize(note)).collect()
    }
}

/// Columns by row, grouped by what they have in common.
type Places = BTreeMap<String, BTreeMap<String, Vec<String>>>;

fn push_place(places: &mut Places, what: &str, row: &str, column: &str) {
    let rows = places.entry(what.to_string()).or_default();
    rows.entry(row.to_string()).or_default().push(column.to_string());
}

/// The rows and columns as text: `ext4 (server-2026, pi-2024); xfs`. A row with all columns is named by its label
/// alone.
fn places(rows: &BTreeMap<String, Vec<String>>, all: usize) -> String {
    let place = |(row, columns): (&String, &Vec<String>)| match columns.len() {
        n if n == all => row.clone(),
        _ => format!("{row} ({})", columns.join(", ")),
    };
    rows.iter().map(place).collect::<Vec<_>>().join("; ")
}
