//! Types and parsers of option values that no other crate defines.

use std::path::{Path, PathBuf};

use clap::builder::{PathBufValueParser, PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use fsdyno_axes::Percent;
use fsdyno_report::{Basis, COLUMN_NAMES, DEFAULT_LEAST_DIFFERENCE, Format, Sort, SpecialFormat};

/// The value of `compare --by` that is refused, with the command to use instead: ranks share the work, so results of
/// several numbers of ranks are points of a curve, not versions to compare.
pub const RANKS: &str = "ranks";

/// Returns a parser of axis names.
pub fn axis_parser() -> PossibleValuesParser {
    let axes = fsdyno_axes::AXES.iter().map(|axis| PossibleValue::new(axis.key));
    PossibleValuesParser::new(axes.chain([PossibleValue::new(RANKS).hide(true)]))
}

/// The smallest difference at which configurations are called better or worse, and the form of tables.
#[derive(Args, Clone, Debug, Default)]
pub struct ComparisonArgs {
    /// The smallest difference that matters, in percent: a smaller difference is marked '=' and does not determine a
    /// winner [default: 1%]
    #[arg(long, value_name = "PERCENT")]
    pub least_difference: Option<Percent>,
    /// Sort the rows of tables; rows flagged UNSAFE always come last [default: the order of the command]
    #[arg(long, value_name = "BY", value_parser = name_parser(Sort::ALL))]
    pub sort: Option<Sort>,
    /// The columns of tables, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = column_parser(), hide_possible_values = true,
          help = format!("The columns of tables, separated by commas: {} [default: those that fit]", COLUMN_NAMES.join(", ")))]
    pub columns: Vec<&'static str>,
}

impl ComparisonArgs {
    /// Returns the basis on which configurations are compared, and what tables show.
    pub fn basis<'b>(&'b self, baseline: Option<&'b str>) -> Basis<'b> {
        let least_difference =
            self.least_difference.map_or(DEFAULT_LEAST_DIFFERENCE, |Percent(part)| part);
        Basis { baseline, least_difference, sort: self.sort, columns: &self.columns }
    }
}

/// Returns a parser of table column names.
fn column_parser() -> impl TypedValueParser<Value = &'static str> {
    PossibleValuesParser::new(COLUMN_NAMES.iter().copied()).try_map(|value| {
        COLUMN_NAMES.iter().copied().find(|name| *name == value).ok_or("unknown name")
    })
}

/// Returns a parser of output folders; refuses `-`, which elsewhere means standard output.
pub fn folder() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| match path == Path::new("-") {
        true => Err(
            "expected a folder, and '-' is standard output; for a folder with this name, write ./-",
        ),
        false => Ok(path),
    })
}

/// A format of one command, or a common format with a description for this command.
pub type NamedFormat = (&'static str, &'static str, Format);

/// The formats of trials.
pub const TRIAL_FORMATS: &[NamedFormat] = &[
    ("csv", "One line per trial, phase and op", Format::Csv),
    ("json", "The records themselves; for a study its claims and their verdicts", Format::Json),
    (
        "statistics",
        "Statistics of the records: spread, median, comparisons, outliers (JSON)",
        Format::Special(SpecialFormat::Statistics),
    ),
    (
        "statistics-csv",
        "The statistics, one line per row of the tables",
        Format::Special(SpecialFormat::StatisticsCsv),
    ),
    (
        "spreadsheet",
        "The tables, one line per row and phase, times in seconds (CSV)",
        Format::Special(SpecialFormat::Spreadsheet),
    ),
    (
        "original",
        "The report of the original program: PostMark, fdtree, bonnie++ (CSV), mdtest (dirops --ranks)",
        Format::Special(SpecialFormat::Original),
    ),
];

