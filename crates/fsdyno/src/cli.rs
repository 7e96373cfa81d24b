//! The command-line grammar. Parsing has no side effects.

mod axes;
mod compare;
mod defaults;
mod demo;
mod generate;
mod look_up;
mod parse;
pub mod ranks;
mod values;

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Parser, Subcommand};
use fsdyno_axes::{Percent, parse_width, whole_number};
use fsdyno_campaign::about::{parse_name, parse_note};
use fsdyno_campaign::spec::{DEADLINES, JOBS, REPEATS, SEEDS};
use fsdyno_campaign::{RunSpec, Shard};
use fsdyno_filesystem::Author;
use fsdyno_report::Format;

use crate::output::Verbosity;

pub use axes::{CrashAxes, RunAxes};
pub use compare::Compare;
pub use demo::Demo;
pub use generate::{Completions, ManPages};
pub use look_up::{List, Note, Show};
pub use parse::{command, parse_args, suggest_nearest_command};
use ranks::RanksArgs;
pub use values::RANKS;
pub use values::{
    ComparisonArgs, Listable, NamedFormat, Showable, TRIAL_FORMATS, folder, format, name_parser,
};

/// A dynamometer for file systems: shows which one is fastest for a workload, why, and at what cost.
#[derive(Debug, Parser)]
#[command(name = "fsdyno", version = crate::version::description(), max_term_width = 100, after_help = parse::after_help())]
pub struct Cli {
    /// The command to run.
    #[command(subcommand)]
    pub command: Command,
    /// Print only results and errors: no progress, no notes
    #[arg(short, long, global = true, conflicts_with = "verbose", display_order = 1000)]
    pub quiet: bool,
    /// Print more detail: the fsdyno build, kernel and QEMU in use and, for commands that run trials, the mkfs and
    /// mount commands
    #[arg(short, long, global = true, display_order = 1001)]
    pub verbose: bool,
}

impl Cli {
    /// The amount of output on standard error.
    pub fn verbosity(&self) -> Verbosity {
        match (self.quiet, self.verbose) {
            (true, _) => Verbosity::Quiet,
            (_, true) => Verbosity::Verbose,
            _ => Verbosity::Usual,
        }
    }
}

/// Returns the reason why `fsdyno crash` lacks an option of `fsdyno run`, if the error is about such an option.
pub fn option_missing_from_crash(error: &clap::Error) -> Option<String> {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    let ContextValue::String(arg) = error.get(ContextKind::InvalidArg)? else { return None };
    let option = arg.strip_prefix("--")?;
    let is_crash_usage = error.to_string().contains("Usage: fsdyno crash");
    let reason = (error.kind() == ErrorKind::UnknownArgument && is_crash_usage)
        .then(|| crate::commands::crash::reason_absent(option))??;
    Some(format!("fsdyno crash has no --{option}: {reason}"))
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Compare file systems on a small example: a table and a page, in minutes
    Demo(Demo),
    /// Ask about your purpose, and print the commands for it and how long each takes
    Advise(crate::commands::advise::Advise),
    /// Run workloads on file systems and compare them
    Run(Box<Run>),
    /// Merge the shards of one command that ran on several machines
    Merge(Merge),
    /// Report on stored results
    Report(Report),
    /// Compare two stored results and name the phases that became slower
    Compare(Compare),
    /// Cut the power during a workload many times, and check what each file system recovers
    Crash(Box<crate::commands::crash::Crash>),
    /// Reproduce a published study, or run your own: measured and published tables, and a verdict on each claim
    Study(Box<crate::commands::study::Study>),
    /// Find the best file system options for a workload, and what each option is worth
    Tune(Box<crate::commands::tune::Tune>),
    /// Name a result, or write a note on it
    Note(Note),
    /// Explain a stored result: disk requests by file-system structure, instructions by kernel function
    Why(Why),
    /// Run a command and record its file system calls as a trace
    Record(crate::commands::record::Record),
    /// Make a trace from what another tool recorded: strace, fio, LTTng
    Import(crate::commands::import::Import),
    /// Begin a named phase in the recording during which this command runs; does nothing outside a recording
    Mark(crate::commands::record::Mark),
    /// List the available workloads, file systems, machines, disks, processors, networks, kernels, periods, studies and
    /// JSON Schemas; or the results in a folder
    List(List),
    /// Show one workload, file system, machine, disk, processor, network, period, space or study with all its
    /// parameters; or a request log, a trace, or the phases of a result over time
    Show(Show),
    /// Fit a disk model to a real drive (read-only), or the lab's CPU to this machine's processor, and write a profile
    Fit(Fit),
    /// Build a kernel or modules that Debian does not ship, for the lab
    Kernel(crate::commands::kernel::Kernel),
    /// Check what works on this machine and what is missing
    Doctor(Doctor),
    /// Print the completions for a shell: bash, zsh, fish, elvish or powershell
    Completions(Completions),
    /// Write the manual pages to a folder
    Man(ManPages),
    /// One rank of a run, as its launcher's process starts it
    #[command(name = fsdyno_ranks::parent::WORKER, hide = true)]
    RankWorker,
}

