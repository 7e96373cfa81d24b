//! Defaults of options from `fsdyno.toml`, in the current directory and in the user's configuration folder.
//!
//! A file may come with a checkout, from another user, so it can set only options that neither run a command nor decide
//! where fsdyno writes.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command};
use fsdyno_record::bounded::{self, WRITTEN};
use fsdyno_record::suggest;
use toml::Value;
use toml::de::{DeTable, DeValue};

/// An option that the file may set.
struct Key {
    /// Its long name.
    name: &'static str,
    /// Options and environment variables that override the default if given.
    overridden_by: &'static [&'static str],
    /// True if the value must be a name, not a path.
    names_only: bool,
}

const fn key(name: &'static str, overridden_by: &'static [&'static str]) -> Key {
    Key { name, overridden_by, names_only: false }
}

/// The environment variable that names the machine for commands that name none.
const MACHINE_VARIABLE: &str = "FSDYNO_MACHINE";

/// The options that a file may set. A machine on the command line has its own disk, CPU and RAM, which override those
/// of the file; a directory or a drive has no lab.
const KEYS: &[Key] = &[
    key("machine", &["on", MACHINE_VARIABLE]),
    key("disk", &["on", "machine", MACHINE_VARIABLE, "period"]),
    key("cpu", &["on", "machine", MACHINE_VARIABLE, "accel"]),
    key("ram", &["on", "machine", MACHINE_VARIABLE]),
    key("size", &["on"]),
    key("boot", &["on"]),
    Key { names_only: true, ..key("kernel", &["on"]) },
    key("repeat", &["width"]),
    key("jobs", &[]),
    key("least-difference", &[]),
    key("threshold", &[]),
];

/// The environment variable that names a file to use in place of the default ones; if empty, none is used.
const VARIABLE: &str = "FSDYNO_CONFIG";

/// The name of the file in the current directory, and in `fsdyno/` in the user's configuration folder.
const FILE: &str = "fsdyno.toml";

/// One default.
#[derive(Clone, Debug, PartialEq)]
struct Default {
    name: String,
    value: String,
    /// The file and line.
    location: String,
}

/// Inserts the defaults of the files that apply to a parsed command line. Returns the new arguments, and a note for the
/// user; `None` if no default applies.
///
/// # Errors
/// A file that is unreadable or not TOML, or that has an unknown key or a bad value, with the file and line.
pub fn with_defaults(
    args: &[OsString],
    command: &Command,
    matches: &ArgMatches,
) -> Result<Option<(Vec<OsString>, String)>, clap::Error> {
    let Some((name, sub_matches)) = matches.subcommand() else { return Ok(None) };
    let Some(sub) = command.find_subcommand(name) else { return Ok(None) };
    if !KEYS.iter().any(|key| has_option(sub, key.name)) {
        return Ok(None);
    }
    let mut used: Vec<Default> = Vec::new();
    // The first file that has a key decides.
    for path in files() {
        for default in read(&path, command).map_err(clap_error)? {
            let is_set = used.iter().any(|earlier| earlier.name == default.name);
            if !is_set && has_option(sub, &default.name) && applies(sub_matches, &default.name) {
                used.push(default);
            }
        }
    }
    let Some(position) = args.iter().position(|arg| arg == name).filter(|_| !used.is_empty())
    else {
        return Ok(None);
    };
    let options =
        used.iter().map(|default| OsString::from(format!("--{}={}", default.name, default.value)));
    let mut extended = args.to_vec();
    extended.splice(position + 1..position + 1, options);
    let listed: Vec<String> = used
        .iter()
        .map(|used| format!("--{} {} ({})", used.name, used.value, used.location))
        .collect();
    Ok(Some((extended, format!("fsdyno: defaults: {}", listed.join(", ")))))
}

fn clap_error(message: String) -> clap::Error {
    clap::Error::raw(ErrorKind::ValueValidation, format!("{message}\n"))
}

fn has_option(command: &Command, name: &str) -> bool {
    command.get_arguments().any(|arg| arg.get_long() == Some(name))
}

/// Returns true if nothing on the command line overrides this default.
fn applies(matches: &ArgMatches, name: &str) -> bool {
    let Some(key) = KEYS.iter().find(|key| key.name == name) else { return false };
    let is_given = |name: &str| {
        let id = name.replace('-', "_");
        let ids = [name, id.as_str()];
        let source =
            |id: &&str| matches.try_contains_id(id).ok().and_then(|_| matches.value_source(id));
        ids.iter().any(|id| source(id) == Some(ValueSource::CommandLine))
    };
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let overrides = |name: &&str| match *name == MACHINE_VARIABLE {
        true => is_set(name),
        false => is_given(name),
    };
    !is_given(name) && !key.overridden_by.iter().any(overrides)
}

/// Returns the existing files, the most specific first.
fn files() -> Vec<PathBuf> {
    if let Some(path) = std::env::var_os(VARIABLE) {
        return if path.is_empty() { Vec::new() } else { vec![path.into()] };
    }
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let home = || variable("HOME").map(|home| Path::new(&home).join(".config"));
    let user = variable("XDG_CONFIG_HOME").map(PathBuf::from).or_else(home);
    let user = user.map(|folder| folder.join("fsdyno").join(FILE));
    std::iter::once(PathBuf::from(FILE)).chain(user).filter(|path| path.exists()).collect()
}

fn read(path: &Path, command: &Command) -> Result<Vec<Default>, String> {
    let text = bounded::read_to_string(path, &WRITTEN)
        .map_err(|error| format!("failed to read {}: {error}", path.display()))?;
    parse(&path.display().to_string(), &text, command)
}

fn parse(file: &str, text: &str, command: &Command) -> Result<Vec<Default>, String> {
    let locate = |offset: usize| {
        let line = text.get(..offset).unwrap_or(text).matches('\n').count() + 1;
        format!("{file}:{line}")
    };
    let document = DeTable::parse(text).map_err(|error| {
        let location = locate(error.span().map_or(0, |span| span.start));
        format!(
            "{location}: {}; expected lines of TOML such as: disk = \"hdd-7200\"",
            error.message()
        )
    })?;
    let mut defaults = Vec::new();
    for (name, value) in document.get_ref().iter() {
        let location = locate(name.span().start);
        let name = name.get_ref().to_string();
        let key = find_key(&name, command).map_err(|problem| format!("{location}: {problem}"))?;
        let value = match value.get_ref() {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) => number.as_str().to_string(),
            DeValue::Float(number) => number.as_str().to_string(),
            _ => return Err(format!("{location}: {name} must be a string in quotes or a number")),
        };
        if key.names_only && value.contains('/') {
            let problem = format!("--{name} accepts a path, but {FILE} may give only a name");
            return Err(format!("{location}: {name} = {}: {problem}", Value::from(value)));
        }
        check_value(command, &name, &value).map_err(|problem| format!("{location}: {problem}"))?;
        defaults.push(Default { name, value, location });
    }
    Ok(defaults)
}

