//! The engine's counterpart of bench/bare.c: the same calls on the same names in the same order, made by
//! the engine as in a trial. Used by the bench on this host and by the instruction count in the
//! lab (crates/agent/tests/instructions.rs).

use std::error::Error;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fsdyno_engine::issue::sync::SyncIssuer;
use fsdyno_engine::{PhaseRun, Recorder, run_phase, run_threads};
use fsdyno_record::OpKind;
use fsdyno_record::plan::IssuerPlan;
use fsdyno_workload::{
    Call, Compound, Contents, DirSlot, Needs, Op, OpCounts, OpSource, PhaseSpec, Setting, Share,
    Threads, Tree, Workload, workloads,
};

/// The phases of both sides, in order.
pub const PHASES: [&str; 6] = ["create", "stat", "rename", "readdir", "unlink", "write"];

/// The result of one phase.
#[derive(Clone, Copy, Debug, Default)]
pub struct PhaseCost {
    /// Nanoseconds of the calls that the bare loop makes too, without making and opening the directory,
    /// which dirops does in its own phases and the bare loop before them.
    pub ns: u64,
    /// Number of those calls.
    pub calls: u64,
}

/// Number of times that the directory is read.
const SCANS: u32 = 8;

/// Runs all phases on `files` files in `folder`, which is empty before and after.
#[allow(dead_code, reason = "the bench runs phase by phase")]
pub fn engine(folder: &Path, files: u64) -> Result<[PhaseCost; PHASES.len()], Box<dyn Error>> {
    let mut engine = Side::new(folder, files)?;
    let mut costs = [PhaseCost::default(); PHASES.len()];
    for (index, cost) in costs.iter_mut().enumerate() {
        settle();
        *cost = engine.phase(index)?;
    }
    Ok(costs)
}

/// The engine in a folder.
pub struct Side {
    folder: PathBuf,
    contents: Arc<Contents>,
    recorder: Recorder,
    /// For uncounted ops; never read, since that would evict other data from the caches.
    idle: Recorder,
    work: Phases,
}

impl Side {
    /// Creates the engine's side for `files` files in `folder`, which is empty.
    pub fn new(folder: &Path, files: u64) -> Result<Side, Box<dyn Error>> {
        // Calibrates the clock, once per process, outside the first phase.
        fsdyno_engine::calibrate();
        let work = Phases { files, empty: dirops(files, "0")?, full: dirops(files, "4096")? };
        let contents = Arc::new(Contents::new(1));
        Ok(Side {
            folder: folder.into(),
            contents,
            recorder: Recorder::new(),
            idle: Recorder::new(),
            work,
        })
    }

    /// Runs a phase of [`PHASES`]; they build on each other, in order.
    pub fn phase(&mut self, index: usize) -> Result<PhaseCost, Box<dyn Error>> {
        let cost = self.run(index)?;
        if PHASES[index] == "write" {
            self.run(CLEAR)?;
        }
        self.remove_empty(index)?;
        Ok(cost)
    }

    /// Runs a read-only phase without counting.
    #[allow(dead_code, reason = "the lab runs all phases twice")]
    pub fn warm(&mut self, index: usize) -> Result<(), Box<dyn Error>> {
        let mut issuer =
            SyncIssuer::new(File::open(&self.folder)?.into(), Arc::clone(&self.contents));
        let mut ops = self.work.ops(index, Share::WHOLE);
        run_phase(ops.as_mut(), &mut issuer, &mut self.idle, &mut |_| {})?;
        Ok(())
    }

    fn run(&mut self, index: usize) -> Result<PhaseCost, Box<dyn Error>> {
        let excluded: &[OpKind] = match PHASES.get(index) {
            Some(&"readdir") => &[],
            _ => &[OpKind::Mkdir, OpKind::Open],
        };
        let root = File::open(&self.folder)?.into();
        let mut issuer = SyncIssuer::new(root, Arc::clone(&self.contents));
        let mut ops = self.work.ops(index, Share::WHOLE);
        run_timed(ops.as_mut(), &mut issuer, &mut self.recorder, excluded)
    }

    /// Runs a phase in many threads; returns nanoseconds from the first start to the last return.
    #[allow(dead_code, reason = "the lab has one processor")]
    pub fn run_threaded(&mut self, index: usize, threads: u32) -> Result<u64, Box<dyn Error>> {
        let root = File::open(&self.folder)?;
        let phase_run = |phase| PhaseRun {
            work: &self.work,
            phase,
            threads: Threads::Any,
            requested: threads,
            issuer: IssuerPlan::Sync,
            root: root.as_fd(),
            roots: &[],
            device: None,
            contents: &self.contents,
            slots: None,
            process_share: None,
        };
        let outcome = run_threads(&phase_run(index), &mut || {}, &|_| {})?.outcome;
        if PHASES[index] == "write" {
            run_threads(&phase_run(CLEAR), &mut || {}, &|_| {})?;
        }
        self.remove_empty(index)?;
        Ok(outcome.returned.since(outcome.started).0)
    }

