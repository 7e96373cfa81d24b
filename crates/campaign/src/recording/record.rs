//! Records a command, or a running process, into a trace, and reports what was recorded.

use std::path::{Path, PathBuf};
use std::time::Duration;

use fsdyno_record::shell::quote;
use fsdyno_recorder::{Bounds, MARK, Options, RecordMethod, Recorded};
use fsdyno_trace::Name;

use super::{TraceFile, check_program};
use crate::Failure;
use crate::notes::say;

/// The request for a recording.
#[derive(Clone, Debug)]
pub struct RecordRequest {
    /// The trees, names and mechanism.
    pub options: Options,
    /// The running process to record; `None` to run the command.
    pub process: Option<i32>,
    /// The longest time for which the process is recorded.
    pub max_duration: Option<Duration>,
    /// The command, with its arguments.
    pub command: Vec<String>,
    /// The file of the trace.
    pub out: PathBuf,
}

impl RecordRequest {
    /// Rejects a request that cannot be recorded, before any work.
    fn check(&self) -> Result<(), Failure> {
        let how = self.options.how;
        if let Some(tree) = self.options.trees.iter().find(|tree| !tree.is_dir()) {
            let message = format!("--tree '{}' is not a directory", tree.display());
            return Err(Failure::invalid_use(message));
        }
        if let Some(program) = self.command.first() {
            check_program(program)?;
        }
        if let Some(pid) = self.process {
            if ![RecordMethod::Auto, RecordMethod::Bpf].contains(&how) {
                let message = "--pid records by BPF: omit --how, or give --how bpf";
                return Err(Failure::invalid_use(message));
            }
            if !Path::new(&format!("/proc/{pid}")).exists() {
                return Err(Failure::invalid_use(format!("there is no process {pid}")));
            }
        }
        if self.process.is_some() || how == RecordMethod::Bpf {
            fsdyno_recorder::check_bpf()?;
        }
        Ok(())
    }
}

/// Records a command, or a process that is already running, and reports what was recorded, and how. Also returns the
/// path of the trace: if it has only a part of the calls, an older trace remains, and the new one is next to it.
///
/// # Errors
/// A request that cannot be recorded; a trace that cannot be written.
pub fn record(request: &RecordRequest) -> Result<(Recorded, PathBuf), Failure> {
    request.check()?;
    let trace = TraceFile::create(&request.out)?;
    let out = trace.file().map_err(|error| Failure::io("write the trace", &request.out, &error))?;
    let older = trace.older().map(Path::to_path_buf);
    let options = &Options { older: older.clone(), ..request.options.clone() };
    let recorded = match request.process {
        Some(pid) => {
            let on_start =
                || say(&format!("fsdyno: recording process {pid}; Ctrl-C ends the recording"));
            let bounds = Bounds { pid, max_duration: request.max_duration };
            fsdyno_recorder::attach(options, bounds, out, on_start)?
        }
        None => fsdyno_recorder::record(options, &request.command, out)?,
    };
    let path = match recorded.failed {
        None => trace.complete()?,
        Some(_) => trace.leave(),
    };
    let older = older.filter(|older| *older != path);
    say_recorded(&path, older.as_deref(), &recorded);
    Ok((recorded, path))
}

fn say_recorded(out: &Path, older: Option<&Path>, recorded: &Recorded) {
    let trace = out.display();
    match &recorded.failed {
        Some(error) => {
            let older = older.map(Path::display);
            let older = older.map(|it| format!(", and '{it}' is still the older trace"));
            let older = older.unwrap_or_default();
            say(&format!("fsdyno: {error}; '{trace}' has the calls before that{older}"));
        }
        None => {
            let how = match (recorded.how, &recorded.refused) {
                (_, Some(reason)) => {
                    format!("by ptrace, since no memory can be shared with programs ({reason})")
                }
                (RecordMethod::Ptrace, None) => "by ptrace".to_string(),
                (RecordMethod::Bpf, None) => "by BPF".to_string(),
                _ => {
                    let stopped = recorded.events.saturating_sub(recorded.inside);
                    format!("{} inside the programs, {stopped} by ptrace", recorded.inside)
                }
            };
            say(&format!("fsdyno: {} events in '{trace}', recorded {how}", recorded.events));
        }
    }
    for (note, count) in &recorded.end.notes {
        say(&format!("fsdyno: {note}: {count}"));
    }
    if let Some(line) = next_step(&quote(&trace.to_string()), recorded.events) {
        say(&line);
    }
}

/// The number of events below which a replay is usually too short for a comparison. [OWN]
const SHORT: u64 = 10_000;

/// Returns the command that replays a trace, and for a short one the parameter that repeats it; `None` for a trace
/// without events.
fn next_step(trace: &str, events: u64) -> Option<String> {
    let repeated = match events < SHORT {
        true => {
            "; it is short: --set copies=20 replays 20 copies at the same time, which may rank file systems differently"
        }
        false => "",
    };
    (events > 0).then(|| {
        format!(
            "fsdyno: replay it: fsdyno run replay --set trace={trace} --fs ext4,xfs,btrfs --repeat 3{repeated}"
        )
    })
}

/// Makes the call that a recorder recognizes as a mark.
///
/// # Errors
/// A text that cannot name a phase.
pub fn mark(name: &str) -> Result<(), Failure> {
    let phase = Name::new(name.as_bytes())
        .map_err(|error| Failure::invalid_use(format!("'{name}' cannot name a phase: {error}")))?;
    let path = [MARK, phase.bytes()].concat();
    // The call fails, because no such file exists; the recorder sees it nevertheless.
    let _ = rustix::fs::access(path, rustix::fs::Access::EXISTS);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_recording_gets_a_replay_of_several_copies() {
        let long = next_step("build.trace", 10_000).unwrap();
        assert!(long.ends_with("--set trace=build.trace --fs ext4,xfs,btrfs --repeat 3"), "{long}");
        let short = next_step("build.trace", 800).unwrap();
        assert!(short.starts_with(&long) && short.contains("--set copies=20"), "{short}");
        assert_eq!(next_step("build.trace", 0), None);
    }
}
