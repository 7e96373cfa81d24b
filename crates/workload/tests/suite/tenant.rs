//! tenant against the file system in memory, for any end of the neighbour.

use crate::memory::{Memory, build, check_workload};
use fsdyno_record::Nanos;
use fsdyno_record::OpKind::{
    self, Append, Close, Create, Fsync, Mkdir, Open, Read, Stat, Unlink, Write,
};
use fsdyno_workload::{
    Call, Expected, Op, OpCounts, Payload, ProgressPoint, Setting, Share, Threads, workloads,
};
use proptest::prelude::*;

const WITH_NEIGHBOUR: usize = 2;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn files_are_created_and_removed_and_the_stream_is_complete(
        (tenants, files, rounds) in (1u32..6, 1u64..30, 1u64..40),
        (size, stream) in (1u64..5000, 1u64..300_000),
        (block, fsync) in (prop::sample::select(vec![512u64, 3000, 65_536]), prop::bool::ANY),
        seed: u64,
    ) {
        check_workload("tenant", &[
            ("tenants", &tenants.to_string()), ("files", &files.to_string()),
            ("rounds", &rounds.to_string()), ("size", &size.to_string()),
            ("stream", &stream.to_string()), ("block", &block.to_string()),
            ("fsync", if fsync { "yes" } else { "no" }),
        ], seed, 2);
    }
}

/// Four tenants do 500 rounds each; 2 GiB are 2,048 calls of 1 MiB.
#[test]
fn the_defaults_have_the_counts_computed_by_hand() {
    let work = build("tenant", &[], &Setting::seed(1));
    let phases = work.phases();
    let threads: Vec<Threads> = phases.iter().map(|phase| phase.threads).collect();
    assert_eq!(threads, [Threads::One, Threads::Exactly(4), Threads::Exactly(5)]);
    let ends: Vec<Option<u32>> = (0..3).map(|phase| work.ends_with(phase)).collect();
    assert_eq!(ends, [None, None, Some(4)]);
    let fill = [(Mkdir, 4), (Create, 4001), (Write, 4000), (Close, 4001)];
    assert_eq!(work.counts(0, 1), OpCounts::from(fill));
    let rounds: [(OpKind, u64); 8] = [
        (Stat, 2000),
        (Open, 2000),
        (Read, 2000),
        (Create, 2000),
        (Append, 2000),
        (Fsync, 2000),
        (Close, 4000),
        (Unlink, 2000),
    ];
    let mut counts = OpCounts::from(rounds);
    assert_eq!(work.counts(1, 4), counts);
    counts.extend([(Open, 2001), (Write, 2048), (Close, 4001)]);
    assert_eq!(work.counts(WITH_NEIGHBOUR, 5), counts);
    assert_eq!(work.work_units(WITH_NEIGHBOUR)["neighbour bytes"], 2 << 30);
    assert_eq!(work.needs().bytes.0, 4 * 1001 * 4096 + (2 << 30));
}

/// The neighbour ends when the tenants have done a number of ops: each ends its round, and everything
/// is as predicted.
#[test]
fn counts_work_units_and_tree_are_exact_for_any_end_of_the_neighbour() {
    let set =
        [("tenants", "2"), ("files", "5"), ("rounds", "9"), ("stream", "5000"), ("block", "512")];
    let work = build("tenant", &set, &Setting::seed(5));
    for (first, second) in [(0, 0), (1, 9), (17, 18), (30, 200), (200, 200)] {
        let mut memory = Memory::default();
        let mut op = Op::default();
        for phase in 0..WITH_NEIGHBOUR {
            let ranks = work.phases()[phase].threads.count_of(1);
            for rank in 0..ranks {
                let mut ops = work.ops(phase, Share { rank, ranks });
                while ops.next(&mut op) {
                    op.thread = rank;
                    assert_eq!(memory.apply(&op), op.expect);
                }
            }
        }
        memory.counts.clear();
        let mut done = Vec::new();
        for (rank, finish_after) in [(0, first), (1, second), (2, u64::MAX)] {
            let mut ops = work.ops(WITH_NEIGHBOUR, Share { rank, ranks: 3 });
            let mut count = 0;
            loop {
                if count == finish_after {
                    ops.finish();
                }
                if !ops.next(&mut op) {
                    break;
                }
                op.thread = rank;
                assert_eq!(memory.apply(&op), op.expect);
                count += 1;
            }
            done.push(ops.done());
        }
        let rounds = [first, second].map(|ops: u64| ops.div_ceil(9).min(9));
        assert_eq!(done, [rounds[0], rounds[1], 10], "a round that was begun is ended");
        assert_eq!(memory.counts, work.counts_after(WITH_NEIGHBOUR, &done));
        assert_eq!(work.work_units_after(WITH_NEIGHBOUR, &done)["rounds"], rounds[0] + rounds[1]);
        memory.check(work.tree_after(WITH_NEIGHBOUR, &done).as_ref());
    }
}

#[test]
fn tenants_think_and_begin_when_the_neighbour_has_its_lead() {
    let set = [("stream", "8M"), ("rounds", "200"), ("think", "10")];
    let work = build("tenant", &set, &Setting::seed(1));
    let mut op = Op::default();
    for (phase, expected) in
        [(1, ProgressPoint::default()), (WITH_NEIGHBOUR, ProgressPoint { thread: 4, ops: 2 })]
    {
        let mut ops = work.ops(phase, Share { rank: 3, ranks: 5 });
        let (mut think_time, mut stat_count) = (Nanos(0), 0);
        while ops.next(&mut op) {
            match op.call {
                Call::Stat { .. } => {
                    let first = if stat_count == 0 { expected } else { ProgressPoint::default() };
                    assert_eq!(op.after, first);
                    assert!(op.think <= Nanos(20_000_000));
                    stat_count += 1;
                    think_time += op.think;
                }
                _ => assert_eq!((op.after, op.think), (ProgressPoint::default(), Nanos(0))),
            }
        }
        // Evenly up to 20 ms: 200 of them have a mean of 10 ms, within 5 standard errors of 0.41 ms.
        assert_eq!(stat_count, 200);
        assert!((1_590_000_000..2_410_000_000).contains(&think_time.0), "{think_time:?}");
    }
}

#[test]
fn a_file_exists_for_as_many_rounds_as_the_number_of_files() {
    let work = build("tenant", &[("files", "10"), ("rounds", "4")], &Setting::seed(1));
    let content = |id| Some(Expected::file(Payload { id, offset: 0, length: 4096 }));
    for (phase, first) in [(0, 0), (1, 4), (2, 8)] {
        let tree = work.tree(phase);
        let file = |file| tree.lookup(format!("t002/f{file:08}").as_bytes());
        assert_eq!(
            (file(first), file(first + 9)),
            (content(4 * first + 2), content(4 * first + 38))
        );
        assert_eq!((file(first + 10), first.checked_sub(1).and_then(file)), (None, None));
    }
    let tree = work.tree(2);
    for missing in ["t004", "t02", "t002/f8", "t002/f00000009/x", "stream/x"] {
        assert_eq!(tree.lookup(missing.as_bytes()), None, "{missing}");
    }
}

#[test]
fn a_lead_beyond_the_end_is_refused() {
    let kind = workloads::find("tenant").unwrap();
    let invalid = kind.resolve(&[("stream", "1M"), ("lead", "2M")]).unwrap();
    let error = kind.build(&invalid, &Setting::default()).err().unwrap().to_string();
    assert!(error.contains("use lead=1048576 or less"), "{error}");
}
