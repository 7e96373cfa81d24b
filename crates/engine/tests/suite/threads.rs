//! Tests phases of many threads on a real directory: waits between threads, and the effect of a failure.

#![allow(clippy::unwrap_used, reason = "tests may unwrap")]

use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::script::{
    ROOT, SMALL_WORKLOADS, Script, build, check_workload, contents, create, is_full, op, root, run,
    with_timeout,
};
use fsdyno_engine::issue::sync::SyncIssuer;
use fsdyno_engine::progress::PhaseProgress;
use fsdyno_engine::threads::PhaseResult;
use fsdyno_engine::{
    Cause, Errno, Failure, Issuer, Meter, PhaseError, PhaseRun, Recorder, run_rank, run_threads,
};
use fsdyno_record::plan::IssuerPlan;
use fsdyno_record::{Nanos, OpKind};
use fsdyno_workload::{
    Call, Compound, GapKind, Needs, Op, OpCounts, OpSource, PhaseSpec, ProgressPoint, RemoveOrder,
    Share, Threads, Tree, Workload, workloads,
};

fn op_after(thread: u32, ops: u64, op: Op) -> Op {
    Op { after: ProgressPoint { thread, ops }, ..op }
}

fn stat(name: &str) -> Op {
    op(Call::Stat { dir: ROOT }, name)
}

fn run_script(script: &Script, path: &Path) -> Result<PhaseResult, PhaseError> {
    run(script, 0, 1, "sync", path)
}

fn failure(result: Result<PhaseResult, PhaseError>) -> Failure {
    match result.err().unwrap() {
        PhaseError::Op(failure) => failure,
        other => panic!("{other}"),
    }
}

#[test]
fn any_number_of_threads_does_the_same_work() {
    let (threads, orders): (&[u32], &[&str]) = match is_full() {
        true => (&[1, 2, 3, 8, 64], &["forward", "random"]),
        false => (&[1, 3, 64], &["random"]),
    };
    for &threads in threads {
        for &order in orders {
            let set = [("files", "1000"), ("size", "100"), ("stat", "yes"), ("order", order)];
            check_workload("dirops", &set, threads, "sync");
        }
    }
}

#[test]
fn every_workload_makes_its_counts_and_its_tree_in_threads() {
    for (name, set) in SMALL_WORKLOADS {
        // In one thread, whole_workloads.rs runs them.
        for threads in if is_full() { 1..=3 } else { 3..=3 } {
            check_workload(name, set, threads, "sync");
        }
    }
    let missing = workloads::ALL
        .iter()
        .filter(|kind| !["replay", "command"].contains(&kind.name))
        .find(|kind| SMALL_WORKLOADS.iter().all(|(name, _)| *name != kind.name));
    // A replay has no work without a recording: crates/replay/tests make some. A command has no ops.
    assert_eq!(missing.map(|kind| kind.name), None, "a workload is missing in SMALL_WORKLOADS");
}

#[test]
fn more_threads_than_files_are_accepted() {
    check_workload("dirops", &[("files", "3")], 16, "sync");
}

#[test]
fn a_phase_of_one_thread_ignores_the_requested_number() {
    check_workload("tarball", &[("files", "50"), ("order", "random")], 8, "sync");
}

#[test]
fn an_op_waits_for_another_and_the_wait_is_in_no_latency() {
    let folder = tempfile::tempdir().unwrap();
    let late = Nanos(200_000_000);
    let mut first = create("a").to_vec();
    first[0].think = late;
    // The name exists only after the first op of the other thread.
    let script = Script(vec![first, vec![op_after(0, 1, stat("a"))]]);
    let done = run_script(&script, folder.path()).unwrap();
    let outcome = done.outcome;
    let elapsed = outcome.returned.since(outcome.started);
    assert!(elapsed >= late && outcome.think_time >= late, "{outcome:?}");
    // Even on a slow machine, the second thread does not count the sleep of the first.
    let stats = &done.into_recorder().ops()[&OpKind::Stat];
    assert!(stats.total_ns <= Nanos(elapsed.0 - late.0 / 2), "{:?} of {elapsed:?}", stats.total_ns);
}

