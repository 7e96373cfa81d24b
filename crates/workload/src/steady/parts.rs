//! The parts of a working set: each has its own files, directories and random draws, and is used by one thread at a
//! time, so that the work is the same for any number of threads.

use fsdyno_record::Nanos;
use fsdyno_record::seed::mix;

use crate::op::Name;
use crate::steady::paths::{Path, Paths};
use crate::steady::population::{Action, Operation, Population, Rules};
use crate::steady::totals::Totals;
use crate::workload::Share;

/// Maximum number of operations of a part; files are numbered in 32 bits.
const MAX_OPS: u64 = 4_000_000_000;

/// A working set and its division.
#[derive(Debug)]
pub struct Parts {
    /// Approximate number of live files; at least the number of parts.
    pub files: u64,
    /// Number of directories; at least the number of parts.
    pub directories: u64,
    /// Number of parts.
    pub count: u32,
    /// Number of operations of all parts together, or `None` if a time limit ends them.
    pub ops: Option<u64>,
    /// Operations per second of all parts together, or zero for back to back.
    pub rate: u64,
    /// Maximum number of bytes per write or read call.
    pub block: u32,
    /// Percentage by which the number of names may vary.
    pub variation_percent: u64,
    /// Number of bytes by which the files may grow, or `None` for as many bytes as they have initially.
    pub free: Option<u64>,
    /// The operations and their frequencies.
    pub rules: Rules,
    /// Seed of all random choices.
    pub seed: u64,
    /// Paths of directories and files.
    pub paths: Paths,
}

impl Parts {
    /// Returns the first item of a part if `items` items are divided among the parts.
    fn first_of_part(&self, items: u64, part: u32) -> u64 {
        (u128::from(items) * u128::from(part) / u128::from(self.count)) as u64
    }

    /// Returns the first directory of a part, and the first directory after the part.
    pub fn directory_range(&self, part: u32) -> (u64, u64) {
        (self.first_of_part(self.directories, part), self.first_of_part(self.directories, part + 1))
    }

    /// Returns the part to which a directory belongs.
    pub fn part_with(&self, directory: u64) -> u32 {
        (((directory + 1) * u64::from(self.count) - 1) / self.directories) as u32
    }

    /// Returns the files of a part as initially created.
    pub fn population(&self, part: u32) -> Population {
        let files = self.first_of_part(self.files, part + 1) - self.first_of_part(self.files, part);
        let part_share =
            |free| (u128::from(free) * u128::from(files) / u128::from(self.files)) as u64;
        let seed = mix(self.seed.wrapping_add(u64::from(part)));
        Population::new(
            seed,
            files as u32,
            self.variation_percent,
            self.free.map(part_share),
            &self.rules,
        )
    }

    /// Returns the number of operations of a part: equal for all parts, except that the first ones may have one more.
    fn op_count(&self, part: u32) -> u64 {
        let parts = u64::from(self.count);
        let part_share = |ops: u64| ops / parts + u64::from(u64::from(part) < ops % parts);
        self.ops.map_or(MAX_OPS, part_share)
    }

    /// Returns the time at which an operation of a part is due; zero means that it is due immediately.
    pub fn due_time(&self, part: u32, number: u64) -> Nanos {
        if self.rate == 0 {
            return Nanos(0);
        }
        let number = u128::from(number) * u128::from(self.count) + u128::from(part);
        Nanos((number * 1_000_000_000 / u128::from(self.rate)) as u64)
    }

    /// Returns the directory of a part that a random word selects.
    pub fn directory(&self, part: u32, word: u64) -> u64 {
        let (from, to) = self.directory_range(part);
        from + ((u128::from(word) * u128::from(to - from)) >> 64) as u64
    }

    /// Writes the path of a file under one of its names.
    pub fn write_file_path(
        &self,
        part: (u32, &Population),
        serial: u32,
        name: u32,
        path: &mut Name,
    ) {
        let (part, population) = part;
        let directory = self.directory(part, population.random_word(serial, name));
        self.paths.write(Path::File { directory, serial, name }, path);
    }

    /// Returns the totals after all files have been created.
    pub fn totals_after_fill(&self) -> Totals {
        let mut totals = Totals::default();
        for population in (0..self.count).map(|part| self.population(part)) {
            for file in population.files() {
                totals.add_data(Action::Create, u64::from(file.length), self.block);
            }
            totals.add_live(&population);
        }
        totals
    }

