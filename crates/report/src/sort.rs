//! The order of the rows of a section, if the user requests one other than that of the trials.

use crate::model::{Row, Section};

/// The value that rows are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// The name.
    Name,
    /// The time that the section compares.
    Time,
    /// Seconds until the last call returned.
    Returned,
    /// CPU seconds.
    Cpu,
    /// The rate, the highest first.
    Rate,
    /// The 99th percentile of the latency.
    P99,
}

impl Sort {
    /// The orders, with their names for `--sort` and their descriptions.
    pub const ALL: &[(&str, &str, Sort)] = &[
        ("name", "By name", Sort::Name),
        ("time", "By the time that the tables compare, fastest first", Sort::Time),
        ("returned", "By the time until the last call returned", Sort::Returned),
        ("cpu", "By CPU time", Sort::Cpu),
        ("rate", "By the rate, the highest first", Sort::Rate),
        ("p99", "By the 99th percentile of the latency", Sort::P99),
    ];

    /// The number by which a row is sorted; names have none.
    fn number(self, row: &Row<'_>) -> f64 {
        match self {
            Sort::Name => 0.0,
            Sort::Time => row.measured.mean,
            Sort::Returned => row.returned.mean,
            Sort::Cpu => row.cpu.mean,
            Sort::Rate => row.rate.map_or(0.0, |rate| -rate.mean),
            Sort::P99 => {
                row.latency.as_ref().map_or(f64::MAX, |latency| latency.percentile(99.0) as f64)
            }
        }
    }
}

/// Sorts the rows of a section; rows flagged UNSAFE stay last.
pub fn sort(section: &mut Section<'_>, by: Sort) {
    let rows = &section.rows;
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by(|a, b| {
        let (a, b) = (&rows[*a], &rows[*b]);
        let names =
            || if by == Sort::Name { a.name.cmp(&b.name) } else { std::cmp::Ordering::Equal };
        let numbers = by.number(a).total_cmp(&by.number(b));
        b.is_safe().cmp(&a.is_safe()).then(numbers).then_with(names)
    });
    let mut positions = vec![0; order.len()];
    order.iter().enumerate().for_each(|(position, from)| positions[*from] = position);
    let mut rows: Vec<Option<Row<'_>>> =
        std::mem::take(&mut section.rows).into_iter().map(Some).collect();
    section.rows = order.iter().filter_map(|from| rows[*from].take()).collect();
    for row in &mut section.rows {
        row.base = row.base.map(|base| positions[base]);
    }
    for pair in &mut section.aged {
        (pair.fresh, pair.aged) = (positions[pair.fresh], positions[pair.aged]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fixture, view};

    #[test]
    fn rows_are_sorted_with_their_bases_and_unsafe_ones_stay_last() {
        let trials = fixture::trials();
        let mut sections = view::sections(&trials, None);
        let section = &mut sections[0];
        let base_of = |section: &Section<'_>, name: &str| {
            let row = section.rows.iter().find(|row| row.name == name)?;
            Some(section.rows[row.base?].name.clone())
        };
        let names = |section: &Section<'_>| -> Vec<String> {
            section.rows.iter().map(|row| row.name.clone()).collect()
        };
        let before = names(section);
        let bases: Vec<_> = before.iter().map(|name| base_of(section, name)).collect();
        sort(section, Sort::Time);
        assert!(section.rows.is_sorted_by(|a, b| a.measured.mean <= b.measured.mean));
        sort(section, Sort::Name);
        let mut sorted = before.clone();
        sorted.sort();
        assert_eq!(names(section), sorted);
        let after: Vec<_> = before.iter().map(|name| base_of(section, name)).collect();
        assert_eq!(after, bases);
        section.rows[0].risks = vec!["barrier=0".into()];
        sort(section, Sort::Name);
        assert_eq!(section.rows.last().map(|row| row.name.clone()), sorted.first().cloned());
    }
}
