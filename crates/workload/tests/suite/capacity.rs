//! capacity: counts, work units and tree are exact, whichever call runs out of space.

use std::collections::BTreeMap;

use crate::memory::build;
use fsdyno_record::OpKind;
use fsdyno_workload::{Op, Setting, Share};

const SET: [(&str, &str); 2] = [("files-per-directory", "3"), ("size", "1-9")];

#[test]
fn the_work_units_are_those_of_the_calls_before_space_ran_out() {
    let work = build("capacity", &SET, &Setting::seed(5));
    assert!(work.fills_file_system() && work.counts(0, 1).is_empty() && work.tree(0).files() == 0);
    for max_calls in 0..40 {
        let mut source = work.ops(0, Share::WHOLE);
        let (mut op, mut counts, mut bytes) = (Op::default(), BTreeMap::<OpKind, u64>::new(), 0);
        let (mut calls, mut is_full) = (0, false);
        while source.next(&mut op) {
            let kind = op.call.kind().unwrap();
            // A close needs no space.
            if calls >= max_calls && !is_full && kind != OpKind::Close {
                is_full = true;
                assert!(source.handle_full(), "{kind} may run out of space");
                continue;
            }
            calls += 1;
            if let fsdyno_workload::Call::Write { payload, .. } = op.call {
                bytes += u64::from(payload.length);
            }
            *counts.entry(kind).or_default() += 1;
        }
        assert!(is_full, "it ends only when space runs out");
        let done = [source.done()];
        assert_eq!(work.counts_after(0, &done), counts, "space for {max_calls} calls");
        let count = |kind| counts.get(&kind).copied().unwrap_or(0);
        let files = count(OpKind::Create) - count(OpKind::Unlink);
        let tree = work.tree_after(0, &done);
        assert_eq!((tree.files(), tree.directories()), (files, count(OpKind::Mkdir)));
        let units = work.work_units_after(0, &done);
        assert_eq!(units.get("files").copied().unwrap_or(0), files);
        assert_eq!(units.get("data bytes").copied().unwrap_or(0), bytes);
        for file in 0..files {
            let path = format!("d{:06}/f{file:08}", file / 3);
            assert!(tree.lookup(path.as_bytes()).is_some(), "{path}");
        }
        let next = format!("d{:06}/f{files:08}", files / 3);
        assert_eq!(tree.lookup(next.as_bytes()), None);
    }
}

#[test]
fn a_close_that_runs_out_of_space_is_not_an_expected_end() {
    let work = build("capacity", &SET, &Setting::seed(5));
    let mut source = work.ops(0, Share::WHOLE);
    let mut op = Op::default();
    while source.next(&mut op) && op.call.kind() != Some(OpKind::Close) {}
    assert!(!source.handle_full());
}
