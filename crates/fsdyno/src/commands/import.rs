//! `fsdyno import`: converts a recording of another tool into a trace.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use fsdyno_campaign::recording;
use fsdyno_recorder::import::{Format, ImportOptions};

use crate::exit::{Exit, Failure};

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
    /// Replace each component of a path by a hash; the extension and the approximate length are kept
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
    let format = match import.from {
        Tool::Strace => Format::Strace,
        Tool::FioV2 => Format::FioV2,
        Tool::FioV3 => Format::FioV3,
        Tool::Lttng => Format::Lttng,
    };
    let options = ImportOptions { tree: import.tree.clone(), anonymize: import.anonymize };
    recording::import(&import.file, format, &options, &import.out)?;
    Ok(Exit::Success)
}