#[test]
fn two_threads_wait_for_each_other_a_thousand_times() {
    // Each op of one thread needs the preceding op of the other. A wake-up may occasionally be missed, and the
    // periodic check then repairs it; if waking did not work, the check would have to repair most.
    let folder = tempfile::tempdir().unwrap();
    let rounds = 1000u64;
    let name = |thread: u32| if thread == 0 { ("a", "b") } else { ("b", "a") };
    let renames = |thread: u32| -> Vec<Op> {
        let rename = |round: u64| {
            let (from, to) = name(thread);
            let mut op = op(Call::Rename { dir: ROOT, to: ROOT }, from);
            op.second_name.push(to.as_bytes());
            op_after(1 - thread, round + u64::from(thread), op)
        };
        (0..rounds).map(rename).collect()
    };
    std::fs::write(folder.path().join("a"), b"").unwrap();
    let (progress, script) = (PhaseProgress::new(2, 2), Script(vec![renames(0), renames(1)]));
    let run_thread = |rank: u32| {
        let mut issuer = SyncIssuer::new(root(folder.path()), contents());
        let mut source = script.ops(0, Share { rank, ranks: 2 });
        let (source, mut recorder) = (source.as_mut(), Recorder::new());
        run_rank(&progress, rank, source, &mut issuer, &mut recorder, &mut |_| {}).unwrap().ops
    };
    let ops = std::thread::scope(|scope| {
        let second = scope.spawn(|| run_thread(1));
        run_thread(0) + second.join().unwrap()
    });
    assert_eq!(ops, 2 * rounds);
    let missed = progress.missed_alarms();
    assert!(missed <= rounds / 50, "{missed} wake-ups were missed");
    assert!(folder.path().join("a").exists() && !folder.path().join("b").exists());
}

#[test]
fn a_deadlock_of_threads_is_an_error_and_not_a_hang() {
    let folder = tempfile::tempdir().unwrap();
    let script = Script(vec![vec![op_after(1, 1, stat("."))], vec![op_after(0, 1, stat("."))]]);
    let failure = failure(run_script(&script, folder.path()));
    assert!(matches!(failure.cause, Cause::Unreachable(_)), "{failure}");
    assert!(failure.to_string().contains("which can never return, after 0 ops"), "{failure}");
}

#[test]
fn waiting_for_a_thread_that_ended_too_early_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let script = Script(vec![vec![stat(".")], vec![op_after(0, 2, stat("."))]]);
    let failure = failure(run_script(&script, folder.path()));
    assert_eq!(failure.cause, Cause::Unreachable(ProgressPoint { thread: 0, ops: 2 }));
    let alone = Script(vec![vec![op_after(0, 1, stat("."))]]);
    let failure = self::failure(run_script(&alone, folder.path()));
    assert_eq!(failure.cause, Cause::Unreachable(ProgressPoint { thread: 0, ops: 1 }));
}

#[test]
fn the_calls_of_an_expanded_op_count_for_waiting_threads() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("d")).unwrap();
    // A scan of an empty directory is open, getdents64 with `.` and `..`, getdents64, close.
    let scan = op(Call::Compound(Compound::Scan { dir: ROOT }), "d");
    let script = Script(vec![vec![scan], vec![op_after(0, 4, stat("d"))]]);
    assert_eq!(run_script(&script, folder.path()).unwrap().outcome.ops, 5);
}

#[test]
fn one_failure_stops_all_threads_and_is_the_one_reported() {
    let folder = tempfile::tempdir().unwrap();
    // The endless thread would reach its last op only after hours, so only the failure ends it.
    let mut endless = vec![stat("."); 20_000];
    endless.push(Op { due: Nanos(36_000_000_000_000), ..stat("never") });
    let mut failing = vec![stat("."); 100];
    failing.push(stat("gone"));
    let waiting = vec![op_after(0, u64::MAX, stat("."))];
    let script = Script(vec![endless, failing, waiting]);
    let failure = with_timeout(move || failure(run_script(&script, folder.path())));
    assert_eq!(failure.cause, Cause::Errno(Errno(libc::ENOENT)), "{failure}");
    assert_eq!((failure.op, failure.path.as_str()), (OpKind::Stat, "gone"));
    assert!((100..=20_100).contains(&failure.completed_ops), "{failure}");
}

#[test]
fn a_failure_ends_sleeps_and_computations_of_hours() {
    let hours = Nanos(36_000_000_000_000);
    let stat = stat(".");
    let long_ops = [
        Op { think: hours, ..stat.clone() },
        Op { compute: hours, ..stat.clone() },
        Op { due: hours, ..stat },
    ];
    for issuer in ["sync", "io_uring:1"] {
        if issuer != "sync" && fsdyno_engine::issue::uring::probe().is_err() {
            eprintln!("skipped: no io_uring");
            continue;
        }
        for long_op in long_ops.clone() {
            let failure = with_timeout(move || {
                let folder = tempfile::tempdir().unwrap();
                let failing = op(Call::Unlink { dir: ROOT }, "gone");
                let script = Script(vec![vec![long_op], vec![failing]]);
                failure(run(&script, 0, 1, issuer, folder.path()))
            });
            assert_eq!(failure.path, "gone", "{failure}");
        }
    }
}

