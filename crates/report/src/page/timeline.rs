//! Timelines: each phase across kernel versions, with a line for each file system and its steps marked.

use super::budget::{self, Budget};
use super::chart::{AXIS, Anchor, Chart, percent, truncate};
use super::colour::{Appearance, Appearances};
use super::figure::{Figure, n_text};
use super::part::{Part, figure_view};
use crate::compare::{Metric, Side, change, effect, interval, n, value, verdict};
use crate::table::Table;
use crate::timeline::{Line, MIN_STEP, Timeline};

/// Height of the plot area, and of the margin above it, in pixels.
const PLOT_HEIGHT: f64 = 240.0;
const TOP_MARGIN: f64 = 18.0;

/// Positions of the first and the last version, as fractions of the width; the names of lines are right of the last.
const LEFT: f64 = 0.09;
const RIGHT: f64 = 0.84;

/// Vertical space for the name of a line.
const NAME_HEIGHT: f64 = 16.0;

/// The section with all timelines, and a sentence for each marked step, or `None` if there are no timelines or the
/// page has no space.
pub fn part(timelines: &[Timeline], budget: &mut Budget) -> Option<Part> {
    if timelines.is_empty() || !budget.next_part() {
        return None;
    }
    let id = "timeline".to_string();
    let figures = timelines.iter().enumerate();
    let mut figures = figures.filter_map(|(index, timeline)| {
        let figure = figure(timeline);
        let title = format!("{}: {}", timeline.title, timeline.measure());
        figure_view(Figure { title, ..figure }, &format!("{id}{index}"), budget)
    });
    let first = figures.next();
    let figures = figures.collect();
    let mut lines: Vec<(f64, String)> = timelines.iter().flat_map(Timeline::sentences).collect();
    lines.sort_by(|a, b| b.0.total_cmp(&a.0));
    let lines = budget::lines(lines.into_iter().map(|(_, text)| text).collect());
    let title = "From kernel to kernel".to_string();
    Some(Part { id, title, main: false, first, figures, lines, calls: None })
}

/// The figure of a timeline.
pub fn figure(timeline: &Timeline) -> Figure {
    let appearances = Appearances::of_kinds(timeline.lines.iter().map(|line| line.kind.as_str()));
    let steps = || timeline.lines.iter().flat_map(|line| &line.steps);
    let numbers = steps().filter_map(|row| Some(row.comparison?.n));
    let note = format!(
        "{}, relative to the oldest kernel of each line; geometric means. A large dot is a step of {} or more whose 95 % \
         interval does not contain 0 %, and whose p is below 0.05 after Holm's correction for all steps; {}.",
        timeline.measure(),
        change(1.0 + MIN_STEP).trim_start_matches('+'),
        n_text(numbers)
    );
    let slug = if timeline.metric == Metric::Cpu { "timeline-cpu" } else { "timeline" };
    let title = "Timeline".to_string();
    Figure {
        slug,
        title,
        note,
        chart: chart(timeline, &appearances),
        table: table(timeline, &appearances),
    }
}

/// Every step, with its interval and its verdict.
fn table(timeline: &Timeline, appearances: &[Appearance]) -> Table {
    let headers = [
        "<file system",
        "<from",
        "<to",
        "n",
        "before",
        "after",
        "change",
        "95 % interval",
        "<verdict",
    ];
    let mut table = Table::new("Each step, new over old", &headers);
    for (line, appearance) in timeline.lines.iter().zip(appearances) {
        for row in &line.steps {
            let Some(step) = &row.step else { continue };
            let verdict = verdict(row.verdict());
            let mark = if row.is_step() { format!("{verdict} *") } else { verdict.into() };
            let sides = [Side::Base, Side::New].map(|side| value(row, side));
            let [before, after] = sides;
            let mut cells = vec![line.name.clone(), step.from.clone(), step.to.clone(), n(row)];
            cells.extend([before, after, effect(row), interval(row), mark]);
            table.row(*appearance, cells);
        }
    }
    table
}

