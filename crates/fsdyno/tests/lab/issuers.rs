//! Issuers on a directory of this host: many threads, io_uring, null; and a file system that fills up
//! during a run.

#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

use crate::common;
use std::ffi::CString;
use std::path::Path;

use crate::common::{code, leftover_folders, run, stderr, stdout};
use fsdyno_record::plan::{MediumPlan, VenuePlan, VerifyMode, WorkloadPlan};
use fsdyno_record::trial::{AgentReport, Outcome};
use fsdyno_record::{Job, Nanos, Plan};
use fsdyno_venue::{HostVenue, Venue, Watch};
use fsdyno_workload::workloads;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use serde_json::Value;

/// Runs fsdyno and returns the exit code, the output and the only record.
fn record(on: &Path, args: &str) -> (i32, String, Value) {
    let out = tempfile::tempdir().unwrap();
    let output = run(out.path(), &format!("run {args} --on {} --out r", on.display()));
    let printed = stdout(&output) + &stderr(&output);
    let line = std::fs::read_to_string(out.path().join("r/trials.ndjson"));
    let line = line.unwrap_or_else(|error| panic!("{error}: {printed}"));
    (code(&output), printed, serde_json::from_str(line.lines().next().unwrap()).unwrap())
}

fn is_empty(folder: &Path) -> bool {
    leftover_folders(folder).is_empty() && std::fs::read_dir(folder).unwrap().next().is_none()
}

#[test]
fn eight_threads_share_the_work_and_their_cpu_time_is_counted() {
    let place = tempfile::tempdir().unwrap();
    let args = "dirops --threads 8 --set files=2000 --set size=1000";
    let (code, printed, trial) = record(place.path(), args);
    assert_eq!((code, &trial["outcome"]), (0, &Value::from("ok")), "{printed}");
    let create = &trial["measured"]["phases"][0];
    assert_eq!(create["ops"]["create"]["count"], 2000);
    assert_eq!(create["ops"]["open"]["count"], 8, "each opens the directory");
    assert_eq!(trial["measured"]["verify"]["files"], 2000);
    // On any number of processors, the CPU time of the threads is that of thousands of calls.
    assert!(create["cpu_ns"].as_u64().unwrap() > 1_000_000, "{}", create["cpu_ns"]);
    assert!(is_empty(place.path()));
}

#[test]
fn more_threads_than_the_limit_of_open_files_permits_do_their_work() {
    let place = tempfile::tempdir().unwrap();
    let (code, printed, _) = record(place.path(), "dirops --threads 512 --set files=1024");
    assert_eq!(code, 0, "{printed}");
}

#[test]
fn a_ring_does_the_same_work() {
    let place = tempfile::tempdir().unwrap();
    let args = "dirops --threads 2 --issuer io_uring:32 --set files=2000 --set size=1000";
    let (code, printed, trial) = record(place.path(), args);
    let reason = trial["reason"].as_str().unwrap_or_default();
    if reason.starts_with("io_uring: ") {
        assert!(code == 4 && reason.contains("use --issuer sync"), "{printed}");
        eprintln!("skipped: {reason}");
        return;
    }
    assert_eq!((code, &trial["outcome"]), (0, &Value::from("ok")), "{printed}");
    assert_eq!(trial["plan"]["issuer"], "io_uring:32");
    assert_eq!(trial["measured"]["phases"][0]["ops"]["open"]["count"], 64);
    assert_eq!(trial["measured"]["verify"]["files"], 2000);
    assert!(is_empty(place.path()));
}

#[test]
fn a_trial_without_calls_is_marked_as_no_result() {
    let place = tempfile::tempdir().unwrap();
    let (code, printed, trial) = record(place.path(), "dirops --issuer null --set files=100000");
    assert_eq!((code, &trial["outcome"]), (0, &Value::from("ok")), "{printed}");
    assert!(printed.contains("NO CALLS"), "{printed}");
    let notes = trial["conditions"]["notes"].to_string();
    assert!(notes.contains("issuer null: no call was made"), "{notes}");
    assert_eq!(trial["measured"]["phases"][0]["ops"]["create"]["count"], 100_000);
    assert_eq!(trial["measured"]["verify"]["files"], 0);
    assert!(is_empty(place.path()));
}

