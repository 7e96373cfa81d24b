//! Compiles small traces, made by hand and at random, and replays them in a real directory with real threads.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may unwrap")]

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fsdyno_engine::issue::shared::Slots;
use fsdyno_engine::issue::sync::SyncIssuer;
use fsdyno_engine::{PhaseRun, Recorder, run_phase, run_with_acks, verify};
use fsdyno_record::OpKind;
use fsdyno_record::acks::{self, AckLog};
use fsdyno_record::plan::{IssuerPlan, VerifyMode};
use fsdyno_trace::{At, Builder, Call, FileId, Kind, Name, NodeId, StatKind, Target, ThreadId};
use fsdyno_workload::workload::PhaseSpec;
use fsdyno_workload::workloads::replay::KIND;
use fsdyno_workload::{Contents, Differences, Input, Op, Setting, Share, Tree, Workload};
use proptest::prelude::*;

const RDWR: u32 = 2;
const CREATE: u32 = 0o102;

fn compiled(builder: &Builder) -> Result<Vec<u8>, String> {
    let (mut trace, mut out) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
    trace.write_all(&builder.finish().unwrap()).unwrap();
    let length = fsdyno_replay::compile(&mut trace, &mut out).map_err(|error| error.to_string())?;
    out.rewind().unwrap();
    let mut bytes = Vec::new();
    out.take(length).read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes.len() as u64, length);
    Ok(bytes)
}

fn workload(builder: &Builder, set: &[(&str, &str)]) -> Box<dyn Workload> {
    let set: Vec<(&str, &str)> = [("trace", "t"), ("think", "none")]
        .into_iter()
        .filter(|(key, _)| set.iter().all(|(other, _)| other != key))
        .chain(set.iter().copied())
        .collect();
    let input = Some(Input::new(compiled(builder).unwrap()));
    KIND.build(&KIND.resolve(&set).unwrap(), &Setting { seed: 1, input }).unwrap()
}

/// Returns the numbers of ops of each rank of each phase.
fn ops(work: &dyn Workload) -> Vec<Vec<usize>> {
    let of_phase = |(phase, spec): (usize, &PhaseSpec)| {
        let ranks = spec.threads.count_of(1);
        let count = |rank| {
            let (mut source, mut op) = (work.ops(phase, Share { rank, ranks }), Op::default());
            std::iter::from_fn(|| source.next(&mut op).then_some(())).count()
        };
        (0..ranks).map(count).collect()
    };
    work.phases().iter().enumerate().map(of_phase).collect()
}

/// Replays in a new directory, with each op in the log of ops; returns the results that differ, and the differences of
/// the tree.
fn replayed(work: &dyn Workload) -> (Differences, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    rustix_umask();
    let root = File::open(folder.path()).unwrap();
    let contents = Arc::new(Contents::new(1).with_classes());
    if let Some(mut prefill) = work.prefill() {
        let own = root.as_fd().try_clone_to_owned().unwrap();
        let mut issuer = SyncIssuer::new(own, Arc::clone(&contents));
        run_phase(prefill.ops.as_mut(), &mut issuer, &mut Recorder::new(), &mut |_| {}).unwrap();
        assert_eq!(problems(&root, prefill.tree.as_ref(), &contents), [""; 0]);
    }
    let slots = Arc::new(Slots::new(work.shared_slots().unwrap()));
    let ops = ops(work);
    let each = ops.iter().map(|ranks| ranks.iter().max().unwrap() + 1).sum::<usize>();
    let words = acks::words_needed(ops[0].len(), each);
    let words: &'static [AtomicU64] =
        (0..words).map(|_| AtomicU64::new(0)).collect::<Vec<_>>().leak();
    let log = AckLog::new(words, ops[0].len(), each).unwrap();
    let mut differences = Differences::default();
    for (phase, spec) in work.phases().iter().enumerate() {
        let phase_run = PhaseRun {
            work,
            phase,
            threads: spec.threads,
            requested: 1,
            issuer: IssuerPlan::Sync,
            root: root.as_fd(),
            roots: &[],
            device: None,
            contents: &contents,
            slots: Some(&slots),
            process_share: None,
        };
        let mut result = run_with_acks(&phase_run, Some(&log), &mut || {}, &|_| {}).unwrap();
        differences.merge(std::mem::take(&mut result.differences));
        assert_eq!(result.into_recorder().counts(), work.counts(phase, 1));
    }
    slots.close_all();
    let logged = acks::parse(&mut |from, count| {
        words[from..from + count].iter().map(|word| word.load(Ordering::Relaxed)).collect()
    });
    let logged = logged.unwrap().returned;
    let count = |ranks: &Vec<Vec<_>>| ranks.iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(logged.iter().map(count).collect::<Vec<_>>(), ops);
    let last = work.phases().len() - 1;
    (differences, problems(&root, work.tree(last).as_ref(), &contents))
}

