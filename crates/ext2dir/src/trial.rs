//! Runs a trial in the model: the workload's ops, phase by phase, in the model's time.

use std::collections::BTreeMap;

use fsdyno_disk::{DiskSpec, Partition};
use fsdyno_engine::Recorder;
use fsdyno_record::trial::{
    AgentReport, CheckReport, Conditions, Gap, Measured, Outcome, Phase, Split, VerifyReport,
};
use fsdyno_record::{Bytes, Job, Nanos, OpKind, seed};
use fsdyno_workload::{
    Call, DirSlot, Effect, Expect, ExpectedKind, GapKind, Op, PhaseSpec, Share, Tree, Workload,
};

use crate::cost;
use crate::device::Device;
use crate::dirent;
use crate::ext2::{Error, Ext2};
use crate::find::{self, Variant};
use crate::image;
use crate::volume::{Layout, ROOT};

/// Description of the model, for the notes of a record.
pub const DESCRIPTION: &str = "a model in this program, no kernel: directories and inodes of ext2 as in \
     2001, without file data; counts are exact, processor time is counts times stated costs, most of \
     them estimates (docs/classic-ext2.md)";

/// Revision of the model, raised whenever a result changes; a test checks the results of the current revision.
pub const REVISION: u32 = 1;

/// Name of the random stream that draws kupdate's phase.
const PHASE: &str = "kupdate";

/// The settings of a trial, in addition to its job.
#[derive(Clone, Copy)]
pub struct Setting<'a> {
    /// The search algorithm of directories.
    pub variant: &'static Variant,
    /// The disk.
    pub disk: &'a DiskSpec,
    /// The volume on it.
    pub partition: Partition,
    /// Block size in bytes.
    pub block_size: u64,
}

/// Checks that the model supports all ops of a workload.
///
/// # Errors
/// The first unsupported op, with its phase.
pub fn can_run(workload: &dyn Workload) -> Result<(), String> {
    if workload.prefill().is_some() {
        return Err("its first phase needs existing files, which the model cannot create".into());
    }
    for (index, phase) in workload.phases().iter().enumerate() {
        if workload.limit(index).is_some() {
            return Err(format!(
                "phase {} ends by time; the model supports only phases that end by work",
                phase.name
            ));
        }
        let mut ops = workload.ops(index, Share::WHOLE);
        let mut op = Op::default();
        while ops.next(&mut op) {
            if let Some(reason) = unsupported(&op) {
                return Err(format!("its phase {} {reason}", phase.name));
            }
        }
    }
    Ok(())
}

/// Returns why the model does not support an op; `None` if it does.
fn unsupported(op: &Op) -> Option<String> {
    if op.think.0 | op.compute.0 | op.due.0 != 0 {
        return Some("has think time".into());
    }
    match Step::of(&op.call) {
        Some(_) => None,
        None => Some(match op.call.kind() {
            Some(kind) => format!("calls {kind}"),
            None => "removes, copies or packs whole trees".into(),
        }),
    }
}

/// A call that the model supports.
enum Step {
    Mkdir(DirSlot),
    OpenDir(DirSlot, DirSlot),
    CloseDir(DirSlot),
    Create { dir: DirSlot, exclusive: bool },
    Lookup(DirSlot),
    Close,
    Unlink(DirSlot),
    Rmdir(DirSlot),
}

