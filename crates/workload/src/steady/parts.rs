//! The parts of a working set: each has files, directories and draws of its own, and one thread at a
//! time; so the work is the same however many threads share it.

use fsdyno_record::Nanos;
use fsdyno_record::seed::mix;

use crate::op::Name;
use crate::steady::account::Account;
use crate::steady::names::{Names, Path};
use crate::steady::population::{Action, Laws, Operation, Population};
use crate::workload::Share;

/// The most operations of a part; files are numbered in 32 bits.
const MOST_OPS: u64 = 4_000_000_000;

/// A working set and how it is divided.
#[derive(Debug)]
pub struct Parts {
    /// How many files live, about; at least as many as there are parts.
    pub files: u64,
    /// How many directories there are; at least as many as there are parts.
    pub directories: u64,
    /// How many parts there are.
    pub count: u32,
    /// All operations of all parts; none where something else ends them.
    pub ops: Option<u64>,
    /// Operations a second of all parts; zero is one after the other.
    pub rate: u64,
    /// Most bytes of one write or read call.
    pub block: u32,
    /// By how many percent the number of names may differ.
    pub swing: u64,
    /// By how many bytes the files may grow; none for as many as they have.
    pub free: Option<u64>,
    /// What is done, and how often.
    pub laws: Laws,
    /// Everything arbitrary is drawn from it.
    pub seed: u64,
    /// Names of what there is.
    pub names: Names,
}

impl Parts {
    /// Where a part begins when so many things are divided among the parts.
    fn divide(&self, things: u64, part: u32) -> u64 {
        (u128::from(things) * u128::from(part) / u128::from(self.count)) as u64
    }

    /// The first directory of a part, and the first one that is not.
    pub fn directories_of(&self, part: u32) -> (u64, u64) {
        (self.divide(self.directories, part), self.divide(self.directories, part + 1))
    }

    /// The part that a directory is of.
    pub fn part_of(&self, directory: u64) -> u32 {
        (((directory + 1) * u64::from(self.count) - 1) / self.directories) as u32
    }

    /// The files of a part when they have just been made.
    pub fn population(&self, part: u32) -> Population {
        let files = self.divide(self.files, part + 1) - self.divide(self.files, part);
        let share = |free| (u128::from(free) * u128::from(files) / u128::from(self.files)) as u64;
        let seed = mix(self.seed.wrapping_add(u64::from(part)));
        Population::new(seed, files as u32, self.swing, self.free.map(share), &self.laws)
    }

    /// How many operations fall to a part: all have as many, but the first ones may have one more.
    fn ops_of(&self, part: u32) -> u64 {
        let parts = u64::from(self.count);
        let share = |ops: u64| ops / parts + u64::from(u64::from(part) < ops % parts);
        self.ops.map_or(MOST_OPS, share)
    }

    /// When an operation of a part is due; zero is at once.
    pub fn due(&self, part: u32, number: u64) -> Nanos {
        if self.rate == 0 {
            return Nanos(0);
        }
        let number = u128::from(number) * u128::from(self.count) + u128::from(part);
        Nanos((number * 1_000_000_000 / u128::from(self.rate)) as u64)
    }

    /// The directory of a part that a random word means.
    pub fn directory(&self, part: u32, word: u64) -> u64 {
        let (from, to) = self.directories_of(part);
        from + ((u128::from(word) * u128::from(to - from)) >> 64) as u64
    }

    /// Writes the path of a file by one of its names.
    pub fn write_path(&self, turn: (u32, &Population), born: u32, name: u32, into: &mut Name) {
        let (part, population) = turn;
        let directory = self.directory(part, population.word_of(born, name));
        self.names.write(Path::File { directory, born, name }, into);
    }

    /// What the making of all files comes to.
    pub fn filled(&self) -> Account {
        let mut account = Account::default();
        for population in (0..self.count).map(|part| self.population(part)) {
            for file in population.files() {
                account.data(Action::Create, u64::from(file.length), self.block);
            }
            account.leave(&population);
        }
        account
    }

