//! Published and measured numbers: a pair for each claim of a study that has both, on a logarithmic axis for each
//! unit.

use super::chart::{AXIS, Anchor, Chart, Key, percent, truncate};
use super::figure::Figure;
use super::files::ChartFile;
use crate::markup::escape;
use crate::number::{counted, format_ratio, sanitize};
use crate::study::{Claim, Judged, Number, Variant, digits};
use crate::table::{Row, Table};

/// The maximum number of claims that are drawn.
const MAX_PAIRS: usize = 40;

/// The maximum number of characters of a claim's identifier, which must fit next to its numbers on the narrowest
/// chart.
const MAX_ID: usize = 20;

/// The classes of the two kinds of marks.
const PUBLISHED: &str = "n1";
const MEASURED: &str = "f0";

const TITLE_HEIGHT: f64 = 24.0;
const ROW_HEIGHT: f64 = 36.0;
const PANEL_GAP: f64 = 16.0;

/// A claim with both numbers.
struct Pair<'a> {
    claim: &'a Claim,
    published: f64,
    measured: Number,
}

/// The pairs of one unit.
struct Panel<'a> {
    unit: &'a str,
    pairs: Vec<Pair<'a>>,
}

/// The charts of a study as files: `published.svg`, then `published-2.svg` and so on for further variants.
pub fn charts(judged: &Judged) -> Vec<ChartFile> {
    let judged = judged.merged();
    let drawn = judged.variants.iter().filter_map(figure);
    let file = |(index, figure): (usize, Figure)| ChartFile {
        name: match index {
            0 => "published.svg".into(),
            _ => format!("published-{}.svg", index + 1),
        },
        svg: figure.chart.standalone_svg(),
    };
    drawn.enumerate().map(file).collect()
}

/// The figure of a variant, or `None` if no claim has both numbers.
pub fn figure(variant: &Variant) -> Option<Figure> {
    let all: Vec<Pair<'_>> = variant.claims.iter().filter_map(pair).collect();
    let (count, claims) = (all.len(), variant.claims.len());
    let panels = panels(all);
    if panels.is_empty() {
        return None;
    }
    let without = match claims - count {
        0 => String::new(),
        n => format!("; {} without both numbers", counted(n, "claim")),
    };
    let drawn = if count > MAX_PAIRS {
        format!("; the first {MAX_PAIRS} are drawn")
    } else {
        String::new()
    };
    Some(Figure {
        slug: "published",
        title: "Published and measured".into(),
        note: format!(
            "A pair for each claim: the published number, and the measured one with its 95 % interval. The axes are \
             logarithmic{without}{drawn}."
        ),
        chart: chart(variant, &panels),
        table: table(&panels),
    })
}

/// Both numbers of a claim, or `None` if one is missing or cannot be on a logarithmic axis.
fn pair(claim: &Claim) -> Option<Pair<'_>> {
    let (published, measured) = (claim.published?, claim.measured?);
    let is_drawn = |value: f64| value.is_finite() && value > 0.0;
    (is_drawn(published) && is_drawn(measured.value)).then_some(Pair { claim, published, measured })
}

/// The pairs grouped by unit, in the order of their first claims.
fn panels(pairs: Vec<Pair<'_>>) -> Vec<Panel<'_>> {
    let mut panels: Vec<Panel<'_>> = Vec::new();
    for pair in pairs.into_iter().take(MAX_PAIRS) {
        let unit = pair.claim.unit.as_str();
        match panels.iter_mut().find(|panel| panel.unit == unit) {
            Some(panel) => panel.pairs.push(pair),
            None => panels.push(Panel { unit, pairs: vec![pair] }),
        }
    }
    panels
}

impl Panel<'_> {
    fn title(&self) -> String {
        if self.unit.is_empty() { "ratios and exponents".into() } else { sanitize(self.unit) }
    }

    fn axis(&self) -> Axis {
        let ends = |pair: &Pair<'_>| {
            let (low, high) =
                pair.measured.interval.unwrap_or((pair.measured.value, pair.measured.value));
            let low = if low > 0.0 { low } else { pair.measured.value };
            [pair.published, pair.measured.value, low, high]
        };
        let values = || self.pairs.iter().flat_map(ends);
        Axis::of_range(values().fold(f64::MAX, f64::min), values().fold(0.0, f64::max))
    }
}

