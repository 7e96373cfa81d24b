//! Waits for the ranks' answers: until all have answered, a rank fails, is lost or falls silent, or the user stops.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use fsdyno_record::Nanos;
use fsdyno_record::mailbox::{Progress, Stage};
use fsdyno_record::plan::RanksPlan;

use super::{Event, GroupError, State};
use crate::clocks::{Offset, Sample, best, needs_exchange};
use crate::messages::{FromRank, Point, ToRank};

/// Interval at which the watcher is called.
const PERIOD: Duration = Duration::from_millis(20);

/// Maximum wait for the report of a lost rank's parent.
const PARENT_REPORT: Duration = Duration::from_millis(1500);

/// Maximum wait for ranks to end after the order to end.
const END: Duration = Duration::from_secs(5);

/// Maximum wait for the other ranks after a rank has failed.
const AFTER_FAILURE: Duration = Duration::from_secs(15);

/// The ranks that wait for ops of other ranks.
#[derive(Default)]
pub(super) struct Waits {
    /// The phase in which they wait, its plan, and the number of threads per rank.
    pub(super) phase: Option<(usize, RanksPlan, u32)>,
    /// The waiting ranks, by op.
    waiting: HashMap<Point, Vec<u32>>,
    reached: HashMap<u32, u64>,
}

/// The progress of a trial that has not begun.
pub(super) fn no_progress() -> Progress {
    Progress {
        stage: Stage::Starting,
        phase: 0,
        phases: 0,
        ops_done: 0,
        ops_total: 0,
        now: Nanos(0),
        requests: 0,
    }
}

/// The watcher of a trial.
pub(super) type Watch<'a> = &'a mut dyn FnMut(&Progress) -> bool;

/// The answers that were collected so far.
struct Answers<T> {
    answers: Vec<Option<T>>,
    /// True for ranks that failed or stopped by order.
    out: Vec<bool>,
    failure: Option<String>,
    /// Time of the order to stop, and true if the user gave it.
    stopped: Option<(Instant, bool)>,
}

impl State {
    /// Sends a message to all ranks. A rank that is gone is detected because it stays silent.
    pub(super) fn tell(&self, message: &ToRank) {
        for peer in &self.peers {
            let _ = peer.wire.send(message);
        }
    }

    /// Waits until all ranks have given an answer that `pick` accepts; `doing` describes their work in messages.
    pub(super) fn collect<T>(
        &mut self,
        doing: &str,
        deadline: Instant,
        watch: Watch<'_>,
        pick: &dyn Fn(FromRank) -> Option<T>,
    ) -> Result<Vec<T>, GroupError> {
        let now = Instant::now();
        let count = self.peers.len();
        let mut all = Answers {
            answers: (0..count).map(|_| None).collect(),
            out: vec![false; count],
            failure: None,
            stopped: None,
        };
        for peer in &mut self.peers {
            (peer.received, peer.last_progress) = (now, now);
        }
        let mut watched = Instant::now();
        loop {
            let is_any_missing =
                all.answers.iter().zip(&all.out).any(|(one, out)| one.is_none() && !out);
            if !is_any_missing {
                return all.end();
            }
            if let Ok(event) = self.events.recv_timeout(PERIOD) {
                self.take(event, &mut all, doing, pick)?;
            }
            if watched.elapsed() >= PERIOD {
                watched = Instant::now();
                self.progress.ops_done = self.peers.iter().map(|peer| peer.ops).sum();
                if !watch(&self.progress) && all.stopped.is_none_or(|(_, by_user)| !by_user) {
                    self.tell(&ToRank::Stop);
                    all.stopped = Some((Instant::now(), true));
                }
                self.check(&mut all, doing, deadline)?;
            }
        }
    }