    /// Returns the totals of the first `done[r]` operations of each rank `r`, and the state of all parts after them.
    pub fn replay(&self, done: &[u64]) -> (Totals, Vec<Population>) {
        let mut totals = Totals::default();
        let mut parts = Vec::new();
        for (rank, end) in (0..).zip(done) {
            let mut walk = Walk::new(self, Share { rank, ranks: done.len() as u32 });
            while walk.done < *end {
                let Some((_, operation)) = walk.step() else { break };
                totals.add_operation(&operation, self.block);
            }
            parts.extend(walk.progress);
        }
        parts.sort_by_key(|part| part.part);
        parts.iter().for_each(|part| totals.add_live(&part.population));
        (totals, parts.into_iter().map(|part| part.population).collect())
    }
}

/// The operations of a rank, which uses its parts in turn.
pub struct Walk<'a> {
    parts: &'a Parts,
    /// The parts of the rank.
    pub progress: Vec<PartProgress>,
    next: usize,
    /// Number of operations done.
    pub done: u64,
}

/// A part and its progress.
pub struct PartProgress {
    /// Number of the part.
    pub part: u32,
    /// Its files.
    pub population: Population,
    /// Number of its operations that are done.
    pub done_count: u64,
    op_count: u64,
}

impl<'a> Walk<'a> {
    /// Creates the walk over the parts `rank`, `rank + ranks` and so on.
    pub fn new(parts: &'a Parts, share: Share) -> Walk<'a> {
        let progress = (share.rank..parts.count).step_by(share.ranks.max(1) as usize).map(|part| {
            let population = parts.population(part);
            PartProgress { part, population, done_count: 0, op_count: parts.op_count(part) }
        });
        Walk { parts, progress: progress.collect(), next: 0, done: 0 }
    }

    /// Reports whether there is another operation.
    pub fn has_next(&self) -> bool {
        self.progress.get(self.next).is_some_and(|part| part.done_count < part.op_count)
    }

    /// Applies the next operation to the files; returns it and the index of its part. The first parts have as many
    /// operations as the others or one more, so the end is reached at the first part without another operation.
    pub fn step(&mut self) -> Option<(usize, Operation)> {
        let index = self.next;
        let part = self.progress.get_mut(index).filter(|part| part.done_count < part.op_count)?;
        let operation = part.population.next_operation(part.done_count, &self.parts.rules);
        part.done_count += 1;
        self.done += 1;
        self.next = if index + 1 == self.progress.len() { 0 } else { index + 1 };
        Some((index, operation))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sizes::Sizes;
    use crate::steady::population::{ACTION_NAMES, Overwrite};
    use crate::weights::Weights;

    fn parts(directories: u64, count: u32, ops: u64, rate: u64) -> Parts {
        let rules = Rules {
            action_weights: Weights::parse("read:1", ACTION_NAMES).unwrap(),
            sizes: Sizes::Fixed(1),
            appends: Sizes::Fixed(1),
            overwrite: Overwrite::Whole,
            fsync_percent: 0,
            hot: None,
        };
        Parts {
            files: 1000,
            directories,
            count,
            ops: Some(ops),
            rate,
            block: 512,
            variation_percent: 10,
            free: None,
            rules,
            seed: 1,
            paths: Paths::new(directories),
        }
    }

    #[test]
    fn each_directory_is_found_in_exactly_one_part() {
        for (directories, count) in [(1, 1), (7, 7), (100, 64), (725, 10), (13, 5)] {
            let parts = parts(directories, count, 1, 0);
            let mut next = 0;
            for part in 0..count {
                let (from, to) = parts.directory_range(part);
                assert!(from == next && to > from, "part {part} of {count}");
                next = to;
                assert!((from..to).all(|directory| parts.part_with(directory) == part));
                assert_eq!(
                    (parts.directory(part, 0), parts.directory(part, u64::MAX)),
                    (from, to - 1)
                );
            }
            assert_eq!(next, directories);
        }
    }

    #[test]
    fn operations_are_due_at_even_intervals_for_any_number_of_threads() {
        let parts = parts(100, 3, 10, 1000);
        for ranks in 1..5 {
            let mut due = Vec::new();
            for rank in 0..ranks {
                let mut walk = Walk::new(&parts, Share { rank, ranks });
                let mut last = None;
                while let Some((index, _)) = walk.step() {
                    let part = &walk.progress[index];
                    let now = parts.due_time(part.part, part.done_count - 1).0;
                    assert!(last.is_none_or(|last| last < now), "a rank's ops are due in order");
                    last = Some(now);
                    due.push(now);
                }
            }
            due.sort_unstable();
            let expected: Vec<u64> = (0..10).map(|number| number * 1_000_000).collect();
            assert_eq!(due, expected, "{ranks} ranks");
        }
    }
}
