//! The parts that every printed form of a study's results shares: its sentences, and its tables as text.

use super::{Claim, Judged, Number, Table, Variant, Verdict};
use crate::number::{counted, format_ratio, format_significant, percent, sanitize};

/// The mark of a published number that is in doubt.
pub const DOUBT: &str = "?";

/// The numbers of verdicts, a line for each variant: `as then: 12 claims: 7 still hold, 2 no longer hold, 3 not
/// testable here`.
pub fn counts(judged: &Judged) -> Vec<String> {
    judged.variants.iter().map(|variant| format!("{}: {}", name(variant), count(variant))).collect()
}

/// The numbers of verdicts of a variant: `12 claims: 7 still hold, 5 undecided (3 judged by one seed)`.
pub fn count(variant: &Variant) -> String {
    let all = variant.claims.len();
    let parts: Vec<String> = Verdict::ALL
        .into_iter()
        .map(|verdict| (verdict, variant.claims.iter().filter(|c| c.verdict == verdict).count()))
        .filter(|(_, n)| *n > 0)
        .map(|(verdict, n)| format!("{n} {}", verdict.words(n)))
        .collect();
    let single = variant.claims.iter().filter(|claim| claim.one_seed && claim.is_judged()).count();
    let single = match single {
        0 => String::new(),
        n => format!(" ({n} judged by one seed)"),
    };
    match all {
        // The table of the means of the other tables is not counted.
        0 if !variant.factors.is_empty() => {
            let tables =
                variant.factors.iter().filter(|table| table.best.iter().any(Option::is_some));
            format!("{} of factors, no claims", counted(tables.count(), "table"))
        }
        0 => "no claims".into(),
        1 => format!("1 claim: {}{single}", parts.join(", ")),
        _ => format!("{all} claims: {}{single}", parts.join(", ")),
    }
}

impl Variant {
    /// The claims whose study runs have trials.
    pub fn run_claims(&self) -> Vec<&Claim> {
        self.claims.iter().filter(|claim| claim.verdict != Verdict::NotRun).collect()
    }

    /// The published tables with at least one measured number.
    pub fn measured_tables(&self) -> Vec<&Table> {
        self.tables.iter().filter(|table| table.is_measured()).collect()
    }

    /// The subject of verdicts at a reduced scale, in a sentence, or `None` at full scale.
    pub fn scale_note(&self) -> Option<String> {
        let judged = self.claims.iter().any(|claim| !claim.is_full());
        judged.then(|| {
            format!(
                "At scale 1/{} a claim is judged by the bound of the full study: its verdict is that of the smaller \
                 experiment, and may be different at full scale.",
                self.scale
            )
        })
    }

    /// The number of claims and tables that are not shown: `33 claims without trials, and 6 tables without a measured
    /// number`, or `None` if all are shown.
    pub fn not_shown(&self) -> Option<String> {
        let claims = self.claims.len() - self.run_claims().len();
        let tables = self.tables.len() - self.measured_tables().len();
        let parts =
            [(claims, "claim", "without trials"), (tables, "table", "without a measured number")];
        let parts = parts.into_iter().filter(|(n, ..)| *n > 0);
        let parts: Vec<String> =
            parts.map(|(n, what, which)| format!("{} {which}", counted(n, what))).collect();
        let all = "fsdyno show study NAME lists all";
        (!parts.is_empty()).then(|| format!("Not shown: {} ({all}).", parts.join(", and ")))
    }
}

impl Table {
    fn is_measured(&self) -> bool {
        self.rows.iter().flat_map(|row| &row.cells).any(|cell| cell.measured.is_some())
    }
}

/// The publication: `Published: Author, 2008`; `None` for a study without a source.
pub fn published(judged: &Judged) -> Option<String> {
    match judged.source.as_str() {
        "" => None,
        "unpublished" => Some("Not published.".to_string()),
        source => Some(format!("Published: {source}")),
    }
}

/// The variant's name, with its scale if that is not full.
fn name(variant: &Variant) -> String {
    let scale =
        if variant.scale == 1 { String::new() } else { format!(", scale 1/{}", variant.scale) };
    sanitize(&format!("{}{scale}", variant.name))
}

