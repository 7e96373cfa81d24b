//! CPU time of a phase: of the threads that issue the calls, and of kernel threads.

use std::collections::BTreeMap;

use fsdyno_record::trial::{Phase, Split};

use super::bars::{self, Bar, Bars, Part, Tone};
use super::chart::Key;
use super::colour::{Looks, NEUTRALS};
use super::figure::{Figure, drawn_note, n_of};
use super::scale::Unit;
use crate::model::{Row, Section};
use crate::number;
use crate::table::Table;

/// The label of all threads that do not have a separate tone.
const REST: &str = "other threads";

/// The figure; none if no CPU time was recorded.
pub fn figure(section: &Section<'_>, looks: &Looks) -> Option<Figure> {
    let rows = &section.rows;
    let works = works(rows);
    let kernel = !works.is_empty();
    let bars: Vec<Bar> = rows.iter().map(|row| bar(row, &works, looks)).collect();
    if bars.iter().flat_map(|bar| &bar.parts).all(|part| part.length <= 0.0) {
        return None;
    }
    let own = bars::own(rows, looks);
    let mut key = vec![
        (Key::Box(own.clone()), "calls: user".to_string()),
        (Key::Box(format!("{own} half")), "calls: kernel".to_string()),
    ];
    key.extend(
        works.iter().enumerate().map(|(at, work)| (Key::Box(format!("n{at}")), threads(work))),
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
        n_of(rows.iter().map(|row| row.returned.n)),
        drawn_note(bars::MOST, rows.len()),
        if sampled {
            " The split into user and kernel mode is an estimate by timer ticks."
        } else {
            ""
        },
    );
    let table = table(rows, &works, looks);
    Some(Figure { slug: "cpu", title: "CPU time".into(), note, chart, table })
}

/// The kinds of kernel threads, the busiest first; those beyond the available tones are merged.
fn works(rows: &[Row<'_>]) -> Vec<String> {
    let mut times: BTreeMap<&str, u64> = BTreeMap::new();
    for (work, ns) in rows.iter().flat_map(|row| &row.trials).flat_map(|(_, p)| &p.kernel_cpu_ns) {
        *times.entry(work).or_default() += ns.0;
    }
    let mut works: Vec<(&str, u64)> = times.into_iter().filter(|(_, ns)| *ns > 0).collect();
    works.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    let mut names: Vec<String> = works.iter().map(|(work, _)| number::sanitize(work)).collect();
    if names.len() > NEUTRALS {
        names.truncate(NEUTRALS - 1);
        names.push(REST.into());
    }
    names
}

/// The name of a kind of kernel thread; the kernel's pooled workers serve every subsystem.
fn threads(work: &str) -> String {
    if work == "kworker" { "kworker (pooled)".into() } else { work.to_string() }
}

/// Mean seconds in user mode, in the kernel, and of each kind of kernel thread.
fn means(row: &Row<'_>, works: &[String]) -> Vec<f64> {
    let mean = |value: &dyn Fn(&Phase) -> f64| row.mean(|phase| Some(value(phase))).unwrap_or(0.0);
    let mut means =
        vec![mean(&|phase| phase.user_ns.seconds()), mean(&|phase| phase.system_ns.seconds())];
    for work in works {
        means.push(mean(&|phase| {
            let named = phase.kernel_cpu_ns.iter().filter(|(name, _)| {
                let name = number::sanitize(name);
                if work == REST { !works.contains(&name) } else { name == *work }
            });
            named.map(|(_, ns)| ns.seconds()).sum()
        }));
    }
    means
}

fn bar(row: &Row<'_>, works: &[String], looks: &Looks) -> Bar {
    let tones = [Tone::Full, Tone::Half].into_iter().chain((0..).map(Tone::Neutral));
    let means = means(row, works);
    let whole: f64 = means.iter().sum();
    Bar {
        name: row.name.clone(),
        look: looks.get(row),
        value: number::seconds(whole),
        parts: means
            .iter()
            .zip(tones)
            .map(|(length, tone)| Part { length: *length, tone })
            .collect(),
        interval: None,
        beneath: None,
    }
}

fn table(rows: &[Row<'_>], works: &[String], looks: &Looks) -> Table {
    let mut heads = vec!["<file system", "n", "calls", "±", "user", "kernel"];
    let works_heads: Vec<String> = works.iter().map(|work| threads(work)).collect();
    heads.extend(works_heads.iter().map(String::as_str));
    let caption = "Mean CPU time; kworkers are pooled, and their work is not attributed";
    let mut table = Table::new(caption, &heads);
    for row in rows {
        let spread = row.cpu.relative_half_width();
        let spread = spread.map_or(String::new(), |half| format!("± {}", number::percent(half)));
        let calls = number::seconds(row.cpu.mean);
        let mut cells = vec![row.name.clone(), row.returned.n.to_string(), calls, spread];
        cells.extend(means(row, works).into_iter().map(number::seconds));
        table.row(looks.get(row), cells);
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
                (1..=6).map(|n| (format!("work{n}"), Nanos(n * 1_000_000))).collect();
        }
        let sections = view::sections(&trials, None);
        let rows = &sections[0].rows;
        let works = works(rows);
        assert_eq!(works, ["work6", "work5", "work4", REST]);
        let means = means(&rows[0], &works);
        let milli: Vec<f64> = means[2..].iter().map(|s| (s * 1e3).round()).collect();
        assert_eq!(milli, [6.0, 5.0, 4.0, 6.0]);
    }

    #[test]
    fn the_split_by_ticks_is_called_an_estimate_and_no_time_has_no_chart() {
        let mut trials = fixture::trials();
        let of = |trials: &[fsdyno_record::Trial]| {
            let sections = view::sections(trials, None);
            let looks = Looks::of(sections.iter().flat_map(|section| &section.rows));
            figure(&sections[0], &looks)
        };
        assert!(of(&trials).unwrap().note.contains("estimate"));
        for phase in trials.iter_mut().flat_map(|trial| &mut trial.measured.phases) {
            (phase.user_ns, phase.system_ns) = (Nanos(0), Nanos(0));
            phase.kernel_cpu_ns.clear();
        }
        assert!(of(&trials).is_none());
    }
}
