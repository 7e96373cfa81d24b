//! One command of the advice, and the parts that commands are made of.

use fsdyno_record::shell::quote;

/// The text for the time of trials of a kind that has never run here.
pub const NO_TIME: &str = "not known before the first such trial on this machine";

/// One command.
#[derive(Debug, PartialEq, Eq)]
pub struct Step {
    /// Its purpose.
    pub about: String,
    /// The time, as text.
    pub time: String,
    /// The arguments of `fsdyno`.
    pub args: Vec<String>,
}

impl Step {
    /// Creates a command with its purpose and its time.
    pub fn new(about: &str, time: String, args: Vec<String>) -> Step {
        Step { about: about.into(), time, args }
    }

    /// Returns the command for a shell.
    pub fn line(&self) -> String {
        let args = self.args.iter().map(|word| quote(word));
        std::iter::once("fsdyno".to_string()).chain(args).collect::<Vec<_>>().join(" ")
    }
}

/// Returns the options of axes, with their values.
pub fn option_args(axes: &[(&str, &str)]) -> impl Iterator<Item = String> {
    axes.iter().flat_map(|(axis, value)| [format!("--{axis}"), value.to_string()])
}

/// Returns the arguments of a command.
pub fn args(first: &str, rest: &[&str]) -> Vec<String> {
    std::iter::once(&first).chain(rest).map(|word| word.to_string()).collect()
}
