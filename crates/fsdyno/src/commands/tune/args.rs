//! The arguments of `fsdyno tune`.

use std::path::PathBuf;

use clap::Args;
use fsdyno_axes::{Percent, whole_number};
use fsdyno_campaign::RunSpec;
use fsdyno_campaign::spec::{JOBS, SEEDS};
use fsdyno_campaign::tune::{Budget, TuneRequest};
use fsdyno_filesystem::Author;
use fsdyno_report::Format;

use crate::cli::{NamedFormat, RunAxes, folder, format};

/// The formats of a result.
const FORMATS: &[NamedFormat] = &[
    ("csv", "One line per option of each file system", Format::Csv),
    ("json", "Everything, including each measured configuration", Format::Json),
];

/// `fsdyno tune`
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  fsdyno tune maildir --fs ext4 --fs xfs --machine server-2026 --budget 30m
  fsdyno tune dirops --fs ext4 --only journal,inode-size,checksums
  fsdyno tune maildir --fs ext4 --objective deliver-4=2,setup=1
  fsdyno tune postmark --fs all --unsafe --budget 400trials --out tuned
  sudo fsdyno tune dirops --fs ext4 --on loop:8G
  fsdyno tune dirops --fs ext4 --space ./my-options.toml --dry-run

The options of each file system, with their values, are its search space (fsdyno show space ext4); --fs all
selects every file system that has one. The search measures each value alone, then runs a designed experiment
over the space, then tries the points that a model fitted to these results predicts to be best, and all
neighbours of the best point. On a noisy target, each point gets several trials. The winner is compared with
the default on seeds that took no part in the search, and is recommended only if it is faster there, too
(p < 0.001). Values that mkfs or mount refuses are dropped, and listed with the error message.

Every trial is stored as fsdyno run stores it. To resume, repeat the command with the same --out. The result
is in tune.json and report.html of that folder; `fsdyno report` prints it. See docs/tune.md.")]
pub struct Tune {
    /// The workload to tune for; see `fsdyno list workloads`
    #[arg(value_name = "WORKLOAD")]
    pub workload: String,
    /// The axes.
    #[command(flatten)]
    pub axes: RunAxes,
    /// A parameter of the workload; may be repeated; see `fsdyno show workload NAME`
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub sets: Vec<String>,
    /// A sysctl in the lab for all trials; may be repeated
    #[arg(long = "sysctl", value_name = "KEY=VALUE")]
    pub sysctls: Vec<String>,
    /// The time or the number of trials that the search may take, over all file systems: 30m, 2h, 90s or 200trials
    #[arg(long, value_name = "BUDGET", default_value = "30m")]
    pub budget: Budget,
    /// Do not try the values that the search space marks as giving up durability or security [default]
    #[arg(long, conflicts_with = "admit_unsafe")]
    pub safe: bool,
    /// Also try the values that give up durability or security
    #[arg(long = "unsafe")]
    pub admit_unsafe: bool,
    /// The phases that count, with their weights, such as deliver=2,read=1 [default: the time of all phases together]
    #[arg(long, value_name = "PHASE=WEIGHT,...")]
    pub objective: Option<String>,
    /// A file with your own search space, for the file system that it names; see `fsdyno show space ext4`
    #[arg(long, value_name = "FILE")]
    pub space: Option<PathBuf>,
    /// Keep this value in all trials, including those of the default; may be repeated
    #[arg(long, value_name = "OPTION=VALUE", value_delimiter = ',')]
    pub fix: Vec<String>,
    /// Try these options only
    #[arg(long, value_name = "OPTION,...", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Do not try these options or values
    #[arg(long, value_name = "OPTION[=VALUE],...", value_delimiter = ',')]
    pub exclude: Vec<String>,
    /// The smallest difference that matters: an option with less effect keeps its default
    #[arg(long, value_name = "PERCENT", default_value = "0.5%")]
    pub least_difference: Percent,
    /// The seed of the search
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole_number::<u64>(SEEDS))]
    pub seed: u64,
    /// The number of trials of the winner and of the default, on seeds that the search did not use
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = whole_number::<u32>(2..=1_000))]
    pub confirm: u32,
    /// Another workload on which to confirm the winner, with its parameters: 'postmark number=200'; may be repeated
    /// [default: another workload of the same kind, and the tuned workload with twice the work]
    #[arg(long, value_name = "WORKLOAD [KEY=VALUE ...]")]
    pub also: Vec<String>,
    /// The number of power cuts to simulate for each candidate in the lab, as fsdyno crash does; 0 for none. A
    /// winner that loses acknowledged work is not recommended without --unsafe
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = whole_number::<u32>(0..=100_000))]
    pub cuts: u32,
    /// The number of trials that run at the same time [default: in the lab, the number of processors, at most 4;
    /// elsewhere 1]
    #[arg(long, value_name = "N", value_parser = whole_number::<u16>(JOBS))]
    pub jobs: Option<u16>,
    /// Print the search space of each file system and the minimum number of trials, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Result folder; a folder that already has some of these trials is resumed [default:
    /// fsdyno-results/<time>-tune-<workload>]
    #[arg(long, value_name = "DIR", value_parser = folder())]
    pub out: Option<PathBuf>,
    /// Format of the result on standard output
    #[arg(long, default_value = "text", value_parser = format(FORMATS))]
    pub format: Format,
}

/// Maximum number of guests that run at the same time unless the user requests more.
const MAX_DEFAULT_JOBS: usize = 4;

/// Returns the default number of simultaneous trials: guests of the lab do not influence each other's results.
fn default_jobs(on: &[String]) -> u16 {
    if !on.iter().all(|on| on == "lab") {
        return 1;
    }
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    processors.min(MAX_DEFAULT_JOBS) as u16
}

impl Tune {
    /// Returns the user's request.
    pub fn request(&self) -> TuneRequest {
        let mut axes = self.axes.0.clone();
        let jobs = self.jobs.unwrap_or_else(|| default_jobs(&axes.on));
        TuneRequest {
            filesystems: std::mem::take(&mut axes.filesystems),
            spec: RunSpec {
                author: Author::User,
                workloads: vec![self.workload.clone()],
                axes,
                parameters: self.sets.clone(),
                sysctls: self.sysctls.clone(),
                jobs,
                ..RunSpec::default()
            },
            budget: self.budget,
            safe: self.safe || !self.admit_unsafe,
            objective: self.objective.clone(),
            space: self.space.clone(),
            fix: self.fix.clone(),
            only: self.only.clone(),
            exclude: self.exclude.clone(),
            least_difference: self.least_difference.0,
            seed: self.seed,
            confirm: self.confirm,
            also: self.also.clone(),
            cuts: self.cuts,
        }
    }
}
