//! Notes to the user, as records of the `log` crate: the program decides whether and where they are shown.

/// The target of all records.
pub const TARGET: &str = "fsdyno";

/// Logs a note.
pub fn say(text: &str) {
    log::info!(target: TARGET, "{text}");
}

/// Returns true if notes are shown.
pub fn are_shown() -> bool {
    log::log_enabled!(target: TARGET, log::Level::Info)
}

/// Logs a detail.
pub fn detail(text: &str) {
    log::debug!(target: TARGET, "{text}");
}

/// Logs an error that does not end the command.
pub fn say_error(text: &str) {
    log::error!(target: TARGET, "{text}");
}
