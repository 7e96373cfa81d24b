//! One command of the advice, and functions that build the arguments of commands.

use fsdyno_record::shell::quote;

/// The text for the time of trials of a kind that has never run here.
pub const NO_TIME: &str = "not known before the first such trial on this machine";

/// One command to run, with its purpose and its time.
#[derive(Debug, PartialEq, Eq)]
pub struct Step {
    /// The purpose of the command.
    pub about: String,
    /// The time that the command takes, as text.
    pub time: String,
    /// The arguments of `fsdyno`.
    pub args: Vec<String>,
}

impl Step {
    /// Creates the step from its purpose, its time and its arguments.
    pub fn new(about: &str, time: String, args: Vec<String>) -> Step {
        Step { about: about.into(), time, args }
    }

    /// Returns the command line for a shell.
    pub fn line(&self) -> String {
        let args = self.args.iter().map(|word| quote(word));
        std::iter::once("fsdyno".to_string()).chain(args).collect::<Vec<_>>().join(" ")
    }
}

/// Returns the command-line options that set these axes, with their values.
pub fn option_args(axes: &[(&str, &str)]) -> impl Iterator<Item = String> {
    axes.iter().flat_map(|(axis, value)| [format!("--{axis}"), value.to_string()])
}

/// Returns the arguments of `fsdyno`: a subcommand and the rest.
pub fn args(first: &str, rest: &[&str]) -> Vec<String> {
    std::iter::once(&first).chain(rest).map(|word| word.to_string()).collect()
}
