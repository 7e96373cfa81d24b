//! CPU time of a phase: of the threads that issue the calls, and of kernel threads.

use std::collections::BTreeMap;

use fsdyno_record::trial::{Phase, Split};

use super::bars::{self, Bar, Bars, Part, Tone};
use super::chart::Key;
use super::colour::{Appearances, NEUTRALS};
use super::figure::{Figure, drawn_note, n_text};
use super::scale::Unit;
use crate::model::{Row, Section};
use crate::number;
use crate::table::Table;

/// The label of all threads that do not have a separate tone.
const OTHER_THREADS: &str = "other threads";

/// The figure, or `None` if no CPU time was recorded.
pub fn figure(section: &Section<'_>, appearances: &Appearances) -> Option<Figure> {
    let rows = &section.rows;
    let kinds = thread_kinds(rows);
    let kernel = !kinds.is_empty();
    let bars: Vec<Bar> = rows.iter().map(|row| bar(row, &kinds, appearances)).collect();
    if bars.iter().flat_map(|bar| &bar.parts).all(|part| part.length <= 0.0) {
        return None;
    }
    let colour = bars::key_colour(rows, appearances);
    let mut key = vec![
        (Key::Box(colour.clone()), "calls: user".to_string()),
        (Key::Box(format!("{colour} half")), "calls: kernel".to_string()),
    ];
    key.extend(
        kinds
            .iter()
            .enumerate()
            .map(|(index, kind)| (Key::Box(format!("n{index}")), kind_name(kind))),
    );
    let chart = bars::draw(&Bars {
        title: format!("{}: CPU time", section.title()),
        unit: Unit::Seconds,
        bars,
        key,
    });
    let sampled = rows.iter().flat_map(|row| &row.trials).any(|(_, p)| p.split == Split::Sampled);
    let note = format!(
        "CPU time of the threads that issue the calls{}; means, {}{}.{}",
        if kernel { " and of the kernel's own threads" } else { "" },
        n_text(rows.iter().map(|row| row.returned.n)),
        drawn_note(bars::MAX_BARS, rows.len()),
        if sampled {
            " The split into user and kernel mode is an estimate by timer ticks."
        } else {
            ""
        },
    );
    let table = table(rows, &kinds, appearances);
    Some(Figure { slug: "cpu", title: "CPU time".into(), note, chart, table })
}

/// The kinds of kernel threads, the busiest first; those beyond the available tones are merged.
fn thread_kinds(rows: &[Row<'_>]) -> Vec<String> {
    let mut times: BTreeMap<&str, u64> = BTreeMap::new();
    for (kind, ns) in rows.iter().flat_map(|row| &row.trials).flat_map(|(_, p)| &p.kernel_cpu_ns) {
        *times.entry(kind).or_default() += ns.0;
    }
    let mut kinds: Vec<(&str, u64)> = times.into_iter().filter(|(_, ns)| *ns > 0).collect();
    kinds.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    let mut names: Vec<String> = kinds.iter().map(|(kind, _)| number::sanitize(kind)).collect();
    if names.len() > NEUTRALS {
        names.truncate(NEUTRALS - 1);
        names.push(OTHER_THREADS.into());
    }
    names
}

/// The name of a kind of kernel thread; the kernel's pooled workers serve every subsystem.
fn kind_name(kind: &str) -> String {
    if kind == "kworker" { "kworker (pooled)".into() } else { kind.to_string() }
}

/// Mean seconds in user mode, in the kernel, and of each kind of kernel thread.
fn means(row: &Row<'_>, kinds: &[String]) -> Vec<f64> {
    let mean = |value: &dyn Fn(&Phase) -> f64| row.mean(|phase| Some(value(phase))).unwrap_or(0.0);
    let mut means =
        vec![mean(&|phase| phase.user_ns.seconds()), mean(&|phase| phase.system_ns.seconds())];
    for kind in kinds {
        means.push(mean(&|phase| {
            let named = phase.kernel_cpu_ns.iter().filter(|(name, _)| {
                let name = number::sanitize(name);
                if kind == OTHER_THREADS { !kinds.contains(&name) } else { name == *kind }
            });
            named.map(|(_, ns)| ns.seconds()).sum()
        }));
    }
    means
}

fn bar(row: &Row<'_>, kinds: &[String], appearances: &Appearances) -> Bar {
    let tones = [Tone::Full, Tone::Half].into_iter().chain((0..).map(Tone::Neutral));
    let means = means(row, kinds);
    let whole: f64 = means.iter().sum();
    Bar {
        name: row.name.clone(),
        appearance: appearances.get(row),
        value: number::seconds(whole),
        parts: means
            .iter()
            .zip(tones)
            .map(|(length, tone)| Part { length: *length, tone })
            .collect(),
        interval: None,
        thin_bar: None,
    }
}

fn table(rows: &[Row<'_>], kinds: &[String], appearances: &Appearances) -> Table {
    let mut heads = vec!["<file system", "n", "calls", "±", "user", "kernel"];
    let kind_heads: Vec<String> = kinds.iter().map(|kind| kind_name(kind)).collect();
    heads.extend(kind_heads.iter().map(String::as_str));
    let caption = "Mean CPU time; kworkers are pooled, and their work is not attributed";
    let mut table = Table::new(caption, &heads);
    for row in rows {
        let spread = row.cpu.relative_half_width();
        let spread = spread.map_or(String::new(), |half| format!("± {}", number::percent(half)));
        let calls = number::seconds(row.cpu.mean);
        let mut cells = vec![row.name.clone(), row.returned.n.to_string(), calls, spread];
        cells.extend(means(row, kinds).into_iter().map(number::seconds));
        table.row(appearances.get(row), cells);
    }
    table.without_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fixture, view};
    use fsdyno_record::Nanos;

    #[test]
    fn threads_beyond_the_tones_are_merged_and_none_is_lost() {
        let mut trials = fixture::single();
        for phase in trials.iter_mut().flat_map(|trial| &mut trial.measured.phases) {
            phase.kernel_cpu_ns =
                (1..=6).map(|n| (format!("kind{n}"), Nanos(n * 1_000_000))).collect();
        }
        let sections = view::sections(&trials, None);
        let rows = &sections[0].rows;
        let kinds = thread_kinds(rows);
        assert_eq!(kinds, ["kind6", "kind5", "kind4", OTHER_THREADS]);
        let means = means(&rows[0], &kinds);
        let milli: Vec<f64> = means[2..].iter().map(|s| (s * 1e3).round()).collect();
        assert_eq!(milli, [6.0, 5.0, 4.0, 6.0]);
    }

    #[test]
    fn the_split_by_ticks_is_called_an_estimate_and_without_time_there_is_no_chart() {
        let mut trials = fixture::trials();
        let chart = |trials: &[fsdyno_record::Trial]| {
            let sections = view::sections(trials, None);
            let appearances = Appearances::of(sections.iter().flat_map(|section| &section.rows));
            figure(&sections[0], &appearances)
        };
        assert!(chart(&trials).unwrap().note.contains("estimate"));
        for phase in trials.iter_mut().flat_map(|trial| &mut trial.measured.phases) {
            (phase.user_ns, phase.system_ns) = (Nanos(0), Nanos(0));
            phase.kernel_cpu_ns.clear();
        }
        assert!(chart(&trials).is_none());
    }
}
