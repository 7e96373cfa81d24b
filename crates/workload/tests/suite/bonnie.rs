//! bonnie against the file system in memory, against the originals as observed, and against counts
//! computed by hand.

use crate::memory::{build, check_workload};
use fsdyno_record::OpKind;
use fsdyno_workload::{Call, GapKind, Op, OpCounts, Setting, Share, Threads, Workload, workloads};
use proptest::prelude::*;

fn bonnie(set: &[(&str, &str)]) -> Box<dyn Workload> {
    build("bonnie", set, &Setting::seed(1))
}

fn names(work: &dyn Workload) -> Vec<&'static str> {
    work.phases().iter().map(|phase| phase.name).collect()
}

/// Counts of the phase called `name`.
fn counts(work: &dyn Workload, name: &str) -> OpCounts {
    let phases = work.phases();
    let index = phases.iter().position(|phase| phase.name == name).unwrap();
    work.counts(index, phases[index].threads.count_of(1))
}

fn ops(work: &dyn Workload, name: &str) -> Vec<Op> {
    let index = work.phases().iter().position(|phase| phase.name == name).unwrap();
    let mut source = work.ops(index, Share::WHOLE);
    let (mut op, mut ops) = (Op::default(), Vec::new());
    while source.next(&mut op) {
        ops.push(op.clone());
    }
    ops
}

