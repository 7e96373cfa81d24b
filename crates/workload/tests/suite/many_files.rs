//! many-files against its published numbers and against plain nested loops.

use crate::memory::{build, check_workload};
use fsdyno_record::OpKind;
use fsdyno_workload::{Call, Op, Setting, Share, workloads};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_tree_is_made_and_removed_for_any_shape_and_number_of_threads(
        widths in prop::collection::vec(1u64..5, 1..6),
        (files, size) in (1u64..12, prop::sample::select(vec!["0", "1", "4096", "2M"])),
        data in prop::sample::select(vec!["zeros", "random"]),
        order in prop::sample::select(vec!["readdir", "inode", "name"]),
        threads in 1u32..7,
    ) {
        let widths: Vec<String> = widths.iter().map(u64::to_string).collect();
        check_workload("many-files", &[
            ("widths", &widths.join("/")), ("files", &files.to_string()), ("size", size),
            ("data", data), ("order", order),
        ], 1, threads);
    }
}

#[test]
fn the_calls_are_those_of_nested_loops() {
    let set = [("widths", "2/3"), ("files", "11")];
    let work = build("many-files", &set, &Setting::default());
    let mut expected = Vec::new();
    for i in 0..2 {
        expected.push(format!("{i}"));
        for j in 0..3 {
            expected.push(format!("{i}/{j}"));
            (0..11).for_each(|k| expected.push(format!("{i}/{j}/{k}")));
        }
    }
    let (mut ops, mut op, mut names) = (work.ops(0, Share::WHOLE), Op::default(), Vec::new());
    while ops.next(&mut op) {
        if matches!(op.call, Call::Mkdir { .. } | Call::Create { .. }) {
            names.push(op.name.display());
        }
    }
    assert_eq!(names, expected);
}

#[test]
fn every_named_tree_has_its_published_numbers() {
    let rows = [
        ("none", 405_000, 27_930),
        ("wide", 405_000, 3_615),
        ("deep", 405_000, 54_240),
        ("morton", 100_000, 11_110),
    ];
    for (set, files, directories) in rows {
        let work = build("many-files", &[("set", set)], &Setting::default());
        assert_eq!(work.counts(0, 1)[&OpKind::Create], files, "{set}");
        assert_eq!(work.counts(0, 1)[&OpKind::Write], files, "{set}");
        assert_eq!(work.counts(0, 1)[&OpKind::Mkdir], directories, "{set}");
        assert_eq!(work.counts(1, 1)[&OpKind::Unlink], files, "{set}");
        assert_eq!(work.needs().bytes.0, files * 4096);
    }
}

#[test]
fn paths_outside_the_tree_are_not_found() {
    let work = build("many-files", &[("widths", "3/12"), ("files", "2")], &Setting::default());
    let exists = |path: &str| work.tree(0).lookup(path.as_bytes()).is_some();
    ["0", "2", "2/11", "2/11/1", "0/0/0"]
        .iter()
        .for_each(|expected| assert!(exists(expected), "{expected}"));
    for invalid in ["", "3", "00", "2/12", "2/011", "2/11/2", "2/11/1/0", "2/", "/2", "+1", "x"] {
        assert!(!exists(invalid), "{invalid}");
    }
    assert!(work.tree(1).lookup(b"0").is_none());
}

#[test]
fn a_named_tree_with_a_contradicting_shape_is_refused_and_so_is_a_too_large_one() {
    let refusal = |set: &[(&str, &str)]| {
        let kind = workloads::find("many-files").unwrap();
        kind.build(&kind.resolve(set).unwrap(), &Setting::default()).err().unwrap().to_string()
    };
    assert_eq!(
        refusal(&[("set", "morton"), ("widths", "10/10")]),
        "widths=10/10 contradicts set=morton, which has widths=10/10/10/10; omit one of them"
    );
    let large = refusal(&[("widths", "1000/1000"), ("files", "1001")]);
    assert!(large.contains("more than 1000000000 files"), "{large}");
}
