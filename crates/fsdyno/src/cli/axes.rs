//! The options of the axes, derived from their table ([`fsdyno_axes::AXES`]).

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use fsdyno_axes::{AXES, Axis, Crash, Request};

/// The options of all axes, as `fsdyno run` takes them.
#[derive(Clone, Debug, Default)]
pub struct RunAxes(pub Request);

/// The options of the axes that `fsdyno crash` takes.
#[derive(Clone, Debug)]
pub struct CrashAxes(pub Request);

/// The default size of the file system in `fsdyno crash`.
const CRASH_SIZE: &str = "2G";

impl CrashAxes {
    /// Returns the axes that the command takes.
    pub fn all() -> impl Iterator<Item = &'static Axis> {
        AXES.iter().filter(|axis| !matches!(axis.crash, Crash::Unsupported(_)))
    }
}

fn axis_arg(axis: &'static Axis, many: bool) -> Arg {
    let action = if many { ArgAction::Append } else { ArgAction::Set };
    let arg = Arg::new(axis.key).long(axis.key).value_name(axis.value_name).action(action);
    let arg = arg.help(axis.help_text());
    let names = (axis.names)();
    match names.is_empty() {
        true => arg.value_parser(move |value: &str| {
            if !many && axis.parts(value)?.len() > 1 {
                return Err("this command takes only one value".to_string());
            }
            axis.check(value).map(|()| value.to_string())
        }),
        false => {
            let names = names.iter().map(|(name, about)| PossibleValue::new(*name).help(*about));
            arg.value_parser(PossibleValuesParser::new(names))
        }
    }
}

/// Removes clauses about targets other than the lab from a help text.
fn without_other_targets(help: &str) -> String {
    const CLAUSES: [&str; 3] = [
        "; with --on model: all three models; with a directory: the file system that it is on",
        "; with --on model: ide-2001",
        "; other targets run on the host's kernel",
    ];
    CLAUSES.iter().fold(help.to_string(), |help, clause| help.replace(clause, ""))
}

/// Puts the values of these axes on the command line into a request.
fn put_values(
    request: &mut Request,
    axes: impl Iterator<Item = &'static Axis>,
    matches: &ArgMatches,
) -> Result<(), clap::Error> {
    for axis in axes {
        for value in matches.get_many::<String>(axis.key).into_iter().flatten() {
            axis.put(request, value)
                .map_err(|error| clap::Error::raw(clap::error::ErrorKind::InvalidValue, error))?;
        }
    }
    Ok(())
}

impl Args for RunAxes {
    fn augment_args(command: Command) -> Command {
        AXES.iter().fold(command, |command, axis| command.arg(axis_arg(axis, axis.many)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        RunAxes::augment_args(command)
    }
}

impl FromArgMatches for RunAxes {
    fn from_arg_matches(matches: &ArgMatches) -> Result<RunAxes, clap::Error> {
        let mut axes = RunAxes::default();
        axes.update_from_arg_matches(matches)?;
        Ok(axes)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        put_values(&mut self.0, AXES.iter(), matches)
    }
}

impl Args for CrashAxes {
    fn augment_args(command: Command) -> Command {
        CrashAxes::all().fold(command, |command, axis| {
            let arg = axis_arg(axis, axis.crash == Crash::Many);
            command.arg(match axis.key {
                "size" => arg.help(format!("Size of the file system [default: {CRASH_SIZE}]")),
                _ => arg.help(without_other_targets(&axis.help_text())),
            })
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        CrashAxes::augment_args(command)
    }
}

impl FromArgMatches for CrashAxes {
    fn from_arg_matches(matches: &ArgMatches) -> Result<CrashAxes, clap::Error> {
        let mut axes = CrashAxes(Request::default());
        axes.update_from_arg_matches(matches)?;
        Ok(axes)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        let size = Axis::of("size").filter(|axis| !matches.contains_id(axis.key));
        if let Some(size) = size {
            (size.set)(&mut self.0, CRASH_SIZE)
                .map_err(|error| clap::Error::raw(clap::error::ErrorKind::InvalidValue, error))?;
        }
        put_values(&mut self.0, CrashAxes::all(), matches)
    }
}
