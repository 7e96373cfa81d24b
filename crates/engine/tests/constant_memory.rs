//! The instrument's memory does not depend on the number of files of a workload with a closed form.
//!
//! Each workload runs in its own child, whose peak memory the kernel reports at the end: all
//! its ops are generated and counted, and each created path is looked up as by the verifier.
//! The workloads have a million files and, if FSDYNO_TEST=full, also a hundred million.

#![allow(clippy::unwrap_used, reason = "tests may unwrap")]

mod script;

use std::process::Command;

use fsdyno_engine::{Failure, Issuer, Meter, Recorder, run_phase};
use fsdyno_workload::workload::Tree;
use fsdyno_workload::{Call, DirSlot, ExpectedKind, Op, Share};
use script::build;

/// A workload with the parameters for at least a million files, and for a hundred million.
type ClosedFormWorkload =
    (&'static str, &'static [(&'static str, &'static str)], [(&'static str, &'static str); 2]);

/// The workloads with a closed form.
const CLOSED_FORM_WORKLOADS: &[ClosedFormWorkload] = &[
    (
        "dirops",
        &[("create-order", "random"), ("order", "random"), ("digits", "9")],
        [("files", "1000000"), ("files", "100000000")],
    ),
    ("tarball", &[("order", "random")], [("files", "1000000"), ("files", "100000000")]),
    // 11,111 directories.
    ("fdtree", &[("levels", "4"), ("dirs", "10")], [("files", "91"), ("files", "9001")]),
    ("many-files", &[("widths", "100/100")], [("files", "100"), ("files", "10000")]),
];

/// Maximum peak memory of the child, in KiB.
const MAX_MEMORY: u64 = 64 << 10;

/// The environment variable that names the child's workload.
const TASK: &str = "FSDYNO_MEMORY_TASK";

#[test]
fn a_workload_with_a_closed_form_takes_no_more_memory_for_more_files() {
    let sizes = if std::env::var("FSDYNO_TEST").is_ok_and(|which| which == "full") { 2 } else { 1 };
    for (name, _, sizes_by_scale) in CLOSED_FORM_WORKLOADS {
        for (size, (key, value)) in sizes_by_scale.iter().enumerate().take(sizes) {
            let child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "child_process", "--ignored", "--nocapture"])
                .env(TASK, format!("{name} {size}"))
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&child.stdout).into_owned();
            let errors = String::from_utf8_lossy(&child.stderr);
            assert!(child.status.success(), "{name} {key}={value}: {text}{errors}");
            let read_number = |label: &str| -> u64 {
                let rest = text.split_once(label).unwrap().1;
                rest.split_whitespace().next().unwrap().parse().unwrap()
            };
            let (files, memory) = (read_number("\nfiles "), read_number("\nmemory "));
            println!("{name} of {files} files: {memory} KiB");
            assert!(files >= [1_000_000, 100_000_000][size], "{name}: only {files} files");
            assert!(memory <= MAX_MEMORY, "{name} of {files} files: {memory} KiB");
        }
    }
}

#[test]
#[ignore = "started by the test above, in a process of its own"]
fn child_process() {
    let Ok(task) = std::env::var(TASK) else { return };
    let (name, size) = task.split_once(' ').unwrap();
    let (_, parameters, sizes) =
        CLOSED_FORM_WORKLOADS.iter().find(|(closed, _, _)| *closed == name).unwrap();
    let size = sizes[size.parse::<usize>().unwrap()];
    let parameters: Vec<(&str, &str)> = parameters.iter().copied().chain([size]).collect();
    let work = build(name, &parameters);
    let mut recorder = Recorder::new();
    let mut files = 0;
    for (phase, spec) in work.phases().iter().enumerate() {
        let tree = work.tree(phase);
        let mut issuer =
            LookupIssuer { tree, dirs: vec![Vec::new()], created_files: 0, expanded: false };
        recorder.clear();
        run_phase(work.ops(phase, Share::WHOLE).as_mut(), &mut issuer, &mut recorder, &mut |_| {})
            .unwrap();
        if !issuer.expanded {
            assert_eq!(recorder.counts(), work.counts(phase, 1), "{task}: {}", spec.name);
        }
        files = files.max(issuer.created_files);
        if issuer.created_files > 0 {
            assert_eq!(issuer.created_files, work.tree(phase).files(), "{task}: {}", spec.name);
        }
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    println!("\nfiles {files}\nmemory {}", peak.trim().trim_end_matches(" kB"));
}

/// Makes no calls, and looks up every created path in the tree.
struct LookupIssuer<'a> {
    tree: Box<dyn Tree + 'a>,
    /// Paths of the open directories.
    dirs: Vec<Vec<u8>>,
    created_files: u64,
    /// True if an op was expanded.
    expanded: bool,
}

impl LookupIssuer<'_> {
    fn path(&self, dir: DirSlot, op: &Op) -> Vec<u8> {
        let mut path = self.dirs[dir.0 as usize].clone();
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(op.name.as_bytes());
        path
    }
}

impl Issuer for LookupIssuer<'_> {
    fn issue(&mut self, op: &Op) -> i64 {
        let result = fsdyno_engine::issue::null::Null.issue(op);
        match op.call {
            _ if result != 0 => {}
            Call::OpenDir { dir, slot } => {
                let path = self.path(dir, op);
                let slot = slot.0 as usize;
                self.dirs.resize(self.dirs.len().max(slot + 1), Vec::new());
                self.dirs[slot] = path;
            }
            Call::Create { dir, .. } => {
                let path = self.path(dir, op);
                let found = self.tree.lookup(&path).map(|expected| expected.kind);
                assert!(matches!(found, Some(ExpectedKind::File(_))), "{:?} is {found:?}", op.name);
                self.created_files += 1;
            }
            _ => {}
        }
        result
    }

    fn expand(&mut self, _: &Op, _: &mut Meter<'_>) -> Result<(), Failure> {
        self.expanded = true;
        Ok(())
    }
}
