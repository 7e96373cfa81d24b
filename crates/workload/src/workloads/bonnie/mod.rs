//! bonnie: one large file written, rewritten and read sequentially and at random, then many small files, as in Tim
//! Bray's Bonnie of 1996 and Russell Coker's bonnie++.

mod params;

use fsdyno_record::{Bytes, OpKind, seed};

use crate::bonnie::alnum_names::AlnumNames;
use crate::bonnie::big_file::{BigFile, Pass, PassKind, Seeks, State, UpdateRule, Writer};
use crate::bonnie::file_set::{FileKind, FileSet, Task};
use crate::op::Payload;
use crate::op_source::{NoOps, OpSource, WorkUnits};
use crate::params::{ParamError, Values};
use crate::unlink::Unlink;
use crate::workload::{
    Expected, GapKind, Needs, OpCounts, PhaseSpec, Share, Threads, Tree, Workload,
};
use crate::workloads::Kind;
use params::{DOC, PARAMS};

/// This workload's entry in the table of workloads.
pub const KIND: Kind = Kind {
    name: "bonnie",
    about: "Write, rewrite, read and seek in one large file, then make, stat and remove many files.",
    source: "T. Bray, Bonnie, 1996; R. Coker, bonnie++ 2.00a",
    params: PARAMS,
    more_work: &["file-size", "files"],
    doc: DOC,
    config: None,
    build: |values, setting| Ok(Box::new(Bonnie::new(values, setting.seed)?)),
};