/// Returns a parser of `--format`: the formats common to all commands, and those of this one.
pub fn format(formats: &'static [NamedFormat]) -> impl TypedValueParser<Value = Format> {
    let common_formats = Format::ALL
        .iter()
        .map(|common| *formats.iter().find(|(name, ..)| *name == common.0).unwrap_or(common));
    let is_new = |(name, ..): &&NamedFormat| Format::ALL.iter().all(|(common, ..)| common != name);
    let offered: Vec<NamedFormat> =
        common_formats.chain(formats.iter().filter(is_new).copied()).collect();
    let names = offered.iter().map(|(name, about, _)| PossibleValue::new(*name).help(*about));
    PossibleValuesParser::new(names.collect::<Vec<_>>()).try_map(move |value| {
        let entry = offered.iter().find(|(name, ..)| *name == value);
        entry.map(|(_, _, format)| *format).ok_or("unknown name")
    })
}

/// The kinds of items that `list` lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Listable {
    /// Workloads
    #[value(alias = "workload")]
    Workloads,
    /// File systems, and whether each can run here
    #[value(aliases = ["fs", "filesystem"])]
    Filesystems,
    /// Machines of the lab: a disk, a CPU and RAM under a name
    #[value(alias = "machine")]
    Machines,
    /// Modelled disks of the lab
    #[value(alias = "disk")]
    Disks,
    /// Processor profiles of the lab's CPU
    #[value(aliases = ["processor", "cpus", "cpu"])]
    Processors,
    /// Modelled networks of the lab
    #[value(alias = "network")]
    Networks,
    /// Kernels that the lab can boot without a download
    #[value(alias = "kernel")]
    Kernels,
    /// Years whose defaults `run --period` applies
    #[value(alias = "period")]
    Periods,
    /// Studies that come with fsdyno
    #[value(alias = "study")]
    Studies,
    /// JSON Schemas of records and outputs
    #[value(alias = "schema")]
    Schemas,
    /// Results in a folder: when, what, how many trials
    #[value(alias = "result")]
    Results,
}

/// The kinds of items that `show` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Showable {
    /// A workload: definition, parameters and phases
    #[value(alias = "workloads")]
    Workload,
    /// A file system: options, tools and support here
    #[value(aliases = ["fs", "filesystems"])]
    Filesystem,
    /// A machine: its disk, CPU and RAM, and its file, which can be copied and changed
    #[value(alias = "machines")]
    Machine,
    /// A disk: the parameters of its model, with sources
    #[value(alias = "disks")]
    Disk,
    /// A processor profile: costs, caches, error and sources
    #[value(aliases = ["processors", "cpu"])]
    Processor,
    /// A network: rate, delay and queue of its links, with sources, and its file, which can be copied and changed
    #[value(alias = "networks")]
    Network,
    /// A period: its settings, their sources, and differences that no setting covers
    #[value(alias = "periods")]
    Period,
    /// A space: the options of a file system that `fsdyno tune` tries, and its file
    #[value(alias = "spaces")]
    Space,
    /// The configuration that your own kernel needs for the lab: `show kernel config`
    #[value(alias = "kernels")]
    Kernel,
    /// A study or a study file: its runs, published values and claims
    #[value(alias = "studies")]
    Study,
    /// A JSON Schema of records or of an output
    #[value(alias = "schemas")]
    Schema,
    /// A request log, by its file (`run --keep-log` writes them to logs/)
    #[value(alias = "logs")]
    Log,
    /// A trace of `fsdyno record`, by its file: calls, bytes, files, threads, what cannot be replayed
    #[value(alias = "traces")]
    Trace,
    /// The phases of a result over time: operations, dirty memory, bytes written
    Series,
    /// The clients of a result: rate by their number, the knee, CPU time of clients and server
    Clients,
    /// The ranks of results: rate by their number, the knee; rates, latencies, clocks, stragglers
    Ranks,
}

impl Showable {
    /// Returns true if the items are read from results, several of which can be shown together.
    pub fn reads_results(self) -> bool {
        matches!(self, Showable::Series | Showable::Clients | Showable::Ranks)
    }
}

/// Returns a parser of the names in a table of `(name, description, value)`. The table is defined with the value's
/// type, in a crate that does not depend on clap.
pub fn name_parser<T>(table: &'static [(&str, &str, T)]) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    let names = table.iter().map(|(name, about, _)| PossibleValue::new(*name).help(*about));
    PossibleValuesParser::new(names).try_map(move |value| {
        let entry = table.iter().find(|(name, _, _)| *name == value);
        entry.map(|(_, _, value)| *value).ok_or("unknown name")
    })
}
