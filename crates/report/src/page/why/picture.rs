//! A picture of a disk's requests: address against time, in the colour of the structure that they touch.

use std::collections::BTreeMap;
use std::fmt::Write;

use fsdyno_record::Nanos;
use fsdyno_why::Structure;
use fsdyno_why::grid::{COLUMNS, DiskGrid, Grid, ROWS};

use super::super::chart::{Anchor, Chart, Key};

/// Height of a disk's part, in pixels.
const HEIGHT: f64 = 200.0;

/// What is drawn where nobody can tell the structure.
const UNKNOWN: &str = "ink";

/// The class of each structure, the same in every picture; any two of one file system differ.
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
        // A flush has no address and is in no picture.
        Structure::DeviceEnd | Structure::Flush => "n3",
    }
}

/// The picture of a phase's requests.
pub fn chart(title: &str, grid: &Grid) -> Chart {
    let mut chart = Chart::new(title, description(grid));
    let mut key: BTreeMap<&'static str, &'static str> = BTreeMap::new();
    for disk in &grid.disks {
        for (structure, _) in &disk.cells {
            let (class, name) = look(*structure);
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
        field(&mut chart, disk, top);
        chart.grow(HEIGHT + 6.0);
    }
    let bottom = chart.height();
    for (at, time, anchor) in [(0.0, grid.time.0, Anchor::Start), (1.0, grid.time.1, Anchor::End)] {
        chart.text("tick", at, bottom + 12.0, anchor, &seconds(time));
    }
    chart.grow(20.0);
    chart
}

fn look(structure: Option<Structure>) -> (&'static str, &'static str) {
    structure.map_or((UNKNOWN, "unattributed"), |it| (class(it), it.name()))
}

fn description(grid: &Grid) -> String {
    format!(
        "{} requests from {} to {}, by their address",
        grid.requests,
        seconds(grid.time.0),
        seconds(grid.time.1)
    )
}

/// What a reader of it has to know.
pub fn note(grid: &Grid) -> String {
    format!(
        "{} requests by their address and the time they arrived at; a spot has the colour of what most of \
         its requests touch, which hides {} of them.",
        grid.requests, grid.hidden
    )
}

/// One disk: a path for each structure, in a field that is stretched.
fn field(chart: &mut Chart, disk: &DiskGrid, top: f64) {
    chart.put(format_args!(
        r#"<svg y="{top:.1}" width="100%" height="{HEIGHT}" viewBox="0 0 {COLUMNS} {ROWS}" preserveAspectRatio="none">"#
    ));
    for (structure, cells) in &disk.cells {
        let (class, path) = (look(*structure).0, path(cells));
        chart.put(format_args!(r#"<path class="{class}" d="{path}"/>"#));
    }
    chart.put(format_args!("</svg>"));
    chart.level(top + HEIGHT, &gibibytes(disk.bytes.0));
    chart.level(top, "");
    chart.text("tick", 0.0, top + 12.0, Anchor::Start, &gibibytes(disk.bytes.1));
}

/// The cells as boxes; those side by side are one.
fn path(cells: &[(u16, u16)]) -> String {
    let mut cells: Vec<(u16, u16)> = cells.iter().map(|(column, row)| (*row, *column)).collect();
    cells.sort_unstable();
    let mut out = String::new();
    let mut at = 0;
    while let Some((row, from)) = cells.get(at).copied() {
        let follows = |(offset, cell): (usize, &(u16, u16))| {
            *cell == (row, from.saturating_add(u16::try_from(offset).unwrap_or(u16::MAX)))
        };
        let wide = cells[at..].iter().enumerate().take_while(|it| follows(*it)).count();
        // Writing to a string cannot fail, so the result carries nothing. Rows count from below.
        let y = (ROWS - 1).saturating_sub(row);
        let _ = write!(out, "M{from} {y}h{wide}v1h-{wide}z");
        at += wide.max(1);
    }
    out
}

fn gibibytes(bytes: u64) -> String {
    format!("{:.2} GiB", bytes as f64 / f64::from(1 << 30))
}

fn seconds(time: Nanos) -> String {
    format!("{:.3} s", time.0 as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn structures_of_one_file_system_have_colours_of_their_own() {
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
            let classes: BTreeSet<_> = family.iter().map(|it| class(*it)).collect();
            assert_eq!(classes.len(), family.len(), "{family:?}");
            assert!(!classes.contains(UNKNOWN));
        }
        let all: BTreeSet<_> = families.concat().into_iter().collect();
        assert_eq!(all.len(), Structure::ALL.len() - 1, "one is in no picture");
    }

    #[test]
    fn cells_side_by_side_are_one_box() {
        assert_eq!(
            path(&[(3, 0), (4, 0), (6, 0), (3, 1)]),
            "M3 99h2v1h-2zM6 99h1v1h-1zM3 98h1v1h-1z"
        );
    }

    #[test]
    fn disks_stand_below_each_other_each_with_its_own_axis() {
        let disk = |disk, high| DiskGrid {
            disk,
            bytes: (0, high),
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
}
