//! A phase over time: rate of ops, dirty data, data under write-back, and data written to the device.

use std::collections::BTreeMap;

use fsdyno_record::series::PhaseSeries;
use fsdyno_record::trial::Outcome;
use fsdyno_record::{Bytes, Trial};

use super::chart::{AXIS, Anchor, Chart, Key};
use super::colour::{Appearance, Appearances};
use super::figure::{Figure, drawn_note};
use super::latency::MAX_LINES;
use super::scale::{Scale, Unit};
use crate::model::Section;
use crate::number;
use crate::run::Run;
use crate::series::Index;
use crate::table::Table;

/// Heights of the panel of ops and of each panel below it, and the gap between two panels.
const OPS_HEIGHT: f64 = 120.0;
const PANEL_HEIGHT: f64 = 72.0;
const PANEL_GAP: f64 = 10.0;

/// Space for a panel's name, and for its highest tick below it.
const NAME_HEIGHT: f64 = 36.0;

/// The largest number of steps drawn for a line; more are merged.
const MAX_STEPS: usize = 120;

/// The trials whose series the page may draw: for each possible row, the one with the lowest seed.
pub fn drawn_trials(trials: &[Trial]) -> Vec<&Trial> {
    let mut firsts: BTreeMap<_, &Trial> = BTreeMap::new();
    for trial in trials.iter().filter(|trial| trial.outcome == Outcome::Ok) {
        let environment = (&trial.conditions.kernel, &trial.conditions.cpu);
        let row = (&trial.plan.hash, &trial.plan.label, &trial.lab_id, environment);
        let first = firsts.entry(row).or_insert(trial);
        if trial.seed < first.seed {
            *first = trial;
        }
    }
    firsts.into_values().collect()
}

/// A row's series in one phase.
struct DrawnRow<'a> {
    name: &'a str,
    appearance: Appearance,
    seed: u64,
    series: &'a PhaseSeries,
    /// Seconds from the first op to the end of the phase.
    length: f64,
}

impl DrawnRow<'_> {
    /// The end of interval `index`, in seconds.
    fn end(&self, index: usize) -> f64 {
        self.series.end(index).seconds()
    }

    /// Ops per second in each interval, with the interval's end. A last interval less than half as
    /// long as the others is merged with the previous one: a rate over a very short time means nothing.
    fn rates(&self) -> Vec<(f64, f64)> {
        self.per_second(&self.series.ops)
    }

    fn per_second(&self, counts: &[u64]) -> Vec<(f64, f64)> {
        let interval = self.series.interval_ns.seconds();
        let mut rates: Vec<(f64, f64)> = Vec::new();
        for (index, n) in counts.iter().enumerate() {
            let end = self.end(index);
            let length = end - index as f64 * interval;
            match (index.checked_sub(1), rates.last_mut()) {
                (Some(previous), Some(last)) if length < interval / 2.0 => {
                    *last = (end, (counts[previous] + n) as f64 / (interval + length.max(0.0)));
                }
                _ => rates.push((end, *n as f64 / length)),
            }
        }
        rates.retain(|(_, rate)| rate.is_finite());
        rates
    }

    /// Bytes at the end of each interval, with the interval's end.
    fn bytes(&self, values: &[u64]) -> Vec<(f64, f64)> {
        values.iter().enumerate().map(|(index, bytes)| (self.end(index), *bytes as f64)).collect()
    }
}

