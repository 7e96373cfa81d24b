//! The lab from end to end: real kernels, real mkfs, modelled disks. Where the lab cannot run, these tests are skipped
//! with the reason; with CI set in the environment, that is a failure.
//!
//! `FSDYNO_TEST=full` (`make test-full`) adds the last test: full size, more seeds, more kernels.
#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

use std::io::Write;
use std::path::Path;
use std::process::Command;

use crate::common::lab::{fsdyno, lab, main_program, measured, run, skipped, trials};
use crate::common::specs::CLASSICAL;
use crate::common::{code, full, stderr};
use serde_json::Value;

/// Returns the lines of the phases over time, sorted, and asserts that each agrees with its trial's record.
fn checked_series(results: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(results.join("series.ndjson")).unwrap();
    let mut lines: Vec<String> = text.lines().map(String::from).collect();
    let trials = trials(results);
    for line in &lines {
        let series: Value = serde_json::from_str(line).unwrap();
        let alike = |trial: &&Value| {
            trial["trial_id"] == series["trial_id"] && trial["plan"]["label"] == series["label"]
        };
        let trial = trials.iter().find(alike).unwrap();
        for phase in series["phases"].as_array().unwrap() {
            let phases = trial["measured"]["phases"].as_array().unwrap();
            let whole = phases.iter().find(|whole| whole["name"] == phase["name"]).unwrap();
            assert_series_agrees(phase, whole);
        }
    }
    lines.sort();
    lines
}

/// Asserts that the intervals of a phase add up to its totals.
fn assert_series_agrees(phase: &Value, whole: &Value) {
    let list = |name: &str| -> Option<Vec<u64>> {
        Some(phase.get(name)?.as_array()?.iter().map(|n| n.as_u64().unwrap()).collect())
    };
    let name = &phase["name"];
    let (ops, written) = (list("ops").unwrap(), list("device_written_bytes"));
    assert!((2..=256).contains(&ops.len()), "{name}");
    for other in ["dirty_bytes", "writeback_bytes", "device_written_bytes"] {
        assert!(list(other).is_none_or(|other| other.len() == ops.len()), "{name} {other}");
    }
    let counts = whole["ops"].as_object().unwrap().values();
    let count: u64 = counts.map(|op| op["count"].as_u64().unwrap()).sum();
    assert_eq!(ops.iter().sum::<u64>(), count, "{name}");
    if let Some(written) = written {
        assert_eq!(written.iter().sum::<u64>(), whole["device"]["bytes_written"], "{name}");
    }
}

/// Compares guests that boot cold on an idle machine with two guests at the same time next to a busy process, with
/// request logs.
#[test]
fn trials_are_bit_identical_on_a_busy_machine_and_with_a_request_log() {
    let Some(folder) = lab() else { return };
    let (work, count) = if full() {
        (
            "dirops tarball --fs ext4 --fs xfs --set dirops.files=1000 --set dirops.stat=yes --set tarball.files=400",
            6,
        )
    } else {
        ("tarball --set tarball.files=200", 1)
    };
    let words = format!("{work} --fs btrfs --disk hdd-7200 --seed 7 --boot cold");
    let quiet = run(folder.path(), &format!("{words} --out quiet"));
    assert_eq!(code(&quiet), 0, "{}", stderr(&quiet));

    let mut burner = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
    let busy = run(folder.path(), &format!("{words} --out busy --jobs 2 --keep-log"));
    burner.kill().unwrap();
    burner.wait().unwrap();
    assert_eq!(code(&busy), 0, "{}", stderr(&busy));
    let first = measured(&folder.path().join("quiet"));
    assert_eq!(first.len(), count);
    assert_eq!(first, measured(&folder.path().join("busy")));
    let series = checked_series(&folder.path().join("quiet"));
    assert_eq!(series.len(), count);
    assert!(series.iter().all(|line| line.contains("\"dirty_bytes\"")), "{series:?}");
    assert_eq!(series, checked_series(&folder.path().join("busy")));

    for trial in trials(&folder.path().join("busy")) {
        assert_log_is_complete(folder.path(), &trial);
    }
    // Stored trials are not run again for their logs, and a note says so.
    assert!(!folder.path().join("quiet/logs").exists());
    let again = run(folder.path(), &format!("{words} --out quiet --keep-log"));
    assert_eq!(code(&again), 0);
    assert!(stderr(&again).contains("have no request log"), "{}", stderr(&again));
}

