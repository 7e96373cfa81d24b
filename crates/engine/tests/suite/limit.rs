//! Tests phases with a time limit, and ops with a due time, on a real directory.

#![allow(clippy::unwrap_used, reason = "tests may unwrap")]

use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use fsdyno_engine::{
    Cause, Errno, Failure, Issuer, Meter, PhaseRun, Recorder, run_phase, run_threads, verify,
};
use fsdyno_record::plan::{IssuerPlan, VerifyMode};
use fsdyno_record::{Nanos, OpKind};
use fsdyno_workload::{Call, Contents, DirSlot, Op, OpSource, Setting, Share, Workload, workloads};

const CHURN: usize = 1;

fn build(set: &[(&str, &str)]) -> Box<dyn Workload> {
    let kind = workloads::find("churn").unwrap();
    kind.build(&kind.resolve(set).unwrap(), &Setting::seed(5)).unwrap()
}

fn root(path: &Path) -> OwnedFd {
    File::open(path).unwrap().into()
}

/// Runs both phases, checks their counts and tree, and returns the duration of churn and its
/// number of operations.
fn run(parameters: &[(&str, &str)], threads: u32, issuer: IssuerPlan) -> (Nanos, u64) {
    let folder = tempfile::tempdir().unwrap();
    let (work, contents) = (build(parameters), Arc::new(Contents::new(5)));
    let directory = root(folder.path());
    let mut last = (Nanos(0), 0);
    for (phase, spec) in work.phases().iter().enumerate() {
        let phase_run = PhaseRun {
            work: work.as_ref(),
            phase,
            threads: spec.threads,
            requested: threads,
            issuer,
            root: directory.as_fd(),
            roots: &[],
            device: None,
            contents: &contents,
            slots: None,
            process_share: None,
        };
        let done = run_threads(&phase_run, &mut || {}, &|_| {}).unwrap();
        let (outcome, shares) = (done.outcome, done.done.clone());
        let mut counts = done.into_recorder().counts();
        counts.remove(&OpKind::Readdir);
        assert_eq!(counts, work.counts_after(phase, &shares), "phase {phase}");
        let tree = work.tree_after(phase, &shares);
        let mode = VerifyMode::Full;
        let report = verify(directory.as_fd(), tree.as_ref(), &contents, mode, 5, &mut |_| {});
        assert_eq!(report.unwrap().examples, Vec::<String>::new(), "phase {phase}");
        last = (outcome.returned.since(outcome.started), shares.iter().sum());
        if phase == CHURN {
            assert_eq!(work.work_units_after(phase, &shares)["operations"], last.1);
        }
    }
    last
}

#[test]
fn a_phase_with_a_limit_ends_in_time_and_its_counts_and_tree_are_exact() {
    for threads in [1, 3] {
        let set = [("files", "300"), ("seconds", "1"), ("fsync", "2")];
        let (elapsed, operations) = run(&set, threads, IssuerPlan::Sync);
        assert!(elapsed >= Nanos(1_000_000_000), "{elapsed:?}");
        // Without the limit the phase would run for hours; the machine may be busy for a while.
        assert!(elapsed < Nanos(120_000_000_000), "{elapsed:?}");
        assert!(operations > 0, "{operations}");
    }
}

#[test]
fn without_a_limit_any_number_of_threads_does_all_operations() {
    for threads in [1, 2, 5] {
        let (_, operations) = run(&[("files", "200"), ("ops", "999")], threads, IssuerPlan::Sync);
        assert_eq!(operations, 999);
    }
}

#[test]
fn all_threads_together_have_the_requested_rate() {
    for (threads, issuer) in [(1, IssuerPlan::Sync), (3, IssuerPlan::Sync)] {
        let set = [("files", "200"), ("ops", "201"), ("rate", "1000"), ("size", "100")];
        let (elapsed, operations) = run(&set, threads, issuer);
        assert_eq!(operations, 201);
        assert!(
            elapsed >= Nanos(200_000_000),
            "the last op is due after 200 ms, but the phase took {elapsed:?}"
        );
    }
}

