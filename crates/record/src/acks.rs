//! When each op of a logged trial came back, in memory that agent and venue share.
//!
//! It lies behind the log of bytes in the same region. Words of 64 bits, little-endian: eight of
//! header (magic, ranks, words of each rank's part, marks), then [`MOST_MARKS`] marks of two words
//! (what and phase, when), then a part for each rank. A part begins with how many words follow;
//! each is the time at which an op of the rank came back, in the order of its generator, or with
//! [`PHASE`] the phase that those after it belong to.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::Nanos;

/// Bytes of the region that a logged trial has beside its disks.
pub const REGION: u64 = 16 << 30;
/// Where in it the times lie.
pub const OFFSET: u64 = 14 << 30;
/// Marks that there is room for.
pub const MOST_MARKS: usize = 2044;
/// In a rank's part: what follows belongs to the phase in the other bits.
pub const PHASE: u64 = 1 << 63;

const MAGIC: u64 = u64::from_le_bytes(*b"fsdynoak");
const HEADER: usize = 8;
const PARTS_AT: usize = HEADER + 2 * MOST_MARKS;

/// Something that the trial itself did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum What {
    /// A phase begins.
    Begin = 1,
    /// Its last op came back.
    Returned = 2,
    /// syncfs(2) came back: all that was done before is durable.
    Synced = 3,
}

/// When it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// What.
    pub what: What,
    /// In which phase, from 0; of a sync between phases in the one before it.
    pub phase: usize,
    /// When, on the guest's clock.
    pub at: Nanos,
}

/// The writing side.
#[derive(Clone, Copy, Debug)]
pub struct AckLog {
    words: &'static [AtomicU64],
    ranks: usize,
    each: usize,
}

