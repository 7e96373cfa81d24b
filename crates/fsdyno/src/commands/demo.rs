//! `fsdyno demo`: runs `fsdyno run` with sizes for a first look.

use clap::Parser;
use fsdyno_describe::doctor;

use crate::cli::{Cli, Command, Demo};
use crate::exit::{Exit, Failure};

/// Runs the demo.
pub fn run(demo: &Demo) -> Result<Exit, Failure> {
    let Demo { quick, jobs, out } = demo.clone();
    let args = fsdyno_advise::Demo { quick, jobs, out }.args(&doctor::missing())?;
    let parsed = Cli::try_parse_from(std::iter::once("fsdyno".to_string()).chain(args))
        .map_err(|error| Failure::invalid_use(error.to_string()))?;
    match parsed.command {
        Command::Run(request) => super::run::run(&request),
        _ => Err(Failure::invalid_use("internal error: the command of the demo is not fsdyno run")),
    }
}
