//! The arguments of `fsdyno crash`.

use std::path::PathBuf;

use clap::Args;
use fsdyno_axes::{Axis, Crash as CrashSupport, whole_number};
use fsdyno_campaign::RunSpec;
use fsdyno_campaign::crash::Cuts;
use fsdyno_campaign::spec::SEEDS;
use fsdyno_crash::{AtomicUnit, DiskFault};
use fsdyno_report::Format;

use crate::cli::{CrashAxes, NamedFormat, folder, format, name_parser};

/// The output formats of `fsdyno crash`.
const FORMATS: &[NamedFormat] = &[
    ("csv", "One line per file system", Format::Csv),
    ("json", "All data, including each crash point", Format::Json),
];

/// `fsdyno crash`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  fsdyno crash maildir --set deliverers=1 --set ops=500 --set protocol=qmail --fs ext4 --fs xfs
  fsdyno crash dirops --set files=2000 --fs ext4 --fs 'off=ext4 @ barrier=0' --cuts 1000
  fsdyno crash dirops --fs ext4 --tear 512
  fsdyno crash replay --set trace=build.trace --fs ext4 --cuts 50
  fsdyno crash --replay fsdyno-results/RUN/findings/off-0017.json
  fsdyno crash --replay fsdyno-results/RUN/findings/xfs-0263.json --image broken.img

The workload runs once, in the lab, and a log stores every byte that it writes and the time at which
each operation returns. Power is then cut at crash points that the seed selects: of every ten, four lie
right after the return of an fsync or sync, two right before a flush, two during a flush, one right
after a flush, one anywhere. Of the writes that the disk's cache holds at that point, either none
survive, or all, or some, or some of their sectors, or all before one write that is itself torn; a
physical sector is written completely or not at all (--tear 512 splits it). Each image is mounted by the
same kernel on the same disk, its tree is listed, the file system is checked, and compared with the
operations that were done and acknowledged.

Data that fsync(2), an fsync(2) of the directory, or syncfs(2) acknowledged must survive: if it does
not, that is a violation, and the exit code is 1. All other losses are reported as the cost of a power
cut. Each crash point with a violation, a lost name, or a file system that needed repair or could not be
mounted is stored in a file in findings/, from which --replay repeats it. `fsdyno report` of the folder
prints the table in every format; its report.html also has charts.

To resume a stopped run, repeat the command with the same --out. Finished file systems are kept. For an
unfinished file system, the workload runs again; of its crash points, those of each guest that had
finished all of its 50 are kept. The results are those of a run that was not stopped. See docs/crash.md.")]
pub struct Crash {
    /// The workload to run; see `fsdyno list workloads`
    #[arg(required_unless_present = "replay", value_name = "WORKLOAD")]
    pub workload: Option<String>,
    /// The axes.
    #[command(flatten)]
    pub axes: CrashAxes,
    /// The number of crash points for each file system
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = whole_number::<u32>(1..=100_000))]
    pub cuts: u32,
    /// The seed of the trial and of its crash points
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole_number::<u64>(SEEDS))]
    pub seed: u64,
    /// A parameter of the workload; may be repeated; see `fsdyno show workload NAME`
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub sets: Vec<String>,
    /// The disk's behaviour on a flush of its cache and at a power cut. File systems are designed for the first
    /// behaviour; the others show which disk faults they do not survive
    #[arg(long, default_value = "honest", value_parser = name_parser(DiskFault::ALL))]
    pub misbehave: DiskFault,
    /// The atomic write unit in bytes: a write can be torn between two units; 512 is harsher than the size of a larger
    /// physical sector [default: the disk's physical sector]
    #[arg(long, value_name = "BYTES")]
    pub tear: Option<AtomicUnit>,
    /// A sysctl in the lab, such as vm.dirty_expire_centisecs=500; may be repeated
    #[arg(long = "sysctl", value_name = "KEY=VALUE")]
    pub sysctls: Vec<String>,
    /// The number of guests that recover images at the same time [default: one per processor]
    #[arg(long, value_name = "N", value_parser = whole_number::<u16>(1..=64))]
    pub jobs: Option<u16>,
    /// Repeat only the crash point of this finding
    #[arg(long, value_name = "FILE", conflicts_with_all = trial_args())]
    pub replay: Option<PathBuf>,
    /// With --replay: also write the file system as the power cut left it, before any mount, to this sparse file, for
    /// inspection or for a bug report
    // conflicts_with: clap does not enforce `requires` if the required argument conflicts with a given one.
    #[arg(long, value_name = "FILE", requires = "replay", conflicts_with = "workload")]
    pub image: Option<PathBuf>,
    /// Print what would be done and how long it would take, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Result folder, for crash.json, report.html and findings/; that of a stopped run is resumed [default:
    /// fsdyno-results/<time>-crash-<workload>]
    #[arg(long, value_name = "DIR", value_parser = folder())]
    pub out: Option<PathBuf>,
    /// Format of the table on standard output
    #[arg(long, default_value = "text", value_parser = format(FORMATS))]
    pub format: Format,
}

