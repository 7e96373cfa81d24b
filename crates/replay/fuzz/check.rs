//! The properties of a compilation of arbitrary bytes: it ends with an error or a replay. The replay has no path that
//! leads out of its directory, its ops wait only for existing ops, and no file exceeds the limit of a replay. Used by
//! the fuzz target and the test of mutated traces.

use std::io::{Read, Seek, Write};

use fsdyno_workload::workloads::replay::KIND;
use fsdyno_workload::{ExpectedKind, Input, Op, Setting, Share};

/// The largest file that a replay writes.
const MAX_SIZE: u64 = 1 << 50;

/// Panics if a property does not hold.
pub fn check(bytes: &[u8]) {
    let file = || tempfile::tempfile().expect("a file");
    let (mut trace, mut out) = (file(), file());
    trace.write_all(bytes).expect("a write to a file");
    let Ok(length) = fsdyno_replay::compile(&mut trace, &mut out) else { return };
    out.rewind().expect("a file");
    let mut compiled = Vec::new();
    out.take(length).read_to_end(&mut compiled).expect("a file");
    assert_eq!(compiled.len() as u64, length);
    let values = KIND.resolve(&[("trace", "t")]).expect("a parameter of the workload");
    let setting = Setting { seed: 1, input: Some(Input::new(compiled)) };
    // The construction of the workload checks every string.
    let work = match KIND.build(&values, &setting) {
        Ok(work) => work,
        Err(error) => {
            assert!(!error.to_string().contains("could lead out"), "{error}");
            return;
        }
    };
    let mut paths = Vec::new();
    let mut op = Op::default();
    if let Some(mut prefill) = work.prefill() {
        while prefill.ops.next(&mut op) {
            paths.push(op.name.as_bytes().to_vec());
        }
    }
    for (phase, spec) in work.phases().iter().enumerate() {
        let ranks = spec.threads.count_of(1);
        let count = |rank| {
            let mut source = work.ops(phase, Share { rank, ranks });
            std::iter::from_fn(|| source.next(&mut Op::default()).then_some(())).count() as u64
        };
        let counts: Vec<u64> = (0..ranks).map(count).collect();
        for rank in 0..ranks {
            let mut source = work.ops(phase, Share { rank, ranks });
            while source.next(&mut op) {
                let last = |point: &fsdyno_workload::ProgressPoint| {
                    assert!(
                        point.ops <= counts[point.thread as usize],
                        "waits for {point:?} of {counts:?}"
                    );
                };
                last(&op.after);
                op.also_after.iter().for_each(last);
            }
        }
        let tree = work.tree(phase);
        for path in &paths {
            if let Some(ExpectedKind::Pieces(size)) = tree.lookup(path).map(|it| it.kind) {
                assert!(size <= MAX_SIZE, "a file of {size} bytes");
            }
        }
    }
}