/// Compares the request log of a trial in the folder `busy` with the disk's counters.
fn assert_log_is_complete(folder: &Path, trial: &Value) {
    let log = trial["host"]["log"].as_str().unwrap();
    let words = format!("show log busy/{log} --format json");
    let shown = fsdyno(main_program(), folder, &words).output().unwrap();
    assert_eq!(code(&shown), 0, "{}", stderr(&shown));
    let text = String::from_utf8(shown.stdout).unwrap();
    let entries: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (at, phase) in trial["measured"]["phases"].as_array().unwrap().iter().enumerate() {
        let count_of = |op: &str| {
            let matching = entries.iter().filter(|entry| {
                entry["stage"] == "running"
                    && entry["phase"] == at
                    && entry["untimed"] == false
                    && entry["op"] == op
            });
            matching.count() as u64
        };
        let device = &phase["device"];
        for (op, counter) in [("read", "reads"), ("write", "writes"), ("flush", "flushes")] {
            assert_eq!(count_of(op), device[counter].as_u64().unwrap(), "phase {at}: {op}");
        }
    }
    assert!(entries.iter().any(|entry| entry["untimed"] == true), "mkfs is in the log, too");
}

/// Every workload at a small size: those with one thread, those that set their number of threads, and those that
/// threads can share.
const WORKLOADS: [&str; 3] = [
    "tarball source-tree maildir-read fdtree bonnie postmark capacity everyday bigfile \
     --set capacity.most=200 --set everyday.documents=10 --set everyday.songs=1 --set everyday.films=0 \
     --set everyday.zeros=50 --set bigfile.size=8M --set bigfile.preallocate=yes --set bigfile.reads=100 \
     --set bigfile.writes=100 --set tarball.files=200 --set source-tree.files=30 --set source-tree.directories=5 \
     --set maildir-read.reads=300 --set maildir-read.read-store=100 \
     --set fdtree.levels=2 --set fdtree.dirs=4 --set fdtree.files=5 \
     --set bonnie.file-size=4M --set bonnie.char=4K --set bonnie.seeks=200 --set bonnie.files=1 \
     --set postmark.number=100 --set postmark.transactions=200",
    "maildir tenant --set tenant.files=20 --set tenant.rounds=10 --set tenant.stream=8M \
     --set maildir.deliverers=4 --set maildir.ops=80 --set maildir.protocol=postfix",
    "dirops many-files churn calls --threads 3 --set calls.files=60 \
     --set dirops.files=300 --set many-files.widths=4/5 --set many-files.files=10 \
     --set churn.files=100 --set churn.seconds=1 --set churn.rate=3000",
];

/// A workload whose number of operations depends on the speed of the guest: no rate limits it.
const UNLIMITED: &str = "churn --threads 3 --set churn.files=300 --set churn.seconds=1";

#[test]
fn every_workload_is_verified_in_the_lab_and_bit_identical() {
    let Some(folder) = lab() else { return };
    for (index, words) in WORKLOADS.into_iter().chain(full().then_some(UNLIMITED)).enumerate() {
        // The operations of one thread are compared without a guest (crates/workload/tests), and here in make test-full.
        let outs: &[&str] = if index > 1 || full() { &["one", "two"] } else { &["one"] };
        for out in outs {
            // Cold guests are compared in the other test; one from a snapshot takes a third of the time.
            let words = format!("{words} --fs ext4 --boot snapshot --jobs 2 --out {out}");
            let done = run(folder.path(), &words);
            assert_eq!(code(&done), 0, "{words}: {}", stderr(&done));
        }
        let results: Vec<_> = outs.iter().map(|out| folder.path().join(out)).collect();
        for result in &results {
            assert_eq!(measured(result), measured(&results[0]));
            assert_eq!(checked_series(result), checked_series(&results[0]));
        }
        for result in &results {
            std::fs::remove_dir_all(result).unwrap();
        }
    }
    // A replay needs a recording, and in the lab a command is a replay, so both have separate tests.
    let all = WORKLOADS.iter().chain([&crate::replay::REPLAY_ARGS, &crate::replay::COMMAND_ARGS]);
    let known: Vec<&str> = all.flat_map(|words| words.split(" --").next()).collect();
    let known = known.join(" ");
    for kind in fsdyno_workload::workloads::ALL {
        assert!(known.split(' ').any(|name| name == kind.name), "{} is not run here", kind.name);
    }
}

/// Runs one trial and asserts its success.
pub(crate) fn run_ok(folder: &Path, words: &str) -> Value {
    let output = run(folder, &format!("{words} --out out"));
    assert_eq!(code(&output), 0, "{words}: {}", stderr(&output));
    let trial = trials(&folder.join("out")).remove(0);
    std::fs::remove_dir_all(folder.join("out")).unwrap();
    trial
}

