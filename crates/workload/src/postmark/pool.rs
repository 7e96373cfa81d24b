//! PostMark's pool of files: its table and its draws, action by action, without ops.
//!
//! Everything is drawn in the order of the original [SRC, RUN]: the buffer's text; then for each file its location,
//! subdirectory and size; then for each transaction the choice between reading and appending, its file, the size of the
//! append, the choice between creating and deleting, and its file.

use crate::postmark::mt19937::Mt19937;

/// The parameters of the actions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSpec {
    /// Minimum size of a new file in bytes; at least one.
    pub low: u32,
    /// Exclusive upper bound of the size of a new file in bytes, unless it equals `low`; files never grow beyond it.
    pub high: u32,
    /// Initial number of files.
    pub number: u32,
    /// Number of transactions.
    pub transactions: u32,
    /// Seed of the generator.
    pub seed: u32,
    /// Number of subdirectories of each location; used if there are at least two.
    pub subdirectories: u32,
    /// The weight of each location; a location is drawn if there are at least two.
    pub weights: Vec<u32>,
    /// Number of reads per ten transactions, the others being appends; `None` disables both.
    pub bias_read: Option<u32>,
    /// Number of creations per ten transactions, the others being deletions; `None` disables both.
    pub bias_create: Option<u32>,
}

impl PoolSpec {
    /// Returns the number of directories that can contain files.
    pub fn file_directories(&self) -> u64 {
        self.weights.len().max(1) as u64 * u64::from(self.subdirectories.max(1))
    }

    fn layout(&self) -> Layout {
        Layout { size: bits(u64::from(self.high)), directory: bits(self.file_directories() - 1) }
    }

    /// Returns the number of bits that the table's entries need in addition to their 64, or zero if they fit.
    pub fn excess_bits(&self) -> u32 {
        let Layout { size, directory } = self.layout();
        let number = bits(u64::from(self.number) + u64::from(self.transactions));
        (number + directory + size).saturating_sub(Entry::BITS)
    }
}

/// Returns the number of binary digits of a number.
fn bits(number: u64) -> u32 {
    u64::BITS - number.leading_zeros()
}

/// A file of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File {
    /// Its name: files are numbered from one as they are created.
    pub number: u64,
    /// Its directory: location times number of subdirectories, plus subdirectory.
    pub directory: u32,
    /// Its size in bytes, before the action.
    pub size: u32,
}

/// An action on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Creates the file with its size.
    Create(File),
    /// Reads the whole file.
    Read(File),
    /// Appends this many bytes to the file.
    Append(File, u32),
    /// Deletes the file.
    Delete(File),
}

/// A file packed into one word, so that the table takes 16 bytes per initial file: from the highest bit, its number,
/// directory and size. Zero is a free slot, because no file is empty; words sort by number.
pub type Entry = u64;

/// The layout of an entry, as numbers of bits.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    size: u32,
    directory: u32,
}

impl Layout {
    fn pack(self, file: File) -> Entry {
        (file.number << self.directory | u64::from(file.directory)) << self.size
            | u64::from(file.size)
    }

    /// Returns the file of an entry.
    #[inline]
    pub fn unpack(self, entry: Entry) -> File {
        let low = |word: u64, bits: u32| (word & ((1 << bits) - 1)) as u32;
        let without_size = entry >> self.size;
        File {
            number: without_size >> self.directory,
            directory: low(without_size, self.directory),
            size: low(entry, self.size),
        }
    }
}

/// The error of a transaction that found no file: PostMark prints `out of files!` and ends without a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfFiles;

/// The pool between two actions.
#[derive(Clone, Debug)]
pub struct Pool<'a> {
    spec: &'a PoolSpec,
    layout: Layout,
    draws: Mt19937,
    table: Vec<Entry>,
    /// The slot after the one that was filled last.
    next_slot: usize,
    /// No slot below this is free.
    min_free: usize,
    created: u64,
    deleted: u64,
    /// All slots below this are empty and stay empty.
    first_unchecked: usize,
    /// Number of halves of transactions done: the first half reads or appends, the second creates or deletes.
    half_count: u64,
    /// Maximum number of transactions that begin.
    transactions: u64,
}

