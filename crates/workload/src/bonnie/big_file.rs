//! One large file: sequential passes of writes, rewrites and reads, random accesses by several
//! threads, and its expected content afterwards.

use fsdyno_record::{Nanos, OpKind, seed};

use crate::contents::VERSION_STRIDE;
use crate::op::{Call, DirSlot, FileSlot, Op, OpenFlags, Payload};
use crate::op_source::OpSource;
use crate::permutation::Permutation;
use crate::workload::{Expected, OpCounts};

const FILE: FileSlot = FileSlot(0);
const FLAGS: OpenFlags = OpenFlags { read: true, write: true, ..OpenFlags::NONE };
const NEW: OpenFlags = OpenFlags { exclusive: true, ..FLAGS };
const MODE: u32 = 0o600;

/// Size in bytes of the blocks that get distinct contents when the file is written in small units; a unit is a fraction
/// of a block.
const CHAR_BLOCK: u64 = 4096;

/// The last writer of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// The pass in small units.
    Char,
    /// The pass in chunks.
    Block,
    /// The pass that reads each chunk and writes it back.
    Rewrite,
    /// A seeker.
    Seeker,
}

/// The file and how it is used.
#[derive(Clone, Debug)]
pub struct BigFile {
    /// Its name below the trial's root.
    pub name: &'static [u8],
    /// Its length in bytes, a whole number of chunks.
    pub size: u64,
    /// The unit of passes and seeks, in bytes.
    pub chunk: u32,
    /// True if contents are zeros, false if they are incompressible data.
    pub zeros: bool,
    /// True if each pass and each seeker ends with fsync(2).
    pub end_sync: bool,
    /// The random accesses.
    pub seeks: Seeks,
}

/// One pass over the file by one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// The kind of access.
    pub kind: PassKind,
    /// Bytes of each call: the chunk, or for [`Writer::Char`] a power of two up to 4096.
    pub unit: u32,
    /// Bytes to access, from the beginning of the file.
    pub bytes: u64,
    /// Processor time before each call, in nanoseconds per byte.
    pub compute: u64,
}

/// The kind of access of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassKind {
    /// Creates the file and writes it.
    Write(Writer),
    /// Reads each unit and writes it back with other contents.
    Rewrite,
    /// Reads the file.
    Read,
}

/// The state of the file after a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// The last writer of the whole file.
    pub writer: Writer,
    /// Its length in bytes.
    pub size: u64,
    /// True if the seekers have written to it since.
    pub seeks_done: bool,
}

