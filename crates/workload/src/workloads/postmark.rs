//! postmark: PostMark 1.51's pool of small files, reproduced draw by draw and call by call.

use fsdyno_record::{Bytes, OpKind};

use crate::items::Items;
use crate::op_source::{NoOps, OpSource, WorkUnits};
use crate::params::{Domain, Param, ParamError, Values};
use crate::postmark::config;
use crate::postmark::ops::{ActionOps, Directories, RunSpec, Stage};
use crate::postmark::pool::{Action, OutOfFiles, PoolSpec};
use crate::postmark::tree::Survivors;
use crate::workload::{GapKind, Needs, OpCounts, PhaseSpec, Share, Threads, Tree, Workload};
use crate::workloads::Kind;

/// This workload's entry in the table of workloads.
pub const KIND: Kind = Kind {
    name: "postmark",
    about: "Create a pool of small files, read, append to, create and delete them at random, and \
            delete the remaining ones, as PostMark does.",
    source: "J. Katcher, PostMark: a new file system benchmark, NetApp TR-3022, 1997; version 1.51",
    params: PARAMS,
    more_work: &["number", "transactions"],
    doc: DOC,
    config: Some(config::parameters),
    build: |values, _| Ok(Box::new(Postmark::new(values)?)),
};

/// The description of the model, shown by `fsdyno show workload`.
const DOC: &str = "\
The files, their sizes and the order of all operations on them are those of PostMark 1.51 with the \
same settings, drawn from the same generator (MT19937, seeded as in 1999) in the same order [SRC]; \
runs of Debian's postmark gave equal counts and bytes [RUN]. PostMark's own seed is the \
parameter `seed`; fsdyno's --seed changes nothing but the bytes in the files.

