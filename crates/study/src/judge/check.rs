//! Evaluates a check: splits it into parts, each with an estimate and its bounds.

use std::collections::BTreeMap;

use fsdyno_report::study::digits;
use fsdyno_report::validity::{Flag, instrument_share};
use fsdyno_report::{Matching, Pairing, counted, processor_error, risks};
use fsdyno_stats::{Estimate, Summary, growth};

use super::figure;
use super::trials::{CellTrials, Trials, in_unit};
use super::verdict::{Edge, Part, counts_from};
use crate::file::{Bound, Cell, Check, Figure};

/// The parameter in which the points of a curve differ.
const FILES: &str = "files";

/// The smallest effect of the instrument on a ratio that is worth a note, as a fraction.
const MIN_INSTRUMENT_EFFECT: f64 = 0.01;

/// The result of a check.
#[derive(Debug, Default)]
pub struct Measured {
    /// Its parts.
    pub parts: Vec<Part>,
    /// The mean of each cell with its label, for a claim about the order or the spread of cells.
    pub means: Vec<(String, f64)>,
    /// Notes on the trials.
    pub notes: Vec<String>,
    /// True if all trials ran in a model, without a kernel; `None` before the first trial.
    pub in_model: Option<bool>,
    /// The kernels of its trials.
    pub kernels: Vec<String>,
}

impl Measured {
    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Adds a note if two means contradict their ratio, because the means are shown as well.
    fn compare_means(&mut self, (numerator, denominator): (usize, usize), what: &str, ratio: f64) {
        let (numerator, denominator) = (self.means[numerator].1, self.means[denominator].1);
        if (numerator > denominator) != (ratio > 1.0) && numerator != denominator && ratio != 1.0 {
            self.note(format!(
                "The means of {what} are in the opposite order; the claim is judged by the ratio of geometric means, \
                 paired by seed where possible."
            ));
        }
    }

