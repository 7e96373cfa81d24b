//! churn: keeps a working set in a steady state; files are created, deleted, read and written with given weights.

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
use crate::steady::population::{ACTION_NAMES, Action, Overwrite, Rules};
use crate::steady::totals::Totals;
use crate::steady::tree::LiveTree;
use crate::weights::Weights;
use crate::workload::{GapKind, Needs, OpCounts, PhaseSpec, Share, Threads, Tree, Workload};
use crate::workloads::Kind;

/// This workload's entry in the table of workloads.
pub const KIND: Kind = Kind {
    name: "churn",
    about: "Keep a working set in a steady state: create, delete, read and write files with given weights.",
    source: "our own; models the work of filebench's file servers and fio's file ops",
    params: PARAMS,
    more_work: &["ops"],
    doc: DOC,
    config: None,
    build: |values, setting| Ok(Box::new(Churn::new(values, setting.seed)?)),
};

/// The description of the workload, shown by `fsdyno show workload`.
const DOC: &str = "\
Phase `fill` creates the directories and the files in them. Phase `churn` then does `ops` operations, or as \
many as `seconds` allow, each drawn by the weights of `mix`. The workload is our own [OWN]; it reproduces no other \
program's numbers.

Operations, and their calls: create (open with O_CREAT and O_EXCL, writes, close); write (open, with \
O_TRUNC for overwrite=truncate, writes, close); append (open with O_APPEND, writes, close); read (open, \
reads until one returns nothing, close); stat, rename, link, unlink (one call each); readdir (open a \
directory, read it to its end, close). Writes and reads are of `block` bytes. `fsync` percent of creations, \
overwrites and appends call fsync before the close.

Steady state: each part (see Threads) stays within its own share of the bounds. It never has more names than its \
files + swing % rounded down (but at least one more) nor fewer than its files - swing % rounded down \
(but at least one); a name is a directory entry, so a file with two hard links counts twice. A create or \
link at the upper bound becomes an unlink, an unlink at the lower bound a create. Nor does a part \
ever contain more bytes than after fill plus its share (in proportion to its files) of the part of `space` beyond \
all that fill writes (with space=auto: twice its bytes after fill). A create beyond this limit becomes an unlink \
(at the lower bound of names, it creates a file of the remaining bytes), an append beyond it or to over 1 \
GiB becomes a write with O_TRUNC (a full log starts over), and a write beyond it makes the file no larger than \
it was. A file has at most 100 names; a link to a file with 100 names becomes a rename.

Choice of files: unlink, rename and link take any file with equal probability, by its oldest name; the new name \
may be in any directory. Accesses (write, append, read, stat) take any file and any of its names; \
with locality=hot, hot-share % of them go to the hot % of the files that come first in the table of their \
part: initially those created first; when a file is removed, the last in the table takes its place.

Paths are d01/f123.4: name number 4 (modulo 2^24) of the file created as number 123 of its part, in the \
directory that a hash of both selects.

Threads: working set and operations are divided into `parts`, each with directories and draws of its \
own; a thread serves its parts in turn, one operation each. So the work is the same for any number of \
threads, bit-identical; threads in excess of the parts have nothing to do.

Time: with `seconds` each thread stops after the operation during which the time ran out; op counts, work \
units and tree are then exactly those of the operations done. With `rate` operation k is due k / \
rate seconds after the start and is not issued earlier; the latency of its first call is measured from then.

