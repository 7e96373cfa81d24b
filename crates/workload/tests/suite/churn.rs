//! churn: the steady state holds, the work units are exact for any stop, and the work is
//! the same for any number of threads.

use std::collections::{BTreeMap, BTreeSet};

use crate::memory::{Memory, build, check_workload};
use fsdyno_record::{Nanos, OpKind};
use fsdyno_workload::memory_fs::{Inode, ROOT};
use fsdyno_workload::{
    Call, Compound, DirSlot, Expect, Op, OpSource, Setting, Share, WorkUnits, Workload, workloads,
};
use proptest::prelude::*;

const CHURN: usize = 1;

/// The effects of the ops, counted independently of the generator.
#[derive(Default)]
struct Observed {
    memory: Memory,
    units: BTreeMap<&'static str, u64>,
    directories: u64,
    max_names: u64,
    min_names: u64,
    max_links: u32,
}

impl Observed {
    fn count(&mut self, name: &'static str) {
        *self.units.entry(name).or_default() += 1;
    }

    fn names(&self) -> u64 {
        self.memory.fs.totals().names - self.directories
    }

    fn apply(&mut self, op: &Op) {
        assert_eq!(self.memory.apply(op), Expect::Success, "{:?} {:?}", op.call, op.name);
        match op.call {
            Call::Mkdir { .. } => self.directories += 1,
            Call::Create { .. } => self.count("files created"),
            Call::Open { flags, .. } if flags.append => self.count("files appended to"),
            Call::Open { flags, .. } if flags.write => self.count("files overwritten"),
            Call::Open { .. } => self.count("files read"),
            Call::Stat { .. } => self.count("status asked for"),
            Call::Rename { .. } => self.count("names renamed"),
            Call::Link { dir, .. } => {
                self.count("names linked");
                let node = self.memory.fs.node(self.memory.inode_of_op(op, dir)).unwrap();
                self.max_links = self.max_links.max(node.links);
            }
            Call::Unlink { .. } => self.count("names unlinked"),
            Call::Compound(Compound::Scan { .. }) => self.count("directories read"),
            Call::Fsync { .. } => self.count("files fsynced"),
            _ => {}
        }
    }

    /// Resets the counts; the live files stay.
    fn reset(&mut self) {
        self.memory.counts.clear();
        self.units.clear();
        (self.memory.written, self.memory.read) = (0, 0);
    }

    /// The expected work units, including those that are zero.
    fn expected_units(&self) -> WorkUnits {
        let mut units: WorkUnits = [
            "files created",
            "files overwritten",
            "files appended to",
            "files read",
            "status asked for",
            "names renamed",
            "names linked",
            "names unlinked",
            "directories read",
        ]
        .into_iter()
        .map(|name| (name, self.units.get(name).copied().unwrap_or(0)))
        .collect();
        let (files, bytes) = self.memory.live();
        units.extend([
            ("operations", units.values().sum()),
            ("files fsynced", self.units.get("files fsynced").copied().unwrap_or(0)),
            ("written bytes", self.memory.written),
            ("read bytes", self.memory.read),
            ("live files", files),
            ("live names", self.names()),
            ("live bytes", bytes),
        ]);
        units
    }
}

/// Runs a phase, the ranks in turn, and requests all ranks to end after `stop` calls. Returns the work that each rank
/// reports as done.
fn run(
    observed: &mut Observed,
    work: &dyn Workload,
    phase: usize,
    ranks: u32,
    stop: u64,
) -> Vec<u64> {
    let mut sources: Vec<Box<dyn OpSource + Send + '_>> =
        (0..ranks).map(|rank| work.ops(phase, Share { rank, ranks })).collect();
    let mut ops = vec![Op::default(); ranks as usize];
    let mut calls = 0;
    let mut active = vec![true; ranks as usize];
    observed.reset();
    (observed.max_names, observed.min_names) = (0, u64::MAX);
    while active.iter().any(|active| *active) {
        for (rank, source) in sources.iter_mut().enumerate() {
            if calls == stop {
                source.finish();
            }
            active[rank] = active[rank] && source.next(&mut ops[rank]);
            if active[rank] {
                ops[rank].thread = rank as u32;
                observed.apply(&ops[rank]);
            }
        }
        if calls < stop || stop == u64::MAX {
            calls += 1;
        }
        let names = observed.names();
        observed.max_names = observed.max_names.max(names);
        observed.min_names = observed.min_names.min(names);
    }
    sources.iter().map(|source| source.done()).collect()
}