fn rustix_umask() {
    // SAFETY: it takes a mode and cannot fail.
    unsafe {
        unsafe extern "C" {
            fn umask(mode: u32) -> u32;
        }
        umask(0);
    }
}

fn problems(root: &File, tree: &dyn Tree, contents: &Contents) -> Vec<String> {
    verify(root.as_fd(), tree, contents, VerifyMode::Full, 1, &mut |_| {}).unwrap().examples
}

fn notes_text(work: &dyn Workload) -> String {
    work.recording().unwrap().notes.join("; ")
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

/// Returns a trace that reads a file of the initial tree, then creates, writes, truncates and renames a second file;
/// some of its calls fail.
fn small() -> Builder {
    let (root, main) = (Builder::ROOT, Builder::MAIN);
    let mut trace = Builder::new();
    let dir = trace.dir(root, "src");
    let old = trace.file(dir, "old", 10_000);
    trace.entry(dir, "link", Kind::Symlink, 17);
    let file = trace.open(main, dir, "old", old, 0);
    trace.read(main, file, 65_536, 10_000);
    trace.read(main, file, 65_536, 0);
    trace.close(main, file);
    let (new, file) = trace.create(main, root, "new", CREATE | 0o200);
    trace.write(main, file, 5000);
    trace.write(main, file, 2_500_000);
    let target = || Target::File(file);
    trace.call(main, Call::Stat { target: target(), stat: StatKind::Stat }, 0);
    trace.call(main, Call::Truncate { target: target(), length: 9000 }, 0);
    trace.close(main, file);
    let missing = At::new(root, name("none"), None);
    let stat = Call::Stat { target: Target::At(missing), stat: StatKind::Lstat };
    trace.call(main, stat, -2);
    let from = At::new(root, name("new"), Some(new));
    let to = At::new(dir, name("old"), Some(old));
    trace.call(main, Call::Rename { from, to, flags: 0 }, 0);
    let link = At::new(dir, name("link"), None);
    trace.call(main, Call::Readlink { at: link, length: 100 }, 17);
    trace.call(main, Call::Rmdir { at: At::new(root, name("src"), Some(dir)) }, -39);
    trace
}

#[test]
fn a_small_program_is_replayed_call_by_call_with_the_recorded_results_and_tree() {
    for set in [&[][..], &[("copies", "3")], &[("order", "total")], &[("think", "cpu")]] {
        let work = workload(&small(), set);
        let (differences, problems) = replayed(work.as_ref());
        assert_eq!((differences.rows().collect::<Vec<_>>(), problems), (vec![], vec![]), "{set:?}");
        assert!(
            notes_text(work.as_ref()).starts_with("14 of 14 recorded calls"),
            "{}",
            notes_text(work.as_ref())
        );
    }
}

#[test]
fn impossible_think_times_are_limited_to_the_longest_one() {
    let mut trace = small();
    trace.call(Builder::MAIN, Call::Mark { name: name("here") }, -2).think = u64::MAX;
    let at = At::new(Builder::ROOT, name("none"), None);
    let stat = Call::Stat { target: Target::At(at), stat: StatKind::Lstat };
    trace.call(Builder::MAIN, stat, -2).think = u64::MAX;
    assert!(compiled(&trace).is_ok());
}

#[test]
fn a_result_that_the_tree_does_not_explain_is_omitted_and_counted() {
    let mut trace = small();
    let at = || At::new(Builder::ROOT, name("none"), None);
    let stat = |at| Call::Stat { target: Target::At(at), stat: StatKind::Lstat };
    trace.call(Builder::MAIN, stat(at()), 0);
    trace.call(Builder::MAIN, stat(at()), -13);
    let work = workload(&trace, &[]);
    let notes = notes_text(work.as_ref());
    assert!(
        notes.contains("14 of 16") && notes.contains("1 calls that permissions refused"),
        "{notes}"
    );
    assert!(notes.contains("1 calls whose success the tree does not explain"), "{notes}");
    assert_eq!(replayed(work.as_ref()).0.count(), 0);
}

#[test]
fn the_needs_of_a_replay_follow_from_the_trace_before_a_trial() {
    let mut trace = Builder::new();
    let huge = trace.file(Builder::ROOT, "huge", 1 << 50);
    trace.open(Builder::MAIN, Builder::ROOT, "huge", huge, 0);
    let needs = workload(&trace, &[]).needs();
    assert_eq!((needs.bytes.0, needs.longest_name), (1 << 50, 4));
    let two = workload(&trace, &[("copies", "2")]).needs();
    assert_eq!((two.bytes.0, two.inodes), (2 << 50, 2 * needs.inodes));
    // A large file that no call opens has a name and a size, but no bytes.
    let mut unused = Builder::new();
    unused.file(Builder::ROOT, "huge", 1 << 50);
    assert_eq!(workload(&unused, &[]).needs().bytes.0, 0);
    unused.file(Builder::ROOT, "larger", (1 << 50) + 1);
    let refused = compiled(&unused).unwrap_err();
    assert_eq!(
        refused,
        "has a file, or files in total, of 1024.0 TiB or more; a replay supports at most 1024 TiB"
    );
}

#[test]
fn a_call_beyond_the_largest_file_is_omitted_and_a_large_hole_is_not_read() {
    let (root, main) = (Builder::ROOT, Builder::MAIN);
    let mut trace = Builder::new();
    let (_, file) = trace.create(main, root, "f", RDWR | CREATE);
    let truncate = |length| Call::Truncate { target: Target::File(file), length };
    trace.write(main, file, 100);
    trace.call(main, truncate(1 << 60), 0);
    trace.call(main, truncate(8 << 40), 0);
    let work = workload(&trace, &[]);
    let report = work.recording().unwrap().report;
    assert_eq!(report.left_out["calls beyond 1 PiB of a file"], 1, "{:?}", report.left_out);
    let begin = std::time::Instant::now();
    let (differences, problems) = replayed(&*work);
    assert_eq!((differences.count(), problems.len()), (0, 0), "{problems:?}");
    assert!(begin.elapsed().as_secs() < 60, "8 TiB of zeros were read");
}

#[test]
fn a_mark_or_a_command_begins_a_phase_and_every_phase_has_its_own_counts() {
    let (root, main) = (Builder::ROOT, Builder::MAIN);
    let mut trace = Builder::new();
    let child = trace.spawn(main, true);
    let (_, file) = trace.create(main, root, "first", CREATE);
    trace.call(main, Call::Mark { name: name("a b") }, -2);
    trace.write(main, file, 100);
    trace.call(child, Call::Exec { program: name("tool"), at: None }, 0);
    let (_, other) = trace.create(child, root, "second", CREATE);
    trace.write(child, other, 200);
    trace.close(child, other);
    trace.call(main, Call::Mark { name: name("a b") }, -2);
    trace.close(main, file);
    let phases_of = |split: &str| {
        let work = workload(&trace, &[("phases", split)]);
        let phases: Vec<(&str, u64)> = work
            .phases()
            .iter()
            .enumerate()
            .map(|(at, phase)| (phase.name, work.counts(at, 1).into_values().sum()))
            .collect();
        phases
    };
    assert_eq!(phases_of("whole"), [("replay", 6)]);
    assert_eq!(phases_of("marks"), [("begin", 1), ("a_b", 4), ("a_b-2", 1)]);
    assert_eq!(phases_of("commands"), [("begin", 2), ("tool", 4)]);
    for split in ["whole", "marks", "commands"] {
        for order in ["resource", "total"] {
            let set = [("phases", split), ("order", order)];
            let work = workload(&trace, &set);
            let (differences, problems) = replayed(work.as_ref());
            assert_eq!((differences.count(), problems), (0, vec![]), "{set:?}");
        }
    }
}

#[test]
fn stores_to_a_shared_mapping_are_replayed_as_writes_when_the_mapping_is_synced_or_ends() {
    let (root, main) = (Builder::ROOT, Builder::MAIN);
    let mut trace = Builder::new();
    let node = trace.file(root, "data", 10_000);
    let file = trace.open(main, root, "data", node, RDWR);
    let map = |writable| Call::Map { file, offset: 4096, length: 8192, shared: true, writable };
    trace.call(main, map(true), 0);
    trace.close(main, file);
    let (offset, length) = (4096, 8192);
    let sync = Call::Msync { node, offset, length, stores: true, synchronous: true };
    trace.call(main, sync, 0);
    let end = |stores| Call::Unmap { node, offset, length, stores, implicit: true };
    trace.call(main, end(true), 0);
    // The end of a mapping without stores needs no call.
    trace.call(main, end(false), 0);
    let work = workload(&trace, &[]);
    let report = work.recording().unwrap().report;
    // The file ends at byte 10,000: 5,904 bytes are written twice.
    assert_eq!((report.calls, report.replayed), (6, 4));
    assert_eq!((report.stored.0, report.written.0, report.mapped.0), (11_808, 11_808, 8192));
    let (differences, problems) = replayed(work.as_ref());
    assert_eq!((differences.count(), problems), (0, vec![]));
    let count = |kind| work.counts(0, 1)[&kind];
    assert_eq!((count(OpKind::Write), count(OpKind::Fdatasync)), (2, 1));
}

#[test]
fn a_call_waits_for_any_number_of_threads() {
    let (root, main) = (Builder::ROOT, Builder::MAIN);
    let mut trace = Builder::new();
    let node = trace.file(root, "data", 1000);
    let threads: Vec<ThreadId> = (0..300).map(|_| trace.spawn(main, false)).collect();
    let at = || At::new(root, name("data"), Some(node));
    let stat = || Call::Stat { target: Target::At(at()), stat: StatKind::Stat };
    // The reads of the name by all threads are unordered; then it is removed.
    for thread in &threads {
        trace.call(*thread, stat(), 0);
    }
    trace.call(main, Call::Unlink { at: at() }, 0);
    for thread in &threads {
        trace.call(*thread, stat_of(root, "data"), -2);
    }
    let work = workload(&trace, &[]);
    let (mut source, mut op) =
        (work.ops(0, fsdyno_workload::Share { rank: 0, ranks: 301 }), Op::default());
    let mut max_points = 0;
    while source.next(&mut op) {
        max_points = max_points.max(1 + op.also_after.len());
    }
    assert_eq!(max_points, 300);
    drop(source);
    let (differences, problems) = replayed(work.as_ref());
    assert_eq!((differences.count(), problems), (0, vec![]));
}

fn stat_of(dir: NodeId, text: &str) -> Call {
    let at = At::new(dir, name(text), None);
    Call::Stat { target: Target::At(at), stat: StatKind::Stat }
}

#[test]
fn a_rank_opens_a_directory_in_which_many_paths_begin_unless_it_is_removed() {
    let (root, main) = (Builder::ROOT, Builder::MAIN);
    let (kept, removed) = ("kept", "removed");
    let mut trace = Builder::new();
    let dirs = [kept, removed].map(|text| trace.dir(root, text));
    let other = trace.spawn(main, false);
    for (dir, threads) in [(dirs[0], [main, other]), (dirs[1], [main, main])] {
        for thread in threads {
            for _ in 0..20 {
                trace.call(thread, stat_of(dir, "none"), -2);
            }
        }
    }
    // The open directory follows its name.
    let at = |dir, text| At::new(root, name(text), dir);
    let to = At { walked: 9, ..at(None, "new") };
    trace.call(main, Call::Rename { from: at(Some(dirs[0]), kept), to, flags: 0 }, 0);
    trace.call(main, stat_of(dirs[0], "none"), -2);
    trace.call(main, Call::Rmdir { at: at(Some(dirs[1]), removed) }, 0);
    let work = workload(&trace, &[("copies", "2")]);
    let (mut source, mut op) =
        (work.ops(0, fsdyno_workload::Share { rank: 0, ranks: 4 }), Op::default());
    let mut names = Vec::new();
    while source.next(&mut op) {
        names.push(op.name.display());
    }
    let count = |part: &str| names.iter().filter(|name| name.contains(part)).count();
    // 8 paths from the root, the open itself, and the old name; then 12 paths and a later one in the open directory.
    let short = names.iter().filter(|name| *name == "none").count();
    let counts = [count(kept), short, count(removed), count("copy000")];
    assert_eq!(counts, [10, 13, 41, 51], "{names:?}");
    drop(source);
    let (differences, problems) = replayed(work.as_ref());
    assert_eq!((differences.count(), problems), (0, vec![]));
}

#[test]
fn a_damaged_trace_is_refused_with_its_offset() {
    let (mut trace, mut out) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
    let mut bytes = small().finish().unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    trace.write_all(&bytes).unwrap();
    let error = fsdyno_replay::compile(&mut trace, &mut out).unwrap_err().to_string();
    assert!(error.starts_with("at byte "), "{error}");
}

/// A step of a random program: its thread, its operation, the choice of its object, and a length.
type Step = (u8, u8, u8, u16);

#[derive(Clone)]
struct Known {
    node: NodeId,
    dir: NodeId,
    name: String,
    size: u64,
}

/// Returns the trace of a consistent program of several threads: its calls have the results that Linux returns.
fn program(steps: &[Step]) -> Builder {
    let mut trace = Builder::new();
    let dirs = [trace.dir(Builder::ROOT, "d0"), trace.dir(Builder::ROOT, "d1")];
    let mut files = vec![Known {
        node: trace.file(dirs[0], "first", 3000),
        dir: dirs[0],
        name: "first".into(),
        size: 3000,
    }];
    let threads: Vec<ThreadId> = [Builder::MAIN]
        .into_iter()
        .chain((0..3).map(|_| trace.spawn(Builder::MAIN, false)).collect::<Vec<_>>())
        .collect();
    // Open file, node, position.
    let mut open: Vec<(FileId, NodeId, u64)> = Vec::new();
    let mut sizes = std::collections::HashMap::from([(files[0].node, 3000u64)]);
    for (at, (thread, operation, choice, length)) in steps.iter().enumerate() {
        let thread = threads[usize::from(*thread) % threads.len()];
        let length = u32::from(*length) + 1;
        let pick = |count: usize| usize::from(*choice) % count.max(1);
        match operation % 9 {
            0 => {
                let (dir, name) = (dirs[pick(2)], format!("f{at}"));
                let (node, file) = trace.create(thread, dir, &name, CREATE);
                open.push((file, node, 0));
                sizes.insert(node, 0);
                files.push(Known { node, dir, name, size: 0 });
            }
            1 if !open.is_empty() => {
                let index = pick(open.len());
                let (file, node, position) = &mut open[index];
                trace.write(thread, *file, length);
                *position += u64::from(length);
                let size = sizes.get_mut(node).unwrap();
                *size = (*size).max(*position);
            }
            2 if !open.is_empty() => {
                let index = pick(open.len());
                let (file, node, position) = &mut open[index];
                let result = sizes[node].saturating_sub(*position).min(u64::from(length));
                trace.read(thread, *file, length, result as u32);
                *position += result;
            }
            3 if !open.is_empty() => {
                let index = pick(open.len());
                trace.close(thread, open.swap_remove(index).0);
            }
            4 if !files.is_empty() => {
                let index = pick(files.len());
                let known = files.swap_remove(index);
                let at = At::new(known.dir, name(&known.name), Some(known.node));
                trace.call(thread, Call::Unlink { at }, 0);
            }
            5 if !files.is_empty() => {
                let index = pick(files.len());
                let known = &mut files[index];
                let from = At::new(known.dir, name(&known.name), Some(known.node));
                (known.dir, known.name) = (dirs[at % 2], format!("r{at}"));
                let to = At::new(known.dir, name(&known.name), None);
                trace.call(thread, Call::Rename { from, to, flags: 0 }, 0);
            }
            6 if !files.is_empty() => {
                let known = &files[pick(files.len())];
                let file = trace.open(thread, known.dir, &known.name, known.node, RDWR);
                open.push((file, known.node, 0));
            }
            7 if !files.is_empty() => {
                let known = &files[pick(files.len())];
                let at = At::new(known.dir, name(&known.name), Some(known.node));
                let stat = Call::Stat { target: Target::At(at), stat: StatKind::Stat };
                trace.call(thread, stat, 0);
            }
            8 => {
                let at = At::new(dirs[pick(2)], name("never"), None);
                trace.call(thread, Call::Access { at, mode: 0 }, -2);
            }
            _ => {}
        }
    }
    let _ = files.iter().map(|known| known.size).sum::<u64>();
    trace
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 25, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_random_program_of_four_threads_has_its_results_and_its_tree_in_every_order(
        steps in prop::collection::vec(any::<Step>(), 0..120)
    ) {
        let trace = program(&steps);
        for order in ["resource", "total"] {
            let work = workload(&trace, &[("order", order)]);
            let (differences, problems) = replayed(work.as_ref());
            prop_assert_eq!(differences.rows().collect::<Vec<_>>(), vec![], "{}", order);
            prop_assert_eq!(problems, Vec::<String>::new(), "{}", order);
            prop_assert!(!notes_text(work.as_ref()).contains("not replayed"), "{}", notes_text(work.as_ref()));
        }
    }
}
