//! What can be typed. Parsing does nothing else.

mod parse;
mod values;

use std::ops::RangeInclusive;
use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Parser, Subcommand};
use fsdyno_filesystem::Author;
use fsdyno_record::Bytes;
use fsdyno_record::plan::{AccelPlan, BootPlan, CpuPlan, IssuerPlan, RaidPlan, VerifyMode};
use fsdyno_report::Format;
use fsdyno_report::compare::{Format as CompareFormat, Metric};
use fsdyno_study::{Shard, Size};

use crate::output::Verbosity;

pub use parse::{meant, typed};
pub use values::{
    Age, DataFormat, Least, Listable, Percent, ShowFormat, Showable, folder, named, whole,
};
use values::{age, size, width};

/// A dynamometer for file systems: which one is fastest for this work, why, and what it costs.
#[derive(Debug, Parser)]
#[command(name = "fsdyno", version = crate::version::text(), max_term_width = 100, after_help = parse::after_help())]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Write results and errors only: no progress, no remarks
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Write more about what is done: which fsdyno runs, which kernel and QEMU, and how each trial's file system is
    /// made and mounted
    #[arg(short, long, global = true)]
    pub verbose: bool,
}

impl Cli {
    /// How much is written to standard error.
    pub fn verbosity(&self) -> Verbosity {
        match (self.quiet, self.verbose) {
            (true, _) => Verbosity::Quiet,
            (_, true) => Verbosity::Verbose,
            _ => Verbosity::Usual,
        }
    }
}

/// Why `fsdyno crash` has none of an option that `fsdyno run` has, where that is what is wrong.
pub fn absent(error: &clap::Error) -> Option<String> {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    let ContextValue::String(typed) = error.get(ContextKind::InvalidArg)? else { return None };
    let option = typed.strip_prefix("--")?;
    let is_of_crash = error.to_string().contains("Usage: fsdyno crash");
    let why = (error.kind() == ErrorKind::UnknownArgument && is_of_crash)
        .then(|| crate::commands::crash::none_of(option))??;
    Some(format!("fsdyno crash has no --{option}: {why}"))
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run workloads on file systems and compare them
    Run(Box<Run>),
    /// Put together the shares of one command that ran on several machines
    Merge(Merge),
    /// Show stored results again
    Report(Report),
    /// Compare two stored results, and say what became slower
    Compare(Compare),
    /// Cut the power of a workload many times, and see what each file system brings back
    Crash(Box<crate::commands::crash::Crash>),
    /// Run a published study again, or your own: its runs, its tables, and what became of its claims
    Study(Box<crate::commands::study::Study>),
    /// Say why a stored result is as it is: requests by structure, instructions by kernel function
    Why(Why),
    /// List what there is: workloads, file systems, disks, kernels, periods
    List(List),
    /// Show one workload, file system, disk, period or study with all its parameters, a log of requests, or
    /// phases over time
    Show(Show),
    /// Learn a real disk's law by reading it, and write a disk's file for the lab
    Fit(Fit),
    /// See what works here and what is missing
    Doctor(Doctor),
    /// The process that issues the ops (started by fsdyno itself)
    #[command(hide = true)]
    Agent(Agent),
}

/// How many trials of each kind there may be.
pub(crate) const REPEATS: RangeInclusive<u64> = 1..=10_000;

/// The seeds that may be typed: so many that the last of the most repeats is one, too.
pub(crate) const SEEDS: RangeInclusive<u64> = 0..=u64::MAX >> 1;

/// How many threads may issue ops.
const THREADS: RangeInclusive<u64> = 1..=fsdyno_study::MOST_THREADS as u64;

/// How many trials may run side by side.
pub(crate) const JOBS: RangeInclusive<u64> = 1..=512;

/// `fsdyno run`
#[derive(Args, Debug)]
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
  fsdyno run dirops tarball --fs ext4 --dry-run

