//! What the values of options are parsed into, where no other crate has the type.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use clap::builder::{PathBufValueParser, PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use fsdyno_record::Count;
use fsdyno_record::plan::AgePlan;
use fsdyno_report::{Basis, LEAST};
use fsdyno_study::Size;

/// A part of a whole, given as a percentage: `3%` and `3` are 0.03.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Percent(pub f64);

impl std::str::FromStr for Percent {
    type Err = String;

    fn from_str(text: &str) -> Result<Percent, String> {
        let (number, sign) = match text.strip_suffix('%') {
            Some(number) => (number.trim_end(), true),
            None => (text, false),
        };
        let percent = number.parse().ok().filter(|percent| (0.0..=100.0).contains(percent));
        let percent: f64 =
            percent.ok_or("it is a percentage from 0% to 100%, such as 3% or 0.5%")?;
        if !sign && percent > 0.0 && percent < 1.0 {
            return Err(format!(
                "it may be {percent}% or {}%; write the percent sign",
                (percent * 1e6).round() / 1e4
            ));
        }
        Ok(Percent(percent / 100.0))
    }
}

/// `--width`: a percentage that trials can reach.
pub fn width(text: &str) -> Result<Percent, String> {
    const LEAST: f64 = 1e-6;
    let width: Percent = text.parse()?;
    match width.0 >= LEAST {
        true => Ok(width),
        false => Err(
            "it is a percentage from 0.0001% to 100%, such as 2%; less takes trials without end"
                .into(),
        ),
    }
}

/// A parser of whole numbers within a range: `20000`, `20k`, `1M`, `1_000_000`.
pub fn whole<T: TryFrom<u64>>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let bounds = format!("from {} to {}", Count(*range.start()), Count(*range.end()));
        let Count(number) = text.parse().map_err(|error| format!("{error}; it is {bounds}"))?;
        let number = Some(number).filter(|number| range.contains(number));
        number
            .and_then(|number| T::try_from(number).ok())
            .ok_or_else(|| format!("it is a whole number {bounds}"))
    }
}

/// From which difference on rows are called better or worse.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct Least {
    /// The least difference that matters, in percent: a smaller one is marked = and makes no winner
    /// [default: 1%]
    #[arg(long, value_name = "PERCENT")]
    pub least_difference: Option<Percent>,
}

impl Least {
    /// What rows are measured against.
    pub fn basis(self, baseline: Option<&str>) -> Basis<'_> {
        let least = self.least_difference.map_or(LEAST, |Percent(part)| part);
        Basis { baseline, least }
    }
}

/// A folder that is written to: `-`, which means standard output elsewhere, is none.
pub fn folder() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| match path == Path::new("-") {
        true => {
            Err("it is a folder, and standard output is none; for a folder of this name write ./-")
        }
        false => Ok(path),
    })
}

/// Formats of other data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DataFormat {
    /// For people
    Text,
    /// For programs
    Json,
}

/// Formats of what can be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ShowFormat {
    /// For people
    Text,
    /// For programs
    Json,
    /// Series only: one line for each trial, phase and interval
    Csv,
}

/// What can be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Listable {
    /// What can be run
    #[value(alias = "workload")]
    Workloads,
    /// What it can run on, and whether that is possible here
    #[value(aliases = ["fs", "filesystem"])]
    Filesystems,
    /// The modelled disks of the lab
    #[value(alias = "disk")]
    Disks,
    /// The kernels that the lab can run without a download
    #[value(alias = "kernel")]
    Kernels,
    /// The years whose settings `run --period` brings back
    #[value(alias = "period")]
    Periods,
    /// The studies that come with fsdyno
    #[value(alias = "study")]
    Studies,
}

/// What can be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Showable {
    /// A workload
    #[value(alias = "workloads")]
    Workload,
    /// A file system
    #[value(aliases = ["fs", "filesystems"])]
    Filesystem,
    /// A disk
    #[value(alias = "disks")]
    Disk,
    /// A period, with where each setting comes from and what no setting brings back
    #[value(alias = "periods")]
    Period,
    /// What a kernel of your own needs for the lab: `show kernel config`
    #[value(alias = "kernels")]
    Kernel,
    /// A study, or the file of one: its runs, what was published, and its claims
    #[value(alias = "studies")]
    Study,
    /// A log of requests, by its file (`run --keep-log` writes them to logs/)
    #[value(alias = "logs")]
    Log,
    /// The phases of a result over time: ops, what was dirty, what was written
    Series,
}

/// A parser of the names in a table of `(name, what it means, value)`: such a table stands beside
/// the type that it is about, in a crate that knows no command line.
pub fn named<T>(table: &'static [(&str, &str, T)]) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    let names = table.iter().map(|(name, about, _)| PossibleValue::new(*name).help(*about));
    PossibleValuesParser::new(names).try_map(move |typed| {
        let found = table.iter().find(|(name, _, _)| *name == typed);
        found.map(|(_, _, value)| *value).ok_or("there is no such name")
    })
}

/// `--size`: a number of bytes, or all there is.
pub fn size(text: &str) -> Result<Size, String> {
    match text {
        "whole" => Ok(Size::Whole),
        other => other.parse().map(Size::Exactly).map_err(|error| format!("{error}, or 'whole'")),
    }
}

/// An age, or none at all.
pub type Age = Option<AgePlan>;

/// `--age`: none, or how.
pub fn age(text: &str) -> Result<Age, String> {
    match text {
        "none" => Ok(None),
        other => other.parse().map(Some).map_err(|error| format!("{error}; or write none")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_may_leave_out_its_sign_where_it_cannot_be_taken_for_a_fraction() {
        let parse = |text: &str| text.parse().ok().map(|Percent(part)| part);
        assert_eq!(["3%", "0.5 %", "0%"].map(parse), [Some(0.03), Some(0.005), Some(0.0)]);
        assert_eq!(["3", "1", "0"].map(parse), [Some(0.03), Some(0.01), Some(0.0)]);
        assert_eq!(["0.03", "-1%", "101%", "101", "nan%", "%", ""].map(parse), [None; 7]);
        let error = "0.03".parse::<Percent>().unwrap_err();
        assert_eq!(error, "it may be 0.03% or 3%; write the percent sign");
        assert_eq!(width("2"), Ok(Percent(0.02)));
        assert!(width("0%").unwrap_err().starts_with("it is a percentage from 0.0001% to 100%"));
    }

    #[test]
    fn a_whole_number_has_one_wording_for_all_options() {
        let parse = whole::<u16>(1..=10_000);
        assert_eq!(parse("2k"), Ok(2000));
        assert_eq!(parse("0").unwrap_err(), "it is a whole number from 1 to 10,000");
        assert_eq!(parse("11k").unwrap_err(), "it is a whole number from 1 to 10,000");
        let error = parse("abc").unwrap_err();
        assert!(
            error.starts_with("'abc' is no number: write digits, such as 20000, 20k"),
            "{error}"
        );
        assert!(error.ends_with("; it is from 1 to 10,000"), "{error}");
    }
}
