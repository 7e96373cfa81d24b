//! Orders calls by the resources that they share.
//!
//! Each call accesses resources: a file's data, a directory entry, the set of names in a directory, an open file. Two
//! calls that access the same resource with different kinds of [`Access`], or both with [`Access::Change`], keep their
//! recorded order. Reads are therefore not ordered with respect to each other, nor are
//! calls that create or remove different names in the same directory; but a getdents64(2) or an rmdir(2) of that
//! directory stays after those recorded earlier and before those recorded later. The order is that of ROOT (Weiss et
//! al., SOSP 2013), except that reads are unordered.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// A point: a rank, and the number of its ops that have returned.
pub type Point = (u16, u32);

/// The kind of access of a call to a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads it; unordered with other reads.
    Read,
    /// Adds or removes one of its names; unordered with other such calls.
    Member,
    /// Changes it; ordered with everything.
    Change,
}

/// A resource that calls share, as a hash: if two resources have the same hash, the only effect is an unneeded order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Resource(u64);

impl Resource {
    fn of(what: impl Hash) -> Resource {
        let mut hasher = DefaultHasher::new();
        what.hash(&mut hasher);
        Resource(hasher.finish())
    }

    /// Returns the resource for a name in a directory.
    pub fn entry(dir: usize, name: &[u8]) -> Resource {
        Resource::of((1u8, dir, name))
    }

    /// Returns the resource for the bytes and the size of a file.
    pub fn data(inode: usize) -> Resource {
        Resource::of((2u8, inode))
    }

    /// Returns the resource for the attributes of a file or directory.
    pub fn attributes(inode: usize) -> Resource {
        Resource::of((3u8, inode))
    }

    /// Returns the resource for the set of names in a directory.
    pub fn names(dir: usize) -> Resource {
        Resource::of((4u8, dir))
    }

    /// Returns the resource for an open file with its position.
    pub fn slot(slot: u16) -> Resource {
        Resource::of((5u8, slot))
    }

    /// Returns the resource for a pipe, socket or similar object.
    pub fn outside(number: u64) -> Resource {
        Resource::of((6u8, number))
    }

    /// Returns the resource for the locks of a file.
    pub fn locks(inode: usize) -> Resource {
        Resource::of((7u8, inode))
    }
}

/// The last calls that touched a resource, all with one kind of access, and the calls with another kind before them.
#[derive(Debug)]
struct Touched {
    access: Access,
    present: Vec<Point>,
    before: Vec<Point>,
}

/// The resources touched so far, each with the ops that touched it last.
#[derive(Debug, Default)]
pub struct Touches(HashMap<Resource, Touched>);

impl Touches {
    /// Adds a call at `point` (and `also`) that touches a resource, and appends the points for which it must wait to
    /// `needs`.
    pub fn touch(
        &mut self,
        resource: Resource,
        access: Access,
        (point, also): (Point, &[Point]),
        needs: &mut Vec<Point>,
    ) {
        let new = || Touched { access, present: Vec::new(), before: Vec::new() };
        let touched = self.0.entry(resource).or_insert_with(new);
        if touched.access != access || access == Access::Change {
            touched.before = std::mem::take(&mut touched.present);
            touched.access = access;
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

    fn needs(touches: &mut Touches, access: Access, point: Point) -> Vec<Point> {
        let mut needs = Vec::new();
        touches.touch(Resource::data(7), access, (point, &[]), &mut needs);
        needs
    }

    #[test]
    fn reads_are_unordered_and_changes_wait_for_all_earlier_calls() {
        let mut touches = Touches::default();
        assert_eq!(needs(&mut touches, Access::Change, (0, 1)), []);
        assert_eq!(needs(&mut touches, Access::Read, (1, 1)), [(0, 1)]);
        assert_eq!(needs(&mut touches, Access::Read, (2, 1)), [(0, 1)]);
        assert_eq!(needs(&mut touches, Access::Read, (1, 5)), [(0, 1)]);
        assert_eq!(needs(&mut touches, Access::Change, (0, 2)), [(1, 5), (2, 1)]);
        assert_eq!(needs(&mut touches, Access::Change, (3, 1)), [(0, 2)]);
    }

    #[test]
    fn names_are_created_in_any_order_between_two_reads_of_their_directory() {
        let mut touches = Touches::default();
        needs(&mut touches, Access::Member, (0, 1));
        assert_eq!(needs(&mut touches, Access::Member, (1, 1)), []);
        assert_eq!(needs(&mut touches, Access::Read, (2, 1)), [(0, 1), (1, 1)]);
        assert_eq!(needs(&mut touches, Access::Member, (0, 2)), [(2, 1)]);
        let mut other = Vec::new();
        touches.touch(Resource::names(7), Access::Change, ((5, 5), &[]), &mut other);
        assert_eq!(other, [], "another resource");
    }
}
