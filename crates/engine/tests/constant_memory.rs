//! However many files a workload of a closed form has, the instrument's memory is the same.
//!
//! Each workload runs in a child of its own, whose peak memory is asked of the kernel at the end: all
//! its ops are generated and counted, and each path that is made is looked up as the verifier does.
//! With a million files always, with a hundred million if FSDYNO_TEST=full.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod script;

use std::process::Command;

use fsdyno_engine::{Failure, Issuer, Meter, Recorder, run_phase};
use fsdyno_workload::workload::Tree;
use fsdyno_workload::{Call, DirSlot, ExpectedKind, Op, Share};
use script::build;

/// The workloads of a closed form, in an order of removal that needs no file system to tell it.
const CLOSED: &[(&str, &[(&str, &str)])] = &[
    ("dirops", &[("create-order", "random"), ("order", "random"), ("digits", "9")]),
    ("tarball", &[("order", "random")]),
];

/// Most memory that the child may ever have had, in KiB.
const LIMIT: u64 = 64 << 10;

/// What tells the child its work.
const TASK: &str = "FSDYNO_MEMORY_TASK";

#[test]
fn a_workload_of_a_closed_form_takes_no_more_memory_for_more_files() {
    let files: &[&str] = match std::env::var("FSDYNO_TEST").as_deref() {
        Ok("full") => &["1000000", "100000000"],
        _ => &["1000000"],
    };
    for (name, _) in CLOSED {
        for files in files {
            let child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "the_child", "--ignored", "--nocapture"])
                .env(TASK, format!("{name} {files}"))
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&child.stdout).into_owned();
            let errors = String::from_utf8_lossy(&child.stderr);
            assert!(child.status.success(), "{name} {files}: {said}{errors}");
            let memory = said.split_once("memory ").unwrap().1;
            let memory: u64 = memory.split_whitespace().next().unwrap().parse().unwrap();
            println!("{name} of {files} files: {memory} KiB");
            assert!(memory <= LIMIT, "{name} of {files} files: {memory} KiB");
        }
    }
}

#[test]
#[ignore = "started by the test above, in a process of its own"]
fn the_child() {
    let Ok(task) = std::env::var(TASK) else { return };
    let (name, files) = task.split_once(' ').unwrap();
    let (_, set) = CLOSED.iter().find(|(closed, _)| *closed == name).unwrap();
    let set: Vec<(&str, &str)> = set.iter().copied().chain([("files", files)]).collect();
    let work = build(name, &set);
    let mut recorder = Recorder::new();
    let mut made = 0;
    for phase in 0..work.phases().len() {
        let mut issuer = LookUp { tree: work.tree(phase), dirs: vec![Vec::new()], made: 0 };
        recorder.clear();
        run_phase(work.ops(phase, Share::WHOLE).as_mut(), &mut issuer, &mut recorder, &mut |_| {})
            .unwrap();
        assert_eq!(recorder.counts(), work.counts(phase, 1), "{task}: phase {phase}");
        made += issuer.made;
    }
    assert_eq!(made, files.parse::<u64>().unwrap(), "{task}: files made and looked up");
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    println!("\nmemory {}", peak.trim().trim_end_matches(" kB"));
}

/// Makes no calls, and looks up in the tree whatever is made.
struct LookUp<'a> {
    tree: Box<dyn Tree + 'a>,
    /// Paths of the open directories.
    dirs: Vec<Vec<u8>>,
    made: u64,
}

impl LookUp<'_> {
    fn path(&self, dir: DirSlot, op: &Op) -> Vec<u8> {
        let mut path = self.dirs[dir.0 as usize].clone();
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(op.name.as_bytes());
        path
    }
}

impl Issuer for LookUp<'_> {
    fn issue(&mut self, op: &Op) -> i64 {
        let answer = fsdyno_engine::issue::null::Null.issue(op);
        match op.call {
            _ if answer != 0 => {}
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
                self.made += 1;
            }
            _ => {}
        }
        answer
    }

    fn expand(&mut self, op: &Op, _: &mut Meter<'_>) -> Result<(), Failure> {
        panic!("{:?} has no closed form", op.call)
    }
}
