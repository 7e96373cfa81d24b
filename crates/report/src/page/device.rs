//! The device requests of a phase, and the space that the phase used.

use fsdyno_record::Bytes;
use fsdyno_record::trial::Device;

use super::bars::{self, Bar, Bars, Part, Tone};
use super::chart::Key;
use super::colour::Appearances;
use super::figure::{Figure, drawn_note, n_text};
use super::scale::Unit;
use crate::model::{Row, Section};
use crate::number;
use crate::table::Table;

/// The figure of requests and seeks, or `None` if the device has no counters.
pub fn requests(section: &Section<'_>, appearances: &Appearances) -> Option<Figure> {
    let rows: Vec<&Row<'_>> =
        section.rows.iter().filter(|row| mean(row, |d| Some(d.reads)).is_some()).collect();
    let count = |row: &Row<'_>, value: fn(&Device) -> Option<u64>| mean(row, value).unwrap_or(0.0);
    let bar = |row: &&Row<'_>| {
        let [reads, writes, flushes] = [
            count(row, |d| Some(d.reads)),
            count(row, |d| Some(d.writes)),
            count(row, |d| Some(d.flushes)),
        ];
        Bar {
            name: row.name.clone(),
            appearance: appearances.get(row),
            value: match (reads + writes + flushes).round() {
                1.0 => "1 request".to_string(),
                all => format!("{} requests", number::format_scaled(all)),
            },
            parts: vec![
                Part { length: reads, tone: Tone::Full },
                Part { length: writes, tone: Tone::Light },
                Part { length: flushes, tone: Tone::Neutral(1) },
            ],
            interval: None,
            thin_bar: mean(row, |d| d.seeks),
        }
    };
    let bars: Vec<Bar> = rows.iter().map(bar).collect();
    if bars.iter().flat_map(|bar| &bar.parts).all(|part| part.length <= 0.0) {
        return None;
    }
    let colour = bars::key_colour(&section.rows, appearances);
    let mut key = vec![
        (Key::Box(colour.clone()), "reads".to_string()),
        (Key::Box(format!("{colour} light")), "writes".to_string()),
        (Key::Box("n1".into()), "flushes".to_string()),
    ];
    if bars.iter().any(|bar| bar.thin_bar.is_some()) {
        key.push((Key::Thin, "seeks".to_string()));
    }
    let chart = bars::draw(&Bars {
        title: format!("{}: device requests", section.title()),
        unit: Unit::Count,
        bars,
        key,
    });
    let note = format!(
        "Mean number of requests until the data was durable, {}{}.",
        n_text(rows.iter().map(|row| row.returned.n)),
        drawn_note(bars::MAX_BARS, rows.len())
    );
    let table = table(&rows, appearances);
    Some(Figure { slug: "device", title: "Device requests".into(), note, chart, table })
}

/// The mean of a device counter over the trials of a row.
fn mean(row: &Row<'_>, value: impl Fn(&Device) -> Option<u64>) -> Option<f64> {
    row.mean(|phase| phase.device.as_ref().and_then(&value).map(|n| n as f64))
}

fn table(rows: &[&Row<'_>], appearances: &Appearances) -> Table {
    let heads = [
        "<file system",
        "n",
        "reads",
        "writes",
        "flushes",
        "discards",
        "bytes read",
        "bytes written",
        "seeks",
    ];
    let mut table = Table::new(
        "Means over n trials, until the data was durable, or until the last known time",
        &heads,
    );
    for row in rows {
        let count = |value: fn(&Device) -> Option<u64>| {
            mean(row, value).map_or("–".into(), |n| number::count(n.round() as u64))
        };
        let bytes = |value: fn(&Device) -> Option<u64>| {
            mean(row, value).map_or("–".into(), |n| Bytes(n as u64).to_string())
        };
        let discards = count(|d| Some(d.discards).filter(|n| *n > 0));
        let cells = vec![
            row.name.clone(),
            row.returned.n.to_string(),
            count(|d| Some(d.reads)),
            count(|d| Some(d.writes)),
            count(|d| Some(d.flushes)),
            discards,
            bytes(|d| Some(d.bytes_read.0)),
            bytes(|d| Some(d.bytes_written.0)),
            count(|d| d.seeks),
        ];
        table.row(appearances.get(row), cells);
    }
    table.without_empty()
}

/// The figure of the space in use at the end of the phase, or `None` for a directory, where statfs counts the whole
/// file system.
pub fn space(section: &Section<'_>, appearances: &Appearances) -> Option<Figure> {
    let rows: Vec<(&Row<'_>, f64)> =
        section.rows.iter().filter_map(|row| Some((row, space_used(row)?))).collect();
    if rows.iter().all(|(_, used)| *used <= 0.0) {
        return None;
    }
    let format_bytes = |bytes: f64| Bytes(bytes as u64).to_string();
    let bar = |(row, used): &(&Row<'_>, f64)| Bar {
        name: row.name.clone(),
        appearance: appearances.get(row),
        value: format_bytes(*used),
        parts: vec![Part { length: *used, tone: Tone::Full }],
        interval: None,
        thin_bar: None,
    };
    let chart = bars::draw(&Bars {
        title: format!("{}: space used at the end", section.title()),
        unit: Unit::Bytes,
        bars: rows.iter().map(bar).collect(),
        key: Vec::new(),
    });
    let note = format!(
        "By the file system's own count (statfs) at the end of the phase, including the space that an empty file \
         system occupies; means, {}{}.",
        n_text(rows.iter().map(|(row, _)| row.returned.n)),
        drawn_note(bars::MAX_BARS, rows.len())
    );
    let mut table = Table::new("Means over n trials", &["<file system", "n", "space used"]);
    for (row, used) in &rows {
        let cells = vec![row.name.clone(), row.returned.n.to_string(), format_bytes(*used)];
        table.row(appearances.get(row), cells);
    }
    Some(Figure { slug: "space", title: "Space used".into(), note, chart, table })
}

fn space_used(row: &Row<'_>) -> Option<f64> {
    let has_own_filesystem = row.trials.iter().all(|(trial, _)| trial.plan.filesystem.is_some());
    row.mean(|phase| Some(phase.space_used.0 as f64)).filter(|_| has_own_filesystem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fixture, view};

    #[test]
    fn a_device_shows_its_requests_and_seeks_and_a_host_has_neither_figure() {
        let trials = fixture::trials();
        let sections = view::sections(&trials, None);
        let appearances = Appearances::of(sections.iter().flat_map(|section| &section.rows));
        let svg = requests(&sections[0], &appearances).unwrap().chart.inline("a");
        for word in [">reads<", ">writes<", ">flushes<", ">seeks<"] {
            assert!(svg.contains(word), "{word}");
        }
        let host = fixture::on_a_host();
        let sections = view::sections(&host, None);
        assert!(requests(&sections[0], &appearances).is_none());
        assert!(
            space(&sections[0], &appearances).is_none(),
            "a directory's space is the whole file system's"
        );
    }
}
