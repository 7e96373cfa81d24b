//! Times of a phase: until the last call returned, and until durable.

use fsdyno_stats::Summary;

use super::bars::{self, Bar, Bars, Part, Tone};
use super::chart::Key;
use super::colour::Appearances;
use super::figure::{Figure, drawn_note, n_text};
use super::scale::Unit;
use crate::model::{Row, Section};
use crate::table::Table;
use crate::{columns, number};

/// The first figure of a section.
pub fn figure(section: &Section<'_>, appearances: &Appearances) -> Figure {
    let by_time = section.rows.iter().any(|row| row.per_operation.is_some());
    let colour = bars::key_colour(&section.rows, appearances);
    let key = match section.rows.iter().any(|row| durable_part(row).is_some()) {
        true => vec![
            (Key::Box(colour.clone()), "last call returned".to_string()),
            (Key::Box(format!("{colour} light")), "until durable".to_string()),
        ],
        false => Vec::new(),
    };
    let chart = bars::draw(&Bars {
        title: format!(
            "{}: {}",
            section.title(),
            if by_time { "time per operation" } else { "time" }
        ),
        unit: Unit::Seconds,
        bars: section.rows.iter().map(|row| bar(row, appearances)).collect(),
        key,
    });
    let shorter = if by_time { "Time per operation; shorter" } else { "Shorter" };
    let note = format!(
        "{shorter} is better; {}, whiskers are 95 % intervals{}.",
        n_text(section.rows.iter().map(|row| row.returned.n)),
        drawn_note(bars::MAX_BARS, section.rows.len())
    );
    let table = table(section, appearances);
    Figure { slug: "times", title: "Time".into(), note, chart, table }
}

fn bar(row: &Row<'_>, appearances: &Appearances) -> Bar {
    let returned = row.per_operation.as_ref().unwrap_or(&row.returned);
    let mut parts = vec![Part { length: returned.mean, tone: Tone::Full }];
    let rest = durable_part(row).map(|durable| durable.mean - returned.mean);
    parts.extend(rest.map(|length| Part { length, tone: Tone::Light }));
    Bar {
        name: row.marked_name(),
        appearance: appearances.get(row),
        value: value(row),
        parts,
        interval: row.time().interval(),
        thin_bar: None,
    }
}

/// The time to durable, if it is known and times are not per operation.
fn durable_part<'r>(row: &'r Row<'_>) -> Option<&'r Summary> {
    row.durable.as_ref().filter(|_| row.per_operation.is_none())
}

fn value(row: &Row<'_>) -> String {
    if let Some(each) = &row.per_operation {
        return format!("{} per operation", number::seconds(each.mean));
    }
    let returned = number::seconds(row.returned.mean);
    match &row.durable {
        Some(durable) => format!("{returned} → {}", number::seconds(durable.mean)),
        None => returned,
    }
}

/// All times of all rows.
fn table(section: &Section<'_>, appearances: &Appearances) -> Table {
    let caption = match section.rows.iter().any(|row| row.returned.n > 1) {
        true => "Mean of n seeds ± 95 % interval; ratios are of geometric means",
        false => "Times of single trials",
    };
    let mut table = columns::page_table(section);
    for (cells, row) in table.rows.iter_mut().zip(&section.rows) {
        cells.dot = appearances.get(row).dot();
    }
    Table { caption: caption.into(), ..table }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fixture, view};

    fn first_figure(trials: &[fsdyno_record::Trial]) -> Figure {
        let sections = view::sections(trials, None);
        let appearances = Appearances::of(sections.iter().flat_map(|section| &section.rows));
        figure(&sections[0], &appearances)
    }

    #[test]
    fn several_seeds_have_whiskers_and_rows_of_one_colour_differ_by_a_hatch() {
        let svg = first_figure(&fixture::trials()).chart.inline("a");
        assert_eq!(svg.matches("class=\"whisker\"").count(), 3);
        assert_eq!(svg.matches("url(#hatch1)").count(), 1, "far is an ext4, too");
        assert!(svg.contains("role=\"img\"") && svg.contains("<desc"));
    }

    #[test]
    fn single_trials_have_no_whiskers_and_a_note() {
        let figure = first_figure(&fixture::single());
        assert!(!figure.chart.inline("a").contains("whisker"));
        assert!(figure.note.contains("n = 1: no interval"), "{}", figure.note);
    }

    #[test]
    fn a_host_without_a_time_to_durable_has_no_light_bars_and_no_column() {
        let figure = first_figure(&fixture::on_a_host());
        assert!(!figure.chart.inline("a").contains("light"));
        assert_eq!(figure.table.shown().count(), 10);
    }
}
