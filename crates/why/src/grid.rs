//! The requests of a phase as a picture shows them: cells of time and address, disk by disk.
//!
//! A cell stands for all requests that fall into it and has the structure that most of them touch, so that a
//! million requests are shown as honestly as ten; how many that hides is counted.

use std::collections::BTreeMap;

use fsdyno_record::Nanos;
use serde::{Deserialize, Serialize};

use crate::account::Dot;
use crate::map::Structure;

/// Cells from left to right.
pub const COLUMNS: u16 = 300;

/// Cells from bottom to top, of each disk.
pub const ROWS: u16 = 100;

/// The requests of a phase.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grid {
    /// When the first arrived, and the last.
    pub time: (Nanos, Nanos),
    /// How many there are.
    pub requests: u64,
    /// How many of them lie under others of another structure in their cell.
    pub hidden: u64,
    /// The disks, rising, each with an axis of its own.
    pub disks: Vec<DiskGrid>,
}

/// Those of one disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskGrid {
    /// Which disk.
    pub disk: u8,
    /// The lowest byte that a request begins at, and the highest.
    pub bytes: (u64, u64),
    /// The cells by structure (none: it cannot be told), column and row, from the left and from below.
    pub cells: Vec<(Option<Structure>, Vec<Place>)>,
}

/// A cell's column and row.
pub type Place = (u16, u16);

impl Grid {
    /// The grid of a phase's requests; none where there are none.
    pub fn of(dots: &[Dot]) -> Option<Grid> {
        let first = dots.iter().map(|dot| dot.arrived).min()?;
        let last = dots.iter().map(|dot| dot.arrived).max()?;
        let mut disks: BTreeMap<u8, Vec<&Dot>> = BTreeMap::new();
        dots.iter().for_each(|dot| disks.entry(dot.disk).or_default().push(dot));
        let mut grid =
            Grid { time: (first, last), requests: dots.len() as u64, hidden: 0, disks: Vec::new() };
        for (disk, dots) in disks {
            let one = grid.one(disk, &dots);
            grid.disks.push(one);
        }
        Some(grid)
    }

    fn one(&mut self, disk: u8, dots: &[&Dot]) -> DiskGrid {
        let bytes = dots.iter().map(|dot| dot.byte);
        let (low, high) = (bytes.clone().min().unwrap_or(0), bytes.max().unwrap_or(0));
        let mut cells: BTreeMap<(u16, u16), BTreeMap<Option<Structure>, u64>> = BTreeMap::new();
        for dot in dots {
            let column = cell(dot.arrived.0, (self.time.0.0, self.time.1.0), COLUMNS);
            let row = cell(dot.byte, (low, high), ROWS);
            *cells.entry((column, row)).or_default().entry(dot.structure).or_default() += 1;
        }
        let mut shown: BTreeMap<Option<Structure>, Vec<Place>> = BTreeMap::new();
        for (at, held) in cells {
            let most = held.iter().max_by_key(|(structure, count)| (**count, **structure));
            let Some((structure, count)) = most else { continue };
            self.hidden += held.values().sum::<u64>() - count;
            shown.entry(*structure).or_default().push(at);
        }
        DiskGrid { disk, bytes: (low, high), cells: shown.into_iter().collect() }
    }
}

/// Which of so many cells a value between two ends falls into.
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
    fn every_request_is_in_a_cell_and_what_is_hidden_is_counted() {
        let mut dots = vec![dot(0, 0, 0, Some(Structure::Data)); 3];
        dots.push(dot(0, 0, 0, Some(Structure::Journal)));
        dots.push(dot(0, 1_000_000_000, 1 << 30, None));
        let grid = Grid::of(&dots).unwrap();
        assert_eq!((grid.requests, grid.hidden, grid.disks.len()), (5, 1, 1));
        let corner = vec![(COLUMNS - 1, ROWS - 1)];
        let data = (Some(Structure::Data), vec![(0, 0)]);
        assert_eq!(grid.disks[0].cells, [(None, corner), data]);
        assert_eq!(Grid::of(&[]), None);
        assert!(Grid::of(&[dot(0, 5, 5, None)]).is_some());
    }

    #[test]
    fn each_disk_has_an_axis_of_its_own_and_all_have_one_time() {
        let dots = [dot(0, 0, 1 << 40, None), dot(1, 10, 0, None), dot(1, 20, 4096, None)];
        let grid = Grid::of(&dots).unwrap();
        let bytes: Vec<_> = grid.disks.iter().map(|disk| (disk.disk, disk.bytes)).collect();
        assert_eq!(bytes, [(0, (1 << 40, 1 << 40)), (1, (0, 4096))]);
        assert_eq!(grid.time, (Nanos(0), Nanos(20)));
    }
}
