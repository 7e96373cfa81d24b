//! Text that every format of a comparison shares.

use std::collections::BTreeSet;

use crate::validity::Flag;
use fsdyno_stats::compare::{Method, Verdict};

use super::{
    Compared, DEFAULT_THRESHOLD, Difference, ExplainedStep, Mark, Metric, Row, Side, Unfinished,
    Unmatched,
};
use crate::number::{self, sanitize};
use crate::processor::WITHIN_ERROR;

/// The word for a verdict in a table.
pub fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::Same => "same",
        Verdict::Undecided => "undecided",
        Verdict::WithinError => "model error",
    }
}

/// A ratio as a change: `+12.3 %`, `-4.0 %`, `+0.003 %`; `x2.31` if it at least doubles.
pub fn change(ratio: f64) -> String {
    if ratio >= 1.9995 {
        return format!("x{}", number::format_ratio(ratio).trim_end_matches('x'));
    }
    let percent = (ratio - 1.0) * 100.0;
    let digits = match percent.abs() {
        // A rounding error of the division is not a difference.
        p if p < 1e-9 => return "0 %".into(),
        p if p < 0.0995 => 3,
        p if p < 0.995 => 2,
        _ => 1,
    };
    let shown = format!("{percent:+.digits$}");
    // A small change is not shown as zero.
    if shown[1..].chars().all(|c| c == '0' || c == '.') {
        return if percent < 0.0 { ">-0.001 %".into() } else { "<+0.001 %".into() };
    }
    format!("{shown} %")
}

/// The effect of a row, or `-`.
pub fn effect(row: &Row) -> String {
    row.comparison.map_or("-".into(), |comparison| change(comparison.ratio))
}

/// The interval of the effect: `+1.0 % to +2.0 %`, or `-`.
pub fn interval(row: &Row) -> String {
    let interval = row.comparison.and_then(|comparison| comparison.interval);
    interval.map_or("-".into(), |(low, high)| format!("{} to {}", change(low), change(high)))
}

/// The p-value adjusted by Holm's method for the table: `0.012`, `<0.001`, or `-` if nothing was tested.
pub fn p(row: &Row) -> String {
    match row.comparison.and_then(|comparison| comparison.p_in_table) {
        None => "-".into(),
        Some(p) if p < 0.001 => "<0.001".into(),
        Some(p) => format!("{p:.3}"),
    }
}

/// The number of trials: `5`, or `5/4` if the sides have unequal numbers.
pub fn n(row: &Row) -> String {
    let (base, new) = (row.base.0, row.new.0);
    if base == new { base.to_string() } else { format!("{base}/{new}") }
}

/// The text of a mark in a table.
pub fn mark(mark: &Mark) -> String {
    match mark {
        Mark::ByReturned => "by returned".into(),
        Mark::TimePerOperation => "time per operation".into(),
        Mark::BySpace => "by space".into(),
        Mark::Single => "n = 1 (--repeat 3 can decide)".into(),
        Mark::NoRatio => "no ratio".into(),
        Mark::NoVerdict => "no verdict".into(),
        Mark::Exact => "exact".into(),
        Mark::Unpaired => "not paired".into(),
        Mark::Excluded(1) => "1 trial left out".into(),
        Mark::Excluded(n) => format!("{n} trials left out"),
        Mark::WouldDecide(n) => format!("n = {n} would decide"),
        Mark::Flag(flag) => flag.name().into(),
    }
}

/// The value of a side, or `-` if it was not measured.
pub fn value(row: &Row, side: Side) -> String {
    let value = if side == Side::Base { row.base.1 } else { row.new.1 };
    value.map_or("-".into(), |value| row.measure.format(value))
}

/// All marks of a row in one line, or empty if it has none.
pub fn marks(row: &Row) -> String {
    marks_of(row).join(", ")
}

/// The marks of a row, each with its details.
pub fn marks_of(row: &Row) -> Vec<String> {
    let text = |shown: &Mark| match shown {
        Mark::Flag(Flag::Unsafe) => format!("{} ({})", mark(shown), row.risks.join("; ")),
        _ => mark(shown),
    };
    row.marks.iter().map(text).collect()
}

/// The meaning of the effect.
pub fn effect_meaning(compared: &Compared) -> String {
    let methods: Vec<Method> =
        compared.rows.iter().filter_map(|row| Some(row.comparison?.method)).collect();
    let method = match (methods.contains(&Method::Paired), methods.contains(&Method::Welch)) {
        (true, true) => "of pairs of equal seed if both sides are of the lab, else Welch's",
        (true, false) => "of pairs of equal seed",
        _ => "Welch's; up to 20 trials per side, a permutation test must agree",
    };
    format!("new over base, with the 95 % t interval of the logarithms ({method}); n trials")
}

/// The meaning of the verdict "undecided".
const UNDECIDED: &str = "the interval allows more than one verdict; more seeds narrow it";