/// A logarithmic axis that begins and ends at a tick.
struct Axis {
    /// 1, 2 and 5 times powers of ten; the first is at most the smallest value, the last at least the largest.
    ticks: Vec<f64>,
}

impl Axis {
    fn of_range(min: f64, max: f64) -> Axis {
        let power = |value: f64| value.log10().floor() as i32;
        let decades = power(min)..=power(max) + 1;
        let all: Vec<f64> = decades
            .flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10f64.powi(power)))
            .collect();
        let first = all.iter().rposition(|tick| *tick <= min * 1.0001).unwrap_or(0);
        let last = all.iter().position(|tick| *tick >= max * 0.9999).unwrap_or(all.len() - 1);
        Axis { ticks: all[first..=last.max(first + 1).min(all.len() - 1)].to_vec() }
    }

    /// The position of a value, from 0 to 1.
    fn at(&self, value: f64) -> f64 {
        let [first, .., last] = self.ticks.as_slice() else { return 0.0 };
        ((value / first).ln() / (last / first).ln()).clamp(0.0, 1.0)
    }

    /// The ticks that have labels: all, or on a long axis powers of ten.
    fn labels(&self) -> impl Iterator<Item = f64> {
        let long = self.ticks.len() > 7;
        let is_power = |tick: f64| (tick.log10() - tick.log10().round()).abs() < 1e-6;
        self.ticks.iter().copied().filter(move |tick| !long || is_power(*tick))
    }
}

