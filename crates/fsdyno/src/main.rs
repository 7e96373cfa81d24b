//! The `fsdyno` command: what was typed, what is meant, what is run.

mod cli;
mod commands;
mod drive;
mod exit;
mod output;
mod place;
mod progress;
mod stop;
mod venues;
mod version;
mod words;

use std::process::ExitCode;

fn main() -> ExitCode {
    // In the guest this is PID 1, which has nobody to print a usage to.
    if commands::agent::is_guest() {
        fsdyno_agent::guest();
    }
    let cli = match cli::typed() {
        Ok(cli) => cli,
        // A bisection must not take a typing mistake for a bad commit.
        Err(error) if error.use_stderr() && std::env::args_os().any(|word| word == "--bisect") => {
            let _ = error.print();
            return exit::Exit::CannotTell.into();
        }
        Err(error) => {
            match cli::absent(&error) {
                Some(why) => output::say(&format!("fsdyno: {why}")),
                None => drop(error.print()),
            }
            if let Some(meant) = cli::meant(&error) {
                output::complain(&format!("fsdyno: did you mean 'fsdyno {meant}'?"));
            }
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    output::set_verbosity(cli.verbosity());
    match commands::run(cli.command) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            output::complain(&format!("fsdyno: {failure}"));
            failure.exit.into()
        }
    }
}