fn mixes() -> impl Strategy<Value = String> {
    let weight = || prop::sample::select(vec![0u32, 1, 5, 50]);
    (prop::array::uniform7(weight()), 1u32..50, 1u32..50).prop_map(|(weights, create, unlink)| {
        let names = ["write", "append", "read", "stat", "rename", "link", "readdir"];
        let parts: Vec<String> =
            names.iter().zip(weights).map(|(name, weight)| format!("{name}:{weight}")).collect();
        format!("create:{create},unlink:{unlink},{}", parts.join(","))
    })
}

fn size() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["mix", "0", "1", "4096", "1-20000", "lognormal:4K:1.5"])
}

/// Parameters that affect the work, without the number of operations.
fn settings() -> impl Strategy<Value = Vec<(&'static str, String)>> {
    let overwrite = prop::sample::select(vec!["truncate", "whole", "head"]);
    let owned = |value: &'static str| value.to_string();
    (
        (1u64..120, 1u64..20, mixes(), size(), size()),
        (overwrite, prop::sample::select(vec!["512", "4096", "65536"]), 0u64..101),
        (prop::bool::ANY, 1u64..100, 0u64..50, 0u64..3),
    )
        .prop_map(
            move |(
                (files, directories, mix, size, append),
                (overwrite, block, fsync),
                (hot, share, swing, parts),
            )| {
                let max_parts = files.min(directories);
                let locality = if hot { "hot" } else { "uniform" };
                vec![
                    ("files", files.to_string()),
                    ("directories", directories.to_string()),
                    ("mix", mix),
                    ("size", owned(size)),
                    ("append", owned(append)),
                    ("overwrite", owned(overwrite)),
                    ("block", owned(block)),
                    ("fsync", fsync.to_string()),
                    ("locality", owned(locality)),
                    ("hot", if hot { share } else { 20 }.to_string()),
                    ("swing", swing.to_string()),
                    (
                        "parts",
                        if parts == 0 { owned("auto") } else { parts.min(max_parts).to_string() },
                    ),
                ]
            },
        )
}

/// Returns the settings with additional ones.
fn with<'a>(
    set: &'a [(&'static str, String)],
    additional: &[(&'static str, &'a str)],
) -> Vec<(&'static str, &'a str)> {
    set.iter()
        .map(|(key, value)| (*key, value.as_str()))
        .chain(additional.iter().copied())
        .collect()
}