/// `fsdyno run`
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  fsdyno run dirops --fs ext4 --fs xfs --fs btrfs
  fsdyno run tarball --set files=20000 --fs ext4 --fs 'small=ext4 -I 128'
  fsdyno run dirops --fs 'ext3 -J size=64 @ data=writeback' --disk hdd-7200
  fsdyno run dirops --fs old=ext4 --fs 'new=ext4 -O ^has_journal' --baseline old
  fsdyno run tarball --fs ext3 --period today --period 2008 --disk ide-2008
  fsdyno run dirops --fs ext4 --fs 'overlayfs:ext4 @ noatime' --fs fuse2fs
  fsdyno run dirops --on /srv/scratch --set files=100000 --repeat 10
  fsdyno run dirops --fs ext4 --fs xfs --width 2% --at-most 50
  sudo fsdyno run dirops --on loop:8G --fs ext4 --fs xfs --repeat 10
  sudo fsdyno run dirops --on loop:2G --on ram:2G --fs ext4 --repeat 10
  sudo fsdyno run dirops --on /dev/disk/by-id/ata-DISK --erase SERIAL --dry-run
  mpiexec -n 64 fsdyno run dirops --on /mnt/shared --ranks
  fsdyno run dirops tarball --fs ext4 --dry-run

Ctrl-C kills the running trials, keeps the finished ones and reports them. To resume, repeat the command
with the same --out.")]
pub struct Run {
    /// The workloads to run; see `fsdyno list workloads`
    #[arg(required = true, value_name = "WORKLOAD")]
    pub workloads: Vec<String>,
    /// The axes.
    #[command(flatten)]
    pub axes: RunAxes,
    /// The serial number of the drive given with --on: confirms that all data on it may be destroyed. For a loop
    /// device, which has no serial number, the path of its backing file
    #[arg(long, value_name = "SERIAL")]
    pub erase: Option<String>,
    /// A parameter of a workload, such as files=20k; may be repeated; see `fsdyno show workload NAME`
    #[arg(long = "set", value_name = "[WORKLOAD.]KEY=VALUE")]
    pub sets: Vec<String>,
    /// The number of trials of each configuration, each with its own seed
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole_number::<u32>(REPEATS))]
    pub repeat: u32,
    /// Instead of --repeat: choose the number of trials so that the half-width of each time's 95 % confidence interval
    /// is at most PERCENT of the time, such as 2%. A pilot of 5 trials of each configuration estimates the variance;
    /// the number is then fixed for all. (Stopping once an interval looks narrow would bias the intervals)
    #[arg(long, value_name = "PERCENT", conflicts_with = "repeat", value_parser = parse_width)]
    pub width: Option<Percent>,
    /// The largest number of trials of each configuration that --width may choose; tables show whether more would be
    /// needed
    #[arg(long, value_name = "N", default_value_t = 100, requires = "width", value_parser = whole_number::<u32>(5..=10_000))]
    pub at_most: u32,
    /// The first seed; repeats use the following ones
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole_number::<u64>(SEEDS))]
    pub seed: u64,
    /// A sysctl in the lab, such as vm.dirty_ratio=10; may be repeated
    #[arg(long = "sysctl", value_name = "KEY=VALUE")]
    pub sysctls: Vec<String>,
    /// For benchmarks: a change to the lab's guests, part of the lab identity (see lab/src/change.rs)
    #[arg(long = "change", value_name = "KIND=VALUE", hide = true)]
    pub changes: Vec<fsdyno_lab::Change>,
    /// Baseline for ratios: the name of a file system in the table [default: the fastest]
    #[arg(long, value_name = "NAME")]
    pub baseline: Option<String>,
    #[command(flatten)]
    pub comparison: ComparisonArgs,
    /// The number of trials that run at the same time (in a directory, trials interfere with each other)
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole_number::<u16>(JOBS))]
    pub jobs: u16,
    /// Time limit of a trial in seconds; in the lab, of virtual time [default: two days]
    #[arg(long, value_name = "SECONDS", value_parser = whole_number::<u64>(DEADLINES))]
    pub deadline: Option<u64>,
    /// Store, with the results, a log of every request to the lab's disks (see `fsdyno show --help`)
    #[arg(long)]
    pub keep_log: bool,
    /// Run only the I-th of N equal shards of the trials; `fsdyno merge` combines them
    #[arg(long, value_name = "I/N")]
    pub shard: Option<Shard>,
    #[command(flatten)]
    pub ranks: RanksArgs,
    /// Print what would run, with exact operation counts, and change nothing. Errors and exit codes are those of the
    /// run itself: 3 if a requirement of the run is missing on this host
    #[arg(long)]
    pub dry_run: bool,
    /// Result folder; a folder that has some of the same trials is resumed [default:
    /// fsdyno-results/<time>-<workloads>]
    #[arg(long, value_name = "DIR", value_parser = folder())]
    pub out: Option<PathBuf>,
    /// Name the result: commands accept the name in place of its path; `fsdyno note` changes it
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    pub name: Option<String>,
    /// A note on the result, shown by `fsdyno list results`; it is not part of the records and affects no comparison
    #[arg(long, value_name = "TEXT", value_parser = parse_note)]
    pub note: Option<String>,
    /// Add these trials to a folder that holds other trials; its report shows all of them
    #[arg(long)]
    pub mix: bool,
    /// Format of the table on standard output
    #[arg(long, default_value = "text", value_parser = format(TRIAL_FORMATS))]
    pub format: Format,
}