impl Step {
    #[deny(clippy::wildcard_enum_match_arm, reason = "a new effect requires a decision here")]
    fn of(call: &Call) -> Option<Step> {
        match call.facts().effect {
            Effect::Lookup { dir } => Some(Step::Lookup(dir)),
            Effect::MakeDir { dir } => Some(Step::Mkdir(dir)),
            Effect::OpenDir { dir, slot } => Some(Step::OpenDir(dir, slot)),
            Effect::CloseDir { slot } => Some(Step::CloseDir(slot)),
            Effect::Open { dir, flags, create: true, .. } => {
                Some(Step::Create { dir, exclusive: flags.exclusive })
            }
            Effect::Open { dir, .. } => Some(Step::Lookup(dir)),
            Effect::Close { .. } => Some(Step::Close),
            Effect::Remove { dir, directory: false } => Some(Step::Unlink(dir)),
            Effect::Remove { dir, directory: true } => Some(Step::Rmdir(dir)),
            Effect::None
            | Effect::MakeLink { .. }
            | Effect::Write { .. }
            | Effect::Advance { .. }
            | Effect::Resize { .. }
            | Effect::Rename { .. }
            | Effect::Link { .. }
            | Effect::RemoveTree { .. }
            | Effect::Sync(_)
            | Effect::Untracked(_) => None,
        }
    }
}

/// Runs a job. Every 1024 ops, `watch` receives the phase and the number of ops done; it returns false to stop the run.
///
/// Returns `None` if the run was stopped.
pub fn run(
    job: &Job,
    workload: &dyn Workload,
    setting: Setting<'_>,
    watch: &mut dyn FnMut(u64, u64) -> bool,
) -> Option<AgentReport> {
    let Setting { variant, disk, partition, block_size } = setting;
    let mut draws = seed::stream(job.seed, "hash_seed");
    let hash_seed = [0; 4].map(|_: u32| draws.draw() as u32);
    let layout = Layout::new(block_size, partition.size.0);
    let device = Device::new(disk, job.seed, partition, block_size);
    let phase = Nanos(seed::stream(job.seed, PHASE).draw());
    let mut trial = Trial {
        ext2: Ext2::new(variant, layout, hash_seed, device, phase),
        slots: vec![ROOT],
        measured: Measured::default(),
        ops: 0,
    };
    let result = trial.run(workload, watch);
    let reason = match result {
        Ok(true) => None,
        Ok(false) => return None,
        Err(reason) => Some(reason),
    };
    let conditions = Conditions {
        venue: "model".into(),
        kernel: "none".into(),
        cpu: "modelled, one instruction a nanosecond".into(),
        mount: format!("{} (model)", variant.name),
        features: [
            ("block size".to_string(), block_size.to_string()),
            ("inode size".to_string(), "128".to_string()),
            ("hash".to_string(), if variant.index { "half_md4" } else { "none" }.to_string()),
        ]
        .into(),
        partition_start: Some(partition.start),
        device_size: Some(Bytes(layout.blocks() * block_size)),
        notes: vec![format!("{} is {DESCRIPTION}", variant.name)],
        ..Conditions::default()
    };
    let outcome = if reason.is_none() { Outcome::Ok } else { Outcome::Failed };
    let (measured, series) = (trial.measured, Vec::new());
    Some(AgentReport { outcome, reason, conditions, measured, series })
}

struct Trial {
    ext2: Ext2,
    /// Inodes of open directories, by slot.
    slots: Vec<u32>,
    measured: Measured,
    ops: u64,
}

