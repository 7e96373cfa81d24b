//! source-tree: every phase against the file system in memory, and its defaults against the
//! published ones.

use crate::memory::{build, check_workload};
use fsdyno_record::OpKind;
use fsdyno_workload::{Call, Op, Setting, Share};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn trees_of_any_shape_are_copied_packed_unpacked_and_removed(
        (trees, files, directories) in (1u64..12, 1u64..120, 1u64..60),
        size in prop::sample::select(vec!["mix", "0", "1", "512", "10240", "10241", "131073"]),
        order in prop::sample::select(vec!["readdir", "inode", "name"]),
        (seed, threads) in (prop::num::u64::ANY, 1u32..3),
    ) {
        check_workload("source-tree", &[
            ("trees", &trees.to_string()), ("files", &files.to_string()),
            ("directories", &directories.to_string()), ("size", size), ("order", order),
        ], seed, threads);
    }
}

#[test]
fn the_default_is_three_trees_of_655_megabytes() {
    let work = build("source-tree", &[], &Setting::seed(1));
    let units = work.work_units(0);
    assert_eq!(units["files"], 60_000);
    assert!((640_000_000..670_000_000).contains(&units["bytes"]), "{}", units["bytes"]);
    assert_eq!(work.counts(0, 1)[&OpKind::Mkdir], 3 * 1200 + 1);
    assert_eq!(work.counts(4, 1)[&OpKind::Unlink], 3 * 60_000 + 1);
    let names: Vec<_> = work.phases().iter().map(|phase| phase.name).collect();
    assert_eq!(names, ["copy-in", "copy-within", "pack", "unpack", "remove"]);
}

#[test]
fn a_directory_gets_its_time_when_it_is_complete() {
    let set = [("trees", "1"), ("files", "30"), ("directories", "12")];
    let work = build("source-tree", &set, &Setting::seed(5));
    let (mut ops, mut op) = (work.ops(0, Share::WHOLE), Op::default());
    let mut complete: Vec<String> = Vec::new();
    while ops.next(&mut op) {
        let path = op.name.display();
        match op.call {
            Call::Utimes { .. } => complete.push(path),
            Call::Mkdir { .. } | Call::Create { .. } => {
                let below = |top: &String| path.starts_with(&format!("{top}/"));
                assert!(!complete.iter().any(below), "{path} comes too late");
            }
            _ => {}
        }
    }
    assert_eq!(complete.len(), 12);
    assert_eq!(complete.last().unwrap(), "in/tree0");
}

#[test]
fn paths_outside_the_trees_are_not_found() {
    let set = [("trees", "2"), ("files", "30"), ("directories", "12")];
    let work = build("source-tree", &set, &Setting::seed(5));
    let exists = |phase: usize, path: &str| work.tree(phase).lookup(path.as_bytes()).is_some();
    assert!(exists(0, "in") && exists(0, "in/tree1") && !exists(0, "copy"));
    assert!(exists(1, "copy/tree0") && !exists(1, "archive.tar"));
    assert!(exists(2, "archive.tar") && !exists(2, "out"));
    assert!(exists(3, "out/in/tree0") && exists(3, "out") && exists(3, "out/in"));
    assert!(!exists(4, "in"));
    for invalid in
        ["in/", "in/tree2", "in/tree0/", "in/f00", "in/tree0/x", "in/tree0/d00", "out/tree0"]
    {
        assert!(!exists(3, invalid), "{invalid}");
    }
    // A file is in one directory only.
    let directories =
        (1..12).filter(|directory| exists(0, &format!("in/tree0/d{directory:02}/f29")));
    assert!(directories.count() <= 1);
}