/// The heading of a variant: `as then, scale 1/10: kernel 6.1.0-44-amd64`. That of a point of a timeline is only its
/// name, which contains the kernel.
pub fn subject(variant: &Variant) -> String {
    if variant.kernel.is_some()
        && variant.kernels.iter().all(|kernel| Some(kernel) == variant.kernel.as_ref())
    {
        return name(variant);
    }
    let kernels = match variant.kernels.as_slice() {
        [] => "no kernel: all of it ran in a model".to_string(),
        [one] => format!("kernel {one}"),
        several => format!("kernels {}", several.join(", ")),
    };
    sanitize(&format!("{}: {kernels}", name(variant)))
}

/// A number of four significant digits, whole from a thousand on; very small or large ones as `3.48e-5`.
pub fn digits(value: f64) -> String {
    format_significant(value, 4)
}

/// The measured and published numbers, as name and value.
pub fn claim_facts(claim: &Claim) -> Vec<(&'static str, String)> {
    let unit = |text: String| {
        let unit = &claim.unit;
        if unit.is_empty() { text } else { sanitize(&format!("{text} {unit}")) }
    };
    let measured = claim.measured;
    let interval = measured.and_then(|number| number.interval);
    let facts = [
        ("measured", measured.map(|number| unit(digits(number.value)))),
        (
            "95 % interval",
            interval.map(|(low, high)| format!("{} to {}", digits(low), digits(high))),
        ),
        ("n", measured.map(|number| number.n.to_string())),
        ("published", claim.published.map(|value| unit(digits(value)))),
    ];
    facts.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// The notes of a claim, and its verdict at full scale if this one is at a different scale.
pub fn claim_notes(claim: &Claim) -> Vec<String> {
    let mut notes: Vec<String> = claim.notes.iter().map(|note| sanitize(note)).collect();
    if let Some(full) = claim.full_scale.as_ref().filter(|_| !claim.is_full()) {
        let seed = if full.one_seed { ", one seed" } else { "" };
        let number = full.measured.map_or_else(String::new, |number| {
            let interval = number.interval;
            let interval =
                interval.map(|(low, high)| format!(" ({} to {})", digits(low), digits(high)));
            format!(", {}{}", digits(number.value), interval.unwrap_or_default())
        });
        notes.push(sanitize(&format!(
            "At full scale (results/{}, kernel {}): {}{seed}{number}.",
            full.result,
            full.kernels.join(", "),
            full.verdict.word()
        )));
    }
    notes
}

/// A table as text: for each row a line of published numbers, a line of measured ones, and a line of ratios if any is
/// known; the row's label is in the first line.
pub struct Grid {
    /// The heads; those of the label and of the kind of line come first.
    pub heads: Vec<String>,
    /// The lines of each row.
    pub rows: Vec<Vec<Vec<String>>>,
}

/// The grid of a table.
pub fn grids(table: &Table) -> Grid {
    let mut heads = vec![String::new(), String::new()];
    heads.extend(table.columns.iter().map(head));
    let ratios = table.rows.iter().flat_map(|row| &row.cells).any(|cell| cell.ratio.is_some());
    let rows = table.rows.iter().map(|row| {
        let line = |label: &str, kind: &str, text: &dyn Fn(&super::Cell) -> String| {
            let mut cells = vec![sanitize(label), kind.to_string()];
            cells.extend(row.cells.iter().map(text));
            cells
        };
        let mut lines = vec![
            line(&row.label, "published", &|cell| {
                let text = sanitize(cell.published.as_deref().unwrap_or("-"));
                if cell.doubts.is_empty() { text } else { format!("{text} {DOUBT}") }
            }),
            line("", "measured", &|cell| {
                cell.measured.as_ref().map_or("-".into(), format_measured)
            }),
        ];
        if ratios {
            lines.push(line("", "ratio", &|cell| cell.ratio.map_or("-".into(), format_ratio)));
        }
        lines
    });
    Grid { heads, rows: rows.collect() }
}

/// The head of a column: `extract s`.
pub fn head(column: &super::Column) -> String {
    match column.unit.as_str() {
        "count" => sanitize(&column.name),
        unit => sanitize(&format!("{} {unit}", column.name)),
    }
}

/// A number with its interval: `402.1 ±0.4 %`.
pub fn format_measured(number: &Number) -> String {
    let value = digits(number.value);
    let half = number.interval.map(|(low, high)| (high - low) / 2.0);
    match half.filter(|_| number.value != 0.0) {
        Some(half) => format!("{value} ±{}", percent(half / number.value.abs())),
        None => value,
    }
}

/// The notes below a table: the number of seeds, the published numbers that are in doubt and why, and missing
/// measurements and why.
pub fn notes_of_table(table: &Table, variant: &Variant) -> Vec<String> {
    let cells = || table.rows.iter().flat_map(|row| &row.cells);
    let mut notes = Vec::new();
    let n: Vec<usize> = cells().filter_map(|cell| Some(cell.measured.as_ref()?.n)).collect();
    match (n.iter().min(), n.iter().max()) {
        (Some(1), Some(1)) => notes.push("One seed: the spread is unknown.".to_string()),
        (Some(min), Some(max)) if min == max => {
            notes.push(format!("Means of {min} seeds ± 95 % interval of the mean."));
        }
        (Some(min), Some(max)) => {
            notes.push(format!("Means of {min} to {max} seeds ± 95 % interval of the mean."));
        }
        _ => {}
    }
    if cells().any(|cell| cell.published.as_ref().is_some_and(|text| text.contains('±'))) {
        notes.push(
            "A published ± is the spread of runs on one machine, a measured ± that between seeds: the two are not \
             compared."
                .into(),
        );
    }
    if variant.scale != 1 && !n.is_empty() {
        notes.push(format!(
            "Measured at scale 1/{}: times, counts and space are of less work, so their ratios \
             are not shown.",
            variant.scale
        ));
    }
    let mut doubts: Vec<(String, Vec<String>)> = Vec::new();
    let mut missing: Vec<(String, Vec<String>)> = Vec::new();
    for row in &table.rows {
        for (cell, column) in row.cells.iter().zip(&table.columns) {
            let place = format!("{}, {}", row.label, column.name);
            cell.doubts.iter().for_each(|reason| push_place(&mut doubts, reason, place.clone()));
            if let Some(reason) = &cell.missing {
                push_place(&mut missing, reason, place);
            }
        }
    }
    let total = cells().count();
    for (reason, places) in doubts {
        notes.push(sanitize(&format!("{DOUBT} {}: {reason}", places.join("; "))));
    }
    for (reason, places) in missing {
        // The reason for a whole row or table is given once.
        let cells = match places.len() {
            n if n == total => "nothing".to_string(),
            _ => whole_rows(table, &places),
        };
        notes.push(sanitize(&format!("- {cells}: {reason}")));
    }
    notes
}

/// The cells; a row whose cells are all listed is named by its label alone.
fn whole_rows(table: &Table, places: &[String]) -> String {
    let mut named: Vec<String> = Vec::new();
    for row in &table.rows {
        let cell_name = |column: &super::Column| format!("{}, {}", row.label, column.name);
        let row_cells: Vec<String> =
            table.columns.iter().map(cell_name).filter(|place| places.contains(place)).collect();
        if row_cells.len() == table.columns.len() {
            named.push(row.label.clone());
        } else {
            named.extend(row_cells);
        }
    }
    named.join("; ")
}

fn push_place(list: &mut Vec<(String, Vec<String>)>, reason: &str, place: String) {
    match list.iter_mut().find(|(known, _)| known == reason) {
        Some((_, places)) => places.push(place),
        None => list.push((reason.to_string(), vec![place])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_four_digits_and_no_trailing_zeros() {
        let shown = [0.0, 0.01234, 1.5, 15.704, 171.15, 1999.8, 725_000.0].map(digits);
        assert_eq!(shown, ["0", "0.01234", "1.5", "15.7", "171.2", "2000", "725000"]);
    }

    #[test]
    fn small_numbers_are_not_zero_and_large_ones_have_no_trailing_zeros() {
        let small = [3.48e-5, 0.00012344, 0.000099996, 0.0001, 1e-300, -2.5e-7, 1e-9].map(digits);
        let shown = ["3.48e-5", "0.0001234", "1e-4", "0.0001", "1e-300", "-2.5e-7", "1e-9"];
        assert_eq!(small, shown);
        let edges = [0.99994, 0.99996, 9.9994, 9.9996, 999.94, 999.96, 1234.5].map(digits);
        assert_eq!(edges, ["0.9999", "1", "9.999", "10", "999.9", "1000", "1234"]);
        assert_eq!([1e300, 123_456_789_012.0].map(digits), ["1e300", "123456789012"]);
    }
}
