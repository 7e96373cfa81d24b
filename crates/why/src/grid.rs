//! The requests of a phase as a grid of time and address, for pictures, with one grid per disk.
//!
//! A cell stands for all requests in it and shows the structure that most of them touch, so a million requests can be
//! shown as well as ten. Requests to other structures in the cell are hidden, and their number is counted.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use fsdyno_record::Nanos;
use serde::{Deserialize, Serialize};

use crate::account::Dot;
use crate::map::Structure;

/// Number of columns.
pub const COLUMNS: u16 = 300;

/// Number of rows of each disk.
pub const ROWS: u16 = 100;

/// The requests of a phase.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grid {
    /// First and last arrival.
    pub time: (Nanos, Nanos),
    /// Number of requests.
    pub requests: u64,
    /// Number of requests whose cell shows a different structure.
    pub hidden: u64,
    /// The disks in ascending order, each with a separate address axis.
    pub disks: Vec<DiskGrid>,
}

/// The requests of one disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskGrid {
    /// Disk number.
    pub disk: u8,
    /// The lowest and the highest first byte of a request.
    pub bytes: (u64, u64),
    /// The parts that contain requests, ascending; the addresses between them have no rows. Empty if the whole disk is
    /// a single part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bands: Vec<Band>,
    /// The cells by structure (`None`: unattributed), as column and row, counted from the left and from the bottom.
    pub cells: Vec<(Option<Structure>, Vec<CellIndex>)>,
}

/// A cell's column and row.
pub type CellIndex = (u16, u16);

/// A part of a disk with its own scale.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Band {
    /// The lowest and the highest first byte of a request.
    pub bytes: (u64, u64),
    /// The rows of these two bytes.
    pub rows: (u16, u16),
}

/// A gap in a disk's addresses is omitted if it is larger than both `MIN_GAP` and 1 / `GAP_FRACTION` of the disk's
/// address range.
const GAP_FRACTION: u64 = 10;
const MIN_GAP: u64 = 16 << 20;
/// The maximum number of bands; if there are more gaps, only the largest ones are omitted.
const MAX_BANDS: usize = 5;
/// The minimum number of rows of a band, and the number of rows between two bands.
const MIN_ROWS: u16 = 10;
const ROWS_BETWEEN: u16 = 3;

impl DiskGrid {
    /// Returns the parts of the disk; the whole disk if it is a single part.
    pub fn bands_or_whole(&self) -> Vec<Band> {
        match self.bands.is_empty() {
            true => vec![Band { bytes: self.bytes, rows: (0, ROWS - 1) }],
            false => self.bands.clone(),
        }
    }
}

/// Returns the parts that contain requests, separated by large gaps.
fn bands(bytes: &BTreeSet<u64>) -> Vec<Band> {
    let (Some(&low), Some(&high)) = (bytes.first(), bytes.last()) else { return Vec::new() };
    let pairs = bytes.iter().zip(bytes.iter().skip(1));
    let mut gaps: Vec<(u64, u64)> = pairs.map(|(from, to)| (*from, *to)).collect();
    gaps.retain(|(from, to)| to - from > ((high - low) / GAP_FRACTION).max(MIN_GAP));
    gaps.sort_by_key(|(from, to)| Reverse(to - from));
    gaps.truncate(MAX_BANDS - 1);
    gaps.sort_unstable();
    if gaps.is_empty() {
        return Vec::new();
    }
    let starts = std::iter::once(low).chain(gaps.iter().map(|gap| gap.1));
    let ends = gaps.iter().map(|gap| gap.0).chain(std::iter::once(high));
    let ranges: Vec<(u64, u64)> = starts.zip(ends).collect();
    let total: u128 = ranges.iter().map(|(from, to)| u128::from(to - from)).sum();
    let count = ranges.len() as u16;
    let shared_rows = ROWS - count * MIN_ROWS - (count - 1) * ROWS_BETWEEN;
    let mut row = 0;
    let mut bands = Vec::new();
    for bytes in ranges {
        let share = (u128::from(bytes.1 - bytes.0) * u128::from(shared_rows)).checked_div(total);
        let share = share.map_or(shared_rows / count, |rows| rows as u16);
        let last = row + MIN_ROWS + share - 1;
        bands.push(Band { bytes, rows: (row, last) });
        row = last + 1 + ROWS_BETWEEN;
    }
    bands
}

impl Grid {
    /// Builds the grid of a phase's requests; `None` if there are none.
    pub fn new(dots: &[Dot]) -> Option<Grid> {
        let first = dots.iter().map(|dot| dot.arrived).min()?;
        let last = dots.iter().map(|dot| dot.arrived).max()?;
        let mut disks: BTreeMap<u8, Vec<&Dot>> = BTreeMap::new();
        dots.iter().for_each(|dot| disks.entry(dot.disk).or_default().push(dot));
        let mut grid =
            Grid { time: (first, last), requests: dots.len() as u64, hidden: 0, disks: Vec::new() };
        for (disk, dots) in disks {
            let disk_grid = grid.disk_grid(disk, &dots);
            grid.disks.push(disk_grid);
        }
        Some(grid)
    }