Ctrl-C kills the running trials, keeps the finished ones and writes the report from them. The same
command with the same --out goes on where it was.")]
pub struct Run {
    /// Who wrote these words.
    #[arg(skip)]
    pub author: Author,
    /// What to run; see `fsdyno list workloads`
    #[arg(required = true, value_name = "WORKLOAD")]
    pub workloads: Vec<String>,
    /// A file system with the options of mkfs and mount, '[NAME=]KIND [mkfs options] [@ mount,options]'; may be
    /// repeated, and names alone may stand with commas (ext4,xfs); 'overlayfs[,options]:SPEC' lies over another,
    /// 'fuse: [MKFS ... ;] COMMAND ... {device} {mount}' is any FUSE file system by its command [default: ext4; in
    /// the model: all three; a directory is used as it is]
    #[arg(long = "fs", value_name = "[NAME=]SPEC")]
    pub filesystems: Vec<String>,
    /// Where: 'lab' (a guest in virtual time on a modelled disk), a directory of this host, or as root
    /// 'loop:SIZE' (a loop device over a sparse file in the folder of the results) or 'ram:SIZE' (a loop
    /// device over a file in memory), made for each trial and gone after it, or a whole drive, such as
    /// /dev/disk/by-id/..., which is formatted anew for each trial (with --erase); or 'model' (ext2
    /// directories of 2001 as a model in this program, without a kernel: classic-ext2, cached-ext2,
    /// indexed-ext2); may be repeated
    #[arg(long, value_name = "lab|DIR|loop:SIZE|ram:SIZE|DRIVE|model", default_value = "lab")]
    pub on: Vec<String>,
    /// The serial number of the drive after --on, which says that all that is on it may go; of a loop
    /// device, which has none, the path of its backing file
    #[arg(long, value_name = "SERIAL")]
    pub erase: Option<String>,
    /// A disk for the lab: a name of `fsdyno list disks`, or a disk's file (something.toml); may be
    /// repeated [default: hdd-7200; of the model ide-2001]
    #[arg(long = "disk", value_name = "NAME|FILE")]
    pub disks: Vec<String>,
    /// Several such disks (in the lab, or loop:SIZE) as one md RAID: level 0, 1, 5 or 10, up to 8 disks, and the size of a
    /// chunk (a power of two, 4K to 1M) if it is not to be mdadm's own; such as 0x2, 1x2, 5x3:64K, 10x4
    #[arg(long, value_name = "LEVELxN[:CHUNK]")]
    pub raid: Option<RaidPlan>,
    /// The lab's second disk, for specs that name {journal} [default: another of the first kind]
    #[arg(long, value_name = "NAME|FILE")]
    pub journal_disk: Option<String>,
    /// Size of the journal's partition or loop device, whole mebibytes [default: 256M]
    #[arg(long, value_name = "SIZE")]
    pub journal_size: Option<Bytes>,
    /// A kernel for the lab: a release, the beginning of one, an image, or IMAGE:MODULES; may be
    /// repeated; elsewhere it is the host's own [default: what `fsdyno doctor` shows]
    #[arg(long = "kernel", value_name = "WHICH", value_parser = NonEmptyStringValueParser::new())]
    pub kernels: Vec<String>,
    /// A year whose defaults hold in the lab: options of mkfs and mount, sysctls, the disk's cache; options that you
    /// give yourself win; 'today' is the same as no period; may be repeated; see `fsdyno list periods`
    #[arg(long = "period", value_name = "YEAR|today")]
    pub periods: Vec<String>,
    /// A parameter of a workload, such as files=20k; may be repeated; see `fsdyno show workload NAME`
    #[arg(long = "set", value_name = "[WORKLOAD.]KEY=VALUE")]
    pub sets: Vec<String>,
    /// The number of trials of each configuration, each with its own seed
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u32>(REPEATS))]
    pub repeat: u32,
    /// In place of --repeat: choose the number of trials so that half the 95 % interval of every time is at most
    /// PERCENT of it, such as 2%. A pilot of 5 trials of each configuration shows how much times scatter; then the
    /// number is fixed for all. (To stop as soon as an interval looks narrow would make intervals too narrow)
    #[arg(long, value_name = "PERCENT", conflicts_with = "repeat", value_parser = width)]
    pub width: Option<Percent>,
    /// The most trials of each configuration that --width may choose; where more would be needed, tables say so
    #[arg(long, value_name = "N", default_value_t = 100, requires = "width", value_parser = whole::<u32>(5..=10_000))]
    pub at_most: u32,
    /// The first seed; repeats take the next ones
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u64>(SEEDS))]
    pub seed: u64,
    /// The number of threads that issue operations, where the work can be shared (see `fsdyno list workloads`)
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u32>(THREADS))]
    pub threads: u32,
    /// How operations are issued: 'sync' (one system call after the other), 'io_uring:DEPTH' (not in the lab; each
    /// thread keeps DEPTH of them in flight), or 'null' (not at all, which shows the instrument's overhead)
    #[arg(long, value_name = "HOW", default_value = "sync")]
    pub issuer: IssuerPlan,
    /// Memory of the lab's guest [default: 1G]
    #[arg(long, value_name = "SIZE")]
    pub ram: Option<Bytes>,
    /// Memory of the lab's guest that can cache files when the first phase begins, 32M or more; the agent
    /// holds the rest [default: all that kernel and agent leave]
    #[arg(long, value_name = "SIZE")]
    pub cacheable: Option<Bytes>,
    /// Speed of the lab's CPU in instructions a nanosecond, a power of two from 1/64 to 8: 1 is a CPU of
    /// about 2001 to 2006, 1/2 half as fast
    #[arg(long, value_name = "SPEED", default_value = "1")]
    pub cpu: CpuPlan,
    /// How the lab's guest comes up
    #[arg(long, default_value = "cold", value_parser = named(BootPlan::ALL))]
    pub boot: BootPlan,
    /// What executes the lab's guest
    #[arg(long, default_value = "tcg", value_parser = named(AccelPlan::ALL))]
    pub accel: AccelPlan,
    /// Size of the file system on the lab's disk, or 'whole' [default: 32G, or the whole of a
    /// smaller disk]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub size: Option<Size>,
    /// How the fresh file system is aged before the first phase: 'none', or 'fill=80%' with
    /// churn=N (so often as many files as there are are removed and others written), files=SIZES (as
    /// 4K-1M, mix, lognormal:64K:1.5) and seed=N after commas; may be repeated [default: none]
    #[arg(long = "age", value_name = "none|SPEC", value_parser = age)]
    pub ages: Vec<Age>,
    /// Block scheduler in the lab [default: what the disk's file says]
    #[arg(long, value_name = "S")]
    pub scheduler: Option<String>,
    /// A kernel setting in the lab, such as vm.dirty_ratio=10; may be repeated
    #[arg(long = "sysctl", value_name = "KEY=VALUE")]
    pub sysctls: Vec<String>,
    /// For benches: a change of the lab's guests, part of its identity (see lab/src/change.rs)
    #[arg(long = "change", value_name = "KIND=VALUE", hide = true)]
    pub changes: Vec<fsdyno_lab::Change>,
    /// How much of what is on disk is read back and compared
    #[arg(long, default_value = "full", value_parser = named(VerifyMode::ALL))]
    pub verify: VerifyMode,
    /// Take ratios to this file system, by its name in the table, and not to the best
    #[arg(long, value_name = "NAME")]
    pub baseline: Option<String>,
    #[command(flatten)]
    pub least: Least,
    /// Trials that run side by side (on a directory they disturb each other)
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u16>(JOBS))]
    pub jobs: u16,
    /// The longest that a trial may take, in seconds; in the lab, of virtual time [default: two days]
    #[arg(long, value_name = "SECONDS", value_parser = whole::<u64>(1..=31_536_000))]
    pub deadline: Option<u64>,
    /// Keep every request to the lab's disks, beside the results (see `fsdyno show log --help`)
    #[arg(long)]
    pub keep_log: bool,
    /// Run only the I-th of N equal shares of the trials; `fsdyno merge` puts the shares together
    #[arg(long, value_name = "I/N")]
    pub shard: Option<Shard>,
    /// Show what would run, with exact counts of operations, and change nothing; what a run refuses is refused in the
    /// same words, and where this host lacks something the exit code is 3
    #[arg(long)]
    pub dry_run: bool,
    /// Folder for the results; one with some of the same trials goes on [default:
    /// fsdyno-results/<time>-<workloads>]
    #[arg(long, value_name = "DIR", value_parser = folder())]
    pub out: Option<PathBuf>,
    /// Put these trials into a folder that holds others too; its report shows them all
    #[arg(long)]
    pub mix: bool,
    /// How the table is written to standard output
    #[arg(long, default_value = "text", value_parser = named(Format::ALL))]
    pub format: Format,
}

