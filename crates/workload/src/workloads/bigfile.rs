//! bigfile: one file larger than memory, written, read and written at random, deleted.

use fsdyno_record::{Bytes, OpKind};

use crate::bigfile::ops::{Reserve, Seek, Sweep};
use crate::bigfile::places::{NAME, Places, REWRITTEN, SOUGHT, WRITTEN};
use crate::contents::LONGEST_SLICE;
use crate::op::Payload;
use crate::params::{Domain, Param, ParamError, Values};
use crate::permutation::Permutation;
use crate::unlink::Unlink;
use crate::workload::{
    Beforehand, Books, Expected, ExpectedKind, GapKind, Needs, NoOps, OpCounts, OpSource,
    PhaseSpec, Share, Threads, Tree, Workload,
};
use crate::workloads::Kind;

/// The row of the table.
pub const KIND: Kind = Kind {
    name: "bigfile",
    about: "Write a file larger than memory, read and write in it at random, delete it.",
    source: "what readers of linuxinsight asked for in 2006: random reads and writes above 4 GB, \
             space reserved beforehand, the time to delete 2 TB",
    params: PARAMS,
    doc: DOC,
    config: None,
    build: |values, setting| Ok(Box::new(Big::new(values, setting.seed)?)),
};

/// What it models; shown by `fsdyno show workload`.
const DOC: &str = "\
Readers of 2006 asked for random reads and random writes in a file above 4 GB, as a database does them; for \
space that is reserved beforehand; for the raw device beside it; and told that deleting 2 TB takes half \
an hour on ext2 [PUB]. The rest is ours [OWN].

Phases: preallocate (with preallocate=yes: open O_CREAT|O_EXCL, fallocate of the whole file, close); write \
(open, writes of `block` from the beginning to the end, close); rewrite (with rewrite=yes: the same \
once more over what is there, with other bytes); random-read and random-write (open, pread or pwrite of `unit` \
at whole multiples of it, close); delete (unlink). Places come by a permutation: none comes twice before \
all came once; what is left behind the last whole unit is not touched. With `--threads` the random \
phases are shared among threads, each with a descriptor of its own. Nothing is synced but by `fsync`.

built=offline: the file is made before the first phase, in no figure, and its only phase is delete. It \
is made by fallocate, and where the file system has none by writing zeros, which the lab's disk does not \
store; a note of the record says which, and how much space is in use then. Extents that were reserved are freed as \
written ones are, but there are fewer of them than in a file that grew slowly, and a file of zeros lies \
as if written at once. The time is then that of the unlink: what is freed after its return is \
in the synced time, or, where the file system does it later still, in neither.

Contents are random bytes unless `zeros` makes a part of each 4 KiB zeros. Choose a size above the \
memory of the trial (`--ram`, `--cacheable`): the default is above 4 GB, and above the lab's usual \
1 GiB. Random reads of a file that memory holds are not of the disk.

With --fs raw the device stands for the file: then delete does nothing, and there is nothing to \
reserve. With gap=none a phase that writes is verified (through the caches) before the next begins.";