    fn disk_grid(&mut self, disk: u8, dots: &[&Dot]) -> DiskGrid {
        let bytes: BTreeSet<u64> = dots.iter().map(|dot| dot.byte).collect();
        let range = bytes.first().copied().zip(bytes.last().copied()).unwrap_or_default();
        let mut disk = DiskGrid { disk, bytes: range, bands: bands(&bytes), cells: Vec::new() };
        let bands = disk.bands_or_whole();
        let mut cells: BTreeMap<(u16, u16), BTreeMap<Option<Structure>, u64>> = BTreeMap::new();
        for dot in dots {
            let column = cell(dot.arrived.0, (self.time.0.0, self.time.1.0), COLUMNS);
            let contains = |band: &&Band| (band.bytes.0..=band.bytes.1).contains(&dot.byte);
            let Some(band) = bands.iter().find(contains) else { continue };
            let row = band.rows.0 + cell(dot.byte, band.bytes, band.rows.1 - band.rows.0 + 1);
            *cells.entry((column, row)).or_default().entry(dot.structure).or_default() += 1;
        }
        let mut cells_by_structure: BTreeMap<Option<Structure>, Vec<CellIndex>> = BTreeMap::new();
        for (index, counts) in cells {
            let majority = counts.iter().max_by_key(|(structure, count)| (**count, **structure));
            let Some((structure, count)) = majority else { continue };
            self.hidden += counts.values().sum::<u64>() - count;
            cells_by_structure.entry(*structure).or_default().push(index);
        }
        disk.cells = cells_by_structure.into_iter().collect();
        disk
    }
}

/// Returns the index of the cell into which a value falls if the range is divided into `cells` cells.
fn cell(value: u64, (from, to): (u64, u64), cells: u16) -> u16 {
    let span = u128::from((to - from).max(1));
    (u128::from(value - from) * u128::from(cells - 1) / span) as u16
}

#[cfg(test)]
mod tests {
    use fsdyno_record::mailbox::Stage;

    use super::*;

    fn dot(disk: u8, arrived: u64, byte: u64, structure: Option<Structure>) -> Dot {
        Dot { disk, arrived: Nanos(arrived), byte, structure, place: (Stage::Running, 0) }
    }

    #[test]
    fn every_request_is_in_a_cell_and_hidden_ones_are_counted() {
        let mut dots = vec![dot(0, 0, 0, Some(Structure::Data)); 3];
        dots.push(dot(0, 0, 0, Some(Structure::Journal)));
        dots.push(dot(0, 1_000_000_000, 1 << 30, None));
        let grid = Grid::new(&dots).unwrap();
        assert_eq!((grid.requests, grid.hidden, grid.disks.len()), (5, 1, 1));
        let corner = vec![(COLUMNS - 1, grid.disks[0].bands[1].rows.0)];
        let data = (Some(Structure::Data), vec![(0, 0)]);
        assert_eq!(grid.disks[0].cells, [(None, corner), data]);
        assert_eq!(Grid::new(&[]), None);
        assert!(Grid::new(&[dot(0, 5, 5, None)]).is_some());
    }

    #[test]
    fn each_disk_has_its_own_address_axis_and_all_share_the_time_axis() {
        let dots = [dot(0, 0, 1 << 40, None), dot(1, 10, 0, None), dot(1, 20, 4096, None)];
        let grid = Grid::new(&dots).unwrap();
        let bytes: Vec<_> = grid.disks.iter().map(|disk| (disk.disk, disk.bytes)).collect();
        assert_eq!(bytes, [(0, (1 << 40, 1 << 40)), (1, (0, 4096))]);
        assert_eq!(grid.time, (Nanos(0), Nanos(20)));
    }

    #[test]
    fn large_gaps_are_omitted_and_every_band_has_its_own_rows() {
        const GIB: u64 = 1 << 30;
        let bytes = [GIB, GIB + 4096, 9 * GIB, 9 * GIB + GIB / 2, 10 * GIB];
        let dots: Vec<Dot> = bytes.into_iter().map(|byte| dot(0, 0, byte, None)).collect();
        let grid = Grid::new(&dots).unwrap();
        let disk = &grid.disks[0];
        let parts: Vec<_> = disk.bands.iter().map(|band| band.bytes).collect();
        assert_eq!(parts, [(GIB, GIB + 4096), (9 * GIB, 10 * GIB)]);
        let [below, above] = [0, 1].map(|index: usize| disk.bands[index].rows);
        assert_eq!(below, (0, MIN_ROWS - 1));
        assert_eq!(above.0, MIN_ROWS + ROWS_BETWEEN);
        assert!((90..ROWS).contains(&above.1), "{above:?}");
        let rows: Vec<u16> = disk.cells[0].1.iter().map(|(_, row)| *row).collect();
        assert_eq!(rows, [below.0, below.1, above.0, (above.0 + above.1) / 2, above.1]);
        assert_eq!(grid.hidden, 0);
        // Evenly spread bytes form a single band, and the maximum number of bands fits.
        let even: BTreeSet<u64> = (0..50).collect();
        assert_eq!(bands(&even), []);
        let far: BTreeSet<u64> = (0..9).map(|index| index * index * GIB).collect();
        let most = bands(&far);
        assert!(most.len() <= MAX_BANDS && most.last().unwrap().rows.1 < ROWS, "{most:?}");
    }
}
