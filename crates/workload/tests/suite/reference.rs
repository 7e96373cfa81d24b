//! Every workload against a file system in memory: each op is legal, the counts are exact, and the
//! tree it leaves is the predicted one.

use crate::memory::{build, check_workload};
use fsdyno_workload::{Call, Op, OpenFlags, Setting, Share};
use proptest::prelude::*;

fn order() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["forward", "reverse", "random"])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn dirops_makes_the_predicted_tree_and_removes_it(
        files in 1u64..400,
        (create, stat, delete) in (order(), order(), order()),
        (with_stat, digits, size) in (prop::bool::ANY, 1u64..12, prop::sample::select(vec![0, 1, 4096])),
        names in prop::sample::select(vec!["numbered", "hex", "random"]),
        length in prop::sample::select(vec!["auto", "13", "60", "255"]),
        (seed, threads) in (prop::num::u64::ANY, 1u32..4),
    ) {
        check_workload("dirops", &[
            ("files", &files.to_string()),
            ("create-order", create), ("order", delete),
            ("stat-order", if with_stat { stat } else { "random" }),
            ("stat", if with_stat { "yes" } else { "no" }),
            ("digits", &match (names, length) {
                (_, "auto") => digits.max(3),
                ("numbered", _) => digits,
                _ => 7,
            }.to_string()),
            ("names", names), ("name-length", length), ("size", &size.to_string()),
        ], seed, threads);
    }

    #[test]
    fn tarball_extracts_the_predicted_tree_and_removes_it(
        files in 1u64..400,
        directories in 1u64..100,
        size in prop::sample::select(vec!["mix", "0", "1", "4096", "10240", "100000"]),
        order in prop::sample::select(vec!["readdir", "inode", "name", "creation", "reverse", "random"]),
        seed: u64,
    ) {
        check_workload("tarball", &[
            ("files", &files.to_string()),
            ("directories", &directories.min(files).to_string()),
            ("size", size), ("order", order),
        ], seed, 1);
    }
}

#[test]
fn the_shares_of_dirops_together_create_every_file() {
    let set = [("files", "1000"), ("create-order", "random")];
    let work = build("dirops", &set, &Setting::seed(3));
    let mut created = Vec::new();
    for rank in 0..7 {
        let mut ops = work.ops(0, Share { rank, ranks: 7 });
        let mut op = Op::default();
        while ops.next(&mut op) {
            if matches!(op.call, Call::Create { .. }) {
                created.push(op.name.display());
            }
        }
    }
    created.sort();
    created.dedup();
    assert_eq!(created.len(), 1000);
}

#[test]
fn the_order_depends_on_the_seed_alone() {
    let names = |seed| {
        let work = build("tarball", &[("files", "50")], &Setting::seed(seed));
        let mut ops = work.ops(0, Share::WHOLE);
        let mut op = Op::default();
        let mut names = Vec::new();
        while ops.next(&mut op) {
            names.push(format!("{:?} {:?}", op.call, op.name));
        }
        names
    };
    assert_eq!(names(1), names(1));
    assert_ne!(names(1), names(2));
}

#[test]
fn more_directories_than_files_are_refused_before_any_work() {
    let kind = fsdyno_workload::workloads::find("tarball").unwrap();
    let set = kind.resolve(&[("files", "10"), ("directories", "11")]).unwrap();
    let error = kind.build(&set, &Setting::default()).err().unwrap();
    assert!(error.to_string().contains("directories=10"), "{error}");
}

fn refusal(name: &str, set: &[(&str, &str)]) -> String {
    let kind = fsdyno_workload::workloads::find(name).unwrap();
    let set = kind.resolve(set).unwrap();
    kind.build(&set, &Setting::default()).err().unwrap().to_string()
}

#[test]
fn names_of_dirops_that_are_too_short_are_refused_and_the_proposed_length_is_accepted() {
    let hex = [("files", "1000"), ("names", "hex"), ("name-length", "3")];
    assert!(refusal("dirops", &hex).contains("use name-length=4 or more"));
    let numbered = [("files", "1000"), ("digits", "1"), ("name-length", "3")];
    assert!(refusal("dirops", &numbered).contains("use name-length=4 or more"));
    check_workload("dirops", &[("files", "1000"), ("names", "hex"), ("name-length", "4")], 1, 1);
    check_workload("dirops", &[("files", "1000"), ("digits", "1"), ("name-length", "4")], 1, 1);
}

#[test]
fn names_of_dirops_have_the_length_and_the_letters_that_were_requested() {
    let names = |set: &[(&str, &str)]| {
        let work = build("dirops", set, &Setting::seed(3));
        let mut ops = work.ops(0, Share::WHOLE);
        let mut op = Op::default();
        let mut names = Vec::new();
        while ops.next(&mut op) {
            if matches!(op.call, Call::Create { .. }) {
                names.push(op.name.display());
            }
        }
        names
    };
    assert_eq!(names(&[("files", "2"), ("name-length", "12")]), ["fxxxx0000000", "fxxxx0000001"]);
    let hex = names(&[("files", "200"), ("names", "hex"), ("prefix", "g"), ("name-length", "39")]);
    assert!(hex.iter().all(|name| name.len() == 39 && name.starts_with('g')));
    assert!(
        hex.iter().all(|name| name[1..].bytes().all(|byte| b"0123456789abcdef".contains(&byte)))
    );
    let mut sorted = hex.clone();
    sorted.sort();
    assert_ne!(hex, sorted, "digests are in no order");
}

#[test]
fn dirops_opens_empty_files_with_o_creat_alone() {
    for (size, writes) in [("0", false), ("1", true)] {
        let work = build("dirops", &[("files", "3"), ("size", size)], &Setting::seed(1));
        let (mut ops, mut op, mut created) = (work.ops(0, Share::WHOLE), Op::default(), 0);
        while ops.next(&mut op) {
            if let Call::Create { flags, .. } = op.call {
                assert_eq!(flags, OpenFlags { write: writes, ..OpenFlags::NONE });
                created += 1;
            }
        }
        assert_eq!(created, 3);
    }
}