fn chart(timeline: &Timeline, appearances: &[Appearance]) -> Chart {
    let title = format!("{}: {} by kernel", timeline.title, timeline.measure());
    let sentences: Vec<String> = timeline.sentences().into_iter().map(|(_, text)| text).collect();
    let description = match sentences.is_empty() {
        true => "No step is marked.".to_string(),
        false => sentences.join(". "),
    };
    let mut chart = Chart::new(title, description);
    let ratios = || timeline.lines.iter().flat_map(|line| &line.points).map(|point| point.relative);
    let axis = RatioAxis::of_ratios(ratios());
    for (level, label) in axis.ticks() {
        chart.horizontal_line(axis.y(level), &label);
    }
    let last = timeline.versions.len().saturating_sub(1).max(1) as f64;
    let x = |index: usize| LEFT + (RIGHT - LEFT) * index as f64 / last;
    for (index, version) in timeline.versions.iter().enumerate() {
        chart.vertical_line(
            x(index),
            TOP_MARGIN + PLOT_HEIGHT,
            TOP_MARGIN + PLOT_HEIGHT + 4.0,
            &series(version),
        );
    }
    let mut ends = Vec::new();
    for (line, appearance) in timeline.lines.iter().zip(appearances) {
        let path: Vec<String> = line
            .points
            .iter()
            .map(|point| {
                format!(
                    "{:.0} {:.1}",
                    x(point.version_index) * 1000.0,
                    axis.y(point.relative) - TOP_MARGIN
                )
            })
            .collect();
        chart.paths(TOP_MARGIN, PLOT_HEIGHT, &[(*appearance, format!("M{}", path.join("L")))]);
        draw_dots(&mut chart, line, *appearance, &x, &axis);
        ends.extend(line.points.last().map(|point| (axis.y(point.relative), line.name.as_str())));
    }
    draw_names(&mut chart, ends, x(timeline.versions.len().saturating_sub(1)));
    chart.grow(TOP_MARGIN + PLOT_HEIGHT + AXIS);
    chart
}

/// Draws the dots of a line, with a large dot and its change for each marked step.
fn draw_dots(
    chart: &mut Chart,
    line: &Line,
    appearance: Appearance,
    x: &dyn Fn(usize) -> f64,
    axis: &RatioAxis,
) {
    let colour = appearance.colour;
    for point in &line.points {
        let (x_percent, y) = (percent(x(point.version_index)), axis.y(point.relative));
        chart.push(format_args!(
            r#"<circle class="f{colour}" cx="{x_percent}" cy="{y:.1}" r="2.5"/>"#
        ));
    }
    for (row, point) in line.marked() {
        let (x_percent, y) = (percent(x(point.version_index)), axis.y(point.relative));
        chart.push(format_args!(
            r#"<circle class="f{colour}" cx="{x_percent}" cy="{y:.1}" r="5.5"/>"#
        ));
        let is_increase = row.comparison.is_some_and(|comparison| comparison.ratio > 1.0);
        let text_y = if is_increase { y - 9.0 } else { y + 19.0 };
        chart.text("tick", x(point.version_index), text_y, Anchor::Middle, &effect(row));
    }
}

/// Writes the names of lines after their last points, one below the other.
fn draw_names(chart: &mut Chart, mut ends: Vec<(f64, &str)>, right: f64) {
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut next_free = 0.0;
    for (y, name) in ends {
        let label_y = (y + 5.0).max(next_free);
        next_free = label_y + NAME_HEIGHT;
        chart.text("name", right + 0.015, label_y, Anchor::Start, &truncate(name, 14));
    }
}

/// The series of a release: `6.12` of `6.12.117+deb12-amd64`; any other text is truncated.
fn series(version: &str) -> String {
    let mut parts = version.split(['.', '-', '+']);
    match (parts.next(), parts.next()) {
        (Some(major), Some(minor))
            if major.parse::<u32>().is_ok() && minor.parse::<u32>().is_ok() =>
        {
            format!("{major}.{minor}")
        }
        _ => truncate(version, 12),
    }
}

