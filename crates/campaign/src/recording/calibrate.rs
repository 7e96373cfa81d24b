//! Calibrates a recording: replays it immediately on the same file system, and compares the time of its calls.
//!
//! A recording by BPF is compared with recordings by BPF of its replays, so that both sides are timed in the same way:
//! from the entry of a call to its end in the kernel, excluding the time for which its thread waited for a processor.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::process::{Command, Stdio};

use fsdyno_record::{Nanos, OpKind, Trial};
use fsdyno_replay::Recorded;
use fsdyno_report::percent;
use fsdyno_trace::{Call, CallKind, Item, Reader};

use crate::notes::say;
use crate::{Exit, Failure};

/// Number of replays; the median is printed.
const REPLAYS: usize = 5;

/// Number of kinds of calls that are printed: those with the largest differences.
const PRINTED: usize = 6;

/// The mark before the calls of a phase of a replay.
const BEGINS: &[u8] = b"replay-begins";

/// The mark after the calls of a phase of a replay.
const ENDS: &[u8] = b"replay-ends";

/// Calls in the recording of a replay that are not calls of the replayed program.
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

/// The number of calls and their total time in nanoseconds, by kind.
type Times = BTreeMap<CallKind, (u64, u64)>;

fn total(times: &Times) -> Nanos {
    Nanos(times.values().fold(0, |sum, (_, time)| sum.saturating_add(*time)))
}

fn add(times: &mut Times, kind: CallKind, (calls, time): (u64, u64)) {
    let sum = times.entry(kind).or_default();
    *sum = (sum.0.saturating_add(calls), sum.1.saturating_add(time));
}

/// Replays a trace in a directory and prints the time of its calls relative to that in the recording.
///
/// # Errors
/// A trace that cannot be read, or a replay that fails.
pub fn calibrate(trace: &Path, directory: &Path, by_bpf: bool) -> Result<(), Failure> {
    let (recorded, calls) = recorded_times(trace)?;
    let mut replayed = replay_times(trace, directory, by_bpf)?;
    replayed.sort_unstable_by_key(total);
    let Some(median) = replayed.get(replayed.len() / 2) else {
        return Err(failed("no replay succeeded".to_string()));
    };
    let (recorded_time, replayed_time) = (total(&recorded), total(median));
    let ratio = replayed_time.0 as f64 / recorded_time.0.max(1) as f64;
    let timed = match by_bpf {
        true => " (both timed by BPF, without waiting for a processor)",
        false => "",
    };
    say(&format!(
        "fsdyno: calibration in '{}', warm: the calls took {replayed_time} replayed (median of {REPLAYS}) and \
         {recorded_time} recorded{timed}: {}; most of the difference: {}",
        directory.display(),
        percent(ratio),
        differences(&recorded, median).join("; "),
    ));
    for line in [reason(ratio, &calls), meaning(ratio, recorded_time, &calls)].iter().flatten() {
        say(&format!("fsdyno: {line}"));
    }
    Ok(())
}

/// Returns the meaning of the calibration for a ranking of file systems by replays, unless both the calls' times and the
/// program's time are close to those of the replay's calls. The difference between the recorded and the replayed time of
/// the calls may be the same on each file system, or may grow with the time of the calls; this gives two bounds.
fn meaning(ratio: f64, recorded: Nanos, calls: &Recorded) -> Option<String> {
    let whole = recorded.0 as f64 + calls.think as f64;
    let share = recorded.0 as f64 / whole.max(1.0);
    if (0.9..=1.1).contains(&ratio) && share >= 0.9 {
        return None;
    }
    let bounds = [0.1 * share * ratio.min(1.0), 0.1 * share * ratio.max(1.0)].map(percent);
    let bounds = match bounds {
        [low, high] if low == high => low,
        [low, high] => format!("{low} to {high}"),
    };
    Some(format!(
        "for a ranking: {} of the program's time was between calls; a difference of 10 % between file systems in the \
         replayed calls is about {bounds} of the program's time",
        percent(1.0 - share)
    ))
}

