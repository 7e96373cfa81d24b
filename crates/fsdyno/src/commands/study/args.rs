//! What can be typed after `fsdyno study`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use fsdyno_report::Format;
use fsdyno_study::file::{Scale, Variant};

use crate::cli::{JOBS, REPEATS, SEEDS, folder, named, whole};

/// The variants that can be asked for.
const AS: &[(&str, &str, Variant)] = &[
    ("then", "Under the conditions of what was published", Variant::Then),
    ("today", "Under those of today", Variant::Today),
];

/// How the end is written: claims and tables, or the records that they come from.
const END: &[(&str, &str, Format)] = &[
    ("text", "Claims and tables for a terminal", Format::Text),
    ("mail", "The same in 72 columns for a mailing list", Format::Mail),
    ("markdown", "The same for an issue tracker", Format::Markdown),
    ("json", "Claims and tables, nothing rounded (docs/schema/judged.schema.json)", Format::Json),
    ("csv", "The records: one line per trial, phase and op", Format::Csv),
    ("statistics", "What is computed from the records of all runs (JSON)", Format::Statistics),
    ("statistics-csv", "The same, one line per row of the tables", Format::StatisticsCsv),
    ("original", "What the original programs would print", Format::Original),
];

/// `fsdyno study`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  fsdyno list studies
  fsdyno show study guenter-2008                         # conditions, claims
  fsdyno study guenter-2008 --scale 1/10 --dry-run
  fsdyno study guenter-2008 --scale 1/10 --jobs 2 --out guenter
  fsdyno study guenter-2008 --kernel 5.10 --kernel 6.1   # kernel beside kernel
  fsdyno study guenter-2008 --fs ext3-256 --fs ext4-256 --repeat 5 --out guenter
  fsdyno study ./my-study.toml
  fsdyno report guenter                                  # its end again
  fsdyno report guenter --archive results/guenter-2008   # to be committed
  fsdyno study results/guenter-2008 --check 3            # does it repeat here?
  fsdyno why guenter/then/tarball                        # why, in its page too

Each run of the study is a `fsdyno run`, as then and as today, with a folder of its own below --out. In the
end stand the published tables beside the measured ones, and each claim with its verdict. What a claim
turned out to be is no failure: the exit code says whether the trials went well.

Ctrl-C kills the running trials and keeps the finished ones. The same command with the same --out goes on
where it was; when all is there, it only judges and shows. docs/studies.md has the form of the file.")]
pub struct Study {
    /// A study of `fsdyno list studies`, or the path of your own file (something.toml); with --check the folder of a
    /// study, such as what `fsdyno report --archive` wrote
    #[arg(value_name = "NAME|FILE|FOLDER")]
    pub study: String,
    /// Only under these conditions [default: both, as far as the study has them]
    #[arg(long = "as", value_name = "then|today", value_parser = named(AS))]
    pub variant: Option<Variant>,
    /// Only this run of the study; may be repeated
    #[arg(long, value_name = "RUN")]
    pub only: Vec<String>,
    /// Only this row of its runs, by its label: more seeds where a verdict depends on them; may be repeated
    #[arg(long, value_name = "LABEL")]
    pub fs: Vec<String>,
    /// A kernel for its runs in the lab, as `fsdyno run` takes it; may be repeated: then each is judged by itself, and
    /// they stand side by side
    #[arg(long = "kernel", value_name = "WHICH", value_parser = NonEmptyStringValueParser::new())]
    pub kernels: Vec<String>,
    /// Divide the work, the cacheable memory, the file systems and their journals by N: another regime, and tables
    /// say so [default: what the file says, else 1]
    #[arg(long, value_name = "1/N")]
    pub scale: Option<Scale>,
    /// How many trials of each kind, each under a seed of its own [default: what the file says, else 1]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(REPEATS))]
    pub repeat: Option<u32>,
    /// Leave a verdict of one seed as it is; otherwise the rows of a claim whose number lies within 20 % of its
    /// bound get two seeds more, unless --repeat or the file says how many there are
    #[arg(long)]
    pub no_more_seeds: bool,
    /// The first seed; repeats take the next ones [default: what the file says, else 1]
    #[arg(long, value_name = "N", value_parser = whole::<u64>(SEEDS))]
    pub seed: Option<u64>,
    /// Trials of a run that run side by side
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u16>(JOBS))]
    pub jobs: u16,
    /// Run the N trials of a kept study again that took least time, and say of each whether it is bit-identical, has the
    /// same requests with times within 1 %, or differs, and which part of the lab identity is another; code 1 if
    /// one differs. Nothing is stored; --only, --as and --fs choose among them
    #[arg(long, value_name = "N", value_parser = whole::<u32>(REPEATS), conflicts_with_all = [
        "scale", "repeat", "seed", "jobs", "dry_run", "out",
    ])]
    pub check: Option<u32>,
    /// Say what would be run, with exact op counts, and touch nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Folder for the results: a new one, or that of the same study, which goes on
    /// [default: fsdyno-results/<time>-study-<name>]
    #[arg(long, value_name = "DIR", value_parser = folder())]
    pub out: Option<PathBuf>,
    /// How the end is written to standard output
    #[arg(long, default_value = "text", value_parser = named(END))]
    pub format: Format,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_study_has_every_format_that_there_is() {
        let names = |all: &[(&'static str, &str, Format)]| {
            let mut names: Vec<&str> = all.iter().map(|(name, ..)| *name).collect();
            names.sort_unstable();
            names
        };
        assert_eq!(names(END), names(Format::ALL));
        for (name, _, format) in END {
            assert!(Format::ALL.iter().any(|(other, _, same)| other == name && same == format));
        }
    }
}
