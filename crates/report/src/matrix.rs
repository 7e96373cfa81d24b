//! The comparison matrix: a row for each configuration, a column for each phase, and in each cell the same ratio as in
//! the tables of the phases. The shade of a cell only repeats the size of its ratio.

use crate::model::{Row as Configuration, Section};
use crate::table::{Fit, Head, Kind, Row, Table};

/// The minimum numbers of configurations and of phases; with fewer of them, the tables of the phases are as short as
/// the matrix.
const MIN_SIZE: (usize, usize) = (5, 2);

/// The ratios at which a darker shade begins.
const SHADES: [f64; 5] = [1.05, 1.25, 1.6, 2.5, 5.0];

/// The matrix, or `None` if there are too few configurations or phases.
pub fn table(sections: &[Section<'_>]) -> Option<Table> {
    let mut names: Vec<String> = Vec::new();
    for row in sections.iter().flat_map(|section| &section.rows) {
        let name = row.marked_name();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if names.len() < MIN_SIZE.0 || sections.len() < MIN_SIZE.1 {
        return None;
    }
    let first = Head { text: "file system".into(), kind: Kind::Text, ..Head::default() };
    let head = |section: &Section<'_>| Head { text: section.title(), ..Head::default() };
    let heads = std::iter::once(first).chain(sections.iter().map(head)).collect();
    let versus = sections.first().map(|section| section.versus.as_str()).unwrap_or_default();
    let caption = format!("Every phase, relative to {versus}; less is better");
    let rows = names.into_iter().map(|name| line(sections, name)).collect();
    Some(Table {
        caption,
        heads,
        rows,
        fit: Fit::Blocks { labels: 1, indent: 0 },
        ..Table::default()
    })
}

/// The ratios of one configuration.
fn line(sections: &[Section<'_>], name: String) -> Row {
    let (mut cells, mut shades) = (vec![name], vec![0]);
    for section in sections {
        let row = section.rows.iter().find(|row| row.marked_name() == cells[0]);
        let ratio = row.and_then(|row: &Configuration<'_>| row.ratio);
        cells.push(ratio.map_or("-".into(), |ratio| ratio.to_string()));
        shades.push(ratio.map_or(0, |ratio| shade(ratio.value)));
    }
    Row { cells, shades, ..Row::default() }
}

/// The shade of a ratio: positive for slower, negative for faster.
fn shade(ratio: f64) -> i8 {
    let factor = ratio.max(1.0 / ratio);
    let level = SHADES.iter().take_while(|limit| factor >= **limit).count() as i8;
    if ratio < 1.0 { -level } else { level }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fixture, view};

    /// The trials of the fixture twice, the second time under other labels.
    fn six_configurations() -> Vec<fsdyno_record::Trial> {
        let mut trials = fixture::trials();
        let mut more = fixture::trials();
        for trial in &mut more {
            trial.plan.label.push_str("-2");
            trial.plan.hash.push('2');
        }
        trials.append(&mut more);
        trials
    }

    #[test]
    fn each_cell_has_the_same_ratio_as_the_table_of_its_phase() {
        let trials = six_configurations();
        let sections = view::sections(&trials, None);
        let matrix = table(&sections).unwrap();
        assert_eq!((matrix.rows.len(), matrix.heads.len()), (6, 5));
        for (index, section) in sections.iter().enumerate() {
            for (row, matrix_row) in section.rows.iter().zip(&matrix.rows) {
                assert_eq!(matrix_row.cells[0], row.marked_name());
                assert_eq!(matrix_row.cells[index + 1], row.ratio.unwrap().to_string());
            }
        }
        let html = crate::table::html::table(&matrix);
        assert!(html.contains("class=\"slower"), "{html}");
    }

    #[test]
    fn few_rows_have_no_matrix() {
        let trials = fixture::trials();
        assert!(table(&view::sections(&trials, None)).is_none());
    }

    #[test]
    fn a_shade_grows_with_the_ratio_in_both_directions() {
        assert_eq!([1.0, 1.04, 1.1, 3.0, 50.0].map(shade), [0, 0, 1, 4, 5]);
        assert_eq!([0.99, 0.9, 0.1].map(shade), [0, -1, -5]);
    }
}
