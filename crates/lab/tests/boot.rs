//! Boots a real kernel in a real QEMU with a small PID 1 of its own (`init.c`), and meets every
//! end a guest can come to. Skipped, with the reason, where QEMU, a kernel or cc is missing; with
//! CI set in the environment that is a failure.

// clippy lets tests unwrap, but takes the helpers of a test file for something else.
#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use fsdyno_lab::{
    Attach, DiskRegion, Finished, Guest, Lab, LabOptions, Machine, Parts, RunError, Snapshot,
    Watch, user_cache,
};
use fsdyno_record::Bytes;
use fsdyno_record::mailbox::Progress;

/// The guest, or why there is none here.
fn guest(folder: &Path) -> Result<Guest, String> {
    let init = folder.join("init");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/init.c");
    let mut compile = Command::new("cc");
    compile.args(["-static", "-O1", "-o"]).arg(&init).arg(source);
    let compiled = compile.output().map_err(|error| format!("cc: {error}"))?;
    if !compiled.status.success() {
        return Err(format!("cc: {}", String::from_utf8_lossy(&compiled.stderr)));
    }
    // The same kernel as the product's, brought if this machine has none yet.
    let options = LabOptions { kernel: None, qemu: None, cache: user_cache(), offline: false };
    let lab = Lab::find(&options, &|_| {}).map_err(|error| error.to_string())?;
    let parts = Parts { agent: init, modules: vec!["nbd nbds_max=2".into()], ..Parts::default() };
    let guest = lab.prepare(&parts).map_err(|error| error.to_string())?;
    let again = lab.prepare(&parts).map_err(|error| error.to_string())?;
    assert_eq!(guest.lab_id(), again.lab_id(), "the same parts are the same lab");
    Ok(guest)
}

/// A guest of 256 MiB with a disk of 8 GiB.
fn machine(job: &str) -> Machine {
    Machine {
        image: None,
        accel: Default::default(),
        ram: Bytes(256 << 20),
        disks: vec![DiskRegion { region: Bytes(8 << 30), attach: Attach::Nbd }],
        input: None,
        log: None,
        workdir: std::env::temp_dir(),
        stall: Duration::from_secs(if job == "loop" { 5 } else { 60 }),
        deadline: Duration::from_secs(if job == "beat" { 15 } else { 120 }),
    }
}

fn run(
    guest: &Guest,
    job: &str,
    watch: &mut dyn FnMut(&Progress) -> Watch,
) -> Result<Finished, RunError> {
    guest.run(&machine(job), job.as_bytes(), watch)
}

fn go_on(_: &Progress) -> Watch {
    Watch::GoOn
}

/// Our child processes that are QEMUs.
fn qemus() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let children =
        tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let children: Vec<String> = children.collect();
    let pids = children.iter().flat_map(|list| list.split_whitespace());
    let is_qemu = |pid: &&str| {
        let command = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        command.contains("qemu-system")
    };
    pids.filter(is_qemu).map(String::from).collect()
}

/// One test, so that guests do not compete for the processors, and one guest is made for all.
#[test]
fn a_guest_comes_to_every_end_it_can_come_to() {
    let folder = tempfile::tempdir().unwrap();
    let guest = match guest(folder.path()) {
        Ok(guest) => guest,
        Err(reason) => {
            assert!(std::env::var_os("CI").is_none(), "CI has to run the lab: {reason}");
            // Past the harness, which keeps to itself what a test that passed has printed.
            let _ = writeln!(std::io::stderr(), "skipped: {reason}");
            return;
        }
    };
    two_runs_report_the_same_nanoseconds(&guest);
    saved_guests_go_on_alike(&guest);
    a_panic_carries_the_console(&guest);
    a_silent_guest_has_stalled(&guest);
    a_stopped_guest_leaves_no_process(&guest);
    a_killed_qemu_has_died(&guest);
    assert_eq!(qemus(), [""; 0], "a QEMU is left");
}

