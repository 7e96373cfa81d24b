//! dirops: create, look up and delete many empty files in one directory, as Phillips did in 2001.

mod params;

use std::collections::BTreeMap;

use fsdyno_record::{Bytes, OpKind};

use crate::items::Items;
use crate::numbered::Numbered;
use crate::op::{Call, DirSlot, FileSlot, Name, OpenFlags, Payload};
use crate::op_source::{NoOps, OpSource};
use crate::params::{ParamError, Values};
use crate::permutation::Order;
use crate::scrambled::{Alphabet, Scrambled};
use crate::workload::{
    Expected, GapKind, Needs, OpCounts, PhaseSpec, Share, Threads, Tree, Workload,
};
use crate::workloads::Kind;
use params::{DOC, PARAMS};

mod ops;

use ops::{Ops, Step};

/// This workload's entry in the table of workloads.
pub const KIND: Kind = Kind {
    name: "dirops",
    about: "Create, optionally stat, and delete many files in one directory.",
    source: "D. Phillips, indexed directories for ext2, Linux kernel mailing list, 2001",
    params: PARAMS,
    more_work: &["files"],
    doc: DOC,
    config: None,
    build: |values, setting| Ok(Box::new(Dirops::new(values, setting.seed)?)),
};

/// The directory that contains the files.
const DIRECTORY: &[u8] = b"d";
const DIRECTORY_SLOT: DirSlot = DirSlot(1);
const FILE: FileSlot = FileSlot(0);
const WRITE: OpenFlags = OpenFlags { write: true, ..OpenFlags::NONE };

const CREATE_EMPTY: Call =
    Call::Create { dir: DIRECTORY_SLOT, file: FILE, flags: OpenFlags::NONE, mode: 0o644 };
const CREATE: Call = Call::Create { dir: DIRECTORY_SLOT, file: FILE, flags: WRITE, mode: 0o644 };

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Create,
    Stat,
    Delete,
}

impl Phase {
    /// Returns the parameter with its order, which is also the name under which a random order is drawn.
    fn order_key(self) -> &'static str {
        match self {
            Phase::Create => "create-order",
            Phase::Stat => "stat-order",
            Phase::Delete => "order",
        }
    }
}

/// The names of the files.
#[derive(Clone, Debug)]
enum NamePattern {
    Numbered(Numbered),
    Scrambled(Scrambled),
}

impl NamePattern {
    fn new(values: &Values, files: u64, seed: u64) -> Result<NamePattern, ParamError> {
        let (prefix, digits) = (values.text("prefix"), values.number_or_zero("digits") as usize);
        let length = values.number("name-length").map(|length| length as usize);
        let alphabet = match values.text("names") {
            "hex" => Alphabet::Hex,
            "random" => Alphabet::Alphanumeric,
            _ => return NamePattern::new_numbered(prefix, digits, length, files),
        };
        let length = length.unwrap_or(prefix.len() + digits);
        let letters = length.saturating_sub(prefix.len());
        if letters == 0 || alphabet.names(letters) < files {
            let min_letters = (1..).find(|letters| alphabet.names(*letters) >= files).unwrap_or(1);
            return Err(ParamError::Conflict(format!(
                "names of {length} bytes with prefix={prefix} are too short to distinguish files={files} \
                 with names={}; use name-length={} or more",
                values.text("names"),
                prefix.len() + min_letters
            )));
        }
        Ok(NamePattern::Scrambled(Scrambled::new(prefix, alphabet, letters, seed)))
    }

    fn new_numbered(
        prefix: &str,
        digits: usize,
        length: Option<usize>,
        files: u64,
    ) -> Result<NamePattern, ParamError> {
        let unpadded = Numbered::new(prefix, digits);
        let longest = unpadded.length_of(files - 1);
        let Some(length) = length else { return Ok(NamePattern::Numbered(unpadded)) };
        if length < longest {
            return Err(ParamError::Conflict(format!(
                "name-length={length} is too short for prefix={prefix} and the digits of \
                 files={files}; use name-length={longest} or more"
            )));
        }
        let padded_prefix = format!("{prefix}{}", "x".repeat(length - longest));
        Ok(NamePattern::Numbered(Numbered::new(&padded_prefix, longest - prefix.len())))
    }

