//! The instrument's own cost in the lab, exactly: at most 100 instructions an op above a bare loop.
//!
//! In the lab one guest instruction is one nanosecond, so that the time of a phase less the time of
//! bench/bare.c for the same calls, on the same names in the same directory, is what the instrument
//! executes: for create and close, stat, rename, getdents64, unlink, and create, write and close. This
//! one program is both sides: started by cargo it boots a guest, and in that guest it is PID 1, which
//! lets the bare loop and the engine take turns on a tmpfs. So the engine measured is the one that this
//! test was built with, and it has to be built with `--release`.
//!
//! In each round a side runs twice and the second time counts. The kernel's own work for a call depends
//! on what was there before: which slabs have free objects, how long its lists are. A side that ran
//! behind the other would pay for what that has left, some dozens of instructions in each call and as
//! much as is measured; behind itself, each finds what it has left itself.
//!
//! Skipped, with the reason, where QEMU, a kernel or cc is missing, or the build is not optimised;
//! with CI set in the environment a lab that cannot run is a failure.

#![allow(clippy::unwrap_used, reason = "a test tells its mistakes by stopping")]

#[path = "../../engine/benches/calls/mod.rs"]
mod calls;

use std::error::Error;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use calls::{PHASES, Took};
use fsdyno_lab::{Cache, Guest, Lab, LabOptions, Machine, Parts, Watch};
use fsdyno_record::mailbox::{self, Mailbox, Stage, Word};
use fsdyno_record::{Bytes, guest as layout};
use rustix::mount::{MountFlags, mount};

/// Most instructions that the instrument may execute for an op, in addition to the call.
const LIMIT: f64 = 100.0;

/// Files of a phase: enough that it lasts many grace periods of RCU, behind which the kernel frees the
/// inodes of what was removed. Of 5,000 files, one grace period more or less within the phase was up to 40
/// instructions in each unlink, on whichever side it fell.
const FILES: u64 = 20_000;

/// Rounds of both.
const ROUNDS: usize = 1;

/// One getdents64(2) here gives 800 names in 200,000 instructions, of which the timer's interrupts
/// alone are more than the limit, now on this side and now on that; it is shown only.
const SHOWN_ONLY: &str = "readdir";

/// Nanoseconds of each phase.
type Times = [u64; PHASES.len()];

/// Where the bare loop is in the guest.
const BARE: &str = "/bin/bare";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments == layout::INIT_ARGUMENTS {
        in_the_guest();
    } else if arguments.iter().any(|word| word == "--list") {
        println!("the_engine_adds_at_most_100_instructions_to_an_op: test");
    } else if cfg!(debug_assertions) {
        println!("skipped: the engine is not optimised in this build; use cargo test --release");
    } else {
        the_engine_adds_at_most_100_instructions_to_an_op();
    }
}

fn the_engine_adds_at_most_100_instructions_to_an_op() {
    let folder = tempfile::tempdir().unwrap();
    let guest = match guest(folder.path()) {
        Ok(guest) => guest,
        Err(reason) => {
            assert!(std::env::var_os("CI").is_none(), "CI has to run the lab: {reason}");
            println!("skipped: {reason}");
            return;
        }
    };
    let machine = Machine {
        image: None,
        accel: Default::default(),
        ram: Bytes(256 << 20),
        disks: Vec::new(),
        input: None,
        log: None,
        workdir: std::env::temp_dir(),
        stall: Duration::from_secs(120),
        deadline: Duration::from_secs(240),
    };
    let finished = guest.run(&machine, b"count", &mut |_| Watch::GoOn).unwrap();
    let report = String::from_utf8(finished.report).unwrap();
    let said = || panic!("the guest says: {report}");
    let calls = means_of("calls ", &report).unwrap_or_else(said);
    let bare = means_of("bare ", &report).unwrap_or_else(said);
    let engine = means_of("engine ", &report).unwrap_or_else(said);
    println!("instructions a call in the lab, mean of {ROUNDS} rounds of {FILES} files:");
    let mut beyond = Vec::new();
    for (at, phase) in PHASES.iter().enumerate() {
        let a_call = |time: u64| time as f64 / calls[at] as f64;
        let (bare, engine) = (a_call(bare[at]), a_call(engine[at]));
        let more = engine - bare;
        println!("{phase:12} bare loop {bare:7.1}, engine {engine:7.1}: {more:5.1} more");
        if *phase == SHOWN_ONLY {
            continue;
        }
        // Less than nothing would mean that the two did not do the same.
        if !(0.0..=LIMIT).contains(&more) {
            beyond.push(format!("{phase}: {more:.1}"));
        }
    }
    assert!(beyond.is_empty(), "not between 0 and {LIMIT} more: {beyond:?}");
}

