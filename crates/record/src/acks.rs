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
const PARTS_OFFSET: usize = HEADER + 2 * MAX_EVENTS;

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
    pub time: Nanos,
}

/// The writing side of the log.
#[derive(Clone, Copy, Debug)]
pub struct AckLog {
    words: &'static [AtomicU64],
    ranks: usize,
    words_per_rank: usize,
}

/// The writing side of one rank.
#[derive(Clone, Copy, Debug)]
pub struct RankAcks(&'static [AtomicU64]);

/// Returns the number of words that a log of `ranks` ranks takes, each with up to `words_per_rank` ops and phases.
pub fn words_needed(ranks: usize, words_per_rank: usize) -> usize {
    PARTS_OFFSET + ranks * (words_per_rank + 1)
}

impl AckLog {
    /// Creates an empty log; `None` if the memory is too small for it.
    pub fn new(words: &'static [AtomicU64], ranks: usize, words_per_rank: usize) -> Option<AckLog> {
        if words.len() < words_needed(ranks, words_per_rank) {
            return None;
        }
        for (word, value) in words.iter().zip([MAGIC, ranks as u64, words_per_rank as u64 + 1, 0]) {
            word.store(value, Ordering::Relaxed);
        }
        Some(AckLog { words, ranks, words_per_rank: words_per_rank + 1 })
    }

    /// Adds an event, unless the log is full; it holds the events of 681 phases.
    pub fn add_event(&self, kind: PhaseEventKind, phase: usize, time: Nanos) {
        let count = self.words[3].load(Ordering::Relaxed) as usize;
        if count < MAX_EVENTS {
            let index = HEADER + 2 * count;
            self.words[index].store(((kind as u64) << 32) | phase as u64, Ordering::Relaxed);
            self.words[index + 1].store(time.0, Ordering::Relaxed);
            self.words[3].store(count as u64 + 1, Ordering::Release);
        }
    }

    /// Returns the part of a rank, if it has one.
    pub fn rank(&self, rank: u32) -> Option<RankAcks> {
        let from = PARTS_OFFSET + rank as usize * self.words_per_rank;
        let part = self.words.get(from..from + self.words_per_rank)?;
        ((rank as usize) < self.ranks).then_some(RankAcks(part))
    }
}

impl RankAcks {
    /// Begins a phase: subsequent times belong to it.
    pub fn begin_phase(&self, phase: usize) {
        self.add(PHASE_FLAG | phase as u64);
    }

    /// Adds the return time of an op; `failed` is true if it failed although it should have succeeded.
    #[inline]
    pub fn add_return(&self, time: Nanos, failed: bool) {
        self.add(time.0 | if failed { FAILED_FLAG } else { 0 });
    }

    #[inline]
    fn add(&self, word: u64) {
        let count = self.0[0].load(Ordering::Relaxed);
        // A word that does not fit is still counted, so that the reader detects it.
        if let Some(slot) = self.0.get(count as usize + 1) {
            slot.store(word, Ordering::Relaxed);
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

/// Reads a log; `read_words` returns a number of words, starting at an index.
///
/// # Errors
/// A sentence that describes the fault of the log.
pub fn parse(read_words: &mut dyn FnMut(usize, usize) -> Vec<u64>) -> Result<Acks, &'static str> {
    let header = read_words(0, HEADER);
    let [magic, ranks, words_per_rank, events, ..] = header[..] else {
        return Err("no log of op returns found");
    };
    if magic != MAGIC {
        return Err("no log of op returns found");
    }
    let is_plausible =
        ranks.checked_mul(words_per_rank).is_some_and(|words| words < (REGION - OFFSET) / 8);
    if !is_plausible || events as usize > MAX_EVENTS {
        return Err("the log of op returns is damaged");
    }
    let mut acks = Acks::default();
    for event in read_words(HEADER, 2 * events as usize).chunks_exact(2) {
        let kind = [PhaseEventKind::Begin, PhaseEventKind::Returned, PhaseEventKind::Synced];
        let kind = kind.into_iter().find(|kind| *kind as u64 == event[0] >> 32);
        let kind = kind.ok_or("the log of op returns is damaged")?;
        acks.events.push(PhaseEvent {
            kind,
            phase: event[0] as u32 as usize,
            time: Nanos(event[1]),
        });
    }
    for rank in 0..ranks as usize {
        let part = PARTS_OFFSET + rank * words_per_rank as usize;
        let count = read_words(part, 1)[0];
        if count >= words_per_rank {
            return Err("the log of op returns was full");
        }
        let mut phase = None;
        for word in read_words(part + 1, count as usize) {
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

    fn read_log(memory: &[AtomicU64]) -> Result<Acks, &'static str> {
        parse(&mut |from, count| {
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
        let ranks = [log.rank(0).unwrap(), log.rank(1).unwrap()];
        log.add_event(PhaseEventKind::Begin, 0, Nanos(1));
        ranks[0].begin_phase(0);
        ranks[0].add_return(Nanos(5), false);
        ranks[0].add_return(Nanos(6), true);
        ranks[1].begin_phase(0);
        ranks[1].add_return(Nanos(7), false);
        log.add_event(PhaseEventKind::Synced, 0, Nanos(9));
        ranks[1].begin_phase(1);
        ranks[1].add_return(Nanos(11), false);
        let acks = read_log(memory).unwrap();
        let times = |times: &[u64]| times.iter().map(|time| Nanos(*time)).collect::<Vec<_>>();
        assert_eq!(
            acks.returned,
            [vec![times(&[5, 6]), times(&[7])], vec![times(&[]), times(&[11])]]
        );
        assert_eq!(acks.failed, BTreeSet::from([(0, 0, 1)]));
        assert_eq!(
            acks.events[1],
            PhaseEvent { kind: PhaseEventKind::Synced, phase: 0, time: Nanos(9) }
        );
        ranks[1].add_return(Nanos(12), false);
        assert_eq!(read_log(memory), Err("the log of op returns was full"));
    }

    #[test]
    fn memory_without_a_log_is_refused() {
        assert!(read_log(memory(words_needed(1, 1))).is_err());
    }
}
