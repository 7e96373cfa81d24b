//! churn: a working set in a steady state, files created, deleted, read and written by weights.

use std::sync::OnceLock;

use fsdyno_record::seed::stream;
use fsdyno_record::{Bytes, Nanos, OpKind};

use crate::items::Items;
use crate::op_source::{NoOps, OpSource, WorkUnits};
use crate::params::{Domain, Param, ParamError, Values};
use crate::sizes::Sizes;
use crate::steady::calls::{Fill, Operations};
use crate::steady::parts::Parts;
use crate::steady::paths::Paths;
use crate::steady::population::{Action, Overwrite, Rules, WORDS};
use crate::steady::totals::Totals;
use crate::steady::tree::LiveTree;
use crate::weights::Weights;
use crate::workload::{GapKind, Needs, OpCounts, PhaseSpec, Share, Threads, Tree, Workload};
use crate::workloads::Kind;

/// This workload's entry in the table of workloads.
pub const KIND: Kind = Kind {
    name: "churn",
    about: "Keep a working set in a steady state: create, delete, read and write files by weights.",
    source: "our own; models the work of filebench's file servers and fio's file ops",
    params: PARAMS,
    doc: DOC,
    config: None,
    build: |values, setting| Ok(Box::new(Churn::new(values, setting.seed)?)),
};

/// The description of the model, shown by `fsdyno show workload`.
const DOC: &str = "\
Phase `fill` makes `directories` and in them `files`. Phase `churn` then does `ops` operations, or as \
many as `seconds` allow, each drawn by the weights of `mix`. All of it is ours [OWN]; it reproduces no other \
program's numbers.

Operations, and their calls: create (open with O_CREAT and O_EXCL, writes, close); write (open, with \
O_TRUNC for overwrite=truncate, writes, close); append (open with O_APPEND, writes, close); read (open, \
reads until one returns nothing, close); stat, rename, link, unlink (one call each); readdir (open a \
directory, read it to its end, close). Writes and reads are of `block` bytes. Of creations, overwrites \
and appends `fsync` percent are followed by fsync before the close.

Steady: each part (see Threads) keeps its own share of the bounds. It never has more names than its \
files + swing % rounded down (one more at least) nor fewer than its files - swing % rounded down \
(one at least); a name is a directory entry, so a file with two hard links counts twice. A create or \
link at the upper bound is an unlink instead, an unlink at the lower one a create. Nor does it \
ever have more bytes than it had when filled plus its share, by files, of the space that `space` leaves beyond \
all that fill writes (with space=auto twice what it had): a create beyond it is an unlink instead \
(at the lower bound of names: a file of the bytes that are left), an append beyond it or beyond 1 \
GiB a write with O_TRUNC (a log that is full), and a write that would exceed it is no larger than \
the file was. A file has at most 100 names; a link to such a file is a rename instead.

Choice of files: unlink, rename and link take any file, each as likely, by its oldest name; the new name \
may be in any directory. Accesses (write, append, read, stat) take any file and any of its names; \
with locality=hot, hot-share % of them go to the hot % of the files, the first in the table of their \
part: at first those created first; when a file is removed, the last in the table takes its place.

Paths are d01/f123.4: name number 4 (modulo 2^24) of the file created as number 123 of its part, in the \
directory that a hash of both selects.

Threads: working set and operations are divided into `parts`, each with directories and draws of its \
own; a thread serves its parts in turn, one operation each. So the work is the same for any number of \
threads, to the last byte; more threads than parts have nothing to do.

Time: with `seconds` each thread ends at the end of the operation in which the time was up; op counts, work \
units and tree are then exactly those of the operations done. With `rate` operation k is due k / \
rate seconds after the start and issued no sooner; its first latency is counted from when it was due.

Work units: every operation by its outcome, bytes, and the live files at the end. All draws are whole \
numbers from the seed, the same on every machine; 16 bytes of memory a live file. link fails on file \
systems without hard links (vfat, exfat): leave it out of `mix` there.";