fn error_of(set: &[(&str, &str)]) -> String {
    let kind = workloads::find("bonnie").unwrap();
    let values = kind.resolve(set).unwrap();
    kind.build(&values, &Setting::default()).err().unwrap().to_string()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn the_large_file_is_as_predicted_after_each_phase_of_both_programs(
        is_plus_plus: bool,
        (chunk, chunks) in (prop::sample::select(vec![256u64, 1024, 8192]), 1u64..40),
        chars in 0u64..5000,
        (seeks, seekers) in (0u64..700, 1u32..7),
        (sync, end, zeros, remount) in (prop::bool::ANY, prop::bool::ANY, prop::bool::ANY, prop::bool::ANY),
        seed: u64,
    ) {
        let size = chunk * chunks;
        let chars = if is_plus_plus { chars.min(size) } else { size }.to_string();
        check_workload("bonnie", &[
            ("program", if is_plus_plus { "bonnie++" } else { "bonnie" }),
            ("file-size", &size.to_string()), ("chunk", &chunk.to_string()), ("char", &chars),
            ("seeks", &seeks.to_string()), ("seekers", &seekers.to_string()), ("files", "0"),
            ("sync", if is_plus_plus && sync { "b" } else { "none" }),
            ("end-sync", if end { "yes" } else { "no" }),
            ("data", if zeros { "zeros" } else { "random" }),
            ("gap", if remount { "remount" } else { "none" }),
        ], seed, 2);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn the_small_files_are_made_looked_up_and_removed_in_sequence_and_at_random(
        dirs in prop::sample::select(vec![0u64, 1, 2, 3, 1000]),
        max in prop::sample::select(vec!["0", "1", "700", "5000", "link", "symlink"]),
        min in prop::sample::select(vec![0u64, 1, 700]),
        (sync, end, zeros) in (prop::bool::ANY, prop::bool::ANY, prop::bool::ANY),
        seed: u64,
    ) {
        let max_size = max.parse().unwrap_or(0);
        check_workload("bonnie", &[
            ("file-size", "0"), ("files", "1"), ("files-max", max),
            ("files-min", &min.min(max_size).to_string()), ("files-chunk", "256"),
            ("dirs", &dirs.to_string()),
            ("sync", if sync { "b" } else { "none" }),
            ("end-sync", if end { "yes" } else { "no" }),
            ("data", if zeros { "zeros" } else { "random" }),
        ], seed, 3);
    }
}

#[test]
fn each_program_has_its_own_order_of_phases() {
    assert_eq!(
        names(bonnie(&[]).as_ref()),
        [
            "char-write",
            "char-unlink",
            "block-write",
            "rewrite",
            "char-read",
            "block-read",
            "seeks",
            "unlink",
            "create-seq",
            "stat-seq",
            "delete-seq",
            "create-random",
            "stat-random",
            "delete-random",
        ]
    );
    assert_eq!(
        names(bonnie(&[("program", "bonnie")]).as_ref()),
        [
            "char-write",
            "rewrite",
            "char-unlink",
            "block-write",
            "char-read",
            "block-read",
            "seeks",
            "unlink",
        ]
    );
    // -f, and nothing to seek.
    assert_eq!(
        names(bonnie(&[("char", "0"), ("seeks", "0"), ("files", "0")]).as_ref()),
        ["block-write", "rewrite", "block-read", "unlink"]
    );
    let small = bonnie(&[("file-size", "0")]);
    assert_eq!(names(small.as_ref())[0], "create-seq");
}

#[test]
fn only_the_seeks_have_threads_and_these_are_the_programs_own() {
    let threads = |set: &[(&str, &str)]| {
        let phases = bonnie(set).phases();
        let one = phases.iter().filter(|phase| phase.threads == Threads::One).count();
        assert_eq!(one, phases.len() - 1);
        phases.iter().find(|phase| phase.name == "seeks").unwrap().threads
    };
    assert_eq!(threads(&[]), Threads::Exactly(5));
    assert_eq!(threads(&[("program", "bonnie")]), Threads::Exactly(3));
    assert_eq!(threads(&[("program", "bonnie"), ("seekers", "5")]), Threads::Exactly(5));
}

/// linuxinsight-2006: "bonnie stock random seeker on 1.8GB file". 1800 MiB are 115,200 chunks of
/// 16,384 bytes and 460,800 calls of stdio's 4,096 bytes. Of 4,000 tickets three seekers have 1,334,
/// 1,333 and 1,333, of which each writes back the 1st, 11th ... 1,331st: 134 each, 402. Five have
/// 800 each: the 1st ... 791st, 80 each, 400.
#[test]
fn linuxinsight_2006_has_the_counts_computed_by_hand() {
    use OpKind::{Close, Create, Open, Read, Unlink, Write};
    let set = [("program", "bonnie"), ("file-size", "1800M")];
    let work = bonnie(&set);
    let counts_of = |name| counts(work.as_ref(), name);
    assert_eq!(
        counts_of("char-write"),
        OpCounts::from([(Create, 1), (Write, 460_800), (Close, 1)])
    );
    assert_eq!(
        counts_of("rewrite"),
        OpCounts::from([(Open, 1), (Read, 115_200), (Write, 115_200), (Close, 1)])
    );
    assert_eq!(counts_of("char-unlink"), OpCounts::from([(Unlink, 1)]));
    assert_eq!(
        counts_of("block-write"),
        OpCounts::from([(Create, 1), (Write, 115_200), (Close, 1)])
    );
    assert_eq!(counts_of("char-read"), OpCounts::from([(Open, 1), (Read, 460_800), (Close, 1)]));
    assert_eq!(counts_of("block-read"), OpCounts::from([(Open, 1), (Read, 115_200), (Close, 1)]));
    assert_eq!(
        counts_of("seeks"),
        OpCounts::from([(Open, 3), (Read, 4000), (Write, 402), (Close, 3)])
    );
    let five = bonnie(&[set[0], set[1], ("seekers", "5")]);
    assert_eq!(
        counts(five.as_ref(), "seeks"),
        OpCounts::from([(Open, 5), (Read, 4000), (Write, 400), (Close, 5)])
    );
    assert_eq!(work.needs().bytes.0, 1_887_436_800);
}

/// The same file with bonnie++: chunks of 8,192 bytes, 3 MiB byte by byte, 8,192 seeks by five, of
/// which the tickets 0, 10 ... 8,190 are written back, 820; an fsync ends each.
#[test]
fn bonnie_plus_plus_on_that_file_has_the_counts_computed_by_hand() {
    use OpKind::{Close, Create, Fsync, Open, Read, Write};
    let work = bonnie(&[("file-size", "1800M"), ("files", "0")]);
    let counts_of = |name| counts(work.as_ref(), name);
    assert_eq!(
        counts_of("char-write"),
        OpCounts::from([(Create, 1), (Write, 3_145_728), (Close, 1), (Fsync, 1)])
    );
    assert_eq!(
        counts_of("rewrite"),
        OpCounts::from([(Open, 1), (Read, 230_400), (Write, 230_400), (Close, 1), (Fsync, 1)])
    );
    assert_eq!(
        counts_of("seeks"),
        OpCounts::from([(Open, 5), (Read, 8192), (Write, 820), (Close, 5), (Fsync, 5)])
    );
    let synced = bonnie(&[("file-size", "1800M"), ("files", "0"), ("sync", "b")]);
    assert_eq!(counts(synced.as_ref(), "seeks")[&Fsync], 825);
    assert_eq!(counts(synced.as_ref(), "block-write")[&Fsync], 1, "-b leaves block writes alone");
}

/// strace of bonnie++ 2.00a with -n 1 and -b: 1,024 files, each with fsync of file and directory,
/// and an fsync of the directory for each that is removed; sync(2) after all four.
#[test]
fn the_files_of_b_are_synced_as_observed_of_bonnie_plus_plus() {
    use OpKind::{Create, Fsync, Link, Sync, Unlink};
    let set = [("file-size", "0"), ("files", "1"), ("sync", "b")];
    let work = bonnie(&set);
    for name in ["create-seq", "create-random"] {
        let counts = counts(work.as_ref(), name);
        assert_eq!((counts[&Create], counts[&Fsync], counts[&Sync]), (1024, 2048, 1));
    }
    for name in ["delete-seq", "delete-random"] {
        let counts = counts(work.as_ref(), name);
        assert_eq!((counts[&Unlink], counts[&Fsync], counts[&Sync]), (1024, 1024, 1));
    }
    let links = bonnie(&[set[0], set[1], set[2], ("files-max", "link")]);
    let created = counts(links.as_ref(), "create-seq");
    assert_eq!((created[&Create], created[&Link], created[&Fsync]), (1, 1023, 1025));
}

#[test]
fn links_lead_to_the_first_file_by_its_path_below_the_directory() {
    let set = [("file-size", "0"), ("files", "1"), ("dirs", "2")];
    for (kind, first_is_origin, second_is_origin) in
        [("link", false, true), ("symlink", true, false)]
    {
        let work = bonnie(&[set[0], set[1], set[2], ("files-max", kind)]);
        let created = ops(work.as_ref(), "create-seq");
        let origin = created.iter().find(|op| matches!(op.call, Call::Create { .. })).unwrap();
        assert!(origin.name.display().starts_with("00000/0000000000"), "{:?}", origin.name);
        let links: Vec<&Op> = created
            .iter()
            .filter(|op| matches!(op.call, Call::Link { .. } | Call::Symlink { .. }))
            .collect();
        assert_eq!(links.len(), 1023);
        for link in &links {
            let (name, second_name) = (link.name.display(), link.second_name.display());
            assert_eq!(name == origin.name.display(), second_is_origin, "{name}");
            assert_eq!(second_name == origin.name.display(), first_is_origin, "{second_name}");
        }
        let last = links.last().unwrap();
        let new = if second_is_origin { last.second_name.display() } else { last.name.display() };
        assert!(new.starts_with("00001/00000003ff"), "{new}");
    }
}

#[test]
fn characters_cost_their_time_before_each_call_and_nothing_else_does() {
    let work = bonnie(&[("program", "bonnie"), ("file-size", "64K"), ("char-time", "20")]);
    for name in names(work.as_ref()) {
        for op in ops(work.as_ref(), name) {
            let stdio = name.starts_with("char")
                && matches!(op.call, Call::Write { .. } | Call::Read { .. });
            assert_eq!(op.compute.0, if stdio { 4096 * 20 } else { 0 }, "{name}: {:?}", op.call);
        }
    }
}

#[test]
fn nothing_is_read_back_between_phases_that_would_read_it_from_the_cache() {
    let verified = |gap| -> Vec<&'static str> {
        let phases = bonnie(&[("gap", gap)]).phases();
        assert!(phases.iter().skip(1).all(|phase| phase.gap.name() == gap));
        assert_eq!(phases[0].gap, GapKind::None);
        phases.iter().filter(|phase| phase.verify).map(|phase| phase.name).collect()
    };
    assert_eq!(
        verified("none"),
        [
            "char-write",
            "char-unlink",
            "seeks",
            "unlink",
            "stat-seq",
            "delete-seq",
            "stat-random",
            "delete-random",
        ]
    );
    assert_eq!(
        verified("remount"),
        [
            "char-write",
            "char-unlink",
            "block-write",
            "rewrite",
            "seeks",
            "unlink",
            "create-seq",
            "delete-seq",
            "create-random",
            "delete-random",
        ]
    );
}