    fn take<T>(
        &mut self,
        event: Event,
        all: &mut Answers<T>,
        doing: &str,
        pick: &dyn Fn(FromRank) -> Option<T>,
    ) -> Result<(), GroupError> {
        let (rank, message) = match event {
            Event::Received(rank, message, _) => (rank, message),
            Event::Gone(rank) => return Err(self.lost(rank, doing)),
            Event::WorkerEnded(hello) => {
                let why = format!("rank {} on {}: {} {doing}", hello.rank, hello.host, hello.text);
                return Err(self.abort(why));
            }
            Event::Arrived(arrived) => {
                let (hello, wire) = *arrived;
                let why = format!(
                    "rank {} connected a second time, as process {} on {}",
                    hello.rank, hello.pid, hello.host
                );
                let _ = wire.send(&ToRank::Abort { why: why.clone() });
                self.notes.push(format!("{why}, and was refused"));
                return Ok(());
            }
            Event::Rejected(why) => {
                self.notes.push(why);
                return Ok(());
            }
        };
        let Some(peer) = self.peers.get_mut(rank as usize) else { return Ok(()) };
        peer.received = Instant::now();
        match message {
            FromRank::Beat { work, ops } => {
                peer.ops = ops;
                if peer.work != work {
                    (peer.work, peer.last_progress) = (work, Instant::now());
                }
            }
            FromRank::Await(point) => self.route(rank, point),
            FromRank::WantInput { from } => self.send_part(rank, from),
            FromRank::Reached(point) => self.reached(point),
            FromRank::Stonewall(stopped) => self.at_stonewall(stopped),
            FromRank::Failed { why, stopped } => {
                let failure = (!stopped).then(|| format!("{}: {why}", peer.name()));
                self.failed(rank, failure, all);
            }
            message => {
                if let (Some(answer), Some(place)) =
                    (pick(message), all.answers.get_mut(rank as usize))
                {
                    *place = Some(answer);
                }
            }
        }
        Ok(())
    }

    /// Handles a rank that failed or was stopped: orders all others to stop.
    fn failed<T>(&mut self, rank: u32, failure: Option<String>, all: &mut Answers<T>) {
        if let Some(out) = all.out.get_mut(rank as usize) {
            *out = true;
        }
        if all.failure.is_none() {
            all.failure = failure;
        }
        if all.stopped.is_none() {
            self.tell(&ToRank::Stop);
            all.stopped = Some((Instant::now(), false));
        }
    }

    /// Handles the wait of a rank for an op: asks the rank that executes the op to report it, unless it has returned.
    fn route(&mut self, rank: u32, point: Point) {
        let Some((phase, plan, threads)) = &self.waits.phase else { return };
        let reached = self.waits.reached.get(&point.thread).copied().unwrap_or(0);
        // A peer that cannot be reached is detected because it stays silent.
        if reached >= point.ops {
            let _ = self.peers[rank as usize].wire.send(&ToRank::Reached(point));
            return;
        }
        let owner = plan.rank_of(point.thread / threads.max(&1), *phase);
        let waiting = self.waits.waiting.entry(point).or_default();
        waiting.push(rank);
        if let (1, Some(owner)) = (waiting.len(), self.peers.get(owner as usize)) {
            let _ = owner.wire.send(&ToRank::Await(point));
        }
    }

    fn reached(&mut self, point: Point) {
        let ops = self.waits.reached.entry(point.thread).or_default();
        *ops = point.ops.max(*ops);
        for rank in self.waits.waiting.remove(&point).unwrap_or_default() {
            let _ = self.peers[rank as usize].wire.send(&ToRank::Reached(point));
        }
    }

    /// Aborts the wait if a rank is silent, a call hangs, or the deadline has passed.
    fn check<T>(
        &mut self,
        all: &mut Answers<T>,
        doing: &str,
        deadline: Instant,
    ) -> Result<(), GroupError> {
        let now = Instant::now();
        if let Some((when, by_user)) = all.stopped {
            let patience = if by_user { self.patience.stop } else { AFTER_FAILURE };
            if now > when + patience {
                let slow =
                    (0..self.peers.len()).find(|at| all.answers[*at].is_none() && !all.out[*at]);
                let name = slow.map(|at| self.peers[at].name()).unwrap_or_default();
                let why = format!("{name} did not stop {doing} within {} s", patience.as_secs());
                let first = all.failure.take();
                let error = self.abort(first.unwrap_or(why));
                return Err(if by_user { GroupError::Stopped } else { error });
            }
        }
        for (at, peer) in self.peers.iter().enumerate() {
            if now.duration_since(peer.received) > self.patience.silence {
                let why = format!(
                    "{} has given no sign of life for {} s {doing}: its host or the network is down, or the process \
                     is stopped",
                    peer.name(),
                    self.patience.silence.as_secs()
                );
                return Err(self.abort(why));
            }
            let is_held_at_stonewall =
                self.stonewall.as_ref().is_some_and(|stonewall| stonewall.holds(at));
            let waits = all.answers[at].is_none() && !all.out[at] && !is_held_at_stonewall;
            let limit = if self.shows_progress { self.patience.stuck } else { self.patience.sync };
            if waits && now.duration_since(peer.last_progress) > limit {
                let why = format!(
                    "{} has completed nothing for {} s {doing}, after {} operations: a call hangs; is its mount gone?",
                    peer.name(),
                    limit.as_secs(),
                    peer.ops
                );
                let is_on_own_client = peer.client == self.peers[0].client;
                let error = self.abort(why);
                self.own_client_hangs |= is_on_own_client;
                return Err(error);
            }
        }
        if now > deadline {
            return Err(self.abort(format!("the trial exceeded its deadline {doing}")));
        }
        Ok(())
    }

