//! maildir: deliver and read mail in maildirs, as the script of 2004 did or as mail programs do.

use std::sync::OnceLock;

use fsdyno_record::seed::{SplitMix64, mix, stream};
use fsdyno_record::{Bytes, Nanos};

use crate::input::Setting;
use crate::mail::contradictions::check;
use crate::mail::job::{Job, Location, Runner, Split, Step, Sums, repeats};
use crate::mail::layout::MailLayout;
use crate::mail::names::LONGEST;
use crate::mail::protocol::{
    LIST_READ_STORE, LIST_WRITE_STORE, MAKE_MAILDIR, Protocol, READ_MESSAGE, RETRIEVE,
    RETRIEVE_AND_DELETE,
};
use crate::mail::reading::read_jobs;
use crate::mail::store::{GAP, SIZE, SOURCE, gap, messages, unpack};
use crate::mail::tree::{MailTree, Mailboxes};
use crate::numbered::Numbered;
use crate::op::After;
use crate::params::{Domain, Param, ParamError, Values};
use crate::workload::{
    GapKind, Needs, NoOps, OpCounts, OpSource, PhaseSpec, Share, Threads, Tree, WorkUnits, Workload,
};
use crate::workloads::Kind;
use crate::workloads::maildir_read::COMPUTE;

/// The row of the table.
pub const KIND: Kind = Kind {
    name: "maildir",
    about: "Write and read random messages in maildirs: the script of 2004, or deliveries by the \
            protocols of mail programs while a reader retrieves them.",
    source: "Maildir benchmark of file systems for qmail, thesmbexchange.com, 2004",
    params: PARAMS,
    doc: DOC,
    config: None,
    build: |values, setting| Ok(Box::new(Maildir::new(values, setting)?)),
};

/// The description of the model, shown by `fsdyno show workload`.
const DOC: &str = "\
The maildir benchmark of 2004: 10,000 ops on 100 maildirs, four of five of them writes. Its perl \
scripts are lost; this is a model of their output [DER].

Phase `unpack` makes write_src (77,133 messages in one directory) and read_src (1,177) with the calls \
of GNU tar as root [RUN, see workload tarball]; the original's unpacking was timed too [PUB]. Each \
directory comes before its messages, and these by number [OWN]. Omitted: GNU tar makes a directory \
0700, and gives it time, owner and mode 0755 when it is complete; here it is made 0755.

Phase `setup` makes the maildirs, each a directory with tmp, new and cur. `fill` copies that many \
messages of read_src into each. The original's set-up took 64 to 202 s for 100 units [PUB], far more \
than directories take; fill=1177 would fit [DER]; the default is 0 [OWN].

Phase `mixed` draws for each op independently whether it writes (probability 0.80: eight published runs \
had 8,006 of 10,000 on average, all within 2.1 standard deviations), the message and the maildir, \
evenly; so the number of writes differs from seed to seed as it did. A write lists write_src \
(list-source=each: system time of 7 to 99 ms a write and user time of 43 to 50 ms are those of a \
readdir of 77,133 entries for each [DER]), opens a message of write_src, calls fstat as perl \
does [RUN], reads it in calls of 4,096 bytes (perl 5.8's buffer [MEM]) until one returns nothing, closes \
it, and delivers it by `protocol`. A read does the same with a message of read_src (or it was a \
maildir: the original's output does not show) and delivers nothing. perl reads and writes by turns \
[RUN], here the reads come first [OWN]. read_src is listed once, when the phase begins [DER].

Phase `read`, if `reads-after` is not 0, is the script of workload maildir-read after a fresh mount, \
on write_src. The original's maildirs existed already in five of its seven reading runs [PUB].

Protocols: copy is the script: open in `new`, fstat, a write(2) for every line (printflush [RUN]) or \
for 4,096 bytes, close, no fsync. qmail [SRC]: enter the maildir (an open and a close stand for \
chdir), stat of tmp/<time>.<pid>.<host> that fails, open O_EXCL, two lines of its own and the message \
in writes of 1,024 bytes, fsync, close, link to new, unlink. postfix [SRC of a derivative; buffer \
MEM]: open O_EXCL, fstat, write, fsync, close, link, unlink; the inode in its name is a number of \
ours. fsbench [PUB]: write, fsync, close, rename to new, fsync of new. dovecot [MEM]: write, fsync \
(optimized, always), close, rename to new under a name with sizes, fsync of new (always). A name \
that is already taken, and its retry, do not occur.