/// Name of the large file, and then of the directory of the small files; the originals use their process
/// id in place of the 1.
const NAME: &[u8] = b"Bonnie.1";
/// Number of files per unit of `files`.
const FILES_UNIT: u64 = 1024;
/// Maximum number of units of hard links: all are links to one file, and ext4 allows 65,000 of them.
const MAX_LINK_UNITS: u64 = 63;
/// Default number of bytes that bonnie++ transfers one by one.
const DEFAULT_CHARS: u64 = 3 << 20;
/// Size of stdio's buffer, and so of its calls, in bytes.
const STDIO_BUFFER: u32 = 4096;
/// Maximum number of directories with sync=b, which keeps each one open; the default limit of a process is 1024.
const MAX_SYNCED_DIRECTORIES: u64 = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Pass(&'static str, Pass),
    Seeks,
    Unlink(&'static str),
    Files(&'static str, Task, NameOrder),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NameOrder {
    Sequence,
    Random,
}

/// The large file and the small files, with their parameters bound.
#[derive(Debug)]
struct Bonnie {
    file: BigFile,
    sequence: FileSet,
    random: FileSet,
    gap: GapKind,
    phases: Vec<Phase>,
}

/// The parameters in which the two programs differ, resolved.
#[derive(Debug)]
struct Resolved {
    is_plus_plus: bool,
    file_size: u64,
    chunk: u64,
    chars: u64,
    seeks: u64,
    seekers: u64,
    files: u64,
    end_sync: bool,
}

impl Resolved {
    fn new(values: &Values) -> Resolved {
        let is_plus_plus = values.text("program") == "bonnie++";
        let value_or_default = |key: &str, default_of_plus_plus: u64, default_of_bonnie: u64| {
            values.number(key).unwrap_or(if is_plus_plus {
                default_of_plus_plus
            } else {
                default_of_bonnie
            })
        };
        let file_size = values.number_or_zero("file-size");
        Resolved {
            is_plus_plus,
            file_size,
            chunk: value_or_default("chunk", 8192, 16384),
            chars: value_or_default("char", DEFAULT_CHARS.min(file_size), file_size),
            seeks: value_or_default("seeks", 8192, 4000),
            seekers: value_or_default("seekers", 5, 3),
            files: value_or_default("files", 16, 0),
            end_sync: match values.text("end-sync") {
                "auto" => is_plus_plus,
                word => word == "yes",
            },
        }
    }

    /// Reports the first contradiction between parameters in one line.
    fn check(&self, values: &Values) -> Result<(), ParamError> {
        let Resolved { is_plus_plus, file_size, chunk, chars, files, .. } = *self;
        let dirs = values.number_or_zero("dirs");
        let kind = values.text("files-max");
        let (min, max) = (values.number_or_zero("files-min"), values.number_or_zero("files-max"));
        let has_files = is_plus_plus && files > 0;
        let message = if !chunk.is_power_of_two() {
            format!("chunk={chunk} is not a power of two; use {}", chunk.next_power_of_two())
        } else if file_size % chunk != 0 {
            let expected = file_size.next_multiple_of(chunk);
            format!("file-size={file_size} is not a multiple of chunk={chunk}; use {expected}")
        } else if chars > file_size {
            format!("char={chars} is more than file-size={file_size}; use char={file_size} or less")
        } else if !is_plus_plus && file_size == 0 {
            "file-size=0 leaves nothing to do for program=bonnie; use file-size=300M".to_string()
        } else if !is_plus_plus && chars != file_size {
            format!("program=bonnie writes the whole file by characters; omit char={chars}")
        } else if !is_plus_plus && files > 0 {
            format!("program=bonnie has no test of many files; use files=0, not {files}")
        } else if !is_plus_plus && values.text("sync") == "b" {
            "sync=b is an option of bonnie++; use program=bonnie++ or sync=none".to_string()
        } else if is_plus_plus && values.number_or_zero("char-time") > 0 {
            "char-time is for putc and getc, which bonnie++ does not use; omit it".to_string()
        } else if file_size == 0 && files == 0 {
            "file-size=0 and files=0 leave nothing to do; set one of them".to_string()
        } else if matches!(kind, "link" | "symlink") && min > 0 {
            format!("files-max={kind} makes links, which have no size; omit files-min={min}")
        } else if !matches!(kind, "link" | "symlink") && min > max {
            format!("files-min={min} is more than files-max={max}; use files-max={min} or more")
        } else if kind == "link" && files > MAX_LINK_UNITS {
            format!(
                "files-max=link with files={files} makes {} links to one file, and ext4 allows 65,000; \
                 use files={MAX_LINK_UNITS} or fewer",
                files * FILES_UNIT
            )
        } else if has_files && dirs > files * FILES_UNIT {
            let max_directories = files * FILES_UNIT;
            format!(
                "dirs={dirs} is more than the number of files; use dirs={max_directories} or fewer"
            )
        } else if has_files && values.text("sync") == "b" && dirs > MAX_SYNCED_DIRECTORIES {
            format!(
                "sync=b keeps each of dirs={dirs} open; use dirs={MAX_SYNCED_DIRECTORIES} or fewer"
            )
        } else {
            return Ok(());
        };
        Err(ParamError::Conflict(message))
    }

    /// Returns the phases in the program's order.
    fn phases(&self, char_time: u64) -> Vec<Phase> {
        let unit = if self.is_plus_plus { 1 } else { STDIO_BUFFER };
        let chars = |kind| Pass { kind, unit, bytes: self.chars, compute: char_time };
        let blocks =
            |kind| Pass { kind, unit: self.chunk as u32, bytes: self.file_size, compute: 0 };
        let char_write = Phase::Pass("char-write", chars(PassKind::Write(Writer::Char)));
        let char_unlink = Phase::Unlink("char-unlink");
        let block_write = Phase::Pass("block-write", blocks(PassKind::Write(Writer::Block)));
        let rewrite = Phase::Pass("rewrite", blocks(PassKind::Rewrite));
        let mut phases = match (self.is_plus_plus, self.chars > 0) {
            (true, true) => vec![char_write, char_unlink, block_write, rewrite],
            (true, false) => vec![block_write, rewrite],
            (false, _) => vec![char_write, rewrite, char_unlink, block_write],
        };
        if self.chars > 0 {
            phases.push(Phase::Pass("char-read", chars(PassKind::Read)));
        }
        phases.push(Phase::Pass("block-read", blocks(PassKind::Read)));
        if self.seeks > 0 {
            phases.push(Phase::Seeks);
        }
        phases.push(Phase::Unlink("unlink"));
        if self.file_size == 0 {
            phases.clear();
        }
        if self.files > 0 {
            phases.extend([
                Phase::Files("create-seq", Task::Create, NameOrder::Sequence),
                Phase::Files("stat-seq", Task::StatEach, NameOrder::Sequence),
                Phase::Files("delete-seq", Task::DeleteEach, NameOrder::Sequence),
                Phase::Files("create-random", Task::Create, NameOrder::Random),
                Phase::Files("stat-random", Task::StatRandom, NameOrder::Random),
                Phase::Files("delete-random", Task::DeleteRandom, NameOrder::Random),
            ]);
        }
        phases
    }
}

impl Bonnie {
    fn new(values: &Values, seed: u64) -> Result<Bonnie, ParamError> {
        let resolved = Resolved::new(values);
        resolved.check(values)?;
        let (zeros, fsync) = (values.text("data") == "zeros", values.text("sync") == "b");
        let rule =
            if resolved.is_plus_plus { UpdateRule::TenthOfAll } else { UpdateRule::TenthOfEach };
        let chunks = resolved.file_size / resolved.chunk;
        let seekers = resolved.seekers as u32;
        let mut seeks = Seeks::new(resolved.seeks, seekers, rule, chunks, seed);
        seeks.fsync = fsync;
        let kind = match values.text("files-max") {
            "link" => FileKind::Link,
            "symlink" => FileKind::Symlink,
            _ => FileKind::Regular {
                min: values.number_or_zero("files-min"),
                max: values.number_or_zero("files-max"),
            },
        };
        let set = |letters_first: bool, name: &str| {
            let (files, dirs) = (resolved.files * FILES_UNIT, values.number_or_zero("dirs"));
            let seed = seed::stream(seed, name).draw();
            let mut set = FileSet::new(NAME, files, dirs, kind, letters_first, seed);
            set.chunk = values.number_or_zero("files-chunk") as u32;
            (set.zeros, set.fsync, set.end_sync) = (zeros, fsync, resolved.end_sync);
            set
        };
        Ok(Bonnie {
            sequence: set(false, "sequence"),
            random: set(true, "random"),
            gap: GapKind::named(values.text("gap")),
            phases: resolved.phases(values.number_or_zero("char-time")),
            file: BigFile {
                name: NAME,
                size: resolved.file_size,
                chunk: resolved.chunk as u32,
                zeros,
                end_sync: resolved.end_sync,
                seeks,
            },
        })
    }

    fn file_set(&self, names: NameOrder) -> &FileSet {
        match names {
            NameOrder::Sequence => &self.sequence,
            NameOrder::Random => &self.random,
        }
    }

    /// Returns the file and the set after a phase.
    fn tree_after_phase(&self, phase: usize) -> BonnieTree<'_> {
        let mut tree = BonnieTree { work: self, file: None, set: None };
        for phase in self.phases.iter().take(phase + 1) {
            match *phase {
                Phase::Pass(_, Pass { kind: PassKind::Write(writer), bytes: size, .. }) => {
                    tree.file = Some(State { writer, size, seeks_done: false });
                }
                Phase::Pass(_, Pass { kind: PassKind::Rewrite, bytes: size, .. }) => {
                    tree.file = Some(State { writer: Writer::Rewrite, size, seeks_done: false });
                }
                Phase::Pass(..) => {}
                Phase::Seeks => {
                    tree.file = tree.file.map(|file| State { seeks_done: true, ..file });
                }
                Phase::Unlink(_) => tree.file = None,
                Phase::Files(_, Task::Create, names) => tree.set = Some(self.file_set(names)),
                Phase::Files(_, Task::DeleteEach | Task::DeleteRandom, _) => tree.set = None,
                Phase::Files(..) => {}
            }
        }
        tree
    }

    /// Returns true if the tree is verified after a phase; see the last paragraph of [`DOC`].
    fn is_verified(&self, index: usize) -> bool {
        let writes = match self.phases[index] {
            Phase::Pass(_, pass) => pass.kind != PassKind::Read,
            Phase::Seeks | Phase::Unlink(_) => true,
            Phase::Files(_, task, _) => !matches!(task, Task::StatEach | Task::StatRandom),
        };
        let removes = |phase: &Phase| {
            use Task::{DeleteEach, DeleteRandom};
            matches!(phase, Phase::Unlink(_) | Phase::Files(_, DeleteEach | DeleteRandom, _))
        };
        let is_before_removal = self.phases.get(index + 1).is_some_and(removes);
        match self.gap {
            GapKind::None => is_before_removal || removes(&self.phases[index]),
            _ => writes,
        }
    }
}

impl Workload for Bonnie {
    fn phases(&self) -> Vec<PhaseSpec> {
        let spec = |(index, phase): (usize, &Phase)| {
            let (name, threads) = match *phase {
                Phase::Pass(name, _) | Phase::Unlink(name) | Phase::Files(name, ..) => {
                    (name, Threads::One)
                }
                Phase::Seeks => ("seeks", Threads::Exactly(self.file.seeks.seekers)),
            };
            let gap = if index == 0 { GapKind::None } else { self.gap };
            PhaseSpec { name, gap, verify: self.is_verified(index), threads }
        };
        PhaseSpec::chained(self.phases.iter().enumerate().map(spec).collect())
    }

    fn ops(&self, phase: usize, share: Share) -> Box<dyn OpSource + Send + '_> {
        match self.phases.get(phase) {
            Some(Phase::Seeks) if share.rank < self.file.seeks.seekers => {
                Box::new(self.file.seeker(share.rank))
            }
            Some(Phase::Pass(_, pass)) if share.rank == 0 => Box::new(self.file.pass(*pass)),
            Some(Phase::Unlink(_)) if share.rank == 0 => Box::new(Unlink::new(NAME)),
            Some(Phase::Files(_, task, names)) if share.rank == 0 => {
                self.file_set(*names).ops(*task)
            }
            _ => Box::new(NoOps),
        }
    }

    fn counts(&self, phase: usize, _: u32) -> OpCounts {
        match self.phases.get(phase) {
            Some(Phase::Pass(_, pass)) => self.file.pass_counts(*pass),
            Some(Phase::Seeks) => self.file.seek_counts(),
            Some(Phase::Unlink(_)) => OpCounts::from([(OpKind::Unlink, 1)]),
            Some(Phase::Files(_, task, names)) => self.file_set(*names).counts(*task),
            None => OpCounts::new(),
        }
    }

    /// Returns the work counts that the report in the originals' format uses.
    fn work_units(&self, phase: usize) -> WorkUnits {
        match self.phases.get(phase) {
            Some(Phase::Pass(_, pass)) => WorkUnits::from([("bytes", pass.bytes)]),
            Some(Phase::Seeks) => {
                let seeks = &self.file.seeks;
                WorkUnits::from([("seeks", seeks.tickets), ("chunks updated", seeks.updates())])
            }
            Some(Phase::Files(_, task, names)) => {
                let set = self.file_set(*names);
                match task {
                    Task::DeleteEach | Task::DeleteRandom => {
                        WorkUnits::from([("files", set.files)])
                    }
                    _ => WorkUnits::from([("files", set.files), ("bytes", set.totals().bytes)]),
                }
            }
            Some(Phase::Unlink(_)) | None => WorkUnits::new(),
        }
    }

    fn unit(&self, phase: usize) -> Option<&'static str> {
        (self.phases.get(phase) == Some(&Phase::Seeks)).then_some("seeks")
    }

    fn tree(&self, phase: usize) -> Box<dyn Tree + '_> {
        Box::new(self.tree_after_phase(phase))
    }

    fn needs(&self) -> Needs {
        let (sequence, random) = (self.sequence.totals().bytes, self.random.totals().bytes);
        let small = self.sequence.files + self.sequence.directory_count();
        Needs {
            bytes: Bytes(self.file.size.max(sequence).max(random)),
            inodes: if self.sequence.files > 0 { small } else { 1 },
            longest_name: AlnumNames::MAX_LENGTH,
        }
    }
}

/// The tree after a phase: the large file, the small files, or nothing.
struct BonnieTree<'a> {
    work: &'a Bonnie,
    file: Option<State>,
    set: Option<&'a FileSet>,
}

impl Tree for BonnieTree<'_> {
    fn lookup(&self, path: &[u8]) -> Option<Expected> {
        match self.file {
            Some(state) if path == NAME => Some(self.work.file.expected(state)),
            _ => self.set?.lookup(path),
        }
    }

    fn files(&self) -> u64 {
        u64::from(self.file.is_some()) + self.set.map_or(0, |set| set.files)
    }

    fn directories(&self) -> u64 {
        self.set.map_or(0, FileSet::directory_count)
    }

    fn piece(&self, path: &[u8], offset: u64) -> Option<Payload> {
        match self.file {
            Some(state) if path == NAME => self.work.file.piece(state, offset),
            _ => self.set?.piece(path, offset),
        }
    }

    fn target(&self, _: &[u8]) -> Option<Vec<u8>> {
        self.set.map(FileSet::target)
    }
}
