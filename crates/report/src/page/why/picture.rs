//! A picture of a disk's requests: address against time, coloured by the structure that they touch.

use std::collections::BTreeMap;
use std::fmt::Write;

use fsdyno_record::Nanos;
use fsdyno_why::Structure;
use fsdyno_why::grid::{COLUMNS, DiskGrid, Grid, ROWS};

use super::super::chart::{Anchor, Chart, Key};

/// Height of a disk's part, in pixels.
const HEIGHT: f64 = 200.0;

/// Below this number of spots, spots are drawn three times as wide and high to be visible.
const MIN_DENSE_SPOTS: usize = 1000;

/// Minimum height of a part that has space for two labels, in pixels.
const MIN_LABELLED_HEIGHT: f64 = 30.0;

/// The class for requests of an unknown structure.
const UNKNOWN: &str = "ink";

/// The class of each structure, the same in every picture; any two structures of one file system differ.
fn class(structure: Structure) -> &'static str {
    match structure {
        Structure::Data => "f0",
        Structure::Journal | Structure::LogTree => "f1",
        Structure::InodeTable | Structure::InodeChunk | Structure::FsTree => "f2",
        Structure::Directory => "f3",
        Structure::Bitmap | Structure::FreeSpaceTree | Structure::ExtentTree => "f4",
        Structure::Extents | Structure::ChecksumTree => "f5",
        Structure::GroupDescriptors | Structure::AgHeader | Structure::RootTree => "f6",
        Structure::InodeTree | Structure::FreedTree => "f7",
        Structure::Superblock => "n0",
        Structure::Attribute => "n1",
        Structure::OwnerTree => "n2",
        // A flush has no address and is not drawn.
        Structure::DeviceEnd | Structure::Flush => "n3",
    }
}

/// The picture of a phase's requests.
pub fn chart(title: &str, grid: &Grid) -> Chart {
    let mut chart = Chart::new(title, description(grid));
    let mut key: BTreeMap<&'static str, &'static str> = BTreeMap::new();
    for disk in &grid.disks {
        for (structure, _) in &disk.cells {
            let (class, name) = class_and_name(*structure);
            key.insert(name, class);
        }
    }
    let key: Vec<(Key, String)> =
        key.into_iter().map(|(name, class)| (Key::Box(class.into()), name.to_string())).collect();
    chart.key(&key);
    chart.grow(8.0);
    for disk in &grid.disks {
        if grid.disks.len() > 1 {
            chart.grow(16.0);
            let y = chart.height();
            chart.text("name", 0.0, y - 4.0, Anchor::Start, &format!("disk {}", disk.disk));
        }
        let top = chart.height();
        draw_disk(&mut chart, disk, top);
        chart.grow(HEIGHT + 6.0);
    }
    let bottom = chart.height();
    let ends = [(0.0, "first request".into(), Anchor::Start), (1.0, end_label(grid), Anchor::End)];
    for (x, label, anchor) in ends {
        chart.text("tick", x, bottom + 12.0, anchor, &label);
    }
    chart.grow(20.0);
    chart
}

fn class_and_name(structure: Option<Structure>) -> (&'static str, &'static str) {
    structure.map_or((UNKNOWN, "unattributed"), |structure| (class(structure), structure.name()))
}

fn description(grid: &Grid) -> String {
    format!("{} requests within {}, by their address", grid.requests, duration(grid))
}

/// The time from the first request to the last.
fn duration(grid: &Grid) -> Nanos {
    Nanos(grid.time.1.0.saturating_sub(grid.time.0.0))
}

/// The label below the last request.
fn end_label(grid: &Grid) -> String {
    if duration(grid).0 == 0 { String::new() } else { format!("{} later", duration(grid)) }
}

/// The note that explains a picture.
pub fn note(grid: &Grid) -> String {
    let hidden = match grid.hidden {
        0 => String::new(),
        hidden => format!(", which hides {hidden} of them"),
    };
    let parts = match grid.disks.iter().any(|disk| disk.bands.len() > 1) {
        true => " Ranges without a request are omitted; each part has a separate scale.",
        false => "",
    };
    format!(
        "{} requests by address, upward, and time of arrival; a spot has the colour of \
         the structure that most of its requests touch{hidden}.{parts}",
        grid.requests
    )
}

