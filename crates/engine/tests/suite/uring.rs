//! Phases through io_uring(7) do the same as with system calls. Skipped if the kernel lacks io_uring.

#![allow(clippy::unwrap_used, reason = "tests may unwrap")]

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::script::{
    FILE, ROOT, RankScript, SMALL_WORKLOADS, Script, WRITE, check_workload, check_workload_in,
    contents, create, is_full, op, run, with_timeout,
};
use fsdyno_engine::issue::uring;
use fsdyno_engine::{Cause, PhaseError};
use fsdyno_record::{Bytes, Nanos, OpKind};
use fsdyno_workload::{
    Call, Compound, DirSlot, Expect, FileSlot, Op, OpenFlags, Payload, ProgressPoint,
};

/// Returns true if io_uring is available; otherwise prints the reason.
fn has_io_uring() -> bool {
    match uring::probe() {
        Ok(()) => true,
        Err(error) => {
            eprintln!("skipped: io_uring: {error}");
            false
        }
    }
}

#[test]
fn the_tree_and_the_counts_are_those_of_the_system_calls() {
    if !has_io_uring() {
        return;
    }
    let all = [(1, 7), (4, 3), (1, 1), (2, 32), (1, 256)];
    for &(threads, depth) in &all[..if is_full() { 5 } else { 2 }] {
        let set = [("files", "700"), ("size", "5000"), ("stat", "yes"), ("create-order", "random")];
        check_workload("dirops", &set, threads, &format!("io_uring:{depth}"));
    }
    for (name, set) in SMALL_WORKLOADS {
        check_workload(name, set, 1, "io_uring:5");
    }
}

#[test]
fn trees_are_copied_on_a_memory_file_system_too() {
    let Ok(folder) = tempfile::tempdir_in("/dev/shm") else {
        eprintln!("skipped: no /dev/shm");
        return;
    };
    if has_io_uring() {
        let set = [("files", "500"), ("size", "4096")];
        check_workload_in(folder.path(), "dirops", &set, 2, "io_uring:16");
    }
}

fn issue(path: &Path, ops: Vec<Op>) -> Result<fsdyno_engine::threads::PhaseResult, PhaseError> {
    run(&Script(vec![ops]), 0, 1, "io_uring:1", path)
}

