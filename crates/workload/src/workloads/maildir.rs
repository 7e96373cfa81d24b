//! maildir: deliver and read mail in maildirs, as a benchmark script of 2004 did or as mail programs do.

use std::sync::OnceLock;

use fsdyno_record::seed::{SplitMix64, mix, stream};
use fsdyno_record::{Bytes, Nanos};

use crate::input::Setting;
use crate::items::Items;
use crate::mail::contradictions::check;
use crate::mail::job::{Job, Split};
use crate::mail::layout::MailLayout;
use crate::mail::names::MAX_NAME;
use crate::mail::operations::{Jobs, Operations};
use crate::mail::params::{DOC, PARAMS};
use crate::mail::protocol::{
    LIST_READ_STORE, LIST_WRITE_STORE, MAKE_MAILDIR, Protocol, READ_MESSAGE, RETRIEVE,
    RETRIEVE_AND_DELETE,
};
use crate::mail::reading::read_jobs;
use crate::mail::runner::{Runner, Sums, call_count};
use crate::mail::step::{Location, Step};
use crate::mail::store::{gap, messages, unpack};
use crate::mail::tree::{MailTree, Mailboxes};
use crate::numbered::Numbered;
use crate::op::ProgressPoint;
use crate::op_source::{NoOps, OpSource, WorkUnits};
use crate::params::{ParamError, Values};
use crate::workload::{GapKind, Needs, OpCounts, PhaseSpec, Share, Threads, Tree, Workload};
use crate::workloads::Kind;
use crate::workloads::maildir_read::READ_COMPUTE;

/// This workload's entry in the table of workloads.
pub const KIND: Kind = Kind {
    name: "maildir",
    about: "Write and read random messages in maildirs: as a benchmark script of 2004 did, or by the \
            delivery protocols of mail programs while a reader retrieves them.",
    source: "Maildir benchmark of file systems for qmail, thesmbexchange.com, 2004",
    params: PARAMS,
    more_work: &["ops"],
    doc: DOC,
    config: None,
    build: |values, setting| Ok(Box::new(Maildir::new(values, setting)?)),
};

/// User time of the script for a write.
const WRITE_COMPUTE: Nanos = Nanos(46_000_000);

/// The phases of `deliverers=sweep`.
const SWEEP: [(u64, &str); 5] =
    [(1, "deliver-1"), (2, "deliver-2"), (4, "deliver-4"), (8, "deliver-8"), (16, "deliver-16")];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Unpack,
    Setup,
    Mixed,
    /// The script that only reads.
    Read,
    /// This number of deliverers; the messages are numbered from `first`.
    Deliver {
        deliverers: u64,
        first: u64,
    },
}

/// Frequency of listing the directory of the source messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listing {
    Each,
    Once,
    Never,
}

