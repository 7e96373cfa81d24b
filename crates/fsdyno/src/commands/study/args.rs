//! The arguments of `fsdyno study`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use fsdyno_axes::whole_number;
use fsdyno_campaign::spec::{JOBS, REPEATS, SEEDS};
use fsdyno_report::{Format, SpecialFormat};
use fsdyno_study::StudyRequest;
use fsdyno_study::file::{Scale, Variant};

use crate::cli::{NamedFormat, folder, format, name_parser};

/// The values of `--as`.
const AS: &[(&str, &str, Variant)] = &[
    ("then", "Historical: the options and defaults of the publication's time", Variant::Historical),
    ("today", "Current: today's options and defaults", Variant::Current),
];

/// The output formats: claims and tables, or the records from which they are derived.
const STUDY_FORMATS: &[NamedFormat] = &[
    ("text", "Claims and tables for a terminal", Format::Text),
    ("csv", "The records: one line per trial, phase and op", Format::Csv),
    ("json", "Claims and tables, unrounded (docs/schema/judged.schema.json)", Format::Json),
    (
        "statistics",
        "Statistics computed from the records of all runs (JSON)",
        Format::Special(SpecialFormat::Statistics),
    ),
    (
        "statistics-csv",
        "The same, one line per row of the tables",
        Format::Special(SpecialFormat::StatisticsCsv),
    ),
    (
        "spreadsheet",
        "The tables, one line per row and phase, times in seconds (CSV)",
        Format::Special(SpecialFormat::Spreadsheet),
    ),
    (
        "original",
        "The output format of the original programs",
        Format::Special(SpecialFormat::Original),
    ),
];

/// `fsdyno study`
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  fsdyno list studies
  fsdyno show study guenter-2008                         # conditions, claims
  fsdyno study guenter-2008 --scale 1/10 --dry-run
  fsdyno study guenter-2008 --scale 1/10 --jobs 2 --out guenter
  fsdyno study guenter-2008 --kernel 5.10 --kernel 6.1   # compare kernels
  fsdyno study guenter-2008 --fs ext3-256 --fs ext4-256 --repeat 5 --out guenter
  fsdyno study guenter-2008 --cpu desktop-2008  # a processor of its time
  fsdyno study ./my-study.toml
  fsdyno report guenter                                  # the verdicts again
  fsdyno report guenter --archive results/guenter-2008   # to commit or share
  fsdyno study results/guenter-2008 --check 3            # reproducible here?
  fsdyno why guenter/then/tarball                        # explain a study run

Each study run is a `fsdyno run` with its own folder below --out, once under historical and once under
current conditions. The output has the published tables next to the measured ones, and a verdict on each
claim. A refuted claim is not a failure: the exit code reports only failed trials.