#[test]
fn locked_memory_caches_no_file_and_requested_sysctls_are_in_effect() {
    let Some(folder) = lab() else { return };
    let words = "bonnie --fs ext4 --ram 256M --set file-size=60M --set seeks=200 \
            --set char=0 --set files=0 --verify names";
    let seeks = |trial: &Value| {
        let phases = trial["measured"]["phases"].as_array().unwrap();
        let seeks = phases.iter().find(|phase| phase["name"] == "seeks").unwrap();
        seeks["device"]["reads"].as_u64().unwrap()
    };
    let unlimited = run_ok(folder.path(), words);
    assert_eq!(seeks(&unlimited), 0, "a file in memory was read from the disk");
    let sysctls = "--sysctl vm.dirty_bytes=9000000 --sysctl fs.file-max=123456";
    let limited = run_ok(folder.path(), &format!("{words} --cacheable 48M {sysctls}"));
    // A run had 74 reads; the cache holds four fifths of the file.
    assert!(seeks(&limited) > 30, "{} reads for 200 seeks", seeks(&limited));
    let wanted = f64::from(48 << 20);
    let cacheable = limited["conditions"]["cacheable_memory"].as_f64().unwrap();
    assert!(
        (cacheable / wanted - 1.0).abs() < 0.01,
        "{cacheable} bytes can cache files, not {wanted}"
    );
    let sysctls = &limited["conditions"]["sysctls"];
    assert_eq!(sysctls["vm.dirty_bytes"], "9000000", "{sysctls}");
    assert_eq!(sysctls["fs.file-max"], "123456", "{sysctls}");
    assert_eq!(
        sysctls["vm.dirty_ratio"], "0",
        "the kernel sets the one that is not in effect to 0"
    );
}

#[test]
fn missing_sysctls_and_schedulers_fail_by_name_before_the_first_phase() {
    let Some(folder) = lab() else { return };
    for (words, why) in [
        ("--ram 256M --cacheable 185M", "--cacheable 185 MiB is not possible with --ram 256 MiB"),
        (
            "--ram 256M --sysctl kernel.no_such_thing=1",
            "set sysctl kernel.no_such_thing to 1: this kernel has no such",
        ),
    ] {
        let output = run(folder.path(), &format!("dirops --fs ext4 {words} --out out"));
        assert_eq!(code(&output), 4, "{}", stderr(&output));
        let trial = trials(&folder.path().join("out")).remove(0);
        std::fs::remove_dir_all(folder.path().join("out")).unwrap();
        let reason = trial["reason"].as_str().unwrap();
        assert!(reason.contains(why), "{reason}");
        assert_eq!(trial["measured"]["phases"].as_array().unwrap().len(), 0);
    }
}

#[test]
fn another_cpu_changes_the_cpu_time_and_not_the_disk_time() {
    if !full() {
        return skipped(
            "the processor model is tested in processor.rs and why.rs (make test-full)",
        );
    }
    let Some(folder) = lab() else { return };
    let words = "tarball --fs ext4 --set files=300 --cpu";
    // Many other tests have a guest of speed 1; make test-full also compares a fast one with it.
    let plain = run_ok(folder.path(), &format!("{words} 1"));
    // A speed is not a processor profile (processor.rs).
    assert!(plain["lab"]["processor"].is_null());
    assert!(plain["measured"]["phases"][0]["processor"].is_null());
    let others = [("1/2", 2.0), ("2", 0.5)];
    let cpu = |trial: &Value| trial["measured"]["phases"][0]["cpu_ns"].as_f64().unwrap();
    for (speed, factor) in others {
        let trial = run_ok(folder.path(), &format!("{words} {speed}"));
        let ratio = cpu(&trial) / cpu(&plain);
        assert!((ratio / factor - 1.0).abs() < 0.05, "{ratio:.3} times the CPU time, not {factor}");
        assert_ne!(trial["lab_id"], plain["lab_id"]);
        // The removal reads from the disk with a cold cache: the number and the service times of the requests remain.
        let busy = |trial: &Value| {
            let device = &trial["measured"]["phases"][1]["device"];
            device["busy_ns"].as_f64().unwrap() / device["reads"].as_f64().unwrap()
        };
        let ratio = busy(&trial) / busy(&plain);
        assert!((0.8..1.25).contains(&ratio), "the disk took {ratio:.3} times as long for a read");
    }
}

