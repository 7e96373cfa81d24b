//! The overview: every phase of every workload, each file system's time as a ratio with its interval.

use super::chart::{AXIS, Anchor, Chart, percent, truncate};
use super::colour::{Appearance, Appearances};
use super::figure::{Figure, n_text};
use super::scale::{Scale, Unit};
use crate::measure::Measure;
use crate::model::Significance;
use crate::model::{Row, Section};
use crate::number;
use crate::table::Table;

/// The ratio above which the axis becomes logarithmic.
const MAX_LINEAR_RATIO: f64 = 5.0;

/// The multiple of the farthest ratio at which intervals are clipped.
const MAX_CLIP_FACTOR: f64 = 1.5;

/// The maximum number of rows with names next to their dots; with more, only the table has names.
const MAX_NAMED: usize = 40;

/// The position of the names of dots.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NamePlacement {
    /// Next to them, if all of them fit there.
    Side,
    /// On a line above them.
    Above,
    /// Only in the table; the dots of a phase share a line.
    TableOnly,
}

impl NamePlacement {
    fn of(phases: &[Phase], axis: &Axis) -> NamePlacement {
        let dots = || phases.iter().flat_map(|phase| &phase.dots);
        if dots().count() > MAX_NAMED {
            NamePlacement::TableOnly
        } else if dots().all(|dot| side_position(dot, axis).is_some()) {
            NamePlacement::Side
        } else {
            NamePlacement::Above
        }
    }

    /// The height of the rows of this number of dots.
    fn height(self, dots: usize) -> f64 {
        match self {
            NamePlacement::Side => ROW_HEIGHT * dots as f64,
            NamePlacement::Above => TALL_ROW_HEIGHT * dots as f64,
            NamePlacement::TableOnly => STRIP_HEIGHT,
        }
    }

    /// The vertical middle of a dot within those rows.
    fn middle(self, index: usize) -> f64 {
        match self {
            NamePlacement::Side => ROW_HEIGHT * index as f64 + ROW_HEIGHT / 2.0,
            NamePlacement::Above => TALL_ROW_HEIGHT * index as f64 + TALL_ROW_HEIGHT - 8.0,
            NamePlacement::TableOnly => STRIP_HEIGHT / 2.0,
        }
    }
}

/// The minimum width of a chart and the maximum width of a character, in pixels.
const MIN_CHART_WIDTH: f64 = 308.0;
const CHAR_WIDTH: f64 = 7.2;

/// The maximum number of phases in an overview.
const MAX_PHASES: usize = 24;

const TITLE_HEIGHT: f64 = 22.0;
const ROW_HEIGHT: f64 = 18.0;
const TALL_ROW_HEIGHT: f64 = 32.0;
const STRIP_HEIGHT: f64 = 20.0;
const PHASE_GAP: f64 = 12.0;

/// One dot.
struct Dot {
    name: String,
    appearance: Appearance,
    n: usize,
    /// True if all others are compared with it.
    base: bool,
    ratio: f64,
    interval: Option<(f64, f64)>,
    /// True if its ratio is significant, as in the tables.
    significant: bool,
    /// Its value and its verdict, as text.
    measured: String,
    verdict: &'static str,
}

/// A phase with its dots.
struct Phase {
    title: String,
    dots: Vec<Dot>,
}

