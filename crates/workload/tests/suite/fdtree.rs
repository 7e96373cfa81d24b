//! fdtree against its published numbers and against a plain version of the script's recursion.

use crate::memory::{build, check_workload};
use fsdyno_record::{Nanos, OpKind};
use fsdyno_workload::{Call, Expected, Op, Payload, Setting, Share, Workload, workloads};
use proptest::prelude::*;

const ROOT: &str = "LEVEL0.fsdyno.1";

/// Each phase's calls as the script's recursion makes them: command, path, and true if a process
/// starts with it.
#[derive(Default)]
struct Script {
    dirs: u64,
    files: u64,
    calls: Vec<(&'static str, String, bool)>,
}

impl Script {
    fn call(
        &mut self,
        command: &'static str,
        path: &str,
        level: u64,
        k: u64,
        starts_process: bool,
    ) {
        let letter = if command.ends_with("dir") { 'D' } else { 'F' };
        self.calls.push((command, format!("{path}/L{level}{letter}{k}"), starts_process));
    }

    fn subdirectories(&self, path: &str, level: u64) -> Vec<String> {
        let dirs = if level == 0 { 0 } else { self.dirs };
        (1..=dirs).rev().map(|k| format!("{path}/L{level}D{k}")).collect()
    }

    fn create_directories(&mut self, path: &str, level: u64) {
        if level > 0 {
            (1..=self.dirs).rev().for_each(|k| self.call("mkdir", path, level, k, true));
        }
        for child in self.subdirectories(path, level) {
            self.create_directories(&child, level - 1);
        }
    }

    fn file_calls(&mut self, command: &'static str, path: &str, level: u64) {
        for k in (1..=self.files).rev() {
            let starts_process = command == "dd" || k == self.files;
            self.call(command, path, level, k, starts_process);
        }
        for child in self.subdirectories(path, level) {
            self.file_calls(command, &child, level - 1);
        }
    }

    fn remove_directories(&mut self, path: &str, level: u64) {
        for child in self.subdirectories(path, level) {
            self.remove_directories(&child, level - 1);
        }
        if level > 0 {
            (1..=self.dirs).rev().for_each(|k| self.call("rmdir", path, level, k, k == self.dirs));
        }
    }

