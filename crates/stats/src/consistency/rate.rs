//! Checks a time against the rate of the same work: which amount of work they imply, and whether any amount fits both.
//!
//! Every run does the same number C of units of work (the count), and its program prints the rate C / t, truncated or
//! rounded to some step, or 0 if its clock measured no time. The mean of such rates is not C over the mean time: it is
//! larger (Jensen 1906), and the deviation limits by how much.

use super::range::Range;
use super::sample::{Sample, check_sample};
use super::{Contradiction, Rule};

/// One table cell: the times of some runs, and the rates of the same runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Name of the cell in messages.
    pub name: String,
    /// Times of the runs.
    pub time: Sample,
    /// Rates of the runs, in counts per unit of time; `unit` is the step to which the program truncated or rounded each
    /// rate.
    pub rate: Sample,
}

/// Returns the contradictions of cells whose runs all did the same amount of work (one workload, one kind of counted
/// object): within each time, each rate and each pair of the two, and between the pairs. `known` is the count if it is
/// known; otherwise the count on which most cells agree is used.
pub fn check_cells(cells: &[Cell], known: Option<Range>) -> Vec<Contradiction> {
    let alone = |cell: &Cell| {
        let time = check_sample(&format!("{}, time", cell.name), &cell.time);
        let rate = check_sample(&format!("{}, rate", cell.name), &cell.rate);
        time.into_iter().chain(rate).chain(check_pair(cell))
    };
    let mut found: Vec<Contradiction> = cells.iter().flat_map(alone).collect();
    let agreed = known.map_or_else(|| agreed_count(cells), Agreement::On);
    for cell in cells {
        let count = count(cell);
        // A pair that fits no count was reported above.
        let message = match agreed {
            _ if count.is_empty() => continue,
            Agreement::On(did) if known.is_some() && count.is_disjoint_from(did) => {
                format!("time and rate imply a count of {count}, but each run did {did}")
            }
            Agreement::On(agreed) if count.is_disjoint_from(agreed) => {
                format!("time and rate imply a count of {count}, the other cells {agreed}")
            }
            Agreement::Split => {
                format!("time and rate imply a count of {count}, and no other cell agrees")
            }
            _ => continue,
        };
        found.push(Contradiction { name: cell.name.clone(), rule: Rule::OtherCount, message });
    }
    found
}

/// The agreement on a count among cells that count the same work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Agreement {
    /// No cell implies a count.
    NoCount,
    /// No count fits more than half of the cells.
    Split,
    /// More than half of the cells imply this count.
    On(Range),
}

/// Returns the count on which more than half of the cells agree, narrowed to the intersection of their ranges.
pub fn agreed_count(cells: &[Cell]) -> Agreement {
    // A cell that fits no count, or every count, has no vote.
    let votes = |count: &Range| !count.is_empty() && (count.low > 0.0 || count.high.is_finite());
    let counts: Vec<Range> = cells.iter().map(count).filter(votes).collect();
    let containing =
        |at: f64| counts.iter().filter(move |count| !count.is_disjoint_from(Range::exactly(at)));
    // One of the ranges begins where the maximum number of them overlap.
    let best = counts.iter().map(|count| count.low).max_by_key(|low| containing(*low).count());
    let Some(best) = best else { return Agreement::NoCount };
    if 2 * containing(best).count() <= counts.len() {
        return Agreement::Split;
    }
    containing(best).copied().reduce(Range::intersection).map_or(Agreement::NoCount, Agreement::On)
}

/// Returns the contradiction between a time and its rate, if there is one.
fn check_pair(cell: &Cell) -> Option<Contradiction> {
    let fault = |rule, message| Some(Contradiction { name: cell.name.clone(), rule, message });
    let (time, rate) = (&cell.time, &cell.rate);
    if time.all_equal() && rate.deviation().low > 0.0 {
        let sd = rate.deviation();
        let message = format!("all times are {}, but the rates deviate by {sd}", time.exact_mean());
        return fault(Rule::EqualTimes, message);
    }
    let count = count(cell);
    if !count.is_empty() {
        return None;
    }
    if time.exact_mean().high == 0.0 {
        let message = format!("no run took any time, but the mean rate is {}", rate.mean);
        return fault(Rule::TimeAndRate, message);
    }
    let message = format!(
        "no count gives the time {} with the rate {}: it would be {} at least and {} at most",
        time.mean,
        rate.mean,
        Range::exactly(count.low),
        Range::exactly(count.high)
    );
    fault(Rule::TimeAndRate, message)
}