const PARAMS: &[Param] = &[
    Param {
        name: "files",
        default: "10000",
        domain: Domain::Whole { min: 1, max: 100_000_000 },
        about: "Approximate number of live files, from fill on.",
        source: "[OWN] a second or so of filling",
    },
    Param {
        name: "directories",
        default: "auto",
        domain: Domain::Or("auto", &Domain::Whole { min: 1, max: 1_000_000 }),
        about: "Number of directories for them, all in one; auto is one per 100 files, but at least 1.",
        source: "[OWN]",
    },
    Param {
        name: "mix",
        default: "create:17,write:5,append:8,read:25,stat:20,rename:3,link:2,unlink:19,readdir:1",
        domain: Domain::Weights(WORDS),
        about: "How often each operation is drawn: weights, not percentages.",
        source: "[OWN] creation and removal in balance",
    },
    Param {
        name: "ops",
        default: "auto",
        domain: Domain::Or("auto", &Domain::Whole { min: 1, max: 100_000_000 }),
        about: "Number of operations; auto is 100000, or as many as `seconds` allow.",
        source: "[OWN]",
    },
    Param {
        name: "seconds",
        default: "0",
        domain: Domain::Whole { min: 0, max: 86_400 },
        about: "Duration, instead of `ops`; 0 is without limit.",
        source: "[OWN]",
    },
    Param {
        name: "rate",
        default: "0",
        domain: Domain::Whole { min: 0, max: 100_000_000 },
        about: "Operations a second of all threads together, each due at its time; 0 is back to \
                back without pause.",
        source: "[OWN]",
    },
    Param {
        name: "size",
        default: "mix",
        domain: Domain::Sizes,
        about: "Size of a file when it is created or rewritten; mix is 85 % of 1 to 4,096 \
                bytes and 15 % to 64 KiB, as likely in each octave.",
        source: "[DER] as tarball's: mostly of one block, about 15 % of more",
    },
    Param {
        name: "append",
        default: "1-4096",
        domain: Domain::Sizes,
        about: "Number of bytes that an append adds.",
        source: "[OWN]",
    },
    Param {
        name: "overwrite",
        default: "truncate",
        domain: Domain::Choice(&["truncate", "whole", "head"]),
        about: "Method of write: truncate and rewrite with another size, all of it in place, or the first \
                4 KiB in place (all of a shorter file).",
        source: "[OWN] truncate as most programs save files",
    },
    Param {
        name: "block",
        default: "65536",
        domain: Domain::Size { min: 512, max: 1 << 20 },
        about: "Most bytes of one write or read call.",
        source: "[OWN]",
    },
    Param {
        name: "fsync",
        default: "0",
        domain: Domain::Whole { min: 0, max: 100 },
        about: "Percent of creations, overwrites and appends that end in fsync.",
        source: "[OWN]",
    },
    Param {
        name: "locality",
        default: "uniform",
        domain: Domain::Choice(&["uniform", "hot"]),
        about: "Access all files alike, or some more often than others.",
        source: "[OWN]",
    },
    Param {
        name: "hot",
        default: "20",
        domain: Domain::Whole { min: 1, max: 99 },
        about: "Percent of the files that are hot, with locality=hot.",
        source: "[OWN] the rule of thumb",
    },
    Param {
        name: "hot-share",
        default: "80",
        domain: Domain::Whole { min: 1, max: 100 },
        about: "Percent of the accesses that go to hot files, with locality=hot.",
        source: "[OWN] the rule of thumb",
    },
    Param {
        name: "swing",
        default: "10",
        domain: Domain::Whole { min: 0, max: 50 },
        about: "Percentage by which the number of names may differ from `files`.",
        source: "[OWN]",
    },
    Param {
        name: "space",
        default: "auto",
        domain: Domain::Or("auto", &Domain::Size { min: 0, max: 1 << 50 }),
        about: "Most bytes of all files at once; auto is twice what fill writes.",
        source: "[OWN]",
    },
    Param {
        name: "parts",
        default: "auto",
        domain: Domain::Or("auto", &Domain::Whole { min: 1, max: 512 }),
        about: "Number of parts of the working set, and the most threads that can work; auto is \
                64, but no more than files or directories.",
        source: "[OWN]",
    },
    Param {
        name: "cache",
        default: "hot",
        domain: Domain::Choice(&["hot", "cold"]),
        about: "Only sync, or unmount and mount the file system, before churn.",
        source: "[OWN] a steady state is a warm one",
    },
];

