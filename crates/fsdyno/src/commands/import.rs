//! `fsdyno import`: converts a recording of another tool into a trace.

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use fsdyno_campaign::recording::create;
use fsdyno_recorder::RecordError;
use fsdyno_recorder::import::{Format, ImportOptions};

use crate::exit::{Exit, Failure};
use crate::output::say;

/// `fsdyno import`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strace -f -y -ttt -T -o make.strace make -j4
  fsdyno import make.strace --from strace -o make.trace
  fsdyno import db.log --from fio-v3 -o db.trace   # by fio --write_iolog=db.log
  fsdyno run replay --set trace=make.trace --fs ext4 --fs xfs

The tree of the trace has the entries that calls found and that no earlier call in the text created.
Lines that are not understood are counted, and the first ones are shown with their numbers.
docs/record.md has the limits.")]
pub struct Import {
    /// The file to import
    pub file: PathBuf,
    /// The format of the file
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub from: Tool,
    /// The directory of the recorded host whose entries form the tree of the trace, as an absolute path [default: the
    /// working directory of the program]
    #[arg(long, value_name = "DIR")]
    pub tree: Option<PathBuf>,
    /// The trace file to write; an older trace is replaced
    #[arg(short, long, value_name = "FILE", default_value = "fsdyno.trace")]
    pub out: PathBuf,
    /// Replace each component of a name by a hash; the extension and the approximate length are kept
    #[arg(long)]
    pub anonymize: bool,
}

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Tool {
    /// Text of strace; best with -f -y -ttt -T
    Strace,
    /// A log of fio --write_iolog, version 2
    #[value(name = "fio-v2")]
    FioV2,
    /// A log of fio --write_iolog, version 3
    #[value(name = "fio-v3")]
    FioV3,
    /// Text of babeltrace for system calls that LTTng traced (context vtid)
    Lttng,
}

/// Imports a file.
pub fn run(import: &Import) -> Result<Exit, Failure> {
    if let Some(tree) = import.tree.as_ref().filter(|tree| !tree.is_absolute()) {
        let message = format!("--tree '{}' is not an absolute path", tree.display());
        return Err(Failure::invalid_use(message));
    }
    let opened = File::open(&import.file).and_then(|file| {
        if file.metadata()?.is_dir() {
            return Err(std::io::ErrorKind::IsADirectory.into());
        }
        Ok(file)
    });
    let file = opened.map_err(|error| Failure::io("read", &import.file, &error))?;
    let format = match import.from {
        Tool::Strace => Format::Strace,
        Tool::FioV2 => Format::FioV2,
        Tool::FioV3 => Format::FioV3,
        Tool::Lttng => Format::Lttng,
    };
    let options = ImportOptions { tree: import.tree.clone(), anonymize: import.anonymize };
    let reader = BufReader::with_capacity(1 << 20, file);
    let mut create_failure = None;
    let out = || {
        create(&import.out).map_err(|failure| {
            let message = failure.message.clone();
            create_failure = Some(failure);
            std::io::Error::other(message)
        })
    };
    let imported = fsdyno_recorder::import::import(format, reader, &options, out);
    if let Some(failure) = create_failure {
        return Err(failure);
    }
    let name = import.file.display();
    let imported = imported.map_err(|error| match error {
        RecordError::Write(_) => Failure { exit: Exit::TrialFailed, message: error.to_string() },
        error => Failure::invalid_use(format!("'{name}': {error}")),
    })?;
    let out = import.out.display();
    say(&format!("fsdyno: {} events of {} lines in '{out}'", imported.events, imported.lines));
    for (line, problem) in &imported.first {
        say(&format!("fsdyno: '{name}' line {line}: {problem}"));
    }
    for (note, count) in &imported.notes {
        say(&format!("fsdyno: {note}: {count}"));
    }
    Ok(Exit::Success)
}