/// Returns the range of counts that could have produced a cell's time and rate, which is empty if none could.
fn count(cell: &Cell) -> Range {
    let (time, rate) = (&cell.time, &cell.rate);
    let (mean, runs) = (time.exact_mean(), time.run_range());
    let step = rate.unit.unwrap_or(0.0);
    if mean.high == 0.0 {
        // No run measured any time, so every rate is 0 regardless of the count.
        let high = if rate.mean.low > 0.0 { -1.0 } else { f64::INFINITY };
        return Range { low: 0.0, high };
    }
    let timeless_share = max_share_without_time(time);
    // Runs that measured time took at least one step of the clock.
    let shortest = runs.low.max(time.unit.unwrap_or(0.0));
    let by_mean = Range {
        low: rate.mean.low / max_mean_inverse(mean, shortest, runs.high),
        // (Sum of C / t over the runs with time) / n >= C (1 - timeless_share)^2 / mean (Jensen); truncation lowers
        // each rate by at most a step.
        high: (rate.mean.high + step) * mean.high / (1.0 - timeless_share).powi(2),
    };
    // If all runs measured time, C / t falls with t at the rate C / t^2: between C / high^2 and C / low^2 per second.
    // Truncation adds at most half a step of deviation (Popoviciu 1935).
    let (sd, shown) = (time.deviation(), rate.deviation());
    if timeless_share > 0.0 || runs.low == 0.0 || sd.high.is_infinite() || shown.high.is_infinite()
    {
        return by_mean;
    }
    by_mean.intersection(Range {
        low: if sd.high > 0.0 {
            (shown.low - step / 2.0) * shortest.powi(2) / sd.high
        } else {
            0.0
        },
        high: if sd.low > 0.0 {
            (shown.high + step / 2.0) * runs.high.powi(2) / sd.low
        } else {
            f64::INFINITY
        },
    })
}

/// Returns the largest share of runs that may have measured no time: if the times of a share k of the runs are zero,
/// the deviation is at least mean sqrt(k / (1 - k)).
fn max_share_without_time(time: &Sample) -> f64 {
    if time.unit.is_none() || time.extremes.is_some_and(|(least, _)| least.low > 0.0) {
        return 0.0;
    }
    let (n, mean, sd) = (time.n(), time.exact_mean().low, time.deviation().high);
    if sd.is_infinite() || mean == 0.0 {
        return (n - 1.0) / n;
    }
    let share = sd.powi(2) / (mean.powi(2) + sd.powi(2));
    ((share * n + 1e-6).floor() / n).min((n - 1.0) / n)
}

