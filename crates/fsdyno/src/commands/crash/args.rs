//! What can be typed after `fsdyno crash`.

use std::path::PathBuf;

use clap::Args;
use fsdyno_crash::{AtomicUnit, DiskFault};
use fsdyno_filesystem::Author;

use crate::cli::{Run, SEEDS, folder, named, whole};
use crate::exit::Failure;
use crate::words::as_run;

/// How a table is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Aligned columns.
    Text,
    /// All that is known, as one object.
    Json,
    /// One line a file system.
    Csv,
    /// A pipe table.
    Markdown,
}

impl Format {
    const ALL: &[(&str, &str, Format)] = &[
        ("text", "A table for a terminal", Format::Text),
        ("json", "All that is known, each cut too", Format::Json),
        ("csv", "One line a file system", Format::Csv),
        ("markdown", "A table for an issue tracker", Format::Markdown),
    ];
}

/// `fsdyno crash`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  fsdyno crash maildir --set deliverers=1 --set ops=500 --set protocol=qmail --fs ext4 --fs xfs
  fsdyno crash dirops --set files=2000 --fs ext4 --fs 'off=ext4 @ barrier=0' --cuts 1000
  fsdyno crash dirops --fs ext4 --tear 512
  fsdyno crash --replay fsdyno-results/RUN/findings/off-0017.json
  fsdyno crash --replay fsdyno-results/RUN/findings/xfs-0263.json --image broken.img

The workload runs once, in the lab, with a log of every byte that it writes and of when each op
comes back. Then the power is cut at moments that the seed chooses: of ten cuts four right after an
fsync or sync came back, two right before a flush, two while it is done, one right after it, one
anywhere. Of what the disk's cache held then, nothing, all, some writes, some sectors, or all up to a
torn write is on the medium; a physical sector of the disk is there whole or not at all (--tear 512
splits it). Each image is mounted by the same kernel on the same disk, walked, checked, and compared
with what was done and acknowledged.

What fsync(2), a directory's fsync(2) or syncfs(2) acknowledged must be there: if it is not, that is
a violation, and fsdyno ends with code 1. Everything else that is lost is shown as what a power cut
costs. Each cut with a violation, a file system that needed repair or could not be mounted, or a
name that was lost, is a file in findings/ that --replay does again. `fsdyno report` of the folder
shows the table again, in every format; its report.html has charts too. docs/crash.md says more.")]
pub struct Crash {
    /// What to run; see `fsdyno list workloads`
    #[arg(required_unless_present = "replay", value_name = "WORKLOAD")]
    pub workload: Option<String>,
    /// A file system as you would type it, '[NAME=]KIND [mkfs options] [@ mount,options]'; may be
    /// repeated [default: ext4]
    #[arg(long = "fs", value_name = "[NAME=]SPEC")]
    pub filesystems: Vec<String>,
    /// The number of power cuts for each file system
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = whole::<u32>(1..=100_000))]
    pub cuts: u32,
    /// The seed of the trial and of its cuts
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u64>(SEEDS))]
    pub seed: u64,
    /// A parameter of the workload; may be repeated; see `fsdyno show workload NAME`
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub sets: Vec<String>,
    /// A disk for the lab: a name of `fsdyno list disks`, or a disk's file [default: hdd-7200]
    #[arg(long, value_name = "NAME|FILE")]
    pub disk: Option<String>,
    /// What the disk does with its cache when it is flushed: what a file system is safe with is
    /// the first; the others show what it does not survive
    #[arg(long, default_value = "honest", value_parser = named(DiskFault::ALL))]
    pub misbehave: DiskFault,
    /// Between what a write is torn, in bytes: 512 is harsher than a disk whose physical sectors are
    /// larger [default: the disk's physical sector]
    #[arg(long, value_name = "BYTES")]
    pub tear: Option<AtomicUnit>,
    /// A kernel for the lab [default: what `fsdyno doctor` shows]
    #[arg(long, value_name = "WHICH")]
    pub kernel: Option<String>,
    /// Memory of the lab's guest [default: 1G]
    #[arg(long, value_name = "SIZE")]
    pub ram: Option<String>,
    /// Memory of the lab's guest that can cache files; see `fsdyno run --help`
    #[arg(long, value_name = "SIZE")]
    pub cacheable: Option<String>,
    /// Speed of the lab's CPU in instructions a nanosecond, a power of two from 1/64 to 8 [default: 1]
    #[arg(long, value_name = "SPEED")]
    pub cpu: Option<String>,
    /// Block scheduler in the lab [default: what the disk's file says]
    #[arg(long, value_name = "S")]
    pub scheduler: Option<String>,
    /// As in a year: the options of mkfs and mount, the sysctls and the disk's cache of then; see `fsdyno list periods`
    #[arg(long, value_name = "YEAR|today")]
    pub period: Option<String>,
    /// Threads that issue ops, where the work can be shared [default: 1]
    #[arg(long, value_name = "N")]
    pub threads: Option<String>,
    /// Size of the file system
    #[arg(long, value_name = "SIZE", default_value = "2G")]
    pub size: String,
    /// A kernel setting in the lab, such as vm.dirty_expire_centisecs=500; may be repeated
    #[arg(long = "sysctl", value_name = "KEY=VALUE")]
    pub sysctls: Vec<String>,
    /// Guests that bring images back side by side [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = whole::<u16>(1..=64))]
    pub jobs: Option<u16>,
    /// Do again what a finding's file says, and nothing else
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "workload", "filesystems", "sets", "cuts", "seed", "disk", "misbehave", "tear", "ram", "cacheable", "cpu",
        "scheduler", "period", "threads", "size", "sysctls", "out",
    ])]
    pub replay: Option<PathBuf>,
    /// With --replay: also keep the file system as the cut left it, before anything mounted it, as
    /// a sparse file to mount or to hand to its developers
    // Of a workload: what requires --replay, which is no part of such a command, is not asked for by clap.
    #[arg(long, value_name = "FILE", requires = "replay", conflicts_with = "workload")]
    pub image: Option<PathBuf>,
    /// Say what would be done, and touch nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Folder for crash.json, report.html and findings/
    /// [default: fsdyno-results/<time>-crash-<workload>]
    #[arg(long, value_name = "DIR", value_parser = folder())]
    pub out: Option<PathBuf>,
    /// How the table is written to standard output
    #[arg(long, default_value = "text", value_parser = named(Format::ALL))]
    pub format: Format,
}

