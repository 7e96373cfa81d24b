//! The chart of a study's tables of factors: rows by columns; the farther a cell is from the best, the darker it
//! is.

use super::chart::{Anchor, Chart, percent, truncate};
use super::files::ChartFile;
use crate::number::sanitize;
use crate::study::{Factor, Factors, Judged};

/// Share of the width that the labels of rows take.
const LABEL_SHARE: f64 = 0.14;

/// The factor from which cells have the darkest shade.
const MAX_SHADED_FACTOR: f64 = 8.0;

/// The opacity of the darkest shade.
const MAX_OPACITY: f64 = 0.8;

const TITLE_HEIGHT: f64 = 24.0;
const HEADS_HEIGHT: f64 = 18.0;
const ROW_HEIGHT: f64 = 22.0;
const TABLE_GAP: f64 = 14.0;

/// The maximum number of characters of a table name, which must fit on the narrowest chart; the caption is above the
/// numbers.
const MAX_NAME: usize = 36;

/// The maximum number of characters of the head of a column.
const MAX_HEAD: usize = 12;

/// The tables of factors of a study as chart files: `factors.svg`, then `factors-2.svg` and so on for further
/// variants.
pub fn charts(judged: &Judged) -> Vec<ChartFile> {
    let judged = judged.merged();
    let drawn = judged.variants.iter().filter_map(|variant| chart(&variant.factors));
    let file = |(index, chart): (usize, Chart)| ChartFile {
        name: match index {
            0 => "factors.svg".into(),
            _ => format!("factors-{}.svg", index + 1),
        },
        svg: chart.standalone_svg(),
    };
    drawn.enumerate().map(file).collect()
}

/// The drawing, or `None` without a table.
pub fn chart(tables: &[Factors]) -> Option<Chart> {
    if tables.is_empty() {
        return None;
    }
    let what = "Rows by columns; the darker a cell, the farther from the best of its column. ~: no difference is shown.";
    let mut chart = Chart::new("Factor to the best", what);
    for table in tables {
        let top = chart.height();
        chart.text(
            "name",
            0.0,
            top + 14.0,
            Anchor::Start,
            &truncate(&sanitize(&table.name), MAX_NAME),
        );
        heads(&mut chart, table, top + TITLE_HEIGHT);
        for (index, row) in table.rows.iter().enumerate() {
            let y = top + TITLE_HEIGHT + HEADS_HEIGHT + ROW_HEIGHT * index as f64;
            chart.text("value", 0.0, y + 15.0, Anchor::Start, &truncate(&row.label, MAX_HEAD));
            for (column, cell) in row.cells.iter().enumerate() {
                draw(&mut chart, cell, (column, table.columns.len()), y);
            }
        }
        chart.grow(TITLE_HEIGHT + HEADS_HEIGHT + ROW_HEIGHT * table.rows.len() as f64 + TABLE_GAP);
    }
    Some(chart)
}

fn heads(chart: &mut Chart, table: &Factors, y: f64) {
    let width = (1.0 - LABEL_SHARE) / table.columns.len() as f64;
    for (index, head) in table.columns.iter().enumerate() {
        let middle = LABEL_SHARE + width * (index as f64 + 0.5);
        chart.text("tick", middle, y + 12.0, Anchor::Middle, &truncate(head, MAX_HEAD));
    }
}

/// Draws a cell: its factor on its shade, the best one in bold.
fn draw(chart: &mut Chart, cell: &Factor, (column, columns): (usize, usize), y: f64) {
    let width = (1.0 - LABEL_SHARE) / columns as f64;
    let x = LABEL_SHARE + width * column as f64;
    if let Some(shade) = cell.factor.map(|factor| shade(factor.value)).filter(|shade| *shade > 0.0)
    {
        chart.push(format_args!(
            r#"<rect class="f1" fill-opacity="{shade:.2}" x="{}" y="{y:.1}" width="{}" height="{:.1}"/>"#,
            percent(x),
            percent(width * 0.98),
            ROW_HEIGHT - 2.0
        ));
    }
    let best = cell.factor.is_some_and(|factor| factor.value == 1.0);
    let class = if best { "name" } else { "value" };
    chart.text(class, x + width / 2.0, y + 15.0, Anchor::Middle, &cell.text());
}

/// The opacity of a cell, by the logarithm of its factor.
fn shade(factor: f64) -> f64 {
    MAX_OPACITY * (factor.ln() / MAX_SHADED_FACTOR.ln()).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::sample;

    #[test]
    fn every_cell_is_drawn_with_its_factor_and_slower_cells_are_darker() {
        let [file] = charts(&sample::factors()).try_into().unwrap();
        assert_eq!(file.name, "factors.svg");
        for text in ["server-2026", ">exfat<", ">2.35x<", ">31.6x<", ">~ 1.04x<", ">1.00<", ">-<"] {
            assert!(file.svg.contains(text), "{text} in {}", file.svg);
        }
        assert_eq!([shade(1.0), shade(8.0), shade(100.0)], [0.0, MAX_OPACITY, MAX_OPACITY]);
        assert!(shade(1.5) < shade(3.0) && chart(&[]).is_none());
    }
}
