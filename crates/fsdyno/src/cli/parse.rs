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
    let args: Vec<OsString> = std::env::args_os().collect();
    let extended = defaults::with_defaults(&args, &command(), &matches)?;
    if let Some((args, _)) = &extended {
        matches = command().try_get_matches_from(args)?;
    }
    let cli = Cli::from_arg_matches_mut(&mut matches);
    Ok((cli.map_err(|error| error.format(&mut command()))?, extended.map(|(_, note)| note)))
}

/// Returns the clap command with each paragraph of help joined to one line, which clap wraps to the terminal's width.
pub fn command() -> clap::Command {
    Cli::command().mut_subcommands(with_negative_numbers).mut_subcommands(|sub| {
        match sub.get_after_help().map(ToString::to_string) {
            Some(help) => sub.after_help(join_paragraphs(&help)),
            None => sub,
        }
    })
}

/// Makes numeric options accept negative values, so that the option's own error is shown instead of "unknown option".
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    command.mut_args(|arg| {
        let has_any = |names: &[&str]| {
            arg.get_value_names()
                .unwrap_or_default()
                .iter()
                .any(|name| names.contains(&name.as_str()))
        };
        match (has_any(&["N", "SECONDS"]), has_any(&["PERCENT", "SIZE"])) {
            (true, _) => arg.allow_negative_numbers(true),
            // clap does not recognize these as numbers, because they end in a letter or a percent sign.
            (_, true) => arg.allow_hyphen_values(true),
            _ => arg,
        }
    })
}

/// Joins each paragraph to one line; indented lines, such as examples, are unchanged.
fn join_paragraphs(help: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let is_prose = |line: &str| !line.is_empty() && !line.starts_with(' ');
    for line in help.lines() {
        match lines.last_mut().filter(|last| is_prose(last) && is_prose(line)) {
            Some(last) => *last = format!("{last} {line}"),
            None => lines.push(line.to_string()),
        }
    }
    lines.join("\n")
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
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidSubcommand) else {
        return;
    };
    let command = Cli::command();
    let visible = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    let names: Vec<&str> = visible.map(|sub| sub.get_name()).collect();
    if let Some(name) = fsdyno_record::suggest::nearest(unknown, names) {
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
            let help = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(
                help.contains(&format!("  fsdyno {name}"))
                    || help.contains(&format!("fsdyno {name} ")),
                "{name}: {help}"
            );
        }
        let suggest = |name: &str| {
            use clap::error::{ContextKind, ContextValue};
            let mut error = Cli::try_parse_from(["fsdyno", name]).unwrap_err();
            suggest_nearest_command(&mut error);
            let Some(ContextValue::Strings(names)) = error.get(ContextKind::SuggestedSubcommand)
            else {
                return None;
            };
            assert!(error.to_string().contains(&names[0]), "{error}");
            names.first().cloned()
        };
        for (name, expected) in
            [("rnu", "run"), ("runn", "run"), ("lst", "list"), ("repot", "report")]
        {
            assert_eq!(suggest(name).as_deref(), Some(expected), "{name}");
        }
        assert_eq!(suggest("qwertyuiop"), None);
    }

    #[test]
    fn help_fits_a_terminal_of_eighty_columns() {
        let command = command();
        let visible = command.get_subcommands().filter(|sub| !sub.is_hide_set());
        let helps =
            visible.filter_map(|sub| Some((sub.get_name(), sub.get_after_help()?.to_string())));
        for (name, help) in helps {
            for line in help.lines().filter(|line| line.starts_with("  ")) {
                // A command that is wrapped cannot be copied; two examples of the command `crash` are longer.
                assert!(line.chars().count() <= 80 || name == "crash", "{name}: {line}");
            }
            let is_prose = |line: &str| !line.is_empty() && !line.starts_with("  ");
            let lines: Vec<&str> = help.lines().collect();
            // A paragraph is one line, which clap wraps to the terminal's width.
            let broken = lines.windows(2).find(|pair| is_prose(pair[0]) && is_prose(pair[1]));
            assert_eq!(broken, None, "{name}: a break within a paragraph");
        }
    }

    #[test]
    fn the_definition_of_the_command_line_is_sound() {
        Cli::command().debug_assert();
    }
}
