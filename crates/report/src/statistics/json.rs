//! The statistics as JSON: the types that are written. docs/schema/statistics.schema.json is generated from them.

use fsdyno_stats::compare::Comparison;
use fsdyno_stats::describe;
use fsdyno_stats::interval::LEVEL;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Exponent, PartStatistics};
use crate::baseline::Basis;
use crate::described::Described;
use crate::exports::{self, method, verdict};
use crate::measure::{Amount, Measure};
use crate::model::{Row, Section};
use crate::number::sanitize;
use crate::pairing::Matching;
use crate::part::Part;
use crate::repeats;
use crate::validity::Flag;

/// Version of the JSON form.
const SCHEMA: u32 = 1;

/// Statistics of trial records, nothing rounded (docs/statistics.md).
#[derive(Serialize, JsonSchema)]
pub struct Statistics {
    /// Version of this form.
    #[schemars(extend("const" = SCHEMA))]
    schema: u32,
    /// The answer in sentences.
    answer: Vec<String>,
    /// A row for each phase of each file system, the points of curves last.
    rows: Vec<RowStatistics>,
    /// Growth of the times of curves with the number of files.
    exponents: Vec<ExponentStatistics>,
}

/// The part of a study to which a row belongs. All are null without a study.
#[derive(Serialize, JsonSchema)]
struct PartNames {
    /// Name of the run in a study; ratios are within one run, variant and kernel alone.
    run: Option<String>,
    /// Conditions of the run in a study: `then`, `today` or `as-it-stands`.
    #[serde(rename = "as")]
    conditions: Option<String>,
    /// Kernel, in a study that is a timeline.
    kernel: Option<String>,
}

/// Statistics of one phase of one file system.
#[derive(Serialize, JsonSchema)]
struct RowStatistics {
    /// Workload, with the parameters that distinguish it from others of its name.
    workload: String,
    /// Phase of the workload.
    phase: String,
    /// Name of the row in tables.
    row: String,
    /// Label of the file system.
    label: String,
    /// Measure of the row's values: time to durable, to returned, or to returned per operation; or the device space per
    /// file (`room`), if file systems were filled.
    #[schemars(extend("enum" = Measure::NAMES))]
    measure: &'static str,
    /// Unit of all values of the row.
    #[schemars(extend("enum" = Measure::UNITS))]
    unit: &'static str,
    /// Number of trials.
    n: usize,
    /// Mean in the row's unit.
    mean: Option<f64>,
    /// Lower end of the 95 % interval of the mean: Student's, or Stein's if a pilot set n.
    low: Option<f64>,
    /// Upper end of the 95 % interval of the mean.
    high: Option<f64>,
    /// Standard deviation with the divisor n - 1.
    sd_sample: Option<f64>,
    /// Standard deviation with the divisor n, as older tables have it.
    sd_population: Option<f64>,
    /// Coefficient of variation: `sd_sample` over the mean.
    cv: Option<f64>,
    /// Median in the row's unit.
    median: Option<f64>,
    /// Lower end of the interval of the median by order statistics, of at least 95 %.
    median_low: Option<f64>,
    /// Upper end of the interval of the median.
    median_high: Option<f64>,
    /// Values of the trials in the order of their runs, or by seed in the lab.
    values: Vec<SeedValue>,
    /// Values beyond Tukey's fences; they count.
    outliers: Vec<OutlierValue>,
    /// Trend over the order of the runs; null in the lab.
    drift: Option<DriftStatistics>,
    /// Difference of the first run from the rest; null in the lab.
    warmup: Option<WarmupStatistics>,
    /// Variance between and within seeds; null if no seed ran twice.
    levels: Option<LevelStatistics>,
    /// The rule that set n; null if n was given.
    repeats: Option<RepeatsStatistics>,
    /// Base of the ratio: `best`, or the label of the baseline.
    versus: String,
    /// The least difference that matters, relative: a ratio whose whole interval is within it is `same`.
    #[schemars(range(min = 0))]
    least_difference: f64,
    /// Ratio to the base; 1 for the base itself.
    ratio: Option<f64>,
    /// Comparison with the base; null for the base itself.
    comparison: Option<ComparisonStatistics>,
    /// Flags of the trials.
    flags: Vec<Flag>,
    /// Options of the file system that give up durability, each with the reason; such a row is not ranked with the
    /// others.
    #[serde(rename = "unsafe")]
    risks: Vec<String>,
    #[serde(flatten)]
    part: PartNames,
}

/// The value of one trial.
#[derive(Serialize, JsonSchema)]
struct SeedValue {
    /// Seed of the trial.
    seed: u64,
    #[serde(flatten)]
    value: Amount,
}

/// A value beyond a fence.
#[derive(Serialize, JsonSchema)]
struct OutlierValue {
    /// Seed of the trial.
    seed: u64,
    #[serde(flatten)]
    value: Amount,
    /// True if it is also beyond the outer fence.
    far: bool,
}