Work units: operations by the action performed, bytes, and the live files at the end. All draws are whole \
numbers from the seed, the same on every machine; a live file takes 16 bytes of memory. link fails on file \
systems without hard links (vfat, exfat): omit it from `mix` there.";

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
        about: "Number of directories for the files, all in one parent; auto is one per 100 files, but at least 1.",
        source: "[OWN]",
    },
    Param {
        name: "mix",
        default: "create:17,write:5,append:8,read:25,stat:20,rename:3,link:2,unlink:19,readdir:1",
        domain: Domain::Weights(ACTION_NAMES),
        about: "Frequency of each operation, as weights, not percentages.",
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
        about: "Duration, instead of `ops`; 0 is no time limit.",
        source: "[OWN]",
    },
    Param {
        name: "rate",
        default: "0",
        domain: Domain::Whole { min: 0, max: 100_000_000 },
        about: "Operations per second of all threads together, each with its own due time; 0 is back to \
                back.",
        source: "[OWN]",
    },
    Param {
        name: "size",
        default: "mix",
        domain: Domain::Sizes,
        about: "Size of a file when it is created or rewritten; mix is 85 % of 1 to 4,096 \
                bytes and 15 % of up to 64 KiB, each octave equally likely.",
        source: "[DER] like tarball's: mostly one block, about 15 % larger",
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
        source: "[OWN] truncate, as most programs do when they save a file",
    },
    Param {
        name: "block",
        default: "65536",
        domain: Domain::Size { min: 512, max: 1 << 20 },
        about: "Maximum number of bytes per write or read call.",
        source: "[OWN]",
    },
    Param {
        name: "fsync",
        default: "0",
        domain: Domain::Whole { min: 0, max: 100 },
        about: "Percent of creations, overwrites and appends that call fsync before the close.",
        source: "[OWN]",
    },
    Param {
        name: "locality",
        default: "uniform",
        domain: Domain::Choice(&["uniform", "hot"]),
        about: "Access all files with equal probability, or some more often than others.",
        source: "[OWN]",
    },
    Param {
        name: "hot",
        default: "20",
        domain: Domain::Whole { min: 1, max: 99 },
        about: "Percent of the files that are hot, with locality=hot.",
        source: "[OWN] the 80/20 rule",
    },
    Param {
        name: "hot-share",
        default: "80",
        domain: Domain::Whole { min: 1, max: 100 },
        about: "Percent of the accesses that go to hot files, with locality=hot.",
        source: "[OWN] the 80/20 rule",
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
        about: "Maximum total size of all files at any time; auto is twice what fill writes.",
        source: "[OWN]",
    },
    Param {
        name: "parts",
        default: "auto",
        domain: Domain::Or("auto", &Domain::Whole { min: 1, max: 512 }),
        about: "Number of parts of the working set, and so the maximum number of busy threads; auto is \
                64, but no more than files or directories.",
        source: "[OWN]",
    },
    Param {
        name: "cache",
        default: "hot",
        domain: Domain::Choice(&["hot", "cold"]),
        about: "Cache before churn: hot only syncs; cold unmounts and mounts the file system.",
        source: "[OWN] a steady state is a warm one",
    },
];

const FILL: usize = 0;
const CHURN: usize = 1;

/// The workload, with its parameters bound.
#[derive(Debug)]
struct Churn {
    parts: Parts,
    /// Time limit of churn, or zero for no limit.
    limit: Nanos,
    gap: GapKind,
    fill_totals: OnceLock<Totals>,
    churn_totals: OnceLock<Totals>,
}

impl Churn {
    fn new(values: &Values, seed: u64) -> Result<Churn, ParamError> {
        let files = values.number_or_zero("files");
        let directories = values.number("directories").unwrap_or((files / 100).max(1));
        let seconds = values.number_or_zero("seconds");
        let mut parts = Parts {
            files,
            directories,
            count: part_count(values, files.min(directories))?,
            ops: operation_count(values.number("ops"), seconds)?,
            rate: values.number_or_zero("rate"),
            block: values.number_or_zero("block") as u32,
            variation_percent: values.number_or_zero("swing"),
            free: None,
            rules: rules(values)?,
            seed: stream(seed, "churn").draw(),
            paths: Paths::new(directories),
        };
        if let Some(space) = values.number("space") {
            let fill_bytes = parts.totals_after_fill().live_bytes();
            parts.free = Some(space.checked_sub(fill_bytes).ok_or_else(|| {
                ParamError::Conflict(format!(
                    "space={space} is less than the {fill_bytes} bytes that fill writes; use \
                     space={fill_bytes} or more, or smaller or fewer files"
                ))
            })?);
        }
        Ok(Churn {
            parts,
            limit: Nanos(seconds * 1_000_000_000),
            gap: if values.text("cache") == "hot" { GapKind::Sync } else { GapKind::Remount },
            fill_totals: OnceLock::new(),
            churn_totals: OnceLock::new(),
        })
    }

    fn fill_totals(&self) -> &Totals {
        self.fill_totals.get_or_init(|| self.parts.totals_after_fill())
    }

    /// Returns the totals of all operations; those of no operation if there is a time limit.
    fn churn_totals(&self) -> &Totals {
        self.churn_totals.get_or_init(|| self.parts.replay(&self.ops_of_single_rank()).0)
    }

    /// Returns the operation count of each rank if one rank does them all, or zero if there is a time limit.
    fn ops_of_single_rank(&self) -> [u64; 1] {
        [self.parts.ops.unwrap_or(0)]
    }

    /// Returns true if the ranks together have done all operations: then the result does not depend on
    /// which rank did which.
    fn is_complete(&self, done: &[u64]) -> bool {
        self.parts.ops == Some(done.iter().sum())
    }
}

