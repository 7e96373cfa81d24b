//! maildir-read: read random messages in a directory, as the random-read script of 2004 did.

use std::sync::OnceLock;

use fsdyno_record::{Bytes, Nanos};

use crate::input::Setting;
use crate::mail::job::Job;
use crate::mail::layout::MailLayout;
use crate::mail::names::MAX_NAME;
use crate::mail::protocol::{COPY, LIST_READ_STORE};
use crate::mail::reading::read_jobs;
use crate::mail::runner::{Runner, Sums};
use crate::mail::store::{GAP, SIZE, SOURCE, gap, messages, unpack};
use crate::mail::tree::{MailTree, Mailboxes};
use crate::numbered::Numbered;
use crate::op_source::{NoOps, OpSource, WorkUnits};
use crate::params::{Domain, Param, ParamError, Values};
use crate::workload::{GapKind, Needs, OpCounts, PhaseSpec, Share, Threads, Tree, Workload};
use crate::workloads::Kind;

/// This workload's entry in the table of workloads.
pub const KIND: Kind = Kind {
    name: "maildir-read",
    about: "Unpack a directory of mail, then read random messages of it.",
    source: "Maildir benchmark of file systems for qmail, thesmbexchange.com, 2004",
    params: PARAMS,
    more_work: &["reads"],
    doc: DOC,
    config: None,
    build: |values, setting| Ok(Box::new(MaildirRead::new(values, setting)?)),
};

/// The description of the model, shown by `fsdyno show workload`.
const DOC: &str = "\
The random-read script of the maildir benchmark of 2004: 10,000 reads of random messages out of a \
directory of 1,177, no writes [PUB]. The script is lost; this is a model of its output [DER].

Phase `unpack` makes the directory read_src with the calls of GNU tar as root [RUN, see workload \
tarball]; the directory is the archive's first member and the messages follow by number [OWN]. \
Omitted: GNU tar makes a directory 0700, and gives it time, owner and mode 0755 when it is complete; \
here it is made 0755.

Phase `read` lists the directory once [DER: user time of 0.1 to 0.2 ms a read excludes more], \
then for each read opens a message, calls fstat as perl does [RUN], reads it in calls \
of 4,096 bytes (perl 5.8's buffer [MEM]) until one returns nothing, and closes it. Each message is drawn \
independently, evenly, so some are read often. The getdents64(2) calls of the listing are not counted: \
the file system decides their number.

Open question [DER]: the original took 74 to 140 s on the single disk, 7 to 14 ms a read. 1,177 \
messages are in memory after their first read, so either it read from more, of which read-store=77133 \
is the plausible number, or its memory was very small.

Messages: sizes and line lengths are a mix of our own [OWN], the same under every seed; contents are \
bytes by rule. With source=DIR they are real mail.";

const PARAMS: &[Param] = &[
    Param {
        name: "reads",
        default: "10000",
        domain: Domain::Whole { min: 1, max: 10_000_000 },
        about: "Number of messages to read.",
        source: "[PUB]",
    },
    Param {
        name: "read-store",
        default: "1177",
        domain: Domain::Whole { min: 1, max: 10_000_000 },
        about: "Number of messages in the directory.",
        source: "[PUB] 1,177; the published times fit more, see above [DER]",
    },
    Param { default: "remount", ..GAP },
    Param {
        name: "think",
        default: "off",
        domain: Domain::Choice(&["off", "original"]),
        about: "Computing time of the script itself: original is 0.15 ms before each read.",
        source: "[DER] 0.96 to 2.45 s of user time for 10,000 reads",
    },
    SIZE,
    SOURCE,
];

/// User time of the script for a read.
pub const READ_COMPUTE: Nanos = Nanos(150_000);

const UNPACK_PHASE: usize = 0;
const READ_PHASE: usize = 1;

/// The workload, with its parameters bound.
#[derive(Debug)]
struct MaildirRead {
    layout: MailLayout,
    reads: u64,
    gap: GapKind,
    compute: Nanos,
    seed: u64,
    /// Totals by phase.
    sums: [OnceLock<Sums>; 2],
}

impl MaildirRead {
    fn new(values: &Values, setting: &Setting) -> Result<MaildirRead, ParamError> {
        let layout = MailLayout {
            messages: messages(values, setting)?,
            write_store: 0,
            read_store: values.number_or_zero("read-store"),
            maildirs: Numbered::for_count("maildir", 1),
            format: COPY.format,
        };
        Ok(MaildirRead {
            layout,
            reads: values.number_or_zero("reads"),
            gap: gap(values),
            compute: if values.text("think") == "original" { READ_COMPUTE } else { Nanos(0) },
            seed: setting.seed,
            sums: Default::default(),
        })
    }

    fn jobs(&self) -> impl Iterator<Item = Job> + Send + use<> {
        read_jobs(self.seed, LIST_READ_STORE, (self.reads, self.layout.read_store), self.compute)
    }

    /// Returns the totals of a phase, which are computed once.
    fn sums(&self, phase: usize) -> Option<&Sums> {
        let compute_sums = || match phase {
            UNPACK_PHASE => Sums::of_jobs(&self.layout, unpack(&self.layout)),
            _ => Sums::of_jobs(&self.layout, self.jobs()),
        };
        self.sums.get(phase).map(|sums| sums.get_or_init(compute_sums))
    }
}

impl Workload for MaildirRead {
    fn phases(&self) -> Vec<PhaseSpec> {
        let phase = |name, gap, verify| PhaseSpec { name, gap, verify, threads: Threads::One };
        let phases = vec![phase("unpack", GapKind::None, true), phase("read", self.gap, false)];
        PhaseSpec::chained(phases)
    }

    fn ops(&self, phase: usize, share: Share) -> Box<dyn OpSource + Send + '_> {
        match (phase, share.rank) {
            (UNPACK_PHASE, 0) => Box::new(Runner::new(&self.layout, unpack(&self.layout))),
            (READ_PHASE, 0) => Box::new(Runner::new(&self.layout, self.jobs())),
            _ => Box::new(NoOps),
        }
    }

    fn counts(&self, phase: usize, _: u32) -> OpCounts {
        self.sums(phase).map(|sums| sums.counts.clone()).unwrap_or_default()
    }

    fn work_units(&self, phase: usize) -> WorkUnits {
        let Some(sums) = self.sums(phase) else { return WorkUnits::new() };
        match phase {
            UNPACK_PHASE => sums.work_units([("messages", self.layout.read_store)]),
            READ_PHASE => sums.work_units([("reads", self.reads)]),
            _ => WorkUnits::new(),
        }
    }

    fn unit(&self, phase: usize) -> Option<&'static str> {
        ["messages", "reads"].get(phase).copied()
    }

    fn tree(&self, _: usize) -> Box<dyn Tree + '_> {
        Box::new(MailTree { layout: &self.layout, unpacked: true, mailboxes: Mailboxes::empty() })
    }

    fn needs(&self) -> Needs {
        Needs {
            bytes: Bytes(self.sums(UNPACK_PHASE).map_or(0, |sums| sums.written)),
            inodes: self.layout.read_store + 1,
            longest_name: MAX_NAME,
        }
    }
}
