//! The `fsdyno` command: parses the arguments, runs the command, and reports errors.

mod cli;
mod commands;
mod exit;
mod output;
mod progress;
mod session;
mod version;

use std::process::ExitCode;

fn main() -> ExitCode {
    let (cli, note) = match cli::parse_args() {
        Ok(parsed) => parsed,
        // `git bisect run` must not mistake invalid arguments for a bad commit.
        Err(error) if error.use_stderr() && std::env::args_os().any(|arg| arg == "--bisect") => {
            let _ = error.print();
            return exit::Exit::Undecided.into();
        }
        Err(mut error) => {
            cli::suggest_nearest_command(&mut error);
            match cli::option_missing_from_crash(&error) {
                Some(message) => output::say(&format!("fsdyno: {message}")),
                None => drop(error.print()),
            }
            if error.use_stderr() {
                fsdyno_campaign::ranks::report_refusal(version::description(), &error.to_string());
            }
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    output::set_verbosity(cli.verbosity());
    note.iter().for_each(|note| output::say(note));
    match commands::run(cli.command) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            output::write_stderr(&format!("fsdyno: {failure}"));
            failure.exit.into()
        }
    }
}