    /// Returns the length of the longest name of `files` files, in bytes.
    fn max_length(&self, files: u64) -> usize {
        match self {
            NamePattern::Numbered(names) => names.length_of(files - 1),
            NamePattern::Scrambled(names) => names.length(),
        }
    }

    /// Writes the common part of all names; called once.
    fn write_prefix(&self, name: &mut Name) {
        if let NamePattern::Numbered(names) = self {
            names.begin(name, 0);
        }
    }

    #[inline]
    fn write_number(&self, name: &mut Name, number: u64) {
        match self {
            NamePattern::Numbered(names) => names.finish(name, 0, number),
            NamePattern::Scrambled(names) => names.write(name, 0, number),
        }
    }

    fn parse(&self, text: &[u8]) -> Option<u64> {
        match self {
            NamePattern::Numbered(names) => names.parse(text),
            NamePattern::Scrambled(names) => names.parse(text),
        }
    }
}

/// The workload, with its parameters bound.
#[derive(Debug)]
struct Dirops {
    files: u64,
    size: u32,
    names: NamePattern,
    /// True if a file's name does not depend on the number of files.
    fixed_names: bool,
    gap: GapKind,
    phases: Vec<(Phase, Order)>,
    seed: u64,
}

impl Dirops {
    fn new(values: &Values, seed: u64) -> Result<Dirops, ParamError> {
        check_unused(values)?;
        let files = values.number_or_zero("files");
        let mut phases = vec![Phase::Create, Phase::Delete];
        if values.is_yes("stat") {
            phases.insert(1, Phase::Stat);
        }
        let order = |phase: Phase| {
            let key = phase.order_key();
            (phase, Order::named(values.text(key), files, seed, key))
        };
        Ok(Dirops {
            files,
            size: values.number_or_zero("size") as u32,
            names: NamePattern::new(values, files, seed)?,
            fixed_names: has_fixed_names(values, files),
            gap: if values.is_yes("remount") { GapKind::Remount } else { GapKind::None },
            phases: phases.into_iter().map(order).collect(),
            seed,
        })
    }

    /// Divides the order into equal ranges, one for each share; rank 0 creates the directory, and the
    /// other ranks wait for it.
    fn ops_of_share(&self, phase: usize, share: Share) -> Option<Ops<'_>> {
        let part = |rank: u32| self.files * u64::from(rank) / u64::from(share.ranks.max(1));
        let (from, to) = (part(share.rank), part(share.rank + 1));
        let (phase, order) = self.phases.get(phase)?;
        let first = match phase {
            Phase::Create if share.rank == 0 => Step::Mkdir,
            _ => Step::OpenDir,
        };
        let (call, next_step) = match phase {
            Phase::Create if self.size > 0 => (CREATE, Step::Write),
            Phase::Create => (CREATE_EMPTY, Step::Close),
            Phase::Stat => (Call::Stat { dir: DIRECTORY_SLOT }, Step::File),
            Phase::Delete => (Call::Unlink { dir: DIRECTORY_SLOT }, Step::File),
        };
        Some(Ops {
            work: self,
            order,
            is_in_sequence: matches!(
                (order, &self.names),
                (Order::Forward, NamePattern::Numbered(_))
            ),
            call,
            next_step,
            index: from,
            end: to,
            stride: 1,
            step: first,
            number: 0,
            opens_after: u64::from(matches!(phase, Phase::Create) && share.rank > 0),
        })
    }

    fn payload(&self, number: u64) -> Payload {
        Payload { id: number, offset: 0, length: self.size }
    }
}

/// Returns true if the name of a file is the same for a smaller number of files: numbered names of a given length are
/// padded in front of as many digits as the largest number has.
fn has_fixed_names(values: &Values, files: u64) -> bool {
    let is_padded = values.text("names") == "numbered" && values.number("name-length").is_some();
    let digits = values.number_or_zero("digits") as usize;
    !is_padded || Numbered::new("", digits).length_of(files - 1) == digits
}