#[test]
fn the_work_units_are_those_of_the_rates() {
    let work =
        bonnie(&[("file-size", "2M"), ("files", "2"), ("files-max", "10"), ("files-min", "10")]);
    let units_of = |name: &str| {
        let index = names(work.as_ref()).iter().position(|phase| *phase == name).unwrap();
        work.work_units(index)
    };
    // 3 MiB byte by byte is more than the file, as observed with bonnie++ -s 2M.
    assert_eq!(units_of("char-write"), [("bytes", 2_097_152)].into());
    assert_eq!(units_of("block-write"), [("bytes", 2_097_152)].into());
    assert_eq!(units_of("seeks"), [("seeks", 8192), ("chunks updated", 820)].into());
    assert_eq!(units_of("stat-random"), [("files", 2048), ("bytes", 20_480)].into());
    assert_eq!(units_of("delete-random"), [("files", 2048)].into());
    assert!(units_of("unlink").is_empty());
}

#[test]
fn contradictions_are_refused_with_the_correction() {
    let plus_plus_error = |set: &[(&str, &str)]| error_of(set);
    assert_eq!(plus_plus_error(&[("chunk", "5000")]), "chunk=5000 is not a power of two; use 8192");
    assert_eq!(
        plus_plus_error(&[("file-size", "10000")]),
        "file-size=10000 is not a multiple of chunk=8192; use 16384"
    );
    assert_eq!(
        plus_plus_error(&[("file-size", "8K"), ("char", "9000")]),
        "char=9000 is more than file-size=8192; use char=8192 or less"
    );
    assert!(plus_plus_error(&[("file-size", "0"), ("files", "0")]).contains("set one of them"));
    assert!(
        plus_plus_error(&[("files-max", "link"), ("files-min", "1")]).contains("omit files-min=1")
    );
    assert!(plus_plus_error(&[("files-min", "9")]).ends_with("use files-max=9 or more"));
    assert!(
        plus_plus_error(&[("files", "1"), ("dirs", "1025")]).ends_with("use dirs=1024 or fewer")
    );
    assert!(
        plus_plus_error(&[("sync", "b"), ("dirs", "1001")]).ends_with("use dirs=1000 or fewer")
    );
    assert!(plus_plus_error(&[("char-time", "5")]).contains("putc and getc"));
    let bonnie_error = |key, value| error_of(&[("program", "bonnie"), (key, value)]);
    assert!(bonnie_error("files", "1").ends_with("use files=0, not 1"));
    assert!(bonnie_error("sync", "b").contains("program=bonnie++"));
    assert!(bonnie_error("char", "0").contains("omit char=0"));
    assert!(bonnie_error("file-size", "0").contains("file-size=300M"));
}