fn two_runs_report_the_same_nanoseconds(guest: &Guest) {
    let one = run(guest, "report", &mut go_on).unwrap();
    // The second runs beside something that takes the processors away from it.
    let mut burners: Vec<_> = (0..2)
        .map(|_| Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap())
        .collect();
    let two = run(guest, "report", &mut go_on);
    for burner in &mut burners {
        burner.kill().unwrap();
        burner.wait().unwrap();
    }
    let (one_text, two_text) = (text(&one), text(&two.unwrap()));
    assert_eq!(one_text, two_text);
    assert!(one_text.starts_with("3 agent --guest booted "), "{one_text}");
    // The megabyte that the guest wrote to its disk, in the host's blocks, not the 8 GiB.
    assert!((1 << 20..64 << 20).contains(&one.stored.0), "{}", one.stored);
    assert!(one.cpu.unwrap() > Duration::ZERO);
}

/// As those of one snapshot do; that they are those of a cold boot too was seen, and not always.
fn saved_guests_go_on_alike(guest: &Guest) {
    let cache = tempfile::tempdir().unwrap();
    let machine = machine("report");
    let snapshot = || guest.snapshot(&machine, cache.path(), &|_| {}, &mut go_on).unwrap();
    let go_on_from = |snapshot: &Snapshot| {
        guest.run_from(snapshot, &machine, b"report", &mut go_on).map(|finished| text(&finished))
    };
    let first = snapshot();
    let digits = go_on_from(&first).unwrap();
    assert_eq!(go_on_from(&first).unwrap(), digits);
    assert_eq!(go_on_from(&snapshot()).unwrap(), digits, "the one that was kept");
    let folder = cache.path().join("snapshots");
    std::fs::remove_dir_all(&folder).unwrap();
    let again = snapshot();
    if guest.components_from(&again) == guest.components_from(&first) {
        assert_eq!(go_on_from(&again).unwrap(), digits, "the one that was taken again");
    }
    assert_ne!(guest.components_from(&again), *guest.components());

    let kept = std::fs::read_dir(&folder).unwrap().flatten();
    let kept = kept.max_by_key(|entry| entry.metadata().unwrap().len()).unwrap();
    std::fs::File::options().write(true).open(kept.path()).unwrap().set_len(1 << 20).unwrap();
    let error = go_on_from(&snapshot()).unwrap_err().to_string();
    assert!(error.contains("migration failed"), "a damaged snapshot: {error}");
}

fn text(finished: &Finished) -> String {
    String::from_utf8(finished.report.clone()).unwrap()
}

fn a_panic_carries_the_console(guest: &Guest) {
    let error = run(guest, "panic", &mut go_on).unwrap_err();
    assert!(matches!(error, RunError::Panicked { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("this guest will panic"), "{text}");
    assert!(text.contains("Attempted to kill init"), "{text}");
}

fn a_silent_guest_has_stalled(guest: &Guest) {
    let error = run(guest, "loop", &mut go_on).unwrap_err();
    assert!(matches!(error, RunError::Stalled { .. }), "{error}");
}

fn a_stopped_guest_leaves_no_process(guest: &Guest) {
    let mut seen = 0;
    let error = run(guest, "beat", &mut |progress| {
        if progress.ops_done == 0 {
            return Watch::GoOn;
        }
        seen = qemus().len();
        Watch::Stop
    })
    .unwrap_err();
    assert!(matches!(error, RunError::Stopped), "{error}");
    assert_eq!((seen, qemus().len()), (1, 0));
}

fn a_killed_qemu_has_died(guest: &Guest) {
    let error = run(guest, "beat", &mut |progress| {
        if progress.ops_done > 0 {
            for pid in qemus() {
                Command::new("kill").args(["-KILL", &pid]).status().unwrap();
            }
        }
        Watch::GoOn
    })
    .unwrap_err();
    assert!(error.to_string().contains("QEMU was killed by signal 9"), "{error}");
}