impl BigFile {
    /// Returns the ops of a pass.
    pub fn pass(&self, pass: Pass) -> PassOps<'_> {
        PassOps { file: self, pass, offset: 0, step: SweepStep::Open }
    }

    /// Returns the exact op counts of a pass.
    pub fn pass_counts(&self, pass: Pass) -> OpCounts {
        let calls = pass.bytes.div_ceil(u64::from(pass.unit));
        let mut counts = match pass.kind {
            PassKind::Write(_) => OpCounts::from([(OpKind::Create, 1), (OpKind::Write, calls)]),
            PassKind::Rewrite => {
                OpCounts::from([(OpKind::Open, 1), (OpKind::Read, calls), (OpKind::Write, calls)])
            }
            PassKind::Read => OpCounts::from([(OpKind::Open, 1), (OpKind::Read, calls)]),
        };
        counts.insert(OpKind::Close, 1);
        if self.end_sync {
            counts.insert(OpKind::Fsync, 1);
        }
        counts
    }

    /// Returns the ops of a seeker.
    pub fn seeker(&self, rank: u32) -> SeekerOps<'_> {
        SeekerOps { file: self, rank: u64::from(rank), round: 0, ticket: 0, step: SeekerStep::Open }
    }

    /// Returns the exact op counts of all seekers.
    pub fn seek_counts(&self) -> OpCounts {
        let seekers = u64::from(self.seeks.seekers);
        let updates = self.seeks.updates();
        let mut counts = OpCounts::from([
            (OpKind::Open, seekers),
            (OpKind::Close, seekers),
            (OpKind::Read, self.seeks.tickets),
            (OpKind::Write, updates),
        ]);
        let end_syncs = if self.end_sync { seekers } else { 0 };
        let update_syncs = if self.seeks.fsync { updates } else { 0 };
        counts.insert(OpKind::Fsync, end_syncs + update_syncs);
        counts.retain(|_, count| *count > 0);
        counts
    }

    /// Returns the expected entry at its path.
    pub fn expected(&self, state: State) -> Expected {
        Expected::pieces(state.size).with_mode(MODE)
    }

    /// Returns the expected content from byte `offset` to the end of its block or of the file, or `None` past the end.
    pub fn piece(&self, state: State, offset: u64) -> Option<Payload> {
        let remaining = state.size.checked_sub(offset).filter(|remaining| *remaining > 0)?;
        if state.seeks_done && self.seeks.is_updated(offset / u64::from(self.chunk)) {
            return Some(self.payload(Writer::Seeker, offset, remaining));
        }
        Some(self.payload(state.writer, offset, remaining))
    }

    /// Returns the content that `writer` writes at byte `offset`: to the end of its block, at most `max_length` bytes.
    fn payload(&self, writer: Writer, offset: u64, max_length: u64) -> Payload {
        let size = match writer {
            Writer::Char => CHAR_BLOCK,
            _ => u64::from(self.chunk),
        };
        let (block, offset_in_block) = (offset / size, offset % size);
        let length = (size - offset_in_block).min(max_length) as u32;
        if self.zeros {
            return Payload::zeros(offset, length);
        }
        let version = match writer {
            Writer::Char => 1,
            Writer::Block => 2,
            Writer::Rewrite => 3,
            Writer::Seeker => 4,
        };
        Payload { id: VERSION_STRIDE * version + block, offset: offset_in_block, length }
    }

    fn set_open(&self, op: &mut Op, is_new: bool) {
        op.name.clear();
        op.name.push(self.name);
        op.call = if is_new {
            Call::Create { dir: DirSlot::ROOT, file: FILE, flags: NEW, mode: MODE }
        } else {
            Call::Open { dir: DirSlot::ROOT, file: FILE, flags: FLAGS }
        };
    }
}

/// The targets of the seekers, as numbered tickets: each ticket is one chunk to read, and the chunks
/// of some tickets are written back.
///
/// Bonnie and Bonnie++ put the tickets into a pipe, and the processes race for them. Here each round of
/// tickets is assigned to the seekers in turn, and each round begins with the next seeker, so that
/// all get the same number of tickets and, if every tenth one is an update, the same number of updates. Chunks that
/// are only read are drawn independently; those that are updated follow a permutation of all chunks,
/// so that the updated chunks can be computed.
#[derive(Clone, Debug)]
pub struct Seeks {
    /// Number of tickets of all seekers together.
    pub tickets: u64,
    /// Number of threads.
    pub seekers: u32,
    /// The rule that selects tickets to write back.
    pub rule: UpdateRule,
    /// True if fsync(2) follows each chunk that is written back.
    pub fsync: bool,
    seed: u64,
    update_order: Permutation,
}

/// A rule that selects tickets to write back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateRule {
    /// The first ticket and every tenth after it.
    TenthOfAll,
    /// The first ticket of each seeker and every tenth of the seeker's own tickets after it.
    TenthOfEach,
}

/// One in this many tickets is an update.
const UPDATE_INTERVAL: u64 = 10;

impl Seeks {
    /// Creates the seeks in a file of `chunks` chunks.
    pub fn new(tickets: u64, seekers: u32, rule: UpdateRule, chunks: u64, seed: u64) -> Seeks {
        Seeks {
            tickets,
            seekers: seekers.max(1),
            rule,
            fsync: false,
            seed: seed::stream(seed, "seeks").draw(),
            update_order: Permutation::new(chunks, seed, "updates"),
        }
    }

    /// Returns the number of tickets that are written back.
    pub fn updates(&self) -> u64 {
        let seekers = u64::from(self.seekers);
        match self.rule {
            UpdateRule::TenthOfAll => self.tickets.div_ceil(UPDATE_INTERVAL),
            UpdateRule::TenthOfEach => {
                let cycle = UPDATE_INTERVAL * seekers;
                self.tickets / cycle * seekers + (self.tickets % cycle).min(seekers)
            }
        }
    }

    /// Returns the index of a ticket among the updates, or `None` if its chunk is only read.
    fn update_index(&self, ticket: u64) -> Option<u64> {
        let seekers = u64::from(self.seekers);
        match self.rule {
            UpdateRule::TenthOfAll => {
                (ticket % UPDATE_INTERVAL == 0).then_some(ticket / UPDATE_INTERVAL)
            }
            UpdateRule::TenthOfEach => {
                let round = ticket / seekers;
                (round % UPDATE_INTERVAL == 0)
                    .then_some(round / UPDATE_INTERVAL * seekers + ticket % seekers)
            }
        }
    }

