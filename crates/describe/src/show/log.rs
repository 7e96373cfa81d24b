//! `fsdyno show log FILE`: prints every request that a trial sent to its disks.

use fsdyno_campaign::Failure;
use fsdyno_campaign::notes::say;
use fsdyno_disk::Action;
use fsdyno_disk::log::{Entry, file};
use fsdyno_record::bounded::{self, LOGS};
use fsdyno_record::mailbox::Stage;
use serde_json::json;
use std::path::Path;

const HEAD: &str =
    "     arrived s  disk  stage           op     flags         sector  sectors  response ms";

/// Prints the lines of a log, as a table or as JSON.
///
/// # Errors
/// A file that is unreadable or not a log; the error of `print`.
pub fn log(
    path: &str,
    json: bool,
    print: impl FnOnce(&mut dyn Iterator<Item = Result<String, Failure>>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let failure = |error: String| Failure::invalid_use(format!("failed to read '{path}': {error}"));
    let bytes =
        bounded::read(Path::new(path), &LOGS).map_err(|error| failure(error.to_string()))?;
    let log = file::open(&bytes).map_err(|error| failure(error.to_string()))?;
    if log.lost() > 0 {
        say(&format!(
            "fsdyno: {} requests did not fit in the guest's memory and are missing here",
            log.lost()
        ));
    }
    let line = if json { json_line } else { text };
    let head = (!json).then(|| Ok(HEAD.to_string()));
    let rows = log
        .map(|entry| entry.map(|entry| line(&entry)).map_err(|error| failure(error.to_string())));
    print(&mut head.into_iter().chain(rows))
}

fn op(action: Action) -> &'static str {
    match action {
        Action::Read => "read",
        Action::Write => "write",
        Action::Flush => "flush",
        Action::Trim => "trim",
    }
}

fn text(entry: &Entry) -> String {
    let flags: Vec<&str> =
        [(entry.fua, "fua"), (entry.untimed, "untimed"), (entry.failed, "failed")]
            .into_iter()
            .filter_map(|(set, name)| set.then_some(name))
            .collect();
    let stage = match entry.stage {
        Stage::Running | Stage::Gap | Stage::Verifying => {
            format!("{} {}", entry.stage.name(), entry.phase)
        }
        other => other.name().to_string(),
    };
    let (arrived, response) = (entry.arrived.0, entry.response.0);
    format!(
        "{:>4}.{:09}  {:>4}  {stage:<14}  {:<5}  {:<7}  {:>11}  {:>7}  {:>4}.{:06}",
        arrived / 1_000_000_000,
        arrived % 1_000_000_000,
        entry.disk,
        op(entry.action),
        flags.join(","),
        entry.sector,
        entry.sectors,
        response / 1_000_000,
        response % 1_000_000,
    )
}

fn json_line(entry: &Entry) -> String {
    json!({
        "arrived_ns": entry.arrived, "response_ns": entry.response, "disk": entry.disk,
        "stage": entry.stage.name(), "phase": entry.phase, "op": op(entry.action),
        "fua": entry.fua, "untimed": entry.untimed, "failed": entry.failed,
        "sector": entry.sector, "sectors": entry.sectors,
    })
    .to_string()
}
