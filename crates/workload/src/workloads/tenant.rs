//! tenant: latencies of small-file work, alone and next to a neighbour that streams.

use fsdyno_record::seed::mix;
use fsdyno_record::{Bytes, Nanos, OpKind};

use crate::contents::MAX_SLICE;
use crate::numbered::Numbered;
use crate::op_source::{NoOps, OpSource, WorkUnits};
use crate::params::{Domain, Param, ParamError, Values};
use crate::tenant::files::{Fill, TenantSpec};
use crate::tenant::rounds::{Rounds, Stream};
use crate::tenant::tree::TenantTree;
use crate::workload::{GapKind, Needs, OpCounts, PhaseSpec, Share, Threads, Tree, Workload};
use crate::workloads::Kind;

/// This workload's entry in the table of workloads.
pub const KIND: Kind = Kind {
    name: "tenant",
    about: "Latencies of small-file work with think time, alone and next to a neighbour that streams.",
    source: "readers of linuxinsight, 2006: latencies next to a dd that writes without end",
    params: PARAMS,
    more_work: &["rounds"],
    doc: DOC,
    config: None,
    build: |values, setting| Ok(Box::new(Tenants::new(values, setting.seed)?)),
};

/// The description of the model, shown by `fsdyno show workload`.
const DOC: &str = "\
A reader of 2006 reported machines that stop responding while one dd writes: names and inodes have left the cache, and \
the queue of the disk is full. He set vm.vfs_cache_pressure=1, vm.dirty_ratio=2 and \
vm.dirty_background_ratio=1 [PUB]. Here limits are given with --sysctl, and the numbers of interest are the \
latencies of the small ops. The work itself is ours [OWN].

fill: each tenant gets a directory with `files` files of `size` bytes; the neighbour an empty file. quiet: each \
tenant does `rounds` rounds in a thread of its own. A round: think; stat of one file, open, read and close of \
another, both drawn uniformly from the existing ones; a new file: open O_CREAT|O_EXCL|O_APPEND, one write, \
with fsync=yes an fsync, close; unlink of the oldest file. So the number of files is constant. The think time is drawn \
uniformly between zero and twice `think`, so tenants are not synchronized; no latency \
includes it.

beside: the same once more, while the neighbour writes `stream` bytes from the beginning of its file to its end, \
in calls of `block`, as fast as it can. The tenants begin when it has written `lead`. When the neighbour is done, each \
tenant completes its current round and the phase ends, so all rounds ran next to the neighbour. If a tenant completes \
`rounds` rounds earlier, it stops and the neighbour continues without it. So the number of rounds is known only \
afterwards (the \
count before is the maximum); op counts, work units and tree are then exactly those of the work done.

Attribution: a tenant's new file is written with O_APPEND and counted as append, so write is \
the neighbour's alone; one open and one close are the neighbour's too. While a tenant waits for an fsync, it does no \
other round, so slow rounds are underrepresented and a mean over rounds is too favourable. See p99 and the maximum.

With gap=sync caches are warm before both quiet and beside, because the files of the phase before are then read back.";