impl Run {
    /// Returns the user's request.
    pub fn spec(&self) -> RunSpec {
        RunSpec {
            author: Author::User,
            workloads: self.workloads.clone(),
            axes: self.axes.0.clone(),
            erase: self.erase.clone(),
            parameters: self.sets.clone(),
            sysctls: self.sysctls.clone(),
            changes: self.changes.clone(),
            repeat: self.repeat,
            half_width: self.width.map(|Percent(part)| part),
            at_most: self.at_most,
            seed: self.seed,
            baseline: self.baseline.clone(),
            jobs: self.jobs,
            deadline: self.deadline,
            keep_log: self.keep_log,
            shard: self.shard,
            mix: self.mix,
            ranks: None,
        }
    }
}

/// `fsdyno merge`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  fsdyno run dirops --repeat 5 --shard 1/2 --out share-1   # on one machine
  fsdyno run dirops --repeat 5 --shard 2/2 --out share-2   # on another
  fsdyno merge whole share-1 share-2
  fsdyno merge whole share-* --partial                 # those finished so far

The merged folder equals the result of the same command without --shard, except for values that depend on
the speed of the hosts. Shards of other commands or other labs are refused. If two shards ran the same
trial, the two must be bit-identical; if they are not, that is a finding, and the exit code is 4.")]
pub struct Merge {
    /// Folder for the merged result: a new one, or that of an earlier merge of the same command
    #[arg(value_name = "OUT", value_parser = folder())]
    pub out: PathBuf,
    /// Folders or names of results of `fsdyno run --shard`
    #[arg(required = true, value_name = "SHARE")]
    pub shares: Vec<PathBuf>,
    /// Merge even if trials are missing
    #[arg(long)]
    pub partial: bool,
    /// Baseline for ratios: the name of a file system in the table [default: the --baseline of the shards]
    #[arg(long, value_name = "NAME")]
    pub baseline: Option<String>,
    #[command(flatten)]
    pub comparison: ComparisonArgs,
    /// Format of the table on standard output
    #[arg(long, default_value = "text", value_parser = format(TRIAL_FORMATS))]
    pub format: Format,
}