/// Finds the key with this name.
fn find_key(name: &str, command: &Command) -> Result<&'static Key, String> {
    if let Some(key) = KEYS.iter().find(|key| key.name == name) {
        return Ok(key);
    }
    if command.get_subcommands().any(|sub| has_option(sub, name)) {
        let names: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
        let names = names.join(", ");
        return Err(format!("--{name} cannot be set in a file; options that can be set: {names}"));
    }
    let hint = suggest::hint(name, KEYS.iter().map(|key| key.name));
    Err(format!("unknown option '{name}': {hint}"))
}

/// Checks a value with the parser of the first command that has the option.
fn check_value(command: &Command, name: &str, value: &str) -> Result<(), String> {
    let Some(sub) = command.get_subcommands().find(|sub| has_option(sub, name)) else {
        return Ok(());
    };
    let args = ["fsdyno".to_string(), sub.get_name().to_string(), format!("--{name}={value}")];
    match command.clone().try_get_matches_from(args) {
        Err(error)
            if matches!(error.kind(), ErrorKind::ValueValidation | ErrorKind::InvalidValue) =>
        {
            let message = error.to_string();
            let first = message.lines().next().unwrap_or_default();
            Err(first.trim_start_matches("error: ").to_string())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse_pairs(text: &str) -> Result<Vec<(String, String)>, String> {
        let defaults = parse("fsdyno.toml", text, &crate::cli::Cli::command())?;
        Ok(defaults.into_iter().map(|default| (default.name, default.value)).collect())
    }

    #[test]
    fn a_file_sets_options_to_names_and_numbers() {
        let text =
            "# of this project\ndisk = \"hdd-7200\"\nrepeat = 5\nleast-difference = \"2%\"\n";
        let pairs = [("disk", "hdd-7200"), ("least-difference", "2%"), ("repeat", "5")];
        let mut parsed = parse_pairs(text).unwrap();
        parsed.sort();
        assert_eq!(parsed, pairs.map(|(key, value)| (key.to_string(), value.to_string())));
        assert_eq!(parse_pairs(""), Ok(Vec::new()));
    }

    #[test]
    fn a_mistake_in_a_file_is_reported_with_its_line() {
        let error = |text: &str| parse_pairs(text).unwrap_err();
        assert_eq!(
            error("\ndsik = \"x\""),
            "fsdyno.toml:2: unknown option 'dsik': did you mean 'disk'?"
        );
        assert!(error("on = \"/srv\"").starts_with("fsdyno.toml:1: --on cannot be set in a file"));
        assert!(error("out = \"x\"").contains("options that can be set: machine, disk"));
        assert!(error("repeat = 0").starts_with("fsdyno.toml:1: invalid value '0' for '--repeat"));
        assert!(error("disk = [1]").starts_with("fsdyno.toml:1: disk must be a string in quotes"));
        assert!(error("kernel = \"/boot/vmlinuz\"").contains("fsdyno.toml may give only a name"));
        assert!(error("disk = ").starts_with("fsdyno.toml:1: "));
    }

    #[test]
    fn each_key_is_an_option_of_some_command() {
        let command = crate::cli::Cli::command();
        for key in KEYS {
            assert!(command.get_subcommands().any(|sub| has_option(sub, key.name)), "{}", key.name);
            for name in key.overridden_by.iter().filter(|name| **name != MACHINE_VARIABLE) {
                assert!(command.get_subcommands().any(|sub| has_option(sub, name)), "{name}");
            }
        }
    }
}
