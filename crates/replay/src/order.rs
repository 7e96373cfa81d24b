//! Orders calls by what they share.
//!
//! Each call touches things: a file's data, a directory entry, the set of names in a directory, an open file. It
//! touches each in a certain way, and two calls that touch the same thing in different ways, or both by
//! [`Way::Change`], keep their recorded order. Reads are therefore not ordered with respect to each other, nor are
//! calls that create or remove different names in the same directory; but a getdents64(2) or an rmdir(2) of that
//! directory stays after those recorded earlier and before those recorded later. The order is that of ROOT (Weiss et
//! al., SOSP 2013), except that reads are unordered.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// A point: a rank, and the number of its ops that have returned.
pub type Point = (u16, u32);

/// The way in which a call touches a thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Reads it; unordered with other reads.
    Read,
    /// Adds or removes one of its names; unordered with other such calls.
    Member,
    /// Changes it; ordered with everything.
    Change,
}

/// A thing that calls share, as a hash: if two things have the same hash, the only effect is an unneeded order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Thing(u64);

impl Thing {
    fn of(what: impl Hash) -> Thing {
        let mut hasher = DefaultHasher::new();
        what.hash(&mut hasher);
        Thing(hasher.finish())
    }

    /// Returns the thing for a name in a directory.
    pub fn entry(dir: usize, name: &[u8]) -> Thing {
        Thing::of((1u8, dir, name))
    }

    /// Returns the thing for the bytes and the size of a file.
    pub fn data(inode: usize) -> Thing {
        Thing::of((2u8, inode))
    }

    /// Returns the thing for the attributes of a file or directory.
    pub fn attributes(inode: usize) -> Thing {
        Thing::of((3u8, inode))
    }

    /// Returns the thing for the set of names in a directory.
    pub fn names(dir: usize) -> Thing {
        Thing::of((4u8, dir))
    }

    /// Returns the thing for an open file with its position.
    pub fn slot(slot: u16) -> Thing {
        Thing::of((5u8, slot))
    }

    /// Returns the thing for a pipe, socket or similar object.
    pub fn outside(number: u64) -> Thing {
        Thing::of((6u8, number))
    }

    /// Returns the thing for the locks of a file.
    pub fn locks(inode: usize) -> Thing {
        Thing::of((7u8, inode))
    }
}

/// The calls that last touched a thing in the same way, and those before them, which touched it in a different way.
#[derive(Debug)]
struct Touched {
    way: Way,
    present: Vec<Point>,
    before: Vec<Point>,
}

/// The things touched so far, each with the ops that touched it last.
#[derive(Debug, Default)]
pub struct Touches(HashMap<Thing, Touched>);

impl Touches {
    /// Adds a call at `point` (and `also`) that touches a thing, and appends the points for which it must wait to
    /// `needs`.
    pub fn touch(
        &mut self,
        thing: Thing,
        way: Way,
        (point, also): (Point, &[Point]),
        needs: &mut Vec<Point>,
    ) {
        let new = || Touched { way, present: Vec::new(), before: Vec::new() };
        let touched = self.0.entry(thing).or_insert_with(new);
        if touched.way != way || way == Way::Change {
            touched.before = std::mem::take(&mut touched.present);
            touched.way = way;
        }
        needs.extend_from_slice(&touched.before);
        for point in also.iter().chain([&point]) {
            add(&mut touched.present, *point);
        }
    }
}

/// Adds a point to a list with one point per rank, keeping the later one.
pub fn add(points: &mut Vec<Point>, (rank, ops): Point) {
    match points.iter_mut().find(|point| point.0 == rank) {
        Some(point) => point.1 = point.1.max(ops),
        None => points.push((rank, ops)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(touches: &mut Touches, way: Way, point: Point) -> Vec<Point> {
        let mut needs = Vec::new();
        touches.touch(Thing::data(7), way, (point, &[]), &mut needs);
        needs
    }

    #[test]
    fn reads_are_free_among_each_other_and_changes_wait_for_all_before() {
        let mut touches = Touches::default();
        assert_eq!(needs(&mut touches, Way::Change, (0, 1)), []);
        assert_eq!(needs(&mut touches, Way::Read, (1, 1)), [(0, 1)]);
        assert_eq!(needs(&mut touches, Way::Read, (2, 1)), [(0, 1)]);
        assert_eq!(needs(&mut touches, Way::Read, (1, 5)), [(0, 1)]);
        assert_eq!(needs(&mut touches, Way::Change, (0, 2)), [(1, 5), (2, 1)]);
        assert_eq!(needs(&mut touches, Way::Change, (3, 1)), [(0, 2)]);
    }

    #[test]
    fn names_are_made_in_any_order_between_two_readings_of_their_directory() {
        let mut touches = Touches::default();
        needs(&mut touches, Way::Member, (0, 1));
        assert_eq!(needs(&mut touches, Way::Member, (1, 1)), []);
        assert_eq!(needs(&mut touches, Way::Read, (2, 1)), [(0, 1), (1, 1)]);
        assert_eq!(needs(&mut touches, Way::Member, (0, 2)), [(2, 1)]);
        let mut other = Vec::new();
        touches.touch(Thing::names(7), Way::Change, ((5, 5), &[]), &mut other);
        assert_eq!(other, [], "another thing");
    }
}
