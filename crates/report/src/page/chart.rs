//! One drawing, as part of the page or as a separate file.
//!
//! Horizontal positions are percentages and text has a fixed size, so one drawing fits a phone and a wide screen
//! without scaling its text. Paths do not support percentages: they are in a nested drawing that is stretched, while
//! their strokes are not.

use std::fmt::Write;

use super::colour::{self, Appearance};
use crate::markup::escape;

/// Width of a separate chart, in pixels.
const WIDTH: u32 = 720;

/// The first bytes of every chart file: a file that begins with them may be overwritten.
pub const MARK: &str = "<!-- a chart of fsdyno -->";

/// A drawing under construction.
#[derive(Clone, Debug)]
pub struct Chart {
    title: String,
    description: String,
    height: f64,
    body: String,
}

/// The position of a text relative to its anchor point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// To the right of the point.
    Start,
    /// Around the point.
    Middle,
    /// To the left of the point.
    End,
}

/// The symbol of an entry of the key.
#[derive(Clone, Debug)]
pub enum Key {
    /// A box of these classes.
    Box(String),
    /// A thin bar.
    Thin,
    /// A line of this appearance.
    Line(Appearance),
}

/// Numbers of characters of a name in the key that fit into half of the narrowest chart, and into all of it.
const MAX_SHORT_NAME: usize = 18;
const MAX_LONG_NAME: usize = 36;

/// Height of a line of the key.
const KEY_LINE_HEIGHT: f64 = 20.0;

/// Height of the tick labels below the plot area, in pixels.
pub const AXIS: f64 = 24.0;

impl Chart {
    /// An empty drawing with a one-line title, and a description for screen readers.
    pub fn new(title: impl Into<String>, description: impl Into<String>) -> Chart {
        let (title, description) = (title.into(), description.into());
        Chart { title, description, height: 0.0, body: String::new() }
    }

    /// Its current height in pixels.
    pub fn height(&self) -> f64 {
        self.height
    }

    /// Increases the height.
    pub fn grow(&mut self, pixels: f64) {
        self.height += pixels;
    }

    /// Adds elements; all untrusted text in them must be escaped.
    pub fn push(&mut self, elements: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail, so the result is ignored.
        let _ = self.body.write_fmt(elements);
    }

    /// Adds a text at a percentage and a height.
    pub fn text(&mut self, class: &str, x: f64, y: f64, anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let (x, text) = (percent(x), escape(text));
        self.push(format_args!(
            r#"<text class="{class}" x="{x}" y="{y:.1}"{anchor}>{text}</text>"#
        ));
    }

    /// Adds a vertical line of the grid with its label below.
    pub fn vertical_line(&mut self, position: f64, top: f64, bottom: f64, label: &str) {
        let x = percent(position);
        self.push(format_args!(
            r#"<line class="grid" x1="{x}" x2="{x}" y1="{top:.1}" y2="{bottom:.1}"/>"#
        ));
        let anchor = match position {
            x if x < 0.06 => Anchor::Start,
            x if x > 0.94 => Anchor::End,
            _ => Anchor::Middle,
        };
        self.text("tick", position, bottom + 16.0, anchor, label);
    }