fn chart(variant: &Variant, panels: &[Panel<'_>]) -> Chart {
    let name = sanitize(&variant.name);
    let mut chart = Chart::new(format!("Published and measured, {name}"), describe(panels));
    let boxes = [(PUBLISHED, "published"), (MEASURED, "measured")];
    chart.key(&boxes.map(|(class, name)| (Key::Box(class.into()), name.into())));
    for panel in panels {
        let (top, axis) = (chart.height(), panel.axis());
        chart.text("name", 0.0, top + 14.0, Anchor::Start, &truncate(&panel.title(), 40));
        let (first, bottom) =
            (top + TITLE_HEIGHT, top + TITLE_HEIGHT + ROW_HEIGHT * panel.pairs.len() as f64);
        for value in axis.labels() {
            chart.vertical_line(axis.at(value), first, bottom, &digits(value));
        }
        for (index, pair) in panel.pairs.iter().enumerate() {
            draw(&mut chart, pair, &axis, first + ROW_HEIGHT * index as f64);
        }
        chart.grow(TITLE_HEIGHT + ROW_HEIGHT * panel.pairs.len() as f64 + AXIS + PANEL_GAP);
    }
    chart
}

/// Draws a claim: its identifier and its numbers, and below them both marks, joined by a line.
fn draw(chart: &mut Chart, pair: &Pair<'_>, axis: &Axis, top: f64) {
    let (claim, y) = (pair.claim, top + 25.0);
    chart.text("dotname", 0.0, top + 13.0, Anchor::Start, &truncate(&sanitize(&claim.id), MAX_ID));
    let numbers = format!("{} → {}", digits(pair.published), digits(pair.measured.value));
    chart.text("dotname", 1.0, top + 13.0, Anchor::End, &numbers);
    let (from, to) = (axis.at(pair.published), axis.at(pair.measured.value));
    let line = |class: &str, (a, b): (f64, f64)| {
        format!(
            r#"<line class="{class}" x1="{}" x2="{}" y1="{y:.1}" y2="{y:.1}"/>"#,
            percent(a.min(b)),
            percent(a.max(b))
        )
    };
    chart.push(format_args!("{}", line("one", (from, to))));
    if let Some((low, high)) = pair.measured.interval {
        chart.push(format_args!("{}", line("span l0", (axis.at(low), axis.at(high)))));
    }
    // The size of a mark is in pixels and its position in percent, which needs a nested drawing.
    chart.push(format_args!(
        r#"<svg x="{}" overflow="visible"><title>{}</title><rect class="{PUBLISHED}" x="-4.5" y="{:.1}" width="9" height="9"/></svg><circle class="{MEASURED}" cx="{}" cy="{y:.1}" r="4.5"/>"#,
        percent(from),
        escape(&sanitize(&claim.text)),
        y - 4.5,
        percent(to),
    ));
}

fn describe(panels: &[Panel<'_>]) -> String {
    let describe = |pair: &Pair<'_>| {
        let (published, measured) = (digits(pair.published), digits(pair.measured.value));
        format!("{}: published {published}, measured {measured}", sanitize(&pair.claim.id))
    };
    let all = panels.iter().flat_map(|panel| panel.pairs.iter().map(describe));
    all.collect::<Vec<_>>().join("; ") + "."
}

fn table(panels: &[Panel<'_>]) -> Table {
    let heads =
        ["<claim", "<unit", "published", "measured", "95 % interval", "n", "measured/published"];
    let mut table = Table::new("Claims with a published and a measured number", &heads);
    for panel in panels {
        for pair in &panel.pairs {
            let span = |(low, high)| format!("{} to {}", digits(low), digits(high));
            let cells = vec![
                sanitize(&pair.claim.id),
                if panel.unit.is_empty() { "–".into() } else { sanitize(panel.unit) },
                digits(pair.published),
                digits(pair.measured.value),
                pair.measured.interval.map_or("–".into(), span),
                pair.measured.n.to_string(),
                format_ratio(pair.measured.value / pair.published),
            ];
            table.rows.push(Row { cells, ..Row::default() });
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::sample;

    #[test]
    fn each_claim_with_both_numbers_is_a_pair_and_the_others_are_counted() {
        let judged = sample::judged();
        let figure = figure(&judged.variants[0]).unwrap();
        assert!(figure.note.contains("; 1 claim without both numbers"), "{}", figure.note);
        let svg = figure.chart.inline("p");
        assert_eq!(svg.matches("<circle").count(), 5);
        for text in [">C3<", ">1.54 → 0.61<", "C3: published 1.54, measured 0.61"] {
            assert!(svg.contains(text), "{text} in {svg}");
        }
        assert_eq!(figure.table.rows.len(), 5);
        let names: Vec<String> = charts(&judged).into_iter().map(|file| file.name).collect();
        assert_eq!(names, ["published.svg", "published-2.svg"]);
    }

    #[test]
    fn each_unit_has_an_axis_and_values_without_a_logarithm_are_not_drawn() {
        let mut variant = sample::judged().variants.remove(0);
        variant.claims[0].unit = "s".into();
        variant.claims[0].published = Some(618.0);
        variant.claims[1].published = Some(0.0);
        variant.claims[2].published = Some(f64::NAN);
        let figure = figure(&variant).unwrap();
        let svg = figure.chart.inline("p");
        assert!(svg.contains(">s<") && svg.contains(">ratios and exponents<"), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 3);
        variant.claims.iter_mut().for_each(|claim| claim.published = None);
        assert!(super::figure(&variant).is_none());
    }

    #[test]
    fn an_axis_is_no_longer_than_its_values() {
        let ticks = |least, most| Axis::of_range(least, most).ticks;
        assert_eq!(ticks(0.93, 5.34), [0.5, 1.0, 2.0, 5.0, 10.0]);
        assert_eq!(ticks(2.0, 5.0), [2.0, 5.0]);
        assert_eq!(ticks(3.0, 3.0), [2.0, 5.0]);
        let long = Axis::of_range(0.0012, 618.0);
        let labels: Vec<String> = long.labels().map(digits).collect();
        assert_eq!(labels, ["0.001", "0.01", "0.1", "1", "10", "100", "1000"]);
        assert_eq!((long.at(0.001), long.at(1000.0)), (0.0, 1.0));
    }
}