/// The guest, or why there is none here.
fn guest(folder: &Path) -> Result<Guest, String> {
    let bare = folder.join("bare");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/bare.c");
    let mut compile = Command::new("cc");
    compile.args(["-static", "-O2", "-pthread", "-o"]).arg(&bare).arg(source);
    let compiled = compile.output().map_err(|error| format!("cc: {error}"))?;
    if !compiled.status.success() {
        return Err(format!("cc: {}", String::from_utf8_lossy(&compiled.stderr)));
    }
    // The same kernel as the product's, downloaded if this machine has none yet.
    let options =
        LabOptions { kernel: None, qemu: None, cache: Cache::of_user().unwrap(), offline: false };
    let lab = Lab::find(&options, &|_| {}).map_err(|error| error.to_string())?;
    let parts = Parts {
        agent: std::env::current_exe().map_err(|error| error.to_string())?,
        files: vec![(BARE.into(), fs::read(&bare).map_err(|error| error.to_string())?)],
        ..Parts::default()
    };
    lab.prepare(&parts).map_err(|error| error.to_string())
}

/// Of the lines that begin with `who` and go on with a number for each phase, the mean of each;
/// none if the lines are not those of all rounds.
fn means_of(who: &str, report: &str) -> Option<Times> {
    let lines = report.lines().filter_map(|line| line.strip_prefix(who));
    let rounds: Vec<Vec<u64>> = lines
        .map(|line| line.split_whitespace().filter_map(|word| word.parse().ok()).collect())
        .collect();
    let whole = rounds.len() == ROUNDS && rounds.iter().all(|times| times.len() == PHASES.len());
    whole.then(|| {
        std::array::from_fn(|phase| {
            rounds.iter().map(|times| times[phase]).sum::<u64>() / ROUNDS as u64
        })
    })
}

/// PID 1 of the guest: lets both take turns, reports, and waits to be switched off. A mistake is the
/// report, or a panic, which ends the guest and is reported with the guest's last output.
fn in_the_guest() {
    for (kind, at) in [("sysfs", "/sys"), ("devtmpfs", "/dev")] {
        mount(kind, at, kind, MountFlags::empty(), None).unwrap();
    }
    let mailbox = Mailbox::new(mailbox_words()).unwrap();
    mailbox.set(Word::Stage, Stage::Running as u64);
    let report = take_turns().unwrap_or_else(|error| format!("failed: {error}"));
    mailbox.put_report(report.as_bytes()).unwrap();
    let _ = rustix::system::reboot(rustix::system::RebootCommand::Restart);
}

fn take_turns() -> Result<String, Box<dyn Error>> {
    mount("tmpfs", "/mnt", "tmpfs", MountFlags::empty(), None)?;
    let mut report = String::new();
    // The first round warms up: pages and directory entries are there when the others come.
    for round in 0..=ROUNDS {
        bare()?;
        let bare = bare()?;
        calls::engine(Path::new("/mnt"), FILES)?;
        let took = calls::engine(Path::new("/mnt"), FILES)?;
        let words = |of: fn(Took) -> u64| took.map(|took| of(took).to_string()).join(" ");
        let (engine, calls) = (words(|took| took.ns), words(|took| took.calls));
        if round > 0 {
            report += &format!("bare {bare}\nengine {engine}\ncalls {calls}\n");
        }
    }
    Ok(report)
}

/// The times that the bare loop prints.
fn bare() -> Result<String, Box<dyn Error>> {
    fs::create_dir("/mnt/d")?;
    let output = Command::new(BARE).args([&FILES.to_string(), "/mnt/d"]).output()?;
    fs::remove_dir("/mnt/d")?;
    let text = String::from_utf8(output.stdout)?;
    let times = text.split_whitespace().filter(|word| word.parse::<u64>().is_ok());
    Ok(times.collect::<Vec<_>>().join(" "))
}

/// The mailbox, as the agent finds it.
fn mailbox_words() -> &'static [AtomicU64] {
    let folder = Path::new("/sys/bus/pci/devices").join(layout::MAILBOX_PCI);
    fs::write(folder.join("enable"), "1").unwrap();
    let memory = File::options().read(true).write(true).open(folder.join("resource2")).unwrap();
    // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing of ours.
    let start = unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let fd = memory.as_raw_fd();
        libc::mmap(std::ptr::null_mut(), mailbox::SIZE, protection, libc::MAP_SHARED, fd, 0)
    };
    assert_ne!(start, libc::MAP_FAILED, "no mailbox");
    // SAFETY: the mapping is page-aligned, as long as this says, never unmapped, and any bits are a
    // valid AtomicU64; the other side also accesses it as 64-bit words only.
    unsafe { std::slice::from_raw_parts(start.cast(), mailbox::SIZE / 8) }
}
