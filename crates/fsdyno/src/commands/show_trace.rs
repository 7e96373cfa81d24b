//! `fsdyno show trace FILE`: prints what is in a trace.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use fsdyno_report::TraceSummary;
use fsdyno_trace::Reader;

use crate::cli::Show;
use crate::exit::{Exit, Failure};
use crate::output;

/// Prints the summary of a trace.
pub fn run(show: &Show) -> Result<Exit, Failure> {
    let path = Path::new(&show.name);
    let file = File::open(path).map_err(|error| Failure::io("read", path, &error))?;
    let reader = Reader::new(BufReader::new(file));
    let summary = reader.and_then(TraceSummary::read);
    let summary = summary.map_err(|error| {
        Failure::wrong(format!("failed to read the trace '{}': {error}", show.name))
    })?;
    output::print(&summary, show.format)?;
    Ok(Exit::Good)
}
