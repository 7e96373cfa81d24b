//! The arguments of `fsdyno compare`.

use std::path::PathBuf;

use clap::Args;
use fsdyno_axes::Percent;
use fsdyno_report::compare::{FailOn, Metric};
use fsdyno_report::{Format, SpecialFormat};

use super::values::axis_parser;
use super::{NamedFormat, REPEATS, format, name_parser, whole_number};

/// `fsdyno compare`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  fsdyno compare fsdyno-results/old fsdyno-results/new
  fsdyno compare base new --threshold 1% --format mail
  fsdyno compare base new --format junit > fsdyno.xml
  fsdyno compare base new --fail-on undecided  # a pass needs a verdict
  fsdyno compare base new --bisect   # for git bisect run: examples/ci/README.md
  fsdyno compare result --by kernel  # each step from one kernel to the next
  fsdyno compare base new --phase delete  # the exit code is that of this phase
  fsdyno compare result --by kernel --metric cpu --explain  # and why

Cells are matched by their conditions: workload and parameters, file system, disk or medium, threads, RAM,
age and all other options; then by the label of --fs, so that 'x=ext4' of one result matches
'x=ext4 -I 128' of the other. Kernel, tools, lab and disk model may differ; differences are listed.
Trials of the lab are paired by seed.

With --by, trials of one result (or of two) that differ only in that axis are compared: those of each value with those
of the next, in the order of the values (kernels: by version). The result may be the folder of a study.

The exit code is 1 if a phase is slower, and 4 if a trial of NEW failed. A phase is slower if it takes significantly
longer and its interval is not wholly within the threshold. With --fail-on undecided the exit code is also 1 if a
phase is undecided, if its difference is within the processor model's error, or if NEW lacks a cell or phase of BASE:
it is 0 only if each phase of BASE is faster or the same. With --bisect the exit code is 0 if no phase is slower by
more than the threshold, 1 if one is, and 125 if that is undecided for any reason: `git bisect run` then skips the
commit.")]
pub struct Compare {
    /// The baseline: a result folder, its name, or its trials.ndjson
    pub base: PathBuf,
    /// The result to compare with the baseline; with --by, a second result whose trials belong to the same comparison
    pub new: Option<PathBuf>,
    /// Compare the values of this axis: each with the next one
    #[arg(long, value_name = "AXIS", value_parser = axis_parser())]
    pub by: Option<String>,
    /// With --by: explain the N largest steps [default: 10]. For each, run one trial of each of the two values again
    /// under observation, as `fsdyno why` does, and name the kernel function that accounts for most of the difference
    #[arg(long, value_name = "N", requires = "by", num_args = 0..=1, require_equals = true,
        default_missing_value = "10", value_parser = whole_number::<u32>(REPEATS))]
    pub explain: Option<u32>,
    /// The smallest difference that matters, in percent: a phase is the same if its whole interval is within this
    /// difference
    #[arg(long, value_name = "PERCENT", default_value = "3%", visible_alias = "least-difference")]
    pub threshold: Percent,
    /// Compare only this phase; may be repeated, or several separated by commas. A phase can also be given by the name
    /// of its system call: unlink is delete of dirops
    #[arg(long = "phase", value_name = "NAME", value_delimiter = ',')]
    pub phases: Vec<String>,
    /// The measure of each phase to compare
    #[arg(long, default_value = "durable", value_parser = name_parser(Metric::ALL))]
    pub metric: Metric,
    /// What makes the exit code 1 and a test case of JUnit fail
    #[arg(long, default_value = "slower", value_parser = name_parser(FailOn::ALL), conflicts_with = "bisect")]
    pub fail_on: FailOn,
    /// Set the exit code for `git bisect run`: 0 good, 1 bad, 125 undecided
    #[arg(long)]
    pub bisect: bool,
    /// Format of the comparison on standard output
    #[arg(long, default_value = "text", value_parser = format(COMPARISON_FORMATS))]
    pub format: Format,
}

/// The formats of a comparison.
const COMPARISON_FORMATS: &[NamedFormat] = &[
    ("csv", "A line for each cell and phase", Format::Csv),
    ("json", "Every number, for programs", Format::Json),
    ("junit", "A test case for each cell and phase, for CI", Format::Special(SpecialFormat::Junit)),
];