    /// Adds a horizontal line of the grid with its label on it.
    pub fn horizontal_line(&mut self, y: f64, label: &str) {
        self.push(format_args!(r#"<line class="grid" x1="0" x2="100%" y1="{y:.1}" y2="{y:.1}"/>"#));
        self.text("tick", 0.0, y - 3.0, Anchor::Start, label);
    }

    /// Adds the key: two entries to a line if all are short, otherwise one, because the end of a long name
    /// may be what distinguishes it.
    pub fn key(&mut self, entries: &[(Key, String)]) {
        let short = entries.iter().all(|(_, name)| name.chars().count() <= MAX_SHORT_NAME);
        let columns = if short { 2 } else { 1 };
        for (index, (key, name)) in entries.iter().enumerate() {
            let x = 50 * (index % columns);
            let y = self.height + KEY_LINE_HEIGHT * (index / columns) as f64;
            let middle = y + 8.0;
            match key {
                Key::Box(class) => self.push(format_args!(
                    r#"<rect class="{class}" x="{x}%" y="{:.1}" width="14" height="10"/>"#,
                    y + 3.0
                )),
                Key::Thin => self.push(format_args!(
                    r#"<rect class="ink" x="{x}%" y="{:.1}" width="14" height="3"/>"#,
                    y + 7.0
                )),
                Key::Line(appearance) => self.push(format_args!(
                    r#"<svg x="{x}%" y="{middle:.1}" overflow="visible"><path class="line l{}" d="M0 0H20"{}/></svg>"#,
                    appearance.colour,
                    dashes(*appearance),
                )),
            }
            let name = escape(&truncate(name, if short { MAX_SHORT_NAME } else { MAX_LONG_NAME }));
            self.push(format_args!(
                r#"<svg x="{x}%" overflow="visible"><text class="key" x="26" y="{:.1}">{name}</text></svg>"#,
                y + 12.0
            ));
        }
        self.height += KEY_LINE_HEIGHT * entries.len().div_ceil(columns) as f64 + 6.0;
    }

    /// Adds lines over the whole width between two heights; each is a path in a coordinate system of 1000 by
    /// `height`.
    pub fn paths(&mut self, top: f64, height: f64, paths: &[(Appearance, String)]) {
        self.push(format_args!(
            r#"<svg y="{top:.1}" width="100%" height="{height:.1}" viewBox="0 0 1000 {height:.1}" preserveAspectRatio="none" overflow="visible">"#
        ));
        for (appearance, path) in paths {
            let (colour, dash) = (appearance.colour, dashes(*appearance));
            self.push(format_args!(r#"<path class="line l{colour}" d="{path}"{dash}/>"#));
        }
        self.push(format_args!("</svg>"));
    }

    /// The drawing as part of a page, under an id that is unique there.
    pub fn inline(&self, id: &str) -> String {
        let (height, body) = (self.height, &self.body);
        let (title, description) = (escape(&self.title), escape(&self.description));
        format!(
            r#"<svg class="chart" role="img" aria-labelledby="{id}-t {id}-d" width="100%" height="{height:.0}"><title id="{id}-t">{title}</title><desc id="{id}-d">{description}</desc>{body}</svg>"#
        )
    }

    /// The drawing as a separate file, with its title and its style.
    pub fn standalone_svg(&self) -> String {
        let (title, description) = (escape(&self.title), escape(&self.description));
        let style = colour::standalone_style(include_str!("chart.css"));
        let (patterns, body) = (colour::patterns(), &self.body);
        let (width, height) = (WIDTH + 40, self.height + 72.0);
        format!(
            r##"{MARK}
<svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img" aria-labelledby="t d" width="{width}" height="{height:.0}" viewBox="0 0 {width} {height:.0}" font-family="system-ui, 'DejaVu Sans', sans-serif"><title id="t">{title}</title><desc id="d">{description}</desc><style>{style}</style>{patterns}<rect class="back" width="100%" height="100%" fill="#fff"/><text class="name" x="20" y="32">{title}</text><svg x="20" y="52" width="{WIDTH}" height="{:.0}" overflow="visible">{body}</svg></svg>
"##,
            self.height
        )
    }
}

/// A share as SVG's percentage: `12.5%`.
pub fn percent(share: f64) -> String {
    let text = format!("{:.2}", share * 100.0);
    format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
}

fn dashes(appearance: Appearance) -> String {
    match appearance.dash() {
        "" => String::new(),
        dash => format!(" stroke-dasharray=\"{dash}\""),
    }
}

/// A text truncated to at most `max` characters; if it is longer, the last one is an ellipsis.
pub fn truncate(text: &str, max: usize) -> String {
    if text.chars().count() <= max {
        return text.into();
    }
    text.chars().take(max.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_cannot_leave_its_text_and_a_file_is_an_xml_document() {
        let mut chart = Chart::new("a <b> \"c\"", "<script>");
        chart.text("name", 0.25, 12.0, Anchor::End, "<script>&");
        chart.key(&[(Key::Box("n0".into()), "</svg><script>".into())]);
        for drawn in [chart.inline("x"), chart.standalone_svg()] {
            assert!(!drawn.contains("<script") && drawn.contains("&lt;script&gt;&amp;"), "{drawn}");
            assert!(drawn.contains("x=\"25%\""));
        }
        assert!(chart.standalone_svg().starts_with(MARK));
    }

    #[test]
    fn shares_are_short_percentages() {
        assert_eq!([0.0, 0.5, 1.0, 0.12345].map(percent), ["0%", "50%", "100%", "12.35%"]);
    }
}
