//! The options of the axes, derived from their table ([`fsdyno_axes::AXES`]).

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use fsdyno_axes::{AXES, Axis, Crash, Request};
use fsdyno_lab::SeriesRange;

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
            if !many && (axis.parts(value)?.len() > 1 || is_series_of_kernels(axis, value)) {
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

/// Returns true if a value names several kernels: `all`, `5.10..7.3`.
fn is_series_of_kernels(axis: &Axis, value: &str) -> bool {
    axis.key == "kernel" && !matches!(SeriesRange::parse(value), Ok(None))
}

/// Returns the help text of an axis for `fsdyno crash`, which has no other targets than the lab, no clients and, except
/// for `--fs`, only one value.
fn help_of_crash(axis: &Axis) -> String {
    const CLAUSES: [&str; 5] = [
        "; with --on model: all three models; with a directory: the file system that it is on",
        "; with --on model: ide-2001",
        "; other targets run on the host's kernel",
        " 'nfs:SPEC' or 'smb:SPEC' is SPEC on a server, used by clients;",
        "; 'all' or a range (5.10..7.3) selects, from the cache and Debian's archive, the newest kernel of each \
         series; may be repeated, or several separated by commas (6.1,6.12)",
    ];
    let help = CLAUSES.iter().fold(axis.help_text(), |help, clause| help.replace(clause, ""));
    if axis.crash == Crash::Many { help } else { help.replace("; may be repeated", "") }
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
                _ => arg.help(help_of_crash(axis)),
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

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn the_help_of_crash_promises_only_one_value_of_an_axis_that_takes_one() {
        for axis in CrashAxes::all().filter(|axis| axis.crash == Crash::One) {
            let help = help_of_crash(axis);
            let several = ["may be repeated", "separated by commas", "'all'", "--on"];
            assert!(several.iter().all(|words| !help.contains(words)), "{}: {help}", axis.key);
        }
        let fs = Axis::of("fs").map(help_of_crash).unwrap();
        assert!(fs.contains("May be repeated") && !fs.contains("nfs:"), "{fs}");
    }

    #[test]
    fn crash_refuses_several_kernels_before_any_work() {
        for several in ["all", "5.10..7.3", "6.1,6.12"] {
            let args = ["fsdyno", "crash", "dirops", "--kernel", several];
            let error = Cli::try_parse_from(args).unwrap_err().to_string();
            assert!(error.contains("this command takes only one value"), "{error}");
        }
        for one in ["6.1", "./a..b/vmlinux"] {
            assert!(Cli::try_parse_from(["fsdyno", "crash", "dirops", "--kernel", one]).is_ok());
        }
    }
}