/// The writing side of one rank.
#[derive(Clone, Copy, Debug)]
pub struct AckLine(&'static [AtomicU64]);

/// Words that are needed for so many ranks, each of `each` ops and phases.
pub fn words(ranks: usize, each: usize) -> usize {
    PARTS_AT + ranks * (each + 1)
}

impl AckLog {
    /// An empty log; none where the memory is too small for it.
    pub fn new(words: &'static [AtomicU64], ranks: usize, each: usize) -> Option<AckLog> {
        if words.len() < self::words(ranks, each) {
            return None;
        }
        for (word, value) in words.iter().zip([MAGIC, ranks as u64, each as u64 + 1, 0]) {
            word.store(value, Ordering::Relaxed);
        }
        Some(AckLog { words, ranks, each: each + 1 })
    }

    /// Notes what the trial did. What finds no room is left out; a log has room for 681 phases.
    pub fn mark(&self, what: What, phase: usize, at: Nanos) {
        let count = self.words[3].load(Ordering::Relaxed) as usize;
        if count < MOST_MARKS {
            let place = HEADER + 2 * count;
            self.words[place].store(((what as u64) << 32) | phase as u64, Ordering::Relaxed);
            self.words[place + 1].store(at.0, Ordering::Relaxed);
            self.words[3].store(count as u64 + 1, Ordering::Release);
        }
    }

    /// The part of a rank; none for one that has none.
    pub fn line(&self, rank: u32) -> Option<AckLine> {
        let from = PARTS_AT + rank as usize * self.each;
        let part = self.words.get(from..from + self.each)?;
        ((rank as usize) < self.ranks).then_some(AckLine(part))
    }
}

impl AckLine {
    /// What follows belongs to this phase.
    pub fn phase(&self, phase: usize) {
        self.add(PHASE | phase as u64);
    }

    /// An op came back.
    #[inline]
    pub fn returned(&self, at: Nanos) {
        self.add(at.0);
    }

    #[inline]
    fn add(&self, word: u64) {
        let count = self.0[0].load(Ordering::Relaxed);
        // One that finds no room is still counted, so that the reader knows.
        if let Some(place) = self.0.get(count as usize + 1) {
            place.store(word, Ordering::Relaxed);
        }
        self.0[0].store(count + 1, Ordering::Release);
    }
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acks {
    /// What the trial did, in its order.
    pub marks: Vec<Mark>,
    /// By phase, rank and op of its generator: when it came back.
    pub returned: Vec<Vec<Vec<Nanos>>>,
}

/// Reads a log; `get` gives so many words from an index on.
///
/// # Errors
/// What is wrong with it.
pub fn read(get: &mut dyn FnMut(usize, usize) -> Vec<u64>) -> Result<Acks, &'static str> {
    let header = get(0, HEADER);
    let [magic, ranks, each, marks, ..] = header[..] else { return Err("there is no log of ops") };
    if magic != MAGIC {
        return Err("there is no log of ops");
    }
    let fits = ranks.checked_mul(each).is_some_and(|words| words < (REGION - OFFSET) / 8);
    if !fits || marks as usize > MOST_MARKS {
        return Err("the log of ops is damaged");
    }
    let mut acks = Acks::default();
    for mark in get(HEADER, 2 * marks as usize).chunks_exact(2) {
        let what = [What::Begin, What::Returned, What::Synced];
        let what = what.into_iter().find(|what| *what as u64 == mark[0] >> 32);
        let what = what.ok_or("the log of ops is damaged")?;
        acks.marks.push(Mark { what, phase: mark[0] as u32 as usize, at: Nanos(mark[1]) });
    }
    for rank in 0..ranks as usize {
        let part = PARTS_AT + rank * each as usize;
        let count = get(part, 1)[0];
        if count >= each {
            return Err("the log of ops was full");
        }
        let mut phase = None;
        for word in get(part + 1, count as usize) {
            if word & PHASE != 0 {
                let index = (word & !PHASE) as usize;
                if index >= MOST_MARKS {
                    return Err("the log of ops is damaged");
                }
                while acks.returned.len() <= index {
                    acks.returned.push(vec![Vec::new(); ranks as usize]);
                }
                phase = Some(index);
                continue;
            }
            let phase = phase.ok_or("the log of ops is damaged")?;
            acks.returned[phase][rank].push(Nanos(word));
        }
    }
    Ok(acks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn back(memory: &[AtomicU64]) -> Result<Acks, &'static str> {
        read(&mut |from, count| {
            memory[from..from + count].iter().map(|word| word.load(Ordering::Relaxed)).collect()
        })
    }

    fn memory(words: usize) -> &'static [AtomicU64] {
        (0..words).map(|_| AtomicU64::new(0)).collect::<Vec<_>>().leak()
    }

    #[test]
    fn what_came_back_is_read_by_phase_rank_and_op() {
        let memory = memory(words(2, 4));
        assert!(AckLog::new(memory, 2, 5).is_none());
        let log = AckLog::new(memory, 2, 4).unwrap();
        assert!(log.line(2).is_none());
        let lines = [log.line(0).unwrap(), log.line(1).unwrap()];
        log.mark(What::Begin, 0, Nanos(1));
        lines[0].phase(0);
        [5, 6].iter().for_each(|at| lines[0].returned(Nanos(*at)));
        lines[1].phase(0);
        lines[1].returned(Nanos(7));
        log.mark(What::Synced, 0, Nanos(9));
        lines[1].phase(1);
        lines[1].returned(Nanos(11));
        let acks = back(memory).unwrap();
        let times = |times: &[u64]| times.iter().map(|time| Nanos(*time)).collect::<Vec<_>>();
        assert_eq!(
            acks.returned,
            [vec![times(&[5, 6]), times(&[7])], vec![times(&[]), times(&[11])]]
        );
        assert_eq!(acks.marks[1], Mark { what: What::Synced, phase: 0, at: Nanos(9) });
        lines[1].returned(Nanos(12));
        assert_eq!(back(memory), Err("the log of ops was full"));
    }

    #[test]
    fn memory_that_holds_no_log_is_refused() {
        assert!(back(memory(words(1, 1))).is_err());
    }
}
