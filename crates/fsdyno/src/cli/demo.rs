//! The arguments of `fsdyno demo`.

use std::path::PathBuf;

use clap::Args;
use fsdyno_axes::whole_number;
use fsdyno_campaign::spec::JOBS;

use super::values::folder;

/// `fsdyno demo`
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  fsdyno demo
  fsdyno demo --quick

The demo runs in the lab, without root. Where the lab cannot run (fsdyno doctor says why), it measures the
current directory instead, in a new subdirectory that is removed afterwards; the result stays in fsdyno-results.")]
pub struct Demo {
    /// Fewer files, file systems and trials: about a minute
    #[arg(long)]
    pub quick: bool,
    /// The number of trials that run at the same time [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = whole_number::<u16>(JOBS))]
    pub jobs: Option<u16>,
    /// Result folder; if it has some of the same trials already, the run continues there [default: fsdyno-results/demo,
    /// where an earlier demo is replaced]
    #[arg(long, value_name = "DIR", value_parser = folder())]
    pub out: Option<PathBuf>,
}
