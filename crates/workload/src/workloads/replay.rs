//! replay: the calls of a recorded program, on the tree that it found.

use std::collections::BTreeMap;

use fsdyno_record::trial::ReplayReport;
use fsdyno_record::{Bytes, quote};

use crate::input::Setting;
use crate::op::{Call, DirSlot, Op};
use crate::op_source::{NoOps, OpSource};
use crate::params::{Domain, Param, ParamError, Values};
use crate::replay::{
    Compiled, FlatTree, Options, Order, Part, Section, Source, Split, Think, parts,
};
use crate::workload::{
    GapKind, Needs, OpCounts, PhaseSpec, Prefill, Recording, Share, Threads, Tree, Workload,
};
use crate::workloads::Kind;

/// This workload's entry in the table of workloads.
pub const KIND: Kind = Kind {
    name: "replay",
    about: "Replay the recorded calls of your program, with each result compared.",
    source: "recordings by fsdyno record; the order by resource is that of ROOT (SOSP 2013)",
    params: PARAMS,
    more_work: &[CONCURRENT],
    doc: DOC,
    config: None,
    build: |values, setting| Ok(Box::new(Replay::new(values, setting)?)),
};

/// The parameter whose units run at the same time: as long as a processor is idle, another copy takes no more time.
pub const CONCURRENT: &str = "copies";

/// The description of the model, shown by `fsdyno show workload`.
const DOC: &str = "\
The tree that the recorded program found is created first, in its recorded order; no figure includes this. Then the recorded calls \
are made by as many threads as the program had at once, one for each thread of the program that ran at the same time.

Calls of different threads keep their order where they share a file, a directory entry or an open file, or where one \
thread began or waited for another [PUB: resource-oriented ordering of ROOT, SOSP 2013]; two calls that only read the \
same object are not ordered.

Each result is compared with the recorded one: success or the error number, bytes moved, sizes of files. Not \
compared: inode numbers, times, blocks, the order of directories, values of attributes. On the file system of the \
recording a difference fails the trial; on another one, a call that file system does not support is only listed [OWN]. \
The final tree must be that of the initial tree and the calls: names, types, sizes, modes, links, and contents.

A phase is the whole recording, or the part that follows a mark of the program (`fsdyno mark NAME` in a script), or, with \
phases=commands, the part that follows the start of a command by the first process. Nothing happens between two phases, so \
only the last one is synced.

Stores to files that are mapped shared and writable are not seen by a recorder. Where such a mapping is synced or ends, \
the whole of it is written [OWN], which is the maximum that the program can have stored; the trial reports how much that is.

Contents are not recorded: files have bytes of the same compressibility. Symbolic links have a target of the recorded \
length that does not exist, because the recording has resolved them. The bits set-user-ID and set-group-ID are omitted. \
docs/replay.md lists the limits of a replay.";

/// The value that means no trace.
const NO_TRACE: &str = "none";

const PARAMS: &[Param] = &[
    Param {
        name: "trace",
        default: NO_TRACE,
        domain: Domain::Or(NO_TRACE, &Domain::Trace),
        about: "The recording, made by fsdyno record -o FILE -- COMMAND.",
        source: "[OWN]",
    },
    Param {
        name: "order",
        default: "resource",
        domain: Domain::Choice(&["resource", "total", "none"]),
        about: "The order of calls of different threads: by shared resource, all as recorded, or \
                none, where differences are listed and do not fail the trial.",
        source: "[PUB] ROOT, SOSP 2013",
    },
    Param {
        name: "think",
        default: "cpu",
        domain: Domain::Choice(&["cpu", "none", "wall"]),
        about: "The time of a thread between calls: its recorded processor time, none, or that \
                time and the rest of the recorded time asleep.",
        source: "[OWN] a recorder slows wall time down, not processor time",
    },
    Param {
        name: "speed",
        default: "1",
        domain: Domain::Whole { min: 1, max: 1_000_000 },
        about: "Factor by which the time between calls is shortened.",
        source: "[OWN]",
    },
    Param {
        name: "cache",
        default: "cold",
        domain: Domain::Choice(&["cold", "warm"]),
        about: "Whether the initial tree is unmounted and mounted before the calls, or is in the \
                cache.",
        source: "[OWN]",
    },
    Param {
        name: "phases",
        default: "marks",
        domain: Domain::Choice(&["marks", "commands", "whole"]),
        about: "What begins a phase: a mark of the program (fsdyno mark), a command that its first \
                process starts, or nothing.",
        source: "[OWN]",
    },
    Param {
        name: "copies",
        default: "1",
        domain: Domain::Whole { min: 1, max: 256 },
        about: "Number of replays at the same time, each in a directory and with threads of its own.",
        source: "[OWN]",
    },
];

