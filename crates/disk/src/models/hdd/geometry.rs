//! The geometry of a drive: zones, angles, seek curve and transfer times.
//!
//! Tracks are numbered from the outer edge inwards, all heads of a cylinder before the next
//! cylinder. All times are whole nanoseconds; square roots follow IEEE 754, so they are the same on every machine.

use super::params::{Hdd, Seek};
use crate::SECTOR;

/// A range of cylinders whose tracks hold the same number of sectors.
#[derive(Clone, Debug)]
struct Zone {
    first_sector: u64,
    first_track: u64,
    sectors_per_track: u64,
}

/// The position of a sector's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The track.
    pub track: u64,
    /// The track's cylinder.
    pub cylinder: u64,
    /// The sector's angle: the time in ns, modulo a revolution, at which its start passes under the head.
    pub angle: u64,
}

/// The mechanics of a drive.
#[derive(Clone, Debug)]
pub struct Geometry {
    zones: Vec<Zone>,
    heads: u64,
    cylinders: u64,
    sectors: u64,
    /// One revolution, in ns.
    revolution: u64,
    /// Time in ns to switch to another head of the same cylinder. It is also the skew of a track's first sector
    /// relative to that of the previous track, so that a long transfer loses no revolution.
    head_switch: u64,
    /// Time in ns, and skew, to the first track of the next cylinder: the longer of the seek and the head switch.
    cylinder_switch: u64,
    /// Additional time in ns of a seek of more than a track that does not continue a transfer.
    settle: u64,
    /// Minimum time in ns of a seek to another surface that does not continue a transfer.
    surface_change: u64,
    /// Time in ns, less than a revolution, at which sector 0 first passes under the head.
    rotation_offset: u64,
    read: SeekCurve,
    write: SeekCurve,
}

impl Geometry {
    /// Creates a drive of `sectors` sectors whose sector 0 passes under the head `rotation_offset` ns after
    /// time zero.
    pub fn new(hdd: &Hdd, sectors: u64, rotation_offset: u64) -> Geometry {
        let revolution = revolution(hdd);
        // One skew serves reads and writes; the head is switched while the arm moves.
        let seek = hdd.seek_read.track_to_track_us.max(hdd.seek_write.track_to_track_us);
        let head_switch = hdd.head_switch_us * 1000;
        let cylinder_switch = seek.max(hdd.head_switch_us) * 1000;
        let heads = u64::from(hdd.heads).max(1);
        let cylinder_time = heads * revolution + (heads - 1) * head_switch + cylinder_switch;
        let per_track = sectors_per_track(hdd, cylinder_time);
        // The number of cylinders follows from the capacity; all zones have the same number.
        let per_cylinder_of_all_zones = heads * per_track.iter().sum::<u64>();
        let zone_cylinders = sectors.div_ceil(per_cylinder_of_all_zones).max(1);
        let mut zones = Vec::with_capacity(per_track.len());
        let (mut first_sector, mut first_track) = (0, 0);
        for sectors_per_track in per_track {
            zones.push(Zone { first_sector, first_track, sectors_per_track });
            first_track += zone_cylinders * heads;
            first_sector += zone_cylinders * heads * sectors_per_track;
        }
        let cylinders = zone_cylinders * zones.len() as u64;
        let read = SeekCurve::through(&hdd.seek_read, cylinders);
        let write = SeekCurve::through(&hdd.seek_write, cylinders);
        let rotation_offset = rotation_offset % revolution;
        Geometry {
            zones,
            heads,
            cylinders,
            sectors,
            revolution,
            head_switch,
            cylinder_switch,
            settle: hdd.settle_us * 1000,
            surface_change: hdd.head_change_us * 1000,
            rotation_offset,
            read,
            write,
        }
    }

    /// Returns the number of cylinders.
    pub fn cylinders(&self) -> u64 {
        self.cylinders
    }

    /// Returns the number of sectors.
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Returns the position of a sector. A sector beyond the end belongs to the last zone.
    pub fn locate(&self, sector: u64) -> Position {
        let zone = self.zone(sector);
        let within = sector - zone.first_sector;
        let track = zone.first_track + within / zone.sectors_per_track;
        let cylinder = track / self.heads;
        // Of all track switches before this track, one per cylinder goes to the next cylinder.
        let angle = (track - cylinder) * self.head_switch
            + cylinder * self.cylinder_switch
            + self.rotation_offset
            + within % zone.sectors_per_track * self.revolution / zone.sectors_per_track;
        Position { track, cylinder, angle: angle % self.revolution }
    }