#[test]
fn every_scheduler_is_in_effect_and_two_that_reorder_are_bit_identical() {
    let Some(folder) = lab() else { return };
    let words = "tarball --fs ext4 --set files=200 --scheduler";
    // mq-deadline is the default, which other tests repeat.
    let schedulers = [("bfq", true), ("none", false), ("mq-deadline", true), ("kyber", false)];
    for (name, twice) in &schedulers[..if full() { 4 } else { 1 }] {
        // A snapshot for one or two trials takes longer than their cold boots.
        let words = format!("{words} {name} --boot cold");
        let trial = run_ok(folder.path(), &words);
        let scheduler = trial["conditions"]["queue"]["scheduler"].as_str().unwrap();
        assert!(scheduler.contains(&format!("[{name}]")), "{scheduler}");
        if *twice {
            let again = run_ok(folder.path(), &words);
            assert_eq!(trial["measured"], again["measured"], "{name}");
        }
    }
}

#[test]
fn every_file_system_is_made_filled_verified_and_checked_clean() {
    let Some(folder) = lab() else { return };
    // The test at full size has both workloads.
    for trial in all_kinds(folder.path(), &["tarball"], "--set tarball.files=300", 1) {
        assert_eq!(trial["measured"]["verify"]["files"], 300, "{trial}");
    }
}

/// Runs workloads on every file system, asserts their success, and returns the trials.
fn all_kinds(folder: &Path, workloads: &[&str], words: &str, repeat: usize) -> Vec<Value> {
    let kinds = CLASSICAL.map(|kind| format!("--fs {kind}")).join(" ");
    let out = folder.join(format!("all {}", words.replace('/', "-")));
    let words = format!(
        "{} {words} {kinds} --repeat {repeat} --jobs 2 --out '{}'",
        workloads.join(" "),
        out.display()
    );
    let output = run(folder, &words);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let trials = trials(&out);
    assert_eq!(trials.len(), workloads.len() * CLASSICAL.len() * repeat);
    for trial in &trials {
        let measured = &trial["measured"];
        assert_eq!(measured["check"]["clean"], true, "{trial}");
        assert_eq!(measured["verify"]["problems"], 0, "{trial}");
        let phases = measured["phases"].as_array().unwrap();
        assert!(phases.iter().all(|phase| phase["durable_ns"].is_u64()), "{trial}");
        let flushes = phases.iter().any(|phase| phase["device"]["flushes"].as_u64() > Some(0));
        assert!(flushes, "no flush reached the disk: {trial}");
        // The first mount of ReiserFS reads the whole unused journal, which takes 0.38 s of the guest's time; that time
        // belongs to its creation.
        let mount = measured["setup"]["mount_ns"].as_u64().unwrap();
        let reads_its_journal = trial["plan"]["label"] == "reiserfs" && mount > 100_000_000;
        assert!(!reads_its_journal, "{trial}");
    }
    trials
}

#[test]
fn requests_in_flight_fill_most_of_the_disks_queue_and_no_more() {
    let Some(folder) = lab() else { return };
    // jfs writes thousands of small blocks all over its maps when files are removed; those of a large file system.
    let words = "tarball --fs jfs --set files=3000 --seed 3 --size 32G --out out";
    let output = run(folder.path(), words);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let trial = trials(&folder.path().join("out")).remove(0);
    let depth = trial["plan"]["medium"]["disk"]["spec"]["queue"]["depth"].as_u64().unwrap();
    let device = &trial["measured"]["phases"][1]["device"];
    let peak = device["peak_in_flight"].as_u64().unwrap();
    // Runs had 31 and 32 of 32 requests; an unbounded queue would let 128 through.
    assert!((depth / 2..=depth).contains(&peak), "{device}");
}

#[test]
fn a_solid_state_drive_is_trimmed_if_the_mount_requests_it_and_is_bit_identical() {
    let Some(folder) = lab() else { return };
    let words = "tarball --fs plain=ext4 --fs 'trimmed=ext4 @ discard' --disk ssd-sata --boot snapshot --set files=200";
    for out in ["once", "again"] {
        let output = run(folder.path(), &format!("{words} --out {out}"));
        assert_eq!(code(&output), 0, "{}", stderr(&output));
    }
    let once = folder.path().join("once");
    assert_eq!(measured(&once), measured(&folder.path().join("again")));
    for trial in trials(&once) {
        let trimmed = trial["plan"]["label"] == "trimmed";
        // Files are removed in the last phase; ext4 trims their blocks when it commits.
        let device = &trial["measured"]["phases"][1]["device"];
        assert_eq!(device["discards"].as_u64().unwrap() > 0, trimmed, "{device}");
        assert!(device["seeks"].is_null(), "a seek of a drive without an arm: {device}");
    }
}

