//! Horizontal bars as SVG: zero-based, time to return solid, the rest to durable lighter.
//!
//! Places along the bar are percentages and letters have a fixed size, so one drawing serves a
//! phone and a wide screen without scaling its text.

use std::fmt::Write;

use crate::colour::{self, Looks};
use crate::curve::Curve;
use crate::markup::escape;
use crate::number;
use crate::view::{Row, Section};

const ROW: u32 = 46;
const BAR_AT: u32 = 22;
const BAR: u32 = 14;
const AXIS: u32 = 24;

/// The chart of a section. `id` must be unique in the page.
pub fn bars(section: &Section<'_>, looks: &Looks, id: &str) -> String {
    let longest = section.rows.iter().map(reach).fold(0.0, f64::max);
    let scale = Scale::over(longest);
    let plot = ROW * section.rows.len() as u32;
    let height = plot + AXIS;
    let mut svg = String::new();
    let title = escape(&format!("{}: time by file system", section.title()));
    let description = escape(&describe(section));
    // Writing to a string cannot fail, so the results of `write!` carry nothing.
    let _ = write!(
        svg,
        r#"<svg class="bars" role="img" aria-labelledby="{id}-t {id}-d" width="100%" height="{height}"><title id="{id}-t">{title}</title><desc id="{id}-d">{description}</desc>"#
    );
    if section.rows.iter().any(|row| looks.get(row).hatch > 0) {
        svg.push_str(&colour::patterns(id));
    }
    axis(&mut svg, &scale, plot);
    for (index, row) in section.rows.iter().enumerate() {
        let top = ROW * index as u32;
        let look = looks.get(row);
        bar(&mut svg, row, look.colour, &scale, top);
        if look.hatch > 0 {
            hatch(&mut svg, row, &colour::hatch_id(id, look.hatch), &scale, top);
        }
        whisker(&mut svg, row, section.by_durable, &scale, top);
    }
    svg.push_str("</svg>");
    svg
}

/// Height of a curve's plot, and what is left free above its highest point.
const CURVE: f64 = 240.0;
const HEAD: f64 = 8.0;