#[test]
fn a_sleep_in_parts_has_the_full_length() {
    let folder = tempfile::tempdir().unwrap();
    let think = Nanos(2_100_000_000);
    for issuer in ["sync", "io_uring:1"] {
        if issuer != "sync" && fsdyno_engine::issue::uring::probe().is_err() {
            eprintln!("skipped: no io_uring");
            continue;
        }
        let (late, due) = (Op { think, ..stat(".") }, Op { due: think, ..stat(".") });
        let done = run(&Script(vec![vec![late], vec![due]]), 0, 1, issuer, folder.path()).unwrap();
        // Both have slept, the second one slightly less, since its due time counts from the start of the phase.
        let outcome = done.outcome;
        assert!(outcome.think_time >= Nanos(think.0 + think.0 / 2), "{outcome:?}");
        assert!(outcome.returned.since(outcome.started) >= think, "{outcome:?}");
    }
}

#[test]
fn an_expanded_op_stops_after_its_current_call() {
    // The stop comes with the first tick, in the 256th call: a stat, a read (of the second of two calls for each file),
    // or the close of a directory.
    let (read, order) = (Some(100), RemoveOrder::Readdir);
    for (call, kind) in [
        (Call::Compound(Compound::StatEach { dir: ROOT, read: None }), OpKind::Stat),
        (Call::Compound(Compound::StatEach { dir: ROOT, read }), OpKind::Read),
        (Call::Compound(Compound::RemoveTree { dir: ROOT, order, synced: false }), OpKind::Close),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("d");
        std::fs::create_dir(&directory).unwrap();
        for number in 0..300 {
            match kind {
                OpKind::Close => std::fs::create_dir(directory.join(format!("{number}"))).unwrap(),
                _ => std::fs::write(directory.join(format!("{number}")), b"x").unwrap(),
            }
        }
        let (progress, mut recorder) = (PhaseProgress::new(1, 1), Recorder::new());
        let mut issuer = SyncIssuer::new(root(folder.path()), contents());
        let script = Script(vec![vec![op(call, "d")]]);
        let mut source = script.ops(0, Share { rank: 0, ranks: 1 });
        let tick = &mut |_| progress.stop();
        let result = run_rank(&progress, 0, source.as_mut(), &mut issuer, &mut recorder, tick);
        let failure = result.unwrap_err();
        assert_eq!((failure.cause, failure.op, failure.completed_ops), (Cause::Stopped, kind, 256));
    }
}

#[test]
fn an_error_at_the_start_is_named_and_has_a_hint() {
    let open = |errno| std::io::Error::from_raw_os_error(errno);
    let error = PhaseError::Start("reopen it", open(libc::EMFILE));
    assert_eq!(error.to_string(), "reopen it: Too many open files (EMFILE)");
    assert!(error.hint().unwrap().contains("limit of open files"));
    let error = PhaseError::Start("io_uring", std::io::Error::other("none here"));
    assert_eq!((error.to_string().as_str(), error.hint()), ("io_uring: none here", None));
}

#[test]
fn a_panic_at_the_start_leaves_no_thread_at_the_gate() {
    let panicked = with_timeout(|| {
        std::panic::catch_unwind(|| {
            let folder = tempfile::tempdir().unwrap();
            let (root, contents) = (root(folder.path()), contents());
            let work = Script(vec![vec![stat(".")]; 3]);
            let phase_run = PhaseRun {
                work: &work,
                phase: 0,
                threads: work.threads(),
                requested: 3,
                issuer: IssuerPlan::Sync,
                root: root.as_fd(),
                roots: &[],
                device: None,
                contents: &contents,
                slots: None,
                process_share: None,
            };
            run_threads(&phase_run, &mut || panic!("on purpose"), &|_| {}).is_ok()
        })
    });
    assert!(panicked.is_err());
}

#[test]
fn a_tick_reports_the_sum_of_all_threads() {
    let work = build("dirops", &[("files", "5000")]);
    let folder = tempfile::tempdir().unwrap();
    let (root, contents, highest) = (root(folder.path()), contents(), AtomicU64::new(0));
    let phase_run = PhaseRun {
        work: work.as_ref(),
        phase: 0,
        threads: Threads::Any,
        requested: 4,
        issuer: IssuerPlan::Sync,
        root: root.as_fd(),
        roots: &[],
        device: None,
        contents: &contents,
        slots: None,
        process_share: None,
    };
    let mut ready = 0;
    let tick = |done| {
        highest.fetch_max(done, Ordering::Relaxed);
    };
    let done = run_threads(&phase_run, &mut || ready += 1, &tick).unwrap();
    assert_eq!(highest.load(Ordering::Relaxed), done.outcome.ops);
    assert_eq!(ready, 1);
}