    /// Handles the end of a rank's connection: waits briefly for the report of its parent, then ends all ranks.
    fn lost(&mut self, rank: u32, doing: &str) -> GroupError {
        let name = self.peers.get(rank as usize).map(super::Peer::name).unwrap_or_default();
        if let Some(peer) = self.peers.get_mut(rank as usize) {
            peer.gone = true;
        }
        let begin = Instant::now();
        let mut why = "its connection ended".to_string();
        while let Some(left) = PARENT_REPORT.checked_sub(begin.elapsed()) {
            match self.events.recv_timeout(left) {
                Ok(Event::WorkerEnded(hello)) if hello.rank == rank => {
                    why = hello.text;
                    break;
                }
                Ok(Event::Gone(other)) => {
                    if let Some(peer) = self.peers.get_mut(other as usize) {
                        peer.gone = true;
                    }
                }
                Ok(_) => {}
                Err(_) => break,
            }
        }
        self.abort(format!("{name} was lost {doing}: {why}"))
    }

    /// Aborts all ranks, and waits until they are gone.
    pub(super) fn abort(&mut self, why: String) -> GroupError {
        self.tell(&ToRank::Abort { why: why.clone() });
        let begin = Instant::now();
        while let Some(left) = END.checked_sub(begin.elapsed()) {
            if self.peers.iter().all(|peer| peer.gone) {
                break;
            }
            match self.events.recv_timeout(left) {
                Ok(Event::Gone(rank)) => {
                    if let Some(peer) = self.peers.get_mut(rank as usize) {
                        peer.gone = true;
                    }
                }
                Ok(_) => {}
                Err(_) => break,
            }
        }
        let left = self.peers.iter().filter(|peer| !peer.gone);
        self.own_client_hangs |= left.clone().any(|peer| peer.hello.rank == 0);
        let left: Vec<String> = left.map(super::Peer::name).collect();
        self.peers.iter().for_each(|peer| peer.wire.shut());
        let why = match left.first() {
            None => why,
            Some(first) => format!(
                "{why}; {first}{} did not end within {} s and may still write",
                match left.len() {
                    1 => String::new(),
                    more => format!(" and {} more", more - 1),
                },
                END.as_secs()
            ),
        };
        self.broken = Some(why.clone());
        GroupError::Lost(why)
    }

    /// Measures the clocks of all ranks, which are idle meanwhile.
    pub(super) fn measure_clocks(&mut self, doing: &str) -> Result<Vec<Offset>, GroupError> {
        let mut offsets = Vec::new();
        for rank in 0..self.peers.len() {
            let one_clock = self.peers[rank].one_clock;
            let (mut samples, begin) = (Vec::new(), Instant::now());
            while needs_exchange(samples.len(), one_clock, begin.elapsed()) {
                let sent = fsdyno_engine::clock::now();
                let _ = self.peers[rank].wire.send(&ToRank::Ping);
                let (there, back) = self.wait_for_pong(rank as u32, doing)?;
                samples.push(Sample { sent, there, back });
            }
            let offset = best(&samples).unwrap_or_default();
            offsets.push(if one_clock { offset.assuming_same_clock() } else { offset });
        }
        Ok(offsets)
    }

    fn wait_for_pong(&mut self, from: u32, doing: &str) -> Result<(Nanos, Nanos), GroupError> {
        let begin = Instant::now();
        while let Some(left) = self.patience.silence.checked_sub(begin.elapsed()) {
            match self.events.recv_timeout(left) {
                Ok(Event::Received(rank, FromRank::Pong { now }, at)) if rank == from => {
                    return Ok((now, at));
                }
                Ok(Event::Gone(rank)) => return Err(self.lost(rank, doing)),
                Ok(_) => {}
                Err(_) => break,
            }
        }
        let name = self.peers[from as usize].name();
        Err(self.abort(format!("{name} does not answer {doing}")))
    }

    /// Discards the waits of the previous phase.
    pub(super) fn begin_waits(&mut self, phase: usize, plan: &RanksPlan, threads: u32) {
        self.waits = Waits { phase: Some((phase, plan.clone(), threads)), ..Waits::default() };
    }
}

impl<T> Answers<T> {
    fn end(self) -> Result<Vec<T>, GroupError> {
        match (self.failure, self.stopped) {
            (Some(why), _) => Err(GroupError::Failed(why)),
            (None, Some((_, true))) => Err(GroupError::Stopped),
            (None, Some(_)) => Err(GroupError::Failed("the ranks stopped each other".into())),
            (None, None) => Ok(self.answers.into_iter().flatten().collect()),
        }
    }
}