    /// Returns the first sector of a track.
    pub fn first_sector(&self, track: u64) -> u64 {
        let after = self.zones.partition_point(|zone| zone.first_track <= track);
        let zone = &self.zones[after.saturating_sub(1)];
        zone.first_sector + (track - zone.first_track) * zone.sectors_per_track
    }

    /// Returns the time in ns for the arm to move `distance` cylinders, or to switch to another head of the same
    /// cylinder if it is 0. The head is switched while the arm moves.
    pub fn seek(&self, distance: u64, write: bool) -> u64 {
        if distance == 0 {
            return self.head_switch;
        }
        let curve = if write { &self.write } else { &self.read };
        let seek_time =
            if distance == 1 { curve.track_to_track } else { curve.at(distance) as u64 };
        seek_time.max(self.head_switch)
    }

    /// Returns the time in ns from `now`, with the head over the track of `head`, until it is over the sector
    /// at `to`: seek, then rotational delay.
    #[inline]
    pub fn access(&self, head: Position, to: Position, write: bool, now: u64) -> u64 {
        let seek_time = match head.track.abs_diff(to.track) {
            0 => 0,
            // An adjacent track, usually the next one of a transfer: the skew allows for the switch.
            1 => self.seek(head.cylinder.abs_diff(to.cylinder), write),
            _ => {
                let seek_time = self.seek(head.cylinder.abs_diff(to.cylinder), write);
                let other = head.track % self.heads != to.track % self.heads;
                seek_time.max(if other { self.surface_change } else { 0 }) + self.settle
            }
        };
        let angle = (now + seek_time) % self.revolution;
        let wait =
            if to.angle >= angle { to.angle - angle } else { to.angle + self.revolution - angle };
        seek_time + wait
    }

    /// Returns the time in ns to transfer `count` sectors from `first`, and the head's position afterwards.
    pub fn transfer(&self, first: u64, count: u64) -> (u64, Position) {
        let (mut at, mut remaining, mut time) = (first, count, 0);
        loop {
            let track = self.track_from(at);
            let take = remaining.min(track.sectors_left);
            time += track.time(take, self.revolution);
            remaining -= take;
            if remaining == 0 {
                return (time, self.locate(at + take.saturating_sub(1)));
            }
            at += take;
            time += track.switch;
        }
    }

    /// Returns the number of sectors from `first` (at least one, at most `max_sectors`) that the head has passed after
    /// `time` ns, rounded up to whole sectors, and the time in ns that they take. A head between
    /// two tracks continues to the first sector of the next one.
    pub fn passed(&self, first: u64, max_sectors: u64, time: u64) -> (u64, u64) {
        let (mut at, mut spent) = (first, 0);
        loop {
            let track = self.track_from(at);
            let done = at - first;
            let rest_time = track.time(track.sectors_left, self.revolution);
            if spent + rest_time >= time || done + track.sectors_left >= max_sectors {
                let wanted = time.saturating_sub(spent) * track.per_track / self.revolution;
                let limit = track.sectors_left.min(max_sectors - done);
                let mut take = wanted.clamp(1, limit);
                while take < limit && spent + track.time(take, self.revolution) < time {
                    take += 1;
                }
                return (done + take, spent + track.time(take, self.revolution));
            }
            at += track.sectors_left;
            spent += rest_time + track.switch;
        }
    }

    fn zone(&self, sector: u64) -> &Zone {
        let after = self.zones.partition_point(|zone| zone.first_sector <= sector);
        &self.zones[after.saturating_sub(1)]
    }

    fn track_from(&self, sector: u64) -> RestOfTrack {
        let zone = self.zone(sector);
        let per_track = zone.sectors_per_track;
        let (track, first_in_track) =
            ((sector - zone.first_sector) / per_track, (sector - zone.first_sector) % per_track);
        // A zone starts at a cylinder boundary.
        let last_head = track % self.heads == self.heads - 1;
        let switch = if last_head { self.cylinder_switch } else { self.head_switch };
        RestOfTrack { first_in_track, sectors_left: per_track - first_in_track, per_track, switch }
    }
}

/// The rest of a track, from one of its sectors on.
struct RestOfTrack {
    first_in_track: u64,
    sectors_left: u64,
    per_track: u64,
    /// Time in ns to switch to the next track.
    switch: u64,
}

impl RestOfTrack {
    /// Returns the time in ns that the next `count` sectors take: the difference of two angles, so that the times of
    /// parts of a track add up exactly to that of the whole.
    fn time(&self, count: u64, revolution: u64) -> u64 {
        (self.first_in_track + count) * revolution / self.per_track
            - self.first_in_track * revolution / self.per_track
    }
}

