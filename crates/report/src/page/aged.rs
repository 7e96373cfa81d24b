//! Fresh against aged file systems: rows of a phase that differ only in the age of their file system.

use fsdyno_stats::compare::{Comparison, Verdict};

use super::bars::{self, Bar, Bars, Part, Tone};
use super::colour::Appearances;
use super::figure::{Figure, drawn_note, n_text};
use super::scale::Unit;
use crate::measure::Measure;
use crate::model::{Row, Section};
use crate::number;
use crate::table::Table;

/// The figure, or `None` if no aged row has a fresh counterpart.
pub fn figure(section: &Section<'_>, appearances: &Appearances) -> Option<Figure> {
    if section.aged.is_empty() {
        return None;
    }
    let mut bars: Vec<Bar> = Vec::new();
    let mut previous = None;
    for pair in &section.aged {
        // Several ages of one file system share its fresh row.
        if previous != Some(pair.fresh) {
            bars.extend(bar(section, pair.fresh, String::new(), appearances));
        }
        bars.extend(bar(section, pair.aged, ratio(&pair.comparison), appearances));
        previous = Some(pair.fresh);
    }
    let total = bars.len();
    let measure = section.measure;
    let unit = if measure == Measure::Space { Unit::Bytes } else { Unit::Seconds };
    let title = format!("{}: fresh against aged", section.title());
    let chart = bars::draw(&Bars { title, unit, bars, key: Vec::new() });
    let n = section.aged.iter().map(|pair| pair.comparison.n);
    let note = format!(
        "{}. Pairs that differ only in age; the ratio is the aged one's over the fresh one's, ~ if it is \
         undecided (Holm, for all comparisons of the report); {}{}.",
        measure.words(),
        n_text(n),
        drawn_note(bars::MAX_BARS, total)
    );
    let table = table(section, appearances);
    Some(Figure { slug: "age", title: "Fresh against aged".into(), note, chart, table })
}

/// The ratio as text: `, 1.30x`.
fn ratio(comparison: &Comparison) -> String {
    let mark = match comparison.verdict {
        Verdict::Undecided => "~ ",
        Verdict::WithinError => "? ",
        Verdict::Faster | Verdict::Slower | Verdict::Same => "",
    };
    format!(", {mark}{}", number::format_ratio(comparison.ratio))
}

fn bar(section: &Section<'_>, row: usize, ratio: String, appearances: &Appearances) -> Option<Bar> {
    let row = section.rows.get(row)?;
    Some(Bar {
        name: row.name.clone(),
        appearance: appearances.get(row),
        value: section.measure.format(row.measured.mean) + &ratio,
        parts: vec![Part { length: row.measured.mean, tone: Tone::Full }],
        interval: row.measured.interval(),
        thin_bar: None,
    })
}

fn table(section: &Section<'_>, appearances: &Appearances) -> Table {
    let heads = ["<aged", "<fresh", "n", "aged", "fresh", "ratio", "95 % interval", "<verdict"];
    let measure = section.measure;
    let caption = format!("{}; ratios are of geometric means of n trials", measure.words());
    let mut table = Table::new(caption, &heads);
    for pair in &section.aged {
        let (Some(fresh), Some(aged)) = (section.rows.get(pair.fresh), section.rows.get(pair.aged))
        else {
            continue;
        };
        let mean = |row: &Row<'_>| measure.format(row.measured.mean);
        let comparison = &pair.comparison;
        let cells = vec![
            aged.name.clone(),
            fresh.name.clone(),
            comparison.n.to_string(),
            mean(aged),
            mean(fresh),
            number::format_ratio(comparison.ratio),
            comparison.interval.map_or("–".into(), super::overview::interval),
            measure.verdict(comparison.verdict).into(),
        ];
        table.row(appearances.get(aged), cells);
    }
    table.without_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fixture, view};

    #[test]
    fn an_aged_row_is_next_to_its_fresh_one_with_their_ratio() {
        let trials = fixture::fresh_and_aged();
        let sections = view::sections(&trials, None);
        let section = &sections[0];
        let appearances = Appearances::of(&section.rows);
        let figure = figure(section, &appearances).unwrap();
        assert_eq!(figure.table.rows.len(), 3, "{:?}", figure.table.rows);
        let cells = &figure.table.rows[0].cells;
        assert!(cells[0].contains("aged 80% churn 2") && cells[1].contains("fresh"), "{cells:?}");
        assert!(figure.chart.inline("a").contains("x</text>"), "the ratio is drawn");
    }

    #[test]
    fn a_phase_that_fills_its_file_system_is_drawn_by_its_capacity() {
        let mut trials = fixture::fresh_and_aged();
        for trial in &mut trials {
            let files = if trial.plan.age().is_some() { 500 } else { 1000 } + trial.seed;
            let device = Some(fsdyno_record::Bytes(1 << 20));
            let capacity = fsdyno_record::trial::Capacity { device, files, ..Default::default() };
            trial.measured.capacity = Some(capacity);
        }
        let sections = view::sections(&trials, None);
        let figure = figure(&sections[0], &Appearances::of(&sections[0].rows)).unwrap();
        assert!(figure.note.starts_with("Device space per file."), "{}", figure.note);
        let cells = &figure.table.rows[0].cells;
        assert_eq!((cells[3].as_str(), cells[7].as_str()), ("2.0 KiB", "more space"));
    }
}
