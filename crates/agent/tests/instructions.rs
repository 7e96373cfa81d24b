//! The instrument's own cost in the lab, exactly: at most 150 instructions a call above a bare loop.
//!
//! In the lab one guest instruction is one nanosecond, so that the time of a phase less the time of
//! bench/bare.c for the same calls, on the same names in the same directory, is what the instrument
//! executes. This one program is both sides: started by cargo it boots a guest, and in that guest it
//! is PID 1, which lets the bare loop and the engine take turns on a tmpfs. So the engine measured is
//! the one that this test was built with, and it has to be built with `--release`.
//!
//! Skipped, with the reason, where QEMU, a kernel or cc is missing, or the build is not optimised;
//! with CI set in the environment a lab that cannot run is a failure.

#![allow(clippy::unwrap_used, reason = "a test tells its mistakes by stopping")]

use std::error::Error;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use fsdyno_engine::issue::sync::Sync;
use fsdyno_engine::{Recorder, run_phase};
use fsdyno_lab::{Guest, Lab, LabOptions, Machine, Parts, Watch, user_cache};
use fsdyno_record::mailbox::{self, Mailbox, Stage, Word};
use fsdyno_record::{Bytes, OpKind, guest as layout};
use fsdyno_workload::{Contents, Setting, Share, workloads};
use rustix::mount::{MountFlags, mount};

/// What the instrument may execute for a call, beside the call (issue 2).
const LIMIT: f64 = 150.0;

const FILES: u64 = 5_000;

/// Rounds of both; the median of an odd number is one of them.
const ROUNDS: usize = 7;

/// The phases, and the calls that each makes for a file.
const PHASES: [(&str, u64); 3] = [("create+close", 2), ("stat", 1), ("unlink", 1)];

/// Nanoseconds of each phase.
type Times = [u64; PHASES.len()];

/// Where the bare loop is in the guest.
const BARE: &str = "/bin/bare";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments == layout::INIT_ARGUMENTS {
        in_the_guest();
    } else if arguments.iter().any(|word| word == "--list") {
        println!("the_engine_adds_at_most_150_instructions_to_a_call: test");
    } else if cfg!(debug_assertions) {
        println!("skipped: the engine is not optimised in this build; use cargo test --release");
    } else {
        the_engine_adds_at_most_150_instructions_to_a_call();
    }
}

fn the_engine_adds_at_most_150_instructions_to_a_call() {
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
        ram: Bytes(256 << 20),
        disks: Vec::new(),
        workdir: std::env::temp_dir(),
        stall: Duration::from_secs(120),
        deadline: Duration::from_secs(240),
    };
    let finished = guest.run(&machine, b"count", &mut |_| Watch::GoOn).unwrap();
    let report = String::from_utf8(finished.report).unwrap();
    let medians = medians(&report).unwrap_or_else(|| panic!("the guest says: {report}"));
    println!("instructions a call in the lab, median of {ROUNDS} rounds of {FILES} files:");
    for (at, (phase, calls)) in PHASES.iter().enumerate() {
        let a_call = |time: u64| time as f64 / (FILES * calls) as f64;
        let (bare, engine) = (a_call(medians[0][at]), a_call(medians[1][at]));
        let more = engine - bare;
        println!("{phase:12} bare loop {bare:7.1}, engine {engine:7.1}: {more:5.1} more");
        // Less than nothing would mean that the two did not do the same.
        assert!((0.0..=LIMIT).contains(&more), "{phase}: {more:.1} more, the limit is {LIMIT}");
    }
}

/// The guest, or why there is none here.
fn guest(folder: &Path) -> Result<Guest, String> {
    let bare = folder.join("bare");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/bare.c");
    let mut compile = Command::new("cc");
    compile.args(["-static", "-O2", "-o"]).arg(&bare).arg(source);
    let compiled = compile.output().map_err(|error| format!("cc: {error}"))?;
    if !compiled.status.success() {
        return Err(format!("cc: {}", String::from_utf8_lossy(&compiled.stderr)));
    }
    // The same kernel as the product's, brought if this machine has none yet.
    let options = LabOptions { kernel: None, qemu: None, cache: user_cache(), offline: false };
    let lab = Lab::find(&options, &|_| {}).map_err(|error| error.to_string())?;
    let parts = Parts {
        agent: std::env::current_exe().map_err(|error| error.to_string())?,
        files: vec![(BARE.into(), fs::read(&bare).map_err(|error| error.to_string())?)],
        ..Parts::default()
    };
    lab.prepare(&parts).map_err(|error| error.to_string())
}

/// Of lines of `bare` or `engine` and the times of its phases, the medians of each; none if the
/// lines are not those of all rounds.
fn medians(report: &str) -> Option<[Times; 2]> {
    Some([medians_of("bare ", report)?, medians_of("engine ", report)?])
}

fn medians_of(who: &str, report: &str) -> Option<Times> {
    let lines = report.lines().filter_map(|line| line.strip_prefix(who));
    let rounds: Vec<Vec<u64>> = lines
        .map(|line| line.split_whitespace().filter_map(|word| word.parse().ok()).collect())
        .collect();
    let whole = rounds.len() == ROUNDS && rounds.iter().all(|times| times.len() == PHASES.len());
    whole.then(|| {
        std::array::from_fn(|phase| {
            let mut times: Vec<u64> = rounds.iter().map(|times| times[phase]).collect();
            times.sort_unstable();
            times[ROUNDS / 2]
        })
    })
}

/// PID 1 of the guest: lets both take turns, reports, and waits to be switched off. A mistake is the
/// report, or a panic, which ends the guest and is told with the guest's last words.
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
        fs::create_dir("/mnt/d")?;
        let bare = bare()?;
        fs::remove_dir("/mnt/d")?;
        let engine = engine()?.map(|time| time.to_string()).join(" ");
        fs::remove_dir("/mnt/d")?;
        if round > 0 {
            report += &format!("bare {bare}\nengine {engine}\n");
        }
    }
    Ok(report)
}

/// The times that the bare loop prints.
fn bare() -> Result<String, Box<dyn Error>> {
    let output = Command::new(BARE).args([&FILES.to_string(), "/mnt/d"]).output()?;
    let text = String::from_utf8(output.stdout)?;
    let times = text.split_whitespace().filter(|word| word.parse::<u64>().is_ok());
    Ok(times.collect::<Vec<_>>().join(" "))
}

/// The engine's times: what it recorded for the calls that the bare loop makes. The one close of the
/// directory in each phase is left in; it is a call of the same kind.
fn engine() -> Result<Times, Box<dyn Error>> {
    let kind = workloads::find("dirops")?;
    let files = FILES.to_string();
    let set = [("files", files.as_str()), ("stat", "yes"), ("stat-order", "forward")];
    let work = kind.build(&kind.resolve(&set)?, &Setting::seed(1))?;
    let contents = Arc::new(Contents::new(1));
    let mut recorder = Recorder::new();
    let mut times = Times::default();
    for (phase, time) in times.iter_mut().enumerate() {
        let mut issuer = Sync::new(File::open("/mnt")?.into(), Arc::clone(&contents));
        recorder.clear();
        run_phase(work.ops(phase, Share::WHOLE).as_mut(), &mut issuer, &mut recorder, &mut |_| {})?;
        let once = [OpKind::Mkdir, OpKind::Open];
        let ops = recorder.ops().into_iter().filter(|(kind, _)| !once.contains(kind));
        *time = ops.map(|(_, stats)| stats.total_ns.0).sum();
    }
    Ok(times)
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