#[test]
fn one_file_has_no_more_links_than_ext4_allows() {
    let error = error_of(&[("files-max", "link"), ("files", "64")]);
    assert!(error.contains("65536 links") && error.contains("files=63"), "{error}");
    bonnie(&[("files-max", "link"), ("files", "63")]);
}

#[test]
fn a_number_of_directories_without_files_is_accepted() {
    bonnie(&[("files", "0"), ("file-size", "1M"), ("sync", "b"), ("dirs", "2000")]);
    let error = error_of(&[("files", "2"), ("sync", "b"), ("dirs", "2000")]);
    assert!(error.contains("dirs=1000 or fewer"), "{error}");
}

#[test]
fn files_are_removed_and_looked_up_in_different_random_orders() {
    let work = bonnie(&[("files", "1"), ("file-size", "0")]);
    let order = |phase: &str, selects: fn(&Call) -> bool| -> Vec<String> {
        let ops = ops(work.as_ref(), phase);
        ops.iter().filter(|op| selects(&op.call)).map(|op| op.name.display()).collect()
    };
    let looked_up = order("stat-random", |call| matches!(call, Call::Stat { .. }));
    let removed = order("delete-random", |call| matches!(call, Call::Unlink { .. }));
    assert_eq!((looked_up.len(), removed.len()), (1024, 1024));
    // Two random orders have the same file at about one index.
    let same =
        looked_up.iter().zip(&removed).filter(|(looked_up, removed)| looked_up == removed).count();
    assert!(same < 10, "{same} files have the same index");
}
