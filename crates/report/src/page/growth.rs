//! Curves: the growth of a phase's time with the number of files, and the fitted exponent.

use super::chart::{AXIS, Anchor, Chart, percent, truncate};
use super::colour::Looks;
use super::figure::{Figure, n_of};
use super::scale::{Scale, Unit};
use crate::curve::{self, Curve};
use crate::model::Row;
use crate::number;
use crate::table::Table;

/// Height of the field, and of the margin above it for the names of the highest lines.
const FIELD: f64 = 260.0;
const HEAD: f64 = 14.0;

/// The position at which the axis of files ends: left of the right edge, where the names of the lines are.
const RIGHT: f64 = 0.97;

/// The figure of a curve: files to the right, time upward, both from zero.
pub fn figure(curve: &Curve<'_>, looks: &Looks) -> Figure {
    let places = curve.lines.iter().flat_map(|line| line.rows.iter().flatten());
    let note = format!(
        "Time until the last call returned; both axes begin at zero, a straight line through zero is \
         linear growth; {} at each point.",
        n_of(places.map(|place| place.returned.n))
    );
    let caption = "Mean time until the last call returned ± 95 % interval; the last row is the exponent of growth";
    let table = Table { caption: caption.into(), ..curve::table(curve) };
    let title = format!("{} by number of files", curve.title);
    Figure { slug: "growth", title, note, chart: chart(curve, looks), table }
}

fn chart(curve: &Curve<'_>, looks: &Looks) -> Chart {
    let title = format!("{}: time by number of files", curve.title);
    let mut chart = Chart::new(title, curve::sentences(curve).join(" "));
    let places = || curve.lines.iter().flat_map(|line| line.rows.iter().flatten());
    let reach = |place: &curve::PointRow<'_>| {
        place.returned.interval().map_or(place.returned.mean, |(_, high)| high)
    };
    let up = Scale::with_max(places().map(reach).fold(0.0, f64::max), Unit::Seconds);
    let max_files = curve.points.last().copied().unwrap_or(1).max(1) as f64;
    let x = |files: u64| RIGHT * files as f64 / max_files;
    let y = |seconds: f64| HEAD + FIELD * (1.0 - up.at(seconds));
    for (at, label) in up.ticks() {
        chart.horizontal_line(HEAD + FIELD * (1.0 - at), if at > 0.0 { &label } else { "" });
    }
    let foot = HEAD + FIELD + 16.0;
    chart.text("tick", 0.0, foot, Anchor::Start, "0");
    let mut free = 0.12;
    for files in &curve.points {
        let last = Some(files) == curve.points.last();
        let at = x(*files);
        // Points that double are close together near zero; the last one always has its label.
        if last || (at > free && at < RIGHT - 0.2) {
            let files = if last { " files" } else { "" };
            let anchor = if last { Anchor::End } else { Anchor::Middle };
            let text = format!("{}{files}", number::count((at / RIGHT * max_files).round() as u64));
            chart.text("tick", if last { 1.0 } else { at }, foot, anchor, &text);
            free = at + 0.14;
        }
    }
    let mut ends = Vec::new();
    for line in &curve.lines {
        let here: Vec<(f64, &curve::PointRow<'_>)> = curve
            .points
            .iter()
            .zip(&line.rows)
            .filter_map(|(files, place)| Some((x(*files), place.as_ref()?)))
            .collect();
        let Some((_, first)) = here.first() else { continue };
        let look = looks.get(&first.row);
        let path: Vec<String> = here
            .iter()
            .map(|(x, place)| format!("{:.0} {:.1}", x * 1000.0, y(place.returned.mean) - HEAD))
            .collect();
        chart.paths(HEAD, FIELD, &[(look, format!("M{}", path.join("L")))]);
        for (x, place) in &here {
            point(&mut chart, *x, place, &y, look.colour);
        }
        let exponent = line.growth.map(|growth| format!(", files^{:.2}", growth.exponent));
        let name = truncate(&line.name, 18) + &exponent.unwrap_or_default();
        ends.extend(here.last().map(|(x, place)| (*x, y(place.returned.mean), name)));
    }
    names(&mut chart, ends);
    chart.grow(HEAD + FIELD + AXIS);
    chart
}

/// Draws a dot and its interval.
fn point(
    chart: &mut Chart,
    x: f64,
    place: &curve::PointRow<'_>,
    y: &dyn Fn(f64) -> f64,
    colour: usize,
) {
    let at = percent(x);
    if let Some((low, high)) = place.returned.interval() {
        chart.put(format_args!(
            r#"<line class="span l{colour}" x1="{at}" x2="{at}" y1="{:.1}" y2="{:.1}"/>"#,
            y(low),
            y(high)
        ));
    }
    chart.put(format_args!(
        r#"<circle class="f{colour}" cx="{at}" cy="{:.1}" r="3.5"/>"#,
        y(place.returned.mean)
    ));
}

/// Writes the names of lines above their ends, moved up if they would overlap.
fn names(chart: &mut Chart, mut ends: Vec<(f64, f64, String)>) {
    const LINE: f64 = 15.0;
    ends.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut free = f64::INFINITY;
    for (x, y, name) in ends {
        let at = (y - 8.0).min(free).max(10.0);
        free = at - LINE;
        chart.text("name", x - 0.015, at, Anchor::End, &name);
    }
}

/// The rows of a curve, for the looks of the page.
pub fn rows<'r, 'a: 'r>(curve: &'r Curve<'a>) -> impl Iterator<Item = &'r Row<'a>> {
    curve.lines.iter().flat_map(|line| line.rows.iter().flatten()).map(|place| &place.row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn a_curve_starts_at_zero_and_names_its_lines_with_their_exponents() {
        let trials = fixture::curve();
        let curves = curve::curves(&trials);
        let looks = Looks::of(rows(&curves[0]));
        let svg = figure(&curves[0], &looks).chart.inline("c0");
        assert_eq!(svg.matches("<circle").count(), 8);
        assert_eq!(svg.matches("<path").count(), 2);
        for part in
            [">ext4, files^1.00<", ">linear, files^2.00<", ">0<", "8,000 files", "quadratic"]
        {
            assert!(svg.contains(part), "{part} in {svg}");
        }
    }
}
