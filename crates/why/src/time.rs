//! Divides the busy time of a disk among its requests.
//!
//! A disk is busy while at least one request is unanswered. Each instant of that time is charged to the request that is
//! answered first among those that have arrived. If a disk serves one request at a time, this is the request in
//! service, which is answered before those that wait. If a disk serves several requests at once, each is charged with
//! the time that it adds to the total. The shares of all requests of a disk therefore add up to its busy time, to the
//! nanosecond; the time that a request waited for others is not part of its own share.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fsdyno_disk::log::Entry;
use fsdyno_record::Nanos;

/// Returns each entry's own share of its disk's busy time, in the order of the entries.
pub fn own_shares(entries: &[Entry]) -> Vec<Nanos> {
    let mut shares = vec![Nanos(0); entries.len()];
    for disk in 0..=u8::MAX {
        let mut disk_order: Vec<usize> =
            (0..entries.len()).filter(|index| entries[*index].disk == disk).collect();
        if disk_order.is_empty() {
            continue;
        }
        disk_order.sort_by_key(|index| entries[*index].arrived);
        disk_shares(entries, &disk_order, &mut shares);
    }
    shares
}

/// Computes the shares for one disk; `order` lists its entries by arrival.
fn disk_shares(entries: &[Entry], order: &[usize], shares: &mut [Nanos]) {
    let end = |index: usize| entries[index].arrived.0.saturating_add(entries[index].response.0);
    // The unanswered requests, with the next one to be answered on top; ties go to the earliest arrival.
    let mut unanswered: BinaryHeap<Reverse<(u64, usize, usize)>> = BinaryHeap::new();
    let mut now = 0;
    let mut next = 0;
    loop {
        match unanswered.peek() {
            None => match order.get(next) {
                None => return,
                Some(index) => now = now.max(entries[*index].arrived.0),
            },
            Some(&Reverse((answered, _, index))) => {
                let arrival = order.get(next).map_or(u64::MAX, |index| entries[*index].arrived.0);
                let end_time = answered.min(arrival.max(now));
                shares[index].0 += end_time - now;
                now = end_time;
                if answered == end_time {
                    unanswered.pop();
                }
            }
        }
        while let Some(index) = order.get(next).filter(|index| entries[**index].arrived.0 <= now) {
            unanswered.push(Reverse((end(*index).max(now), next, *index)));
            next += 1;
        }
    }
}

/// Returns the time during which a disk had a request to answer, computed from its definition: the length of the union
/// of all intervals from arrival to answer. It equals the sum of the disk's [`own_shares`].
pub fn busy(entries: &[Entry], disk: u8) -> Nanos {
    union(entries.iter().filter(|entry| entry.disk == disk))
}

/// Returns the time during which any disk had one of these requests: the length of the union of their intervals.
pub fn union<'a>(entries: impl Iterator<Item = &'a Entry>) -> Nanos {
    let mut spans: Vec<(u64, u64)> = entries
        .map(|entry| (entry.arrived.0, entry.arrived.0.saturating_add(entry.response.0)))
        .collect();
    spans.sort_unstable();
    let (mut sum, mut covered) = (0, 0);
    for (from, until) in spans {
        sum += until.saturating_sub(from.max(covered));
        covered = covered.max(until);
    }
    Nanos(sum)
}

#[cfg(test)]
pub(crate) mod tests {
    use fsdyno_disk::Action;
    use fsdyno_record::mailbox::Stage;
    use proptest::prelude::*;

    use super::*;

    /// Returns a read of disk 0 in phase 0.
    pub fn request(arrived: u64, response: u64) -> Entry {
        Entry {
            arrived: Nanos(arrived),
            response: Nanos(response),
            action: Action::Read,
            sector: 0,
            sectors: 8,
            fua: false,
            untimed: false,
            failed: false,
            disk: 0,
            stage: Stage::Running,
            phase: 0,
        }
    }

    fn shares_of(requests: &[(u64, u64)]) -> Vec<u64> {
        let entries: Vec<Entry> =
            requests.iter().map(|(arrived, response)| request(*arrived, *response)).collect();
        own_shares(&entries).iter().map(|share| share.0).collect()
    }

    #[test]
    fn the_wait_for_other_requests_is_not_part_of_a_requests_share() {
        // The requests arrive in sequence; the second waits for the first.
        assert_eq!(shares_of(&[(0, 10), (2, 18)]), [10, 10]);
        // A request is answered from the cache while another is served.
        assert_eq!(shares_of(&[(0, 100), (50, 1)]), [99, 1]);
        // The drive serves the third before the second.
        assert_eq!(shares_of(&[(0, 10), (1, 29), (2, 18)]), [10, 10, 10]);
        // There are gaps between the requests, and the second request takes no time.
        assert_eq!(shares_of(&[(0, 5), (100, 0), (200, 5)]), [5, 0, 5]);
    }

    #[test]
    fn time_during_which_several_disks_are_busy_counts_once() {
        let entries = [request(0, 10), Entry { disk: 1, ..request(5, 10) }];
        assert_eq!(union(entries.iter()), Nanos(15));
    }

    proptest! {
        #[test]
        fn the_shares_of_all_requests_add_up_to_the_busy_time(
            requests in proptest::collection::vec((0u64..200, 0u64..50, 0u8..3), 0..60)
        ) {
            let entries: Vec<Entry> = requests
                .iter()
                .map(|(arrived, response, disk)| Entry { disk: *disk, ..request(*arrived, *response) })
                .collect();
            let shares = own_shares(&entries);
            for disk in 0..3 {
                let disk_entries = entries.iter().zip(&shares).filter(|(entry, _)| entry.disk == disk);
                let sum: u64 = disk_entries.map(|(_, share)| share.0).sum();
                prop_assert_eq!(Nanos(sum), busy(&entries, disk));
            }
            for (entry, share) in entries.iter().zip(&shares) {
                prop_assert!(*share <= entry.response);
            }
        }
    }
}
