//! Every statistic of every row, for programs: JSON and CSV, nothing rounded.
//!
//! The records are `--format json`; this is what is computed from them (docs/statistics.md).

use fsdyno_record::Trial;
use fsdyno_stats::compare::{Comparison, Method, Verdict};
use fsdyno_stats::describe;
use fsdyno_stats::interval::LEVEL;
use serde_json::{Value, json};

use crate::csv::push_line;
use crate::described::Described;
use crate::number::clean;
use crate::pairing::How;
use crate::view::{self, Row, Section};
use crate::{answer, repeats};

/// Version of the JSON form.
const SCHEMA: u32 = 1;

/// One object, pretty-printed: docs/schema/statistics.schema.json. Values are in the unit that their row names,
/// ratios those of the row over what it is measured against.
pub fn json(trials: &[Trial], baseline: Option<&str>) -> String {
    let sections = view::sections(trials, baseline);
    let rows = |section: &Section<'_>| -> Vec<Value> {
        section.rows.iter().map(|row| self::row(row, section)).collect()
    };
    let answer = match sections.is_empty() {
        true => Vec::new(),
        false => answer::sentences(&sections, baseline),
    };
    let all = json!({
        "schema": SCHEMA,
        "answer": answer,
        "rows": sections.iter().flat_map(rows).collect::<Vec<_>>(),
    });
    format!("{all:#}\n")
}

fn row(row: &Row<'_>, section: &Section<'_>) -> Value {
    let described = Described::of(row, section);
    let numbers = described.numbers();
    let (summary, unit) = (row.measured, section.measure.unit());
    let median = describe::median_interval(&numbers, LEVEL);
    let seed_of = |at: usize| described.values[at].0;
    let outliers: Vec<Value> = described
        .outliers
        .iter()
        .map(|o| json!({"seed": seed_of(o.at), unit: o.value, "far": o.far}))
        .collect();
    let values: Vec<Value> =
        described.values.iter().map(|(seed, value)| json!({"seed": seed, unit: value})).collect();
    let number = |value: f64| value.is_finite().then_some(value);
    json!({
        "workload": section.workload, "phase": section.phase, "row": row.name,
        "label": clean(row.label()), "measure": described.measure.name(), "unit": unit,
        "n": summary.n, "mean": number(summary.mean),
        "low": summary.interval().map(|i| i.0), "high": summary.interval().map(|i| i.1),
        "sd_sample": describe::sample_sd(&numbers),
        "sd_population": describe::population_sd(&numbers),
        "cv": describe::coefficient_of_variation(&numbers),
        "median": describe::median(&numbers),
        "median_low": median.map(|m| m.low), "median_high": median.map(|m| m.high),
        "values": values, "outliers": outliers,
        "drift": described.drift.map(|d| json!({"p": d.p, "change": d.change, "slope": d.slope})),
        "warmup": described.warmup.map(|w| json!({"p": w.p, "share": w.share})),
        "levels": described.levels.map(|l| json!({
            "between_seeds": l.between, "within_seeds": l.within, "share_between": l.share, "p": l.p,
        })),
        "repeats": repeats::rule(row).zip(repeats::asked(row)).map(|(rule, total)| json!({
            "width": rule.width(), "pilot": rule.pilot, "at_most": rule.at_most,
            "wanted_by_this_row": total.wanted, "reached": total.reached,
        })),
        "versus": section.versus,
        "ratio": row.ratio.map(|ratio| ratio.value),
        "comparison": row.comparison.map(|c| comparison(&c, row.how)),
        "flags": row.flags.iter().map(|flag| flag.name()).collect::<Vec<_>>(),
    })
}

fn comparison(c: &Comparison, how: Option<How>) -> Value {
    let left_out = how.map_or(0, How::left_out);
    json!({
        "method": method(c), "n": c.n, "left_out": left_out, "ratio": c.ratio,
        "low": c.interval.map(|i| i.0), "high": c.interval.map(|i| i.1),
        "p": c.p, "p_in_table": c.p_in_table, "exact": c.exact,
        "relabelled": c.relabelled.map(|r| json!({"p": r.p, "least": r.least, "counted": r.exact})),
        "n_that_would_decide": c.n_that_would_decide(),
        "withheld": c.withheld, "verdict": verdict(c.verdict), "note": c.note(),
    })
}

/// `paired` or `welch`.
pub fn method(comparison: &Comparison) -> &'static str {
    match comparison.method {
        Method::Paired => "paired",
        Method::Welch => "welch",
    }
}