#[test]
fn every_call_has_its_effect() {
    if !has_io_uring() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (dir, other) = (DirSlot(2), FileSlot(5));
    let append = OpenFlags { append: true, ..WRITE };
    let read = OpenFlags { read: true, ..OpenFlags::NONE };
    let payload = |offset, length| Payload { id: 7, offset, length };
    let op_with_two_names = |call, name: &str, other: &str| {
        let mut op = op(call, name);
        op.second_name.push(other.as_bytes());
        op
    };
    let ops = vec![
        op(Call::Mkdir { dir: ROOT, mode: 0o755 }, "d"),
        Op { expect: Expect::Exists, ..op(Call::Mkdir { dir: ROOT, mode: 0o755 }, "d") },
        op(Call::OpenDir { dir: ROOT, slot: dir }, "d"),
        op(Call::Create { dir, file: FILE, flags: WRITE, mode: 0o600 }, "a"),
        op(Call::Write { file: FILE, payload: payload(0, 3000) }, "a"),
        op(Call::Write { file: FILE, payload: payload(3000, 2000) }, "a"),
        op(Call::WriteAt { file: FILE, offset: 10, payload: payload(10, 20) }, "a"),
        op(Call::Fallocate { file: FILE, length: 8192 }, "a"),
        op(Call::Truncate { file: FILE, length: 5000 }, "a"),
        op(Call::UtimesFile { file: FILE, mtime: 1_000_000_000 }, "a"),
        op(Call::ChmodFile { file: FILE, mode: 0o644 }, "a"),
        op(Call::StatFile { file: FILE }, "a"),
        op(Call::Fsync { file: FILE }, "a"),
        op(Call::Close { file: FILE }, "a"),
        op(Call::Open { dir, file: other, flags: append }, "a"),
        op(Call::Append { file: other, payload: payload(5000, 1000) }, "a"),
        op(Call::Close { file: other }, "a"),
        op(Call::Open { dir, file: FILE, flags: read }, "a"),
        op(Call::Read { file: FILE, length: 4000 }, "a"),
        op(Call::Read { file: FILE, length: 4000 }, "a"),
        op(Call::ReadAt { file: FILE, offset: 5990, length: 100 }, "a"),
        op(Call::Close { file: FILE }, "a"),
        op_with_two_names(Call::Link { dir, to: ROOT }, "a", "hard"),
        op_with_two_names(Call::Symlink { dir: ROOT }, "soft", "d/a"),
        op_with_two_names(Call::Rename { dir: ROOT, to: dir }, "hard", "b"),
        op(Call::Stat { dir }, "b"),
        Op { expect: Expect::Missing, ..op(Call::Stat { dir }, "c") },
        op(Call::Utimes { dir: ROOT, mtime: 5 }, "soft"),
        op(Call::FsyncDir { dir }, "d"),
        op(Call::Compound(Compound::Scan { dir: ROOT }), "d"),
        op(Call::Unlink { dir }, "b"),
        op(Call::Mkdir { dir, mode: 0o700 }, "sub"),
        op(Call::Rmdir { dir }, "sub"),
        op(Call::CloseDir { slot: dir }, "d"),
    ];
    let calls = ops.len() as u64;
    let done = issue(folder.path(), ops).unwrap();
    let outcome = done.outcome;
    assert_eq!((outcome.bytes_written, outcome.bytes_read), (Bytes(6020), Bytes(6010)));
    // On any file system the scan is open, two getdents64, close.
    assert!(outcome.ops >= calls + 3, "{outcome:?}");
    let file = folder.path().join("d/a");
    assert_eq!(std::fs::read(&file).unwrap(), contents().slice(payload(0, 6000)));
    assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o644);
    assert_eq!(std::fs::read_link(folder.path().join("soft")).unwrap(), Path::new("d/a"));
    assert_eq!(std::fs::symlink_metadata(folder.path().join("soft")).unwrap().mtime(), 5);
    assert!(!folder.path().join("d/b").exists() && !folder.path().join("hard").exists());
}

#[test]
fn a_write_that_takes_several_calls_is_one_op_and_written_whole() {
    if !has_io_uring() {
        return;
    }
    // A slice is at most a mebibyte, so it takes three calls.
    let folder = tempfile::tempdir().unwrap();
    let payload = Payload { id: 3, offset: 0, length: 3_000_001 };
    let [open, close] = create("big");
    let write = op(Call::Write { file: FILE, payload }, "big");
    let done = issue(folder.path(), vec![open, write, close]).unwrap();
    assert_eq!((done.outcome.ops, done.outcome.bytes_written), (3, Bytes(3_000_001)));
    let bytes = std::fs::read(folder.path().join("big")).unwrap();
    assert_eq!(bytes.len(), 3_000_001);
    assert_eq!(contents().difference(payload, &bytes), None);
}

#[test]
fn a_failure_names_the_op_the_path_the_cause_and_the_op_count() {
    if !has_io_uring() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut ops = create("x").to_vec();
    ops.push(op(Call::Unlink { dir: ROOT }, "no/f00017"));
    let text = issue(folder.path(), ops).err().unwrap().to_string();
    assert_eq!(text, "unlink no/f00017: No such file or directory (ENOENT) after 2 ops");
    let ops = vec![
        op(Call::Open { dir: ROOT, file: FILE, flags: WRITE }, "full"),
        op(Call::Write { file: FILE, payload: Payload { id: 0, offset: 0, length: 9 } }, "full"),
    ];
    let text = issue(Path::new("/dev"), ops).err().unwrap().to_string();
    assert_eq!(text, "write full: No space left on device (ENOSPC) after 1 ops");
    for call in [Call::Close { file: FileSlot(9) }, Call::CloseDir { slot: ROOT }] {
        let text = issue(folder.path(), vec![op(call, "x")]).err().unwrap().to_string();
        assert!(text.contains("EBADF"), "{text}");
    }
}