    /// The calls of one phase.
    fn phase(mut self, phase: usize, levels: u64) -> Vec<(&'static str, String, bool)> {
        match phase {
            0 => {
                self.calls.push(("mkdir", ROOT.into(), true));
                self.create_directories(ROOT, levels);
            }
            1 => self.file_calls("dd", ROOT, levels),
            2 => self.file_calls("rm", ROOT, levels),
            _ => {
                self.remove_directories(ROOT, levels);
                self.calls.push(("rmdir", ROOT.into(), true));
            }
        }
        self.calls
    }
}

/// The workload's calls in the same notation; writes and closes are checked by the file system in
/// memory.
fn calls(work: &dyn Workload, phase: usize) -> Vec<(&'static str, String, bool)> {
    let mut ops = work.ops(phase, Share::WHOLE);
    let mut op = Op::default();
    let mut calls = Vec::new();
    while ops.next(&mut op) {
        let command = match op.call {
            Call::Mkdir { .. } => "mkdir",
            Call::Create { .. } => "dd",
            Call::Unlink { .. } => "rm",
            Call::Rmdir { .. } => "rmdir",
            _ => {
                assert_eq!(op.compute, Nanos(0));
                continue;
            }
        };
        calls.push((command, op.name.display(), op.compute == Nanos(7000)));
    }
    calls
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_small_tree_is_made_and_removed_in_the_order_of_the_script(
        (levels, dirs) in (0u64..4, 1u64..5),
        (files, size) in (1u64..12, 0u64..4),
        data in prop::sample::select(vec!["zeros", "random"]),
        threads in 1u32..3,
    ) {
        let (l, d, f, s) = (levels.to_string(), dirs.to_string(), files.to_string(), size.to_string());
        let set = [
            ("levels", &*l), ("dirs", &*d), ("files", &*f), ("size", &*s), ("data", data),
            ("fork-time", "7"),
        ];
        check_workload("fdtree", &set, 1, threads);
        let work = build("fdtree", &set, &Setting::seed(1));
        for phase in 0..4 {
            let script = Script { dirs, files, calls: Vec::new() };
            prop_assert_eq!(calls(work.as_ref(), phase), script.phase(phase, levels));
        }
    }
}

#[test]
fn the_four_published_sets_have_the_counts_of_the_tables() {
    let rows = [
        ("small-shallow", 8_421, 336_840, 1_347_360),
        ("small-deep", 88_573, 354_292, 1_417_168),
        ("medium-shallow", 307, 3_070, 12_280_000),
        ("medium-deep", 2_047, 4_094, 16_376_000),
    ];
    for (set, directories, files, kib) in rows {
        let work = build("fdtree", &[("set", set)], &Setting::default());
        let units: Vec<_> = (0..4).map(|phase| work.work_units(phase)).collect();
        assert_eq!(units[0]["directories"], directories, "{set}");
        assert_eq!((units[1]["files"], units[1]["KiB"]), (files, kib), "{set}");
        assert_eq!((units[2]["files"], units[3]["directories"]), (files, directories));
        assert_eq!(work.counts(0, 1)[&OpKind::Mkdir], directories);
        assert_eq!(work.counts(1, 1)[&OpKind::Create], files);
        assert_eq!(work.counts(1, 1)[&OpKind::Write] * 4, kib);
        assert_eq!((work.tree(2).files(), work.tree(2).directories()), (0, directories));
        assert_eq!(work.needs().bytes.0, kib * 1024);
    }
}

#[test]
fn every_call_of_the_small_shallow_set_is_made_as_counted() {
    let work = build("fdtree", &[("set", "small-shallow")], &Setting::default());
    let count_ops = |phase| {
        let (mut ops, mut op, mut count) = (work.ops(phase, Share::WHOLE), Op::default(), 0);
        while ops.next(&mut op) {
            count += 1;
        }
        count
    };
    assert_eq!([0, 1, 2, 3].map(count_ops), [8_421, 3 * 336_840, 336_840, 8_421]);
}

#[test]
fn the_defaults_are_those_of_the_script() {
    let work = build("fdtree", &[], &Setting::default());
    // 1 + 10 + 100 + 1000 + 10000 directories with 10 files of 40 KiB each.
    assert_eq!(work.work_units(0)["directories"], 11_111);
    assert_eq!(work.work_units(1)["KiB"], 4_444_400);
    assert_eq!(work.phases().len(), 4);
    let create = build("fdtree", &[("mode", "create")], &Setting::default());
    let names: Vec<_> = create.phases().iter().map(|phase| phase.name).collect();
    assert_eq!(names, ["directory-create", "file-create"]);
    assert_eq!(create.tree(1).files(), 111_110);
}

#[test]
fn a_hundred_million_files_take_no_memory_and_no_time_to_plan() {
    let set = [("levels", "6"), ("dirs", "10"), ("files", "90"), ("data", "random")];
    let work = build("fdtree", &set, &Setting::default());
    assert_eq!(work.work_units(1)["files"], 99_999_990);
    // The first child comes last: all below its nine siblings come before it.
    let path = format!("{ROOT}/L6D1/L5F90");
    let expected = Expected::file(Payload { id: 1_000_000 * 90 + 89, offset: 0, length: 40_960 });
    assert_eq!(work.tree(1).lookup(path.as_bytes()), Some(expected));
}

#[test]
fn paths_outside_the_tree_are_not_found() {
    let set = [("levels", "2"), ("dirs", "3"), ("files", "2")];
    let work = build("fdtree", &set, &Setting::default());
    let exists = |path: &str| work.tree(1).lookup(format!("{ROOT}{path}").as_bytes()).is_some();
    for expected in ["", "/L2D3", "/L2D3/L1D1", "/L2F1", "/L2D1/L1D2/L0F2"] {
        assert!(exists(expected), "{expected}");
    }
    for invalid in [
        "x",
        "/",
        "/L2D0",
        "/L2D4",
        "/L1D1",
        "/L2F3",
        "/L2D01",
        "/L2D+1",
        "/L02D1",
        "/L2D1/",
        "/L2D",
        "/L2D1/L1D1/L0D1",
        "/L2F1/L1F1",
        "/L2D1/L1F1/L0F1",
        "/LD1",
        "/2D1",
        "/L2D1/L1D1/L0F9",
    ] {
        assert!(!exists(invalid), "{invalid}");
    }
    assert!(work.tree(0).lookup(format!("{ROOT}/L2F1").as_bytes()).is_none());
}

#[test]
fn a_set_with_a_contradicting_number_is_refused_and_so_is_a_too_large_tree() {
    let refusal = |set: &[(&str, &str)]| {
        let kind = workloads::find("fdtree").unwrap();
        kind.build(&kind.resolve(set).unwrap(), &Setting::default()).err().unwrap().to_string()
    };
    assert_eq!(
        refusal(&[("set", "small-deep"), ("levels", "3")]),
        "levels=3 contradicts set=small-deep, which has levels=10; omit one of them"
    );
    build("fdtree", &[("set", "small-deep"), ("levels", "10")], &Setting::default());
    let large = refusal(&[("levels", "64"), ("dirs", "1000000")]);
    assert!(large.contains("use fewer of one of them"), "{large}");
}