/// The figure, or `None` if nothing is compared.
pub fn figure(sections: &[Section<'_>], appearances: &Appearances) -> Option<Figure> {
    let phases: Vec<Phase> =
        sections.iter().filter_map(|section| phase(section, appearances)).collect();
    let versus = sections.first()?.versus.clone();
    if phases.is_empty() {
        return None;
    }
    let shown = &phases[..phases.len().min(MAX_PHASES)];
    let dots = || shown.iter().flat_map(|phase| &phase.dots);
    let axis = Axis::of_dots(dots());
    let chart = chart(shown, &axis, &versus);
    let hidden = phases.len() - shown.len();
    let more =
        if hidden > 0 { format!(" {hidden} more phases follow below.") } else { String::new() };
    let base = if versus == "best" { "the best of its phase" } else { &versus };
    let ratios = || sections.iter().flat_map(|section| &section.rows).filter_map(|row| row.ratio);
    let note = match dots().any(|dot| dot.n > 1) {
        true if ratios().any(|ratio| ratio.significance == Significance::WithinError) => {
            " Filled: significant; hollow: no difference that matters, undecided, or within the processor model's error."
        }
        true => " Filled: significant; hollow: no difference that matters, or undecided.",
        false => " Hollow: one trial each, so no test.",
    };
    let filled = sections.iter().filter(|section| section.measure == Measure::Space).count();
    let (measure, left_is) = match filled {
        0 => ("Time", "faster"),
        all if all == sections.len() => ("Device space per file", "less space"),
        _ => ("Time (device space per file, if file systems were filled)", "better"),
    };
    let note = format!(
        "{measure} relative to {base}, with 95 % intervals; further left is {left_is}.{note} {}; {}.{more}",
        axis.words(),
        n_text(dots().map(|dot| dot.n))
    );
    let table = table(&phases, &versus, if filled == 0 { "time" } else { "measured" });
    Some(Figure { slug: "overview", title: "Overview".into(), note, chart, table })
}

fn phase<'s>(section: &'s Section<'_>, appearances: &Appearances) -> Option<Phase> {
    let dot = |row: &'s Row<'_>| {
        // A row without a ratio in the table (no calls, a time of zero) has no dot.
        let ratio = row.ratio?;
        let comparison = row.comparison;
        Some(Dot {
            name: row.marked_name(),
            appearance: appearances.get(row),
            // For pairs, n is the number of pairs.
            n: comparison.map_or(row.returned.n, |comparison| comparison.n),
            base: comparison.is_none(),
            ratio: ratio.value,
            interval: comparison.and_then(|comparison| comparison.interval),
            significant: comparison.is_some_and(|comparison| comparison.n > 1)
                && ratio.significance == Significance::Plain,
            measured: section.measure.format(row.measured.mean),
            verdict: comparison
                .map_or("", |comparison| section.measure.verdict(comparison.verdict)),
        })
    };
    let dots: Vec<Dot> = section.rows.iter().filter_map(dot).collect();
    (dots.len() > 1).then(|| Phase { title: section.title(), dots })
}

/// The axis of ratios: linear from zero, or logarithmic if some are far apart.
enum Axis {
    Linear(Scale),
    /// Logarithmic, with the logarithms of both ends.
    Factors(f64, f64),
}

impl Axis {
    /// Returns an axis that extends at least from zero to 1.5, or from a half to double, so that small differences
    /// look small.
    fn of_dots<'a>(dots: impl Iterator<Item = &'a Dot> + Clone) -> Axis {
        let ratios = || dots.clone().map(|dot| dot.ratio);
        let (max, min) = (ratios().fold(1.0, f64::max), ratios().fold(1.0, f64::min));
        let ends = || dots.clone().filter_map(|dot| dot.interval);
        let high = ends().map(|(_, high)| high).fold(max, f64::max).min(max * MAX_CLIP_FACTOR);
        let low = ends().map(|(low, _)| low).fold(min, f64::min).max(min / MAX_CLIP_FACTOR);
        if max <= MAX_LINEAR_RATIO {
            Axis::Linear(Scale::with_max(high.max(1.5), Unit::Ratio))
        } else {
            Axis::Factors(low.clamp(1e-9, 0.5).ln(), high.max(2.0).ln())
        }
    }

    fn at(&self, ratio: f64) -> f64 {
        match self {
            Axis::Linear(scale) => scale.at(ratio),
            Axis::Factors(low, high) => ((ratio.ln() - low) / (high - low)).clamp(0.0, 1.0),
        }
    }

    /// Returns true if a ratio is within the axis.
    fn contains_ratio(&self, ratio: f64) -> bool {
        match self {
            Axis::Linear(scale) => (0.0..=scale.end).contains(&ratio),
            Axis::Factors(low, high) => (*low..=*high).contains(&ratio.ln()),
        }
    }

    fn ticks(&self) -> Vec<(f64, String)> {
        let Axis::Factors(low, high) = self else {
            let Axis::Linear(scale) = self else { return Vec::new() };
            return scale.ticks();
        };
        // 1, 2 and 5 as long as there are few of them; then only powers of ten.
        let decades = (high - low) / std::f64::consts::LN_10;
        let digits: &[f64] = if decades < 2.5 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let every = if decades > 6.0 { 2 } else { 1 };
        let powers = (-8..=12).filter(|power| power % every == 0);
        powers
            .flat_map(|power| digits.iter().map(move |digit| digit * 10f64.powi(power)))
            .filter(|value| self.contains_ratio(*value))
            .map(|value| (self.at(value), Unit::Ratio.label(value)))
            .collect()
    }

    fn words(&self) -> &'static str {
        match self {
            Axis::Linear(_) => "The axis begins at zero",
            Axis::Factors(..) => "The axis is logarithmic",
        }
    }
}