const FILL: usize = 0;
const CHURN: usize = 1;

/// The workload, with its parameters bound.
#[derive(Debug)]
struct Churn {
    parts: Parts,
    /// Time limit of churn; zero for no limit.
    limit: Nanos,
    gap: GapKind,
    filled: OnceLock<Totals>,
    churned: OnceLock<Totals>,
}

impl Churn {
    fn new(values: &Values, seed: u64) -> Result<Churn, ParamError> {
        let files = values.number_or_zero("files");
        let directories = values.number("directories").unwrap_or((files / 100).max(1));
        let seconds = values.number_or_zero("seconds");
        let mut parts = Parts {
            files,
            directories,
            count: count(values, files.min(directories))?,
            ops: operations(values.number("ops"), seconds)?,
            rate: values.number_or_zero("rate"),
            block: values.number_or_zero("block") as u32,
            swing: values.number_or_zero("swing"),
            free: None,
            rules: rules(values)?,
            seed: stream(seed, "churn").draw(),
            paths: Paths::new(directories),
        };
        if let Some(space) = values.number("space") {
            let filled = parts.filled().live_bytes();
            parts.free = Some(space.checked_sub(filled).ok_or_else(|| {
                ParamError::Conflict(format!(
                    "space={space} is less than the {filled} bytes that fill writes; use \
                     space={filled} or more, or smaller or fewer files"
                ))
            })?);
        }
        Ok(Churn {
            parts,
            limit: Nanos(seconds * 1_000_000_000),
            gap: if values.text("cache") == "hot" { GapKind::Sync } else { GapKind::Remount },
            filled: OnceLock::new(),
            churned: OnceLock::new(),
        })
    }

    fn filled(&self) -> &Totals {
        self.filled.get_or_init(|| self.parts.filled())
    }

    /// Returns the totals of all operations; empty if there is a time limit.
    fn churned(&self) -> &Totals {
        self.churned.get_or_init(|| self.parts.replay(&self.all()).0)
    }

    /// Returns the number of operations if there is no time limit, as done by one rank.
    fn all(&self) -> [u64; 1] {
        [self.parts.ops.unwrap_or(0)]
    }

    /// Returns true if the ranks together have done all operations: then the result does not depend on
    /// which rank did which.
    fn is_all(&self, done: &[u64]) -> bool {
        self.parts.ops == Some(done.iter().sum())
    }
}

/// Returns the number of parts, at most `most`.
fn count(values: &Values, most: u64) -> Result<u32, ParamError> {
    let count = values.number("parts").unwrap_or(most.min(64));
    if count > most {
        return Err(ParamError::Conflict(format!(
            "parts={count} is too many: each part has at least one file and one directory; use \
             parts={most} or fewer"
        )));
    }
    Ok(count as u32)
}

/// Returns the total number of operations; none with a time limit.
fn operations(ops: Option<u64>, seconds: u64) -> Result<Option<u64>, ParamError> {
    match (ops, seconds) {
        (ops, 0) => Ok(Some(ops.unwrap_or(100_000))),
        (None, _) => Ok(None),
        (Some(ops), _) => Err(ParamError::Conflict(format!(
            "ops={ops} and seconds={seconds} both determine when churn ends; set one of them"
        ))),
    }
}