/// The script or the deliveries, with their parameters bound.
#[derive(Clone, Debug)]
struct Maildir {
    layout: MailLayout,
    protocol: Protocol,
    split: Split,
    phases: Vec<(&'static str, Phase)>,
    ops: u64,
    /// Percentage of the ops that write.
    write_percent: u64,
    maildirs: u64,
    /// Number of messages in each maildir after set-up.
    fill: u64,
    reads_after: u64,
    listing: Listing,
    /// The script's own compute time for a write and for a read.
    compute: (Nanos, Nanos),
    retrieval: &'static [Step],
    gap: GapKind,
    draw_seed: u64,
    seed: u64,
    /// Totals by phase.
    sums: Vec<OnceLock<Sums>>,
    drawn_writes: OnceLock<u64>,
}

impl Maildir {
    fn new(values: &Values, setting: &Setting) -> Result<Maildir, ParamError> {
        check(values)?;
        let (maildirs, fill) = (values.number_or_zero("maildirs"), values.number_or_zero("fill"));
        let protocol = Protocol::named(values.text("protocol"), values.text("mail-fsync"));
        let layout = MailLayout {
            messages: messages(values, setting)?,
            write_store: values.number_or_zero("store"),
            read_store: values.number_or_zero("read-store"),
            maildirs: Numbered::for_count("maildir", maildirs),
            format: protocol.format,
        };
        let is_by_line = match values.text("flush") {
            "auto" => protocol.name == "copy",
            flush => flush == "line",
        };
        let has_think_time = values.text("think") == "original";
        let phases = phases(values, maildirs * fill);
        Ok(Maildir {
            layout,
            split: if is_by_line { Split::Lines } else { Split::Blocks(protocol.buffer) },
            protocol,
            sums: phases.iter().map(|_| OnceLock::new()).collect(),
            drawn_writes: OnceLock::new(),
            phases,
            ops: values.number_or_zero("ops"),
            write_percent: values.number_or_zero("writes"),
            maildirs,
            fill,
            reads_after: values.number_or_zero("reads-after"),
            listing: match values.text("list-source") {
                "none" => Listing::Never,
                "once" => Listing::Once,
                _ => Listing::Each,
            },
            compute: if has_think_time {
                (WRITE_COMPUTE, READ_COMPUTE)
            } else {
                (Nanos(0), Nanos(0))
            },
            retrieval: match values.text("retrieve") {
                "delete" => RETRIEVE_AND_DELETE,
                _ => RETRIEVE,
            },
            gap: gap(values),
            draw_seed: stream(setting.seed, "maildir").draw(),
            seed: setting.seed,
        })
    }

    /// Returns the delivery of a message into a maildir.
    fn delivery(&self, number: u64, message: u64, maildir: u64) -> Job {
        Job {
            number,
            message,
            maildir,
            prefix_length: self.layout.format.prefix_length,
            split: self.split,
            ..Job::new(self.protocol.steps)
        }
    }

    /// Returns the number of messages with which the maildirs are filled; these are numbered from 0.
    fn fill_count(&self) -> u64 {
        self.maildirs * self.fill
    }

    /// Returns the delivery with this number, which must be below [`Maildir::fill_count`].
    fn fill_delivery(&self, number: u64) -> Job {
        let message = self.layout.write_store + number % self.fill;
        self.delivery(number, message, number / self.fill)
    }

    /// Returns the draws of one op or delivery, which are independent of earlier draws.
    fn draws(&self, number: u64) -> SplitMix64 {
        SplitMix64::new(mix(self.draw_seed ^ number))
    }

    /// Returns the job of the mixed phase with this number: a delivery, or a read of a message of the
    /// read store.
    fn mixed_job(&self, number: u64) -> Job {
        let mut draws = self.draws(number);
        if draws.below(100) < self.write_percent {
            let message = draws.below(self.layout.write_store);
            return self.delivery(number, message, draws.below(self.maildirs));
        }
        let message = self.layout.write_store + draws.below(self.layout.read_store);
        Job { message, ..Job::new(READ_MESSAGE) }
    }

    fn is_write(&self, number: u64) -> bool {
        self.draws(number).below(100) < self.write_percent
    }

    /// Returns the delivery with this number in a delivery phase.
    fn random_delivery(&self, number: u64) -> Job {
        let mut draws = self.draws(number);
        let message = draws.below(self.layout.write_store);
        self.delivery(number, message, draws.below(self.maildirs))
    }

    /// Returns the jobs that create the maildirs, each with the messages that fill it; the script copies
    /// these from their store.
    fn setup_jobs(&self) -> impl Iterator<Item = Job> + Send + '_ {
        let copies = self.has_stores();
        (0..self.maildirs).flat_map(move |maildir| {
            let make_job = Job { maildir, ..Job::new(MAKE_MAILDIR) };
            let numbers = maildir * self.fill..(maildir + 1) * self.fill;
            let fill_jobs = numbers.flat_map(move |number| {
                let job = self.fill_delivery(number);
                let read = Job { message: job.message, ..Job::new(READ_MESSAGE) };
                [copies.then_some(read), Some(job)].into_iter().flatten()
            });
            std::iter::once(make_job).chain(fill_jobs)
        })
    }

