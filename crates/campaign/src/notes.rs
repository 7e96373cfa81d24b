//! Notes of a campaign to its user, as records of the `log` crate: the program decides whether and where they are
//! shown.

/// The target of all records.
pub const TARGET: &str = "fsdyno";

/// A note.
pub fn say(text: &str) {
    log::info!(target: TARGET, "{text}");
}

/// A detail of each trial.
pub fn detail(text: &str) {
    log::debug!(target: TARGET, "{text}");
}

/// An error that does not end the command.
pub fn complain(text: &str) {
    log::error!(target: TARGET, "{text}");
}