const PARAMS: &[Param] = &[
    Param {
        name: "size",
        default: "5368709120",
        domain: Domain::Size { min: 1, max: 16 << 40 },
        about: "Bytes of the file.",
        source: "[PUB] over 4 GB",
    },
    Param {
        name: "built",
        default: "timed",
        domain: Domain::Choice(&["timed", "offline"]),
        about: "Whether the file is written in timed phases, or made beforehand and only deleted.",
        source: "[OWN]",
    },
    Param {
        name: "preallocate",
        default: "no",
        domain: Domain::YesNo,
        about: "Whether space is reserved with fallocate before the file is written.",
        source: "[PUB] asked for as pre-extension",
    },
    Param {
        name: "rewrite",
        default: "no",
        domain: Domain::YesNo,
        about: "Whether the file is written once more in place.",
        source: "[OWN]",
    },
    Param {
        name: "block",
        default: "1048576",
        domain: Domain::Size { min: 512, max: LONGEST_SLICE as u64 },
        about: "Bytes of each write from the beginning to the end.",
        source: "[OWN] dd bs=1M",
    },
    Param {
        name: "unit",
        default: "4096",
        domain: Domain::Size { min: 512, max: LONGEST_SLICE as u64 },
        about: "Bytes of each random read and write.",
        source: "[OWN] a page",
    },
    Param {
        name: "reads",
        default: "10000",
        domain: Domain::Whole { min: 0, max: 1_000_000_000 },
        about: "How many random reads; 0 skips their phase.",
        source: "[OWN]",
    },
    Param {
        name: "writes",
        default: "10000",
        domain: Domain::Whole { min: 0, max: 1_000_000_000 },
        about: "How many random writes; 0 skips their phase.",
        source: "[OWN]",
    },
    Param {
        name: "fsync",
        default: "0",
        domain: Domain::Whole { min: 0, max: 1_000_000_000 },
        about: "After how many random writes of a thread an fsync follows; 0 is never.",
        source: "[OWN]",
    },
    Param {
        name: "zeros",
        default: "0",
        domain: Domain::Whole { min: 0, max: 100 },
        about: "How many percent of each 4 KiB are zeros: 0 cannot be compressed, 100 are zeros only.",
        source: "[OWN]",
    },
    Param {
        name: "gap",
        default: "remount",
        domain: Domain::Choice(&["none", "back-to-back", "sync", "drop", "remount"]),
        about: "What lies before each phase; before the first only with built=offline.",
        source: "[OWN] so that what is read comes from the disk",
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

/// The file, with its parameters bound.
#[derive(Debug)]
struct Big {
    places: Places,
    zeros: u64,
    gap: GapKind,
    phases: Vec<Phase>,
}

impl Big {
    fn new(values: &Values, seed: u64) -> Result<Big, ParamError> {
        let (size, unit) = (values.whole("size"), values.whole("unit"));
        let (reads, writes) = (values.whole("reads"), values.whole("writes"));
        let offline = values.text("built") == "offline";
        let (preallocate, rewrite) = (values.yes("preallocate"), values.yes("rewrite"));
        if offline && (preallocate || rewrite) {
            return Err(ParamError::Conflict(
                "preallocate=yes and rewrite=yes are phases, and built=offline has only that of the \
                 deletion; leave them out, or use built=timed"
                    .to_string(),
            ));
        }
        if !offline && size < unit && (reads > 0 || writes > 0) {
            return Err(ParamError::Conflict(format!(
                "size={size} is less than unit={unit}, so that there is no place for random reads and \
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
        let phases = timed.into_iter().filter(|(_, there)| *there && !offline);
        let units = size / unit;
        Ok(Big {
            places: Places {
                size,
                block: values.whole("block"),
                unit,
                reads,
                writes,
                fsync: values.whole("fsync"),
                offline,
                read_order: Permutation::new(units, seed, "reads"),
                write_order: Permutation::new(units, seed, "writes"),
            },
            zeros: values.whole("zeros"),
            gap: GapKind::named(values.text("gap")),
            phases: phases.map(|(phase, _)| phase).chain([Phase::Delete]).collect(),
        })
    }
}

impl Workload for Big {
    fn phases(&self) -> Vec<PhaseSpec> {
        let spec = |(at, phase): (usize, &Phase)| PhaseSpec {
            name: phase.name(),
            gap: if at == 0 && !self.places.offline { GapKind::None } else { self.gap },
            verify: *phase != Phase::RandomRead,
            threads: match phase {
                Phase::RandomRead | Phase::RandomWrite => Threads::Any,
                _ => Threads::One,
            },
        };
        PhaseSpec::chained(self.phases.iter().enumerate().map(spec).collect())
    }

    fn ops(&self, phase: usize, share: Share) -> Box<dyn OpSource + Send + '_> {
        let first = share.rank == 0;
        let places = &self.places;
        match self.phases.get(phase) {
            Some(Phase::Preallocate) if first => Box::new(Reserve::new(places)),
            Some(Phase::Write) if first => {
                let new = !self.phases.contains(&Phase::Preallocate);
                Box::new(Sweep::new(places, WRITTEN, new))
            }
            Some(Phase::Rewrite) if first => Box::new(Sweep::new(places, REWRITTEN, false)),
            Some(Phase::RandomRead) => Box::new(Seek::new(places, true, share)),
            Some(Phase::RandomWrite) => Box::new(Seek::new(places, false, share)),
            Some(Phase::Delete) if first => Box::new(Unlink::of(NAME)),
            _ => Box::new(NoOps),
        }
    }

    fn counts(&self, phase: usize, ranks: u32) -> OpCounts {
        use OpKind::{Close, Create, Fallocate, Fsync, Open, Read, Unlink, Write};
        let threads = u64::from(ranks);
        let fsyncs: u64 = (0..ranks).map(|rank| self.places.fsyncs(Share { rank, ranks })).sum();
        let mut counts = match self.phases.get(phase) {
            None => OpCounts::new(),
            Some(Phase::Preallocate) => OpCounts::from([(Create, 1), (Fallocate, 1), (Close, 1)]),
            Some(Phase::Write) => {
                let there = self.phases.contains(&Phase::Preallocate);
                let open = if there { Open } else { Create };
                OpCounts::from([(open, 1), (Write, self.places.blocks()), (Close, 1)])
            }
            Some(Phase::Rewrite) => {
                OpCounts::from([(Open, 1), (Write, self.places.blocks()), (Close, 1)])
            }
            Some(Phase::RandomRead) => {
                OpCounts::from([(Open, threads), (Read, self.places.reads), (Close, threads)])
            }
            Some(Phase::RandomWrite) => OpCounts::from([
                (Open, threads),
                (Write, self.places.writes),
                (Fsync, fsyncs),
                (Close, threads),
            ]),
            Some(Phase::Delete) => OpCounts::from([(Unlink, 1)]),
        };
        counts.retain(|_, count| *count > 0);
        counts
    }

    fn idle_params(&self) -> &'static [&'static str] {
        match self.places.offline {
            true => &["block", "unit", "reads", "writes", "fsync", "zeros"],
            false => &[],
        }
    }

    fn books(&self, phase: usize) -> Books {
        match self.phases.get(phase) {
            Some(Phase::Write | Phase::Rewrite) => Books::from([("bytes", self.places.size)]),
            Some(Phase::RandomRead) => Books::from([
                ("reads", self.places.reads),
                ("bytes", self.places.reads * self.places.unit),
            ]),
            Some(Phase::RandomWrite) => Books::from([
                ("writes", self.places.writes),
                ("bytes", self.places.writes * self.places.unit),
            ]),
            _ => Books::new(),
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
        let mut left = Left { work: self, holds: Holds::Nothing, sought: false };
        for phase in self.phases.iter().take(phase + 1) {
            match phase {
                Phase::Preallocate => left.holds = Holds::Zeros,
                Phase::Write => left.holds = Holds::Version(WRITTEN),
                Phase::Rewrite => left.holds = Holds::Version(REWRITTEN),
                Phase::RandomRead => {}
                Phase::RandomWrite => left.sought = true,
                Phase::Delete => left.holds = Holds::Nothing,
            }
        }
        Box::new(left)
    }

    fn needs(&self) -> Needs {
        Needs { bytes: Bytes(self.places.size), inodes: 1, longest_name: NAME.len() }
    }

    fn stored(&self) -> Bytes {
        Bytes(if self.places.offline || self.zeros == 100 { 0 } else { self.places.size })
    }

    fn zeros(&self) -> u64 {
        self.zeros
    }

    fn beforehand(&self) -> Option<Beforehand<'_>> {
        self.places.offline.then(|| Beforehand {
            ops: Box::new(Reserve::new(&self.places)),
            tree: Box::new(Left { work: self, holds: Holds::Anything, sought: false }),
        })
    }
}

/// What the file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holds {
    /// There is no file.
    Nothing,
    Zeros,
    Version(u64),
    /// Only its size is looked at: what reads zeros without having them takes hours to read.
    Anything,
}

/// What a phase leaves.
struct Left<'a> {
    work: &'a Big,
    holds: Holds,
    sought: bool,
}

impl Tree for Left<'_> {
    fn lookup(&self, path: &[u8]) -> Option<Expected> {
        let size = self.work.places.size;
        match self.holds {
            _ if path != NAME => None,
            Holds::Nothing => None,
            Holds::Anything => Some(Expected::new(ExpectedKind::Sized(size))),
            Holds::Zeros | Holds::Version(_) => Some(Expected::pieces(size)),
        }
    }

    fn files(&self) -> u64 {
        u64::from(self.holds != Holds::Nothing)
    }

    fn directories(&self) -> u64 {
        0
    }

    fn piece(&self, path: &[u8], offset: u64) -> Option<Payload> {
        let places = &self.work.places;
        let left = places.size.checked_sub(offset).filter(|left| *left > 0 && path == NAME)?;
        match self.holds {
            Holds::Nothing | Holds::Anything => None,
            Holds::Zeros => Some(Payload::zeros(offset, left.min(1 << 30) as u32)),
            Holds::Version(_) if self.sought && places.is_sought(offset) => {
                Some(places.payload(SOUGHT, places.unit, offset))
            }
            Holds::Version(version) => {
                let mut piece = places.payload(version, places.block, offset);
                if self.sought {
                    let to_next = places.unit - offset % places.unit;
                    piece.length = u64::from(piece.length).min(to_next) as u32;
                }
                Some(piece)
            }
        }
    }
}