/// The figure of the lowest seed of each row, or `None` if nothing was recorded over time.
pub fn figure(
    section: &Section<'_>,
    appearances: &Appearances,
    series: &Index<'_>,
) -> Option<Figure> {
    let rows = section.rows.iter().filter_map(|row| {
        let (trial, phase) = row.trials.first()?;
        let trial_series = series.get(trial)?;
        let series = trial_series.phases.iter().find(|series| series.name == phase.name)?;
        let length = series.length_ns.seconds();
        let (name, appearance, seed) = (row.name.as_str(), appearances.get(row), trial.seed);
        (length > 0.0).then_some(DrawnRow { name, appearance, seed, series, length })
    });
    let rows: Vec<DrawnRow<'_>> = rows.collect();
    let first = rows.first()?;
    let seeds = match rows.iter().all(|row| row.seed == first.seed) {
        true => format!("seed {} only", first.seed),
        false => "only the first seed of each row".to_string(),
    };
    let note = format!(
        "From the first op {}; {seeds}, n = 1{}. Every value is in \
         series.ndjson.",
        describe_end(section),
        drawn_note(MAX_LINES, rows.len())
    );
    let chart = chart(&format!("{}: over time", section.title()), &rows);
    Some(Figure { slug: "over-time", title: "Over time".into(), note, chart, table: table(&rows) })
}

/// Describes the end of the series of a phase: durable, or the last known time.
fn describe_end(section: &Section<'_>) -> &'static str {
    let first_runs = || section.rows.iter().filter_map(|row| row.trials.first());
    let end = |(_, phase): &Run<'_>| match (phase.durable_ns, phase.synced_ns) {
        (Some(_), _) => "until the data was durable",
        (None, Some(_)) => "until the data was synced (durable is unknown)",
        (None, None) => "until the last call returned (durable is unknown)",
    };
    let mut ends = first_runs().map(end);
    let Some(first) = ends.next() else { return "to the end of the phase" };
    if ends.all(|end| end == first) {
        first
    } else {
        "until the data was durable, or until the last known time"
    }
}

/// Seconds and values.
type Line = Vec<(f64, f64)>;

/// A panel of the chart: its name, its unit and its line.
type Panel = (&'static str, Unit, fn(&DrawnRow<'_>) -> Line);

const PANELS: [Panel; 4] = [
    ("ops per second", Unit::Rate, |row| row.rates()),
    ("dirty in the page cache", Unit::Bytes, |row| row.bytes(&row.series.dirty_bytes)),
    ("under write-back", Unit::Bytes, |row| row.bytes(&row.series.writeback_bytes)),
    ("written to the device", Unit::ByteRate, |row| {
        row.per_second(&row.series.device_written_bytes)
    }),
];