/// Refuses parameters that would have no effect.
fn check_unused(values: &Values) -> Result<(), ParamError> {
    let (stat_order, digits) = (values.text("stat-order"), values.text("digits"));
    let (names, length) = (values.text("names"), values.text("name-length"));
    let message = if !values.is_yes("stat") && stat_order != "random" {
        format!("stat-order={stat_order} is the order of a phase that stat=no omits; use stat=yes")
    } else if names != "numbered" && length != "auto" && digits != "7" {
        format!(
            "digits={digits} has no effect if names={names} are of name-length={length}; leave \
             one of them out"
        )
    } else {
        return Ok(());
    };
    Err(ParamError::Conflict(message))
}

impl Workload for Dirops {
    fn phases(&self) -> Vec<PhaseSpec> {
        self.phases
            .iter()
            .enumerate()
            .map(|(index, (phase, _))| PhaseSpec {
                name: match phase {
                    Phase::Create => "create",
                    Phase::Stat => "stat",
                    Phase::Delete => "delete",
                },
                gap: if index == 0 { GapKind::None } else { self.gap },
                verify: *phase != Phase::Stat,
                threads: Threads::Any,
            })
            .collect()
    }

    fn ops(&self, phase: usize, share: Share) -> Box<dyn OpSource + Send + '_> {
        match self.ops_of_share(phase, share) {
            Some(ops) => Box::new(ops),
            None => Box::new(NoOps),
        }
    }

    fn stonewalled(&self) -> Option<(usize, &'static str)> {
        let in_order = matches!(self.phases.first(), Some((Phase::Create, Order::Forward)));
        (in_order && self.fixed_names).then_some((0, "files"))
    }

    fn after_stonewall(&self, max_items: u64, shares: u32) -> Option<Box<dyn Workload>> {
        let files = max_items.saturating_mul(u64::from(shares)).min(self.files);
        let order = |(phase, order): &(Phase, Order)| {
            (*phase, order.of_length(files, self.seed, phase.order_key()))
        };
        let phases = self.phases.iter().map(order).collect();
        let names = self.names.clone();
        Some(Box::new(Dirops { files, names, phases, ..*self }))
    }

    /// Assigns the files `r`, `r + n`, `r + 2 n` and so on to share `r` of `n`.
    fn items(&self, share: Share) -> Option<Box<dyn Items + Send + '_>> {
        let (phase, _) = self.stonewalled()?;
        Some(Box::new(self.ops_of_share(phase, share)?.interleaved(share)))
    }

    fn counts(&self, phase: usize, ranks: u32) -> OpCounts {
        let Some((phase, _)) = self.phases.get(phase) else { return OpCounts::new() };
        let ranks = u64::from(ranks);
        let mut counts = BTreeMap::from([(OpKind::Open, ranks), (OpKind::Close, ranks)]);
        match phase {
            Phase::Create => {
                counts.extend([(OpKind::Mkdir, 1), (OpKind::Create, self.files)]);
                counts.insert(OpKind::Close, self.files + ranks);
                if self.size > 0 {
                    counts.insert(OpKind::Write, self.files);
                }
            }
            Phase::Stat => drop(counts.insert(OpKind::Stat, self.files)),
            Phase::Delete => drop(counts.insert(OpKind::Unlink, self.files)),
        }
        counts
    }

    fn tree(&self, phase: usize) -> Box<dyn Tree + '_> {
        let is_deleted = self.phases.get(phase).is_some_and(|(phase, _)| *phase == Phase::Delete);
        Box::new(Directory { work: self, files: if is_deleted { 0 } else { self.files } })
    }

    fn needs(&self) -> Needs {
        Needs {
            bytes: Bytes(self.files * u64::from(self.size)),
            inodes: self.files + 1,
            longest_name: self.names.max_length(self.files).max(DIRECTORY.len()),
        }
    }
}

/// The directory with the first `files` files.
struct Directory<'a> {
    work: &'a Dirops,
    files: u64,
}

impl Tree for Directory<'_> {
    fn lookup(&self, path: &[u8]) -> Option<Expected> {
        let rest = path.strip_prefix(DIRECTORY)?;
        if rest.is_empty() {
            return Some(Expected::DIRECTORY);
        }
        let number = self.work.names.parse(rest.strip_prefix(b"/")?)?;
        (number < self.files).then(|| Expected::file(self.work.payload(number)))
    }

    fn files(&self) -> u64 {
        self.files
    }

    fn directories(&self) -> u64 {
        1
    }
}