/// Returns the largest mean of 1 / t, with runs without time counted as 0. Since t lies between `min` and `max`, the
/// curve 1 / t lies below its chord (Edmundson 1957), and no more runs took time than `mean` allows.
fn max_mean_inverse(mean: Range, min: f64, max: f64) -> f64 {
    if min <= 0.0 {
        return f64::INFINITY;
    }
    let max = max.max(min);
    let chord = (min + max - mean.low) / (min * max);
    chord.min((mean.high / min).min(1.0) / min)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::consistency::{Divisor, parse_rounded};
    use crate::describe::{mean, population_sd};
    use proptest::prelude::*;

    fn sample(runs: &[f64], decimals: usize, unit: Option<f64>) -> Sample {
        let text = |value: f64| parse_rounded(&format!("{value:.decimals$}")).unwrap();
        Sample {
            mean: text(mean(runs).unwrap()),
            sd: population_sd(runs).map(text),
            divisor: Divisor::Runs,
            runs: runs.len() as u32,
            unit,
            extremes: None,
        }
    }

    /// Returns the cell that a program with a clock of whole seconds and truncated rates prints for these times.
    fn cell(name: &str, times: &[f64], count: f64) -> Cell {
        let rate = |time: &f64| if *time == 0.0 { 0.0 } else { (count / time).trunc() };
        let rates: Vec<f64> = times.iter().map(rate).collect();
        let (time, rate) = (sample(times, 2, Some(1.0)), sample(&rates, 2, Some(1.0)));
        Cell { name: name.into(), time, rate }
    }

    fn rules(cells: &[Cell]) -> Vec<(&str, Rule)> {
        let found = check_cells(cells, None);
        let position = |c: &Contradiction| cells.iter().position(|cell| cell.name == c.name);
        found.iter().filter_map(|c| Some((cells[position(c)?].name.as_str(), c.rule))).collect()
    }

    proptest! {
        #[test]
        fn tables_of_real_runs_have_no_contradiction(
            count in 50u32..500_000,
            times in prop::collection::vec(prop::collection::vec(0u32..60, 1..12), 1..6),
            base in 0u32..300,
        ) {
            let cells: Vec<Cell> = times
                .iter()
                .map(|runs| {
                    let runs: Vec<f64> = runs.iter().map(|t| f64::from(t + base)).collect();
                    cell("", &runs, f64::from(count))
                })
                .collect();
            prop_assert_eq!(check_cells(&cells, None), []);
            let known = Range::exactly(f64::from(count));
            prop_assert_eq!(check_cells(&cells, Some(known)), []);
            // Rates without any rounding fit as well.
            let rates: Vec<f64> =
                times[0].iter().map(|t| f64::from(count) / f64::from(t + base + 1)).collect();
            let seen: Vec<f64> = times[0].iter().map(|t| f64::from(t + base + 1)).collect();
            let (time, rate) = (sample(&seen, 3, None), sample(&rates, 3, None));
            prop_assert_eq!(check_cells(&[Cell { name: "".into(), time, rate }], Some(known)), []);
        }
    }

    #[test]
    fn a_rate_of_different_work_is_found_among_three_cells() {
        let times = [[10.0, 11.0, 12.0], [20.0, 21.0, 21.0], [15.0, 15.0, 16.0]];
        let mut cells: Vec<Cell> = ["a", "b", "c"]
            .iter()
            .zip(times)
            .map(|(name, times)| cell(name, &times, 9000.0))
            .collect();
        assert_eq!(rules(&cells), []);
        let Agreement::On(agreed) = agreed_count(&cells) else { panic!("split") };
        assert!(agreed.low > 8950.0 && agreed.low <= 9000.0 && agreed.high < 9050.0, "{agreed:?}");
        cells[1] = cell("b", &times[1], 9300.0);
        assert_eq!(rules(&cells), [("b", Rule::OtherCount)]);
        let two = rules(&cells[..2]).len();
        assert_eq!(two, 2, "if two disagree, both are reported");
        let known = check_cells(&cells, Some(Range::exactly(9300.0)));
        assert_eq!(known.len(), 2, "a known count outvotes the majority");
    }

    #[test]
    fn equal_times_have_equal_rates() {
        let mut equal = cell("a", &[3.0; 10], 2047.0);
        assert_eq!(rules(&[equal.clone()]), []);
        equal.rate.sd = parse_rounded("0.30");
        assert_eq!(rules(&[equal]), [("a", Rule::EqualTimes)]);
    }

    #[test]
    fn a_rate_that_scatters_more_than_its_time_fits_no_count() {
        let mut wide = cell("a", &[65.0, 64.0, 67.0, 66.0, 66.0, 70.0], 336_840.0);
        wide.rate.sd = parse_rounded("1399.38");
        assert_eq!(rules(&[wide]), [("a", Rule::TimeAndRate)]);
    }

    #[test]
    fn runs_without_measured_time_have_a_rate_of_zero() {
        let runs = [0.0, 0.0, 1.0, 0.0];
        let mut cells = vec![cell("a", &runs, 307.0), cell("b", &[1.0, 0.0, 1.0, 1.0], 307.0)];
        cells.extend([cell("c", &[0.0; 4], 307.0), cell("d", &[2.0, 1.0, 1.0, 0.0], 307.0)]);
        assert_eq!(rules(&cells), []);
        cells[0].rate = sample(&[0.0; 4], 2, Some(1.0));
        assert_eq!(rules(&cells), [("a", Rule::OtherCount)]);
        cells[2].rate = sample(&[307.0, 0.0, 0.0, 0.0], 2, Some(1.0));
        assert!(rules(&cells).contains(&("c", Rule::EqualTimes)));
        cells[2].rate = sample(&[307.0; 4], 2, Some(1.0));
        assert!(rules(&cells).contains(&("c", Rule::TimeAndRate)));
    }

    #[test]
    fn the_rate_of_a_single_run_is_checked_as_a_quotient() {
        let single = |time, rate, name: &str| Cell {
            name: name.into(),
            time: Sample::single(parse_rounded(time).unwrap()),
            rate: Sample::single(parse_rounded(rate).unwrap()),
        };
        let known = Some(Range::exactly(725_000.0));
        assert_eq!(check_cells(&[single("618.991", "1171.26", "a")], known), []);
        assert_eq!(check_cells(&[single("618.991", "1172.00", "a")], known).len(), 1);
    }
}