The calls are those observed with strace [RUN: Debian's build, glibc 2.36]. Buffered: openat (O_CREAT and \
O_TRUNC to create, O_CREAT and O_APPEND to append), fstat, read or write as stdio splits them with a \
buffer of 4,096 bytes, close. Unbuffered: openat (O_RDWR; O_CREAT without O_TRUNC to create, O_APPEND \
to append), then a read or write of each full block and of the remainder, even if the remainder is empty, then close. \
Files are deleted with unlink. Omitted: the lseek(2) of a buffered append, which no file \
system sees, and the dots that PostMark prints. The original never syncs. With \
gap=none each phase is still synced after its last call for timing, flushed, and verified (from the \
caches) before the next begins; gap=back-to-back is what the original did, and only the last phase is \
verified.

A configuration file of the original can be given as --set config=FILE (other settings override it): \
its `set` commands become parameters, with the values in effect at its `run`; files that it loads are \
read too. `show` and `help` do nothing here; the file that `run` names is not written (see `fsdyno \
report --format original`); a repeated `run` is ignored (use --repeat), and one with other \
settings is refused, as are shell commands and everything that PostMark answers with `Eh?` or `Error:`, except \
empty lines.

The paths of `set location` are never touched: one location is the trial's own directory, several \
are directories l0, l1 ... in it, made and removed in the phases of the subdirectories. A configuration that runs out \
of files, so that PostMark ends without a report, is refused before \
anything runs, as is transactions below 10: PostMark divides by a tenth of them [RUN: it dies of \
SIGFPE].

With contents=own each file has bytes of its own that do not compress [OWN], so that the \
verification can distinguish files. In the original all writes begin at the start of one buffer of \
printable characters [SRC]; with contents=same they begin at the start of one shared buffer, which \
does not compress either.

The configuration of linuxinsight-2006 is known [PUB] and is given with the parameters; its result was a number of \
transactions per second, and these numbers are lost.

The original's times are whole seconds; its report is printed from fsdyno's times, with each phase beginning \
at the end of the one before it and fractions cut off [DER].";

const BIAS: Domain = Domain::Or("off", &Domain::Whole { min: 0, max: 10 });
/// Valid block sizes; the maximum is the most that the engine reads in one call.
const BLOCK: Domain = Domain::Size { min: 1, max: 1 << 20 };

const PARAMS: &[Param] = &[
    Param {
        name: "size-low",
        default: "500",
        domain: Domain::Size { min: 1, max: 1 << 30 },
        about: "Minimum size of a new file.",
        source: "[SRC] set size LOW; linuxinsight-2006 has 500",
    },
    Param {
        name: "size-high",
        default: "10000",
        domain: Domain::Size { min: 1, max: 1 << 30 },
        about: "New files are smaller than this (unless it equals size-low), and none grows beyond it.",
        source: "[SRC] set size HIGH; linuxinsight-2006 has 500,000",
    },
    Param {
        name: "number",
        default: "500",
        domain: Domain::Whole { min: 1, max: 10_000_000 },
        about: "Initial number of files; there are never more than twice that number.",
        source: "[SRC] set number; linuxinsight-2006 has 5,000",
    },
    Param {
        name: "transactions",
        default: "500",
        domain: Domain::Whole { min: 1, max: 100_000_000 },
        about: "Transactions: each reads a file or appends to one, then creates one or deletes one.",
        source: "[SRC] set transactions; linuxinsight-2006 has 10,000",
    },
    Param {
        name: "seed",
        default: "42",
        domain: Domain::Whole { min: 1, max: i32::MAX as u64 },
        about: "PostMark's own seed; fsdyno's --seed does not change it, so that all repeats are the same.",
        source: "[SRC] set seed",
    },
    Param {
        name: "subdirectories",
        default: "0",
        domain: Domain::Whole { min: 0, max: 1_000_000 },
        about: "Subdirectories of each location, which share the files; 0 and 1 mean none.",
        source: "[SRC] set subdirectories",
    },
    Param {
        name: "locations",
        default: "1",
        domain: Domain::WholeNumbers { min: 1, max: 1_000_000, max_count: config::MAX_LOCATIONS },
        about: "The weight of each location; a single location is the trial's own directory, several locations are \
             directories in it.",
        source: "[SRC] set location; their directories here are [OWN]",
    },
    Param {
        name: "read",
        default: "512",
        domain: BLOCK,
        about: "Block size of reads.",
        source: "[SRC] set read; linuxinsight-2006 has 4,096",
    },
    Param {
        name: "write",
        default: "512",
        domain: BLOCK,
        about: "Block size of writes.",
        source: "[SRC] set write; linuxinsight-2006 has 4,096",
    },
    Param {
        name: "buffering",
        default: "yes",
        domain: Domain::YesNo,
        about: "Transfer blocks through stdio's buffer (yes) or by direct system calls (no).",
        source: "[SRC] set buffering",
    },
    Param {
        name: "bias-read",
        default: "5",
        domain: BIAS,
        about: "Reads per ten transactions, the others being appends; off disables both.",
        source: "[SRC] set bias read; off is PostMark's -1",
    },
    Param {
        name: "bias-create",
        default: "5",
        domain: BIAS,
        about: "Creations per ten transactions, the others being deletions; off disables both.",
        source: "[SRC] set bias create; off is PostMark's -1",
    },
    Param {
        name: "contents",
        default: "own",
        domain: Domain::Choice(&["own", "same"]),
        about: "Give each file its own contents (own), or let all files begin with the same bytes (same).",
        source: "[OWN] same is what the original does",
    },
    Param {
        name: "gap",
        default: "none",
        domain: Domain::Choice(&["none", "back-to-back", "sync", "remount"]),
        about: "The step between the phases.",
        source: "[SRC] the original does nothing between phases",
    },
    Param {
        name: "report",
        default: "verbose",
        domain: Domain::Choice(&["verbose", "terse"]),
        about: "The form of `fsdyno report --format original`.",
        source: "[SRC] set report",
    },
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    MakeDirectories,
    Files(Stage),
    RemoveDirectories,
}

/// The pool and its phases, with their parameters bound.
#[derive(Clone, Debug)]
struct Postmark {
    run: RunSpec,
    gap: GapKind,
    phases: Vec<Phase>,
    totals: Totals,
}

/// Totals that require a pass through all actions.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    create: Tally,
    transactions: Tally,
    delete: Tally,
    /// Maximum number of bytes and of files at the same time, and number of files created.
    max_bytes: u64,
    max_files: u64,
    created: u64,
}

/// Numbers of the actions of a phase, and of the calls that they make.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    created: u64,
    files_read: u64,
    appended: u64,
    deleted: u64,
    bytes_read: u64,
    bytes_written: u64,
    read_calls: u64,
    write_calls: u64,
    append_calls: u64,
}

impl Postmark {
    fn new(values: &Values) -> Result<Postmark, ParamError> {
        let run = RunSpec {
            read_block: values.number_or_zero("read") as u32,
            write_block: values.number_or_zero("write") as u32,
            buffered: values.is_yes("buffering"),
            own_content: values.text("contents") == "own",
            ..RunSpec::new(spec(values)?)
        };
        let mut phases = [Stage::Fill, Stage::Transact, Stage::Empty].map(Phase::Files).to_vec();
        if run.directory_count() > 0 {
            phases.insert(0, Phase::MakeDirectories);
            phases.push(Phase::RemoveDirectories);
        }
        let gap = GapKind::named(values.text("gap"));
        let mut work = Postmark { run, gap, phases, totals: Totals::default() };
        work.totals = work.compute_totals()?;
        Ok(work)
    }