    fn mixed_jobs(&self) -> Operations<impl FnMut(u64) -> Jobs + Send + '_> {
        let before = [
            (self.listing != Listing::Never).then_some(Job::new(LIST_READ_STORE)),
            (self.listing == Listing::Once).then_some(Job::new(LIST_WRITE_STORE)),
            None,
        ];
        let first = self.fill_count();
        Operations::new(before, first..first + self.ops, |number| self.mixed_op(number))
    }

    fn read_jobs(&self) -> impl Iterator<Item = Job> + Send + use<> {
        let count_and_store = (self.reads_after, self.layout.write_store);
        read_jobs(self.seed, LIST_WRITE_STORE, count_and_store, self.compute.1)
    }

    /// Returns the jobs of one op; the script computes before the first job.
    fn mixed_op(&self, number: u64) -> Jobs {
        let job = self.mixed_job(number);
        let is_write = job.steps != READ_MESSAGE;
        let compute = if is_write { self.compute.0 } else { self.compute.1 };
        let is_listing = is_write && self.listing == Listing::Each;
        let read = Job { message: job.message, ..Job::new(READ_MESSAGE) };
        let mut jobs =
            [is_listing.then_some(Job::new(LIST_WRITE_STORE)), is_write.then_some(read), Some(job)];
        if let Some(first) = jobs.iter_mut().flatten().next() {
            first.compute = compute;
        }
        jobs
    }

    /// Returns the deliveries of one deliverer; the deliverers take turns.
    fn deliverer_jobs(
        &self,
        first: u64,
        deliverers: u64,
        rank: u64,
    ) -> impl Iterator<Item = Job> + Send + '_ {
        (rank..self.ops)
            .step_by(deliverers as usize)
            .map(move |turn| self.random_delivery(first + turn))
    }

    /// Returns the retrievals message by message. Each waits for the last call of its delivery; to find that call,
    /// the calls of each deliverer are counted in order.
    fn retriever_jobs(&self, first: u64, deliverers: u64) -> impl Iterator<Item = Job> + Send + '_ {
        let mut calls = vec![0; deliverers as usize];
        (0..self.ops).map(move |turn| {
            let job = self.random_delivery(first + turn);
            let thread = turn % deliverers;
            let calls = &mut calls[thread as usize];
            *calls +=
                job.steps.iter().map(|step| call_count(&self.layout, &job, *step)).sum::<u64>();
            let after = ProgressPoint { thread: thread as u32, ops: *calls };
            Job { steps: self.retrieval, after, ..job }
        })
    }

    /// Returns the totals of a phase, which are computed once.
    fn sums(&self, phase: usize) -> Option<&Sums> {
        let (_, kind) = self.phases.get(phase)?;
        Some(self.sums.get(phase)?.get_or_init(|| self.compute_sums(*kind)))
    }

    fn compute_sums(&self, phase: Phase) -> Sums {
        let layout = &self.layout;
        match phase {
            Phase::Unpack => Sums::of_jobs(layout, unpack(layout)),
            Phase::Setup => Sums::of_jobs(layout, self.setup_jobs()),
            Phase::Mixed => Sums::of_jobs(layout, self.mixed_jobs()),
            Phase::Read => Sums::of_jobs(layout, self.read_jobs()),
            Phase::Deliver { first, .. } => {
                let deliveries = self.deliverer_jobs(first, 1, 0);
                let both = |job: Job| [job, Job { steps: self.retrieval, ..job }];
                Sums::of_jobs(layout, deliveries.flat_map(both))
            }
        }
    }

    fn phase(&self, phase: usize) -> Option<Phase> {
        self.phases.get(phase).map(|(_, phase)| *phase)
    }

    /// Returns true if the phases unpack stores; deliverers have no stores, because their messages come
    /// from memory.
    fn has_stores(&self) -> bool {
        self.phases.first().is_some_and(|(_, phase)| *phase == Phase::Unpack)
    }

    fn is_deleting(&self) -> bool {
        self.retrieval == RETRIEVE_AND_DELETE
    }

    /// Returns the number of the mixed phase's ops that write, which is computed once.
    fn write_count(&self) -> u64 {
        let first = self.fill_count();
        let numbers = first..first + self.ops;
        let count = || numbers.filter(|number| self.is_write(*number)).count() as u64;
        *self.drawn_writes.get_or_init(count)
    }

    /// Returns the maildirs after a phase.
    fn mailboxes(&self, phase: Phase) -> Mailboxes<'_> {
        let fill_count = self.fill_count();
        let (numbers, messages) = match phase {
            Phase::Unpack => return Mailboxes::empty(),
            Phase::Setup => (fill_count, fill_count),
            Phase::Mixed | Phase::Read => (fill_count + self.ops, fill_count + self.write_count()),
            Phase::Deliver { first, .. } if self.is_deleting() => (first + self.ops, fill_count),
            Phase::Deliver { first, .. } => (first + self.ops, first + self.ops),
        };
        let delivered = move |number: u64| match phase {
            _ if number < fill_count => Some((self.fill_delivery(number), Location::New)),
            Phase::Mixed | Phase::Read => {
                self.is_write(number).then(|| (self.mixed_job(number), Location::New))
            }
            _ if self.is_deleting() => None,
            _ => Some((self.random_delivery(number), Location::Seen)),
        };
        Mailboxes { maildirs: self.maildirs, numbers, messages, delivered: Box::new(delivered) }
    }
}

