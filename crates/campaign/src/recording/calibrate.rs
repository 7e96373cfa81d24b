//! Calibrates a recording: replays it immediately on the same file system, and compares the time of its calls.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::process::{Command, Stdio};

use fsdyno_record::{Nanos, Trial};
use fsdyno_report::percent;
use fsdyno_trace::{Call, CallKind, Item, Reader, Target};

use crate::notes::say;
use crate::{Exit, Failure};

/// Number of replays; the median is printed.
const REPLAYS: usize = 3;

/// Minimum number of cheap calls from which the recorder's own time is estimated.
const MIN_CHEAP_CALLS: usize = 20;

/// Calls that are not compared: a replay never makes them, or they wait for other processes.
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

/// The time of those calls of a trace that a replay makes.
struct Recorded {
    /// Total time of the calls, including the recorder's stops.
    time: Nanos,
    /// The part of `time` that is attributed to the recorder's stops.
    stops: Nanos,
}

/// Replays a trace in a directory and prints the time of its calls relative to that in the recording.
///
/// # Errors
/// A trace that cannot be read, or a replay that fails.
pub fn calibrate(trace: &Path, directory: &Path) -> Result<(), Failure> {
    let recorded = recorded(trace)?;
    let mut replayed = replayed(trace, directory)?;
    replayed.sort_unstable();
    let Some(median) = replayed.get(replayed.len() / 2) else {
        return Err(Failure {
            exit: Exit::TrialFailed,
            message: "no replay succeeded".to_string(),
        });
    };
    let original = Nanos(recorded.time.0.saturating_sub(recorded.stops.0));
    say(&format!(
        "fsdyno: calibration in '{}', warm: the calls took {median} replayed (median of {REPLAYS}) and {original} \
         recorded: {} (recorded with the recorder's stops: {}, of which {} are an estimate of the stops by the seeks, closes and fstats)",
        directory.display(),
        percent(median.0 as f64 / original.0.max(1) as f64),
        recorded.time,
        recorded.stops,
    ));
    Ok(())
}

fn recorded(trace: &Path) -> Result<Recorded, Failure> {
    let file = File::open(trace).map_err(|error| Failure::io("read the trace", trace, &error))?;
    let wrong =
        |error: fsdyno_trace::TraceError| Failure::wrong(format!("'{}': {error}", trace.display()));
    let mut reader = Reader::new(BufReader::new(file)).map_err(wrong)?;
    let (mut calls, mut time, mut cheap) = (0, 0, Vec::new());
    while let Some(item) = reader.item().map_err(wrong)? {
        if let Item::Event(event) = item
            && !EXCLUDED.contains(&event.call.kind())
        {
            calls += 1;
            time += event.duration;
            cheap.extend(is_cheap(&event.call).then_some(event.duration));
        }
    }
    let stop = match cheap.len() {
        0..MIN_CHEAP_CALLS => 0,
        count => cheap.iter().sum::<u64>() / count as u64,
    };
    Ok(Recorded { time: Nanos(time), stops: Nanos(time.min(stop * calls)) })
}

/// Returns true for a call that takes less than a microsecond itself: the recorder's stops dominate its recorded time.
fn is_cheap(call: &Call) -> bool {
    matches!(
        call,
        Call::Seek { .. }
            | Call::Stat { target: Target::File(_), .. }
            | Call::Close { implicit: false, .. }
    )
}

/// Replays a trace, and returns the total time of the calls of each replay.
fn replayed(trace: &Path, directory: &Path) -> Result<Vec<Nanos>, Failure> {
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
    let time = |trial: &Trial| {
        let ops = trial.measured.phases.iter().flat_map(|phase| phase.ops.values());
        Nanos(ops.map(|op| op.total_ns.0).sum())
    };
    Ok(trials.iter().map(time).collect())
}