With `deliverers` there is no script: phase `deliver-N` has N threads that deliver `ops` \
messages by turns (from memory, as from a socket) and one that retrieves each when its delivery is \
complete: it lists new, renames the message to cur/...:2,S, opens, reads and closes it, and with \
retrieve=delete unlinks it. Guenter's fsbench had one deliverer and one retrieval simulator, then 2, \
4, 8 and 16, with sync between [PUB]: deliverers=sweep. How his simulator searched for mail is not \
published; one listing for each message is [OWN].

Messages: sizes and line lengths are a mix of our own [OWN], the same under every seed; contents are \
bytes by rule, so lines are cut by rule and contain no newline. With source=DIR they are real mail; \
then the two lines that qmail adds are the last bytes of the archive's header before the message. \
Files are found again by their names; nothing is stored for a message. With gap=none a \
phase is still synced for its times, flushed and verified (from the caches) before the next begins, as \
`setup` always is; with gap=back-to-back one follows the other at once, and only the last is verified. getdents64(2) calls are not \
counted: the file system decides how many a directory takes.";

const PARAMS: &[Param] = &[
    Param {
        name: "ops",
        default: "10000",
        domain: Domain::Whole { min: 1, max: 10_000_000 },
        about: "Number of ops, writes and reads together; with deliverers the deliveries of a phase.",
        source: "[PUB]",
    },
    Param {
        name: "writes",
        default: "80",
        domain: Domain::Whole { min: 0, max: 100 },
        about: "Average percentage of ops that write.",
        source: "[DER] 80.06 in eight published runs",
    },
    Param {
        name: "maildirs",
        default: "100",
        domain: Domain::Whole { min: 1, max: 10_000 },
        about: "Number of maildirs.",
        source: "[DER] 10,100 units of work with set-up, 10,000 without",
    },
    Param {
        name: "store",
        default: "77133",
        domain: Domain::Whole { min: 1, max: 10_000_000 },
        about: "Number of messages in the directory that is written from.",
        source: "[PUB]",
    },
    Param {
        name: "read-store",
        default: "1177",
        domain: Domain::Whole { min: 1, max: 10_000_000 },
        about: "Number of messages in the directory that is read.",
        source: "[PUB]",
    },
    Param {
        name: "fill",
        default: "0",
        domain: Domain::Whole { min: 0, max: 100_000 },
        about: "Number of messages of the read store that set-up copies into each maildir.",
        source: "[OWN] not published; 1177 fits the published set-up times [DER]",
    },
    Param {
        name: "protocol",
        default: "copy",
        domain: Domain::Choice(&["copy", "qmail", "postfix", "dovecot", "fsbench"]),
        about: "The calls that deliver a message into a maildir; copy is the script, without fsync.",
        source: "[DER] copy; the others are those of mail programs, see above",
    },
    Param {
        name: "mail-fsync",
        default: "optimized",
        domain: Domain::Choice(&["never", "optimized", "always"]),
        about: "Fsyncs of protocol=dovecot: none, the file, the file and its directory.",
        source: "[MEM] Dovecot's setting mail_fsync",
    },
    Param {
        name: "flush",
        default: "auto",
        domain: Domain::Choice(&["auto", "line", "none"]),
        about: "Write every line by a write(2) of its own, or fill a buffer; auto is line for \
                copy and none for the others.",
        source: "[PUB] line on the single disk, none on the RAID",
    },
    Param {
        name: "list-source",
        default: "auto",
        domain: Domain::Choice(&["auto", "each", "once", "none"]),
        about: "List the directory that is written from before each write, once, or \
                never; auto is each, and none with deliverers.",
        source: "[DER] each, from the published system time",
    },
    Param {
        name: "think",
        default: "off",
        domain: Domain::Choice(&["off", "original"]),
        about: "Computing time of the script itself: original is 46 ms before each write, 0.15 ms before \
                each read.",
        source: "[DER] 344 to 403 s of user time for about 8,000 writes",
    },
    Param {
        name: "deliverers",
        default: "0",
        domain: Domain::Choice(&["0", "1", "2", "4", "8", "16", "sweep"]),
        about: "Number of threads that deliver while one retrieves; 0 is the script, sweep is a \
                phase for each number.",
        source: "[PUB] fsbench: 1, then 2, 4, 8, 16",
    },
    Param {
        name: "reads-after",
        default: "0",
        domain: Domain::Whole { min: 0, max: 10_000_000 },
        about: "Number of random messages of the directory that is written from to read at the end, \
                after a fresh mount: the script of workload maildir-read on that directory.",
        source: "[PUB] 10,000, on file systems whose maildirs had been made before",
    },
    Param {
        name: "retrieve",
        default: "read",
        domain: Domain::Choice(&["read", "delete"]),
        about: "Keep or delete retrieved messages.",
        source: "[OWN] not published",
    },
    GAP,
    SIZE,
    SOURCE,
];

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
    /// This many deliverers; the messages are numbered from `first`.
    Deliver {
        deliverers: u64,
        first: u64,
    },
}