/// The chart of a curve: files to the right, time upward, both from zero.
pub fn curve(curve: &Curve<'_>, looks: &Looks, id: &str) -> String {
    let places = || curve.lines.iter().flat_map(|line| line.rows.iter().flatten());
    let longest = places().map(|place| place.returned.mean).fold(0.0, f64::max);
    let up = Scale::over(longest);
    let right = curve.points.last().copied().unwrap_or(1) as f64;
    // A tenth of the width is left for the labels of the time.
    let x = |files: u64| 10.0 + 86.0 * files as f64 / right;
    let y = |seconds: f64| HEAD + CURVE * (1.0 - seconds / up.end);
    let height = HEAD + CURVE + f64::from(AXIS);
    let title = escape(&format!("{}: time by number of files", curve.title));
    let description = escape(&crate::curve::sentences(curve).join(" "));
    let mut svg = String::new();
    // Writing to a string cannot fail, so the results of `write!` carry nothing.
    let _ = write!(
        svg,
        r#"<svg class="bars curve" role="img" aria-labelledby="{id}-t {id}-d" width="100%" height="{height:.0}"><title id="{id}-t">{title}</title><desc id="{id}-d">{description}</desc>"#
    );
    for tick in up.ticks() {
        let (at, text) = (y(tick), if tick == 0.0 { "0".into() } else { tick_label(tick) });
        let _ = write!(
            svg,
            r#"<line class="grid" x1="10%" x2="96%" y1="{at:.1}" y2="{at:.1}"/><text class="tick" x="9%" y="{:.1}" text-anchor="end">{text}</text>"#,
            at + 4.0
        );
    }
    let foot = HEAD + CURVE + 16.0;
    let _ = write!(svg, r#"<text class="tick" x="10%" y="{foot}" text-anchor="middle">0</text>"#);
    for files in [curve.points.first(), curve.points.last()].into_iter().flatten() {
        let text = number::count(*files);
        let at = x(*files);
        let anchor = if at > 90.0 { "end" } else { "middle" };
        // The first point of a long curve would lie on the zero.
        if at > 16.0 {
            let _ = write!(
                svg,
                r#"<text class="tick" x="{at:.2}%" y="{foot}" text-anchor="{anchor}">{text} files</text>"#
            );
        }
    }
    let mut ends = Vec::new();
    for line in &curve.lines {
        let here: Vec<(f64, f64, &Row<'_>)> = curve
            .points
            .iter()
            .zip(&line.rows)
            .filter_map(|(files, place)| {
                let place = place.as_ref()?;
                Some((x(*files), y(place.returned.mean), &place.row))
            })
            .collect();
        for pair in here.windows(2) {
            let look = looks.get(pair[0].2);
            let dash = ["", "6 3", "2 3", "8 3 2 3", "1 2"][look.hatch % 5];
            let _ = write!(
                svg,
                r#"<line x1="{:.2}%" y1="{:.1}" x2="{:.2}%" y2="{:.1}" stroke="{}" stroke-width="2" stroke-dasharray="{dash}"/>"#,
                pair[0].0, pair[0].1, pair[1].0, pair[1].1, look.colour
            );
        }
        for (x, y, row) in &here {
            let colour = looks.get(row).colour;
            let _ = write!(svg, r#"<circle cx="{x:.2}%" cy="{y:.1}" r="3.5" fill="{colour}"/>"#);
        }
        ends.extend(here.last().map(|(x, y, row)| (*x, *y, cut(&row.name, 24))));
    }
    names(&mut svg, ends);
    svg.push_str("</svg>");
    svg
}

/// The names of lines above their ends, moved up where one would lie on another.
fn names(svg: &mut String, mut ends: Vec<(f64, f64, String)>) {
    const LINE: f64 = 14.0;
    ends.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut free = f64::INFINITY;
    for (x, y, name) in ends {
        let at = (y - 6.0).min(free).max(10.0);
        free = at - LINE;
        let (x, name) = (x - 1.5, escape(&name));
        let _ = write!(
            svg,
            r#"<text class="name" x="{x:.2}%" y="{at:.1}" text-anchor="end">{name}</text>"#
        );
    }
}

/// What the solid bar shows: the time to return, or that of one operation.
fn solid<'r>(row: &'r Row<'_>) -> &'r fsdyno_stats::Summary {
    row.each.as_ref().unwrap_or(&row.returned)
}

/// What the light bar shows: the time to durable, where it says more than the clock.
fn light<'r>(row: &'r Row<'_>) -> Option<&'r fsdyno_stats::Summary> {
    row.durable.as_ref().filter(|_| row.each.is_none())
}

/// How far a row reaches to the right, its interval included, in seconds.
fn reach(row: &Row<'_>) -> f64 {
    let end = |s: &fsdyno_stats::Summary| s.mean + s.half_width.unwrap_or(0.0);
    end(solid(row)).max(light(row).map_or(0.0, end))
}

/// From zero to a round number of seconds.
struct Scale {
    end: f64,
    step: f64,
}

impl Scale {
    /// Steps of 1, 2 or 5 times a power of ten, so that there are 3 to 6 of them.
    fn over(longest: f64) -> Scale {
        if longest <= 0.0 {
            return Scale { end: 1.0, step: 1.0 };
        }
        let power = 10f64.powf((longest / 3.0).log10().floor());
        let step = [5.0, 2.0, 1.0]
            .into_iter()
            .map(|digit| digit * power)
            .find(|step| longest / step >= 2.5)
            .unwrap_or(power);
        Scale { end: (longest / step).ceil() * step, step }
    }

    fn percent(&self, seconds: f64) -> f64 {
        (seconds / self.end * 100.0).clamp(0.0, 100.0)
    }

    fn ticks(&self) -> impl Iterator<Item = f64> + '_ {
        let steps = (self.end / self.step).round() as u32;
        (0..=steps).map(|index| f64::from(index) * self.step)
    }
}

fn axis(svg: &mut String, scale: &Scale, plot: u32) {
    let bottom = plot + 16;
    for tick in scale.ticks() {
        let x = scale.percent(tick);
        let anchor = match x {
            _ if x < 1.0 => "start",
            _ if x > 99.0 => "end",
            _ => "middle",
        };
        let text = if tick == 0.0 { "0".into() } else { tick_label(tick) };
        let _ = write!(
            svg,
            r#"<line class="grid" x1="{x:.2}%" x2="{x:.2}%" y1="0" y2="{plot}"/><text class="tick" x="{x:.2}%" y="{bottom}" text-anchor="{anchor}">{text}</text>"#
        );
    }
}

/// A round number of seconds without needless zeros.
fn tick_label(seconds: f64) -> String {
    let (value, unit) = match seconds {
        s if s < 0.999e-6 => (s * 1e9, "ns"),
        s if s < 0.999e-3 => (s * 1e6, "us"),
        s if s < 0.999 => (s * 1e3, "ms"),
        s => (s, "s"),
    };
    let rounded = (value * 100.0).round() / 100.0;
    format!("{rounded} {unit}")
}

fn bar(svg: &mut String, row: &Row<'_>, colour: &str, scale: &Scale, top: u32) {
    let (text_y, bar_y) = (top + 16, top + BAR_AT);
    let returned = scale.percent(solid(row).mean);
    let name = escape(&cut(&row.name, 34));
    let value = escape(&value(row));
    let _ = write!(
        svg,
        r#"<text class="name" x="0" y="{text_y}">{name}</text><text class="value" x="100%" y="{text_y}" text-anchor="end">{value}</text>"#
    );
    if let Some(durable) = light(row) {
        let width = scale.percent(durable.mean);
        let _ = write!(
            svg,
            r#"<rect class="back" x="0" y="{bar_y}" width="{width:.2}%" height="{BAR}"/><rect class="durable" x="0" y="{bar_y}" width="{width:.2}%" height="{BAR}" fill="{colour}"/>"#
        );
    }
    let _ = write!(
        svg,
        r#"<rect x="0" y="{bar_y}" width="{returned:.2}%" height="{BAR}" fill="{colour}"/>"#
    );
}

/// Stripes over the whole bar, where the row shares its colour.
fn hatch(svg: &mut String, row: &Row<'_>, pattern: &str, scale: &Scale, top: u32) {
    let longest = light(row).map_or(0.0, |d| d.mean).max(solid(row).mean);
    let (width, y) = (scale.percent(longest), top + BAR_AT);
    let _ = write!(
        svg,
        r#"<rect x="0" y="{y}" width="{width:.2}%" height="{BAR}" fill="url(#{pattern})"/>"#
    );
}

fn whisker(svg: &mut String, row: &Row<'_>, by_durable: bool, scale: &Scale, top: u32) {
    let bar_y = top + BAR_AT;
    if let Some((low, high)) = row.time(by_durable).interval() {
        let (low, high) = (scale.percent(low), scale.percent(high));
        let (middle, first, last) = (bar_y + BAR / 2, bar_y + 2, bar_y + BAR - 2);
        let _ = write!(
            svg,
            r#"<g class="whisker"><line x1="{low:.2}%" x2="{high:.2}%" y1="{middle}" y2="{middle}"/><line x1="{low:.2}%" x2="{low:.2}%" y1="{first}" y2="{last}"/><line x1="{high:.2}%" x2="{high:.2}%" y1="{first}" y2="{last}"/></g>"#
        );
    }
}

fn value(row: &Row<'_>) -> String {
    if let Some(each) = &row.each {
        return format!("{} an operation", number::seconds(each.mean));
    }
    let returned = number::seconds(row.returned.mean);
    match &row.durable {
        Some(durable) => format!("{returned} → {}", number::seconds(durable.mean)),
        None => returned,
    }
}

/// The chart in words, for those who hear it.
fn describe(section: &Section<'_>) -> String {
    let row = |row: &Row<'_>| {
        let returned = number::seconds(row.returned.mean);
        let durable = row
            .durable
            .as_ref()
            .map_or("durable unknown".into(), |d| format!("durable {}", number::seconds(d.mean)));
        format!("{}: returned {returned}, {durable}", row.name)
    };
    section.rows.iter().map(row).collect::<Vec<_>>().join("; ") + "."
}

fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.into();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fixture, view};

    #[test]
    fn the_scale_begins_at_zero_and_ends_at_a_round_step() {
        for longest in [0.0004, 0.9, 1.0, 1.22, 3.3, 7.0, 99.9, 1998.5] {
            let scale = Scale::over(longest);
            let ticks: Vec<f64> = scale.ticks().collect();
            assert_eq!(ticks[0], 0.0);
            assert!(scale.end >= longest && scale.percent(longest) > 60.0, "{longest}");
            assert!((4..=9).contains(&ticks.len()), "{longest}: {ticks:?}");
        }
    }

    #[test]
    fn bars_are_as_long_as_their_times() {
        let trials = fixture::trials();
        let sections = view::sections(&trials, None);
        let section = &sections[0];
        let svg = bars(section, &Looks::of(sections.iter().flat_map(|s| &s.rows)), "a");
        let scale = Scale::over(section.rows.iter().map(reach).fold(0.0, f64::max));
        for row in &section.rows {
            let width = format!("width=\"{:.2}%\"", row.returned.mean / scale.end * 100.0);
            assert!(svg.contains(&width), "{width} is missing");
        }
        assert_eq!(svg.matches("class=\"whisker\"").count(), 3);
        assert_eq!(svg.matches("url(#a-hatch1)").count(), 1, "far is an ext4, too");
        assert!(svg.contains("<pattern id=\"a-hatch1\""));
        assert!(svg.contains("role=\"img\"") && svg.contains("<desc"));
    }

    #[test]
    fn single_trials_have_no_whisker() {
        let trials = fixture::single();
        let sections = view::sections(&trials, None);
        assert!(
            !bars(&sections[0], &Looks::of(sections.iter().flat_map(|s| &s.rows)), "a")
                .contains("whisker")
        );
    }

    #[test]
    fn a_label_cannot_leave_its_text() {
        assert_eq!(escape("<script>\"'&"), "&lt;script&gt;&quot;&#39;&amp;");
    }

    #[test]
    fn a_curve_starts_at_zero_and_names_its_lines() {
        let trials = fixture::curve();
        let curves = crate::curve::curves(&trials);
        let rows = || curves[0].lines.iter().flat_map(|line| line.rows.iter().flatten());
        let looks = Looks::of(rows().map(|place| &place.row));
        let svg = curve(&curves[0], &looks, "c0");
        assert_eq!(svg.matches("<circle").count(), 8);
        assert_eq!(svg.matches(r#"stroke-width="2""#).count(), 6);
        for part in [">ext4<", ">linear<", ">0<", "8,000 files", "a parabola"] {
            assert!(svg.contains(part), "{part} in {svg}");
        }
    }
}