/// Returns the time of one revolution of the platter, in ns.
pub fn revolution(hdd: &Hdd) -> u64 {
    60_000_000_000 / u64::from(hdd.rpm).max(1)
}

/// Returns the sectors per track of each zone. At the sustained rate R a cylinder is read in one revolution per
/// track plus all track switches, so it holds R times that time (the definition of "sustained" in Hitachi's
/// specifications, e.g. Deskstar 7K500, 4.4.4). The rate falls linearly from zone to zone.
fn sectors_per_track(hdd: &Hdd, cylinder_time: u64) -> Vec<u64> {
    let zones = u64::from(hdd.zones).max(1);
    let heads = u128::from(hdd.heads).max(1);
    let drop = hdd.outer_rate_kb.saturating_sub(hdd.inner_rate_kb);
    (0..zones)
        .map(|zone| {
            let rate = hdd.outer_rate_kb - drop * zone / (zones - 1).max(1);
            // kB/s * ns = 1e-6 bytes.
            let bytes = u128::from(rate) * u128::from(cylinder_time) / heads / 1_000_000;
            (bytes as u64 / SECTOR).max(1)
        })
        .collect()
}

/// The seek time over a distance d in cylinders: constant + root * sqrt(d) + linear * d, in ns.
///
/// A square root for short seeks and a line for long ones is the form of Ruemmler and Wilkes, "An
/// introduction to disk drive modeling", IEEE Computer 27(3), 1994, who join the two at a distance
/// that no data sheet states. Their sum, fitted to a data sheet's three seeks (to the next cylinder,
/// the mean over all pairs of cylinders, the full stroke), is the curve of Lee and Katz, "An analytic
/// performance model of disk arrays", SIGMETRICS 1993, except that they use the distance minus one.
#[derive(Clone, Copy, Debug)]
struct SeekCurve {
    track_to_track: u64,
    constant: f64,
    root: f64,
    linear: f64,
}

impl SeekCurve {
    fn through(seek: &Seek, cylinders: u64) -> SeekCurve {
        let track_to_track = seek.track_to_track_us as f64 * 1e3;
        let all = (cylinders as f64).max(9.0);
        let full = all - 1.0;
        // The distance between two random cylinders is a fraction x of the stroke with density 2 (1 - x), so the
        // mean of x is 1/3 and the mean of its root is 8/15.
        let (mean_root, mean) = (8.0 / 15.0 * all.sqrt(), all / 3.0);
        // Subtracting the equation for distance 1 from the other two leaves two linear equations in root and linear.
        let (x2, y2) = (mean_root - 1.0, mean - 1.0);
        let (x3, y3) = (full.sqrt() - 1.0, full - 1.0);
        let t2 = seek.average_us as f64 * 1e3 - track_to_track;
        let t3 = seek.full_stroke_us as f64 * 1e3 - track_to_track;
        let determinant = x2 * y3 - x3 * y2;
        let root = (t2 * y3 - t3 * y2) / determinant;
        let linear = (x2 * t3 - x3 * t2) / determinant;
        let constant = track_to_track - root - linear;
        SeekCurve { track_to_track: seek.track_to_track_us * 1000, constant, root, linear }
    }

    fn at(&self, distance: u64) -> f64 {
        let distance = distance as f64;
        self.constant + self.root * distance.sqrt() + self.linear * distance
    }
}