    /// Removes the directory after a phase that leaves no file.
    fn remove_empty(&self, index: usize) -> std::io::Result<()> {
        match PHASES[index] {
            "unlink" | "write" => fs::remove_dir(self.folder.join("d")),
            _ => Ok(()),
        }
    }
}

/// The phase that removes the files of the last phase.
const CLEAR: usize = PHASES.len();

/// All phases as a workload.
struct Phases {
    files: u64,
    empty: Box<dyn Workload>,
    full: Box<dyn Workload>,
}

impl Workload for Phases {
    fn ops(&self, phase: usize, share: Share) -> Box<dyn OpSource + Send + '_> {
        let part = |rank: u32| self.files * u64::from(rank) / u64::from(share.ranks);
        match PHASES.get(phase) {
            Some(&"create") => self.empty.ops(0, share),
            Some(&"stat") => self.empty.ops(1, share),
            Some(&"rename") => Box::new(Renames::new(part(share.rank), part(share.rank + 1))),
            Some(&"readdir") => Box::new(Scans { remaining: SCANS }),
            Some(&"unlink") => self.empty.ops(2, share),
            Some(_) => self.full.ops(0, share),
            None => self.full.ops(2, share),
        }
    }

    // The bench does not use the remaining methods.

    fn phases(&self) -> Vec<PhaseSpec> {
        Vec::new()
    }

    fn counts(&self, phase: usize, ranks: u32) -> OpCounts {
        self.empty.counts(phase, ranks)
    }

    fn tree(&self, phase: usize) -> Box<dyn Tree + '_> {
        self.empty.tree(phase)
    }

    fn needs(&self) -> Needs {
        self.full.needs()
    }
}

/// Runs the ops of a source, except those of a kind in `excluded`.
fn run_timed(
    source: &mut dyn OpSource,
    issuer: &mut SyncIssuer,
    recorder: &mut Recorder,
    excluded: &[OpKind],
) -> Result<PhaseCost, Box<dyn Error>> {
    run_phase(source, issuer, recorder, &mut |_| {})?;
    let mut cost = PhaseCost::default();
    for (_, stats) in recorder.ops().iter().filter(|(kind, _)| !excluded.contains(kind)) {
        cost.ns += stats.total_ns.0;
        cost.calls += stats.count;
    }
    recorder.clear();
    Ok(cost)
}

/// Builds the workload that creates, examines and removes files of `size` bytes, in order.
pub fn dirops(files: u64, size: &str) -> Result<Box<dyn Workload>, Box<dyn Error>> {
    let kind = workloads::find("dirops")?;
    let files = files.to_string();
    let parameters = [("files", files.as_str()), ("size", size), ("stat", "yes")];
    let parameters = [parameters.as_slice(), &[("stat-order", "forward")]].concat();
    Ok(kind.build(&kind.resolve(&parameters)?, &Setting::seed(1))?)
}

/// Waits for deferred kernel work of the previous phase (RCU frees inodes), then spins so that the phase
/// does not start idle. bench/bare.c does the same.
pub fn settle() {
    std::thread::sleep(Duration::from_millis(10));
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(1) {
        std::hint::spin_loop();
    }
}

/// Renames `f0000000` to `g0000000`, and so on, and then each back.
struct Renames {
    from: u64,
    files: u64,
    next: u64,
}

const DIGITS: usize = 7;
const SLOT: DirSlot = DirSlot(1);

impl OpSource for Renames {
    fn next(&mut self, op: &mut Op) -> bool {
        match self.next {
            0 => {
                op.name.push(b"d");
                op.call = Call::OpenDir { dir: DirSlot::ROOT, slot: SLOT };
            }
            position if position <= 2 * self.files => {
                if position == 1 || position == self.files + 1 {
                    self.set_prefixes(op);
                }
                if !(op.name.increment() && op.second_name.increment()) {
                    let number = self.from + (position - 1) % self.files;
                    op.name.set_number(1, number, DIGITS);
                    op.second_name.set_number(1, number, DIGITS);
                }
            }
            _ => return false,
        }
        self.next += 1;
        true
    }
}

impl Renames {
    /// Renames the files of a range of numbers.
    fn new(from: u64, to: u64) -> Renames {
        Renames { from, files: to - from, next: 0 }
    }

    /// Sets the name prefixes of a direction.
    #[cold]
    fn set_prefixes(&self, op: &mut Op) {
        let is_forward = self.next == 1;
        for (name, is_first_set) in [(&mut op.name, is_forward), (&mut op.second_name, !is_forward)]
        {
            name.clear();
            name.push(if is_first_set { b"f" } else { b"g" });
        }
        op.call = Call::Rename { dir: SLOT, to: SLOT };
    }
}

/// Reads the directory to its end, repeatedly.
struct Scans {
    remaining: u32,
}

impl OpSource for Scans {
    fn next(&mut self, op: &mut Op) -> bool {
        op.name.clear();
        op.name.push(b"d");
        op.call = Call::Compound(Compound::Scan { dir: DirSlot::ROOT });
        self.remaining = self.remaining.wrapping_sub(1);
        self.remaining < SCANS
    }
}
