//! `fsdyno show ranks RESULT`: prints what each rank of a result did.

use fsdyno_campaign::results;
use fsdyno_report::Ranks;

use crate::cli::Show;
use crate::exit::{Exit, Failure};
use crate::output::{self, say};

/// Prints the ranks of a result folder.
pub fn run(show: &Show) -> Result<Exit, Failure> {
    let loaded = fsdyno_report::load([&show.name])?;
    let mut trials = fsdyno_campaign::without_superseded(&loaded.trials);
    results::in_order(&mut trials);
    if let Some(torn) = &loaded.torn {
        say(&format!("fsdyno: {torn}"));
    }
    output::print(&Ranks { trials: &trials }, show.format)?;
    Ok(Exit::Good)
}
