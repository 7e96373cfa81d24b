//! Every statistic of every row, without rounding, as JSON and CSV for other programs.
//!
//! `--format json` prints the records; the statistics are computed from them (docs/statistics.md).

mod json;

use fsdyno_stats::compare::Comparison;
use fsdyno_stats::describe;
use fsdyno_stats::growth::Growth;

use crate::baseline::Basis;
use crate::curve::{self, Curve};
use crate::described::Described;
use crate::error::ReportError;
use crate::exports::{pretty, verdict};
use crate::model::{Row, Section};
use crate::number::sanitize;
use crate::part::Part;
use crate::table::{self, Column};
use crate::view;
use crate::{answer, baseline, repeats};

pub use json::Statistics;

/// One object, pretty-printed: docs/schema/statistics.schema.json. Values are in the unit that their row names; a ratio
/// is that of the row over its base, a row of the same part.
///
/// # Errors
/// Only [`ReportError::Json`].
pub fn json<'b>(parts: &[Part<'_>], basis: impl Into<Basis<'b>>) -> Result<String, ReportError> {
    Ok(pretty(&Statistics::of(parts, basis.into()))?)
}

/// The statistics of a part.
struct PartStatistics<'a> {
    /// The sections of phases, then those of points of curves.
    sections: Vec<Section<'a>>,
    /// Number of sections that are not points.
    phases: usize,
    curves: Vec<Curve<'a>>,
}

impl<'a> PartStatistics<'a> {
    fn of(part: &Part<'a>, basis: Basis<'_>) -> PartStatistics<'a> {
        let mut sections = view::sections(part.trials, basis);
        let phases = sections.len();
        let points = curve::points(part.trials, basis);
        if !points.is_empty() {
            sections.extend(points);
            // All comparisons of a part are one family.
            baseline::adjust_all(&mut sections);
        }
        PartStatistics { sections, phases, curves: curve::curves(part.trials) }
    }

    fn answer(&self, basis: Basis<'_>) -> Vec<String> {
        let sections = &self.sections[..self.phases];
        let mut answer = match sections.is_empty() {
            true => Vec::new(),
            false => answer::sentences(sections, basis.baseline),
        };
        answer.extend(self.curves.iter().filter_map(curve::answer));
        answer
    }

    /// The exponents of the curves' lines that have one.
    fn exponents(&self) -> impl Iterator<Item = Exponent<'_>> {
        let lines = self.curves.iter().flat_map(|curve| &curve.lines);
        lines.filter_map(|line| {
            let point = line.rows.iter().flatten().next()?;
            let (workload, row, growth) = (&point.curve_workload, &point.row, line.growth?);
            let (_, phase) = row.trials.first()?;
            let points = line.rows.iter().flatten().count();
            let (phase, label) = (sanitize(&phase.name), sanitize(row.label()));
            Some(Exponent { workload, phase, name: &line.name, label, points, growth })
        })
    }
}

/// The growth of a row's time with the number of files.
struct Exponent<'a> {
    workload: &'a str,
    phase: String,
    name: &'a str,
    label: String,
    points: usize,
    growth: Growth,
}

/// A row of a table, a point of a curve, or an exponent.
enum Line<'s, 'a> {
    Row(&'s Row<'a>, &'s Section<'a>, Described),
    Exponent(Exponent<'s>),
}

/// A line for each row of the tables and each point of a curve, then one for each exponent; unknown values are empty.
pub fn csv<'b>(parts: &[Part<'_>], basis: impl Into<Basis<'b>>) -> String {
    let basis = basis.into();
    let statistics: Vec<_> =
        parts.iter().map(|part| (part, PartStatistics::of(part, basis))).collect();
    let lines = statistics.iter().flat_map(|(part, statistics)| {
        let line = |section| move |row| Line::Row(row, section, Described::of(row, section));
        let sections = statistics.sections.iter();
        let rows = sections.flat_map(move |section| section.rows.iter().map(line(section)));
        rows.chain(statistics.exponents().map(Line::Exponent)).map(move |line| (*part, line))
    });
    table::csv(|out| out.table(&columns(), lines))
}