    /// What operations come to of which rank `r` has done `done[r]`, and all parts after them.
    pub fn replay(&self, done: &[u64]) -> (Account, Vec<Population>) {
        let mut account = Account::default();
        let mut turns = Vec::new();
        for (rank, end) in (0..).zip(done) {
            let mut walk = Walk::new(self, Share { rank, ranks: done.len() as u32 });
            while walk.done < *end {
                let Some((_, operation)) = walk.step() else { break };
                account.operation(&operation, self.block);
            }
            turns.extend(walk.turns);
        }
        turns.sort_by_key(|turn| turn.part);
        turns.iter().for_each(|turn| account.leave(&turn.population));
        (account, turns.into_iter().map(|turn| turn.population).collect())
    }
}

/// The parts of a rank in turn, one operation each.
pub struct Walk<'a> {
    parts: &'a Parts,
    /// Its parts.
    pub turns: Vec<Turn>,
    next: usize,
    /// How many operations were done.
    pub done: u64,
}

/// A part, and how far it is.
pub struct Turn {
    /// Number of the part.
    pub part: u32,
    /// Its files.
    pub population: Population,
    /// How many of its operations were done.
    pub number: u64,
    end: u64,
}

impl<'a> Walk<'a> {
    /// The parts `rank`, `rank + ranks` and so on.
    pub fn new(parts: &'a Parts, share: Share) -> Walk<'a> {
        let turns = (share.rank..parts.count).step_by(share.ranks.max(1) as usize).map(|part| {
            let population = parts.population(part);
            Turn { part, population, number: 0, end: parts.ops_of(part) }
        });
        Walk { parts, turns: turns.collect(), next: 0, done: 0 }
    }

    /// The next operation, done to the files, and the place of the turn it is of. The first parts
    /// have as many operations as the others or one more, so the first turn without any is the end.
    pub fn step(&mut self) -> Option<(usize, Operation)> {
        let at = self.next;
        let turn = self.turns.get_mut(at).filter(|turn| turn.number < turn.end)?;
        let operation = turn.population.operate(turn.number, &self.parts.laws);
        turn.number += 1;
        self.done += 1;
        self.next = if at + 1 == self.turns.len() { 0 } else { at + 1 };
        Some((at, operation))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sizes::Sizes;
    use crate::steady::population::{Overwrite, WORDS};
    use crate::weights::Weights;

    fn parts(directories: u64, count: u32, ops: u64, rate: u64) -> Parts {
        let laws = Laws {
            mix: Weights::parse("read:1", WORDS).unwrap(),
            sizes: Sizes::Fixed(1),
            appends: Sizes::Fixed(1),
            overwrite: Overwrite::Whole,
            fsync: 0,
            hot: None,
        };
        Parts {
            files: 1000,
            directories,
            count,
            ops: Some(ops),
            rate,
            block: 512,
            swing: 10,
            free: None,
            laws,
            seed: 1,
            names: Names::new(directories),
        }
    }

    #[test]
    fn each_directory_is_of_one_part_and_is_found_there() {
        for (directories, count) in [(1, 1), (7, 7), (100, 64), (725, 10), (13, 5)] {
            let parts = parts(directories, count, 1, 0);
            let mut next = 0;
            for part in 0..count {
                let (from, to) = parts.directories_of(part);
                assert!(from == next && to > from, "part {part} of {count}");
                next = to;
                assert!((from..to).all(|directory| parts.part_of(directory) == part));
                assert_eq!(
                    (parts.directory(part, 0), parts.directory(part, u64::MAX)),
                    (from, to - 1)
                );
            }
            assert_eq!(next, directories);
        }
    }

    #[test]
    fn operations_come_due_evenly_whoever_does_them() {
        let parts = parts(100, 3, 10, 1000);
        for ranks in 1..5 {
            let mut due = Vec::new();
            for rank in 0..ranks {
                let mut walk = Walk::new(&parts, Share { rank, ranks });
                let mut last = None;
                while let Some((at, _)) = walk.step() {
                    let turn = &walk.turns[at];
                    let now = parts.due(turn.part, turn.number - 1).0;
                    assert!(last.is_none_or(|last| last < now), "a rank's ops are due in order");
                    last = Some(now);
                    due.push(now);
                }
            }
            due.sort_unstable();
            let right: Vec<u64> = (0..10).map(|number| number * 1_000_000).collect();
            assert_eq!(due, right, "{ranks} ranks");
        }
    }
}