/// A trend over the order of the runs.
#[derive(Serialize, JsonSchema)]
struct DriftStatistics {
    /// p-value of Mann and Kendall's test.
    p: f64,
    /// Change from the first run to the last by the slope, as a share of the median.
    change: Option<f64>,
    /// Sen's slope in seconds per run.
    slope: f64,
}

/// The difference of the first run from the rest.
#[derive(Serialize, JsonSchema)]
struct WarmupStatistics {
    /// p-value of the first run against the rest.
    p: Option<f64>,
    /// Relative difference from the rest.
    share: Option<f64>,
}

/// The split of the variance between seeds and trials of one seed.
#[derive(Serialize, JsonSchema)]
struct LevelStatistics {
    /// Variance between seeds, in s^2.
    between_seeds: f64,
    /// Variance between trials of one seed, in s^2.
    within_seeds: f64,
    /// Share of the first in the total.
    share_between: Option<f64>,
    /// p-value of the F test.
    p: Option<f64>,
}

/// The two-stage rule that set the number of repeats.
#[derive(Serialize, JsonSchema)]
struct RepeatsStatistics {
    /// Requested half-width of the interval, relative.
    width: f64,
    /// Number of repeats of the pilot.
    pilot: u32,
    /// Maximum number of repeats.
    at_most: u32,
    /// Number of repeats that this row's pilot requires; the largest of all rows sets n.
    wanted_by_this_row: u32,
    /// True if `at_most` allows that number.
    reached: bool,
}

/// A comparison of a row with its base.
#[derive(Serialize, JsonSchema)]
struct ComparisonStatistics {
    /// The t interval of the logarithms: of pairs by seed, or Welch's.
    #[schemars(schema_with = "exports::methods")]
    method: &'static str,
    /// Number of pairs, or of values on the smaller side.
    n: usize,
    /// Number of trials of both rows whose seed the other row does not have.
    left_out: usize,
    /// Ratio of geometric means; below 1 the row took less time.
    ratio: f64,
    /// Lower end of the 95 % interval of the ratio.
    low: Option<f64>,
    /// Upper end of the 95 % interval of the ratio.
    high: Option<f64>,
    /// p-value of the t test.
    p: Option<f64>,
    /// p-value adjusted by Holm's method for all comparisons of the report; against the best for all pairs of rows,
    /// because each row could have been the best.
    p_in_table: Option<f64>,
    /// True if no two repeats differed, so the difference alone gives the verdict.
    exact: bool,
    /// Permutation test, only for a host's trials.
    relabelled: Option<PermutationStatistics>,
    /// Number of repeats that would find a difference of the threshold or show that there is none.
    n_that_would_decide: Option<u32>,
    /// True if there is no verdict because a flag forbids it.
    withheld: bool,
    /// The error that the processor profile may put into the ratio: 0.2 is 20 %.
    #[schemars(range(min = 0))]
    model_error: f64,
    /// Verdict on the row.
    #[schemars(schema_with = "exports::verdicts")]
    verdict: &'static str,
    /// Note that there was only one repeat, or that no two repeats differed, if so.
    note: Option<&'static str>,
}

/// A permutation test.
#[derive(Serialize, JsonSchema)]
struct PermutationStatistics {
    /// p-value of the test.
    p: f64,
    /// The smallest p-value that this number of values can give.
    least: f64,
    /// True if all relabellings were counted.
    counted: bool,
}

/// The growth of a row's time with the number of files.
#[derive(Serialize, JsonSchema)]
struct ExponentStatistics {
    /// Workload, without the sizes.
    workload: String,
    /// Phase of the workload.
    phase: String,
    /// Name of the row in tables.
    row: String,
    /// Label of the file system.
    label: String,
    /// The fitted measure: time to returned.
    #[schemars(extend("const" = Measure::Returned.name()))]
    measure: &'static str,
    /// Number of sizes.
    #[schemars(range(min = 1))]
    points: usize,
    /// Number of trials of all sizes; the fit is over each of them.
    #[schemars(range(min = 2))]
    n: usize,
    /// The exponent b of time = a * files^b.
    exponent: f64,
    /// Lower end of the 95 % interval of the exponent; null for two trials.
    low: Option<f64>,
    /// Upper end of the 95 % interval of the exponent.
    high: Option<f64>,
    #[serde(flatten)]
    part: PartNames,
}

