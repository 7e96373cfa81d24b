//! Requests of other commands as arguments of `fsdyno run`, so that the same checks and error messages apply
//! everywhere.

use clap::Parser as _;
use fsdyno_campaign::RunSpec;
use fsdyno_filesystem::Author;

use crate::cli::{Cli, Command};
use crate::exit::Failure;

/// Parses the arguments of `fsdyno run` that an author wrote.
///
/// # Errors
/// The error of the command line, in one line.
pub fn parse_run(
    words: impl IntoIterator<Item = String>,
    author: Author,
) -> Result<RunSpec, Failure> {
    let words = ["fsdyno".to_string(), "run".to_string()].into_iter().chain(words);
    match Cli::try_parse_from(words).map(|cli| cli.command) {
        Ok(Command::Run(run)) => Ok(RunSpec { author, ..run.spec() }),
        Ok(_) => Err(Failure::wrong("the arguments are those of another command")),
        Err(error) => Err(Failure::wrong(in_one_line(&error.to_string()))),
    }
}

/// Joins an error of clap to one line, without its label and usage.
fn in_one_line(error: &str) -> String {
    let lines = error.lines().map(str::trim);
    let wanted =
        lines.take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
    let text = wanted.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ");
    text.strip_prefix("error: ").unwrap_or(&text).to_string()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use fsdyno_study::file::{options as of_studies, refused};

    use super::*;

    #[test]
    fn errors_are_one_line() {
        let error = |words: &[&str]| {
            parse_run(words.iter().map(ToString::to_string), Author::User).unwrap_err().message
        };
        let text = error(&["dirops", "--repeat=many"]);
        assert!(text.starts_with("invalid value 'many' for '--repeat <N>'"), "{text}");
        let text = error(&["dirops", "--verify=ful"]);
        assert!(text.contains("'full'") && !text.contains('\n'), "{text}");
    }

    #[test]
    fn every_option_of_run_is_one_of_studies_or_is_refused_with_a_reason() {
        let cli = Cli::command();
        let run = cli.get_subcommands().find(|command| command.get_name() == "run").unwrap();
        let options: Vec<&str> = run.get_arguments().filter_map(clap::Arg::get_long).collect();
        for option in options.iter().filter(|option| **option != "help") {
            let known = of_studies().any(|known| known == *option)
                || ["fs", "set", "sysctl"].contains(option);
            assert!(known != refused(option).is_some(), "--{option}: OPTIONS in study/src/file");
        }
        for option in of_studies() {
            assert!(options.contains(&option), "fsdyno run has no --{option}");
        }
    }
}
