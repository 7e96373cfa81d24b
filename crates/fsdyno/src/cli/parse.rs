//! From the words of the command line to a [`Cli`], and the help that clap shows.

use clap::{CommandFactory as _, FromArgMatches as _};

use super::Cli;

/// Parses the words of this process.
///
/// # Errors
/// What cannot be parsed, and what asks for help or the version.
pub fn typed() -> Result<Cli, clap::Error> {
    let mut matches = command().try_get_matches()?;
    Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command()))
}

/// The command line as it is shown: paragraphs of help are written here in lines, and wrapped as wide as the
/// terminal is.
fn command() -> clap::Command {
    Cli::command().mut_subcommands(with_negative_numbers).mut_subcommands(|sub| {
        match sub.get_after_help().map(ToString::to_string) {
            Some(help) => sub.after_help(paragraphs(&help)),
            None => sub,
        }
    })
}

/// A number below zero is a value, which its option refuses in its own words, and no unknown option.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    command.mut_args(|arg| {
        let takes = |names: &[&str]| {
            arg.get_value_names()
                .unwrap_or_default()
                .iter()
                .any(|name| names.contains(&name.as_str()))
        };
        match (takes(&["N", "SECONDS"]), takes(&["PERCENT", "SIZE"])) {
            (true, _) => arg.allow_negative_numbers(true),
            // Of these clap knows no number, for they end in a letter or a sign.
            (_, true) => arg.allow_hyphen_values(true),
            _ => arg,
        }
    })
}

/// The text with each paragraph in one line; what is set in, as examples are, stays as it is.
fn paragraphs(text: &str) -> String {
    let mut out: Vec<String> = Vec::new();
    let prose = |line: &str| !line.is_empty() && !line.starts_with(' ');
    for line in text.lines() {
        match out.last_mut().filter(|last| prose(last) && prose(line)) {
            Some(last) => *last = format!("{last} {line}"),
            None => out.push(line.to_string()),
        }
    }
    out.join("\n")
}

/// Examples for the first steps, and the exit codes.
pub fn after_help() -> String {
    format!("{EXAMPLES}\n\n{}", crate::exit::HELP)
}

const EXAMPLES: &str = "\
Examples:
  fsdyno run dirops --fs ext4 --fs xfs --repeat 3     # in the lab, without root
  fsdyno run dirops --on /srv/scratch --repeat 5      # on a directory of yours
  fsdyno list filesystems                             # what can run here, and what not
  fsdyno show workload tarball                        # what it does, and its parameters
  fsdyno doctor                                       # what works here, and what is missing";

/// The command that a misspelt one is nearest to, where clap itself has no suggestion.
pub fn meant(error: &clap::Error) -> Option<String> {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    if error.kind() != ErrorKind::InvalidSubcommand || error.to_string().contains("tip:") {
        return None;
    }
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let command = Cli::command();
    let shown = command.get_subcommands().filter(|it| !it.is_hide_set());
    let names: Vec<&str> = shown.map(|it| it.get_name()).collect();
    fsdyno_record::suggest::nearest(typed, names).map(String::from)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn every_command_has_an_example_and_a_misspelt_one_its_right_name() {
        let command = Cli::command();
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            let name = sub.get_name();
            let after = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(
                after.contains(&format!("  fsdyno {name}"))
                    || after.contains(&format!("fsdyno {name} ")),
                "{name}: {after}"
            );
        }
        let suggested = |typed: &str| {
            let error = Cli::try_parse_from(["fsdyno", typed]).unwrap_err();
            let text = error.to_string();
            let tip = text.contains("tip:").then(|| text.split('\'').nth(3).map(String::from));
            meant(&error).or(tip.flatten())
        };
        for (typed, right) in
            [("rnu", "run"), ("runn", "run"), ("lst", "list"), ("repot", "report")]
        {
            assert_eq!(suggested(typed).as_deref(), Some(right), "{typed}");
        }
        assert_eq!(suggested("qwertyuiop"), None);
    }

    #[test]
    fn help_is_whole_on_a_terminal_of_eighty_columns() {
        let command = command();
        let helps = command.get_subcommands().filter(|sub| !sub.is_hide_set());
        let all = helps.filter_map(|sub| Some((sub.get_name(), sub.get_after_help()?.to_string())));
        for (name, help) in all {
            for line in help.lines().filter(|line| line.starts_with("  ")) {
                // A command that is broken in the middle cannot be copied; two of crash are longer.
                assert!(line.chars().count() <= 80 || name == "crash", "{name}: {line}");
            }
            let prose = |line: &str| !line.is_empty() && !line.starts_with("  ");
            let lines: Vec<&str> = help.lines().collect();
            // A paragraph is one line, which is wrapped as wide as the terminal is.
            let broken = lines.windows(2).find(|pair| prose(pair[0]) && prose(pair[1]));
            assert_eq!(broken, None, "{name}: a break within a paragraph");
        }
    }

    #[test]
    fn the_definition_of_the_command_line_is_sound() {
        Cli::command().debug_assert();
    }
}
