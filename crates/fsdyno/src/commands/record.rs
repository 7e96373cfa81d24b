//! `fsdyno record` and `fsdyno mark`: record a command, and mark phases in the recording.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use fsdyno_campaign::recording::{calibrate, check_program, create};
use fsdyno_recorder::{MARK, Options, RecordError};
use fsdyno_trace::Name;

use crate::exit::{Exit, Failure};
use crate::output::say;

/// `fsdyno record`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  fsdyno record -o build.trace -- make -j4
  fsdyno record --tree /srv/mail -o mail.trace -- ./deliver
  fsdyno show trace build.trace

Works without privileges, with all threads and children of the command. The exit code is that of the
command (128 + N after signal N); codes of fsdyno itself occur only before it starts. The trace has
names, sizes and times, but no contents, arguments or environment. docs/record.md has the limits.")]
pub struct Record {
    /// The way in which calls are seen; auto takes the cheapest mechanism that misses nothing
    #[arg(long, value_enum, default_value = "auto")]
    pub how: How,
    /// A directory whose whole tree is recorded before the start; may be repeated [default: the working directory, and
    /// only what the command touches]
    #[arg(long = "tree", value_name = "DIR")]
    pub trees: Vec<PathBuf>,
    /// The file of the trace; an older trace is replaced
    #[arg(short, long, value_name = "FILE", default_value = "fsdyno.trace")]
    pub out: PathBuf,
    /// Replace each component of a name by a hash; its extension and roughly its length stay
    #[arg(long)]
    pub anonymize: bool,
    /// Afterwards replay the recording three times in the working directory, or in the first --tree, and print the time
    /// of the replayed calls over that of the recorded ones
    #[arg(long)]
    pub calibrate: bool,
    /// The command to run, with its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    pub command: Vec<String>,
}

/// A mechanism of recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum How {
    /// The cheapest that misses nothing: inside, or ptrace where that is not possible
    Auto,
    /// Code put into dynamic programs records their calls; the others stop
    #[value(alias = "preload")]
    Inside,
    /// A seccomp filter stops threads at calls on files, and ptrace(2) reads them
    Ptrace,
}

/// Records a command.
pub fn run(record: &Record) -> Result<Exit, Failure> {
    for tree in &record.trees {
        if !tree.is_dir() {
            let message = format!("--tree '{}' is not a directory", tree.display());
            return Err(Failure::wrong(message));
        }
    }
    if let Some(program) = record.command.first() {
        check_program(program)?;
    }
    let out = create(&record.out)?;
    let options = Options {
        trees: record.trees.clone(),
        anonymize: record.anonymize,
        how: match record.how {
            How::Auto => fsdyno_recorder::How::Auto,
            How::Inside => fsdyno_recorder::How::Inside,
            How::Ptrace => fsdyno_recorder::How::Ptrace,
        },
    };
    let recorded = fsdyno_recorder::record(&options, &record.command, out).map_err(|error| {
        let exit = match error {
            RecordError::Trace(_) | RecordError::Inside(_) => Exit::Missing,
            RecordError::Write(_) => Exit::TrialFailed,
            _ => Exit::WrongUse,
        };
        Failure { exit, message: error.to_string() }
    })?;
    let trace = record.out.display();
    match &recorded.failed {
        Some(error) => say(&format!("fsdyno: {error}; '{trace}' has the calls before that")),
        None => {
            let how = match (recorded.how, &recorded.refused) {
                (_, Some(why)) => {
                    format!("by ptrace, since no memory can be shared with programs ({why})")
                }
                (fsdyno_recorder::How::Ptrace, None) => "by ptrace".to_string(),
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
    if record.calibrate {
        let directory = record.trees.first().map_or(Path::new("."), PathBuf::as_path);
        calibrate(&record.out, directory)?;
    }
    let status = recorded.status;
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    std::process::exit(code)
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

/// Makes the call that a recorder recognizes as a mark.
pub fn mark(mark: &Mark) -> Result<Exit, Failure> {
    let name = Name::new(mark.name.as_bytes())
        .map_err(|error| Failure::wrong(format!("'{}' cannot name a phase: {error}", mark.name)))?;
    let path = [MARK, name.bytes()].concat();
    // The call fails, because no such file exists; the recorder sees it nevertheless.
    let _ = rustix::fs::access(path, rustix::fs::Access::EXISTS);
    Ok(Exit::Good)
}