/// Returns the shortest and the longest full stroke, in microseconds, that a curve of this form can have given
/// the other two seeks: below this range the curve would start to fall before its end (the linear part may be
/// slightly negative, since data sheets round to 0.1 ms), above it the coefficient of the root would be negative.
pub fn full_stroke_range(track_to_track_us: u64, average_us: u64) -> (u64, u64) {
    let (nearest, average) = (track_to_track_us, average_us);
    let minimum = (15 * average).saturating_sub(4 * nearest).div_ceil(11);
    (minimum.max(average), (3 * average).saturating_sub(2 * nearest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog;
    use crate::models::Model;

    fn drive() -> Geometry {
        let spec = catalog::get("hdd-7200").unwrap();
        let Model::Hdd(hdd) = &spec.model else { panic!("hdd-7200 is not a hard disk") };
        Geometry::new(hdd, spec.capacity.0 / SECTOR, 1_234_567)
    }

    #[test]
    fn the_seek_curve_passes_through_the_data_sheet() {
        let drive = drive();
        let near = |value: f64, expected: f64| (value / expected - 1.0).abs() < 1e-3;
        // The manufacturer's definition: the mean over all pairs of different cylinders.
        let mean = |write| {
            let last = drive.cylinders() - 1;
            let pairs = |d: u64| (last + 1 - d) as f64;
            let total: f64 = (1..=last).map(|d| pairs(d) * drive.seek(d, write) as f64).sum();
            total / (1..=last).map(pairs).sum::<f64>()
        };
        assert_eq!((drive.seek(1, false), drive.seek(1, true)), (1_000_000, 1_200_000));
        assert_eq!((drive.seek(0, false), drive.seek(0, true)), (1_000_000, 1_000_000));
        assert!(near(mean(false), 8.5e6) && near(mean(true), 9.5e6));
        assert!(near(drive.seek(drive.cylinders() - 1, false) as f64, 17e6));
        let times: Vec<u64> = (0..1000).map(|d| drive.seek(d * 300 + 1, true)).collect();
        assert!(times.is_sorted());
    }

    #[test]
    fn settling_and_a_change_of_heads_cost_time_only_beyond_the_next_track() {
        let spec = catalog::get("hdd-7200").unwrap();
        let Model::Hdd(hdd) = &spec.model else { panic!("hdd-7200 is not a hard disk") };
        let with = |settle_us, head_change_us| {
            let hdd = Hdd { settle_us, head_change_us, ..hdd.clone() };
            Geometry::new(&hdd, spec.capacity.0 / SECTOR, 0)
        };
        let (plain, drive) = (with(0, 0), with(2000, 3000));
        let at = |track| plain.locate(plain.first_sector(track));
        // Time of the seek alone: that of an access that starts just early enough for the sector to follow the seek.
        let turn = plain.revolution;
        let seek = |drive: &Geometry, from: u64, to: u64| {
            (0..turn / 1000)
                .map(|step| drive.access(at(from), at(to), false, step * 1000))
                .min()
                .unwrap()
        };
        let near = |value: u64, expected: u64| value.abs_diff(expected) < 2000;
        assert_eq!(seek(&drive, 10, 10), seek(&plain, 10, 10));
        assert_eq!(seek(&drive, 10, 11), seek(&plain, 10, 11));
        // Two surfaces: even tracks are on one, odd ones on the other.
        assert!(near(seek(&drive, 10, 12), seek(&plain, 10, 12) + 2_000_000));
        assert!(near(seek(&drive, 10, 13), 3_000_000 + 2_000_000));
        let far = 200_001;
        assert!(near(seek(&drive, 10, far), seek(&plain, 10, far) + 2_000_000));
    }

    #[test]
    fn tracks_follow_each_other_without_a_gap_and_hold_less_towards_the_centre() {
        let drive = drive();
        for zone in drive.zones.windows(2) {
            assert!(zone[0].sectors_per_track > zone[1].sectors_per_track);
            let first = zone[1].first_sector;
            assert_eq!(drive.locate(first).track, zone[1].first_track);
            assert_eq!(drive.locate(first - 1).track, zone[1].first_track - 1);
            assert_eq!(drive.first_sector(zone[1].first_track), first);
        }
        assert!(drive.locate(drive.sectors() - 1).cylinder < drive.cylinders());
    }

    #[test]
    fn a_transfer_in_parts_takes_as_long_as_in_one() {
        let drive = drive();
        for start in [0, 3_000, 1_000_000, drive.zones[3].first_sector - 700] {
            let (whole, end) = drive.transfer(start, 10_000);
            let (mut clock, mut head) = (0, drive.locate(start));
            clock += drive.access(head, head, false, clock);
            let began = clock;
            for part in 0..40 {
                let first = start + part * 250;
                clock += drive.access(head, drive.locate(first), false, clock);
                let (time, after) = drive.transfer(first, 250);
                (clock, head) = (clock + time, after);
            }
            assert_eq!((clock - began, head.track), (whole, end.track), "from {start}");
        }
    }

    #[test]
    fn passed_is_the_inverse_of_transfer() {
        let drive = drive();
        for start in [0, 3_700, drive.zones[5].first_sector - 10] {
            for count in [1, 2, 100, 3_827, 3_828, 9_999] {
                let (time, _) = drive.transfer(start, count);
                assert_eq!(drive.passed(start, u64::MAX >> 1, time), (count, time));
                assert_eq!(drive.passed(start, count, time * 2 + 1), (count, time));
            }
            assert_eq!(drive.passed(start, 100, 0).0, 1);
        }
    }
}
