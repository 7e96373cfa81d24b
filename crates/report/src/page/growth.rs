//! Curves: the growth of a phase's time with the number of files, and the fitted exponent.

use super::chart::{AXIS, Anchor, Chart, percent, truncate};
use super::colour::Appearances;
use super::figure::{Figure, n_text};
use super::scale::{Scale, Unit};
use crate::curve::{self, Curve};
use crate::model::Row;
use crate::number;
use crate::table::Table;

/// Height of the plot area, and of the margin above it for the names of the highest lines.
const PLOT_HEIGHT: f64 = 260.0;
const TOP_MARGIN: f64 = 14.0;

/// The position at which the x axis ends; the space to the right of it is for the names of the lines.
const RIGHT_END: f64 = 0.97;

/// The figure of a curve: number of files on the x axis, time on the y axis, both from zero.
pub fn figure(curve: &Curve<'_>, appearances: &Appearances) -> Figure {
    let points = curve.lines.iter().flat_map(|line| line.rows.iter().flatten());
    let note = format!(
        "Time until the last call returned; both axes begin at zero, so a straight line through zero is \
         linear growth; {} at each point.",
        n_text(points.map(|point| point.returned.n))
    );
    let caption = "Mean time until the last call returned ± 95 % interval; the last row is the exponent of growth";
    let table = Table { caption: caption.into(), ..curve::table(curve) };
    let title = format!("{} by number of files", curve.title);
    Figure { slug: "growth", title, note, chart: chart(curve, appearances), table }
}

fn chart(curve: &Curve<'_>, appearances: &Appearances) -> Chart {
    let title = format!("{}: time by number of files", curve.title);
    let mut chart = Chart::new(title, curve::sentences(curve).join(" "));
    let points = || curve.lines.iter().flat_map(|line| line.rows.iter().flatten());
    let max_time = |point: &curve::PointRow<'_>| {
        point.returned.interval().map_or(point.returned.mean, |(_, high)| high)
    };
    let scale = Scale::with_max(points().map(max_time).fold(0.0, f64::max), Unit::Seconds);
    let max_files = curve.points.last().copied().unwrap_or(1).max(1) as f64;
    let x = |files: u64| RIGHT_END * files as f64 / max_files;
    let y = |seconds: f64| TOP_MARGIN + PLOT_HEIGHT * (1.0 - scale.at(seconds));
    for (level, label) in scale.ticks() {
        let label = if level > 0.0 { &*label } else { "" };
        chart.horizontal_line(TOP_MARGIN + PLOT_HEIGHT * (1.0 - level), label);
    }
    let tick_label_y = TOP_MARGIN + PLOT_HEIGHT + 16.0;
    chart.text("tick", 0.0, tick_label_y, Anchor::Start, "0");
    let mut next_free = 0.12;
    for files in &curve.points {
        let last = Some(files) == curve.points.last();
        let x_of_point = x(*files);
        // If the numbers of files double from point to point, the first points are close together; only the last one
        // always has a label.
        if last || (x_of_point > next_free && x_of_point < RIGHT_END - 0.2) {
            let files = if last { " files" } else { "" };
            let anchor = if last { Anchor::End } else { Anchor::Middle };
            let count = (x_of_point / RIGHT_END * max_files).round() as u64;
            let text = format!("{}{files}", number::count(count));
            chart.text("tick", if last { 1.0 } else { x_of_point }, tick_label_y, anchor, &text);
            next_free = x_of_point + 0.14;
        }
    }
    let mut ends = Vec::new();
    for line in &curve.lines {
        let positioned: Vec<(f64, &curve::PointRow<'_>)> = curve
            .points
            .iter()
            .zip(&line.rows)
            .filter_map(|(files, point)| Some((x(*files), point.as_ref()?)))
            .collect();
        let Some((_, first)) = positioned.first() else { continue };
        let appearance = appearances.get(&first.row);
        let path: Vec<String> = positioned
            .iter()
            .map(|(x, point)| {
                format!("{:.0} {:.1}", x * 1000.0, y(point.returned.mean) - TOP_MARGIN)
            })
            .collect();
        chart.paths(TOP_MARGIN, PLOT_HEIGHT, &[(appearance, format!("M{}", path.join("L")))]);
        for (x, point) in &positioned {
            draw_point(&mut chart, *x, point, &y, appearance.colour);
        }
        let exponent = line.growth.map(|growth| format!(", files^{:.2}", growth.exponent));
        let name = truncate(&line.name, 18) + &exponent.unwrap_or_default();
        ends.extend(positioned.last().map(|(x, point)| (*x, y(point.returned.mean), name)));
    }
    draw_names(&mut chart, ends);
    chart.grow(TOP_MARGIN + PLOT_HEIGHT + AXIS);
    chart
}

/// Draws a dot and its interval.
fn draw_point(
    chart: &mut Chart,
    x: f64,
    point: &curve::PointRow<'_>,
    y: &dyn Fn(f64) -> f64,
    colour: usize,
) {
    let x_percent = percent(x);
    if let Some((low, high)) = point.returned.interval() {
        chart.push(format_args!(
            r#"<line class="span l{colour}" x1="{x_percent}" x2="{x_percent}" y1="{:.1}" y2="{:.1}"/>"#,
            y(low),
            y(high)
        ));
    }
    chart.push(format_args!(
        r#"<circle class="f{colour}" cx="{x_percent}" cy="{:.1}" r="3.5"/>"#,
        y(point.returned.mean)
    ));
}

/// Writes the names of lines above their ends, moved up if they would overlap.
fn draw_names(chart: &mut Chart, mut ends: Vec<(f64, f64, String)>) {
    const LINE_HEIGHT: f64 = 15.0;
    ends.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut next_free = f64::INFINITY;
    for (x, y, name) in ends {
        let label_y = (y - 8.0).min(next_free).max(10.0);
        next_free = label_y - LINE_HEIGHT;
        chart.text("name", x - 0.015, label_y, Anchor::End, &name);
    }
}

/// The rows of a curve, to which the page assigns appearances.
pub fn rows<'r, 'a: 'r>(curve: &'r Curve<'a>) -> impl Iterator<Item = &'r Row<'a>> {
    curve.lines.iter().flat_map(|line| line.rows.iter().flatten()).map(|point| &point.row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn a_curve_starts_at_zero_and_names_its_lines_with_their_exponents() {
        let trials = fixture::curve();
        let curves = curve::curves(&trials);
        let appearances = Appearances::of(rows(&curves[0]));
        let svg = figure(&curves[0], &appearances).chart.inline("c0");
        assert_eq!(svg.matches("<circle").count(), 8);
        assert_eq!(svg.matches("<path").count(), 2);
        for part in
            [">ext4, files^1.00<", ">linear, files^2.00<", ">0<", "8,000 files", "quadratic"]
        {
            assert!(svg.contains(part), "{part} in {svg}");
        }
    }
}
