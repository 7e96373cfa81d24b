//! The file system in memory against the kernel's: random ops, each with the same result, and one tree.

#![allow(clippy::unwrap_used, reason = "tests may unwrap")]

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, LazyLock};

use fsdyno_engine::issue::sync::SyncIssuer;
use fsdyno_engine::{Cause, Issuer, Recorder, run_phase, verify};
use fsdyno_record::plan::VerifyMode;
use fsdyno_workload::{
    Call, Compound, Contents, DirSlot, FileSlot, MemoryFs, Name, Op, OpSource, OpenFlags, Payload,
    RemoveOrder,
};
use proptest::prelude::*;

/// Names in a small tree, so that calls often use the same ones; some are not plain names.
const NAMES: &[&str] = &[
    "a", "b", "c", "d", "a/b", "a/c", "b/a", "a/b/c", "b/c/d", "c/a", "d/d/d", "a/./b", "a//c",
    "a/../b", "b/../a/c", "a/", "b/", "a/b/", ".", "a/.", "a/..", "", "x/y",
];

/// Targets of symbolic links, relative to the link.
const TARGETS: &[&str] = &["a", "b", "a/b", "d/../b", "c", "none", "a/", "", "./d", "d/d"];

fn dir() -> impl Strategy<Value = DirSlot> {
    prop_oneof![6 => Just(0u16), 3 => 1..3u16, 1 => Just(7u16)].prop_map(DirSlot)
}

fn file() -> impl Strategy<Value = FileSlot> {
    (0..3u16).prop_map(FileSlot)
}

/// Modes that allow the caller access and are not changed by any usual umask.
fn mode() -> impl Strategy<Value = u32> {
    prop::sample::select(vec![0o700, 0o744, 0o755])
}

fn payload() -> impl Strategy<Value = Payload> {
    (0..5u64, 0..2000u64, 0..3000u32).prop_map(|(id, offset, length)| Payload {
        id,
        offset,
        length,
    })
}

fn flags() -> impl Strategy<Value = OpenFlags> {
    let often = || prop::bool::weighted(0.7);
    let rarely = || prop::bool::weighted(0.15);
    (often(), often(), rarely(), rarely(), rarely(), rarely()).prop_map(
        |(read, write, exclusive, truncate, append, nofollow)| OpenFlags {
            read,
            write,
            exclusive,
            truncate,
            append,
            nofollow,
            ..OpenFlags::NONE
        },
    )
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        6 => (dir(), mode()).prop_map(|(dir, mode)| Call::Mkdir { dir, mode }),
        8 => (dir(), file(), flags(), mode())
            .prop_map(|(dir, file, flags, mode)| Call::Create { dir, file, flags, mode }),
        4 => (dir(), file(), flags(), prop::bool::weighted(0.1), prop::bool::weighted(0.1))
            .prop_map(|(dir, file, flags, create, directory)| Call::Open {
                dir,
                file,
                flags: OpenFlags { create: create && !directory, directory, ..flags },
            }),
        3 => (dir(), 0..3u16).prop_map(|(dir, slot)| Call::OpenDir { dir, slot: DirSlot(slot.max(1)) }),
        1 => (0..3u16).prop_map(|slot| Call::CloseDir { slot: DirSlot(slot) }),
        2 => file().prop_map(|file| Call::Close { file }),
        5 => (file(), payload()).prop_map(|(file, payload)| Call::Write { file, payload }),
        2 => (file(), payload()).prop_map(|(file, payload)| Call::Append { file, payload }),
        4 => (file(), 0..6000u64, payload())
            .prop_map(|(file, offset, payload)| Call::WriteAt { file, offset, payload }),
        3 => (file(), 0..4000u32).prop_map(|(file, length)| Call::Read { file, length }),
        2 => (file(), 0..6000u64, 0..4000u32)
            .prop_map(|(file, offset, length)| Call::ReadAt { file, offset, length }),
        2 => (file(), 0..6000u64).prop_map(|(file, length)| Call::Truncate { file, length }),
        2 => dir().prop_map(|dir| Call::Stat { dir }),
        1 => file().prop_map(|file| Call::StatFile { file }),
        6 => (dir(), dir()).prop_map(|(dir, to)| Call::Rename { dir, to }),
        5 => (dir(), dir()).prop_map(|(dir, to)| Call::Link { dir, to }),
        5 => dir().prop_map(|dir| Call::Symlink { dir }),
        4 => dir().prop_map(|dir| Call::Unlink { dir }),
        4 => dir().prop_map(|dir| Call::Rmdir { dir }),
        1 => file().prop_map(|file| Call::Fsync { file }),
        1 => dir().prop_map(|dir| Call::FsyncDir { dir }),
        1 => (file(), mode()).prop_map(|(file, mode)| Call::ChmodFile { file, mode }),
        1 => (dir(), mode()).prop_map(|(dir, mode)| Call::Chmod { dir, mode }),
        2 => (file(), 0..1i64 << 30).prop_map(|(file, mtime)| Call::UtimesFile { file, mtime }),
        2 => (dir(), 0..1i64 << 30).prop_map(|(dir, mtime)| Call::Utimes { dir, mtime }),
        1 => file().prop_map(|file| Call::ChownFile { file }),
        1 => dir().prop_map(|dir| Call::Chown { dir }),
        8 => compound().prop_map(Call::Compound),
    ]
}