/// An issuer whose `remaining`-th call fails with an error of the device.
struct Faulty {
    issuer: SyncIssuer,
    remaining: u64,
    errno: i32,
}

impl Issuer for Faulty {
    fn issue(&mut self, op: &Op) -> i64 {
        self.remaining -= 1;
        if self.remaining == 0 { -i64::from(self.errno) } else { self.issuer.issue(op) }
    }

    fn expand(&mut self, op: &Op, meter: &mut Meter<'_>) -> Result<(), Failure> {
        self.issuer.expand(op, meter)
    }

    fn path_of(&self, op: &Op) -> String {
        self.issuer.path_of(op)
    }
}

/// Two threads create 1000 files each; the 101st call of the second one fails.
fn injected_failure(errno: i32) -> Failure {
    let folder = tempfile::tempdir().unwrap();
    let work = build("dirops", &[("files", "2000")]);
    let progress = PhaseProgress::new(2, 2);
    let work: &dyn Workload = work.as_ref();
    let rank = |rank: u32, remaining: u64| {
        let issuer = SyncIssuer::new(root(folder.path()), contents());
        let mut issuer = Faulty { issuer, remaining, errno };
        let mut source: Box<dyn OpSource + Send> = work.ops(0, Share { rank, ranks: 2 });
        let mut recorder = Recorder::new();
        let result =
            run_rank(&progress, rank, source.as_mut(), &mut issuer, &mut recorder, &mut |_| {});
        if result.is_err() {
            progress.stop();
        }
        result
    };
    std::thread::scope(|scope| {
        let first = scope.spawn(|| rank(0, u64::MAX));
        let failure = rank(1, 102).unwrap_err();
        match first.join().unwrap() {
            Ok(outcome) => assert_eq!(outcome.ops, 2003),
            Err(stopped) => assert_eq!(stopped.cause, Cause::Stopped),
        }
        failure
    })
}

#[test]
fn a_fault_during_a_run_names_op_path_and_the_ops_of_all_threads() {
    for (errno, text) in [
        (libc::ENOSPC, "No space left on device (ENOSPC)"),
        (libc::EIO, "Input/output error (EIO)"),
        (libc::EDQUOT, "(EDQUOT)"),
    ] {
        let failure = injected_failure(errno);
        // One opens the directory, then creates and closes 50 files: the next is the 1050th.
        assert_eq!((failure.op, failure.path.as_str()), (OpKind::Create, "d/f0001050"));
        assert!((102..=2_104).contains(&failure.completed_ops), "{failure}");
        assert!(failure.to_string().contains(text), "{failure}");
    }
    assert!(injected_failure(libc::EDQUOT).hint().unwrap().contains("quota"));
}

/// The first rank continues until `finish` is called; the second makes fifty calls.
struct EndsWithSecondRank;

struct Stats {
    remaining: u64,
    done: u64,
}

impl OpSource for Stats {
    fn next(&mut self, op: &mut Op) -> bool {
        op.clone_from(&stat("."));
        let more = self.remaining > 0;
        (self.remaining, self.done) =
            (self.remaining.saturating_sub(1), self.done + u64::from(more));
        more
    }

    fn finish(&mut self) {
        self.remaining = self.remaining.min(1);
    }

    fn done(&self) -> u64 {
        self.done
    }
}

impl Workload for EndsWithSecondRank {
    fn phases(&self) -> Vec<PhaseSpec> {
        let threads = Threads::Exactly(2);
        vec![PhaseSpec { name: "ends", gap: GapKind::None, verify: false, threads }]
    }

    fn ops(&self, _: usize, share: Share) -> Box<dyn OpSource + Send + '_> {
        let remaining = if share.rank == 0 { u64::MAX } else { 50 };
        Box::new(Stats { remaining, done: 0 })
    }

    fn counts(&self, _: usize, _: u32) -> OpCounts {
        OpCounts::new()
    }

    fn tree(&self, _: usize) -> Box<dyn Tree + '_> {
        unimplemented!("it is not verified")
    }

    fn needs(&self) -> Needs {
        Needs::default()
    }

    fn ends_with(&self, _: usize) -> Option<u32> {
        Some(1)
    }
}

#[test]
fn an_endless_rank_finishes_when_the_other_has_ended() {
    for issuer in ["sync", "io_uring:4"] {
        let done = with_timeout(move || {
            let folder = tempfile::tempdir().unwrap();
            run(&EndsWithSecondRank, 0, 1, issuer, folder.path()).unwrap().done
        });
        assert_eq!(done[1], 50, "{issuer}: {done:?}");
    }
}