#[test]
fn a_directory_without_an_index_is_slower_in_proportion_to_its_length() {
    let Some(folder) = lab() else { return };
    let (files, times) = if full() { (10_000, 10.0) } else { (3_000, 3.0) };
    let words = format!(
        "dirops --disk instant --fs indexed=ext4 --fs 'linear=ext4 -O ^dir_index' --boot snapshot \
         --set files={files} --jobs 2 --out out"
    );
    let output = run(folder.path(), &words);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let create = |label: &str| {
        let trials = trials(&folder.path().join("out"));
        let trial = trials.iter().find(|trial| trial["plan"]["label"] == label).unwrap();
        let features = trial["conditions"]["features"]["Filesystem features"].as_str().unwrap();
        assert_eq!(features.contains("dir_index"), label == "indexed");
        trial["measured"]["phases"][0]["returned_ns"].as_f64().unwrap()
    };
    let ratio = create("linear") / create("indexed");
    assert!(ratio >= times, "only {ratio:.2} times");
}

#[test]
fn a_small_guest_writes_more_than_twice_its_memory() {
    if !full() {
        return skipped("a full file system is written in full.rs (make test-full)");
    }
    let Some(folder) = lab() else { return };
    let words = "tarball --fs ext4 --ram 112M --set files=256 --set size=1M --out out";
    let output = run(folder.path(), words);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let trial = trials(&folder.path().join("out")).remove(0);
    assert_eq!(trial["measured"]["phases"][0]["bytes_written"], 256 << 20);
    assert_eq!(trial["measured"]["verify"]["bytes"], 256 << 20);
}

#[test]
fn every_file_system_is_clean_at_full_size_with_three_seeds_and_on_other_kernels() {
    if std::env::var_os("FSDYNO_TEST").is_none_or(|which| which != "full") {
        skipped("it takes a quarter of an hour (make test-full)");
        return;
    }
    let Some(folder) = lab() else { return };
    let both = ["dirops", "tarball"];
    all_kinds(folder.path(), &both, "--set dirops.files=20000 --set tarball.files=5000", 3);
    for (kernel, release) in [("5.10", "5.10."), ("6.12", "6.12.")] {
        let small = "--set dirops.files=2000 --set tarball.files=1000";
        for trial in all_kinds(folder.path(), &both, &format!("{small} --kernel {kernel}"), 1) {
            let booted = trial["conditions"]["kernel"].as_str().unwrap();
            assert!(booted.starts_with(release), "{trial}");
        }
    }
    let large = "tarball --fs ext4 --set files=100000 --verify sampled --out large";
    let output = run(folder.path(), large);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
}

/// Measures the rate that docs/disks.md compares with a published one. The test asserts that it repeats exactly; its
/// difference from the published rate is only printed.
#[test]
fn the_seeks_of_bonnie_on_the_disk_of_2006_are_bit_identical() {
    if std::env::var_os("FSDYNO_TEST").is_none_or(|which| which != "full") {
        skipped("it writes and reads 1.8 GB ten times in the lab (make test-full)");
        return;
    }
    let Some(folder) = lab() else { return };
    let words = "bonnie --fs 'ext3 @ barrier=0' --disk ata-2006 --ram 720M --set program=bonnie \
        --set file-size=1800M --set gap=back-to-back";
    let all: Vec<_> = ["once", "again"]
        .map(|out| {
            let output = run(folder.path(), &format!("{words} --out {out}"));
            assert_eq!(code(&output), 0, "{}", stderr(&output));
            measured(&folder.path().join(out))
        })
        .into();
    assert!(all[0] == all[1], "two runs of one trial differ");
    let trial = trials(&folder.path().join("once")).remove(0);
    let phases = trial["measured"]["phases"].as_array().unwrap();
    let seeks = phases.iter().find(|phase| phase["name"] == "seeks").unwrap();
    let rate = 4000.0 / (seeks["returned_ns"].as_u64().unwrap() as f64 / 1e9);
    let found = trial["conditions"]["cacheable_memory"].as_u64().unwrap() >> 20;
    let _ = writeln!(
        std::io::stderr(),
        "bonnie's seeks on ata-2006, ext3, {found} MiB cacheable: {rate:.1} a second; published \
         165.3: {:+.1} %",
        (rate / 165.3 - 1.0) * 100.0
    );
}
