//! The return times of the ops of a logged trial, in memory shared by the agent and the venue.
//!
//! The log follows the log of bytes in the same region. It consists of 64-bit words, little-endian: a header of eight
//! (magic, ranks, words per rank's part, events), then [`MAX_EVENTS`] events of two words each (kind and phase, time),
//! then a part per rank. A part begins with the number of words that follow; each of these is the return time of an op
//! of the rank, in the order of its generator, with [`FAILED_FLAG`] set if it failed although it should have succeeded;
//! or, with [`PHASE_FLAG`] set, it is the phase of the words after it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Nanos;

/// Size of the region that a logged trial has in addition to the regions of its disks.
pub const REGION: u64 = 16 << 30;
/// Offset of the times in the region.
pub const OFFSET: u64 = 14 << 30;
/// Maximum number of events.
pub const MAX_EVENTS: usize = 2044;
/// Flag of a word in a rank's part: the other bits are the phase of the words after it.
pub const PHASE_FLAG: u64 = 1 << 63;
/// Flag of a return time: the op failed although it should have succeeded.
pub const FAILED_FLAG: u64 = 1 << 62;

const MAGIC: u64 = u64::from_le_bytes(*b"fsdynoak");
const HEADER: usize = 8;
const PARTS_AT: usize = HEADER + 2 * MAX_EVENTS;

/// The kind of a [`PhaseEvent`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum PhaseEventKind {
    /// A phase begins.
    Begin = 1,
    /// The last op of the phase returned.
    Returned = 2,
    /// syncfs(2) returned: everything before it is durable.
    Synced = 3,
}

/// A step of the trial itself, with its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseEvent {
    /// The kind of step.
    pub kind: PhaseEventKind,
    /// The phase, from 0; for a sync between phases, the preceding one.
    pub phase: usize,
    /// The time, on the guest's clock.
    pub at: Nanos,
}

/// The writing side of the log.
#[derive(Clone, Copy, Debug)]
pub struct AckLog {
    words: &'static [AtomicU64],
    ranks: usize,
    each: usize,
}

/// The writing side of one rank.
#[derive(Clone, Copy, Debug)]
pub struct RankAcks(&'static [AtomicU64]);

/// Returns the number of words that a log of `ranks` ranks takes, each with up to `each` ops and phases.
pub fn words_needed(ranks: usize, each: usize) -> usize {
    PARTS_AT + ranks * (each + 1)
}

impl AckLog {
    /// Creates an empty log; `None` if the memory is too small for it.
    pub fn new(words: &'static [AtomicU64], ranks: usize, each: usize) -> Option<AckLog> {
        if words.len() < words_needed(ranks, each) {
            return None;
        }
        for (word, value) in words.iter().zip([MAGIC, ranks as u64, each as u64 + 1, 0]) {
            word.store(value, Ordering::Relaxed);
        }
        Some(AckLog { words, ranks, each: each + 1 })
    }

    /// Adds an event, unless the log is full; it holds the events of 681 phases.
    pub fn add_event(&self, kind: PhaseEventKind, phase: usize, at: Nanos) {
        let count = self.words[3].load(Ordering::Relaxed) as usize;
        if count < MAX_EVENTS {
            let index = HEADER + 2 * count;
            self.words[index].store(((kind as u64) << 32) | phase as u64, Ordering::Relaxed);
            self.words[index + 1].store(at.0, Ordering::Relaxed);
            self.words[3].store(count as u64 + 1, Ordering::Release);
        }
    }

    /// Returns the part of a rank, if it has one.
    pub fn rank(&self, rank: u32) -> Option<RankAcks> {
        let from = PARTS_AT + rank as usize * self.each;
        let part = self.words.get(from..from + self.each)?;
        ((rank as usize) < self.ranks).then_some(RankAcks(part))
    }
}

impl RankAcks {
    /// Begins a phase: subsequent times belong to it.
    pub fn phase(&self, phase: usize) {
        self.add(PHASE_FLAG | phase as u64);
    }

    /// Adds the return time of an op; `failed` is true if it failed although it should have succeeded.
    #[inline]
    pub fn returned(&self, at: Nanos, failed: bool) {
        self.add(at.0 | if failed { FAILED_FLAG } else { 0 });
    }

    #[inline]
    fn add(&self, word: u64) {
        let count = self.0[0].load(Ordering::Relaxed);
        // A word that does not fit is still counted, so that the reader detects it.
        if let Some(place) = self.0.get(count as usize + 1) {
            place.store(word, Ordering::Relaxed);
        }
        self.0[0].store(count + 1, Ordering::Release);
    }
}

/// The contents of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acks {
    /// The events, in order of time.
    pub events: Vec<PhaseEvent>,
    /// Return times by phase, rank and op of its generator.
    pub returned: Vec<Vec<Vec<Nanos>>>,
    /// The ops that failed although they should have succeeded: phase, rank, and number of the op.
    pub failed: BTreeSet<(usize, usize, usize)>,
}