/// Returns the phases that the parameters select; the messages of set-up have the first `fill_count` numbers.
fn phases(values: &Values, fill_count: u64) -> Vec<(&'static str, Phase)> {
    let deliverers = values.text("deliverers");
    if deliverers == "0" {
        let reads = (values.number_or_zero("reads-after") > 0).then_some(("read", Phase::Read));
        let script = [("unpack", Phase::Unpack), ("setup", Phase::Setup), ("mixed", Phase::Mixed)];
        return script.into_iter().chain(reads).collect();
    }
    let selected = SWEEP.into_iter().filter(|(number, _)| {
        deliverers == "sweep" || values.number_or_zero("deliverers") == *number
    });
    let deliver = selected.zip(0..).map(|((deliverers, name), step)| {
        (
            name,
            Phase::Deliver { deliverers, first: fill_count + step * values.number_or_zero("ops") },
        )
    });
    std::iter::once(("setup", Phase::Setup)).chain(deliver).collect()
}

impl Workload for Maildir {
    fn phases(&self) -> Vec<PhaseSpec> {
        let spec = |(name, phase): &(&'static str, Phase)| {
            let (gap, threads) = match phase {
                Phase::Setup if self.has_stores() => (self.gap, Threads::One),
                Phase::Deliver { deliverers, .. } => {
                    (GapKind::Sync, Threads::Exactly(*deliverers as u32 + 1))
                }
                Phase::Mixed if self.gap == GapKind::BackToBack => (self.gap, Threads::One),
                Phase::Read => (GapKind::Remount, Threads::One),
                _ => (GapKind::None, Threads::One),
            };
            PhaseSpec { name, gap, verify: *phase != Phase::Read, threads }
        };
        PhaseSpec::chained(self.phases.iter().map(spec).collect())
    }