/// Draws one disk: a path for each structure, in a nested drawing that is stretched.
fn draw_disk(chart: &mut Chart, disk: &DiskGrid, top: f64) {
    chart.push(format_args!(
        r#"<svg y="{top:.1}" width="100%" height="{HEIGHT}" viewBox="0 0 {COLUMNS} {ROWS}" preserveAspectRatio="none">"#
    ));
    let spots: usize = disk.cells.iter().map(|(_, cells)| cells.len()).sum();
    let margin = u16::from(spots < MIN_DENSE_SPOTS);
    for (structure, cells) in &disk.cells {
        let (class, path) = (class_and_name(*structure).0, path(cells, margin));
        chart.push(format_args!(r#"<path class="{class}" d="{path}"/>"#));
    }
    chart.push(format_args!("</svg>"));
    let row = HEIGHT / f64::from(ROWS);
    for band in disk.bands_or_whole() {
        let (low, high) = (f64::from(band.rows.0), f64::from(band.rows.1 + 1));
        let (bottom, top) = (top + HEIGHT - low * row, top + HEIGHT - high * row);
        chart.horizontal_line(bottom, &gibibytes(band.bytes.0));
        chart.horizontal_line(top, "");
        // A second label needs space, and is useful only if it differs from the first.
        if bottom - top >= MIN_LABELLED_HEIGHT && gibibytes(band.bytes.0) != gibibytes(band.bytes.1)
        {
            chart.text("tick", 0.0, top + 12.0, Anchor::Start, &gibibytes(band.bytes.1));
        }
    }
}

/// The cells as boxes, enlarged by `margin` cells on each side; adjacent ones are merged.
fn path(cells: &[(u16, u16)], margin: u16) -> String {
    let mut cells: Vec<(u16, u16)> = cells.iter().map(|(column, row)| (*row, *column)).collect();
    cells.sort_unstable();
    let mut out = String::new();
    let mut index = 0;
    while let Some((row, from)) = cells.get(index).copied() {
        let follows = |(offset, cell): (usize, &(u16, u16))| {
            *cell == (row, from.saturating_add(u16::try_from(offset).unwrap_or(u16::MAX)))
        };
        let count = cells[index..].iter().enumerate().take_while(|cell| follows(*cell)).count();
        // Rows are counted from the bottom. Parts beyond the edge are clipped.
        let (width, height) = (count + 2 * usize::from(margin), 1 + 2 * margin);
        let (x, y) = (i32::from(from) - i32::from(margin), (ROWS - 1).saturating_sub(row));
        let y = i32::from(y) - i32::from(margin);
        // Writing to a string cannot fail, so the result is ignored.
        let _ = write!(out, "M{x} {y}h{width}v{height}h-{width}z");
        index += count.max(1);
    }
    out
}

fn gibibytes(bytes: u64) -> String {
    format!("{:.2} GiB", bytes as f64 / f64::from(1 << 30))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use fsdyno_why::grid::Band;

    use super::*;

    #[test]
    fn structures_of_one_file_system_have_distinct_colours() {
        use Structure::*;
        let families: [&[Structure]; 4] = [
            &[
                Superblock,
                GroupDescriptors,
                Bitmap,
                InodeTable,
                Directory,
                Attribute,
                Extents,
                Journal,
                Data,
            ],
            &[
                AgHeader,
                FreeSpaceTree,
                InodeTree,
                OwnerTree,
                InodeChunk,
                Directory,
                Attribute,
                Extents,
                Journal,
                Data,
                DeviceEnd,
            ],
            &[Superblock, RootTree, FsTree, ExtentTree, ChecksumTree, LogTree, FreedTree, Data],
            &[Superblock, Bitmap, FsTree, Journal, Data, DeviceEnd],
        ];
        for family in families {
            let classes: BTreeSet<_> = family.iter().map(|cell| class(*cell)).collect();
            assert_eq!(classes.len(), family.len(), "{family:?}");
            assert!(!classes.contains(UNKNOWN));
        }
        let all: BTreeSet<_> = families.concat().into_iter().collect();
        assert_eq!(all.len(), Structure::ALL.len() - 1, "one structure is not drawn");
    }

    #[test]
    fn adjacent_cells_are_one_box() {
        assert_eq!(
            path(&[(3, 0), (4, 0), (6, 0), (3, 1)], 0),
            "M3 99h2v1h-2zM6 99h1v1h-1zM3 98h1v1h-1z"
        );
        assert_eq!(path(&[(0, 0), (1, 0)], 1), "M-1 98h4v3h-4z");
    }

    #[test]
    fn disks_are_below_each_other_each_with_its_own_axis() {
        let disk = |disk, high| DiskGrid {
            disk,
            bytes: (0, high),
            bands: Vec::new(),
            cells: vec![(Some(Structure::Data), vec![(0, 0)]), (None, vec![(9, 9)])],
        };
        let mut grid = Grid { disks: vec![disk(0, 1 << 30)], requests: 2, ..Grid::default() };
        let one = chart("x", &grid).inline("i");
        assert!(one.contains(">1.00 GiB<") && one.contains("unattributed"), "{one}");
        assert!(!one.contains("disk 0"), "{one}");
        grid.disks.push(disk(1, 2 << 30));
        let two = chart("x", &grid).inline("i");
        assert!(two.contains(">disk 0<") && two.contains(">disk 1<") && two.contains(">2.00 GiB<"));
    }

    #[test]
    fn parts_of_a_disk_have_their_own_addresses_and_a_note() {
        let band = |low: u64, high: u64, rows| Band { bytes: (low << 30, high << 30), rows };
        let disk = DiskGrid {
            disk: 0,
            bytes: (1 << 30, 9 << 30),
            bands: vec![band(1, 1, (0, 9)), band(7, 9, (13, 99))],
            cells: vec![(Some(Structure::Data), vec![(0, 0)])],
        };
        let time = (Nanos(5_000_000_000), Nanos(5_030_000_000));
        let grid = Grid { time, disks: vec![disk], requests: 1, hidden: 0 };
        let drawn = chart("x", &grid).inline("i");
        for label in [">1.00 GiB<", ">7.00 GiB<", ">9.00 GiB<", ">30.0 ms later<"] {
            assert_eq!(drawn.matches(label).count(), 1, "{label}: {drawn}");
        }
        assert!(note(&grid).contains("are omitted") && !note(&grid).contains("hides"));
    }
}