impl Trial {
    /// Runs the phases; returns false if the run was stopped.
    fn run(
        &mut self,
        workload: &dyn Workload,
        watch: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<bool, String> {
        let phases = workload.phases();
        for (index, spec) in phases.iter().enumerate() {
            self.run_gap(spec);
            if !self.run_phase(workload, index, spec, watch)? {
                return Ok(false);
            }
            if spec.verify {
                self.verify(workload.tree(index).as_ref())?;
            }
        }
        let problems = image::check(&self.ext2);
        let argv = vec!["the model's own check of its entries and indexes".to_string()];
        let clean = problems.is_empty();
        let output = problems.clone();
        self.measured.check = Some(CheckReport { argv, exit: None, clean, output });
        match problems.first() {
            Some(first) => Err(format!("the model's directories are inconsistent: {first}")),
            None => Ok(true),
        }
    }

    fn now(&self) -> Nanos {
        self.ext2.device().now()
    }

    fn run_gap(&mut self, spec: &PhaseSpec) {
        let from = self.now();
        match spec.gap {
            GapKind::None | GapKind::BackToBack => {}
            GapKind::Sync => self.ext2.sync(),
            GapKind::Drop | GapKind::Remount => self.ext2.remount(),
        }
        let name = spec.gap.name().to_string();
        self.measured.gaps.push(Gap {
            before: spec.name.to_string(),
            wanted: name.clone(),
            done: if spec.gap == GapKind::Drop { GapKind::Remount.name().into() } else { name },
            elapsed_ns: self.now().since(from),
        });
    }

    fn run_phase(
        &mut self,
        workload: &dyn Workload,
        index: usize,
        spec: &PhaseSpec,
        watch: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<bool, String> {
        let mut recorder = Recorder::new();
        let (started, cpu) = (self.now(), self.ext2.cpu);
        let (counts, device) = (self.ext2.counts, self.ext2.device().counters());
        let mut ops = workload.ops(index, Share::WHOLE);
        let (mut op, mut last) = (Op::default(), started);
        while ops.next(&mut op) {
            self.issue(&op).map_err(|reason| format!("phase {}: {reason}", spec.name))?;
            let now = self.now();
            if let Some(kind) = op.call.kind() {
                recorder.record(kind, now.since(last));
            }
            last = now;
            self.ops += 1;
            if self.ops % 1024 == 0 && !watch(index as u64, self.ops) {
                return Ok(false);
            }
        }
        let counted = recorder.counts();
        let expected: BTreeMap<OpKind, u64> = workload.counts(index, 1);
        if counted != expected {
            return Err(format!("phase {}: counted {counted:?}, expected {expected:?}", spec.name));
        }
        let returned = self.now();
        let dirty = self.ext2.dirty_blocks() * self.ext2.volume.layout.block_size;
        self.ext2.sync();
        let synced = self.now();
        self.ext2.flush_device();
        let durable = self.now();
        let cpu = self.ext2.cpu - cpu;
        let counts = self.ext2.counts.since(&counts).by_name();
        let operations = counts.iter().filter(|(_, n)| *n > 0);
        self.measured.phases.push(Phase {
            name: spec.name.to_string(),
            returned_ns: returned.since(started),
            synced_ns: Some(synced.since(started)),
            durable_ns: Some(durable.since(started)),
            cpu_ns: cpu,
            system_ns: cpu,
            split: Split::Exact,
            ops: recorder.ops(),
            books: operations.map(|(name, n)| (name.to_string(), *n)).collect(),
            device: Some(since(self.ext2.device().counters(), device)),
            dirty_bytes: Some(Bytes(dirty)),
            space_used: Bytes(self.space_used()),
            ..Phase::default()
        });
        Ok(true)
    }

    fn space_used(&self) -> u64 {
        let blocks: usize =
            self.ext2.directories.values().map(|directory| directory.addresses.len()).sum();
        blocks as u64 * self.ext2.volume.layout.block_size
    }

    fn issue(&mut self, op: &Op) -> Result<(), String> {
        let name = op.name.as_bytes();
        let Some(step) = Step::of(&op.call) else {
            return Err(unsupported(op).unwrap_or_default());
        };
        let inode_of = |slots: &[u32], slot: DirSlot| {
            let inode = slots.get(usize::from(slot.0)).copied().filter(|inode| *inode != 0);
            inode.ok_or("a directory is not open")
        };
        let ext2 = &mut self.ext2;
        let result = match step {
            Step::Mkdir(dir) => ext2.mkdir(inode_of(&self.slots, dir)?, name).map(drop),
            Step::OpenDir(dir, slot) => ext2.stat(inode_of(&self.slots, dir)?, name).map(|inode| {
                let index = usize::from(slot.0);
                self.slots.resize(self.slots.len().max(index + 1), 0);
                self.slots[index] = inode;
            }),
            Step::CloseDir(slot) => {
                ext2.compute(cost::CLOSE);
                self.slots[usize::from(slot.0)] = 0;
                Ok(())
            }
            Step::Create { dir, exclusive } => {
                ext2.create(inode_of(&self.slots, dir)?, name, exclusive).map(drop)
            }
            Step::Lookup(dir) => ext2.stat(inode_of(&self.slots, dir)?, name).map(drop),
            Step::Close => {
                ext2.compute(cost::CLOSE);
                Ok(())
            }
            Step::Unlink(dir) => ext2.unlink(inode_of(&self.slots, dir)?, name),
            Step::Rmdir(dir) => ext2.rmdir(inode_of(&self.slots, dir)?, name),
        };
        match (op.expect, result) {
            (Expect::Success, Ok(()))
            | (Expect::Missing, Err(Error::Missing))
            | (Expect::Exists, Err(Error::Exists)) => Ok(()),
            (_, result) => Err(format!("{}: {result:?}", op.name.display())),
        }
    }

    /// Compares every entry of every directory with the expected tree.
    fn verify(&mut self, tree: &dyn Tree) -> Result<(), String> {
        let report: &mut VerifyReport = &mut self.measured.verify;
        let (mut files, mut directories) = (0, 0);
        let mut pending: Vec<(u32, Vec<u8>)> = vec![(ROOT, Vec::new())];
        while let Some((inode, path)) = pending.pop() {
            let directory = self.ext2.directories.get(&inode);
            let directory = directory.ok_or("a directory's inode is missing")?;
            for number in 0..directory.blocks.count() {
                for (_, entry) in dirent::entries(directory.blocks.bytes(number)) {
                    if entry.inode == 0 || entry.name == b"." || entry.name == b".." {
                        continue;
                    }
                    let mut path = path.clone();
                    path.extend((!path.is_empty()).then_some(b'/'));
                    path.extend_from_slice(entry.name);
                    let is_directory = self.ext2.directories.contains_key(&entry.inode);
                    let is_expected = match tree.lookup(&path).map(|expected| expected.kind) {
                        Some(ExpectedKind::Directory) => is_directory,
                        Some(_) => self.ext2.files.contains(&entry.inode),
                        None => false,
                    };
                    if !is_expected {
                        return Err(format!(
                            "verify: {} is not expected",
                            String::from_utf8_lossy(&path)
                        ));
                    }
                    if is_directory {
                        directories += 1;
                        pending.push((entry.inode, path));
                    } else {
                        files += 1;
                    }
                }
            }
        }
        report.files += files;
        report.directories += directories;
        if (files, directories) != (tree.files(), tree.directories()) {
            return Err(format!(
                "verify: found {files} files and {directories} directories, expected {} and {}",
                tree.files(),
                tree.directories()
            ));
        }
        Ok(())
    }
}

/// Returns the change of a device's counters since `earlier`.
fn since(
    current: fsdyno_record::trial::Device,
    earlier: fsdyno_record::trial::Device,
) -> fsdyno_record::trial::Device {
    let difference = |a: Option<u64>, b: Option<u64>| Some(a? - b?);
    fsdyno_record::trial::Device {
        reads: current.reads - earlier.reads,
        writes: current.writes - earlier.writes,
        flushes: current.flushes - earlier.flushes,
        discards: current.discards - earlier.discards,
        bytes_read: Bytes(current.bytes_read.0 - earlier.bytes_read.0),
        bytes_written: Bytes(current.bytes_written.0 - earlier.bytes_written.0),
        seeks: difference(current.seeks, earlier.seeks),
        busy_ns: current.busy_ns.zip(earlier.busy_ns).map(|(a, b)| a - b),
        peak_in_flight: current.peak_in_flight,
    }
}

/// Finds the variant for a plan's kind of file system.
pub fn variant(kind: &str) -> Option<&'static Variant> {
    find::by_name(kind)
}