/// A line with its part.
type PartLine<'p, 's, 'a> = (&'p Part<'p>, Line<'s, 'a>);

/// The columns. Other programs refer to them by name and position: append new ones.
#[rustfmt::skip]
fn columns<'p, 's: 'p, 'a: 's>() -> Vec<Column<'static, PartLine<'p, 's, 'a>>> {
    let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    let count = |value: Option<usize>| value.map(|value| value.to_string()).unwrap_or_default();
    let yes_no =
        |value: Option<bool>| value.map_or("", |yes| if yes { "yes" } else { "no" }).to_string();
    vec![
        common_column("workload", |_, section| section.workload.clone(), |exponent| exponent.workload.into()),
        common_column("phase", |_, section| section.phase.clone(), |exponent| exponent.phase.clone()),
        common_column("row", |row, _| row.name.clone(), |exponent| exponent.name.into()),
        described_column("measure", |described| described.measure.name().into(), "exponent"),
        row_column("unit", |_, section| section.measure.unit().into()),
        common_column("n", |row, _| row.measured.n.to_string(), |exponent| exponent.growth.n.to_string()),
        common_column("mean", |row, _| row.measured.mean.to_string(), |exponent| exponent.growth.exponent.to_string()),
        common_column("low",
            move |row, _| number(row.measured.interval().map(|i| i.0)),
            move |exponent| number(exponent.growth.interval.map(|i| i.0))),
        common_column("high",
            move |row, _| number(row.measured.interval().map(|i| i.1)),
            move |exponent| number(exponent.growth.interval.map(|i| i.1))),
        described_column("sd_sample", move |described| number(describe::sample_sd(&described.numbers())), ""),
        described_column("sd_population", move |described| number(describe::population_sd(&described.numbers())), ""),
        described_column("cv", move |described| number(describe::coefficient_of_variation(&described.numbers())), ""),
        described_column("median", move |described| number(describe::median(&described.numbers())), ""),
        described_column("drift_p", move |described| number(described.drift.map(|d| d.p)), ""),
        described_column("warmup_p", move |described| number(described.warmup.and_then(|w| w.p)), ""),
        described_column("outliers", |described| described.outliers.len().to_string(), ""),
        row_column("repeats_wanted", |row, _| {
            repeats::required_total(row).map(|t| t.wanted.to_string()).unwrap_or_default()
        }),
        row_column("repeats_at_most", |row, _| {
            repeats::rule(row).map(|rule| rule.at_most.to_string()).unwrap_or_default()
        }),
        row_column("repeats_reached", move |row, _| yes_no(repeats::required_total(row).map(|t| t.reached))),
        row_column("versus", |_, section| section.versus.clone()),
        row_column("ratio", move |row, _| number(row.ratio.map(|ratio| ratio.value))),
        comparison_column("ratio_low", move |c| number(c.interval.map(|i| i.0))),
        comparison_column("ratio_high", move |c| number(c.interval.map(|i| i.1))),
        comparison_column("pairs_or_values", |c| c.n.to_string()),
        row_column("left_out", move |row, _| count(row.matching.map(|matching| matching.excluded()))),
        comparison_column("p", move |c| number(c.p)),
        comparison_column("p_in_table", move |c| number(c.p_in_table)),
        comparison_column("relabelled_p", move |c| number(c.relabelled.map(|r| r.p))),
        comparison_column("exact", move |c| yes_no(Some(c.exact))),
        comparison_column("verdict", |c| verdict(c.verdict).into()),
        row_column("flags", |row, _| row.flags.iter().map(|flag| flag.name()).collect::<Vec<_>>().join(", ")),
        row_column("unsafe", |row, _| row.risks.join("; ")),
        Column::words("run", |(part, _): &PartLine<'_, '_, '_>| part.run.into()),
        Column::words("as", |(part, _): &PartLine<'_, '_, '_>| part.variant.into()),
        Column::words("kernel", |(part, _): &PartLine<'_, '_, '_>| part.kernel.unwrap_or_default().into()),
    ]
}

type LineColumn<'p, 's, 'a> = Column<'static, PartLine<'p, 's, 'a>>;

/// A column that both rows and exponents fill.
fn common_column<'p, 's: 'p, 'a: 's>(
    head: &str,
    row: impl Fn(&Row<'_>, &Section<'_>) -> String + 'static,
    exponent: impl Fn(&Exponent<'_>) -> String + 'static,
) -> LineColumn<'p, 's, 'a> {
    Column::number(head, move |(_, line): &PartLine<'_, '_, '_>| match line {
        Line::Row(line, section, _) => row(line, section),
        Line::Exponent(line) => exponent(line),
    })
}