/// The meaning of the verdicts "same", "faster" and "slower" with a threshold.
fn same_meaning(threshold: f64) -> String {
    let [limit, default] = [threshold, DEFAULT_THRESHOLD]
        .map(|threshold| change(1.0 + threshold).trim_start_matches('+').to_string());
    format!(
        "the whole interval is within ±{limit} (--threshold, by default {default}); faster, slower: it reaches beyond \
         that and excludes 0 %, and adj. p is below 0.05"
    )
}

/// The meaning of the verdicts and the marks, by name.
pub fn legend(compared: &Compared) -> Vec<(String, String)> {
    let mut lines: Vec<(String, String)> = Vec::new();
    let mut add = |name: &str, meaning: &str| {
        if !lines.iter().any(|(known, _)| known == name) {
            lines.push((name.into(), meaning.into()));
        }
    };
    add("same", &same_meaning(compared.threshold));
    for (seen, meaning) in [(Verdict::Undecided, UNDECIDED), (Verdict::WithinError, WITHIN_ERROR)] {
        if compared.count(seen) > 0 {
            add(verdict(seen), meaning);
        }
    }
    let notes = compared.rows.iter().filter_map(|row| row.comparison?.note()?.split_once(": "));
    notes.for_each(|(name, meaning)| add(name, meaning));
    let marks = compared.rows.iter().flat_map(|row| &row.marks);
    for mark in marks {
        match mark {
            Mark::ByReturned => add(
                "by returned",
                "the time to durable is unknown for some trial, so the time to returned is compared",
            ),
            Mark::TimePerOperation => add(
                "time per operation",
                "the phase has a time limit, so the time per operation is compared",
            ),
            Mark::BySpace => add(
                "by space",
                "the file systems were filled, so the device space per file is compared, geometric mean: \
                 slower is more space, faster is less",
            ),
            Mark::NoRatio => add("no ratio", "a value is zero or was not measured"),
            Mark::NoVerdict => add(
                "no verdict",
                "something other than the requested comparison was measured; see the flag of the row",
            ),
            // The comparison's own notes, added above, explain these.
            Mark::Single | Mark::Exact => {}
            Mark::Unpaired => add(
                "not paired",
                "the sides do not have two seeds in common, so they are compared as samples",
            ),
            Mark::Excluded(_) => add("left out", "trials whose seed the other side does not have"),
            Mark::WouldDecide(_) => add(
                "would decide",
                "that number of repeats would settle whether the difference exceeds the threshold, with \
                 95 % probability",
            ),
            Mark::Flag(flag) => add(flag.name(), flag.meaning()),
        }
    }
    lines
}

/// The meaning of the values of a metric.
pub fn measure(metric: Metric) -> &'static str {
    match metric {
        Metric::Durable => "time until the data had also left the drive's cache, geometric mean",
        Metric::Returned => "time until the last call returned, geometric mean",
        Metric::Cpu => "CPU time of the threads that issue the calls, geometric mean",
        Metric::P99 => "99th percentile of the latency of the phase's main op, geometric mean",
    }
}

/// The numbers of verdicts, and the largest slowdown: `1 slower, 2 faster, 4 same, 1 undecided, of 8.`
pub fn summary(compared: &Compared) -> String {
    let mut parts = Vec::new();
    for (verdict, word) in [
        (Verdict::Slower, "slower"),
        (Verdict::Faster, "faster"),
        (Verdict::Same, "same"),
        (Verdict::Undecided, "undecided"),
        (Verdict::WithinError, "within the processor model's error"),
    ] {
        let n = compared.count(verdict);
        if n > 0 {
            parts.push(format!("{n} {word}"));
        }
    }
    let total = compared.rows.len();
    let mut sentence = match parts.is_empty() {
        true => "Nothing could be compared.".into(),
        false => {
            let s = if total == 1 { "" } else { "s" };
            format!("{}, of {total} phase{s}.", parts.join(", "))
        }
    };
    let ratio = |row: &&Row| row.comparison.map_or(0.0, |comparison| comparison.ratio);
    let slower = compared.rows.iter().filter(|row| row.verdict() == Verdict::Slower);
    if let Some(worst) = slower.max_by(|a, b| ratio(a).total_cmp(&ratio(b))) {
        let (change, interval) = (effect(worst), interval(worst));
        sentence += &format!(
            " Largest slowdown: {} by {change} (95 % interval {interval}, n = {}).",
            worst.title(),
            n(worst)
        );
    }
    sentence + &compared.failure_sentence() + &new_failed(compared)
}

/// ` 1 trial of NEW failed.`, or, for steps within one result, ` 2 trials with 6.12.117 or 7.3.4 failed.`; empty if
/// none of a new side failed.
fn new_failed(compared: &Compared) -> String {
    let is_of_new = |trial: &&Unfinished| trial.failed && trial.side == Side::New;
    let failed: Vec<&Unfinished> = compared.unfinished.iter().filter(is_of_new).collect();
    if failed.is_empty() {
        return String::new();
    }
    let place = match compared.axis_key {
        None => format!(" of {}", Side::New.name()),
        Some(_) => {
            let mut values: Vec<&str> = Vec::new();
            for value in failed.iter().filter_map(|trial| trial.value.as_deref()) {
                if !values.contains(&value) {
                    values.push(value);
                }
            }
            let are_known = failed.iter().all(|trial| trial.value.is_some());
            if are_known { format!(" with {}", values.join(" or ")) } else { String::new() }
        }
    };
    format!(" {}{place} failed.", number::counted(failed.len(), "trial"))
}