fn chart(phases: &[Phase], axis: &Axis, versus: &str) -> Chart {
    let names = NamePlacement::of(phases, axis);
    let height = |phase: &Phase| TITLE_HEIGHT + PHASE_GAP + names.height(phase.dots.len());
    let mut chart = Chart::new(format!("Every phase: time relative to {versus}"), describe(phases));
    let bottom: f64 = phases.iter().map(height).sum();
    for (position, label) in axis.ticks() {
        chart.vertical_line(position, 0.0, bottom, &label);
    }
    let one = percent(axis.at(1.0));
    chart
        .push(format_args!(r#"<line class="one" x1="{one}" x2="{one}" y1="0" y2="{bottom:.1}"/>"#));
    let mut top = 0.0;
    for phase in phases {
        chart.text("name", 0.0, top + 15.0, Anchor::Start, &truncate(&phase.title, 32));
        for (index, dot) in phase.dots.iter().enumerate() {
            draw_dot(&mut chart, dot, axis, top + TITLE_HEIGHT + names.middle(index), names);
        }
        top += height(phase);
    }
    chart.grow(bottom + AXIS);
    chart
}

/// The label of a dot: its name and its ratio.
fn label(dot: &Dot, axis: &Axis) -> String {
    let (_, high) = dot.interval.unwrap_or((dot.ratio, dot.ratio));
    let beyond = if axis.contains_ratio(high) { "" } else { " …" };
    match dot.base {
        true => truncate(&dot.name, 38),
        false => format!("{} {}{beyond}", truncate(&dot.name, 34), number::format_ratio(dot.ratio)),
    }
}

/// The position of a dot's name next to its interval, and true if that is on the right, or `None` if the name fits on
/// neither side in the narrowest chart.
fn side_position(dot: &Dot, axis: &Axis) -> Option<(f64, bool)> {
    let (low, high) = dot.interval.unwrap_or((dot.ratio, dot.ratio));
    let (low_x, right) = (axis.at(low), axis.at(high));
    let width = label(dot, axis).chars().count() as f64 * CHAR_WIDTH + 14.0;
    match width {
        width if right * MIN_CHART_WIDTH + width < MIN_CHART_WIDTH => Some((right, true)),
        width if width < low_x * MIN_CHART_WIDTH => Some((low_x, false)),
        _ => None,
    }
}

/// Draws a dot with its interval and its name.
fn draw_dot(chart: &mut Chart, dot: &Dot, axis: &Axis, y: f64, names: NamePlacement) {
    let (x, colour) = (axis.at(dot.ratio), dot.appearance.colour);
    let (low, high) = dot.interval.unwrap_or((dot.ratio, dot.ratio));
    let (low_x, right) = (axis.at(low), axis.at(high));
    if right > low_x {
        chart.push(format_args!(
            r#"<line class="span l{colour}" x1="{}" x2="{}" y1="{y:.1}" y2="{y:.1}"/>"#,
            percent(low_x),
            percent(right)
        ));
    }
    let class = match dot.significant || dot.base {
        true => format!("f{colour}"),
        false => format!("open l{colour}"),
    };
    chart
        .push(format_args!(r#"<circle class="{class}" cx="{}" cy="{y:.1}" r="4.5"/>"#, percent(x)));
    match (names, side_position(dot, axis)) {
        (NamePlacement::TableOnly, _) => {}
        // Text is in pixels and positions are shares, so an offset from a share needs a nested drawing.
        (NamePlacement::Side, Some((x, right))) => {
            let (inner, anchor) = if right { (10, "start") } else { (-10, "end") };
            chart.push(format_args!(
                r#"<svg x="{}" overflow="visible"><text class="dotname" x="{inner}" y="{:.1}" text-anchor="{anchor}">{}</text></svg>"#,
                percent(x),
                y + 4.0,
                crate::markup::escape(&label(dot, axis))
            ));
        }
        _ => {
            chart.text("dotname", 0.0, y - 10.0, Anchor::Start, &truncate(&dot.name, 30));
            if !dot.base {
                chart.text("dotname", 1.0, y - 10.0, Anchor::End, &number::format_ratio(dot.ratio));
            }
        }
    }
}

/// The dots of each phase, as text.
fn describe(phases: &[Phase]) -> String {
    let dot = |dot: &Dot| {
        let note = if dot.significant || dot.base { "" } else { ", undecided" };
        format!("{} {}{note}", dot.name, number::format_ratio(dot.ratio))
    };
    let phase = |phase: &Phase| {
        let dots: Vec<String> = phase.dots.iter().take(MAX_NAMED).map(dot).collect();
        format!("{}: {}", phase.title, dots.join(", "))
    };
    phases.iter().map(phase).collect::<Vec<_>>().join("; ") + "."
}

/// An interval as text: `0.98x to 1.04x`.
pub fn interval((low, high): (f64, f64)) -> String {
    // A bare 1 would be read as the base itself.
    let end = |value: f64| if value == 1.0 { "1.00x".into() } else { number::format_ratio(value) };
    format!("{} to {}", end(low), end(high))
}

fn table(phases: &[Phase], versus: &str, measured: &str) -> Table {
    let versus = format!("vs {versus}");
    let heads = ["<file system", "<phase", "n", measured, &versus, "95 % interval", "<verdict"];
    let mut table = Table::new("Ratios of geometric means of n trials", &heads);
    for phase in phases {
        for dot in &phase.dots {
            let cells = vec![
                dot.name.clone(),
                phase.title.clone(),
                dot.n.to_string(),
                dot.measured.clone(),
                number::format_ratio(dot.ratio),
                dot.interval.map_or("–".into(), interval),
                dot.verdict.into(),
            ];
            table.row(dot.appearance, cells);
        }
    }
    table.without_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fixture, view};

    fn overview_of(trials: &[fsdyno_record::Trial], baseline: Option<&str>) -> Option<Figure> {
        let sections = view::sections(trials, baseline);
        let appearances = Appearances::of(sections.iter().flat_map(|section| &section.rows));
        figure(&sections, &appearances)
    }

    #[test]
    fn every_phase_has_a_dot_for_each_file_system_on_an_axis_from_zero() {
        let figure = overview_of(&fixture::trials(), Some("ext4")).unwrap();
        let svg = figure.chart.inline("o");
        assert_eq!(svg.matches("<circle").count(), 12);
        assert!(svg.contains(">0<") && svg.contains("tarball remove"));
        assert!(figure.note.contains("relative to ext4") && figure.note.contains("n = 3"));
        assert_eq!(figure.table.rows.len(), 12);
    }

    #[test]
    fn single_trials_are_hollow_without_an_interval_and_have_a_note() {
        let figure = overview_of(&fixture::single(), None).unwrap();
        let svg = figure.chart.inline("o");
        assert_eq!(svg.matches("class=\"span").count(), 0);
        assert_eq!(svg.matches("class=\"open").count(), 8, "all but the four they are measured by");
        assert!(figure.note.contains("n = 1: no interval"), "{}", figure.note);
    }

    #[test]
    fn distant_ratios_have_a_logarithmic_axis_with_a_note() {
        let mut trials = fixture::trials();
        for phase in trials[0..9].iter_mut().flat_map(|trial| {
            let slow = trial.plan.label == "xfs";
            trial.measured.phases.iter_mut().filter(move |_| slow)
        }) {
            phase.durable_ns = phase.durable_ns.map(|ns| fsdyno_record::Nanos(ns.0 * 300));
        }
        let figure = overview_of(&trials, None).unwrap();
        assert!(figure.note.contains("The axis is logarithmic"), "{}", figure.note);
        assert!(figure.chart.inline("o").contains(">100x<"), "{}", figure.chart.inline("o"));
    }

    #[test]
    fn small_differences_look_small() {
        let dot = |ratio| Dot {
            name: "a".into(),
            appearance: Appearance { colour: 0, hatch: 0 },
            n: 3,
            base: false,
            ratio,
            interval: None,
            significant: true,
            measured: String::new(),
            verdict: "",
        };
        let dots = [dot(1.0), dot(1.01)];
        let axis = Axis::of_dots(dots.iter());
        assert!(axis.at(1.01) - axis.at(1.0) < 0.01);
        let dots = [dot(1.0), dot(1.01), dot(20.0)];
        let axis = Axis::of_dots(dots.iter());
        assert!(axis.at(1.01) - axis.at(1.0) < 0.01);
    }

    #[test]
    fn a_single_file_system_has_no_overview() {
        let mut trials = fixture::trials();
        trials.retain(|trial| trial.plan.label == "xfs");
        assert!(overview_of(&trials, None).is_none());
        assert!(overview_of(&[], None).is_none());
    }
}