impl Statistics {
    /// The statistics of all parts.
    pub fn of(parts: &[Part<'_>], basis: Basis<'_>) -> Statistics {
        let (mut answer, mut rows, mut exponents) = (Vec::new(), Vec::new(), Vec::new());
        for part in parts {
            let prefix = part.name().map(|name| format!("{name}: ")).unwrap_or_default();
            let found = PartStatistics::of(part, basis);
            answer.extend(found.answer(basis).into_iter().map(|text| format!("{prefix}{text}")));
            for section in &found.sections {
                rows.extend(section.rows.iter().map(|row| RowStatistics::of(row, section, part)));
            }
            exponents.extend(found.exponents().map(|line| ExponentStatistics::of(&line, part)));
        }
        Statistics { schema: SCHEMA, answer, rows, exponents }
    }
}

impl PartNames {
    fn of(part: &Part<'_>) -> PartNames {
        let word = |word: &str| Some(sanitize(word)).filter(|word| !word.is_empty());
        PartNames {
            run: word(part.run),
            conditions: word(part.variant),
            kernel: part.kernel.map(sanitize),
        }
    }
}

impl RowStatistics {
    fn of(row: &Row<'_>, section: &Section<'_>, part: &Part<'_>) -> RowStatistics {
        let described = Described::of(row, section);
        let numbers = described.numbers();
        let summary = row.measured;
        let median = describe::median_interval(&numbers, LEVEL);
        let amount = |value| section.measure.amount(Some(value));
        let value = |(seed, value): &(u64, f64)| SeedValue { seed: *seed, value: amount(*value) };
        RowStatistics {
            workload: section.workload.clone(),
            phase: section.phase.clone(),
            row: row.name.clone(),
            label: sanitize(row.label()),
            measure: described.measure.name(),
            unit: section.measure.unit(),
            n: summary.n,
            mean: Some(summary.mean).filter(|mean| mean.is_finite()),
            low: summary.interval().map(|interval| interval.0),
            high: summary.interval().map(|interval| interval.1),
            sd_sample: describe::sample_sd(&numbers),
            sd_population: describe::population_sd(&numbers),
            cv: describe::coefficient_of_variation(&numbers),
            median: describe::median(&numbers),
            median_low: median.map(|median| median.low),
            median_high: median.map(|median| median.high),
            values: described.values.iter().map(value).collect(),
            outliers: outliers(&described, section.measure),
            drift: described.drift.map(|drift| DriftStatistics {
                p: drift.p,
                change: drift.change,
                slope: drift.slope,
            }),
            warmup: described
                .warmup
                .map(|warmup| WarmupStatistics { p: warmup.p, share: warmup.share }),
            levels: described.levels.map(|levels| LevelStatistics {
                between_seeds: levels.between,
                within_seeds: levels.within,
                share_between: levels.share,
                p: levels.p,
            }),
            repeats: RepeatsStatistics::of(row),
            versus: section.versus.clone(),
            least_difference: section.least_difference,
            ratio: row.ratio.map(|ratio| ratio.value),
            comparison: row
                .comparison
                .map(|comparison| ComparisonStatistics::of(&comparison, row.matching)),
            flags: row.flags.clone(),
            risks: row.risks.clone(),
            part: PartNames::of(part),
        }
    }
}

fn outliers(described: &Described, measure: Measure) -> Vec<OutlierValue> {
    let outlier = |outlier: &fsdyno_stats::outlier::Outlier| OutlierValue {
        seed: described.values[outlier.index].0,
        value: measure.amount(Some(outlier.value)),
        far: outlier.far,
    };
    described.outliers.iter().map(outlier).collect()
}

impl RepeatsStatistics {
    fn of(row: &Row<'_>) -> Option<RepeatsStatistics> {
        let (rule, total) = repeats::rule(row).zip(repeats::required_total(row))?;
        Some(RepeatsStatistics {
            width: rule.half_width(),
            pilot: rule.pilot,
            at_most: rule.at_most,
            wanted_by_this_row: total.wanted,
            reached: total.reached,
        })
    }
}

impl ComparisonStatistics {
    fn of(c: &Comparison, matching: Option<Matching>) -> ComparisonStatistics {
        ComparisonStatistics {
            method: method(c),
            n: c.n,
            left_out: matching.map_or(0, Matching::excluded),
            ratio: c.ratio,
            low: c.interval.map(|interval| interval.0),
            high: c.interval.map(|interval| interval.1),
            p: c.p,
            p_in_table: c.p_in_table,
            exact: c.exact,
            relabelled: c.relabelled.map(|test| PermutationStatistics {
                p: test.p,
                least: test.smallest_p,
                counted: test.exact,
            }),
            n_that_would_decide: c.n_that_would_decide(),
            withheld: c.withheld,
            model_error: c.systematic,
            verdict: verdict(c.verdict),
            note: c.note(),
        }
    }
}

impl ExponentStatistics {
    fn of(line: &Exponent<'_>, part: &Part<'_>) -> ExponentStatistics {
        let interval = line.growth.interval;
        ExponentStatistics {
            workload: line.workload.into(),
            phase: line.phase.clone(),
            row: line.name.into(),
            label: line.label.clone(),
            measure: Measure::Returned.name(),
            points: line.points,
            n: line.growth.n,
            exponent: line.growth.exponent,
            low: interval.map(|interval| interval.0),
            high: interval.map(|interval| interval.1),
            part: PartNames::of(part),
        }
    }
}
