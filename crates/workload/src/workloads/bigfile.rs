//! bigfile: one file larger than memory: written sequentially, then read and written at random, then deleted.

use fsdyno_record::{Bytes, OpKind};

use crate::bigfile::layout::{Layout, NAME, RANDOM, REWRITTEN, WRITTEN};
use crate::bigfile::ops::{RandomIo, Reserve, Sweep};
use crate::contents::MAX_SLICE;
use crate::op::Payload;
use crate::op_source::{NoOps, OpSource, WorkUnits};
use crate::params::{Domain, Param, ParamError, Values};
use crate::permutation::Permutation;
use crate::unlink::Unlink;
use crate::workload::{
    Expected, ExpectedKind, GapKind, Needs, OpCounts, PhaseSpec, Prefill, Share, Threads, Tree,
    Workload,
};
use crate::workloads::Kind;

/// This workload's entry in the table of workloads.
pub const KIND: Kind = Kind {
    name: "bigfile",
    about: "Write a file larger than memory, read and write it at random, delete it.",
    source: "readers of linuxinsight, 2006: random reads and writes above 4 GB, preallocated space, \
             the time to delete 2 TB",
    params: PARAMS,
    more_work: &["size", "reads", "writes"],
    doc: DOC,
    config: None,
    build: |values, setting| Ok(Box::new(BigFile::new(values, setting.seed)?)),
};

/// The description of the model, shown by `fsdyno show workload`.
const DOC: &str = "\
In 2006, readers requested random reads and random writes (as in a database) in a file larger than \
4 GB, preallocated space, and the raw device for comparison; one reported that deleting 2 TB takes half an hour \
on ext2 [PUB]. The rest is ours [OWN].

Phases: preallocate (with preallocate=yes: open O_CREAT|O_EXCL, fallocate of the whole file, close); write \
(open, writes of `block` from the beginning to the end, close); rewrite (with rewrite=yes: the same \
once more in place, with other bytes); random-read and random-write (open, pread or pwrite of `unit` \
at whole multiples of it, close); delete (unlink). Offsets follow a permutation: none repeats until \
all have been used; a remainder after the last whole unit is not touched. With `--threads` the random \
phases are shared among threads, each with a descriptor of its own. Nothing is synced except as \
`fsync` specifies.

built=offline: the file is created before the first phase; no figure includes that time, and delete is the only \
phase. It is created by fallocate or, if the file system lacks it, by writing zeros, which the lab's disk does \
not store; a note in the record states which method was used, and how much space is in use then. Reserved extents are freed as \
written ones are, but there are fewer of them than in a file that grew slowly, and a file of zeros is laid \
out as if written at once. The returned time is then that of unlink(2). Space that is \
freed after it returns counts in the synced time, and in neither if it is freed later still.

Contents are random bytes unless `zeros` sets a percentage of each 4 KiB to zeros. Choose a size larger than the \
memory of the trial (`--ram`, `--cacheable`): the default is larger than 4 GB, and than the lab's usual \
1 GiB. Random reads of a file that fits in memory do not reach the disk.

With --fs raw the device takes the place of the file: then delete does nothing, and there is nothing to \
reserve. With gap=none a phase that writes is verified (through the caches) before the next begins.";