/// A column that only rows fill.
fn row_column<'p, 's: 'p, 'a: 's>(
    head: &str,
    cell: impl Fn(&Row<'_>, &Section<'_>) -> String + 'static,
) -> LineColumn<'p, 's, 'a> {
    common_column(head, cell, |_| String::new())
}

/// A column of the rows' comparisons.
fn comparison_column<'p, 's: 'p, 'a: 's>(
    head: &str,
    cell: impl Fn(&Comparison) -> String + 'static,
) -> LineColumn<'p, 's, 'a> {
    row_column(head, move |row, _| row.comparison.as_ref().map(&cell).unwrap_or_default())
}

/// A column of the rows' descriptions, with a fixed text for exponents.
fn described_column<'p, 's: 'p, 'a: 's>(
    head: &str,
    cell: impl Fn(&Described) -> String + 'static,
    exponent: &'static str,
) -> LineColumn<'p, 's, 'a> {
    Column::number(head, move |(_, line): &PartLine<'_, '_, '_>| match line {
        Line::Row(.., described) => cell(described),
        Line::Exponent(_) => exponent.into(),
    })
}

#[cfg(test)]
mod tests {
    use fsdyno_record::Trial;
    use serde_json::{Value, json};

    use super::*;
    use crate::fixture;

    fn json(trials: &[Trial], baseline: Option<&str>) -> String {
        super::json(&[Part::whole(trials)], baseline).unwrap()
    }

    fn csv(trials: &[Trial], baseline: Option<&str>) -> String {
        super::csv(&[Part::whole(trials)], baseline)
    }

    #[test]
    fn every_row_has_both_deviations_the_median_and_its_comparison() {
        let trials = fixture::trials();
        let all: Value = serde_json::from_str(&json(&trials, Some("ext4"))).unwrap();
        assert_eq!(all["rows"].as_array().unwrap().len(), 12);
        let (base, xfs) = (&all["rows"][0], &all["rows"][1]);
        assert!(base["comparison"].is_null() && base["ratio"] == 1.0);
        assert_eq!(xfs["comparison"]["method"], "paired");
        let (sample, population) = (&xfs["sd_sample"], &xfs["sd_population"]);
        let ratio = population.as_f64().unwrap() / sample.as_f64().unwrap();
        assert!((ratio - (2.0f64 / 3.0).sqrt()).abs() < 1e-9, "{sample} {population}");
        assert_eq!(xfs["values"].as_array().unwrap().len(), 3);
        let table = csv(&trials, Some("ext4"));
        let commas = |line: &str| line.matches(',').count();
        assert!(table.lines().all(|line| commas(line) == 34), "{table}");
    }

    #[test]
    fn capacities_are_in_bytes_and_unpaired_trials_are_counted() {
        let mut trials = fixture::filled();
        trials.retain(|trial| trial.plan.label != "xfs" || trial.seed > 1);
        let all: Value = serde_json::from_str(&json(&trials, Some("ext4"))).unwrap();
        // Rows are in the order of their first trials.
        let (base, xfs) = (&all["rows"][0], &all["rows"][2]);
        assert_eq!((&base["measure"], &base["unit"]), (&json!("room"), &json!("bytes")));
        let value = base["values"][0]["bytes"].as_f64().unwrap();
        assert!((value - f64::from(1 << 30) / 1005.0).abs() < 1e-6, "{base}");
        let n = (&xfs["comparison"]["n"], &xfs["comparison"]["left_out"]);
        assert_eq!(n, (&json!(2), &json!(1)));
        assert!(csv(&trials, Some("ext4")).lines().nth(1).unwrap().contains(",room,bytes,3,"));
    }

