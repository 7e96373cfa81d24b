//! The stonewall of a phase (as in IOR and mdtest): a time limit at which all shares stop; all then continue to the
//! largest number of items that a share has done.

use fsdyno_record::Nanos;
use fsdyno_record::ranks::{RanksPhase, Stonewall};

use super::State;
use crate::messages::{Goal, Stopped, ToRank};

/// The shares of a phase at the stonewall.
#[derive(Clone, Debug, Default)]
pub(super) struct StonewallShares {
    limit: Nanos,
    /// Number of threads per rank, and per directory.
    threads: (u32, u32),
    /// The name of the items, such as files.
    unit: &'static str,
    /// Items and time of each share that has stopped.
    stopped: Vec<Option<(u64, Nanos)>>,
    goal: Option<Goal>,
}

impl StonewallShares {
    /// The stonewall of `ranks` ranks with `threads` threads each, in a common directory or, with `own`, in one
    /// directory per rank.
    pub(super) fn new(
        limit: Nanos,
        (ranks, threads): (u32, u32),
        own: bool,
        unit: &'static str,
    ) -> StonewallShares {
        let all = ranks.saturating_mul(threads);
        let threads = (threads, if own { threads } else { all });
        StonewallShares { limit, threads, unit, stopped: vec![None; all as usize], goal: None }
    }

    /// Handles a share's message; returns the goal after the last one.
    fn take(&mut self, stopped: Stopped) -> Option<Goal> {
        let place = self.stopped.get_mut(stopped.thread as usize)?;
        *place = Some((stopped.done, stopped.at));
        let done: Option<Vec<u64>> = self.stopped.iter().map(|one| Some((*one)?.0)).collect();
        let most = done?.into_iter().max()?;
        self.goal = Some(Goal { most, shares: self.threads.1 });
        self.goal
    }

    /// Returns the goal, once all shares have stopped.
    pub(super) fn goal(&self) -> Option<Goal> {
        self.goal
    }

    /// Returns true if all shares of a rank have stopped and wait for other ranks.
    pub(super) fn holds(&self, rank: usize) -> bool {
        let mut shares = self.stopped.chunks(self.threads.0.max(1) as usize).skip(rank);
        let all = shares.next().is_some_and(|shares| shares.iter().all(Option::is_some));
        self.goal.is_none() && all
    }

    /// Adds the stonewall to a phase in which the shares have done `all` items in total.
    pub(super) fn add_to(&self, phase: &mut RanksPhase, all: u64) {
        let each =
            |shares: &[Option<(u64, Nanos)>]| shares.iter().flatten().copied().collect::<Vec<_>>();
        let ranks = self.stopped.chunks(self.threads.0.max(1) as usize);
        let mut reached_ns = Nanos(0);
        for (rank, shares) in phase.ranks.iter_mut().zip(ranks) {
            let shares = each(shares);
            rank.stonewall_items = Some(shares.iter().map(|(items, _)| items).sum());
            let last = shares.iter().map(|(_, at)| *at).max().unwrap_or_default();
            reached_ns = reached_ns.max(rank.started_ns + last);
        }
        let done = each(&self.stopped);
        let items = || done.iter().map(|(items, _)| *items);
        phase.stonewall = Some(Stonewall {
            limit_ns: self.limit,
            reached_ns,
            items: items().sum(),
            fewest: items().min().unwrap_or(0),
            most: items().max().unwrap_or(0),
            unit: self.unit.to_string(),
            all,
        });
    }
}

impl State {
    /// Handles the message of a share at the stonewall; after the last one, lets all shares continue.
    pub(super) fn at_stonewall(&mut self, stopped: Stopped) {
        let Some(goal) = self.stonewall.as_mut().and_then(|stonewall| stonewall.take(stopped))
        else {
            return;
        };
        let now = std::time::Instant::now();
        for peer in &mut self.peers {
            peer.last_progress = now;
        }
        self.tell(&ToRank::GoOn(goal));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_record::ranks::RankPhase;

    fn stopped(thread: u32, done: u64) -> Stopped {
        Stopped { thread, done, at: Nanos(100 + u64::from(thread)) }
    }

    #[test]
    fn all_continue_to_the_largest_number_when_the_last_has_stopped() {
        let mut stonewall = StonewallShares::new(Nanos(100), (2, 2), false, "files");
        assert_eq!(stonewall.take(stopped(0, 7)), None);
        assert!(!stonewall.holds(0));
        assert_eq!(stonewall.take(stopped(1, 9)), None);
        assert!(stonewall.holds(0) && !stonewall.holds(1));
        assert_eq!(stonewall.take(stopped(3, 3)), None);
        let goal = Some(Goal { most: 9, shares: 4 });
        assert_eq!((stonewall.take(stopped(2, 4)), stonewall.goal()), (goal, goal));
        assert!(!stonewall.holds(0));
        let rank = |rank| RankPhase { rank, started_ns: Nanos(50), ..RankPhase::default() };
        let mut phase = RanksPhase { ranks: vec![rank(0), rank(1)], ..RanksPhase::default() };
        stonewall.add_to(&mut phase, 36);
        let reached = phase.stonewall.unwrap();
        assert_eq!((reached.items, reached.fewest, reached.most), (23, 3, 9));
        assert_eq!((reached.all, reached.unit.as_str()), (36, "files"));
        assert_eq!(reached.reached_ns, Nanos(153));
        let items: Vec<_> = phase.ranks.iter().map(|rank| rank.stonewall_items).collect();
        assert_eq!(items, [Some(16), Some(7)]);
    }

    #[test]
    fn a_goal_counts_the_threads_that_share_one_directory() {
        let goal_of = |own| {
            let mut stonewall = StonewallShares::new(Nanos(100), (2, 1), own, "files");
            assert_eq!(stonewall.take(stopped(0, 5)), None);
            stonewall.take(stopped(1, 6))
        };
        assert_eq!(goal_of(false), Some(Goal { most: 6, shares: 2 }));
        assert_eq!(goal_of(true), Some(Goal { most: 6, shares: 1 }));
    }
}