/// The vertical axis: ratios, always including 1, which is no change.
struct RatioAxis {
    low: f64,
    high: f64,
    step: f64,
}

impl RatioAxis {
    fn of_ratios(ratios: impl Iterator<Item = f64>) -> RatioAxis {
        let (low, high) =
            ratios.fold((1.0f64, 1.0f64), |(low, high), ratio| (low.min(ratio), high.max(ratio)));
        // Differences far below the smallest marked one are drawn as a flat line.
        let (low, high) = (low.min(1.0 - MIN_STEP), high.max(1.0 + MIN_STEP));
        let steps = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0];
        let step = steps.into_iter().find(|step| (high - low) / step <= 6.0).unwrap_or(high - low);
        RatioAxis { low: (low / step).floor() * step, high: (high / step).ceil() * step, step }
    }

    fn y(&self, ratio: f64) -> f64 {
        TOP_MARGIN + PLOT_HEIGHT * (self.high - ratio) / (self.high - self.low).max(f64::EPSILON)
    }

    fn ticks(&self) -> Vec<(f64, String)> {
        let count = ((self.high - self.low) / self.step).round() as u32;
        let level = |index: u32| self.low + self.step * f64::from(index);
        let label = |ratio: f64| match ((ratio - 1.0) * 100.0).round() {
            0.0 => "0 %".to_string(),
            percent => format!("{percent:+.0} %"),
        };
        (0..=count).map(|index| (level(index), label(level(index)))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::tests::on_kernels;
    use crate::timeline::timelines;

    #[test]
    fn a_marked_step_has_a_large_dot_with_its_change_and_every_step_is_in_the_table() {
        let trials = on_kernels();
        let all = timelines(&trials);
        let figure = figure(&all[1]);
        let svg = figure.chart.inline("t");
        assert_eq!(svg.matches("r=\"5.5\"").count(), 1, "{svg}");
        for part in [">x2.01<", ">6.12<", ">7.3<", ">ext4<"] {
            assert!(svg.contains(part), "{part} in {svg}");
        }
        assert_eq!(figure.table.rows.len(), 2 * all[1].lines.len());
        assert!(figure.note.contains("n = 3"), "{}", figure.note);
        let files = crate::charts(&trials, &[], None);
        assert!(files.iter().any(|file| file.name == "dirops-create-timeline-cpu.svg"));
        let page = crate::html(&trials, &[], None).unwrap();
        assert!(
            page.contains("From kernel to kernel") && page.contains("id=\"timeline0-timeline\"")
        );
        assert!(
            !crate::html(&crate::fixture::trials(), &[], None).unwrap().contains("From kernel")
        );
    }

    #[test]
    fn the_axis_contains_the_ratio_1_and_all_values() {
        let axis = RatioAxis::of_ratios([1.0, 1.24, 0.97].into_iter());
        let labels: Vec<String> = axis.ticks().into_iter().map(|tick| tick.1).collect();
        assert_eq!(labels, ["-5 %", "0 %", "+5 %", "+10 %", "+15 %", "+20 %", "+25 %"]);
        assert!(axis.y(1.24) >= TOP_MARGIN && axis.y(0.97) <= TOP_MARGIN + PLOT_HEIGHT);
        let flat: Vec<f64> =
            RatioAxis::of_ratios([1.0].into_iter()).ticks().iter().map(|tick| tick.0).collect();
        assert!(flat.len() > 2 && flat[0] < 1.0, "{flat:?}");
    }

    #[test]
    fn a_version_is_named_by_its_series() {
        let shown = ["6.12.117+deb12-amd64", "5.10.0-46-amd64", "7.3-rc7", "custom"].map(series);
        assert_eq!(shown, ["6.12", "5.10", "7.3", "custom"]);
    }
}
