//! `fsdyno show ranks RESULT`: prints what each rank of a result did.

use fsdyno_report::Ranks;

use crate::cli::Show;
use crate::commands::stored_trials::trials_of;
use crate::exit::{Exit, Failure};
use crate::output;

/// Prints the ranks of a result folder.
pub fn run(show: &Show) -> Result<Exit, Failure> {
    let trials = trials_of(&show.name)?;
    output::print(&Ranks { trials: &trials }, show.format)?;
    Ok(Exit::Good)
}