fn chart(title: &str, rows: &[DrawnRow<'_>]) -> Chart {
    let rows = &rows[..rows.len().min(MAX_LINES)];
    let descriptions = rows.iter().map(|row| format!("{}: {}", row.name, describe(row)));
    let mut chart = Chart::new(title, descriptions.collect::<Vec<_>>().join("; ") + ".");
    let key: Vec<(Key, String)> =
        rows.iter().map(|row| (Key::Line(row.appearance), row.name.to_string())).collect();
    chart.key(&key);
    let longest = rows.iter().map(|row| row.length).fold(0.0, f64::max);
    let time = Scale::with_max(longest, Unit::Seconds);
    let panels: Vec<(&Panel, Vec<Line>)> = PANELS
        .iter()
        .map(|panel| (panel, rows.iter().map(panel.2).collect::<Vec<Line>>()))
        .filter(|(_, lines)| lines.iter().any(|line| !line.is_empty()))
        .collect();
    for (index, ((name, unit, _), lines)) in panels.iter().enumerate() {
        let height = if index == 0 { OPS_HEIGHT } else { PANEL_HEIGHT };
        chart.grow(NAME_HEIGHT);
        let top = chart.height();
        chart.text("name", 0.0, top - 20.0, Anchor::Start, name);
        let max = lines.iter().flatten().map(|(_, value)| *value).fold(0.0, f64::max);
        let scale = Scale::with_max(max, *unit);
        let last = index + 1 == panels.len();
        for (position, label) in time.ticks() {
            let label = if last { label } else { String::new() };
            chart.vertical_line(position, top, top + height, &label);
        }
        let ticks = scale.ticks();
        let (zero, highest) = (0, ticks.len() - 1);
        for (position, label) in [&ticks[zero], &ticks[highest]] {
            chart.horizontal_line(
                top + height * (1.0 - position),
                if *position > 0.0 { label } else { "" },
            );
        }
        let stepped = matches!(unit, Unit::Rate | Unit::ByteRate);
        let paths: Vec<(Appearance, String)> = rows
            .iter()
            .zip(lines)
            .filter(|(_, line)| !line.is_empty())
            .map(|(row, line)| (row.appearance, path(line, stepped, height, &time, &scale)))
            .collect();
        chart.paths(top, height, &paths);
        chart.grow(height + if last { AXIS } else { PANEL_GAP });
    }
    chart
}

/// The SVG path of a line: steps for rates, straight lines between readings.
fn path(line: &[(f64, f64)], stepped: bool, height: f64, time: &Scale, scale: &Scale) -> String {
    let x_of = |seconds: f64| (time.at(seconds) * 1000.0).round();
    let y_of = |value: f64| ((1.0 - scale.at(value)) * height * 10.0).round() / 10.0;
    let steps_per_group = line.len().div_ceil(MAX_STEPS).max(1);
    let mut path = String::new();
    for group in line.chunks(steps_per_group) {
        let Some((end, last)) = group.last() else { continue };
        // If several intervals share a step, their rates are averaged; of readings, the last one is drawn.
        let mean = group.iter().map(|(_, value)| value).sum::<f64>() / group.len() as f64;
        let (x, y) = (x_of(*end), y_of(if stepped { mean } else { *last }));
        path.push_str(&match (path.is_empty(), stepped) {
            (true, true) => format!("M0 {y}H{x}"),
            (true, false) => format!("M{x} {y}"),
            (false, true) => format!("V{y}H{x}"),
            (false, false) => format!("L{x} {y}"),
        });
    }
    path
}

fn peak(values: &[u64]) -> Option<String> {
    values.iter().max().map(|bytes| Bytes(*bytes).to_string())
}

fn describe(row: &DrawnRow<'_>) -> String {
    let rates = row.rates();
    let highest = rates.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    let dirty = peak(&row.series.dirty_bytes).map(|peak| format!(", at most {peak} dirty"));
    format!(
        "at most {} ops per second{}",
        number::format_scaled(highest),
        dirty.unwrap_or_default()
    )
}

/// A summary of the lines: all their values would make an unreadable table.
fn table(rows: &[DrawnRow<'_>]) -> Table {
    let heads = [
        "<file system",
        "seed",
        "intervals",
        "interval length",
        "min ops/s",
        "median ops/s",
        "max ops/s",
        "max dirty",
        "max under write-back",
        "written to device",
    ];
    let mut table = Table::new("One seed over time", &heads);
    for row in rows {
        let mut rates: Vec<f64> = row.rates().into_iter().map(|(_, rate)| rate).collect();
        rates.sort_by(f64::total_cmp);
        let rate = |index: usize| {
            rates.get(index).map_or("–".into(), |rate| number::format_scaled(*rate))
        };
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "–".into());
        let written = &row.series.device_written_bytes;
        let written = (!written.is_empty()).then(|| Bytes(written.iter().sum()).to_string());
        let cells = vec![
            row.name.to_string(),
            row.seed.to_string(),
            row.series.ops.len().to_string(),
            row.series.interval_ns.to_string(),
            rate(0),
            rate(rates.len() / 2),
            rate(rates.len().saturating_sub(1)),
            or_dash(peak(&row.series.dirty_bytes)),
            or_dash(peak(&row.series.writeback_bytes)),
            or_dash(written),
        ];
        table.row(row.appearance, cells);
    }
    table.without_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fixture, view};
    use fsdyno_record::Nanos;

    #[test]
    fn the_first_seed_of_each_row_is_drawn_with_all_that_was_recorded() {
        let trials = fixture::trials();
        let series = fixture::series(&trials);
        let sections = view::sections(&trials, None);
        let appearances = Appearances::of(sections.iter().flat_map(|section| &section.rows));
        let figure = figure(&sections[0], &appearances, &Index::of(&series)).unwrap();
        let svg = figure.chart.inline("a");
        for panel in PANELS {
            assert!(svg.contains(panel.0), "{}", panel.0);
        }
        assert_eq!(svg.matches("<path").count(), 3 + 4 * 3);
        assert!(figure.note.contains("seed 1 only"), "{}", figure.note);
        assert_eq!(figure.table.rows.len(), 3);
    }

    #[test]
    fn the_note_names_the_end_of_the_phase() {
        let note = |change: fn(&mut fsdyno_record::trial::Phase)| {
            let mut trials = fixture::trials();
            trials.iter_mut().flat_map(|trial| &mut trial.measured.phases).for_each(change);
            let series = fixture::series(&trials);
            let sections = view::sections(&trials, None);
            let appearances = Appearances::of(sections.iter().flat_map(|section| &section.rows));
            figure(&sections[0], &appearances, &Index::of(&series)).unwrap().note
        };
        assert!(note(|_| {}).contains("first op until the data was durable; "));
        let synced = note(|phase| (phase.durable_ns, phase.synced_ns) = (None, Some(Nanos(9))));
        assert!(synced.contains("until the data was synced (durable is unknown)"), "{synced}");
        let returned = note(|phase| (phase.durable_ns, phase.synced_ns) = (None, None));
        assert!(returned.contains("until the last call returned"), "{returned}");
    }

    #[test]
    fn the_lowest_seed_of_each_row_is_drawn_and_other_series_are_not_needed() {
        let mut trials = fixture::trials();
        trials.reverse();
        let drawn = drawn_trials(&trials);
        assert_eq!((drawn.len(), drawn.iter().all(|trial| trial.seed == 1)), (6, true));
    }

    #[test]
    fn without_series_there_is_no_figure_and_unknown_values_are_not_drawn() {
        let trials = fixture::trials();
        let mut series = fixture::series(&trials);
        let sections = view::sections(&trials, None);
        let appearances = Appearances::of(sections.iter().flat_map(|section| &section.rows));
        assert!(figure(&sections[0], &appearances, &Index::of(&[])).is_none());
        for phase in series.iter_mut().flat_map(|one| &mut one.phases) {
            phase.writeback_bytes.clear();
        }
        let figure = figure(&sections[0], &appearances, &Index::of(&series)).unwrap();
        assert!(!figure.chart.inline("a").contains("under write-back"));
    }

    #[test]
    fn a_short_last_interval_has_no_separate_rate() {
        let series = |length_ns| PhaseSeries {
            interval_ns: Nanos(1_000_000_000),
            length_ns,
            ops: vec![100, 100, 10],
            ..PhaseSeries::default()
        };
        let appearance = Appearance { colour: 0, hatch: 0 };
        let rates = |tenths: u64| {
            let series = series(Nanos(tenths * 100_000_000));
            let length = series.length_ns.seconds();
            DrawnRow { name: "a", appearance, seed: 1, series: &series, length }.rates()
        };
        assert_eq!(rates(21), [(1.0, 100.0), (2.1, 110.0 / 1.1)]);
        assert_eq!(rates(25), [(1.0, 100.0), (2.0, 100.0), (2.5, 20.0)]);
    }

    #[test]
    fn long_series_are_drawn_in_a_bounded_number_of_steps() {
        let line: Vec<(f64, f64)> = (0..100_000).map(|n| (n as f64, 5.0)).collect();
        let (time, scale) = (Scale::with_max(1e5, Unit::Seconds), Scale::with_max(5.0, Unit::Rate));
        assert!(path(&line, true, 100.0, &time, &scale).len() < MAX_STEPS * 12);
    }
}
