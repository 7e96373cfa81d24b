//! Horizontal bars from zero, one for each file system.

use super::chart::{Anchor, Chart, Key, percent, truncate};
use super::colour::{Appearance, Appearances};
use super::scale::{Scale, Unit};
use crate::model::Row;

/// The maximum number of bars in a chart; the table below it has all rows.
pub const MAX_BARS: usize = 24;

const ROW_HEIGHT: f64 = 44.0;
const BAR_OFFSET: f64 = 21.0;
const BAR_HEIGHT: f64 = 14.0;

/// Height of an additional line, for names and values that do not fit into one.
const LINE_HEIGHT: f64 = 16.0;

/// Width of a character of a name, of a character of a value, and of the narrowest chart, in pixels.
const NAME_CHAR_WIDTH: f64 = 9.3;
const VALUE_CHAR_WIDTH: f64 = 8.4;
const MIN_CHART_WIDTH: f64 = 300.0;

/// The maximum number of characters of a name or a value that fit into the narrowest chart.
const MAX_CHARS: usize = 32;

/// The contents of a bar chart.
pub struct Bars {
    /// One-line title.
    pub title: String,
    /// The unit of the axis.
    pub unit: Unit,
    /// The bars, from top to bottom.
    pub bars: Vec<Bar>,
    /// The meaning of the parts of a bar, if it has several.
    pub key: Vec<(Key, String)>,
}

/// One bar.
pub struct Bar {
    /// The row's name.
    pub name: String,
    /// Its colour and hatch.
    pub appearance: Appearance,
    /// Its value, as text.
    pub value: String,
    /// Its parts, starting at zero.
    pub parts: Vec<Part>,
    /// A 95 % interval of its end.
    pub interval: Option<(f64, f64)>,
    /// A thin bar beneath it.
    pub thin_bar: Option<f64>,
}

/// A part of a bar.
pub struct Part {
    /// Length in the unit of the axis.
    pub length: f64,
    /// Its fill.
    pub tone: Tone,
}

/// The fill of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// The full colour of its file system.
    Full,
    /// Half the strength of that colour.
    Half,
    /// A light tone of that colour.
    Light,
    /// A neutral tone; 0 is the strongest.
    Neutral(usize),
}

impl Bar {
    /// Returns true if name and value fit into one line.
    fn fits(&self) -> bool {
        let letters = |text: &str| text.chars().count().min(MAX_CHARS) as f64;
        letters(&self.name) * NAME_CHAR_WIDTH + letters(&self.value) * VALUE_CHAR_WIDTH
            < MIN_CHART_WIDTH
    }

    /// The end of the bar, including its interval.
    fn end(&self) -> f64 {
        let end = self.parts.iter().map(|part| part.length).sum::<f64>();
        let high = self.interval.map_or(0.0, |(_, high)| high);
        [end, high, self.thin_bar.unwrap_or(0.0)]
            .into_iter()
            .filter(|v| v.is_finite())
            .fold(0.0, f64::max)
    }
}