/// Reads a log; `get` returns a number of words, starting at an index.
///
/// # Errors
/// A sentence that describes the fault of the log.
pub fn read(get: &mut dyn FnMut(usize, usize) -> Vec<u64>) -> Result<Acks, &'static str> {
    let header = get(0, HEADER);
    let [magic, ranks, each, events, ..] = header[..] else {
        return Err("no log of op returns found");
    };
    if magic != MAGIC {
        return Err("no log of op returns found");
    }
    let fits = ranks.checked_mul(each).is_some_and(|words| words < (REGION - OFFSET) / 8);
    if !fits || events as usize > MAX_EVENTS {
        return Err("the log of op returns is damaged");
    }
    let mut acks = Acks::default();
    for event in get(HEADER, 2 * events as usize).chunks_exact(2) {
        let kind = [PhaseEventKind::Begin, PhaseEventKind::Returned, PhaseEventKind::Synced];
        let kind = kind.into_iter().find(|kind| *kind as u64 == event[0] >> 32);
        let kind = kind.ok_or("the log of op returns is damaged")?;
        acks.events.push(PhaseEvent { kind, phase: event[0] as u32 as usize, at: Nanos(event[1]) });
    }
    for rank in 0..ranks as usize {
        let part = PARTS_AT + rank * each as usize;
        let count = get(part, 1)[0];
        if count >= each {
            return Err("the log of op returns was full");
        }
        let mut phase = None;
        for word in get(part + 1, count as usize) {
            if word & PHASE_FLAG != 0 {
                let index = (word & !PHASE_FLAG) as usize;
                if index >= MAX_EVENTS {
                    return Err("the log of op returns is damaged");
                }
                while acks.returned.len() <= index {
                    acks.returned.push(vec![Vec::new(); ranks as usize]);
                }
                phase = Some(index);
                continue;
            }
            let phase = phase.ok_or("the log of op returns is damaged")?;
            let times = &mut acks.returned[phase][rank];
            if word & FAILED_FLAG != 0 {
                acks.failed.insert((phase, rank, times.len()));
            }
            times.push(Nanos(word & !FAILED_FLAG));
        }
    }
    Ok(acks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_back(memory: &[AtomicU64]) -> Result<Acks, &'static str> {
        read(&mut |from, count| {
            memory[from..from + count].iter().map(|word| word.load(Ordering::Relaxed)).collect()
        })
    }

    fn memory(words: usize) -> &'static [AtomicU64] {
        (0..words).map(|_| AtomicU64::new(0)).collect::<Vec<_>>().leak()
    }

    #[test]
    fn return_times_are_read_by_phase_rank_and_op() {
        let memory = memory(words_needed(2, 4));
        assert!(AckLog::new(memory, 2, 5).is_none());
        let log = AckLog::new(memory, 2, 4).unwrap();
        assert!(log.rank(2).is_none());
        let lines = [log.rank(0).unwrap(), log.rank(1).unwrap()];
        log.add_event(PhaseEventKind::Begin, 0, Nanos(1));
        lines[0].phase(0);
        lines[0].returned(Nanos(5), false);
        lines[0].returned(Nanos(6), true);
        lines[1].phase(0);
        lines[1].returned(Nanos(7), false);
        log.add_event(PhaseEventKind::Synced, 0, Nanos(9));
        lines[1].phase(1);
        lines[1].returned(Nanos(11), false);
        let acks = read_back(memory).unwrap();
        let times = |times: &[u64]| times.iter().map(|time| Nanos(*time)).collect::<Vec<_>>();
        assert_eq!(
            acks.returned,
            [vec![times(&[5, 6]), times(&[7])], vec![times(&[]), times(&[11])]]
        );
        assert_eq!(acks.failed, BTreeSet::from([(0, 0, 1)]));
        assert_eq!(
            acks.events[1],
            PhaseEvent { kind: PhaseEventKind::Synced, phase: 0, at: Nanos(9) }
        );
        lines[1].returned(Nanos(12), false);
        assert_eq!(read_back(memory), Err("the log of op returns was full"));
    }

    #[test]
    fn memory_that_holds_no_log_is_refused() {
        assert!(read_back(memory(words_needed(1, 1))).is_err());
    }
}