/// `fsdyno merge`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  fsdyno run dirops --repeat 5 --shard 1/2 --out share-1   # on one machine
  fsdyno run dirops --repeat 5 --shard 2/2 --out share-2   # on another
  fsdyno merge whole share-1 share-2
  fsdyno merge whole share-* --partial                 # what there is until now

The merged folder is what the same command without --shard leaves, but for what depends on the speed of
the hosts. Shares of other commands or other labs are refused. A trial that two shares ran has to agree
to the last digit; if it does not, that is a finding, and fsdyno ends with code 4.")]
pub struct Merge {
    /// Folder for the whole: a new one, or that of an earlier merge of the same command
    #[arg(value_name = "OUT", value_parser = folder())]
    pub out: PathBuf,
    /// Folders of `fsdyno run --shard`
    #[arg(required = true, value_name = "SHARE")]
    pub shares: Vec<PathBuf>,
    /// Merge what there is, even if trials are missing
    #[arg(long)]
    pub partial: bool,
    /// Take ratios to this file system, by its name in the table [default: the --baseline of the shares]
    #[arg(long, value_name = "NAME")]
    pub baseline: Option<String>,
    #[command(flatten)]
    pub least: Least,
    /// How the table is written to standard output
    #[arg(long, default_value = "text", value_parser = named(Format::ALL))]
    pub format: Format,
}