/// Frequency of listing the directory that is written from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listing {
    Each,
    Once,
    Never,
}

/// The script or the deliveries; with its parameters bound.
#[derive(Debug)]
struct Maildir {
    layout: MailLayout,
    protocol: Protocol,
    split: Split,
    phases: Vec<(&'static str, Phase)>,
    ops: u64,
    /// Percentage of the ops.
    writes: u64,
    maildirs: u64,
    /// Messages in each maildir after set-up.
    fill: u64,
    reads_after: u64,
    listing: Listing,
    /// The script's own computing for a write and for a read.
    compute: (Nanos, Nanos),
    retrieval: &'static [Step],
    gap: GapKind,
    draws: u64,
    seed: u64,
    /// By phase.
    sums: Vec<OnceLock<Sums>>,
    drawn_writes: OnceLock<u64>,
}

impl Maildir {
    fn new(values: &Values, setting: &Setting) -> Result<Maildir, ParamError> {
        check(values)?;
        let (maildirs, fill) = (values.whole("maildirs"), values.whole("fill"));
        let protocol = Protocol::named(values.text("protocol"), values.text("mail-fsync"));
        let layout = MailLayout {
            messages: messages(values, setting)?,
            write_store: values.whole("store"),
            read_store: values.whole("read-store"),
            maildirs: Numbered::for_count("maildir", maildirs),
            format: protocol.format,
        };
        let lines = match values.text("flush") {
            "auto" => protocol.name == "copy",
            flush => flush == "line",
        };
        let thinks = values.text("think") == "original";
        let phases = phases(values, maildirs * fill);
        Ok(Maildir {
            layout,
            split: if lines { Split::Lines } else { Split::Blocks(protocol.buffer) },
            protocol,
            sums: phases.iter().map(|_| OnceLock::new()).collect(),
            drawn_writes: OnceLock::new(),
            phases,
            ops: values.whole("ops"),
            writes: values.whole("writes"),
            maildirs,
            fill,
            reads_after: values.whole("reads-after"),
            listing: match values.text("list-source") {
                "none" => Listing::Never,
                "once" => Listing::Once,
                _ => Listing::Each,
            },
            compute: if thinks { (WRITE_COMPUTE, COMPUTE) } else { (Nanos(0), Nanos(0)) },
            retrieval: match values.text("retrieve") {
                "delete" => RETRIEVE_AND_DELETE,
                _ => RETRIEVE,
            },
            gap: gap(values),
            draws: stream(setting.seed, "maildir").draw(),
            seed: setting.seed,
        })
    }

    /// The delivery of a message into a maildir.
    fn delivery(&self, number: u64, message: u64, maildir: u64) -> Job {
        Job {
            number,
            message,
            maildir,
            lead: self.layout.format.lead,
            split: self.split,
            ..Job::new(self.protocol.steps)
        }
    }

    /// Number of messages that maildirs are filled with; they have the first numbers.
    fn filled(&self) -> u64 {
        self.maildirs * self.fill
    }

    /// The delivery of a number below [`Maildir::filled`].
    fn filling(&self, number: u64) -> Job {
        let message = self.layout.write_store + number % self.fill;
        self.delivery(number, message, number / self.fill)
    }

    /// The draws of one op or delivery, independent of those before it.
    fn draws(&self, number: u64) -> SplitMix64 {
        SplitMix64::new(mix(self.draws ^ number))
    }

    /// The work of the mixed phase under a number: a delivery, or reading a message of the read
    /// store.
    fn mixed(&self, number: u64) -> Job {
        let mut draws = self.draws(number);
        if draws.below(100) < self.writes {
            let message = draws.below(self.layout.write_store);
            return self.delivery(number, message, draws.below(self.maildirs));
        }
        let message = self.layout.write_store + draws.below(self.layout.read_store);
        Job { message, ..Job::new(READ_MESSAGE) }
    }