/// Returns the rules of all parts.
fn rules(values: &Values) -> Result<Rules, ParamError> {
    let mix = Weights::parse(values.text("mix"), WORDS).map_err(ParamError::Conflict)?;
    let of = |action: Action| mix.of(action as usize) > 0;
    let (creates, links, unlinks) = (of(Action::Create), of(Action::Link), of(Action::Unlink));
    if creates != unlinks || (links && !unlinks) {
        return Err(ParamError::Conflict(format!(
            "mix={} has no steady state: creation and removal must balance; give a weight to \
             both create and unlink, or to neither of them nor link",
            mix.show(WORDS)
        )));
    }
    let sizes = |key: &str| values.text(key).parse().unwrap_or(Sizes::Mix);
    for (key, default) in [("hot", "20"), ("hot-share", "80")] {
        let value = values.text(key);
        if values.text("locality") == "uniform" && value != default {
            return Err(ParamError::Conflict(format!(
                "{key}={value} has no effect with locality=uniform; use locality=hot, or leave it out"
            )));
        }
    }
    let hot = (values.number_or_zero("hot"), values.number_or_zero("hot-share"));
    Ok(Rules {
        mix,
        sizes: sizes("size"),
        appends: sizes("append"),
        overwrite: match values.text("overwrite") {
            "whole" => Overwrite::Whole,
            "head" => Overwrite::Head,
            _ => Overwrite::Truncate,
        },
        fsync: values.number_or_zero("fsync"),
        hot: (values.text("locality") == "hot").then_some(hot),
    })
}

impl Workload for Churn {
    fn phases(&self) -> Vec<PhaseSpec> {
        let spec = |name, gap| PhaseSpec { name, gap, verify: true, threads: Threads::Any };
        vec![spec("fill", GapKind::None), spec("churn", self.gap)]
    }

    fn ops(&self, phase: usize, share: Share) -> Box<dyn OpSource + Send + '_> {
        match phase {
            FILL => Box::new(Fill::new(&self.parts, share)),
            CHURN => Box::new(Operations::new(&self.parts, share)),
            _ => Box::new(NoOps),
        }
    }

    fn counts(&self, phase: usize, _: u32) -> OpCounts {
        match phase {
            FILL => {
                let mut counts = self.filled().counts();
                counts.insert(OpKind::Mkdir, self.parts.directories);
                counts
            }
            CHURN => self.churned().counts(),
            _ => OpCounts::new(),
        }
    }

    fn work_units(&self, phase: usize) -> WorkUnits {
        match phase {
            FILL => self.filled().work_units(),
            CHURN if self.parts.ops.is_some() => self.churned().work_units(),
            _ => WorkUnits::new(),
        }
    }

    fn unit(&self, phase: usize) -> Option<&'static str> {
        (phase == CHURN).then_some("operations")
    }

    fn tree(&self, phase: usize) -> Box<dyn Tree + '_> {
        self.tree_after(phase, &self.all())
    }

    fn needs(&self) -> Needs {
        let parts = &self.parts;
        let bounds = (0..parts.count).map(|part| parts.population(part).bounds());
        let (names, bytes) = bounds.fold((0, 0), |sum, bound| (sum.0 + bound.0, sum.1 + bound.1));
        Needs {
            bytes: Bytes(bytes),
            inodes: names + parts.directories,
            longest_name: parts.paths.longest(),
        }
    }

    fn limit(&self, phase: usize) -> Option<Nanos> {
        (phase == CHURN && self.limit > Nanos(0)).then_some(self.limit)
    }

    /// Returns none if a time limit ends the phase or if operations are due at given times. After a stonewall, the
    /// numbers of operations done determine everything else, as after a time limit.
    fn stonewalled(&self) -> Option<(usize, &'static str)> {
        (self.parts.ops.is_some() && self.parts.rate == 0).then_some((CHURN, "operations"))
    }

    fn items(&self, share: Share) -> Option<Box<dyn Items + Send + '_>> {
        Some(Box::new(Operations::new(&self.parts, share)))
    }

    fn counts_after(&self, phase: usize, done: &[u64]) -> OpCounts {
        match phase {
            CHURN if !self.is_all(done) => self.parts.replay(done).0.counts(),
            _ => self.counts(phase, done.len() as u32),
        }
    }

    fn work_units_after(&self, phase: usize, done: &[u64]) -> WorkUnits {
        match phase {
            CHURN if !self.is_all(done) => self.parts.replay(done).0.work_units(),
            _ => self.work_units(phase),
        }
    }

    fn tree_after(&self, phase: usize, done: &[u64]) -> Box<dyn Tree + '_> {
        let done = if phase == CHURN { done } else { &[0] };
        Box::new(LiveTree::new(&self.parts, self.parts.replay(done).1))
    }
}
