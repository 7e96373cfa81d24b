//! Parses the arguments into a [`Cli`], and formats the help that clap shows.

use std::ffi::OsString;

use clap::{CommandFactory as _, FromArgMatches as _};

use super::{Cli, defaults};

/// Parses the arguments of this process, with the defaults of `fsdyno.toml`; also returns a note that names the
/// defaults.
///
/// # Errors
/// Invalid arguments or defaults, and requests for help or the version.
pub fn parse_args() -> Result<(Cli, Option<String>), clap::Error> {
    let mut matches = command().try_get_matches()?;
    let words: Vec<OsString> = std::env::args_os().collect();
    let added = defaults::added(&words, &command(), &matches)?;
    if let Some((words, _)) = &added {
        matches = command().try_get_matches_from(words)?;
    }
    let cli = Cli::from_arg_matches_mut(&mut matches);
    Ok((cli.map_err(|error| error.format(&mut command()))?, added.map(|(_, note)| note)))
}

/// Returns the clap command with each paragraph of help joined to one line, which clap wraps to the terminal's width.
pub fn command() -> clap::Command {
    Cli::command().mut_subcommands(with_negative_numbers).mut_subcommands(|sub| {
        match sub.get_after_help().map(ToString::to_string) {
            Some(help) => sub.after_help(paragraphs(&help)),
            None => sub,
        }
    })
}

/// Makes numeric options accept negative values, so that the option's own error is shown instead of "unknown option".
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
            // clap does not recognize these as numbers, because they end in a letter or a percent sign.
            (_, true) => arg.allow_hyphen_values(true),
            _ => arg,
        }
    })
}

/// Joins each paragraph to one line; indented lines, such as examples, are unchanged.
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

/// Returns the end of `fsdyno --help`: a few introductory examples and the exit codes.
pub fn after_help() -> String {
    format!("{EXAMPLES}\n\n{}", crate::exit::HELP)
}

const EXAMPLES: &str = "\
Examples:
  fsdyno run dirops --fs ext4 --fs xfs --repeat 3     # in the lab, without root
  fsdyno run dirops --on /srv/scratch --repeat 5      # on a directory of the host
  fsdyno list filesystems                             # which of them can run here
  fsdyno show workload tarball                        # description and parameters
  fsdyno doctor                                       # check what works here

See 'fsdyno COMMAND --help' for the options and examples of a command.";

/// Suggests only the command whose name is nearest to an unknown one, instead of all similar ones.
pub fn suggest_nearest_command(error: &mut clap::Error) {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    if error.kind() != ErrorKind::InvalidSubcommand {
        return;
    }
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidSubcommand) else {
        return;
    };
    let command = Cli::command();
    let shown = command.get_subcommands().filter(|it| !it.is_hide_set());
    let names: Vec<&str> = shown.map(|it| it.get_name()).collect();
    if let Some(name) = fsdyno_record::suggest::nearest(given, names) {
        let names = ContextValue::Strings(vec![name.to_owned()]);
        error.insert(ContextKind::SuggestedSubcommand, names);
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn every_command_has_an_example_and_a_misspelt_one_gets_a_suggestion() {
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
        let suggested = |given: &str| {
            use clap::error::{ContextKind, ContextValue};
            let mut error = Cli::try_parse_from(["fsdyno", given]).unwrap_err();
            suggest_nearest_command(&mut error);
            let Some(ContextValue::Strings(names)) = error.get(ContextKind::SuggestedSubcommand)
            else {
                return None;
            };
            assert!(error.to_string().contains(&names[0]), "{error}");
            names.first().cloned()
        };
        for (given, right) in
            [("rnu", "run"), ("runn", "run"), ("lst", "list"), ("repot", "report")]
        {
            assert_eq!(suggested(given).as_deref(), Some(right), "{given}");
        }
        assert_eq!(suggested("qwertyuiop"), None);
    }

    #[test]
    fn help_fits_a_terminal_of_eighty_columns() {
        let command = command();
        let helps = command.get_subcommands().filter(|sub| !sub.is_hide_set());
        let all = helps.filter_map(|sub| Some((sub.get_name(), sub.get_after_help()?.to_string())));
        for (name, help) in all {
            for line in help.lines().filter(|line| line.starts_with("  ")) {
                // A command that is wrapped cannot be copied; two examples of the command `crash` are longer.
                assert!(line.chars().count() <= 80 || name == "crash", "{name}: {line}");
            }
            let prose = |line: &str| !line.is_empty() && !line.starts_with("  ");
            let lines: Vec<&str> = help.lines().collect();
            // A paragraph is one line, which clap wraps to the terminal's width.
            let broken = lines.windows(2).find(|pair| prose(pair[0]) && prose(pair[1]));
            assert_eq!(broken, None, "{name}: a break within a paragraph");
        }
    }

    #[test]
    fn the_definition_of_the_command_line_is_sound() {
        Cli::command().debug_assert();
    }
}
