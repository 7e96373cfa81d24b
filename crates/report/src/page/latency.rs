//! Latencies of a phase's main op: the share of ops that took longer than a given time.

use fsdyno_record::{Histogram, Nanos};

use super::chart::{Chart, Key};
use super::colour::{Appearance, Appearances};
use super::figure::{Figure, drawn_note};
use super::scale::{Log, Unit};
use crate::model::{Row, Section};
use crate::number;
use crate::table::Table;

/// The maximum number of lines that can be distinguished in a chart.
pub const MAX_LINES: usize = 8;

const HEIGHT: f64 = 208.0;

/// The smallest share of ops that is drawn.
const MIN_SHARE: f64 = 1e-6;

/// The figure, or `None` if no op has a latency.
pub fn figure(section: &Section<'_>, appearances: &Appearances) -> Option<Figure> {
    let op = section.latency_op?.name();
    let rows: Vec<(&Row<'_>, &Histogram)> =
        section.rows.iter().filter_map(|row| Some((row, row.latency.as_ref()?))).collect();
    if rows.is_empty() {
        return None;
    }
    let title = format!("Latency of {op}");
    let note = format!(
        "The share of ops that took longer than a given time; further left is better. Both axes are \
         logarithmic; all seeds together{}.",
        drawn_note(MAX_LINES, rows.len())
    );
    let chart = chart(&format!("{}: latency of {op}", section.title()), &rows, appearances);
    Some(Figure { slug: "latency", title, note, chart, table: table(op, &rows, appearances) })
}

fn chart(title: &str, rows: &[(&Row<'_>, &Histogram)], appearances: &Appearances) -> Chart {
    let rows = &rows[..rows.len().min(MAX_LINES)];
    let descriptions = rows.iter().map(|(row, all)| {
        let [p50, p99] = [50.0, 99.0].map(|p| Nanos(all.percentile(p)));
        format!("{}: half of the ops within {p50}, 99 % within {p99}", row.name)
    });
    let mut chart = Chart::new(title, descriptions.collect::<Vec<_>>().join("; ") + ".");
    let key: Vec<(Key, String)> =
        rows.iter().map(|(row, _)| (Key::Line(appearances.get(row)), row.name.clone())).collect();
    chart.key(&key);
    let buckets: Vec<Vec<(u64, u64)>> = rows.iter().map(|(_, all)| all.buckets()).collect();
    let shortest = buckets.iter().filter_map(|all| all.first()).map(|bucket| bucket.0.max(1)).min();
    let longest = rows.iter().map(|(_, all)| all.max()).max();
    let seconds = |ns: Option<u64>| ns.unwrap_or(1) as f64 / 1e9;
    let x = Log::of_range(seconds(shortest), seconds(longest));
    let max_count = rows.iter().map(|(_, all)| all.count()).max().unwrap_or(1) as f64;
    let y = Log::of_range((1.0 / max_count).max(MIN_SHARE), 1.0);
    let top = chart.height();
    for (position, value) in x.ticks() {
        chart.vertical_line(position, top, top + HEIGHT, &Unit::Seconds.label(value));
    }
    for (position, share) in y.ticks() {
        // The line for all ops is the upper edge and needs no label.
        let label = if share < 1.0 { percentile(share) } else { String::new() };
        chart.horizontal_line(top + HEIGHT * (1.0 - position), &label);
    }
    let paths: Vec<(Appearance, String)> = rows
        .iter()
        .zip(&buckets)
        .map(|((row, all), buckets)| (appearances.get(row), path(buckets, all.max(), &x, &y)))
        .collect();
    chart.paths(top, HEIGHT, &paths);
    chart.grow(HEIGHT + super::chart::AXIS);
    chart
}

/// The label for the share of ops that took longer: `1 % (p99)`.
fn percentile(share: f64) -> String {
    let (percent, rest) = (share * 100.0, 100.0 - share * 100.0);
    let digits = (-percent.log10().floor()).max(0.0) as usize;
    format!("{percent:.digits$} % (p{rest:.digits$})")
}

/// The path with a step at each bucket; steps that are too small to be visible are merged.
fn path(buckets: &[(u64, u64)], longest: u64, x: &Log, y: &Log) -> String {
    let count: u64 = buckets.iter().map(|(_, n)| n).sum();
    let right = |ns: u64| (x.at(ns.min(longest) as f64 / 1e9) * 1000.0).round();
    let y_of = |slower: u64| ((1.0 - y.at(slower as f64 / count as f64)) * HEIGHT).round();
    let mut slower = count;
    let mut path = String::from("M0 0");
    let mut last = (0.0, 0.0);
    for (index, (upper, n)) in buckets.iter().enumerate() {
        slower -= n;
        let point = (right(*upper), y_of(slower));
        let visible = point.0 - last.0 >= 4.0 || point.1 - last.1 >= 3.0;
        if visible || index + 1 == buckets.len() {
            path.push_str(&format!("H{}V{}", point.0, point.1));
            last = point;
        }
    }
    path
}

fn table(op: &str, rows: &[(&Row<'_>, &Histogram)], appearances: &Appearances) -> Table {
    let heads = ["<file system", op, "p50", "p90", "p99", "p99.9", "max"];
    let mut table =
        Table::new("Latency percentiles over all seeds, at most 1.6 % too high", &heads);
    for (row, all) in rows {
        let mut cells = vec![row.name.clone(), number::count(all.count())];
        let percentile = |p: f64| Nanos(all.percentile(p)).to_string();
        cells.extend([50.0, 90.0, 99.0, 99.9, 100.0].map(percentile));
        table.row(appearances.get(row), cells);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fixture, view};

    #[test]
    fn a_line_falls_from_all_ops_to_none_and_is_short() {
        let buckets: Vec<(u64, u64)> = (1..=2000).map(|n| (n * 1000, 1)).collect();
        let (x, y) = (Log::of_range(1e-6, 2e-3), Log::of_range(1.0 / 2000.0, 1.0));
        let path = path(&buckets, 2_000_000, &x, &y);
        assert!(path.starts_with("M0 0") && path.ends_with(&format!("V{HEIGHT:.0}")), "{path}");
        assert!(path.len() < 2000, "{}", path.len());
        // Half of the ops took longer than 1 ms.
        let half = ((1.0 - y.at(0.5)) * HEIGHT).round();
        let right = (x.at(1e-3) * 1000.0).round();
        let is_near =
            path.split('H').filter_map(|step| step.split_once('V')).any(|(across, y_text)| {
                let (across, y_text): (f64, f64) =
                    (across.parse().unwrap(), y_text.parse().unwrap());
                (across - right).abs() <= 4.0 && (y_text - half).abs() <= 3.0
            });
        assert!(is_near, "{path}");
    }

    #[test]
    fn labels_state_the_share_and_the_percentile() {
        let written = [0.1, 0.01, 0.001, 0.0001].map(percentile);
        assert_eq!(written, ["10 % (p90)", "1 % (p99)", "0.1 % (p99.9)", "0.01 % (p99.99)"]);
    }

    #[test]
    fn every_file_system_has_its_line_and_its_row() {
        let trials = fixture::trials();
        let sections = view::sections(&trials, None);
        let appearances = Appearances::of(sections.iter().flat_map(|section| &section.rows));
        let figure = figure(&sections[0], &appearances).unwrap();
        let svg = figure.chart.inline("a");
        assert_eq!(svg.matches("<path class=\"line l").count(), 6, "three lines, three in the key");
        assert_eq!(figure.table.rows.len(), 3);
        assert_eq!(figure.table.rows[0].cells[1], "30,000", "n is of ops, over all seeds");
    }
}
