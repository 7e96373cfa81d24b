//! bigfile against the file system in memory and against counts computed by hand.

use crate::memory::{build, check_workload};
use fsdyno_record::OpKind::{Close, Create, Fallocate, Fsync, Open, Read, Unlink, Write};
use fsdyno_workload::{
    Call, ExpectedKind, GapKind, Op, OpCounts, Payload, Setting, Share, Threads, workloads,
};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_byte_is_as_predicted_after_each_phase_for_any_number_of_threads(
        size in 512u64..200_000,
        (block, unit) in (prop::sample::select(vec![512u64, 3000, 65_536]), 512u64..5000),
        (reads, writes, fsync) in (0u64..90, 0u64..400, 0u64..9),
        (preallocate, rewrite) in (prop::bool::ANY, prop::bool::ANY),
        threads in 1u32..5,
        seed: u64,
    ) {
        let unit = unit.min(size);
        let yes_no = |yes| if yes { "yes" } else { "no" };
        check_workload("bigfile", &[
            ("size", &size.to_string()), ("block", &block.to_string()), ("unit", &unit.to_string()),
            ("reads", &reads.to_string()), ("writes", &writes.to_string()),
            ("fsync", &fsync.to_string()), ("preallocate", yes_no(preallocate)),
            ("rewrite", yes_no(rewrite)),
        ], seed, threads);
    }
}

/// 5 GiB are 5,120 calls of 1 MiB.
#[test]
fn the_defaults_and_all_phases_have_the_counts_computed_by_hand() {
    let set = [("preallocate", "yes"), ("rewrite", "yes"), ("fsync", "3")];
    let work = build("bigfile", &set, &Setting::seed(1));
    let phases = work.phases();
    let names: Vec<&str> = phases.iter().map(|phase| phase.name).collect();
    assert_eq!(names, ["preallocate", "write", "rewrite", "random-read", "random-write", "delete"]);
    assert_eq!(work.counts(0, 1), OpCounts::from([(Create, 1), (Fallocate, 1), (Close, 1)]));
    let sweep = OpCounts::from([(Open, 1), (Write, 5120), (Close, 1)]);
    assert_eq!((work.counts(1, 1), work.counts(2, 1)), (sweep.clone(), sweep));
    assert_eq!(work.counts(3, 4), OpCounts::from([(Open, 4), (Read, 10_000), (Close, 4)]));
    // Four threads with 2,500 writes each make 833 fsyncs each; one thread makes 3,333.
    let write = |threads, fsyncs| {
        [(Open, threads), (Write, 10_000), (Fsync, fsyncs), (Close, threads)].into()
    };
    assert_eq!((work.counts(4, 4), work.counts(4, 1)), (write(4, 3332), write(1, 3333)));
    assert_eq!(work.counts(5, 1), OpCounts::from([(Unlink, 1)]));
    assert_eq!((phases[3].threads, phases[1].threads), (Threads::Any, Threads::One));
    assert_eq!(work.work_units(4)["bytes"], 40_960_000);
    assert_eq!((work.needs().bytes.0, work.stored().0), (5 << 30, 5 << 30));
    let without_random = build("bigfile", &[("reads", "0"), ("writes", "0")], &Setting::seed(1));
    let names: Vec<&str> = without_random.phases().iter().map(|phase| phase.name).collect();
    assert_eq!(names, ["write", "delete"]);
    assert_eq!(
        without_random.counts(0, 1),
        OpCounts::from([(Create, 1), (Write, 5120), (Close, 1)])
    );
}

#[test]
fn no_unit_repeats_before_all_are_used() {
    let work = build("bigfile", &[("size", "64K"), ("unit", "512")], &Setting::seed(3));
    let phase = work.phases().iter().position(|phase| phase.name == "random-read").unwrap();
    let (mut ops, mut op, mut seen) = (work.ops(phase, Share::WHOLE), Op::default(), Vec::new());
    while ops.next(&mut op) {
        if let Call::ReadAt { offset, length, .. } = op.call {
            assert_eq!((offset % 512, length), (0, 512));
            seen.push(offset / 512);
        }
    }
    assert_eq!(seen.len(), 10_000);
    let mut first: Vec<u64> = seen[..128].to_vec();
    assert_ne!(first, (0..128).collect::<Vec<_>>());
    first.sort_unstable();
    assert_eq!(first, (0..128).collect::<Vec<_>>());
    assert_eq!(seen[..128], seen[128..256]);
}

#[test]
fn an_offline_file_is_only_deleted() {
    let memory = check_workload("bigfile", &[("built", "offline"), ("size", "3000000")], 1, 2);
    assert!(memory.paths().is_empty() && memory.written == 0);
    let set = [("built", "offline"), ("size", "2T")];
    let work = build("bigfile", &set, &Setting::seed(1));
    let phases = work.phases();
    assert_eq!((phases.len(), phases[0].name, phases[0].gap), (1, "delete", GapKind::Remount));
    assert_eq!((work.needs().bytes.0, work.stored().0), (2 << 40, 0));
    let before = work.prefill().unwrap().tree;
    let kind = before.lookup(b"big").unwrap().kind;
    assert_eq!((kind, before.files()), (ExpectedKind::Sized(2 << 40), 1));
    assert!(work.unused_params().contains(&"reads"));
    let timed = build("bigfile", &[], &Setting::seed(1));
    assert!(timed.prefill().is_none() && timed.unused_params().is_empty());
}

/// If fallocate is not supported, the prefill writes zeros from beginning to end; the phase `preallocate` fails.
#[test]
fn only_the_prefill_may_write_zeros_in_place_of_fallocate() {
    let work = build("bigfile", &[("built", "offline"), ("size", "2500000")], &Setting::seed(1));
    let mut ops = work.prefill().unwrap().ops;
    let (mut op, mut offset, mut calls) = (Op::default(), 0, Vec::new());
    while ops.next(&mut op) {
        if let Call::Fallocate { .. } = op.call {
            assert!(ops.handle_unsupported());
            continue;
        }
        if let Call::Write { payload, .. } = op.call {
            assert_eq!((payload.id, payload.offset), (Payload::ZEROS, offset));
            offset += u64::from(payload.length);
        }
        calls.push(op.call.kind().unwrap());
    }
    assert_eq!((offset, calls), (2_500_000, vec![Create, Write, Write, Write, Close]));
    assert!(!ops.handle_unsupported(), "only after fallocate");
    let timed = build("bigfile", &[("preallocate", "yes")], &Setting::seed(1));
    let mut ops = timed.ops(0, Share::WHOLE);
    while ops.next(&mut op) && !matches!(op.call, Call::Fallocate { .. }) {}
    assert!(!ops.handle_unsupported());
}

#[test]
fn a_file_smaller_than_a_unit_is_refused() {
    let kind = workloads::find("bigfile").unwrap();
    let invalid = kind.resolve(&[("size", "4095")]).unwrap();
    let error = kind.build(&invalid, &Setting::default()).err().unwrap().to_string();
    assert!(error.contains("size=4095 is less than unit=4096"), "{error}");
    let valid = kind.resolve(&[("size", "4095"), ("reads", "0"), ("writes", "0")]).unwrap();
    assert!(kind.build(&valid, &Setting::default()).is_ok());
}