const PARAMS: &[Param] = &[
    Param {
        name: "tenants",
        default: "4",
        domain: Domain::Whole { min: 1, max: 256 },
        about: "Number of tenants that work at once, each in a thread and a directory of its own.",
        source: "[OWN]",
    },
    Param {
        name: "files",
        default: "1000",
        domain: Domain::Whole { min: 1, max: 1_000_000 },
        about: "Files of each tenant.",
        source: "[OWN]",
    },
    Param {
        name: "size",
        default: "4096",
        domain: Domain::Size { min: 1, max: MAX_SLICE as u64 },
        about: "Bytes of each of those files.",
        source: "[OWN] one block",
    },
    Param {
        name: "rounds",
        default: "500",
        domain: Domain::Whole { min: 1, max: 10_000_000 },
        about: "Rounds of each tenant in quiet; the maximum in the other phase.",
        source: "[OWN]",
    },
    Param {
        name: "think",
        default: "20",
        domain: Domain::Whole { min: 0, max: 60_000 },
        about: "Milliseconds that a tenant thinks before a round, on average.",
        source: "[OWN]",
    },
    Param {
        name: "fsync",
        default: "yes",
        domain: Domain::YesNo,
        about: "Call fsync on each new file.",
        source: "[OWN] as for mail or a saved document",
    },
    Param {
        name: "stream",
        default: "2147483648",
        domain: Domain::Size { min: 1, max: 16 << 40 },
        about: "Bytes that the neighbour writes.",
        source: "[OWN] above the memory of the lab's usual guest; the reader's dd wrote 10 GB",
    },
    Param {
        name: "block",
        default: "1048576",
        domain: Domain::Size { min: 512, max: MAX_SLICE as u64 },
        about: "Bytes of each of the neighbour's writes.",
        source: "[PUB] bs=1M",
    },
    Param {
        name: "lead",
        default: "auto",
        domain: Domain::Or("auto", &Domain::Size { min: 0, max: 16 << 40 }),
        about: "Bytes that the neighbour has written when the tenants begin; auto is an eighth of `stream`.",
        source: "[OWN] so that the first rounds are next to it, too",
    },
    Param {
        name: "zeros",
        default: "0",
        domain: Domain::Whole { min: 0, max: 100 },
        about: "Percentage of each block of 4 KiB that is zeros: 0 cannot be compressed, 100 is zeros only.",
        source: "[OWN] the reader's dd wrote zeros",
    },
    Param {
        name: "gap",
        default: "sync",
        domain: Domain::Choice(&["none", "sync", "drop", "remount"]),
        about: "The step before quiet and before beside.",
        source: "[OWN] tenants have been running for a while",
    },
];

const FILL: usize = 0;
const QUIET: usize = 1;
const WITH_NEIGHBOUR: usize = 2;

/// Tenants and neighbour, with their parameters bound.
#[derive(Debug)]
struct Tenants {
    spec: TenantSpec,
    gap: GapKind,
    zeros: u64,
}

impl Tenants {
    fn new(values: &Values, seed: u64) -> Result<Tenants, ParamError> {
        let stream = values.number_or_zero("stream");
        let lead = values.number("lead").unwrap_or(stream / 8);
        if lead > stream {
            return Err(ParamError::Conflict(format!(
                "lead={lead} is more than the stream={stream} bytes that the neighbour writes; use lead={stream} or \
                 less"
            )));
        }
        Ok(Tenants {
            spec: TenantSpec {
                tenants: values.number_or_zero("tenants") as u32,
                files_per_tenant: values.number_or_zero("files"),
                size: values.number_or_zero("size") as u32,
                rounds: values.number_or_zero("rounds"),
                think: Nanos(values.number_or_zero("think") * 1_000_000),
                fsync: values.is_yes("fsync"),
                stream,
                block: values.number_or_zero("block"),
                lead,
                seed: mix(seed ^ 0x7465_6e61_6e74),
                directories: Numbered::new("t", 3),
                names: Numbered::new("f", 8),
            },
            gap: GapKind::named(values.text("gap")),
            zeros: values.number_or_zero("zeros"),
        })
    }

    /// Returns the number of rounds that each tenant has done after a phase in which rank `r` has done
    /// `done[r]`.
    fn rounds(&self, phase: usize, done: &[u64]) -> Vec<u64> {
        let rounds_before = if phase > QUIET { self.spec.rounds } else { 0 };
        let rounds_of = |tenant: u32| match phase {
            FILL => 0,
            _ => rounds_before + done.get(tenant as usize).copied().unwrap_or(0),
        };
        (0..self.spec.tenants).map(rounds_of).collect()
    }

    /// Returns the number of rounds of all tenants in one phase.
    fn total_rounds(&self, done: &[u64]) -> u64 {
        done.iter().take(self.spec.tenants as usize).sum()
    }

    /// Returns the work of each rank if the whole phase is done.
    fn full_work(&self, phase: usize) -> Vec<u64> {
        let mut all = vec![self.spec.rounds; self.spec.tenants as usize];
        if phase == WITH_NEIGHBOUR {
            all.push(self.spec.block_count());
        }
        all
    }
}