/// `fsdyno report`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  fsdyno report fsdyno-results/demo
  fsdyno report fsdyno-results/monday fsdyno-results/tuesday --format mail
  fsdyno report fsdyno-results/demo --baseline ext4 --html demo.html
  fsdyno report fsdyno-results/demo --charts figures    # SVG files in figures
  fsdyno report guenter --archive results/guenter-2008  # a study, to be kept")]
pub struct Report {
    /// Result folders, or their trials.ndjson; or those of fsdyno crash, or their crash.json; or the folder of one
    /// study, or what --archive left of it
    #[arg(required = true, value_name = "RESULT")]
    pub results: Vec<PathBuf>,
    /// Take ratios to this file system, by its name in the table, and not to the best
    #[arg(long, value_name = "NAME")]
    pub baseline: Option<String>,
    #[command(flatten)]
    pub least: Least,
    /// How the table is written to standard output
    #[arg(long, default_value = "text", value_parser = named(Format::ALL))]
    pub format: Format,
    /// Write the report as one HTML file; - writes it to standard output, in place of the table
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Keep a study in a new folder that can be committed or sent on: its file, its records compressed, its page,
    /// and a README with the command and what became of the claims; `fsdyno report` of it judges again
    #[arg(long, value_name = "DIR", value_parser = folder())]
    pub archive: Option<PathBuf>,
    /// Write every chart of the report as an SVG file of its own into this folder, named
    /// workload-phase-chart.svg; what is there and no such chart is never overwritten
    #[arg(long, value_name = "DIR", value_parser = folder())]
    pub charts: Option<PathBuf>,
}

/// `fsdyno compare`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  fsdyno compare fsdyno-results/old fsdyno-results/new
  fsdyno compare base new --threshold 1% --format mail
  fsdyno compare base new --format junit > fsdyno.xml
  fsdyno compare base new --bisect   # for git bisect run: examples/ci/README.md

