//! Boots a real kernel in a real QEMU with a small PID 1 (`init.c`), and tests every way in which a guest can
//! end. The test is skipped, with the reason, if QEMU, a kernel or cc is missing; if CI is set in the environment, that
//! is a failure.

// clippy.toml allows unwrap in tests only; the helpers of this file are test code as well.
#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use fsdyno_lab::{
    Attach, Cache, DiskRegion, Finished, Lab, LabOptions, Machine, Parts, RunError, Watch,
};
use fsdyno_record::Bytes;
use fsdyno_record::mailbox::Progress;

/// Returns the lab and the parts of its guest, or the reason why there is none here.
fn lab(folder: &Path) -> Result<(Lab, Parts), String> {
    let init = folder.join("init");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/init.c");
    let mut compile = Command::new("cc");
    compile.args(["-static", "-O1", "-o"]).arg(&init).arg(source);
    let compiled = compile.output().map_err(|error| format!("cc: {error}"))?;
    if !compiled.status.success() {
        return Err(format!("cc: {}", String::from_utf8_lossy(&compiled.stderr)));
    }
    // The same kernel as the product's, downloaded if this machine has none yet.
    let options =
        LabOptions { kernel: None, qemu: None, cache: Cache::of_user().unwrap(), offline: false };
    let lab = Lab::find(&options, &|_| {}).map_err(|error| error.to_string())?;
    let parts = Parts { agent: init, modules: vec!["nbd nbds_max=2".into()], ..Parts::default() };
    Ok((lab, parts))
}

/// Returns a guest of 256 MiB with a disk of 8 GiB.
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

/// Runs a job in a guest.
type Run<'r> = &'r dyn Fn(&str, &mut dyn FnMut(&Progress) -> Watch) -> Result<Finished, RunError>;

fn is_full_test() -> bool {
    std::env::var("FSDYNO_TEST").is_ok_and(|it| it == "full")
}

fn go_on(_: &Progress) -> Watch {
    Watch::GoOn
}

/// Returns the child processes of this test that run QEMU.
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

/// A single test, so that guests do not compete for processors and one guest serves all checks.
#[test]
fn every_end_of_a_guest_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let lab = match lab(folder.path()) {
        Ok(lab) => lab,
        Err(reason) => {
            assert!(std::env::var_os("CI").is_none(), "CI has to run the lab: {reason}");
            // Directly to stderr, because the harness hides the output of a passed test.
            let _ = writeln!(std::io::stderr(), "skipped: {reason}");
            return;
        }
    };
    let [guest, equal] = [(), ()].map(|()| lab.0.prepare(&lab.1).unwrap());
    assert_eq!(guest.lab_id(), equal.lab_id(), "the same parts are the same lab");
    let boot: Run<'_> = &|job, watch| guest.run(&machine(job), job.as_bytes(), watch);
    two_runs_report_the_same_nanoseconds(boot);
    let cache = Cache::at(folder.path()).unwrap();
    saved_guests_resume_identically(&lab, &cache);
    // The ends of guests that boot cold are tested by the long tests.
    let saved = guest.snapshot(&machine("report"), &cache, &|_| {}, &mut go_on).unwrap();
    let resume: Run<'_> =
        &|job, watch| guest.run_from(&saved, &machine(job), job.as_bytes(), watch);
    let run = if is_full_test() { boot } else { resume };
    a_panic_has_the_console(run);
    a_silent_guest_has_stalled(run);
    a_stopped_guest_leaves_no_process(run);
    a_killed_qemu_has_died(run);
    assert_eq!(qemus(), [""; 0], "a QEMU is left");
}

fn two_runs_report_the_same_nanoseconds(run: Run<'_>) {
    let one = run("report", &mut go_on).unwrap();
    // The second runs concurrently with processes that occupy the processors.
    let mut burners: Vec<_> = (0..2)
        .map(|_| Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap())
        .collect();
    let two = run("report", &mut go_on);
    for burner in &mut burners {
        burner.kill().unwrap();
        burner.wait().unwrap();
    }
    let (one_text, two_text) = (text(&one), text(&two.unwrap()));
    assert_eq!(one_text, two_text);
    assert!(one_text.starts_with("2 --guest booted "), "{one_text}");
    // The megabyte that the guest wrote to its disk, in the host's blocks, not the 8 GiB.
    assert!((1 << 20..64 << 20).contains(&one.stored.0), "{}", one.stored);
    assert!(one.cpu.unwrap() > Duration::ZERO);
}

/// Resumes from a cached snapshot, from one made again, and from one that replaces a damaged one.
fn saved_guests_resume_identically((lab, parts): &(Lab, Parts), cache: &Cache) {
    let machine = machine("report");
    // A new guest each time, because a guest reads its snapshot only once.
    let resume = || {
        let guest = lab.prepare(parts).unwrap();
        let snapshot = guest.snapshot(&machine, cache, &|_| {}, &mut go_on).unwrap();
        let run = || text(&guest.run_from(&snapshot, &machine, b"report", &mut go_on).unwrap());
        assert_ne!(guest.components_from(&snapshot), *guest.components());
        (run(), run(), guest.components_from(&snapshot))
    };
    let cached = || {
        let files = std::fs::read_dir(cache.path().join("snapshots")).unwrap().flatten();
        files.max_by_key(|file| file.metadata().unwrap().len()).unwrap().path()
    };
    let expected = resume();
    assert_eq!(expected.0, expected.1);
    assert_eq!(resume(), expected, "the cached one");
    // A damaged one is made again, too.
    let rounds = if is_full_test() { 3 } else { 0 };
    for round in 0..rounds {
        std::fs::remove_file(cached()).unwrap();
        assert_eq!(resume(), expected, "made again, round {round}");
    }
    let file = std::fs::File::options().read(true).write(true).open(cached()).unwrap();
    let (mut byte, middle) = ([0], file.metadata().unwrap().len() / 2);
    file.read_exact_at(&mut byte, middle).unwrap();
    file.write_all_at(&[byte[0] ^ 1], middle).unwrap();
    assert_eq!(resume(), expected, "damaged");
}

fn text(finished: &Finished) -> String {
    String::from_utf8(finished.report.clone()).unwrap()
}

fn a_panic_has_the_console(run: Run<'_>) {
    let error = run("panic", &mut go_on).unwrap_err();
    assert!(matches!(error, RunError::Panicked { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("this guest will panic"), "{text}");
    assert!(text.contains("Attempted to kill init"), "{text}");
}

fn a_silent_guest_has_stalled(run: Run<'_>) {
    let error = run("loop", &mut go_on).unwrap_err();
    assert!(matches!(error, RunError::Stalled { .. }), "{error}");
}

fn a_stopped_guest_leaves_no_process(run: Run<'_>) {
    let mut seen = 0;
    let error = run("beat", &mut |progress| {
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

fn a_killed_qemu_has_died(run: Run<'_>) {
    let error = run("beat", &mut |progress| {
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