/// Maximum number of threads at the same time.
const MAX_THREADS: u64 = 1024;

/// A replay with its parameters bound.
struct Replay {
    compiled: Compiled,
    parts: Vec<Part>,
    options: Options,
    gap: GapKind,
    copies: u32,
}

impl Replay {
    fn new(values: &Values, setting: &Setting) -> Result<Replay, ParamError> {
        let path = quote::escape(values.text("trace"));
        let conflict = |text: String| ParamError::Conflict(text);
        if values.text("trace") == NO_TRACE {
            return Err(conflict(
                "replay needs a recording: fsdyno record -o FILE -- COMMAND creates one, and --set \
                 trace=FILE selects it"
                    .to_string(),
            ));
        }
        let input = setting.input.as_ref();
        let input = input
            .ok_or_else(|| conflict(format!("--set trace={path}: the file has not been read")))?;
        let compiled = Compiled::new(input)
            .map_err(|error| conflict(format!("--set trace={path}: it {error}")))?;
        let copies = values.number_or_zero("copies");
        let threads = copies * u64::from(compiled.rank_count());
        if threads > MAX_THREADS {
            return Err(conflict(format!(
                "copies={copies} needs {threads} threads at once, but at most {MAX_THREADS} are possible; \
                 the recording has {} threads at once",
                compiled.rank_count()
            )));
        }
        if copies * compiled.number("slots") > u64::from(u16::MAX - 1) {
            return Err(conflict(format!(
                "copies={copies} needs more than {} open files at once; use fewer copies",
                u16::MAX - 1
            )));
        }
        let order = match values.text("order") {
            "total" => Order::Total,
            "none" => Order::None,
            _ => Order::Resource,
        };
        let think = match values.text("think") {
            "none" => Think::None,
            "wall" => Think::Wall,
            _ => Think::Cpu,
        };
        let split = match values.text("phases") {
            "whole" => Split::Whole,
            "commands" => Split::Commands,
            _ => Split::Marks,
        };
        let parts = parts(&compiled, split);
        Ok(Replay {
            compiled,
            parts,
            options: Options { order, think, speed: values.number_or_zero("speed") },
            gap: if values.text("cache") == "warm" { GapKind::None } else { GapKind::Remount },
            copies: copies as u32,
        })
    }
}

impl Workload for Replay {
    fn phases(&self) -> Vec<PhaseSpec> {
        let threads = Threads::Exactly(self.copies * self.compiled.rank_count());
        let verify = self.options.order != Order::None;
        // Nothing happens between two phases, as in the program: only the last phase is synced and verified.
        let phase = |(index, part): (usize, &Part)| PhaseSpec {
            name: part.name,
            gap: if index == 0 { self.gap } else { GapKind::BackToBack },
            verify: verify && index + 1 == self.parts.len(),
            threads,
        };
        self.parts.iter().enumerate().map(phase).collect()
    }

