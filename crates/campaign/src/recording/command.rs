//! The workload `command` in the lab: the command is recorded once on this host, and trials replay the recording.
//!
//! The guest does not have the user's programs. The trace is stored in the result folder, so that a stopped run
//! continues with the same one; the command lines that produced it are stored next to it as text, for comparison only.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use fsdyno_media::file;
use fsdyno_record::lines::FILE;
use fsdyno_record::plan::Target;
use fsdyno_record::quote::short;
use fsdyno_record::suggest;
use fsdyno_workload::workloads::{command, dirops, replay};

use crate::notes::say;
use crate::{Exit, Experiment, Failure, RunSpec, target};

/// File name of the trace in the result folder.
const TRACE: &str = "command.trace";

/// File name of the recorded command lines in the result folder.
const LINES: &str = "command.txt";

/// The settings of the workload `command` that `replay` does not have.
struct CommandLines {
    setup: Option<String>,
    command: String,
}

/// Returns true if a request is for the workload `command` in the lab.
pub fn needs_recording(spec: &RunSpec) -> bool {
    let on_lab = |on: &String| matches!(target::parse_target(on), Ok(Target::Lab));
    spec.workloads.iter().any(|name| name == command::KIND.name)
        && (spec.axes.on.is_empty() || spec.axes.on.iter().any(on_lab))
}

/// Records the command of a request in the result folder, unless an earlier run has already recorded it there, and
/// returns the request for its replay. A dry run only checks the request.
///
/// # Errors
/// A request with other workloads or targets, or a command that fails.
pub fn record_for_replay(
    mut spec: RunSpec,
    folder: &Path,
    dry: bool,
) -> Result<Option<RunSpec>, Failure> {
    if spec.workloads.len() > 1 || spec.axes.on.len() > 1 {
        return Err(Failure::invalid_use(
            "workload 'command' in the lab is a recording that is replayed: run it alone, without other workloads and \
             without another --on",
        ));
    }
    let lines = lines(&mut spec)?;
    // The rest of the request is checked, with a different workload, before anything is recorded.
    let other = RunSpec {
        workloads: vec![dirops::KIND.name.to_string()],
        parameters: Vec::new(),
        ..spec.clone()
    };
    Experiment::resolve(other)?;
    if dry {
        say(&format!(
            "fsdyno: the lab does not have your programs: '{}' would be recorded once on this host, and the recording \
             replayed; its calls are known only then",
            short(&lines.command)
        ));
        return Ok(None);
    }
    let trace = folder.join(TRACE);
    record(&lines, folder, &trace)?;
    spec.workloads = vec![replay::KIND.name.to_string()];
    spec.parameters.push(format!("trace={}", trace.display()));
    Ok(Some(spec))
}

/// Removes the command lines from the settings; the remaining settings are for the replay.
fn lines(spec: &mut RunSpec) -> Result<CommandLines, Failure> {
    let (mut command, mut setup, mut rest) = (None, None, Vec::new());
    for set in std::mem::take(&mut spec.parameters) {
        let bare = set.strip_prefix("command.").unwrap_or(&set);
        match bare.split_once('=') {
            Some(("command", line)) => command = Some(line.to_string()),
            Some(("setup", line)) => setup = Some(line.to_string()),
            Some((key, _)) if replay::KIND.params.iter().any(|it| it.name == key) => {
                rest.push(bare.to_string());
            }
            _ => {
                let names = command::KIND.params.iter().map(|param| param.name);
                let key = bare.split('=').next().unwrap_or_default();
                let hint = suggest::hint(key, names);
                return Err(Failure::invalid_use(format!(
                    "workload 'command' has no parameter '{}'; {hint}",
                    short(key)
                )));
            }
        }
    }
    spec.parameters = rest;
    let lines = [("command", &command), ("setup", &setup)];
    let set: Vec<(&str, &str)> =
        lines.iter().filter_map(|(key, line)| Some((*key, line.as_deref()?))).collect();
    let params = command::KIND.resolve(&set)?;
    let setting = fsdyno_workload::Setting::default();
    let built = command::KIND.build(&params, &setting)?;
    let shell = built.command().cloned();
    let shell = shell.ok_or_else(|| Failure::invalid_use("workload 'command' needs a command"))?;
    Ok(CommandLines { setup: shell.setup, command: shell.command })
}

fn record(lines: &CommandLines, folder: &Path, trace: &Path) -> Result<(), Failure> {
    let io = |what: &'static str, path: &Path| {
        let path = path.to_path_buf();
        move |error: std::io::Error| Failure::io(what, &path, &error)
    };
    let text = format!("{}\n{}\n", lines.setup.as_deref().unwrap_or_default(), lines.command);
    let lines_file = folder.join(LINES);
    if trace.exists() {
        if fs::read_to_string(&lines_file).is_ok_and(|known| known == text) {
            say(&format!("fsdyno: the command is already recorded in '{}'", trace.display()));
            return create_trials_file(folder);
        }
        return Err(Failure::invalid_use(format!(
            "'{}' has the recording of another command; give a new folder with --out",
            folder.display()
        )));
    }
    fs::create_dir_all(folder).map_err(io("create the result folder", folder))?;
    let work =
        tempfile::tempdir().map_err(io("create a folder to record in", &std::env::temp_dir()))?;
    if let Some(setup) = &lines.setup {
        run("setup", Command::new("/bin/sh").args(["-c", setup]).current_dir(work.path()))?;
    }
    say(&format!(
        "fsdyno: the lab does not have your programs: '{}' is recorded once on this host, in a folder below '{}', and the \
         recording is replayed",
        short(&lines.command),
        std::env::temp_dir().display()
    ));
    let part = folder.join("command.trace.part");
    let absolute = std::path::absolute(&part).map_err(io("name the trace", &part))?;
    let program = std::env::current_exe().map_err(io("find", Path::new("fsdyno")))?;
    let mut recorder = Command::new(program);
    recorder.args(["--quiet", "record", "-o"]).arg(absolute).args(["--", "/bin/sh", "-c"]);
    let recorded = run("command", recorder.arg(&lines.command).current_dir(work.path()));
    if let Err(failure) = recorded {
        let _ = fs::remove_file(&part);
        // Removes the folder only if it is empty.
        let _ = fs::remove_dir(folder);
        return Err(failure);
    }
    file::write(&lines_file, |file| file.write_all(text.as_bytes()))
        .map_err(io("write", &lines_file))?;
    fs::rename(&part, trace).map_err(io("write the trace", trace))?;
    create_trials_file(folder)
}

/// Creates an empty file of trials, so that the folder accepts trials although it contains other files.
fn create_trials_file(folder: &Path) -> Result<(), Failure> {
    let trials = folder.join(FILE);
    match trials.exists() {
        true => Ok(()),
        false => {
            file::write(&trials, |_| Ok(())).map_err(|error| Failure::io("write", &trials, &error))
        }
    }
}

/// Runs a command to completion; its output goes to stderr, as this program's notes do.
fn run(what: &str, command: &mut Command) -> Result<(), Failure> {
    let status = command.stdin(Stdio::null()).stdout(Stdio::from(std::io::stderr())).status();
    let status = status
        .map_err(|error| Failure::invalid_use(format!("the {what} cannot be started: {error}")))?;
    if status.success() {
        return Ok(());
    }
    Err(Failure { exit: Exit::TrialFailed, message: format!("the {what} failed: {status}") })
}