    /// Performs all actions without generating ops: computes op counts, work units and needs, and
    /// checks that the files suffice.
    fn compute_totals(&self) -> Result<Totals, ParamError> {
        let mut pool = self.run.pool(Stage::Fill);
        let mut totals = Totals::default();
        let (mut bytes, mut files) = (0, 0);
        let mut add = |tally: &mut Tally, action| {
            self.add_to_tally(tally, action);
            match action {
                Action::Create(file) => (bytes, files) = (bytes + u64::from(file.size), files + 1),
                Action::Append(_, appended) => bytes += u64::from(appended),
                Action::Delete(file) => (bytes, files) = (bytes - u64::from(file.size), files - 1),
                Action::Read(_) => {}
            }
            totals.max_bytes = bytes.max(totals.max_bytes);
            totals.max_files = files.max(totals.max_files);
        };
        let (mut create, mut transactions, mut delete) = Default::default();
        while let Some(action) = pool.create_next() {
            add(&mut create, action);
        }
        while let Some(action) = pool.next_action().map_err(|OutOfFiles| self.out_of_files())? {
            add(&mut transactions, action);
        }
        while let Some(action) = pool.delete_next() {
            add(&mut delete, action);
        }
        let created = create.created + transactions.created;
        Ok(Totals { create, transactions, delete, created, ..totals })
    }

    fn out_of_files(&self) -> ParamError {
        ParamError::Conflict(format!(
            "transactions={} with number={} runs out of files, and then PostMark stops without a \
             report; set a higher number, fewer transactions or a higher bias-create",
            self.run.spec.transactions, self.run.spec.number
        ))
    }

    fn add_to_tally(&self, tally: &mut Tally, action: Action) {
        let calls = self.run.transfer(action).count_calls();
        match action {
            Action::Create(file) => {
                tally.created += 1;
                tally.bytes_written += u64::from(file.size);
                tally.write_calls += calls;
            }
            Action::Read(file) => {
                tally.files_read += 1;
                tally.bytes_read += u64::from(file.size);
                tally.read_calls += calls;
            }
            Action::Append(_, bytes) => {
                tally.appended += 1;
                tally.bytes_written += u64::from(bytes);
                tally.append_calls += calls;
            }
            Action::Delete(_) => tally.deleted += 1,
        }
    }
}

/// Returns the parameters of the pool, if they are valid.
fn spec(values: &Values) -> Result<PoolSpec, ParamError> {
    let whole = |key| values.number_or_zero(key) as u32;
    let bias = |key| values.number(key).map(|bias| bias as u32);
    let spec = PoolSpec {
        low: whole("size-low"),
        high: whole("size-high"),
        number: whole("number"),
        transactions: whole("transactions"),
        seed: whole("seed"),
        subdirectories: whole("subdirectories"),
        weights: values.numbers("locations").into_iter().map(|weight| weight as u32).collect(),
        bias_read: bias("bias-read"),
        bias_create: bias("bias-create"),
    };
    let PoolSpec { low, high, transactions, .. } = spec;
    if high < low {
        return Err(ParamError::Conflict(format!(
            "size-high={high} is below size-low={low}; set size-high to {low} or more"
        )));
    }
    if transactions < 10 {
        return Err(ParamError::Conflict(format!(
            "transactions={transactions} is too few: PostMark divides by a tenth of them and dies \
             of SIGFPE; set 10 or more"
        )));
    }
    match spec.excess_bits() {
        0 => Ok(spec),
        bits => Err(ParamError::Conflict(format!(
            "a file's number, directory and size take {bits} bits more than 64; lower \
             number and transactions, size-high, or subdirectories and locations"
        ))),
    }
}

impl Workload for Postmark {
    fn phases(&self) -> Vec<PhaseSpec> {
        let spec = |(index, phase): (usize, &Phase)| PhaseSpec {
            name: match phase {
                Phase::MakeDirectories => "subdirectories",
                Phase::Files(Stage::Fill) => "create",
                Phase::Files(Stage::Transact) => "transactions",
                Phase::Files(Stage::Empty) => "delete",
                Phase::RemoveDirectories => "remove-subdirectories",
            },
            gap: if index == 0 { GapKind::None } else { self.gap },
            verify: true,
            threads: Threads::One,
        };
        PhaseSpec::chained(self.phases.iter().enumerate().map(spec).collect())
    }

