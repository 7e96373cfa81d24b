//! A workload of listed ops, one list for each thread, and helpers that run workloads in tests.
#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may unwrap")]

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use fsdyno_engine::threads::PhaseResult;
use fsdyno_engine::{PhaseError, PhaseRun, run_threads, verify};
use fsdyno_record::plan::{IssuerPlan, VerifyMode};
use fsdyno_record::trial::VerifyReport;
use fsdyno_workload::workload::{Needs, OpCounts, PhaseSpec, Tree};
use fsdyno_workload::{
    Call, Contents, DirSlot, FileSlot, GapKind, Op, OpSource, OpenFlags, Setting, Share, Threads,
    Workload, workloads,
};

pub const ROOT: DirSlot = DirSlot::ROOT;
pub const FILE: FileSlot = FileSlot(0);
pub const WRITE: OpenFlags = OpenFlags { write: true, ..OpenFlags::NONE };

/// Every workload with small parameters.
pub const SMALL_WORKLOADS: &[(&str, &[(&str, &str)])] = &[
    ("dirops", &[("files", "300"), ("size", "5000"), ("stat", "yes"), ("create-order", "random")]),
    ("calls", &[("files", "60")]),
    ("tarball", &[("files", "200"), ("order", "readdir")]),
    ("tarball", &[("files", "200"), ("order", "random")]),
    ("source-tree", &[("trees", "2"), ("files", "60"), ("directories", "8")]),
    ("maildir", &[("ops", "60"), ("maildirs", "3"), ("store", "60"), ("read-store", "30")]),
    (
        "maildir",
        &[
            ("ops", "60"),
            ("maildirs", "3"),
            ("store", "60"),
            ("read-store", "30"),
            ("protocol", "dovecot"),
            ("deliverers", "2"),
        ],
    ),
    ("maildir-read", &[("reads", "40"), ("read-store", "20")]),
    ("fdtree", &[("levels", "2"), ("dirs", "4"), ("files", "5"), ("size", "2")]),
    ("bonnie", &[("file-size", "64K"), ("seeks", "90"), ("seekers", "3"), ("files", "1")]),
    ("many-files", &[("widths", "3/4/2"), ("files", "5"), ("data", "random")]),
    ("postmark", &[("number", "50"), ("transactions", "200")]),
    ("capacity", &[("most", "70"), ("files-per-directory", "20")]),
    ("churn", &[("files", "100"), ("ops", "500"), ("fsync", "5")]),
    ("everyday", &[("documents", "60"), ("songs", "2"), ("song-size", "300K"), ("films", "0")]),
    ("bigfile", &[("size", "3M"), ("reads", "90"), ("writes", "90"), ("rewrite", "yes")]),
    ("tenant", &[("files", "20"), ("rounds", "20"), ("stream", "9M"), ("think", "1")]),
];

/// The ops of each thread of a phase with exactly that many threads.
pub struct Script(pub Vec<Vec<Op>>);

struct List<'a>(std::slice::Iter<'a, Op>);

impl OpSource for List<'_> {
    fn next(&mut self, op: &mut Op) -> bool {
        self.0.next().map(|next| op.clone_from(next)).is_some()
    }
}

impl Script {
    pub fn threads(&self) -> Threads {
        Threads::Exactly(self.0.len() as u32)
    }
}

impl Workload for Script {
    fn phases(&self) -> Vec<PhaseSpec> {
        let threads = self.threads();
        vec![PhaseSpec { name: "script", gap: GapKind::None, verify: false, threads }]
    }

    fn ops(&self, _: usize, share: Share) -> Box<dyn OpSource + Send + '_> {
        Box::new(List(self.0[share.rank as usize].iter()))
    }

    fn counts(&self, _: usize, _: u32) -> OpCounts {
        unimplemented!("a script has no closed form")
    }

    fn tree(&self, _: usize) -> Box<dyn Tree + '_> {
        unimplemented!("a script has no closed form")
    }

    fn needs(&self) -> Needs {
        Needs::default()
    }
}

/// A script for a requested number of threads; each thread runs as many of the lists as it has ops in flight.
pub struct RankScript(pub Script);

impl Workload for RankScript {
    fn phases(&self) -> Vec<PhaseSpec> {
        let phase = |phase| PhaseSpec { threads: Threads::Any, ..phase };
        self.0.phases().into_iter().map(phase).collect()
    }

