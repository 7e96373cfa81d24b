//! Assigns the threads of a recording to ranks; threads that ran at the same time get different ranks.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use fsdyno_trace::{Call, Event, ThreadId};

/// The events of each thread: the numbers of the first and the last event, and the maximum number of ops.
#[derive(Debug, Default)]
pub struct Threads {
    spans: BTreeMap<ThreadId, (u64, u64, u64)>,
    events: u64,
}

/// The rank of each thread, and the maximum number of ops of each rank.
#[derive(Debug)]
pub struct Ranks {
    /// The rank of each thread that makes a call.
    pub rank_of: HashMap<ThreadId, u16>,
    /// The maximum number of ops of each rank.
    pub capacity: Vec<u64>,
}

impl Threads {
    /// Adds the next event.
    pub fn add(&mut self, event: &Event) {
        let number = self.events;
        self.events += 1;
        let span = self.spans.entry(event.thread).or_insert((number, number, 0));
        // A copy can take one additional op for the position of each of its files, and an inherited file one more;
        // stores to a mapping become an open, a write, a sync and a close.
        let ops = match event.call {
            Call::Unmap { .. } | Call::Msync { .. } => 4,
            Call::Copy { .. } | Call::Inherit { .. } => 3,
            _ => 1,
        };
        (span.1, span.2) = (number, span.2 + ops);
    }

    /// Assigns to each thread the lowest rank without a thread that ran at the same time.
    pub fn ranks(self) -> Ranks {
        let mut by_begin: Vec<(u64, u64, u64, ThreadId)> = self
            .spans
            .iter()
            .map(|(thread, (from, to, count))| (*from, *to, *count, *thread))
            .collect();
        by_begin.sort_unstable();
        let (mut rank_of, mut capacity) = (HashMap::new(), Vec::new());
        let mut busy: BTreeSet<(u64, u16)> = BTreeSet::new();
        let mut free: BTreeSet<u16> = BTreeSet::new();
        for (from, to, count, thread) in by_begin {
            while let Some((end, rank)) = busy.first().copied().filter(|(end, _)| *end < from) {
                busy.remove(&(end, rank));
                free.insert(rank);
            }
            let rank = free.pop_first().unwrap_or_else(|| {
                capacity.push(0);
                u16::try_from(capacity.len() - 1).unwrap_or(u16::MAX)
            });
            if let Some(capacity) = capacity.get_mut(usize::from(rank)) {
                *capacity += count;
            }
            busy.insert((to, rank));
            rank_of.insert(thread, rank);
        }
        Ranks { rank_of, capacity }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_did_not_run_at_the_same_time_share_a_rank() {
        let mut threads = Threads::default();
        for thread in [0, 1, 1, 0, 2, 3, 2, 3, 0] {
            let call = Call::SyncAll {};
            let thread = ThreadId(thread);
            threads.add(&Event { thread, think: 0, start: 0, duration: 0, result: 0, call });
        }
        let ranks = threads.ranks();
        let ranks_of_threads: Vec<u16> =
            (0..4).map(|thread| ranks.rank_of[&ThreadId(thread)]).collect();
        assert_eq!((ranks_of_threads, ranks.capacity), (vec![0, 1, 1, 2], vec![3, 4, 2]));
    }
}
