//! Young against aged: rows of a phase that differ in the age of their file system and in nothing else.

use fsdyno_record::plan::Plan;
use fsdyno_stats::compare::{Comparison, Verdict};

use super::bars::{self, Bar, Bars, Part, Tone};
use super::colour::Looks;
use super::figure::{Figure, drawn, n_of};
use super::scale::Unit;
use super::table::Table;
use crate::against;
use crate::number;
use crate::view::{Row, Section};

/// A fresh file system's row and an aged one's.
struct Pair<'s, 'a> {
    young: &'s Row<'a>,
    aged: &'s Row<'a>,
    /// Times of the aged one over those of the young one.
    comparison: Option<Comparison>,
}

/// The figure; none where nothing aged has its fresh counterpart.
pub fn figure(section: &Section<'_>, looks: &Looks) -> Option<Figure> {
    let pairs = pairs(section);
    if pairs.is_empty() {
        return None;
    }
    let mut bars: Vec<Bar> = Vec::new();
    let mut before: Option<&Row<'_>> = None;
    for pair in &pairs {
        // Several ages of one file system share their fresh one.
        if !before.is_some_and(|row| std::ptr::eq(row, pair.young)) {
            bars.push(bar(section, pair.young, String::new(), looks));
        }
        bars.push(bar(section, pair.aged, told(pair.comparison.as_ref()), looks));
        before = Some(pair.young);
    }
    let all = bars.len();
    let chart = bars::draw(&Bars {
        title: format!("{}: young against aged", section.title()),
        unit: Unit::Seconds,
        bars,
        key: Vec::new(),
    });
    let rows = pairs.iter().flat_map(|pair| [pair.young, pair.aged]);
    let note = format!(
        "Pairs that differ in nothing but age; the ratio is that of the aged one's time, ~ where these \
         trials do not tell the two apart; {}{}.",
        n_of(rows.map(|row| row.returned.n)),
        drawn(bars::MOST, all)
    );
    let table = table(section, &pairs, looks);
    Some(Figure { slug: "age", title: "Young against aged".into(), note, chart, table })
}

fn pairs<'s, 'a>(section: &'s Section<'a>) -> Vec<Pair<'s, 'a>> {
    let plan = |row: &'s Row<'a>| row.trials.first().map(|(trial, _)| (&trial.plan, &trial.lab_id));
    let age = |row: &'s Row<'a>| plan(row).and_then(|(plan, _)| plan.age());
    let ageless = |row: &'s Row<'a>| plan(row).map(|(plan, lab)| (without_age(plan), lab));
    let old = section.rows.iter().filter(|row| age(row).is_some());
    let old: Vec<_> = old.map(|row| (row, ageless(row))).collect();
    if old.is_empty() {
        return Vec::new();
    }
    let mut pairs = Vec::new();
    for young in section.rows.iter().filter(|row| age(row).is_none()) {
        let own = ageless(young);
        for (aged, _) in old.iter().filter(|(_, of)| *of == own) {
            let comparison = against::compare(young, aged, section.by_durable);
            pairs.push(Pair { young, aged, comparison });
        }
    }
    pairs
}

/// The plan of the same trial on a fresh file system; labels may differ, for they name the age.
fn without_age(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    plan.hash.clear();
    plan.label.clear();
    if let Some(filesystem) = &mut plan.filesystem {
        filesystem.age = None;
    }
    plan
}

/// `, 1.30x as long`.
fn told(comparison: Option<&Comparison>) -> String {
    let Some(comparison) = comparison else { return String::new() };
    let open = if comparison.verdict == Verdict::Unknown { "~ " } else { "" };
    format!(", {open}{}", number::relative(comparison.ratio))
}

fn bar(section: &Section<'_>, row: &Row<'_>, ratio: String, looks: &Looks) -> Bar {
    let time = row.time(section.by_durable);
    Bar {
        name: row.name.clone(),
        look: looks.get(row),
        value: number::seconds(time.mean) + &ratio,
        parts: vec![Part { length: time.mean, tone: Tone::Full }],
        interval: time.interval(),
        beneath: None,
    }
}

fn table(section: &Section<'_>, pairs: &[Pair<'_, '_>], looks: &Looks) -> Table {
    let heads = ["<aged", "<young", "n", "aged", "young", "ratio", "95 % interval"];
    let time = if section.by_durable { "durable" } else { "returned" };
    let caption = format!("Time to {time}; ratios are of geometric means");
    let mut table = Table::new(caption, &heads);
    for Pair { young, aged, comparison } in pairs {
        let mean = |row: &Row<'_>| number::seconds(row.time(section.by_durable).mean);
        let ratio = comparison.as_ref().map(|of| number::relative(of.ratio));
        let interval = comparison.as_ref().and_then(|of| of.interval);
        let cells = vec![
            aged.name.clone(),
            young.name.clone(),
            n_of([aged.returned.n, young.returned.n].into_iter()).replace("n = ", ""),
            mean(aged),
            mean(young),
            ratio.unwrap_or_else(|| "–".into()),
            interval.map_or("–".into(), super::overview::interval),
        ];
        table.row(looks.get(aged), cells);
    }
    table.without_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fixture, view};
    use fsdyno_record::Nanos;

    #[test]
    fn an_aged_row_stands_beside_its_fresh_one_with_their_ratio() {
        let trials = fixture::young_and_aged();
        let sections = view::sections(&trials, None);
        let section = &sections[0];
        let looks = Looks::of(&section.rows);
        let figure = figure(section, &looks).unwrap();
        assert_eq!(figure.table.rows.len(), 3, "{:?}", figure.table.rows);
        let cells = &figure.table.rows[0].cells;
        assert!(cells[0].contains("aged 80% churn 2") && cells[1].contains("fresh"), "{cells:?}");
        assert!(figure.chart.inline("a").contains("x</text>"), "the ratio is told");
    }

    #[test]
    fn what_differs_in_more_than_age_makes_no_pair() {
        let mut trials = fixture::young_and_aged();
        for trial in trials.iter_mut().filter(|trial| trial.plan.age().is_some()) {
            trial.plan.threads = 7;
            trial.measured.phases.iter_mut().for_each(|phase| phase.returned_ns = Nanos(5));
        }
        let sections = view::sections(&trials, None);
        assert!(figure(&sections[0], &Looks::of(&sections[0].rows)).is_none());
    }
}
