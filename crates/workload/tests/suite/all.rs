//! The contract of every workload, checked with one scaled-down row each.

use crate::memory::{build, check_workload};
use fsdyno_workload::{GapKind, Op, Setting, Share, Workload, workloads};

/// A workload, the parameters that make it small, and true if its counts are the same for every seed.
struct Row {
    name: &'static str,
    set: &'static [(&'static str, &'static str)],
    same_counts: bool,
}

const ROWS: &[Row] = &[
    Row { name: "dirops", set: &[("files", "200"), ("stat", "yes")], same_counts: true },
    Row { name: "calls", set: &[("files", "50"), ("name", "40")], same_counts: false },
    Row { name: "tarball", set: &[("files", "200")], same_counts: false },
    Row {
        name: "source-tree",
        set: &[("files", "120"), ("directories", "20"), ("trees", "2")],
        same_counts: false,
    },
    Row {
        name: "maildir",
        set: &[("ops", "100"), ("maildirs", "5"), ("store", "100"), ("read-store", "50")],
        same_counts: false,
    },
    Row {
        name: "maildir-read",
        set: &[("reads", "100"), ("read-store", "50")],
        same_counts: false,
    },
    Row {
        name: "fdtree",
        set: &[("levels", "2"), ("dirs", "3"), ("files", "4")],
        same_counts: true,
    },
    Row {
        name: "bonnie",
        set: &[("file-size", "1M"), ("char", "4K"), ("seeks", "50"), ("files", "1")],
        same_counts: false,
    },
    Row { name: "many-files", set: &[("widths", "3/4"), ("files", "5")], same_counts: true },
    Row {
        name: "postmark",
        set: &[("number", "100"), ("transactions", "200")],
        same_counts: false,
    },
    Row {
        name: "everyday",
        set: &[
            ("documents", "70"),
            ("document-size", "0-300K"),
            ("songs", "13"),
            ("song-size", "5K"),
            ("films", "1"),
            ("film-size", "1M"),
        ],
        same_counts: false,
    },
    Row {
        name: "bigfile",
        set: &[
            ("size", "100001"),
            ("block", "3000"),
            ("unit", "512"),
            ("reads", "70"),
            ("writes", "80"),
        ],
        same_counts: true,
    },
    Row {
        name: "tenant",
        set: &[("tenants", "3"), ("files", "20"), ("rounds", "30"), ("stream", "9M")],
        same_counts: true,
    },
    Row {
        name: "capacity",
        set: &[("most", "70"), ("files-per-directory", "20")],
        same_counts: true,
    },
    Row { name: "churn", set: &[("files", "200"), ("ops", "1000")], same_counts: false },
];

/// The rows of the existing workloads.
fn rows() -> impl Iterator<Item = &'static Row> {
    ROWS.iter().filter(|row| workloads::find(row.name).is_ok())
}

/// All ops of a rank as text, and the work that its source reports as done.
fn ops(work: &dyn Workload, phase: usize, share: Share) -> (Vec<String>, u64) {
    let mut source = work.ops(phase, share);
    let mut op = Op::default();
    let mut ops = Vec::new();
    while source.next(&mut op) {
        ops.push(format!("{op:?}"));
    }
    (ops, source.done())
}

#[test]
fn every_workload_has_a_row_here_and_documents_its_sources() {
    // A replay has no work without a recording; crates/replay/tests has its tests. A command has no ops.
    let without_ops = ["replay", "command"];
    for kind in workloads::ALL.iter().filter(|kind| !without_ops.contains(&kind.name)) {
        let rows = ROWS.iter().filter(|row| row.name == kind.name).count();
        assert_eq!(rows, 1, "{}: one row in tests/suite/all.rs makes it small", kind.name);
        let marks = ["[SRC", "[PUB", "[RUN", "[DER", "[OWN", "[MEM"];
        assert!(marks.iter().any(|mark| kind.doc.contains(mark)), "{}: no mark in doc", kind.name);
    }
}

#[test]
fn with_any_number_of_threads_ops_are_legal_and_counts_needs_and_tree_exact() {
    for row in rows() {
        for threads in 1..=3 {
            check_workload(row.name, row.set, 7, threads);
        }
    }
}

#[test]
fn the_same_share_has_the_same_ops_and_they_end() {
    for row in rows() {
        let work = build(row.name, row.set, &Setting::seed(7));
        let again = build(row.name, row.set, &Setting::seed(7));
        for (phase, spec) in work.phases().iter().enumerate() {
            let ranks = spec.threads.count_of(2);
            for rank in 0..ranks {
                let share = Share { rank, ranks };
                let first = ops(work.as_ref(), phase, share);
                assert_eq!(first, ops(work.as_ref(), phase, share), "{} {rank}", row.name);
                assert_eq!(first, ops(again.as_ref(), phase, share), "{} {rank}", row.name);
            }
        }
    }
}

