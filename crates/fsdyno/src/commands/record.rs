//! `fsdyno record` and `fsdyno mark`: record a command, and mark phases in the recording.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use fsdyno_campaign::recording::{self, RecordRequest};
use fsdyno_recorder::{Options, RecordError};

use crate::exit::{Exit, Failure};

/// `fsdyno record`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  fsdyno record -o build.trace -- make -j4
  fsdyno record --tree /srv/mail -o mail.trace -- ./deliver
  fsdyno record --pid 4711 --seconds 60 --tree /srv/mail -o mail.trace   # root
  fsdyno show trace build.trace

No privileges are needed, except for --how bpf and --pid, which need root. All threads and children of the
command are recorded.
The exit code is that of the command (128 + N after signal N). fsdyno's own exit codes are used only if
it fails before the command starts, or if the command succeeded but a recording by BPF lost some of its
calls. The trace has names, sizes and times, but no contents, arguments or environment. docs/record.md
has the limits.")]
pub struct Record {
    /// The mechanism that observes the calls; auto takes the cheapest one that misses nothing
    #[arg(long, value_enum, default_value = "auto")]
    pub how: RecordMethod,
    /// A directory whose whole tree is recorded before the start; may be repeated [default: in the working directory,
    /// only what the command touches]
    #[arg(long = "tree", value_name = "DIR")]
    pub trees: Vec<PathBuf>,
    /// The trace file to write; an older trace is replaced when the new one is complete
    #[arg(short, long, value_name = "FILE", default_value = "fsdyno.trace")]
    pub out: PathBuf,
    /// Replace each component of a path by a hash; the extension and the approximate length are kept
    #[arg(long)]
    pub anonymize: bool,
    /// Afterwards replay the recording five times in the working directory, or in the first --tree, and print the ratio
    /// of the time of the replayed calls to that of the recorded ones, and which calls differ most
    #[arg(long)]
    pub calibrate: bool,
    /// Record a running process by BPF, with its threads and the children that it creates from then on, until it ends
    /// or until Ctrl-C, after which the process continues [default tree: its working directory]
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..), conflicts_with_all = ["command", "calibrate"])]
    pub pid: Option<i32>,
    /// Record the process of --pid for at most this number of seconds
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), requires = "pid", conflicts_with = "command")]
    pub seconds: Option<u64>,
    /// The command to run, with its arguments
    #[arg(
        required_unless_present = "pid",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    pub command: Vec<String>,
}

/// A recording mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RecordMethod {
    /// The cheapest that misses nothing: inside, or ptrace where that is not possible
    Auto,
    /// Code injected into dynamically linked programs records their calls; at other calls, ptrace
    /// stops the thread and reads the call
    #[value(alias = "preload")]
    Inside,
    /// A seccomp filter stops threads at calls on files, and ptrace(2) reads them
    Ptrace,
    /// Programs at kernel tracepoints record the calls; no thread stops; needs root
    Bpf,
}

/// Records a command, or a process that is already running.
pub fn run(record: &Record) -> Result<Exit, Failure> {
    let (recorded, trace) = recording::record(&record.request())?;
    if record.calibrate {
        let directory = record.trees.first().map_or(Path::new("."), PathBuf::as_path);
        recording::calibrate(&trace, directory, record.how == RecordMethod::Bpf)?;
    }
    let status = recorded.status;
    let has_lost_calls = matches!(recorded.failed, Some(RecordError::Lost(_)));
    if has_lost_calls && status.success() {
        return Ok(Exit::TrialFailed);
    }
    if record.pid.is_some() {
        return Ok(Exit::Success);
    }
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    std::process::exit(code)
}

impl Record {
    /// Returns the user's request.
    fn request(&self) -> RecordRequest {
        RecordRequest {
            options: Options {
                trees: self.trees.clone(),
                anonymize: self.anonymize,
                how: match self.how {
                    RecordMethod::Auto => fsdyno_recorder::RecordMethod::Auto,
                    RecordMethod::Inside => fsdyno_recorder::RecordMethod::Inside,
                    RecordMethod::Ptrace => fsdyno_recorder::RecordMethod::Ptrace,
                    RecordMethod::Bpf => fsdyno_recorder::RecordMethod::Bpf,
                },
                ..Options::default()
            },
            process: self.pid,
            max_duration: self.seconds.map(Duration::from_secs),
            command: self.command.clone(),
            out: self.out.clone(),
        }
    }
}

/// `fsdyno mark`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  fsdyno mark checkout    # in a script that runs under fsdyno record")]
pub struct Mark {
    /// The name of the phase that begins
    pub name: String,
}

/// Marks the beginning of a phase.
pub fn mark(mark: &Mark) -> Result<Exit, Failure> {
    recording::mark(&mark.name)?;
    Ok(Exit::Success)
}