/// A difference as text: `kernel: 6.1 -> 6.12 (in ext4)`.
pub fn difference(difference: &Difference) -> String {
    let Difference { what, base, new, cells } = difference;
    let place = match cells.as_slice() {
        [] => String::new(),
        cells => format!(" (in {})", cells.join("; ")),
    };
    format!("{what}: {base} -> {new}{place}")
}

/// The text for an unmatched cell or phase: `only in BASE: dirops on xfs`, or, for steps within one result, `without a
/// neighbour: dirops on xfs, 6.1.0-56-amd64`.
pub fn unmatched_item(compared: &Compared, item: &Unmatched) -> String {
    match compared.axis_key {
        Some(_) => format!("without a neighbour: {}", item.name),
        None => format!("only in {}: {}", item.side.name(), item.name),
    }
}

/// All cells and phases without a match.
pub fn unmatched(compared: &Compared) -> Vec<String> {
    compared.unmatched.iter().map(|item| unmatched_item(compared, item)).collect()
}

/// The introduction to steps: `2 steps by kernel: base is the value before the arrow, new the one after it.` Each
/// heading of the table is a step, so a change of kernel is one step for each cell.
pub fn steps(axis: &str, compared: &Compared) -> String {
    let of_steps = compared.rows.iter().filter(|row| row.step.is_some());
    let steps: BTreeSet<String> = of_steps.map(Row::group).collect();
    let n = number::counted(steps.len(), "step");
    format!("{n} by {axis}: base is the value before the arrow, new the one after it.")
}

/// The meaning of the instructions of explained steps.
pub const COUNTED: &str = "instructions per op (instr/op) of the threads that make the calls, counted in one trial of each side";

/// The function with most of the difference: `+280 of them in btrfs_foo`, or `no single function accounts for it`.
pub fn source(step: &ExplainedStep) -> String {
    let source = step.source.as_ref();
    source
        .map_or("no single function accounts for it".into(), |source| sanitize(&source.to_string()))
}

/// The explanation of a step: `instructions per op 100 -> 130, +30 of them in btrfs_foo`.
pub fn explained(step: &ExplainedStep) -> String {
    format!("instructions per op {:.0} -> {:.0}, {}", step.base, step.new, source(step))
}

/// The sentence that replaces the list if there are no other differences.
pub fn nothing_else(compared: &Compared) -> &'static str {
    match compared.axis_key {
        Some(_) => "Nothing else differs: tools, features and settings are the same.",
        None => "Nothing else differs: kernel, tools, disk and lab are the same.",
    }
}

/// `failed in NEW`, or, for steps within one result, `failed with 6.12.117`.
pub fn outcome(compared: &Compared, trial: &Unfinished) -> String {
    let outcome = if trial.failed { "failed" } else { "skipped" };
    match (compared.axis_key, &trial.value) {
        (None, _) => format!("{outcome} in {}", trial.side.name()),
        (Some(_), Some(value)) => format!("{outcome} with {value}"),
        (Some(_), None) => outcome.into(),
    }
}

/// Failed and skipped trials, with one line for all trials of the same cell and reason.
pub fn unfinished(compared: &Compared) -> Vec<String> {
    let mut groups: Vec<(String, &str, Vec<String>)> = Vec::new();
    for trial in &compared.unfinished {
        let what = format!("{}: {}", outcome(compared, trial), trial.cell);
        let seed = trial.seed.to_string();
        match groups.iter_mut().find(|group| group.0 == what && group.1 == trial.reason) {
            Some(group) => group.2.push(seed),
            None => groups.push((what, &trial.reason, vec![seed])),
        }
    }
    let line = |(what, reason, seeds): (String, &str, Vec<String>)| {
        let s = if seeds.len() == 1 { "" } else { "s" };
        let reason = sanitize(&reason.replace('\n', " "));
        format!("{what}, seed{s} {}: {reason}", seeds.join(", "))
    };
    groups.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_keeps_its_sign_and_is_never_shown_as_zero() {
        let shown =
            [1.0, 1.1234, 0.96, 1.004, 1.00042, 1.000_000_1, 0.999_999_9, 2.314, 23.14, 0.0432]
                .map(change);
        let expected = [
            "0 %",
            "+12.3 %",
            "-4.0 %",
            "+0.40 %",
            "+0.042 %",
            "<+0.001 %",
            ">-0.001 %",
            "x2.31",
            "x23.1",
            "-95.7 %",
        ];
        assert_eq!(shown, expected);
    }
}