    /// Assigns the script to rank 0, because it is one process; in a delivery phase, the last rank
    /// retrieves.
    fn ops(&self, phase: usize, share: Share) -> Box<dyn OpSource + Send + '_> {
        let (layout, rank) = (&self.layout, u64::from(share.rank));
        match self.phase(phase) {
            Some(Phase::Unpack) if rank == 0 => Box::new(Runner::new(layout, unpack(layout))),
            Some(Phase::Setup) if rank == 0 => Box::new(Runner::new(layout, self.setup_jobs())),
            Some(Phase::Mixed) if rank == 0 => Box::new(Runner::new(layout, self.mixed_jobs())),
            Some(Phase::Read) if rank == 0 => Box::new(Runner::new(layout, self.read_jobs())),
            Some(Phase::Deliver { deliverers, first }) if rank < deliverers => {
                Box::new(Runner::new(layout, self.deliverer_jobs(first, deliverers, rank)))
            }
            Some(Phase::Deliver { deliverers, first }) if rank == deliverers => {
                Box::new(Runner::new(layout, self.retriever_jobs(first, deliverers)))
            }
            _ => Box::new(NoOps),
        }
    }

    /// Returns the script's mixed phase, if any. Delivery phases cannot end early: the retriever awaits each message.
    fn stonewalled(&self) -> Option<(usize, &'static str)> {
        let mixed = self.phases.iter().position(|(_, phase)| *phase == Phase::Mixed);
        mixed.map(|phase| (phase, "operations"))
    }

    fn after_stonewall(&self, max_items: u64, _: u32) -> Option<Box<dyn Workload>> {
        let mut work = self.clone();
        work.ops = work.ops.min(max_items);
        work.sums = work.phases.iter().map(|_| OnceLock::new()).collect();
        work.drawn_writes = OnceLock::new();
        Some(Box::new(work))
    }

    fn items(&self, share: Share) -> Option<Box<dyn Items + Send + '_>> {
        (share.rank == 0).then(|| {
            Box::new(Runner::new(&self.layout, self.mixed_jobs())) as Box<dyn Items + Send>
        })
    }

    fn counts(&self, phase: usize, _: u32) -> OpCounts {
        self.sums(phase).map(|sums| sums.counts.clone()).unwrap_or_default()
    }

    fn work_units(&self, phase: usize) -> WorkUnits {
        let (Some(kind), Some(sums)) = (self.phase(phase), self.sums(phase)) else {
            return WorkUnits::new();
        };
        match kind {
            Phase::Unpack => {
                sums.work_units([("messages", self.layout.write_store + self.layout.read_store)])
            }
            Phase::Setup => {
                sums.work_units([("maildirs", self.maildirs), ("deliveries", self.fill_count())])
            }
            Phase::Mixed => {
                let writes = self.write_count();
                let reads = self.ops - writes;
                sums.work_units([("operations", self.ops), ("writes", writes), ("reads", reads)])
            }
            Phase::Read => sums.work_units([("reads", self.reads_after)]),
            Phase::Deliver { .. } => {
                sums.work_units([("deliveries", self.ops), ("retrievals", self.ops)])
            }
        }
    }

    fn unit(&self, phase: usize) -> Option<&'static str> {
        match self.phase(phase)? {
            Phase::Unpack => Some("messages"),
            Phase::Setup => Some("maildirs"),
            Phase::Mixed => Some("operations"),
            Phase::Read => Some("reads"),
            Phase::Deliver { .. } => Some("deliveries"),
        }
    }

    fn tree(&self, phase: usize) -> Box<dyn Tree + '_> {
        let mailboxes =
            self.phase(phase).map_or_else(Mailboxes::empty, |phase| self.mailboxes(phase));
        Box::new(MailTree { layout: &self.layout, unpacked: self.has_stores(), mailboxes })
    }

    /// Counts as if nothing were deleted, because the lag of the retriever is not known. While a message
    /// is in both tmp and new, it has two names.
    fn needs(&self) -> Needs {
        let store_inodes = self.layout.write_store + self.layout.read_store + 2;
        let sums = (0..self.phases.len()).filter_map(|phase| self.sums(phase));
        let written: u64 = sums.map(|sums| sums.written).sum();
        let drawn_phases = self
            .phases
            .iter()
            .filter(|(_, phase)| matches!(phase, Phase::Mixed | Phase::Deliver { .. }));
        let messages = self.fill_count() + drawn_phases.count() as u64 * self.ops;
        let max_deliverers = SWEEP[SWEEP.len() - 1].0;
        Needs {
            bytes: Bytes(written),
            inodes: 4 * self.maildirs
                + messages
                + max_deliverers
                + if self.has_stores() { store_inodes } else { 0 },
            longest_name: MAX_NAME,
        }
    }
}
