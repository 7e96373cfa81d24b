//! Calibrates a recording: replays it immediately on the same file system, and compares the time of its calls.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::process::{Command, Stdio};

use fsdyno_record::{Nanos, OpKind, Trial};
use fsdyno_report::percent;
use fsdyno_trace::{CallKind, Item, Reader};

use crate::notes::say;
use crate::{Exit, Failure};

/// Number of replays; the median is printed.
const REPLAYS: usize = 5;

/// Number of kinds of calls that are printed: those with the largest differences.
const PRINTED: usize = 3;

/// Calls of a recording that are not compared: a replay makes others in their place or none, or they wait for other
/// processes. The writes and syncs that replace stores to mapped files are counted on the side of the replay.
const EXCLUDED: &[CallKind] = &[
    CallKind::Dup,
    CallKind::Chdir,
    CallKind::Lock,
    CallKind::SetFlags,
    CallKind::Map,
    CallKind::Unmap,
    CallKind::Msync,
    CallKind::Mknod,
    CallKind::Inherit,
    CallKind::Outside,
    CallKind::Spawn,
    CallKind::Exec,
    CallKind::Exit,
    CallKind::Wait,
    CallKind::Mark,
];

/// The total time of the calls by kind.
type Times = BTreeMap<CallKind, u64>;

/// Replays a trace in a directory and prints the time of its calls relative to that in the recording.
///
/// # Errors
/// A trace that cannot be read, or a replay that fails.
pub fn calibrate(trace: &Path, directory: &Path) -> Result<(), Failure> {
    let recorded = recorded(trace)?;
    let mut replayed = replayed(trace, directory)?;
    let total = |times: &Times| Nanos(times.values().sum());
    replayed.sort_unstable_by_key(total);
    let Some(median) = replayed.get(replayed.len() / 2) else {
        return Err(Failure {
            exit: Exit::TrialFailed,
            message: "no replay succeeded".to_string(),
        });
    };
    let (recorded_time, replayed_time) = (total(&recorded), total(median));
    say(&format!(
        "fsdyno: calibration in '{}', warm: the calls took {replayed_time} replayed (median of {REPLAYS}) and \
         {recorded_time} recorded: {}; most of the difference: {}",
        directory.display(),
        percent(replayed_time.0 as f64 / recorded_time.0.max(1) as f64),
        differences(&recorded, median).join("; "),
    ));
    Ok(())
}

/// Describes the kinds of calls whose times differ most.
fn differences(recorded: &Times, replayed: &Times) -> Vec<String> {
    let of = |times: &Times, kind| times.get(&kind).copied().unwrap_or(0);
    let kinds: BTreeSet<CallKind> = recorded.keys().chain(replayed.keys()).copied().collect();
    let mut kinds = Vec::from_iter(kinds);
    let difference = |kind: &CallKind| of(recorded, *kind).abs_diff(of(replayed, *kind));
    kinds.sort_by_key(|kind| std::cmp::Reverse(difference(kind)));
    let text = |kind: &CallKind| {
        let [recorded, replayed] = [recorded, replayed].map(|times| Nanos(of(times, *kind)));
        format!("{} {replayed} replayed, {recorded} recorded", kind.name())
    };
    kinds.iter().take(PRINTED).map(text).collect()
}

fn recorded(trace: &Path) -> Result<Times, Failure> {
    let file = File::open(trace).map_err(|error| Failure::io("read the trace", trace, &error))?;
    let wrong = |error: fsdyno_trace::TraceError| {
        Failure::invalid_use(format!("'{}': {error}", trace.display()))
    };
    let mut reader = Reader::new(BufReader::new(file)).map_err(wrong)?;
    let mut times = Times::new();
    while let Some(item) = reader.item().map_err(wrong)? {
        if let Item::Event(event) = item
            && !EXCLUDED.contains(&event.call.kind())
        {
            *times.entry(event.call.kind()).or_default() += event.duration;
        }
    }
    Ok(times)
}

/// Returns the kind of the calls in a trace that an op of a replay stands for.
fn kind(op: OpKind) -> CallKind {
    match op {
        OpKind::Create | OpKind::Open => CallKind::Open,
        OpKind::Close => CallKind::Close,
        OpKind::Read => CallKind::Read,
        OpKind::Write | OpKind::Append => CallKind::Write,
        OpKind::Stat => CallKind::Stat,
        OpKind::Readdir => CallKind::Readdir,
        OpKind::Rename => CallKind::Rename,
        OpKind::Link => CallKind::Link,
        OpKind::Symlink => CallKind::Symlink,
        OpKind::Unlink => CallKind::Unlink,
        OpKind::Mkdir => CallKind::Mkdir,
        OpKind::Rmdir => CallKind::Rmdir,
        OpKind::Fsync | OpKind::Fdatasync | OpKind::SyncRange => CallKind::Sync,
        OpKind::Sync => CallKind::SyncAll,
        OpKind::Truncate => CallKind::Truncate,
        OpKind::Fallocate => CallKind::Fallocate,
        OpKind::Setxattr => CallKind::Setxattr,
        OpKind::Chmod => CallKind::Chmod,
        OpKind::Utimes => CallKind::Utimes,
        OpKind::Chown => CallKind::Chown,
        OpKind::Readlink => CallKind::Readlink,
        OpKind::Access => CallKind::Access,
        OpKind::Statfs => CallKind::Statfs,
        OpKind::Seek => CallKind::Seek,
        OpKind::Getxattr => CallKind::Getxattr,
        OpKind::Listxattr => CallKind::Listxattr,
        OpKind::Removexattr => CallKind::Removexattr,
        OpKind::CopyRange => CallKind::Copy,
        OpKind::Fadvise => CallKind::Advise,
    }
}

/// Replays a trace, and returns the times of the calls of each replay.
fn replayed(trace: &Path, directory: &Path) -> Result<Vec<Times>, Failure> {
    let io = |what: &'static str, path: &Path| {
        let path = path.to_path_buf();
        move |error: std::io::Error| Failure::io(what, &path, &error)
    };
    let results = tempfile::tempdir().map_err(io("create a folder", &std::env::temp_dir()))?;
    let own = std::env::current_exe().map_err(io("find", Path::new("fsdyno")))?;
    let mut set = std::ffi::OsString::from("trace=");
    set.push(std::path::absolute(trace).map_err(io("name the trace", trace))?);
    let ran = Command::new(own)
        .args(["--quiet", "run", "replay", "--set", "cache=warm", "--format", "json"])
        .args(["--repeat", &REPLAYS.to_string(), "--set"])
        .arg(set)
        .arg("--on")
        .arg(directory)
        .arg("--out")
        .arg(results.path().join("results"))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(io("start", Path::new("fsdyno")))?;
    let failed = |message: String| Failure { exit: Exit::TrialFailed, message };
    if !ran.status.success() {
        return Err(failed(format!("the replay in '{}' failed", directory.display())));
    }
    let trials: Vec<Trial> = serde_json::from_slice(&ran.stdout)
        .map_err(|error| failed(format!("the result of the replay cannot be read: {error}")))?;
    let times = |trial: &Trial| {
        let mut times = Times::new();
        for (op, it) in trial.measured.phases.iter().flat_map(|phase| &phase.ops) {
            *times.entry(kind(*op)).or_default() += it.total_ns.0;
        }
        times
    };
    Ok(trials.iter().map(times).collect())
}
