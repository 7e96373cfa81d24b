//! The texts of the page as a whole: its title, what was compared, the answer, the trials that did not finish.

use fsdyno_record::Trial;
use fsdyno_record::trial::Outcome;

use super::budget;
use super::part::join_names;
use crate::baseline::Basis;
use crate::curve::{self, Curve};
use crate::model::{Row, Section};
use crate::table::Failure;
use crate::{answer, machines, number, subject};

/// The note on explained trials that the page has no space for, or `None` if there are none.
pub fn more_explained(count: usize) -> Option<String> {
    let verb = if count == 1 { "is" } else { "are" };
    (count > 0)
        .then(|| format!("{} {verb} in why.ndjson", number::counted(count, "more explained trial")))
}

/// The title: `dirops and tarball on ext4, xfs`, or, if machines have separate sections, `dirops on ext4, xfs: laptop,
/// pc`.
pub fn title<'r, 't: 'r>(rows: impl Iterator<Item = (&'r str, &'r Row<'t>)>) -> String {
    let mut workloads: Vec<&str> = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    let mut machines: Vec<&str> = Vec::new();
    for (workload, row) in rows {
        let machine = row.trials.first().and_then(|(trial, _)| machines::name_of(trial));
        let on = |machine: &str| workload.strip_suffix(machine)?.strip_suffix(" on ");
        let workload = match machine.and_then(|machine| Some((machine, on(machine)?))) {
            Some((machine, workload)) => {
                if !machines.contains(&machine) {
                    machines.push(machine);
                }
                workload
            }
            None => workload,
        };
        if !workloads.contains(&workload) {
            workloads.push(workload);
        }
        if !names.contains(&row.label()) {
            names.push(row.label());
        }
    }
    if names.is_empty() {
        return "No trial succeeded".into();
    }
    let workloads = match workloads.as_slice() {
        [one, other] => format!("{one} and {other}"),
        all => join_names(all, 4),
    };
    let machines = match machines.is_empty() {
        true => String::new(),
        false => format!(": {}", join_names(&machines, 4)),
    };
    number::sanitize(&format!("{workloads} on {}{machines}", join_names(&names, 6)))
}

/// A sentence on what was compared.
pub fn compared_sentence(
    trials: &[Trial],
    sections: &[Section<'_>],
    curves: &[Curve<'_>],
) -> String {
    let plural = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let count = |outcome| trials.iter().filter(|t| t.outcome == outcome).count();
    let (ok, skipped) = (count(Outcome::Ok), count(Outcome::Skipped));
    let skipped = if skipped > 0 { format!(", {skipped} skipped") } else { String::new() };
    let rows = sections.iter().map(|s| s.rows.len()).chain(curves.iter().map(|c| c.lines.len()));
    let rows = rows.max().unwrap_or(0);
    let phases = plural(sections.len() + curves.len(), "phase");
    let media = subject::media(trials);
    let media: Vec<&str> = media.iter().map(String::as_str).collect();
    format!(
        "{} of {} succeeded{skipped}: {} in {phases}, on {}.",
        ok,
        plural(trials.len(), "trial"),
        plural(rows, "row"),
        if media.len() < 4 { media.join(" and ") } else { join_names(&media, 3) }
    )
}

/// The answer: the fastest file systems, and the growth of times.
pub fn answers(sections: &[Section<'_>], curves: &[Curve<'_>], basis: Basis<'_>) -> Vec<String> {
    let mut sentences = Vec::new();
    if !sections.is_empty() {
        sentences.extend(answer::sentences(sections, basis.baseline));
    }
    sentences.extend(curves.iter().filter_map(curve::answer));
    sentences
}

/// Outcome, trial and reason of each unfinished trial; those beyond a limit are counted.
pub fn unfinished(trials: &[Trial]) -> Vec<[String; 3]> {
    let all = crate::unfinished::unfinished(trials);
    let more = all.len().saturating_sub(budget::LINES);
    let listed = all.into_iter().take(budget::LINES);
    let line = |t: Failure| [t.outcome.into(), budget::text(t.what), budget::text(t.reason)];
    let mut lines: Vec<[String; 3]> = listed.map(line).collect();
    if more > 0 {
        lines.push(["and".into(), format!("{more} more"), "they are in trials.ndjson".into()]);
    }
    lines
}