/// The class of the box in the key that represents the colours of all rows. It has the colour of the first row.
pub fn key_colour(rows: &[Row<'_>], appearances: &Appearances) -> String {
    rows.first().map_or("ink".into(), |row| format!("f{}", appearances.get(row).colour))
}

/// Draws the first [`MAX_BARS`] bars.
pub fn draw(contents: &Bars) -> Chart {
    let bars = &contents.bars[..contents.bars.len().min(MAX_BARS)];
    let descriptions = bars.iter().map(|bar| format!("{}: {}", bar.name, bar.value));
    let mut chart = Chart::new(&contents.title, descriptions.collect::<Vec<_>>().join("; ") + ".");
    chart.key(&contents.key[..if contents.key.len() > 1 { contents.key.len() } else { 0 }]);
    if contents.key.len() < 2 {
        chart.grow(-6.0);
    }
    let scale = Scale::with_max(bars.iter().map(Bar::end).fold(0.0, f64::max), contents.unit);
    let top = chart.height();
    let line = if bars.iter().all(Bar::fits) { 0.0 } else { LINE_HEIGHT };
    let row = ROW_HEIGHT + line;
    let bottom = top + row * bars.len() as f64;
    for (x, label) in scale.ticks() {
        chart.vertical_line(x, top, bottom, &label);
    }
    for (index, bar) in bars.iter().enumerate() {
        draw_bar(&mut chart, bar, &scale, top + row * index as f64, line);
    }
    chart.grow(row * bars.len() as f64 + super::chart::AXIS);
    chart
}

/// Draws a bar below its name and value; `line` is the offset of a value on its own line.
fn draw_bar(chart: &mut Chart, bar: &Bar, scale: &Scale, top: f64, line: f64) {
    let value = truncate(&bar.value, MAX_CHARS);
    chart.text("name", 0.0, top + 15.0, Anchor::Start, &truncate(&bar.name, MAX_CHARS));
    chart.text("value", 1.0, top + 15.0 + line, Anchor::End, &value);
    let y = top + BAR_OFFSET + line;
    let width = |value: f64| percent(scale.at(value));
    let mut from = 0.0;
    let whole: f64 = bar.parts.iter().map(|part| part.length.max(0.0)).sum();
    // The grid must not show through the bar.
    chart.push(format_args!(
        r#"<rect class="back" y="{y:.1}" width="{}" height="{BAR_HEIGHT}"/>"#,
        width(whole)
    ));
    for part in bar.parts.iter().filter(|part| part.length > 0.0) {
        let class = match part.tone {
            Tone::Full => format!("f{}", bar.appearance.colour),
            Tone::Half => format!("f{} half", bar.appearance.colour),
            Tone::Light => format!("f{} light", bar.appearance.colour),
            Tone::Neutral(tone) => format!("n{tone}"),
        };
        chart.push(format_args!(
            r#"<rect class="{class}" x="{}" y="{y:.1}" width="{}" height="{BAR_HEIGHT}"/>"#,
            width(from),
            width(part.length),
        ));
        from += part.length;
    }
    if bar.appearance.hatch > 0 {
        let coloured = bar.parts.iter().filter(|part| !matches!(part.tone, Tone::Neutral(_)));
        let coloured: f64 = coloured.map(|part| part.length.max(0.0)).sum();
        chart.push(format_args!(
            r#"<rect y="{y:.1}" width="{}" height="{BAR_HEIGHT}" fill="url(#hatch{})"/>"#,
            width(coloured),
            bar.appearance.hatch,
        ));
    }
    if let Some(thin_bar) = bar.thin_bar {
        chart.push(format_args!(
            r#"<rect class="ink" y="{:.1}" width="{}" height="3"/>"#,
            y + BAR_HEIGHT + 2.0,
            width(thin_bar)
        ));
    }
    if let Some((low, high)) = bar.interval {
        whisker(chart, (width(low), width(high)), y);
    }
}

fn whisker(chart: &mut Chart, (low, high): (String, String), y: f64) {
    let (middle, first, last) = (y + BAR_HEIGHT / 2.0, y + 2.0, y + BAR_HEIGHT - 2.0);
    chart.push(format_args!(
        r#"<g class="whisker"><line x1="{low}" x2="{high}" y1="{middle:.1}" y2="{middle:.1}"/><line x1="{low}" x2="{low}" y1="{first:.1}" y2="{last:.1}"/><line x1="{high}" x2="{high}" y1="{first:.1}" y2="{last:.1}"/></g>"#
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(name: &str, lengths: &[f64]) -> Bar {
        let part = |length: &f64| Part { length: *length, tone: Tone::Full };
        Bar {
            name: name.into(),
            appearance: Appearance { colour: 0, hatch: 1 },
            value: "x".into(),
            parts: lengths.iter().map(part).collect(),
            interval: None,
            thin_bar: None,
        }
    }

    fn chart(bars: Vec<Bar>) -> String {
        draw(&Bars { title: "t".into(), unit: Unit::Count, bars, key: Vec::new() }).inline("a")
    }

    #[test]
    fn bars_are_proportional_and_start_at_zero() {
        let svg = chart(vec![bar("a", &[40.0, 10.0]), bar("b", &[100.0])]);
        for part in [
            r#"x="0%" y="21.0" width="40%""#,
            r#"x="40%" y="21.0" width="10%""#,
            r#"x="0%" y="65.0" width="100%""#,
            r#"y="21.0" width="50%" height="14" fill="url(#hatch1)""#,
        ] {
            assert!(svg.contains(part), "{part} is missing in {svg}");
        }
    }

    #[test]
    fn zeros_and_nan_are_not_drawn() {
        let svg = chart(vec![bar("a", &[0.0]), bar("b", &[f64::NAN])]);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn a_chart_has_a_bounded_number_of_bars() {
        let svg = chart((0..300).map(|_| bar("a", &[1.0])).collect());
        assert_eq!(svg.matches("class=\"name\"").count(), MAX_BARS);
    }
}