impl Workload for Tenants {
    fn phases(&self) -> Vec<PhaseSpec> {
        let tenants = self.spec.tenants;
        let spec = |name, gap, threads| PhaseSpec { name, gap, verify: true, threads };
        vec![
            spec("fill", GapKind::None, Threads::One),
            spec("quiet", self.gap, Threads::Exactly(tenants)),
            spec("beside", self.gap, Threads::Exactly(tenants + 1)),
        ]
    }

    fn ops(&self, phase: usize, share: Share) -> Box<dyn OpSource + Send + '_> {
        let (spec, rank) = (&self.spec, share.rank);
        match phase {
            FILL if rank == 0 => Box::new(Fill::new(spec)),
            QUIET if rank < spec.tenants => Box::new(Rounds::new(spec, rank, false)),
            WITH_NEIGHBOUR if rank < spec.tenants => Box::new(Rounds::new(spec, rank, true)),
            WITH_NEIGHBOUR if rank == spec.tenants => Box::new(Stream::new(spec)),
            _ => Box::new(NoOps),
        }
    }

    fn counts(&self, phase: usize, _: u32) -> OpCounts {
        self.counts_after(phase, &self.full_work(phase))
    }

    fn counts_after(&self, phase: usize, done: &[u64]) -> OpCounts {
        use OpKind::{Append, Close, Create, Fsync, Mkdir, Open, Read, Stat, Unlink, Write};
        let rounds = self.total_rounds(done);
        let mut counts = match phase {
            FILL => {
                let tenants = u64::from(self.spec.tenants);
                let files = tenants * self.spec.files_per_tenant;
                OpCounts::from([
                    (Mkdir, tenants),
                    (Create, files + 1),
                    (Write, files),
                    (Close, files + 1),
                ])
            }
            QUIET | WITH_NEIGHBOUR => OpCounts::from([
                (Stat, rounds),
                (Open, rounds),
                (Read, rounds),
                (Create, rounds),
                (Append, rounds),
                (Fsync, if self.spec.fsync { rounds } else { 0 }),
                (Close, 2 * rounds),
                (Unlink, rounds),
            ]),
            _ => OpCounts::new(),
        };
        if phase == WITH_NEIGHBOUR {
            for (kind, count) in [(Open, 1), (Write, self.spec.block_count()), (Close, 1)] {
                *counts.entry(kind).or_default() += count;
            }
        }
        counts.retain(|_, count| *count > 0);
        counts
    }

    fn work_units(&self, phase: usize) -> WorkUnits {
        self.work_units_after(phase, &self.full_work(phase))
    }

    fn work_units_after(&self, phase: usize, done: &[u64]) -> WorkUnits {
        match phase {
            FILL => WorkUnits::from([(
                "files",
                u64::from(self.spec.tenants) * self.spec.files_per_tenant,
            )]),
            QUIET => WorkUnits::from([("rounds", self.total_rounds(done))]),
            WITH_NEIGHBOUR => WorkUnits::from([
                ("rounds", self.total_rounds(done)),
                ("neighbour bytes", self.spec.stream),
            ]),
            _ => WorkUnits::new(),
        }
    }

    fn unit(&self, phase: usize) -> Option<&'static str> {
        matches!(phase, QUIET | WITH_NEIGHBOUR).then_some("rounds")
    }

    fn tree(&self, phase: usize) -> Box<dyn Tree + '_> {
        self.tree_after(phase, &self.full_work(phase))
    }

    fn tree_after(&self, phase: usize, done: &[u64]) -> Box<dyn Tree + '_> {
        let streamed = phase == WITH_NEIGHBOUR;
        Box::new(TenantTree { spec: &self.spec, rounds: self.rounds(phase, done), streamed })
    }

    fn needs(&self) -> Needs {
        let (tenants, files) = (u64::from(self.spec.tenants), self.spec.files_per_tenant + 1);
        Needs {
            bytes: Bytes(tenants * files * u64::from(self.spec.size) + self.spec.stream),
            inodes: tenants * (files + 1) + 1,
            longest_name: self.spec.longest_name(),
        }
    }

    fn zeros(&self) -> u64 {
        self.zeros
    }

    fn ends_with(&self, phase: usize) -> Option<u32> {
        (phase == WITH_NEIGHBOUR).then_some(self.spec.tenants)
    }
}