    /// Returns the ticket of a seeker in a round, or `None` if there are no more.
    fn ticket_of(&self, rank: u64, round: u64) -> Option<u64> {
        let seekers = u64::from(self.seekers);
        let index = (rank + seekers - round % seekers) % seekers;
        Some(round * seekers + index).filter(|ticket| *ticket < self.tickets)
    }

    /// Returns the chunk of a ticket.
    fn chunk(&self, ticket: u64) -> u64 {
        let chunks = self.update_order.length();
        match self.update_index(ticket) {
            Some(update) => self.update_order.at(update % chunks),
            None => seed::SplitMix64::new(self.seed.wrapping_add(ticket)).below(chunks),
        }
    }

    /// Returns true if any ticket writes this chunk back.
    fn is_updated(&self, chunk: u64) -> bool {
        self.update_order.index_of(chunk) < self.updates()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SweepStep {
    Open,
    Unit,
    WriteBack,
    Sync,
    Close,
    End,
}

/// The ops of one pass; see [`BigFile::pass`].
#[derive(Clone, Debug)]
pub struct PassOps<'a> {
    file: &'a BigFile,
    pass: Pass,
    offset: u64,
    step: SweepStep,
}

impl PassOps<'_> {
    /// Reads or writes the next unit.
    fn access_unit(&mut self, op: &mut Op) {
        let length = (self.pass.bytes - self.offset).min(u64::from(self.pass.unit));
        op.compute = Nanos(self.pass.compute * length);
        if let PassKind::Write(writer) = self.pass.kind {
            let payload = self.file.payload(writer, self.offset, length);
            op.call = Call::Write { file: FILE, payload };
        } else {
            op.call = Call::Read { file: FILE, length: length as u32 };
        }
        if self.pass.kind == PassKind::Rewrite {
            self.step = SweepStep::WriteBack;
        } else {
            self.advance(length);
        }
    }

    fn advance(&mut self, bytes: u64) {
        self.offset += bytes;
        self.step = match self.file.end_sync {
            _ if self.offset < self.pass.bytes => SweepStep::Unit,
            true => SweepStep::Sync,
            false => SweepStep::Close,
        };
    }
}

impl OpSource for PassOps<'_> {
    fn next(&mut self, op: &mut Op) -> bool {
        op.compute = Nanos(0);
        match self.step {
            SweepStep::Open => {
                self.file.set_open(op, matches!(self.pass.kind, PassKind::Write(_)));
                self.advance(0);
            }
            SweepStep::Unit => self.access_unit(op),
            SweepStep::WriteBack => {
                let length = u64::from(self.pass.unit);
                let payload = self.file.payload(Writer::Rewrite, self.offset, length);
                op.call = Call::WriteAt { file: FILE, offset: self.offset, payload };
                self.advance(length);
            }
            SweepStep::Sync => {
                op.call = Call::Fsync { file: FILE };
                self.step = SweepStep::Close;
            }
            SweepStep::Close => {
                op.call = Call::Close { file: FILE };
                self.step = SweepStep::End;
            }
            SweepStep::End => return false,
        }
        true
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SeekerStep {
    Open,
    Read,
    WriteBack,
    Sync,
    Close,
    End,
}

/// The ops of one of the threads that seek; see [`BigFile::seeker`].
#[derive(Clone, Debug)]
pub struct SeekerOps<'a> {
    file: &'a BigFile,
    rank: u64,
    round: u64,
    ticket: u64,
    step: SeekerStep,
}

impl SeekerOps<'_> {
    fn offset(&self) -> u64 {
        self.file.seeks.chunk(self.ticket) * u64::from(self.file.chunk)
    }

    /// Reads the next ticket's chunk; ends the seeker if there is no ticket.
    fn read(&mut self, op: &mut Op) {
        let Some(ticket) = self.file.seeks.ticket_of(self.rank, self.round) else {
            return self.sync_or_close(op);
        };
        self.round += 1;
        self.ticket = ticket;
        op.call = Call::ReadAt { file: FILE, offset: self.offset(), length: self.file.chunk };
        if self.file.seeks.update_index(ticket).is_some() {
            self.step = SeekerStep::WriteBack;
        }
    }

    fn sync_or_close(&mut self, op: &mut Op) {
        if self.file.end_sync {
            op.call = Call::Fsync { file: FILE };
            self.step = SeekerStep::Close;
        } else {
            op.call = Call::Close { file: FILE };
            self.step = SeekerStep::End;
        }
    }
}