/// Returns the probable reason for the difference, if the times differ by more than a tenth and one is known.
fn reason(ratio: f64, calls: &Recorded) -> Option<String> {
    if ratio < 0.9 {
        return Some(
            "the replayed calls are faster, probably because a replay computes in registers between calls, whereas the \
             program's own work displaces the kernel's data from the processor's caches"
                .to_string(),
        );
    }
    let mean = |components: u64| components as f64 / calls.paths.max(1) as f64;
    let (program, replay) = (mean(calls.components.0), mean(calls.components.1));
    (ratio > 1.1 && replay >= program + 1.0).then(|| {
        format!(
            "the replayed calls are slower, in part because their paths have {replay:.1} components on average and \
             those of the program {program:.1}: they begin at the root of the tree, not at an open or working directory"
        )
    })
}

fn calls_and_time(times: &Times, kind: &CallKind) -> (u64, u64) {
    times.get(kind).copied().unwrap_or_default()
}

/// Describes the kinds of calls whose times differ most, with the mean time of a call.
fn differences(recorded: &Times, replayed: &Times) -> Vec<String> {
    let mut kinds = Vec::from_iter(recorded.keys());
    kinds.sort_by_key(|kind| {
        std::cmp::Reverse(
            calls_and_time(recorded, kind).1.abs_diff(calls_and_time(replayed, kind).1),
        )
    });
    let text = |kind| {
        let mean = |(calls, time): (u64, u64)| Nanos(time / calls.max(1));
        let (before, after) = (calls_and_time(recorded, kind), calls_and_time(replayed, kind));
        format!("{} {} {} replayed, {} recorded", before.0, kind.name(), mean(after), mean(before))
    };
    kinds.into_iter().take(PRINTED).map(text).collect()
}

/// Returns the times of those calls in a recording that a replay makes, and the recording's other facts about them.
fn recorded_times(trace: &Path) -> Result<(Times, Recorded), Failure> {
    let mut file =
        File::open(trace).map_err(|error| Failure::io("read the trace", trace, &error))?;
    let out = tempfile::tempfile();
    let mut out = out.map_err(|error| Failure::io("write to", &std::env::temp_dir(), &error))?;
    let (_, calls) = fsdyno_replay::compile_timed(&mut file, &mut out)
        .map_err(|error| Failure::invalid_use(format!("'{}': {error}", trace.display())))?;
    let mut times = Times::new();
    calls.times.iter().for_each(|(op, sum)| add(&mut times, kind(*op), *sum));
    Ok((times, calls))
}

/// Returns the kind of calls in a trace that an op of a replay represents.
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

fn failed(message: String) -> Failure {
    Failure { exit: Exit::TrialFailed, message }
}

/// Replays a trace, and returns the times of the calls of each replay.
fn replay_times(trace: &Path, directory: &Path, by_bpf: bool) -> Result<Vec<Times>, Failure> {
    let io = |what: &'static str, path: &Path| {
        let path = path.to_path_buf();
        move |error: std::io::Error| Failure::io(what, &path, &error)
    };
    let results = tempfile::tempdir().map_err(io("create a folder", &std::env::temp_dir()))?;
    let program = std::env::current_exe().map_err(io("find", Path::new("fsdyno")))?;
    let mut set = std::ffi::OsString::from("trace=");
    set.push(std::path::absolute(trace).map_err(io("name the trace", trace))?);
    let recording = results.path().join("replays.trace");
    let mut command = Command::new(&program);
    if by_bpf {
        command.args(["--quiet", "record", "--how", "bpf", "--tree"]).arg(directory);
        command.arg("-o").arg(&recording).arg("--").arg(&program);
    }
    command
        .args(["--quiet", "run", "replay", "--set", "cache=warm", "--format", "json"])
        .args(["--repeat", &REPLAYS.to_string(), "--set"])
        .arg(set)
        .arg("--on")
        .arg(directory)
        .arg("--out")
        .arg(results.path().join("results"));
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.map_err(io("start", Path::new("fsdyno")))?;
    if !output.status.success() {
        return Err(failed(format!("the replay in '{}' failed", directory.display())));
    }
    let trials: Vec<Trial> = serde_json::from_slice(&output.stdout)
        .map_err(|error| failed(format!("the result of the replay cannot be read: {error}")))?;
    match by_bpf {
        true => timed_by_bpf(&recording, trials.len()),
        false => Ok(trials.iter().map(timed_by_itself).collect()),
    }
}