#[test]
fn think_time_blocks_no_other_rank_and_is_in_no_latency() {
    if !has_io_uring() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let think = Nanos(30_000_000);
    let mut ops = create("f").to_vec();
    ops[0].think = think;
    ops[1].compute = think;
    let done = issue(folder.path(), ops).unwrap();
    let outcome = done.outcome;
    assert!(outcome.think_time >= Nanos(2 * think.0), "{outcome:?}");
    assert!(outcome.returned.since(outcome.started) >= outcome.think_time);
    // Think time, however long, is in neither latency.
    let elapsed = outcome.returned.since(outcome.started);
    let ops = done.into_recorder().ops();
    let calls = ops[&OpKind::Create].total_ns + ops[&OpKind::Close].total_ns;
    assert!(calls + outcome.think_time <= elapsed, "{calls:?} {outcome:?}");
}

#[test]
fn threads_wait_for_each_other_through_the_ring() {
    if !has_io_uring() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let after = |thread, ops, op| Op { after: ProgressPoint { thread, ops }, ..op };
    let stat = op(Call::Stat { dir: ROOT }, "a");
    let mut late = create("a").to_vec();
    late[0].think = Nanos(20_000_000);
    let script =
        Script(vec![late, vec![after(0, 1, stat.clone())], vec![after(1, 1, stat.clone())]]);
    assert_eq!(run(&script, 0, 1, "io_uring:4", folder.path()).unwrap().outcome.ops, 4);
    let script = Script(vec![vec![after(1, 1, stat.clone())], vec![after(0, 1, stat)]]);
    match run(&script, 0, 1, "io_uring:4", folder.path()).err().unwrap() {
        PhaseError::Op(failure) => {
            assert!(matches!(failure.cause, Cause::Unreachable(_)), "{failure}")
        }
        other => panic!("{other}"),
    }
}

#[test]
fn several_failures_at_once_end_the_phase_and_leave_nothing_open() {
    if !has_io_uring() {
        return;
    }
    // Opens fail at submission, so one call completes all of them.
    let text = with_timeout(|| {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("there"), b"").unwrap();
        let open =
            |name: &str| op(Call::Open { dir: ROOT, file: FILE, flags: OpenFlags::NONE }, name);
        let lists =
            (0..16).map(|n| vec![open(if n % 2 == 0 { "gone" } else { "there" })]).collect();
        let text = run(&RankScript(Script(lists)), 0, 1, "io_uring:16", folder.path());
        let existing = folder.path().join("there");
        let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        let open = links.filter(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to == existing));
        assert_eq!(open.count(), 0, "all opened files are closed");
        text.err().unwrap().to_string()
    });
    assert!(text.starts_with("open gone: No such file or directory (ENOENT) after "), "{text}");
}

#[test]
fn a_failure_ends_a_ring_with_other_active_ranks() {
    if !has_io_uring() {
        return;
    }
    let text = with_timeout(|| {
        let folder = tempfile::tempdir().unwrap();
        let mut lists = vec![vec![op(Call::Stat { dir: ROOT }, "."); 5000]; 7];
        lists.push(vec![op(Call::Unlink { dir: ROOT }, "gone")]);
        let text = run(&RankScript(Script(lists)), 0, 1, "io_uring:8", folder.path());
        text.err().unwrap().to_string()
    });
    assert!(text.starts_with("unlink gone: No such file or directory (ENOENT)"), "{text}");
}

#[test]
fn no_rank_that_waits_for_another_thread_is_lost() {
    if !has_io_uring() {
        return;
    }
    // The condition of 31 ranks of the second thread is met while that thread checks it.
    let depth = 32u32;
    let folder = tempfile::tempdir().unwrap();
    let stat = op(Call::Stat { dir: ROOT }, ".");
    let after = |thread, ops| Op { after: ProgressPoint { thread, ops }, ..stat.clone() };
    let mut lists = vec![vec![stat.clone(); 400]; depth as usize];
    lists.push(vec![stat.clone(); 2000]);
    for rank in 1..depth {
        lists.push((1..400).map(|ops| after((rank * 7 + ops as u32) % depth, ops)).collect());
    }
    let expected = lists.iter().map(Vec::len).sum::<usize>() as u64;
    let script = RankScript(Script(lists));
    for round in 0..if is_full() { 100 } else { 30 } {
        let done = run(&script, 0, 2, &format!("io_uring:{depth}"), folder.path()).unwrap();
        assert_eq!(done.outcome.ops, expected, "in round {round}");
    }
}