/// `fsdyno report`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  fsdyno report fsdyno-results/demo
  fsdyno report fsdyno-results/monday fsdyno-results/tuesday --format mail
  fsdyno report fsdyno-results/demo --baseline ext4 --html demo.html
  fsdyno report fsdyno-results/demo --charts figures --png
  fsdyno report guenter --archive results/guenter-2008  # archive a study")]
pub struct Report {
    /// Result folders or names, or their trials.ndjson; or results of fsdyno crash or their crash.json; or the folder
    /// or archive of one study
    #[arg(required = true, value_name = "RESULT")]
    pub results: Vec<PathBuf>,
    /// Baseline for ratios: the name of a file system in the table [default: the fastest]
    #[arg(long, value_name = "NAME")]
    pub baseline: Option<String>,
    #[command(flatten)]
    pub comparison: ComparisonArgs,
    /// Format of the table on standard output
    #[arg(long, default_value = "text", value_parser = format(TRIAL_FORMATS))]
    pub format: Format,
    /// Write the report as one HTML file; '-' writes it to standard output instead of the table
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Archive a study in a new folder that can be committed or shared: its file, compressed records and page, and a
    /// README with the command and the verdicts; `fsdyno report` of the archive judges the claims anew
    #[arg(long, value_name = "DIR", value_parser = folder())]
    pub archive: Option<PathBuf>,
    /// Write each chart of the report to this folder as an SVG file named workload-phase-chart.svg; never overwrites
    /// a file that is not such a chart
    #[arg(long, value_name = "DIR", value_parser = folder())]
    pub charts: Option<PathBuf>,
    /// With --charts: also write each chart as a PNG picture, of twice the size; needs rsvg-convert (package
    /// librsvg2-bin)
    #[arg(long, requires = "charts")]
    pub png: bool,
}

/// The formats of an explanation.
const EXPLANATION_FORMATS: &[NamedFormat] =
    &[("csv", "Every row of requests and of functions, one per line", Format::Csv)];

/// `fsdyno why`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  fsdyno why fsdyno-results/mine
  fsdyno why mine --fs ext3 --phase unlink --out why
  fsdyno why new --against old --format markdown

To compare two configurations of one result: fsdyno why mine --fs ext4 --against mine --against-fs ext3

For each configuration of RESULT, the trial with the lowest seed runs again in the lab, under
observation. This takes up to twice as long as the first run. The second run must be bit-identical to
the first; otherwise nothing is reported. This requires the same fsdyno, tools and kernel. The
explanation is stored in RESULT (why.ndjson) and shown in its report.html.

Requests: each request is attributed to the file-system structure that its first block belongs to. The
file system's own tools map the disk as each stage of the trial begins; blocks that they do not map, or
that change their use within a stage, are unattributed. Time: while the disk has requests to answer, the
time counts towards the request that it answers next. A seek is a request that does not begin where
the previously answered request ended.

Instructions: all instructions that the guest executes, by function and call chain, for each operation
of a phase. Functions that are in no module are assigned to layers by their names.")]
pub struct Why {
    /// The result to explain: a result folder, its name, or its trials.ndjson
    pub result: PathBuf,
    /// Another result to compare with, or the same one with another configuration (--against-fs)
    #[arg(long, value_name = "RESULT")]
    pub against: Option<PathBuf>,
    /// One configuration of RESULT, by its label; may be repeated [default: all]
    #[arg(long, value_name = "LABEL")]
    pub fs: Vec<String>,
    /// The configuration of --against to compare with [default: the one with the same label]
    #[arg(long, value_name = "LABEL", requires = "against")]
    pub against_fs: Option<String>,
    /// The seed of the trials to explain [default: the lowest]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Print only this phase; the explanation of all phases is stored
    #[arg(long, value_name = "NAME")]
    pub phase: Option<String>,
    /// A kernel image of the result, as it was given to `run --kernel`: IMAGE or IMAGE:MODULES; may be repeated
    /// [default: found by release]
    #[arg(long = "kernel", value_name = "WHICH", value_parser = NonEmptyStringValueParser::new())]
    pub kernels: Vec<String>,
    /// Baseline for ratios in report.html: the name of a file system in the table [default: the fastest]
    #[arg(long, value_name = "NAME")]
    pub baseline: Option<String>,
    #[command(flatten)]
    pub comparison: ComparisonArgs,
    /// Write the figures (requests over time, flame graphs) and all data as JSON to this folder; never overwrites a file
    /// that fsdyno did not write
    #[arg(long, value_name = "DIR", value_parser = folder())]
    pub out: Option<PathBuf>,
    /// Output format
    #[arg(long, default_value = "text", value_parser = format(EXPLANATION_FORMATS))]
    pub format: Format,
}

