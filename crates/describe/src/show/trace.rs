//! `fsdyno show trace FILE`: summarizes a trace.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use fsdyno_campaign::Failure;
use fsdyno_report::TraceSummary;
use fsdyno_trace::Reader;

/// Reads and summarizes a trace.
///
/// # Errors
/// A file that is unreadable or not a trace.
pub fn trace(path: &str) -> Result<TraceSummary, Failure> {
    let file = File::open(path).map_err(|error| Failure::io("read", Path::new(path), &error))?;
    let summary = Reader::new(BufReader::new(file)).and_then(TraceSummary::read);
    summary.map_err(|error| {
        Failure::invalid_use(format!("failed to read the trace '{path}': {error}"))
    })
}