    fn is_write(&self, number: u64) -> bool {
        self.draws(number).below(100) < self.writes
    }

    /// The delivery of a deliverer under a number.
    fn delivered(&self, number: u64) -> Job {
        let mut draws = self.draws(number);
        let message = draws.below(self.layout.write_store);
        self.delivery(number, message, draws.below(self.maildirs))
    }

    /// The maildirs, each with the messages it is filled with; the script copies these from their
    /// store.
    fn setup_jobs(&self) -> impl Iterator<Item = Job> + Send + '_ {
        let copies = self.has_stores();
        (0..self.maildirs).flat_map(move |maildir| {
            let make = Job { maildir, ..Job::new(MAKE_MAILDIR) };
            let numbers = maildir * self.fill..(maildir + 1) * self.fill;
            let filling = numbers.flat_map(move |number| {
                let job = self.filling(number);
                let read = Job { message: job.message, ..Job::new(READ_MESSAGE) };
                [copies.then_some(read), Some(job)].into_iter().flatten()
            });
            std::iter::once(make).chain(filling)
        })
    }

    fn mixed_jobs(&self) -> impl Iterator<Item = Job> + Send + '_ {
        let begin = [
            (self.listing != Listing::Never).then_some(Job::new(LIST_READ_STORE)),
            (self.listing == Listing::Once).then_some(Job::new(LIST_WRITE_STORE)),
        ];
        let first = self.filled();
        let ops = (first..first + self.ops).flat_map(|number| self.mixed_op(number));
        begin.into_iter().flatten().chain(ops)
    }

    fn read_jobs(&self) -> impl Iterator<Item = Job> + Send + use<> {
        let of = (self.reads_after, self.layout.write_store);
        read_jobs(self.seed, LIST_WRITE_STORE, of, self.compute.1)
    }

    /// The jobs of one op; the script computes before the first.
    fn mixed_op(&self, number: u64) -> impl Iterator<Item = Job> + Send + use<> {
        let job = self.mixed(number);
        let writes = job.steps != READ_MESSAGE;
        let compute = if writes { self.compute.0 } else { self.compute.1 };
        let lists = writes && self.listing == Listing::Each;
        let read = Job { message: job.message, ..Job::new(READ_MESSAGE) };
        let mut jobs =
            [lists.then_some(Job::new(LIST_WRITE_STORE)), writes.then_some(read), Some(job)];
        if let Some(first) = jobs.iter_mut().flatten().next() {
            first.compute = compute;
        }
        jobs.into_iter().flatten()
    }

    /// The deliveries of one deliverer; deliverers take the messages by turns.
    fn deliverer_jobs(
        &self,
        first: u64,
        deliverers: u64,
        rank: u64,
    ) -> impl Iterator<Item = Job> + Send + '_ {
        (rank..self.ops).step_by(deliverers as usize).map(move |turn| self.delivered(first + turn))
    }

    /// Retrieves message by message, each after the last call of its delivery: the calls of each
    /// deliverer are added up in order.
    fn retriever_jobs(&self, first: u64, deliverers: u64) -> impl Iterator<Item = Job> + Send + '_ {
        let mut calls = vec![0; deliverers as usize];
        (0..self.ops).map(move |turn| {
            let job = self.delivered(first + turn);
            let thread = turn % deliverers;
            let calls = &mut calls[thread as usize];
            *calls += job.steps.iter().map(|step| repeats(&self.layout, &job, *step)).sum::<u64>();
            let after = After { thread: thread as u32, ops: *calls };
            Job { steps: self.retrieval, after, ..job }
        })
    }

    /// Totals of a phase, computed once.
    fn sums(&self, phase: usize) -> Option<&Sums> {
        let (_, which) = self.phases.get(phase)?;
        Some(self.sums.get(phase)?.get_or_init(|| self.add_up(*which)))
    }

    fn add_up(&self, phase: Phase) -> Sums {
        let layout = &self.layout;
        match phase {
            Phase::Unpack => Sums::of(layout, unpack(layout)),
            Phase::Setup => Sums::of(layout, self.setup_jobs()),
            Phase::Mixed => Sums::of(layout, self.mixed_jobs()),
            Phase::Read => Sums::of(layout, self.read_jobs()),
            Phase::Deliver { first, .. } => {
                let deliveries = self.deliverer_jobs(first, 1, 0);
                let both = |job: Job| [job, Job { steps: self.retrieval, ..job }];
                Sums::of(layout, deliveries.flat_map(both))
            }
        }
    }

    fn phase(&self, phase: usize) -> Option<Phase> {
        self.phases.get(phase).map(|(_, phase)| *phase)
    }

    /// Returns true if the phases unpack stores; deliverers have none: their messages come from
    /// elsewhere.
    fn has_stores(&self) -> bool {
        self.phases.first().is_some_and(|(_, phase)| *phase == Phase::Unpack)
    }

    fn deletes(&self) -> bool {
        self.retrieval == RETRIEVE_AND_DELETE
    }

    /// Number of the mixed phase's ops that write, computed once.
    fn writes(&self) -> u64 {
        let first = self.filled();
        let numbers = first..first + self.ops;
        let count = || numbers.filter(|number| self.is_write(*number)).count() as u64;
        *self.drawn_writes.get_or_init(count)
    }

    /// The maildirs after a phase.
    fn mailboxes(&self, phase: Phase) -> Mailboxes<'_> {
        let filled = self.filled();
        let (numbers, messages) = match phase {
            Phase::Unpack => return Mailboxes::none(),
            Phase::Setup => (filled, filled),
            Phase::Mixed | Phase::Read => (filled + self.ops, filled + self.writes()),
            Phase::Deliver { first, .. } if self.deletes() => (first + self.ops, filled),
            Phase::Deliver { first, .. } => (first + self.ops, first + self.ops),
        };
        let delivered = move |number: u64| match phase {
            _ if number < filled => Some((self.filling(number), Location::New)),
            Phase::Mixed | Phase::Read => {
                self.is_write(number).then(|| (self.mixed(number), Location::New))
            }
            _ if self.deletes() => None,
            _ => Some((self.delivered(number), Location::Seen)),
        };
        Mailboxes { maildirs: self.maildirs, numbers, messages, delivered: Box::new(delivered) }
    }
}