fn number(set: &[(&str, String)], key: &str) -> u64 {
    set.iter().find(|(name, _)| *name == key).unwrap().1.parse().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn each_call_is_legal_and_counts_and_tree_are_exact(
        set in settings(), ops in 1u64..800, seed: u64, threads in 1u32..5,
    ) {
        check_workload("churn", &with(&set, &[("ops", &ops.to_string())]), seed, threads);
    }

    #[test]
    fn the_work_units_are_those_of_an_independent_count(
        set in settings(), ops in 1u64..800, seed: u64, threads in 1u32..5,
    ) {
        let work = build("churn", &with(&set, &[("ops", &ops.to_string())]), &Setting::seed(seed));
        let mut observed = Observed::default();
        for phase in 0..2 {
            let done = run(&mut observed, work.as_ref(), phase, threads, u64::MAX);
            prop_assert_eq!(&work.work_units(phase), &observed.expected_units());
            prop_assert_eq!(work.work_units_after(phase, &done), observed.expected_units());
            prop_assert_eq!(work.counts_after(phase, &done), observed.memory.counts.clone());
        }
        prop_assert_eq!(work.work_units(CHURN)["operations"], ops);
    }

    #[test]
    fn stopped_at_any_call_no_file_is_open_and_the_work_units_are_exact(
        set in settings(), stop in 0u64..700, seed: u64, threads in 1u32..5,
    ) {
        let work = build("churn", &with(&set, &[("seconds", "1")]), &Setting::seed(seed));
        let mut observed = Observed::default();
        run(&mut observed, work.as_ref(), 0, threads, u64::MAX);
        let done = run(&mut observed, work.as_ref(), CHURN, threads, stop);
        let counts = observed.memory.counts.clone();
        let count_of = |kind| counts.get(&kind).copied().unwrap_or(0);
        prop_assert_eq!(count_of(OpKind::Open) + count_of(OpKind::Create), count_of(OpKind::Close));
        prop_assert_eq!(work.counts_after(CHURN, &done), counts);
        prop_assert_eq!(work.work_units_after(CHURN, &done), observed.expected_units());
        observed.memory.check(work.tree_after(CHURN, &done).as_ref());
        // Each turn is one call, so nothing begins after the stop.
        prop_assert!(done.iter().all(|done| *done <= stop));
    }

    #[test]
    fn names_and_bytes_stay_within_their_bounds(
        set in settings(), seed: u64,
        free_bytes in prop::option::of(prop::sample::select(vec![0u64, 1, 2, 100, 20_000])),
    ) {
        let set = with(&set, &[("ops", "1500"), ("parts", "1")]);
        let set_as_strings: Vec<(&str, String)> =
            set.iter().map(|(key, value)| (*key, (*value).to_string())).collect();
        let fill_bytes = build("churn", &set, &Setting::seed(seed)).work_units(0)["live bytes"];
        let space = free_bytes.map_or("auto".to_string(), |free_bytes| (fill_bytes + free_bytes).to_string());
        let work = build("churn", &with(&set_as_strings, &[("space", &space)]), &Setting::seed(seed));
        let (files, swing) = (number(&set_as_strings, "files"), number(&set_as_strings, "swing"));
        let mut observed = Observed::default();
        run(&mut observed, work.as_ref(), 0, 1, u64::MAX);
        prop_assert_eq!(observed.names(), files);
        run(&mut observed, work.as_ref(), CHURN, 1, u64::MAX);
        let margin = files * swing / 100;
        prop_assert!(observed.max_names <= files + margin.max(1), "{}", observed.max_names);
        prop_assert!(observed.min_names >= (files - margin).max(1), "{}", observed.min_names);
        let max_bytes = free_bytes.map_or(2 * fill_bytes, |free_bytes| fill_bytes + free_bytes);
        prop_assert!(observed.memory.peak.0 <= max_bytes, "{} bytes, not {max_bytes}", observed.memory.peak.0);
    }

    #[test]
    fn the_work_is_the_same_for_any_number_of_threads(
        set in settings(), seed: u64, threads in 2u32..9,
    ) {
        let set = with(&set, &[("ops", "400")]);
        let final_tree = |threads| {
            let memory = check_workload("churn", &set, seed, threads);
            let describe = |(path, inode): (Vec<u8>, Inode)| {
                let node = memory.fs.node(inode).unwrap();
                let path = String::from_utf8_lossy(&path);
                format!("{path} {:?} {:o} {}", node.content(), node.mode, node.links)
            };
            memory.fs.walk(ROOT).map(describe).collect::<Vec<String>>()
        };
        prop_assert_eq!(final_tree(1), final_tree(threads));
    }
}

/// The ops of a rank of churn as text.
fn trace(set: &[(&str, &str)], seed: u64) -> Vec<String> {
    let work = build("churn", set, &Setting::seed(seed));
    let mut ops = work.ops(CHURN, Share::WHOLE);
    let mut op = Op::default();
    let mut trace = Vec::new();
    while ops.next(&mut op) {
        let second_name = if matches!(op.call, Call::Rename { .. } | Call::Link { .. }) {
            op.second_name.display()
        } else {
            String::new()
        };
        let data = match op.call {
            Call::Write { payload, .. } | Call::Append { payload, .. } => {
                format!("{} {} {}", payload.id, payload.offset, payload.length)
            }
            _ => String::new(),
        };
        let kind = op.call.kind().map(OpKind::name).unwrap_or_default();
        trace.push(format!("{kind} {} {second_name} {data} {}", op.name.display(), op.due.0));
    }
    trace
}

