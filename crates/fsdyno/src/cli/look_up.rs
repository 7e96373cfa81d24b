//! The options of the commands that look something up: `list` and `show`.

use std::path::PathBuf;

use clap::Args;
use fsdyno_campaign::about::{parse_name, parse_note};
use fsdyno_report::Format;

use super::values::{Listable, NamedFormat, Showable, format};

/// The formats of `show`.
const SHOW_FORMATS: &[NamedFormat] = &[
    (
        "mail",
        "For series, clients, ranks and traces only: 72 columns for a mailing list",
        Format::Mail,
    ),
    (
        "markdown",
        "For series, clients, ranks and traces only: for an issue tracker",
        Format::Markdown,
    ),
    ("html", "For series, clients, ranks and traces only: for a page", Format::Html),
    (
        "csv",
        "For series (one line per trial, phase and interval), clients (one per trial and phase), ranks (one per trial, \
         phase and rank) and traces (one per call) only",
        Format::Csv,
    ),
];

/// `fsdyno list`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  fsdyno list filesystems
  fsdyno list kernels --available
  fsdyno list results
  fsdyno list kernels --format json")]
pub struct List {
    /// The kind of item to list
    #[arg(value_enum)]
    pub what: Listable,
    /// For 'results': the folder to search [default: fsdyno-results]
    #[arg(value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// For 'kernels': also those that --kernel can download from Debian's suites (their package lists are
    /// downloaded once a day)
    #[arg(long)]
    pub available: bool,
    /// Output format
    #[arg(long, default_value = "text", value_parser = format(&[]))]
    pub format: Format,
}

/// `fsdyno note`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  fsdyno note fsdyno-results/20261123T075035223731Z-dirops --name before
  fsdyno note before --note 'ext4 with the old journal'
  fsdyno report before
  fsdyno compare before after
  fsdyno note before --name ''    # remove the name

Without --name and --note, the name and the note are printed. Both are in result.json of the folder; no
record and no identity includes them. Commands find a name below fsdyno-results of the current directory;
they also accept the name of a folder there. A path that exists comes first.")]
pub struct Note {
    /// The result: its folder, or its name
    pub result: PathBuf,
    /// The new name: letters, digits, '.', '_' and '-'; an empty one removes it
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    pub name: Option<String>,
    /// The new note, one line; an empty one removes it
    #[arg(long, value_name = "TEXT", value_parser = parse_note)]
    pub note: Option<String>,
    /// Output format, without --name and --note
    #[arg(long, default_value = "text", value_parser = format(&[]))]
    pub format: Format,
}

/// `fsdyno show`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  fsdyno show workload tarball
  fsdyno show filesystem ext4
  fsdyno show machine desktop-2008
  fsdyno show disk hdd-7200
  fsdyno show period 2008
  fsdyno show space ext4
  fsdyno show disk ./my-disk.toml
  fsdyno show study ./my-study.toml
  fsdyno show schema trial
  fsdyno show series fsdyno-results/demo
  fsdyno show series fsdyno-results/demo --format csv > series.csv
  fsdyno show ranks fsdyno-results/demo
  fsdyno show ranks n1 n2 n4 n8        # rates over the number of ranks
  fsdyno show trace build.trace
  fsdyno show log fsdyno-results/RUN/logs/TRIAL.log --format json")]
pub struct Show {
    /// The kind of item to show
    #[arg(value_enum)]
    pub kind: Showable,
    /// The item's name; for a machine, a disk, a processor, a network, a space or a study also the path of its file;
    /// for a log or a trace its file; for series, clients and ranks a result folder or its name, or several
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,
    /// For a workload: its definition, the accepted values, counts of calls, and the source of each
    #[arg(long)]
    pub sources: bool,
    /// Output format; a log in JSON has one line per request
    #[arg(long, default_value = "text", value_parser = format(SHOW_FORMATS))]
    pub format: Format,
}