    /// Assigns all ops to rank 0, because PostMark is one process.
    fn ops(&self, phase: usize, share: Share) -> Box<dyn OpSource + Send + '_> {
        match self.phases.get(phase) {
            Some(Phase::MakeDirectories) if share.rank == 0 => {
                Box::new(Directories::new(&self.run, true))
            }
            Some(Phase::RemoveDirectories) if share.rank == 0 => {
                Box::new(Directories::new(&self.run, false))
            }
            Some(Phase::Files(stage)) if share.rank == 0 => {
                Box::new(ActionOps::new(&self.run, *stage))
            }
            _ => Box::new(NoOps),
        }
    }

    fn counts(&self, phase: usize, _: u32) -> OpCounts {
        let tally = match self.phases.get(phase) {
            Some(Phase::Files(Stage::Fill)) => self.totals.create,
            Some(Phase::Files(Stage::Transact)) => self.totals.transactions,
            Some(Phase::Files(Stage::Empty)) => self.totals.delete,
            Some(Phase::MakeDirectories) => {
                return OpCounts::from([(OpKind::Mkdir, self.run.directory_count())]);
            }
            Some(Phase::RemoveDirectories) => {
                return OpCounts::from([(OpKind::Rmdir, self.run.directory_count())]);
            }
            None => return OpCounts::new(),
        };
        let opened = tally.files_read + tally.appended;
        let closed = tally.created + opened;
        OpCounts::from([
            (OpKind::Create, tally.created),
            (OpKind::Open, opened),
            (OpKind::Stat, if self.run.buffered { closed } else { 0 }),
            (OpKind::Read, tally.read_calls),
            (OpKind::Write, tally.write_calls),
            (OpKind::Append, tally.append_calls),
            (OpKind::Close, closed),
            (OpKind::Unlink, tally.deleted),
        ])
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .collect()
    }

    fn stonewalled(&self) -> Option<(usize, &'static str)> {
        let transacts = |phase: &Phase| *phase == Phase::Files(Stage::Transact);
        self.phases.iter().position(transacts).map(|phase| (phase, "transactions"))
    }

    /// Keeps only the first transactions; the files suffice for these, because they suffice for all.
    fn after_stonewall(&self, max_items: u64, _: u32) -> Option<Box<dyn Workload>> {
        let mut work = self.clone();
        let spec = &mut work.run.spec;
        spec.transactions = spec.transactions.min(max_items.try_into().unwrap_or(u32::MAX));
        work.totals = work.compute_totals().ok()?;
        Some(Box::new(work))
    }

    fn items(&self, share: Share) -> Option<Box<dyn Items + Send + '_>> {
        (share.rank == 0)
            .then(|| Box::new(ActionOps::new(&self.run, Stage::Transact)) as Box<dyn Items + Send>)
    }

    fn work_units(&self, phase: usize) -> WorkUnits {
        match self.phases.get(phase) {
            Some(Phase::Files(Stage::Fill)) => {
                let Tally { created, bytes_written, .. } = self.totals.create;
                WorkUnits::from([
                    ("files created alone", created),
                    ("written bytes", bytes_written),
                ])
            }
            Some(Phase::Files(Stage::Transact)) => {
                let tally = &self.totals.transactions;
                WorkUnits::from([
                    ("transactions", u64::from(self.run.spec.transactions)),
                    ("files created mixed", tally.created),
                    ("files read", tally.files_read),
                    ("files appended", tally.appended),
                    ("files deleted mixed", tally.deleted),
                    ("read bytes", tally.bytes_read),
                    ("written bytes", tally.bytes_written),
                ])
            }
            Some(Phase::Files(Stage::Empty)) => {
                WorkUnits::from([("files deleted alone", self.totals.delete.deleted)])
            }
            _ => WorkUnits::new(),
        }
    }

    fn unit(&self, phase: usize) -> Option<&'static str> {
        let transacts = self.phases.get(phase) == Some(&Phase::Files(Stage::Transact));
        transacts.then_some("transactions")
    }

    fn tree(&self, phase: usize) -> Box<dyn Tree + '_> {
        let (stage, directories) = match self.phases.get(phase) {
            Some(Phase::Files(stage)) => (*stage, true),
            Some(Phase::MakeDirectories) => (Stage::Empty, true),
            _ => (Stage::Empty, false),
        };
        Box::new(Survivors::new(&self.run, stage, directories))
    }

    fn needs(&self) -> Needs {
        Needs {
            bytes: Bytes(self.totals.max_bytes),
            inodes: self.totals.max_files + self.run.directory_count(),
            longest_name: self.run.longest_name(self.totals.created),
        }
    }
}