/// `fsdyno fit`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sudo fsdyno fit /dev/sdb --out my-disk.toml
  sudo fsdyno fit /dev/sdb --seconds 300 --out my-disk.toml
  fsdyno run dirops --disk ./my-disk.toml
  sudo fsdyno fit cpu --out my-cpu.toml
  sudo fsdyno fit cpu --check ./my-cpu.toml
  fsdyno run dirops --on lab --cpu ./my-cpu.toml

'fit cpu' measures this machine's processor: the workload 'calls' on tmpfs and, as root, on ext2, ext4, xfs and
btrfs in memory, against counts of the same calls in the lab. It takes about seven minutes on an idle
machine; on a busy one, trials are repeated until their least CPU times agree, for up to an hour. The head of the
profile states the error for operations that were not used for the fit.

A device is opened read-only and never written, so it may be mounted, but other use of it during the
measurement distorts the fit. The head of the disk profile states the prediction error for random reads
that were not used for the fit. Parameters that reading does not reveal (writes, cache sizes) are
estimates and marked as such. A rotating disk gets the model 'hdd'. A solid-state drive gets the model
'ssd' with fitted reads; its writes are those of ssd-sata, or of nvme-datacenter or nvme-consumer for an NVMe drive
without or with a volatile cache, and are estimates.")]
pub struct Fit {
    /// A whole disk, such as /dev/sdb; a file, to measure the storage that it is on; or 'cpu', to fit the lab's CPU to
    /// this machine's processor
    pub device: PathBuf,
    /// Write the profile to this file, whose name ends in .toml and which is new or from an earlier fit [default:
    /// standard output]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// For a disk: the approximate duration of the measurement in seconds, 10 to 86400 (a solid-state drive may need
    /// less); longer is more accurate [default: 60]
    #[arg(long, value_name = "N", value_parser = whole_number::<u64>(10..=86_400))]
    pub seconds: Option<u64>,
    /// For 'cpu': the kernel of the lab's guests [default: the version of this machine's kernel, if Debian has it]
    #[arg(long, value_name = "RELEASE")]
    pub kernel: Option<String>,
    /// For 'cpu': instead of a fit, compare this processor profile with this machine, on workloads and options that a
    /// fit does not use, and print a table of the errors; as root
    #[arg(long, value_name = "PROFILE", conflicts_with = "out")]
    pub check: Option<String>,
    /// For a disk: its revolutions per minute, if it does not report them and its cache hides them
    #[arg(long, value_name = "N", value_parser = whole_number::<u32>(600..=60_000))]
    pub rpm: Option<u32>,
}

/// `fsdyno doctor`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  fsdyno doctor
  fsdyno doctor --clean
  fsdyno doctor --clean /srv/scratch

The exit code is 3 if the lab cannot run. --clean removes only what carries fsdyno's own mark, and
nothing that belongs to a running process.")]
pub struct Doctor {
    /// Remove what fsdyno processes left behind when they were killed, and nothing else: processes, mounts, md arrays,
    /// loop devices, and folders and files in this directory [default directory: the current one]
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = ".")]
    pub clean: Option<PathBuf>,
    /// Clear the caches of unpacked kernels, guest snapshots, prepared images and package lists; they are rebuilt when
    /// needed
    #[arg(long, conflicts_with = "clean")]
    pub clear_caches: bool,
    /// Output format
    #[arg(long, default_value = "text", value_parser = format(&[]))]
    pub format: Format,
}
