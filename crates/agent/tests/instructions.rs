//! The instrument's own cost in the lab, exactly: at most 100 instructions an op above a bare loop.
//!
//! In the lab, one guest instruction takes one nanosecond. The instructions of the instrument are therefore the time of
//! a phase minus that of bench/bare.c for the same calls, on the same names in the same directory: create and close,
//! stat, rename, getdents64, unlink, and create, write and close. This program runs on both sides: started by cargo, it
//! boots a guest, in which it is PID 1 and runs the bare loop and the engine in turn on a tmpfs. The measured engine is
//! therefore the one that this test was built with, so the test must be built with `--release`.
//!
//! In each round, a side runs twice and the second run counts. The kernel's own work for a call depends on its previous
//! state: the slabs with free objects, the lengths of its lists. A side that ran directly after the other would find
//! the other's state, which costs dozens of instructions per call, as many as are measured; in a second run, each side
//! finds its own state.
//!
//! The test is skipped, with the reason, if QEMU, a kernel or cc is missing, or the build is not optimised. If CI is
//! set in the environment, a lab that cannot run is a failure.

#![allow(clippy::unwrap_used, reason = "tests may unwrap")]

#[path = "../../engine/benches/calls/mod.rs"]
mod calls;

use std::error::Error;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use calls::{PHASES, PhaseCost};
use fsdyno_lab::{Cache, Guest, Lab, LabOptions, Machine, Parts, Watch};
use fsdyno_record::mailbox::{self, Mailbox, Stage, Word};
use fsdyno_record::{Bytes, guest as layout};
use rustix::mount::{MountFlags, mount};

/// The maximum number of instructions that the instrument may execute for an op, in addition to the call.
const MAX_INSTRUCTIONS: f64 = 100.0;

/// The number of files of a phase: enough that it lasts many RCU grace periods, after which the kernel frees the
/// inodes of removed files. With 5,000 files, one grace period more or less in a phase changed the cost of each unlink
/// by up to 40 instructions.
const FILES: u64 = 20_000;

/// The number of rounds.
const ROUNDS: usize = 1;

/// A phase that is shown but not checked: one getdents64(2) returns 800 names in 200,000 instructions, and the timer
/// interrupts in it alone exceed the limit, on either side.
const SHOWN_ONLY: &str = "readdir";

/// Nanoseconds of each phase.
type Times = [u64; PHASES.len()];

/// The path of the bare loop in the guest.
const BARE_PROGRAM: &str = "/bin/bare";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments == layout::INIT_ARGUMENTS {
        run_in_guest();
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
            assert!(std::env::var_os("CI").is_none(), "CI must run the lab: {reason}");
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
    let unexpected_report = || panic!("unexpected report from the guest: {report}");
    let calls = means_of("calls ", &report).unwrap_or_else(unexpected_report);
    let bare = means_of("bare ", &report).unwrap_or_else(unexpected_report);
    let engine = means_of("engine ", &report).unwrap_or_else(unexpected_report);
    println!("instructions a call in the lab, mean of {ROUNDS} rounds of {FILES} files:");
    let mut out_of_range = Vec::new();
    for (index, phase) in PHASES.iter().enumerate() {
        let per_call = |time: u64| time as f64 / calls[index] as f64;
        let (bare, engine) = (per_call(bare[index]), per_call(engine[index]));
        let additional = engine - bare;
        println!("{phase:12} bare loop {bare:7.1}, engine {engine:7.1}: {additional:5.1} more");
        if *phase == SHOWN_ONLY {
            continue;
        }
        // A negative difference would mean that the two sides did not do the same work.
        if !(0.0..=MAX_INSTRUCTIONS).contains(&additional) {
            out_of_range.push(format!("{phase}: {additional:.1}"));
        }
    }
    assert!(out_of_range.is_empty(), "not between 0 and {MAX_INSTRUCTIONS} more: {out_of_range:?}");
}

/// Prepares the guest, or returns the reason why it cannot run here.
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
        files: vec![(BARE_PROGRAM.into(), fs::read(&bare).map_err(|error| error.to_string())?)],
        ..Parts::default()
    };
    lab.prepare(&parts).map_err(|error| error.to_string())
}

/// Returns the mean for each phase of the lines that consist of `prefix` and a number for each phase; `None` if the
/// lines are not those of all rounds.
fn means_of(prefix: &str, report: &str) -> Option<Times> {
    let lines = report.lines().filter_map(|line| line.strip_prefix(prefix));
    let rounds: Vec<Vec<u64>> = lines
        .map(|line| line.split_whitespace().filter_map(|word| word.parse().ok()).collect())
        .collect();
    let is_complete =
        rounds.len() == ROUNDS && rounds.iter().all(|times| times.len() == PHASES.len());
    is_complete.then(|| {
        std::array::from_fn(|phase| {
            rounds.iter().map(|times| times[phase]).sum::<u64>() / ROUNDS as u64
        })
    })
}

/// Runs as PID 1 of the guest: lets both sides take turns, reports, and switches the guest off. An error is the report,
/// or a panic, which ends the guest and is reported with the guest's last output.
fn run_in_guest() {
    for (kind, mount_point) in [("sysfs", "/sys"), ("devtmpfs", "/dev")] {
        mount(kind, mount_point, kind, MountFlags::empty(), None).unwrap();
    }
    let mailbox = Mailbox::new(mailbox_words()).unwrap();
    mailbox.set(Word::Stage, Stage::Running as u64);
    let report = take_turns().unwrap_or_else(|error| format!("failed: {error}"));
    mailbox.write_report(report.as_bytes()).unwrap();
    let _ = rustix::system::reboot(rustix::system::RebootCommand::Restart);
}

fn take_turns() -> Result<String, Box<dyn Error>> {
    mount("tmpfs", "/mnt", "tmpfs", MountFlags::empty(), None)?;
    let mut report = String::new();
    for _ in 0..ROUNDS {
        run_bare_loop()?;
        let bare = run_bare_loop()?;
        calls::engine(Path::new("/mnt"), FILES)?;
        let costs = calls::engine(Path::new("/mnt"), FILES)?;
        let words =
            |field: fn(PhaseCost) -> u64| costs.map(|costs| field(costs).to_string()).join(" ");
        let (engine, calls) = (words(|costs| costs.ns), words(|costs| costs.calls));
        report += &format!("bare {bare}\nengine {engine}\ncalls {calls}\n");
    }
    Ok(report)
}

/// Runs the bare loop and returns the times that it prints.
fn run_bare_loop() -> Result<String, Box<dyn Error>> {
    fs::create_dir("/mnt/d")?;
    let output = Command::new(BARE_PROGRAM).args([&FILES.to_string(), "/mnt/d"]).output()?;
    fs::remove_dir("/mnt/d")?;
    let text = String::from_utf8(output.stdout)?;
    let times = text.split_whitespace().filter(|word| word.parse::<u64>().is_ok());
    Ok(times.collect::<Vec<_>>().join(" "))
}

/// Maps the mailbox as the agent does.
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
    // SAFETY: the mapping is page-aligned, of this length, never unmapped, and any bits are a
    // valid AtomicU64; the other side also accesses it as 64-bit words only.
    unsafe { std::slice::from_raw_parts(start.cast(), mailbox::SIZE / 8) }
}
