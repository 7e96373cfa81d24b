//! The style of the page.

use super::colour;

/// The page's style: the palette, the style of charts, and the rest.
pub fn style() -> String {
    [colour::style().as_str(), include_str!("chart.css"), include_str!("page.css")].concat()
}
