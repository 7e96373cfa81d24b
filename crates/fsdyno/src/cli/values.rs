//! What the values of options are parsed into, where no other crate has the type.

use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use fsdyno_record::plan::AgePlan;
use fsdyno_study::Size;

/// A part of a whole, typed as a percentage: `3%` is 0.03.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Percent(pub f64);

impl std::str::FromStr for Percent {
    type Err = String;

    fn from_str(typed: &str) -> Result<Percent, String> {
        let number = typed.strip_suffix('%').and_then(|number| number.trim_end().parse().ok());
        let percent = number.filter(|percent: &f64| (0.0..=100.0).contains(percent));
        let percent = percent.ok_or("it is a percentage from 0% to 100%, such as 3% or 0.5%")?;
        Ok(Percent(percent / 100.0))
    }
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
    Workloads,
    /// What it can run on, and whether that is possible here
    Filesystems,
    /// The modelled disks of the lab
    Disks,
    /// The kernels that the lab can run without a download
    Kernels,
    /// The years whose settings `run --period` brings back
    Periods,
    /// The studies that come with fsdyno
    Studies,
}

/// What can be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Showable {
    /// A workload
    Workload,
    /// A file system
    Filesystem,
    /// A disk
    Disk,
    /// A period, with where each setting comes from and what no setting brings back
    Period,
    /// What a kernel of your own needs for the lab: `show kernel config`
    Kernel,
    /// A study, or the file of one: its runs, what was published, and its claims
    Study,
    /// A log of requests, by its file (`run --keep-log` writes them to logs/)
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
    #[test]
    fn a_threshold_needs_its_percent_sign() {
        let parse = |typed: &str| typed.parse().ok().map(|super::Percent(part)| part);
        assert_eq!(["3%", "0.5 %", "0%"].map(parse), [Some(0.03), Some(0.005), Some(0.0)]);
        assert_eq!(["3", "0.03", "-1%", "101%", "nan%", "%", ""].map(parse), [None; 7]);
    }
}