/// Returns the number of parts, or an error if it is above `max_parts`.
fn part_count(values: &Values, max_parts: u64) -> Result<u32, ParamError> {
    let count = values.number("parts").unwrap_or(max_parts.min(64));
    if count > max_parts {
        return Err(ParamError::Conflict(format!(
            "parts={count} is too many: each part has at least one file and one directory; use \
             parts={max_parts} or fewer"
        )));
    }
    Ok(count as u32)
}

/// Returns the total number of operations, or `None` with a time limit.
fn operation_count(ops: Option<u64>, seconds: u64) -> Result<Option<u64>, ParamError> {
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
    let mix = Weights::parse(values.text("mix"), ACTION_NAMES).map_err(ParamError::Conflict)?;
    let has_weight = |action: Action| mix.weight_of(action as usize) > 0;
    let (creates, links, unlinks) =
        (has_weight(Action::Create), has_weight(Action::Link), has_weight(Action::Unlink));
    if creates != unlinks || (links && !unlinks) {
        return Err(ParamError::Conflict(format!(
            "mix={} has no steady state: creation and removal must balance; give a weight to \
             both create and unlink, or to none of create, unlink and link",
            mix.show(ACTION_NAMES)
        )));
    }
    let sizes = |key: &str| values.text(key).parse().unwrap_or(Sizes::Mix);
    for (key, default) in [("hot", "20"), ("hot-share", "80")] {
        let value = values.text(key);
        if values.text("locality") == "uniform" && value != default {
            return Err(ParamError::Conflict(format!(
                "{key}={value} has no effect with locality=uniform; use locality=hot, or omit {key}"
            )));
        }
    }
    let hot = (values.number_or_zero("hot"), values.number_or_zero("hot-share"));
    Ok(Rules {
        action_weights: mix,
        sizes: sizes("size"),
        appends: sizes("append"),
        overwrite: match values.text("overwrite") {
            "whole" => Overwrite::Whole,
            "head" => Overwrite::Head,
            _ => Overwrite::Truncate,
        },
        fsync_percent: values.number_or_zero("fsync"),
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
                let mut counts = self.fill_totals().counts();
                counts.insert(OpKind::Mkdir, self.parts.directories);
                counts
            }
            CHURN => self.churn_totals().counts(),
            _ => OpCounts::new(),
        }
    }

    fn work_units(&self, phase: usize) -> WorkUnits {
        match phase {
            FILL => self.fill_totals().work_units(),
            CHURN if self.parts.ops.is_some() => self.churn_totals().work_units(),
            _ => WorkUnits::new(),
        }
    }

    fn unit(&self, phase: usize) -> Option<&'static str> {
        (phase == CHURN).then_some("operations")
    }

    fn tree(&self, phase: usize) -> Box<dyn Tree + '_> {
        self.tree_after(phase, &self.ops_of_single_rank())
    }

    fn needs(&self) -> Needs {
        let parts = &self.parts;
        let bounds = (0..parts.count).map(|part| parts.population(part).bounds());
        let (names, bytes) = bounds.fold((0, 0), |sum, bound| (sum.0 + bound.0, sum.1 + bound.1));
        Needs {
            bytes: Bytes(bytes),
            inodes: names + parts.directories,
            longest_name: parts.paths.max_name_length(),
        }
    }

    fn limit(&self, phase: usize) -> Option<Nanos> {
        (phase == CHURN && self.limit > Nanos(0)).then_some(self.limit)
    }

    /// Returns `None` if a time limit ends the phase or if operations are due at given times. After a stonewall, the
    /// numbers of operations done determine everything else, as after a time limit.
    fn stonewalled(&self) -> Option<(usize, &'static str)> {
        (self.parts.ops.is_some() && self.parts.rate == 0).then_some((CHURN, "operations"))
    }

    fn items(&self, share: Share) -> Option<Box<dyn Items + Send + '_>> {
        Some(Box::new(Operations::new(&self.parts, share)))
    }

    fn counts_after(&self, phase: usize, done: &[u64]) -> OpCounts {
        match phase {
            CHURN if !self.is_complete(done) => self.parts.replay(done).0.counts(),
            _ => self.counts(phase, done.len() as u32),
        }
    }

    fn work_units_after(&self, phase: usize, done: &[u64]) -> WorkUnits {
        match phase {
            CHURN if !self.is_complete(done) => self.parts.replay(done).0.work_units(),
            _ => self.work_units(phase),
        }
    }

    fn tree_after(&self, phase: usize, done: &[u64]) -> Box<dyn Tree + '_> {
        let done = if phase == CHURN { done } else { &[0] };
        Box::new(LiveTree::new(&self.parts, self.parts.replay(done).1))
    }
}