fn compound() -> impl Strategy<Value = Compound> {
    let order = RemoveOrder::Name;
    let compute = fsdyno_record::Nanos(0);
    prop_oneof![
        dir().prop_map(|dir| Compound::Scan { dir }),
        (dir(), prop::option::of(Just(4096)))
            .prop_map(|(dir, read)| Compound::StatEach { dir, read }),
        (dir(), any::<bool>()).prop_map(move |(dir, synced)| Compound::RemoveTree {
            dir,
            order,
            synced
        }),
        (dir(), dir()).prop_map(|(dir, to)| Compound::CopyTree { dir, to }),
        (dir(), dir()).prop_map(move |(dir, to)| Compound::PackTree { dir, to, compute }),
        (dir(), dir()).prop_map(move |(dir, to)| Compound::UnpackTree { dir, to, compute }),
    ]
}

/// A call with its two names.
type Step = (Call, &'static str, &'static str);

fn step() -> impl Strategy<Value = Step> {
    let name = || prop::sample::select(NAMES);
    (call(), name(), name(), prop::sample::select(TARGETS)).prop_map(
        |(call, name, second_name, target)| {
            (call, name, if matches!(call, Call::Symlink { .. }) { target } else { second_name })
        },
    )
}

fn to_name(text: &str) -> Name {
    let mut name = Name::default();
    name.push(text.as_bytes());
    name
}

/// One op.
struct Once<'a>(Option<&'a Op>);

impl OpSource for Once<'_> {
    fn next(&mut self, op: &mut Op) -> bool {
        self.0.take().map(|next| op.clone_from(next)).is_some()
    }
}

/// Returns the kernel's result of a call: the negative error number, or the bytes moved; 0 for a call that the
/// engine expands.
fn issue(issuer: &mut SyncIssuer, op: &Op) -> i64 {
    if op.call.kind().is_some() {
        return issuer.issue(op);
    }
    let mut recorder = Recorder::new();
    match run_phase(&mut Once(Some(op)), issuer, &mut recorder, &mut |_| {}) {
        Ok(_) => 0,
        Err(failure) => match failure.cause {
            Cause::Errno(errno) => -i64::from(errno.0),
            other => panic!("{other:?}"),
        },
    }
}

fn check_same_results(parent: &Path, steps: &[Step]) -> Result<(), TestCaseError> {
    static CONTENTS: LazyLock<Arc<Contents>> = LazyLock::new(|| Arc::new(Contents::new(5)));
    let contents = &*CONTENTS;
    let folder = tempfile::tempdir_in(parent).unwrap();
    let root = || OwnedFd::from(std::fs::File::open(folder.path()).unwrap());
    let mut issuer = SyncIssuer::new(root(), contents.clone());
    let mut memory = MemoryFs::new();
    for (call, name, second_name) in steps {
        let op = &Op {
            call: *call,
            name: to_name(name),
            second_name: to_name(second_name),
            ..Op::default()
        };
        let planned = memory.plan(op);
        if planned.is_err() && op.call.kind().is_none() {
            // The engine may complete a part of the op before it fails.
            continue;
        }
        let own_result =
            memory.apply(op).map_or_else(|errno| -i64::from(errno.number()), |bytes| bytes as i64);
        let kernel_result = issue(&mut issuer, op);
        prop_assert_eq!(
            own_result,
            kernel_result,
            "{:?} {:?} {:?}",
            op.call,
            op.name,
            op.second_name
        );
    }
    drop(issuer);
    let mode = VerifyMode::Full;
    let report = verify(root().as_fd(), &memory, contents, mode, 0, &mut |_| {}).unwrap();
    prop_assert_eq!(report.problems, 0, "{:?}", report.examples);
    Ok(())
}

/// Directories on the file systems of this machine that can take a test.
fn test_directories() -> Vec<std::path::PathBuf> {
    let shared = Path::new("/dev/shm");
    let tmpfs = tempfile::tempdir_in(shared).is_ok().then(|| shared.to_path_buf());
    [std::env::temp_dir()].into_iter().chain(tmpfs).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_file_system_in_memory_behaves_like_the_kernels(
        steps in prop::collection::vec(step(), 1..120),
        parent in prop::sample::select(test_directories()),
    ) {
        check_same_results(&parent, &steps)?;
    }
}