Ctrl-C kills the running trials and keeps the finished ones. To resume, repeat the command with the same
--out; if all trials are stored, the command only judges and prints. docs/studies.md describes the study
file.")]
pub struct Study {
    /// A study from `fsdyno list studies`, or a study file (FILE.toml); with --check a study's folder, such as an
    /// archive written by `fsdyno report --archive`
    #[arg(value_name = "NAME|FILE|FOLDER")]
    pub study: String,
    /// Run only under these conditions [default: all that the study defines]
    #[arg(long = "as", value_name = "then|today", value_parser = name_parser(AS))]
    pub variant: Option<Variant>,
    /// Run only this study run; may be repeated
    #[arg(long, value_name = "RUN")]
    pub only: Vec<String>,
    /// Run only the configuration with this label, for example to add seeds where a verdict needs them; may be repeated
    #[arg(long, value_name = "LABEL")]
    pub fs: Vec<String>,
    /// The kernel for runs in the lab, as for `fsdyno run`; may be repeated, or several separated by commas: each
    /// kernel is judged separately and gets a column
    #[arg(long = "kernel", value_name = "WHICH", value_parser = NonEmptyStringValueParser::new())]
    pub kernels: Vec<String>,
    /// The CPU of runs in the lab, as for `fsdyno run`, instead of that of the study: a speed, or a processor profile,
    /// such as one of the study's time (docs/studies.md)
    #[arg(long, value_name = "WHICH", value_parser = NonEmptyStringValueParser::new())]
    pub cpu: Option<String>,
    /// Divide the work, the cacheable memory, and the sizes of file systems and journals by N; tables are marked, since
    /// a scaled run may be in another regime [default: as in the file, else 1]
    #[arg(long, value_name = "1/N")]
    pub scale: Option<Scale>,
    /// The number of trials of each configuration, each with its own seed [default: as in the file, else 1]
    #[arg(long, value_name = "N", value_parser = whole_number::<u32>(REPEATS))]
    pub repeat: Option<u32>,
    /// Do not add seeds. By default, the configurations of a claim whose value lies within 20 % of its bound get two
    /// more seeds, unless --repeat or the file sets the number
    #[arg(long)]
    pub no_more_seeds: bool,
    /// The first seed; repeats use the following ones [default: as in the file, else 1]
    #[arg(long, value_name = "N", value_parser = whole_number::<u64>(SEEDS))]
    pub seed: Option<u64>,
    /// The number of trials that run at the same time, all of one study run
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole_number::<u16>(JOBS))]
    pub jobs: u16,
    /// Repeat the N shortest trials of a stored study, and report for each whether it is bit-identical, has the same
    /// requests with times within 1 %, or differs, and which parts of the lab identity differ. The exit code is 1 if
    /// a trial differs. Nothing is stored; --only, --as and --fs select trials
    #[arg(long, value_name = "N", value_parser = whole_number::<u32>(REPEATS), conflicts_with_all = [
        "cpu", "scale", "repeat", "seed", "jobs", "dry_run", "out",
    ])]
    pub check: Option<u32>,
    /// Print what would run, with exact operation counts, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Result folder: a new one, or that of the same study to resume it [default:
    /// fsdyno-results/<time>-study-<name>]
    #[arg(long, value_name = "DIR", value_parser = folder())]
    pub out: Option<PathBuf>,
    /// Format of the output
    #[arg(long, default_value = "text", value_parser = format(STUDY_FORMATS))]
    pub format: Format,
}

impl Study {
    /// Returns the user's request.
    pub fn request(&self) -> StudyRequest {
        StudyRequest {
            study: self.study.clone(),
            variant: self.variant,
            only: self.only.clone(),
            fs: self.fs.clone(),
            kernels: self.kernels.clone(),
            cpu: self.cpu.clone(),
            scale: self.scale,
            repeat: self.repeat,
            no_more_seeds: self.no_more_seeds,
            seed: self.seed,
            jobs: self.jobs,
            out: self.out.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use fsdyno_study::file::{options as study_options, refused};

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn every_option_of_run_is_an_option_of_studies_or_refused_with_a_reason() {
        let cli = Cli::command();
        let run = cli.get_subcommands().find(|command| command.get_name() == "run").unwrap();
        let options: Vec<&str> = run.get_arguments().filter_map(clap::Arg::get_long).collect();
        for option in options.iter().filter(|option| **option != "help") {
            let is_known = study_options().any(|name| name == *option)
                || ["fs", "set", "sysctl"].contains(option);
            assert!(is_known != refused(option).is_some(), "--{option}: OPTIONS in study/src/file");
        }
        for option in study_options() {
            assert!(options.contains(&option), "fsdyno run has no --{option}");
        }
    }

    #[test]
    fn the_output_of_a_study_has_all_formats_of_a_report() {
        let special = |formats: &[NamedFormat]| {
            let special =
                formats.iter().filter(|(.., format)| matches!(format, Format::Special(_)));
            special.map(|(name, _, format)| (*name, *format)).collect::<Vec<_>>()
        };
        assert_eq!(special(STUDY_FORMATS), special(crate::cli::TRIAL_FORMATS));
        for (name, _, format) in STUDY_FORMATS.iter().chain(crate::cli::TRIAL_FORMATS) {
            let common = Format::ALL.iter().find(|(common, ..)| common == name);
            assert!(common.is_none_or(|(.., common)| common == format), "{name}");
        }
    }
}