impl<'a> Pool<'a> {
    /// Creates an empty pool; `draws` must come from [`Pool::draws`].
    pub fn new(spec: &'a PoolSpec, draws: &Mt19937) -> Pool<'a> {
        Pool {
            spec,
            layout: spec.layout(),
            draws: draws.clone(),
            table: vec![0; 2 * spec.number as usize],
            next_slot: 0,
            min_free: 0,
            created: 0,
            deleted: 0,
            first_unchecked: 0,
            half_count: 0,
            transactions: u64::from(spec.transactions),
        }
    }

    /// Returns the generator after it has filled PostMark's buffer, which is twice as long as the largest file; to be
    /// computed once.
    pub fn draws(spec: &PoolSpec) -> Mt19937 {
        let mut draws = Mt19937::new(spec.seed);
        draws.skip(2 * u64::from(spec.high));
        draws
    }

    /// Creates the next initial file; returns `None` once all exist.
    pub fn create_next(&mut self) -> Option<Action> {
        if self.created == u64::from(self.spec.number) { None } else { self.create() }
    }

    /// Performs the next action of the transactions; returns `None` at the end of the last.
    ///
    /// # Errors
    /// [`OutOfFiles`], if a transaction begins and no file exists.
    pub fn next_action(&mut self) -> Result<Option<Action>, OutOfFiles> {
        while self.half_count < 2 * self.transactions {
            let is_first = self.half_count % 2 == 0;
            if is_first && self.created == self.deleted {
                return Err(OutOfFiles);
            }
            self.half_count += 1;
            let action = if is_first { self.read_or_append() } else { self.create_or_delete() };
            if action.is_some() {
                return Ok(action);
            }
        }
        Ok(None)
    }

    /// Performs the next action of the transaction that has begun; returns `None` at its end.
    pub fn finish_transaction(&mut self) -> Option<Action> {
        if self.half_count % 2 == 0 {
            return None;
        }
        let max_transactions =
            std::mem::replace(&mut self.transactions, self.half_count.div_ceil(2));
        let action = self.next_action().unwrap_or_default();
        self.transactions = max_transactions;
        action
    }

    /// Returns the number of transactions begun, and true if there is another one.
    pub fn transactions(&self) -> (u64, bool) {
        let begun_count = self.half_count.div_ceil(2);
        (begun_count, begun_count < self.transactions)
    }

    /// Limits the number of transactions to this many.
    pub fn set_max_transactions(&mut self, transactions: u64) {
        self.transactions = transactions.min(self.transactions);
    }

    /// Deletes the next remaining file, in the order of the table; returns `None` once the table is empty.
    pub fn delete_next(&mut self) -> Option<Action> {
        let slot = self.first_unchecked
            + self.table[self.first_unchecked..].iter().position(|word| *word != 0)?;
        self.first_unchecked = slot + 1;
        Some(self.delete(slot))
    }

    /// Returns the existing files, ordered by number, and the layout of their entries.
    pub fn into_files(self) -> (Vec<Entry>, Layout) {
        let mut files = self.table;
        files.retain(|entry| *entry != 0);
        files.sort_unstable();
        files.shrink_to_fit();
        (files, self.layout)
    }

    fn read_or_append(&mut self) -> Option<Action> {
        let bias = self.spec.bias_read?;
        let is_read = self.draws.below(10) < bias;
        let slot = self.draw_used_slot();
        let file = self.layout.unpack(self.table[slot]);
        if is_read {
            return Some(Action::Read(file));
        }
        // A file of the maximum size is left unchanged, which does not count as an action.
        let free = self.spec.high.checked_sub(file.size).filter(|free| *free > 0)?;
        let bytes = 1 + self.draws.below(free);
        self.table[slot] = self.layout.pack(File { size: file.size + bytes, ..file });
        Some(Action::Append(file, bytes))
    }

    fn create_or_delete(&mut self) -> Option<Action> {
        let bias = self.spec.bias_create?;
        if self.draws.below(10) < bias {
            return self.create();
        }
        let slot = self.draw_used_slot();
        Some(self.delete(slot))
    }

    fn create(&mut self) -> Option<Action> {
        let slot = self.free_slot()?;
        let spec = self.spec;
        let location = if spec.weights.len() > 1 { self.draw_location() } else { 0 };
        let mut directory = location;
        if spec.subdirectories > 1 {
            directory = location * spec.subdirectories + self.draws.below(spec.subdirectories);
        }
        let size = spec.low + self.draws.below(spec.high - spec.low);
        self.created += 1;
        let file = File { number: self.created, directory, size };
        self.table[slot] = self.layout.pack(file);
        self.next_slot = slot + 1;
        Some(Action::Create(file))
    }

    fn delete(&mut self, slot: usize) -> Action {
        let file = self.layout.unpack(std::mem::take(&mut self.table[slot]));
        self.deleted += 1;
        self.min_free = self.min_free.min(slot);
        Action::Delete(file)
    }

    /// Draws a location with a probability proportional to its weight.
    fn draw_location(&mut self) -> u32 {
        let mut draw = self.draws.below(self.spec.weights.iter().sum::<u32>());
        let mut location = 0;
        for weight in &self.spec.weights {
            if draw < *weight {
                break;
            }
            draw -= weight;
            location += 1;
        }
        location
    }

    /// Returns the slot after the last one filled if it is free, else the first free slot.
    fn free_slot(&mut self) -> Option<usize> {
        if self.table.get(self.next_slot) == Some(&0) {
            return Some(self.next_slot);
        }
        let free = self.table[self.min_free..].iter().position(|entry| *entry == 0);
        self.min_free = free.map_or(self.table.len(), |free| self.min_free + free);
        free.map(|_| self.min_free)
    }

    /// Draws slots until one is in use, and returns it; there must be one.
    fn draw_used_slot(&mut self) -> usize {
        loop {
            let slot = self.draws.below(self.table.len() as u32) as usize;
            if self.table[slot] != 0 {
                return slot;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> PoolSpec {
        PoolSpec {
            low: 500,
            high: 10_000,
            number: 500,
            transactions: 500,
            seed: 42,
            subdirectories: 1,
            weights: vec![1],
            bias_read: Some(5),
            bias_create: Some(5),
        }
    }

    fn first_sizes(spec: &PoolSpec) -> Vec<u32> {
        let draws = Pool::draws(spec);
        let mut pool = Pool::new(spec, &draws);
        let sizes = std::iter::from_fn(|| pool.create_next());
        sizes
            .take(5)
            .map(|action| match action {
                Action::Create(file) => file.size,
                action => panic!("{action:?}"),
            })
            .collect()
    }

    #[test]
    fn the_first_files_have_the_sizes_of_the_original() {
        assert_eq!(first_sizes(&spec()), [1390, 4732, 3583, 6507, 9640]);
        let linuxinsight = PoolSpec { high: 500_000, number: 5000, ..spec() };
        assert_eq!(first_sizes(&linuxinsight), [345551, 329410, 474879, 48323, 75266]);
    }

    #[test]
    fn the_table_takes_16_bytes_for_each_initial_file() {
        let spec = PoolSpec { number: 1000, ..spec() };
        let draws = Pool::draws(&spec);
        let mut pool = Pool::new(&spec, &draws);
        assert_eq!(size_of::<Entry>() * pool.table.capacity(), 16 * 1000);
        while pool.create_next().is_some() {}
        while pool.next_action() != Ok(None) {}
        assert_eq!(size_of::<Entry>() * pool.table.capacity(), 16 * 1000);
        // Without the table the pool is the generator's 2.5 KB and a few words, for any number.
        assert!(size_of::<Pool<'_>>() < 3000);
        let alive = (pool.created - pool.deleted) as usize;
        assert_eq!(pool.into_files().0.capacity(), alive);
    }

    #[test]
    fn an_entry_unpacks_to_the_packed_file() {
        let spec = PoolSpec { subdirectories: 10, weights: vec![1, 3, 1], ..spec() };
        let layout = spec.layout();
        for number in [1, 500, 1000] {
            for directory in [0, 7, 29] {
                for size in [1, 500, 10_000] {
                    let file = File { number, directory, size };
                    assert_eq!(layout.unpack(layout.pack(file)), file);
                }
            }
        }
        assert_eq!(spec.excess_bits(), 0);
        let large = PoolSpec { high: 1 << 30, transactions: 1_000_000_000, ..spec };
        assert_eq!(large.excess_bits(), 31 + 30 + 5 - 64);
    }

    #[test]
    fn a_pool_without_creations_runs_out_of_files() {
        let spec = PoolSpec { number: 3, transactions: 12, bias_create: Some(0), ..spec() };
        let draws = Pool::draws(&spec);
        let mut pool = Pool::new(&spec, &draws);
        while pool.create_next().is_some() {}
        let mut deleted = 0;
        let end = loop {
            match pool.next_action() {
                Ok(Some(Action::Delete(_))) => deleted += 1,
                Ok(Some(_)) => {}
                end => break end,
            }
        };
        assert_eq!((end, deleted), (Err(OutOfFiles), 3));
    }
}