Cells are matched by their conditions: workload and parameters, file system, disk or medium, threads, RAM,
age and all else that was asked; then by the label of --fs, so that 'x=ext4' of one result meets
'x=ext4 -I 128' of the other. Kernel, tools, lab and the disk's law may differ, and are named where they do.
Trials of the lab are paired by seed.

It ends with code 1 if a phase is slower, and 4 if a trial of NEW failed. With --bisect it ends with 0 if
no phase takes longer by more than the threshold, 1 if one does, and 125 if that cannot be told, for whatever
reason: `git bisect run` then skips the commit.")]
pub struct Compare {
    /// What is compared with: a result folder, or its trials.ndjson
    pub base: PathBuf,
    /// What is compared
    pub new: PathBuf,
    /// The smallest difference that matters, in percent; what is shown to differ by less is the same
    #[arg(long, value_name = "PERCENT", default_value = "3%", visible_alias = "least-difference")]
    pub threshold: Percent,
    /// What is compared of each phase
    #[arg(long, default_value = "durable", value_parser = named(Metric::ALL))]
    pub metric: Metric,
    /// End with 0 (good), 1 (bad) or 125 (cannot tell), as `git bisect run` wants
    #[arg(long)]
    pub bisect: bool,
    /// How the comparison is written to standard output
    #[arg(long, default_value = "text", value_parser = named(CompareFormat::ALL))]
    pub format: CompareFormat,
}

/// `fsdyno why`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  fsdyno why fsdyno-results/mine
  fsdyno why mine --fs ext3 --phase unlink --out why
  fsdyno why new --against old --format markdown

Two rows of one result: fsdyno why mine --fs ext4 --against mine --against-fs ext3

Of each row of RESULT the trial with the lowest seed runs a second time in the lab and is looked
at. That takes up to twice as long as the first time, and has to repeat it to the digit; else
nothing is said. So it must be this fsdyno, and the tools and the kernel of then. What is found
out is kept in RESULT (why.ndjson) and stands in its report.html.

Requests: each is put to the structure of the file system that its first block belongs to, by maps
that the file system's own tools make of the disk as each stage of the trial begins; what they do
not know, or what was one thing before and another after, is unattributed. Time: each moment in
which the disk had requests to answer goes to the one that was answered first. A seek is a request
that does not begin where the one answered before it ended.

Instructions: all that the guest executed, by function and chain of calls, for each op of a phase.
Layers of functions that are in no module are told by their names.")]
pub struct Why {
    /// What is explained: a result folder, or its trials.ndjson
    pub result: PathBuf,
    /// Another result to compare with, or the same one with another row (--against-fs)
    #[arg(long, value_name = "RESULT")]
    pub against: Option<PathBuf>,
    /// One row of RESULT, by its label; may be repeated [default: all]
    #[arg(long, value_name = "LABEL")]
    pub fs: Vec<String>,
    /// The row of --against that it is compared with [default: the one with the same label]
    #[arg(long, value_name = "LABEL", requires = "against")]
    pub against_fs: Option<String>,
    /// The trials of one seed [default: the lowest]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// One phase alone; the result keeps all of them
    #[arg(long, value_name = "NAME")]
    pub phase: Option<String>,
    /// A kernel of the result that is an image of yours, as `run --kernel` took it: IMAGE or
    /// IMAGE:MODULES; may be repeated [default: each is found by its release]
    #[arg(long = "kernel", value_name = "WHICH", value_parser = NonEmptyStringValueParser::new())]
    pub kernels: Vec<String>,
    /// In the page take ratios to this file system, by its name in the table, and not to the best
    #[arg(long, value_name = "NAME")]
    pub baseline: Option<String>,
    #[command(flatten)]
    pub least: Least,
    /// Write the pictures (requests over time, flame graphs) and everything as JSON into this folder
    #[arg(long, value_name = "DIR", value_parser = folder())]
    pub out: Option<PathBuf>,
    /// How it is written to standard output
    #[arg(long, default_value = "text", value_parser = named(fsdyno_report::why::Format::ALL))]
    pub format: fsdyno_report::why::Format,
}