const PARAMS: &[Param] = &[
    Param {
        name: "size",
        default: "5368709120",
        domain: Domain::Size { min: 1, max: 16 << 40 },
        about: "Size of the file.",
        source: "[PUB] over 4 GB",
    },
    Param {
        name: "built",
        default: "timed",
        domain: Domain::Choice(&["timed", "offline"]),
        about: "Write the file in timed phases, or create it before the first phase and only delete it.",
        source: "[OWN]",
    },
    Param {
        name: "preallocate",
        default: "no",
        domain: Domain::YesNo,
        about: "Reserve space with fallocate before the file is written.",
        source: "[PUB] requested as pre-extension",
    },
    Param {
        name: "rewrite",
        default: "no",
        domain: Domain::YesNo,
        about: "Write the file once more in place.",
        source: "[OWN]",
    },
    Param {
        name: "block",
        default: "1048576",
        domain: Domain::Size { min: 512, max: MAX_SLICE as u64 },
        about: "Size of each sequential write.",
        source: "[OWN] dd bs=1M",
    },
    Param {
        name: "unit",
        default: "4096",
        domain: Domain::Size { min: 512, max: MAX_SLICE as u64 },
        about: "Size of each random read and write.",
        source: "[OWN] a page",
    },
    Param {
        name: "reads",
        default: "10000",
        domain: Domain::Whole { min: 0, max: 1_000_000_000 },
        about: "Number of random reads; 0 skips their phase.",
        source: "[OWN]",
    },
    Param {
        name: "writes",
        default: "10000",
        domain: Domain::Whole { min: 0, max: 1_000_000_000 },
        about: "Number of random writes; 0 skips their phase.",
        source: "[OWN]",
    },
    Param {
        name: "fsync",
        default: "0",
        domain: Domain::Whole { min: 0, max: 1_000_000_000 },
        about: "Number of random writes by a thread between two fsyncs; 0 means no fsync.",
        source: "[OWN]",
    },
    Param {
        name: "zeros",
        default: "0",
        domain: Domain::Whole { min: 0, max: 100 },
        about: "Percentage of each 4 KiB that is zeros: 0 cannot be compressed, 100 is zeros only.",
        source: "[OWN]",
    },
    Param {
        name: "gap",
        default: "remount",
        domain: Domain::Choice(&["none", "back-to-back", "sync", "drop", "remount"]),
        about: "The step before each phase; before the first only with built=offline.",
        source: "[OWN] so that reads come from the disk",
    },
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Preallocate,
    Write,
    Rewrite,
    RandomRead,
    RandomWrite,
    Delete,
}

impl Phase {
    fn name(self) -> &'static str {
        match self {
            Phase::Preallocate => "preallocate",
            Phase::Write => "write",
            Phase::Rewrite => "rewrite",
            Phase::RandomRead => "random-read",
            Phase::RandomWrite => "random-write",
            Phase::Delete => "delete",
        }
    }
}

/// The workload, with its parameters bound.
#[derive(Debug)]
struct BigFile {
    layout: Layout,
    zeros: u64,
    gap: GapKind,
    phases: Vec<Phase>,
}

impl BigFile {
    fn new(values: &Values, seed: u64) -> Result<BigFile, ParamError> {
        let (size, unit) = (values.number_or_zero("size"), values.number_or_zero("unit"));
        let (reads, writes) = (values.number_or_zero("reads"), values.number_or_zero("writes"));
        let prebuilt = values.text("built") == "offline";
        let (preallocate, rewrite) = (values.is_yes("preallocate"), values.is_yes("rewrite"));
        if prebuilt && (preallocate || rewrite) {
            return Err(ParamError::Conflict(
                "preallocate=yes and rewrite=yes add phases, but with built=offline the only phase is the \
                 deletion; omit them, or use built=timed"
                    .to_string(),
            ));
        }
        if !prebuilt && size < unit && (reads > 0 || writes > 0) {
            return Err(ParamError::Conflict(format!(
                "size={size} is less than unit={unit}, which leaves no offset for random reads and \
                 writes; use a larger size, or reads=0 and writes=0"
            )));
        }
        let timed = [
            (Phase::Preallocate, preallocate),
            (Phase::Write, true),
            (Phase::Rewrite, rewrite),
            (Phase::RandomRead, reads > 0),
            (Phase::RandomWrite, writes > 0),
        ];
        let phases = timed.into_iter().filter(|(_, enabled)| *enabled && !prebuilt);
        let units = size / unit;
        Ok(BigFile {
            layout: Layout {
                size,
                block: values.number_or_zero("block"),
                unit,
                reads,
                writes,
                fsync: values.number_or_zero("fsync"),
                prebuilt,
                read_order: Permutation::new(units, seed, "reads"),
                write_order: Permutation::new(units, seed, "writes"),
            },
            zeros: values.number_or_zero("zeros"),
            gap: GapKind::named(values.text("gap")),
            phases: phases.map(|(phase, _)| phase).chain([Phase::Delete]).collect(),
        })
    }
}