/// Returns the times that a replay measured.
fn timed_by_itself(trial: &Trial) -> Times {
    let mut times = Times::new();
    for (op, it) in trial.measured.phases.iter().flat_map(|phase| &phase.ops) {
        add(&mut times, kind(*op), (it.count, it.total_ns.0));
    }
    times
}

/// Returns, for each of `trials` replays in a recording, the times of the calls between the replay's marks.
fn timed_by_bpf(recording: &Path, trials: usize) -> Result<Vec<Times>, Failure> {
    let io = |error| Failure::io("read", recording, &error);
    let invalid = |error: fsdyno_trace::TraceError| {
        failed(format!("the recording of the replay cannot be read: {error}"))
    };
    let file = File::open(recording).map_err(io)?;
    let mut reader = Reader::new(BufReader::new(file)).map_err(invalid)?;
    let (mut phases, mut inside) = (Vec::new(), false);
    while let Some(item) = reader.item().map_err(invalid)? {
        let Item::Event(event) = item else { continue };
        match (&event.call, phases.last_mut()) {
            (Call::Mark { name }, _) if name.bytes() == BEGINS => {
                phases.push(Times::new());
                inside = true;
            }
            (Call::Mark { name }, _) if name.bytes() == ENDS => inside = false,
            (call, Some(times)) if inside && !EXCLUDED.contains(&call.kind()) => {
                add(times, call.kind(), (1, event.duration));
            }
            _ => {}
        }
    }
    if trials == 0 || phases.is_empty() || phases.len() % trials != 0 {
        return Err(failed(format!(
            "the recording has {} phases of {trials} replays",
            phases.len()
        )));
    }
    let sum_of = |phases: &[Times]| {
        let mut times = Times::new();
        phases.iter().flatten().for_each(|(kind, sum)| add(&mut times, *kind, *sum));
        times
    };
    Ok(phases.chunks(phases.len() / trials).map(sum_of).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_impossible_times_do_not_overflow() {
        let mut times = Times::new();
        for kind in [CallKind::Read, CallKind::Write, CallKind::Read] {
            add(&mut times, kind, (u64::MAX, u64::MAX));
        }
        assert_eq!(total(&times), Nanos(u64::MAX));
        assert_eq!(times[&CallKind::Read], (u64::MAX, u64::MAX));
    }

    #[test]
    fn a_difference_of_more_than_a_tenth_is_explained_if_the_reason_is_known() {
        let calls = Recorded { paths: 10, components: (12, 40), ..Recorded::default() };
        assert_eq!(reason(0.95, &calls), None);
        assert!(reason(0.8, &calls).unwrap().starts_with("the replayed calls are faster"));
        let slower = reason(1.2, &calls).unwrap();
        assert!(slower.contains("have 4.0 components on average and those of the program 1.2"));
        let same = Recorded { components: (40, 40), ..calls };
        assert_eq!(reason(1.2, &same), None);
    }

    #[test]
    fn a_calibration_states_what_a_difference_of_calls_is_of_the_whole() {
        let calls = |think| Recorded { think, ..Recorded::default() };
        let recorded = Nanos(4_000_000);
        assert_eq!(meaning(0.95, recorded, &calls(100_000)), None);
        let text = meaning(0.57, recorded, &calls(6_000_000)).unwrap();
        assert!(text.starts_with("for a ranking: 60 % of the program's time was"), "{text}");
        assert!(text.ends_with("is about 2.3 % to 4.0 % of the program's time"), "{text}");
        let slower = meaning(1.5, recorded, &calls(0)).unwrap();
        assert!(slower.ends_with("is about 10 % to 15 % of the program's time"), "{slower}");
        let close = meaning(1.0, recorded, &calls(4_000_000)).unwrap();
        assert!(close.ends_with("is about 5.0 % of the program's time"), "{close}");
        assert!(text.len() < 2 * 100, "two lines");
    }
}
