//! The files that exist after a stage of a run, for the verifier.

use crate::op::Payload;
use crate::postmark::ops::{RunSpec, Stage};
use crate::postmark::pool::{Action, Entry, File, Layout};
use crate::workload::{Expected, Tree};

/// The tree after a phase: the files in the pool, determined by replaying all actions without ops.
pub struct Survivors<'a> {
    run: &'a RunSpec,
    /// Ordered by number.
    files: Vec<Entry>,
    layout: Layout,
    /// The end of each write to the files, as file number and byte offset, sorted, only for contents=same.
    write_ends: Vec<(u32, u32)>,
    directories: u64,
}

impl<'a> Survivors<'a> {
    /// Computes the tree after a stage, with or without the run's directories.
    pub fn new(run: &'a RunSpec, after: Stage, with_directories: bool) -> Survivors<'a> {
        let (files, layout) = run.pool(after.next()).into_files();
        let directories = if with_directories { run.directory_count() } else { 0 };
        let mut survivors = Survivors { run, files, layout, write_ends: Vec::new(), directories };
        if !run.own_content && after != Stage::Empty {
            survivors.write_ends = survivors.compute_write_ends(after);
        }
        survivors
    }

    /// Replays the actions, now that the live files are known. The result takes eight bytes per write to a live file,
    /// and exists only in the verifier, because the ops do not need it.
    fn compute_write_ends(&self, after: Stage) -> Vec<(u32, u32)> {
        let mut pool = self.run.pool(Stage::Fill);
        let mut ends = Vec::new();
        let mut add_end = |action: Action| {
            let (file, end) = match action {
                Action::Create(file) => (file, file.size),
                Action::Append(file, bytes) => (file, file.size + bytes),
                Action::Read(_) | Action::Delete(_) => return,
            };
            if self.find(file.number).is_some() {
                ends.push((file.number as u32, end));
            }
        };
        while let Some(action) = pool.create_next() {
            add_end(action);
        }
        if after == Stage::Transact {
            while let Ok(Some(action)) = pool.next_action() {
                add_end(action);
            }
        }
        ends.sort_unstable();
        ends
    }

    fn find(&self, number: u64) -> Option<File> {
        let file = |entry: &Entry| self.layout.unpack(*entry);
        let index = self.files.binary_search_by_key(&number, |entry| file(entry).number).ok()?;
        self.files.get(index).map(file)
    }

    /// Returns the file at a path, `Some(None)` for a directory of the tree, or `None` for any other path.
    fn find_entry(&self, path: &[u8]) -> Option<Option<File>> {
        let spec = &self.run.spec;
        let subdirectories = u64::from(spec.subdirectories.max(1));
        let mut parts = path.split(|byte| *byte == b'/');
        let mut directory = 0;
        let levels = [
            (spec.weights.len() as u64, &self.run.locations, subdirectories),
            (subdirectories, &self.run.subdirectories, 1),
        ];
        let mut part = parts.next()?;
        for (count, names, step) in levels {
            if count < 2 {
                continue;
            }
            let number = names.parse(part).filter(|number| *number < count)?;
            directory += number * step;
            match parts.next() {
                Some(next_part) => part = next_part,
                None => return (self.directories > 0).then_some(None),
            }
        }
        let file = self.find(self.run.files.parse(part)?)?;
        (u64::from(file.directory) == directory && parts.next().is_none()).then_some(Some(file))
    }
}

impl Tree for Survivors<'_> {
    fn lookup(&self, path: &[u8]) -> Option<Expected> {
        Some(match self.find_entry(path)? {
            None => Expected::DIRECTORY,
            Some(file) if self.run.own_content => {
                Expected::file(self.run.payload(file, 0, 0, file.size))
            }
            Some(file) => Expected::pieces(u64::from(file.size)),
        })
    }

    fn files(&self) -> u64 {
        self.files.len() as u64
    }

    fn directories(&self) -> u64 {
        self.directories
    }

    fn piece(&self, path: &[u8], offset: u64) -> Option<Payload> {
        let file = self.find_entry(path)??;
        let position = (file.number as u32, offset as u32);
        let index = self.write_ends.partition_point(|end| *end <= position);
        let (number, end) = *self.write_ends.get(index)?;
        let previous = index.checked_sub(1).map_or((0, 0), |previous| self.write_ends[previous]);
        let start = if previous.0 == number { previous.1 } else { 0 };
        let length = end.checked_sub(position.1).filter(|_| number == position.0)?;
        Some(self.run.payload(file, offset, offset - u64::from(start), length))
    }
}