#[test]
fn a_seed_has_its_ops_on_every_machine_and_another_seed_has_others() {
    let set = [("files", "500"), ("ops", "2000"), ("size", "lognormal:8K:1.5"), ("fsync", "10")];
    let first = trace(&set, 1);
    assert_eq!(first, trace(&set, 1));
    assert_ne!(first, trace(&set, 2));
    let hash = first.join("\n").bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    assert_eq!(
        hash, 5_894_886_848_814_466_114,
        "the ops of seed 1 have changed, or this machine draws different ones"
    );
}

#[test]
fn operations_are_as_frequent_as_their_weights() {
    let set = [("mix", "write:1,readdir:2,read:3,stat:4"), ("ops", "100000"), ("fsync", "30")];
    let units = build("churn", &set, &Setting::seed(9)).work_units(CHURN);
    // Four standard deviations of binomial counts of 100,000 are at most 632.
    let assert_near = |name: &str, expected: u64| {
        assert!(units[name].abs_diff(expected) < 640, "{name}: {units:?}")
    };
    assert_near("files overwritten", 10_000);
    assert_near("directories read", 20_000);
    assert_near("files read", 30_000);
    assert_near("status asked for", 40_000);
    assert_near("files fsynced", 3_000);
    assert_eq!((units["live names"], units["files created"]), (10_000, 0));
}

#[test]
fn the_default_mix_is_steady_and_of_its_weights() {
    let work = build("churn", &[], &Setting::seed(5));
    let units = work.work_units(CHURN);
    assert_eq!(units["operations"], 100_000);
    assert!((9_000..=11_000).contains(&units["live names"]), "{units:?}");
    for (name, weight) in [("files read", 25), ("status asked for", 20), ("names linked", 2)] {
        assert!(units[name].abs_diff(weight * 1000) < 600, "{name}: {units:?}");
    }
    // The walk is sometimes reflected at the bounds of 64 small parts.
    assert!(units["files created"].abs_diff(17_000) < 1500, "{units:?}");
    assert!(units["names unlinked"].abs_diff(19_000) < 1500, "{units:?}");
}

#[test]
fn hot_files_get_their_share_of_the_accesses() {
    let set = [
        ("mix", "stat:1"),
        ("files", "1000"),
        ("ops", "100000"),
        ("parts", "1"),
        ("locality", "hot"),
        ("hot", "10"),
        ("hot-share", "70"),
    ];
    let mut hits = BTreeMap::<String, u64>::new();
    for line in trace(&set, 3) {
        *hits.entry(line).or_default() += 1;
    }
    let mut hits: Vec<u64> = hits.into_values().collect();
    hits.sort_unstable_by(|a, b| b.cmp(a));
    let hottest: u64 = hits.iter().take(100).sum();
    // Four standard deviations of the binomial count are 580.
    assert!(hottest.abs_diff(70_000) < 600, "{hottest}");
    // Each hot file has 700 accesses on average and each other one 33.
    assert!(hits[99] > 560 && hits[100] < 80, "{} {}", hits[99], hits[100]);
    assert_eq!(hits.len(), 1000);
}

#[test]
fn an_operation_is_due_at_its_time_in_the_schedule_and_its_other_calls_at_once() {
    let set = [("rate", "1000"), ("ops", "300"), ("files", "700"), ("directories", "7")];
    let work = build("churn", &set, &Setting::seed(3));
    let mut due = Vec::new();
    for rank in 0..3 {
        let mut ops = work.ops(CHURN, Share { rank, ranks: 3 });
        let mut op = Op::default();
        let mut opened = false;
        while ops.next(&mut op) {
            if opened {
                assert_eq!(op.due, Nanos(0), "the later calls of an operation do not wait");
            } else {
                due.push(op.due.0);
            }
            opened = match op.call {
                Call::Create { .. } | Call::Open { .. } => true,
                Call::Close { .. } => false,
                _ => opened,
            };
        }
    }
    due.sort_unstable();
    let expected: Vec<u64> = (0..300).map(|number| number * 1_000_000).collect();
    assert_eq!(due, expected);
}