    fn ops(&self, phase: usize, share: Share) -> Box<dyn OpSource + Send + '_> {
        self.0.ops(phase, share)
    }

    fn counts(&self, phase: usize, ranks: u32) -> OpCounts {
        self.0.counts(phase, ranks)
    }

    fn tree(&self, phase: usize) -> Box<dyn Tree + '_> {
        self.0.tree(phase)
    }

    fn needs(&self) -> Needs {
        self.0.needs()
    }
}

/// Returns the result of `work`; panics if it hangs for longer than any slow machine would take.
pub fn with_timeout<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(work()));
    receiver.recv_timeout(std::time::Duration::from_secs(120)).expect("the work must not hang")
}

pub fn op(call: Call, name: &str) -> Op {
    let mut op = Op { call, ..Op::default() };
    op.name.push(name.as_bytes());
    op
}

pub fn create(name: &str) -> [Op; 2] {
    [
        op(Call::Create { dir: ROOT, file: FILE, flags: WRITE, mode: 0o640 }, name),
        op(Call::Close { file: FILE }, name),
    ]
}

pub fn root(path: &Path) -> OwnedFd {
    std::fs::File::open(path).unwrap().into()
}

/// Returns the shared contents, created only once because that takes longer than most tests.
pub fn contents() -> Arc<Contents> {
    static CONTENTS: OnceLock<Arc<Contents>> = OnceLock::new();
    Arc::clone(CONTENTS.get_or_init(|| Arc::new(Contents::new(1))))
}

/// Builds a workload by name, with some of its parameters set.
pub fn build(name: &str, parameters: &[(&str, &str)]) -> Box<dyn Workload> {
    let kind = workloads::find(name).unwrap();
    kind.build(&kind.resolve(parameters).unwrap(), &Setting::seed(5)).unwrap()
}

/// Runs one phase below `path`.
pub fn run(
    work: &dyn Workload,
    phase: usize,
    threads: u32,
    issuer: &str,
    path: &Path,
) -> Result<PhaseResult, PhaseError> {
    let (root, contents) = (root(path), contents());
    let phase_run = PhaseRun {
        work,
        phase,
        threads: work.phases()[phase].threads,
        requested: threads,
        issuer: issuer.parse::<IssuerPlan>().unwrap(),
        root: root.as_fd(),
        roots: &[],
        device: None,
        contents: &contents,
        slots: None,
        process_share: None,
    };
    run_threads(&phase_run, &mut || {}, &|_| {})
}

/// Tests whether the long tests are requested.
pub fn is_full() -> bool {
    std::env::var("FSDYNO_TEST").is_ok_and(|value| value == "full")
}

/// Runs all phases of a workload; each must make its exact counts and leave its tree.
pub fn check_workload(name: &str, parameters: &[(&str, &str)], threads: u32, issuer: &str) {
    let folder = tempfile::tempdir().unwrap();
    check_workload_in(folder.path(), name, parameters, threads, issuer);
}

pub fn check_workload_in(
    path: &Path,
    name: &str,
    parameters: &[(&str, &str)],
    threads: u32,
    issuer: &str,
) {
    let work = build(name, parameters);
    let context = format!("{name} {parameters:?} in {threads} threads by {issuer}");
    for (phase, spec) in work.phases().iter().enumerate() {
        let result = run(work.as_ref(), phase, threads, issuer, path);
        let result = result.unwrap_or_else(|error| panic!("{context}: {}: {error}", spec.name));
        let (ops, shares) = (result.outcome.ops, result.done.clone());
        let recorder = result.into_recorder();
        let counts = recorder.counts();
        let timed: u64 = recorder.timeline().counts().iter().sum();
        assert_eq!(timed, ops, "{context}: {} over time", spec.name);
        let expected = work.counts_after(phase, &shares);
        for (kind, count) in &expected {
            assert_eq!(counts.get(kind), Some(count), "{context}: {} {kind}", spec.name);
        }
        assert_eq!(counts.values().sum::<u64>(), ops, "{context}: {}", spec.name);
        let tree = work.tree_after(phase, &shares);
        let report = verify_tree(path, tree.as_ref());
        assert_eq!(report.examples, Vec::<String>::new(), "{context}: {}", spec.name);
        assert_eq!(report.files, tree.files(), "{context}: {}", spec.name);
    }
}

fn verify_tree(path: &Path, tree: &dyn Tree) -> VerifyReport {
    let root = root(path);
    verify(root.as_fd(), tree, &contents(), VerifyMode::Full, 5, &mut |_| {}).unwrap()
}