/// The phases that the parameters select; `filled` messages are numbered before them.
fn phases(values: &Values, filled: u64) -> Vec<(&'static str, Phase)> {
    let deliverers = values.text("deliverers");
    if deliverers == "0" {
        let reads = (values.whole("reads-after") > 0).then_some(("read", Phase::Read));
        let script = [("unpack", Phase::Unpack), ("setup", Phase::Setup), ("mixed", Phase::Mixed)];
        return script.into_iter().chain(reads).collect();
    }
    let selected = SWEEP
        .into_iter()
        .filter(|(number, _)| deliverers == "sweep" || values.whole("deliverers") == *number);
    let deliver = selected.zip(0..).map(|((deliverers, name), step)| {
        (name, Phase::Deliver { deliverers, first: filled + step * values.whole("ops") })
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

    /// Gives the script to one rank, for it is one process; in a delivery phase the last rank
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

    fn counts(&self, phase: usize, _: u32) -> OpCounts {
        self.sums(phase).map(|sums| sums.counts.clone()).unwrap_or_default()
    }

    fn work_units(&self, phase: usize) -> WorkUnits {
        let (Some(which), Some(sums)) = (self.phase(phase), self.sums(phase)) else {
            return WorkUnits::new();
        };
        match which {
            Phase::Unpack => {
                sums.work_units([("messages", self.layout.write_store + self.layout.read_store)])
            }
            Phase::Setup => {
                sums.work_units([("maildirs", self.maildirs), ("deliveries", self.filled())])
            }
            Phase::Mixed => {
                let writes = self.writes();
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
            self.phase(phase).map_or_else(Mailboxes::none, |phase| self.mailboxes(phase));
        Box::new(MailTree { layout: &self.layout, unpacked: self.has_stores(), mailboxes })
    }

    /// Counts as if nothing were deleted, for the reader's lag is not known. While a message is in
    /// tmp and in new it has two names.
    fn needs(&self) -> Needs {
        let stores = self.layout.write_store + self.layout.read_store + 2;
        let sums = (0..self.phases.len()).filter_map(|phase| self.sums(phase));
        let written: u64 = sums.map(|sums| sums.written).sum();
        let drawn = self
            .phases
            .iter()
            .filter(|(_, phase)| matches!(phase, Phase::Mixed | Phase::Deliver { .. }));
        let messages = self.filled() + drawn.count() as u64 * self.ops;
        let twice = SWEEP[SWEEP.len() - 1].0;
        Needs {
            bytes: Bytes(written),
            inodes: 4 * self.maildirs
                + messages
                + twice
                + if self.has_stores() { stores } else { 0 },
            longest_name: LONGEST,
        }
    }
}