#[test]
fn a_file_never_has_more_than_a_hundred_names() {
    // Links and unlinks alone result in fewer and fewer files with more and more names.
    let mix = "create:1,unlink:2000,link:2000";
    let set = [("files", "300"), ("mix", mix), ("ops", "250000"), ("parts", "1"), ("size", "1")];
    let work = build("churn", &set, &Setting::seed(4));
    let mut observed = Observed::default();
    run(&mut observed, work.as_ref(), 0, 1, u64::MAX);
    run(&mut observed, work.as_ref(), CHURN, 1, u64::MAX);
    assert!(observed.max_links <= 100);
    assert!(observed.units["names renamed"] > 0, "no file reached a hundred: {:?}", observed.units);
    observed.memory.check(work.tree(CHURN).as_ref());
}

#[test]
fn a_name_is_in_one_directory_and_in_no_other() {
    let set = [("files", "400"), ("ops", "2000"), ("parts", "1")];
    let work = build("churn", &set, &Setting::seed(4));
    let mut observed = Observed::default();
    run(&mut observed, work.as_ref(), 0, 1, u64::MAX);
    run(&mut observed, work.as_ref(), CHURN, 1, u64::MAX);
    let tree = work.tree(CHURN);
    let paths: BTreeSet<String> = observed.memory.paths().into_iter().collect();
    for path in paths.iter().filter(|path| path.contains('/')) {
        let name = path.split('/').nth(1).unwrap();
        for directory in 0..4 {
            let candidate = format!("d{directory}/{name}");
            let exists = paths.contains(&candidate);
            assert_eq!(tree.lookup(candidate.as_bytes()).is_some(), exists, "{candidate}");
        }
    }
}

#[test]
fn with_a_time_limit_no_counts_are_known_in_advance() {
    let work = build("churn", &[("seconds", "3"), ("files", "100")], &Setting::seed(1));
    assert_eq!((work.limit(0), work.limit(CHURN)), (None, Some(Nanos(3_000_000_000))));
    assert!(work.counts(CHURN, 2).is_empty() && work.work_units(CHURN).is_empty());
    assert_eq!(work.tree(CHURN).files(), 100);
    assert_eq!(build("churn", &[], &Setting::seed(1)).limit(CHURN), None);
}

#[test]
fn every_call_is_below_the_root_by_a_path() {
    let work = build("churn", &[("files", "50"), ("ops", "500")], &Setting::seed(1));
    let mut ops = work.ops(CHURN, Share::WHOLE);
    let mut op = Op::default();
    while ops.next(&mut op) {
        if let Call::Open { dir, .. } | Call::Unlink { dir } | Call::Stat { dir } = op.call {
            assert_eq!(dir, DirSlot::ROOT);
            assert_eq!(op.name.as_bytes().iter().filter(|byte| **byte == b'/').count(), 1);
        }
    }
}

#[test]
fn each_contradiction_is_one_line_that_gives_the_correction() {
    let kind = workloads::find("churn").unwrap();
    let error_of = |set: &[(&str, &str)]| match kind.resolve(set) {
        Err(error) => error.to_string(),
        Ok(params) => kind.build(&params, &Setting::default()).err().unwrap().to_string(),
    };
    for (set, expected) in [
        (&[("parts", "5"), ("files", "100"), ("directories", "4")][..], "parts=4 or fewer"),
        (&[("ops", "5"), ("seconds", "4")], "ops=5 and seconds=4 both determine when churn ends"),
        (&[("mix", "create:1,read:1")], "give a weight to both create and unlink"),
        (&[("mix", "unlink:1")], "mix=unlink:1 has no steady state"),
        (&[("mix", "link:1,read:5")], "has no steady state"),
        (&[("mix", "create:1,unlnk:1")], "did you mean 'unlink'?"),
        (&[("mix", "")], "WORD:WEIGHT"),
        (&[("size", "4096"), ("files", "10"), ("space", "40959")], "use space=40960 or more"),
        (&[("size", "lognormal:4K")], "lognormal:MEDIAN:SIGMA"),
        (&[("fsync", "101")], "fsync takes a whole number from 0 to 100"),
    ] {
        let message = error_of(set);
        assert!(message.contains(expected), "{message}");
        assert!(!message.contains('\n'), "{message}");
    }
}