    #[test]
    fn host_trials_have_a_drift_and_a_relabelling_test_and_no_trials_give_no_rows() {
        let trials = fixture::on_a_host();
        let all: Value = serde_json::from_str(&json(&trials, None)).unwrap();
        let row = all["rows"].as_array().unwrap().iter().find(|row| !row["comparison"].is_null());
        let row = row.unwrap();
        assert_eq!(row["comparison"]["relabelled"]["counted"], true);
        assert!(row["drift"]["p"].is_number());
        assert_eq!(json(&[], None).matches("\"rows\": []").count(), 1);
    }

    #[test]
    fn runs_and_variants_of_a_study_are_never_compared_with_each_other() {
        let (historical, mut today) = (fixture::trials(), fixture::trials());
        // One label in each, so that there is nothing to compare within a part.
        let mut historical: Vec<Trial> =
            historical.into_iter().filter(|t| t.plan.label == "ext4").collect();
        today.retain(|trial| trial.plan.label == "xfs");
        historical.retain(|trial| trial.plan.workload.name == "dirops");
        today.retain(|trial| trial.plan.workload.name == "dirops");
        let part = |run, variant, trials| Part { run, variant, kernel: None, trials };
        let parts = [part("names", "then", &historical[..]), part("names", "today", &today)];
        let all: Value = serde_json::from_str(&super::json(&parts, None).unwrap()).unwrap();
        let rows = all["rows"].as_array().unwrap();
        let variants: Vec<(&str, &str)> = rows
            .iter()
            .map(|row| (row["as"].as_str().unwrap(), row["label"].as_str().unwrap()))
            .collect();
        let expected = [("then", "ext4"), ("then", "ext4"), ("today", "xfs"), ("today", "xfs")];
        assert_eq!(variants, expected);
        assert!(rows.iter().all(|row| row["comparison"].is_null() && row["run"] == "names"));
        let answer = all["answer"].to_string();
        assert!(answer.contains("names as then: There is only one row"), "{answer}");
        assert!(!answer.contains("times as long"), "{answer}");
        let table = super::csv(&parts, None);
        let ends: Vec<bool> = table.lines().skip(1).map(|l| l.ends_with(",names,then,")).collect();
        assert_eq!(ends, [true, true, false, false], "{table}");
    }

    #[test]
    fn a_curve_gives_its_points_and_its_exponents() {
        let all: Value = serde_json::from_str(&json(&fixture::curve(), None)).unwrap();
        let rows = all["rows"].as_array().unwrap();
        // Four sizes, two file systems, two phases.
        assert_eq!(rows.len(), 16);
        let first = &rows[0];
        assert!(first["workload"].as_str().unwrap().ends_with("files=1000"), "{first}");
        assert_eq!(
            (&first["measure"], &first["mean"], &first["run"]),
            (&json!("returned"), &json!(0.1), &Value::Null)
        );
        let exponents = all["exponents"].as_array().unwrap();
        let rounded: Vec<(&str, &str, i64)> = exponents
            .iter()
            .map(|row| {
                let power = row["exponent"].as_f64().unwrap().round() as i64;
                (row["phase"].as_str().unwrap(), row["row"].as_str().unwrap(), power)
            })
            .collect();
        assert_eq!(
            rounded,
            [
                ("create", "ext4", 1),
                ("create", "linear", 2),
                ("delete", "ext4", 1),
                ("delete", "linear", 2)
            ]
        );
        assert_eq!((&exponents[0]["points"], &exponents[0]["n"]), (&json!(4), &json!(4)));
        assert!(all["answer"][0].as_str().unwrap().contains("is linear on ext4"), "{all}");
        let table = csv(&fixture::curve(), None);
        assert_eq!(table.lines().count(), 1 + 16 + 4);
        assert_eq!(table.lines().filter(|line| line.contains(",exponent,,4,")).count(), 4);
        let commas = |line: &str| line.matches(',').count();
        let mut plain = table.lines().filter(|line| !line.contains('"'));
        assert!(plain.all(|line| commas(line) == 34), "{table}");
    }
}