    fn ops(&self, phase: usize, share: Share) -> Box<dyn OpSource + Send + '_> {
        let ranks = self.compiled.rank_count().max(1);
        let (copy, rank) = (share.rank / ranks, share.rank % ranks);
        if copy >= self.copies {
            return Box::new(NoOps);
        }
        let bytes = self.compiled.rank_ops(rank);
        let rank_and_copy = (rank, copy, self.copies);
        let source = Source::new(&self.compiled, bytes, rank_and_copy, self.options);
        let Some(part) = self.parts.get(phase) else { return Box::new(NoOps) };
        let boundary = |index: Option<usize>| self.compiled.boundaries().nth(index?);
        Box::new(source.limit_to(boundary(part.from), boundary(part.to)))
    }

    /// Counts a getdents64(2) that read a directory to its end as one op, however many calls it takes.
    fn counts(&self, phase: usize, _: u32) -> OpCounts {
        let counts = self.parts.get(phase).map(|part| part.counts.clone()).unwrap_or_default();
        let counts = counts.into_iter();
        counts.map(|(kind, count)| (kind, count * u64::from(self.copies))).collect()
    }

    fn tree(&self, _: usize) -> Box<dyn Tree + '_> {
        Box::new(FlatTree::new(&self.compiled, Section::After, self.copies))
    }

    fn prefill(&self) -> Option<Prefill<'_>> {
        let initial = self.compiled.section(Section::Initial);
        if initial.is_empty() && self.copies == 1 {
            return None;
        }
        let options = Options { order: Order::None, think: Think::None, speed: 1 };
        let copy = |copy| {
            let rank_and_copy = (0, copy, self.copies);
            Source::new(&self.compiled, initial, rank_and_copy, options)
        };
        let sources = (0..self.copies).map(copy).collect();
        let tree = Box::new(FlatTree::new(&self.compiled, Section::Before, self.copies));
        Some(Prefill {
            ops: Box::new(Copies { sources, current: 0, is_created: self.copies == 1 }),
            tree,
        })
    }

    fn needs(&self) -> Needs {
        let copies = u64::from(self.copies);
        Needs {
            bytes: Bytes(self.compiled.number("bytes").saturating_mul(copies)),
            inodes: (self.compiled.number("inodes") + 1).saturating_mul(copies),
            longest_name: self.compiled.number("longest-name") as usize,
        }
    }

    fn shared_slots(&self) -> Option<u16> {
        Some((u64::from(self.copies) * self.compiled.number("slots") + 1) as u16)
    }

    fn recording(&self) -> Option<Recording> {
        let file_system = self.compiled.text("file-system").to_string();
        let mut notes = vec![format!(
            "{} of {} recorded calls are replayed, {} of which wait for other threads \
             for ({} threads at once)",
            self.compiled.number("replayed"),
            self.compiled.number("calls"),
            self.compiled.number("waiting"),
            self.compiled.rank_count(),
        )];
        let skipped: Vec<String> = skipped_calls(&self.compiled)
            .into_iter()
            .map(|(reason, count)| format!("{count} {reason}"))
            .collect();
        if !skipped.is_empty() {
            notes.push(format!("not replayed: {}", skipped.join("; ")));
        }
        let bytes = |fact| Bytes(self.compiled.number(fact));
        let (mapped, stored, written) =
            (bytes("mapped-bytes"), bytes("stored-bytes"), bytes("written-bytes"));
        if mapped.0 > 0 {
            notes.push(format!(
                "{mapped} of files were mapped into memory; reads and stores in them are not replayed{}",
                match stored.0 {
                    0 => String::new(),
                    _ => format!(", but each mapping with stores is written as a whole: {stored} of {written}"),
                }
            ));
        }
        let report = ReplayReport {
            calls: self.compiled.number("calls"),
            replayed: self.compiled.number("replayed"),
            left_out: skipped_calls(&self.compiled),
            threads: self.compiled.rank_count(),
            order: self.options.order.name().to_string(),
            waiting: self.compiled.number("waiting"),
            mapped,
            stored,
            written,
            differing: 0,
        };
        let strict = self.options.order != Order::None;
        Some(Recording { file_system, strict, notes, report })
    }
}

/// Returns the number of omitted calls, by reason.
fn skipped_calls(compiled: &Compiled) -> BTreeMap<String, u64> {
    let facts = compiled.facts().iter();
    let skipped = facts.filter_map(|(fact, count)| {
        let reason = fact.strip_prefix("skipped-")?.replace('-', " ");
        Some((reason, count.parse().unwrap_or(0)))
    });
    skipped.collect()
}

/// The initial trees of all copies, one after the other.
struct Copies<'a> {
    sources: Vec<Source<'a>>,
    current: usize,
    /// True if the directory of the current copy exists.
    is_created: bool,
}

impl OpSource for Copies<'_> {
    fn next(&mut self, op: &mut Op) -> bool {
        loop {
            let Some(source) = self.sources.get_mut(self.current) else { return false };
            if !self.is_created {
                self.is_created = true;
                *op = Op { call: Call::Mkdir { dir: DirSlot::ROOT, mode: 0o755 }, ..Op::default() };
                op.name.push(format!("copy{:03}", self.current).as_bytes());
                return true;
            }
            if source.next(op) {
                return true;
            }
            self.current += 1;
            self.is_created = self.sources.len() == 1;
        }
    }
}
