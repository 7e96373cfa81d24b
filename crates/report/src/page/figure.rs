//! A chart with its table: the unit of every part of the page.

use super::chart::Chart;
use crate::table::Table;

/// A chart and the numbers that it shows.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Its name in file names: `latency`.
    pub slug: &'static str,
    /// The heading.
    pub title: String,
    /// The note below the chart: n, the meaning of the drawing, and what is omitted.
    pub note: String,
    /// The drawing.
    pub chart: Chart,
    /// The numbers.
    pub table: Table,
}

/// The numbers of trials as text: `n = 3` or `n = 2 to 5`, with a note if some have no interval because n = 1.
pub fn n_text(numbers: impl Iterator<Item = usize>) -> String {
    let numbers: Vec<usize> = numbers.collect();
    let min = numbers.iter().copied().min().unwrap_or(0);
    let max = numbers.iter().copied().max().unwrap_or(0);
    match (min, max) {
        (1, 1) => "n = 1: no interval".into(),
        (1, max) => format!("n = 1 to {max}; no interval where n = 1"),
        (min, max) if min == max => format!("n = {min}"),
        (min, max) => format!("n = {min} to {max}"),
    }
}

/// The note on what is omitted: `; the first 24 of 300 are drawn`, or nothing if all are.
pub fn drawn_note(shown: usize, total: usize) -> String {
    if total > shown { format!("; the first {shown} of {total} are drawn") } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n_is_stated_exactly() {
        let text = |numbers: &[usize]| n_text(numbers.iter().copied());
        assert_eq!(text(&[3, 3]), "n = 3");
        assert_eq!(text(&[2, 5]), "n = 2 to 5");
        assert_eq!(text(&[1, 1]), "n = 1: no interval");
        assert_eq!(text(&[1, 3]), "n = 1 to 3; no interval where n = 1");
        assert_eq!(drawn_note(24, 24) + &drawn_note(24, 300), "; the first 24 of 300 are drawn");
    }
}