#[test]
fn counts_and_tree_after_all_work_equal_those_predicted() {
    for row in rows() {
        let work = build(row.name, row.set, &Setting::seed(7));
        for (phase, spec) in work.phases().iter().enumerate() {
            for ranks in [spec.threads.count_of(1), spec.threads.count_of(3)] {
                let done: Vec<u64> = (0..ranks)
                    .map(|rank| ops(work.as_ref(), phase, Share { rank, ranks }).1)
                    .collect();
                assert_eq!(work.limit(phase), None, "{}: {}", row.name, spec.name);
                assert_eq!(work.counts_after(phase, &done), work.counts(phase, ranks));
                assert_eq!(work.work_units_after(phase, &done), work.work_units(phase));
                let (predicted, found) = (work.tree(phase), work.tree_after(phase, &done));
                assert_eq!(predicted.files(), found.files(), "{}: {}", row.name, spec.name);
                assert_eq!(predicted.directories(), found.directories());
            }
        }
    }
}

#[test]
fn another_seed_has_the_same_counts_if_the_row_requires_it() {
    for row in rows().filter(|row| row.same_counts) {
        let counts = |seed| {
            let work = build(row.name, row.set, &Setting::seed(seed));
            (0..work.phases().len()).map(|phase| work.counts(phase, 2)).collect::<Vec<_>>()
        };
        assert_eq!(counts(1), counts(2), "{}", row.name);
    }
}

#[test]
fn phases_back_to_back_are_verified_after_the_last_one() {
    for name in [
        "source-tree",
        "maildir",
        "maildir-read",
        "fdtree",
        "bonnie",
        "postmark",
        "everyday",
        "bigfile",
    ] {
        let kind = workloads::find(name).unwrap();
        let params = kind.resolve(&[("gap", "back-to-back")]).unwrap();
        let phases = kind.build(&params, &Setting::default()).unwrap().phases();
        assert!(phases[1..].iter().all(|phase| phase.gap == GapKind::BackToBack), "{name}");
        let last = phases.len() - 1;
        for (index, phase) in phases.iter().enumerate() {
            assert_eq!(phase.verify, index == last, "{name} {}", phase.name);
        }
    }
}

#[test]
fn a_gap_is_found_by_its_name() {
    for (word, kind) in [
        ("none", GapKind::None),
        ("back-to-back", GapKind::BackToBack),
        ("sync", GapKind::Sync),
        ("drop", GapKind::Drop),
        ("remount", GapKind::Remount),
    ] {
        assert_eq!((GapKind::named(word), kind.name()), (kind, word));
    }
}

#[test]
fn the_unit_of_a_phase_is_one_of_its_work_units_and_not_zero() {
    let mut units = Vec::new();
    for row in ROWS {
        let work = build(row.name, row.set, &Setting::seed(1));
        for (phase, spec) in work.phases().iter().enumerate() {
            let Some(unit) = work.unit(phase) else { continue };
            let count = work.work_units(phase).get(unit).copied().unwrap_or_default();
            assert!(count > 0, "{} {} has no {unit}", row.name, spec.name);
            units.push((row.name, spec.name, unit));
        }
    }
    for expected in [
        ("postmark", "transactions", "transactions"),
        ("churn", "churn", "operations"),
        ("maildir", "mixed", "operations"),
        ("maildir-read", "read", "reads"),
        ("bonnie", "seeks", "seeks"),
        ("source-tree", "pack", "files"),
        ("bigfile", "random-read", "reads"),
        ("tenant", "beside", "rounds"),
    ] {
        assert!(units.contains(&expected), "{expected:?} in {units:?}");
    }
}

#[test]
fn parameters_without_effect_are_refused() {
    for (name, set, expected) in [
        ("maildir", &[("deliverers", "2"), ("gap", "drop")][..], "gap=drop"),
        ("dirops", &[("stat-order", "forward")], "use stat=yes"),
        ("dirops", &[("names", "hex"), ("name-length", "20"), ("digits", "9")], "digits=9"),
        ("bigfile", &[("built", "offline"), ("rewrite", "yes")], "use built=timed"),
        ("churn", &[("hot", "30")], "use locality=hot"),
        ("churn", &[("hot-share", "90")], "use locality=hot"),
    ] {
        let kind = workloads::find(name).unwrap();
        let params = kind.resolve(set).unwrap();
        let error = kind.build(&params, &Setting::default()).err().unwrap().to_string();
        assert!(error.contains(expected) && !error.contains('\n'), "{error}");
    }
}
