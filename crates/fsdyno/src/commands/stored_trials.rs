//! The stored trials of a result that is shown.

use fsdyno_campaign::results;
use fsdyno_record::Trial;

use crate::exit::Failure;
use crate::output;

/// Reads the latest trials of a result folder, in the order of its command; a torn line is noted.
pub fn trials_of(folder: &str) -> Result<Vec<Trial>, Failure> {
    let loaded = fsdyno_report::load([folder])?;
    let mut trials = fsdyno_campaign::without_superseded(&loaded.trials);
    results::in_order(&mut trials);
    if let Some(torn) = &loaded.torn {
        output::say(&format!("fsdyno: {torn}"));
    }
    Ok(trials)
}
