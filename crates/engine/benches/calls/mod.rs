//! The engine's side of bench/bare.c: the same calls on the same names in the same order, made by
//! the engine as in a trial. Used by the bench on this host and by the count of instructions in the
//! lab (crates/agent/tests/instructions.rs).

use std::error::Error;
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fsdyno_engine::issue::sync::Sync;
use fsdyno_engine::{Recorder, run_phase};
use fsdyno_record::OpKind;
use fsdyno_workload::{Call, Contents, DirSlot, Op, OpSource, Setting, Share, Workload, workloads};

/// The phases of both sides, in order.
pub const PHASES: [&str; 6] = ["create", "stat", "rename", "readdir", "unlink", "write"];

/// What one phase took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Took {
    /// Nanoseconds of the calls that the bare loop makes too: making and opening the directory,
    /// which dirops does in its own phases and the bare loop before them, are left out.
    pub ns: u64,
    /// How many calls those were.
    pub calls: u64,
}

/// How often the directory is read.
const SCANS: u32 = 8;

/// Runs all phases on `files` files in `folder`, which is empty before and after.
pub fn engine(folder: &Path, files: u64) -> Result<[Took; PHASES.len()], Box<dyn Error>> {
    let contents = Arc::new(Contents::new(1));
    let mut recorder = Recorder::new();
    let mut run = |source: &mut dyn OpSource, once: &[OpKind]| -> Result<Took, Box<dyn Error>> {
        let mut issuer = Sync::new(File::open(folder)?.into(), Arc::clone(&contents));
        recorder.clear();
        settle();
        run_phase(source, &mut issuer, &mut recorder, &mut |_| {})?;
        let ops = recorder.ops();
        let both = ops.iter().filter(|(kind, _)| !once.contains(kind));
        Ok(both.fold(Took::default(), |took, (_, stats)| Took {
            ns: took.ns + stats.total_ns.0,
            calls: took.calls + stats.count,
        }))
    };
    const OPENING: &[OpKind] = &[OpKind::Mkdir, OpKind::Open];
    let empty = dirops(files, "0")?;
    let create = run(empty.ops(0, Share::WHOLE).as_mut(), OPENING)?;
    let stat = run(empty.ops(1, Share::WHOLE).as_mut(), OPENING)?;
    let rename = run(&mut Renames { files, next: 0 }, OPENING)?;
    let readdir = run(&mut Scans { left: SCANS }, &[])?;
    let unlink = run(empty.ops(2, Share::WHOLE).as_mut(), OPENING)?;
    fs::remove_dir(folder.join("d"))?;
    let full = dirops(files, "4096")?;
    let write = run(full.ops(0, Share::WHOLE).as_mut(), OPENING)?;
    run(full.ops(2, Share::WHOLE).as_mut(), OPENING)?;
    fs::remove_dir(folder.join("d"))?;
    Ok([create, stat, rename, readdir, unlink, write])
}

/// Create, stat and unlink of files of `size` bytes, in order.
pub fn dirops(files: u64, size: &str) -> Result<Box<dyn Workload>, Box<dyn Error>> {
    let kind = workloads::find("dirops")?;
    let files = files.to_string();
    let set = [("files", files.as_str()), ("size", size), ("stat", "yes")];
    let set = [set.as_slice(), &[("stat-order", "forward")]].concat();
    Ok(kind.build(&kind.resolve(&set)?, &Setting::seed(1))?)
}

/// Waits for what the kernel still owes for the phase before (inodes are freed by RCU), and then
/// does not begin idle. bench/bare.c does the same.
pub fn settle() {
    std::thread::sleep(Duration::from_millis(10));
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(1) {
        std::hint::spin_loop();
    }
}

/// `f0000000` becomes `g0000000`, and so on, and then each its own again.
struct Renames {
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
            at if at <= 2 * self.files => {
                if at == 1 || at == self.files + 1 {
                    self.turn(op);
                }
                if !(op.name.increment() && op.other.increment()) {
                    let number = (at - 1) % self.files;
                    op.name.set_number(1, number, DIGITS);
                    op.other.set_number(1, number, DIGITS);
                }
            }
            _ => return false,
        }
        self.next += 1;
        true
    }
}

impl Renames {
    /// The first name of either way.
    #[cold]
    fn turn(&self, op: &mut Op) {
        let there = self.next == 1;
        for (name, first) in [(&mut op.name, there), (&mut op.other, !there)] {
            name.clear();
            name.push(if first { b"f" } else { b"g" });
        }
        op.call = Call::Rename { dir: SLOT, to: SLOT };
    }
}

/// Reads the directory to its end, again and again.
struct Scans {
    left: u32,
}

impl OpSource for Scans {
    fn next(&mut self, op: &mut Op) -> bool {
        op.name.clear();
        op.name.push(b"d");
        op.call = Call::Scan { dir: DirSlot::ROOT };
        self.left = self.left.wrapping_sub(1);
        self.left < SCANS
    }
}