    /// Adds a note if the instrument's shares of the two sides may move their ratio by more than
    /// [`MIN_INSTRUMENT_EFFECT`].
    fn compare_instruments(&mut self, mut sides: [(&Cell, &CellTrials<'_>); 2]) {
        let both = sides.map(|(cell, _)| cell.clone());
        // Both directions of a ratio produce the same note.
        sides.sort_by_key(|(cell, _)| label(cell, &both));
        let shares = sides.map(|(cell, found)| instrument(cell, found));
        let [Some(first_share), Some(second_share)] = shares else {
            return;
        };
        let (low, high) = (first_share.min(second_share), first_share.max(second_share));
        let saved = 1.0 - (1.0 - high) / (1.0 - low);
        if saved <= MIN_INSTRUMENT_EFFECT {
            return;
        }
        let percent = |share: f64| format!("{} %", digits((share * 1000.0).round() / 10.0));
        let [first, second] = sides.map(|(cell, _)| label(cell, &both));
        let (more_affected, less_affected) = match first_share > second_share {
            true => (&first, &second),
            false => (&second, &first),
        };
        self.note(format!(
            "The instrument ran for {} of the time of '{first}' and {} of that of '{second}': without it, the \
             time of '{more_affected}' relative to that of '{less_affected}' would be up to {} lower.",
            percent(first_share),
            percent(second_share),
            percent(saved)
        ));
    }

    /// Collects the notes on the trials of a cell.
    fn add_notes(&mut self, cell: &Cell, found: &CellTrials<'_>) {
        let model = found.runs.iter().all(|(trial, _)| trial.plan.in_model());
        self.in_model = Some(model && self.in_model.unwrap_or(true));
        for (trial, _) in &found.runs {
            if let Some(kernel) = super::kernel_of(trial).filter(|k| !self.kernels.contains(k)) {
                self.kernels.push(kernel);
            }
        }
        if found.failed > 0 {
            let (n, row) = (found.failed, &cell.row);
            let (trials, are) = (counted(n, "trial"), if n == 1 { "is" } else { "are" });
            self.note(format!("{trials} of '{row}' did not succeed and {are} not counted."));
        }
        if let Some(op) = figure::unnamed_op(cell, &found.runs) {
            let (figure, phase) = (cell.figure.name(), cell.phases.join(", "));
            self.note(format!(
                "No op is named: {figure} of '{phase}' is that of {op}, its main op."
            ));
        }
        if let Some((fewest, required)) = figure::few_ops(cell, &found.runs) {
            let (figure, row, phase) = (cell.figure.name(), &cell.row, cell.phases.join(", "));
            self.note(format!(
                "{figure} of '{row}' in '{phase}' covers {fewest} ops; below {required} it equals the maximum."
            ));
        }
        let flags: Vec<String> = found.flags.iter().map(|flag| flag_name(*flag, found)).collect();
        if !flags.is_empty() {
            self.note(format!("'{}' is {}.", cell.row, flags.join(", ")));
        }
    }
}

/// Returns the name of a flag. For UNSAFE it includes the unsafe options: `UNSAFE (barrier=0)`.
fn flag_name(flag: Flag, found: &CellTrials<'_>) -> String {
    let risks = found.runs.first().filter(|_| flag == Flag::Unsafe).map(|(trial, _)| risks(trial));
    let options: Vec<&str> = risks
        .iter()
        .flatten()
        .map(|risk| risk.split_once(": ").map_or(risk.as_str(), |(option, _)| option))
        .collect();
    match options.is_empty() {
        true => flag.name().to_string(),
        false => format!("{} ({})", flag.name(), options.join(", ")),
    }
}

/// Evaluates a check; `margin` is that of its claim.
///
/// # Errors
/// The reason why it cannot be tested, as a sentence.
pub fn measure(check: &Check, margin: f64, trials: &Trials<'_>) -> Result<Measured, String> {
    let mut measured = Measured::default();
    match check {
        Check::Ratio { numerator, denominator, bound } => {
            let (above, below) = edges(*bound);
            let threshold = counts_from(above, below, margin);
            let estimate = ratio(numerator, denominator, threshold, trials, &mut measured)?;
            measured.parts.push(compared(
                &[numerator, denominator],
                trials,
                part(&[numerator, denominator], estimate, (above, below)),
            ));
        }
        Check::Order(cells) => order(cells, margin, trials, &mut measured)?,
        Check::Within { cells, at_most } => within(cells, *at_most, trials, &mut measured)?,
        Check::Value { cell, .. } if trials.scale != 1 && !figure::is_size_independent(cell) => {
            return Err(format!(
                "at scale 1/{} the figure '{}' measures less work",
                trials.scale,
                cell.figure.name()
            ));
        }
        Check::Value { cell, bound } => {
            let found = trials.of(cell, false)?;
            measured.add_notes(cell, &found);
            let summary = Summary::of(&found.values(cell)?).ok_or("its value is not finite")?;
            let (above, below) = edges(*bound);
            let estimate = Estimate::of_mean(&summary);
            measured.parts.push(part(&[cell], estimate, (above, below)));
        }
        Check::Exponent { cell, bound } => {
            let estimate = exponent(cell, trials, &mut measured)?;
            let (above, below) = edges(*bound);
            measured.parts.push(Part { fitted: true, ..part(&[cell], estimate, (above, below)) });
        }
    }
    Ok(measured)
}

/// Compares each cell with the previous one.
fn order(
    cells: &[Cell],
    margin: f64,
    trials: &Trials<'_>,
    measured: &mut Measured,
) -> Result<(), String> {
    measured.means = means(cells, trials)?;
    for (index, pair) in cells.windows(2).enumerate() {
        let above = Some(Edge::exclusive(1.0));
        let threshold = counts_from(above, None, margin);
        let estimate = ratio(&pair[1], &pair[0], threshold, trials, measured)?;
        let what = ratio_name(&pair[1], &pair[0]);
        measured.compare_means((index + 1, index), &what, estimate.value);
        let part = part(&[&pair[1], &pair[0]], estimate, (above, None));
        let part = compared(&[&pair[1], &pair[0]], trials, part);
        measured.parts.push(Part { what, ..part });
    }
    Ok(())
}

/// Compares each pair of cells, the larger over the smaller.
fn within(
    cells: &[Cell],
    at_most: f64,
    trials: &Trials<'_>,
    measured: &mut Measured,
) -> Result<(), String> {
    measured.means = means(cells, trials)?;
    for (from, base) in cells.iter().enumerate() {
        for (to, new) in cells.iter().enumerate().skip(from + 1) {
            // The larger over the smaller, by the ratio that is judged: it is computed from pairs of seeds
            // and from logarithms, so the two means may be in a different order.
            let estimate = ratio(new, base, None, trials, measured)?;
            let (new, base, indices, estimate) = match estimate.value < 1.0 {
                true => (base, new, (from, to), ratio(base, new, None, trials, measured)?),
                false => (new, base, (to, from), estimate),
            };
            let below = Some(Edge::inclusive(at_most));
            let what = ratio_name(new, base);
            measured.compare_means(indices, &what, estimate.value);
            // The claim is that there is no difference, so it cannot be reversed.
            let part = part(&[new, base], estimate, (None, below));
            let compared = compared(&[new, base], trials, part);
            measured.parts.push(Part { what, ratio: false, ..compared });
        }
    }
    Ok(())
}

/// Creates the part of a claim with one bounded number: not a ratio, and not fitted.
fn part(cells: &[&Cell], estimate: Estimate, (above, below): (Option<Edge>, Option<Edge>)) -> Part {
    let rows = cells.iter().map(|cell| (cell.run.clone(), cell.row.clone())).collect();
    let what = String::new();
    Part { what, estimate, above, below, ratio: false, rows, model: 0.0, fitted: false }
}

/// Returns the part as a ratio of two cells, with the error that the processor profile may introduce.
fn compared(cells: &[&Cell; 2], trials: &Trials<'_>, part: Part) -> Part {
    let model_error = |is_cpu| {
        let [new, base] = cells.map(|cell| trials.of(cell, false).ok());
        new.zip(base).map_or(0.0, |(new, base)| processor_error(&base.runs, &new.runs, is_cpu))
    };
    let model = match cells[0].figure {
        Figure::Cpu | Figure::User | Figure::System | Figure::KernelCpu(_) | Figure::CpuShare => {
            model_error(true)
        }
        Figure::Returned
        | Figure::Synced
        | Figure::Durable
        | Figure::Rate
        | Figure::Latency(_)
        | Figure::WrittenRate
        | Figure::ReadRate => model_error(false),
        Figure::DeviceRequests | Figure::DeviceSeeks | Figure::SpaceUsed => 0.0,
    };
    Part { ratio: true, model, ..part }
}

/// Returns the ratio of two cells, paired by seed for trials of the lab. For two samples it includes the
/// permutation test of a ratio of `threshold`, in addition to the test of a ratio of 1.
fn ratio(
    numerator: &Cell,
    denominator: &Cell,
    threshold: Option<f64>,
    trials: &Trials<'_>,
    measured: &mut Measured,
) -> Result<Estimate, String> {
    let (new, base) = (trials.of(numerator, false)?, trials.of(denominator, false)?);
    measured.add_notes(numerator, &new);
    measured.add_notes(denominator, &base);
    for (cell, found) in [(numerator, &new), (denominator, &base)] {
        if let Some(zero) = found.values(cell)?.into_iter().find(|value| *value <= 0.0) {
            return Err(format!(
                "the {} of '{}' is {}, which has no ratio",
                cell.figure.name(),
                cell.row,
                digits(zero)
            ));
        }
    }
    measured.compare_instruments([(numerator, &new), (denominator, &base)]);
    let pairing = Pairing::of(&base.runs, &new.runs);
    if let Matching::Pairs(excluded) = pairing.matching
        && excluded > 0
    {
        let (trials, are) = (counted(excluded, "trial"), if excluded == 1 { "is" } else { "are" });
        measured.note(format!("{trials} {are} not used: they have no partner of the same seed."));
    }
    let side = |cell: &Cell, run: &fsdyno_report::Run<'_>| in_unit(cell, run.0).ok();
    let comparison =
        pairing.compare_sides(|run| side(denominator, run), |run| side(numerator, run));
    let comparison = comparison.ok_or("its ratio is not finite")?;
    // `Comparison::without_verdict` needs no check: `Trials::of` refuses every flag that forbids a verdict.
    let estimate = Estimate::of_ratio(&comparison);
    let Some(threshold) = threshold.filter(|_| comparison.relabelled.is_some()) else {
        return Ok(estimate);
    };
    let longer =
        |run: &fsdyno_report::Run<'_>| side(denominator, run).map(|value| value * threshold);
    let moved = pairing.compare_sides(longer, |run| side(numerator, run));
    Ok(moved.map_or(estimate, |moved| estimate.with_permutation_at(threshold, &moved)))
}

/// Returns the instrument's share of a cell's time; `None` if the cell is neither an elapsed time nor a rate.
fn instrument(cell: &Cell, found: &CellTrials<'_>) -> Option<f64> {
    let timed = matches!(
        cell.figure,
        Figure::Returned
            | Figure::Synced
            | Figure::Durable
            | Figure::Rate
            | Figure::WrittenRate
            | Figure::ReadRate
    );
    let phases = found.runs.iter().flat_map(|(trial, _)| super::trials::phases_of(cell, trial));
    let share = instrument_share(&phases.collect::<Vec<_>>());
    (timed && share < 1.0).then_some(share)
}

/// Fits the exponent of growth over the sizes, each with the geometric mean of its trials: several trials of one
/// size are one point.
fn exponent(cell: &Cell, trials: &Trials<'_>, measured: &mut Measured) -> Result<Estimate, String> {
    let found = trials.of(cell, true)?;
    measured.add_notes(cell, &found);
    let mut sizes: BTreeMap<u64, (f64, usize)> = BTreeMap::new();
    for ((trial, _), value) in found.runs.iter().zip(found.values(cell)?) {
        let files = trial.plan.workload.params.get(FILES).and_then(|n| n.parse::<u64>().ok());
        let files = files.ok_or("its trials do not state the number of files")?;
        let (logs, trials) = sizes.entry(files).or_default();
        *logs += value.ln();
        *trials += 1;
    }
    let mean = |(files, (logs, trials)): (&u64, &(f64, usize))| {
        (*files as f64, (logs / *trials as f64).exp())
    };
    let points: Vec<(f64, f64)> = sizes.iter().map(mean).collect();
    let sizes: Vec<u64> = sizes.into_keys().collect();
    let growth = growth::exponent(&points).ok_or_else(|| {
        let single_point = format!("'{}' has the one point of {} files", cell.row, sizes[0]);
        let problem =
            if sizes.len() < 2 { single_point } else { "a time of zero has no exponent".into() };
        format!("{problem}: an exponent requires two sizes or more")
    })?;
    let (first, last) = (sizes[0], sizes[sizes.len() - 1]);
    measured.note(format!("{} sizes from {first} to {last} files.", sizes.len()));
    let estimate = Estimate::of_growth(&growth);
    // However many trials there are, an exponent fits any two sizes exactly.
    Ok(if sizes.len() < 3 { estimate.without_spread() } else { estimate })
}

/// Returns the mean of each cell, with distinct labels.
fn means(cells: &[Cell], trials: &Trials<'_>) -> Result<Vec<(String, f64)>, String> {
    cells.iter().map(|cell| Ok((label(cell, cells), mean(cell, trials)?))).collect()
}

fn mean(cell: &Cell, trials: &Trials<'_>) -> Result<f64, String> {
    let values = trials.of(cell, false)?.values(cell)?;
    Summary::of(&values).map(|summary| summary.mean).ok_or_else(|| "its value is not finite".into())
}

/// Returns the row, with the properties that distinguish the cell from the others.
fn label(cell: &Cell, cells: &[Cell]) -> String {
    let differs = |same: &dyn Fn(&Cell, &Cell) -> bool| cells.iter().any(|c| !same(c, cell));
    let mut label = cell.row.clone();
    if differs(&|a, b| a.run == b.run) {
        label.push_str(&format!(" {}", cell.run));
    }
    if differs(&|a, b| a.phases == b.phases) {
        label.push_str(&format!(" {}", cell.phases.join(" and ")));
    }
    if differs(&|a, b| a.figure == b.figure && a.op == b.op) {
        label.push_str(&format!(" {}", format_figure(cell)));
    }
    if differs(&|a, b| a.at == b.at) {
        let params: Vec<String> = cell.at.iter().map(|(k, v)| format!("{k}={v}")).collect();
        label.push_str(&format!(" {}", params.join(" ")));
    }
    label
}

/// Formats the sides of a ratio: `xfs over ext2`.
fn ratio_name(numerator: &Cell, denominator: &Cell) -> String {
    let both = [numerator.clone(), denominator.clone()];
    format!("{} over {}", label(numerator, &both), label(denominator, &both))
}

/// Formats a figure: `rate of unlink`, `returned`.
fn format_figure(cell: &Cell) -> String {
    let op = cell.op.map(|op| format!(" of {op}")).unwrap_or_default();
    format!("{}{op}", cell.figure.name())
}

/// Formats a check: `returned of tarball extract: ext3-128 over ext4-128; claimed: more than 1`.
pub fn format_check(check: &Check) -> String {
    let cells = check.cells();
    let cell = cells[0];
    let params: Vec<String> = cell.at.iter().map(|(k, v)| format!(" {k}={v}")).collect();
    let all_equal =
        |equal: &dyn Fn(&Cell, &Cell) -> bool| cells.iter().all(|other| equal(other, cell));
    let mut common = Vec::new();
    if all_equal(&|a, b| a.figure == b.figure && a.op == b.op) {
        common.push(format!("{} of", format_figure(cell)));
    }
    if all_equal(&|a, b| a.run == b.run) {
        common.push(cell.run.clone());
    }
    if all_equal(&|a, b| a.phases == b.phases) {
        common.push(cell.phases.join(" and "));
    }
    let params = if all_equal(&|a, b| a.at == b.at) { params.concat() } else { String::new() };
    let common = common.join(" ") + &params;
    // If the sides have nothing in common, their labels are complete.
    let head = if common.is_empty() { String::new() } else { format!("{}: ", common.trim_start()) };
    let owned: Vec<Cell> = cells.iter().map(|cell| (*cell).clone()).collect();
    let labels: Vec<String> = owned.iter().map(|cell| label(cell, &owned)).collect();
    match check {
        Check::Ratio { bound, .. } => {
            format!("{head}{} over {}; claimed: {bound}", labels[0], labels[1])
        }
        Check::Order(_) => format!("{head}{}", labels.join(" < ")),
        Check::Within { at_most, .. } => {
            format!("{head}{}; the largest at most {at_most} times the smallest", labels.join(", "))
        }
        Check::Value { bound, .. } => {
            format!("{common}: {}; claimed: {bound} {}", labels[0], cell.unit.name)
        }
        Check::Exponent { bound, .. } => {
            format!("exponent of the growth of {common}: {}; claimed: {bound}", labels[0])
        }
    }
}

/// Returns the edges of a bound.
pub(super) fn edges(bound: Bound) -> (Option<Edge>, Option<Edge>) {
    match bound {
        Bound::MoreThan(limit) => (Some(Edge::exclusive(limit)), None),
        Bound::LessThan(limit) => (None, Some(Edge::exclusive(limit))),
        Bound::Between(low, high) => (Some(Edge::inclusive(low)), Some(Edge::inclusive(high))),
    }
}