impl Workload for BigFile {
    fn phases(&self) -> Vec<PhaseSpec> {
        let spec = |(index, phase): (usize, &Phase)| PhaseSpec {
            name: phase.name(),
            gap: if index == 0 && !self.layout.prebuilt { GapKind::None } else { self.gap },
            verify: *phase != Phase::RandomRead,
            threads: match phase {
                Phase::RandomRead | Phase::RandomWrite => Threads::Any,
                _ => Threads::One,
            },
        };
        PhaseSpec::chained(self.phases.iter().enumerate().map(spec).collect())
    }

    fn ops(&self, phase: usize, share: Share) -> Box<dyn OpSource + Send + '_> {
        let is_first_rank = share.rank == 0;
        let layout = &self.layout;
        match self.phases.get(phase) {
            Some(Phase::Preallocate) if is_first_rank => Box::new(Reserve::new(layout)),
            Some(Phase::Write) if is_first_rank => {
                let is_new = !self.phases.contains(&Phase::Preallocate);
                Box::new(Sweep::new(layout, WRITTEN, is_new))
            }
            Some(Phase::Rewrite) if is_first_rank => Box::new(Sweep::new(layout, REWRITTEN, false)),
            Some(Phase::RandomRead) => Box::new(RandomIo::new(layout, true, share)),
            Some(Phase::RandomWrite) => Box::new(RandomIo::new(layout, false, share)),
            Some(Phase::Delete) if is_first_rank => Box::new(Unlink::new(NAME)),
            _ => Box::new(NoOps),
        }
    }

    fn counts(&self, phase: usize, ranks: u32) -> OpCounts {
        use OpKind::{Close, Create, Fallocate, Fsync, Open, Read, Unlink, Write};
        let threads = u64::from(ranks);
        let fsyncs: u64 = (0..ranks).map(|rank| self.layout.fsyncs(Share { rank, ranks })).sum();
        let mut counts = match self.phases.get(phase) {
            None => OpCounts::new(),
            Some(Phase::Preallocate) => OpCounts::from([(Create, 1), (Fallocate, 1), (Close, 1)]),
            Some(Phase::Write) => {
                let exists = self.phases.contains(&Phase::Preallocate);
                let open = if exists { Open } else { Create };
                OpCounts::from([(open, 1), (Write, self.layout.blocks()), (Close, 1)])
            }
            Some(Phase::Rewrite) => {
                OpCounts::from([(Open, 1), (Write, self.layout.blocks()), (Close, 1)])
            }
            Some(Phase::RandomRead) => {
                OpCounts::from([(Open, threads), (Read, self.layout.reads), (Close, threads)])
            }
            Some(Phase::RandomWrite) => OpCounts::from([
                (Open, threads),
                (Write, self.layout.writes),
                (Fsync, fsyncs),
                (Close, threads),
            ]),
            Some(Phase::Delete) => OpCounts::from([(Unlink, 1)]),
        };
        counts.retain(|_, count| *count > 0);
        counts
    }

    fn unused_params(&self) -> &'static [&'static str] {
        match self.layout.prebuilt {
            true => &["block", "unit", "reads", "writes", "fsync", "zeros"],
            false => &[],
        }
    }

    fn work_units(&self, phase: usize) -> WorkUnits {
        match self.phases.get(phase) {
            Some(Phase::Write | Phase::Rewrite) => WorkUnits::from([("bytes", self.layout.size)]),
            Some(Phase::RandomRead) => WorkUnits::from([
                ("reads", self.layout.reads),
                ("bytes", self.layout.reads * self.layout.unit),
            ]),
            Some(Phase::RandomWrite) => WorkUnits::from([
                ("writes", self.layout.writes),
                ("bytes", self.layout.writes * self.layout.unit),
            ]),
            _ => WorkUnits::new(),
        }
    }

    fn unit(&self, phase: usize) -> Option<&'static str> {
        match self.phases.get(phase)? {
            Phase::RandomRead => Some("reads"),
            Phase::RandomWrite => Some("writes"),
            _ => None,
        }
    }

    fn tree(&self, phase: usize) -> Box<dyn Tree + '_> {
        let mut tree =
            FileTree { workload: self, contents: FileContents::None, randomly_written: false };
        for phase in self.phases.iter().take(phase + 1) {
            match phase {
                Phase::Preallocate => tree.contents = FileContents::Zeros,
                Phase::Write => tree.contents = FileContents::Version(WRITTEN),
                Phase::Rewrite => tree.contents = FileContents::Version(REWRITTEN),
                Phase::RandomRead => {}
                Phase::RandomWrite => tree.randomly_written = true,
                Phase::Delete => tree.contents = FileContents::None,
            }
        }
        Box::new(tree)
    }

    fn needs(&self) -> Needs {
        Needs { bytes: Bytes(self.layout.size), inodes: 1, longest_name: NAME.len() }
    }

    fn stored(&self) -> Bytes {
        Bytes(if self.layout.prebuilt || self.zeros == 100 { 0 } else { self.layout.size })
    }

    fn zeros(&self) -> u64 {
        self.zeros
    }

    fn prefill(&self) -> Option<Prefill<'_>> {
        self.layout.prebuilt.then(|| Prefill {
            ops: Box::new(Reserve::new(&self.layout)),
            tree: Box::new(FileTree {
                workload: self,
                contents: FileContents::SizeOnly,
                randomly_written: false,
            }),
        })
    }
}