/// The verdict as a word that needs no legend.
pub fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::Same => "same",
        Verdict::Unknown => "unknown",
    }
}

const HEAD: &str = "workload,phase,row,measure,unit,n,mean,low,high,sd_sample,sd_population,cv,median,\
    drift_p,warmup_p,outliers,repeats_wanted,repeats_at_most,repeats_reached,versus,ratio,ratio_low,\
    ratio_high,pairs_or_values,left_out,p,p_in_table,relabelled_p,exact,verdict,flags\n";

/// A line for each row of the tables; what is unknown is empty.
pub fn csv(trials: &[Trial], baseline: Option<&str>) -> String {
    let mut out = String::from(HEAD);
    for section in view::sections(trials, baseline) {
        for row in &section.rows {
            push_line(&mut out, fields(row, &section).iter());
        }
    }
    out
}

fn fields(row: &Row<'_>, section: &Section<'_>) -> Vec<String> {
    let described = Described::of(row, section);
    let numbers = described.numbers();
    let (summary, unit) = (row.measured, section.measure.unit());
    let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    let (c, rule) = (row.comparison, repeats::rule(row));
    let total = repeats::asked(row);
    let interval = c.and_then(|c| c.interval);
    let yes = |yes: bool| if yes { "yes" } else { "no" }.to_string();
    vec![
        section.workload.clone(),
        section.phase.clone(),
        row.name.clone(),
        described.measure.name().into(),
        unit.into(),
        summary.n.to_string(),
        number(Some(summary.mean)),
        number(summary.interval().map(|i| i.0)),
        number(summary.interval().map(|i| i.1)),
        number(describe::sample_sd(&numbers)),
        number(describe::population_sd(&numbers)),
        number(describe::coefficient_of_variation(&numbers)),
        number(describe::median(&numbers)),
        number(described.drift.map(|d| d.p)),
        number(described.warmup.and_then(|w| w.p)),
        described.outliers.len().to_string(),
        total.map(|t| t.wanted.to_string()).unwrap_or_default(),
        rule.map(|rule| rule.at_most.to_string()).unwrap_or_default(),
        total.map(|t| yes(t.reached)).unwrap_or_default(),
        section.versus.clone(),
        number(row.ratio.map(|ratio| ratio.value)),
        number(interval.map(|i| i.0)),
        number(interval.map(|i| i.1)),
        c.map(|c| c.n.to_string()).unwrap_or_default(),
        row.how.map(|how| how.left_out().to_string()).unwrap_or_default(),
        number(c.and_then(|c| c.p)),
        number(c.and_then(|c| c.p_in_table)),
        number(c.and_then(|c| c.relabelled).map(|r| r.p)),
        c.map(|c| yes(c.exact)).unwrap_or_default(),
        c.map(|c| verdict(c.verdict).to_string()).unwrap_or_default(),
        row.flags.iter().map(|flag| flag.name()).collect::<Vec<_>>().join(", "),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

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
        assert!(table.lines().all(|line| commas(line) == commas(HEAD)), "{table}");
    }

    #[test]
    fn what_was_filled_is_told_in_bytes_and_trials_left_out_are_counted() {
        let mut trials = fixture::filled();
        trials.retain(|trial| trial.plan.label != "xfs" || trial.seed > 1);
        let all: Value = serde_json::from_str(&json(&trials, Some("ext4"))).unwrap();
        // A row stands where its first trial does.
        let (base, xfs) = (&all["rows"][0], &all["rows"][2]);
        assert_eq!((&base["measure"], &base["unit"]), (&json!("room"), &json!("bytes")));
        let value = base["values"][0]["bytes"].as_f64().unwrap();
        assert!((value - f64::from(1 << 30) / 1005.0).abs() < 1e-6, "{base}");
        let n = (&xfs["comparison"]["n"], &xfs["comparison"]["left_out"]);
        assert_eq!(n, (&json!(2), &json!(1)));
        assert!(csv(&trials, Some("ext4")).lines().nth(1).unwrap().contains(",room,bytes,3,"));
    }

    #[test]
    fn a_host_has_drift_and_relabelling_and_no_trial_at_all_is_no_row() {
        let trials = fixture::on_a_host();
        let all: Value = serde_json::from_str(&json(&trials, None)).unwrap();
        let row = all["rows"].as_array().unwrap().iter().find(|row| !row["comparison"].is_null());
        let row = row.unwrap();
        assert_eq!(row["comparison"]["relabelled"]["counted"], true);
        assert!(row["drift"]["p"].is_number());
        assert_eq!(json(&[], None).matches("\"rows\": []").count(), 1);
    }
}