/// `fsdyno list`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  fsdyno list filesystems
  fsdyno list kernels --format json")]
pub struct List {
    /// What to list
    #[arg(value_enum)]
    pub what: Listable,
    /// How it is written
    #[arg(long, value_enum, default_value_t = DataFormat::Text)]
    pub format: DataFormat,
}

/// `fsdyno show`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  fsdyno show workload tarball
  fsdyno show filesystem ext4
  fsdyno show disk hdd-7200
  fsdyno show period 2008
  fsdyno show disk ./my-disk.toml
  fsdyno show study ./my-study.toml
  fsdyno show series fsdyno-results/demo
  fsdyno show series fsdyno-results/demo --format csv > series.csv
  fsdyno show log fsdyno-results/RUN/logs/TRIAL.log --format json")]
pub struct Show {
    /// What kind of thing
    #[arg(value_enum)]
    pub kind: Showable,
    /// Its name; of a disk or a study also the path of its file; of a log its file; of series a result folder
    pub name: String,
    /// How it is written; a log in JSON is one line a request
    #[arg(long, value_enum, default_value_t = ShowFormat::Text)]
    pub format: ShowFormat,
}

/// `fsdyno fit`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sudo fsdyno fit /dev/sdb --out my-disk.toml
  sudo fsdyno fit /dev/sdb --seconds 300 --out my-disk.toml
  fsdyno run dirops --disk ./my-disk.toml

The device is opened read-only and never written, so it may be mounted; but whatever else uses it
meanwhile falsifies the fit. The file's head says how well it foretells random reads that it was not
fitted to. What reading cannot tell (writes, the size of caches) is an estimate, and its source says so.
A disk that turns gets the law 'hdd'. A solid-state disk gets the law 'ssd' with its read side fitted and
its write side taken from ssd-sata: an NVMe drive's writes are not those.")]
pub struct Fit {
    /// A whole disk, such as /dev/sdb; a file stands for whatever lies below it
    pub device: PathBuf,
    /// Write the disk's file here: a new file ending in .toml, or one of an earlier fit [default:
    /// standard output]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// About how long the probe takes, in seconds, 10 to 86400 (a solid-state disk may need less); more
    /// is more exact
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = whole::<u64>(10..=86_400))]
    pub seconds: u64,
    /// Revolutions a minute, where the disk does not tell and its cache hides them
    #[arg(long, value_name = "N", value_parser = whole::<u32>(600..=60_000))]
    pub rpm: Option<u32>,
}

/// `fsdyno doctor`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  fsdyno doctor
  fsdyno doctor --clean
  fsdyno doctor --clean /srv/scratch

It ends with code 3 if the lab cannot run. Nothing without fsdyno's own mark is ever cleaned, and nothing
of a process that still runs.")]
pub struct Doctor {
    /// Clean what killed fsdyno processes left, and nothing else: processes, mounts, md arrays, loop
    /// devices, and in this directory folders and files [default directory: the current one]
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = ".")]
    pub clean: Option<PathBuf>,
    /// Empty the caches of unpacked kernels, booted guests and made disks; what is needed again is made again
    #[arg(long, conflicts_with = "clean")]
    pub clear_caches: bool,
    /// How it is written
    #[arg(long, value_enum, default_value_t = DataFormat::Text)]
    pub format: DataFormat,
}

/// `fsdyno agent`
#[derive(Args, Debug)]
pub struct Agent {
    /// The mailbox, inherited
    #[arg(long)]
    pub mailbox_fd: i32,
    /// The root of the trial, inherited, where it is a directory
    #[arg(long)]
    pub root_fd: Option<i32>,
    /// The workload's input, inherited
    #[arg(long)]
    pub input_fd: Option<i32>,
    /// A device to format, as FD:PATH with what keeps it, inherited; may be repeated
    #[arg(long = "device")]
    pub devices: Vec<fsdyno_agent::Handed>,
    /// The md array to make of them
    #[arg(long)]
    pub array: Option<PathBuf>,
    /// What UUIDs are drawn from
    #[arg(long)]
    pub uuids: Option<u64>,
}
