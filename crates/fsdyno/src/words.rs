//! What another command wants run, said in the words of `fsdyno run`: one way for all of them, so that what is
//! refused, and how, is the same wherever it was written.

use clap::Parser as _;
use fsdyno_filesystem::Author;

use crate::cli::{Cli, Command, Run};
use crate::exit::Failure;

/// `fsdyno run` with these words behind it, each as it would be typed, and who wrote them.
///
/// # Errors
/// What the command line would say of them, in one line.
pub fn as_run(words: impl IntoIterator<Item = String>, author: Author) -> Result<Run, Failure> {
    let words = ["fsdyno".to_string(), "run".to_string()].into_iter().chain(words);
    match Cli::try_parse_from(words).map(|cli| cli.command) {
        Ok(Command::Run(run)) => Ok(Run { author, ..*run }),
        Ok(_) => Err(Failure::wrong("the words are those of another command")),
        Err(error) => Err(Failure::wrong(in_one_line(&error.to_string()))),
    }
}

/// What clap says, without its label and how a command is typed.
fn in_one_line(said: &str) -> String {
    let lines = said.lines().map(str::trim);
    let wanted =
        lines.take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
    let text = wanted.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ");
    text.strip_prefix("error: ").unwrap_or(&text).to_string()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use fsdyno_study::file::{OPTIONS, refused};

    use super::*;

    #[test]
    fn what_is_wrong_is_told_in_one_line() {
        let error = |words: &[&str]| {
            as_run(words.iter().map(ToString::to_string), Author::User).unwrap_err().message
        };
        let text = error(&["dirops", "--repeat=many"]);
        assert!(text.starts_with("invalid value 'many' for '--repeat <N>'"), "{text}");
        let text = error(&["dirops", "--verify=ful"]);
        assert!(text.contains("'full'") && !text.contains('\n'), "{text}");
    }

    #[test]
    fn a_study_knows_every_option_of_run_or_why_it_has_none_of_it() {
        let cli = Cli::command();
        let run = cli.get_subcommands().find(|command| command.get_name() == "run").unwrap();
        let options: Vec<&str> = run.get_arguments().filter_map(clap::Arg::get_long).collect();
        for option in options.iter().filter(|option| **option != "help") {
            let known = OPTIONS.contains(option) || ["fs", "set", "sysctl"].contains(option);
            assert!(known != refused(option).is_some(), "--{option}: OPTIONS in study/src/file");
        }
        for option in OPTIONS {
            assert!(options.contains(option), "fsdyno run has no --{option}");
        }
    }
}