/// Options of `fsdyno run` that power cuts have none of, and why.
const NONE_OF: &[(&str, &str)] = &[
    ("on", "power is cut in the lab only"),
    ("erase", "power is cut in the lab only"),
    ("raid", "bytes are logged of one disk"),
    ("journal-disk", "bytes are logged of one disk"),
    ("journal-size", "bytes are logged of one disk"),
    ("accel", "bytes are logged in virtual time"),
    ("boot", "its guests boot cold, for each has another log in its memory"),
    ("issuer", "ops are logged with --issuer sync only"),
    ("age", "a tree that was there before is not compared"),
    ("repeat", "one trial is logged, and cut --cuts times; for another one take another --seed"),
    ("width", "one trial is logged, and cut --cuts times"),
    ("at-most", "one trial is logged, and cut --cuts times"),
    ("verify", "what each cut left is compared in full"),
    ("deadline", "it has that of `fsdyno run`, two days of virtual time"),
    ("baseline", "its table has no ratios"),
    ("least-difference", "its table has no ratios"),
    ("mix", "each of its folders has the power cuts of one command"),
    ("keep-log", "findings do it again with --replay"),
    ("shard", "a command runs as a whole; several take a --seed each"),
    ("change", "it is for benches of `fsdyno run`"),
];

/// Why `fsdyno crash` has none of an option that `fsdyno run` has.
pub fn none_of(option: &str) -> Option<&'static str> {
    NONE_OF.iter().find(|(name, _)| *name == option).map(|(_, why)| *why)
}

impl From<Format> for fsdyno_report::Format {
    fn from(format: Format) -> fsdyno_report::Format {
        match format {
            Format::Text => fsdyno_report::Format::Text,
            Format::Json => fsdyno_report::Format::Json,
            Format::Csv => fsdyno_report::Format::Csv,
            Format::Markdown => fsdyno_report::Format::Markdown,
        }
    }
}

impl Crash {
    /// The trial as `fsdyno run` would be asked for it.
    pub fn as_run(&self) -> Result<Run, Failure> {
        let mut words: Vec<String> = self.workload.iter().cloned().collect();
        let mut add = |key: &str, value: &str| words.push(format!("{key}={value}"));
        self.filesystems.iter().for_each(|spec| add("--fs", spec));
        self.sets.iter().for_each(|set| add("--set", set));
        self.sysctls.iter().for_each(|set| add("--sysctl", set));
        add("--seed", &self.seed.to_string());
        add("--size", &self.size);
        for (key, value) in [
            ("--disk", &self.disk),
            ("--kernel", &self.kernel),
            ("--ram", &self.ram),
            ("--cacheable", &self.cacheable),
            ("--cpu", &self.cpu),
            ("--scheduler", &self.scheduler),
            ("--period", &self.period),
            ("--threads", &self.threads),
        ] {
            value.iter().for_each(|value| add(key, value));
        }
        as_run(words, Author::User)
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn every_option_of_run_is_one_of_crash_or_crash_says_why_it_is_not() {
        let cli = Cli::command();
        let options = |name: &str| -> Vec<String> {
            let command = cli.get_subcommands().find(|command| command.get_name() == name).unwrap();
            command.get_arguments().filter_map(|it| it.get_long().map(String::from)).collect()
        };
        let crash = options("crash");
        for option in options("run").iter().filter(|option| *option != "help") {
            assert!(crash.contains(option) != none_of(option).is_some(), "--{option}");
        }
    }

    #[test]
    fn the_machine_s_options_reach_the_plan_s_words() {
        let words =
            "fsdyno crash dirops --cpu 8 --threads 4 --period 2008 --cacheable 64M --scheduler bfq";
        let Ok(Cli { command: crate::cli::Command::Crash(crash), .. }) =
            <Cli as clap::Parser>::try_parse_from(words.split(' '))
        else {
            panic!("it is not taken");
        };
        let run = crash.as_run().unwrap();
        assert_eq!((run.cpu.to_string(), run.threads), ("8".into(), 4));
        assert_eq!((run.periods, run.scheduler), (vec!["2008".into()], Some("bfq".into())));
        assert!(run.cacheable.is_some());
    }
}
