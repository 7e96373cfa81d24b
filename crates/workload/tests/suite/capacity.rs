//! capacity: counts, work units and tree are exact, whichever call runs out of space.

use std::collections::BTreeMap;

use crate::memory::build;
use fsdyno_record::OpKind;
use fsdyno_workload::{Op, Setting, Share};

const SET: [(&str, &str); 2] = [("files-per-directory", "3"), ("size", "1-9")];

#[test]
fn whichever_call_runs_out_of_space_the_work_units_are_of_the_calls_before() {
    let work = build("capacity", &SET, &Setting::seed(5));
    assert!(work.fills() && work.counts(0, 1).is_empty() && work.tree(0).files() == 0);
    for room in 0..40 {
        let mut source = work.ops(0, Share::WHOLE);
        let (mut op, mut made, mut bytes) = (Op::default(), BTreeMap::<OpKind, u64>::new(), 0);
        let (mut calls, mut full) = (0, false);
        while source.next(&mut op) {
            let kind = op.call.kind().unwrap();
            // A close needs no space.
            if calls >= room && !full && kind != OpKind::Close {
                full = true;
                assert!(source.handle_full(), "{kind} is where it may end");
                continue;
            }
            calls += 1;
            if let fsdyno_workload::Call::Write { payload, .. } = op.call {
                bytes += u64::from(payload.length);
            }
            *made.entry(kind).or_default() += 1;
        }
        assert!(full, "it ends for want of room only");
        let done = [source.done()];
        assert_eq!(work.counts_after(0, &done), made, "room for {room} calls");
        let count = |kind| made.get(&kind).copied().unwrap_or(0);
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
