//! The readers of the mail workloads: retrieval after a delivery, and random reads.

use std::collections::BTreeMap;

use crate::mail::trace;
use crate::memory::build;
use fsdyno_record::OpKind;
use fsdyno_workload::{Call, Compound, Op, Setting, Share, Workload};

/// For each deliverer, the number of its ops that have returned when the last op of each delivery returns.
fn delivery_ends(
    work: &dyn Workload,
    phase: usize,
    deliverers: u32,
    last_call: &str,
) -> Vec<Vec<u64>> {
    let ends = |rank| {
        let calls = trace(work, phase, Share { rank, ranks: deliverers + 1 });
        let numbered = (1..).zip(calls);
        numbered.filter(|(_, call)| call.starts_with(last_call)).map(|(number, _)| number).collect()
    };
    (0..deliverers).map(ends).collect()
}

#[test]
fn a_message_is_retrieved_right_after_its_delivery_and_by_these_calls() {
    let table = [
        ("copy", "close"),
        ("qmail", "closedir"),
        ("postfix", "unlink"),
        ("fsbench", "closedir"),
        ("dovecot", "closedir"),
    ];
    for (protocol, last) in table {
        let set = [("deliverers", "sweep"), ("protocol", protocol), ("ops", "50"), ("store", "7")];
        let work = build("maildir", &set, &Setting::seed(8));
        let names: Vec<&str> = work.phases().iter().map(|phase| phase.name).collect();
        let expected = ["setup", "deliver-1", "deliver-2", "deliver-4", "deliver-8", "deliver-16"];
        assert_eq!(names, expected);
        for (phase, deliverers) in [(1, 1), (2, 2), (3, 4), (4, 8), (5, 16)] {
            let ends = delivery_ends(work.as_ref(), phase, deliverers, last);
            let mut ops = work.ops(phase, Share { rank: deliverers, ranks: deliverers + 1 });
            let mut op = Op::default();
            let mut waits = vec![Vec::new(); deliverers as usize];
            while ops.next(&mut op) {
                assert_eq!(
                    op.after.ops > 0,
                    matches!(op.call, Call::Compound(Compound::Scan { .. }))
                );
                if op.after.ops > 0 {
                    waits[op.after.thread as usize].push(op.after.ops);
                }
            }
            assert_eq!(waits, ends, "{protocol} {deliverers}");
        }
    }
}

#[test]
fn a_reader_lists_renames_reads_and_deletes() {
    let set = [
        ("deliverers", "1"),
        ("ops", "1"),
        ("maildirs", "1"),
        ("size", "5000"),
        ("protocol", "fsbench"),
        ("retrieve", "delete"),
    ];
    let work = build("maildir", &set, &Setting::seed(1));
    let expected = [
        "scan maildir0/new",
        "rename maildir0/new/1099267200.2119_0.mail maildir0/cur/1099267200.2119_0.mail:2,S",
        "open maildir0/cur/1099267200.2119_0.mail:2,S",
        "read 4096",
        "read 4096",
        "read 4096",
        "close",
        "unlink maildir0/cur/1099267200.2119_0.mail:2,S",
    ];
    assert_eq!(trace(work.as_ref(), 1, Share { rank: 1, ranks: 2 }), expected);
}

#[test]
fn random_reads_read_each_message_completely_and_about_equally_often() {
    let work = build("maildir-read", &[("read-store", "20"), ("size", "5000")], &Setting::seed(2));
    let mut reads = BTreeMap::<String, u32>::new();
    for call in trace(work.as_ref(), 1, Share::WHOLE) {
        if let Some(path) = call.strip_prefix("open ") {
            *reads.entry(path.to_string()).or_default() += 1;
        }
    }
    // 500 +- 21.8 each.
    assert!(reads.len() == 20 && reads.values().all(|n| (413..=587).contains(n)), "{reads:?}");
    let counts = work.counts(1, 1);
    // 5,000 bytes are two calls, and the third returns nothing; one open and close are the
    // listing's.
    assert_eq!(counts[&OpKind::Read], 30_000);
    assert_eq!(counts[&OpKind::Open], 10_001);
    assert_eq!(work.work_units(1)["read bytes"], 50_000_000);
}
