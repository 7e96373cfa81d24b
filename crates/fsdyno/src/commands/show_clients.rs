//! `fsdyno show clients RESULT`: prints the rate of shared file systems by the number of clients.

use fsdyno_report::Clients;

use crate::cli::Show;
use crate::commands::stored_trials::trials_of;
use crate::exit::{Exit, Failure};
use crate::output;

/// Prints the clients of a result folder.
pub fn run(show: &Show) -> Result<Exit, Failure> {
    let trials = trials_of(&show.name)?;
    output::print(&Clients { trials: &trials }, show.format)?;
    Ok(Exit::Good)
}