/// Returns the arguments that describe a trial and its power cuts, and that a finding therefore contains. A finding
/// contains no kernel path.
fn trial_args() -> Vec<&'static str> {
    let options = ["workload", "sets", "cuts", "seed", "misbehave", "tear", "sysctls", "out"];
    options
        .into_iter()
        .chain(CrashAxes::all().map(|axis| axis.key).filter(|key| *key != "kernel"))
        .collect()
}

/// The options of `fsdyno run` that are not axes and that `fsdyno crash` lacks, with reasons.
const ABSENT: &[(&[&str], &str)] = &[
    (
        &["erase", "ranks", "own", "shift", "stonewall", "hosts", "hosts-program"],
        "a crash test runs in the lab only",
    ),
    (&["repeat"], "a crash test is one trial; for another one use another --seed"),
    (&["width", "at-most"], "a crash test is one trial with --cuts power cuts"),
    (
        &["deadline"],
        "the deadline of a crash test is the default of `fsdyno run`, two days of virtual time",
    ),
    (&["baseline", "least-difference"], "its table has no ratios"),
    (&["sort"], "its rows have the order of the command"),
    (&["columns"], "the columns of its table are fixed"),
    (&["mix"], "a result folder has the crash points of one command"),
    (&["name"], "name the result afterwards: fsdyno note RESULT --name NAME"),
    (&["note"], "write the note afterwards: fsdyno note RESULT --note TEXT"),
    (&["keep-log"], "a finding can be repeated with --replay"),
    (&["shard"], "a crash test cannot be divided; run several commands with a --seed each"),
    (&["change"], "the option is for benchmarks with `fsdyno run`"),
];

/// Returns the reason why `fsdyno crash` lacks an option of `fsdyno run`.
pub fn reason_absent(option: &str) -> Option<&'static str> {
    let axis_reason = Axis::of(option).and_then(|axis| match axis.crash {
        CrashSupport::Unsupported(reason) => Some(reason),
        CrashSupport::One | CrashSupport::Many => None,
    });
    axis_reason
        .or_else(|| ABSENT.iter().find(|it| it.0.contains(&option)).map(|(_, reason)| *reason))
}

impl Crash {
    /// Returns the settings of the power cuts.
    pub fn cuts(&self) -> Cuts {
        let (disk, tear, jobs) = (self.misbehave, self.tear, self.jobs);
        Cuts { count: self.cuts, seed: self.seed, disk, tear, jobs }
    }

    /// Returns the request for the trial.
    pub fn spec(&self) -> RunSpec {
        RunSpec {
            workloads: self.workload.iter().cloned().collect(),
            axes: self.axes.0.clone(),
            parameters: self.sets.clone(),
            sysctls: self.sysctls.clone(),
            seed: self.seed,
            ..RunSpec::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn every_option_of_run_is_an_option_of_crash_or_absent_with_a_reason() {
        let cli = Cli::command();
        let options = |name: &str| -> Vec<String> {
            let command = cli.get_subcommands().find(|command| command.get_name() == name).unwrap();
            command.get_arguments().filter_map(|arg| arg.get_long().map(String::from)).collect()
        };
        let crash = options("crash");
        for option in options("run").iter().filter(|option| *option != "help") {
            assert!(crash.contains(option) != reason_absent(option).is_some(), "--{option}");
        }
    }

    #[test]
    fn options_of_the_machine_reach_the_plan() {
        let args =
            "fsdyno crash dirops --cpu 8 --threads 4 --period 2008 --cacheable 64M --scheduler bfq";
        let Ok(Cli { command: crate::cli::Command::Crash(crash), .. }) =
            <Cli as clap::Parser>::try_parse_from(args.split(' '))
        else {
            panic!("the arguments are refused");
        };
        let axes = crash.spec().axes;
        assert_eq!((axes.guest.cpu.to_string(), axes.threads), ("8".into(), 4));
        assert_eq!(
            (axes.periods, axes.guest.scheduler),
            (vec![Some("2008".into())], Some("bfq".into()))
        );
        assert!(axes.guest.cacheable.is_some());
    }
}