/// The contents of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileContents {
    /// No file.
    None,
    Zeros,
    Version(u64),
    /// Only the size is verified: reading the unwritten extents back takes hours.
    SizeOnly,
}

/// The file after a phase.
struct FileTree<'a> {
    workload: &'a BigFile,
    contents: FileContents,
    randomly_written: bool,
}

impl Tree for FileTree<'_> {
    fn lookup(&self, path: &[u8]) -> Option<Expected> {
        let size = self.workload.layout.size;
        match self.contents {
            _ if path != NAME => None,
            FileContents::None => None,
            FileContents::SizeOnly => Some(Expected::new(ExpectedKind::Sized(size))),
            FileContents::Zeros | FileContents::Version(_) => Some(Expected::pieces(size)),
        }
    }

    fn files(&self) -> u64 {
        u64::from(self.contents != FileContents::None)
    }

    fn directories(&self) -> u64 {
        0
    }

    fn piece(&self, path: &[u8], offset: u64) -> Option<Payload> {
        let layout = &self.workload.layout;
        let remaining =
            layout.size.checked_sub(offset).filter(|remaining| *remaining > 0 && path == NAME)?;
        match self.contents {
            FileContents::None | FileContents::SizeOnly => None,
            FileContents::Zeros => Some(Payload::zeros(offset, remaining.min(1 << 30) as u32)),
            FileContents::Version(_)
                if self.randomly_written && layout.is_randomly_written(offset) =>
            {
                Some(layout.payload(RANDOM, layout.unit, offset))
            }
            FileContents::Version(version) => {
                let mut piece = layout.payload(version, layout.block, offset);
                if self.randomly_written {
                    let to_next = layout.unit - offset % layout.unit;
                    piece.length = u64::from(piece.length).min(to_next) as u32;
                }
                Some(piece)
            }
        }
    }
}