#[test]
fn io_uring_observes_limit_and_rate_too() {
    if let Err(error) = fsdyno_engine::issue::uring::probe() {
        eprintln!("skipped: {error}");
        return;
    }
    let issuer = IssuerPlan::IoUring { depth: 4 };
    let set = [("files", "200"), ("seconds", "1")];
    let (elapsed, operations) = run(&set, 2, issuer);
    assert!(elapsed >= Nanos(1_000_000_000) && operations > 0, "{elapsed:?} {operations}");
    let (elapsed, _) = run(&[("files", "200"), ("ops", "201"), ("rate", "1000")], 2, issuer);
    assert!(elapsed >= Nanos(200_000_000), "{elapsed:?}");
}

/// An issuer whose calls return immediately, except the first, which takes 50 ms.
struct SlowFirst(bool);

impl Issuer for SlowFirst {
    fn issue(&mut self, _: &Op) -> i64 {
        if std::mem::take(&mut self.0) {
            sleep(Duration::from_millis(50));
        }
        0
    }

    fn expand(&mut self, _: &Op, _: &mut Meter<'_>) -> Result<(), Failure> {
        Ok(())
    }
}

struct List(VecDeque<Op>);

impl OpSource for List {
    fn next(&mut self, op: &mut Op) -> bool {
        self.0.pop_front().map(|next| *op = next).is_some()
    }
}

#[test]
fn the_latency_of_a_due_op_includes_its_wait_for_a_slow_op() {
    let due_op = |due, call| Op { call, due: Nanos(due), ..Op::default() };
    let stat = Call::Stat { dir: DirSlot::ROOT };
    let ops = vec![
        due_op(0, Call::Rmdir { dir: DirSlot::ROOT }),
        due_op(10_000_000, stat),
        due_op(0, Call::Unlink { dir: DirSlot::ROOT }),
        due_op(100_000_000, Call::Symlink { dir: DirSlot::ROOT }),
    ];
    let mut recorder = Recorder::new();
    let source = &mut List(ops.into());
    let outcome = run_phase(source, &mut SlowFirst(true), &mut recorder, &mut |_| {}).unwrap();
    let total_latency = |kind| recorder.ops()[&kind].total_ns;
    assert!(total_latency(OpKind::Stat) >= Nanos(40_000_000), "due after 10 ms, issued after 50");
    // The latency of an op without a due time starts at the return of the previous op.
    assert!(
        total_latency(OpKind::Unlink) < Nanos(30_000_000),
        "{:?}",
        total_latency(OpKind::Unlink)
    );
    assert!(outcome.returned.since(outcome.started) >= Nanos(100_000_000));
    assert!(total_latency(OpKind::Symlink) < Nanos(90_000_000), "the wait is not counted");
    assert!(outcome.think_time > Nanos(0), "the wait is think time");
}

/// An issuer for which fallocate is not supported, and everything else succeeds.
struct NoFallocate;

impl Issuer for NoFallocate {
    fn issue(&mut self, op: &Op) -> i64 {
        match op.call {
            Call::Fallocate { .. } => -i64::from(libc::EOPNOTSUPP),
            Call::Write { payload, .. } => i64::from(payload.length),
            _ => 0,
        }
    }

    fn expand(&mut self, _: &Op, _: &mut Meter<'_>) -> Result<(), Failure> {
        Ok(())
    }
}

#[test]
fn a_source_with_a_fallback_continues_after_an_unsupported_call_and_others_fail() {
    let kind = workloads::find("bigfile").unwrap();
    let build =
        |set: &[(&str, &str)]| kind.build(&kind.resolve(set).unwrap(), &Setting::seed(5)).unwrap();
    let offline = build(&[("built", "offline"), ("size", "2500000")]);
    let (mut ops, mut recorder) = (offline.prefill().unwrap().ops, Recorder::new());
    run_phase(ops.as_mut(), &mut NoFallocate, &mut recorder, &mut |_| {}).unwrap();
    let expected = [(OpKind::Create, 1), (OpKind::Write, 3), (OpKind::Close, 1)];
    assert_eq!(recorder.counts(), expected.into(), "the call that failed is not counted");
    let timed = build(&[("preallocate", "yes")]);
    let (mut ops, mut recorder) = (timed.ops(0, Share::WHOLE), Recorder::new());
    let failed = run_phase(ops.as_mut(), &mut NoFallocate, &mut recorder, &mut |_| {}).unwrap_err();
    assert_eq!(failed.cause, Cause::Errno(Errno(libc::EOPNOTSUPP)));
}