impl OpSource for SeekerOps<'_> {
    fn next(&mut self, op: &mut Op) -> bool {
        match self.step {
            SeekerStep::Open => {
                self.file.set_open(op, false);
                self.step = SeekerStep::Read;
            }
            SeekerStep::Read => self.read(op),
            SeekerStep::WriteBack => {
                let offset = self.offset();
                let payload = self.file.payload(Writer::Seeker, offset, u64::from(self.file.chunk));
                op.call = Call::WriteAt { file: FILE, offset, payload };
                let sync = self.file.seeks.fsync;
                self.step = if sync { SeekerStep::Sync } else { SeekerStep::Read };
            }
            SeekerStep::Sync => {
                op.call = Call::Fsync { file: FILE };
                self.step = SeekerStep::Read;
            }
            SeekerStep::Close => {
                op.call = Call::Close { file: FILE };
                self.step = SeekerStep::End;
            }
            SeekerStep::End => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_ticket_is_used_once_seekers_share_evenly_and_the_updated_chunks_are_known(
            tickets in 0u64..2000, seekers in 1u32..12, chunks in 1u64..3000, seed: u64,
        ) {
            for rule in [UpdateRule::TenthOfAll, UpdateRule::TenthOfEach] {
                let seeks = Seeks::new(tickets, seekers, rule, chunks, seed);
                let mut seen = vec![0; tickets as usize];
                let mut written = vec![false; chunks as usize];
                let mut updates = 0;
                for rank in 0..u64::from(seekers) {
                    let own_tickets: Vec<u64> = (0..).map_while(|round| seeks.ticket_of(rank, round)).collect();
                    prop_assert!(own_tickets.len() as u64 >= tickets / u64::from(seekers));
                    for (own_index, ticket) in own_tickets.into_iter().enumerate() {
                        seen[ticket as usize] += 1;
                        let chunk = seeks.chunk(ticket);
                        prop_assert!(chunk < chunks);
                        let is_update = match rule {
                            UpdateRule::TenthOfAll => ticket % 10 == 0,
                            UpdateRule::TenthOfEach => own_index % 10 == 0,
                        };
                        prop_assert_eq!(seeks.update_index(ticket).is_some(), is_update);
                        written[chunk as usize] |= is_update;
                        updates += u64::from(is_update);
                    }
                }
                prop_assert!(seen.iter().all(|count| *count == 1));
                prop_assert_eq!(seeks.updates(), updates);
                for (chunk, written) in (0..).zip(written) {
                    prop_assert_eq!(seeks.is_updated(chunk), written, "{}", chunk);
                }
            }
        }
    }

    #[test]
    fn every_seeker_has_an_equal_part_of_the_updates() {
        // Without rotation, the first of five seekers would get every tenth ticket.
        let seeks = Seeks::new(8192, 5, UpdateRule::TenthOfAll, 38_400, 1);
        let updates: Vec<usize> = (0..5)
            .map(|rank| {
                let own_tickets = (0..).map_while(|round| seeks.ticket_of(rank, round));
                own_tickets.filter(|ticket| seeks.update_index(*ticket).is_some()).count()
            })
            .collect();
        assert_eq!(updates, [164, 164, 164, 164, 164]);
    }

    #[test]
    fn each_writer_gives_a_block_different_contents() {
        let seeks = Seeks::new(10, 1, UpdateRule::TenthOfAll, 4, 1);
        let file = BigFile {
            name: b"big",
            size: 4 * 8192,
            chunk: 8192,
            zeros: false,
            end_sync: false,
            seeks,
        };
        let contents = crate::Contents::new(1);
        let writers = [Writer::Char, Writer::Block, Writer::Rewrite, Writer::Seeker];
        let mut blocks: Vec<&[u8]> =
            writers.iter().map(|writer| contents.slice(file.payload(*writer, 0, 4096))).collect();
        blocks.sort_unstable();
        blocks.dedup();
        assert_eq!(blocks.len(), 4);
    }
}
