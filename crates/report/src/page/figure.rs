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
    /// The note that a reader needs: n, what is drawn and how, and what is omitted.
    pub note: String,
    /// The drawing.
    pub chart: Chart,
    /// The numbers.
    pub table: Table,
}

/// `n = 3`, `n = 2 to 5`; with a note if some have no interval because n = 1.
pub fn n_of(numbers: impl Iterator<Item = usize>) -> String {
    let numbers: Vec<usize> = numbers.collect();
    let least = numbers.iter().copied().min().unwrap_or(0);
    let most = numbers.iter().copied().max().unwrap_or(0);
    match (least, most) {
        (1, 1) => "n = 1: no interval".into(),
        (1, most) => format!("n = 1 to {most}; no interval where n = 1"),
        (least, most) if least == most => format!("n = {least}"),
        (least, most) => format!("n = {least} to {most}"),
    }
}

/// `; the first 24 of 300 are drawn`, or nothing if all are.
pub fn drawn_note(most: usize, all: usize) -> String {
    if all > most { format!("; the first {most} of {all} are drawn") } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n_is_stated_exactly() {
        let of = |numbers: &[usize]| n_of(numbers.iter().copied());
        assert_eq!(of(&[3, 3]), "n = 3");
        assert_eq!(of(&[2, 5]), "n = 2 to 5");
        assert_eq!(of(&[1, 1]), "n = 1: no interval");
        assert_eq!(of(&[1, 3]), "n = 1 to 3; no interval where n = 1");
        assert_eq!(drawn_note(24, 24) + &drawn_note(24, 300), "; the first 24 of 300 are drawn");
    }
}