/// A tmpfs of 1 MiB, unmounted whatever happens.
struct SmallTmpfs(tempfile::TempDir);

impl SmallTmpfs {
    fn mount() -> Option<SmallTmpfs> {
        let folder = tempfile::tempdir().unwrap();
        let options = CString::new("size=1m,mode=0700").unwrap();
        match mount("tmpfs", folder.path(), "tmpfs", MountFlags::empty(), options.as_c_str()) {
            Ok(()) => Some(SmallTmpfs(folder)),
            Err(error) => {
                eprintln!("skipped: no tmpfs can be mounted here: {error}");
                None
            }
        }
    }
}

impl Drop for SmallTmpfs {
    fn drop(&mut self) {
        let _ = unmount(self.0.path(), UnmountFlags::DETACH);
    }
}

/// Runs a trial of dirops on the venue directly, without the check of free space that would refuse it.
fn trial(place: &Path, set: &[(&str, &str)], threads: u32, issuer: &str) -> AgentReport {
    let params = workloads::find("dirops").unwrap().resolve(set).unwrap();
    let plan = Plan {
        label: "small".into(),
        workload: WorkloadPlan { name: "dirops".into(), params, input: None },
        filesystem: None,
        medium: MediumPlan::Directory { path: place.display().to_string() },
        venue: VenuePlan::Host,
        threads,
        issuer: issuer.parse().unwrap(),
        verify: VerifyMode::Full,
        sysctls: Default::default(),
        hash: String::new(),
    };
    let deadline = Nanos(60_000_000_000);
    let job = Job {
        trial_id: "t".into(),
        seed: 1,
        plan: plan.with_hash(),
        deadline,
        task: Default::default(),
    };
    let venue = HostVenue::new(common::lab::agent());
    venue.run(&job, &mut |_| Watch::GoOn).unwrap().report
}

#[test]
fn a_file_system_that_fills_up_fails_with_the_call_and_is_left_clean() {
    let Some(small) = SmallTmpfs::mount() else { return };
    let place = small.0.path();
    for (threads, issuer) in [(1, "sync"), (4, "sync"), (1, "io_uring:8")] {
        // One byte in each of a thousand files is 1 kB of data, which fits, but 4 MB in pages.
        let report = trial(place, &[("files", "1000"), ("size", "1")], threads, issuer);
        let reason = report.reason.unwrap();
        if reason.starts_with("io_uring: ") {
            eprintln!("skipped: {reason}");
            continue;
        }
        assert_eq!(report.outcome, Outcome::Failed);
        let (start, rest) = reason.split_once(": No space left on device (ENOSPC) after ").unwrap();
        let (call, path) = start.strip_prefix("phase create: ").unwrap().split_once(' ').unwrap();
        assert!(["create", "write"].contains(&call) && path.contains("f000"), "{reason}");
        let done: u64 = rest.split(' ').next().unwrap().parse().unwrap();
        // 256 pages hold 255 files at most, each of three calls.
        assert!((300..800).contains(&done), "{reason}");
        assert!(rest.contains("use a larger medium"), "{reason}");
        assert!(is_empty(place), "{threads} threads by {issuer}");
    }
}

#[test]
fn data_that_cannot_fit_fails_before_the_first_op_with_both_sizes() {
    let Some(small) = SmallTmpfs::mount() else { return };
    let report = trial(small.0.path(), &[("files", "1000"), ("size", "4k")], 1, "sync");
    let reason = report.reason.unwrap();
    assert!(reason.contains("needs 3.9 MiB of file data at once"), "{reason}");
    assert!(reason.contains("are free"), "{reason}");
    assert_eq!((report.outcome, report.measured.phases.len()), (Outcome::Failed, 0));
    assert!(is_empty(small.0.path()));
}
